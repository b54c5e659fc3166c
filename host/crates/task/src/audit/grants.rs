//! `act audit grants`: the permissions of each component at a point in time.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::audit::Logbook;
use act_audit::{Event, Record, Subject};
use act_core::{Document, Failure};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct GrantsAt {
    /// The point in time, ISO 8601 in UTC.
    pub at: String,
    /// Number of the last record up to that time; 0 when there was none yet.
    pub seq: u64,
    pub components: Vec<ComponentAt>,
    /// The last change of the file of grants that no `act components` command made.
    pub file: Option<GrantsFile>,
}

impl Document for GrantsAt {
    const NAME: &'static str = "audit-grants";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ComponentAt {
    #[serde(flatten)]
    pub subject: Subject,
    /// `approved`; `superseded` by other bytes of this name; `revoked`; or `in_use` when no approval is recorded, as for the
    /// built-in components.
    pub state: String,
    /// True if the state comes from a change of the file of grants that no `act components` command made.
    pub by_hand: bool,
    /// The built-in component that it replaces.
    pub replaces: Option<String>,
    /// Identity of the only repository in which the approval holds; null for all repositories.
    pub repository: Option<String>,
    /// The permissions; for a component without any, the last ones that it had.
    pub capabilities: Vec<String>,
    pub effective_sha256: Option<String>,
    /// Time since when the component has had this state.
    pub since: String,
    pub since_seq: u64,
    pub last_loaded: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct GrantsFile {
    pub path: String,
    pub sha256: Option<String>,
    /// Time at which the change was found.
    pub seen: String,
    pub seen_seq: u64,
    /// `changed_outside`, `gone`, `first_seen`, or `not_written`: a recorded decision could not be written to the file.
    pub reason: Option<String>,
    /// Name and digest of each component to which the file grants permissions.
    pub grants: Vec<String>,
}

type Components = BTreeMap<(String, String), ComponentAt>;

/// The permissions that follow from the records, in their order (pure).
#[derive(Debug, Default)]
struct GrantHistory {
    components: Components,
    /// The components as they were before the file was changed.
    before: Components,
    file: Option<GrantsFile>,
}

/// Returns the permissions of each component at a point in time, from the records.
///
/// # Errors
///
/// The log cannot be read.
pub fn audit_grants(start: &Path, at: DateTime<Utc>) -> Result<GrantsAt, Failure> {
    grants_in(&Logbook::open(start)?, at)
}

/// Returns the permissions of each component at a point in time, from the records of a log.
pub(crate) fn grants_in(log: &Logbook, at: DateTime<Utc>) -> Result<GrantsAt, Failure> {
    let (mut seq, mut history) = (0, GrantHistory::default());
    log.each(|record| {
        // The order of the records counts, because the clock may have been set.
        let later = record.time.parse::<DateTime<Utc>>().is_ok_and(|time| time > at);
        if !later {
            seq = record.seq;
            history.take(record);
        }
        !later
    })?;
    let components = history.components.into_values().collect();
    Ok(GrantsAt { at: act_core::clock::milliseconds(at), seq, components, file: history.file })
}

impl GrantHistory {
    fn take(&mut self, record: Record) {
        let is = |wanted: Event| record.event == wanted.as_str();
        let Some(subject) = &record.subject else {
            if is(Event::GrantsChanged) {
                self.found_changed(record);
            }
            return;
        };
        let key = (subject.name.clone(), subject.sha256.clone());
        if is(Event::ComponentApproved) {
            self.end(&record, "superseded", |known| known.subject.name == key.0);
            let last_loaded = self.components.get(&key).and_then(|one| one.last_loaded.clone());
            let now = ComponentAt { last_loaded, ..ComponentAt::of(&record, subject, "approved") };
            self.components.insert(key, now);
        } else if is(Event::ComponentRevoked) {
            let now = ComponentAt::of(&record, subject, "revoked");
            self.components.entry(key.clone()).or_insert(now);
            self.end(&record, "revoked", |known| {
                (&known.subject.name, &known.subject.sha256) == (&key.0, &key.1)
            });
        } else if is(Event::ComponentGranted) {
            let now = ComponentAt::of(&record, subject, "approved");
            let known = self.before.remove(&key);
            let same = known.as_ref().is_some_and(|known| {
                known.state == "approved"
                    && known.effective_sha256 == now.effective_sha256
                    && (&known.replaces, &known.repository) == (&now.replaces, &now.repository)
            });
            let last_loaded = known.as_ref().and_then(|known| known.last_loaded.clone());
            let anew = ComponentAt { by_hand: true, last_loaded, ..now };
            self.components.insert(key, known.filter(|_| same).unwrap_or(anew));
        } else if is(Event::ComponentLoaded) {
            self.loaded(&record, subject, key);
        }
    }

    /// The file of grants was changed. One record for each component that it grants follows; every other
    /// component has lost its permissions.
    fn found_changed(&mut self, record: Record) {
        self.before = self.components.clone();
        self.end(&record, "revoked", |_| true);
        let Record { seq, time, object, reason, mut digests, names, .. } = record;
        let (path, sha256) = (object.unwrap_or_default(), digests.remove("grants"));
        let file = GrantsFile { path, sha256, seen: time, seen_seq: seq, reason, grants: names };
        self.file = Some(file);
    }

    /// Ends the approvals that `which` selects.
    fn end(&mut self, by: &Record, state: &str, which: impl Fn(&ComponentAt) -> bool) {
        let by_hand = by.event == Event::GrantsChanged.as_str();
        for known in self.components.values_mut().filter(|known| which(known)) {
            if known.state == "approved" {
                state.clone_into(&mut known.state);
                known.by_hand = by_hand;
                (known.since, known.since_seq) = (by.time.clone(), by.seq);
            }
        }
    }

    fn loaded(&mut self, record: &Record, subject: &Subject, key: (String, String)) {
        // A component that replaces a built-in one is loaded under that name.
        let in_place = |one: &&mut ComponentAt| {
            one.subject.sha256 == subject.sha256 && one.replaces.as_ref() == Some(&subject.name)
        };
        if let Some(known) = self.components.values_mut().find(in_place) {
            known.last_loaded = Some(record.time.clone());
            return;
        }
        let now = || ComponentAt::of(record, subject, "in_use");
        let known = self.components.entry(key).or_insert_with(now);
        if known.state == "in_use" && known.effective_sha256 != record.effective_sha256 {
            *known = now();
        }
        known.last_loaded = Some(record.time.clone());
    }
}

impl ComponentAt {
    fn of(record: &Record, subject: &Subject, state: &str) -> Self {
        let word = |what: &str| {
            let found = record.names.iter().find_map(|name| name.strip_prefix(what));
            found.map(str::to_owned)
        };
        let is_place = |name: &&String| name.starts_with(REPLACES) || name.starts_with(REPOSITORY);
        Self {
            subject: subject.clone(),
            state: state.to_owned(),
            by_hand: false,
            replaces: word(REPLACES),
            repository: word(REPOSITORY),
            capabilities: record.names.iter().filter(|name| !is_place(name)).cloned().collect(),
            effective_sha256: record.effective_sha256.clone(),
            since: record.time.clone(),
            since_seq: record.seq,
            last_loaded: None,
        }
    }
}

/// Prefixes of names that are not capabilities and say where an approval holds.
const REPLACES: &str = "replaces ";
const REPOSITORY: &str = "repository ";

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::document_holds::<GrantsAt>();
    }
}
