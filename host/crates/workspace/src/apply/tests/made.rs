//! Changes that are made: what they are told as, what is counted of them, and what a file keeps.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

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
        let FileText { before, now } = writer.text(path);
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
