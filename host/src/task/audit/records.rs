//! Records by what they are about: `act audit list` and `show`.

use std::collections::VecDeque;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::Logbook;
use act_audit::{Decision, Head, Record};
use act_core::Failure;

/// Which records; all of what is said must hold.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub task: Option<String>,
    /// Its name, or the beginning of its digest.
    pub component: Option<String>,
    /// Denials and refusals, and what was over a limit.
    pub denied: bool,
    pub since: Option<DateTime<Utc>>,
    pub until: Option<DateTime<Utc>>,
    /// Of those that match, the last ones.
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
        let denied = matches!(record.decision, Some(Decision::Deny | Decision::Limit));
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuditList {
    /// Of the whole log; null when there is none.
    pub head: Option<Head>,
    /// In their order; of those that match, the last ones.
    pub records: Vec<Record>,
    /// How many match and are not shown.
    pub left_out: u64,
    /// Lines that are no records; `act audit verify` says where.
    pub unreadable: u64,
}

pub fn audit_list(start: &Path, filter: &AuditFilter) -> Result<AuditList, Failure> {
    let (mut head, mut records, mut left_out) = (None, VecDeque::new(), 0);
    let unreadable = Logbook::open(start)?.each(|record| {
        head = Some(Head { seq: record.seq, hash: record.hash.clone(), end: 0 });
        if filter.matches(&record) {
            records.push_back(record);
            if records.len() > filter.limit {
                records.pop_front();
                left_out += 1;
            }
        }
        true
    })?;
    Ok(AuditList { head, records: records.into(), left_out, unreadable })
}

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
                format!("the last one is {last}; `act audit verify` says whether any is missing")
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
        schema::holds::<AuditList>("audit-list");
        schema::holds::<Record>("audit-record");
    }
}
