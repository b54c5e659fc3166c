//! `grants.toml`: what the user granted, and to which bytes. It is the only file that widens what a component may do, and
//! only the user's own commands write it.
//!
//! [`change`] is the one function that changes it. It records a decision in the audit log before it writes the file, and
//! writes nothing if the record fails.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::components_command;
use super::store::ComponentStore;
use super::trusted::{self, FileError};
use crate::{
    Capability, Ceiling, ComponentName, Grant, Http, Inspection, Kind, Limits, Llm, RepoRead,
    Sha256, builtin,
};
use act_audit::{Audit, AuditError, GrantsSeen, NO_BYTES, Subject};
use act_core::Failure;
use act_fs::lock::{self, Kind as LockKind};
use act_fs::trusted::{Owner, open_directory as open_trusted, read_text, user_directory};
use act_fs::{Dir, Durability};
use act_workspace::digest;

const NAME: &str = "grants.toml";
const MAX_BYTES: u64 = 1 << 20;
/// Maximum wait for the lock. A decision is recorded and written in milliseconds, and reading takes less. The bound exists
/// because a stopped process can hold the lock for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The word that marks a component of a development session in the audit log.
const DEV_COMPONENT: &str = "dev_component";
const HEAD: &str = "# What components may do. Written by `act components`; each grant holds for these bytes alone.\n\n";

/// All approvals, in the order in which they were given. No two have the same name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    #[serde(default, rename = "component")]
    pub approvals: Vec<Approval>,
}

/// The path of a file that was read, and the digest of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantsFile {
    pub path: PathBuf,
    pub sha256: String,
}

/// One component that the user approved, and maybe revoked later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    pub name: ComponentName,
    pub sha256: Sha256,
    pub kind: Kind,
    /// Time of the approval, ISO 8601 in UTC.
    pub approved_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// Identity of the only repository for which the approval holds; `None` means all repositories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The built-in component that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ComponentName>,
    /// The bytes that had this name before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Sha256>,
    /// Where the bytes were fetched from; `None` for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    pub grants: Grant,
    /// Limits that the user set for this name. They hold for later versions of the component too.
    #[serde(default, skip_serializing_if = "Ceiling::is_nothing")]
    pub narrowed: Ceiling,
}

/// An artifact in a registry, from which the bytes of an approval were fetched. It grants nothing: the approval holds for the
/// bytes, wherever they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Source {
    /// `oci://HOST/NAME:TAG` or `oci://HOST/NAME@sha256:…`, as the user wrote it.
    pub reference: String,
    /// The digest that the reference had then, `sha256:…`.
    pub digest: String,
    /// SHA-256 of the public key in DER whose signature was found; `None` for no such signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
}

impl Grants {
    /// Reads the grants of the user; without a file there are none. `repo` is the repository in use, in which the file
    /// must not lie.
    ///
    /// # Errors
    ///
    /// A [`FileError`] if the file is not trusted or is malformed.
    pub fn read(repo: Option<&Path>) -> Result<(Self, Option<GrantsFile>), FileError> {
        match open_directory(repo)? {
            Some((dir, path)) => Self::read_in(&dir, &path),
            None => Ok(Default::default()),
        }
    }

    pub(super) fn read_in(dir: &Dir, path: &Path) -> Result<(Self, Option<GrantsFile>), FileError> {
        let untrusted = |why| FileError::Untrusted { path: path.to_owned(), why };
        let text = read_text(dir, NAME, MAX_BYTES, Owner::Caller).map_err(untrusted)?;
        let Some(text) = text else { return Ok(Default::default()) };
        let file = GrantsFile { path: path.to_owned(), sha256: digest(text.as_bytes()) };
        Ok((Self::parse(&text, path)?, Some(file)))
    }

    fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let mut grants: Self = trusted::parse(text, path)?;
        let tables: NarrowedTables = trusted::parse(text, path)?;
        let mut headers = text.match_indices("[[component]]").map(|(at, _)| at);
        for (approval, tables) in grants.approvals.iter_mut().zip(tables.component) {
            let header = headers.next().unwrap_or_default();
            complete_narrowed(&mut approval.narrowed, tables.narrowed).map_err(
                |(field, why)| {
                    let after = |from: usize, word: &str| {
                        text.get(from..).and_then(|rest| Some(from + rest.find(word)?))
                    };
                    let table = after(header, "narrowed").unwrap_or(header);
                    let at = after(table, &field).unwrap_or(table);
                    trusted::malformed(text, path, at, &why)
                },
            )?;
        }
        for (at, approval) in grants.approvals.iter().enumerate() {
            let malformed = |value: &str, why: String| {
                let at = text.rfind(&format!("\"{value}\"")).unwrap_or_default();
                Err(trusted::malformed(text, path, at, &why))
            };
            let name = approval.name.as_str();
            if grants.approvals.iter().take(at).any(|other| other.name == approval.name) {
                return malformed(name, format!("`{name}` occurs twice"));
            }
            if let Some((value, why)) = approval.wrong() {
                return malformed(&value, why);
            }
        }
        Ok(grants)
    }

    /// Takes a shared lock on the directory of the grants, so that no process changes them until the handle is dropped.
    /// Returns the directory and the path of the file, or `None` if there is no directory.
    ///
    /// # Errors
    ///
    /// A [`FileError`] if the directory is not trusted, or another process holds the lock for too long.
    pub(super) fn lock(repo: Option<&Path>) -> Result<Option<(Dir, PathBuf)>, FileError> {
        let Some((dir, path)) = open_directory(repo)? else { return Ok(None) };
        wait_for_lock(&dir, LockKind::Shared)
            .map_err(|why| FileError::Unwritable { path: path.clone(), why })?;
        Ok(Some((dir, path)))
    }

    /// Calls `record` with the audit record of the grants in force and of the bytes that were read.
    pub(super) fn with_record<T>(
        &self,
        file: Option<&GrantsFile>,
        record: impl FnOnce(GrantsSeen<'_>) -> T,
    ) -> T {
        let in_force = self.approvals.iter().filter(|approval| approval.revoked_at.is_none());
        let approvals: Vec<_> = in_force.map(|approval| approval.record(None)).collect();
        let path = file.map(|file| file.path.clone());
        let path = path.or_else(|| Some(user_directory()?.join(NAME))).unwrap_or_default();
        record(GrantsSeen {
            path: &path.display().to_string(),
            sha256: file.map_or(NO_BYTES, |file| &file.sha256),
            approvals: &approvals,
        })
    }

    pub fn get(&self, name: &str) -> Option<&Approval> {
        self.approvals.iter().find(|approval| approval.name.as_str() == name)
    }

    /// Another approval in force that replaces the same built-in component where this one would.
    pub(super) fn rival(&self, approval: &Approval) -> Option<&Approval> {
        let replaces = |one: &Approval| one.revoked_at.is_none() && one.replaces.is_some();
        self.approvals.iter().find(|other| {
            replaces(approval)
                && replaces(other)
                && other.name != approval.name
                && other.replaces == approval.replaces
                && (other.repo == approval.repo || other.repo.is_none() || approval.repo.is_none())
        })
    }

    fn put(&mut self, approval: Approval) {
        match self.approvals.iter_mut().find(|known| known.name == approval.name) {
            Some(known) => *known = approval,
            None => self.approvals.push(approval),
        }
    }
}

impl Approval {
    /// A value that no approval can have, and why.
    pub(super) fn wrong(&self) -> Option<(String, String)> {
        let name = self.name.as_str();
        if is_reserved(name) {
            return Some((name.to_owned(), format!("`{name}` is a reserved name")));
        }
        if let Some(builtin) = &self.replaces {
            let builtin = builtin.as_str();
            if !builtin::ALL.iter().any(|one| one.name == builtin) {
                let why = format!("there is no built-in component `{builtin}` to replace");
                return Some((builtin.to_owned(), why));
            }
            if (builtin == builtin::FILE_TOOLS.name) != (self.kind == Kind::Tool) {
                let why = format!("a {} cannot replace `{builtin}`", self.kind.word());
                return Some((builtin.to_owned(), why));
            }
        }
        let mut withheld = self.grants.withheld.iter().chain(&self.narrowed.withheld);
        if let Some(unknown) = withheld.find(|name| Capability::named(name).is_none()) {
            return Some((unknown.clone(), format!("`{}` is not a grant", unknown.escape_debug())));
        }
        let mut local = self.grants.http.iter().flat_map(|http| http.local.values());
        if let Some(origin) = local.next().filter(|_| self.repo.is_none()) {
            let why = format!(
                "`{origin}` is an address of this machine, which only an approval for one repository (`repo`) may have"
            );
            return Some((origin.to_string(), why));
        }
        let mut times = std::iter::once(&self.approved_at).chain(&self.revoked_at);
        let wrong = times.find(|time| chrono::DateTime::parse_from_rfc3339(time).is_err())?;
        Some((wrong.clone(), "a time is written like 2026-11-21T16:00:00Z".to_owned()))
    }

    /// The audit record of the approval. `world` is that of its bytes, if it is known.
    fn record(&self, world: Option<&str>) -> act_audit::Approval {
        let Self { name, sha256, repo, replaces, before, source, grants, .. } = self;
        let mut words = grants.in_words();
        words.extend(replaces.as_ref().map(|builtin| format!("replaces {builtin}")));
        words.extend(repo.as_ref().map(|repo| format!("repository {repo}")));
        words.extend(
            source
                .as_ref()
                .map(|Source { reference, digest, .. }| format!("from {reference} {digest}")),
        );
        words.extend(
            source
                .as_ref()
                .and_then(|source| source.signed_by.as_ref())
                .map(|key| format!("signed by {key}")),
        );
        act_audit::Approval {
            subject: Subject {
                name: name.to_string(),
                sha256: sha256.to_string(),
                world: world.map(str::to_owned),
            },
            words,
            effective_sha256: grants.sha256(),
            before: before.as_ref().map(ToString::to_string),
        }
    }

    /// The audit record of a component of a development session.
    pub(super) fn dev_record(&self, world: Option<&str>) -> act_audit::Approval {
        let mut record = self.record(world);
        record.words.push(DEV_COMPONENT.to_owned());
        record
    }
}

/// The tables `narrowed` of the file as they are written, which shows the fields that are missing.
#[derive(Deserialize)]
struct NarrowedTables {
    #[serde(default)]
    component: Vec<NarrowedTable>,
}

#[derive(Deserialize)]
struct NarrowedTable {
    #[serde(default)]
    narrowed: toml::Table,
}

/// Completes what was read from a table `narrowed`, which a person may have edited.
///
/// A number above its maximum is refused, and a number that is missing from one of the tables has the value that it has
/// in a grant. Version 0.1.0 read the table so; a [`Ceiling`] alone would not limit the missing number.
///
/// # Errors
///
/// The name of the wrong field, and why it is wrong.
fn complete_narrowed(
    narrowed: &mut Ceiling,
    mut written: toml::Table,
) -> Result<(), (String, String)> {
    written.retain(|_, value| value.is_table());
    let usual = Grant {
        repo_read: Some(RepoRead::default()),
        llm: Some(Llm::default()),
        http: Some(Http::default()),
        ..Grant::default()
    };
    let usual = toml::Table::try_from(usual).unwrap_or_default();
    for (part, fields) in &written {
        for (field, number) in fields.as_table().into_iter().flatten() {
            // A grant reads its numbers with their maxima, so the number takes its place in a grant.
            let mut grant = usual.clone();
            if let Some(toml::Value::Table(fields)) = grant.get_mut(part) {
                fields.insert(field.clone(), number.clone());
            }
            grant.try_into::<Grant>().map_err(|error| {
                (field.clone(), format!("`narrowed.{part}.{field}`: {}", error.message()))
            })?;
        }
    }
    let limits_are_written = written.contains_key("limits");
    let part = written.keys().next().cloned().unwrap_or_default();
    let mut bounds: Grant = written
        .try_into()
        .map_err(|error: toml::de::Error| (part, format!("`narrowed`: {}", error.message())))?;
    if !limits_are_written {
        bounds.limits = Limits::unlimited();
    }
    let withheld = narrowed.withheld.clone();
    *narrowed = std::mem::take(narrowed).with_removed(&bounds, Some(&Grant::everything()));
    narrowed.withheld = withheld;
    Ok(())
}

/// Returns whether a name is taken: by a built-in component, or by a role of the Editor's conversation.
pub fn is_reserved(name: &str) -> bool {
    ["editor", "a", "b"].contains(&name) || builtin::ALL.iter().any(|one| one.name == name)
}

/// Opens the directory of the grants, and returns the path of the file in it. `None` if there is no directory.
fn open_directory(repo: Option<&Path>) -> Result<Option<(Dir, PathBuf)>, FileError> {
    let Some(directory) = user_directory() else { return Ok(None) };
    let path = directory.join(NAME);
    match open_trusted(&directory, repo, Owner::Caller) {
        Ok(dir) => Ok(dir.map(|dir| (dir, path))),
        Err(why) => Err(FileError::Untrusted { path, why }),
    }
}

/// Takes a lock on the directory of the grants.
fn wait_for_lock(dir: &Dir, kind: LockKind) -> Result<(), String> {
    match lock::wait(dir, kind, LONGEST_WAIT) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "another process has held its lock for {} s; end that process and try again",
            LONGEST_WAIT.as_secs()
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// A decision of the user.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Approve {
        name: ComponentName,
        kind: Kind,
        sha256: Sha256,
        bytes: Vec<u8>,
        grant: Grant,
        narrowed: Box<Ceiling>,
        /// The approval of this name that the user was shown, if there was one.
        seen: Option<Box<Approval>>,
        /// Identity of the only repository for which the approval holds.
        repo: Option<String>,
        replaces: Option<ComponentName>,
        source: Option<Source>,
    },
    /// Lowers the grant of the approved bytes.
    Narrow {
        name: ComponentName,
        sha256: Sha256,
        grant: Grant,
    },
    Revoke {
        name: ComponentName,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the store of components cannot be written: {0}")]
    Store(#[from] io::Error),
    #[error("no component `{0}` was approved")]
    Unknown(ComponentName),
    #[error("`{0}` replaces that component already, so `{1}` cannot")]
    Rival(ComponentName, ComponentName),
    #[error("`{0}` was revoked already")]
    AlreadyRevoked(ComponentName),
    #[error("`{0}` was changed by another process meanwhile")]
    Overtaken(ComponentName),
    #[error("`{0}` is approved already, or another `act components watch --dev` has that name")]
    NameInUse(ComponentName),
    #[error("the decision cannot be recorded: {0}")]
    Unrecorded(#[from] AuditError),
}

/// Makes a change. The file is on disk when the function returns. `state` is the directory `state` of ARTIFACT_DIR, and
/// `repo` the repository in use.
///
/// # Errors
///
/// A [`ChangeError`]. The grants are as they were before.
pub fn change(
    change: Change,
    state: &Dir,
    repo: Option<&Path>,
    audit: &Audit,
) -> Result<(), ChangeError> {
    let mut file = LockedGrants::open(repo)?;
    // Edits by hand are recorded first, so that they are not taken for a part of this change.
    let found = file.grants.clone();
    found.with_record(file.file.as_ref(), |seen| audit.grants_seen(&seen))?;
    let how = if matches!(change, Change::Narrow { .. }) { "narrowed" } else { "approved" };
    let now = act_core::clock::now().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let approved = |name: &ComponentName| {
        found.get(name.as_str()).cloned().ok_or_else(|| ChangeError::Unknown(name.clone()))
    };
    let after = match change {
        Change::Approve {
            name,
            kind,
            sha256,
            bytes,
            grant,
            narrowed,
            seen,
            repo,
            replaces,
            source,
        } => {
            let before = found.get(name.as_str()).cloned();
            if before.as_ref() != seen.as_deref() {
                return Err(ChangeError::Overtaken(name));
            }
            // The bytes are stored first, so that no approval exists without them.
            ComponentStore::create(state)?.put(&bytes, &sha256)?;
            let earlier = before.as_ref().map(|before| before.sha256.clone());
            Approval {
                name,
                kind,
                approved_at: now,
                revoked_at: None,
                repo,
                replaces,
                before: earlier.filter(|earlier| *earlier != sha256),
                source,
                sha256,
                grants: grant,
                narrowed: *narrowed,
            }
        }
        Change::Narrow { name, sha256, grant } => {
            let before = approved(&name)?;
            if before.sha256 != sha256 {
                return Err(ChangeError::Overtaken(name));
            }
            // The meet of both grants is never wider than the old one, whatever the caller requests.
            let grants = before.grants.meet(&grant);
            let narrowed = before.narrowed.clone().with_removed(&grants, Some(&before.grants));
            Approval { grants, narrowed, ..before }
        }
        Change::Revoke { name } => {
            let before = approved(&name)?;
            if before.revoked_at.is_some() {
                return Err(ChangeError::AlreadyRevoked(name));
            }
            Approval { revoked_at: Some(now), ..before }
        }
    };
    if let Some(rival) = found.rival(&after) {
        return Err(ChangeError::Rival(rival.name.clone(), after.name));
    }
    file.grants.put(after.clone());
    let text = file.to_text()?;
    let record = after.record(Some(world(&after, state)));
    let text_sha256 = digest(text.as_bytes());
    match after.revoked_at {
        Some(_) => audit.revoked(&record.subject, &text_sha256)?,
        None => audit.approved(&record, how, &text_sha256)?,
    };
    if let Err(error) = file.replace(&text) {
        // The log already holds the decision, so it also records that the decision was not written.
        found.with_record(file.file.as_ref(), |seen| audit.grants_not_written(&seen))?;
        return Err(error.into());
    }
    Ok(())
}

/// The world of the stored bytes, or the usual world of their kind if they cannot be read.
fn world(approval: &Approval, state: &Dir) -> &'static str {
    let bytes =
        ComponentStore::create(state).ok().and_then(|store| store.load(&approval.sha256).ok());
    let inspection = bytes.and_then(|bytes| Inspection::of(bytes).ok());
    inspection.map_or(approval.kind.world(), |inspection| inspection.manifest.world())
}

/// The grants while their file is locked exclusively.
pub(super) struct LockedGrants {
    pub(super) dir: Dir,
    path: PathBuf,
    pub(super) grants: Grants,
    /// The file as it was found.
    file: Option<GrantsFile>,
}

impl LockedGrants {
    /// Creates the directory if necessary, locks it and reads the grants.
    pub(super) fn open(repo: Option<&Path>) -> Result<Self, FileError> {
        let directory = user_directory().ok_or(FileError::NoHome)?;
        let path = directory.join(NAME);
        let unwritable = |why: String| FileError::Unwritable { path: path.clone(), why };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|error| unwritable(error.to_string()))?;
        let (dir, _) =
            open_directory(repo)?.ok_or_else(|| unwritable("its directory is gone".to_owned()))?;
        wait_for_lock(&dir, LockKind::Exclusive).map_err(unwritable)?;
        let (grants, file) = Grants::read_in(&dir, &path)?;
        Ok(Self { dir, path, grants, file })
    }

    fn unwritable(&self, why: String) -> FileError {
        FileError::Unwritable { path: self.path.clone(), why }
    }

    /// The new text of the file.
    fn to_text(&self) -> Result<String, FileError> {
        let text =
            toml::to_string(&self.grants).map_err(|error| self.unwritable(error.to_string()))?;
        let text = format!("{HEAD}{text}");
        if text.len() as u64 > MAX_BYTES {
            // A file of this size would be refused when it is read.
            return Err(self.unwritable(format!(
                "it would be larger than {MAX_BYTES} bytes; revoke and remove what is not used"
            )));
        }
        Ok(text)
    }

    /// Replaces the file atomically. It is on disk when the function returns.
    fn replace(&self, text: &str) -> Result<(), FileError> {
        let written = self.dir.replace(NAME, text.as_bytes(), Durability::ContentsAndName);
        written.map_err(|error| self.unwritable(error.to_string()))
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        let message = error.to_string();
        match error {
            ChangeError::File(error) => error.into(),
            ChangeError::Unrecorded(error) => error.into(),
            ChangeError::Store(_) => Self::refused("store_unusable", message)
                .hint("make the artifact directory one that you can write"),
            ChangeError::Unknown(name) => {
                Self::refused("component_unknown", format!("there is no component `{name}` here"))
                    .hint("`act components` lists all components")
            }
            ChangeError::Rival(rival, _) => {
                let revoke = components_command("revoke", rival.as_str());
                Self::refused("component_conflict", message)
                    .hint(format!("revoke the other one first: `{revoke}`"))
            }
            ChangeError::NameInUse(_) => Self::refused("component_conflict", message)
                .hint("choose another --name, end that command, or revoke the approval"),
            ChangeError::AlreadyRevoked(_) => {
                Self::refused("nothing_to_revoke", message).hint("nothing of it is loaded any more")
            }
            ChangeError::Overtaken(_) => Self::refused("component_changed", message)
                .hint("look again with `act components show NAME`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    fn parse(text: &str) -> Result<Grants, String> {
        Grants::parse(text, Path::new("grants.toml")).map_err(|error| error.to_string())
    }

    fn entry(name: &str, rest: &str) -> String {
        format!(
            "[[component]]\nname = \"{name}\"\nsha256 = \"{DIGEST}\"\nkind = \"scout\"\n\
             approved_at = \"2026-11-21T10:00:00Z\"\n{rest}\n"
        )
    }

    // CAPABILITY-24
    #[test]
    fn what_is_written_is_read_again() {
        let text = entry("license", "[component.grants.llm]\ncalls = 3\ntokens = 400");
        let grants = parse(&text).unwrap();
        assert_eq!(grants.get("license").unwrap().grants.llm.as_ref().unwrap().calls, 3);
        let mut full = grants.clone();
        let approval = Approval {
            name: "hands".parse().unwrap(),
            kind: Kind::Tool,
            repo: Some("1-2".into()),
            replaces: Some("file-tools".parse().unwrap()),
            source: Some(Source {
                reference: "oci://a.example/x:1".into(),
                digest: "sha256:ab".into(),
                signed_by: Some("cd".into()),
            }),
            grants: Grant {
                env: ["FOO".parse().unwrap()].into_iter().collect(),
                ..Grant::builtin_tool()
            },
            ..grants.approvals[0].clone()
        };
        full.put(approval);
        assert_eq!(parse(&toml::to_string(&full).unwrap()).unwrap(), full);
    }

    // CAPABILITY-24
    #[test]
    fn what_is_not_understood_is_refused_with_its_place() {
        for (text, says) in [
            (
                entry("x", "[component.grants]\nroot = true"),
                "grants.toml:7:1: unknown field `root`",
            ),
            (
                entry("x", "colour = 1\n[component.grants]"),
                "grants.toml:6:1: unknown field `colour`",
            ),
            (entry("A!", "[component.grants]"), "grants.toml:2:"),
            (entry("x", "[component.grants]\nenv = [\"OPENAI_API_KEY\"]"), "never granted"),
            (entry("x", "[component.grants]\nenv = \"any\""), "grants.toml:7:"),
            (entry("x", "[component.grants.llm]\ncalls = -1\ntokens = 1"), "grants.toml:7:"),
            (entry("licences", ""), "missing field `grants`"),
            (
                entry("scout-a", "[component.grants]"),
                "grants.toml:2:8: `scout-a` is a reserved name",
            ),
            (entry("editor", "[component.grants]"), "is a reserved name"),
            (entry("x", "replaces = \"nobody\"\n[component.grants]"), "grants.toml:6:12: there is"),
            (entry("x", "replaces = \"file-tools\"\n[component.grants]"), "a scout cannot replace"),
            (
                entry(
                    "x",
                    "[component.grants.http]\norigins = []\nmethods = []\nrequest_bytes = 1\n\
                     response_bytes = 1\nlocal = [\"http://127.0.0.1:1\"]",
                ),
                "only an approval for one repository",
            ),
            (
                entry(
                    "x",
                    "[component.grants.http]\norigins = []\nmethods = []\nrequest_bytes = 1\n\
                     response_bytes = 1\nlocal = [\"http://localhost:1\"]",
                ),
                "is not the origin of a loopback address",
            ),
            (entry("x", "revoked_at = \"now\"\n[component.grants]"), "grants.toml:6:14: a time is"),
            ("x = ".to_owned(), "grants.toml:1:"),
            (format!("{0}{0}", entry("x", "[component.grants]")), "occurs twice"),
        ] {
            let refused = parse(&text).unwrap_err();
            assert!(refused.contains(says), "{refused}\n{text}");
        }
    }

    /// Returns the grant that an approval with this table `narrowed` gives to a component that needs everything.
    fn narrowed(table: &str) -> Result<Grant, String> {
        let grants = parse(&entry("x", &format!("[component.grants]\n{table}")))?;
        Ok(grants.get("x").unwrap().narrowed.limit_usual(Grant::everything(), &[]))
    }

    // CAPABILITY-46
    #[test]
    fn a_number_of_narrowed_above_its_maximum_is_refused_by_its_name() {
        for (table, at, says) in [
            (
                "limits]\nhandles = 3\nmemory_bytes = 4294967297",
                "9:1",
                "`narrowed.limits.memory_bytes`: 4294967297 is above the maximum; write at most 4294967296",
            ),
            (
                "limits]\nwall_ms = 3600001",
                "8:1",
                "`narrowed.limits.wall_ms`: 3600001 is above the maximum; write at most 3600000",
            ),
            ("llm]\ncalls = 10001\ntokens = 1", "8:1", "`narrowed.llm.calls`: 10001 is above"),
            (
                "\"repo.read\"]\nfile_bytes = 9007199254740992",
                "8:1",
                "`narrowed.repo.read.file_bytes`: 9007199254740992 is above",
            ),
        ] {
            let refused = narrowed(&format!("[component.narrowed.{table}")).unwrap_err();
            assert!(refused.starts_with(&format!("grants.toml:{at}: {says}")), "{refused}");
        }
        assert!(narrowed("[component.narrowed.limits]\nmemory_bytes = 4294967296").is_ok());
    }

    // CAPABILITY-46
    #[test]
    fn every_number_of_narrowed_is_checked_by_its_name() {
        let everything = serde_json::to_value(Grant::everything()).unwrap();
        let mut numbers = 0;
        for (part, fields) in everything.as_object().unwrap() {
            for (field, _) in
                fields.as_object().into_iter().flatten().filter(|(_, value)| value.is_number())
            {
                // One of them is above the maximum and fits into the type of the field.
                let is_refused = [u64::from(u32::MAX), 9_007_199_254_740_992].map(|number| {
                    let table = format!("[component.narrowed.\"{part}\"]\n{field} = {number}");
                    let says = format!("`narrowed.{part}.{field}`: {number} is above");
                    narrowed(&table).is_err_and(|refused| refused.contains(&says))
                });
                assert!(is_refused.contains(&true), "{part}.{field}");
                numbers += 1;
            }
        }
        assert_eq!(numbers, 18, "{everything:#}");
    }

    // CAPABILITY-44
    #[test]
    fn a_number_that_is_missing_from_a_table_of_narrowed_has_the_value_of_a_grant() {
        let some = narrowed("[component.narrowed.limits]\nhandles = 3").unwrap();
        assert_eq!(some.limits, Limits { handles: 3, ..Limits::default() });
        let none = narrowed("[component.narrowed.limits]").unwrap();
        assert_eq!(none.limits, Limits::default());
        let read = narrowed("[component.narrowed.\"repo.read\"]\npaths = [\"src\"]").unwrap();
        assert_eq!(read.limits, Limits::unlimited(), "the table `limits` is absent");
        let read = read.repo_read.unwrap();
        assert_eq!((read.file_bytes, read.query_bytes), (16 << 20, 512 << 20));
        assert!(read.covers("src/a") && !read.covers("docs"));
        let refused = narrowed("[component.narrowed.llm]\ncalls = 3").unwrap_err();
        assert!(refused.contains("missing field `tokens`"), "{refused}");
        let http = "[component.narrowed.http]\norigins = [\"https://a.example\"]\nmethods = [\"GET\"]\n\
                    request_bytes = 1\nresponse_bytes = 2";
        let http = narrowed(http).unwrap().http.unwrap();
        assert_eq!((http.requests, http.at_once, http.query_bytes), (100, 8, 64 << 20));
        // A value that grants nothing is a limit too, and what is not named is not limited.
        let few = narrowed("[component.narrowed]\nenv = []\nclock = \"constant\"").unwrap();
        assert!(few.env.is_empty() && !few.has(Capability::Clock));
        assert_eq!(narrowed("").unwrap(), Grant::everything());
    }
}
