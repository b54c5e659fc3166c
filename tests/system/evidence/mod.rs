//! Evidence that travels: `act audit export --in-toto` and `act verify-claim`.

mod claims;
mod export;
mod forged;
mod signed;

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Act, Done, image};

fn repository(steps: &[(&str, &str)]) -> Act {
    Act::new().file("answer.txt", "right\n").pipeline(image(), steps)
}

fn verified(act: &Act, exit: i32) -> Value {
    act.clone().act(["verify", "--json", "--fresh"]).status(exit).json()
}

fn claim(act: &Act, run: &str, exit: i32) -> Value {
    act.clone().act(["verify-claim", run, "--json"]).status(exit).document("verify-claim")
}

/// The code with which a claim is refused; nothing ran and nothing was recorded.
fn refused(act: &Act, run: &str) -> String {
    let before = (runs(act), fs::read(act.audit_log()).unwrap());
    let told = act.clone().act(["verify-claim", run, "--json"]).status(1);
    let refusal = told.json();
    assert_eq!(refusal["type"], "refused", "{told}");
    assert!(before == (runs(act), fs::read(act.audit_log()).unwrap()), "{told}");
    refusal["code"].as_str().unwrap().to_owned()
}

fn runs(act: &Act) -> usize {
    fs::read_dir(act.artifacts().join("runs")).unwrap().count()
}

fn manifest(act: &Act, run: &str) -> PathBuf {
    act.artifacts().join("runs").join(run).join("manifest.json")
}

fn export(act: &Act, run: &str, exit: i32) -> Done {
    act.clone().act(["audit", "export", "--in-toto", run, "--json"]).status(exit)
}

/// The code with which an export is refused.
fn unproved(act: &Act, run: &str) -> String {
    let refusal = export(act, run, 1).json();
    refusal["code"].as_str().unwrap().to_owned()
}

fn proved(act: &Act, run: &str) -> Value {
    export(act, run, 0).document("audit-export")
}

/// `text` in which one value was put in place of another, as JSON.
fn with(text: &str, at: &str, value: Value) -> String {
    let mut document: Value = serde_json::from_str(text).unwrap();
    *document.pointer_mut(at).unwrap() = value;
    document.to_string()
}

fn fields(check: &Value) -> Vec<&str> {
    let all = check["differences"].as_array().unwrap();
    all.iter().map(|one| one["field"].as_str().unwrap()).collect()
}

fn notes(check: &Value) -> Vec<&str> {
    let all = check["notes"].as_array().unwrap();
    all.iter().map(|one| one["code"].as_str().unwrap()).collect()
}

fn run_id(response: &Value) -> &str {
    response["run_id"].as_str().unwrap()
}

fn resource<'a>(statement: &'a Value, name: &str) -> &'a Value {
    let all = statement["predicate"]["configuration"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {statement:#}"))
}
