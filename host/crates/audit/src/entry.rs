//! What is to be recorded, before it has its place in the chain.

use std::collections::BTreeMap;

use super::inert::inert;
use super::record::{Decision, Place, Record, Subject, VERSION};
use act_core::secret::Secrets;

/// Bytes of a path or another object, of one name, of a reason.
const OBJECT: usize = 1024;
const NAME: usize = 384;
/// Names in one record; the count beside them says how many there were.
pub(super) const NAMES: usize = 64;

/// What happened; the words of `specs/audit.md`.
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
    GateStarted,
    ContainerRequested,
    ContainerInspected,
    GateFinished,
    GateInputChanged,
    RunsRemoved,
    ClaimChecked,
    Anchored,
    LogRecovered,
    ChainRestarted,
    GapAccepted,
}

impl Event {
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
            Self::GateStarted => "gate_started",
            Self::ContainerRequested => "container_requested",
            Self::ContainerInspected => "container_inspected",
            Self::GateFinished => "gate_finished",
            Self::GateInputChanged => "gate_input_changed",
            Self::RunsRemoved => "runs_removed",
            Self::ClaimChecked => "claim_checked",
            Self::Anchored => "anchored",
            Self::LogRecovered => "log_recovered",
            Self::ChainRestarted => "chain_restarted",
            Self::GapAccepted => "gap_accepted",
        }
    }
}

/// Of the moment in which it was made.
#[derive(Debug, Clone)]
pub struct Entry {
    record: Record,
}

impl Entry {
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

    #[must_use]
    pub fn subject(mut self, subject: &Subject) -> Self {
        self.record.subject = Some(subject.clone());
        self
    }

    #[must_use]
    pub fn object(mut self, object: &str) -> Self {
        self.record.object = Some(object.to_owned());
        self
    }

    #[must_use]
    pub fn decision(mut self, decision: Decision) -> Self {
        self.record.decision = Some(decision);
        self
    }

    #[must_use]
    pub fn reason(mut self, reason: &str) -> Self {
        self.record.reason = Some(reason.to_owned());
        self
    }

    /// The digest of the capabilities in force.
    #[must_use]
    pub fn effective(mut self, sha256: &str) -> Self {
        self.record.effective_sha256 = Some(sha256.to_owned());
        self
    }

    #[must_use]
    pub fn count(mut self, what: &str, count: u64) -> Self {
        self.record.counts.insert(what.to_owned(), count);
        self
    }

    /// Left out when there is none.
    #[must_use]
    pub fn digest(mut self, what: &str, sha256: Option<&str>) -> Self {
        if let Some(sha256) = sha256 {
            self.record.digests.insert(what.to_owned(), sha256.to_owned());
        }
        self
    }

    #[must_use]
    pub fn names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.record.names.extend(names.into_iter().take(NAMES).map(Into::into));
        self
    }

    pub(super) fn bound(mut self, task: Option<&str>, repo: Option<&Place>) -> Self {
        self.record.task = task.map(str::to_owned);
        self.record.repo = repo.cloned();
        self
    }

    /// Ready for the chain: bounded, without keys, inert.
    pub(super) fn into_record(self, boot_id: &str, secrets: &Secrets) -> Record {
        let mut record = self.record;
        let clean = |text: &str, most| inert(&secrets.redact(text), most);
        record.boot_id = boot_id.to_owned();
        record.object = record.object.map(|object| clean(&object, OBJECT));
        record.reason = record.reason.map(|reason| clean(&reason, NAME));
        record.names = record.names.iter().take(NAMES).map(|name| clean(name, NAME)).collect();
        record.subject = record.subject.map(|subject| Subject {
            name: clean(&subject.name, NAME),
            sha256: clean(&subject.sha256, NAME),
            world: subject.world.map(|world| clean(&world, NAME)),
        });
        record
    }
}
