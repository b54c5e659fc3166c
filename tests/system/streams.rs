//! Pipes, closed streams and colour.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, image, program};
use crate::lifecycle::{containers, until};

/// Long before the limit of a step that floods; generous, because machines are shared.
const SOON: Duration = Duration::from_secs(120);

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

/// CLI-55, CLI-56
#[test]
fn the_end_of_a_task_has_whole_words_on_a_narrow_terminal_and_names_its_report_from_here() {
    let silent = || json!({"role": "editor", "text": "hm"});
    let act = Act::new().pipeline(image(), &[("test", "true")]);
    let act = act.script(&script([silent(), silent(), silent()]));
    let above = act.repo().parent().unwrap().to_owned();
    let mut terminal = Command::new("script");
    let line = format!("stty cols 36 rows 40; {} run x --repo repo", program());
    terminal.args(["-qec", &line, "/dev/null"]);
    let act = act.env("NO_COLOR", "1").env("TERM", "dumb").within(above);
    let told = act.start_command(terminal).wait().status(3);
    let text = told.stdout_text().replace('\r', "");
    for line in text.lines() {
        assert!(line.chars().count() <= 36 || !line.trim().contains(' '), "{line:?} {told}");
    }
    assert!(text.contains("\nReport: repo/agent/stuck_report.md\n"), "{told}");
    let (_, tokens) = text.split_once("\nTokens: editor ").unwrap();
    assert!(tokens.contains("\n  "), "{told}");
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

/// A pipe whose other end is open and not read; the place it lies in.
fn unread(act: &Act) -> (File, PathBuf) {
    let path = act.repo().parent().unwrap().join("unread");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    (File::options().read(true).write(true).open(&path).unwrap(), path)
}

/// A step that prints more than any pipe holds and then sleeps, until the answer is there; for `seconds` at most.
fn flooding(seconds: u64) -> Act {
    let step = "grep -qx right answer.txt || { yes 0123456789 | head -c 3000000; sleep 600; }";
    let yaml = json!({
        "verification": {"container_image": image(), "steps": [{"name": "test", "command": step}]},
        "timeouts": {"verification_step": seconds * 1000},
    });
    Act::new().file("answer.txt", "none\n").file("agent.yaml", yaml.to_string())
}

/// CLI-33, EVENT-10: the limit of the step, the attempts after it and the end of the task.
#[test]
fn nobody_reads_stderr_and_the_task_goes_on_to_its_end() {
    let turns = opening("write it").into_iter().chain(attempt("wrong\n")).chain(attempt("right\n"));
    let act = flooding(10).script(&script(turns.chain([done()])));
    let (_held, path) = unread(&act);
    let mut run = shell("exec \"$0\" run fix --verbose 2>\"$1\"");
    run.arg(&path);
    let told = act.start_command(run).wait().status(0).stdout_has("SUCCESS").script_used_up();
    assert_eq!(told.runs().len(), 2, "{told}");
}

/// CLI-33, CLI-51: a proposal that is applied ends as any task does.
#[test]
fn nobody_reads_stderr_and_apply_ends() {
    let step = "yes 0123456789 | head -c 3000000; grep -qx right answer.txt";
    let act = Act::new().file("answer.txt", "none\n").pipeline(image(), &[("test", step)]);
    let turns = opening("write it").into_iter().chain(attempt("right\n").into_iter().take(2));
    let dry = act.clone().script(&script(turns.chain([done()])));
    dry.act(["run", "--dry-run", "write it"]).status(0);
    let act = act.script("turns: []");
    let (_held, path) = unread(&act);
    let mut apply = shell("exec \"$0\" apply --verbose 2>\"$1\"");
    apply.arg(&path);
    act.start_command(apply).wait().status(0).stdout_has("SUCCESS");
}

/// CLI-33, TASK-14, security line 139
#[test]
fn nobody_reads_stderr_and_a_signal_ends_the_task() {
    let turns = opening("write it").into_iter().chain(attempt("wrong\n"));
    let act = flooding(600).script(&script(turns));
    let (_held, path) = unread(&act);
    let mut run = shell("exec \"$0\" run fix --verbose 2>\"$1\"");
    run.arg(&path);
    let running = act.clone().start_command(run);
    let runs = act.artifacts().join("runs");
    until("a run", || runs.read_dir().is_ok_and(|mut runs| runs.next().is_some()));
    std::thread::sleep(Duration::from_secs(3));
    let began = Instant::now();
    running.signal(Signal::TERM);
    running.wait().status(130).stdout_has("CANCELLED");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(containers(&act), Vec::<String>::new());
}

/// CLI-33, EVENT-1, EVENT-3: a reader that starts late gets all queued lines, and the last line is last.
#[test]
fn nobody_reads_stdout_until_the_task_is_cancelled() {
    // The first event alone is larger than a pipe.
    let text = format!("write{}the answer", "\n".repeat(150_000));
    let turns = opening("write it").into_iter().chain(attempt("wrong\n"));
    let act = flooding(600).script(&script(turns)).stdin(text);
    let (held, path) = unread(&act);
    let mut run = shell("exec \"$0\" run - --json >\"$1\"");
    run.arg(&path);
    let running = act.start_command(run);
    running.until_stderr_has("Running verification...");
    running.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(500));
    let reading = std::thread::spawn(move || {
        let mut lines: Vec<Value> = vec![];
        for line in BufReader::new(held).lines() {
            lines.push(serde_json::from_str(&line.unwrap()).unwrap());
            if lines.last().unwrap()["type"] == "task_finished" {
                break;
            }
        }
        lines
    });
    running.wait().status(130);
    let lines = reading.join().unwrap();
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(line["seq"], at + 1, "{line}");
    }
    assert_eq!(lines.last().unwrap()["state"], "CANCELLED");
}

/// CLI-33: without any reader at all it ends as well.
#[test]
fn nobody_ever_reads_stdout_and_a_signal_ends_the_task() {
    let text = format!("write{}the answer", "\n".repeat(150_000));
    let turns = opening("write it").into_iter().chain(attempt("wrong\n"));
    let act = flooding(600).script(&script(turns)).stdin(text);
    let (_held, path) = unread(&act);
    let mut run = shell("exec \"$0\" run - --json >\"$1\"");
    run.arg(&path);
    let running = act.start_command(run);
    running.until_stderr_has("Running verification...");
    let began = Instant::now();
    running.signal(Signal::TERM);
    running.wait().status(130);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}
