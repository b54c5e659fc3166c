//! The arguments of the program and their effect.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{Act, program};

#[test]
fn version_is_one_line_and_leaves_nothing_behind() {
    // CLI-1
    let start = format!("act {} (agent-command-tool, commit ", env!("CARGO_PKG_VERSION"));
    let done = Act::new().without_engine().act(["--version"]).status(0).stderr("");
    let text = done.stdout_text();
    let commit = text.strip_prefix(&start).and_then(|rest| rest.strip_suffix(")\n"));
    let commit = commit.unwrap_or_else(|| panic!("{text}"));
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    assert!(commit == "unknown" || commit.len() >= 40 && commit.chars().all(hex), "{text}");
    assert!(done.home().is_empty());
}

/// Copies the second program into a directory of its own, with or without an `act` beside it.
fn beside(act: Option<&str>) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::copy(env!("CARGO_BIN_EXE_agent-command-tool"), place.path().join("agent-command-tool"))
        .unwrap();
    if let Some(script) = act {
        executable(&place.path().join("act"), script);
    }
    place
}

fn executable(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_second_name_starts_the_act_beside_it_and_never_one_of_path() {
    // CLI-61
    let other = tempfile::tempdir().unwrap();
    executable(&other.path().join("act"), "#!/bin/sh\necho the other act\n");
    let path = || format!("{}:/usr/bin:/bin", other.path().display());
    let start = |place: &tempfile::TempDir| {
        let mut command = Command::new(place.path().join("agent-command-tool"));
        command.args(["run", "a b", "--", "-x"]);
        Act::new().env("PATH", path()).start_command(command).wait()
    };
    let place = beside(Some("#!/bin/sh\nprintf '[%s]' \"$@\"; exit 7\n"));
    start(&place).status(7).stdout("[run][a b][--][-x]").stderr("");
    let alone = beside(None);
    let refused = start(&alone).status(1).stdout("");
    refused.stderr_has("cannot run").stderr_has("hint: install `act` and `agent-command-tool`");
}

#[test]
fn the_doctor_names_another_act_that_comes_first_on_path_and_does_not_run_it() {
    // DOCTOR-12
    let ours = Path::new(program()).parent().unwrap().to_str().unwrap();
    let doctor = |path: &str, act: Act| {
        let act = act.without_engine().env("PATH", path);
        act.act(["doctor", "--json"]).status(1).document("doctor")["checks"][0].clone()
    };
    let script = "#!/bin/sh\ntouch \"$HOME/ran\"\n";
    let other = tempfile::tempdir().unwrap();
    executable(&other.path().join("act"), script);
    let elsewhere = other.path().to_str().unwrap();
    let first = doctor(&format!("{elsewhere}:{ours}"), Act::new());
    assert_eq!((&first["name"], &first["level"]), (&"program".into(), &"note".into()));
    assert!(first["message"].as_str().unwrap().contains(elsewhere), "{first}");
    assert!(first["fix"].as_str().unwrap().contains("agent-command-tool"), "{first}");
    // A relative or an empty entry of PATH leads into the repository.
    for entry in [".", "", "tools"] {
        let act = Act::new();
        fs::create_dir_all(act.repo().join("tools")).unwrap();
        for directory in ["", "tools"] {
            executable(&act.repo().join(directory).join("act"), script);
        }
        let home = act.repo().parent().unwrap().join("home");
        let first = doctor(&format!("{entry}:{ours}"), act);
        assert!(first["message"].as_str().unwrap().contains("in the repository"), "{first}");
        assert!(!home.join("ran").exists());
    }
    assert_ne!(doctor(&format!("{ours}:{elsewhere}"), Act::new())["name"], "program");
}

/// One free descriptor is enough to load the program, and too few for an async runtime, a socket or a cache.
fn with_one_descriptor(arguments: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("ulimit -n 4; exec \"$0\" {arguments}"), program()]);
    shell
}

#[test]
fn version_and_help_start_no_runtime_and_open_nothing() {
    // CLI-1
    for arguments in ["--version", "--help", "run --help"] {
        Act::new().start_command(with_one_descriptor(arguments)).wait().status(0).stderr("");
    }
    // The same limit stops a command that needs a runtime.
    let run = Act::new().start_command(with_one_descriptor("run x")).wait().status(1);
    run.stderr_has("failed to start the async runtime");
}

#[test]
fn help_is_a_result_and_names_every_exit_code() {
    // CLI-2
    let help = Act::new().act(["--help"]).status(0).stderr("").inert();
    let text = help.stdout_text();
    for row in [
        "  0    SUCCESS",
        "  1    refused",
        "  2    invalid",
        "  3    STUCK",
        "  4    INFRA",
        "  130  CAN",
    ] {
        assert!(text.contains(row), "{row}\n{help}");
    }
    Act::new()
        .act(["run", "--help"])
        .status(0)
        .stdout_has("--allow-path")
        .stdout_has("Constraints:");
}

#[test]
fn a_command_line_that_makes_no_sense_is_exit_code_2() {
    // CLI-3, CLI-4
    let senseless: [&[&str]; 9] = [
        &[],
        &["fly"],
        &["run"],
        &["run", "a", "b"],
        &["run", "a", "--file", "b"],
        &["run", "a", "--no-such-option"],
        &["run", "a", "--allow-path", "a["],
        &["--color", "sometimes", "demo"],
        &["--version=3"],
    ];
    for arguments in senseless {
        let done = Act::new().act(arguments.iter().copied()).status(2).stdout("");
        assert!(!done.stderr_text().is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_empty_task_is_refused_from_every_source() {
    // CLI-5, TASK-6
    for text in ["", " \n\t ", "Constraints:\n- be quick"] {
        Act::new().run(text).status(1).stdout("").stderr_has("act: task is empty\nhint: ");
        Act::new().stdin(text).act(["run", "-"]).status(1).stdout("").stderr_has("task is empty");
        let file = Act::new().file("task.md", text).act(["run", "--file", "task.md"]);
        file.status(1).stdout("").stderr_has("task is empty");
    }
}

#[test]
fn a_task_that_cannot_be_read_is_refused() {
    // CLI-5, TASK-7
    let missing = Act::new().act(["run", "--file", "none.md"]).status(1);
    missing.stderr_has("failed to read the task from none.md").stderr_has("hint: ");
    Act::new().stdin(b"\xff\xfe".to_vec()).act(["run", "-"]).status(1).stderr_has("not UTF-8");
    let large = vec![b'x'; 300 << 10];
    Act::new().stdin(large).act(["run", "-"]).status(1).stderr_has("more than 262144");
}

#[test]
fn what_was_typed_is_echoed_without_its_control_sequences() {
    // CLI-8, security line 166
    let hostile = "\x1b]0;owned\x07--x\x1b[2J\u{9b}31m\u{8}\u{2028}\u{202e}";
    for arguments in
        [vec![hostile], vec!["run", "a", hostile], vec!["run", "a", "--allow-path", "[\x1b[2J"]]
    {
        Act::new().act(arguments).status(2).inert();
    }
    Act::new()
        .act(["run", "--file", "\x1b[31mnone\r\n"])
        .status(1)
        .inert()
        .stderr_has("none\\r\\n");
    let bytes = OsString::from_vec(b"\x1b[31m\xff\x9b".to_vec());
    Act::new().act([OsString::from("run"), bytes]).status(2).inert();
}

#[test]
fn completions_and_manual_page_are_made_from_the_arguments() {
    // CLI-53
    for (shell, words) in
        [("bash", "complete -F _act"), ("zsh", "#compdef act"), ("fish", "complete -c act")]
    {
        Act::new()
            .act(["completions", shell])
            .status(0)
            .stderr("")
            .stdout_has(words)
            .stdout_has("dry-run");
    }
    Act::new().act(["completions", "csh"]).status(2);
    let page = Act::new().act(["man"]).status(0).stderr("");
    for words in [
        ".TH act 1",
        "ACT APPLY",
        "ACT COMPONENTS APPROVE",
        "\\-\\-dry\\-run",
        "AGENT_LLM_BASE_URL",
        "130",
        ".SH SYNOPSIS\n\\fBact\\fR [OPTIONS] <COMMAND>\n",
        ".SH \"ACT AUDIT EXPLAIN\"\n\\fBact audit explain\\fR [OPTIONS] <RUN_ID>\n",
        ".SH \"ACT RUN\"\n\\fBact run\\fR [OPTIONS] <TEXT|\\-\\-file <FILE>|\\-\\-again <TASK>>\n",
        ".SH \"EXIT STATUS\"\n.PP\n.nf\n  0    SUCCESS",
        ".SH \"ENVIRONMENT\"\n.PP\n.nf\nThe model is selected by",
        ".SH \"EXAMPLES\"\n.PP\n.nf\n  act demo",
    ] {
        assert!(page.stdout_text().contains(words), "no {words} in {page}");
    }
    assert!(!page.stdout_text().contains("TAKE-OVER"), "{page}");
}

#[test]
fn examples_that_install_something_work_in_an_empty_home() {
    // CLI-53
    let directory = std::path::Path::new(program()).parent().unwrap();
    for (command, files) in [
        (
            "completions",
            &[
                ".local/share/bash-completion/completions/act",
                ".config/fish/completions/act.fish",
                ".zfunc/_act",
            ][..],
        ),
        ("man", &[".local/share/man/man1/act.1"]),
    ] {
        let act = Act::new();
        let help = act.clone().act([command, "--help"]).status(0).stdout_text();
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        let lines = examples.lines().filter(|line| line.contains('>') || line.contains("mkdir"));
        let lines: String = lines.map(|line| format!("{line}\n")).collect();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-ec", &format!("PATH={}:$PATH\n{lines}", directory.display())]);
        act.clone().start_command(shell).wait().status(0).stdout("").stderr("");
        for file in files {
            let written = act.artifacts().with_file_name("home").join(file);
            assert!(std::fs::metadata(&written).is_ok_and(|file| file.len() > 1000), "{file}");
        }
    }
}

#[test]
fn a_group_of_commands_alone_is_its_help() {
    // CLI-2, CLI-3
    for arguments in [&[][..], &["edit"], &["audit"]] {
        let told = Act::new().act(arguments.iter().copied()).status(2).stdout("");
        assert!(!told.stderr_text().starts_with("act: "), "{told}");
        told.stderr_has("Usage: act");
    }
}

#[test]
fn a_command_line_without_sense_is_told_on_stderr_alone_with_json_as_well() {
    // CLI-15
    for arguments in ["run --json", "components why NAME a --json", "status --json --no"] {
        let told = Act::new().act(arguments.split(' ')).status(2).stdout("");
        told.stderr_has("act: ");
    }
}

#[test]
fn edit_takes_json_and_answers_as_without() {
    // CLI-15, EDIT-36
    let document = r#"{"doc_id":"d","version":1,"meta":{},"lines":{"0":"x"},"more":[1]}"#;
    for arguments in ["edit show --file d.json --json", "edit --json show --file d.json"] {
        let told = Act::new().file("d.json", document).act(arguments.split(' ')).status(0);
        let shown = told.document("edit-show");
        assert_eq!(shown["more"], serde_json::json!([1]), "{told}");
    }
}

#[test]
fn columns_of_the_manual_page_stay() {
    // CLI-53
    let told = Act::new().act(["man"]).status(0);
    let page = told.stdout_text();
    let (_, rest) = page.split_once(".nf\n").unwrap();
    assert!(rest.split("\n.fi\n").next().unwrap().starts_with("Examples:\n  act "), "{told}");
    assert_eq!(page.matches("\n.el ").count(), 1, "one definition is enough");
    assert_eq!(page.matches("\n.nf\n").count(), page.matches("\n.fi\n").count());
}
