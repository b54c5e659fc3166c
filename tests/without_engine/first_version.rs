//! Reads the data that act 0.1.0 left on a machine. `tests/fixtures/0.1.0/README.md` describes it.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::Act;
use crate::harness::json::schema;

/// The data of 0.1.0 in place of an empty repository, home and store.
fn first_version() -> Act {
    let act = Act::new();
    let place = act.repo().parent().unwrap().to_owned();
    let archive = act_core::testing::checkout().join("tests/fixtures/0.1.0/state.tar.gz");
    let unpacked = Command::new("tar").arg("-xzpf").arg(archive).arg("-C").arg(&place).status();
    assert!(unpacked.unwrap().success());
    fs::remove_dir_all(act.repo()).unwrap();
    fs::remove_dir_all(place.join("config")).unwrap();
    for (from, to) in
        [("repository", "repo"), ("home/.agent-artifacts", "artifacts"), ("home/.config", "config")]
    {
        fs::rename(place.join(from), place.join(to)).unwrap();
    }
    act
}

/// Changes the identity of the repository in the store to that of the unpacked one, because no archive can hold an
/// inode.
pub(crate) fn at_home() -> Act {
    let act = first_version();
    let root = fs::canonicalize(act.repo()).unwrap();
    let identity = act_workspace::RootIdentity::of(&root).unwrap().to_string();
    let store = rusqlite::Connection::open(act.artifacts().join("state/act.db")).unwrap();
    // A proposal names the repository in its file, and the store has the digest of the file.
    let (was, proposals) = (
        store.query_row("SELECT repo FROM tasks", [], |row| row.get::<_, String>(0)).unwrap(),
        fs::read_dir(act.artifacts().join("state/proposals")).unwrap(),
    );
    for proposal in proposals {
        let path = proposal.unwrap().path();
        let text = fs::read_to_string(&path).unwrap().replace(&was, &identity);
        let task = path.file_stem().unwrap().to_str().unwrap();
        let digest = act_workspace::digest(text.as_bytes());
        let set = "UPDATE proposals SET sha256 = ?1 WHERE task_id = ?2";
        assert_eq!(store.execute(set, [digest.as_str(), task]).unwrap(), 1);
        fs::write(&path, text).unwrap();
    }
    for table in ["tasks", "runs", "stuck_reports", "proposals"] {
        store.execute(&format!("UPDATE {table} SET repo = ?1"), [&identity]).unwrap();
    }
    store.execute("UPDATE tasks SET root = ?1", [root.to_str().unwrap()]).unwrap();
    act
}

fn document(act: &Act, name: &str, arguments: &[&str]) -> Value {
    let done = act.clone().act(arguments.iter().chain(&["--json"]).copied()).status(0);
    done.document(name)
}

/// Text, state and reason of each task, oldest first.
fn tasks(history: &Value) -> Vec<(String, String, Option<String>)> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let all = history["tasks"].as_array().unwrap().iter().rev();
    all.map(|task| {
        (word(&task["text"]).unwrap(), word(&task["state"]).unwrap(), word(&task["reason"]))
    })
    .collect()
}

/// Identifier of the task with this text and state.
fn task_of(act: &Act, text: &str, state: &str) -> String {
    let history = document(act, "history", &["history", "--all"]);
    let all = history["tasks"].as_array().unwrap().iter();
    let found = all.filter(|task| task["text"] == text && task["state"] == state);
    let ids: Vec<_> = found.map(|task| task["task_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 1, "{history:#}");
    ids[0].clone()
}

fn manifests(act: &Act) -> BTreeMap<String, Value> {
    let runs = fs::read_dir(act.artifacts().join("runs")).unwrap().map(|run| run.unwrap().path());
    runs.filter_map(|run| {
        let text = fs::read_to_string(run.join("manifest.json")).ok()?;
        let name = run.file_name().unwrap().to_str().unwrap().to_owned();
        Some((name, serde_json::from_str(&text).unwrap()))
    })
    .collect()
}

#[test]
fn history_shows_every_task_also_from_elsewhere() {
    for (act, arguments) in
        [(first_version(), &["history", "--all"][..]), (at_home(), &["history"][..])]
    {
        let history = document(&act, "history", arguments);
        let expected = [
            ("write the answer\n\nConstraints:\n- be brief", "SUCCESS", None),
            ("propose the answer", "PROPOSED", None),
            ("propose the answer", "SUCCESS", None),
            ("guess the answer", "STUCK", Some("model_idle")),
            ("propose it again", "PROPOSED", None),
            ("think for ever", "CANCELLED", Some("cancelled")),
            ("be interrupted", "INFRA_ERROR", Some("interrupted")),
            ("wait for a turn", "CANCELLED", Some("owner_died")),
        ];
        let expected = expected
            .map(|(text, state, why)| (text.to_owned(), state.to_owned(), why.map(str::to_owned)));
        assert_eq!(tasks(&history), expected, "{history:#}");
        let first = &history["tasks"].as_array().unwrap()[7];
        assert_eq!(first["run_ids"].as_array().unwrap().len(), 2, "{first:#}");
        assert_eq!(first["attempt"], 2, "{first:#}");
        act.act(arguments.iter().copied()).status(0).stdout_has("write the answer");
    }
}

#[test]
fn status_and_queue_are_those_of_the_repository() {
    let act = at_home();
    let status = document(&act, "status", &["status"]);
    assert_eq!(status["running"], Value::Null, "{status:#}");
    assert_eq!(status["stuck_report"]["path"], "agent/stuck_report.md", "{status:#}");
    assert_eq!(status["stuck_report"]["origin"], "own", "{status:#}");
    assert_eq!(status["stuck_report"]["resolved"], false, "{status:#}");
    // Its process is dead, so the first look has recorded its end.
    assert_eq!(status["queued_count"], 0, "{status:#}");
    assert_eq!(status["queued"], json!([]), "{status:#}");
    let queue = document(&act, "queue", &["queue"]);
    assert_eq!(queue["queued"], json!([]), "{queue:#}");
}

#[test]
fn the_report_of_the_stuck_task_is_ours_and_can_be_resolved() {
    let act = at_home();
    let report = document(&act, "report", &["report"]);
    let stuck = task_of(&act, "guess the answer", "STUCK");
    assert_eq!(report["task_id"], stuck.as_str(), "{report:#}");
    act.clone().act(["report"]).status(0).stdout_has("guess the answer");
    let resolved = document(&act, "report-resolved", &["report", "--resolve"]);
    assert_eq!(resolved["run_ids"].as_array().unwrap().len(), 1, "{resolved:#}");
    assert_eq!(document(&act, "status", &["status"])["stuck_report"]["resolved"], true);
}

#[test]
fn logs_of_every_run_are_printed() {
    let act = at_home();
    let manifests = manifests(&act);
    let ended: Vec<_> = manifests.values().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(ended.iter().filter(|status| **status == "PASS").count(), 2);
    assert_eq!(ended.iter().filter(|status| **status == "FAIL").count(), 3);
    for (run_id, manifest) in &manifests {
        let log = document(&act, "logs", &["logs", run_id]);
        assert!(log["log"].as_str().unwrap().starts_with("built\n"), "{log:#}");
        if manifest["status"] == "FAIL" {
            let step = act.clone().act(["logs", run_id, "--step", "test"]).status(0);
            assert!(step.stdout_text().starts_with("FAIL: "), "{step}");
        }
    }
    let stuck = task_of(&act, "guess the answer", "STUCK");
    act.act(["logs", &stuck]).status(0).stdout("built\nFAIL: wrong\n");
}

#[test]
fn the_audit_log_is_unbroken_and_explains_every_run() {
    let act = at_home();
    let text = fs::read_to_string(act.audit_log()).unwrap();
    // As it was written: `at_home` gives the rows of the store a repository that the log does not have.
    let verified = document(&first_version(), "audit-verify", &["audit", "verify"]);
    assert!(verified["records"].as_u64().unwrap() >= text.lines().count() as u64, "{verified:#}");
    let listed = document(&act, "audit-list", &["audit", "list", "--limit", "1000"]);
    let listed = listed["records"].as_array().unwrap();
    let kinds: Vec<_> = listed.iter().map(|record| record["event"].as_str().unwrap()).collect();
    for kind in ["component_loaded", "query", "container_requested", "container_inspected"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    for line in text.lines() {
        schema("audit-record").validate(&serde_json::from_str(line).unwrap()).unwrap();
    }
    for (run_id, manifest) in manifests(&act) {
        let explained = document(&act, "audit-explain", &["audit", "explain", &run_id]);
        assert_eq!(explained["run_id"], run_id.as_str(), "{explained:#}");
        assert_eq!(explained["task_id"], manifest["task_id"], "{explained:#}");
        let told = act.clone().act(["audit", "explain", &run_id]).status(0);
        told.stdout_has("agrees");
    }
    let grants = act.clone().act(["audit", "grants"]).status(0);
    grants.stdout_has("example");
}

#[test]
fn metrics_count_all_of_it() {
    let metrics = document(&first_version(), "metrics", &["metrics"]);
    let expected = json!({"CANCELLED": 2, "INFRA_ERROR": 1, "PROPOSED": 2, "REFUSED": 0, "STUCK": 1, "SUCCESS": 2});
    assert_eq!(metrics["tasks"], expected, "{metrics:#}");
}

#[test]
fn the_open_proposal_is_shown_and_the_applied_one_is_known_as_applied() {
    let act = at_home();
    let open = task_of(&act, "propose it again", "PROPOSED");
    let shown = act.clone().act(["apply", "--show", &open]).status(0);
    shown.stdout_has("-wrong\n+right\n");
    let applied = task_of(&act, "propose the answer", "PROPOSED");
    act.without_engine().act(["apply", &applied]).status(1).stderr_has("was applied by t-");
}

#[test]
fn the_approved_component_still_takes_part() {
    let act = at_home();
    let list = document(&act, "components", &["components"]);
    let all = list["components"].as_array().unwrap();
    let example = all.iter().find(|component| component["name"] == "example").unwrap();
    assert_eq!(example["state"], "approved", "{example:#}");
    act.act(["components"]).status(0).stdout_has("repo.read of docs");
}

#[test]
fn every_line_of_the_journals_fits_the_schema_of_today() {
    let act = first_version();
    let mut journals = 0;
    for entry in fs::read_dir(act.artifacts().join("state/journal")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines() {
            let mut event: Value = serde_json::from_str(line).unwrap();
            // 0.2.0 added these fields; everything else has its old name and shape.
            if ["verify_started", "verify_finished"].contains(&event["type"].as_str().unwrap()) {
                assert_eq!(event["warm"], Value::Null);
                event["warm"] = false.into();
            }
            if event["type"] == "task_started" {
                assert_eq!(event["notes_dir"], Value::Null);
                event["notes_dir"] = "agent".into();
            }
            if event["type"] == "component_used" {
                for (field, now) in [
                    ("call", "ask".into()),
                    ("outcome", "answered".into()),
                    ("duration_ms", 1.into()),
                ] {
                    assert_eq!(event[field], Value::Null);
                    event[field] = now;
                }
            }
            if ["model_request", "task_finished"].contains(&event["type"].as_str().unwrap()) {
                assert_eq!(event["cost_usd"], Value::Null);
                event["cost_usd"] = Value::Null;
            }
            schema("run").validate(&event).unwrap_or_else(|error| panic!("{error}: {line}"));
        }
        journals += 1;
    }
    assert_eq!(journals, 8);
}
