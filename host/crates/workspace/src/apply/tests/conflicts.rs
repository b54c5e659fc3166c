//! Somebody else changes the tree at the same time.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

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

/// Somebody else keeps replacing the file and looks what replaces his bytes. Whatever edit that is, if it
/// was accepted, it had read exactly those bytes; a lost update would be one that had read older ones.
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
        // An edit may have read another one of ours, which was faster than the look.
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

/// A directory on the way is swapped for a link to the outside while files are made in it: they end up
/// inside or nowhere.
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
