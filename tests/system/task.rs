//! Whole tasks: the real program, the scripted model, real components and containers.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::components::{approve, packed, tool};
use crate::harness::script::{attempt, call, done, hypotheses, opening, plan, script};
use crate::harness::{Act, Done, containers_of, image};

/// A repository whose pipeline is green when `answer.txt` says `right`.
fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt || { cat answer.txt; exit 1; }")])
}

fn statuses(done: &Done) -> Vec<String> {
    let status = |run_id: &String| done.manifest(run_id)["status"].as_str().unwrap().to_owned();
    done.runs().iter().map(status).collect()
}

fn says(request: &serde_json::Value, text: &str) -> bool {
    request.to_string().contains(text)
}

#[test]
fn a_right_first_idea_is_success_at_once() {
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up().stderr_lines(&[
        "Analyzing codebase...",
        "Implementing changes...",
        "Attempt 1/12...",
        "Running verification...",
    ]);
    assert_eq!(told.read("answer.txt"), "right\n");
    assert_eq!(statuses(&told), ["PASS"]);
    let run_id = &told.runs()[0];
    assert!(told.stdout_text().contains(&format!("SUCCESS: verified by {run_id}\n")), "{told}");
    assert!(told.read("agent/summary.md").contains(run_id), "{told}");
    assert_eq!(
        told.agent_files(),
        ["context_001.md", "context_002.md", "context_latest.md", "summary.md"]
    );
    assert_eq!(told.read(".gitignore"), "/agent/\n");
    assert_eq!(told.read("agent/.gitignore"), "*\n");
    told.stderr_has("added the line `/agent/` to .gitignore");
}

/// EDITOR-61, CLI-2: the ends of tasks that need no change or cannot be done, as users and programs see them.
#[test]
fn a_task_without_a_change_ends_by_its_outcome() {
    let account = |outcome: &str| {
        let why = "answer.txt:1 holds the answer.";
        call("done", json!({"what": "Looked at it.", "why": why, "outcome": outcome}))
    };
    let act = Act::new()
        .file("answer.txt", "right\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let green = opening("look").into_iter().chain([account("nothing_to_do")]);
    let told = act.clone().script(&script(green)).run("write the answer").status(0);
    let run_id = told.runs()[0].clone();
    let told = told.stdout_has("found nothing to do").stdout_has("act changed no file");
    let told = told.stdout_has(&format!("SUCCESS: verified by {run_id}\n"));
    assert_eq!(statuses(&told), ["PASS"]);

    let look = call("read", json!({"path": "answer.txt"}));
    let stuck = opening("look").into_iter().chain([look, account("impossible")]);
    let told = act.clone().script(&script(stuck)).run("write another answer").status(3);
    told.stdout_has("answer.txt:1 holds the answer.\n").stdout_has("STUCK: impossible\n");
    act.clone().act(["report"]).status(0).stdout_has("> answer.txt:1 holds the answer.");
    let history = act.act(["history", "--json"]).status(0).json();
    let end = |at: usize| {
        let task = &history["tasks"][at];
        (task["state"].clone(), task["reason"].clone(), task["exit_code"].clone())
    };
    assert_eq!(end(0), (json!("STUCK"), json!("impossible"), json!(3)));
    assert_eq!(end(1), (json!("SUCCESS"), Value::Null, json!(0)));
}

/// CONFIG-3, security line 81: a gate that gets weaker meanwhile is not this task's gate.
#[test]
fn the_gate_is_the_one_that_the_task_started_with() {
    let turns = opening("write it")
        .into_iter()
        .chain(attempt("wrong\n"))
        .chain(attempt("right\n"))
        .chain([done()]);
    let running = repository().script(&script(turns)).start(["run", "write the answer"]);
    running.until_stderr_has("Querying Scout A...");
    let gate = running.repo().join("agent.yaml");
    let strict = std::fs::read(&gate).unwrap();
    let weak = json!({"verification": {
        "container_image": image(), "steps": [{"name": "test", "command": "true"}]
    }});
    std::fs::write(&gate, weak.to_string()).unwrap();
    let told = running.wait().status(0).script_used_up();
    assert_eq!(statuses(&told), ["FAIL", "PASS"]);
    let digest: String = Sha256::digest(&strict).iter().map(|byte| format!("{byte:02x}")).collect();
    for run_id in told.runs() {
        assert_eq!(told.manifest(&run_id)["pipeline_sha256"], digest);
    }
}

#[test]
fn failures_are_fixed_forward_until_green() {
    let turns = opening("write it")
        .into_iter()
        .chain(attempt("one\n"))
        .chain(attempt("two\n"))
        .chain(attempt("right\n"))
        .chain([done()]);
    let told =
        repository().script(&script(turns)).run("write the answer").status(0).script_used_up();
    let told = told.stderr_lines(&[
        "Attempt 1/12...",
        "Verification failed, debugging...",
        "Attempt 2/12...",
        "Verification failed, debugging...",
        "Attempt 3/12...",
    ]);
    assert_eq!(statuses(&told).iter().filter(|status| *status == "FAIL").count(), 2);
    assert_eq!(told.runs().len(), 3);
}

#[test]
fn twelve_failures_replan_at_3_6_and_9_and_end_in_a_report() {
    let round = [plan("strategy {{n}}")]
        .into_iter()
        .chain(attempt("{{n}} a\n"))
        .chain(attempt("{{n}} b\n"))
        .chain(attempt("{{n}} c\n"));
    let rounds = json!({"repeat": 4, "turns": round.collect::<Vec<_>>()});
    let scouts = opening("").into_iter().skip(1);
    let turns = scouts.chain([rounds, hypotheses()]);
    let text = "write the answer\n\nConstraints:\n- never touch test.sh\n";
    let told = repository().script(&script(turns)).run(text).status(3);
    let told =
        told.script_used_up().stderr_lines(&["Replanning...", "Replanning...", "Replanning..."]);

    assert_eq!(told.runs().len(), 12);
    let report = told.read("agent/stuck_report.md");
    for run_id in told.runs() {
        assert!(report.contains(&run_id), "no {run_id} in {report}");
    }
    assert_eq!(
        told.agent_files(),
        [
            "context_001.md",
            "context_002.md",
            "context_003.md",
            "context_004.md",
            "context_latest.md",
            "stuck_report.md"
        ]
    );
    let strategies: BTreeSet<_> = (1..=4).map(|n| format!("strategy {n}")).collect();
    assert!(strategies.iter().all(|strategy| report.contains(strategy)), "{report}");
    // Every conversation of every role contains the constraint, also after a REPLAN.
    for request in told.requests() {
        assert!(says(&request.body, "never touch test.sh"), "{}: {}", request.role, request.body);
    }
}

#[test]
fn signals_cancel_and_leave_changes_but_no_container() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let act = Act::new()
            .file("answer.txt", "none\n")
            .pipeline(image(), &[("test", "printf 'in the %s\\n' step; sleep 600")]);
        let turns = opening("write it").into_iter().chain(attempt("right\n"));
        let running = act.script(&script(turns)).start(["run", "write the answer", "--verbose"]);
        running.until_stderr_has("in the step");
        running.signal(signal);
        let told = running.wait().status(130).stdout_has("CANCELLED");
        assert_eq!(told.read("answer.txt"), "right\n");
        assert_eq!(told.agent_files(), ["context_001.md", "context_latest.md"]);
        let run_id = &told.runs()[0];
        assert_eq!(containers_of(run_id), Vec::<String>::new());
    }
}

#[test]
fn what_the_model_and_the_steps_say_is_inert_on_the_terminal() {
    // security lines 108, 165, 166
    let hostile = "right\u{1b}]0;owned\u{7}\u{9b}31m\u{2028}\n";
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file("\u{1b}[2Jname.txt", "x\n")
        .pipeline(image(), &[("test", "cat answer.txt *name.txt; ls; printf '\\033[2J\\b\\r'")]);
    let turns = opening("\u{1b}[2Jwrite it").into_iter().chain(attempt(hostile)).chain([done()]);
    let told =
        act.script(&script(turns)).start(["run", "write\u{1b}]0;x\u{7}", "--verbose"]).wait();
    told.status(0).inert();
}

#[test]
fn a_second_task_waits_and_says_for_what() {
    let act = repository();
    let first = script(opening("slow").into_iter().chain([json!({
        "role": "editor", "text": "thinking", "stall_after_bytes": 40
    })]));
    let first = act.script(&first).start(["run", "write the answer"]);
    first.until_stderr_has("Querying Scout B...");
    let mut second = std::process::Command::new(crate::harness::program());
    second.args(["run", "another", "--repo"]).arg(first.repo());
    let second = Act::new().script("turns: []").start_command(second);
    second.until_stderr_has("Waiting: ");
    second.signal(Signal::INT);
    second.wait().status(130);
    first.signal(Signal::INT);
    first.wait().status(130);
}

#[test]
fn the_demo_fails_once_and_is_green_then() {
    // CLI-12; what the user approved lies elsewhere and takes no part.
    let act = Act::new();
    approve(&act, &packed(&act, "tool.wasm", &tool()), "mine", &[]).status(0);
    let told = act.env("ANTHROPIC_API_KEY", "not-a-real-key").act(["demo"]).status(0).inert();
    let told = told.stderr_has("Verification failed, debugging...").stdout_has("+++ b/leap.sh");
    let text = told.stdout_text();
    assert!(text.contains("  attempt 1: FAIL") && text.contains("  attempt 2: PASS"), "{told}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("Verified by run_"), "{told}");
}
