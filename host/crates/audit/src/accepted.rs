//! What somebody has accepted that cannot be known any more, as the log itself has it: each missing log as it stood
//! then, and the runs whose records would be in it. Whatever is not so any more is not accepted.

use std::collections::BTreeMap;

use super::entry::{Entry, Event, NAMES};
use super::record::{Decision, Record};
use super::verification::{EarlierLog, UnknownRun, Verification};

/// Bounds what a log of nothing else makes us remember.
const MOST: usize = 100_000;

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
        if record.event != Event::GapAccepted.as_str() || self.logs.len() + self.runs.len() > MOST {
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
