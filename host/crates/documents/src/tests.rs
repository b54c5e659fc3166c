use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const TEXT: &str = r#"{"doc_id":"d","version":3,"meta":{},"lines":{"0":"a","1":"b"}}"#;

fn desk() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("doc.json"), TEXT).unwrap();
    dir
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn publishing(dir: &Path) -> Publishing {
    Publishing::open(&act_fs::Dir::open(dir).unwrap()).unwrap()
}

// EDIT-28
#[test]
fn an_edit_replaces_the_file_keeps_its_mode_and_leaves_nothing_beside() {
    let dir = desk();
    let path = dir.path().join("doc.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(edit_line(&path, 3, 1, "x").unwrap().version(), 4);
    assert_eq!(show(&path).unwrap().lines(), ["a", "x"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(dir.path()), ["doc.json"]);
}

// EDIT-30
#[test]
fn a_link_stands_for_a_document_in_its_own_directory_and_for_no_other() {
    let (dir, outside) = (desk(), desk());
    let real = |name: &str| dir.path().join(name);
    fs::create_dir(real("deep")).unwrap();
    fs::rename(real("doc.json"), real("deep/doc.json")).unwrap();
    symlink("deep/doc.json", real("inside")).unwrap();
    symlink(real("inside"), real("twice")).unwrap();
    edit_line(&real("inside"), 3, 0, "x").unwrap();
    edit_line(&real("twice"), 4, 1, "y").unwrap();
    assert_eq!(show(&real("deep/doc.json")).unwrap().lines(), ["x", "y"]);
    assert!(fs::symlink_metadata(real("inside")).unwrap().is_symlink());
    assert_eq!(names(&real("deep")), ["doc.json"]);

    symlink(outside.path().join("doc.json"), real("out")).unwrap();
    symlink("../doc.json", real("deep/up")).unwrap();
    symlink("nowhere", real("dangling")).unwrap();
    fs::write(real("doc.json"), TEXT).unwrap();
    for (link, reason) in
        [("out", "not_a_file"), ("deep/up", "not_a_file"), ("dangling", "not_found")]
    {
        let refused = edit_line(&real(link), 3, 0, "x").unwrap_err();
        assert_eq!(refused.reason(), reason, "{link}");
    }
    assert_eq!(fs::read_to_string(outside.path().join("doc.json")).unwrap(), TEXT);
    assert_eq!(fs::read_to_string(real("doc.json")).unwrap(), TEXT);
}

// EDIT-31
#[test]
fn what_is_no_document_file_is_refused_without_waiting() {
    let dir = desk();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("directory")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RWXU).unwrap();
    fs::write(path("bytes"), b"\xff{}").unwrap();
    fs::write(path("large"), vec![b' '; MAX_BYTES as usize + 1]).unwrap();
    for (name, reason) in [
        ("missing", "not_found"),
        ("directory", "not_a_file"),
        ("fifo", "not_a_file"),
        ("doc.json/x", "not_a_file"),
        ("bytes", "bad_document"),
        ("large", "too_large"),
        ("..", "not_a_file"),
    ] {
        let refused = full_rewrite(&path(name), 3, "x").unwrap_err();
        assert_eq!(refused.reason(), reason, "{name}: {refused}");
    }
}

// EDIT-29
#[test]
fn a_change_by_somebody_who_takes_no_lock_is_seen_before_it_could_be_lost() {
    let dir = desk();
    let path = dir.path().join("doc.json");
    let theirs = TEXT.replace("\"a\"", "\"theirs\"");
    for replace in [false, true] {
        fs::write(&path, TEXT).unwrap();
        let file = DocumentFile::lock(&path).unwrap();
        if replace {
            fs::write(dir.path().join("new"), &theirs).unwrap();
            fs::rename(dir.path().join("new"), &path).unwrap();
        } else {
            fs::write(&path, &theirs).unwrap();
        }
        assert!(!file.replace(b"ours").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
        assert_eq!(names(dir.path()), ["doc.json"]);
    }
    // The edit is tried again on the new content.
    assert_eq!(edit_line(&path, 3, 1, "ours").unwrap().lines(), ["theirs", "ours"]);
}

// EDIT-29: whoever holds on to what is no longer the document holds nobody up.
#[test]
fn a_document_that_is_replaced_is_not_waited_for() {
    let dir = desk();
    let path = dir.path().join("doc.json");
    let held = fs::File::open(&path).unwrap();
    let how = rustix::fs::FlockOperation::LockExclusive;
    rustix::fs::flock(&held, how).unwrap();
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| edit_line(&path, 3, 0, "ours"));
        // The thread cannot have the lock yet, no matter whether it waits already.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!waits.is_finished());
        fs::write(dir.path().join("new"), TEXT.replace("\"a\"", "\"theirs\"")).unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert_eq!(waits.join().unwrap().unwrap().lines(), ["ours", "b"]);
    });
    drop(held);
    assert_eq!(names(dir.path()), ["doc.json"]);
}

// security line 179; EDIT-32
#[test]
fn what_a_killed_edit_left_is_taken_over_and_a_trap_in_its_place_is_not_followed() {
    let dir = desk();
    let path = dir.path().join("doc.json");
    let file = DocumentFile::lock(&path).unwrap();
    file.replace(TEXT.as_bytes()).unwrap();
    drop(file);
    let digest =
        sha2::Digest::finalize(<sha2::Sha256 as sha2::Digest>::new_with_prefix("doc.json"));
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let beside = dir.path().join(format!(".act-edit-{hex}.tmp"));
    fs::write(&beside, "half").unwrap();
    edit_line(&path, 3, 0, "x").unwrap();
    assert_eq!(names(dir.path()), ["doc.json"]);

    let outside = dir.path().join("outside");
    fs::write(&outside, "outside").unwrap();
    symlink(&outside, &beside).unwrap();
    edit_line(&path, 4, 0, "y").unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
    assert_eq!(names(dir.path()), ["doc.json", "outside"]);
}

// EDIT-33, EDIT-34
#[test]
fn every_finish_is_one_entry_with_the_document_as_it_stood() {
    let (dir, state) = (desk(), tempfile::tempdir().unwrap());
    let path = dir.path().join("doc.json");
    let place = || Ok(publishing(state.path()));
    assert_eq!(finish(&path, 3, "pass", "first", place).unwrap(), Decision::Pass);
    edit_line(&path, 3, 0, "later").unwrap();
    finish(&path, 4, "pass", "second", place).unwrap();
    finish(&path, 4, "hold", "third", place).unwrap();
    assert_eq!(finish(&path, 4, "maybe", "", place).unwrap_err().reason(), "invalid_decision");
    assert_eq!(finish(&path, 3, "pass", "", place).unwrap_err().reason(), "version_mismatch");

    let listed = |decision| publishing(state.path()).list(decision).unwrap().entries;
    let shown: Vec<_> = listed(Decision::Pass)
        .into_iter()
        .map(|entry| (entry.number, entry.version, entry.notes, entry.decision))
        .collect();
    assert_eq!(
        shown,
        [(1, 3, "first".into(), "pass".into()), (2, 4, "second".into(), "pass".into())]
    );
    let review = listed(Decision::Hold);
    assert_eq!((review.len(), review[0].entry.as_str()), (1, "review/000001.json"));
    let filed = fs::read_to_string(state.path().join("publishing/queue/000001.json")).unwrap();
    let filed: serde_json::Value = serde_json::from_str(&filed).unwrap();
    assert_eq!(filed["document"]["lines"]["0"], "a");
}

// EDIT-35
#[test]
fn what_others_put_among_the_entries_is_named_and_not_followed() {
    let (dir, state) = (desk(), tempfile::tempdir().unwrap());
    let path = dir.path().join("doc.json");
    let place = || Ok(publishing(state.path()));
    finish(&path, 3, "pass", "", place).unwrap();
    let queue = state.path().join("publishing/queue");
    fs::write(queue.join("000002.json"), "no json").unwrap();
    symlink(queue.join("000001.json"), queue.join("000003.json")).unwrap();
    fs::write(queue.join("notes.txt"), "x").unwrap();
    symlink(&path, queue.join(".new")).unwrap();
    finish(&path, 3, "pass", "", place).unwrap();
    let listing = publishing(state.path()).list(Decision::Pass).unwrap();
    let numbers: Vec<_> = listing.entries.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [1, 4]);
    assert_eq!(listing.unreadable, ["queue/000002.json", "queue/000003.json"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), TEXT);

    let other = tempfile::tempdir().unwrap();
    symlink(dir.path(), other.path().join("publishing")).unwrap();
    let state = act_fs::Dir::open(other.path()).unwrap();
    assert_eq!(Publishing::open(&state).unwrap_err().reason(), "artifact_dir");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    // EDIT-29
    #[test]
    fn of_any_concurrent_editors_one_wins(news in prop::collection::vec("[a-z]{1,4}", 2..8)) {
        let dir = desk();
        let path = dir.path().join("doc.json");
        let outcomes: Vec<_> = std::thread::scope(|threads| {
            let edit = |new| { let path = &path; move || edit_line(path, 3, 1, new) };
            let started: Vec<_> = news.iter().map(|new| threads.spawn(edit(new))).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners: Vec<_> = (0..news.len()).filter(|at| outcomes[*at].is_ok()).collect();
        prop_assert_eq!(winners.len(), 1);
        let after = show(&path).unwrap();
        prop_assert_eq!((after.version(), after.lines()[1].as_str()), (4, news[winners[0]].as_str()));
        prop_assert_eq!(names(dir.path()), ["doc.json"]);
    }
}
