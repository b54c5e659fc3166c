//! Verifies a log (pure): every record is in its place and unchanged, and the log contains the heads that the store and the
//! manifests of runs state.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use act_core::Document;
use serde::Serialize;

use super::chain::{GENESIS, LogLine, Torn, parse_line};
use super::head::{Head, Restart};
use super::history::Accepted;
use super::record::{Event, Record};

/// The result of verifying a whole log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(title = "AuditVerification")
)]
pub struct LogVerification {
    pub ok: bool,
    /// Number of records that are in their place, counted from the first.
    pub records: u64,
    pub head: Option<Head>,
    /// The first record that was changed or is missing; null when there is none.
    pub bad: Option<Bad>,
    /// Number of the first record, if `act audit restart` began this log; null for a log that was never restarted.
    pub restarted_at: Option<u64>,
    /// The archived logs before this one, the latest one first.
    pub earlier: Vec<EarlierLog>,
    pub history: History,
    /// Number of incomplete lines that a stopped writer left and that a later writer recorded.
    pub recovered: u64,
    /// Bytes of an incomplete line at the end that no writer has recorded yet.
    pub torn_bytes: u64,
    /// The head in the store; null when the store has none.
    pub store: Option<Head>,
    /// Rows of the store that differ from the log, with their columns, at most 20.
    pub store_differs: Vec<String>,
    /// Number of runs whose manifest names a head that was compared with the log.
    pub runs_compared: u64,
    /// Runs whose record is in none of the existing logs, while another log is missing.
    pub runs_unknown: Vec<UnknownRun>,
    /// Evidence in manifests whose record may be among the lost ones, while a log is missing or cut.
    pub evidence_unknown: Vec<UnknownEvidence>,
    /// Runs with a verdict that no record mentions and whose manifest names no head or cannot be read.
    pub runs_without_head: Vec<String>,
    /// Logs of which only the end could be compared, because the rest was removed with the run, with how many bytes of how many.
    pub logs_cut: Vec<String>,
    /// Number of the record with the hash that the user gave; null when there is none, or when no hash was given.
    pub asked_seq: Option<u64>,
}

impl Document for LogVerification {
    const NAME: &'static str = "audit-verify";
}

impl LogVerification {
    /// Adds the rows of the store that differ from the log. With one of them nothing is in order.
    #[must_use]
    pub fn compared_with_rows(self, store_differs: Vec<String>) -> Self {
        Self { ok: self.ok && store_differs.is_empty(), store_differs, ..self }
    }

    /// Sets `ok` from all other fields. `found` means that the hash that was asked for was found, or none was asked for.
    pub(super) fn conclude(mut self, found: bool) -> Self {
        self.ok = self.bad.is_none()
            && self.history != History::Missing
            && self.runs_without_head.is_empty()
            && found;
        self
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditBad")
)]
pub struct Bad {
    pub seq: u64,
    /// Number of the line, from 1; null for a record that is missing.
    pub line: Option<u64>,
    pub why: String,
}

/// Whether the logs before the last restart are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditHistory", inline)
)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// The logs are complete, or there was no restart.
    Whole,
    Missing,
    /// A log is missing, and the user has accepted this gap.
    Accepted,
}

/// An archived log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditEarlierLog")
)]
pub struct EarlierLog {
    /// Name of the file in `state/`.
    pub name: String,
    /// Number of the record with which the next log begins.
    pub restart: u64,
    /// Number of the last record that the log must contain.
    pub seq: u64,
    /// Number of records that are in their place, counted from the first of this log.
    pub records: u64,
    /// The last of these records.
    pub head: Option<Head>,
    /// SHA-256 of the file as it is now; null when there is no file that could be a log.
    pub sha256: Option<String>,
    /// Why the log counts as missing, as a text; null when it does not.
    pub missing: Option<String>,
    /// Why the log counts as missing, as a stable word; null when it does not.
    pub reason: Option<String>,
    /// Number of the record that accepted the gap in its present state; null when none does.
    pub accepted_seq: Option<u64>,
}

impl EarlierLog {
    /// Returns whether the log is missing and the user has not accepted the gap.
    pub(super) fn is_open(&self) -> bool {
        self.missing.is_some() && self.accepted_seq.is_none()
    }
}

/// A run whose record would be in a missing log, so that its manifest cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditUnknownRun")
)]
pub struct UnknownRun {
    pub run_id: String,
    /// The head that its manifest names.
    pub head: String,
    /// SHA-256 of the rest of its manifest.
    pub sha256: String,
    /// Number of the record that accepted the unknown run; null when none does.
    pub accepted_seq: Option<u64>,
}

/// The evidence in the manifest of a run that no existing record covers, so that it cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditUnknownEvidence")
)]
pub struct UnknownEvidence {
    pub run_id: String,
    /// SHA-256 of the JSON of `evidence` in its manifest.
    pub sha256: String,
    /// Number of the record that accepted this evidence; null when none does.
    pub accepted_seq: Option<u64>,
}

/// The facts in the manifest of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManifestFacts {
    /// The hash of the audit record of the run's end; `None` when the manifest names none or cannot be read.
    pub head: Option<String>,
    /// Digest of the rest of the manifest. It is not compared with a record that has no such digest.
    pub sha256: String,
    /// The store's hash of the record of the run's end; `None` for a run of a version that stored none.
    pub stored: Option<String>,
    /// The logs that are missing, or that differ from the digests in the manifest.
    pub logs_changed: Vec<String>,
    /// The logs of which only the end exists, with how many bytes of how many. Their end is compared, and the rest is gone.
    pub logs_cut: Vec<String>,
    /// SHA-256 of the JSON of `evidence`, which is added to the manifest after the end of the run; `None` without it.
    pub evidence: Option<String>,
}

impl ManifestFacts {
    /// Returns which logs of the run are missing, or differ from the digests in the manifest; `None` where all agree.
    pub(super) fn logs_that_differ(&self, run_id: &str) -> Option<String> {
        let logs = self.logs_changed.join(", ");
        (!logs.is_empty()).then(|| format!("{logs} of {run_id} was changed or is missing"))
    }
}

/// The facts about the archived log before this one, from the first record of this one.
#[derive(Debug)]
pub(super) struct Before {
    /// Number of that first record.
    pub(super) restart: u64,
    pub(super) name: String,
    /// There was no file to archive.
    pub(super) gone: bool,
    /// SHA-256 of the archived file.
    pub(super) sha256: Option<String>,
    pub(super) head: Option<Head>,
}

impl Before {
    fn of(begun: &Record) -> Self {
        let seq = begun.counts.get("kept_seq").copied().unwrap_or_default();
        let head = Head { seq, hash: begun.prev.clone(), end: 0 };
        Self {
            restart: begun.seq,
            name: begun.object.clone().unwrap_or_default(),
            gone: begun.reason.as_deref() == Some("gone"),
            sha256: begun.digests.get("set_aside").cloned(),
            head: (seq > 0).then_some(head),
        }
    }
}

/// The runs and hashes that were not found yet. They are searched in one log after the other, from the latest one back.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) runs: BTreeMap<String, ManifestFacts>,
    /// Digests of evidence from records that were read before the end of their run, by run. A task that runs while the log is
    /// restarted leaves the end of its run in one log and the comparison of its tests in the next one.
    pub(super) compared: BTreeMap<String, String>,
    /// Digests of the evidence in manifests whose record may be among the lost ones, by run.
    pub(super) evidence_unknown: BTreeMap<String, String>,
    pub(super) asked: Option<String>,
    pub(super) restarts: BTreeMap<u64, Restart>,
}

impl Pending {
    /// Returns the store's facts about the last restart before this one.
    pub(super) fn before(&self, restart: u64) -> Option<Before> {
        let (_, Restart { hash, line }) = self.restarts.range(..restart).next_back()?;
        match parse_line(line.as_ref()?.trim_end().as_bytes()) {
            LogLine::Record(record) if record.hash == *hash => Some(Before::of(&record)),
            _ => None,
        }
    }
}

/// Verifies a log in one pass, in constant memory.
#[derive(Debug)]
pub struct LogVerifier {
    records: u64,
    first: Option<u64>,
    /// Number of the next record; 1 before the first.
    next: u64,
    prev: String,
    bad: Option<Bad>,
    begun: Option<Box<Record>>,
    restarts: BTreeMap<u64, Restart>,
    accepted: Accepted,
    /// Manifests that disagree with an archived log, which is then not at fault; `None` for the current log.
    disputes: Option<Vec<Bad>>,
    recovered: u64,
    /// The lines since the last record that have no seal.
    torn: Vec<u8>,
    store: Option<Head>,
    /// The manifests that were not compared yet, by run.
    runs: BTreeMap<String, ManifestFacts>,
    compared: u64,
    /// Digests of the evidence in manifests whose run has ended and whose comparison of tests was not read yet, with the number
    /// of the record of that end, by run.
    evidence: BTreeMap<String, (u64, String)>,
    /// See [`Pending::compared`].
    tests_compared: BTreeMap<String, String>,
    logs_cut: Vec<String>,
    asked: Option<String>,
    asked_seq: Option<u64>,
    head: Option<Head>,
}

impl LogVerifier {
    /// Starts a verification. `store` is the head in the store, `runs` are the facts of manifests by run, and `asked` is a
    /// hash that a record of the log must have.
    pub fn new(
        store: Option<Head>,
        runs: BTreeMap<String, ManifestFacts>,
        asked: Option<String>,
    ) -> Self {
        Self {
            records: 0,
            first: None,
            next: 1,
            prev: GENESIS.to_owned(),
            bad: None,
            begun: None,
            restarts: BTreeMap::new(),
            accepted: Accepted::default(),
            disputes: None,
            recovered: 0,
            torn: vec![],
            store,
            runs,
            compared: 0,
            evidence: BTreeMap::new(),
            tests_compared: BTreeMap::new(),
            logs_cut: vec![],
            asked,
            asked_seq: None,
            head: None,
        }
    }

    /// Sets the records with which `act audit restart` began a log, by their numbers.
    #[must_use]
    pub fn restarted(self, restarts: BTreeMap<u64, Restart>) -> Self {
        Self { restarts, ..self }
    }

    /// Verifies an archived log, after the later logs did not contain what `pending` has.
    pub(super) fn archived(store: Option<Head>, pending: Pending) -> Self {
        let Pending { runs, compared, evidence_unknown: _, asked, restarts } = pending;
        Self {
            disputes: Some(vec![]),
            tests_compared: compared,
            ..Self::new(store, runs, asked).restarted(restarts)
        }
    }

    /// Returns which manifests contradict an archived log that was read to record `last`, the last one that the store knew.
    pub(super) fn disputes(&mut self, last: Option<u64>) -> Vec<Bad> {
        // Evidence without a record is not disputed where the log lost records: its own may be among them.
        if last.is_none_or(|last| self.at() >= last) {
            self.end_evidence();
        }
        self.disputes.take().unwrap_or_default()
    }

    /// Takes out the digests of the evidence whose record was not found, by run.
    pub(super) fn evidence_left(&mut self) -> BTreeMap<String, String> {
        let left = std::mem::take(&mut self.evidence);
        left.into_iter().map(|(run_id, (_, evidence))| (run_id, evidence)).collect()
    }

    /// Verifies the next line. `end` is the number of bytes up to its end. Returns false after the first bad record, because
    /// the records after it cannot be judged.
    pub fn push(&mut self, item: LogLine, line: u64, end: u64) -> bool {
        match item {
            LogLine::Torn(bytes) => self.torn.extend_from_slice(&bytes),
            LogLine::Bad(why) => self.fail(line, why),
            LogLine::Record(record) => self.record(&record, line, end),
        }
        if self.torn.len() > MAX_TORN {
            self.fail(line, "it is not a record");
        }
        self.bad.is_none()
    }

    /// Returns the number of the last record that is in its place.
    pub(super) fn at(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.seq)
    }

    fn fail(&mut self, line: u64, why: &str) {
        self.bad.get_or_insert(Bad { seq: self.next, line: Some(line), why: why.to_owned() });
    }

    fn record(&mut self, record: &Record, line: u64, end: u64) {
        let begins_anew = self.first.is_none()
            && self.torn.is_empty()
            && record.event == Event::ChainRestarted.as_str();
        if begins_anew {
            let known = self.restarts.get(&record.seq);
            if known.is_none_or(|known| known.hash != record.hash) {
                let why = "it begins a new log, and the store has no such restart";
                return self.fail(line, why);
            }
            self.begun = Some(Box::new(record.clone()));
        } else if record.seq != self.next {
            let why = format!("record {} is in its place instead", record.seq);
            return self.fail(line, &why);
        } else if record.prev != self.prev {
            return self.fail(line, "it does not follow the record before it");
        }
        if let Some(torn) = Torn::of(&std::mem::take(&mut self.torn)) {
            let known = record.event == Event::LogRecovered.as_str()
                && record.counts.get("bytes") == Some(&torn.bytes)
                && record.digests.get("torn") == Some(&torn.sha256);
            if !known {
                return self.fail(line, "the line before it is not a record");
            }
            self.recovered += 1;
        }
        self.compare(record, line);
        if self.bad.is_none() {
            self.accepted.add(record);
            self.first.get_or_insert(record.seq);
            (self.records, self.next) = (self.records + 1, record.seq.saturating_add(1));
            self.prev.clone_from(&record.hash);
            self.head = Some(Head { seq: record.seq, hash: record.hash.clone(), end });
        }
    }

    /// Compares a record with the store, the hash that was asked for, and the manifest of its run.
    fn compare(&mut self, record: &Record, line: u64) {
        let differs = |head: &Head| head.seq == record.seq && head.hash != record.hash;
        if self.store.as_ref().is_some_and(differs) {
            self.fail(line, "the store has another record of this number");
        }
        if self.asked.as_ref() == Some(&record.hash) {
            self.asked_seq = Some(record.seq);
        }
        if record.event == Event::GateFinished.as_str()
            && let Some(run_id) = &record.object
        {
            self.compare_end(record, run_id, line);
        }
        if record.event == Event::TestsCompared.as_str()
            && let Some(run_id) = &record.object
        {
            let recorded = record.digests.get("evidence").cloned().unwrap_or_default();
            if let Some((_, evidence)) = self.evidence.remove(run_id) {
                self.compare_evidence(record.seq, line, run_id, &evidence, &recorded);
            } else if self.runs.contains_key(run_id) {
                self.tests_compared.insert(run_id.clone(), recorded);
            }
        }
    }

    fn compare_evidence(&mut self, seq: u64, line: u64, run_id: &str, it: &str, recorded: &str) {
        if it != recorded {
            let what = format!("the evidence in the manifest of {run_id} was changed");
            self.dispute(seq, Some(line), &what, run_id);
        }
    }

    /// Reports a manifest that disagrees with a record. An archived log is not at fault then.
    fn dispute(&mut self, seq: u64, line: Option<u64>, what: &str, run_id: &str) {
        let why = format!("{what}; {}", cure(run_id));
        match &mut self.disputes {
            Some(disputes) => disputes.push(Bad { seq, line: None, why }),
            None => {
                self.bad.get_or_insert(Bad { seq, line, why });
            }
        }
    }

    /// Reports evidence in manifests that no record has.
    fn end_evidence(&mut self) {
        if self.bad.is_some() {
            // The record may come after the bad one, or be one of those that are gone.
            return;
        }
        for (run_id, (seq, _)) in std::mem::take(&mut self.evidence) {
            let what = format!("no record has the evidence in the manifest of {run_id}");
            self.dispute(seq, None, &what, &run_id);
        }
    }

    /// Compares the record of the end of a run with the store and the run's manifest.
    fn compare_end(&mut self, record: &Record, run_id: &str, line: u64) {
        let Some(manifest) = self.runs.get(run_id) else { return };
        if manifest.stored.as_ref().is_some_and(|stored| *stored != record.hash) {
            // The manifest is not compared: it may be the true one.
            return self.fail(line, &format!("the store has another end of {run_id}"));
        }
        self.compared += 1;
        let changed = record.digests.get("manifest").is_some_and(|it| *it != manifest.sha256);
        let why = match &manifest.head {
            None if manifest.sha256.is_empty() => Some("cannot be read"),
            None => Some("does not name it"),
            Some(head) if *head != record.hash => Some("names another record"),
            Some(_) => changed.then_some("was changed"),
        };
        let what = match why {
            Some(why) => Some(format!("the manifest of {run_id} {why}")),
            None => manifest.logs_that_differ(run_id),
        };
        let found = self.runs.remove(run_id);
        match (what, found) {
            (Some(what), _) => self.dispute(record.seq, Some(line), &what, run_id),
            (None, Some(found)) => {
                let cut = found.logs_cut.into_iter().map(|log| format!("{run_id}: {log}"));
                self.logs_cut.extend(cut);
                match (found.evidence, self.tests_compared.remove(run_id)) {
                    (Some(evidence), Some(recorded)) => {
                        self.compare_evidence(record.seq, line, run_id, &evidence, &recorded);
                    }
                    (Some(evidence), None) => {
                        self.evidence.insert(run_id.to_owned(), (record.seq, evidence));
                    }
                    (None, _) => {}
                }
            }
            (None, None) => {}
        }
    }

    /// Returns the log before a sound log that `act audit restart` began, and the facts that this log does not contain.
    pub(super) fn before(&mut self) -> Option<(Before, Pending)> {
        let before = self.begun().filter(|_| self.bad.is_none())?;
        Some((before, self.pending()))
    }

    /// Returns the log before this one, from the first record, also when a later record is bad.
    pub(super) fn begun(&self) -> Option<Before> {
        self.begun.as_deref().map(Before::of)
    }

    /// Takes out the facts that this log does not contain.
    pub(super) fn pending(&mut self) -> Pending {
        Pending {
            runs: std::mem::take(&mut self.runs),
            compared: std::mem::take(&mut self.tests_compared),
            evidence_unknown: BTreeMap::new(),
            asked: self.asked.clone().filter(|_| self.asked_seq.is_none()),
            restarts: self.restarts.clone(),
        }
    }

    pub(super) fn accepted(&mut self) -> Accepted {
        std::mem::take(&mut self.accepted)
    }

    /// Returns the result after the last line.
    pub fn finish(mut self) -> LogVerification {
        // A single line without its line feed is being written or was torn. It is reported and not a fault.
        let torn_bytes = match self.torn.last() {
            Some(byte) if *byte != b'\n' && !self.torn.contains(&b'\n') => self.torn.len() as u64,
            Some(_) => {
                let why = "the last line is not a record".to_owned();
                self.bad.get_or_insert(Bad { seq: self.next, line: None, why });
                0
            }
            None => 0,
        };
        if self.bad.is_none() {
            self.bad = self.gone();
        }
        self.end_evidence();
        // These runs name no record, and no record names them.
        let headless = self.runs.iter().filter(|(_, manifest)| manifest.head.is_none());
        let headless: Vec<_> = headless.map(|(run_id, _)| run_id.clone()).collect();
        let found = self.asked.is_none() || self.asked_seq.is_some();
        let verification = LogVerification {
            ok: false,
            records: self.records,
            head: self.head,
            bad: self.bad,
            restarted_at: self.begun.as_ref().map(|begun| begun.seq),
            earlier: vec![],
            history: History::Whole,
            recovered: self.recovered,
            torn_bytes,
            store: self.store,
            store_differs: vec![],
            runs_compared: self.compared,
            runs_unknown: vec![],
            evidence_unknown: vec![],
            runs_without_head: headless,
            logs_cut: self.logs_cut,
            asked_seq: self.asked_seq,
        };
        verification.conclude(found)
    }

    /// Returns a record that the store or a manifest names and the log does not contain.
    fn gone(&self) -> Option<Bad> {
        let gone = |why: String| Some(Bad { seq: self.next, line: None, why });
        if let Some(store) = self.store.as_ref().filter(|store| store.seq >= self.next) {
            return gone(format!("it is missing: the store has the head of record {}", store.seq));
        }
        // Records before a restart are searched in the archived logs.
        match self.runs.iter().find(|(_, manifest)| manifest.head.is_some()) {
            Some((run_id, _)) if self.begun.is_none() => {
                gone(format!("it is missing: the manifest of {run_id} names a record after it"))
            }
            _ => None,
        }
    }
}

/// Returns what the user can do about a manifest or a log that disagrees with its record. A new audit log does not help.
pub fn cure(run_id: &str) -> String {
    format!(
        "restore its manifest.json and its logs as they were, or move runs/{run_id} and state/proofs/{run_id} out of ARTIFACT_DIR"
    )
}

/// Maximum number of torn bytes between two records; a stopped writer leaves fewer.
const MAX_TORN: usize = 256 << 10;
