use proptest::prelude::*;

use super::super::testing::{TempLog, edit};
use super::*;
use crate::{CheckpointStore as _, Entry, chain};

fn bad(place: &TempLog) -> Bad {
    let found = place.verify();
    assert!(!found.ok, "{found:?}");
    found.bad.unwrap()
}

// Security line 185
#[test]
fn a_changed_deleted_swapped_or_inserted_record_is_named() {
    let change = |work: &dyn Fn(&mut Vec<String>)| {
        let place = TempLog::filled(9);
        let mut lines = place.lines();
        work(&mut lines);
        place.write_lines(&lines);
        bad(&place)
    };
    let changed = change(&|lines| lines[4] = lines[4].replace("src/4.rs", "src/5.rs"));
    assert_eq!((changed.seq, changed.line), (5, Some(5)), "{changed:?}");
    let deleted = change(&|lines| drop(lines.remove(4)));
    assert_eq!(deleted.seq, 5, "{deleted:?}");
    let swapped = change(&|lines| lines.swap(4, 5));
    assert_eq!(swapped.seq, 5, "{swapped:?}");
    let inserted = change(&|lines| lines.insert(4, lines[1].clone()));
    assert_eq!(inserted.seq, 5, "{inserted:?}");
    let junk = change(&|lines| lines.insert(4, "{}".to_owned()));
    assert_eq!(junk.seq, 5, "{junk:?}");
    let first = change(&|lines| drop(lines.remove(0)));
    assert_eq!(first.seq, 1, "{first:?}");
}

/// Seals every record again, as anyone who knows the rules can.
fn sealed_again(records: &[Record]) -> Vec<String> {
    let mut prev = GENESIS.to_owned();
    let seal = |(record, seq): (&Record, u64)| {
        let (record, line) = chain::seal(record.clone(), seq, &prev).unwrap();
        prev = record.hash;
        line.trim_end().to_owned()
    };
    records.iter().zip(1..).map(seal).collect()
}

// Security line 186
#[test]
fn a_cut_log_and_one_that_was_written_anew_disagree_with_the_store() {
    let place = TempLog::filled(9);
    place.write_lines(&place.lines()[..6]);
    let cut = bad(&place);
    assert_eq!((cut.seq, cut.line), (7, None), "{cut:?}");

    let place = TempLog::filled(9);
    let mut records = place.records();
    records[2].object = Some("innocent".into());
    place.write_lines(&sealed_again(&records));
    let anew = bad(&place);
    assert_eq!(anew.seq, 9, "{anew:?}");
    assert!(anew.why.contains("store"), "{anew:?}");
}

// Security line 186, AUDIT-14
#[test]
fn a_log_that_only_says_that_it_was_begun_anew_is_found() {
    for prev in [None, Some("f".repeat(64)), Some(GENESIS.to_owned())] {
        let place = TempLog::filled(5);
        let head = place.keeper.head().unwrap().unwrap();
        let mut records = place.records();
        let mut first = records[4].clone();
        first.event = Event::ChainRestarted.as_str().to_owned();
        first.object = Some("audit.1.jsonl".to_owned());
        first.reason = Some("set_aside".to_owned());
        first.counts = [("kept_seq".to_owned(), 5), ("last_seq".to_owned(), 5)].into();
        let (first, line) = chain::seal(first, 6, &prev.unwrap_or(head.hash)).unwrap();
        let (mut prev, mut lines) = (first.hash, vec![line.trim_end().to_owned()]);
        records.remove(2);
        for (record, seq) in records.into_iter().zip(7..) {
            let (record, line) = chain::seal(record, seq, &prev).unwrap();
            lines.push(line.trim_end().to_owned());
            prev = record.hash;
        }
        place.write_lines(&lines);
        let bad = bad(&place);
        assert!(bad.why.contains("no such restart"), "{bad:?}");
        assert!(place.verify().to_accept().is_empty(), "nobody can accept what nobody began");
        assert_eq!(place.audit().append(edit("x")).unwrap_err().code(), "audit_cut");
    }
}

// Security line 186
#[test]
fn without_a_store_the_manifests_still_disagree() {
    let runs_of = |hash: &str, sha256: &str| {
        let manifest = ManifestFacts {
            head: Some(hash.to_owned()),
            sha256: sha256.to_owned(),
            ..ManifestFacts::default()
        };
        BTreeMap::from([("run_a".to_owned(), manifest)])
    };
    let runs = |hash: &str| runs_of(hash, "aa");
    let place = TempLog::filled(2);
    let audit = place.audit();
    let finished = Entry::new(Event::GateFinished).object("run_a").digest("manifest", Some("aa"));
    let head = audit.append(finished).unwrap();
    audit.append(edit("after")).unwrap();
    let found = place.verify_with(LogVerifier::new(None, runs(&head.hash), None));
    assert!(found.ok && found.runs_compared == 1, "{found:?}");
    let other = place.verify_with(LogVerifier::new(None, runs_of(&head.hash, "bb"), None));
    let bad = other.bad.unwrap();
    assert!(bad.seq == 3 && bad.why.contains("was changed"), "{bad:?}");

    let lines = place.lines();
    place.write_lines(&lines[..2]);
    let cut = place.verify_with(LogVerifier::new(None, runs(&head.hash), None));
    assert_eq!(cut.bad.unwrap().seq, 3);

    place.write_lines(&lines);
    let mut records = place.records();
    records[0].object = Some("innocent".into());
    place.write_lines(&sealed_again(&records));
    let anew = place.verify_with(LogVerifier::new(None, runs(&head.hash), None));
    let bad = anew.bad.unwrap();
    assert!(bad.seq == 3 && bad.why.contains("run_a"), "{bad:?}");
}

// AUDIT-15
#[test]
fn only_that_end_of_a_run_counts_which_the_store_heard_of() {
    let place = TempLog::filled(2);
    let end = place.audit().append(Entry::new(Event::GateFinished).object("run_a")).unwrap();
    let verify = |stored: Option<&str>| {
        let (head, stored) = (Some(end.hash.clone()), stored.map(str::to_owned));
        let sha256 = "aa".to_owned();
        let manifest = ManifestFacts { head, sha256, stored, ..ManifestFacts::default() };
        place.verify_with(LogVerifier::new(None, [("run_a".to_owned(), manifest)].into(), None))
    };
    assert!(verify(Some(&end.hash)).ok);
    assert!(verify(None).ok, "of an earlier version");
    let bad = verify(Some("aa")).bad.unwrap();
    assert!(bad.seq == 3 && bad.why.contains("another end of run_a"), "{bad:?}");
}

// AUDIT-18, AUDIT-31
#[test]
fn evidence_in_a_manifest_is_that_of_the_record_of_the_comparison() {
    let place = TempLog::filled(2);
    let audit = place.audit();
    let end = audit.append(Entry::new(Event::GateFinished).object("run_a")).unwrap();
    let verify = |evidence: &str| {
        let facts = ManifestFacts {
            head: Some(end.hash.clone()),
            sha256: "aa".to_owned(),
            evidence: Some(evidence.to_owned()),
            logs_cut: vec!["logs/a: 1 of 2 bytes".to_owned()],
            ..ManifestFacts::default()
        };
        place.verify_with(LogVerifier::new(None, [("run_a".to_owned(), facts)].into(), None))
    };
    let bad = verify("ee").bad.unwrap();
    assert!(bad.seq == 3 && bad.why.starts_with("no record has the evidence"), "{bad:?}");
    let compared = Entry::new(Event::TestsCompared).object("run_a").digest("evidence", Some("ee"));
    audit.append(compared).unwrap();
    let found = verify("ee");
    assert!(found.ok, "{found:?}");
    assert_eq!(found.logs_cut, ["run_a: logs/a: 1 of 2 bytes"]);
    let bad = verify("dd").bad.unwrap();
    assert!(bad.seq == 4 && bad.why.contains("evidence in the manifest of run_a was changed"));
    assert!(bad.why.contains("move runs/run_a"), "{bad:?}");
}

/// The end of a run with evidence, after which `lost` records were cut off before the log was archived.
fn archived_without_its_end(lost: usize) -> (TempLog, Head) {
    let place = TempLog::filled(2);
    let audit = place.audit();
    let end = audit.append(Entry::new(Event::GateFinished).object("run_a")).unwrap();
    let compared = Entry::new(Event::TestsCompared).object("run_a").digest("evidence", Some("ee"));
    audit.append(compared).unwrap();
    audit.append(edit("after")).unwrap();
    audit.settle().unwrap();
    let lines = place.lines();
    place.write_lines(&lines[..lines.len() - lost]);
    if lost == 0 {
        place.write_lines(&[lines, vec!["{}".to_owned()]].concat());
    }
    place.audit().restart().unwrap();
    (place, end)
}

fn verify_evidence(place: &TempLog, end: &Head, evidence: Option<&str>) -> LogVerification {
    let facts = ManifestFacts {
        head: Some(end.hash.clone()),
        sha256: "aa".to_owned(),
        evidence: evidence.map(str::to_owned),
        ..ManifestFacts::default()
    };
    let runs = [("run_a".to_owned(), facts)].into();
    place.verify_with(LogVerifier::new(place.keeper.head().unwrap(), runs, None))
}

// AUDIT-30, AUDIT-31
#[test]
fn evidence_whose_record_was_cut_off_is_unknown_and_its_acceptance_covers_no_other_evidence() {
    let (place, end) = archived_without_its_end(2);
    let found = verify_evidence(&place, &end, Some("ee"));
    assert!(!found.ok && found.bad.is_none() && found.runs_unknown.is_empty(), "{found:?}");
    assert_eq!(found.evidence_unknown.len(), 1, "{found:?}");
    place.accept(&found);
    let found = verify_evidence(&place, &end, Some("ee"));
    assert!(found.ok && found.evidence_unknown[0].accepted_seq.is_some(), "{found:?}");
    assert!(found.to_accept().is_empty());
    let forged = verify_evidence(&place, &end, Some("dd"));
    assert!(!forged.ok && forged.history == History::Missing, "{forged:?}");
    assert!(verify_evidence(&place, &end, None).ok, "evidence may be removed");
    // A user who accepted the gap before the evidence was forged accepted no evidence.
    let (place, end) = archived_without_its_end(2);
    place.accept(&verify_evidence(&place, &end, None));
    assert!(verify_evidence(&place, &end, None).ok);
    assert!(!verify_evidence(&place, &end, Some("dd")).ok);
    // A later restart changes nothing about it, and the acceptance stays in force.
    place.accept(&verify_evidence(&place, &end, Some("ee")));
    let lines = place.lines();
    place.write_lines(&[lines, vec!["{}".to_owned()]].concat());
    place.audit().restart().unwrap();
    assert!(verify_evidence(&place, &end, Some("ee")).ok);
    assert!(!verify_evidence(&place, &end, Some("dd")).ok);
}

// AUDIT-30, AUDIT-31
#[test]
fn evidence_in_an_archived_log_that_lost_nothing_or_everything_is_compared_or_unknown() {
    for lost in [0, 1] {
        let (place, end) = archived_without_its_end(lost);
        let found = verify_evidence(&place, &end, Some("ee"));
        assert!(found.evidence_unknown.is_empty() && found.ok == (lost == 0), "{found:?}");
        let bad = verify_evidence(&place, &end, Some("dd")).bad.unwrap();
        assert!(bad.why.contains("evidence in the manifest of run_a was changed"), "{bad:?}");
    }
    // Where the end of the run is gone too, run and evidence are unknown, each on its own.
    for lost in [3, 4] {
        let (place, end) = archived_without_its_end(lost);
        let found = verify_evidence(&place, &end, Some("ee"));
        let unknown = (found.runs_unknown.len(), found.evidence_unknown.len());
        assert!(!found.ok && unknown == (1, 1), "{found:?}");
        place.accept(&found);
        assert!(verify_evidence(&place, &end, Some("ee")).ok);
        assert!(!verify_evidence(&place, &end, Some("dd")).ok);
    }
    // A record that was changed hides those after it.
    let (place, end) = archived_without_its_end(0);
    let archived = place.dir.path().join("audit.1.jsonl");
    let broken = std::fs::read_to_string(&archived).unwrap().replacen("tests_compared", "edit", 1);
    std::fs::write(place.path(), broken).unwrap();
    std::fs::remove_file(&archived).unwrap();
    let mut verifier = LogVerifier::archived(
        place.keeper.head().unwrap(),
        Pending {
            runs: [(
                "run_a".to_owned(),
                ManifestFacts {
                    head: Some(end.hash),
                    evidence: Some("ee".to_owned()),
                    ..ManifestFacts::default()
                },
            )]
            .into(),
            ..Pending::default()
        },
    );
    for (line, number) in place.lines().iter().zip(1..) {
        if !verifier.push(parse_line(line.as_bytes()), number, 0) {
            break;
        }
    }
    assert_eq!(verifier.disputes(Some(9)), []);
    assert_eq!(verifier.evidence_left().into_values().collect::<Vec<_>>(), ["ee"]);
}

// AUDIT-30, AUDIT-31
#[test]
fn a_task_that_runs_while_the_log_is_restarted_records_its_comparison_in_the_next_log() {
    let (place, end) = archived_without_its_end(2);
    let compared = Entry::new(Event::TestsCompared).object("run_a").digest("evidence", Some("ee"));
    place.audit().append(compared).unwrap();
    let found = verify_evidence(&place, &end, Some("ee"));
    assert!(found.bad.is_none() && found.evidence_unknown.is_empty(), "{found:?}");
    let bad = verify_evidence(&place, &end, Some("dd")).bad.unwrap();
    assert!(bad.why.contains("evidence in the manifest of run_a was changed"), "{bad:?}");
}

// AUDIT-30, AUDIT-31
#[test]
fn the_logs_of_a_run_that_is_unknown_are_those_that_its_manifest_names() {
    let (place, end) = archived_without_its_end(4);
    let verify = |logs_changed: &[&str]| {
        let facts = ManifestFacts {
            head: Some(end.hash.clone()),
            sha256: "aa".to_owned(),
            logs_changed: logs_changed.iter().copied().map(str::to_owned).collect(),
            ..ManifestFacts::default()
        };
        let runs = [("run_a".to_owned(), facts)].into();
        place.verify_with(LogVerifier::new(place.keeper.head().unwrap(), runs, None))
    };
    place.accept(&verify(&[]));
    assert!(verify(&[]).ok);
    let found = verify(&["logs/test.log"]);
    let bad = found.bad.unwrap();
    assert!(!found.ok && bad.why.contains("logs/test.log of run_a was changed"), "{bad:?}");
}

#[test]
fn a_hash_that_was_noted_down_is_looked_for() {
    let place = TempLog::filled(4);
    let hash = place.records()[1].hash.clone();
    let found = place.verify_with(LogVerifier::new(None, BTreeMap::new(), Some(hash)));
    assert!(found.ok && found.asked_seq == Some(2), "{found:?}");
    let found = place.verify_with(LogVerifier::new(None, BTreeMap::new(), Some("0".repeat(64))));
    assert!(!found.ok && found.bad.is_none(), "{found:?}");
}

#[test]
fn a_log_that_is_not_there_is_fine_until_somebody_remembers_one() {
    let place = TempLog::new();
    assert!(place.verify().ok);
    place.audit().append(edit("a")).unwrap();
    place.audit().settle().unwrap();
    let audit = place.audit();
    audit.append(edit("b")).unwrap();
    audit.settle().unwrap();
    std::fs::remove_file(place.path()).unwrap();
    assert_eq!(bad(&place).seq, 1);
}

#[derive(Debug, Clone)]
enum Change {
    Flip(prop::sample::Index, u8),
    Delete,
    Double,
    Swap,
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<prop::sample::Index>(), 1u8..).prop_map(|(at, flip)| Change::Flip(at, flip)),
        Just(Change::Delete),
        Just(Change::Double),
        Just(Change::Swap),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Security line 185: whatever is done to one record, it or the place after it is the first bad one.
    #[test]
    fn the_first_record_that_was_touched_is_named(
        count in 2usize..12, at in any::<prop::sample::Index>(), change in changes()
    ) {
        let place = TempLog::filled(count);
        let whole = place.verify();
        prop_assert!(whole.ok && whole.records == count as u64);
        let mut lines: Vec<Vec<u8>> = place.lines().into_iter().map(String::into_bytes).collect();
        let at = at.index(count);
        let first = at as u64 + 1;
        let expected = match change {
            Change::Flip(byte, flip) => {
                // The bytes before it show that the file is a log of act.
                let byte = 8 + byte.index(lines[at].len() - 8);
                lines[at][byte] ^= flip;
                first
            }
            Change::Delete => {
                lines.remove(at);
                first
            }
            Change::Double => {
                lines.insert(at, lines[at].clone());
                first + 1
            }
            Change::Swap => {
                let other = (at + 1) % count;
                lines.swap(at, other);
                (at.min(other) as u64) + 1
            }
        };
        let mut bytes = lines.join(&b'\n');
        bytes.push(b'\n');
        std::fs::write(place.path(), bytes).unwrap();
        let found = place.verify();
        prop_assert!(!found.ok, "{found:?}");
        prop_assert_eq!(found.bad.map(|bad| bad.seq), Some(expected));
    }
}
