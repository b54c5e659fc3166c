use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::testing::Fixture;

const GO_ON: &dyn Fn() -> bool = &|| false;

fn writer(repo: &Fixture) -> RepoWriter {
    RepoWriter::open(&repo.root, WriteRules::default()).unwrap()
}

/// Runs a test with and without `openat2`, and with and without exchange.
fn each_way(test: impl Fn(&dyn Fn(&Fixture) -> RepoWriter)) {
    test(&writer);
    test(&|repo| writer(repo).without_openat2());
    test(&|repo| writer(repo).without_exchange());
}

fn create(path: &str, text: &str) -> Change {
    Change::Create { path: path.into(), bytes: text.into() }
}

fn at(writer: &RepoWriter, path: &str) -> Version {
    writer.version(path).unwrap().unwrap()
}

fn replace(writer: &RepoWriter, path: &str, text: &str) -> Change {
    Change::Replace { path: path.into(), expect: at(writer, path), bytes: text.into() }
}

fn some_version() -> Version {
    Version { number: 1, digest: digest(b"whatever") }
}

/// Returns every kind of change that would touch `path`.
fn every_change(path: &str) -> Vec<Change> {
    let (path, expect) = (path.to_owned(), some_version());
    vec![
        Change::Create { path: path.clone(), bytes: b"x".to_vec() },
        Change::Replace { path: path.clone(), expect: expect.clone(), bytes: b"x".to_vec() },
        Change::Delete { path: path.clone(), expect: expect.clone() },
        Change::Move { from: path.clone(), expect, to: "elsewhere".into() },
    ]
}

fn words(writer: &RepoWriter, path: &str) -> Vec<&'static str> {
    let onto = Change::Move { from: "plain".into(), expect: at(writer, "plain"), to: path.into() };
    every_change(path)
        .into_iter()
        .chain([onto])
        .map(|change| writer.apply(&[change], GO_ON).unwrap_err().word().unwrap())
        .collect()
}

const fn is_shared_between_threads<T: Send + Sync + 'static>() {}
const _: () = is_shared_between_threads::<RepoWriter>();
const _: () = is_shared_between_threads::<RepoView>();

#[test]
fn what_stood_there_first_stays_what_was_before() {
    let mut contents = ContentChanges::default();
    contents.set("a", Content::of(b"one"), Content::of(b"two"));
    contents.set("a", Content::of(b"two"), Content::of(b"three"));
    contents.set("b", Content::Nothing, Content::of(b"new"));
    assert_eq!(
        contents.files["a"],
        ContentChange { before: Content::of(b"one"), now: Content::of(b"three") }
    );
    assert_eq!(contents.files["b"].before, Content::Nothing);
    assert!(!contents.files.contains_key("c"));
    assert_eq!(contents.bytes, 11);
}

#[test]
fn binary_and_large_files_are_not_held() {
    assert_eq!(Content::of(b"a\0b"), Content::Unknown);
    assert_eq!(Content::of(&vec![b'x'; MAX_TEXT + 1]), Content::Unknown);
    let mut contents = ContentChanges::default();
    for n in 0..100 {
        contents.set(&n.to_string(), Content::Nothing, Content::of(&vec![b'x'; MAX_TEXT]));
    }
    assert_eq!(contents.bytes, MAX_TEXTS);
    assert_eq!(contents.files["99"].now, Content::Unknown);
}

// Changes that are made.

#[test]
fn changes_are_made_counted_and_told() {
    each_way(|open| {
        let repo = Fixture::new(&[("a.txt", "one"), ("gone.txt", "g"), ("old.txt", "o")]);
        let writer = open(&repo);
        let first = writer.apply(&[replace(&writer, "a.txt", "two")], GO_ON).unwrap();
        let expected = Applied {
            op: "replace",
            path: "a.txt".into(),
            to: None,
            version: Some(Version { number: 2, digest: digest(b"two") }),
            sha256_before: Some(digest(b"one")),
            sha256_after: Some(digest(b"two")),
            guarded: false,
        };
        assert_eq!(first, [expected]);
        let delete = Change::Delete { path: "gone.txt".into(), expect: at(&writer, "gone.txt") };
        let rename = Change::Move {
            from: "old.txt".into(),
            expect: at(&writer, "old.txt"),
            to: "new/dir/n.txt".into(),
        };
        let more = writer.apply(&[create("x/y/z.txt", "z"), delete, rename], GO_ON).unwrap();
        let numbers: Vec<_> =
            more.iter().map(|done| done.version.as_ref().map(|v| v.number)).collect();
        assert_eq!(numbers, [Some(1), None, Some(1)]);
        assert_eq!(repo.text("x/y/z.txt"), "z");
        assert_eq!(repo.text("new/dir/n.txt"), "o");
        assert!(!repo.root.join("gone.txt").exists() && !repo.root.join("old.txt").exists());

        let changed: Vec<_> =
            writer.changed().into_iter().map(|file| (file.op(), file.path)).collect();
        let expected = [
            ("replace", "a.txt"),
            ("delete", "gone.txt"),
            ("create", "new/dir/n.txt"),
            ("delete", "old.txt"),
            ("create", "x/y/z.txt"),
        ];
        assert_eq!(changed, expected.map(|(op, path)| (op, path.to_owned())));
        writer.apply(&[replace(&writer, "a.txt", "one")], GO_ON).unwrap();
        assert!(writer.changed().iter().all(|file| file.path != "a.txt"), "back to how it was");
        assert_eq!(at(&writer, "a.txt").number, 3);
        assert!(
            Fixture::picture(&repo.root)
                .iter()
                .all(|(path, _)| !path.to_string_lossy().contains(".act-write"))
        );
    });
}

#[test]
fn a_hard_link_is_broken_and_modes_are_kept() {
    each_way(|open| {
        let repo = Fixture::new(&[("run.sh", "old")]);
        fs::hard_link(repo.outside.join("file"), repo.root.join("shared")).unwrap();
        fs::set_permissions(repo.root.join("run.sh"), fs::Permissions::from_mode(0o4751)).unwrap();
        let writer = open(&repo);
        writer
            .apply(&[replace(&writer, "shared", "mine"), replace(&writer, "run.sh", "new")], GO_ON)
            .unwrap();
        assert_eq!(fs::read_to_string(repo.outside.join("file")).unwrap(), "outside");
        assert_eq!(repo.text("shared"), "mine");
        let mode = fs::metadata(repo.root.join("run.sh")).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o751, "all but what would run as somebody else");
    });
}

#[test]
fn what_was_changed_can_be_asked_while_a_call_is_under_way() {
    let repo = Fixture::new(&[("a", "a")]);
    let writer = writer(&repo);
    writer.apply(&[create("b", "b")], GO_ON).unwrap();
    let looks = AtomicUsize::new(0);
    let looking = || {
        assert_eq!(writer.changed().len(), 1);
        assert_eq!(writer.versions().observe("b", &digest(b"b")).number, 1);
        looks.fetch_add(1, Ordering::Relaxed);
        false
    };
    writer.apply(&[replace(&writer, "a", "changed")], &looking).unwrap();
    assert_eq!(looks.into_inner(), 2);
}

/// WORKSPACE-39
#[test]
fn what_a_file_held_before_the_task_is_kept_through_edits_and_moves() {
    let repo = Fixture::new(&[("a", "one"), ("b", "two"), ("gone", "three")]);
    let writer = writer(&repo);
    let text = |path: &str| {
        let ContentChange { before, now } = writer.text(path);
        (before.text().map(str::to_owned), now.text().map(str::to_owned))
    };
    let some = |text: &str| Some(text.to_owned());
    writer.apply(&[replace(&writer, "a", "ONE")], GO_ON).unwrap();
    writer.apply(&[replace(&writer, "a", "uno")], GO_ON).unwrap();
    assert_eq!(text("a"), (some("one"), some("uno")));
    let moved = |from: &str, to: &str| Change::Move {
        from: from.into(),
        expect: at(&writer, from),
        to: to.into(),
    };
    writer.apply(&[moved("a", "x"), moved("b", "y")], GO_ON).unwrap();
    assert_eq!((text("a"), text("x")), ((some("one"), None), (None, some("uno"))));
    assert_eq!((text("b"), text("y")), ((some("two"), None), (None, some("two"))));
    let gone = Change::Delete { path: "gone".into(), expect: at(&writer, "gone") };
    writer.apply(&[gone, create("new", "n")], GO_ON).unwrap();
    assert_eq!((text("gone"), text("new")), ((some("three"), None), (None, some("n"))));
    assert_eq!(text("never"), (None, None));
}

// Changes that are refused.

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
    // The three files are tracked, added by `include`, and named by the user.
    let fine = [
        replace(&writer, "kept.local", "new"),
        create("data/a.bin", "a"),
        create("named.local", "n"),
        create("src/x.py", "x"),
    ];
    writer.apply(&fine, GO_ON).unwrap();
    let unseen = |path: &str, allowed| UnverifiedFile { path: path.into(), allowed };
    assert_eq!(writer.unverified(), [unseen("named.local", true)]);
    // The rules are read again.
    writer.apply(&[replace(&writer, ".gitignore", "src/\n")], GO_ON).unwrap();
    assert_eq!(writer.unverified(), [unseen("src/x.py", false)]);
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
    writer.spent.lock().unwrap().bytes = MAX_TASK_BYTES;
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

// A call makes all of its changes or none.

#[test]
fn several_changes_are_made_all_or_none() {
    each_way(|open| {
        let repo = Fixture::new(&[("a", "one"), ("b", "two"), ("c", "three"), ("d", "four")]);
        let writer = open(&repo);
        let before = Fixture::picture(&repo.root);
        let changes = || {
            vec![
                create("new/deep/file", "n"),
                replace(&writer, "a", "changed"),
                Change::Delete { path: "b".into(), expect: at(&writer, "b") },
                Change::Move { from: "c".into(), expect: at(&writer, "c"), to: "moved/c".into() },
            ]
        };
        // This one is found when all are checked.
        let mut refused = changes();
        refused.push(create("d", "exists"));
        assert_eq!(writer.apply(&refused, GO_ON), Err(EditError::Exists { path: "d".into() }));
        assert_eq!(Fixture::picture(&repo.root), before);
        // This one is found only when it is made: the first change creates a file where it needs a directory.
        let mut late = changes();
        late.push(create("new/deep/file/below", "x"));
        assert_eq!(writer.apply(&late, GO_ON).unwrap_err().word(), Some("not_a_file"));
        assert_eq!(Fixture::picture(&repo.root), before);
        assert!(writer.changed().is_empty());
        assert_eq!(at(&writer, "a").number, 1);
        writer.apply(&changes(), GO_ON).unwrap();
        assert_eq!(repo.text("moved/c"), "three");
    });
}

#[test]
fn one_path_is_named_once_in_a_call() {
    let repo = Fixture::new(&[("a", "one")]);
    let writer = writer(&repo);
    for twice in [
        vec![replace(&writer, "a", "x"), replace(&writer, "./a", "y")],
        vec![Change::Move { from: "a".into(), expect: at(&writer, "a"), to: "a".into() }],
    ] {
        assert_eq!(writer.apply(&twice, GO_ON).unwrap_err().word(), Some("bad_arguments"));
    }
    assert_eq!(repo.text("a"), "one");
}

#[test]
fn a_killed_write_leaves_no_pile() {
    let left = ".act-write-00000000000000aa.tmp";
    let repo = Fixture::new(&[("a", "one"), (left, "half"), ("deep/er/f", "f")]);
    repo.write(&format!("deep/er/{left}"), "half");
    repo.link(&repo.outside, "out");
    fs::write(repo.outside.join(left), "not ours to clear").unwrap();
    let writer = writer(&repo);
    assert!(!repo.root.join(left).exists() && !repo.root.join("deep/er").join(left).exists());
    assert!(repo.outside.join(left).exists());
    // The sweep of the whole tree skips this directory, but the first write into it does not.
    repo.write(&format!("node_modules/{left}"), "half");
    writer.apply(&[create("node_modules/x", "x")], GO_ON).unwrap();
    assert!(!repo.root.join("node_modules").join(left).exists());
    let hidden = writer.apply(&[create(left, "x")], GO_ON).unwrap_err();
    assert_eq!(hidden.word(), Some("excluded"));
}

/// Returns four changes that can all be made.
fn one_of_each(writer: &RepoWriter) -> Vec<Change> {
    let gone = Change::Delete { path: "gone".into(), expect: at(writer, "gone") };
    let moved =
        Change::Move { from: "old".into(), expect: at(writer, "old"), to: "new/name".into() };
    vec![create("made/x", "x"), replace(writer, "a", "changed"), gone, moved]
}

// CAPABILITY-12
#[test]
fn a_call_that_nobody_wants_any_more_changes_nothing_however_far_it_was() {
    each_way(|open| {
        let mut stopped_at = 0;
        loop {
            let repo = Fixture::new(&[("a", "a"), ("gone", "gone"), ("old", "old")]);
            let (writer, before) = (open(&repo), Fixture::picture(&repo.root));
            let changes = one_of_each(&writer);
            let looks = AtomicUsize::new(0);
            let stopped = || looks.fetch_add(1, Ordering::Relaxed) >= stopped_at;
            match writer.apply(&changes, &stopped) {
                Err(error) => {
                    assert_eq!(error, EditError::Stopped, "{stopped_at}");
                    assert_eq!(Fixture::picture(&repo.root), before, "{stopped_at}");
                    assert!(writer.changed().is_empty());
                }
                Ok(applied) => {
                    assert_eq!(applied.len(), 4);
                    break;
                }
            }
            stopped_at += 1;
        }
        assert!(stopped_at >= 8, "before each is looked at, and before each is made: {stopped_at}");
    });
}

// Another program changes the tree at the same time.

// security line 66
#[test]
fn a_change_from_outside_is_a_mismatch_and_survives() {
    each_way(|open| {
        let repo = Fixture::new(&[("a", "one"), ("b", "one")]);
        let writer = open(&repo);
        let (edit, read) = (replace(&writer, "a", "model"), at(&writer, "b"));
        repo.write("a", "user");
        let current = Some(Version { number: 2, digest: digest(b"user") });
        let conflict = EditError::Conflict { path: "a".into(), current };
        assert_eq!(writer.apply(&[edit], GO_ON), Err(conflict.clone()));
        assert_eq!(conflict.word(), Some("version_mismatch"));
        assert_eq!(repo.text("a"), "user");

        fs::remove_file(repo.root.join("b")).unwrap();
        let gone = Change::Delete { path: "b".into(), expect: read.clone() };
        assert_eq!(writer.apply(&[gone], GO_ON), Err(EditError::NotFound { path: "b".into() }));
        repo.write("b", "one");
        let stale = Version { number: 7, ..read };
        let wrong = Change::Replace { path: "b".into(), expect: stale, bytes: vec![] };
        assert!(
            matches!(writer.apply(&[wrong], GO_ON), Err(EditError::Conflict { .. })),
            "the number counts as well"
        );
        assert!(writer.changed().is_empty());
    });
}

/// Another thread keeps replacing the file and records what replaces its bytes. Every accepted edit must have read
/// exactly those bytes; an edit that had read older ones would be a lost update.
#[test]
fn no_update_from_outside_is_lost_to_a_race() {
    let repo = Fixture::new(&[("n", "u0"), ("other", "")]);
    let writer = writer(&repo);
    let (stop, looks) = (AtomicBool::new(false), AtomicUsize::new(0));
    let theirs = || {
        let mut replaced_by = vec![];
        for number in 1.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mine = format!("u{number}");
            fs::write(repo.root.join("other"), &mine).unwrap();
            fs::rename(repo.root.join("other"), repo.root.join("n")).unwrap();
            if let Some(now) = (0..40).map(|_| repo.text("n")).find(|now| *now != mine) {
                replaced_by.push((now, mine));
                looks.fetch_add(1, Ordering::Relaxed);
            }
        }
        replaced_by
    };
    let mut made = std::collections::HashMap::new();
    let mut refused = 0;
    let replaced_by = std::thread::scope(|scope| {
        let theirs = scope.spawn(theirs);
        for round in 0..50_000 {
            if made.len() > 300 && refused > 100 && looks.load(Ordering::Relaxed) > 100 {
                break;
            }
            let Ok(Some(expect)) = writer.version("n") else { continue };
            let bytes = format!("m{round}");
            let change = Change::Replace {
                path: "n".into(),
                expect: expect.clone(),
                bytes: bytes.clone().into(),
            };
            match writer.apply(&[change], GO_ON) {
                Ok(_) => drop(made.insert(digest(bytes.as_bytes()), expect.digest)),
                Err(EditError::Conflict { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        theirs.join().unwrap()
    });
    let mut seen = 0;
    for (edit, theirs) in replaced_by {
        // The edit may have read a later write of this thread, before this thread looked.
        let (mut read, mut by) = (None, made.get(&digest(edit.as_bytes())));
        while let Some(digest) = by {
            (read, by) = (Some(digest), made.get(digest));
        }
        if let Some(read) = read {
            assert_eq!(
                *read,
                digest(theirs.as_bytes()),
                "{edit} took the place of {theirs} unread"
            );
            seen += 1;
        }
    }
    assert!(seen > 0 && refused > 0, "{} made, {seen} seen, {refused} refused", made.len());
    let names: Vec<_> = fs::read_dir(&repo.root).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(
        names.iter().all(|name| !name.to_string_lossy().starts_with(".act-write")),
        "{names:?}"
    );
}

/// A directory on the way is swapped for a link to the outside while files are created in it. They are created inside
/// or not at all.
#[test]
fn a_swapped_directory_never_takes_a_write_outside() {
    for open in [writer as fn(&Fixture) -> RepoWriter, |repo| writer(repo).without_openat2()] {
        let repo = Fixture::new(&[("d/keep", "k")]);
        symlink(&repo.outside, repo.root.join("l")).unwrap();
        let (writer, stop) = (open(&repo), AtomicBool::new(false));
        let root = Root::open(&repo.root).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let both = rustix::fs::RenameFlags::EXCHANGE;
                    let _ = rustix::fs::renameat_with(&root, "d", &root, "l", both);
                }
            });
            let (mut made, mut refused) = (0, 0);
            for round in 0..500_000 {
                match writer.apply(&[create(&format!("d/{round}"), "x")], GO_ON) {
                    Ok(_) => made += 1,
                    Err(_) => refused += 1,
                }
                if made >= 300 && refused >= 300 {
                    break;
                }
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            assert!(made > 0 && refused > 0, "{made} made, {refused} refused");
        });
        let outside: Vec<_> =
            fs::read_dir(&repo.outside).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(outside, ["file"]);
    }
}

/// A file and a directory are swapped for links and back while they are edited: the error never blames the machine.
// security line 327
#[test]
fn an_edit_of_a_name_that_is_swapped_meanwhile_is_refused_or_not_found() {
    for open in [writer as fn(&Fixture) -> RepoWriter, |repo| writer(repo).without_openat2()] {
        let repo = Fixture::new(&[("d/f", "k"), ("f", "k")]);
        symlink(&repo.outside, repo.root.join("l")).unwrap();
        symlink("d/f", repo.root.join("m")).unwrap();
        let (writer, stop) = (open(&repo), AtomicBool::new(false));
        let root = Root::open(&repo.root).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for (a, b) in [("d", "l"), ("f", "m")] {
                        let both = rustix::fs::RenameFlags::EXCHANGE;
                        let _ = rustix::fs::renameat_with(&root, a, &root, b, both);
                    }
                }
            });
            let mut odd = None;
            for round in 0..300 {
                let path = ["d/f", "f"][round % 2];
                let edited = writer.apply(&[create(path, "x")], GO_ON);
                let created = writer.apply(&[create(&format!("{path}-{round}"), "x")], GO_ON);
                for error in [edited.err(), created.err()].into_iter().flatten() {
                    if matches!(error, EditError::Failed { .. }) {
                        odd = Some(error.to_string());
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert_eq!(odd, None);
        });
    }
}

// WORKSPACE-19
#[test]
fn a_git_directory_under_another_name_is_protected_and_none_can_be_made() {
    let repo = Fixture::new(&[
        ("plain", "x"),
        ("bare.git/HEAD", "ref: refs/heads/main\n"),
        ("bare.git/config", "[core]\n"),
        ("bare.git/objects/x", ""),
        ("bare.git/refs/x", ""),
        ("linked/HEAD", "ref: refs/heads/main\n"),
        ("linked/commondir", "../common\n"),
        ("half/objects/x", ""),
        ("half/refs/x", ""),
    ]);
    let writer = writer(&repo);
    for path in
        ["bare.git/config", "bare.git/hooks/post-checkout", "linked/x", "half/HEAD", "half/head"]
    {
        assert_eq!(words(&writer, path), ["protected"; 5], "{path}");
    }
    // What is no repository yet may be written, up to the file that would make it one.
    writer.apply(&[create("new/HEAD", "x")], GO_ON).unwrap();
    writer.apply(&[create("new/objects/a", "x")], GO_ON).unwrap();
    let last = writer.apply(&[create("new/refs/heads/main", "x")], GO_ON).unwrap_err();
    assert_eq!(last.word(), Some("protected"));
    writer.apply(&[create("half/other", "x")], GO_ON).unwrap();
}

/// A person who allows every path, and is never reached here: the caller of the writer asks.
#[derive(Debug)]
struct Somebody;

impl act_core::consent::Consent for Somebody {
    fn may_change<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> std::pin::Pin<Box<dyn Future<Output = act_core::consent::Answer> + Send + 'a>> {
        Box::pin(async { act_core::consent::Answer::Allowed })
    }
}

// ACP-31, security lines 393 and 398
#[test]
fn consent_opens_one_guarded_path_and_nothing_that_another_rule_forbids() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    std::fs::create_dir_all(root.join(".git")).unwrap();
    std::fs::write(root.join(".gitignore"), ".idea/\n").unwrap();
    let create = |path: &str| Change::Create { path: path.to_owned(), bytes: b"{}\n".to_vec() };
    let rules = || WriteRules::allowing(&[]).unwrap().within(&[], &["ci/**".to_owned()]).unwrap();
    let refused = |writer: &RepoWriter, path: &str| {
        let outcome = writer.apply(&[create(path)], &|| false);
        outcome.err().and_then(|error| error.word())
    };

    // Without a person nothing is asked, and the path is refused as it always was.
    let alone = RepoWriter::open(root, rules()).unwrap();
    assert!(alone.questions(&[create(".vscode/settings.json")]).is_empty());
    assert_eq!(refused(&alone, ".vscode/settings.json"), Some("guarded"));

    let writer = RepoWriter::open(root, rules()).unwrap().asking(Some(Arc::new(Somebody)));
    for path in [
        "plain.txt",
        ".git/hooks/pre-commit",
        "agent.yaml",
        "ci/.envrc",
        ".idea/workspace.xml",
        "../.envrc",
        ".env",
    ] {
        assert!(writer.questions(&[create(path)]).is_empty(), "{path}");
    }
    // A call with a forbidden change is refused as a whole, so nobody is asked about the rest.
    assert!(writer.questions(&[create(".vscode/settings.json"), create(".git/config")]).is_empty());
    let asked = writer.questions(&[create("./.vscode/settings.json"), create("plain.txt")]);
    assert_eq!(asked, [(".vscode/settings.json".to_owned(), "create")]);

    writer.answer(".vscode/settings.json", true);
    writer.answer(".vscode/tasks.json", false);
    for path in [".vscode/settings.json", ".vscode/tasks.json"] {
        assert!(writer.questions(&[create(path)]).is_empty(), "it was asked before: {path}");
    }
    assert_eq!(refused(&writer, ".vscode/settings.json"), None);
    for path in [".vscode/tasks.json", ".vscode/settings.json2", ".vscode/SETTINGS.json", ".envrc"]
    {
        assert_eq!(refused(&writer, path), Some("guarded"), "{path}");
    }
    assert_eq!(refused(&writer, ".git/config"), Some("protected"));

    // A model cannot wear the person out.
    let many: Vec<_> = (0..100).map(|at| create(&format!(".vscode/{at}.json"))).collect();
    assert_eq!(writer.questions(&many).len(), MAX_QUESTIONS - 2);
}
