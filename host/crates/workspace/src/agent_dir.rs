//! The directory of act's notes in the repository, `agent/` or `.act/`, held by handle.
//!
//! A clone may ship that name as a link to somewhere else, or links and directories under the names that are
//! written here. The directory is therefore opened without following, everything is made under a temporary
//! name in it, and a name is only ever taken over as a name: what a link there points at is never touched.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::exclusion::is_temporary;
use super::handle::DIRECTORY;
use super::notes_dir::notes_dir;
use super::scan::scan;
use super::stop::StopCheck;
use super::transaction::{self, Temp};
use super::view::Kind;

/// The directory of act's notes. The name says `agent` because that is what it is called in most repositories.
#[derive(Debug, Clone)]
pub struct AgentDir {
    name: &'static str,
    dir: Arc<OwnedFd>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostWriteError {
    #[error(
        "act has no directory for its notes: agent and .act in {} both hold files of yours, or are links or another \
         user's",
        root.display()
    )]
    BothTaken { root: PathBuf },
    #[error("{name} became a link or a file while act used it as the directory of its notes")]
    NotADirectory { name: &'static str },
    #[error(
        ".gitignore is a link, shared with another name or no regular file, and was left alone"
    )]
    NotOurs,
    #[error("{name} exists and is never overwritten")]
    Exists { name: String },
    #[error("{dir}/{name} is a directory; remove it")]
    Occupied { dir: &'static str, name: String },
    /// The repository, or the directory of the notes in it.
    #[error("{} cannot be written: {why}", place.display())]
    Unwritable { place: PathBuf, why: String },
    #[error("{name} cannot be used: {why}")]
    Failed { name: String, why: String },
}

impl HostWriteError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::BothTaken { .. } => "rename one of the two, or empty it",
            Self::NotADirectory { .. } => "run it again",
            Self::Unwritable { .. } => {
                "a task writes its edits and its notes there: mount it writable, change its owner or mode, or work in a \
                 copy of it; `act run --dry-run` writes nothing there"
            }
            Self::NotOurs | Self::Exists { .. } | Self::Occupied { .. } | Self::Failed { .. } => {
                "look at its kind, its owner and its mode, and at the file system below it"
            }
        }
    }
}

impl AgentDir {
    /// Checks whether the directory can be opened or made, and written. Changes nothing. Returns its name.
    ///
    /// # Errors
    ///
    /// Both names are taken by the user, or the directory cannot be written.
    pub fn check(root: &Path) -> Result<&'static str, HostWriteError> {
        let name = Self::name_in(root)?;
        let dir = open_root(root)?;
        let (place, dir) = match Self::existing(&dir, name)? {
            Some(found) => (root.join(name), found.dir),
            None => (root.to_owned(), Arc::new(dir)),
        };
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(&dir, ".", access, AtFlags::empty()).map_err(|errno| {
            HostWriteError::Unwritable { place, why: std::io::Error::from(errno).to_string() }
        })?;
        Ok(name)
    }

    /// Returns which of the two names act uses in this repository.
    ///
    /// # Errors
    ///
    /// Both names are taken by the user, or the root cannot be opened.
    pub fn name_in(root: &Path) -> Result<&'static str, HostWriteError> {
        let found = notes_dir(root).map_err(|errno| failed(&root.display().to_string(), errno))?;
        found.ok_or_else(|| HostWriteError::BothTaken { root: root.to_owned() })
    }

    /// The name of the directory, relative to the root.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// For the one who holds the repository's lock: makes the directory where it is missing, removes what a
    /// killed write left.
    ///
    /// # Errors
    ///
    /// Both names are taken by the user, or the directory cannot be made.
    pub fn open(root: &Path) -> Result<Self, HostWriteError> {
        let name = Self::name_in(root)?;
        let root = open_root(root)?;
        if let Some(found) = Self::existing(&root, name)? {
            transaction::clear(&found.dir);
            return Ok(found);
        }
        match rustix::fs::mkdirat(&root, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(name, errno)),
        }
        Self::existing(&root, name)?.ok_or_else(|| failed(name, Errno::NOENT))
    }

    /// Returns the directory as it is, or `None` where there is none. Changes nothing.
    ///
    /// # Errors
    ///
    /// Both names are taken by the user, or the directory cannot be opened.
    pub fn look(root: &Path) -> Result<Option<Self>, HostWriteError> {
        Self::existing(&open_root(root)?, Self::name_in(root)?)
    }

    /// Writes the `.gitignore` that hides the whole directory from git, unless there is one.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn hide_from_git(&self) -> Result<(), HostWriteError> {
        match self.create_new(".gitignore", b"*\n") {
            Ok(()) | Err(HostWriteError::Exists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The first `most` bytes of a regular file; none where nothing has the name. A link is not followed.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, HostWriteError> {
        plain(name)?;
        let file = match act_fs::file(&self.dir, name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| failed(name, error))?,
        };
        let mut bytes = vec![];
        file.take(most).read_to_end(&mut bytes).map_err(|error| failed(name, error))?;
        Ok(Some(bytes))
    }

    fn existing(root: &OwnedFd, name: &'static str) -> Result<Option<Self>, HostWriteError> {
        match rustix::fs::openat(root, name, DIRECTORY, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { name, dir: Arc::new(fd) })),
            Err(Errno::NOENT) => Ok(None),
            // Swapped since the directory was chosen.
            Err(Errno::LOOP | Errno::NOTDIR) => Err(HostWriteError::NotADirectory { name }),
            Err(errno) => Err(failed(name, errno)),
        }
    }

    /// Written once: whatever has the name already, also a link to nowhere, stays as it is.
    pub fn create_new(&self, name: &str, bytes: &[u8]) -> Result<(), HostWriteError> {
        let temp = self.temp(name, bytes)?;
        match transaction::rename_new(self.dir.as_fd(), &temp.name, self.dir.as_fd(), name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(HostWriteError::Exists { name: name.to_owned() }),
            Err(errno) => Err(failed(name, errno)),
        }
    }

    /// The old file or the new one, never a part; a link of that name is replaced, not followed.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), HostWriteError> {
        let temp = self.temp(name, bytes)?;
        self.take_over(&temp, name)
    }

    /// `name` becomes a link to its neighbour `target`.
    pub fn point(&self, name: &str, target: &str) -> Result<(), HostWriteError> {
        plain(name)?;
        plain(target)?;
        let temp = Temp::free(&self.dir);
        rustix::fs::symlinkat(target, &self.dir, &temp.name)
            .map_err(|errno| failed(name, errno))?;
        self.take_over(&temp, name)
    }

    /// What stands in the directory, sorted; without what a killed write left.
    pub fn names(&self) -> Result<Vec<(String, Kind)>, HostWriteError> {
        let seen = scan(&self.dir, std::ops::Bound::Unbounded, &StopCheck::default())
            .map_err(|errno| failed(self.name, errno))?;
        let utf8 = |(name, kind)| Some((String::from_utf8(name).ok()?, kind));
        Ok(seen
            .names
            .into_iter()
            .filter_map(utf8)
            .filter(|(name, _)| !is_temporary(name))
            .collect())
    }

    fn temp(&self, name: &str, bytes: &[u8]) -> Result<Temp, HostWriteError> {
        plain(name)?;
        Temp::write(&self.dir, bytes, None, None).map_err(|error| failed(name, error))
    }

    fn take_over(&self, temp: &Temp, name: &str) -> Result<(), HostWriteError> {
        match rustix::fs::renameat(&self.dir, &temp.name, &self.dir, name) {
            Ok(()) => Ok(()),
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                Err(HostWriteError::Occupied { dir: self.name, name: name.to_owned() })
            }
            Err(errno) => Err(failed(name, errno)),
        }
    }
}

pub(super) fn open_root(root: &Path) -> Result<OwnedFd, HostWriteError> {
    let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
    rustix::fs::open(root, flags, Mode::empty())
        .map_err(|errno| failed(&root.display().to_string(), errno))
}

/// One name, no path.
fn plain(name: &str) -> Result<(), HostWriteError> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(failed(name, "it is no plain name"));
    }
    Ok(())
}

pub(super) fn failed(name: &str, why: impl std::fmt::Display) -> HostWriteError {
    HostWriteError::Failed { name: name.to_owned(), why: why.to_string() }
}

impl From<HostWriteError> for act_core::Failure {
    fn from(error: HostWriteError) -> Self {
        Self::refused("agent_dir", error.to_string()).hint(error.hint())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    // security line 64
    #[test]
    fn a_linked_agent_directory_is_the_users_and_nothing_is_written_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("repo"), dir.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, root.join("agent")).unwrap();
        assert_eq!(AgentDir::check(&root), Ok(".act"));
        symlink(&outside, root.join(".act")).unwrap();
        let taken = || HostWriteError::BothTaken { root: root.clone() };
        assert_eq!(AgentDir::check(&root), Err(taken()));
        assert_eq!(AgentDir::open(&root).map(|_| ()), Err(taken()));
        assert!(names(&outside).is_empty());
        fs::remove_file(root.join("agent")).unwrap();
        fs::write(root.join("agent"), "a file").unwrap();
        assert_eq!(AgentDir::check(&root), Err(taken()));
        fs::remove_file(root.join(".act")).unwrap();
        AgentDir::open(&root).unwrap().replace("summary.md", b"x").unwrap();
        assert_eq!(names(&root.join(".act")), ["summary.md"]);
    }

    // security line 64
    #[test]
    fn a_directory_swapped_for_a_link_between_check_and_open_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("repo"), dir.path().join("outside"));
        fs::create_dir_all(root.join("agent")).unwrap();
        fs::create_dir(&outside).unwrap();
        AgentDir::check(&root).unwrap();
        fs::rename(root.join("agent"), root.join("was")).unwrap();
        symlink(&outside, root.join("agent")).unwrap();
        assert_eq!(AgentDir::open(&root).unwrap().name(), ".act");
        assert!(names(&outside).is_empty());

        // Swapped after it was opened: what is written goes into the directory that was opened.
        fs::remove_file(root.join("agent")).unwrap();
        fs::rename(root.join("was"), root.join("agent")).unwrap();
        let agent = AgentDir::open(&root).unwrap();
        fs::rename(root.join("agent"), root.join("was")).unwrap();
        symlink(&outside, root.join("agent")).unwrap();
        agent.create_new("context_001.md", b"x").unwrap();
        agent.replace("summary.md", b"x").unwrap();
        agent.point("context_latest.md", "context_001.md").unwrap();
        assert!(names(&outside).is_empty());
        assert_eq!(names(&root.join("was")), ["context_001.md", "context_latest.md", "summary.md"]);
    }

    #[test]
    fn a_check_makes_nothing_and_an_open_makes_the_directory() {
        let root = tempfile::tempdir().unwrap();
        AgentDir::check(root.path()).unwrap();
        assert!(names(root.path()).is_empty());
        AgentDir::open(root.path()).unwrap();
        let agent = AgentDir::open(root.path()).unwrap();
        assert_eq!(names(root.path()), ["agent"]);
        agent.hide_from_git().unwrap();
        fs::write(root.path().join("agent/.gitignore"), "the user's").unwrap();
        agent.hide_from_git().unwrap();
        assert_eq!(fs::read(root.path().join("agent/.gitignore")).unwrap(), b"the user's");
    }

    // security line 65
    #[test]
    fn names_that_a_clone_took_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("repo"), dir.path().join("outside"));
        fs::create_dir_all(root.join("agent")).unwrap();
        fs::write(&outside, "the user's").unwrap();
        for name in ["context_latest.md", "summary.md", "context_001.md"] {
            symlink(&outside, root.join("agent").join(name)).unwrap();
        }
        symlink("nowhere", root.join("agent/context_002.md")).unwrap();
        let agent = AgentDir::open(&root).unwrap();

        let exists = |name: &str| Err(HostWriteError::Exists { name: name.into() });
        assert_eq!(agent.create_new("context_001.md", b"x"), exists("context_001.md"));
        assert_eq!(agent.create_new("context_002.md", b"x"), exists("context_002.md"));
        agent.create_new("context_003.md", b"third").unwrap();
        assert_eq!(agent.create_new("context_003.md", b"again"), exists("context_003.md"));
        agent.point("context_latest.md", "context_003.md").unwrap();
        agent.replace("summary.md", b"done").unwrap();

        assert_eq!(fs::read_to_string(&outside).unwrap(), "the user's");
        assert_eq!(fs::read_to_string(root.join("agent/context_latest.md")).unwrap(), "third");
        assert_eq!(
            fs::read_link(root.join("agent/context_latest.md")).unwrap(),
            Path::new("context_003.md")
        );
        assert!(!fs::symlink_metadata(root.join("agent/summary.md")).unwrap().is_symlink());
        assert_eq!(fs::read(root.join("agent/summary.md")).unwrap(), b"done");
        assert_eq!(names(&root.join("agent")).len(), 5, "no temporary file is left");
    }

    // security line 65
    #[test]
    fn a_directory_where_the_latest_link_belongs_is_named_and_kept() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("agent/context_latest.md/inner")).unwrap();
        let agent = AgentDir::open(root.path()).unwrap();
        agent.create_new("context_001.md", b"first").unwrap();
        let occupied =
            Err(HostWriteError::Occupied { dir: "agent", name: "context_latest.md".into() });
        assert_eq!(agent.point("context_latest.md", "context_001.md"), occupied);
        assert_eq!(agent.replace("context_latest.md", b"x"), occupied);
        assert!(root.path().join("agent/context_latest.md/inner").is_dir());
        assert_eq!(names(&root.path().join("agent")), ["context_001.md", "context_latest.md"]);
    }

    #[test]
    fn only_plain_names_are_taken() {
        let root = tempfile::tempdir().unwrap();
        let agent = AgentDir::open(root.path()).unwrap();
        for name in ["", ".", "..", "../x", "a/b", "a\0b", "/x"] {
            assert!(agent.create_new(name, b"x").is_err(), "{name:?}");
            assert!(agent.replace(name, b"x").is_err(), "{name:?}");
            assert!(agent.point("ok", name).is_err(), "{name:?}");
        }
        assert!(names(&root.path().join("agent")).is_empty());
    }

    // security line 65
    #[test]
    fn what_is_read_is_a_regular_file_of_the_directory_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert!(AgentDir::look(root).unwrap().is_none());
        assert!(!root.join("agent").exists(), "looking makes nothing");
        fs::create_dir(root.join("agent")).unwrap();
        fs::write(root.join("outside"), "secret").unwrap();
        fs::write(root.join("agent/summary.md"), "0123456789").unwrap();
        fs::create_dir(root.join("agent/context_001.md")).unwrap();
        symlink(root.join("outside"), root.join("agent/context_latest.md")).unwrap();
        let fifo = root.join("agent/stuck_report.md");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let agent = AgentDir::look(root).unwrap().unwrap();
        assert_eq!(agent.read("summary.md", 4).unwrap().unwrap(), b"0123");
        assert_eq!(agent.read("missing", 4), Ok(None));
        for name in ["context_latest.md", "stuck_report.md", "context_001.md", "../outside", ""] {
            assert!(agent.read(name, 4).is_err(), "{name}");
        }
    }
}
