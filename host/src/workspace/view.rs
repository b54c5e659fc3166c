//! The one way to read a repository: resolve from the root's handle, judge the real name, then judge the
//! handle that was opened.
//!
//! Links are followed inside the root and nowhere else. What a caller gets is the handle that was judged,
//! so nothing can be swapped between the look and the use.

use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::exclusion::{self, Rule};
use super::globs::{PathGlobs, is_at_or_below};
use super::handle::{self, MAX_DEPTH, READ, Root};
use super::ignored::IgnoreRules;
use super::scan;

/// Bytes of a path at most, the system's own bound.
pub(super) const MAX_PATH: usize = 4096;
/// Links on a path at most, the system's own bound.
const MAX_LINKS: usize = 40;
/// Names that one directory may show.
const MAX_NAMES: usize = 200_000;

/// Whose eyes: what is left out differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Secrets, binaries, tool directories and everything that git ignores are not there.
    Scout,
    /// Secrets are not there, and tool directories only where git ignores them.
    Tool,
}

/// What to do with a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Last {
    Follow,
    /// Answer the link itself.
    Link,
}

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

/// An open handle and the real repository-relative name that it was reached by; the root's name is empty.
/// The handle of a link can be stat'ed only.
#[derive(Debug)]
pub struct Seen {
    pub fd: OwnedFd,
    pub path: String,
    pub kind: Kind,
    pub stat: Stat,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    pub name: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    #[error("nothing there")]
    NotFound,
    /// Answered to a component as if nothing were there, and audited.
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
    /// The word for a request that makes no sense; none for one that is only not answered.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            Self::NotPermitted { why, .. } if *why == handle::NOT_A_FILE => Some("not_a_file"),
            Self::NotPermitted { .. } => Some("outside_repo"),
            Self::NotDirectory => Some("not_a_file"),
            Self::Loop | Self::Invalid(_) | Self::TooLong => Some("bad_arguments"),
            Self::NotFound | Self::Excluded { .. } | Self::Io(_) => None,
        }
    }
}

/// A repository as one kind of reader sees it. Clones share everything.
#[derive(Debug, Clone)]
pub struct RepoView(Arc<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    root: Root,
    profile: Profile,
    ignores: Arc<IgnoreRules>,
    /// Secret names that the user lifted for tools.
    lifted: PathGlobs,
    /// The only paths in view, where a grant names some.
    only: Option<Vec<String>>,
}

impl RepoView {
    /// What git ignores is read now; a later change of it needs a new view.
    pub fn open(root: &Path, profile: Profile) -> Result<Self, ViewError> {
        Ok(Self::of(Root::open(root)?, profile))
    }

    pub(super) fn of(root: Root, profile: Profile) -> Self {
        let ignores = Arc::new(IgnoreRules::new(&root));
        let lifted = PathGlobs::default();
        Self(Arc::new(Inner { root, profile, ignores, lifted, only: None }))
    }

    /// With these paths, secret names are no reason to leave something out. Tools only: a Scout never sees
    /// a secret.
    pub fn lifting(&self, allow: &PathGlobs) -> Self {
        Self(Arc::new(Inner { lifted: allow.clone(), ..(*self.0).clone() }))
    }

    /// Nothing but these paths and what lies in them.
    pub fn narrowed(&self, paths: &[String]) -> Self {
        Self(Arc::new(Inner { only: Some(paths.to_vec()), ..(*self.0).clone() }))
    }

    /// Always walk component by component, as where the kernel has no `openat2`.
    pub fn without_openat2(self) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        inner.root = inner.root.without_openat2();
        inner.ignores = Arc::new(IgnoreRules::new(&inner.root));
        Self(Arc::new(inner))
    }

    pub fn profile(&self) -> Profile {
        self.0.profile
    }

    /// `path` as seen from the directory `base`, which is a real name that this view gave out before.
    pub fn resolve(&self, base: &str, path: &str, last: Last) -> Result<Seen, ViewError> {
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
        let last = if as_directory { Last::Follow } else { last };
        let seen = self.find(base, path, last)?;
        if as_directory && seen.kind != Kind::Directory {
            return Err(ViewError::NotDirectory);
        }
        Ok(seen)
    }

    /// What the directory shows, sorted by name: links as links, special files and what is excluded left
    /// out, and so is a name that is no UTF-8.
    pub fn read_dir(&self, dir: &Seen) -> Result<Vec<DirEntry>, ViewError> {
        if dir.kind != Kind::Directory {
            return Err(ViewError::NotDirectory);
        }
        let around = self.0.ignores.of_dir(dir.path.as_bytes());
        let mut entries = vec![];
        let mut from = Bound::Unbounded;
        loop {
            let part = scan::scan(&dir.fd, from.as_ref().map(Vec::as_slice))?;
            let last = part.names.last().map(|(name, _)| name.clone());
            for (name, kind) in part.names {
                let Ok(name) = String::from_utf8(name) else { continue };
                let path = join(&dir.path, &name);
                let ignored =
                    || self.0.ignores.ignores(&around, path.as_bytes(), kind == Kind::Directory);
                if self.rule_with(&path, Some(kind), ignored).is_none() {
                    entries.push(DirEntry { name, kind });
                }
            }
            match last {
                Some(last) if part.more && entries.len() < MAX_NAMES => {
                    from = Bound::Excluded(last)
                }
                _ => break,
            }
        }
        entries.truncate(MAX_NAMES);
        Ok(entries)
    }

    fn find(&self, base: &str, path: &str, last: Last) -> Result<Seen, ViewError> {
        let asked: Vec<&str> = components(base).chain(components(path)).collect();
        if asked.len() > MAX_DEPTH {
            return Err(ViewError::TooLong);
        }
        // Without a link and without `..` the name that was asked for is the real one.
        if !asked.contains(&"..") {
            let name = asked.join("/");
            self.admit(&name, None)?;
            if let Some(opened) = self.0.root.straight(name.as_bytes(), READ) {
                return self.judge(opened.map_err(|errno| failed(errno, &name))?, name);
            }
        }
        self.walk(asked, last)
    }

    /// One component after the other; links are expanded here, never by the system.
    fn walk(&self, asked: Vec<&str>, last: Last) -> Result<Seen, ViewError> {
        let mut todo: Vec<String> = asked.into_iter().rev().map(String::from).collect();
        let mut above: Vec<(String, OwnedFd)> = vec![];
        let mut links = 0;
        while let Some(part) = todo.pop() {
            let dir = above.last().map_or(self.0.root.as_fd(), |(_, fd)| fd.as_fd());
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
            let stat = rustix::fs::statat(dir, &*part, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| failed(errno, &name))?;
            match Kind::of(FileType::from_raw_mode(stat.st_mode)) {
                Some(Kind::Link) if todo.is_empty() && last == Last::Link => {
                    return self.link(dir, &part, name);
                }
                Some(Kind::Link) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(ViewError::Loop);
                    }
                    self.admit(&name, Some(Kind::Link))?;
                    let target = link_target(dir, &part, &name)?;
                    todo.extend(components(&target).rev().map(String::from));
                }
                Some(_) => {
                    let seen = self.judge(open_in(dir, &part, &name)?, name)?;
                    if todo.is_empty() {
                        return Ok(seen);
                    }
                    if seen.kind != Kind::Directory {
                        return Err(ViewError::NotDirectory);
                    }
                    above.push((seen.path, seen.fd));
                }
                None => return Err(not_permitted(&name, handle::NOT_A_FILE)),
            }
        }
        match above.pop() {
            Some((name, fd)) => self.judge(fd, name),
            None => self.judge(open_in(self.0.root.as_fd(), ".", "")?, String::new()),
        }
    }

    fn link(&self, dir: BorrowedFd<'_>, part: &str, name: String) -> Result<Seen, ViewError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir, part, flags, Mode::empty())
            .map_err(|errno| failed(errno, &name))?;
        self.judge(fd, name)
    }

    /// The last word is on the handle itself.
    fn judge(&self, fd: OwnedFd, path: String) -> Result<Seen, ViewError> {
        let stat = rustix::fs::fstat(&fd).map_err(|errno| failed(errno, &path))?;
        let Some(kind) = Kind::of(FileType::from_raw_mode(stat.st_mode)) else {
            return Err(not_permitted(&path, handle::NOT_A_FILE));
        };
        self.admit(&path, Some(kind))?;
        Ok(Seen { fd, path, kind, stat })
    }

    fn admit(&self, path: &str, kind: Option<Kind>) -> Result<(), ViewError> {
        match self.rule_of(path, kind) {
            Some(rule) => Err(ViewError::Excluded { path: path.to_owned(), rule }),
            None => Ok(()),
        }
    }

    /// The rule that keeps a real path out of this view, if one does.
    pub fn rule(&self, path: &str, kind: Kind) -> Option<Rule> {
        self.rule_of(path, Some(kind))
    }

    /// Without a kind, what git ignores is not asked and rules for one kind alone are left out.
    fn rule_of(&self, path: &str, kind: Option<Kind>) -> Option<Rule> {
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
        let narrowed = || !inner.only.as_ref().is_none_or(|only| is_within(path, only));
        let by_git = || match inner.profile {
            Profile::Scout => ignored().then_some(Rule::Ignored),
            Profile::Tool => (exclusion::is_in_build_directory(path, kind) && ignored())
                .then_some(Rule::BuildDirectory),
        };
        exclusion::by_name(inner.profile, path, kind)
            .or_else(|| {
                (exclusion::is_secret(path) && !self.is_lifted(path)).then_some(Rule::Secret)
            })
            .or_else(|| narrowed().then_some(Rule::Narrowed))
            .or_else(by_git)
    }

    fn is_lifted(&self, path: &str) -> bool {
        self.0.profile == Profile::Tool
            && (self.0.lifted.matches(path) || self.0.lifted.may_lie_below(path))
    }

    pub(super) fn ignores(&self) -> &IgnoreRules {
        &self.0.ignores
    }
}

/// At one of `paths`, in it, or on the way to it.
fn is_within(path: &str, paths: &[String]) -> bool {
    let path = path.as_bytes();
    paths
        .iter()
        .any(|only| is_at_or_below(path, only.as_bytes()) || is_at_or_below(only.as_bytes(), path))
}

fn open_in(dir: BorrowedFd<'_>, part: &str, name: &str) -> Result<OwnedFd, ViewError> {
    rustix::fs::openat(dir, part, READ, Mode::empty()).map_err(|errno| failed(errno, name))
}

fn link_target(dir: BorrowedFd<'_>, part: &str, name: &str) -> Result<String, ViewError> {
    let target = rustix::fs::readlinkat(dir, part, vec![])
        .map_err(|errno| failed(errno, name))?
        .into_string()
        .map_err(|_| ViewError::Invalid("a link whose target is no UTF-8"))?;
    if target.starts_with('/') {
        return Err(not_permitted(name, "a link with an absolute target"));
    }
    Ok(target)
}

fn components(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !matches!(*part, "" | "."))
}

pub(super) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
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
        // Opening a socket.
        Errno::NXIO => not_permitted(path, handle::NOT_A_FILE),
        Errno::NAMETOOLONG => ViewError::TooLong,
        Errno::LOOP => ViewError::Loop,
        other => ViewError::Io(other),
    }
}

#[cfg(test)]
mod tests;
