//! The version of the JSON documents: every document names it, and `ACT_JSON_SCHEMA=1` gives the shapes before it.

use std::fs;

use act_core::process::Process;
use serde_json::{Value, json};

use super::first_version::at_home;
use crate::harness::script::{call, done, opening, script};
use crate::harness::tree::git;
use crate::harness::{Act, image};

/// The data of 0.1.0 with a task that runs and one that waits, both of this process.
fn with_tasks() -> Act {
    let act = at_home();
    let Process { pid, start_time, boot_id, pid_namespace } = Process::this();
    let store = rusqlite::Connection::open(act.artifacts().join("state/act.db")).unwrap();
    for (text, state) in [("be interrupted", "RUNNING"), ("wait for a turn", "QUEUED")] {
        let set = "UPDATE tasks SET state = ?2, owner_pid = ?3, owner_start = ?4, owner_boot = ?5, \
                   owner_namespace = ?6, finished_at = NULL, exit_code = NULL, reason = NULL WHERE text = ?1";
        let values = rusqlite::params![text, state, pid, start_time, boot_id, pid_namespace];
        assert_eq!(store.execute(set, values).unwrap(), 1, "{text}");
    }
    act
}

fn in_first_version(act: &Act) -> Act {
    act.clone().env("ACT_JSON_SCHEMA", "1")
}

/// Returns the schema of a document as it was before version 2, with no room for a field that it does not name.
fn first_schema(name: &str) -> jsonschema::Validator {
    fn close(schema: &mut Value) {
        if let Value::Object(fields) = schema {
            let is_closed = fields.contains_key("additionalProperties");
            if fields.contains_key("properties") && !is_closed {
                fields.insert("additionalProperties".into(), json!(false));
            }
            fields.values_mut().for_each(close);
        }
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(close);
        }
    }
    let path = act_core::testing::checkout().join(format!("tests/fixtures/json-1/{name}.json"));
    let mut schema = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    close(&mut schema);
    jsonschema::validator_for(&schema).unwrap()
}

/// Runs a command in both versions. The document of the second one fits its published schema, that of the first one the
/// schema before.
fn both(act: &Act, name: &str, arguments: &[&str]) -> (Value, Value) {
    let second = act.clone().act(arguments.iter().copied()).status(0).document(name);
    let first = in_first_version(act).act(arguments.iter().copied()).status(0).json();
    first_schema(name).validate(&first).unwrap_or_else(|error| panic!("{error}: {first:#}"));
    (first, second)
}

/// JSON-2, JSON-3, JSON-5: the assertions about the first version are those that the tests of 0.1.0 had.
#[test]
fn status_queue_and_history_have_one_shape_and_their_old_ones_on_request() {
    let act = with_tasks();
    let root = fs::canonicalize(act.repo()).unwrap();
    let identity = act_workspace::RootIdentity::of(&root).unwrap().to_string();
    let repo = json!({"path": root, "identity": identity, "head": null, "dirty": null});
    let old = json!({"root": root, "identity": identity});

    let (first, second) = both(&act, "status", &["status", "--json"]);
    assert_eq!((&second["repo"], &second["running"]["repo"]), (&repo, &repo));
    assert_eq!((&second["last"]["repo"], &second["queued"][0]["repo"]), (&repo, &repo));
    assert_eq!(second["queued"][0]["text"], "wait for a turn");
    assert_eq!(second["queued_count"], 1);
    assert_eq!((&first["repo"], &first["queued"]), (&old, &json!(1)));
    assert_eq!(first["running"]["repo"], json!(root));
    assert_eq!(first["last"]["repo"], json!(root));

    let (first, second) = both(&act, "queue", &["queue", "--json"]);
    assert_eq!((&second["repo"], &second["running"]["repo"]), (&repo, &repo));
    assert_eq!((&second["queued"][0]["repo"], &second["queued_count"]), (&repo, &json!(1)));
    assert_eq!(first["repo"], old);
    assert_eq!(first["queued"][0]["text"], "wait for a turn");
    assert_eq!(first["queued"][0]["repo"], json!(root));

    let (first, second) = both(&act, "history", &["history", "--all", "--json"]);
    let tasks = |history: &Value| history["tasks"].as_array().unwrap().clone();
    assert_eq!((tasks(&first).len(), tasks(&second).len()), (8, 8));
    assert!(tasks(&second).iter().all(|task| task["repo"] == repo), "{second:#}");
    assert!(tasks(&first).iter().all(|task| task["repo"] == json!(root)), "{first:#}");
}

/// JSON-3, JSON-5
#[test]
fn other_documents_about_a_repository_name_it_in_the_same_shape() {
    let act = at_home();
    let root = fs::canonicalize(act.repo()).unwrap();
    let (first, second) = both(&act, "hook", &["hook", "off", "--json"]);
    assert_eq!(second["repo"]["path"], json!(root));
    assert_eq!(first["repo"], json!(root));
    both(&act, "hook", &["hook", "git", "install", "--json"]);

    let history = act.clone().act(["history", "--json"]).status(0).json();
    let runs = history["tasks"].as_array().unwrap().iter();
    let run = runs.filter_map(|task| task["run_ids"][0].as_str()).next().unwrap();
    let (first, second) = both(&act, "audit-explain", &["audit", "explain", run, "--json"]);
    assert_eq!(second["repo"]["identity"], first["repo"]["identity"]);
    assert_eq!(second["repo"]["head"], first["repo"]["head"]);
    assert_eq!(first["repo"].get("path"), None);
    both(&act, "cache", &["cache", "--json"]);
}

/// JSON-1, JSON-5: a document without a field that changed differs in its version alone.
#[test]
fn every_document_begins_with_its_version_and_has_none_before() {
    let act = at_home();
    let history = act.clone().act(["history", "--json"]).status(0).json();
    let tasks = history["tasks"].as_array().unwrap().clone();
    // A run that has ended, because one that has not has no failures to list.
    let green = tasks.iter().find(|task| task["state"] == "SUCCESS").unwrap();
    let run = green["run_ids"].as_array().unwrap().last().unwrap().as_str().unwrap();
    let open = tasks.iter().find(|task| task["text"] == "propose it again").unwrap();
    let open = open["task_id"].as_str().unwrap();
    for (name, arguments) in [
        ("logs", vec!["logs", run]),
        ("failures", vec!["logs", run, "--failures"]),
        ("report", vec!["report"]),
        ("proposed", vec!["apply", "--show", open]),
        ("metrics", vec!["metrics"]),
        ("audit-list", vec!["audit", "list", "--limit", "3"]),
        ("audit-grants", vec!["audit", "grants", "--at", "2030-01-01"]),
        ("audit-anchor", vec!["audit", "anchor"]),
        ("components", vec!["components"]),
        ("components-show", vec!["components", "show", "example"]),
        ("components-why", vec!["components", "why", "example", "docs/a.md"]),
        ("edit-queue", vec!["edit", "queue"]),
        ("edit-queue", vec!["edit", "review"]),
    ] {
        let arguments: Vec<_> = arguments.into_iter().chain(["--json"]).collect();
        let done = act.clone().act(arguments.iter().copied());
        let text = done.stdout_text();
        assert!(text.starts_with(r#"{"schema":2,"#), "{name}: {done}");
        let mut second = done.document(name);
        let first = in_first_version(&act).act(arguments.iter().copied()).json();
        second.as_object_mut().unwrap().remove("schema");
        assert_eq!(first, second, "{name}");
    }
    let refused = act.clone().act(["logs", "no-run", "--json"]).status(1).document("refusal");
    assert_eq!((&refused["schema"], &refused["v"]), (&json!(2), &json!(1)));
    let refused = in_first_version(&act).act(["logs", "no-run", "--json"]).status(1).json();
    assert_eq!((refused.get("schema"), &refused["code"]), (None, &json!("run_id_invalid")));
}

/// JSON-4: evidence and events have versions of their own, which no variable changes.
#[test]
fn evidence_and_events_are_equal_in_both_versions() {
    let act = at_home();
    let history = act.clone().act(["history", "--json"]).status(0).json();
    let tasks = history["tasks"].as_array().unwrap().iter();
    let green = tasks.clone().find(|task| task["state"] == "SUCCESS").unwrap();
    let run = green["run_ids"].as_array().unwrap().last().unwrap().as_str().unwrap();
    for arguments in
        [vec!["audit", "show", "1", "--json"], vec!["audit", "export", run, "--in-toto"]]
    {
        let [second, first] = [act.clone(), in_first_version(&act)]
            .map(|act| act.act(arguments.iter().copied()).stdout_text());
        assert_eq!(first, second, "{arguments:?}");
        assert!(!second.contains("\"schema\""), "{second}");
    }
}

/// JSON-6, HOOK-1
#[test]
fn an_unknown_version_is_a_usage_error_and_for_a_hook_an_answer() {
    let act = Act::new().without_engine().env("ACT_JSON_SCHEMA", "3");
    for arguments in [&["status", "--json"][..], &["status"], &["run", "x"], &["edit", "queue"]] {
        let told = act.clone().act(arguments.iter().copied()).status(2).stdout("");
        told.stderr_has("act: ACT_JSON_SCHEMA is \"3\", which is no version of the JSON")
            .stderr_has("hint: unset it");
    }
    act.clone().act(["--version"]).status(0);
    act.clone().env("ACT_JSON_SCHEMA", "").act(["queue", "--json"]).status(0).document("queue");
    act.clone().env("ACT_JSON_SCHEMA", "2").act(["queue", "--json"]).status(0).document("queue");
    let answer = act.act(["verify", "--hook", "claude"]).status(0).json();
    let said = answer["systemMessage"].as_str().unwrap();
    assert!(said.contains("not verified") && said.contains("ACT_JSON_SCHEMA"), "{answer}");
}

/// JSON-3, STORE-25
#[test]
fn head_and_dirty_are_those_of_now_and_of_a_task_those_of_its_start() {
    let act = Act::new()
        .without_engine()
        .file("answer.txt", "none\n")
        .file("agent.yaml", pipeline())
        .file(".gitignore", "ignored.txt\n");
    git(&act.repo(), &["init", "-q", "-b", "main"], "");
    git(&act.repo(), &["add", "-A"], "");
    git(&act.repo(), &["commit", "-q", "-m", "first"], "");
    let head = git(&act.repo(), &["rev-parse", "HEAD"], "").trim().to_owned();
    let repo = |act: &Act, name: &str| {
        let document = act.clone().act([name, "--json"]).status(0).document(name);
        let of = match name {
            "history" => document["tasks"][0]["repo"].clone(),
            _ => document["repo"].clone(),
        };
        (of["head"].clone(), of["dirty"].clone())
    };
    let act = act.file("ignored.txt", "x\n");
    assert_eq!(repo(&act, "status"), (json!(head), json!(false)), "an ignored file is no change");
    let turns =
        [opening("x"), vec![call("create", json!({"path": "x", "content": "x\n"})), done()]]
            .concat();
    act.clone().script(&script(turns.clone())).act(["run", "--dry-run", "x"]).status(0);
    assert_eq!(repo(&act, "history"), (json!(head), json!(false)));

    let act = act.file("new.txt", "not committed\n");
    assert_eq!(repo(&act, "queue"), (json!(head), json!(true)), "a new file is a change");
    assert_eq!(repo(&act, "history"), (json!(head), json!(false)), "the task began before");
    act.clone().script(&script(turns)).act(["run", "--dry-run", "x"]).status(0);
    assert_eq!(repo(&act, "history"), (json!(head), json!(true)));
    git(&act.repo(), &["add", "-A"], "");
    git(&act.repo(), &["commit", "-q", "-m", "second"], "");
    let (now, dirty) = repo(&act, "status");
    assert!(now != json!(head) && now.is_string(), "{now}");
    assert_eq!(dirty, json!(false));
    assert_eq!(repo(&act, "history"), (json!(head), json!(true)));
}

fn pipeline() -> String {
    json!({"verification": {"container_image": image(), "steps": [{"name": "test", "command": "true"}]}})
        .to_string()
}
