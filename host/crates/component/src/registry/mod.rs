//! Which components may take part, and with what: the user's grants, the administrator's policy, and the store of
//! approved bytes.
//!
//! A repository only asks (`components:` in its `agent.yaml`); what it asks for is looked up here and loaded from
//! the store alone. The one place where a decision about a component is written down is [`change`]; the one where
//! bytes are let in or refused is `component::ComponentHost::load_as`, which tells either as an event.

mod anchor;
mod change;
mod document;
mod grants;
mod listing;
mod members;
mod past;
mod policy;
mod refused;
mod shelf;
mod state;
mod toml_file;
mod trusted;

use std::path::{Path, PathBuf};

pub use anchor::anchor_command;
pub use change::{Change, ChangeError, Changed, change};
pub use document::{ComponentDocument, ComponentList};
pub use grants::{Approval, Grants, GrantsFile, directory_path, is_reserved};
pub use listing::list;
pub use members::Member;
pub use past::{Past, past};
pub use policy::Policy;
pub use refused::Refused;
pub use shelf::{Shelf, Taken, read_file};
pub use state::{State, Stored, state};
pub use toml_file::FileError;

use act_audit::{Audit, AuditError};
use act_workspace::RootIdentity;

/// Everything that has a say about components, as it stands now.
#[derive(Debug)]
pub struct Registry {
    pub grants: Grants,
    /// The file that the grants stand in.
    pub file: Option<GrantsFile>,
    pub policy: Policy,
    pub shelf: Shelf,
    /// The repository in use, if there is one.
    pub repo: Option<Repo>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    pub root: PathBuf,
    pub identity: String,
}

impl Repo {
    pub fn at(root: &Path) -> std::io::Result<Self> {
        Ok(Self { root: root.to_owned(), identity: RootIdentity::of(root)?.to_string() })
    }
}

impl Registry {
    /// Reads what is there and makes nothing. `artifacts` is ARTIFACT_DIR, which may not exist yet.
    pub fn open(artifacts: Option<&Path>, repo: Option<Repo>) -> Result<Self, FileError> {
        let root = repo.as_ref().map(|repo| repo.root.as_path());
        let (grants, file) = Grants::read(root)?;
        Ok(Self { grants, file, policy: Policy::read()?, shelf: Shelf::existing(artifacts), repo })
    }

    /// Grants that were not written by `act components` are recorded before anything acts on them: from the bytes
    /// that were read here. Whoever calls this keeps the file from being changed meanwhile ([`Grants::hold`]).
    pub fn note(&self, audit: &Audit) -> Result<(), AuditError> {
        self.grants.seen(self.file.as_ref(), |seen| audit.grants_seen(&seen).map(|_| ()))
    }

    /// That something could not take part, which needs no more than to be asked for.
    pub fn tell_refused(audit: &Audit, refused: &Refused) -> Result<(), AuditError> {
        let entry = act_audit::Entry::new(act_audit::Event::ComponentRefused);
        let entry = match refused.about() {
            Some((name, sha256)) => entry.subject(&act_audit::Subject {
                name: name.to_owned(),
                sha256: sha256.unwrap_or_default().to_owned(),
                world: None,
            }),
            None => entry,
        };
        let entry = entry.decision(act_audit::Decision::Deny).reason(refused.code());
        audit.append(entry.names([refused.to_string()]))?;
        audit.settle()
    }

    /// The same where the grants or the policy do not count, so that nothing can take part.
    pub fn tell_unusable(audit: &Audit, error: &FileError) -> Result<(), AuditError> {
        let entry = act_audit::Entry::new(act_audit::Event::ComponentRefused);
        let entry = entry.decision(act_audit::Decision::Deny).reason(error.code());
        audit.append(entry.names([error.to_string()]))?;
        audit.settle()
    }

    /// Whether an approval is in force here.
    fn is_active(&self, approval: &Approval) -> bool {
        approval.revoked_at.is_none() && self.is_in_scope(approval)
    }

    fn is_in_scope(&self, approval: &Approval) -> bool {
        match (&approval.repo, &self.repo) {
            (None, _) => true,
            (Some(only), Some(here)) => *only == here.identity,
            (Some(_), None) => false,
        }
    }
}
