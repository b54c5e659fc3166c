//! Whole sessions of `act acp`: tasks to their end, and the protocol's own SDK as the client.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::acp::Agent;
use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, image, json as documents, program};

fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt || { cat answer.txt; exit 1; }")])
}

/// ACP-20, ACP-22, ACP-23, ACP-30: `tests/acp/client.mjs` runs a task, follows it, cancels one, refuses a permission and loads a
/// past session. `scripts/test-acp` installs the SDK.
#[test]
fn the_published_sdk_runs_follows_cancels_refuses_and_loads() {
    let Some(sdk) = std::env::var_os("ACT_ACP_SDK").map(PathBuf::from) else {
        return act_core::testing::skip(
            "the SDK of the protocol is not installed: scripts/test-acp",
        );
    };
    let mut turns: Vec<Value> = opening("write it");
    turns.extend(attempt("right\n"));
    turns.push(done());
    turns.extend(opening("write the settings"));
    turns.push(call("create", json!({"path": ".vscode/settings.json", "content": "{}\n"})));
    turns.push(call("create", json!({"path": "note.txt", "content": "It is not allowed.\n"})));
    turns.extend([call("verify", json!({})), done()]);
    turns.push(json!({"role": "editor", "delay_ms": 600_000, "text": "too late"}));
    let act = repository().script(&script(turns));
    let repository = act.repo().canonicalize().unwrap();
    let mut client = Command::new("node");
    client.arg(sdk.join("client.mjs")).arg(program()).arg(&repository);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let told = act.env("PATH", path).start_command(client).wait().status(0);
    for story in [
        "ran a task and followed it",
        "cancelled a task",
        "refused a permission",
        "loaded a past session",
        "verified the tree",
    ] {
        assert!(told.stdout_text().contains(story), "{told}");
    }
}

/// ACP-32: what a person allowed through a client holds for that prompt, and not for a later `act apply`.
#[test]
fn a_guarded_path_that_only_a_client_allowed_is_refused_by_a_later_apply() {
    let mut turns = opening("write the settings");
    turns.push(call("create", json!({"path": ".vscode/settings.json", "content": "{}\n"})));
    turns.push(done());
    let act = repository().script(&script(turns));
    let mut agent = Agent::start(&act, &[]);
    let session = agent.session("dry_run");
    let prompt = agent.prompt(&session, "write the settings of the editor");
    let question = agent.question();
    agent.select(&question, "allow");
    let question = agent.question();
    agent.select(&question, "reject");
    agent.client.answer(prompt).unwrap();
    let said = agent.client.text();
    let (_, rest) = said.split_once("`act apply ").unwrap_or_else(|| panic!("{said}"));
    let task = rest.split('`').next().unwrap().to_owned();
    agent.end();

    act.clone().act(["apply", &task, "--show"]).status(0).stdout_has(".vscode/settings.json");
    let told = act.clone().script("turns: []").act(["apply", &task, "--json"]).status(1);
    let refusal = documents::lines(&told).pop().unwrap();
    assert!(refusal.to_string().contains(".vscode/settings.json"), "{refusal:#}");
    assert!(!act.repo().join(".vscode").exists());
}
