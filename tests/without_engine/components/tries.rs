//! An approved component tries to exceed its grants.

use std::ffi::OsString;
use std::fs;

use serde_json::json;

use super::{approve, need, packed, scout, without_engine};
use crate::harness::Act;
use crate::harness::script::script;

#[test]
fn security_line_33_the_environment_is_what_was_granted() {
    // CAPABILITY-34
    let act = without_engine().script("turns: []").env("FOO", "bar").env("BAR", "foo");
    let surroundings = |act: &Act, name: &str| {
        let told = act.clone().act(["scout", name, "surroundings", "--json"]).status(0);
        told.json()["report"].clone()
    };
    let path = packed(&act, "x.wasm", &scout("1", &[]));
    approve(&act, &path, "bare", &[]).status(0);
    assert_eq!(surroundings(&act, "bare")["environment"], json!([]));
    let wanted = json!({"grant": "env", "why": "x", "names": ["FOO", "UNSET"]});
    let path = packed(&act, "y.wasm", &scout("2", &[wanted, need("clock"), need("random")]));
    approve(&act, &path, "probe", &[])
        .status(0)
        .stdout_has("env FOO UNSET, clock (coarse), random");
    let (first, second) = (surroundings(&act, "probe"), surroundings(&act, "probe"));
    assert_eq!(first["environment"], json!([["FOO", "bar"]]));
    // CAPABILITY-35, CLI-60
    let date = |name: &str| act.clone().act(["scout", name, "date", "--json"]);
    let known = date("probe").status(0).json();
    assert!(known["report"]["wall"].as_u64().unwrap() > 1_700_000_000, "{known}");
    let withheld = date("bare").status(4).json();
    let message = withheld["message"].as_str().unwrap();
    assert!(message.contains("it used `clock`, which is not granted"), "{withheld}");
    let hint = withheld["hint"].as_str().unwrap();
    assert!(hint.contains("grants") && !hint.contains("timeout"), "{withheld}");
    assert_ne!(first["random"], second["random"]);
    assert_eq!(first["insecure"], second["insecure"]);
    // The host's own key, under a name that was granted.
    let leaking = act
        .clone()
        .env("OPENAI_API_KEY", crate::harness::CANARY)
        .env("FOO", format!("Bearer {}", crate::harness::CANARY));
    assert_eq!(surroundings(&leaking, "probe")["environment"], json!([]));
    let told = leaking.act(["audit", "list", "--deny", "--json"]).status(0);
    told.stdout_has("FOO: it holds a key of the host");
    for never in ["ANTHROPIC_API_KEY", "AGENT_LLM_MODEL"] {
        let greedy = json!({"grant": "env", "why": "x", "names": [never]});
        let manifest = act.repo().parent().unwrap().join("manifest.json");
        fs::write(&manifest, scout("3", &[greedy]).to_string()).unwrap();
        let file = act.repo().join("x.wasm");
        let arguments = [
            "components".into(),
            "pack".into(),
            file.into_os_string(),
            "--manifest".into(),
            manifest.into(),
        ];
        act.clone().act::<OsString>(arguments).status(1).stderr_has("never granted");
    }
}

#[test]
fn security_line_35_a_component_with_a_model_chooses_neither_model_nor_address_nor_headers() {
    // The interface has no word for any of them.
    let interface = act_core::testing::checkout().join("wit/deps/model/model.wit");
    let text = fs::read_to_string(interface).unwrap();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("///"));
    let code: String = code.flat_map(|line| [line, "\n"]).collect();
    assert!(code.contains("next: func(max-tokens: option<u32>, output: option<json>)"), "{code}");
    for word in ["url", "header", "key", "endpoint", "model:", "temperature"] {
        assert!(!code.contains(word), "{word}");
    }
    let act = without_engine().file("log", "1");
    let path = packed(&act, "x.wasm", &scout("1", &[need("llm")]));
    approve(&act, &path, "probe", &[]).status(0);
    let turn = json!({"role": "probe", "text": "hello"});
    let told =
        act.script(&script([turn])).act(["scout", "probe", "chat", "--log", "log"]).status(0);
    let told = told.script_used_up();
    let request = &told.requests()[0];
    assert_eq!(request.body["model"], "scripted", "{told}");
    let said = request.body["messages"].to_string();
    assert!(said.contains("act role: probe") && said.contains("You are mine now."), "{said}");
    let known =
        ["host", "user-agent", "accept", "content-type", "content-length", "accept-encoding"];
    for (name, _) in &request.headers {
        assert!(known.contains(&name.as_str()), "{name}: {told}");
    }
}

/// Three attempts that never end are the end of the query, and of the command.
#[test]
fn security_line_15_a_scout_that_loops_for_ever_is_trouble_and_exit_code_4() {
    let yaml = json!({
        "verification": {"container_image": "x", "steps": [{"name": "test", "command": "true"}]},
        "timeouts": {"scout_query": 700},
    });
    let act = without_engine().script("turns: []").file("agent.yaml", yaml.to_string());
    let path = packed(&act, "../loops.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "probe", &[]).status(0);
    let before = fs::read_to_string(act.repo().join("answer.txt")).unwrap();
    let began = std::time::Instant::now();
    let told = act.clone().act(["scout", "probe", "loop", "--json"]).status(4);
    let failed = told.json();
    assert_eq!(failed["code"], "scout_failed", "{told}");
    assert!(failed["message"].as_str().unwrap().contains("after 3 attempts"), "{told}");
    // Three times the limit and the pauses between; generous, because machines are shared.
    assert!(began.elapsed().as_secs() < 60, "{told}");
    let list = act.clone().act(["audit", "list", "--deny", "--json"]).status(0).json();
    let ends: Vec<_> =
        list["records"].as_array().unwrap().iter().map(|record| &record["reason"]).collect();
    assert_eq!(ends, ["deadline"; 3], "{list:#}");
    assert_eq!(told.read("answer.txt"), before);
}
