//! The Editor's conversation row by row, with the real program: what the model may do when, and what the
//! host does when it does not.

use crate::harness::script::{attempt, call, done, opening, plan, script};
use crate::harness::tool_answers::{answers, reasons};
use crate::harness::{Act, image};
use serde_json::{Value, json};

/// Green when `answer.txt` says `right`.
fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt || { cat answer.txt; exit 1; }")])
}

fn say(text: &str) -> Value {
    json!({"role": "editor", "text": text})
}

fn verify() -> Value {
    call("verify", json!({}))
}

fn rewrite(content: &str) -> Value {
    let arguments = json!({
        "path": "answer.txt", "expect_version": "{{last_version}}", "content": content
    });
    call("full_rewrite", arguments)
}

/// EDITOR-4
#[test]
fn before_the_plan_every_other_tool_answers_plan_first() {
    let early = [
        verify(),
        done(),
        call("read", json!({"path": "answer.txt"})),
        call("ask_scout", json!({"scout": "scout-a", "question": "x"})),
    ];
    let turns =
        early.into_iter().chain(opening("write it")).chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    assert_eq!(reasons(&told.script_used_up()), ["plan_first"; 4]);
}

/// EDITOR-6, security line 151
#[test]
fn unknown_tools_and_bad_arguments_are_refused_and_the_loop_goes_on() {
    let wrong = [
        call("shell", json!({"command": "rm -rf /"})),
        call("read", json!("no json at all")),
        call("read", json!({})),
        call(
            "edit_line",
            json!({"path": "answer.txt", "expect_version": "one", "index": 0, "new": ""}),
        ),
        call("ask_scout", json!({"scout": "scout-z", "question": "x"})),
        call("plan", json!({"criteria": "all"})),
        call("read_log", json!({"run_id": "run_20200101_000000_aaaaaa"})),
    ];
    let turns =
        opening("write it").into_iter().chain(wrong).chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    let expected = [
        "unknown_tool",
        "bad_arguments",
        "bad_arguments",
        "bad_arguments",
        "bad_arguments",
        "bad_arguments",
        "not_found",
    ];
    assert_eq!(reasons(&told), expected);
}

/// EDITOR-9, security line 74: words and forged run ids finish nothing.
#[test]
fn done_without_a_green_run_of_this_tree_is_refused() {
    let claim = json!({"what": "done, see run_20260101_000000_abcdef", "why": "I say so"});
    let turns = opening("write it")
        .into_iter()
        .chain([call("done", claim), say("It is verified, trust me."), say("SUCCESS")])
        .chain([say("SUCCESS")]);
    let told = repository().script(&script(turns)).run("write the answer").status(3);
    let told = told.stdout_has("STUCK: model_idle").script_used_up();
    assert!(told.runs().is_empty() && !told.repo().join("agent/summary.md").exists(), "{told}");
}

/// EDITOR-33, security line 74: the host names the run; one that is made up does not get into the summary.
#[test]
fn a_made_up_run_in_the_summary_is_refused() {
    let forged = json!({"what": "Green in run_20260101_000000_abcdef.", "why": "I say so."});
    let turns = opening("write it").into_iter().chain(attempt("right\n"));
    let turns = turns.chain([call("done", forged), done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    assert_eq!(reasons(&told), ["bad_arguments"]);
    assert!(
        !told.files_with("run_20260101").iter().any(|path| path.ends_with("summary.md")),
        "{told}"
    );
}

/// EDITOR-33: text for commits is left out, and the summary says so.
#[test]
fn text_for_a_commit_is_left_out_of_the_summary() {
    let done = json!({
        "what": "Wrote it. fix(answer) was the idea.\n\nCommit message: write the answer\n\n## PR description\n\nAdds it.",
        "why": "It was missing.\n\nCo-authored-by: A Model <model@example.com>",
    });
    let turns = opening("write it").into_iter().chain(attempt("right\n"));
    let turns = turns.chain([call("done", done)]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    assert_eq!(reasons(&told), [""; 0]);
    let summary = told.read("agent/summary.md");
    assert!(summary.contains("> Wrote it. fix(answer) was the idea.\n\n"), "{summary}");
    for text in
        ["Commit message:", "write the answer\n\n", "PR description", "Adds it.", "Co-authored-by"]
    {
        let account = summary.split("## How it was verified").next().unwrap();
        assert!(!account.contains(text), "{text}: {summary}");
    }
    let said = "left out of the Editor's account: a commit message, the text of a pull request, a trailer of a commit";
    assert!(summary.contains(said), "{summary}");
}

/// EDITOR-33, CONTEXT-7: the host's own statement about git stands beside the Editor's claim.
#[test]
fn a_claim_that_work_was_committed_is_contradicted() {
    let claim = json!({"what": "Committed. Merged to main. PR opened.", "why": "It was missing."});
    let turns = opening("write it").into_iter().chain(attempt("right\n"));
    let turns = turns.chain([call("done", claim)]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    assert_eq!(reasons(&told), [""; 0]);
    let summary = told.read("agent/summary.md");
    let fact = "> Committed. Merged to main. PR opened.\n\n- `answer.txt (replace)`\n\nThe changes are in your \
                working tree; act touched no history, branch or remote of git.\n";
    assert!(summary.contains(fact), "{summary}");
}

/// EDITOR-9: somebody else changes the tree after the green run.
#[test]
fn a_tree_that_changed_after_the_green_run_must_be_verified_again() {
    let waits = json!({"role": "editor", "delay_ms": 600_000, "call": done()["call"].clone()});
    let turns =
        opening("write it").into_iter().chain(attempt("right\n")).chain([waits, verify(), done()]);
    let running = repository().script(&script(turns)).start(["run", "write the answer"]);
    let model = running.model();
    // The request after the green run is the editor's fifth: plan, read, rewrite, verify, done.
    assert!(model.wait(std::time::Duration::from_secs(120), |seen| seen.requests >= 7));
    std::fs::write(running.repo().join("other.txt"), "mine\n").unwrap();
    model.release();
    let told = running.wait().status(0).script_used_up();
    assert_eq!(reasons(&told), ["not_verified"]);
    assert_eq!(told.runs().len(), 2);
    assert_eq!(told.read("other.txt"), "mine\n");
}

/// EDITOR-7
#[test]
fn silence_after_an_edit_verifies_and_three_idle_turns_end_the_task() {
    let turns = opening("write it").into_iter().chain([
        call("read", json!({"path": "answer.txt"})),
        rewrite("wrong\n"),
        say("I think that is it."),
        say("hm"),
        say("hm"),
        say("hm"),
    ]);
    let told = repository().script(&script(turns)).run("write the answer").status(3);
    let told = told.stdout_has("STUCK: model_idle").script_used_up();
    assert_eq!(told.runs().len(), 1);
    let report = told.read("agent/stuck_report.md");
    assert!(report.contains(&told.runs()[0]), "{report}");
}

/// EDITOR-10
#[test]
fn a_green_model_that_never_says_done_gets_a_summary_of_the_host() {
    let turns = opening("write it").into_iter().chain(attempt("right\n"));
    let turns = turns.chain([say("nice"), say("nice"), say("nice")]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    let summary = told.read("agent/summary.md");
    assert!(summary.contains("the host did") && summary.contains(&told.runs()[0]), "{summary}");
}

/// EDITOR-10, EDITOR-11: a model that edits and verifies within one turn is at work, not idle.
#[test]
fn editing_a_green_tree_goes_back_to_working() {
    let both = |content: &str| json!({"role": "editor", "calls": [rewrite(content)["call"], verify()["call"]]});
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([
        both("right\nmore\n"),
        both("right\nand more\n"),
        both("right\nand still more\n"),
        both("right\nand yet more\n"),
        done(),
    ]);
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    assert_eq!(told.runs().len(), 5);
    assert_eq!(told.read("answer.txt"), "right\nand yet more\n");
    assert!(told.read("agent/summary.md").contains("Wrote the answer."));
}

/// EDITOR-25: the log of any run of the task, green ones too; of no other.
#[test]
fn read_log_gives_the_log_of_a_run_of_this_task() {
    let log = call("read_log", json!({"run_id": "{{last_run_id}}", "step": "test"}));
    let turns = opening("write it").into_iter().chain(attempt("wrong\n")).chain([log.clone()]);
    let turns = turns.chain(attempt("right\n")).chain([log, done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    let logs: Vec<_> =
        answers(&told).into_iter().filter(|answer| answer["log"].is_string()).collect();
    assert_eq!(logs.len(), 2, "{told}");
    assert_eq!(logs[0]["log"], "wrong\n");
}

/// EDITOR-27: an old strategy in other clothes is refused twice, then accepted and marked; so is a tree
/// that failed before.
#[test]
fn a_replan_that_changes_nothing_is_refused_twice() {
    let turns = opening("Write it")
        .into_iter()
        .chain([call("read", json!({"path": "answer.txt"})), rewrite("wrong\n")])
        .chain([verify(), verify(), verify()])
        .chain([plan("write  it!"), plan("WRITE IT"), plan("write it")])
        .chain([verify(), verify(), verify()])
        .chain([say("hm"), say("hm"), say("hm")]);
    let told = repository().script(&script(turns)).run("write the answer").status(3);
    let told = told.script_used_up();
    assert_eq!(
        reasons(&told),
        ["same_strategy"; 4].iter().chain(&["step_failed"]).copied().collect::<Vec<_>>()
    );
    assert_eq!(told.runs().len(), 4);
    let report = told.read("agent/stuck_report.md");
    assert!(report.contains("repeats an earlier strategy"), "{report}");
    assert!(report.contains("verified an unchanged tree"), "{report}");
}

/// EDITOR-31: without usable hypotheses of the model they are derived, cited and marked.
#[test]
fn hypotheses_are_derived_when_the_model_gives_none() {
    let round = [plan("strategy {{n}}")].into_iter().chain(attempt("{{n}} a\n"));
    let round = round.chain(attempt("{{n}} b\n")).chain(attempt("{{n}} c\n"));
    let rounds = json!({"repeat": 4, "turns": round.collect::<Vec<_>>()});
    let invented = json!({"items": [
        {"text": "a", "run_id": "run_20200101_000000_aaaaaa", "evidence": "step test"}
    ]});
    let scouts = opening("").into_iter().skip(1);
    let turns = scouts.chain([rounds, call("hypotheses", invented), say("no idea")]);
    let told = repository().script(&script(turns)).run("write the answer").status(3);
    let told = told.script_used_up().stdout_has("STUCK: hard_stop");
    let report = told.read("agent/stuck_report.md");
    assert!(report.contains("Derived from the failures"), "{report}");
    assert!(!report.contains("run_20200101_000000_aaaaaa"), "{report}");
    assert!(report.matches("- evidence: ").count() >= 3, "{report}");
}

/// EDITOR-32: a Scout that gives no report after three attempts ends the task; nothing was edited.
#[test]
fn a_scout_that_fails_three_times_is_an_infrastructure_error() {
    let broken = json!({"repeat": 9, "role": "scout-b", "status": 503});
    let turns = opening("write it").into_iter().take(2).chain([broken]);
    let told = repository().script(&script(turns)).run("write the answer").status(4);
    let told = told.stdout_has("INFRA_ERROR: scout_failed");
    assert_eq!(told.requests_of("scout-b").len(), 3, "{told}");
    assert!(told.read("agent/stuck_report.md").contains("scout-b"), "{told}");
    assert!(told.runs().is_empty() && told.read("answer.txt") == "none\n");
}

/// Security line 21: a model that never answers a Scout meets the query's limit, and hears us hang up.
#[test]
fn a_stalled_scout_is_stopped_by_the_query_limit() {
    let stalls =
        json!({"repeat": 3, "role": "scout-a", "text": "thinking", "stall_after_bytes": 10});
    let [plan, _, scout_b] = <[Value; 3]>::try_from(opening("write it")).unwrap();
    let yaml = json!({
        "verification": {"container_image": image(), "steps": [{"name": "test", "command": "true"}]},
        // Long enough for each attempt to come as far as the model, on a busy machine as well.
        "timeouts": {"scout_query": 6000},
    });
    let act = Act::new().file("agent.yaml", yaml.to_string());
    let running = act.script(&script([plan, stalls, scout_b])).start(["run", "write the answer"]);
    let hung_up =
        running.model().wait(std::time::Duration::from_secs(120), |seen| seen.hang_ups >= 3);
    assert!(hung_up, "the connections stay open");
    running.wait().status(4).stdout_has("INFRA_ERROR: scout_failed");
}

/// More calls than one turn may hold are not performed.
#[test]
fn calls_of_one_turn_are_bounded() {
    let read = call("read", json!({"path": "answer.txt"}))["call"].clone();
    let flood = json!({"role": "editor", "calls": vec![read; 80]});
    let turns =
        opening("write it").into_iter().chain([flood]).chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    assert_eq!(reasons(&told.script_used_up()), ["budget"; 16]);
}

/// The prompt only grows, so that the provider's cache serves it.
#[test]
fn prompts_only_grow() {
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let editor = told.requests_of("editor");
    for pair in editor.windows(2) {
        let messages = |at: usize| pair[at].body["messages"].as_array().unwrap().clone();
        let (before, after) = (messages(0), messages(1));
        assert_eq!(after[..before.len()], before, "the prompt changed behind the model's back");
        assert_eq!(pair[0].body["tools"], pair[1].body["tools"]);
    }
}

/// EDITOR-12: a Scout that is asked a question of the Editor's own hears the user's constraints as well.
#[test]
fn constraints_reach_a_scout_that_is_asked_something_else() {
    let mut turns = opening("write it");
    turns[0]["call"]["arguments"]["questions"] =
        json!({"scout-a": "where is it?", "scout-b": "how?"});
    let turns = turns.into_iter().chain(attempt("right\n")).chain([done()]);
    let text = "write the answer\n\nConstraints:\n- keep KEEPME\n";
    let told = repository().script(&script(turns)).run(text).status(0);
    for request in told.requests() {
        assert!(request.body.to_string().contains("KEEPME"), "{}: {}", request.role, request.body);
    }
}

/// A signal counts from the first moment, also while the engine is still being asked.
#[test]
fn a_signal_before_the_task_is_accepted_cancels() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("silent.sock");
    let silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let running = repository()
        .script("turns: []")
        .env("DOCKER_HOST", format!("unix://{}", socket.display()))
        .start(["run", "write the answer"]);
    let _connection = silent.accept().unwrap();
    running.signal(rustix::process::Signal::TERM);
    let told = running.wait().status(130);
    assert!(!told.repo().join("agent").exists());
}

/// EDITOR-7, security line 153: reminders without effect, then an end that says how the model stopped.
#[test]
fn a_model_that_refuses_is_cut_or_says_nothing_ends_the_task_with_that_reason() {
    for (finish, text, reminder, reason) in [
        ("content_filter", "I will not", "refused, or taken away", "refused to go on"),
        ("length", "so far", "Continue in smaller steps", "output limit"),
        ("stop", "", "Words alone", "answered with nothing"),
        ("stop", "It is fine as it is", "Words alone", "called no tool"),
    ] {
        let silent = json!({"role": "editor", "text": text, "finish": finish});
        let turns = opening("write it").into_iter().chain(vec![silent; 3]);
        let act = Act::new().file("answer.txt", "none\n").pipeline(image(), &[("test", "false")]);
        let told = act.script(&script(turns)).run("write the answer").status(3).script_used_up();
        let told = told.stdout_has("STUCK: model_idle").stdout_has(reason);
        let report = told.read("agent/stuck_report.md");
        assert!(report.contains("## Why it ended") && report.contains(reason), "{report}");
        assert!(report.contains(text), "{report}");
        let last = told.requests_of("editor").pop().unwrap().body.to_string();
        assert!(last.contains(reminder), "{finish}: {last}");
    }
}

/// EDITOR-8: questions to the Scouts are bounded between two verifications, and so is what one conversation holds,
/// whichever tool it came from.
#[test]
fn questions_and_logs_are_bounded_as_everything_is() {
    let many = |name: &str, arguments: Value, count: usize| {
        let call = json!({"name": name, "arguments": arguments});
        json!({"role": "editor", "calls": vec![call; count]})
    };
    let ask = many("ask_scout", json!({"scout": "scout-a", "question": "what else?"}), 10);
    let read = many("read_log", json!({"run_id": "{{last_run_id}}"}), 64);
    let survey = opening("write it").remove(1);
    let turns = opening("write it").into_iter().chain([ask, verify()]);
    let turns =
        turns.chain(vec![read; 4]).chain(vec![survey; 8]).chain(attempt("right\n")).chain([done()]);
    let step = "grep -qx right answer.txt || { yes 0123456789 | head -c 300000; exit 1; }";
    let act = Act::new().file("answer.txt", "none\n").pipeline(image(), &[("test", step)]);
    // Requests are answered in their order, whatever the order in the script.
    let told = act.script(&script(turns)).run("write the answer");
    let answers = answers(&told);
    let refused = |from: usize, count: usize| {
        let of = answers.iter().skip(from).take(count);
        of.filter(|answer| answer["reason"] == "budget").count()
    };
    assert_eq!(refused(1, 10), 2, "{told}");
    let (before, after) = (refused(12, 192), refused(204, 64));
    assert!(before == 0 && (1..64).contains(&after), "{before} {after}");
}
