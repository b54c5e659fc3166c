//! The gate of other agents with a real engine. `tests/without_engine/hooks.rs` has what needs none.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::engine::{containers_of, image};
use crate::harness::Act;

fn event(name: &str) -> Vec<u8> {
    json!({"hook_event_name": name, "session_id": "s"}).to_string().into_bytes()
}

fn answer(act: &Act, name: &str, more: &[&str]) -> Value {
    let arguments = [&["verify", "--hook", "claude"], more].concat();
    act.clone().stdin(event(name)).act(arguments).status(0).json()
}

fn runs(act: &Act) -> usize {
    fs::read_dir(act.artifacts().join("runs")).map_or(0, Iterator::count)
}

const CHECK: &str = "sh check.sh";

// HOOK-5, HOOK-6, HOOK-7
#[test]
fn a_red_run_names_step_place_run_and_what_changed_and_a_green_one_lets_go() {
    let act = Act::new()
        .pipeline(image(), &[("test", CHECK)])
        .file(
            "check.sh",
            "grep -q good state.txt || { echo 'state.txt:1: error: the state is bad'; exit 1; }\n",
        )
        .file("state.txt", "good\n")
        .file(".claude/settings.json", "{}\n");
    answer(&act, "SessionStart", &[]);
    fs::write(act.repo().join("state.txt"), "bad\n").unwrap();
    fs::write(act.repo().join("conftest.py"), "").unwrap();
    fs::write(act.repo().join(".claude/settings.json"), "{\"hooks\": {}}\n").unwrap();
    let held = answer(&act, "Stop", &[]);
    assert_eq!(held["decision"], "block", "{held}");
    let reason = held["reason"].as_str().unwrap();
    for said in [
        "step \"test\" failed (step_failed), run_",
        "state.txt:1",
        "the checks depend on it: conftest.py",
        "settings of this agent: .claude/settings.json",
        "block 1 of 3",
    ] {
        assert!(reason.contains(said), "{said}: {reason}");
    }
    assert!(!reason.contains("the checks depend on it: check.sh"), "{reason}");
    fs::write(act.repo().join("state.txt"), "good\n").unwrap();
    assert_eq!(answer(&act, "Stop", &[]), json!({}));
    let after = runs(&act);
    assert_eq!(after, 2);
    std::thread::sleep(Duration::from_millis(30));
    let without = act.clone().without_engine();
    assert_eq!(answer(&without, "Stop", &[]), json!({}), "an unchanged green tree needs no engine");
    assert_eq!(runs(&act), after);
}

// HOOK-8
#[test]
fn a_red_tree_that_was_let_go_is_not_run_again_until_it_changes() {
    let act = Act::new().pipeline(image(), &[("test", "false")]).file("a.txt", "");
    let one = ["--max-blocks", "1"];
    assert_eq!(answer(&act, "Stop", &one)["decision"], "block");
    let told = answer(&act, "Stop", &one);
    let text = told["systemMessage"].as_str().unwrap();
    assert!(text.contains("still red after 1, run_"), "{told}");
    std::thread::sleep(Duration::from_millis(30));
    let before = runs(&act);
    let told = answer(&act, "Stop", &one);
    assert!(
        told["systemMessage"].as_str().unwrap().contains("nothing has changed since run_"),
        "{told}"
    );
    assert_eq!(runs(&act), before);
    fs::write(act.repo().join("a.txt"), "x").unwrap();
    assert_eq!(answer(&act, "Stop", &one)["decision"], "block");
}

// HOOK-10
#[test]
fn a_pipeline_longer_than_the_limit_of_the_hook_is_ended_before_it_with_its_container() {
    let act = Act::new().pipeline(image(), &[("test", "sleep 300")]).file("a.txt", "");
    let started = Instant::now();
    let told = answer(&act, "Stop", &["--hook-timeout", "16"]);
    let text = told["systemMessage"].as_str().unwrap();
    assert!(text.contains("not verified: too slow"), "{told}");
    assert!(started.elapsed() < Duration::from_secs(60));
    let runs = fs::read_dir(act.artifacts().join("runs")).unwrap().flatten();
    let runs = runs.map(|run| run.file_name().into_string().unwrap()).collect::<Vec<_>>();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(containers_of(&runs[0]), Vec::<String>::new());
}

// HOOK-10
#[test]
fn a_second_hook_in_one_repository_waits_for_the_first() {
    let act = Act::new().pipeline(image(), &[("test", "sleep 2; false")]).file("a.txt", "");
    let start = |session: &str| {
        let event = json!({"hook_event_name": "Stop", "session_id": session}).to_string();
        act.clone().stdin(event).start(["verify", "--hook", "claude"])
    };
    let both = [start("a"), start("b")];
    for one in both {
        let held = one.wait().status(0).json();
        assert_eq!(held["decision"], "block", "{held}");
    }
}
