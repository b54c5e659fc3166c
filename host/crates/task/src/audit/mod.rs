//! The audit log for people and programs: `act audit`. `act audit list` and `show` are here, the other commands in the
//! modules. Records are written where their events happen.

pub(super) mod anchor;
pub(super) mod attestation;
pub(super) mod explain;
pub(super) mod grants;
pub(super) mod signature;
mod stored;
pub(super) mod verify;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::prepare;
use act_audit::{AuditReader, Decision, Event, Head, LogLine, Record};
use act_core::{Document, Failure};
use act_records::artifacts::ArtifactDir;
use act_workspace::RootIdentity;

/// The audit log of an ARTIFACT_DIR, which is read from its beginning for each question.
pub(super) struct Logbook {
    artifacts: Arc<ArtifactDir>,
}

impl Logbook {
    /// Opens the log of the ARTIFACT_DIR, from any directory.
    pub(super) fn open(start: &Path) -> Result<Self, Failure> {
        let root = act_config::find_root(start)?.map(|root| root.path);
        Ok(Self { artifacts: prepare::artifacts_for(root.as_deref())? })
    }

    /// Uses the log of an ARTIFACT_DIR that is open.
    pub(super) fn of(artifacts: &Arc<ArtifactDir>) -> Self {
        Self { artifacts: Arc::clone(artifacts) }
    }

    fn reader(&self) -> Result<AuditReader, Failure> {
        let (state, path) = prepare::state(&self.artifacts)?;
        Ok(AuditReader::open(&state, &path)?)
    }

    /// Returns the names of the directories of repositories, as far as the store knows them. The log is listed without it too.
    fn names_of(&self, records: &[Record]) -> BTreeMap<String, String> {
        let Ok(store) = prepare::store(&self.artifacts) else { return BTreeMap::new() };
        let identities: BTreeSet<_> =
            records.iter().filter_map(|record| Some(record.repo.as_ref()?.home())).collect();
        let named = |identity: &str| {
            let root = store.last_root(identity).ok()??;
            let name = Path::new(&root).file_name()?.to_str()?.to_owned();
            Some((identity.to_owned(), name))
        };
        identities.into_iter().filter_map(named).collect()
    }

    /// Passes each record to `take`, until that returns false. Returns the number of lines that are not records.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub(super) fn each(&self, mut take: impl FnMut(Record) -> bool) -> Result<u64, Failure> {
        let mut reader = self.reader()?;
        let mut unreadable = 0;
        while let Some(item) = reader.next_line().map_err(|error| unread(&error))? {
            match item {
                LogLine::Record(record) => {
                    if !take(*record) {
                        break;
                    }
                }
                LogLine::Bad(_) => unreadable += 1,
                LogLine::Torn(_) => {}
            }
        }
        Ok(unreadable)
    }
}

fn unread(error: &std::io::Error) -> Failure {
    Failure::refused("audit_unusable", format!("the audit log cannot be read: {error}"))
}

/// Selects records; every condition must hold.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub task: Option<String>,
    /// The name of a component, or the beginning of its digest.
    pub component: Option<String>,
    /// Only denials, refusals and exceeded limits. A red test is neither.
    pub denied: bool,
    /// Only records of the repository around the directory.
    pub here: bool,
    pub since: Option<DateTime<Utc>>,
    pub until: Option<DateTime<Utc>>,
    /// Maximum number of records; the last ones are returned.
    pub limit: usize,
}

impl AuditFilter {
    fn matches(&self, record: &Record) -> bool {
        let of_task = |task: &String| record.task.as_ref() == Some(task);
        let about = |wanted: &String| {
            record.subject.as_ref().is_some_and(|subject| {
                subject.name == *wanted
                    || (wanted.len() >= 8 && subject.sha256.starts_with(wanted.as_str()))
            })
        };
        // The verdict of a run, and of a comparison with it, is about the code and denies nothing.
        let verdict = matches!(record.event.as_str(), "gate_finished" | "claim_checked");
        let denied = matches!(record.decision, Some(Decision::Deny | Decision::Limit)) && !verdict;
        self.task.as_ref().is_none_or(of_task)
            && self.component.as_ref().is_none_or(about)
            && (!self.denied || denied)
            && (self.since.is_none() && self.until.is_none() || self.in_time(record))
    }

    fn in_time(&self, record: &Record) -> bool {
        let Ok(time) = record.time.parse::<DateTime<Utc>>() else { return false };
        self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time <= until)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct AuditList {
    /// The last record of the whole log; null when there is none.
    pub head: Option<Head>,
    /// The last of the matching records, in the order of their numbers.
    pub records: Vec<Record>,
    /// Number of earlier matching records that are not listed.
    pub left_out: u64,
    /// Number of lines that are not records; `act audit verify` finds the first.
    pub unreadable: u64,
    /// The names of the repositories of these records, by identity, for people.
    #[serde(skip)]
    names: BTreeMap<String, String>,
}

impl Document for AuditList {
    const NAME: &'static str = "audit-list";
}

impl AuditList {
    /// Returns the name of the directory of a record's repository, or its identity if no task is known to have run there.
    pub fn repository<'a>(&'a self, record: &'a Record) -> Option<&'a str> {
        let identity = record.repo.as_ref()?.home();
        Some(self.names.get(identity).map_or(identity, String::as_str))
    }
}

/// Returns the records that a filter selects.
///
/// # Errors
///
/// The log cannot be read.
pub fn audit_list(start: &Path, filter: &AuditFilter) -> Result<AuditList, Failure> {
    let here = match filter.here {
        true => Some(identity(start)?),
        false => None,
    };
    list_in(&Logbook::open(start)?, filter, here.as_ref())
}

/// Returns the records of one repository, or of all, that a filter selects.
pub(super) fn list_in(
    log: &Logbook,
    filter: &AuditFilter,
    here: Option<&String>,
) -> Result<AuditList, Failure> {
    let (mut head, mut records, mut left_out) = (None, VecDeque::new(), 0);
    let is_here = |record: &Record| {
        let of = |here: &String| {
            let repo = record.repo.as_ref();
            repo.is_some_and(|repo| repo.identity == *here || repo.home() == here)
        };
        here.is_none_or(of)
    };
    let unreadable = log.each(|record| {
        head = Some(Head { seq: record.seq, hash: record.hash.clone(), end: 0 });
        if filter.matches(&record) && is_here(&record) {
            records.push_back(record);
            if records.len() > filter.limit {
                records.pop_front();
                left_out += 1;
            }
        }
        true
    })?;
    let records: Vec<Record> = records.into();
    let names = log.names_of(&records);
    Ok(AuditList { head, records, left_out, unreadable, names })
}

/// Returns the files that a task changed, as the records of its edits name them. Without a log that can be read there are none.
pub(super) fn edited_by(start: &Path, task_id: &str) -> BTreeSet<String> {
    let mut edited = BTreeSet::new();
    let take = |record: Record| {
        if record.task.as_deref() == Some(task_id) && explain::is(&record, Event::Edit) {
            edited.extend(record.object);
        }
        true
    };
    let _ = Logbook::open(start).and_then(|book| book.each(take));
    edited
}

/// Returns the identity of the repository around a directory.
fn identity(start: &Path) -> Result<String, Failure> {
    let root = act_config::find_root(start)?.map_or_else(|| start.to_owned(), |root| root.path);
    let identity = RootIdentity::of(&root).map_err(|error| {
        Failure::refused("repository_unusable", format!("{}: {error}", root.display()))
    })?;
    Ok(identity.to_string())
}

/// Returns one record by its number.
///
/// # Errors
///
/// There is no such record (`record_unknown`), or the log cannot be read.
pub fn audit_show(start: &Path, seq: u64) -> Result<Record, Failure> {
    let (mut found, mut last) = (None, 0);
    Logbook::open(start)?.each(|record| {
        last = record.seq;
        let is_it = record.seq == seq;
        found = is_it.then_some(record);
        !is_it
    })?;
    found.ok_or_else(|| {
        let hint = match last {
            0 => "nothing was recorded yet".to_owned(),
            last => {
                format!("the last one is {last}; `act audit verify` checks whether any is missing")
            }
        };
        Failure::refused("record_unknown", format!("there is no record {seq}")).hint(hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schemas_are_published() {
        // EVENT-8
        schema::document_holds::<AuditList>();
        schema::holds::<Record>("audit-record");
    }
}
