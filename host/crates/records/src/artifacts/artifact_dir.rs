//! ARTIFACT_DIR itself: its location, its top level, and the small files that belong to no run: the proposals of dry runs in
//! `state/proposals/`, and the `/etc/passwd` of each image beside its caches.

use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use act_core::RunId;
use act_fs::lock::{self, Kind};
use act_fs::owner::{Closed, Holder, close_to_others};
use act_fs::{Dir, Durability, Identity};
use rustix::fs::{Access, AtFlags, FileType, Mode, chmodat, fchmod, fstat, unlinkat};

use super::cache::image_name;
use super::run_dir::RunDir;
use super::tree::remove_tree;

/// Maximum wait for a remover that tests whether a run is live. A test takes microseconds, so a remover that holds the lock
/// longer has stopped.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// An ARTIFACT_DIR that exists, is writable and is outside the repository.
#[derive(Debug)]
pub struct ArtifactDir {
    path: PathBuf,
    top: Dir,
    runs: Dir,
    pub(super) cache: Dir,
    /// The locked directories of live runs. A task needs its runs until it has ended.
    live: Mutex<Vec<Dir>>,
    /// What other users could write until the directory was opened.
    tightened: Vec<String>,
}

/// Why a path cannot be ARTIFACT_DIR.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactDirError {
    #[error("no home directory for artifacts")]
    NoHome,
    #[error("artifact directory {path} is {what}")]
    Refused { path: PathBuf, what: &'static str },
    #[error("artifact directory {path} cannot be used")]
    Unusable { path: PathBuf, source: io::Error },
    /// Another user could replace what `act` writes there, and plant what it believes.
    #[error(
        "{path} can be written by others: it has the owner {} and the mode {:04o}, and act believes what lies there",
        holder.uid,
        holder.mode
    )]
    Foreign { path: PathBuf, holder: Holder },
}

impl ArtifactDirError {
    /// Returns what the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoHome => "set AGENT_ARTIFACT_DIR to an absolute path",
            Self::Refused { .. } => "set AGENT_ARTIFACT_DIR to another absolute path",
            Self::Unusable { .. } => "make it writable, or set AGENT_ARTIFACT_DIR to another path",
            Self::Foreign { .. } => {
                "set AGENT_ARTIFACT_DIR to a directory of your own; or, if you trust everything in this one, make it yours \
                 with `sudo chown -R $(id -u)` and `chmod -R go-w`"
            }
        }
    }
}

impl ArtifactDir {
    /// Returns the configured path, else `.agent-artifacts` in the home directory. An empty value counts as none.
    ///
    /// # Errors
    /// Neither is set.
    pub fn locate(
        configured: Option<OsString>,
        home: Option<OsString>,
    ) -> Result<PathBuf, ArtifactDirError> {
        match configured.filter(|value| !value.is_empty()) {
            Some(value) => Ok(value.into()),
            None => home
                .filter(|value| !value.is_empty())
                .map(|home| Path::new(&home).join(".agent-artifacts"))
                .ok_or(ArtifactDirError::NoHome),
        }
    }

    /// Opens ARTIFACT_DIR. Refuses an unsuitable path before anything is created, then creates missing directories with mode
    /// 0700. An existing directory loses the permission of other users to write; everything that is created in it is private
    /// to its owner.
    ///
    /// # Errors
    /// The path is relative, the root of the file system, inside the repository or not a writable directory, or another user
    /// can write what `act` would believe there.
    pub fn open(path: &Path, repo: &Path) -> Result<Self, ArtifactDirError> {
        Self::open_for(path, Some(repo))
    }

    /// Opens ARTIFACT_DIR like [`ArtifactDir::open`], for a command that works without a repository as well.
    ///
    /// # Errors
    /// The errors of [`ArtifactDir::open`].
    pub fn open_for(path: &Path, repo: Option<&Path>) -> Result<Self, ArtifactDirError> {
        let unusable = |source| ArtifactDirError::Unusable { path: path.to_owned(), source };
        let (existing, missing) = Self::check_path(path, repo)?;
        // Joining an empty path would add a slash at the end.
        let path = if missing.as_os_str().is_empty() { existing } else { existing.join(missing) };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(unusable)?;
        let top = Dir::open(&path).map_err(unusable)?;
        let mut tightened = vec![];
        let mut trust = Trust { path: &path, tightened: Some(&mut tightened) };
        trust.place(&top)?;
        let runs = top.private_subdirectory("runs").map_err(unusable)?;
        trust.directory(&runs, "runs")?;
        spread_over_block_groups(&runs);
        let cache = top.private_subdirectory("cache").map_err(unusable)?;
        trust.directory(&cache, "cache")?;
        trust.entries(&cache, "cache")?;
        // What lies in place of `state` is reported when it is opened.
        for name in ["state", "tasks"] {
            if let Ok(Some(found)) = top.existing_subdirectory(name) {
                trust.directory(&found, name)?;
                trust.entries(&found, name)?;
            }
        }
        probe(&runs).map_err(unusable)?;
        Ok(Self { path, top, runs, cache, live: Mutex::default(), tightened })
    }

    /// Judges the path like [`ArtifactDir::open_for`] without creating anything, and opens `state/` if it exists.
    ///
    /// # Errors
    /// The errors of [`ArtifactDir::open`].
    pub fn inspect(path: &Path, repo: Option<&Path>) -> Result<Option<Dir>, ArtifactDirError> {
        let unusable =
            |source: io::Error| ArtifactDirError::Unusable { path: path.to_owned(), source };
        let (existing, missing) = Self::check_path(path, repo)?;
        rustix::fs::access(&existing, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| unusable(error.into()))?;
        if !missing.as_os_str().is_empty() {
            return Ok(None);
        }
        let top = Dir::open(&existing).map_err(unusable)?;
        let mut trust = Trust { path: &existing, tightened: None };
        trust.place(&top)?;
        for name in ["runs", "cache"] {
            if let Some(found) = top.existing_subdirectory(name).map_err(unusable)? {
                trust.directory(&found, name)?;
            }
        }
        let state = top.existing_subdirectory("state").map_err(unusable)?;
        if let Some(state) = &state {
            trust.directory(state, "state")?;
            trust.entries(state, "state")?;
        }
        Ok(state)
    }

    /// Judges a path, and returns the part of it that exists and the part that is missing.
    fn check_path(
        path: &Path,
        repo: Option<&Path>,
    ) -> Result<(PathBuf, PathBuf), ArtifactDirError> {
        let refused = |what| ArtifactDirError::Refused { path: path.to_owned(), what };
        let unusable = |source| ArtifactDirError::Unusable { path: path.to_owned(), source };
        if !path.is_absolute() {
            return Err(refused("not an absolute path"));
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(refused("written with '..'"));
        }
        let (existing, missing) = existing_part(path).map_err(unusable)?;
        if !existing.is_dir() {
            return Err(refused("not a directory, or lies below a file"));
        }
        if existing.parent().is_none() && missing.as_os_str().is_empty() {
            return Err(refused("the root of the file system"));
        }
        if let Some(repo) = repo
            && lies_in(&existing, repo).map_err(unusable)?
        {
            return Err(refused("the repository or inside it"));
        }
        Ok((existing, missing))
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a sentence for each directory and file that other users could write until it was opened now.
    pub fn tightened(&self) -> &[String] {
        &self.tightened
    }

    /// Returns whether the paths that an engine mounts still lead to the directories that were opened and checked.
    ///
    /// # Errors
    /// A path leads nowhere, or cannot be opened.
    pub fn is_in_place(&self, run: &RunDir) -> io::Result<bool> {
        let leads_to = |path: &Path, handle: &Dir| -> io::Result<bool> {
            Ok(Dir::open(path)?.identity()? == handle.identity()?)
        };
        Ok(leads_to(&self.path, &self.top)?
            && leads_to(&self.path.join("cache"), &self.cache)?
            && leads_to(run.path(), run.handle())?)
    }

    /// Creates a run directory under a new id. The run is live until [`ArtifactDir::release_runs`], or as long as the
    /// process.
    ///
    /// # Errors
    /// The directory cannot be created, or another process holds the lock on it for too long.
    pub fn create_run(&self, at: chrono::DateTime<chrono::Utc>) -> io::Result<RunDir> {
        // There are 36^6 names for each second: a second try is rare, and a twentieth means that something else is wrong.
        for _ in 0..20 {
            let id = RunId::generate(at);
            match rustix::fs::mkdirat(&self.runs, id.as_str(), Mode::RWXU) {
                Ok(()) => {
                    let Some(handle) = self.hold(&id)? else { continue };
                    let path = self.path.join("runs").join(id.as_str());
                    return RunDir::new(id, path, handle);
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("no free run id"))
    }

    /// Makes a new run live. Returns `None` when a remover took it for an old run and was faster.
    fn hold(&self, id: &RunId) -> io::Result<Option<Dir>> {
        let Some(handle) = self.runs.existing_subdirectory(id.as_str())? else { return Ok(None) };
        // A remover may hold the lock for a moment to test whether the run is live.
        if !lock::wait(&handle, Kind::Exclusive, LONGEST_WAIT)? {
            let why = format!("another process holds the lock on the new run {id}");
            return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
        }
        if !Holder::of_stat(&fstat(&handle)?).is_caller_or_root() {
            let why = format!("the new run {id} belongs to another user");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let held = handle.identity()?;
        match self.runs.stat(id.as_str()) {
            Ok(named) if Identity::of_stat(&named) == held => {}
            _ => return Ok(None),
        }
        let live = handle.try_clone()?;
        self.live.lock().unwrap_or_else(PoisonError::into_inner).push(live);
        Ok(Some(handle))
    }

    /// Removes the directory of a run that is no verification, with everything in it. Call it only after the container was
    /// removed.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn discard_run(&self, run: &RunDir) -> io::Result<()> {
        let held = run.identity()?;
        remove_tree(&self.runs, run.id().as_str())?;
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|other| other.identity().is_ok_and(|other| other != held));
        Ok(())
    }

    /// Ends the task's claim on its runs, so that they may be pruned unless something else holds them.
    pub fn release_runs(&self) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Opens `state/`, which outlives runs, and creates it when it is missing. An existing one is closed to other users.
    ///
    /// # Errors
    /// It cannot be created or opened; a link in its place is refused.
    pub fn state(&self) -> io::Result<Dir> {
        let state = self.top.private_subdirectory("state")?;
        let mode = Mode::from_raw_mode(fstat(&state)?.st_mode);
        if mode.intersects(Mode::RWXG | Mode::RWXO) {
            fchmod(&state, Mode::RWXU)?;
        }
        Ok(state)
    }

    /// Opens the directory whose lock a verification of a repository holds from its beginning to its end. The name is that of
    /// the repository's identity.
    ///
    /// # Errors
    /// It cannot be created or opened; a link in its place is refused.
    pub fn verifying(&self, repo: &str) -> io::Result<Dir> {
        let name = act_workspace::digest(repo.as_bytes());
        self.state()?.private_subdirectory("verifying")?.private_subdirectory(name.as_str())
    }

    /// Opens the directory of the worktrees in which tasks work.
    ///
    /// # Errors
    /// It cannot be created or opened; a link in its place is refused.
    pub fn worktrees(&self) -> io::Result<Dir> {
        self.state()?.private_subdirectory("worktrees")
    }

    /// Opens `state/`, or returns `None` when nothing was ever stored.
    pub(super) fn existing_state(&self) -> io::Result<Option<Dir>> {
        self.top.existing_subdirectory("state")
    }

    /// Returns the ids of all runs, the oldest first.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn run_ids(&self) -> io::Result<Vec<RunId>> {
        let names = self.runs.names(usize::MAX)?;
        let ids = names.iter().filter_map(|name| RunId::parse(name.to_str().ok()?).ok());
        let mut found: Vec<RunId> = ids.collect();
        found.sort();
        Ok(found)
    }

    pub(super) fn top(&self) -> &Dir {
        &self.top
    }

    pub(super) fn runs_handle(&self) -> &Dir {
        &self.runs
    }

    /// Opens an existing run, never through a link. One of another user is refused.
    pub(super) fn run(&self, id: &RunId) -> io::Result<Dir> {
        let run = self.runs.subdirectory(id.as_str())?;
        let holder = Holder::of_stat(&fstat(&run)?);
        match holder.is_caller_or_root() {
            true => Ok(run),
            false => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("run {id} belongs to another user ({})", holder.uid),
            )),
        }
    }
}

/// Checks who can write the parts of an ARTIFACT_DIR.
struct Trust<'a> {
    path: &'a Path,
    /// What was closed to others; `None` to change nothing.
    tightened: Option<&'a mut Vec<String>>,
}

impl Trust<'_> {
    fn foreign(&self, name: &str, holder: Holder) -> ArtifactDirError {
        ArtifactDirError::Foreign { path: self.path_of(name), holder }
    }

    fn path_of(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.path.to_owned() } else { self.path.join(name) }
    }

    fn unusable(&self, source: io::Error) -> ArtifactDirError {
        ArtifactDirError::Unusable { path: self.path.to_owned(), source }
    }

    /// Checks ARTIFACT_DIR and the directories above it, whose names others could give to other directories.
    fn place(&mut self, top: &Dir) -> Result<(), ArtifactDirError> {
        for above in self.path.ancestors().skip(1) {
            let meta = fs::symlink_metadata(above).map_err(|error| self.unusable(error))?;
            let mode = Mode::from_raw_mode(meta.mode() as rustix::fs::RawMode).bits();
            let holder = Holder { uid: meta.uid(), mode };
            // Group-writable homes are common where each user has a group of its own.
            if Mode::from_raw_mode(mode).contains(Mode::WOTH) && !holder.is_sticky() {
                return Err(ArtifactDirError::Foreign { path: above.to_owned(), holder });
            }
        }
        let holder = Holder::of_stat(&fstat(top).map_err(|errno| self.unusable(errno.into()))?);
        // In a directory like `/tmp` no other user can replace what is the caller's, and its mode is not ours to change.
        if holder.is_caller_or_root() && holder.is_sticky() {
            return Ok(());
        }
        self.directory(top, "")
    }

    /// Checks a directory, and closes it to others.
    fn directory(&mut self, dir: &Dir, name: &str) -> Result<(), ArtifactDirError> {
        let found = match &self.tightened {
            None => {
                match Holder::of_stat(&fstat(dir).map_err(|errno| self.unusable(errno.into()))?) {
                    holder if holder.is_caller_or_root() => Closed::Already,
                    holder => Closed::Foreign(holder),
                }
            }
            Some(_) => close_to_others(dir).map_err(|error| self.unusable(error))?,
        };
        match found {
            Closed::Already => {}
            Closed::Now(was) => self.note(name, was),
            Closed::Foreign(holder) => return Err(self.foreign(name, holder)),
        }
        Ok(())
    }

    /// Checks the names in a directory that is closed by now. A file is closed by its name: SQLite's locks would end if this
    /// process opened and closed the database once more.
    fn entries(&mut self, dir: &Dir, name: &str) -> Result<(), ArtifactDirError> {
        for entry in dir.names(usize::MAX).map_err(|error| self.unusable(error))? {
            let Ok(stat) = dir.stat(&*entry) else { continue };
            let path = format!("{name}/{}", entry.to_string_lossy());
            let holder = Holder::of_stat(&stat);
            if !holder.is_caller_or_root() {
                return Err(self.foreign(&path, holder));
            }
            let kind = FileType::from_raw_mode(stat.st_mode);
            let may_close = matches!(kind, FileType::RegularFile | FileType::Directory);
            if may_close && holder.is_open() && self.tightened.is_some() {
                let closed = Mode::from_raw_mode(holder.mode).difference(Mode::WGRP | Mode::WOTH);
                // A file of root that others may write stays as it is, and so it is not ours.
                if chmodat(dir, &*entry, closed, AtFlags::empty()).is_err() {
                    return Err(self.foreign(&path, holder));
                }
                self.note(&path, holder);
            }
        }
        Ok(())
    }

    fn note(&mut self, name: &str, was: Holder) {
        let path = self.path_of(name);
        if let Some(tightened) = &mut self.tightened {
            tightened.push(format!(
                "{} could be written by others (mode {:04o}); act has taken that permission away",
                path.display(),
                was.mode
            ));
        }
    }
}

/// Returns the longest existing prefix with its links resolved, and the rest of the path.
fn existing_part(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    for prefix in path.ancestors() {
        match prefix.canonicalize() {
            Ok(found) => {
                let missing = path.strip_prefix(prefix).unwrap_or(Path::new("")).to_owned();
                return Ok((found, missing));
            }
            // The prefix is a dangling link, so nothing can be created below it.
            Err(error) if prefix.symlink_metadata().is_ok() => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Compares by identity, not by spelling: another letter case or a second mount is the same directory.
fn lies_in(path: &Path, repo: &Path) -> io::Result<bool> {
    let repo = fs::metadata(repo)?;
    for ancestor in path.ancestors() {
        let found = fs::metadata(ancestor)?;
        if (found.dev(), found.ino()) == (repo.dev(), repo.ino()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Creates a file, because permission bits do not show read-only mounts, quotas and access lists.
fn probe(directory: &Dir) -> io::Result<()> {
    directory.stage("probe").map(drop)
}

impl From<ArtifactDirError> for act_core::Failure {
    fn from(error: ArtifactDirError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let code = match error {
            ArtifactDirError::Foreign { .. } => "artifact_dir_foreign",
            _ => "artifact_dir",
        };
        Self::refused(code, format!("{error}{}", cause.unwrap_or_default())).hint(error.hint())
    }
}

/// Asks ext4 to give each directory that is created in `parent` a block group of its own. Other file systems ignore it.
///
/// ext4 reuses the number of a removed file only minutes later, and for each new file it first looks at all such numbers of
/// its block group: creating ten thousand files where ten thousand were just removed takes seconds instead of a fifth of
/// one. Each run removes its view and the next one creates it again, so runs should lie apart.
#[cfg(target_os = "linux")]
pub(super) fn spread_over_block_groups(parent: &Dir) {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    if let Ok(flags) = ioctl_getflags(parent)
        && !flags.contains(IFlags::TOPDIR)
    {
        let _ = ioctl_setflags(parent, flags | IFlags::TOPDIR);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn spread_over_block_groups(_: &Dir) {}

const PASSWD: &str = "passwd";
const MAX_PASSWD: u64 = 1 << 20;

impl ArtifactDir {
    /// Returns the `/etc/passwd` of an image that a run has looked at. It is empty for an image without one.
    pub fn image_passwd(&self, image_id: &str) -> Option<Vec<u8>> {
        let image = self.cache.private_subdirectory(&*image_name(image_id)).ok()?;
        image.read(PASSWD, MAX_PASSWD).ok()
    }

    /// Stores the `/etc/passwd` of an image, atomically, because several runs may do so at once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remember_passwd(&self, image_id: &str, text: &[u8]) -> io::Result<()> {
        let image = self.cache.private_subdirectory(&*image_name(image_id))?;
        image.replace(PASSWD, text, Durability::Unsynced)
    }

    pub(super) fn forget_image(&self, image: &str) -> io::Result<()> {
        self.cache.private_subdirectory(image)?.remove_file(PASSWD)?;
        // The directory is not empty while a run has its cache there.
        let _ = unlinkat(&self.cache, image, AtFlags::REMOVEDIR);
        Ok(())
    }
}

/// Maximum number of bytes of a proposal, far more than a dry run can write.
const MAX_PROPOSAL: u64 = 256 << 20;

impl ArtifactDir {
    /// Stores a proposal atomically and durably, in place of an older one of the same task.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_proposal(&self, task_id: &str, bytes: &[u8]) -> io::Result<()> {
        let dir = self.proposals()?;
        let mut staged = dir.stage_as(format!(".new-{task_id}"))?;
        staged.write(bytes)?;
        staged.publish(proposal_name(task_id), Durability::ContentsAndName)
    }

    /// Returns a proposal, or `None` when the task has none.
    ///
    /// # Errors
    /// A link, a FIFO or a file larger than any proposal is refused.
    pub fn read_proposal(&self, task_id: &str) -> io::Result<Option<Vec<u8>>> {
        self.proposals()?.read_existing(proposal_name(task_id), MAX_PROPOSAL)
    }

    /// Removes a proposal. A missing one is not an error.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove_proposal(&self, task_id: &str) -> io::Result<()> {
        self.proposals()?.remove_file(proposal_name(task_id))
    }

    fn proposals(&self) -> io::Result<Dir> {
        self.state()?.private_subdirectory("proposals")
    }
}

fn proposal_name(task_id: &str) -> String {
    format!("{task_id}.json")
}

#[cfg(test)]
mod layout_tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn open(path: &Path, repo: &Path) -> Result<ArtifactDir, String> {
        ArtifactDir::open(path, repo).map_err(|error| format!("{error}; {}", error.hint()))
    }

    // ARTIFACT-1
    #[test]
    fn the_configured_place_wins_over_home_and_empty_is_unset() {
        let locate = |configured: &str, home: &str| {
            ArtifactDir::locate(Some(configured.into()), Some(home.into()))
        };
        assert_eq!(locate("/data/a", "/home/me").unwrap(), Path::new("/data/a"));
        assert_eq!(locate("", "/home/me").unwrap(), Path::new("/home/me/.agent-artifacts"));
        assert!(matches!(locate("", ""), Err(ArtifactDirError::NoHome)));
    }

    // security line 124
    #[test]
    fn refuses_root_the_repository_what_lies_inside_it_and_relative_paths() {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).unwrap();
        std::os::unix::fs::symlink(&repo, dir.path().join("alias")).unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        for path in [
            PathBuf::from("/"),
            PathBuf::from("artifacts"),
            repo.clone(),
            repo.join("a/b"),
            dir.path().join("alias/a"),
            dir.path().join("x/../repo/a"),
            dir.path().join("file"),
            dir.path().join("file/below"),
        ] {
            let error = open(&path, &repo).expect_err(&path.display().to_string());
            assert!(error.contains("AGENT_ARTIFACT_DIR"), "{error}");
        }
        assert_eq!(
            fs::read_dir(&repo).unwrap().count(),
            0,
            "nothing was created in the repository"
        );
    }

    // security line 124
    #[test]
    fn creates_what_is_missing_for_the_caller_alone() {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).unwrap();
        let path = dir.path().join("new/artifacts");
        open(&path, &repo).unwrap();
        open(&path, &repo).unwrap();
        for made in [path.clone(), path.join("runs"), path.join("cache")] {
            assert_eq!(
                fs::metadata(&made).unwrap().permissions().mode() & 0o777,
                0o700,
                "{made:?}"
            );
        }
        assert_eq!(fs::read_dir(path.join("runs")).unwrap().count(), 0, "the probe is gone");
    }

    #[test]
    fn a_link_in_place_of_runs_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (repo, path, outside) =
            (dir.path().join("repo"), dir.path().join("a"), dir.path().join("outside"));
        for made in [&repo, &path, &outside] {
            fs::create_dir(made).unwrap();
        }
        std::os::unix::fs::symlink(&outside, path.join("runs")).unwrap();
        assert!(open(&path, &repo).is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn a_state_that_was_open_to_others_is_closed() {
        // STORE-1
        let dir = tempfile::tempdir().unwrap();
        let (place, repo) = (dir.path().join("a"), dir.path().join("r"));
        fs::create_dir_all(place.join("state")).unwrap();
        fs::create_dir(&repo).unwrap();
        let mode =
            |mode| fs::set_permissions(place.join("state"), fs::Permissions::from_mode(mode));
        for open in [0o777, 0o750, 0o701] {
            mode(open).unwrap();
            ArtifactDir::open(&place, &repo).unwrap().state().unwrap();
            let found = fs::metadata(place.join("state")).unwrap().permissions().mode();
            assert_eq!(found & 0o777, 0o700);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod spread_tests {
    use super::*;
    use rustix::fs::{IFlags, fstatfs, ioctl_getflags};

    const EXT4: u64 = 0xef53;

    #[test]
    fn a_directory_is_marked_where_the_file_system_knows_the_mark() {
        // ARTIFACT-3
        let place = tempfile::tempdir().unwrap();
        let handle = Dir::open(place.path()).unwrap();
        spread_over_block_groups(&handle);
        spread_over_block_groups(&handle);
        if u64::try_from(fstatfs(&handle).unwrap().f_type) == Ok(EXT4) {
            assert!(ioctl_getflags(&handle).unwrap().contains(IFlags::TOPDIR));
        }
    }
}

#[cfg(test)]
mod image_memory_tests {
    use super::*;

    // ARTIFACT-10
    #[test]
    fn an_images_passwd_is_remembered_until_the_caches_are_cleared() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("repo")).unwrap();
        let artifacts = ArtifactDir::open(&dir.path().join("a"), &dir.path().join("repo")).unwrap();
        assert_eq!(artifacts.image_passwd("sha256:aa"), None);
        artifacts.remember_passwd("sha256:aa", b"root").unwrap();
        artifacts.remember_passwd("sha256:aa", b"").unwrap();
        artifacts.remember_passwd("sha256:bb", b"other").unwrap();
        assert_eq!(artifacts.image_passwd("sha256:aa").as_deref(), Some(&b""[..]));
        assert!(artifacts.cache_sizes().unwrap().is_empty(), "no cache of a run");
        // A link in its place is not followed.
        let kept = artifacts.path().join("cache/bb/passwd");
        std::fs::remove_file(&kept).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &kept).unwrap();
        assert_eq!(artifacts.image_passwd("sha256:bb"), None);
        artifacts.clear_caches().unwrap();
        assert_eq!(std::fs::read_dir(artifacts.path().join("cache")).unwrap().count(), 0);
    }
}

#[cfg(test)]
mod proposals_tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_proposal_is_for_its_owner_and_never_reached_through_a_link() {
        // ARTIFACT-20
        let dir = tempfile::tempdir().unwrap();
        let artifacts = ArtifactDir::open_for(&dir.path().join("artifacts"), None).unwrap();
        assert_eq!(artifacts.read_proposal("t-aaaaaa").unwrap(), None);
        artifacts.write_proposal("t-aaaaaa", b"one").unwrap();
        artifacts.write_proposal("t-aaaaaa", b"two").unwrap();
        assert_eq!(artifacts.read_proposal("t-aaaaaa").unwrap().unwrap(), b"two");
        let path = artifacts.path().join("state/proposals/t-aaaaaa.json");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        artifacts.remove_proposal("t-aaaaaa").unwrap();
        artifacts.remove_proposal("t-aaaaaa").unwrap();
        symlink("/etc/passwd", &path).unwrap();
        assert!(artifacts.read_proposal("t-aaaaaa").is_err());
    }
}
