//! A call makes all of its changes or none, and leaves nothing half written.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

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
        // Found when all are checked.
        let mut refused = changes();
        refused.push(create("d", "exists"));
        assert_eq!(writer.apply(&refused, GO_ON), Err(EditError::Exists { path: "d".into() }));
        assert_eq!(Fixture::picture(&repo.root), before);
        // Found only when it is made: the first change puts a file where this one needs a directory.
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
    // Where the sweep of the whole tree does not look, the first write does.
    repo.write(&format!("node_modules/{left}"), "half");
    writer.apply(&[create("node_modules/x", "x")], GO_ON).unwrap();
    assert!(!repo.root.join("node_modules").join(left).exists());
    let hidden = writer.apply(&[create(left, "x")], GO_ON).unwrap_err();
    assert_eq!(hidden.word(), Some("excluded"));
}

/// Four changes that can all be made.
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
