//! Decides which components may be loaded and with which permissions: the user's grants, the administrator's policy, and
//! the store of approved bytes.
//!
//! A repository can only request components (`components:` in its `agent.yaml`). [`Registry::members`] checks these
//! requests against the approvals and returns the components that may be loaded, always from the store. [`change`] is
//! the only function that approves, narrows or revokes, and [`DevSession`] lets in what a developer builds while a command
//! runs. [`list`] describes every component for the user.

mod dev;
mod grants;
mod listing;
mod policy;
mod store;
mod trusted;

use std::fs::File;
use std::path::{Path, PathBuf};

use bytes::Bytes;

pub use dev::{DevComponent, DevSession, DevTerms, NewSession};
pub use grants::{Approval, Change, ChangeError, Grants, GrantsFile, Source, change, is_reserved};
pub use listing::{ComponentDocument, ComponentList, State, UsageHistory, list, usage_history};
pub use policy::{Policy, SignatureKey};
pub use store::{ComponentStore, StoreError, read_component_file};
pub use trusted::{FileError, anchor_command};

use crate::{
    AdmissionError, Admitted, ComponentName, Grant, Inspection, Kind, MAX_WASM, Parties, builtin,
};
use act_audit::{Audit, AuditError, Decision, Entry, Event, Subject};
use act_config::{ComponentKind, ComponentRequest};
use act_core::shell_word;
use act_workspace::{FollowLinks, Handle, Profile, RepoView, RootIdentity, digest};

/// All files that decide about components, as they were read.
#[derive(Debug)]
pub struct Registry {
    pub grants: Grants,
    /// The file from which the grants were read; `None` if there is none.
    pub file: Option<GrantsFile>,
    pub policy: Policy,
    pub store: ComponentStore,
    /// The components of live development sessions for the repository in use.
    pub dev: Vec<DevComponent>,
    /// The repository in use, if there is one.
    pub repo: Option<Repo>,
}

/// The repository in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    pub root: PathBuf,
    pub identity: String,
}

/// A component that may be loaded: the approved bytes with their effective grant.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub name: String,
    pub kind: Kind,
    /// The built-in component that it replaces.
    pub replaces: Option<String>,
    pub sha256: String,
    /// The component is of a development session: nobody approved these bytes.
    pub dev: bool,
    /// The inspected bytes and the effective grant.
    pub admitted: Admitted,
}

/// Why [`Registry::open_recorded`] failed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Unrecorded(#[from] AuditError),
}

impl From<OpenError> for act_core::Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::File(error) => error.into(),
            OpenError::Unrecorded(error) => error.into(),
        }
    }
}

impl Repo {
    /// Returns the repository at this root.
    ///
    /// # Errors
    ///
    /// The error of the system if the root cannot be opened.
    pub fn at(root: &Path) -> std::io::Result<Self> {
        Ok(Self { root: root.to_owned(), identity: RootIdentity::of(root)?.to_string() })
    }
}

impl Registry {
    /// Reads the files and creates nothing. `artifacts` is ARTIFACT_DIR, which need not exist.
    ///
    /// # Errors
    ///
    /// A [`FileError`] if `grants.toml` or `policy.toml` is not trusted or is malformed. No component may be loaded then.
    pub fn open(artifacts: Option<&Path>, repo: Option<Repo>) -> Result<Self, FileError> {
        let grants = Grants::read(repo.as_ref().map(|repo| repo.root.as_path()))?;
        Self::with_grants(grants, artifacts, repo)
    }

    fn with_grants(
        (grants, file): (Grants, Option<GrantsFile>),
        artifacts: Option<&Path>,
        repo: Option<Repo>,
    ) -> Result<Self, FileError> {
        let store = ComponentStore::existing(artifacts);
        let dev = dev::live(repo.as_ref())?;
        Ok(Self { grants, file, policy: Policy::read()?, store, dev, repo })
    }

    /// Reads the files as [`Registry::open`] and records grants that `act components` did not write, before anything is
    /// decided by them. A shared lock keeps the grants unchanged from the reading to the record.
    ///
    /// # Errors
    ///
    /// An [`OpenError`] if a file cannot be used or the record cannot be written.
    pub fn open_recorded(
        artifacts: Option<&Path>,
        repo: Option<Repo>,
        audit: &Audit,
    ) -> Result<Self, OpenError> {
        let locked = Grants::lock(repo.as_ref().map(|repo| repo.root.as_path()))?;
        let grants = match &locked {
            Some((dir, path)) => Grants::read_in(dir, path)?,
            None => Default::default(),
        };
        let registry = Self::with_grants(grants, artifacts, repo)?;
        registry.grants.with_record(registry.file.as_ref(), |seen| audit.grants_seen(&seen))?;
        Ok(registry)
    }

    /// Records that a component was refused, also one that a repository requests and the user never approved.
    ///
    /// # Errors
    ///
    /// An [`AuditError`] if the record cannot be written.
    pub fn record_refusal(audit: &Audit, refused: &Refused) -> Result<(), AuditError> {
        let subject = refused.about().map(|(name, sha256)| Subject {
            name: name.to_owned(),
            sha256: sha256.unwrap_or_default().to_owned(),
            world: None,
        });
        record_denial(audit, subject, refused.code(), refused.to_string())
    }

    /// Records that the grants or the policy cannot be used, so that no component can take part.
    ///
    /// # Errors
    ///
    /// An [`AuditError`] if the record cannot be written.
    pub fn record_unusable(audit: &Audit, error: &FileError) -> Result<(), AuditError> {
        record_denial(audit, None, error.code(), error.to_string())
    }

    /// Returns the components that the user approved for this repository.
    ///
    /// # Errors
    ///
    /// The first [`Refused`]: a request that is not approved in exactly its bytes, or an approved component that cannot be
    /// loaded. No other component replaces it.
    pub fn members(&self, requests: &[ComponentRequest]) -> Result<Vec<Member>, Refused> {
        for (at, request) in requests.iter().enumerate() {
            check_names(request)?;
            if requests.iter().take(at).any(|other| other.name == request.name) {
                let (name, why) = (request.name.clone(), "it is requested twice".to_owned());
                return Err(Refused::InvalidRequest { name, why });
            }
            self.check_request(request)?;
        }
        let mut members: Vec<Member> = vec![];
        let approved = self
            .grants
            .approvals
            .iter()
            .filter(|approval| approval.revoked_at.is_none() && self.is_in_scope(approval));
        let approved = approved.map(|approval| self.member(approval));
        for member in approved.chain(self.dev.iter().map(|dev| self.dev_member(dev))) {
            let member = member?;
            if members.iter().any(|other| other.name == member.name) {
                return Err(Refused::NameInUse { name: member.name, sha256: member.sha256 });
            }
            let rival = members
                .iter()
                .find(|other| other.replaces.is_some() && other.replaces == member.replaces);
            if let (Some(rival), Some(builtin)) = (rival, &member.replaces) {
                return Err(Refused::TwoReplace {
                    first: rival.name.clone(),
                    second: member.name,
                    builtin: builtin.clone(),
                });
            }
            members.push(member);
        }
        Ok(members)
    }

    /// Returns the component that is approved here in exactly these bytes, under any name. `file` only appears in
    /// messages; the bytes are loaded from the store.
    ///
    /// # Errors
    ///
    /// A [`Refused`] if these bytes are not approved here, were revoked, or cannot be loaded.
    pub fn member_of(&self, file: &Path, sha256: &str) -> Result<Member, Refused> {
        let same =
            |approval: &&Approval| approval.sha256.as_str() == sha256 && self.is_in_scope(approval);
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let (path, sha256) = (path.display().to_string(), sha256.to_owned());
        // The bytes may be approved under two names. A revocation of one name leaves the other approval in force.
        let mut approvals: Vec<_> = self.grants.approvals.iter().filter(same).collect();
        approvals.sort_by_key(|approval| approval.revoked_at.is_some());
        match approvals.first() {
            None => Err(Refused::NeverApproved { path, sha256 }),
            Some(Approval { name, revoked_at: Some(_), .. }) => {
                Err(Refused::Revoked { name: name.to_string(), path: Some(path), sha256 })
            }
            Some(approval) => self.member(approval),
        }
    }

    /// Returns the Scout of this name out of the members, to be asked on its own.
    ///
    /// # Errors
    ///
    /// A [`Refused`] if no member has the name, it is a tool component, or it replaces a built-in component.
    pub fn scout<'m>(&self, name: &str, members: &'m [Member]) -> Result<&'m Member, Refused> {
        let member = members.iter().find(|member| member.name == name);
        let name = name.to_owned();
        if let Some(member) = member {
            let sha256 = member.sha256.clone();
            return match &member.replaces {
                _ if member.kind != Kind::Scout => Err(Refused::NotAScout { name, sha256 }),
                Some(builtin) => {
                    Err(Refused::ReplacesBuiltin { name, builtin: builtin.clone(), sha256 })
                }
                None => Ok(member),
            };
        }
        Err(match self.grants.get(&name) {
            Some(Approval { sha256, revoked_at: Some(_), .. }) => {
                Refused::Revoked { name, path: None, sha256: sha256.to_string() }
            }
            Some(Approval { sha256, .. }) => {
                Refused::Elsewhere { name, sha256: sha256.to_string() }
            }
            None => Refused::NoScout { name },
        })
    }

    /// The four parties that decide about one component.
    pub fn parties(&self, inspection: &Inspection, grant: &Grant) -> Parties {
        Parties::new(inspection, grant, &self.policy.ceiling)
    }

    /// Returns whether the approval holds for the repository in use.
    fn is_in_scope(&self, approval: &Approval) -> bool {
        match (&approval.repo, &self.repo) {
            (None, _) => true,
            (Some(only), Some(here)) => *only == here.identity,
            (Some(_), None) => false,
        }
    }

    /// Checks that the user approved what the repository requests.
    fn check_request(&self, request: &ComponentRequest) -> Result<(), Refused> {
        let ComponentRequest { name, sha256, replaces, .. } = request;
        let path = self.absolute_path(request);
        let found = self.file_bytes(request).map(|bytes| digest(&bytes));
        let approval = self.grants.get(name).filter(|approval| self.is_in_scope(approval));
        let unapproved = || Refused::Unapproved {
            name: name.clone(),
            sha256: sha256.clone(),
            path: path.clone(),
            replaces: replaces.clone(),
        };
        let Some(approval) = approval else {
            return Err(match found.filter(|found| found != sha256) {
                Some(found) => {
                    let (name, asked) = (name.clone(), sha256.clone());
                    Refused::OtherFile { name, path, asked, found }
                }
                None => unapproved(),
            });
        };
        if approval.revoked_at.is_some() {
            let again = Box::new(unapproved());
            return Err(Refused::RevokedHere { name: name.clone(), again });
        }
        let approved = approval.sha256.to_string();
        if *sha256 != approved {
            let again = Some(Box::new(unapproved()));
            let (name, found) = (name.clone(), sha256.clone());
            return Err(Refused::Changed { name, approved, found, again });
        }
        if let Some(found) = found.filter(|found| *found != approved) {
            return Err(Refused::Changed { name: name.clone(), approved, found, again: None });
        }
        let asked = kind(request.kind);
        if asked != approval.kind {
            return Err(Refused::OtherKind { name: name.clone(), asked, approved: approval.kind });
        }
        let approved = approval.replaces.as_ref().map(ToString::to_string);
        if replaces.is_some() && *replaces != approved {
            let (name, sha256, asked) = (name.clone(), sha256.clone(), replaces.clone());
            return Err(Refused::OtherReplaced { name, asked, approved, path, sha256 });
        }
        Ok(())
    }

    fn member(&self, approval: &Approval) -> Result<Member, Refused> {
        self.admit(approval, self.store.load(&approval.sha256).map(Bytes::from))
    }

    /// Returns the component of a development session, below the policy as every other one.
    fn dev_member(&self, dev: &DevComponent) -> Result<Member, Refused> {
        let DevComponent { approval, bytes } = dev;
        if !self.policy.allow_dev {
            let (name, sha256) = (approval.name.to_string(), approval.sha256.to_string());
            return Err(Refused::DevNotAllowed { name, sha256 });
        }
        Ok(Member { dev: true, ..self.admit(approval, bytes.clone())? })
    }

    fn admit(
        &self,
        approval: &Approval,
        stored: Result<Bytes, StoreError>,
    ) -> Result<Member, Refused> {
        let (name, sha256) = (approval.name.to_string(), approval.sha256.to_string());
        let bytes = stored.map_err(|error| error.into_refused(&name, &sha256))?;
        let inspection = Inspection::of(bytes)
            .map_err(|error| Refused::Unreadable { name: name.clone(), why: error.to_string() })?;
        if inspection.kind() != approval.kind {
            let (approved, found) = (approval.kind, inspection.kind());
            return Err(Refused::OtherManifest { name, approved, found });
        }
        if !inspection.is_what_it_says() {
            let why = format!(
                "its manifest declares a {}, but it does not export the interface of one",
                approval.kind.word()
            );
            return Err(Refused::Unusable { name, why });
        }
        self.check_signature(approval)?;
        let admitted = inspection.admit(&approval.grants, &self.policy.ceiling);
        let admitted = admitted.map_err(|why| Refused::NotAdmitted { name: name.clone(), why })?;
        let replaces = approval.replaces.as_ref().map(ToString::to_string);
        Ok(Member { name, kind: approval.kind, replaces, sha256, dev: false, admitted })
    }

    /// Checks that the policy's signature was found when the component was approved.
    fn check_signature(&self, approval: &Approval) -> Result<(), Refused> {
        let required = &self.policy.require_signature;
        let signed_by = approval.source.as_ref().and_then(|source| source.signed_by.as_ref());
        let is_signed = signed_by.is_some_and(|id| required.iter().any(|key| key.id() == *id));
        if required.is_empty() || is_signed {
            return Ok(());
        }
        let (name, sha256) = (approval.name.to_string(), approval.sha256.to_string());
        Err(Refused::Unsigned { name, sha256 })
    }

    /// The requested path for a command that the user runs in any directory: absolute if the repository is known.
    fn absolute_path(&self, request: &ComponentRequest) -> String {
        match &self.repo {
            Some(repo) if !request.is_in_registry() => {
                repo.root.join(&request.path).display().to_string()
            }
            _ => request.path.clone(),
        }
    }

    /// The bytes of the repository's own file, or `None` if it cannot be read. Links out of the repository are not
    /// followed, and a request of a repository fetches nothing.
    fn file_bytes(&self, request: &ComponentRequest) -> Option<Vec<u8>> {
        if request.is_in_registry() {
            return None;
        }
        let view = RepoView::open(&self.repo.as_ref()?.root, Profile::Tool).ok()?;
        let entry = view.resolve("", &request.path, FollowLinks::Yes).ok()?;
        match entry.handle {
            Handle::Real(fd) if entry.kind == act_workspace::Kind::File => {
                act_fs::read_bounded(File::from(fd), MAX_WASM).ok()
            }
            _ => None,
        }
    }
}

fn record_denial(
    audit: &Audit,
    subject: Option<Subject>,
    code: &'static str,
    message: String,
) -> Result<(), AuditError> {
    let entry = Entry::new(Event::ComponentRefused);
    let entry = match subject {
        Some(subject) => entry.subject(&subject),
        None => entry,
    };
    audit.append(entry.decision(Decision::Deny).reason(code).names([message]))?;
    audit.settle()
}

/// Refuses names that no approval can have.
fn check_names(request: &ComponentRequest) -> Result<(), Refused> {
    let ComponentRequest { name, replaces, .. } = request;
    let why = match replaces {
        _ if name.parse::<ComponentName>().is_err() => {
            "the name is not valid or too long".to_owned()
        }
        _ if is_reserved(name) => "that is a reserved name".to_owned(),
        Some(replaced) if !builtin::ALL.iter().any(|one| one.name == replaced) => {
            format!("there is no built-in component `{replaced}` to replace")
        }
        _ => return Ok(()),
    };
    Err(Refused::InvalidRequest { name: name.clone(), why })
}

fn kind(kind: ComponentKind) -> Kind {
    match kind {
        ComponentKind::Scout => Kind::Scout,
        ComponentKind::Tool => Kind::Tool,
    }
}

/// Why a component cannot take part. [`Refused::code`] is a stable word, and [`Refused::hint`] names the command that
/// changes it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refused {
    #[error(
        "component `{name}` (sha256 {sha256}) needs approval: agent.yaml requests it, and it has no grant"
    )]
    Unapproved { name: String, sha256: String, path: String, replaces: Option<String> },
    #[error("{path} (sha256 {sha256}) needs approval: these bytes have no grant here")]
    NeverApproved { path: String, sha256: String },
    #[error("component `{name}` has changed: approved is sha256 {approved}, found is {found}")]
    Changed { name: String, approved: String, found: String, again: Option<Box<Refused>> },
    /// The store holds no readable file under the digest.
    #[error(
        "component `{name}` has changed: approved is sha256 {approved}, found is unreadable: {why}"
    )]
    StoreDamaged { name: String, approved: String, why: String },
    #[error(
        "component `{name}` is not the file that agent.yaml requests: requested is sha256 {asked}, {path} has {found}"
    )]
    OtherFile { name: String, path: String, asked: String, found: String },
    /// The user revoked the component, and the repository requests it again.
    #[error("component `{name}` was revoked")]
    RevokedHere { name: String, again: Box<Refused> },
    #[error("component `{name}` was revoked")]
    Revoked { name: String, path: Option<String>, sha256: String },
    #[error(
        "component `{name}` is missing: it is approved, but sha256 {sha256} is not in the store"
    )]
    Missing { name: String, sha256: String },
    #[error("component `{name}` is requested as a {asked}, but was approved as a {approved}", asked = asked.word(), approved = approved.word())]
    OtherKind { name: String, asked: Kind, approved: Kind },
    #[error("component `{name}` is requested to replace {asked}, but was approved {approved}", asked = builtin_name(asked.as_deref()), approved = replacement(approved.as_deref()))]
    OtherReplaced {
        name: String,
        asked: Option<String>,
        approved: Option<String>,
        path: String,
        sha256: String,
    },
    #[error("component `{name}` was approved as a {approved} and is a {found}", approved = approved.word(), found = found.word())]
    OtherManifest { name: String, approved: Kind, found: Kind },
    #[error("component `{name}` cannot be requested: {why}")]
    InvalidRequest { name: String, why: String },
    #[error("both `{first}` and `{second}` replace `{builtin}`")]
    TwoReplace { first: String, second: String, builtin: String },
    #[error(
        "component `{name}` was approved without a signature that the administrator's policy.toml requires"
    )]
    Unsigned { name: String, sha256: String },
    #[error(
        "component `{name}` is of a development session, which the administrator's policy.toml forbids"
    )]
    DevNotAllowed { name: String, sha256: String },
    #[error("component `{name}` is both approved and of a development session")]
    NameInUse { name: String, sha256: String },
    #[error("component `{name}` is refused: {why}")]
    NotAdmitted { name: String, why: AdmissionError },
    #[error("no Scout `{name}` is approved here")]
    NoScout { name: String },
    #[error("no Scout `{name}` is approved here; it is approved only in another repository")]
    Elsewhere { name: String, sha256: String },
    #[error(
        "no Scout `{name}` is approved here: the component replaces `{builtin}` and is asked by that name"
    )]
    ReplacesBuiltin { name: String, builtin: String, sha256: String },
    #[error("`{name}` is a tool component and answers no question")]
    NotAScout { name: String, sha256: String },
    #[error("component `{name}` cannot be read: {why}")]
    Unreadable { name: String, why: String },
    /// No grant would change that.
    #[error("component `{name}` cannot be used: {why}")]
    Unusable { name: String, why: String },
}

fn builtin_name(replaces: Option<&str>) -> String {
    replaces.map_or_else(|| "nothing".to_owned(), |name| format!("`{name}`"))
}

fn replacement(replaces: Option<&str>) -> String {
    replaces.map_or_else(|| "to replace nothing".to_owned(), |name| format!("to replace `{name}`"))
}

impl Refused {
    /// A stable word for records and for `--json`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unapproved { .. } | Self::NeverApproved { .. } => "component_unapproved",
            Self::Changed { .. } | Self::StoreDamaged { .. } | Self::OtherFile { .. } => {
                "component_changed"
            }
            Self::Revoked { .. } | Self::RevokedHere { .. } => "component_revoked",
            Self::Missing { .. } => "component_missing",
            Self::OtherKind { .. }
            | Self::OtherReplaced { .. }
            | Self::OtherManifest { .. }
            | Self::NotAScout { .. }
            | Self::NameInUse { .. }
            | Self::TwoReplace { .. } => "component_conflict",
            Self::NoScout { .. } | Self::Elsewhere { .. } | Self::ReplacesBuiltin { .. } => {
                "scout_unknown"
            }
            Self::InvalidRequest { .. } => "name_reserved",
            Self::NotAdmitted { .. } | Self::Unusable { .. } => "component_refused",
            Self::Unsigned { .. } => "signature_required",
            Self::DevNotAllowed { .. } => "dev_not_allowed",
            Self::Unreadable { .. } => "component_unreadable",
        }
    }

    /// Name and digest of the refused component; no digest if it is not known.
    pub fn about(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::Unapproved { name, sha256, .. }
            | Self::Revoked { name, sha256, .. }
            | Self::Missing { name, sha256 }
            | Self::Unsigned { name, sha256 }
            | Self::DevNotAllowed { name, sha256 }
            | Self::NameInUse { name, sha256 }
            | Self::NotAScout { name, sha256 }
            | Self::Elsewhere { name, sha256 }
            | Self::ReplacesBuiltin { name, sha256, .. }
            | Self::OtherReplaced { name, sha256, .. } => Some((name, Some(sha256))),
            Self::RevokedHere { again, .. } => again.about(),
            Self::Changed { name, found, .. } | Self::OtherFile { name, found, .. } => {
                Some((name, Some(found)))
            }
            Self::TwoReplace { second: name, .. }
            | Self::OtherKind { name, .. }
            | Self::OtherManifest { name, .. }
            | Self::NotAdmitted { name, .. }
            | Self::Unusable { name, .. }
            | Self::StoreDamaged { name, .. }
            | Self::Unreadable { name, .. } => Some((name, None)),
            Self::InvalidRequest { name, .. } | Self::NoScout { name } => Some((name, None)),
            Self::NeverApproved { path, sha256 } => Some((path, Some(sha256))),
        }
    }

    /// Returns what the user can do, with the exact command if one command does it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unapproved { name, sha256, path, replaces } => {
                to_approve(name, path, sha256, replaces.as_deref())
            }
            Self::NeverApproved { path, sha256 } => {
                format!("{} --here", to_approve("NAME", path, sha256, None))
            }
            Self::Changed { name, again: Some(again), .. } => format!(
                "if that is not a new version of your `{name}`, give it another name in agent.yaml; otherwise this \
                 replaces the component that you approved, in every repository where the approval holds: {}",
                again.hint()
            ),
            Self::Changed { name, .. } | Self::StoreDamaged { name, .. } => {
                format!(
                    "look at it, then approve the new bytes under the name `{name}`, or restore the old ones"
                )
            }
            Self::RevokedHere { again, .. } => again.hint(),
            Self::OtherFile { .. } => "correct sha256 in agent.yaml, or the file".to_owned(),
            Self::Revoked { name, path: Some(path), sha256 } => {
                to_approve(name, path, sha256, None)
            }
            Self::Revoked { .. } => "approve it again, or remove the request".to_owned(),
            Self::Missing { name, sha256 } => {
                let approve = approve_command("FILE", name, sha256);
                format!("approve the file with these bytes again: {approve}")
            }
            Self::OtherKind { .. } => "correct `kind` in agent.yaml".to_owned(),
            Self::OtherReplaced { name, asked, path, sha256, .. } => {
                to_approve(name, path, sha256, asked.as_deref())
            }
            Self::OtherManifest { name, .. } => {
                format!("`{}`, then approve it again", components_command("revoke", name))
            }
            Self::NoScout { .. } | Self::Elsewhere { .. } => {
                "the built-in Scouts are a and b; `act components` lists the approved ones"
                    .to_owned()
            }
            Self::ReplacesBuiltin { builtin, .. } => {
                let scout = builtin.strip_prefix("scout-").unwrap_or(builtin);
                format!("`act scout {}` asks it", shell_word(scout))
            }
            Self::NotAScout { .. } => "name a Scout; `act components` lists them".to_owned(),
            Self::InvalidRequest { .. } => "correct `components` in agent.yaml".to_owned(),
            Self::TwoReplace { second, .. } => components_command("revoke", second),
            Self::DevNotAllowed { .. } => {
                "end `act components watch`, or ask the administrator for `allow_dev = true`"
                    .to_owned()
            }
            Self::NameInUse { name, .. } => {
                format!("end `act components watch`, or: {}", components_command("revoke", name))
            }
            Self::Unsigned { name, .. } => format!(
                "approve a signed one from a registry under the name `{name}`, or `{}`",
                components_command("revoke", name)
            ),
            Self::NotAdmitted { .. } | Self::Unusable { .. } => {
                "`act components inspect FILE` shows what it imports and needs".to_owned()
            }
            Self::Unreadable { .. } => "check the file and its mode".to_owned(),
        }
    }
}

/// A command `act components VERB VALUE` that a person can paste into a shell.
fn components_command(verb: &str, value: &str) -> String {
    format!("act components {verb} {}", shell_word(value))
}

fn approve_command(file: &str, name: &str, sha256: &str) -> String {
    let [file, name, sha256] = [file, name, sha256].map(shell_word);
    format!("act components approve {file} --name {name} --sha256 {sha256}")
}

/// The two commands that inspect a file and approve it.
fn to_approve(name: &str, path: &str, sha256: &str, replaces: Option<&str>) -> String {
    let approve = approve_command(path, name, sha256);
    let replaces = replaces.map(|builtin| format!(" --replaces {}", shell_word(builtin)));
    let replaces = replaces.unwrap_or_default();
    if act_config::is_in_registry(path) {
        let look = components_command("pull", path);
        return format!(
            "fetch it with `{look}` and look at it; to approve it: {approve}{replaces}"
        );
    }
    let inspect = components_command("inspect", path);
    format!("look at it with `{inspect}`; to approve it: {approve}{replaces}")
}

impl From<Refused> for act_core::Failure {
    fn from(refused: Refused) -> Self {
        Self::refused(refused.code(), refused.to_string()).hint(refused.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CAPABILITY-27, security line 41
    #[test]
    fn the_command_is_exact_and_a_path_cannot_add_to_it() {
        let asked = |path: &str| {
            let (name, sha256) = ("license".to_owned(), "ab".to_owned());
            let replaces = Some("scout-a".to_owned());
            Refused::Unapproved { name, sha256, path: path.to_owned(), replaces }.hint()
        };
        assert!(asked("/r/x.wasm").ends_with(
            "act components approve /r/x.wasm --name license --sha256 ab --replaces scout-a"
        ));
        assert!(
            asked("/r/$(rm -rf x);'.wasm").contains("approve '/r/$(rm -rf x);'\\''.wasm' --name")
        );
    }
}
