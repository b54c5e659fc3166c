//! A repository as one kind of reader may see it: which names exist for him, and what a directory shows.
//!
//! How a path becomes an open handle is in `resolve.rs`.

use std::ops::Bound;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::exclusion::{self, Rule};
use super::globs::{PathGlobs, is_at_or_below};
use super::handle::Root;
use super::ignored::IgnoreRules;
use super::note::ReadNote;
use super::notes_dir::{is_in_notes, notes_dir_of};
use super::overlay::{Laid, Overlay};
use super::scan;
use super::stop::StopCheck;

/// Bytes of a path at most, the system's own bound.
pub(super) const MAX_PATH: usize = 4096;
/// Names of a directory that are held at a time.
const NAMES_AT_ONCE: usize = 4_096;

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

/// Where another look into a directory goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirMark(Vec<u8>);

/// Some of a directory's names. A part may be empty and not the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirPart {
    pub entries: Vec<DirEntry>,
    pub next: Option<DirMark>,
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
            Self::NotPermitted { why, .. } if *why == super::handle::NOT_A_FILE => {
                Some("not_a_file")
            }
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
    /// The name of the directory that holds act's notes; `None` where both names are the user's.
    notes: Option<&'static str>,
    /// Secret names that the user lifted for tools.
    lifted: PathGlobs,
    /// Files and directories that are all of it; none: no such bound.
    parts: Option<Arc<[String]>>,
    stop: StopCheck,
    note: ReadNote,
    /// What a dry run has written.
    over: Option<Overlay>,
}

/// What restricts one reader of a view.
pub struct Restriction {
    /// Paths that the reader sees, with the directories on the way to them; `None` for all that the view shows.
    pub parts: Option<Vec<String>>,
    /// Returns true when nobody waits for the reader any more. Work over names, files and lines ends then.
    pub stopped: Box<dyn Fn() -> bool + Send + Sync>,
    /// Gets the real path of each file that is read, once or more often.
    pub note: Box<dyn Fn(&str) + Send + Sync>,
}

impl RepoView {
    /// What git ignores is read now; a later change of it needs a new view.
    pub fn open(root: &Path, profile: Profile) -> Result<Self, ViewError> {
        Ok(Self::of(Root::open(root)?, profile))
    }

    pub(super) fn of(root: Root, profile: Profile) -> Self {
        let ignores = Arc::new(IgnoreRules::new(&root));
        let notes = notes_dir_of(&root, &ignores);
        let lifted = PathGlobs::default();
        Self(Arc::new(Inner {
            root,
            profile,
            ignores,
            notes,
            lifted,
            parts: None,
            stop: StopCheck::default(),
            note: ReadNote::default(),
            over: None,
        }))
    }

    /// With these paths, secret names are no reason to leave something out. Tools only: a Scout never sees
    /// a secret.
    pub fn lifting(&self, allow: &PathGlobs) -> Self {
        Self(Arc::new(Inner { lifted: allow.clone(), ..(*self.0).clone() }))
    }

    /// The view for one reader: fewer parts, an end, and a note of each file that is read.
    pub fn restricted(&self, to: Restriction) -> Self {
        Self(Arc::new(Inner {
            parts: to.parts.map(Into::into).or_else(|| self.0.parts.clone()),
            stop: StopCheck::new(to.stopped),
            note: ReadNote::new(to.note),
            ..(*self.0).clone()
        }))
    }

    /// The same for a reader who may lose interest: once `stopped` says so, whatever goes over names, files
    /// or lines ends with an error.
    pub fn until(&self, stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { stop: StopCheck::new(stopped), ..(*self.0).clone() }))
    }

    /// The content of `path` is being read.
    pub fn note(&self, path: &str) {
        self.0.note.tell(path);
    }

    /// With what a dry run has written, as if it stood in the repository.
    pub fn over(&self, overlay: &Overlay) -> Self {
        Self(Arc::new(Inner { over: Some(overlay.clone()), ..(*self.0).clone() }))
    }

    /// The same where there is a dry run.
    pub fn over_if(self, overlay: Option<&Overlay>) -> Self {
        overlay.map_or_else(|| self.clone(), |overlay| self.over(overlay))
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

    /// What the directory shows, sorted by name, in parts: links as links, special files and what is
    /// excluded left out, and so is a name that is no UTF-8. A part goes on after the mark of the last one.
    pub fn read_dir(&self, dir: &Seen, after: Option<&DirMark>) -> Result<DirPart, ViewError> {
        if dir.kind != Kind::Directory {
            return Err(ViewError::NotDirectory);
        }
        let around = self.0.ignores.of_dir(dir.path.as_bytes());
        let from = after.map_or(Bound::Unbounded, |DirMark(name)| Bound::Excluded(name.as_slice()));
        let over = self.overlay().map(|over| over.names(&dir.path)).unwrap_or_default();
        let real = !self.is_laid(&dir.path);
        let real = real.then_some(&dir.fd);
        let scanned = scan::scan_window(real, &over, from, NAMES_AT_ONCE, &self.0.stop)?;
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

    /// The rule that keeps a real path out of this view, if one does.
    pub fn rule(&self, path: &str, kind: Kind) -> Option<Rule> {
        self.rule_of(path, Some(kind))
    }

    /// Without a kind, what git ignores is not asked and rules for one kind alone are left out.
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
                (exclusion::is_secret(path) && !self.is_lifted(path)).then_some(Rule::Secret)
            })
            .or_else(by_git)
    }

    /// A directory on the way counts; what is not known yet may be one.
    fn is_in_a_part(&self, path: &str, kind: Option<Kind>) -> bool {
        let Some(parts) = &self.0.parts else { return true };
        let may_lead = matches!(kind, None | Some(Kind::Directory));
        parts.iter().any(|part| {
            let (path, part) = (path.as_bytes(), part.as_bytes());
            is_at_or_below(path, part) || (may_lead && is_at_or_below(part, path))
        })
    }

    fn is_lifted(&self, path: &str) -> bool {
        self.0.profile == Profile::Tool
            && (self.0.lifted.matches(path) || self.0.lifted.may_lie_below(path))
    }

    pub(super) fn overlay(&self) -> Option<&Overlay> {
        self.0.over.as_ref()
    }

    /// Whether a dry run made what stands at a real name.
    pub(super) fn is_laid(&self, path: &str) -> bool {
        let laid = self.overlay().map(|over| over.look(path));
        matches!(laid, Some(Laid::File(_) | Laid::Directory))
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
}

pub(super) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}
