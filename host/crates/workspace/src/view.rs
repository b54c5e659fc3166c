//! A repository as one kind of reader may see it: which names exist, and how a path becomes an open handle.
//!
//! Every path is resolved from the handle of the root. Links are followed inside the root and nowhere else; the real
//! name is judged, and then the handle that was opened is judged again. The caller gets that handle, so nothing can be
//! swapped between the check and the use.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use act_fs::{DIRECTORY, LINK, MAX_DEPTH, READ, Root};
use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;

use super::exclusion::{self, Rule};
use super::git::{DirRules, IgnoreRules};
use super::listing::scan;
use super::notes::{is_in_notes, notes_dir_of};
use super::overlay::{Lookup, Overlay, OverlayFile};
use super::paths::{PathGlobs, is_at_or_below, join};

/// Maximum number of bytes of a path, as in the system itself.
pub(super) const MAX_PATH: usize = 4096;
/// Maximum number of names of a directory that are read at a time.
const NAMES_AT_ONCE: usize = 4_096;
/// Maximum number of links on a path, as in the system itself.
const MAX_LINKS: usize = 40;
/// Why a FIFO, a socket or a device is refused.
const NOT_A_FILE: &str = "not a regular file or directory";

/// The kind of reader, which decides what is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Secrets, binaries, tool directories and everything that git ignores are left out.
    Scout,
    /// Secrets are left out, and tool directories only where git ignores them.
    Tool,
}

/// Whether a symbolic link at the end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowLinks {
    Yes,
    /// The link itself is opened.
    No,
}

/// The kinds of entries that a view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    File,
    Directory,
    Link,
}

impl Kind {
    pub(super) fn of(mode: FileType) -> Option<Self> {
        match mode {
            FileType::RegularFile => Some(Self::File),
            FileType::Directory => Some(Self::Directory),
            FileType::Symlink => Some(Self::Link),
            _ => None,
        }
    }
}

/// An open entry and its real repository-relative name; the name of the root is empty.
#[derive(Debug)]
pub struct OpenEntry {
    pub handle: Handle,
    pub path: String,
    pub kind: Kind,
    pub stat: Stat,
}

/// An open entry of the repository or a file of the overlay.
#[derive(Debug)]
pub enum Handle {
    /// An entry of the repository. The handle of a link can only be asked for its metadata and its target.
    Real(OwnedFd),
    /// The content of a file in the overlay when it was looked up. It is shared and not copied.
    Overlay(Arc<Vec<u8>>),
}

impl Handle {
    /// Reads bytes of a file, and fewer than the buffer holds at its end.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let fd = match self {
            Self::Real(fd) => fd,
            Self::Overlay(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let count = buffer.len().min(bytes.len() - from);
                buffer[..count].copy_from_slice(&bytes[from..from + count]);
                return Ok(count);
            }
        };
        loop {
            match rustix::io::pread(fd, &mut *buffer, offset) {
                Err(Errno::INTR) => {}
                read => return Ok(read?),
            }
        }
    }

    /// Appends bytes of a file to `bytes`, at most as many as fit without another allocation. Memory that is filled at once is
    /// not cleared before. Returns the number of bytes, which is 0 at the end of the file.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn append_at(&self, bytes: &mut Vec<u8>, offset: u64) -> std::io::Result<usize> {
        let fd = match self {
            Self::Real(fd) => fd,
            Self::Overlay(file) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(file.len());
                let count = (bytes.capacity() - bytes.len()).min(file.len() - from);
                bytes.extend_from_slice(&file[from..from + count]);
                return Ok(count);
            }
        };
        loop {
            match rustix::io::pread(fd, rustix::buffer::spare_capacity(bytes), offset) {
                Err(Errno::INTR) => {}
                read => return Ok(read?),
            }
        }
    }

    /// Returns the number of bytes that a file has now.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn size(&self) -> std::io::Result<u64> {
        match self {
            Self::Real(fd) => Ok(u64::try_from(rustix::fs::fstat(fd)?.st_size).unwrap_or_default()),
            Self::Overlay(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Returns the target of a link.
    ///
    /// # Errors
    ///
    /// The entry is no link, or the system cannot read it.
    pub fn link_target(&self) -> std::io::Result<std::ffi::CString> {
        match self {
            Self::Real(fd) => Ok(rustix::fs::readlinkat(fd, "", vec![])?),
            Self::Overlay(_) => Err(Errno::INVAL.into()),
        }
    }

    /// Returns the handle of the system for a directory. The overlay holds directories by a handle of the root.
    pub(super) fn into_directory(self) -> Result<OwnedFd, ViewError> {
        match self {
            Self::Real(fd) => Ok(fd),
            Self::Overlay(_) => Err(ViewError::NotDirectory),
        }
    }
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    pub name: String,
    pub kind: Kind,
}

/// The position in a directory after which the next part begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirMark(Vec<u8>);

/// Some of the names of a directory. A part may be empty although others follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirPart {
    pub entries: Vec<DirEntry>,
    pub next: Option<DirMark>,
}

/// Why a path cannot be opened in a view.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    #[error("nothing there")]
    NotFound,
    /// A component gets the same answer as for a missing file. The audit log records that the access was denied, without
    /// the rule.
    #[error("{path} is not in view ({})", rule.word())]
    Excluded { path: String, rule: Rule },
    #[error("{path}: {why}")]
    NotPermitted { path: String, why: &'static str },
    #[error("not a directory")]
    NotDirectory,
    #[error("too many links on the way")]
    Loop,
    #[error("{0}")]
    Invalid(&'static str),
    #[error("path too long or too deep")]
    TooLong,
    #[error("the system refused: {0}")]
    Io(#[from] Errno),
}

impl ViewError {
    /// Returns the stable word for an invalid request, or `None` for a valid one that cannot be answered.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            Self::NotPermitted { why, .. } if *why == NOT_A_FILE => Some("not_a_file"),
            Self::NotPermitted { .. } => Some("outside_repo"),
            Self::NotDirectory => Some("not_a_file"),
            Self::Loop | Self::Invalid(_) | Self::TooLong => Some("bad_arguments"),
            Self::NotFound | Self::Excluded { .. } | Self::Io(_) => None,
        }
    }
}

/// Checks whether the caller still waits for a result. Work on a thread of its own cannot be interrupted from outside, so
/// every loop over names, files or lines makes this check.
#[derive(Clone, Default)]
pub(super) struct StopCheck(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl StopCheck {
    fn new(stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(stopped)))
    }

    pub(super) fn go_on(&self) -> Result<(), Errno> {
        match &self.0 {
            Some(stopped) if stopped() => Err(Errno::CANCELED),
            _ => Ok(()),
        }
    }
}

/// A function that gets the path of each file that is read.
type OnRead = dyn Fn(&str) + Send + Sync;

/// A repository as one kind of reader sees it. Clones share everything.
#[derive(Clone)]
pub struct RepoView(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    root: Root,
    profile: Profile,
    ignores: Arc<IgnoreRules>,
    /// The name of the directory that holds act's notes; `None` where both names are the user's.
    notes: Option<&'static str>,
    /// Secret names that the user allowed tools to see.
    allowed_secrets: PathGlobs,
    /// The only files and directories in view; `None` for no such bound.
    parts: Option<Arc<[String]>>,
    stop: StopCheck,
    on_read: Option<Arc<OnRead>>,
    /// Changes that hide what the repository has under the same names.
    overlay: Option<Overlay>,
    /// Device and inode of the secrets that have several names, from the first time that somebody reads such a file.
    linked_secrets: Arc<OnceLock<BTreeSet<(u64, u64)>>>,
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What a view decides about all files of a directory at once.
#[derive(Debug)]
pub(super) struct JudgedDirectory {
    pub(super) path: String,
    rules: Arc<DirRules>,
    /// Nothing but the last name of a file and git's rules in the directory can hide it.
    is_plain: bool,
}

/// Maximum number of names among which secrets with several names are looked for: more than a checkout has.
const MAX_LOOKED_AT: usize = 200_000;

/// The bounds of one reader of a view.
pub struct Restriction {
    /// Paths that the reader sees, with the directories on the way to them; `None` for all that the view shows.
    pub parts: Option<Vec<String>>,
    /// Returns true when the caller has gone. Work over names, files and lines ends then.
    pub stopped: Box<dyn Fn() -> bool + Send + Sync>,
    /// Gets the real path of each file that is read, once or more often.
    pub on_read: Box<OnRead>,
}

impl RepoView {
    /// Opens a view of the repository at `root`. The ignore rules are read once: a changed `.gitignore` needs a new
    /// view.
    ///
    /// # Errors
    /// The root cannot be opened.
    pub fn open(root: &Path, profile: Profile) -> Result<Self, ViewError> {
        Ok(Self::of(Root::open(root)?, profile))
    }

    pub(super) fn of(root: Root, profile: Profile) -> Self {
        let ignores = Arc::new(IgnoreRules::new(&root));
        let notes = notes_dir_of(&root, &ignores);
        Self(Arc::new(Inner {
            root,
            profile,
            ignores,
            notes,
            allowed_secrets: PathGlobs::default(),
            parts: None,
            stop: StopCheck::default(),
            on_read: None,
            overlay: None,
            linked_secrets: Arc::default(),
        }))
    }

    /// Returns a view in which tools see secret names that match `allowed`. A Scout never sees a secret.
    pub fn with_secrets(&self, allowed: &PathGlobs) -> Self {
        Self(Arc::new(Inner {
            allowed_secrets: allowed.clone(),
            linked_secrets: Arc::default(),
            ..(*self.0).clone()
        }))
    }

    /// Returns the view for one reader.
    pub fn restricted(&self, to: Restriction) -> Self {
        Self(Arc::new(Inner {
            parts: to.parts.map(Into::into).or_else(|| self.0.parts.clone()),
            stop: StopCheck::new(to.stopped),
            on_read: Some(to.on_read.into()),
            ..(*self.0).clone()
        }))
    }

    /// Returns a view whose work over names, files and lines fails with `CANCELED` as soon as `stopped` returns true.
    pub fn until(&self, stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { stop: StopCheck::new(stopped), ..(*self.0).clone() }))
    }

    /// Reports that the content of `path` is being read.
    pub fn record_read(&self, path: &str) {
        if let Some(on_read) = &self.0.on_read {
            on_read(path);
        }
    }

    /// Returns a view that shows the files of an overlay, if there is one, as if they were in the repository.
    #[must_use]
    pub fn over<'o>(&self, overlay: impl Into<Option<&'o Overlay>>) -> Self {
        let overlay = overlay.into().cloned();
        Self(Arc::new(Inner { overlay, ..(*self.0).clone() }))
    }

    /// Returns a view that always walks component by component, as on a kernel without `openat2`.
    #[must_use]
    pub fn without_openat2(self) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        inner.root = inner.root.without_openat2();
        inner.ignores = Arc::new(IgnoreRules::new(&inner.root));
        Self(Arc::new(inner))
    }

    /// Returns the kind of reader.
    pub fn profile(&self) -> Profile {
        self.0.profile
    }

    /// Returns a part of what a directory shows, sorted by name and beginning after `after`. Links are shown as links.
    /// Special files, excluded names and names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// `NotDirectory` for another kind of entry; `Io` when the directory cannot be listed or the reader was stopped.
    pub fn read_dir(&self, dir: &OpenEntry, after: Option<&DirMark>) -> Result<DirPart, ViewError> {
        if dir.kind != Kind::Directory {
            return Err(ViewError::NotDirectory);
        }
        let around = self.0.ignores.of_dir(dir.path.as_bytes());
        let from = after.map_or(Bound::Unbounded, |DirMark(name)| Bound::Excluded(name.as_slice()));
        let over = self.overlay().map(|over| over.names(&dir.path)).unwrap_or_default();
        let real = match self.overlay().map(|over| over.lookup(&dir.path)) {
            None | Some(Lookup::Lower) => match &dir.handle {
                Handle::Real(fd) => Some(fd),
                Handle::Overlay(_) => return Err(ViewError::NotDirectory),
            },
            Some(Lookup::Directory) => None,
            Some(Lookup::File(_) | Lookup::Nothing | Lookup::NotDirectory) => {
                return Err(ViewError::NotFound);
            }
        };
        let scanned = scan(real, &over, from, NAMES_AT_ONCE, &self.0.stop)?;
        let next =
            scanned.names.last().filter(|_| scanned.more).map(|last| DirMark(last.0.clone()));
        let mut entries = vec![];
        for (name, kind) in scanned.names {
            let Ok(name) = String::from_utf8(name) else { continue };
            let path = join(&dir.path, &name);
            let ignored =
                || self.0.ignores.ignores(&around, path.as_bytes(), kind == Kind::Directory);
            if self.rule_with(&path, Some(kind), ignored).is_none() {
                entries.push(DirEntry { name, kind });
            }
        }
        Ok(DirPart { entries, next })
    }

    /// Returns whether git tracks the file `path`; `None` where the repository has no git. A new file of an overlay is not
    /// tracked.
    pub fn is_tracked(&self, path: &str) -> Option<bool> {
        self.0.ignores.tracks(path.as_bytes())
    }

    /// Returns the rule that excludes a real path from this view, if there is one.
    pub fn rule(&self, path: &str, kind: Kind) -> Option<Rule> {
        self.rule_of(path, Some(kind))
    }

    /// Like [`RepoView::rule`]. Without a kind, git's rules and rules for one kind alone are left out.
    pub(super) fn rule_of(&self, path: &str, kind: Option<Kind>) -> Option<Rule> {
        self.rule_with(path, kind, || {
            let is_dir = kind == Some(Kind::Directory);
            kind.is_some() && self.0.ignores.ignores_path(path.as_bytes(), is_dir)
        })
    }

    pub(super) fn rule_with(
        &self,
        path: &str,
        kind: Option<Kind>,
        ignored: impl FnOnce() -> bool,
    ) -> Option<Rule> {
        if path.is_empty() {
            return None;
        }
        let inner = &*self.0;
        let by_git = || match inner.profile {
            Profile::Scout => ignored().then_some(Rule::Ignored),
            Profile::Tool => (exclusion::is_in_build_directory(path, kind) && ignored())
                .then_some(Rule::BuildDirectory),
        };
        exclusion::by_name(inner.profile, path, kind)
            .or_else(|| (!self.is_in_a_part(path, kind)).then_some(Rule::NotGranted))
            .or_else(|| is_in_notes(path, inner.notes).then_some(Rule::Own))
            .or_else(|| {
                let of_git = kind.is_some() && inner.ignores.is_of_git(path.as_bytes());
                of_git.then_some(Rule::VersionControl)
            })
            .or_else(|| {
                let secret = exclusion::is_secret(path) && !self.is_allowed_secret(path);
                secret.then_some(Rule::Secret)
            })
            .or_else(by_git)
    }

    /// Judges a directory by what all files in it share, so that it is judged once for all of them.
    pub(super) fn judge(&self, directory: &str) -> JudgedDirectory {
        let inner = &*self.0;
        let rules = inner.ignores.of_dir(directory.as_bytes());
        let is_plain = inner.profile == Profile::Scout
            && inner.parts.is_none()
            && !directory.is_empty()
            && !is_in_notes(directory, inner.notes)
            && !rules.is_of_git()
            && !exclusion::hides_all_in(directory);
        JudgedDirectory { path: directory.to_owned(), rules, is_plain }
    }

    /// Returns whether a file is not in view. `directory` is the judged directory that it lies in.
    pub(super) fn hides_file(
        &self,
        directory: &JudgedDirectory,
        path: &str,
        ignored: impl FnOnce() -> bool,
    ) -> bool {
        if !directory.is_plain {
            return self.rule_with(path, Some(Kind::File), ignored).is_some();
        }
        exclusion::hides_file(last_name(&directory.path), last_name(path)) || ignored()
    }

    /// Returns whether a file is not in view, as [`RepoView::rule`] tells it.
    pub(super) fn hides(&self, directory: &JudgedDirectory, path: &str) -> bool {
        let ignored = || self.0.ignores.ignores(&directory.rules, path.as_bytes(), false);
        self.hides_file(directory, path, ignored)
    }

    /// Returns whether the path lies in a part, or is a directory on the way to one. A path of unknown kind may be such a
    /// directory.
    fn is_in_a_part(&self, path: &str, kind: Option<Kind>) -> bool {
        let Some(parts) = &self.0.parts else { return true };
        let may_lead = matches!(kind, None | Some(Kind::Directory));
        parts.iter().any(|part| {
            let (path, part) = (path.as_bytes(), part.as_bytes());
            is_at_or_below(path, part) || (may_lead && is_at_or_below(part, path))
        })
    }

    fn is_allowed_secret(&self, path: &str) -> bool {
        let allowed = &self.0.allowed_secrets;
        self.0.profile == Profile::Tool && (allowed.matches(path) || allowed.may_lie_below(path))
    }

    /// Returns the overlay whose files this view shows, if there is one.
    pub fn overlay(&self) -> Option<&Overlay> {
        self.0.overlay.as_ref()
    }

    /// Returns whether the file or directory at a real name is in the overlay.
    pub(super) fn is_in_overlay(&self, path: &str) -> bool {
        let found = self.overlay().map(|over| over.lookup(path));
        matches!(found, Some(Lookup::File(_) | Lookup::Directory))
    }

    pub(super) fn root(&self) -> &Root {
        &self.0.root
    }

    pub(super) fn stop(&self) -> &StopCheck {
        &self.0.stop
    }

    pub(super) fn ignores(&self) -> &IgnoreRules {
        &self.0.ignores
    }

    /// Opens `path`, which starts in the directory `base`. `base` is a real name that this view returned before.
    ///
    /// # Errors
    /// `NotFound` for a missing name, `Excluded` for one that is not in view, `NotPermitted` for a path that leads out
    /// of the root, `Invalid`, `TooLong` and `Loop` for one that cannot be resolved.
    pub fn resolve(
        &self,
        base: &str,
        path: &str,
        follow: FollowLinks,
    ) -> Result<OpenEntry, ViewError> {
        if path.is_empty() {
            return Err(ViewError::Invalid("an empty path"));
        }
        if path.contains('\0') {
            return Err(ViewError::Invalid("a path with a NUL byte"));
        }
        if base.len() + path.len() > MAX_PATH {
            return Err(ViewError::TooLong);
        }
        if path.starts_with('/') {
            return Err(not_permitted(path, "an absolute path"));
        }
        // `x/` and `x/.` mean the directory x, also behind a link.
        let as_directory = path.ends_with('/') || path.ends_with("/.") || path == ".";
        let follow = if as_directory { FollowLinks::Yes } else { follow };
        let seen = self.find(base, path, follow)?;
        if as_directory && seen.kind != Kind::Directory {
            return Err(ViewError::NotDirectory);
        }
        Ok(seen)
    }

    fn find(&self, base: &str, path: &str, follow: FollowLinks) -> Result<OpenEntry, ViewError> {
        let asked: Vec<&str> = components(base).chain(components(path)).collect();
        if asked.len() > MAX_DEPTH {
            return Err(ViewError::TooLong);
        }
        // Without a link and without `..` the requested name is the real one.
        if !asked.contains(&"..") {
            let name = asked.join("/");
            self.admit(&name, None)?;
            if let Some(found) = self.resolve_in_overlay(&name) {
                return found;
            }
            if let Some(opened) = self.root().open_at_once(name.as_bytes(), READ) {
                return self.check_handle(opened.map_err(|errno| failed(errno, &name))?, name);
            }
        }
        self.walk(asked, follow)
    }

    /// Opens one component after the other. Links are expanded here, never by the system.
    fn walk(&self, asked: Vec<&str>, follow: FollowLinks) -> Result<OpenEntry, ViewError> {
        let mut todo: Vec<String> = asked.into_iter().rev().map(String::from).collect();
        let mut above: Vec<(String, OwnedFd)> = vec![];
        let mut links = 0;
        while let Some(part) = todo.pop() {
            let dir = above.last().map_or(self.root().as_fd(), |(_, fd)| fd.as_fd());
            if part == ".." {
                if above.pop().is_none() {
                    return Err(not_permitted("..", "outside the repository"));
                }
                continue;
            }
            let name = join(above.last().map_or("", |(name, _)| name), &part);
            self.admit(&name, None)?;
            if above.len() >= MAX_DEPTH || name.len() > MAX_PATH {
                return Err(ViewError::TooLong);
            }
            let seen = match self.resolve_in_overlay(&name) {
                Some(found) => found?,
                None => {
                    let stat = rustix::fs::statat(dir, &*part, AtFlags::SYMLINK_NOFOLLOW)
                        .map_err(|errno| failed(errno, &name))?;
                    match Kind::of(FileType::from_raw_mode(stat.st_mode)) {
                        Some(Kind::Link) if todo.is_empty() && follow == FollowLinks::No => {
                            return self.check_handle(open_in(dir, &part, LINK, &name)?, name);
                        }
                        Some(Kind::Link) => {
                            links += 1;
                            if links > MAX_LINKS {
                                return Err(ViewError::Loop);
                            }
                            self.admit(&name, Some(Kind::Link))?;
                            let target = link_target(dir, &part, &name)?;
                            todo.extend(components(&target).rev().map(String::from));
                            continue;
                        }
                        Some(_) => {
                            let opened = rustix::fs::openat(dir, &*part, READ, Mode::empty());
                            let opened = opened.map_err(|errno| failed(swapped(errno), &name))?;
                            self.check_handle(opened, name)?
                        }
                        None => return Err(not_permitted(&name, NOT_A_FILE)),
                    }
                }
            };
            if todo.is_empty() {
                return Ok(seen);
            }
            if seen.kind != Kind::Directory {
                return Err(ViewError::NotDirectory);
            }
            above.push((seen.path, seen.handle.into_directory()?));
        }
        match above.pop() {
            Some((name, fd)) => {
                self.resolve_in_overlay(&name).unwrap_or_else(|| self.check_handle(fd, name))
            }
            None => self.check_handle(open_in(self.root().as_fd(), ".", READ, "")?, String::new()),
        }
    }

    /// Looks up a real name in the overlay. Returns `None` where the repository itself is to be asked.
    fn resolve_in_overlay(&self, name: &str) -> Option<Result<OpenEntry, ViewError>> {
        let seen = match self.overlay()?.lookup(name) {
            Lookup::Lower => return None,
            Lookup::Nothing => Err(ViewError::NotFound),
            Lookup::NotDirectory => Err(ViewError::NotDirectory),
            Lookup::File(file) => self.see_in_overlay(name, &file),
            Lookup::Directory => {
                // The names of such a directory are listed from the overlay, never by this handle.
                let root = self.root().as_fd().try_clone_to_owned();
                root.map_err(|_| ViewError::Io(Errno::MFILE))
                    .and_then(|root| self.check_handle(root, name.to_owned()))
            }
        };
        Some(seen.map(|seen| {
            // The overlay has no inodes, and the number has to be the same whenever a name is looked up.
            let mut stat = seen.stat;
            stat.st_ino = inode_of(name);
            OpenEntry { stat, ..seen }
        }))
    }

    fn see_in_overlay(&self, name: &str, file: &OverlayFile) -> Result<OpenEntry, ViewError> {
        self.admit(name, Some(Kind::File))?;
        let root = rustix::fs::fstat(self.root().as_fd()).map_err(|errno| failed(errno, name))?;
        let (handle, stat) = (Handle::Overlay(file.bytes()), file.stat(root));
        Ok(OpenEntry { handle, path: name.to_owned(), kind: Kind::File, stat })
    }

    /// Checks the open handle itself.
    fn check_handle(&self, fd: OwnedFd, path: String) -> Result<OpenEntry, ViewError> {
        let stat = rustix::fs::fstat(&fd).map_err(|errno| failed(errno, &path))?;
        let Some(kind) = Kind::of(FileType::from_raw_mode(stat.st_mode)) else {
            return Err(not_permitted(&path, NOT_A_FILE));
        };
        self.admit(&path, Some(kind))?;
        if kind == Kind::File && stat.st_nlink > 1 && self.is_linked_secret(&stat, &path) {
            return Err(ViewError::Excluded { path, rule: Rule::Secret });
        }
        Ok(OpenEntry { handle: Handle::Real(fd), path, kind, stat })
    }

    /// Returns whether a file with several names has the name of a secret elsewhere in the repository.
    fn is_linked_secret(&self, stat: &Stat, path: &str) -> bool {
        let known = self.0.linked_secrets.get_or_init(|| self.find_linked_secrets());
        known.contains(&(stat.st_dev, stat.st_ino)) && !self.is_allowed_secret(path)
    }

    fn find_linked_secrets(&self) -> BTreeSet<(u64, u64)> {
        let (mut found, mut todo, mut left) = (BTreeSet::new(), vec![String::new()], MAX_LOOKED_AT);
        while let Some(directory) = todo.pop() {
            let Ok(fd) = self.root().open_real(directory.as_bytes(), DIRECTORY) else { continue };
            let Ok(entries) = rustix::fs::Dir::read_from(&fd) else { continue };
            for entry in entries.flatten() {
                let Ok(name) = entry.file_name().to_str() else { continue };
                let path = join(&directory, name);
                left = match left {
                    0 => return found,
                    left => left - 1,
                };
                if matches!(name, "." | "..") || exclusion::is_version_control(name) {
                    continue;
                }
                let is_secret = exclusion::is_secret(&path) && !self.is_allowed_secret(&path);
                if !is_secret
                    && !matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
                {
                    continue;
                }
                let Ok(stat) = rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
                    continue;
                };
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => todo.push(path),
                    FileType::RegularFile if is_secret && stat.st_nlink > 1 => {
                        found.insert((stat.st_dev, stat.st_ino));
                    }
                    _ => {}
                }
            }
        }
        found
    }

    fn admit(&self, path: &str, kind: Option<Kind>) -> Result<(), ViewError> {
        match self.rule_of(path, kind) {
            Some(rule) => Err(ViewError::Excluded { path: path.to_owned(), rule }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for RepoView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RepoView({:?})", self.0.profile)
    }
}

/// Returns an inode number for a file that exists in the overlay alone.
fn inode_of(name: &str) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hash = std::hash::DefaultHasher::new();
    name.hash(&mut hash);
    hash.finish()
}

fn open_in(
    dir: BorrowedFd<'_>,
    part: &str,
    flags: rustix::fs::OFlags,
    name: &str,
) -> Result<OwnedFd, ViewError> {
    rustix::fs::openat(dir, part, flags, Mode::empty()).map_err(|errno| failed(errno, name))
}

fn link_target(dir: BorrowedFd<'_>, part: &str, name: &str) -> Result<String, ViewError> {
    let target = rustix::fs::readlinkat(dir, part, vec![])
        .map_err(|errno| failed(swapped(errno), name))?
        .into_string()
        .map_err(|_| ViewError::Invalid("a link whose target is not UTF-8"))?;
    if target.starts_with('/') {
        return Err(not_permitted(name, "a link with an absolute target"));
    }
    Ok(target)
}

/// Returns the error of a name that is not what it was a moment before: another program has put something else in its place, so
/// what was there is gone. The system reports a link that is none any more, or is one now, as if the caller had made a mistake.
fn swapped(errno: Errno) -> Errno {
    match errno {
        Errno::INVAL | Errno::LOOP => Errno::NOENT,
        other => other,
    }
}

fn components(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !matches!(*part, "" | "."))
}

fn not_permitted(path: &str, why: &'static str) -> ViewError {
    ViewError::NotPermitted { path: path.to_owned(), why }
}

fn failed(errno: Errno, path: &str) -> ViewError {
    match errno {
        Errno::NOENT => ViewError::NotFound,
        Errno::NOTDIR => ViewError::NotDirectory,
        Errno::XDEV => not_permitted(path, "outside the repository"),
        Errno::ACCESS | Errno::PERM => not_permitted(path, "the system does not permit it"),
        // The path names a socket.
        Errno::NXIO => not_permitted(path, NOT_A_FILE),
        Errno::NAMETOOLONG => ViewError::TooLong,
        Errno::LOOP => ViewError::Loop,
        other => ViewError::Io(other),
    }
}

#[cfg(test)]
mod tests;
