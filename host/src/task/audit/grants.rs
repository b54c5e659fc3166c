//! Who could do what at some time: `act audit grants`.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::Logbook;
use crate::audit::{Event, Record, Subject};
use crate::output::Failure;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GrantsAt {
    /// ISO 8601 in UTC.
    pub at: String,
    /// The last record that was taken into account; 0 when there was none yet.
    pub seq: u64,
    pub components: Vec<ComponentAt>,
    /// The grants as the file last said them, where it was changed past `act components`.
    pub file: Option<GrantsFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComponentAt {
    #[serde(flatten)]
    pub subject: Subject,
    /// `approved`, `revoked`, or `in_use`: no approval is recorded, as for those that act brings along.
    pub state: String,
    /// What it had; what it had last where it was revoked.
    pub capabilities: Vec<String>,
    pub effective_sha256: Option<String>,
    /// When that began.
    pub since: String,
    pub since_seq: u64,
    pub last_loaded: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GrantsFile {
    pub path: String,
    pub sha256: Option<String>,
    /// When the change was seen.
    pub seen: String,
    pub seen_seq: u64,
    /// One for each component.
    pub grants: Vec<String>,
}

type Components = BTreeMap<(String, String), ComponentAt>;

pub fn audit_grants(start: &Path, at: DateTime<Utc>) -> Result<GrantsAt, Failure> {
    let mut found =
        GrantsAt { at: crate::clock::milliseconds(at), seq: 0, components: vec![], file: None };
    let mut components = Components::new();
    Logbook::open(start)?.each(|record| {
        // By their order: the clock may have been set.
        let later = record.time.parse::<DateTime<Utc>>().is_ok_and(|time| time > at);
        if !later {
            found.seq = record.seq;
            take(&mut components, &mut found.file, record);
        }
        !later
    })?;
    found.components = components.into_values().collect();
    Ok(found)
}

/// One record more (pure).
fn take(components: &mut Components, file: &mut Option<GrantsFile>, record: Record) {
    let Record { seq, time, event, subject, object, effective_sha256, mut digests, names, .. } =
        record;
    let is = |wanted: Event| event == wanted.as_str();
    if is(Event::GrantsChanged) {
        let (path, sha256) = (object.unwrap_or_default(), digests.remove("grants"));
        *file = Some(GrantsFile { path, sha256, seen: time, seen_seq: seq, grants: names });
        return;
    }
    let Some(subject) = subject else { return };
    let key = (subject.name.clone(), subject.sha256.clone());
    let now = |state: &str| ComponentAt {
        subject: subject.clone(),
        state: state.to_owned(),
        capabilities: names.clone(),
        effective_sha256: effective_sha256.clone(),
        since: time.clone(),
        since_seq: seq,
        last_loaded: None,
    };
    if is(Event::ComponentApproved) {
        *file = None;
        let last_loaded = components.get(&key).and_then(|known| known.last_loaded.clone());
        components.insert(key, ComponentAt { last_loaded, ..now("approved") });
    } else if is(Event::ComponentRevoked) {
        *file = None;
        let known = components.remove(&key);
        let capabilities =
            known.as_ref().map(|known| known.capabilities.clone()).unwrap_or_default();
        let last_loaded = known.and_then(|known| known.last_loaded);
        components.insert(key, ComponentAt { capabilities, last_loaded, ..now("revoked") });
    } else if is(Event::ComponentLoaded) {
        let known = components.entry(key).or_insert_with(|| now("in_use"));
        if known.state == "in_use" && known.effective_sha256 != effective_sha256 {
            *known = now("in_use");
        }
        known.last_loaded = Some(time.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::holds::<GrantsAt>("audit-grants");
    }
}
