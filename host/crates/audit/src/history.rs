//! Verifies the archived logs, back to the first one, and reads which gaps the user has accepted. A gap is accepted exactly as
//! it was when the user accepted it: any later change of it is not accepted.

use std::collections::BTreeMap;
use std::path::Path;

use act_fs::Dir;

use super::chain::AuditReader;
use super::error::AuditError;
use super::log::{LogFile, NAME};
use super::record::{Decision, Entry, Event, NAMES, Record};
use super::verify::{
    Bad, Before, EarlierLog, History, LogVerification, LogVerifier, ManifestFacts, Pending,
    UnknownEvidence, UnknownRun, cure,
};

/// Maximum number of logs that `act audit restart` can archive under a name each.
const MAX_ARCHIVED: usize = 1000;

/// Verifies the log in the directory `state`, which `path` names, and all archived logs before it.
///
/// # Errors
/// A log cannot be read, or another process holds the lock of the current one for too long.
pub fn verify_all(
    state: &Dir,
    path: &Path,
    mut verifier: LogVerifier,
) -> Result<LogVerification, AuditError> {
    let log = path.join(NAME);
    read(&mut verifier, AuditReader::open(state, path)?, &log, None)?;
    let Some((before, mut pending)) = verifier.before() else { return Ok(verifier.finish()) };
    let (mut accepted, mut found) = (verifier.accepted(), verifier.finish());
    let mut next = Some(before);
    for _ in 0..MAX_ARCHIVED {
        let Some(before) = next else { break };
        next = verify_archived(state, path, before, &mut pending, &mut accepted, &mut found)?;
    }
    Ok(found.conclude_history(pending, &accepted))
}

impl LogVerification {
    /// Adds the facts that no log contains: with a gap they are unknown, otherwise a record is missing.
    fn conclude_history(mut self, pending: Pending, accepted: &Accepted) -> Self {
        for log in &mut self.earlier {
            log.accepted_seq = accepted.log(log);
        }
        let gap = self.earlier.iter().any(|log| log.missing.is_some());
        let (headless, runs): (BTreeMap<_, _>, _) =
            pending.runs.into_iter().partition(|(_, manifest)| manifest.head.is_none());
        let runs: BTreeMap<String, ManifestFacts> = runs;
        self.runs_without_head = headless.into_keys().collect();
        let beginning = self.earlier.last().map_or(1, |log| log.seq + 1);
        let bad = |why: String| Bad { seq: beginning, line: None, why };
        match runs.keys().next() {
            Some(run) if !gap => {
                let why = format!("no log has the record that the manifest of {run} names");
                self.bad.get_or_insert(bad(why));
            }
            _ => {
                let mut evidence = pending.evidence_unknown;
                for (run_id, manifest) in runs {
                    // No record is needed to see that a log differs from the digest in the manifest.
                    if let Some(what) = manifest.logs_that_differ(&run_id) {
                        self.bad.get_or_insert_with(|| bad(format!("{what}; {}", cure(&run_id))));
                    }
                    if manifest.evidence.as_ref() != pending.compared.get(&run_id) {
                        evidence.extend(manifest.evidence.map(|it| (run_id.clone(), it)));
                    }
                    let (head, sha256) = (manifest.head.unwrap_or_default(), manifest.sha256);
                    let run = UnknownRun { run_id, head, sha256, accepted_seq: None };
                    let accepted_seq = accepted.run(&run);
                    self.runs_unknown.push(UnknownRun { accepted_seq, ..run });
                }
                let unknown = evidence.into_iter().map(|(run_id, sha256)| {
                    let evidence = UnknownEvidence { run_id, sha256, accepted_seq: None };
                    UnknownEvidence { accepted_seq: accepted.evidence(&evidence), ..evidence }
                });
                self.evidence_unknown = unknown.collect();
            }
        }
        let open = self.earlier.iter().any(EarlierLog::is_open)
            || self.runs_unknown.iter().any(|run| run.accepted_seq.is_none())
            || self.evidence_unknown.iter().any(|evidence| evidence.accepted_seq.is_none());
        self.history = match (gap, open) {
            (false, _) => History::Whole,
            (true, false) => History::Accepted,
            (true, true) => History::Missing,
        };
        self.conclude(pending.asked.is_none())
    }
}

/// Verifies a log to its end, or to record `last`.
fn read(
    verifier: &mut LogVerifier,
    mut reader: AuditReader,
    path: &Path,
    last: Option<u64>,
) -> Result<(), AuditError> {
    while let Some(item) = reader.next_line().map_err(|error| AuditError::io(path, error))? {
        let go_on = verifier.push(item, reader.line(), reader.offset());
        if !go_on || last.is_some_and(|last| verifier.at() >= last) {
            break;
        }
    }
    Ok(())
}

/// Why an archived log counts as missing: a stable word, and a text for people.
type Missing = (&'static str, String);

/// Verifies one archived log: it has to be the file that was archived, and sound up to the head that the store had then.
/// Adds its result to `found` and its acceptances to `accepted`, and removes the facts that it contains from `pending`.
/// Returns the log before it.
fn verify_archived(
    state: &Dir,
    path: &Path,
    before: Before,
    pending: &mut Pending,
    accepted: &mut Accepted,
    found: &mut LogVerification,
) -> Result<Option<Before>, AuditError> {
    let restart = before.restart;
    let last = before.head.as_ref().map(|head| head.seq);
    let mut log = EarlierLog {
        name: before.name.clone(),
        restart,
        seq: last.unwrap_or_default(),
        records: 0,
        head: None,
        sha256: None,
        missing: None,
        reason: None,
        accepted_seq: None,
    };
    let path = path.join(&before.name);
    let mut next = None;
    match open(state, &path, &before, &mut log)? {
        Err((reason, why)) => {
            (log.reason, log.missing) = (Some(reason.to_owned()), Some(why));
        }
        Ok(file) => {
            let mut evidence_unknown = std::mem::take(&mut pending.evidence_unknown);
            let mut verifier = LogVerifier::archived(before.head, std::mem::take(pending));
            // The lines after that head are not judged: they may be the reason why the log was archived.
            read(&mut verifier, AuditReader::of(file, u64::MAX), &path, last)?;
            let acceptances = verifier.accepted();
            (next, *pending) = (verifier.begun(), verifier.pending());
            // Even where a gap is accepted, no manifest may contradict the log that exists.
            let disputes = verifier.disputes(last);
            found.bad = found.bad.take().or_else(|| disputes.into_iter().next());
            evidence_unknown.append(&mut verifier.evidence_left());
            pending.evidence_unknown = evidence_unknown;
            let result = verifier.finish();
            match &result.bad {
                None => accepted.add_earlier(acceptances),
                // Whoever changed the log could also have added acceptances, so they do not count.
                Some(bad) => {
                    log.reason = Some("broken".to_owned());
                    log.missing = Some(format!("its record {} was changed: {}", bad.seq, bad.why));
                }
            }
            (log.records, log.head) = (result.records, result.head);
            found.runs_compared += result.runs_compared;
            found.logs_cut.extend(result.logs_cut);
            found.asked_seq = found.asked_seq.or(result.asked_seq);
        }
    }
    if log.missing.is_some() && next.is_none() {
        // A missing log does not name the log before it, so the store is asked.
        next = pending.before(restart);
    }
    found.earlier.push(log);
    Ok(next)
}

/// Opens an archived log, and sets its digest in `log`.
fn open(
    state: &Dir,
    path: &Path,
    before: &Before,
    log: &mut EarlierLog,
) -> Result<Result<LogFile, Missing>, AuditError> {
    let missing = |reason: &'static str, why: &str| Ok(Err((reason, why.to_owned())));
    if before.gone {
        return missing("gone", "there was no log to archive");
    }
    let Some(sha256) = &before.sha256 else {
        return missing("no_log", "the archived file was not a log");
    };
    if !is_ours(&before.name) {
        return missing("no_name", "its name is not one that act uses");
    }
    let file = match LogFile::archived(state, &before.name, path) {
        Ok(Some(file)) => file,
        Ok(None) => return missing("absent", "the file does not exist"),
        Err(error) => return missing("foreign", &error.to_string()),
    };
    let found = file.sha256(path)?;
    let same = found == *sha256;
    log.sha256 = Some(found);
    if same {
        Ok(Ok(file))
    } else {
        missing("changed", "the file differs from the one that was archived")
    }
}

/// Returns whether a name is `audit.N.jsonl`, which cannot lead out of the directory.
fn is_ours(name: &str) -> bool {
    let number = name.strip_prefix("audit.").and_then(|rest| rest.strip_suffix(".jsonl"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Maximum number of accepted gaps to remember, so that a log full of them cannot exhaust memory.
const MAX_ACCEPTED: usize = 100_000;

/// The acceptances in records that are in their place. The latest one for each log and run is in force.
#[derive(Debug, Clone, Default)]
pub(super) struct Accepted {
    /// By the number of the record with which the next log begins.
    logs: BTreeMap<u64, AcceptedLog>,
    /// The fingerprint of the manifest and the number of the record, by run.
    runs: BTreeMap<String, (String, u64)>,
    /// The digest of the evidence and the number of the record, by run.
    evidence: BTreeMap<String, (String, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct AcceptedLog {
    reason: String,
    sha256: Option<String>,
    seq: u64,
}

impl Accepted {
    /// Adds the acceptances of a record.
    pub(super) fn add(&mut self, record: &Record) {
        if record.event != Event::GapAccepted.as_str()
            || self.logs.len() + self.runs.len() + self.evidence.len() > MAX_ACCEPTED
        {
            return;
        }
        if let Some(restart) = record.counts.get("restart") {
            let accepted = AcceptedLog {
                reason: record.reason.clone().unwrap_or_default(),
                sha256: record.digests.get("found").cloned(),
                seq: record.seq,
            };
            self.logs.insert(*restart, accepted);
        }
        let is_evidence = record.reason.as_deref() == Some(EVIDENCE_UNKNOWN);
        let accepted = if is_evidence { &mut self.evidence } else { &mut self.runs };
        for (run, fingerprint) in record.names.iter().filter_map(|name| name.split_once(' ')) {
            accepted.insert(run.to_owned(), (fingerprint.to_owned(), record.seq));
        }
    }

    /// Adds the acceptances of an earlier log, where this one has none.
    pub(super) fn add_earlier(&mut self, earlier: Self) {
        for (restart, accepted) in earlier.logs {
            self.logs.entry(restart).or_insert(accepted);
        }
        for (run, accepted) in earlier.runs {
            self.runs.entry(run).or_insert(accepted);
        }
        for (run, accepted) in earlier.evidence {
            self.evidence.entry(run).or_insert(accepted);
        }
    }

    /// Returns the number of the record that accepted this state of a missing log.
    pub(super) fn log(&self, log: &EarlierLog) -> Option<u64> {
        let accepted = self.logs.get(&log.restart)?;
        let same = Some(&accepted.reason) == log.reason.as_ref() && accepted.sha256 == log.sha256;
        same.then_some(accepted.seq)
    }

    /// Returns the number of the record that accepted an unknown run with this manifest.
    pub(super) fn run(&self, run: &UnknownRun) -> Option<u64> {
        let (known, seq) = self.runs.get(&run.run_id)?;
        (*known == fingerprint(run)).then_some(*seq)
    }

    /// Returns the number of the record that accepted this evidence of a run.
    pub(super) fn evidence(&self, evidence: &UnknownEvidence) -> Option<u64> {
        let (known, seq) = self.evidence.get(&evidence.run_id)?;
        (*known == evidence.sha256).then_some(*seq)
    }
}

impl LogVerification {
    /// Returns the entries that accept every log that is missing, and every run and every evidence that is unknown, unless they
    /// are accepted.
    pub fn to_accept(&self) -> Vec<Entry> {
        let logs = self.earlier.iter().filter(|log| log.is_open()).map(of_log);
        let open = self.runs_unknown.iter().filter(|run| run.accepted_seq.is_none());
        let runs: Vec<_> = open.map(|run| format!("{} {}", run.run_id, fingerprint(run))).collect();
        let open = self.evidence_unknown.iter().filter(|evidence| evidence.accepted_seq.is_none());
        let evidence: Vec<_> = open.map(|it| format!("{} {}", it.run_id, it.sha256)).collect();
        logs.chain(runs.chunks(NAMES).map(|names| of_names("runs_unknown", names)))
            .chain(evidence.chunks(NAMES).map(|names| of_names(EVIDENCE_UNKNOWN, names)))
            .collect()
    }
}

/// The reason of a record that accepts evidence.
const EVIDENCE_UNKNOWN: &str = "evidence_unknown";

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

fn of_names(reason: &str, names: &[String]) -> Entry {
    Entry::new(Event::GapAccepted)
        .decision(Decision::Allow)
        .reason(reason)
        .names(names.iter().cloned())
}

/// Identifies the manifest of a run.
fn fingerprint(run: &UnknownRun) -> String {
    format!("{} {}", run.head, run.sha256)
}
