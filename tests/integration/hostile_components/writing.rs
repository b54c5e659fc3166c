//! A component tries to create, change, delete and move files.

use act_component::{Grant, RepoRead, Services};
use act_core::event::Events;
use serde_json::Value;

use crate::hostile::{
    Heard, Repository, attack, attack_as_tool, editing, load, load_tool, load_tool_with, reading,
};

/// Asserts that every operation was tried and its denial reported.
fn every_change_failed(outcomes: &Value, heard: &Heard) {
    let tried = outcomes.as_object().unwrap();
    assert!(tried.len() >= 24, "every attack ran: {outcomes:#}");
    assert!(tried.values().all(|outcome| outcome["error"].is_string()), "{outcomes:#}");
    assert!(heard.denials().iter().any(|(grant, _)| grant == "repo.write"));
}

// security lines 2 and 3: the writing grant opens `repo.edit` and nothing else, so there is no side to link to
#[tokio::test]
async fn security_line_2_a_tool_that_may_write_changes_nothing_through_its_directory() {
    let repository = Repository::new();
    let tool = load_tool();
    let before = repository.state();
    for writer in repository.writers() {
        for target in ["a.txt", "link", "sub/b.txt"] {
            let heard = Heard::default();
            let services = editing(&writer, heard.events());
            let outcomes = attack_as_tool(&tool, "change", &[target], services).await;
            every_change_failed(&outcomes, &heard);
        }
    }
    assert_eq!(repository.state(), before);
}

#[tokio::test]
async fn security_line_2_nothing_is_created_changed_or_deleted() {
    let repository = Repository::new();
    let before = repository.state();
    let hostile = load(Grant::builtin_scout());
    for view in repository.views() {
        for target in ["a.txt", "link", "sub/b.txt"] {
            let heard = Heard::default();
            let services = Services { events: heard.events(), ..reading(&view) };
            let outcomes = attack(&hostile, "change", &[target], services).await.unwrap();
            every_change_failed(&outcomes, &heard);
        }
    }
    assert_eq!(repository.state(), before);
}

/// Raw paths, as a component can hand them to the host, and the word of each refusal.
const UNWRITABLE: [(&str, &str); 32] = [
    // security line 51
    (".git/hooks/pre-commit", "protected"),
    (".git/config", "protected"),
    (".git", "protected"),
    (".GIT/config", "protected"),
    ("sub/.git/hooks/x", "protected"),
    ("x/../.git/HEAD", "outside_repo"),
    ("./.git/HEAD", "protected"),
    // security line 52
    ("agent.yaml", "protected"),
    ("./agent.yaml", "protected"),
    ("AGENT.YAML", "protected"),
    ("agent", "protected"),
    ("agent/x", "protected"),
    ("Agent/x", "protected"),
    ("././agent.yaml", "bad_arguments"),
    // security line 57
    ("out-dir/x", "not_a_file"),
    ("out-dir/new", "not_a_file"),
    ("out", "not_a_file"),
    ("etc/passwd", "not_a_file"),
    ("linkdir/b.txt", "not_a_file"),
    ("link", "not_a_file"),
    // security line 60
    ("", "bad_arguments"),
    (".", "bad_arguments"),
    ("..", "outside_repo"),
    ("../outside/x", "outside_repo"),
    ("/etc/passwd", "outside_repo"),
    ("a.txt/", "bad_arguments"),
    ("sub//b.txt", "bad_arguments"),
    ("sub/./b.txt", "bad_arguments"),
    ("sub\\b.txt", "bad_arguments"),
    ("..\\outside\\x", "bad_arguments"),
    ("a.txt\0", "bad_arguments"),
    // hidden, so not to be written blindly either
    (".env", "excluded"),
];

/// CAPABILITY-12: a path that may not be read cannot be written either, and no answer reveals whether it exists.
#[tokio::test]
async fn a_tool_writes_where_it_may_read_and_hears_nothing_of_the_rest() {
    let repository = Repository::new();
    let paths = ["sub".parse().unwrap()].into_iter().collect();
    let read = Some(RepoRead { paths, ..RepoRead::default() });
    let tool = load_tool_with(Grant { repo_read: read, ..Grant::builtin_tool() });
    let outside = ["a.txt", "absent.txt", "docs/new.md", ".env", "subx", "SUB/b.txt", "./a.txt"];
    let before = repository.state();
    for writer in repository.writers() {
        let heard = Heard::default();
        let services = editing(&writer, heard.events());
        let answers = attack_as_tool(&tool, "edit", &outside, services).await;
        for path in outside {
            for call in ["create", "replace", "delete", "move from"] {
                let said = answers[path][call].as_str().unwrap_or("done");
                let told = format!("boundary: {path} may not be written (boundary)");
                assert_eq!(said, told, "{call}");
            }
        }
        assert!(heard.denials().contains(&("repo.write".into(), "absent.txt".into())));
        assert_eq!(repository.state(), before);
    }
    let services = editing(&repository.writers()[0], Events::silent());
    let answers = attack_as_tool(&tool, "edit", &["sub/b.txt", "sub/new"], services).await;
    assert_eq!(answers["sub/b.txt"]["create"], "exists", "{answers}");
    assert_eq!(answers["sub/b.txt"]["replace"], Value::Null, "{answers}");
    assert_eq!(answers["sub/new"]["create"], Value::Null, "{answers}");
    let moved = answers["sub/new"]["move from"].as_str().unwrap();
    assert!(moved.starts_with("boundary: moved.txt"), "{answers}");
}

#[tokio::test]
async fn security_lines_51_52_57_60_raw_hostile_paths_are_refused_by_their_reason() {
    let repository = Repository::new();
    std::fs::write(repository.root().join("agent.yaml"), "steps: []").unwrap();
    let tool = load_tool();
    let long = "x".repeat(5_000);
    let paths: Vec<_> = UNWRITABLE.into_iter().chain([(long.as_str(), "bad_arguments")]).collect();
    let names: Vec<&str> = paths.iter().map(|(path, _)| *path).collect();
    let before = repository.state();
    for writer in repository.writers() {
        let heard = Heard::default();
        let services = editing(&writer, heard.events());
        let answers = attack_as_tool(&tool, "edit", &names, services).await;
        for (path, word) in &paths {
            for call in ["create", "replace", "delete", "move from", "move onto"] {
                let why = answers[path][call].as_str().unwrap_or("done");
                let said = why.split(':').next();
                assert_eq!(said, Some(*word), "{call} {path:?}: {why}");
            }
        }
        assert_eq!(repository.state(), before);
        assert!(writer.changed().is_empty());
        let refused = heard
            .kinds()
            .into_iter()
            .filter(|kind| matches!(kind, act_core::event::EventKind::EditRefused { .. }));
        assert_eq!(refused.count(), 5 * paths.len(), "each refusal is told");
    }
}

#[tokio::test]
async fn a_tool_writes_what_it_may() {
    let repository = Repository::new();
    let [writer, _] = repository.writers();
    let services = editing(&writer, Events::silent());
    let answers = attack_as_tool(&load_tool(), "edit", &["sub/new.txt"], services).await;
    assert_eq!(answers["sub/new.txt"]["create"], Value::Null, "{answers}");
    assert_eq!(std::fs::read_to_string(repository.root().join("sub/new.txt")).unwrap(), "owned");
}
