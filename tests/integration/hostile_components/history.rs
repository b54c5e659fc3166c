//! The history of git, for a component that may read it and for one that may not.

use std::path::Path;
use std::process::Command;

use act_component::{Grant, ScoutComponent, Services};
use act_core::event::EventKind;
use act_workspace::{Profile, RepoView};
use serde_json::{Value, json};

use crate::hostile::{Heard, attack, load_with, reading};

fn git(root: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=Mallory Surname", "-c", "user.email=m@example.com"])
        .args(arguments)
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A repository of three commits, with secrets and ignored files in two of them.
fn repository() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    git(root.path(), &["init", "-q"]);
    for files in [
        &[("src/a.rs", "1"), ("src/b.rs", "1"), (".env", "KEY=1"), (".gitignore", "ignored.txt\n")]
            [..],
        &[("src/a.rs", "2"), ("src/b.rs", "2"), ("id_rsa", "x"), ("logo.png", "x")],
        &[("src/a.rs", "3"), ("node_modules/m/x.js", "x")],
    ] {
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        git(root.path(), &["add", "-A", "-f"]);
        git(root.path(), &["commit", "-q", "-m", "a message for no component"]);
    }
    root
}

async fn changes(component: &ScoutComponent, view: &RepoView, heard: &Heard, limit: &str) -> Value {
    let services = Services { events: heard.events(), ..reading(view) };
    attack(component, "changes", &[limit], services).await.unwrap()
}

// CAPABILITY-49
#[tokio::test]
async fn a_component_with_the_grant_gets_the_changes_of_files_in_view_and_nothing_else() {
    let repository = repository();
    let view = RepoView::open(repository.path(), Profile::Scout).unwrap();
    let granted = load_with(&["repo.read", "repo.history"], Grant::builtin_scout()).unwrap();
    for view in [view.clone(), view.without_openat2()] {
        let heard = Heard::default();
        let found = changes(&granted, &view, &heard, "100").await;
        let expected = json!({
            "paths": ["src/a.rs", "src/b.rs", ".gitignore"],
            "items": [[0, [0]], [1, [0, 1]], [2, [2, 0, 1]]],
            "commits": 3, "complete": true,
        });
        assert_eq!(found, expected);
        assert_eq!(changes(&granted, &view, &heard, "1").await["items"], json!([[0, [0]]]));
        let used = heard.kinds().into_iter().find_map(|kind| match kind {
            EventKind::ComponentUsed { grants, files, denials, .. } => {
                Some((grants, files, denials))
            }
            _ => None,
        });
        let (grants, files, denials) = used.unwrap();
        assert!(grants.contains(&"repo.history".to_owned()), "{grants:?}");
        assert_eq!((files, denials), (0, 0));
    }
}

// CAPABILITY-49, CAPABILITY-4, CAPABILITY-5
#[tokio::test]
async fn a_component_without_the_grant_gets_no_change() {
    let repository = repository();
    let view = RepoView::open(repository.path(), Profile::Scout).unwrap();
    let heard = Heard::default();
    // It did not ask for the grant, which the user's grant holds all the same.
    let silent = load_with(&["repo.read", "llm"], Grant::builtin_scout()).unwrap();
    let denied = "Refusal::Denied(\"repo.history: not granted to this component\")";
    assert_eq!(changes(&silent, &view, &heard, "100").await, json!({ "error": denied }));
    assert!(heard.denials().contains(&("repo.history".into(), "repo.history".into())));
    // It asked, and the user did not agree, or agreed to the rest alone.
    let needs = ["repo.read", "repo.history"];
    let without = || Grant { repo_history: false, ..Grant::builtin_scout() };
    let refused = load_with(&needs, without()).err().unwrap().to_string();
    assert!(
        refused.contains("agentcommand:repo/history@1.5.0 (grant `repo.history`)"),
        "{refused}"
    );
    let withheld = Grant { withheld: ["repo.history".to_owned()].into(), ..without() };
    let withheld = load_with(&needs, withheld).unwrap();
    assert_eq!(changes(&withheld, &view, &heard, "100").await, json!({ "error": denied }));
    // The paths are those that a component may read, so the view is needed too.
    let blind = load_with(&["repo.history"], Grant::builtin_scout()).unwrap();
    let denied = "Refusal::Denied(\"repo.read: not granted to this component\")";
    assert_eq!(changes(&blind, &view, &heard, "100").await, json!({ "error": denied }));
}
