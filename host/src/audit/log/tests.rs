use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::super::testing::{Place, edit};
use super::super::{AuditError, Decision, History, Verifier};
use super::*;

fn code(place: &Place) -> &'static str {
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
    let place = Place::filled(3);
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
    let place = Place::new();
    let repo = super::super::Place { identity: "1:2".into(), head: Some("c0ffee".into()) };
    let audit = place.audit().about(repo.clone()).of_task("t-abc123");
    audit.append(edit("a").decision(Decision::Allow)).unwrap();
    let record = place.records().remove(0);
    assert_eq!((record.task.as_deref(), record.repo), (Some("t-abc123"), Some(repo)));
}

// AUDIT-7
#[test]
fn several_logs_in_one_place_are_one_chain() {
    let place = Place::new();
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
    let whole = Place::filled(3);
    let lines = whole.lines();
    let last = &lines[2];
    for cut in 1..=last.len() {
        let place = Place::new();
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
    let place = Place::filled(1);
    let text = fs::read(place.path()).unwrap();
    for cut in 1..text.len() - 1 {
        let place = Place::new();
        fs::write(place.path(), &text[..cut]).unwrap();
        place.audit().append(edit("after")).unwrap();
        assert!(place.verify().ok, "{cut}");
    }
}

#[test]
fn a_writer_stopped_while_it_recovers_is_recovered_itself() {
    let place = Place::filled(2);
    let mut text = fs::read(place.path()).unwrap();
    text.extend(br#"{"v":1,"seq":3,"ti"#);
    fs::write(place.path(), &text).unwrap();
    place.audit().append(edit("x")).unwrap();
    let recovered = fs::read(place.path()).unwrap();
    for cut in text.len() + 1..recovered.len() {
        let place = Place::new();
        fs::write(place.path(), &recovered[..cut]).unwrap();
        place.audit().append(edit("y")).unwrap();
        let found = place.verify();
        assert!(found.ok, "cut at {cut}: {found:?}");
    }
}

// AUDIT-2
#[test]
fn what_is_no_log_of_ours_is_refused_and_left_as_it_is() {
    let place = Place::new();
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
    let place = Place::filled(5);
    let lines = place.lines();
    place.write_lines(&lines[..4]);
    assert_eq!(code(&place), "audit_cut");
    fs::remove_file(place.path()).unwrap();
    let error = place.audit().append(edit("x")).unwrap_err();
    assert_eq!(error, AuditError::Cut { path: place.path(), seq: 5 });
    fs::remove_file(place.path()).unwrap();
    let other = Place::filled(6);
    fs::copy(other.path(), place.path()).unwrap();
    assert_eq!(code(&place), "audit_cut");
}

#[test]
fn a_last_record_that_was_changed_is_not_gone_on_with() {
    let place = Place::filled(2);
    *place.keeper.head.lock().unwrap() = None;
    let mut lines = place.lines();
    lines[1] = lines[1].replace("src/1.rs", "src/2.rs");
    place.write_lines(&lines);
    assert_eq!(code(&place), "audit_damaged");
}

#[test]
fn a_log_that_is_cut_while_it_is_written_is_noticed() {
    let place = Place::filled(3);
    let audit = place.audit();
    audit.append(edit("mine")).unwrap();
    let lines = place.lines();
    place.write_lines(&lines[..2]);
    assert_eq!(audit.append(edit("x")).unwrap_err().code(), "audit_cut");
}

// AUDIT-5: no record, no action
#[test]
fn what_could_not_be_written_is_written_before_anything_else_begins() {
    let place = Place::new();
    let audit = place.audit();
    audit.append(edit("one")).unwrap();
    let aside = place.dir.path().join("aside");
    fs::rename(place.path(), &aside).unwrap();
    fs::create_dir(place.path()).unwrap();
    assert!(audit.append(edit("two")).is_err());
    assert!(audit.ready().is_err());
    assert!(audit.append(edit("three")).is_err());
    fs::remove_dir(place.path()).unwrap();
    fs::rename(&aside, place.path()).unwrap();
    audit.ready().unwrap();
    let objects: Vec<_> = place.records().into_iter().filter_map(|record| record.object).collect();
    assert_eq!(objects, ["one", "two", "three"]);
    assert!(place.verify().ok);
}

// AUDIT-12
#[test]
fn the_head_is_kept_elsewhere_at_an_edge() {
    let place = Place::new();
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
    let place = Place::filled(5);
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
    // What had been refused is recorded now.
    assert_eq!(records.len(), 3);
    // Two records are not there any more, and that is no secret.
    let found = place.verify();
    assert!(found.bad.is_none() && !found.ok && found.restarted_at == Some(6), "{found:?}");
    assert_eq!(found.history, History::Missing);
    let why = found.earlier[0].missing.as_ref().unwrap();
    assert!(why.contains("its record 4 is not what it was"), "{found:?}");
    let found = place.verify_accepting(6);
    assert!(found.ok && found.history == History::Accepted, "{found:?}");
    assert!(!place.verify_accepting(5).ok, "another restart is not the one that is known");
    // Another process that knew the old one goes on with the new one.
    place.audit().append(edit("other")).unwrap();
    assert!(place.verify_accepting(6).ok);
}

// AUDIT-14
#[test]
fn what_was_set_aside_stays_a_part_of_the_history() {
    let place = Place::filled(5);
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
    let verifier = Verifier::new(place.keeper.head().unwrap(), Default::default(), Some(hash));
    assert_eq!(place.verify_with(verifier).asked_seq, Some(3));
    // And is as it was.
    fs::write(&asked, old.replacen("src/1.rs", "src/2.rs", 1)).unwrap();
    let changed = place.verify();
    assert!(!changed.ok && changed.history == History::Missing, "{changed:?}");
    assert!(changed.earlier[0].missing.as_ref().unwrap().contains("not what was set aside"));
    fs::remove_file(&asked).unwrap();
    assert!(!place.verify().ok);
    fs::write(&asked, &old).unwrap();
    assert!(place.verify().ok);
    // Through a second beginning as well.
    fs::remove_file(place.path()).unwrap();
    assert_eq!(place.audit().restart().unwrap(), None);
    let gone = place.verify();
    assert!(!gone.ok && gone.bad.is_none(), "{gone:?}");
    assert!(gone.earlier[0].missing.as_ref().unwrap().contains("no log any more"), "{gone:?}");
}

#[test]
fn no_key_and_nothing_that_acts_on_a_terminal_gets_into_the_log() {
    // AUDIT-6, security line 162
    let place = Place::new();
    let keeper = Arc::<super::super::testing::Memory>::clone(&place.keeper);
    let secrets = Secrets::new([crate::secret::Secret::new("sk-canary-012345")]);
    let audit = super::super::Audit::new(place.state(), place.dir.path(), keeper, secrets);
    audit.append(edit("a/sk-canary-012345\u{1b}[2J").reason("sk-canary-012345")).unwrap();
    let text = fs::read_to_string(place.path()).unwrap();
    assert!(
        !text.contains("canary") && !text.contains('\u{1b}') && !text.contains("\\u001b"),
        "{text}"
    );
    assert!(text.contains(r"a/[redacted]\\u{1b}[2J"), "{text}");
}
