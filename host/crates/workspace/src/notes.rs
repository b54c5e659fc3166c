//! The directory of act's notes in the repository: which name it has, how its files are written, and how git is told to
//! ignore it.
//!
//! The directory is `agent/`, or `.act/` where `agent/` belongs to the user. It is act's when it does not exist, is
//! empty, or has no tracked file and holds only names that act writes. A link, a file, or a directory of another owner
//! is the user's: it is read and edited like any other.
//!
//! A clone may contain links and directories under the names that are written here. The directory is therefore opened
//! without following a link, every file is written under a temporary name in it, and renaming replaces a link instead
//! of following it.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use act_fs::{DIRECTORY, READ, Root};
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat, statat};
use rustix::io::Errno;

use super::exclusion::{fold, is_temporary};
use super::git::IgnoreRules;
use super::listing::{TreeWalk, first_names};
use super::reading::{read_whole, regular};
use super::transaction::{self, Temp};
use super::view::{Kind, StopCheck};

/// The names that the directory of the notes may have, in the order of preference.
pub const NOTES_DIRS: [&str; 2] = ["agent", ".act"];

const GITIGNORE: &str = ".gitignore";
/// Maximum number of bytes of a `.gitignore`.
const MAX_GITIGNORE: u64 = 4 << 20;
/// Maximum number of directories that are searched for what an unanchored line hides.
const MAX_DIRECTORIES: usize = 20_000;

/// The open directory of act's notes.
#[derive(Debug, Clone)]
pub struct NotesDir {
    name: &'static str,
    dir: Arc<OwnedFd>,
}

/// Why the notes cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotesError {
    #[error(
        "act has no directory for its notes: agent and .act in {} both hold files of yours, or are links or another \
         user's",
        root.display()
    )]
    BothTaken { root: PathBuf },
    #[error("{name} became a link or a file while act used it as the directory of its notes")]
    NotADirectory { name: &'static str },
    #[error(
        ".gitignore is a link, has a second name or is not a regular file, and was not changed"
    )]
    ForeignGitignore,
    #[error("{name} exists and is never overwritten")]
    Exists { name: String },
    #[error("{dir}/{name} is a directory; remove it")]
    Occupied { dir: &'static str, name: String },
    /// `place` is the repository, or the directory of the notes in it.
    #[error("{} cannot be written: {why}", place.display())]
    Unwritable { place: PathBuf, why: String },
    #[error("{name} cannot be used: {why}")]
    Failed { name: String, why: String },
}

impl NotesError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::BothTaken { .. } => "rename one of the two, or empty it",
            Self::NotADirectory { .. } => "run it again",
            Self::Unwritable { .. } => {
                "a task writes its edits and its notes there: mount it writable, change its owner or mode, or work in a \
                 copy of it; `act run --dry-run` writes nothing there"
            }
            Self::ForeignGitignore
            | Self::Exists { .. }
            | Self::Occupied { .. }
            | Self::Failed { .. } => "check its kind, its owner, its mode and its file system",
        }
    }
}

/// Returns the name of the directory that holds act's notes in the repository at `root`, or `None` when both names are
/// taken by the user.
///
/// # Errors
/// The root cannot be opened.
pub fn notes_dir(root: &Path) -> Result<Option<&'static str>, Errno> {
    let root = Root::open(root)?;
    Ok(notes_dir_of(&root, &IgnoreRules::new(&root)))
}

pub(super) fn notes_dir_of(root: &Root, rules: &IgnoreRules) -> Option<&'static str> {
    NOTES_DIRS.into_iter().find(|name| is_ours(root, rules, name))
}

/// Returns whether `path` is the directory of the notes `notes`, or lies in it.
pub(super) fn is_in_notes(path: &str, notes: Option<&str>) -> bool {
    notes.is_some_and(|notes| fold(path).split('/').next() == Some(notes))
}

fn is_ours(root: &Root, rules: &IgnoreRules, name: &str) -> bool {
    match statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return true,
        Ok(stat) if is_own_directory(&stat) => {}
        Ok(_) | Err(_) => return false,
    }
    // Opened without following: between the two calls the name may have become a link.
    let Ok(dir) = rustix::fs::openat(root, name, DIRECTORY, Mode::empty()) else { return false };
    let same_owner = rustix::fs::fstat(&dir).is_ok_and(|stat| is_own_directory(&stat));
    same_owner && holds_only_notes(&dir) && !rules.tracks_below(name.as_bytes())
}

fn is_own_directory(stat: &Stat) -> bool {
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    directory && stat.st_uid == rustix::process::geteuid().as_raw()
}

fn holds_only_notes(dir: &OwnedFd) -> bool {
    // Special files have names as well, so the directory is read here and not by what a view would show.
    let Ok(mut entries) = rustix::fs::Dir::read_from(dir) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name().to_bytes();
            matches!(name, b"." | b"..") || std::str::from_utf8(name).is_ok_and(is_note)
        })
    })
}

/// Returns whether act writes files of this name into the directory of its notes.
fn is_note(name: &str) -> bool {
    const FIXED: [&str; 4] = ["context_latest.md", "summary.md", "stuck_report.md", ".gitignore"];
    let numbered = || {
        let digits = name.strip_prefix("context_").and_then(|rest| rest.strip_suffix(".md"));
        digits.is_some_and(|digits| {
            (3..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    FIXED.contains(&name) || is_temporary(name) || numbered()
}

impl NotesDir {
    /// Checks that the directory can be opened or created, and written. Changes nothing. Returns its name.
    ///
    /// # Errors
    /// `BothTaken` when both names are the user's, `Unwritable` when the directory cannot be written.
    pub fn check(root: &Path) -> Result<&'static str, NotesError> {
        let name = Self::name_in(root)?;
        let dir = open_root(root)?;
        let (place, dir) = match Self::open_in(&dir, name)? {
            Some(found) => (root.join(name), found.dir),
            None => (root.to_owned(), Arc::new(dir)),
        };
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(&dir, ".", access, AtFlags::empty()).map_err(|errno| {
            NotesError::Unwritable { place, why: std::io::Error::from(errno).to_string() }
        })?;
        Ok(name)
    }

    /// Returns which of the two names act uses in this repository.
    ///
    /// # Errors
    /// `BothTaken` when both names are the user's, `Failed` when the root cannot be opened.
    pub fn name_in(root: &Path) -> Result<&'static str, NotesError> {
        let found = notes_dir(root).map_err(|errno| failed(&root.display().to_string(), errno))?;
        found.ok_or_else(|| NotesError::BothTaken { root: root.to_owned() })
    }

    /// Returns the name of the directory, relative to the root.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Opens the directory. Creates it when it is missing, and removes the temporary files of a killed process. The
    /// caller holds the lock of the repository.
    ///
    /// # Errors
    /// `BothTaken` when both names are the user's, `Failed` when the directory cannot be created.
    pub fn open(root: &Path) -> Result<Self, NotesError> {
        let name = Self::name_in(root)?;
        let root = open_root(root)?;
        if let Some(found) = Self::open_in(&root, name)? {
            transaction::clear(&found.dir);
            return Ok(found);
        }
        match rustix::fs::mkdirat(&root, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(name, errno)),
        }
        Self::open_in(&root, name)?.ok_or_else(|| failed(name, Errno::NOENT))
    }

    /// Opens the directory as it is, or returns `None` when it is missing. Changes nothing.
    ///
    /// # Errors
    /// `BothTaken` when both names are the user's, `Failed` when the directory cannot be opened.
    pub fn open_existing(root: &Path) -> Result<Option<Self>, NotesError> {
        Self::open_in(&open_root(root)?, Self::name_in(root)?)
    }

    fn open_in(root: &OwnedFd, name: &'static str) -> Result<Option<Self>, NotesError> {
        match rustix::fs::openat(root, name, DIRECTORY, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { name, dir: Arc::new(fd) })),
            Err(Errno::NOENT) => Ok(None),
            // The name was a directory when it was chosen.
            Err(Errno::LOOP | Errno::NOTDIR) => Err(NotesError::NotADirectory { name }),
            Err(errno) => Err(failed(name, errno)),
        }
    }

    /// Writes the `.gitignore` that hides the whole directory from git, unless there is one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn hide_from_git(&self) -> Result<(), NotesError> {
        match self.create_new(GITIGNORE, b"*\n") {
            Ok(()) | Err(NotesError::Exists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads the first `most` bytes of a regular file, or returns `None` when the name is missing. A link is not
    /// followed.
    ///
    /// # Errors
    /// `Failed` for another kind of file, or with the error of the system.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, NotesError> {
        check_name(name)?;
        let file = match act_fs::file(&self.dir, name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| failed(name, error))?,
        };
        act_fs::read_first(file, most).map(Some).map_err(|error| failed(name, error))
    }

    /// Writes a new file.
    ///
    /// # Errors
    /// `Exists` when the name is taken, also by a link whose target is missing; `Failed` with the error of the system.
    pub fn create_new(&self, name: &str, bytes: &[u8]) -> Result<(), NotesError> {
        let temp = self.temp(name, bytes)?;
        match transaction::rename_new(self.dir.as_fd(), &temp.name, self.dir.as_fd(), name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(NotesError::Exists { name: name.to_owned() }),
            Err(errno) => Err(failed(name, errno)),
        }
    }

    /// Writes a file atomically. A link under the name is replaced, not followed.
    ///
    /// # Errors
    /// `Occupied` when the name is a directory; `Failed` with the error of the system.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), NotesError> {
        let temp = self.temp(name, bytes)?;
        self.rename_over(&temp, name)
    }

    /// Replaces `name` by a link to the file `target` in the same directory.
    ///
    /// # Errors
    /// The errors of [`NotesDir::replace`].
    pub fn replace_with_link(&self, name: &str, target: &str) -> Result<(), NotesError> {
        check_name(name)?;
        check_name(target)?;
        let temp = Temp::free(&self.dir);
        rustix::fs::symlinkat(target, &self.dir, &temp.name)
            .map_err(|errno| failed(name, errno))?;
        self.rename_over(&temp, name)
    }

    /// Returns the entries of the directory, sorted by name and without temporary files.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn names(&self) -> Result<Vec<(String, Kind)>, NotesError> {
        let names = first_names(&self.dir).map_err(|errno| failed(self.name, errno))?;
        let utf8 = |(name, kind)| Some((String::from_utf8(name).ok()?, kind));
        Ok(names.into_iter().filter_map(utf8).filter(|(name, _)| !is_temporary(name)).collect())
    }

    /// Writes a temporary file. `act_fs::Dir::stage` is not used: the notes are the user's files, so they have the mode that
    /// the umask gives, and the temporary name is one that no view shows and that the next task removes.
    fn temp(&self, name: &str, bytes: &[u8]) -> Result<Temp, NotesError> {
        check_name(name)?;
        Temp::write(&self.dir, bytes, None, None).map_err(|error| failed(name, error))
    }

    fn rename_over(&self, temp: &Temp, name: &str) -> Result<(), NotesError> {
        match rustix::fs::renameat(&self.dir, &temp.name, &self.dir, name) {
            Ok(()) => Ok(()),
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                Err(NotesError::Occupied { dir: self.name, name: name.to_owned() })
            }
            Err(errno) => Err(failed(name, errno)),
        }
    }
}

/// Appends the line `/NAME/`, which hides the directory of act's notes, to the root's `.gitignore`. Returns whether it
/// was added: nothing changes where a rule hides the directory already, or where a line names it. The line is anchored,
/// because `NAME/` would hide every nested directory of this name, which belongs to the user.
///
/// # Errors
/// `ForeignGitignore` for a link, a special file or one file under two names, which are left alone; `Failed` when the
/// file cannot be written.
pub fn add_gitignore_line(root: &Path, name: &str) -> Result<bool, NotesError> {
    let hidden = Root::open(root)
        .is_ok_and(|root| IgnoreRules::new(&root).ignores_path(name.as_bytes(), true));
    if hidden {
        return Ok(false);
    }
    let root = open_root(root)?;
    let flags = OFlags::RDWR
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat(&root, GITIGNORE, flags, Mode::from_raw_mode(0o666)) {
        Ok(fd) => fd,
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(NotesError::ForeignGitignore),
        Err(errno) => return Err(failed(GITIGNORE, errno)),
    };
    let (fd, stat) = regular(fd).map_err(|_| NotesError::ForeignGitignore)?;
    // A hard link would change the file under its other name as well.
    if stat.st_nlink > 1 {
        return Err(NotesError::ForeignGitignore);
    }
    let mut file = File::from(fd);
    let io = |error| failed(GITIGNORE, error);
    let copy = file.try_clone().map_err(io)?;
    let Some(before) = read_whole(copy.into(), MAX_GITIGNORE).map_err(io)? else {
        return Err(failed(GITIGNORE, "it is too large"));
    };
    // A later line may undo the line that names the directory; then the user wants git to see the directory.
    let names_it = |line: &[u8]| {
        let line = line.strip_prefix(b"/").unwrap_or(line);
        line.strip_suffix(b"/").unwrap_or(line) == name.as_bytes()
    };
    if lines(&before).any(names_it) {
        return Ok(false);
    }
    let newline = if before.last().is_none_or(|last| *last == b'\n') { "" } else { "\n" };
    file.write_all(format!("{newline}/{name}/\n").as_bytes()).map_err(io)?;
    Ok(true)
}

/// Returns whether two versions of the root's `.gitignore` differ only in a line that [`add_gitignore_line`] adds.
pub fn hides_only_notes(before: &str, now: &str) -> bool {
    let Some(added) = now.strip_prefix(before) else { return false };
    let added = if before.is_empty() || before.ends_with('\n') {
        added
    } else {
        added.strip_prefix('\n').unwrap_or(added)
    };
    NOTES_DIRS.iter().any(|name| added == format!("/{name}/\n"))
}

/// Returns directories named `agent` below the root that the unanchored line `agent/` hides from git and from the
/// tested tree. act 0.1.0 wrote that line; it is the user's file, so only the user changes it. Returns none where the
/// root's `.gitignore` has no such line. Looks at no more than 20,000 directories.
pub fn hidden_by_unanchored_line(root: &Path) -> Vec<String> {
    let mut found = vec![];
    // A tree that cannot be read whole shows what was found before the error.
    let _ = find_hidden(root, &mut found);
    found.sort();
    found
}

fn find_hidden(root: &Path, found: &mut Vec<String>) -> Result<(), Errno> {
    let root = Root::open(root)?;
    let (fd, _) = regular(root.open_real(GITIGNORE.as_bytes(), READ)?)?;
    let text = read_whole(fd, MAX_GITIGNORE).ok().flatten().unwrap_or_default();
    if !lines(&text).any(|line| matches!(line, b"agent" | b"agent/")) {
        return Ok(());
    }
    let (rules, never) = (IgnoreRules::new(&root), StopCheck::default());
    let start = root.open_real(b"", DIRECTORY)?;
    let mut walk = TreeWalk::start((&rules, None), &never, b"", start, None)?;
    let mut entered = 0;
    while let Some(entry) = walk.next()? {
        if entry.kind != Kind::Directory || entry.name() == b".git" {
            continue;
        }
        if entry.ignored {
            let nested = entry.name() == b"agent" && entry.path != b"agent";
            found.extend(String::from_utf8(entry.path).ok().filter(|_| nested));
        } else if entered < MAX_DIRECTORIES {
            entered += 1;
            // An unreadable directory is skipped.
            let _ = walk.enter(&entry);
        }
    }
    Ok(())
}

fn lines(gitignore: &[u8]) -> impl Iterator<Item = &[u8]> {
    gitignore.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end)
}

fn open_root(root: &Path) -> Result<OwnedFd, NotesError> {
    let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
    rustix::fs::open(root, flags, Mode::empty())
        .map_err(|errno| failed(&root.display().to_string(), errno))
}

/// Refuses a path where a single name is expected.
fn check_name(name: &str) -> Result<(), NotesError> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(failed(name, "it is not a plain name"));
    }
    Ok(())
}

fn failed(name: &str, why: impl std::fmt::Display) -> NotesError {
    NotesError::Failed { name: name.to_owned(), why: why.to_string() }
}

impl From<NotesError> for act_core::Failure {
    fn from(error: NotesError) -> Self {
        Self::refused("agent_dir", error.to_string()).hint(error.hint())
    }
}

#[cfg(test)]
mod tests;
