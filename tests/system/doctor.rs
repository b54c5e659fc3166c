//! `act doctor`: what is missing, and how to get it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use act_testing::Wire;
use serde_json::{Value, json};

use crate::harness::{Act, Done, image};

const STEPS: &[(&str, &str)] = &[("test", "true")];

fn document(told: &Done) -> Value {
    let document = told.document("doctor");
    for check in document["checks"].as_array().unwrap() {
        assert!(check["level"] != "red" || check["fix"].is_string(), "DOCTOR-2: {check}");
    }
    document
}

fn check(document: &Value, name: &str) -> Value {
    let checks = document["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document}")).clone()
}

#[test]
fn a_machine_that_can_work_has_no_red_line_and_nothing_is_left_behind() {
    // DOCTOR-1, DOCTOR-3
    let act = Act::new().pipeline(image(), STEPS).script("turns: []");
    let told = act.act(["doctor", "--json"]).status(0).stderr("");
    let document = document(&told);
    assert_eq!(document["healthy"], true);
    assert!(check(&document, "engine")["message"].as_str().unwrap().contains("docker "), "{told}");
    assert!(
        check(&document, "image")["message"].as_str().unwrap().contains("is present"),
        "{told}"
    );
    assert_eq!(document["excluded"], Value::Null);
    assert!(told.requests().is_empty() && told.agent_files().is_empty(), "{told}");
    assert!(!told.repo().parent().unwrap().join("artifacts").exists(), "{told}");
}

#[test]
fn what_is_missing_is_red_with_its_fix_and_exit_code_1() {
    // DOCTOR-2, DOCTOR-3
    let told = Act::new().without_engine().act(["doctor", "--json"]).status(1);
    let document = document(&told);
    assert_eq!(document["healthy"], false);
    for (name, word) in [("repository", "act init"), ("engine", "start"), ("model", "AGENT_LLM_")] {
        let check = check(&document, name);
        assert_eq!(check["level"], "red", "{check}");
        assert!(check["fix"].as_str().unwrap().contains(word), "{check}");
    }
    let text = Act::new().without_engine().act(["doctor"]).status(1).inert();
    text.stdout_has("RED  repository").stdout_has("fix: ").stdout_has("/nonexistent/docker.sock");
}

#[test]
fn a_key_is_told_to_be_there_and_never_shown() {
    // DOCTOR-5, security line 162
    let act = Act::new().pipeline(image(), STEPS).without_engine().script("turns: []");
    let told = act.env("OPENAI_API_KEY", "sk-canary-123").act(["doctor"]).status(1);
    let told = told.stdout_has("OPENAI_API_KEY holds a key").stdout_has("with a key");
    assert!(!told.stdout_text().contains("canary"), "{told}");
}

/// DOCTOR-3: what a task refuses, the doctor says, in the same words; and nothing is changed by looking.
#[test]
fn the_doctor_and_a_task_agree() {
    type Prepare = fn(&Act);
    let place = |act: &Act, name: &str| act.repo().parent().unwrap().join(name);
    let cases: [(&str, &str, Prepare); 8] = [
        ("grants", "needs approval", |act| {
            let asked = json!({"name": "theirs", "path": "x.wasm", "sha256": "0".repeat(64), "kind": "scout"});
            let steps = json!([{"name": "test", "command": "true"}]);
            let verification = json!({"container_image": image(), "steps": steps});
            let yaml = json!({"verification": verification, "components": [asked]});
            fs::write(act.repo().join("agent.yaml"), yaml.to_string()).unwrap();
        }),
        ("ca_bundle", "ca.pem holds no certificate", |act| {
            let bundle = act.repo().join("ca.pem");
            fs::write(&bundle, "none").unwrap();
            let steps = json!([{"name": "test", "command": "true"}]);
            let verification =
                json!({"container_image": image(), "steps": steps, "ca_bundle": bundle});
            let yaml = json!({"verification": verification});
            fs::write(act.repo().join("agent.yaml"), yaml.to_string()).unwrap();
        }),
        ("agent_dir", "agent and .act in", |act| {
            std::os::unix::fs::symlink("/tmp", act.repo().join("agent")).unwrap();
            std::os::unix::fs::symlink("/tmp", act.repo().join(".act")).unwrap();
        }),
        ("agent_dir", "hold files of yours", |act| {
            fs::write(act.repo().join("agent"), "x").unwrap();
            fs::write(act.repo().join(".act"), "x").unwrap();
        }),
        ("artifacts", "is not a directory, or lies below a file", |act| {
            fs::write(act.artifacts(), "x").unwrap();
        }),
        ("artifacts", "cannot be used", |act| {
            fs::create_dir(act.artifacts()).unwrap();
            fs::write(act.artifacts().join("runs"), "x").unwrap();
        }),
        ("store", "not an SQLite database", |act| {
            fs::create_dir_all(act.artifacts().join("state")).unwrap();
            fs::write(act.artifacts().join("state/act.db"), "garbage".repeat(1000)).unwrap();
        }),
        ("store", "is a directory, not the database", |act| {
            fs::create_dir_all(act.artifacts().join("state/act.db")).unwrap();
        }),
    ];
    for (name, words, prepare) in cases {
        let act = Act::new().pipeline(image(), STEPS).script("turns: []");
        prepare(&act);
        let before = fs::read_dir(place(&act, ".")).unwrap().count();
        let told = act.clone().act(["doctor", "--json"]).status(1);
        assert_eq!(before, fs::read_dir(place(&act, ".")).unwrap().count(), "{told}");
        let check = check(&document(&told), name);
        assert_eq!(check["level"], "red", "{words}: {told}");
        let message = check["message"].as_str().unwrap().to_owned();
        assert!(message.contains(words), "{message}");
        act.run("fix").status(1).stderr_has(&format!("act: {message}\n"));
    }
}

/// DOCTOR-9
#[test]
fn a_silent_server_is_announced_and_keeps_no_other_check_back() {
    let silent = json!({"role": "doctor", "text": "thinking", "stall_after_bytes": 20});
    let act = Act::new().pipeline(image(), STEPS).script(&json!({"turns": [silent]}).to_string());
    let running = act.start(["doctor", "--model"]);
    running.until_stdout_has("artifacts");
    running.until_stderr_has("Asking the model (at most 60 s)...");
    running.kill();
    assert_eq!(running.wait().killed_by(), Some(9));
}

#[test]
fn a_cache_that_others_may_write_is_noted() {
    // DOCTOR-4, DOCTOR-6
    let act = Act::new().without_engine();
    let cache = act.repo().parent().unwrap().join("cache");
    let components = cache.join("agent-command-tool/components");
    fs::create_dir_all(&components).unwrap();
    fs::set_permissions(&components, fs::Permissions::from_mode(0o777)).unwrap();
    let told = act.env("XDG_CACHE_HOME", cache).act(["doctor", "--json"]).status(1);
    let components = check(&document(&told), "components");
    assert_eq!(components["level"], "note");
    assert!(components["fix"].as_str().unwrap().contains("chmod 700"), "{components}");
}

#[test]
fn steps_that_only_install_or_build_are_suggested_for_prepare() {
    // DOCTOR-4
    let noted = |act: Act| {
        let told = act.without_engine().act(["doctor", "--json"]);
        let document = document(&told);
        let checks = document["checks"].as_array().unwrap().iter();
        let fixes = checks.filter(|check| check["level"] == "note");
        let mut found = fixes.filter(|check| {
            check["fix"].as_str().is_some_and(|fix| fix.contains("verification.prepare"))
        });
        found.next().map(|check| check["message"].as_str().unwrap().to_owned())
    };
    let [install, build, test] = ["npm ci", "npm run build", "npm test"];
    let steps = [("install", install), ("build", build), ("test", test)];
    let message = noted(Act::new().pipeline(image(), &steps)).unwrap();
    assert!(message.starts_with("\"install\", \"build\" of verification.steps"), "{message}");
    assert_eq!(noted(Act::new().pipeline(image(), &[("test", test), ("build", build)])), None);
    let yaml = json!({"verification": {
        "container_image": image(),
        "prepare": [{"name": "install", "command": install}],
        "steps": [{"name": "build", "command": build}, {"name": "test", "command": test}],
    }});
    assert_eq!(noted(Act::new().file("agent.yaml", yaml.to_string())), None);
}

#[test]
fn one_real_call_tells_what_the_model_can_do() {
    // DOCTOR-7
    for (wire, address, key) in [
        (Wire::ChatCompletions, "AGENT_LLM_BASE_URL", "OPENAI_API_KEY"),
        (Wire::Messages, "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        (Wire::Responses, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    ] {
        let story = |turn: Value| {
            let script = json!({ "turns": [turn] }).to_string();
            let act = Act::new().without_engine().script_over(wire, &script);
            let told = act.act(["doctor", "--model", "--json"]);
            assert_eq!(told.requests().len(), 1, "{told}");
            let check = check(&document(&told), "model_call");
            let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            (text("level"), text("message"), text("fix"))
        };
        let call = json!({"name": "answer", "arguments": {"word": "ready"}});
        let fine = story(json!({"role": "doctor", "call": call}));
        assert_eq!(fine.0, "ok", "{wire:?}: {fine:?}");
        let text = story(json!({"role": "doctor", "text": "{\"name\": \"answer\"}"}));
        assert!(text.1.contains("as text"), "{wire:?}: {text:?}");
        for (status, word) in [(404, address), (401, key), (500, "log")] {
            let refused = story(json!({"role": "doctor", "status": status}));
            assert!(refused.1.contains(&status.to_string()), "{wire:?}: {refused:?}");
            assert!(refused.2.contains(word), "{wire:?}: {refused:?}");
        }
        let page = json!({"content-type": "text/html"});
        let page = json!({"role": "doctor", "status": 200, "headers": page, "body": "<html>hello"});
        let foreign = story(page);
        assert!(foreign.1.contains("text/html") && foreign.2.contains(address), "{foreign:?}");
    }
}

#[test]
fn without_a_git_index_nothing_tracked_is_hidden() {
    // DOCTOR-8
    let told = Act::new().file(".env", "A=1").without_engine().act(["doctor", "--excluded"]);
    told.status(1).stdout_has("Scouts can see every tracked file.");
}
