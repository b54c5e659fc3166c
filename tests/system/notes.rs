//! The directory of act's notes, where the user has a directory of that name.

use serde_json::{Value, json};

use crate::harness::script::{call, done, opening, script};
use crate::harness::{Act, image};

/// Turns that create `path` and verify it.
fn creating(path: &str) -> String {
    let create = call("create", json!({"path": path, "content": "x = 1\n"}));
    let turns = opening("write it").into_iter().chain([create, call("verify", json!({})), done()]);
    script(turns)
}

/// WORKSPACE-57: a repository whose own package is `agent/`.
#[test]
fn a_package_called_agent_is_worked_on_and_the_notes_go_elsewhere() {
    let act = Act::new()
        .files(&[("answer.txt", "none\n"), ("agent/main.py", "y = 1\n")])
        .pipeline(image(), &[("test", "test -e agent/new.py && test -e agent/main.py")]);
    let told = act.clone().script(&creating("agent/new.py")).act(["run", "--json", "add it"]);
    let told = told.status(0).stderr_has("agent/ is yours, so act keeps its notes in .act/");
    let told = told.stderr_has("added the line `/.act/` to .gitignore");
    assert_eq!(told.read("agent/new.py"), "x = 1\n");
    let (lines, summary) = (told.stdout_text(), told.read(".act/summary.md"));
    let started = lines.lines().find(|line| line.contains("task_started")).unwrap();
    let started: Value = serde_json::from_str(started).unwrap();
    assert_eq!(started["notes_dir"], ".act");
    assert!(
        summary.contains("## Written by act itself\n\n- `.gitignore (the line /.act/)`"),
        "{summary}"
    );
    assert_eq!(told.agent_files(), ["main.py", "new.py"]);
    assert_eq!(
        (told.read(".gitignore"), told.read(".act/.gitignore")),
        ("/.act/\n".into(), "*\n".into())
    );
    let status = act.clone().act(["status", "--json"]).status(0).json();
    assert_eq!(status["notes_dir"], ".act");
    act.act(["doctor"]).stdout_has("act keeps its notes in .act/");
}

/// WORKSPACE-32: a nested directory of that name is the user's, for git and for the container.
#[test]
fn a_nested_directory_called_agent_reaches_the_container() {
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "test -e src/agent/new.py")]);
    let told = act.script(&creating("src/agent/new.py")).run("add it").status(0);
    assert_eq!(told.read(".gitignore"), "/agent/\n");
    assert_eq!(told.agent_files().len(), 4, "{:?}", told.agent_files());
}

/// WORKSPACE-57
#[test]
fn a_repository_that_has_both_directories_is_refused_with_their_paths() {
    let act = Act::new()
        .files(&[("agent/main.py", "x\n"), (".act/settings", "x\n")])
        .pipeline(image(), &[("test", "true")]);
    let told = act.clone().script("turns: []").run("x").status(1).stderr_has("agent and .act in");
    assert!(told.requests().is_empty());
    let status = act.act(["status", "--json"]).status(0).json();
    assert_eq!(status["notes_dir"], Value::Null);
}

/// CONFIG-17, WORKSPACE-32
#[test]
fn no_line_is_added_where_the_repository_forbids_it() {
    let act = Act::new().file("answer.txt", "none\n").pipeline(image(), &[("test", "true")]);
    let yaml = std::fs::read_to_string(act.repo().join("agent.yaml")).unwrap();
    let mut yaml: Value = serde_json::from_str(&yaml).unwrap();
    yaml["gitignore"] = json!(false);
    let act = act.file("agent.yaml", yaml.to_string());
    let told = act.script(&creating("a.py")).run("add it").status(0);
    assert!(!told.repo().join(".gitignore").exists(), "{told}");
    assert_eq!(told.read("agent/.gitignore"), "*\n");
}

/// WORKSPACE-32: the line of act 0.1.0 is left alone; `doctor` names what it hides.
#[test]
fn what_the_line_of_the_first_version_hides_is_named() {
    let act = Act::new()
        .files(&[(".gitignore", "agent/\n"), ("src/agent/main.py", "x\n")])
        .pipeline(image(), &[("test", "true")])
        .script("turns: []");
    let told = act.clone().act(["doctor"]);
    let told = told.stdout_has("hides src/agent/ from git").stdout_has("write `/agent/` instead");
    assert_eq!(told.read(".gitignore"), "agent/\n");
}
