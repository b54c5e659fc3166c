//! `act scout --with FILE`: another component in the place of the one in use, alone or side by side with it.

use std::fs;
use std::path::{Path, PathBuf};

use act_component::{builtin, custom_section};
use serde_json::{Value, json};

use crate::harness::Act;
use crate::harness::components::{
    approve, components, need, packed, scout, sha256_of, without_engine,
};
use crate::harness::script::{asking, script};

/// The built-in Scout B in other bytes: the next version of its author.
fn next_version(act: &Act) -> PathBuf {
    let bytes = builtin::SCOUT_B.bytes;
    let path = act.repo().parent().unwrap().join("next.wasm");
    let manifest = act_core::testing::checkout().join("components/scout-b/manifest.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(manifest).unwrap()).unwrap();
    manifest["version"] = json!("0.2.0");
    let text = manifest.to_string();
    fs::write(&path, act_component::pack_manifest(bytes, text.as_bytes()).unwrap()).unwrap();
    path
}

/// A turn in which Scout B reports, with this command for the tests.
fn report(command: &str) -> Value {
    let mut turn = asking("").remove(2);
    turn["call"]["arguments"]["test"]["commands"]["all"] = json!(command);
    turn
}

fn compared(path: &Path, more: &[&str]) -> Vec<String> {
    let words = ["scout", "b", "how is it tested", "--with", path.to_str().unwrap(), "--compare"];
    words.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

/// CAPABILITY-42, CAPABILITY-43
#[test]
fn two_components_answer_one_question_and_the_difference_is_told() {
    let act = without_engine();
    let path = next_version(&act);
    approve(&act, &path, "candidate", &["--here"]).status(0);
    let turns = || script([report("pytest -x"), report("pytest -q")]);
    let told = act.clone().script(&turns()).act(compared(&path, &["--json"])).status(0);
    let told = told.script_used_up();
    let found = told.document("scout-compare");
    assert_eq!((&found["scout"], &found["question"]), (&json!("b"), &json!("how is it tested")));
    assert_eq!(
        found["differences"],
        json!([{"field": "test.commands.all", "installed": "pytest -x", "with": "pytest -q"}])
    );
    let (installed, with) = (&found["installed"], &found["with"]);
    assert_eq!(
        (&installed["name"], &installed["sha256"]),
        (&json!("scout-b"), &json!(builtin::SCOUT_B.sha256))
    );
    assert_eq!((&with["name"], &with["sha256"]), (&json!("candidate"), &json!(sha256_of(&path))));
    for side in [installed, with] {
        assert_eq!((&side["attempts"], &side["model_calls"]), (&json!(1), &json!(1)), "{side}");
        assert!(side["memory_bytes"].as_u64() > Some(100_000), "{side}");
        assert!(side["tokens"]["scout-b"]["input"].as_u64() > Some(0), "{side}");
        assert!(side["error"].is_null() && side["summary"].is_string());
        assert!(side["warning"].is_null(), "{side}");
    }
    let asked = told.requests();
    assert_eq!(asked.len(), 2);
    for request in &asked {
        assert!(request.body.to_string().contains("how is it tested"));
        assert!(request.body.to_string().contains("act role: scout-b"));
    }
    // The log says which bytes answered, and within which rights.
    let list = act.clone().act(["audit", "list", "--json"]).status(0).json();
    let queries: Vec<_> = list["records"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["event"] == "query")
        .map(|record| (record["subject"]["name"].clone(), record["subject"]["sha256"].clone()))
        .collect();
    assert_eq!(
        queries,
        [
            (json!("scout-b"), json!(builtin::SCOUT_B.sha256)),
            (json!("scout-b"), json!(sha256_of(&path)))
        ]
    );
    let told = act.clone().script(&turns()).act(compared(&path, &[])).status(0).inert();
    let told = told.stdout_has("1 differences").stdout_has("test.commands.all: ");
    let told = told.stdout_has("\"pytest -x\", \"pytest -q\"").stdout_has("MiB of memory");
    // Both have the role of Scout B; the output says which one is queried.
    told.stderr_has("installed asks scout-b ").stderr_has("with asks candidate ");
    let same = script([report("true"), report("true")]);
    act.clone()
        .script(&same)
        .act(compared(&path, &[]))
        .status(0)
        .stdout_has("The reports say the same");
    // Alone, in the other one's place.
    let words = ["scout", "b", "x", "--json", "--with", path.to_str().unwrap()];
    let answer = act.clone().script(&script([report("true")])).act(words).status(0).json();
    assert_eq!(answer["sha256"], sha256_of(&path));
}

/// CAPABILITY-42, SCOUT-11: a candidate whose reports do not hold is no healthy one, although its facts make a report.
#[test]
fn a_candidate_that_falls_back_to_facts_is_named() {
    let act = without_engine();
    let path = next_version(&act);
    approve(&act, &path, "candidate", &["--here"]).status(0);
    let mut bad = report("pytest -q");
    bad["call"]["arguments"]["test"]["commands"] = json!(7);
    let turns = script([report("pytest -x"), json!({"repeat": 9, "turns": [bad]})]);
    let told = act.clone().script(&turns).act(compared(&path, &["--json"])).status(0);
    let found = told.document("scout-compare");
    assert!(found["installed"]["warning"].is_null(), "{found}");
    let warning = found["with"]["warning"].as_str().unwrap();
    assert!(warning.starts_with("scout_facts_only: "), "{found}");
    let told = act.clone().script(&turns).act(compared(&path, &[])).status(0);
    told.stdout_has("scout_facts_only: ");
}

/// CAPABILITY-42, security lines 39 and 41: naming a file grants it nothing.
#[test]
fn only_bytes_that_were_approved_here_are_asked() {
    let act = without_engine().script("turns: []");
    let path = next_version(&act);
    let refused = |act: &Act| {
        let told = act.clone().act(compared(&path, &["--json"])).status(1);
        assert!(told.requests().is_empty(), "{told}");
        let list = act.clone().act(["audit", "list", "--json"]).status(0).json();
        let loaded = |record: &&Value| record["event"] == "component_loaded";
        assert_eq!(list["records"].as_array().unwrap().iter().filter(loaded).count(), 0, "{list}");
        told.json()
    };
    let refusal = refused(&act);
    assert_eq!(refusal["code"], "component_unapproved");
    // The command that is named is the one that approves it, here.
    let hint = refusal["hint"].as_str().unwrap();
    let command = hint.rsplit_once("act components ").unwrap().1.replace("NAME", "candidate");
    assert!(command.ends_with("--here"), "{hint}");
    let words = ["components"].into_iter().chain(command.split_whitespace());
    act.clone().act(words).status(0);
    // One byte more, and it is something else.
    let whole = fs::read(&path).unwrap();
    fs::write(&path, custom_section::pack(&whole, b"x")).unwrap();
    assert_eq!(refused(&act)["code"], "component_unapproved");
    fs::write(&path, &whole).unwrap();
    // Approved for here, and not elsewhere.
    let elsewhere = act.repo().parent().unwrap().join("other");
    fs::create_dir_all(elsewhere.join(".git")).unwrap();
    assert_eq!(refused(&act.clone().within(elsewhere))["code"], "component_unapproved");
    // Nobody takes part whom the administrator denies what it needs.
    let policy = act.repo().parent().unwrap().join("policy.toml");
    fs::write(&policy, "deny = [\"llm\"]\n").unwrap();
    let denied = act.clone().env("ACT_POLICY_FILE", &policy);
    assert_eq!(refused(&denied)["code"], "component_refused");
    act.clone().act(components(["revoke", "candidate"])).status(0);
    assert_eq!(refused(&act)["code"], "component_revoked");

    fs::write(&path, "no component").unwrap();
    assert_eq!(refused(&act)["code"], "component_unapproved");
    fs::remove_file(&path).unwrap();
    assert_eq!(refused(&act)["code"], "component_unreadable");
    act.clone().act(["scout", "b", "x", "--compare"]).status(2);
    act.clone().act(["scout", "b", "--facts", "--with", "x.wasm"]).status(2);
}

/// CAPABILITY-43: a candidate that fails is a result, shown beside the report of the other.
#[test]
fn a_component_that_traps_is_compared_as_well() {
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "trap", &[]).status(0);
    let told = act
        .clone()
        .script(&script([report("true")]))
        .act(
            ["scout", "b", "unreachable", "--compare", "--json", "--with"]
                .map(String::from)
                .into_iter()
                .chain([path.to_str().unwrap().to_owned()]),
        )
        .status(4);
    let found = told.document("scout-compare");
    assert!(found["installed"]["report"].is_object(), "{found:#}");
    assert_eq!((&found["differences"], &found["with"]["report"]), (&Value::Null, &Value::Null));
    assert_eq!(found["with"]["attempts"], 3, "{found:#}");
    assert!(found["with"]["error"].as_str().unwrap().contains("3 attempts"), "{found:#}");
    assert_eq!(found["with"]["tokens"], json!({}));
}
