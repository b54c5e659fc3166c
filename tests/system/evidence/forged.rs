//! Logs that others went on with, and logs that hold less than they do today.

use std::fs;

use serde_json::{Value, json};

use super::{
    claim, export, manifest, notes, proved, refused, repository, resource, run_id, unproved,
    verified, with,
};
use crate::harness::{Act, sealed};

/// Two records that look as those of `of`, chained onto the log's end: the same run as a green one under the name `run`.
fn forge(act: &Act, of: &str, run: &str) -> String {
    let text = fs::read_to_string(act.audit_log()).unwrap();
    let aside = fs::read_to_string(act.artifacts().join("state/audit.1.jsonl")).unwrap_or_default();
    let lines = aside.lines().chain(text.lines());
    let records: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = records.last().unwrap();
    let (mut seq, mut prev) =
        (last["seq"].as_u64().unwrap(), last["hash"].as_str().unwrap().to_owned());
    let mut forged = text.clone();
    for event in ["gate_started", "gate_finished"] {
        let is = |record: &&Value| record["event"] == event && record["object"] == of;
        let mut record = records.iter().find(is).unwrap().clone();
        seq += 1;
        record["seq"] = json!(seq);
        record["object"] = json!(run);
        if event == "gate_finished" {
            (record["reason"], record["decision"]) = (json!("pass"), json!("allow"));
            record["digests"].as_object_mut().unwrap().shift_remove("manifest");
            record["digests"].as_object_mut().unwrap().shift_remove("steps");
        }
        let (line, hash) = sealed(record, &prev);
        forged += &format!("{line}\n");
        prev = hash;
    }
    fs::write(act.audit_log(), forged).unwrap();
    prev
}

/// AUDIT-12, AUDIT-15, security line 186: whoever knows the rules can go on with the chain, and that proves nothing.
#[test]
fn an_end_that_was_added_to_the_log_is_no_evidence() {
    let act = repository(&[("test", "exit 9")]);
    let response = verified(&act, 3);
    let (real, forged) = (run_id(&response).to_owned(), "run_20261121_233000_aaaaaa");
    let hash = forge(&act, &real, forged);
    // With a matching manifest.
    let whole = fs::read_to_string(manifest(&act, &real)).unwrap();
    let whole = with(&whole, "/run_id", json!(forged));
    let whole = with(&whole, "/audit_head", json!(hash));
    let whole = with(&whole, "/reason", Value::Null);
    let whole = with(&whole, "/commands_executed/0/exit_code", json!(0));
    let whole = with(&whole, "/commands_executed/0/log_sha256", Value::Null);
    let path = manifest(&act, forged);
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, with(&whole, "/status", json!("PASS"))).unwrap();
    // The chain itself is in order, but the store has the rows of earlier runs and none of this one.
    let missing = format!("run {forged} is missing");
    act.clone().act(["audit", "verify"]).status(1).stdout_has(&missing);
    export(&act, forged, 1).stdout_has("the last one that the store knows");
    assert_eq!(unproved(&act, forged), "evidence_disputed");
    assert_eq!(refused(&act, forged), "evidence_disputed");
    act.clone().act(["audit", "explain", forged]).status(1).stdout_has("disputed");
    // Honest records after it do not make it valid.
    verified(&act, 3);
    act.clone().act(["audit", "verify"]).status(1).stdout_has(&missing);
    export(&act, forged, 1).stdout_has("the store has no such run");
    assert_eq!(unproved(&act, forged), "evidence_disputed");
    assert_eq!(refused(&act, forged), "evidence_disputed");
    assert_eq!(proved(&act, &real)["predicate"]["result"], "FAILED");
    // If a run has two ends, the first one counts.
    forge(&act, &real, &real);
    assert_eq!(proved(&act, &real)["predicate"]["result"], "FAILED");
}

/// AUDIT-15, security line 186: a run ends once, also where the log with its end was set aside.
#[test]
fn a_second_end_in_the_next_log_is_no_evidence() {
    let act = repository(&[("test", "cat answer.txt")]);
    let response = verified(&act, 0);
    let run = run_id(&response).to_owned();
    let whole = fs::read_to_string(act.audit_log()).unwrap();
    fs::write(act.audit_log(), whole + "{}\n").unwrap();
    act.clone().act(["audit", "restart"]).status(0);
    act.clone().act(["audit", "verify"]).status(0);

    // The verdict repeated in the next log, with a matching manifest and honest records after it.
    let hash = forge(&act, &run, &run);
    let path = manifest(&act, &run);
    let first = fs::read_to_string(&path).unwrap();
    let second = with(&first, "/audit_head", json!(hash));
    fs::write(&path, with(&second, "/commit_sha", json!("f".repeat(40)))).unwrap();
    verified(&act, 0);
    let another = format!("the store has another end of {run}");
    act.clone().act(["audit", "verify"]).status(1).stdout_has(&another);
    let told = act.clone().act(["audit", "explain", &run]).status(1);
    told.stdout_has("the store has another record as its end");
    assert_eq!(unproved(&act, &run), "evidence_disputed");
    assert_eq!(refused(&act, &run), "evidence_disputed");

    // The true manifest does not make the record true; the next log knows it for what it is.
    fs::write(&path, first).unwrap();
    act.clone().act(["audit", "verify"]).status(1).stdout_has(&another);
    act.clone().act(["audit", "restart"]).status(0);
    let verify = |exit: i32, more: &[&str]| {
        let words = ["audit", "verify", "--json"].iter().chain(more).copied();
        act.clone().act(words).status(exit).document("audit-verify")
    };
    let found = verify(1, &[]);
    assert_eq!((&found["history"], &found["bad"]), (&json!("missing"), &Value::Null), "{found:#}");
    let begun = found["restarted_at"].to_string();
    let found = verify(0, &["--accept-restart", &begun]);
    assert_eq!(found["runs_unknown"].as_array().unwrap().len(), 1, "the honest one: {found:#}");
}

/// AUDIT-24: a log of a time when it held less is verified as before, and proves what it holds.
#[test]
fn a_log_that_holds_less_proves_less() {
    let act = repository(&[("test", "cat answer.txt")]);
    let response = verified(&act, 0);
    let run = run_id(&response).to_owned();
    let older = |digests: &[&str]| {
        let (mut prev, mut lines, mut head) = ("0".repeat(64), String::new(), (0, 0));
        for mut record in act.audit_records() {
            for digest in digests {
                record["digests"].as_object_mut().unwrap().shift_remove(*digest);
            }
            record["counts"].as_object_mut().unwrap().shift_remove("warnings");
            let seq = record["seq"].as_i64().unwrap();
            let (line, hash) = sealed(record, &prev);
            lines += &format!("{line}\n");
            (prev, head) = (hash, (seq, lines.len() as i64));
        }
        fs::write(act.audit_log(), lines).unwrap();
        let db = rusqlite::Connection::open(act.artifacts().join("state/act.db")).unwrap();
        let kept = "UPDATE audit_head SET seq = ?1, hash = ?2, log_end = ?3";
        db.execute(kept, rusqlite::params![head.0, prev, head.1]).unwrap();
        db.execute("UPDATE runs SET end_hash = NULL", []).unwrap();
        let path = manifest(&act, &run);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, with(&whole, "/audit_head", json!(prev))).unwrap();
    };
    older(&["manifest", "image_id"]);
    act.clone().act(["audit", "verify"]).status(0);
    let statement = proved(&act, &run);
    assert_eq!(statement["predicate"]["result"], "PASSED");
    assert!(resource(&statement, "container_image")["annotations"]["image_id"].is_null());
    older(&["steps"]);
    export(&act, &run, 1).stdout_has("the log was written before digests of steps were recorded");
    assert_eq!(unproved(&act, &run), "evidence_incomplete");
    let check = claim(&act, &run, 0);
    assert_eq!(
        (&check["holds"], notes(&check)),
        (&json!(true), vec!["steps_unknown", "warnings_unknown"])
    );
}
