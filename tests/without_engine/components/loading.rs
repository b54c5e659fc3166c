//! What is wrong with an approved component is found before a task is accepted, and what is wrong with a query is tried three
//! times and has a hint of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use act_component::custom_section;
use serde_json::{Value, json};

use super::{approve, grants, need, packed, scout, sha256_of, stored, without_engine};
use crate::harness::Act;

/// Approves a Scout, and puts these bytes into its place, as a store of another version of act could hold them.
fn holding(bytes: &[u8]) -> Act {
    let act = without_engine().script("turns: []");
    let path = packed(&act, "../x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "probe", &[]).status(0);
    let sha256 = act_workspace::digest(bytes);
    let file = stored(&act, &sha256);
    fs::write(&file, bytes).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    by_hand(&act, |text| text.replace(&sha256_of(&path), &sha256));
    act
}

fn by_hand(act: &Act, change: impl Fn(&str) -> String) {
    let text = fs::read_to_string(grants(act)).unwrap();
    fs::write(grants(act), change(&text)).unwrap();
}

fn bare(file: &str) -> Vec<u8> {
    fs::read(Path::new(act_component::builtin::TEST_COMPONENTS).join(file)).unwrap()
}

/// The refusal of a task, of which nothing was accepted.
fn refused(act: &Act) -> String {
    let act = act.clone().pipeline("busybox:stable", &[("test", "true")]);
    for command in [["run", "x", "--json"], ["run", "--detach", "x"]] {
        let told = act.clone().act(command).status(1);
        assert!(told.requests().is_empty() && told.agent_files().is_empty(), "{told}");
    }
    let told = act.clone().act(["run", "x", "--json"]).status(1).json();
    assert_eq!(told["code"], "component_refused", "{told}");
    let history = act.clone().act(["history", "--json"]).status(0).json();
    assert_eq!(history["tasks"], json!([]), "{history}");
    told["message"].as_str().unwrap().to_owned()
}

// CAPABILITY-54
#[test]
fn a_missing_grant_is_found_before_a_task_is_accepted() {
    let act = without_engine().script("turns: []");
    let path = packed(&act, "../x.wasm", &scout("1", &[need("repo.read"), need("llm")]));
    approve(&act, &path, "probe", &[]).status(0);
    by_hand(&act, |text| {
        let llm = text.find("[component.grants.llm]").unwrap();
        let next = text[llm + 1..].find('[').map_or(text.len(), |next| llm + 1 + next);
        format!("{}{}", &text[..llm], &text[next..])
    });
    assert!(refused(&act).contains("agentcommand:model/chat"), "names the import");
}

// CAPABILITY-54
#[test]
fn the_world_of_another_kind_is_found_before_a_task_is_accepted() {
    let manifest = scout("1", &[need("repo.read")]).to_string();
    let act = holding(&custom_section::pack(&bare("hostile-tool.wasm"), manifest.as_bytes()));
    let message = refused(&act);
    assert!(message.contains("does not export the interface"), "{message}");
}

// CAPABILITY-54
#[test]
fn a_report_schema_that_cannot_be_used_is_found_before_a_task_is_accepted() {
    let mut manifest = scout("1", &[need("repo.read")]);
    manifest["report"] = json!({"type": "nothing"});
    let act =
        holding(&custom_section::pack(&bare("hostile.wasm"), manifest.to_string().as_bytes()));
    let message = refused(&act);
    assert!(message.contains("the schema of its report cannot be used"), "{message}");
}

// CLI-60, SCOUT-11
#[test]
fn a_query_that_fails_has_three_attempts_and_the_hint_of_its_failure() {
    let act = without_engine().script("turns: []");
    let path = packed(&act, "../x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "probe", &[]).status(0);
    let act = act.file("log", "5");
    let mut hints = vec![];
    for question in ["unreachable", "allocate", "long-report"] {
        let asked = ["scout", "probe", question, "--log", "log", "--json"];
        let failed: Value = act.clone().act(asked).status(4).json();
        assert_eq!(failed["code"], "scout_failed", "{question}: {failed}");
        let message = failed["message"].as_str().unwrap();
        assert!(message.contains("after 3 attempts"), "{question}: {message}");
        let hint = failed["hint"].as_str().unwrap().to_owned();
        assert!(!hint.contains("scout_query"), "{question}: {hint}");
        hints.push(hint);
    }
    hints.sort();
    hints.dedup();
    assert_eq!(hints.len(), 3, "each failure has its own: {hints:#?}");
}
