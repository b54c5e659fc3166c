//! Compares the rows of the store with the records of the log. Commands such as `act history` believe the store, and the log
//! holds some of the same facts.

use std::collections::BTreeSet;

use act_audit::{Event, Record};
use act_core::Failure;
use act_core::verification::Status;
use act_fs::Sha256;
use act_records::store::{RunRecord, Store, TaskRecord};

use crate::audit::Logbook;
use crate::audit::explain::{is, verdict_of};

/// Maximum number of differences that are named. One of them is enough to distrust the store.
const MAX_NAMED: usize = 20;

/// Returns the rows of the store that differ from the records of the current log, with the columns that differ.
///
/// # Errors
///
/// The log or the store cannot be read.
pub(super) fn differences(book: &Logbook, store: &Store) -> Result<Vec<String>, Failure> {
    let mut found =
        Comparison { store, comparing: BTreeSet::new(), has_older: false, named: vec![] };
    let mut trouble = None;
    book.each(|record| {
        if let Err(error) = found.take(&record) {
            trouble = Some(error);
        }
        trouble.is_none() && found.named.len() < MAX_NAMED
    })?;
    match trouble {
        Some(failure) => Err(failure),
        None => Ok(found.named),
    }
}

struct Comparison<'a> {
    store: &'a Store,
    /// Runs that compared tests, which the store does not list.
    comparing: BTreeSet<String>,
    /// The store has a row about an earlier record, so it existed when the later ones were written. A store that was begun anew
    /// lacks all the rows before.
    has_older: bool,
    named: Vec<String>,
}

impl Comparison<'_> {
    fn take(&mut self, record: &Record) -> Result<(), Failure> {
        if is(record, Event::GateStarted) && record.reason.is_some() {
            self.comparing.extend(record.object.clone());
        } else if is(record, Event::GateFinished)
            && let Some(run_id) = &record.object
            && !self.comparing.contains(run_id)
        {
            let row = self.store.run(run_id)?;
            self.judge(&format!("run {run_id}"), row.map(|row| of_run(&row, record)), record);
        } else if let Some(task_id) = &record.task
            && [Event::TaskStarted, Event::TaskFinished, Event::TestsCompared]
                .into_iter()
                .any(|event| is(record, event))
        {
            let row = self.store.task(task_id)?;
            self.judge(&format!("task {task_id}"), row.map(|row| of_task(&row, record)), record);
        }
        Ok(())
    }

    fn judge(&mut self, row: &str, differing: Option<Vec<&'static str>>, record: &Record) {
        let what = match differing {
            Some(columns) if columns.is_empty() => {
                self.has_older = true;
                return;
            }
            Some(columns) => format!("differs in: {}", columns.join(", ")),
            // A run without a verdict may have ended because the store could not be written.
            None if !self.has_older
                || (is(record, Event::GateFinished) && !has_verdict(record)) =>
            {
                return;
            }
            None => "is missing".to_owned(),
        };
        self.named.push(format!("{row} {what} (record {})", record.seq));
    }
}

fn has_verdict(record: &Record) -> bool {
    verdict_of(record.reason.as_deref()).is_some()
}

fn identity(record: &Record) -> Option<&str> {
    record.repo.as_ref().map(|repo| repo.identity.as_str())
}

fn of_run(row: &RunRecord, end: &Record) -> Vec<&'static str> {
    let mut columns = vec![];
    let mut compare = |column, equal: bool| columns.extend((!equal).then_some(column));
    compare("task_id", row.task_id == end.task);
    compare("repo", identity(end).is_none_or(|repo| repo == row.repo));
    // A process that was killed after the record has stored neither.
    if row.status.is_some() || row.end_hash.is_some() {
        let status = verdict_of(end.reason.as_deref()).unwrap_or(Status::InfraError);
        compare("status", row.status.as_deref() == Some(status.as_str()));
        compare("end_hash", row.end_hash.as_ref().is_none_or(|hash| *hash == end.hash));
    }
    columns
}

fn of_task(row: &TaskRecord, record: &Record) -> Vec<&'static str> {
    let mut columns = vec![];
    let mut compare = |column, equal: bool| columns.extend((!equal).then_some(column));
    compare("repo", identity(record).is_none_or(|repo| repo == row.repo));
    if is(record, Event::TaskStarted) {
        let text = Sha256::of(row.text.trim().as_bytes()).to_string();
        compare("text", record.digests.get("text").is_none_or(|recorded| *recorded == text));
    } else if is(record, Event::TestsCompared) {
        let old = record.names.iter().find(|name| name.starts_with("old_tests "));
        let words = record.reason.iter().chain(old).map(String::as_str).collect::<Vec<_>>();
        compare("evidence", row.evidence.as_ref().is_none_or(|known| *known == words.join(", ")));
    } else if row.state.is_final()
        && record.reason.as_deref() != Some(act_core::reason::END_NOT_KEPT)
    {
        // An end that could not be stored was replaced by the end that a later process found.
        compare("state", record.object.as_deref() == Some(row.state.as_str()));
        let exit = record.counts.get("exit_code").copied();
        compare("exit_code", exit == row.exit_code.map(u64::from));
        compare("reason", record.reason == row.reason);
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::process::Process;
    use serde_json::json;

    fn record(event: &str, fields: serde_json::Value) -> Record {
        let mut record = json!({"v": 1, "seq": 7, "time": "", "mono_ms": 0, "boot_id": "", "act_version": "",
            "uid": 0, "pid": 0, "task": "t-1", "repo": {"identity": "r", "head": null}, "event": event,
            "subject": null, "object": null, "decision": null, "reason": null, "effective_sha256": null,
            "counts": {}, "digests": {}, "names": [], "prev": "", "hash": "h"});
        for (key, value) in fields.as_object().into_iter().flatten() {
            record[key] = value.clone();
        }
        serde_json::from_value(record).unwrap()
    }

    // AUDIT-18, security line 262
    #[test]
    fn each_column_of_a_run_that_the_log_holds_as_well_is_compared() {
        let end = record("gate_finished", json!({"object": "run_a", "reason": "step_failed"}));
        let row = RunRecord {
            run_id: "run_a".into(),
            task_id: Some("t-1".into()),
            repo: "r".into(),
            status: Some("FAIL".into()),
            started_at: String::new(),
            finished_at: None,
            end_hash: Some("h".into()),
            warm: false,
            owner: Process {
                pid: 1,
                start_time: String::new(),
                boot_id: String::new(),
                pid_namespace: String::new(),
            },
        };
        assert!(of_run(&row, &end).is_empty());
        let changed = |change: fn(&mut RunRecord)| {
            let mut row = row.clone();
            change(&mut row);
            of_run(&row, &end)
        };
        assert_eq!(changed(|row| row.status = Some("PASS".into())), ["status"]);
        assert_eq!(changed(|row| row.status = None), ["status"]);
        assert_eq!(changed(|row| row.end_hash = Some("g".into())), ["end_hash"]);
        assert_eq!(changed(|row| row.task_id = None), ["task_id"]);
        assert_eq!(changed(|row| row.repo = "s".into()), ["repo"]);
        let killed = changed(|row| (row.status, row.end_hash) = (None, None));
        assert!(killed.is_empty(), "a process was killed between the record and the row");
    }
}
