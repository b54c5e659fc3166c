//! A record, which is one line of the log, and the entry from which it is made. Foreign text in it is shortened, redacted and
//! made harmless.

use std::collections::BTreeMap;

use act_core::is_hidden;
use act_core::secret::Secrets;
use act_fs::Sha256;
use serde::{Deserialize, Serialize};

/// The version of the format. It changes when the meaning of a field changes, not for new fields and events.
pub(super) const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(title = "AuditRecord")
)]
pub struct Record {
    /// Version of this format.
    pub v: u32,
    /// Number of the record, from 1, without gaps.
    pub seq: u64,
    /// Time of the machine's clock, which a user can set; ISO 8601 in UTC, to the millisecond.
    pub time: String,
    /// Milliseconds since the machine's boot `boot_id`, which no user can set.
    pub mono_ms: u64,
    pub boot_id: String,
    pub act_version: String,
    pub uid: u32,
    pub pid: u32,
    pub task: Option<String>,
    pub repo: Option<RepoIdentity>,
    /// A stable word, listed in `specs/audit.md`.
    pub event: String,
    /// The component that the record is about.
    pub subject: Option<Subject>,
    /// The path, run, image or other resource that was accessed. Control characters are written as `\u{…}`.
    pub object: Option<String>,
    pub decision: Option<Decision>,
    /// A stable word, listed in `specs/audit.md`.
    pub reason: Option<String>,
    /// SHA-256 of the JSON of the capabilities that were in force.
    pub effective_sha256: Option<String>,
    pub counts: BTreeMap<String, u64>,
    /// SHA-256 digests of inputs and outputs as hex; the log never holds their content.
    pub digests: BTreeMap<String, String>,
    /// The members of a list that the record is about: capabilities, origins or runs.
    pub names: Vec<String>,
    /// Hash of the previous record; 64 zeros for the first record.
    pub prev: String,
    /// SHA-256 of `act-audit-v1`, `prev` and the line without this field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(any(test, feature = "testing"), schemars(required))]
    pub hash: String,
}

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditRepo")
)]
pub struct RepoIdentity {
    /// Identity of the root directory, equal for every path that leads to it.
    pub identity: String,
    /// The commit of the repository when the task began.
    pub head: Option<String>,
    /// Identity of the repository of which this one is a worktree that act made; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_of: Option<String>,
}

impl RepoIdentity {
    /// Returns the identity of the repository itself, also where this is a worktree of it.
    pub fn home(&self) -> &str {
        self.worktree_of.as_deref().unwrap_or(&self.identity)
    }
}

/// A component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Subject {
    pub name: String,
    /// SHA-256 of the component's bytes.
    pub sha256: String,
    pub world: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Allow,
    /// The access is not granted.
    Deny,
    /// The access is granted, and its limit is used up.
    Limit,
}

impl Decision {
    /// Returns the word in the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Limit => "limit",
        }
    }
}

/// Maximum number of bytes of a path or another object. It is long enough for real paths, and so short that a component
/// cannot fill the disk with one record.
const MAX_OBJECT: usize = 1024;
/// Maximum number of bytes of a name or a reason.
const MAX_NAME: usize = 384;
/// Maximum number of names in a record. A count beside them is their number before.
pub(super) const NAMES: usize = 64;

/// The kind of a record, in the words of `specs/audit.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    TaskStarted,
    TaskFinished,
    GateSnapshot,
    ComponentLoaded,
    ComponentRefused,
    ComponentApproved,
    ComponentRevoked,
    ComponentGranted,
    GrantsChanged,
    OriginOpened,
    Query,
    Denied,
    Edit,
    EditRefused,
    ConsentAsked,
    GateStarted,
    GateBegunAnew,
    ContainerRequested,
    ContainerInspected,
    GateFinished,
    GateReused,
    GateInputChanged,
    TestsCompared,
    InstructionsRead,
    BasePrepared,
    BaseDisproved,
    CheckStarted,
    CheckFinished,
    CheckRefused,
    RunsRemoved,
    ClaimChecked,
    Anchored,
    LogRecovered,
    ChainRestarted,
    GapAccepted,
}

impl Event {
    /// Returns the word in the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TaskStarted => "task_started",
            Self::TaskFinished => "task_finished",
            Self::GateSnapshot => "gate_snapshot",
            Self::ComponentLoaded => "component_loaded",
            Self::ComponentRefused => "component_refused",
            Self::ComponentApproved => "component_approved",
            Self::ComponentRevoked => "component_revoked",
            Self::ComponentGranted => "component_granted",
            Self::GrantsChanged => "grants_changed",
            Self::OriginOpened => "origin_opened",
            Self::Query => "query",
            Self::Denied => "denied",
            Self::Edit => "edit",
            Self::EditRefused => "edit_refused",
            Self::ConsentAsked => "consent_asked",
            Self::GateStarted => "gate_started",
            Self::GateBegunAnew => "gate_begun_anew",
            Self::ContainerRequested => "container_requested",
            Self::ContainerInspected => "container_inspected",
            Self::GateFinished => "gate_finished",
            Self::GateReused => "gate_reused",
            Self::GateInputChanged => "gate_input_changed",
            Self::TestsCompared => "tests_compared",
            Self::InstructionsRead => "instructions_read",
            Self::BasePrepared => "base_prepared",
            Self::BaseDisproved => "base_disproved",
            Self::CheckStarted => "check_started",
            Self::CheckFinished => "check_finished",
            Self::CheckRefused => "check_refused",
            Self::RunsRemoved => "runs_removed",
            Self::ClaimChecked => "claim_checked",
            Self::Anchored => "anchored",
            Self::LogRecovered => "log_recovered",
            Self::ChainRestarted => "chain_restarted",
            Self::GapAccepted => "gap_accepted",
        }
    }
}

/// A record without its number and hash. Its time is the moment when the entry was made.
#[derive(Debug, Clone)]
pub struct Entry {
    record: Record,
}

impl Entry {
    /// Starts an entry with the time, the user and the process of now.
    pub fn new(event: Event) -> Self {
        let record = Record {
            v: VERSION,
            seq: 0,
            time: act_core::clock::milliseconds(act_core::clock::now()),
            mono_ms: act_core::clock::since_boot_ms(),
            boot_id: String::new(),
            act_version: env!("CARGO_PKG_VERSION").to_owned(),
            uid: rustix::process::geteuid().as_raw(),
            pid: std::process::id(),
            task: None,
            repo: None,
            event: event.as_str().to_owned(),
            subject: None,
            object: None,
            decision: None,
            reason: None,
            effective_sha256: None,
            counts: BTreeMap::new(),
            digests: BTreeMap::new(),
            names: vec![],
            prev: String::new(),
            hash: String::new(),
        };
        Self { record }
    }

    /// Sets the component.
    #[must_use]
    pub fn subject(mut self, subject: &Subject) -> Self {
        self.record.subject = Some(subject.clone());
        self
    }

    /// Sets the path, run or image.
    #[must_use]
    pub fn object(mut self, object: &str) -> Self {
        self.record.object = Some(object.to_owned());
        self
    }

    /// Sets the decision.
    #[must_use]
    pub fn decision(mut self, decision: Decision) -> Self {
        self.record.decision = Some(decision);
        self
    }

    /// Sets the reason, a stable word.
    #[must_use]
    pub fn reason(mut self, reason: &str) -> Self {
        self.record.reason = Some(reason.to_owned());
        self
    }

    /// Sets the digest of the capabilities in force.
    #[must_use]
    pub fn effective(mut self, sha256: &str) -> Self {
        self.record.effective_sha256 = Some(sha256.to_owned());
        self
    }

    /// Adds a count.
    #[must_use]
    pub fn count(mut self, what: &str, count: u64) -> Self {
        self.record.counts.insert(what.to_owned(), count);
        self
    }

    /// Adds a digest, or nothing for `None`.
    #[must_use]
    pub fn digest(mut self, what: &str, sha256: Option<&str>) -> Self {
        if let Some(sha256) = sha256 {
            self.record.digests.insert(what.to_owned(), sha256.to_owned());
        }
        self
    }

    /// Adds names, up to the maximum of a record.
    #[must_use]
    pub fn names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.record.names.extend(names.into_iter().take(NAMES).map(Into::into));
        self
    }

    /// Sets the task and the repository.
    pub(super) fn bound(mut self, task: Option<&str>, repo: Option<&RepoIdentity>) -> Self {
        self.record.task = task.map(str::to_owned);
        self.record.repo = repo.cloned();
        self
    }

    /// Returns the record with its texts shortened, without keys and without hidden characters.
    pub(super) fn into_record(self, boot_id: &str, secrets: &Secrets) -> Record {
        let mut record = self.record;
        let clean = |text: &str, most| sanitize(&secrets.redact(text), most);
        record.boot_id = boot_id.to_owned();
        record.object = record.object.map(|object| clean(&object, MAX_OBJECT));
        record.reason = record.reason.map(|reason| clean(&reason, MAX_NAME));
        record.names = record.names.iter().take(NAMES).map(|name| clean(name, MAX_NAME)).collect();
        record.subject = record.subject.map(|subject| Subject {
            name: clean(&subject.name, MAX_NAME),
            sha256: clean(&subject.sha256, MAX_NAME),
            world: subject.world.map(|world| clean(&world, MAX_NAME)),
        });
        record
    }
}

/// Returns a path or another object as a record has it.
pub fn as_object(text: &str) -> String {
    sanitize(text, MAX_OBJECT)
}

/// Escapes hidden characters and shortens a text to about `most` bytes. A shortened text ends with the beginning of the
/// digest of the whole text.
pub(super) fn sanitize(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most));
    for c in text.chars() {
        if out.len() + 12 > most {
            let digest = Sha256::of(text.as_bytes()).to_string();
            out.push_str("…#");
            out.push_str(digest.get(..12).unwrap_or_default());
            break;
        }
        match is_hidden(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // AUDIT-6
    #[test]
    fn a_name_is_short_and_nothing_in_it_acts_on_a_terminal() {
        assert_eq!(sanitize("src/ä.rs", 100), "src/ä.rs");
        assert_eq!(sanitize("a\u{1b}[2J\n\u{202e}", 100), r"a\u{1b}[2J\u{a}\u{202e}");
        let long = sanitize(&"x".repeat(5000), 1000);
        assert!(long.len() < 1020 && long.contains("…#"), "{long}");
        assert_ne!(long, sanitize(&"x".repeat(5001), 1000), "told apart");
    }
}
