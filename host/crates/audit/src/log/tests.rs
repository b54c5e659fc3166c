use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use rustix::fs::Mode;

use super::super::testing::{TempLog, edit};
use super::super::{AuditError, Decision, History, LogVerifier, ManifestFacts};
use super::*;

fn code(place: &TempLog) -> &'static str {
    let before = fs::read(place.path()).ok();
    let error = place.audit().append(edit("x")).unwrap_err();
    assert!(error.to_string().contains(place.path().to_str().unwrap()), "{error}");
    assert!(!error.hint().is_empty());
    assert_eq!(place.audit().ready().unwrap_err().code(), error.code(), "and nothing begins");
    assert_eq!(fs::read(place.path()).ok(), before, "left as found");
    error.code()
}

// AUDIT-1
#[test]
fn a_log_is_for_its_owner_alone_and_holds_one_line_for_each_record() {
    let place = TempLog::filled(3);
    let mode = fs::metadata(place.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let records = place.records();
    assert_eq!(records.iter().map(|record| record.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(records[0].prev, GENESIS);
    assert_eq!(records[2].prev, records[1].hash);
    assert_eq!(
        (records[0].pid, records[0].act_version.as_str()),
        (std::process::id(), env!("CARGO_PKG_VERSION"))
    );
    assert!(place.verify().ok);
}

#[test]
fn a_record_says_for_which_task_and_about_which_repository() {
    let place = TempLog::new();
    let repo = super::super::RepoIdentity {
        identity: "1:2".into(),
        head: Some("c0ffee".into()),
        worktree_of: None,
    };
    let audit = place.audit().about(repo.clone()).of_task("t-abc123");
    audit.append(edit("a").decision(Decision::Allow)).unwrap();
    let record = place.records().remove(0);
    assert_eq!((record.task.as_deref(), record.repo), (Some("t-abc123"), Some(repo)));
}

// AUDIT-7
#[test]
fn several_logs_in_one_place_are_one_chain() {
    let place = TempLog::new();
    let (one, other) = (place.audit(), place.audit());
    for _ in 0..3 {
        one.append(edit("one")).unwrap();
        other.append(edit("other")).unwrap();
    }
    assert_eq!(place.verify().records, 6);
    assert!(place.verify().ok);
}

// AUDIT-8
#[test]
fn a_torn_line_is_recorded_by_the_next_writer_wherever_it_was_cut() {
    let whole = TempLog::filled(3);
    let lines = whole.lines();
    let last = &lines[2];
    for cut in 1..=last.len() {
        let place = TempLog::new();
        place.write_lines(&lines[..2]);
        let mut text = fs::read(place.path()).unwrap();
        text.extend(&last.as_bytes()[..cut]);
        fs::write(place.path(), &text).unwrap();
        let before = place.verify();
        assert!(before.ok, "{before:?}");
        place.audit().append(edit("after")).unwrap();
        let found = place.verify();
        assert!(found.ok, "cut at {cut}: {found:?}");
        let events: Vec<_> = place.records().into_iter().map(|record| record.event).collect();
        if cut == last.len() {
            // Only its line feed was missing.
            assert_eq!(events, ["edit", "edit", "edit", "edit"]);
        } else {
            assert_eq!(before.torn_bytes, cut as u64);
            assert_eq!(events, ["edit", "edit", "log_recovered", "edit"]);
            assert_eq!(found.recovered, 1);
            let now = fs::read(place.path()).unwrap();
            assert!(now.starts_with(&text), "nothing of it is lost");
        }
    }
}

#[test]
fn a_first_record_that_was_torn_is_recovered_too() {
    let place = TempLog::filled(1);
    let text = fs::read(place.path()).unwrap();
    for cut in 1..text.len() - 1 {
        let place = TempLog::new();
        fs::write(place.path(), &text[..cut]).unwrap();
        place.audit().append(edit("after")).unwrap();
        assert!(place.verify().ok, "{cut}");
    }
}

#[test]
fn a_writer_stopped_while_it_recovers_is_recovered_itself() {
    let place = TempLog::filled(2);
    let mut text = fs::read(place.path()).unwrap();
    text.extend(br#"{"v":1,"seq":3,"ti"#);
    fs::write(place.path(), &text).unwrap();
    place.audit().append(edit("x")).unwrap();
    let recovered = fs::read(place.path()).unwrap();
    for cut in text.len() + 1..recovered.len() {
        let place = TempLog::new();
        fs::write(place.path(), &recovered[..cut]).unwrap();
        place.audit().append(edit("y")).unwrap();
        let found = place.verify();
        assert!(found.ok, "cut at {cut}: {found:?}");
    }
}

// AUDIT-2
#[test]
fn what_is_no_log_of_ours_is_refused_and_left_as_it_is() {
    let place = TempLog::new();
    fs::write(place.path(), "hello\n").unwrap();
    assert_eq!(code(&place), "audit_foreign");
    fs::write(place.path(), "{\"v\":2,\"seq\":1}\n").unwrap();
    assert_eq!(code(&place), "audit_future");
    fs::remove_file(place.path()).unwrap();
    fs::create_dir(place.path()).unwrap();
    assert_eq!(code(&place), "audit_foreign");
    fs::remove_dir(place.path()).unwrap();
    let outside = place.dir.path().join("outside");
    fs::write(&outside, "private\n").unwrap();
    symlink(&outside, place.path()).unwrap();
    assert_eq!(code(&place), "audit_foreign");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "private\n");
    fs::remove_file(place.path()).unwrap();
    rustix::fs::mkfifoat(place.state(), NAME, Mode::RUSR | Mode::WUSR).unwrap();
    assert_eq!(place.audit().append(edit("x")).unwrap_err().code(), "audit_foreign");
}

// AUDIT-2, security line 186
#[test]
fn a_log_that_was_cut_or_written_anew_is_not_gone_on_with() {
    let place = TempLog::filled(5);
    let lines = place.lines();
    place.write_lines(&lines[..4]);
    assert_eq!(code(&place), "audit_cut");
    fs::remove_file(place.path()).unwrap();
    let error = place.audit().append(edit("x")).unwrap_err();
    assert_eq!(error, AuditError::Cut { path: place.path(), seq: 5 });
    fs::remove_file(place.path()).unwrap();
    let other = TempLog::new();
    for _ in 0..6 {
        other.audit().append(edit("other")).unwrap();
    }
    fs::copy(other.path(), place.path()).unwrap();
    assert_eq!(code(&place), "audit_cut");
}

#[test]
fn a_last_record_that_was_changed_is_not_gone_on_with() {
    let place = TempLog::filled(2);
    *place.keeper.head.lock().unwrap() = None;
    let mut lines = place.lines();
    lines[1] = lines[1].replace("src/1.rs", "src/2.rs");
    place.write_lines(&lines);
    assert_eq!(code(&place), "audit_damaged");
}

#[test]
fn a_log_that_is_cut_while_it_is_written_is_noticed() {
    let place = TempLog::filled(3);
    let audit = place.audit();
    audit.append(edit("mine")).unwrap();
    let lines = place.lines();
    place.write_lines(&lines[..2]);
    assert_eq!(audit.append(edit("x")).unwrap_err().code(), "audit_cut");
}

// AUDIT-5: no record, no action
#[test]
fn what_could_not_be_written_is_written_before_anything_else_begins() {
    let place = TempLog::new();
    let audit = place.audit();
    audit.append(edit("one")).unwrap();
    let archived = place.dir.path().join("archived");
    fs::rename(place.path(), &archived).unwrap();
    fs::create_dir(place.path()).unwrap();
    assert!(audit.append(edit("two")).is_err());
    assert!(audit.ready().is_err());
    assert!(audit.append(edit("three")).is_err());
    fs::remove_dir(place.path()).unwrap();
    fs::rename(&archived, place.path()).unwrap();
    audit.ready().unwrap();
    let objects: Vec<_> = place.records().into_iter().filter_map(|record| record.object).collect();
    assert_eq!(objects, ["one", "two", "three"]);
    assert!(place.verify().ok);
}

// AUDIT-12
#[test]
fn the_head_is_kept_elsewhere_at_an_edge() {
    let place = TempLog::new();
    let audit = place.audit();
    let head = audit.append(edit("one")).unwrap();
    assert_eq!(place.keeper.head().unwrap(), None);
    audit.settle().unwrap();
    assert_eq!(place.keeper.head().unwrap(), Some(head.clone()));
    assert_eq!(head.end, fs::metadata(place.path()).unwrap().size());
    assert_eq!(audit.head(), Some(head));
}

// AUDIT-14
#[test]
fn a_broken_log_is_set_aside_and_the_new_one_says_so() {
    let place = TempLog::filled(5);
    let kept = place.keeper.head().unwrap().unwrap();
    let lines = place.lines();
    place.write_lines(&lines[..3]);
    let audit = place.audit();
    assert!(audit.append(edit("lost")).is_err());
    assert_eq!(audit.restart().unwrap().as_deref(), Some("audit.1.jsonl"));
    audit.append(edit("after")).unwrap();
    let records = place.records();
    assert_eq!(records[0].event, "chain_restarted");
    assert_eq!((records[0].seq, &records[0].prev), (6, &kept.hash));
    assert_eq!(records[0].object.as_deref(), Some("audit.1.jsonl"));
    // The records that were refused are written now.
    assert_eq!(records.len(), 3);
    // Two records are not there any more, and that is no secret.
    let found = place.verify();
    assert!(found.bad.is_none() && !found.ok && found.restarted_at == Some(6), "{found:?}");
    assert_eq!(found.history, History::Missing);
    let why = found.earlier[0].missing.as_ref().unwrap();
    assert!(why.contains("its record 4 was changed"), "{found:?}");
    place.accept(&found);
    let accepted = place.verify();
    assert!(accepted.ok && accepted.history == History::Accepted, "{accepted:?}");
    assert_eq!(accepted.earlier[0].accepted_seq, Some(9), "{accepted:?}");
    // Another process that knew the old one goes on with the new one.
    place.audit().append(edit("other")).unwrap();
    assert!(place.verify().ok);
}

// AUDIT-26
#[test]
fn what_was_accepted_is_the_missing_log_as_it_stood_and_no_other_one() {
    let place = TempLog::filled(5);
    place.write_lines(&place.lines()[..3]);
    place.audit().restart().unwrap();
    place.accept(&place.verify());
    assert!(place.verify().ok && place.verify().to_accept().is_empty());
    let record = place.records().pop().unwrap();
    assert_eq!((record.event.as_str(), record.reason.as_deref()), ("gap_accepted", Some("broken")));
    assert_eq!((record.counts["last_seq"], record.counts["needed_seq"]), (3, 5), "its end");
    assert!(record.digests.contains_key("found") && record.digests.contains_key("head"));
    let archived = place.dir.path().join("audit.1.jsonl");
    let kept = fs::read(&archived).unwrap();
    let states =
        [("changed", kept[..kept.len() - 1].to_vec()), ("changed", [&kept[..], b"\n"].concat())];
    for (reason, bytes) in states {
        fs::write(&archived, bytes).unwrap();
        let found = place.verify();
        assert!(!found.ok && found.history == History::Missing, "{found:?}");
        assert_eq!(found.earlier[0].reason.as_deref(), Some(reason));
    }
    fs::remove_file(&archived).unwrap();
    let lost = place.verify();
    assert!(!lost.ok && lost.earlier[0].reason.as_deref() == Some("absent"), "{lost:?}");
    fs::write(&archived, &kept).unwrap();
    assert!(place.verify().ok);
    // Its loss can be accepted as well; that it comes back is another state again.
    fs::remove_file(&archived).unwrap();
    place.accept(&place.verify());
    assert!(place.verify().ok);
    fs::write(&archived, &kept).unwrap();
    assert!(!place.verify().ok);
}

// AUDIT-26
#[test]
fn a_log_that_is_lost_does_not_hide_the_ones_before_it() {
    let place = TempLog::filled(5);
    place.write_lines(&place.lines()[..3]);
    assert_eq!(place.audit().restart().unwrap().as_deref(), Some("audit.1.jsonl"));
    place.accept(&place.verify());
    place.audit().append(edit("between")).unwrap();
    place.audit().settle().unwrap();
    let lines = place.lines();
    place.write_lines(&[lines, vec!["{}".to_owned()]].concat());
    assert_eq!(place.audit().restart().unwrap().as_deref(), Some("audit.2.jsonl"));
    // The acceptance is in the log that was archived, and is still in force.
    let found = place.verify();
    assert!(found.ok && found.earlier.len() == 2, "{found:?}");
    let second = place.dir.path().join("audit.2.jsonl");
    fs::remove_file(&second).unwrap();
    let found = place.verify();
    let names: Vec<_> = found.earlier.iter().map(|log| log.name.as_str()).collect();
    assert_eq!(names, ["audit.2.jsonl", "audit.1.jsonl"], "the store remembers what it said");
    place.accept(&found);
    assert!(place.verify().ok);
    fs::remove_file(place.dir.path().join("audit.1.jsonl")).unwrap();
    let found = place.verify();
    assert!(!found.ok && found.earlier[1].reason.as_deref() == Some("absent"), "{found:?}");
    // And no other log takes a name that one had.
    fs::remove_file(place.path()).unwrap();
    fs::write(place.path(), "{\"v\":1,").unwrap();
    assert_eq!(place.audit().restart().unwrap().as_deref(), Some("audit.3.jsonl"));
}

/// An empty head is none.
fn manifest(head: &str, sha256: &str) -> ManifestFacts {
    let head = Some(head.to_owned()).filter(|head| !head.is_empty());
    ManifestFacts { head, sha256: sha256.to_owned(), ..ManifestFacts::default() }
}

// AUDIT-26, AUDIT-30
#[test]
fn beside_a_gap_a_run_is_unknown_until_that_is_accepted_and_without_one_it_is_wrong() {
    let place = TempLog::filled(5);
    let runs = |all: &[(&str, &str)]| {
        let all = all.iter().map(|(run, head)| ((*run).to_owned(), manifest(head, "aa")));
        LogVerifier::new(place.keeper.head().unwrap(), all.collect(), None)
    };
    let lines = place.lines();
    place.write_lines(&[lines.clone(), vec!["{}".to_owned()]].concat());
    place.audit().restart().unwrap();
    let head = "a".repeat(64);
    let wrong = place.verify_with(runs(&[("run_a", &head)]));
    assert!(!wrong.ok && wrong.bad.unwrap().why.contains("run_a"), "history is whole");
    fs::remove_file(place.dir.path().join("audit.1.jsonl")).unwrap();
    let found = place.verify_with(runs(&[("run_a", &head)]));
    assert_eq!((found.runs_compared, found.runs_unknown.len()), (0, 1), "{found:?}");
    assert!(!found.ok && found.bad.is_none());
    place.accept(&found);
    let found = place.verify_with(runs(&[("run_a", &head)]));
    assert!(found.ok && found.runs_unknown[0].accepted_seq.is_some(), "{found:?}");
    for other in [&[("run_a", &*head), ("run_b", &*head)][..], &[("run_a", &"b".repeat(64))]] {
        let found = place.verify_with(runs(other));
        assert!(!found.ok && found.history == History::Missing, "{found:?}");
    }
    let head = [("run_a".to_owned(), manifest(&head, "bb"))];
    let changed = LogVerifier::new(place.keeper.head().unwrap(), head.into(), None);
    assert!(!place.verify_with(changed).ok, "the rest of it is another one");
    // A manifest that names no head cannot be compared. It is reported, and never as agreeing.
    let silent = place.verify_with(runs(&[("run_c", "")]));
    assert!(!silent.ok, "{silent:?}");
    assert_eq!((silent.runs_without_head, silent.runs_compared), (vec!["run_c".to_owned()], 0));
}

// AUDIT-14
#[test]
fn what_was_set_aside_stays_a_part_of_the_history() {
    let place = TempLog::filled(5);
    let junk = format!("{}\nno record\n", place.lines().join("\n"));
    fs::write(place.path(), junk).unwrap();
    assert_eq!(place.audit().restart().unwrap().as_deref(), Some("audit.1.jsonl"));
    let whole = place.verify();
    assert!(whole.ok && whole.history == History::Whole, "{whole:?}");
    assert_eq!((whole.earlier[0].records, &whole.earlier[0].missing), (5, &None));
    // A head that was noted down before is still found.
    let asked = place.dir.path().join("audit.1.jsonl");
    let old = fs::read_to_string(&asked).unwrap();
    let hash = old.lines().nth(2).unwrap().rsplit('"').nth(1).unwrap().to_owned();
    let verifier = LogVerifier::new(place.keeper.head().unwrap(), Default::default(), Some(hash));
    assert_eq!(place.verify_with(verifier).asked_seq, Some(3));
    // And is as it was.
    fs::write(&asked, old.replacen("src/1.rs", "src/2.rs", 1)).unwrap();
    let changed = place.verify();
    assert!(!changed.ok && changed.history == History::Missing, "{changed:?}");
    assert!(
        changed.earlier[0]
            .missing
            .as_ref()
            .unwrap()
            .contains("differs from the one that was archived")
    );
    fs::remove_file(&asked).unwrap();
    assert!(!place.verify().ok);
    fs::write(&asked, &old).unwrap();
    assert!(place.verify().ok);
    // Through a second beginning as well.
    fs::remove_file(place.path()).unwrap();
    assert_eq!(place.audit().restart().unwrap(), None);
    let gone = place.verify();
    assert!(!gone.ok && gone.bad.is_none(), "{gone:?}");
    assert!(gone.earlier[0].missing.as_ref().unwrap().contains("no log to archive"), "{gone:?}");
}

// AUDIT-26, AUDIT-30
#[test]
fn what_is_accepted_of_a_log_is_no_excuse_for_a_manifest_that_disagrees_with_the_rest() {
    let place = TempLog::filled(3);
    let ended = place.audit().append(Entry::new(Event::GateFinished).object("run_a")).unwrap();
    place.audit().append(edit("lost")).unwrap();
    place.audit().settle().unwrap();
    place.write_lines(&place.lines()[..4]);
    place.audit().restart().unwrap();
    let runs = |head: &str| {
        let runs = [("run_a".to_owned(), manifest(head, "aa"))];
        LogVerifier::new(place.keeper.head().unwrap(), runs.into(), None)
    };
    place.accept(&place.verify_with(runs(&ended.hash)));
    let found = place.verify_with(runs(&ended.hash));
    assert!(found.ok && found.runs_compared == 1, "{found:?}");
    let found = place.verify_with(runs(&"a".repeat(64)));
    assert!(!found.ok, "{found:?}");
    assert!(found.bad.unwrap().why.contains("the manifest of run_a names another record"));
}

#[test]
fn no_key_and_nothing_that_acts_on_a_terminal_gets_into_the_log() {
    // AUDIT-6, security line 162
    let place = TempLog::new();
    let keeper = Arc::<super::super::testing::Memory>::clone(&place.keeper);
    let secrets = Secrets::new([act_core::secret::Secret::new("sk-canary-012345")]);
    let audit = super::super::Audit::new(place.state(), place.dir.path(), keeper, secrets);
    audit.append(edit("a/sk-canary-012345\u{1b}[2J").reason("sk-canary-012345")).unwrap();
    let text = fs::read_to_string(place.path()).unwrap();
    assert!(
        !text.contains("canary") && !text.contains('\u{1b}') && !text.contains("\\u001b"),
        "{text}"
    );
    assert!(text.contains(r"a/[redacted]\\u{1b}[2J"), "{text}");
}
