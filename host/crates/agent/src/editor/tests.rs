//! The Editor's conversation row by row: what the model may do when, and what the host does when it does not. Each story
//! runs the whole loop with fakes.

mod fakes;
mod first_request;

use act_model::{Stop, Turn};
use serde_json::json;

use fakes::{Story, attempt, call, calls, done, done_with, plan, run_id, text, verify, write};

fn say(words: &str) -> Turn {
    text(words, Stop::Done)
}

fn read() -> Turn {
    call("read", json!({"path": "answer.txt"}))
}

/// EDITOR-4
#[test]
fn before_the_plan_every_other_tool_answers_plan_first() {
    let early =
        [verify(), done(), read(), call("ask_scout", json!({"scout": "scout-a", "question": "x"}))];
    let turns = early.into_iter().chain([plan("write it")]).chain(attempt("right\n"));
    let told = Story::new().turns(turns).turns([done()]).run();
    assert_eq!(told.state(), ("SUCCESS", None));
    assert_eq!(told.reasons(), ["plan_first"; 4]);
}

/// EDITOR-6, security line 151: the tools of the host; those of a component are its own to check.
#[test]
fn unknown_tools_and_bad_arguments_are_refused_and_the_loop_goes_on() {
    let wrong = [
        call("shell", json!({"command": "rm -rf /"})),
        call("read", json!("no json at all")),
        call("read", json!({})),
        call("ask_scout", json!({"scout": "scout-z", "question": "x"})),
        call("plan", json!({"criteria": "all"})),
        call("read_log", json!({"run_id": "run_20200101_000000_aaaaaa"})),
    ];
    let turns = [plan("write it")].into_iter().chain(wrong).chain(attempt("right\n"));
    let told = Story::new().turns(turns).turns([done()]).run();
    assert_eq!(told.state(), ("SUCCESS", None));
    let bad = ["bad_arguments"; 4];
    assert_eq!(told.reasons(), [&["unknown_tool"], &bad[..], &["not_found"]].concat());
}

/// EDITOR-9, security line 74: words and forged run ids finish nothing.
#[test]
fn done_without_a_green_run_of_this_tree_is_refused() {
    let claim = done_with("done, see run_20260101_000000_abcdef", "I say so");
    let words = ["It is verified, trust me.", "SUCCESS", "SUCCESS"].map(say);
    let told = Story::new().turns([plan("write it"), claim]).turns(words).run();
    assert_eq!(told.state(), ("STUCK", Some("model_idle")));
    assert_eq!(told.reasons(), ["not_verified"]);
    assert!(told.runs == 0 && !told.exists("agent/summary.md"));
}

/// EDITOR-33, security line 74: the host names the run; one that is made up does not get into the summary.
#[test]
fn a_made_up_run_in_the_summary_is_refused() {
    let forged = done_with("Green in run_20260101_000000_abcdef.", "I say so.");
    let turns = [plan("write it")].into_iter().chain(attempt("right\n")).chain([forged, done()]);
    let told = Story::new().turns(turns).run();
    assert_eq!(told.state(), ("SUCCESS", None));
    assert_eq!(told.reasons(), ["bad_arguments"]);
    assert!(!told.read("agent/summary.md").contains("run_20260101"));
}

/// EDITOR-33: what the user would have to delete again is left out, and the summary says so.
#[test]
fn text_for_a_commit_is_left_out_of_the_summary() {
    let done = done_with(
        "Wrote it. fix(answer) was the idea.\n\nCommit message: write the answer\n\n## PR description\n\nAdds it.",
        "It was missing.\n\nCo-authored-by: A Model <model@example.com>",
    );
    let turns = [plan("write it")].into_iter().chain(attempt("right\n")).chain([done]);
    let told = Story::new().turns(turns).run();
    assert_eq!(told.state(), ("SUCCESS", None));
    assert_eq!(told.reasons(), [""; 0]);
    let summary = told.read("agent/summary.md");
    assert!(summary.contains("> Wrote it. fix(answer) was the idea.\n\n"), "{summary}");
    let account = summary.split("## How it was verified").next().unwrap();
    for text in
        ["Commit message:", "write the answer\n\n", "PR description", "Adds it.", "Co-authored-by"]
    {
        assert!(!account.contains(text), "{text}: {summary}");
    }
    let left_out = "left out of the Editor's account: a commit message, the text of a pull request, a trailer of a commit";
    assert!(summary.contains(left_out), "{summary}");
}

/// EDITOR-33: an account that is nothing but such text is the host's to give.
#[test]
fn an_account_of_nothing_but_commit_text_is_replaced_by_the_hosts() {
    let done = done_with("Commit message: write the answer", "It was missing.");
    let turns = [plan("write it")].into_iter().chain(attempt("right\n")).chain([done]);
    let summary = Story::new().turns(turns).run().read("agent/summary.md");
    assert!(summary.contains("> The files below were changed.\n"), "{summary}");
}

/// EDITOR-33, CONTEXT-7: a claim of the Editor is not refused; the summary holds the host's facts beside it.
#[test]
fn a_claim_that_work_was_committed_is_contradicted() {
    let claim = done_with("Committed. Merged to main. PR opened.", "It was missing.");
    let turns = [plan("write it")].into_iter().chain(attempt("right\n")).chain([claim]);
    let told = Story::new().turns(turns).run();
    assert_eq!(told.state(), ("SUCCESS", None));
    assert_eq!(told.reasons(), [""; 0]);
    let summary = told.read("agent/summary.md");
    let fact = "> Committed. Merged to main. PR opened.\n\n- `answer.txt (replace)`\n\nThe changes are in your \
                working tree; act touched no history, branch or remote of git.\n";
    assert!(summary.contains(fact), "{summary}");
}

/// EDITOR-9: somebody else changes the tree after the green run.
#[test]
fn a_tree_that_changed_after_the_green_run_must_be_verified_again() {
    let told = Story::new()
        .turns([plan("write it")])
        .turns(attempt("right\n"))
        .meanwhile(|root| std::fs::write(root.join("other.txt"), "mine\n").unwrap())
        .turns([done(), verify(), done()])
        .run();
    assert_eq!(told.state(), ("SUCCESS", None));
    assert_eq!(told.reasons(), ["not_verified"]);
    assert_eq!(told.runs, 2);
    assert_eq!(told.read("other.txt"), "mine\n");
}

/// EDITOR-7
#[test]
fn silence_after_an_edit_verifies_and_three_idle_turns_end_the_task() {
    let turns = [plan("write it"), calls(&[write("wrong\n")])];
    let words = ["I think that is it.", "hm", "hm", "hm"].map(say);
    let told = Story::new().turns(turns).turns(words).run();
    assert_eq!(told.state(), ("STUCK", Some("model_idle")));
    assert_eq!(told.runs, 1);
    let report = told.read("agent/stuck_report.md");
    assert!(report.contains(&run_id(1)), "{report}");
    let answer = told.messages().into_iter().find(|text| text.contains("FAIL · ")).unwrap();
    let why = "You called no tool, so the host ran `verify`. It answered:\nstep_failed: FAIL · ";
    assert!(answer.starts_with(why), "a bare answer would look like words of the user: {answer}");
}

/// EDITOR-38: silence gets around no refusal of `verify`, and ends.
#[test]
fn a_file_that_git_ignores_is_not_verified_by_silence() {
    let ignored = [
        write("right\n"),
        ("full_rewrite", json!({"path": ".gitignore", "content": "answer.txt\n"})),
    ];
    let words = ["done", "done", "done"].map(say);
    let told = Story::new().turns([plan("write it"), calls(&ignored)]).turns(words).run();
    assert_eq!(told.state(), ("STUCK", Some("model_idle")));
    assert_eq!(told.runs, 0);
    let refused = |text: &&str| text.contains("\nnot_verified: ") && text.contains("answer.txt");
    assert_eq!(told.messages().into_iter().filter(refused).count(), 2);
}

/// EDITOR-13: a difference that was too long to be shown is shown before a verification that silence asks for, too.
#[test]
fn silence_shows_a_long_difference_before_it_verifies() {
    let long: String = (0..300).map(|n| format!("a rather long line, number {n}\n")).collect();
    let turns = [plan("write it"), calls(&[write(&format!("right\n{long}"))])];
    let told = Story::new().turns(turns).turns([say("ready"), say("ready"), done()]).run();
    assert_eq!(told.state(), ("SUCCESS", None));
    assert_eq!(told.runs, 1);
    let shown = told.messages().into_iter().find(|text| text.contains("number 299")).unwrap();
    assert!(shown.contains("\nnot_verified: ") && shown.contains("holds the answer"), "{shown}");
}

/// EDITOR-10
#[test]
fn a_green_model_that_never_says_done_gets_a_summary_of_the_host() {
    let turns = [plan("write it")].into_iter().chain(attempt("right\n"));
    let told = Story::new().turns(turns).turns(["nice", "nice", "nice"].map(say)).run();
    assert_eq!(told.state(), ("SUCCESS", None));
    let summary = told.read("agent/summary.md");
    assert!(summary.contains("the host did") && summary.contains(&run_id(1)), "{summary}");
}

/// EDITOR-10, EDITOR-11: a model that edits and verifies within one turn is at work, not idle.
#[test]
fn editing_a_green_tree_goes_back_to_working() {
    let both = |content: &str| calls(&[write(content), ("verify", json!({}))]);
    let turns = [plan("write it")].into_iter().chain(attempt("right\n")).chain([
        both("right\nmore\n"),
        both("right\nand more\n"),
        both("right\nand still more\n"),
        both("right\nand yet more\n"),
        done(),
    ]);
    let told = Story::new().turns(turns).run();
    assert_eq!((told.state(), told.runs), (("SUCCESS", None), 5));
    assert_eq!(told.read("answer.txt"), "right\nand yet more\n");
    assert!(told.read("agent/summary.md").contains("Wrote the answer."));
}

/// EDITOR-25: the log of any run of the task, green ones too; of no other.
#[test]
fn read_log_gives_the_log_of_a_run_of_this_task() {
    let log = |number| call("read_log", json!({"run_id": run_id(number), "step": "test"}));
    let turns = [plan("write it")].into_iter().chain(attempt("wrong\n")).chain([log(1), log(2)]);
    let turns = turns.chain(attempt("right\n")).chain([log(2), done()]);
    let told = Story::new().turns(turns).run();
    assert_eq!(told.state(), ("SUCCESS", None));
    let logs: Vec<_> =
        told.answers().into_iter().filter(|answer| answer.starts_with("log of ")).collect();
    let expected =
        [(1, "wrong"), (2, "right")].map(|(n, log)| format!("log of {}\n{log}\n", run_id(n)));
    assert_eq!(logs, expected);
    assert_eq!(told.reasons(), ["step_failed", "not_found"]);
}

/// EDITOR-27: an old strategy in other clothes is refused twice, then accepted and marked; so is a tree that failed
/// before.
#[test]
fn a_replan_that_changes_nothing_is_refused_twice() {
    let turns = [plan("Write it"), calls(&[write("wrong\n")])]
        .into_iter()
        .chain([verify(), verify(), verify()])
        .chain([plan("write  it!"), plan("WRITE IT"), plan("write it")])
        .chain([verify(), verify(), verify()])
        .chain([say("hm"), say("hm"), say("hm")]);
    let told = Story::new().turns(turns).run();
    assert_eq!(told.state(), ("STUCK", Some("model_idle")));
    let second = told.conversations[1].iter().filter_map(fakes::Message::reason);
    let expected = [&["same_strategy"; 4][..], &["step_failed"]].concat();
    assert_eq!(second.collect::<Vec<_>>(), expected);
    assert_eq!(told.runs, 4);
    let report = told.read("agent/stuck_report.md");
    assert!(report.contains("repeats an earlier strategy"), "{report}");
    assert!(report.contains("verified an unchanged tree"), "{report}");
}

/// EDITOR-31: without usable hypotheses of the model they are derived, cited and marked.
#[test]
fn hypotheses_are_derived_when_the_model_gives_none() {
    let rounds = (1..=4).flat_map(|n| {
        let tries = ["a", "b", "c"].map(|which| attempt(&format!("{n} {which}\n")));
        [plan(&format!("strategy {n}"))].into_iter().chain(tries.into_iter().flatten())
    });
    let invented = json!({"items": [
        {"text": "a", "run_id": "run_20200101_000000_aaaaaa", "evidence": "step test"}
    ]});
    let told =
        Story::new().turns(rounds).turns([call("hypotheses", invented), say("no idea")]).run();
    assert_eq!(told.state(), ("STUCK", Some("hard_stop")));
    assert_eq!(told.runs, 12);
    let report = told.read("agent/stuck_report.md");
    assert!(report.contains("Derived from the failures"), "{report}");
    assert!(!report.contains("run_20200101_000000_aaaaaa"), "{report}");
    assert!(report.matches("- evidence: ").count() >= 3, "{report}");
}

/// More calls than one turn may hold are not performed.
#[test]
fn calls_of_one_turn_are_bounded() {
    let flood = calls(&vec![("read", json!({"path": "answer.txt"})); 80]);
    let turns = [plan("write it"), flood].into_iter().chain(attempt("right\n")).chain([done()]);
    let told = Story::new().turns(turns).run();
    assert_eq!(told.state(), ("SUCCESS", None));
    assert_eq!(told.reasons(), ["budget"; 16]);
}

/// EDITOR-12: a Scout that is asked a question of the Editor's own gets the user's constraints as well.
#[test]
fn constraints_reach_a_scout_that_is_asked_something_else() {
    let asks = json!({
        "criteria": [], "acceptance": [], "strategy": "write it",
        "questions": {"scout-a": "where is it?", "scout-b": "how?"},
    });
    let turns = [call("plan", asks)].into_iter().chain(attempt("right\n")).chain([done()]);
    let told =
        Story::new().task("write the answer\n\nConstraints:\n- keep KEEPME\n").turns(turns).run();
    assert_eq!(told.state(), ("SUCCESS", None));
    assert!(told.messages()[0].contains("KEEPME"));
    assert_eq!(told.questions.len(), 2);
    for (question, asked) in told.questions.iter().zip(["where is it?", "how?"]) {
        assert!(
            question.text.starts_with(asked) && question.text.contains("KEEPME"),
            "{question:?}"
        );
    }
}

/// EDITOR-7, security line 153: reminders without effect, then an end that says how the model stopped.
#[test]
fn a_model_that_refuses_is_cut_or_says_nothing_ends_the_task_with_that_reason() {
    for (stop, words, reminder, reason) in [
        (Stop::Refused, "I will not", "refused, or taken away", "refused to go on"),
        (Stop::Length, "so far", "Continue in smaller steps", "output limit"),
        (Stop::Done, "", "Words alone", "answered with nothing"),
        (Stop::Done, "It is fine as it is", "Words alone", "called no tool"),
    ] {
        let silent = [(); 3].map(|()| text(words, stop));
        let told = Story::new().turns([plan("write it")]).turns(silent).run();
        assert_eq!(told.state(), ("STUCK", Some("model_idle")));
        assert!(told.finished.summary.as_ref().unwrap().contains(reason), "{:?}", told.finished);
        let report = told.read("agent/stuck_report.md");
        assert!(report.contains("## Why it ended") && report.contains(reason), "{report}");
        assert!(report.contains(words), "{report}");
        assert!(told.messages().last().unwrap().contains(reminder), "{:?}", told.messages());
    }
}

/// EDITOR-8: questions to the Scouts are bounded between two verifications, and so is what one conversation holds,
/// whichever tool it came from.
#[test]
fn questions_and_logs_are_bounded_as_everything_is() {
    let ask =
        calls(&vec![("ask_scout", json!({"scout": "scout-a", "question": "what else?"})); 10]);
    let logs = calls(&vec![("read_log", json!({"run_id": run_id(1)})); 64]);
    let long = "0123456789\n".repeat(2000);
    let turns = [plan("write it"), ask, calls(&[write(&long)]), verify(), verify()];
    let turns = turns.into_iter().chain(vec![logs; 4]);
    let told = Story::new().turns(turns).turns(["hm", "hm", "hm"].map(say)).run();
    assert_eq!(told.state(), ("STUCK", Some("model_idle")));
    let answers = told.answers();
    let refused =
        |answers: &[&str]| answers.iter().filter(|answer| answer.starts_with("budget: ")).count();
    let (questions, rest) = answers.split_at(11);
    assert_eq!(refused(questions), 2);
    let logs: Vec<_> = rest.iter().skip(3).take(256).copied().collect();
    let (before, after) = logs.split_at(128);
    assert_eq!(refused(before), 0, "two of the three turns fit into 4 MiB");
    assert!((1..128).contains(&refused(after)), "{}", refused(after));
}

/// EDITOR-7: a model that only reads for a long time meets a fact again.
#[test]
fn the_fortieth_turn_of_an_attempt_verifies() {
    let turns = [plan("write it")].into_iter().chain(vec![read(); 39]).chain(attempt("right\n"));
    let told = Story::new().turns(turns).turns([done()]).run();
    assert_eq!((told.state(), told.runs), (("SUCCESS", None), 2));
    let why = "Many turns have passed without a verification, so the host ran `verify`";
    assert!(told.messages().iter().any(|text| text.starts_with(why)), "{:?}", told.messages());
}

/// EDITOR-17
#[test]
fn a_conflict_between_the_scouts_waits_for_a_decision_and_is_recorded() {
    let decision = json!({
        "about": "which files are affected", "scout_a": "answer.txt", "scout_b": "other.txt",
        "chosen": "answer.txt", "reason": "the step reads it"});
    let decides = json!({
        "criteria": [], "acceptance": [], "strategy": "write it", "decisions": [decision]});
    let line = "> which files are affected: scout-a says answer.txt, scout-b says other.txt; ";
    for (turns, expected) in [
        (
            vec![plan("write it"), call("plan", decides)],
            "chosen: answer.txt, because the step reads it\n",
        ),
        (vec![plan("write it")], "not decided\n"),
    ] {
        let turns = turns.into_iter().chain(attempt("right\n")).chain([done()]);
        let told = Story::new().scout_b_says(&["other.txt"]).turns(turns).run();
        assert_eq!(told.state(), ("SUCCESS", None));
        let shown = "\n- which files are affected: scout-a says answer.txt, scout-b says other.txt";
        assert_eq!(told.answers()[0].matches(shown).count(), 1, "{:?}", told.answers());
        let snapshot = told.read("agent/context_001.md");
        assert!(snapshot.contains(&format!("{line}{expected}")), "{snapshot}");
        assert!(snapshot.contains("### Files modified\n\nnone\n"), "{snapshot}");
        assert!(!snapshot.contains("strategy 2"), "{snapshot}");
    }
}
