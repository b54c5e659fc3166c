//! Paths and sizes that are refused, by the rule.

use std::fs;

use super::*;

// security lines 51 and 52
#[test]
fn git_agent_and_the_gate_are_refused_by_every_route() {
    each_way(|open| {
        let repo = Fixture::new(&[
            ("plain", "p"),
            (".git/config", "c"),
            (".git/HEAD", "h"),
            ("sub/.git/hooks/x", "h"),
            ("agent.yaml", "gate"),
            ("agent/x", "a"),
        ]);
        let writer = open(&repo);
        let before = Fixture::picture(&repo.root);
        for path in [
            ".git/hooks/pre-commit",
            ".git/config",
            "sub/.git/hooks/x",
            ".GIT/HEAD",
            "sub/.git",
            "agent.yaml",
            "agent/x",
            "AGENT.YAML",
            "./agent.yaml",
            "Agent/new",
            "agent",
        ] {
            assert_eq!(words(&writer, path), ["protected"; 5], "{path}");
        }
        assert_eq!(words(&writer, "x/../.git/HEAD"), ["outside_repo"; 5]);
        assert_eq!(Fixture::picture(&repo.root), before);
    });
}

// security line 57
#[test]
fn a_linked_directory_leads_nowhere_for_any_change() {
    each_way(|open| {
        let repo = Fixture::new(&[("plain", "p"), ("real/file", "r"), ("file", "f")]);
        repo.link(&repo.outside, "docs");
        repo.link("real", "inside");
        repo.link("file", "link");
        repo.link("nowhere", "dangling");
        repo.fifo("fifo");
        let writer = open(&repo);
        let before = (Fixture::picture(&repo.root), Fixture::picture(&repo.outside));
        for path in [
            "docs/file",
            "docs/new",
            "docs/deep/new",
            "inside/file",
            "inside/new",
            "link",
            "dangling",
            "fifo",
            "real",
            "file/below",
        ] {
            assert_eq!(words(&writer, path), ["not_a_file"; 5], "{path}");
        }
        assert_eq!((Fixture::picture(&repo.root), Fixture::picture(&repo.outside)), before);
    });
}

// security line 60
#[test]
fn odd_paths_are_refused_with_the_reason() {
    let repo = Fixture::new(&[("plain", "p")]);
    let writer = writer(&repo);
    for (path, word) in [
        ("/etc/passwd", "outside_repo"),
        ("../x", "outside_repo"),
        ("", "bad_arguments"),
        (".", "bad_arguments"),
        ("a\0b", "bad_arguments"),
        ("a/", "bad_arguments"),
        ("a\\b", "bad_arguments"),
        (&"y".repeat(5_000), "bad_arguments"),
    ] {
        assert_eq!(words(&writer, path), [word; 5], "{path:?}");
    }
    let deep = create(&"d/".repeat(1_000).replace("d/d", "d/e"), "x");
    assert_eq!(writer.apply(&[deep], GO_ON).unwrap_err().word(), Some("bad_arguments"));
}

#[test]
fn secrets_are_not_written_unless_the_user_names_the_path() {
    let repo =
        Fixture::new(&[("plain", "p"), (".env", "s"), (".gitignore", "dist/\n"), (".envrc", "e")]);
    let closed = writer(&repo);
    for path in [".env", "new.pem", "dist/x.js"] {
        assert_eq!(words(&closed, path), ["excluded"; 5], "{path}");
    }
    assert_eq!(words(&closed, ".envrc"), ["guarded"; 5]);
    let rules = WriteRules::allowing(&[".env".into(), ".envrc".into()]).unwrap();
    let open = RepoWriter::open(&repo.root, rules).unwrap();
    let done = open
        .apply(&[replace(&open, ".env", "new"), replace(&open, ".envrc", "new")], GO_ON)
        .unwrap();
    assert_eq!(done.iter().map(|applied| applied.guarded).collect::<Vec<_>>(), [false, true]);
    assert!(
        open.changed().iter().any(|file| file.path == ".envrc" && file.guarded),
        "for the summary"
    );
    assert_eq!(open.apply(&[create("new.pem", "x")], GO_ON).unwrap_err().word(), Some("excluded"));
}

// WORKSPACE-40
#[test]
fn what_a_verification_would_not_see_is_not_written() {
    let files = [
        ("plain", "p"),
        (".gitignore", "*.local\nout/\ndata/*.bin\n"),
        ("mine.local", "user's"),
        ("kept.local", "tracked"),
    ];
    let repo = Fixture::new(&files);
    repo.write(".git/HEAD", "ref: refs/heads/main\n");
    repo.write(".git/objects/x", "");
    repo.write(".git/refs/x", "");
    repo.track(&["plain", "kept.local"]);
    let rules = WriteRules::allowing(&["named.local".into()]).unwrap();
    let rules = rules.including(&["data/a.bin".into()]).unwrap();
    let writer = RepoWriter::open(&repo.root, rules).unwrap();
    for path in ["mine.local", "new.local", "out/deep/x.py", "data/b.bin", "sub/out/y"] {
        assert_eq!(words(&writer, path), ["excluded"; 5], "{path}");
    }
    assert_eq!(repo.text("mine.local"), "user's");
    // Tracked, brought in by `include`, and named by the user.
    let fine = [
        replace(&writer, "kept.local", "new"),
        create("data/a.bin", "a"),
        create("named.local", "n"),
        create("src/x.py", "x"),
    ];
    writer.apply(&fine, GO_ON).unwrap();
    let unseen = |path: &str, allowed| Untested { path: path.into(), allowed };
    assert_eq!(writer.untested(), [unseen("named.local", true)]);
    // The rules that count are those of now.
    writer.apply(&[replace(&writer, ".gitignore", "src/\n")], GO_ON).unwrap();
    assert_eq!(writer.untested(), [unseen("src/x.py", false)]);
    assert_eq!(writer.apply(&[create("src/y", "")], GO_ON).unwrap_err().word(), Some("excluded"));
    writer.apply(&[create("new.local", "n")], GO_ON).unwrap();
}

#[test]
fn what_is_written_is_bounded() {
    let repo = Fixture::new(&[]);
    let writer = writer(&repo);
    let big = Change::Create {
        path: "big".into(),
        bytes: vec![b'x'; usize::try_from(MAX_WRITE).unwrap() + 1],
    };
    assert_eq!(writer.apply(&[big], GO_ON).unwrap_err().word(), Some("too_large"));
    let many: Vec<Change> = (0..=MAX_CHANGES).map(|n| create(&format!("f{n}"), "")).collect();
    assert_eq!(writer.apply(&many, GO_ON).unwrap_err().word(), Some("bad_arguments"));
    writer.turn.lock().unwrap().bytes = MAX_TASK_BYTES;
    assert_eq!(writer.apply(&[create("one", "x")], GO_ON), Err(EditError::Budget("bytes")));
    assert!(fs::read_dir(&repo.root).unwrap().next().is_none());
}

/// WORKSPACE-38
#[test]
fn refused_calls_are_counted_by_their_rule() {
    let repo = Fixture::new(&[("a", "one")]);
    let writer = writer(&repo);
    for path in ["agent.yaml", ".git/x", ".envrc", "a"] {
        writer.apply(&[create(path, "x")], GO_ON).unwrap_err();
    }
    let stale = Change::Replace { path: "a".into(), expect: some_version(), bytes: b"x".to_vec() };
    writer.apply(&[stale], GO_ON).unwrap_err();
    writer.apply(&[create("b", "x")], GO_ON).unwrap();
    writer.apply(&[create("c", "x")], &|| true).unwrap_err();
    writer.refuse(edit_protocol::Reason::Binary);
    assert_eq!(
        writer.refused().into_iter().collect::<Vec<_>>(),
        [("binary", 1), ("exists", 1), ("guarded", 1), ("protected", 2), ("version_mismatch", 1)]
    );
}
