use crate::paths::PathGlobs;
use crate::testing::Fixture;
use crate::view::{Kind, Profile};
use crate::{CopySet, Selection, list};

/// Returns the files that a Scout sees, and those that a verification copies.
fn seen_and_copied(repo: &Fixture) -> (Vec<String>, Vec<String>) {
    let want = Selection { kinds: vec![Kind::File], ..Selection::default() };
    let listed = list(&repo.view(Profile::Scout), &want, None, 5_000).unwrap();
    let copied = CopySet::of(&repo.root, &PathGlobs::default()).unwrap();
    (
        listed.items.into_iter().map(|entry| entry.path).collect(),
        copied.entries.iter().map(|entry| entry.path.to_str().unwrap().to_owned()).collect(),
    )
}

fn both(paths: &[&str]) -> (Vec<String>, Vec<String>) {
    let paths: Vec<_> = paths.iter().map(ToString::to_string).collect();
    (paths.clone(), paths)
}

const FILES: [(&str, &str); 5] =
    [("private", ""), ("kept", ""), ("sub/private", ""), ("sub/kept", ""), ("other", "")];

// WORKSPACE-9
#[test]
fn rules_that_are_too_large_hide_everything_in_their_directory_that_is_not_tracked() {
    let large = format!("private\n#{}", "x".repeat(128 << 10));
    let many = "private\n".repeat(4_097);
    for rules in [&large, &many] {
        let repo = Fixture::new(&FILES);
        repo.track(&["kept", "sub/kept"]);
        repo.write("sub/.gitignore", rules);
        assert_eq!(seen_and_copied(&repo), both(&["kept", "other", "private", "sub/kept"]));
        repo.write(".gitignore", rules);
        assert_eq!(seen_and_copied(&repo), both(&["kept", "sub/kept"]));
    }
    for rules in [&large, &many] {
        let repo = Fixture::new(&FILES);
        repo.track(&["kept", "sub/kept"]);
        repo.write(".git/info/exclude", rules);
        assert_eq!(seen_and_copied(&repo), both(&["kept", "sub/kept"]));
    }
}

#[test]
fn rules_from_root_to_directory_are_bounded_together_and_too_many_hide() {
    let many = "private\n".repeat(4_000);
    let repo = Fixture::new(&[]);
    let mut dir = String::new();
    for depth in 0..5 {
        repo.write(&format!("{dir}.gitignore"), &many);
        repo.write(&format!("{dir}file{depth}"), "");
        dir.push_str("d/");
    }
    let (seen, copied) = seen_and_copied(&repo);
    let names = ["file0", "d/file1", "d/d/file2", "d/d/d/file3", "d/d/d/d/file4"];
    for (name, shown) in names.into_iter().zip([true, true, true, true, false]) {
        assert_eq!(seen.iter().any(|path| path == name), shown, "{name}: {seen:?}");
        assert_eq!(copied.iter().any(|path| path == name), shown, "{name}: {copied:?}");
    }
}

/// Rules stay in force however often and in however many directories they are used.
#[test]
fn rules_hold_however_often_and_however_many_directories_are_listed() {
    let repo = Fixture::new(&[]);
    for n in 0..40 {
        repo.write(&format!("{n}/.gitignore"), "private\n".repeat(4_000));
        repo.write(&format!("{n}/private"), "");
        repo.write(&format!("{n}/shown"), "");
    }
    let view = repo.view(Profile::Scout);
    let want = Selection { globs: vec!["private".into(), "shown".into()], ..Selection::default() };
    for _ in 0..3 {
        let listed = list(&view, &want, None, 5_000).unwrap();
        assert_eq!(listed.items.len(), 40, "{:?}", listed.items);
        assert!(listed.items.iter().all(|entry| entry.path.ends_with("/shown")));
    }
}

#[test]
fn where_git_reads_no_rules_there_are_none() {
    let repo = Fixture::new(&[("a", ""), ("d/b", ""), ("e/.gitignore/x", ""), ("rules", "*")]);
    repo.link("rules", ".gitignore");
    repo.fifo("d/.gitignore");
    let (seen, _) = seen_and_copied(&repo);
    assert_eq!(seen, ["a", "d/b", "e/.gitignore/x", "rules"]);
}

/// An index that cannot be read counts as empty, which is the safe way: rules hide more then.
#[test]
fn an_index_that_cannot_be_read_makes_no_ignored_file_visible() {
    let repo = Fixture::new(&[(".gitignore", "private\n"), ("private", ""), ("shown", "")]);
    repo.track(&["private", "shown"]);
    assert_eq!(seen_and_copied(&repo), both(&[".gitignore", "private", "shown"]));
    for index in [&b"DIRC of tomorrow"[..], b""] {
        repo.write(".git/index", index);
        assert_eq!(seen_and_copied(&repo), both(&[".gitignore", "shown"]));
    }
}

/// WORKSPACE-9: an `agent.yaml` below the top of a working tree makes a repository of a part of it.
#[test]
fn a_working_tree_around_the_root_says_what_is_ignored_and_tracked_in_it() {
    let whole = Fixture::new(&[
        (".gitignore", "*.log\n/part/out/\n/out.txt\nsecret/\n"),
        ("part/.gitignore", "!kept.log\nown\n"),
        ("part/kept.log", ""),
        ("part/x.log", ""),
        ("part/tracked.log", ""),
        ("part/out/made", ""),
        ("part/out.txt", ""),
        ("part/own", ""),
        ("part/excluded", ""),
        ("part/deep/secret/key", ""),
        ("part/deep/shown", ""),
    ]);
    whole.write(".git/info/exclude", "part/excluded\n");
    whole.track(&[".gitignore", "part/tracked.log", "other/part/own"]);
    let part = whole.part("part");
    let shown = [".gitignore", "deep/shown", "kept.log", "out.txt", "tracked.log"];
    assert_eq!(seen_and_copied(&part), both(&shown));
}

/// A home directory may be a repository that ignores all but a few files.
#[test]
fn a_working_tree_that_ignores_the_whole_root_is_not_asked() {
    for (rules, place) in [("*", "part"), ("/above", "above/part"), ("part/", "above/part")] {
        let whole = Fixture::new(&[(".gitignore", rules)]);
        whole.write(&format!("{place}/file"), "");
        whole.track(&["elsewhere"]);
        assert_eq!(seen_and_copied(&whole.part(place)), both(&["file"]), "{rules}");
        whole.write(&format!("{place}/tracked"), "");
        whole.track(&[&format!("{place}/tracked")]);
        assert_eq!(seen_and_copied(&whole.part(place)), both(&["tracked"]), "{rules}");
    }
}

/// WORKSPACE-9: in a fresh repository, where nothing is tracked yet.
#[test]
fn rules_that_are_too_large_hide_where_nothing_is_tracked_either() {
    let repo = Fixture::new(&FILES);
    repo.write(".git/info/exclude", format!("private\n#{}", "x".repeat(128 << 10)));
    assert_eq!(seen_and_copied(&repo), both(&[]));
}

/// The `.git` of another user above a repository is not used, wherever it points.
#[test]
fn a_git_entry_that_cannot_be_believed_is_the_last_one_looked_at() {
    let whole = Fixture::new(&[(".gitignore", "tests/\n"), ("part/tests/it", "")]);
    whole.track(&["elsewhere"]);
    assert_eq!(seen_and_copied(&whole.part("part")), both(&[]), "the rules above hold");
    // A link, and a file whose target is missing, in the root or above it.
    for (place, root) in [("part/.git", "part"), ("part/.git", "part/deep")] {
        whole.write("part/deep/tests/it", "");
        let _ = std::fs::remove_file(whole.root.join(place));
        whole.link("/nowhere", place);
        assert!(!seen_and_copied(&whole.part(root)).1.is_empty(), "{root}");
        std::fs::remove_file(whole.root.join(place)).unwrap();
        whole.write(place, "gitdir: nowhere\n");
        assert!(!seen_and_copied(&whole.part(root)).1.is_empty(), "{root}");
    }
}

/// The attack: another user creates `/tmp/.git` and a `.gitignore` that hides the tests from the verification.
#[test]
fn rules_of_another_user_above_the_root_are_not_asked() {
    use std::os::unix::fs::lchown;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for theirs in [".git", ".gitignore"] {
        let whole = Fixture::new(&[(".gitignore", "tests/\n"), ("part/tests/it", "")]);
        whole.track(&["elsewhere"]);
        assert_eq!(seen_and_copied(&whole.part("part")), both(&[]));
        lchown(whole.root.join(theirs), Some(4711), None).unwrap();
        assert_eq!(seen_and_copied(&whole.part("part")), both(&["tests/it"]), "{theirs}");
    }
    let whole = Fixture::new(&[(".gitignore", "tests/\n"), ("part/tests/it", "")]);
    whole.write(".git", "gitdir: /\n");
    lchown(whole.root.join(".git"), Some(4711), None).unwrap();
    assert_eq!(
        seen_and_copied(&whole.part("part")),
        both(&["tests/it"]),
        "root owns what it names"
    );
}
