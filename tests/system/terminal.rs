//! What comes from elsewhere is without effect on a terminal, whichever command shows it; and no stream decides how a
//! task ends.

use std::fs;
use std::process::Command;

use regex::Regex;
use serde_json::{Value, json};

use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, Done, image, program};

/// Everything that a terminal would act on, between words that must be seen: CSI, OSC 52, OSC 8, C1, BEL, BS, CR, a
/// line separator, a reversal of direction, and a sequence without an end.
const HOSTILE: &str = "say\u{1b}[5m this\u{1b}]52;c;ZXZpbA==\u{7} and\u{1b}]8;;id:x\u{1b}\\ that\u{9b}2J\u{7}\u{8}\r\u{2028}\u{202e}\u{1b}]0;unfinished";

/// The hostile text in the name of a file; the tools accept no backslash there.
fn named(end: &str) -> String {
    format!("{}{end}", HOSTILE.replace('\\', "\u{7}"))
}

/// A repository in which names and contents are hostile, and so is what its step prints before it judges.
fn repository() -> Act {
    let step = "cat answer.txt *name.txt; ls; printf '\\033[2J\\033]52;c;ZXZpbA==\\007\\b\\r\\302\\2332J'; \
                grep -q right answer.txt || { printf 'FAIL: \\033[5mwrong\\033]0;x\\n'; exit 1; }";
    Act::new()
        .file("answer.txt", "none\n")
        .file(&named("name.txt"), HOSTILE)
        .pipeline(image(), &[("test", step)])
}

/// A task that says nothing harmless, and ends by itself: green, or stuck.
fn hostile_task(content: &str) -> Vec<Value> {
    let path = named("name.txt");
    let mut turns = opening(HOSTILE);
    turns.push(call("read", json!({"path": path})));
    turns.push(call(
        "full_rewrite",
        json!({"path": path, "expect_version": "{{last_version}}", "content": format!("new {HOSTILE}\n")}),
    ));
    turns.push(call("create", json!({"path": named("new.txt"), "content": HOSTILE})));
    turns.push(call("read", json!({"path": named("none.txt")})));
    turns.extend(attempt(&format!("{content}{HOSTILE}\n")));
    turns
}

fn green() -> Vec<Value> {
    let said = call("done", json!({"what": HOSTILE, "why": HOSTILE, "tests": HOSTILE}));
    hostile_task("right").into_iter().chain([said]).collect()
}

fn stuck() -> Vec<Value> {
    let silent = json!({"role": "editor", "text": HOSTILE});
    hostile_task("wrong").into_iter().chain([silent.clone(), silent.clone(), silent]).collect()
}

/// What a terminal gets as the result of a command; stderr goes elsewhere. `$TEXT` is the hostile text.
fn on_a_terminal(act: &Act, arguments: &str, code: i32) -> String {
    let mut terminal = Command::new("script");
    let line = format!("exec {} {arguments} 2>/dev/null", program());
    terminal.args(["-qec", &line, "/dev/null"]);
    let told = act.clone().env("TEXT", HOSTILE).start_command(terminal).wait().status(code);
    let text = told.stdout_text().replace("\r\n", "\n");
    let ours = Regex::new("\u{1b}\\[(0|1|2|31|32|33)m").unwrap();
    let left = ours.replace_all(&text, "");
    let acts = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert_eq!(left.chars().find(|c| acts(*c)), None, "{arguments}: {text:?}");
    left.into_owned()
}

/// Asserts that the text is visible and has no effect, for a pipe, on a terminal and as JSON.
fn shown_inertly(act: &Act, command: &str, seen: &str) {
    let plain = act.clone().act(command.split(' ')).status(0).inert().stdout_has(seen);
    assert!(!plain.stdout_text().contains('\u{1b}'), "{plain}");
    let shown = on_a_terminal(act, &format!("{command} --color always"), 0);
    // A row ends where the terminal does.
    let joined = |text: &str| text.split_whitespace().collect::<String>();
    assert!(joined(&shown).contains(&joined(seen)), "{command}: {shown}");
    let json = act.clone().act(command.split(' ').chain(["--json"])).status(0).inert();
    let _: Value = serde_json::from_str(&json.stdout_text()).unwrap();
}

/// CLI-8, security lines 165 and 166: names, contents, the task, steps and the model's words, in every command that
/// tells of them afterwards.
#[test]
fn a_stuck_task_of_hostile_words_is_inert_in_every_command_that_shows_it() {
    let act = repository().script(&script(stuck()));
    let told = act.clone().act(["run", HOSTILE, "--verbose"]).status(3).inert();
    for seen in ["say this and that", "FAIL: wrong", "new.txt"] {
        assert!(told.stderr_text().contains(seen), "no {seen}: {told}");
    }
    assert!(told.read("agent/stuck_report.md").contains("FAIL: "), "{told}");
    shown_inertly(&act, "report", "say this and that");
    shown_inertly(&act, "history", "say this and that");
    shown_inertly(&act, "status", "say this and that");
    shown_inertly(&act, "logs", "FAIL: wrong");
    shown_inertly(&act, "audit list", "new.txt");
    shown_inertly(&act, "metrics", "STUCK");
    let run_id = &told.runs()[0];
    shown_inertly(&act, &format!("audit explain {run_id}"), run_id);
}

/// CLI-8, CLI-50, security line 165: the result of a task and the patch of a dry run, where a terminal shows them.
#[test]
fn results_of_hostile_tasks_are_inert_on_a_terminal() {
    let mut proposal = green();
    proposal.retain(|turn| turn["call"]["name"] != "verify");
    let dry = repository().without_engine().script(&script(proposal.clone()));
    let patch = on_a_terminal(&dry, "--color always run --dry-run \"$TEXT\"", 0);
    assert!(patch.contains("+new say") && patch.contains("+++ "), "{patch}");
    // And exact where a program reads it.
    let exact = repository().without_engine().script(&script(proposal));
    let exact = exact.act(["run", "--dry-run", HOSTILE]).status(0).stdout_text();
    assert!(exact.contains(&format!("+new {HOSTILE}")), "{exact:?}");
    let act = repository().script(&script(green()));
    let result = on_a_terminal(&act, "--color always run \"$TEXT\"", 0);
    assert!(result.contains("say this and that") && result.contains("SUCCESS"), "{result}");
}

/// CLI-8, CLI-9, security line 166: refusals echo what was typed, names of components first of all.
#[test]
fn names_that_are_typed_are_inert_in_refusals() {
    let act = Act::new().without_engine().file("answer.txt", "none\n").script("turns: []");
    fs::write(act.repo().join("x.wasm"), "no component").unwrap();
    let typed: [&[&str]; 18] = [
        &["components", "show", HOSTILE],
        &["components", "revoke", HOSTILE],
        &["components", "narrow", HOSTILE],
        &["components", "narrow", "scout-a", "--drop", HOSTILE],
        &["components", "why", HOSTILE, HOSTILE],
        &["components", "why", "scout-a", HOSTILE],
        &["components", "inspect", HOSTILE],
        &["components", "test", HOSTILE],
        &["components", "approve", "x.wasm", "--name", HOSTILE],
        &["components", "new", HOSTILE, "--kind", "scout", "--lang", "rust"],
        &["components", "pack", "x.wasm", "--manifest", HOSTILE],
        &["scout", HOSTILE],
        &["audit", "explain", HOSTILE],
        &["audit", "verify", "--head", HOSTILE],
        &["verify-claim", HOSTILE],
        &["cancel", "--id", HOSTILE],
        &["apply", HOSTILE],
        &["logs", HOSTILE],
    ];
    for arguments in typed {
        for json in [&[][..], &["--json"]] {
            let told = act.clone().act([arguments, json].concat()).inert();
            assert!(matches!(told.exit_code(), 1 | 2), "{arguments:?}: {told}");
            assert!(!told.stderr_text().is_empty(), "{arguments:?}: {told}");
        }
    }
    // A filter that finds nothing is no refusal.
    act.act(["audit", "list", "--component", HOSTILE]).status(0).inert();
}

/// CLI-8, security line 166: the requests of a repository and the user's own grants.
#[test]
fn names_of_components_in_files_are_inert() {
    let request = |name: &str, path: &str| {
        json!({
            "verification": {"container_image": "x", "steps": [{"name": "a", "command": "b"}]},
            "components": [{"name": name, "path": path, "sha256": "0".repeat(64), "kind": "scout"}],
        })
    };
    for yaml in [request(HOSTILE, "x.wasm"), request("probe", HOSTILE)] {
        let act = Act::new().without_engine().script("turns: []");
        let act = act.file("agent.yaml", script_text(&yaml));
        for command in [&["run", "x"][..], &["doctor"], &["components"], &["status"]] {
            for json in [&[][..], &["--json"]] {
                let told = act.clone().act([command, json].concat()).inert();
                assert!(matches!(told.exit_code(), 0 | 1), "{command:?}: {told}");
            }
        }
        let told = act.act(["run", "x"]).status(1);
        assert!(told.stderr_text().contains("say"), "it is named: {told}");
    }
    let act = Act::new().without_engine();
    let grants = act.artifacts().with_file_name("config").join("act/grants.toml");
    fs::create_dir_all(grants.parent().unwrap()).unwrap();
    fs::write(&grants, format!("[[component]]\nname = {}\n", json!(HOSTILE))).unwrap();
    for command in [&["components"][..], &["doctor"], &["components", "show", "scout-a"]] {
        act.clone().act(command.iter().copied()).inert();
        act.clone().act([command, &["--json"]].concat()).inert();
    }
}

/// JSON as YAML takes it: without a character above ASCII that is not shown.
fn script_text(json: &Value) -> String {
    let escaped = |c: char| match c {
        ' '..='~' => c.to_string(),
        c => format!("\\u{:04x}", c as u32),
    };
    json.to_string().chars().map(escaped).collect()
}

/// Asserts the result of a task that succeeded, whatever happened to its streams.
#[track_caller]
fn ended_in_order(act: &Act, told: &Done, state: &str) {
    assert!(!told.to_string().contains("panic"), "{told}");
    let history = act.clone().act(["history", "--json"]).status(0).stdout_text();
    let history: Value = serde_json::from_str(&history).unwrap();
    let task = &history["tasks"][0];
    assert_eq!(task["state"], state, "{task:#}\n{told}");
    let run_id = task["run_ids"][0].as_str().unwrap();
    let status = if state == "SUCCESS" { "PASS" } else { "FAIL" };
    assert_eq!(told.manifest(run_id)["status"], status);
    let notes = if state == "SUCCESS" { "summary.md" } else { "stuck_report.md" };
    assert!(told.agent_files().contains(&notes.to_owned()), "{told}");
    let journal = act.artifacts().join("state/journal");
    let files: Vec<_> = fs::read_dir(journal).unwrap().map(|entry| entry.unwrap().path()).collect();
    let last = fs::read_to_string(&files[0]).unwrap().lines().last().unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&last["type"], &last["state"]), (&json!("task_finished"), &json!(state)));
    act.clone().act(["audit", "verify"]).status(0);
    act.clone().act(["audit", "explain", run_id]).status(0);
}

/// CLI-7, EVENT-10, security line 169: a whole task whose streams are closed from the beginning, or by their reader in
/// the middle of it.
#[test]
fn a_task_ends_by_its_own_rules_whatever_becomes_of_its_streams() {
    let silent = json!({"role": "editor", "text": "hm"});
    let good = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let bad = opening("write it").into_iter().chain(attempt("wrong\n"));
    let bad = bad.chain([silent.clone(), silent.clone(), silent]);
    let ends = [(script(good), "SUCCESS", "0"), (script(bad), "STUCK", "3")];
    let redirected = [
        // The reader ends after the first line, when most of the task is still to come.
        "{ \"$0\" run fix --json; echo $? >code; } | head -n 1",
        "{ \"$0\" run fix --verbose 2>&1 >/dev/null; echo $? >code; } | head -n 1",
        "{ \"$0\" run fix --verbose --json 2>&1; echo $? >code; } | head -n 1",
        "\"$0\" run fix --json >&-; echo $? >code",
        "\"$0\" run fix --verbose 2>&-; echo $? >code",
        "\"$0\" run fix --verbose <&- >&- 2>&-; echo $? >code",
        "\"$0\" run fix --json >/dev/full 2>/dev/full; echo $? >code",
    ];
    for (script, state, code) in &ends {
        for line in redirected {
            let step = "grep -qx right answer.txt || { echo FAIL; exit 1; }";
            let act = Act::new().file("answer.txt", "none\n").pipeline(image(), &[("test", step)]);
            let act = act.script(script);
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", line, program()]);
            let told = act.clone().start_command(shell).wait().status(0).script_used_up();
            assert_eq!(told.read("code").trim(), *code, "{line}: {told}");
            ended_in_order(&act, &told, state);
        }
    }
}

/// CLI-7, security line 169: the reader ends while a step runs, and the task continues without one.
#[test]
fn a_reader_that_goes_in_the_middle_of_a_step_ends_nothing() {
    let step = format!("{}; grep -qx right answer.txt", crate::harness::UNTIL_TOLD);
    let act = Act::new().file("answer.txt", "none\n").pipeline(image(), &[("test", &step)]);
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let act = act.script(&script(turns));
    let mut shell = Command::new("/bin/sh");
    // The reader waits for the output of the step and ends before the step continues.
    let line = "{ \"$0\" run fix --verbose 2>&1; echo $? >code; } | \
                { while read -r line; do case $line in *'it has begun'*) exit;; esac; done; }; echo gone";
    shell.args(["-c", line, program()]);
    let running = act.clone().start_command(shell);
    let runs = act.artifacts().join("runs");
    crate::lifecycle::until("the step", || {
        let mut logs = fs::read_dir(&runs).into_iter().flatten().flatten();
        logs.any(|run| {
            fs::read_to_string(run.path().join("logs/combined.log"))
                .is_ok_and(|log| log.contains("it has begun"))
        })
    });
    // The reader needs a moment to read and go; the pipeline's end cannot be waited for.
    std::thread::sleep(std::time::Duration::from_secs(1));
    act.tell_step();
    let told = running.wait().status(0).stdout("gone\n");
    assert_eq!(told.read("code").trim(), "0", "{told}");
    ended_in_order(&act, &told, "SUCCESS");
}
