//! An unchanged tree is answered from its run, and only from a run that log, store and manifest agree about.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::harness::{Act, Done, Tag, containers_of, image, sealed};

fn repository(command: &str) -> Act {
    Act::new().file("answer.txt", "right\n").pipeline(image(), &[("test", command)])
}

fn verify(act: &Act, more: &[&str]) -> Done {
    act.clone().act(["verify", "--json"].iter().chain(more).copied())
}

/// Returns the id of the run and whether it was an earlier one.
fn green(act: &Act) -> (String, bool) {
    let response = verify(act, &[]).status(0).json();
    assert_eq!(response["status"], "PASS", "{response:#}");
    let reused = response.get("reused").is_some_and(|reused| *reused == json!(true));
    (response["run_id"].as_str().unwrap().to_owned(), reused)
}

fn records(act: &Act, event: &str) -> Vec<Value> {
    act.audit_records().into_iter().filter(|record| record["event"] == event).collect()
}

// VERIFIER-62
#[test]
fn an_unchanged_tree_is_answered_from_its_green_run() {
    let act = repository("grep right answer.txt");
    let first = verify(&act, &[]).status(0).json();
    assert!(first.get("reused").is_none() && first.get("age_s").is_none(), "{first:#}");
    let again = verify(&act, &[]).status(0);
    assert_eq!(again.runs().len(), 1, "{again}");
    let again = again.json();
    assert_eq!((&again["reused"], &again["joined"]), (&json!(true), &json!(false)));
    assert!(again["age_s"].as_u64().unwrap() < 600, "{again:#}");
    for same in ["run_id", "manifest", "tail_log", "status", "artifact_paths", "warnings"] {
        assert_eq!(again[same], first[same], "{same}");
    }
    let reused = &records(&act, "gate_reused")[0];
    assert_eq!((&reused["object"], &reused["reason"]), (&first["run_id"], &json!("unchanged")));
    assert_eq!(reused["digests"]["tree"], first["manifest"]["tree_digest"]);
    act.clone().act(["verify"]).status(0).stdout_has("nothing was run").stdout_has("--fresh");
    act.clone().act(["audit", "verify"]).status(0);

    // Times are no content, and back to an earlier tree is back to its run.
    let answer = act.repo().join("answer.txt");
    let file = fs::File::options().append(true).open(&answer).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
    let (id, _) = green(&act);
    assert_eq!(first["run_id"], id);
    let other = act.clone().file("answer.txt", "right!\n");
    let (changed, reused) = green(&other);
    assert!(changed != id && !reused);
    assert_eq!(green(&act.clone().file("answer.txt", "right\n")), (id.clone(), true));

    for option in ["--fresh", "--no-cache"] {
        let fresh = verify(&act, &[option]).status(0).json();
        assert!(fresh["run_id"] != id && fresh.get("reused").is_none(), "{option}: {fresh:#}");
    }
    act.clone().act(["verify-claim", &id, "--json"]).status(0);
    assert_eq!(records(&act, "gate_started").len(), 5, "verify-claim runs the pipeline as well");
}

// VERIFIER-62, security line 340
#[test]
fn a_file_that_keeps_its_time_and_size_is_another_tree() {
    let act = repository("grep -E 'right|wrong' answer.txt");
    let (first, _) = green(&act);
    let answer = act.repo().join("answer.txt");
    let before = fs::metadata(&answer).unwrap().modified().unwrap();
    fs::write(&answer, "wrong\n").unwrap();
    fs::File::options().append(true).open(&answer).unwrap().set_modified(before).unwrap();
    let (second, reused) = green(&act);
    assert!(second != first && !reused);
}

// VERIFIER-62, security line 341
#[test]
fn a_red_run_is_never_repeated_and_makes_an_older_green_one_void() {
    let act = repository("exit 1");
    for runs in 1..=2 {
        let red = verify(&act, &[]).status(3);
        assert_eq!(red.runs().len(), runs, "{red}");
    }
    // A test that is not deterministic: the download of the green run makes the next one red.
    let flaky = "d=$npm_config_cache/_cacache; test ! -e $d/x && mkdir -p $d && echo x > $d/x";
    let act = repository(flaky);
    let (first, _) = green(&act);
    let red = verify(&act, &["--fresh"]).status(3).json();
    assert_ne!(red["run_id"], first);
    let third = verify(&act, &[]).status(3).json();
    assert!(third.get("reused").is_none(), "{third:#}");
}

// VERIFIER-62, security line 342
#[test]
fn another_gate_or_image_is_another_run() {
    let (tag, id) = Tag::of_its_own();
    let steps = [("test", "true")];
    let act = Act::new().file("answer.txt", "right\n").pipeline(&tag.name(), &steps);
    let (first, _) = green(&act);
    assert_eq!(green(&act), (first.clone(), true));
    // The administrator's or the user's settings are part of the gate.
    let lowered = act.clone().config_toml("[verifier.limits]\nmemory_mb = 512\n");
    let (second, reused) = green(&lowered);
    assert!(second != first && !reused);
    fs::remove_file(act.settings_file()).unwrap();
    assert_eq!(green(&act), (first.clone(), true));
    // The name leads to an image in which nothing can run.
    let original = Tag::for_image(&id);
    tag.move_to_empty();
    let moved = verify(&act, &[]).status(4).json();
    assert!(moved.get("reused").is_none(), "{moved:#}");
    drop(original);
    let another = act.clone().pipeline(image(), &steps);
    assert!(!green(&another).1);
}

// VERIFIER-62, security line 343
#[test]
fn ignored_files_that_a_step_can_see_are_part_of_what_was_verified() {
    let settle = || std::thread::sleep(Duration::from_millis(2_100));
    let act = repository("true").file(".gitignore", "*.secret\n").file("a.secret", "1");
    settle();
    let (copy, _) = green(&act);
    act.clone().file("a.secret", "2");
    assert_eq!(green(&act), (copy, true), "a copy does not hold it");

    let named = repository("cat /workspace/a.secret || true").file(".gitignore", "*.secret\n");
    let named = named.file("a.secret", "1");
    settle();
    let (first, _) = green(&named);
    assert_eq!(green(&named), (first.clone(), true));
    named.clone().file("a.secret", "2");
    settle();
    let (second, reused) = green(&named);
    assert!(second != first && !reused);

    // What `include` adds is in the tree.
    let yaml = json!({"verification": {"container_image": image(), "include": ["*.secret"],
        "steps": [{"name": "test", "command": "true"}]}});
    let included = act.clone().file("agent.yaml", yaml.to_string());
    let (first, _) = green(&included);
    included.clone().file("a.secret", "3");
    let (second, reused) = green(&included);
    assert!(second != first && !reused);
}

// VERIFIER-62, security line 344
#[test]
fn the_state_of_git_counts_where_the_pipeline_asks_git() {
    let commit = |act: &Act, id: char| {
        let id = id.to_string().repeat(40);
        fs::write(act.repo().join(".git/refs/heads/main"), id).unwrap();
    };
    let act = repository("true");
    let (first, _) = green(&act);
    commit(&act, '1');
    assert_eq!(green(&act), (first, true));
    let asks = repository("cat .git/refs/heads/main 2>/dev/null || true; : git");
    let (first, _) = green(&asks);
    commit(&asks, '2');
    let (second, reused) = green(&asks);
    assert!(second != first && !reused);
}

// VERIFIER-62, security line 345
#[test]
fn a_run_that_log_store_and_manifest_do_not_agree_about_is_no_answer() {
    let act = repository("true");
    let (first, _) = green(&act);
    let manifest = act.artifacts().join("runs").join(&first).join("manifest.json");
    let written = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, written.replace("\"true\"", "\"test\"")).unwrap();
    let (second, reused) = green(&act);
    assert!(second != first && !reused, "the manifest was changed");
    fs::write(&manifest, &written).unwrap();

    // A row that says that a run of a red tree was green.
    let red = repository("exit 1");
    let id = verify(&red, &[]).status(3).json()["run_id"].as_str().unwrap().to_owned();
    let store = |act: &Act, change: &str| {
        let db = rusqlite::Connection::open(act.artifacts().join("state/act.db")).unwrap();
        db.execute(change, rusqlite::params![]).unwrap();
    };
    store(&red, &format!("UPDATE runs SET status = 'PASS' WHERE run_id = '{id}'"));
    let told = verify(&red, &[]).status(3).json();
    assert!(told.get("reused").is_none(), "{told:#}");

    // A row without the record of its end, and one with the record of another run.
    for hash in ["NULL", "'0'"] {
        store(&act, &format!("UPDATE runs SET end_hash = {hash}"));
        assert!(!green(&act).1, "{hash}");
    }

    // A record that somebody appended by the rules, for a tree that was never verified.
    let forged = repository("exit 1");
    verify(&forged, &[]).status(3);
    let mut all = forged.audit_records();
    let (mut record, last) = (all.last().unwrap().clone(), all.pop().unwrap());
    record["seq"] = json!(last["seq"].as_u64().unwrap() + 1);
    record["decision"] = json!("allow");
    record["reason"] = json!("pass");
    let (line, _) = sealed(record, last["hash"].as_str().unwrap());
    let mut log = fs::read_to_string(forged.audit_log()).unwrap();
    log.push_str(&format!("{line}\n"));
    fs::write(forged.audit_log(), log).unwrap();
    let told = verify(&forged, &[]);
    assert!(told.stdout_text().contains("\"PASS\"") == false, "{told}");
}

// VERIFIER-63
#[test]
fn a_second_verification_of_the_same_tree_joins_the_one_that_runs() {
    for (end, code) in [("exit 0", 0), ("exit 1", 3)] {
        let act = repository(&format!("{}; {end}", crate::harness::UNTIL_TOLD));
        let first = act.clone().start(["verify", "--json", "--verbose"]);
        first.until_stderr_has("it has begun");
        let others: Vec<_> = (0..3).map(|_| act.clone().start(["verify", "--json"])).collect();
        std::thread::sleep(Duration::from_millis(500));
        assert!(others.iter().all(|other| !other.has_ended()));
        act.tell_step();
        let id = first.wait().status(code).json()["run_id"].clone();
        for other in others {
            let joined = other.wait().status(code);
            assert_eq!(joined.runs().len(), 1, "{joined}");
            let joined = joined.json();
            assert_eq!((&joined["run_id"], &joined["joined"]), (&id, &json!(true)));
        }
        let reasons: Vec<_> =
            records(&act, "gate_reused").iter().map(|record| record["reason"].clone()).collect();
        assert_eq!(reasons, vec![json!("joined"); 3]);
    }
}

// VERIFIER-63
#[test]
fn who_waited_runs_the_pipeline_when_the_tree_changed_meanwhile() {
    let step = format!("[ -e other ] || {{ {}; }}", crate::harness::UNTIL_TOLD);
    let act = repository(&step);
    let first = act.clone().start(["verify", "--json", "--verbose"]);
    first.until_stderr_has("it has begun");
    let second = act.clone().start(["verify", "--json"]);
    std::thread::sleep(Duration::from_millis(300));
    act.clone().file("other", "x");
    act.tell_step();
    let first = first.wait().status(3).json();
    assert_eq!(first["reason"], "tree_changed");
    let second = second.wait().status(0).json();
    assert!(second["run_id"] != first["run_id"] && second.get("reused").is_none(), "{second:#}");
}

// VERIFIER-63
#[test]
fn a_verification_that_waits_is_cancelled_alone() {
    let act = repository(crate::harness::UNTIL_TOLD);
    let first = act.clone().start(["verify", "--json", "--verbose"]);
    first.until_stderr_has("it has begun");
    let second = act.clone().start(["verify", "--json"]);
    std::thread::sleep(Duration::from_millis(300));
    second.signal(rustix::process::Signal::TERM);
    second.wait().status(130).stdout("");
    act.tell_step();
    let first = first.wait().status(0);
    let id = first.json()["run_id"].as_str().unwrap().to_owned();
    assert!(containers_of(&id).is_empty());
}
