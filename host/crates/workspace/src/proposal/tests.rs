//! WORKSPACE-52: a proposal is applied whole, to the bytes that the dry run saw, or not at all.

use super::*;
use crate::testing::Fixture;
use crate::{LeftState, NotRolledBack, WriteRules};

fn blob(text: &str) -> Option<Blob> {
    Some(Blob::new(text.as_bytes(), 0o644))
}

fn file(path: &str, before: Option<Blob>, after: Option<Blob>) -> ProposedFile {
    ProposedFile { path: path.into(), from: None, before, after }
}

fn writer(fixture: &Fixture) -> RepoWriter {
    RepoWriter::open(&fixture.root, WriteRules::default()).unwrap()
}

#[test]
fn one_file_that_changed_meanwhile_keeps_all_as_they_are() {
    let fixture = Fixture::new(&[("a", "a\n"), ("b", "b\n"), ("z", "changed\n")]);
    let before = Fixture::picture(&fixture.root);
    let files = [
        file("a", blob("a\n"), blob("A\n")),
        file("b", blob("b\n"), None),
        file("c/d", None, blob("d\n")),
        file("z", blob("z\n"), blob("Z\n")),
    ];
    let error = writer(&fixture).apply_proposal(&files, &|| false).unwrap_err();
    assert!(matches!(error, EditError::Conflict { ref path, .. } if path == "z"), "{error}");
    assert_eq!(Fixture::picture(&fixture.root), before);
    let made = writer(&fixture).apply_proposal(&files[..3], &|| false).unwrap();
    assert_eq!(made.len(), 3);
    assert_eq!((fixture.text("a"), fixture.text("c/d")), ("A\n".into(), "d\n".into()));
    assert!(!fixture.root.join("b").exists());
}

#[test]
fn protected_and_guarded_paths_are_looked_at_again() {
    // security lines 51, 52 and 55
    let fixture = Fixture::new(&[]);
    for (path, word) in [
        (".git/hooks/pre-commit", "protected"),
        ("sub/.GIT/config", "protected"),
        ("agent.yaml", "protected"),
        ("Agent/x", "protected"),
        (".vscode/tasks.json", "guarded"),
        (".env", "excluded"),
    ] {
        let files = [file("fine", None, blob("x")), file(path, None, blob("x"))];
        let error = writer(&fixture).apply_proposal(&files, &|| false).unwrap_err();
        assert_eq!(error.word(), Some(word), "{path}");
        assert!(!fixture.root.join("fine").exists(), "{path}");
    }
}

#[test]
fn a_link_in_the_place_of_a_file_is_no_file() {
    let fixture = Fixture::new(&[]);
    fixture.link(fixture.outside.join("file"), "a");
    let files = [file("a", blob("outside"), blob("x"))];
    assert!(writer(&fixture).apply_proposal(&files, &|| false).is_err());
    assert_eq!(std::fs::read_to_string(fixture.outside.join("file")).unwrap(), "outside");
}

#[test]
fn what_stands_as_proposed_is_known_and_left_alone() {
    let fixture = Fixture::new(&[("a", "A\n"), ("b", "b\n")]);
    let files = [
        file("a", blob("a\n"), blob("A\n")),
        file("b", blob("b\n"), blob("B\n")),
        file("c", blob("c\n"), None),
    ];
    let writer = writer(&fixture);
    let states = writer.proposal_states(&files).unwrap();
    let [before, proposed] = [ProposedFileState::AsBefore, ProposedFileState::AsProposed];
    assert_eq!(states, [proposed, before, proposed]);
    assert_eq!(writer.apply_proposal(&files, &|| false).unwrap().len(), 1);
    assert_eq!(fixture.text("b"), "B\n");
    // The changes of the task are compared with the state before the first attempt.
    let changed = writer.changed();
    let changed: Vec<_> = changed.iter().map(|file| (file.path.as_str(), file.op())).collect();
    assert_eq!(changed, [("a", "replace"), ("b", "replace"), ("c", "delete")]);
    let text = writer.text("a");
    assert_eq!((text.before.text(), text.now.text()), (Some("a\n"), Some("A\n")));
}

#[test]
fn a_file_that_becomes_executable_or_private_meanwhile() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new(&[("run", "x\n")]);
    let path = fixture.root.join("run");
    let files = [file("run", blob("x\n"), blob("y\n"))];
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(writer(&fixture).proposal_states(&files).unwrap(), [ProposedFileState::Changed]);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    writer(&fixture).apply_proposal(&files, &|| false).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let moved = [file("new", None, Some(Blob::new(&b"z\n"[..], 0o755)))];
    writer(&fixture).apply_proposal(&moved, &|| false).unwrap();
    let mode = std::fs::metadata(fixture.root.join("new")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

// WORKSPACE-56
#[test]
fn what_somebody_changed_meanwhile_stays_and_every_such_file_is_named() {
    let changed: [fn(&Fixture); 2] = [
        |repo| {
            repo.write("gone", "theirs\n");
            repo.write("a", "A\nmine\n");
            repo.write("made", "new\nmine\n");
        },
        |repo| {
            std::fs::remove_file(repo.root.join("a")).unwrap();
            std::fs::remove_file(repo.root.join("made")).unwrap();
        },
    ];
    let left = |path: &str, state| NotRolledBack { path: path.into(), state };
    let expected = [
        vec![
            left("gone", LeftState::Other),
            left("a", LeftState::Changed),
            left("made", LeftState::Changed),
        ],
        vec![left("a", LeftState::Nothing)],
    ];
    let open: [fn(&Fixture) -> RepoWriter; 2] = [writer, |repo| writer(repo).without_exchange()];
    for (change, expected) in changed.into_iter().zip(expected) {
        for open in open {
            let names = ["gone", "a", "m", "z"];
            let fixture = Fixture::new(&names.map(|name| (name, "old\n")));
            let files = [
                file("a", blob("old\n"), blob("A\n")),
                file("gone", blob("old\n"), None),
                file("made", None, blob("new\n")),
                file("m", blob("old\n"), blob("M\n")),
                file("z", blob("old\n"), blob("Z\n")),
            ];
            // The moment right before the fourth change.
            let looks = std::cell::Cell::new(0);
            let meanwhile = || {
                looks.set(looks.get() + 1);
                if looks.get() == 4 {
                    change(&fixture);
                    fixture.write("z", "theirs\n");
                }
                false
            };
            let writer = open(&fixture);
            let error = writer.apply_proposal(&files, &meanwhile).unwrap_err();
            assert_eq!(error.word(), Some("version_mismatch"));
            let text = error.to_string();
            let EditError::RollbackFailed { why, left } = error else { panic!("{error}") };
            assert!(matches!(*why, EditError::Conflict { ref path, .. } if path == "z"), "{why}");
            assert_eq!(left, expected);
            // The task lists what it left, with the content of now.
            let changed: Vec<_> = writer.changed().into_iter().map(|file| file.path).collect();
            let mut named: Vec<_> = expected.iter().map(|left| left.path.clone()).collect();
            named.sort();
            assert_eq!(changed, named);
            let now = if named.len() == 3 { Some("A\nmine\n") } else { None };
            assert_eq!(writer.text("a").now.text(), now);
            assert_eq!(writer.text("a").before.text(), Some("old\n"));
            left.iter().for_each(|left| assert!(text.contains(&left.path), "{text}"));
            assert_eq!((fixture.text("m"), fixture.text("z")), ("old\n".into(), "theirs\n".into()));
            match expected.len() {
                3 => assert_eq!(fixture.text("a"), "A\nmine\n"),
                _ => assert_eq!(fixture.text("gone"), "old\n"),
            }
            let there = Fixture::picture(&fixture.root);
            assert!(!there.iter().any(|(path, _)| path.to_string_lossy().contains(".act-write")));
        }
    }
}

fn text(files: &[ProposedFile]) -> String {
    String::from_utf8(patch(files, b"")).unwrap()
}

// WORKSPACE-53
#[test]
fn a_changed_file_has_three_lines_around_and_its_last_line_as_it_is() {
    let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10";
    let files = [file("n", blob(before), blob(&before.replace("5\n", "five\r\n")))];
    assert_eq!(
        text(&files),
        "diff --git a/n b/n\n--- a/n\n+++ b/n\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\r\n 6\n 7\n 8\n"
    );
    let files = [file("n", blob("a"), blob("a\n"))];
    assert_eq!(
        text(&files),
        "diff --git a/n b/n\n--- a/n\n+++ b/n\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"
    );
}

// WORKSPACE-53
#[test]
fn files_that_come_go_and_are_empty() {
    let files = [
        file("come", None, blob("x\n")),
        file("empty", None, blob("")),
        file("gone", Some(Blob::new(&b"y\n"[..], 0o755)), None),
    ];
    assert_eq!(
        text(&files),
        "diff --git a/come b/come\nnew file mode 100644\n--- /dev/null\n+++ b/come\n@@ -0,0 +1,1 @@\n+x\n\
         diff --git a/empty b/empty\nnew file mode 100644\n\
         diff --git a/gone b/gone\ndeleted file mode 100755\n--- a/gone\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-y\n"
    );
}

// WORKSPACE-53
#[test]
fn a_moved_file_is_told_once() {
    let mut moved = file("new name", None, blob("x\n"));
    moved.from = Some("old".into());
    let files = [moved, file("old", blob("x\n"), None)];
    assert_eq!(
        text(&files),
        "diff --git a/old b/new name\nsimilarity index 100%\nrename from old\nrename to new name\n"
    );
}

// WORKSPACE-53
#[test]
fn below_the_top_of_git_every_name_is_told_from_there() {
    let mut moved = file("new", None, blob("x\n"));
    moved.from = Some("old".into());
    let files = [moved, file("old", blob("x\n"), None), file("n", None, blob("y\n"))];
    let text = String::from_utf8(patch(&files, b"pa\xffck/")).unwrap();
    assert_eq!(
        text,
        "diff --git \"a/pa\\377ck/old\" \"b/pa\\377ck/new\"\nsimilarity index 100%\n\
         rename from \"pa\\377ck/old\"\nrename to \"pa\\377ck/new\"\n\
         diff --git \"a/pa\\377ck/n\" \"b/pa\\377ck/n\"\nnew file mode 100644\n--- /dev/null\n\
         +++ \"b/pa\\377ck/n\"\n@@ -0,0 +1,1 @@\n+y\n"
    );
}

// WORKSPACE-53
#[test]
fn a_name_cannot_be_read_as_anything_else() {
    assert_eq!(quoted("a/", "x\n+++ b/y\"é".as_bytes()), "\"a/x\\012+++ b/y\\\"\\303\\251\"");
    let files = [file("a b", blob(""), blob("x\n"))];
    assert!(text(&files).contains("\n--- a/a b\t\n+++ b/a b\t\n"), "{}", text(&files));
}
