//! An approval is the user's, for these bytes, these needs and these places.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use super::{
    approve, asking, components, grants, need, packed, packed_unchecked, scout, sha256_of,
    state_of, stored, tool, without_engine,
};

#[test]
fn security_line_41_a_repository_only_asks() {
    // CAPABILITY-27
    let (act, path) = asking(without_engine(), &json!({}));
    // It also ships what would be grants if it had a say.
    let act = act
        .file("act/grants.toml", "[[component]]\nname = \"probe\"\n")
        .file(".config/act/grants.toml", "[[component]]\nname = \"probe\"\n");
    let told = act.clone().script("turns: []").act(["run", "x", "--json"]).status(1);
    let refusal = told.json();
    assert_eq!(refusal["code"], "component_unapproved", "{told}");
    assert!(told.requests().is_empty() && told.agent_files().is_empty(), "{told}");
    assert!(!grants(&act).exists() && told.runs().is_empty(), "nothing appeared: {told}");
    // But its record: what was asked for, and that it was refused.
    let denied = act.clone().act(["audit", "list", "--deny", "--json"]).status(0).json();
    let record = &denied["records"][0];
    assert_eq!(
        (&record["event"], &record["reason"]),
        (&json!("component_refused"), &refusal["code"])
    );
    assert_eq!(record["subject"]["sha256"], sha256_of(&path));
    assert_eq!(state_of(&act, "probe"), "unapproved");

    // The command that is named is the one that approves it.
    let hint = refusal["hint"].as_str().unwrap();
    let command = hint.rsplit_once("act components ").unwrap().1;
    assert!(command.contains(path.to_str().unwrap()), "{hint}");
    let words = std::iter::once("components").chain(command.split_whitespace());
    act.clone().act(words).status(0);
    assert_eq!(state_of(&act, "probe"), "approved");
    let told = act.clone().script("turns: []").act(["run", "x"]).status(1);
    told.stderr_has("Docker unavailable");
}

#[test]
fn security_line_48_an_approval_needs_somebody_who_looked() {
    // CAPABILITY-21
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    let path = path.to_str().unwrap();
    let told = act.clone().act(components(["approve", path, "--name", "probe"])).status(1);
    let sha256 = sha256_of(Path::new(path));
    told.stderr_has(&format!("hint: add --sha256 {sha256}"))
        .stderr_has("repo.read: for a test")
        .inert();
    let wrong = "0".repeat(64);
    let told =
        act.clone().act(components(["approve", path, "--name", "probe", "--sha256", &wrong]));
    told.status(1).stderr_has(&sha256).stderr_has("the file has");
    assert!(!grants(&act).exists() && !stored(&act, &sha256).exists());

    approve(&act, Path::new(path), "probe", &[]).status(0).stdout_has("Approved probe: repo.read");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&grants(&act)), mode(&stored(&act, &sha256))), (0o600, 0o600));
}

#[test]
fn security_line_44_a_new_version_is_approved_anew_and_its_difference_is_shown() {
    // CAPABILITY-21
    let act = without_engine();
    let first = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &first, "probe", &[]).status(0);
    let before = sha256_of(&first);
    let llm = json!({"grant": "llm", "why": "to talk"});
    let second = packed(&act, "y.wasm", &scout("2", &[need("repo.read"), llm]));
    let path = second.to_str().unwrap();
    let told = act.clone().act(components(["approve", path, "--name", "probe"])).status(1);
    told.stderr_has(&format!("Differs from sha256 {before} (1)"))
        .stderr_has("+ needs llm: to talk");
    // The first component is still approved, with its grants.
    let show = act.clone().act(components(["show", "probe", "--json"])).status(0);
    let shown = show.document("components-show");
    assert_eq!(shown["component"]["sha256"], before);
    assert_eq!(shown["component"]["grants"].get("llm"), None, "{shown:#}");
    let told = approve(&act, &second, "probe", &["--json"]).status(0);
    let document = told.document("components-approve");
    assert_eq!(document["difference"]["before"], before);
    assert_eq!(document["component"]["sha256"], sha256_of(&second));
    assert_eq!(document["component"]["grants"]["llm"]["calls"], 32);
}

#[test]
fn security_line_49_needs_that_do_not_fit_the_imports_are_refused() {
    let act = without_engine();
    // The tool imports `repo/edit` and does not say so.
    let mut sly = tool();
    sly["needs"] = json!([need("repo.read")]);
    let path = packed(&act, "x.wasm", &sly);
    let told = approve(&act, &path, "probe", &[]).status(1);
    told.stderr_has("agentcommand:repo/edit@1.5.0 (grant `repo.write`)")
        .stderr_has("without declaring");
    let path = packed_unchecked(&act, "y.wasm", &scout("1", &[need("shell")]));
    approve(&act, &path, "probe", &[]).status(1).stderr_has("`shell`, which is not a grant");
    let unused = json!({"grant": "http", "why": "x", "origins": ["https://api.example.com"]});
    let path = packed(&act, "z.wasm", &scout("1", &[unused]));
    approve(&act, &path, "probe", &[]).status(1).stderr_has("needs `http` but imports nothing");
    assert!(!grants(&act).exists());
    let told = act.clone().act(components(["inspect", path.to_str().unwrap(), "--json"])).status(0);
    let document = told.document("components-inspect");
    assert!(document["problem"].as_str().unwrap().contains("http"), "{document:#}");
}

#[test]
fn an_approval_for_here_holds_nowhere_else() {
    // CAPABILITY-28
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[]));
    approve(&act, &path, "probe", &["--here"]).status(0);
    act.clone().script("turns: []").act(["scout", "probe", "batch-list"]).status(0);
    let elsewhere = act.repo().parent().unwrap().join("other");
    fs::create_dir_all(elsewhere.join(".git")).unwrap();
    let told = act.clone().within(elsewhere).script("turns: []").act(["scout", "probe", "x"]);
    told.status(1).stderr_has("no Scout `probe` is approved here");
}

#[test]
fn only_a_place_of_our_own_is_replaced_and_only_by_its_kind() {
    // CAPABILITY-29
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[]));
    approve(&act, &path, "scout-a", &[]).status(1).stderr_has("reserved");
    approve(&act, &path, "probe", &["--replaces", "file-tools"])
        .status(1)
        .stderr_has("cannot replace");
    approve(&act, &path, "probe", &["--replaces", "nobody"])
        .status(2)
        .stderr_has("the built-in components are");
    // The user decides whether a component replaces another one, not the repository.
    let (act, path) = asking(without_engine(), &json!({"replaces": "scout-b"}));
    approve(&act, &path, "probe", &[]).status(0);
    let told = act.clone().script("turns: []").act(["run", "x"]).status(1);
    told.stderr_has("to replace `scout-b`").stderr_has("--replaces scout-b");
}
