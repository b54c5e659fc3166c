//! Components that differ from their approval: other bytes, a revoked approval, and grants that somebody else could
//! have written.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{
    approve, asking, components, grants, need, packed, scout, sha256_of, state_of, stored,
    without_engine,
};

#[test]
fn security_line_39_a_flipped_byte_is_changed_and_nothing_comes_in_its_place() {
    // CAPABILITY-25, CAPABILITY-26
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    approve(&act, &path, "probe", &["--replaces", "scout-a"]).status(0);
    let sha256 = sha256_of(&path);
    let told = act.clone().script("turns: []").act(["scout", "a", "batch-list"]);
    // It is asked in the place of Scout A, and held to Scout A's report.
    told.status(4).stderr_has("schema_version");

    let file = stored(&act, &sha256);
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, &bytes).unwrap();
    let found = act_workspace::digest(&bytes);
    assert_eq!(state_of(&act, "probe"), "changed");
    for command in [&["scout", "a"][..], &["scout", "b"]] {
        let told = act.clone().script("turns: []").act(command.iter().copied()).status(1);
        let told = told.stderr_has(&sha256).stderr_has(&found).stderr_has("has changed");
        assert!(told.requests().is_empty(), "nothing was asked: {told}");
    }
    // Approving the same bytes again repairs the store.
    approve(&act, &path, "probe", &["--replaces", "scout-a"]).status(0);
    assert_eq!(state_of(&act, "probe"), "approved");
    fs::remove_file(&file).unwrap();
    assert_eq!(state_of(&act, "probe"), "missing");
    act.clone().script("turns: []").act(["scout", "a"]).status(1).stderr_has("not in the store");
}

#[test]
fn security_line_39_a_request_for_other_bytes_is_changed() {
    let (act, path) = asking(without_engine(), &json!({}));
    approve(&act, &path, "probe", &[]).status(0);
    let approved = sha256_of(&path);
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(state_of(&act, "probe"), "changed");
    let told = act.clone().script("turns: []").act(["run", "x"]).status(1);
    told.stderr_has(&approved).stderr_has(&sha256_of(&path)).stderr_has("has changed");
}

#[test]
fn revoking_takes_it_out_everywhere() {
    // CAPABILITY-36
    let (act, path) = asking(without_engine(), &json!({}));
    approve(&act, &path, "probe", &[]).status(0);
    act.clone().act(components(["revoke", "probe"])).status(0).stdout_has("Revoked probe");
    assert_eq!(state_of(&act, "probe"), "revoked");
    act.clone().script("turns: []").act(["run", "x"]).status(1).stderr_has("`probe` was revoked");
    act.clone().act(["scout", "probe"]).status(1).stderr_has("`probe` was revoked");
    act.clone().act(components(["revoke", "probe"])).status(1).stderr_has("revoked already");
    act.clone().act(components(["revoke", "other"])).status(1).stderr_has("no component `other`");
    act.clone().act(components(["revoke", "scout-a"])).status(1).stderr_has("is built in");
}

#[test]
fn what_is_decided_is_in_the_audit_log_and_so_is_what_was_decided_past_it() {
    // AUDIT-16, CAPABILITY-37
    let act = without_engine().script("turns: []");
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read"), need("llm")]));
    approve(&act, &path, "probe", &[]).status(0);
    act.clone().act(components(["narrow", "probe", "--drop", "llm"])).status(0);
    act.clone().act(["scout", "probe", "batch-list"]).status(0);
    act.clone().act(components(["revoke", "probe"])).status(0);
    let file = grants(&act);
    let text = fs::read_to_string(&file).unwrap();
    let by_hand: Vec<_> = text.lines().filter(|line| !line.starts_with("revoked_at")).collect();
    fs::write(&file, by_hand.join("\n")).unwrap();
    act.clone().act(["scout", "probe", "batch-list"]).status(0);
    let told = act.clone().act(["audit", "list", "--json"]).status(0);
    let log = told.json();
    let of_grants = |record: &&Value| {
        let event = record["event"].as_str().unwrap();
        event.starts_with("component_") || event == "grants_changed"
    };
    let records: Vec<_> = log["records"].as_array().unwrap().iter().filter(of_grants).collect();
    let events: Vec<_> = records.iter().map(|record| record["event"].as_str().unwrap()).collect();
    let wanted = [
        "component_approved",
        "component_approved",
        "component_loaded",
        "component_revoked",
        "grants_changed",
        "component_granted",
        "component_loaded",
    ];
    assert_eq!(events, wanted, "{log:#}");
    assert_eq!(records[0]["subject"]["sha256"], sha256_of(&path));
    assert!(records[0]["names"].to_string().contains("llm calls=32"), "{}", records[0]);
    assert!(!records[1]["names"].to_string().contains("llm calls"), "{}", records[1]);
    assert_eq!(records[4]["reason"], "changed_outside");
    act.clone().act(["audit", "verify"]).status(0);
}

#[test]
fn grants_that_somebody_else_could_have_written_stop_everything() {
    // CAPABILITY-23, security line 41
    let act = without_engine().script("turns: []");
    let path = packed(&act, "x.wasm", &scout("1", &[]));
    approve(&act, &path, "probe", &[]).status(0);
    let file = grants(&act);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    act.clone().act(["scout", "probe", "x"]).status(1).stderr_has("must be 0600 and owned by you");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("kind = \"scout\"", "kind = \"scout\"\nroot = true")).unwrap();
    act.clone()
        .act(["scout", "probe", "x"])
        .status(1)
        .stderr_has("grants.toml:7:1: unknown field `root`");
    fs::write(&file, &text).unwrap();
    // A configuration home inside of the repository grants nothing.
    let inside = act.repo().join("config/act");
    fs::create_dir_all(&inside).unwrap();
    fs::copy(&file, inside.join("grants.toml")).unwrap();
    let act = act.clone().env("XDG_CONFIG_HOME", act.repo().join("config"));
    act.act(["scout", "probe", "x"]).status(1).stderr_has("lies inside of the repository");
}
