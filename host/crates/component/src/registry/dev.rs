//! Sessions of `act components watch --dev`: components that may take part in tasks of one repository while that command
//! runs, although their bytes change with every build.
//!
//! A session is a directory with a random name below `dev`, beside `grants.toml`, and the command holds a lock on it. The
//! system releases the lock however the command ends, so a session that outlived its command grants nothing. No name is
//! used twice, so what a dead session left behind cannot be taken for a part of a live one.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::AtFlags;

use super::Repo;
use super::grants::{Approval, ChangeError, LockedGrants};
use super::store::{ComponentStore, StoreError, file_name};
use super::trusted::{self, FileError};
use crate::{Ceiling, ComponentName, Grant, Inspection, Kind, Sha256};
use act_audit::Audit;
use act_fs::lock::{self, Kind as LockKind};
use act_fs::trusted::{Owner, open_directory, read_text, user_directory};
use act_fs::{Dir, Durability};

const DIRECTORY: &str = "dev";
const FILE: &str = "session.toml";
const MAX_FILE: u64 = 1 << 20;
/// Maximum number of sessions that are looked at. A developer has a few, and each dead one is removed at the next start.
const MAX_SESSIONS: usize = 64;
/// Maximum number of files of a session: its text, the bytes of the last two builds, and what a killed command left.
const MAX_FILES: usize = 64;
/// A session is read again when a build replaced its bytes meanwhile. Builds are seconds apart.
const ATTEMPTS: usize = 3;
/// Maximum wait for the lock of a new session, which a reader holds for microseconds.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The component of a live session.
#[derive(Debug)]
pub struct DevComponent {
    pub approval: Approval,
    pub(super) bytes: Result<Bytes, StoreError>,
}

impl DevComponent {
    /// Returns the bytes of the last build, which were compared with their digest.
    ///
    /// # Errors
    ///
    /// Why they cannot be loaded.
    pub fn bytes(&self) -> Result<Bytes, StoreError> {
        self.bytes.clone()
    }
}

/// Returns the components of the live sessions for this repository.
///
/// # Errors
///
/// A [`FileError`] if the directory or the file of a live session is not trusted or is malformed.
pub(super) fn live(repo: Option<&Repo>) -> Result<Vec<DevComponent>, FileError> {
    let Some(repo) = repo else { return Ok(vec![]) };
    let Some(path) = user_directory().map(|user| user.join(DIRECTORY)) else { return Ok(vec![]) };
    let untrusted = |why| FileError::Untrusted { path: path.clone(), why };
    let dir = open_directory(&path, Some(&repo.root), Owner::Caller).map_err(untrusted)?;
    let Some(dir) = dir else { return Ok(vec![]) };
    let mut found = vec![];
    for id in names(&dir, &path)? {
        let Some((approval, bytes)) = read(&dir, &id, &path)? else { continue };
        if approval.repo.as_ref() == Some(&repo.identity) {
            found.push(DevComponent { approval, bytes });
        }
    }
    found.sort_by(|one, other| one.approval.name.cmp(&other.approval.name));
    Ok(found)
}

fn names(dir: &Dir, path: &Path) -> Result<Vec<String>, FileError> {
    let names = dir.names(MAX_SESSIONS).map_err(|error| FileError::Untrusted {
        path: path.to_owned(),
        why: format!("cannot be listed: {error}"),
    })?;
    let names = names.iter().filter_map(|name| name.to_str().ok());
    Ok(names.filter(|name| is_id(name)).map(str::to_owned).collect())
}

fn is_id(name: &str) -> bool {
    name.len() == 16
        && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The last build of a session: what is granted to it, and its bytes.
type LastBuild = (Approval, Result<Bytes, StoreError>);

/// Returns the last build of a live session; `None` for a session that has ended.
fn read(dir: &Dir, id: &str, path: &Path) -> Result<Option<LastBuild>, FileError> {
    let path = path.join(id).join(FILE);
    // A link is no session: only a directory that act made has a lock.
    let Ok(session) = dir.subdirectory(id) else { return Ok(None) };
    for _ in 0..ATTEMPTS {
        if !is_live(&session) {
            return Ok(None);
        }
        let Some(approval) = read_approval(&session, &path)? else { return Ok(None) };
        let store = ComponentStore::in_directory(session.reopen().map_err(|error| {
            FileError::Untrusted { path: path.clone(), why: format!("cannot be opened: {error}") }
        })?);
        match store.load(&approval.sha256) {
            Err(StoreError::Missing) => {}
            loaded => return Ok(Some((approval, loaded.map(Bytes::from)))),
        }
    }
    Ok(None)
}

/// Returns whether the command of a session runs: only its lock is exclusive.
fn is_live(session: &Dir) -> bool {
    // Another handle, so that the lock is released as soon as it was taken.
    let other = session.reopen();
    other.is_ok_and(|other| lock::try_lock(&other, LockKind::Shared).is_ok_and(|taken| !taken))
}

fn read_approval(session: &Dir, path: &Path) -> Result<Option<Approval>, FileError> {
    let untrusted = |why| FileError::Untrusted { path: path.to_owned(), why };
    let Some(text) = read_text(session, FILE, MAX_FILE, Owner::Caller).map_err(untrusted)? else {
        return Ok(None);
    };
    let approval: Approval = trusted::parse(&text, path)?;
    let wrong = match &approval.repo {
        None => Some("a session is for one repository (`repo`)".to_owned()),
        Some(_) => approval.wrong().map(|(_, why)| why),
    };
    match wrong {
        Some(why) => Err(trusted::malformed(&text, path, 0, &why)),
        None => Ok(Some(approval)),
    }
}

/// What the user approved at the start of a session. No later build gets more.
#[derive(Debug, Clone, PartialEq)]
pub struct DevTerms {
    pub kind: Kind,
    /// The name in the manifest of the first build.
    pub manifest_name: String,
    pub imports: Vec<String>,
    pub grant: Grant,
}

impl DevTerms {
    /// Returns in words what a build asks for beyond these terms; nothing if it stays within them. `asked` is what an approval
    /// would grant to it.
    pub fn exceeded_by(&self, build: &Inspection, asked: &Grant) -> Vec<String> {
        let mut more = vec![];
        let manifest = &build.manifest;
        if manifest.kind != self.kind {
            more.push(format!("it is a {}, not a {}", manifest.kind.word(), self.kind.word()));
        }
        if manifest.name != self.manifest_name {
            // A name may hold anything, and is shown as the text of a stranger elsewhere.
            let name = manifest.name.escape_debug();
            more.push(format!("its manifest has the name `{name}`, not `{}`", self.manifest_name));
        }
        let new = build.imports.iter().filter(|import| !self.imports.contains(import));
        more.extend(new.map(|import| format!("it imports {}", import.escape_debug())));
        let within = asked.meet(&self.grant);
        let (asked, within) = (asked.in_words(), within.in_words());
        more.extend(
            asked
                .into_iter()
                .filter(|word| !within.contains(word))
                .map(|word| format!("it needs {word}")),
        );
        more
    }
}

/// What a session is begun with.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    pub name: ComponentName,
    pub grant: Grant,
    pub repo: Repo,
    pub replaces: Option<ComponentName>,
}

/// The session of this process. Its component may be loaded until [`DevSession::end`], or until the process ends.
#[derive(Debug)]
pub struct DevSession {
    /// The directory `dev`.
    parent: Dir,
    id: String,
    /// The directory of the session, whose handle holds the lock.
    dir: Dir,
    store: ComponentStore,
    path: PathBuf,
    approval: Approval,
}

impl DevSession {
    /// Begins a session with the bytes of its first build, after the user has agreed. What dead sessions left is removed.
    ///
    /// # Errors
    ///
    /// The name is approved or in another session, another component replaces the same built-in one, or the decision cannot be
    /// recorded or written.
    pub fn begin(new: NewSession, first: &Inspection, audit: &Audit) -> Result<Self, ChangeError> {
        let locked = LockedGrants::open(Some(&new.repo.root))?;
        let approval = Approval {
            name: new.name,
            sha256: Sha256::of(&first.bytes),
            kind: first.kind(),
            approved_at: act_core::clock::now().format("%Y-%m-%dT%H:%M:%SZ").to_string(),
            revoked_at: None,
            repo: Some(new.repo.identity.clone()),
            replaces: new.replaces,
            before: None,
            source: None,
            grants: new.grant,
            narrowed: Ceiling::default(),
        };
        let name = approval.name.as_str();
        if locked.grants.get(name).is_some_and(|other| other.revoked_at.is_none()) {
            return Err(ChangeError::NameInUse(approval.name));
        }
        if let Some(rival) = locked.grants.rival(&approval) {
            return Err(ChangeError::Rival(rival.name.clone(), approval.name));
        }
        let path = user_directory().ok_or(FileError::NoHome)?.join(DIRECTORY);
        let unwritable = |why: String| FileError::Unwritable { path: path.clone(), why };
        let parent = locked.dir.private_subdirectory(DIRECTORY);
        let parent = parent.map_err(|error| unwritable(error.to_string()))?;
        act_fs::check_private(&parent).map_err(|error| unwritable(error.to_string()))?;
        for id in names(&parent, &path)? {
            match read(&parent, &id, &path)? {
                Some((other, _)) if other.name == approval.name => {
                    return Err(ChangeError::NameInUse(approval.name));
                }
                Some((other, _))
                    if other.replaces.is_some()
                        && other.replaces == approval.replaces
                        && other.repo == approval.repo =>
                {
                    return Err(ChangeError::Rival(other.name, approval.name));
                }
                Some(_) => {}
                None => sweep(&parent, &id, &path, audit),
            }
        }
        let id = format!("{:016x}", rand::random::<u64>());
        let create = || -> std::io::Result<Dir> {
            let dir = parent.create_subdirectory(&id)?;
            match lock::wait(&dir, LockKind::Exclusive, LONGEST_WAIT)? {
                true => Ok(dir),
                false => Err(std::io::ErrorKind::WouldBlock.into()),
            }
        };
        let dir = create().map_err(|error| unwritable(error.to_string()))?;
        let store = dir.reopen().map_err(|error| unwritable(error.to_string()))?;
        let store = ComponentStore::in_directory(store);
        let session = Self { parent, path: path.join(&id), id, dir, store, approval };
        session.write(first, audit)?;
        Ok(session)
    }

    /// Puts the bytes of another build in the place of those before. The caller has checked that it stays within the terms, or
    /// gives the wider `grant` to which the user has agreed.
    ///
    /// # Errors
    ///
    /// The decision cannot be recorded, or the bytes cannot be written.
    pub fn rebuilt(
        &mut self,
        build: &Inspection,
        grant: Option<Grant>,
        audit: &Audit,
    ) -> Result<(), ChangeError> {
        let sha256 = Sha256::of(&build.bytes);
        if grant.is_none() && sha256 == self.approval.sha256 {
            return Ok(());
        }
        if let Some(grant) = grant {
            (self.approval.grants, self.approval.kind) = (grant, build.kind());
        }
        let before = std::mem::replace(&mut self.approval.sha256, sha256);
        let older = self.approval.before.replace(before);
        self.write(build, audit)?;
        // A process that has read the session just now still loads the bytes before.
        let in_use = |old: &Sha256| {
            [Some(&self.approval.sha256), self.approval.before.as_ref()].contains(&Some(old))
        };
        if let Some(older) = older.filter(|older| !in_use(older)) {
            let _ = self.dir.remove_file(file_name(&older));
        }
        Ok(())
    }

    /// The digest that is in force.
    pub fn sha256(&self) -> &str {
        self.approval.sha256.as_str()
    }

    fn write(&self, build: &Inspection, audit: &Audit) -> Result<(), ChangeError> {
        let unwritable = |why: String| FileError::Unwritable { path: self.path.join(FILE), why };
        self.store.put(&build.bytes, &self.approval.sha256)?;
        let text =
            toml::to_string(&self.approval).map_err(|error| unwritable(error.to_string()))?;
        audit.dev_approved(&self.approval.dev_record(Some(build.manifest.world())))?;
        let written = self.dir.replace(FILE, text.as_bytes(), Durability::ContentsAndName);
        written.map_err(|error| unwritable(error.to_string()))?;
        Ok(())
    }

    /// Ends the session. Its component is not loaded any more.
    ///
    /// # Errors
    ///
    /// The end cannot be recorded; the session has ended all the same.
    pub fn end(self, audit: &Audit) -> Result<(), ChangeError> {
        let subject = self.approval.dev_record(None).subject;
        drop(self);
        audit.dev_ended(&subject)?;
        Ok(())
    }
}

impl Drop for DevSession {
    fn drop(&mut self) {
        remove(&self.parent, &self.id, &self.dir);
    }
}

/// Records the end of a session whose command was killed, and removes its files.
fn sweep(parent: &Dir, id: &str, path: &Path, audit: &Audit) {
    let Ok(dir) = parent.subdirectory(id) else { return };
    // Its command may be about to lock it.
    if !lock::try_lock(&dir, LockKind::Exclusive).unwrap_or(false) {
        return;
    }
    if let Ok(Some(approval)) = read_approval(&dir, &path.join(id).join(FILE)) {
        let _ = audit.dev_ended(&approval.dev_record(None).subject);
    }
    remove(parent, id, &dir);
}

fn remove(parent: &Dir, id: &str, dir: &Dir) {
    let _ = dir.remove_file(FILE);
    let names = dir.names(MAX_FILES).unwrap_or_default();
    names.iter().map(|name| name.as_c_str()).for_each(|name: &CStr| {
        let _ = dir.remove_file(name);
    });
    let _ = rustix::fs::unlinkat(parent, id, AtFlags::REMOVEDIR);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(imports: &[&str], grant: Grant) -> DevTerms {
        let imports = imports.iter().map(|import| (*import).to_owned()).collect();
        DevTerms { kind: Kind::Scout, manifest_name: "x".into(), imports, grant }
    }

    fn build(imports: &[&str]) -> Inspection {
        let imports: Vec<_> = imports.iter().map(|import| (*import).to_owned()).collect();
        let mut build = Inspection::imagined(&imports, &[]);
        (build.manifest.kind, build.manifest.name) = (Kind::Scout, "x".into());
        build
    }

    // CAPABILITY-58, security line 740
    #[test]
    fn a_build_that_asks_for_more_than_the_terms_is_named_for_what_it_asks() {
        let read = Grant { repo_read: Grant::builtin_scout().repo_read, ..Grant::default() };
        let terms = terms(&["a:b/c", "a:b/d"], read.clone());
        assert_eq!(terms.exceeded_by(&build(&["a:b/c"]), &read), [""; 0]);
        assert_eq!(terms.exceeded_by(&build(&[]), &Grant::default()), [""; 0], "less is within");
        let more = terms.exceeded_by(&build(&["a:b/c", "a:b/new"]), &read);
        assert_eq!(more, ["it imports a:b/new"]);
        let mut wide = read.clone();
        wide.llm = Grant::builtin_scout().llm;
        assert_eq!(terms.exceeded_by(&build(&[]), &wide).len(), 1);
        assert!(terms.exceeded_by(&build(&[]), &wide)[0].starts_with("it needs llm "));
        let mut slow = read.clone();
        slow.limits.wall += Duration::from_secs(1);
        assert!(terms.exceeded_by(&build(&[]), &slow)[0].starts_with("it needs limits "));
    }

    // CAPABILITY-58, security line 741
    #[test]
    fn a_build_that_becomes_something_else_is_named_for_it() {
        let terms = terms(&[], Grant::default());
        let mut other = build(&[]);
        other.manifest.name = "scout-a".into();
        let more = terms.exceeded_by(&other, &Grant::default());
        assert_eq!(more, ["its manifest has the name `scout-a`, not `x`"]);
        let mut other = build(&[]);
        other.manifest.kind = Kind::Tool;
        assert_eq!(terms.exceeded_by(&other, &Grant::default()), ["it is a tool, not a scout"]);
    }
}
