//! The archived logs, back to the first one: whether they still show what was before, and what the user has accepted that
//! cannot be known any more. A gap is accepted exactly as it was when the user accepted it; whatever has changed since then
//! is not accepted.

use std::collections::BTreeMap;
use std::path::Path;

use act_fs::Dir;

use super::chain::AuditReader;
use super::error::AuditError;
use super::log::{LogFile, NAME};
use super::record::{Decision, Entry, Event, NAMES, Record};
use super::verify::{
    Bad, Before, EarlierLog, History, ManifestFacts, Rest, UnknownRun, Verification, Verifier,
};

/// Maximum number of logs that `act audit restart` can archive under a name each.
const MAX_ARCHIVED: usize = 1000;

/// The log in the directory `state`, which `path` names, and all those before it.
pub fn verify_all(
    state: &Dir,
    path: &Path,
    mut verifier: Verifier,
) -> Result<Verification, AuditError> {
    let log = path.join(NAME);
    read(&mut verifier, AuditReader::open(state, path)?, &log, None)?;
    let Some((mut before, mut rest)) = verifier.before() else { return Ok(verifier.finish()) };
    let mut accepted = verifier.accepted();
    let mut found = verifier.finish();
    for _ in 0..MAX_ARCHIVED {
        let restart = before.restart;
        let looked = look(state, path, before, rest)?;
        rest = looked.rest;
        accepted.after(looked.accepted);
        // Whatever is accepted of a log, no manifest may say something else than what is there.
        found.bad = found.bad.or_else(|| looked.disputes.into_iter().next());
        found.runs_compared += looked.runs_compared;
        found.asked_seq = found.asked_seq.or(looked.asked_seq);
        // Where that log says nothing of what was before it, the store does.
        let next = match (looked.before, &looked.log.missing) {
            (None, Some(_)) => rest.before(restart),
            (before, _) => before,
        };
        found.earlier.push(looked.log);
        match next {
            Some(next) => before = next,
            None => break,
        }
    }
    Ok(found.weigh(rest, &accepted))
}

impl Verification {
    /// With what nobody found: beside a gap it is unknown, else it is gone or was never there.
    fn weigh(mut self, rest: Rest, accepted: &Accepted) -> Self {
        for log in &mut self.earlier {
            log.accepted_seq = accepted.log(log);
        }
        let gap = self.earlier.iter().any(|log| log.missing.is_some());
        let (headless, runs): (BTreeMap<_, _>, _) =
            rest.runs.into_iter().partition(|(_, manifest)| manifest.head.is_none());
        let runs: BTreeMap<String, ManifestFacts> = runs;
        self.runs_without_head = headless.into_keys().collect();
        match runs.keys().next() {
            Some(run) if !gap => {
                let seq = self.earlier.last().map_or(1, |log| log.seq + 1);
                let why = format!("no log has the record that the manifest of {run} names");
                self.bad.get_or_insert(Bad { seq, line: None, why });
            }
            _ => {
                let unknown = runs.into_iter().map(|(run_id, manifest)| {
                    let ManifestFacts { head, sha256, stored: _ } = manifest;
                    let (head, accepted_seq) = (head.unwrap_or_default(), None);
                    let run = UnknownRun { run_id, head, sha256, accepted_seq };
                    UnknownRun { accepted_seq: accepted.run(&run), ..run }
                });
                self.runs_unknown = unknown.collect();
            }
        }
        let open = self.earlier.iter().any(EarlierLog::is_open)
            || self.runs_unknown.iter().any(|run| run.accepted_seq.is_none());
        self.history = match (gap, open) {
            (false, _) => History::Whole,
            (true, false) => History::Accepted,
            (true, true) => History::Missing,
        };
        self.conclude(rest.asked.is_none())
    }
}

/// To its end, or to record `last`.
fn read(
    verifier: &mut Verifier,
    mut reader: AuditReader,
    path: &Path,
    last: Option<u64>,
) -> Result<(), AuditError> {
    while let Some(item) = reader.next_item().map_err(|error| AuditError::io(path, error))? {
        let go_on = verifier.take(item, reader.line(), reader.offset());
        if !go_on || last.is_some_and(|last| verifier.at() >= last) {
            break;
        }
    }
    Ok(())
}

/// What one of them told.
struct Looked {
    log: EarlierLog,
    before: Option<Before>,
    /// What is still to be found.
    rest: Rest,
    accepted: Accepted,
    /// Manifests that say something else than it.
    disputes: Vec<Bad>,
    runs_compared: u64,
    asked_seq: Option<u64>,
}

/// Why one of them does not tell what was before: a stable word, and more for people.
type Missing = (&'static str, String);

/// One of them: the very file that was set aside, sound in itself up to what the store remembered then.
fn look(state: &Dir, path: &Path, before: Before, rest: Rest) -> Result<Looked, AuditError> {
    let seq = before.head.as_ref().map_or(0, |head| head.seq);
    let mut log = EarlierLog {
        name: before.name.clone(),
        restart: before.restart,
        seq,
        records: 0,
        head: None,
        sha256: None,
        missing: None,
        reason: None,
        accepted_seq: None,
    };
    let path = path.join(&before.name);
    let file = match open(state, &path, &before, &mut log)? {
        Ok(file) => file,
        Err((reason, why)) => {
            (log.reason, log.missing) = (Some(reason.to_owned()), Some(why));
            let accepted = Accepted::default();
            let (before, runs_compared, asked_seq) = (None, 0, None);
            let disputes = vec![];
            return Ok(Looked { log, before, rest, accepted, disputes, runs_compared, asked_seq });
        }
    };
    // What stands behind that head may be the very reason why it was set aside.
    let last = before.head.as_ref().map(|head| head.seq);
    let mut verifier =
        Verifier::new(before.head, rest.runs, rest.asked).restarted(rest.restarts).archived();
    read(&mut verifier, AuditReader::of(file, u64::MAX), &path, last)?;
    let (mut accepted, next, rest) = (verifier.accepted(), verifier.begun(), verifier.rest());
    let disputes = verifier.disputes();
    let told = verifier.finish();
    if let Some(bad) = &told.bad {
        log.reason = Some("broken".to_owned());
        log.missing = Some(format!("its record {} is not what it was: {}", bad.seq, bad.why));
        // Whoever changed it would have accepted much.
        accepted = Accepted::default();
    }
    (log.records, log.head) = (told.records, told.head);
    let (runs_compared, asked_seq) = (told.runs_compared, told.asked_seq);
    Ok(Looked { log, before: next, rest, accepted, disputes, runs_compared, asked_seq })
}

fn open(
    state: &Dir,
    path: &Path,
    before: &Before,
    log: &mut EarlierLog,
) -> Result<Result<LogFile, Missing>, AuditError> {
    let missing = |reason: &'static str, why: &str| Ok(Err((reason, why.to_owned())));
    if before.gone {
        return missing("gone", "there was no log any more");
    }
    let Some(sha256) = &before.sha256 else {
        return missing("no_log", "what was set aside was no log");
    };
    if !is_ours(&before.name) {
        return missing("no_name", "it is no name of ours");
    }
    let file = match LogFile::archived(state, &before.name, path) {
        Ok(Some(file)) => file,
        Ok(None) => return missing("absent", "it is not there"),
        Err(error) => return missing("foreign", &error.to_string()),
    };
    let found = file.sha256(path)?;
    let same = found == *sha256;
    log.sha256 = Some(found);
    if same { Ok(Ok(file)) } else { missing("changed", "it is not what was set aside") }
}

/// `audit.N.jsonl`, and no way out of the directory.
fn is_ours(name: &str) -> bool {
    let number = name.strip_prefix("audit.").and_then(|rest| rest.strip_suffix(".jsonl"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Maximum number of accepted gaps to remember, so that a log full of them cannot exhaust memory.
const MAX_ACCEPTED: usize = 100_000;

/// Found in the records that are in their place; the latest word counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Accepted {
    /// By the number of the record with which the next log begins.
    logs: BTreeMap<u64, Word>,
    /// What was said and the number, by run.
    runs: BTreeMap<String, (String, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    reason: String,
    sha256: Option<String>,
    seq: u64,
}

impl Accepted {
    pub(super) fn take(&mut self, record: &Record) {
        if record.event != Event::GapAccepted.as_str()
            || self.logs.len() + self.runs.len() > MAX_ACCEPTED
        {
            return;
        }
        if let Some(restart) = record.counts.get("restart") {
            let word = Word {
                reason: record.reason.clone().unwrap_or_default(),
                sha256: record.digests.get("found").cloned(),
                seq: record.seq,
            };
            self.logs.insert(*restart, word);
        }
        for (run, said) in record.names.iter().filter_map(|name| name.split_once(' ')) {
            self.runs.insert(run.to_owned(), (said.to_owned(), record.seq));
        }
    }

    /// With what an earlier log says; ours is the later word.
    pub(super) fn after(&mut self, earlier: Self) {
        for (restart, word) in earlier.logs {
            self.logs.entry(restart).or_insert(word);
        }
        for (run, word) in earlier.runs {
            self.runs.entry(run).or_insert(word);
        }
    }

    /// The record by which this very state of a missing log was accepted.
    pub(super) fn log(&self, log: &EarlierLog) -> Option<u64> {
        let word = self.logs.get(&log.restart)?;
        let same = Some(&word.reason) == log.reason.as_ref() && word.sha256 == log.sha256;
        same.then_some(word.seq)
    }

    /// The same of an unknown run, whose manifest was this one.
    pub(super) fn run(&self, run: &UnknownRun) -> Option<u64> {
        let (known, seq) = self.runs.get(&run.run_id)?;
        (*known == said(run)).then_some(*seq)
    }
}

impl Verification {
    /// What has to be recorded for it to be accepted: everything that is missing or unknown and was not yet.
    pub fn to_accept(&self) -> Vec<Entry> {
        let logs = self.earlier.iter().filter(|log| log.is_open()).map(of_log);
        let runs: Vec<_> =
            self.runs_unknown.iter().filter(|run| run.accepted_seq.is_none()).collect();
        logs.chain(runs.chunks(NAMES).map(of_runs)).collect()
    }
}

fn of_log(log: &EarlierLog) -> Entry {
    let entry = Entry::new(Event::GapAccepted)
        .object(&log.name)
        .decision(Decision::Allow)
        .reason(log.reason.as_deref().unwrap_or_default())
        .count("restart", log.restart)
        .count("needed_seq", log.seq)
        .count("records", log.records)
        .digest("found", log.sha256.as_deref());
    match &log.head {
        Some(head) => entry.count("last_seq", head.seq).digest("head", Some(&head.hash)),
        None => entry,
    }
}

fn of_runs(runs: &[&UnknownRun]) -> Entry {
    Entry::new(Event::GapAccepted)
        .decision(Decision::Allow)
        .reason("runs_unknown")
        .names(runs.iter().map(|run| format!("{} {}", run.run_id, said(run))))
}

/// By which its manifest is known again.
fn said(run: &UnknownRun) -> String {
    format!("{} {}", run.head, run.sha256)
}
