//! Pipes, closed streams and colour.

use std::process::Command;

use crate::harness::{Act, program};

/// The program in a shell, which redirects its streams.
fn shell(script: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, program()]);
    shell
}

#[test]
fn a_reader_that_goes_away_ends_nothing_and_nobody_panics() {
    // CLI-7, security line 169
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let help = Command::new(program()).arg("--help").stdout(writer).output().unwrap();
    assert_eq!((help.status.code(), help.stderr), (Some(0), vec![]));
}

#[test]
fn closed_streams_change_no_exit_code() {
    // CLI-7, security line 169
    Act::new().start_command(shell("exec \"$0\" --version >&-")).wait().status(0).stderr("");
    Act::new().start_command(shell("exec \"$0\" run '' 2>&-")).wait().status(1).stdout("");
    Act::new()
        .start_command(shell("exec \"$0\" run - <&-"))
        .wait()
        .status(1)
        .stderr_lacks("internal error");
    Act::new().start_command(shell("exec \"$0\" run - <&- >&- 2>&-")).wait().status(1);
}

#[test]
fn a_full_device_is_no_panic() {
    // CLI-7
    Act::new().start_command(shell("exec \"$0\" --help >/dev/full")).wait().status(0).stderr("");
}

#[test]
fn colour_appears_where_it_is_asked_for() {
    // CLI-6
    let empty = |arguments: &[&str]| {
        let arguments = [arguments, &["run", ""]].concat();
        Act::new().act(arguments).status(1).stderr_text()
    };
    assert!(!empty(&[]).contains('\x1b'), "a pipe is no terminal");
    assert!(!empty(&["--color", "never"]).contains('\x1b'));
    assert!(empty(&["--color", "always"]).starts_with("\x1b[31mact:\x1b[0m task is empty\n"));
    let wins = Act::new().env("NO_COLOR", "1").act(["--color", "always", "run", ""]);
    assert!(wins.stderr_text().contains('\x1b'), "an option wins over the environment");
}
