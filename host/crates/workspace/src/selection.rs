//! Which part of a view a batch call means, and the way through it in path order.

use std::cmp::Ordering;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, Stat};
use rustix::io::Errno;

use super::globs::{GlobError, PathGlobs, is_at_or_below};
use super::handle::{self, READ};
use super::view::{Kind, Last, MAX_PATH, RepoView, Seen, ViewError};
use super::walk::{Found, Walk};

/// What to look at; an empty list narrows nothing.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    pub under: Vec<String>,
    pub globs: Vec<String>,
    pub kinds: Vec<Kind>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    #[error(transparent)]
    View(#[from] ViewError),
    #[error(transparent)]
    Glob(#[from] GlobError),
    #[error("{0}")]
    Invalid(&'static str),
}

impl From<Errno> for SelectionError {
    fn from(errno: Errno) -> Self {
        Self::View(errno.into())
    }
}

/// Entries that one call may look at, in view or not, before it answers with a cursor.
pub(super) const MAX_LOOKED_AT: usize = 50_000;
/// Paths that one call may name.
const MAX_UNDER: usize = 256;

/// Goes through a selection; each thing in view comes once, links as links.
pub(super) struct Sweep<'v> {
    view: &'v RepoView,
    globs: PathGlobs,
    kinds: Vec<Kind>,
    /// Where to start, last first: real names, opened when their turn comes.
    starts: Vec<String>,
    after: Option<String>,
    walk: Option<Walk<'v>>,
    /// Something that was named and is a directory not yet entered.
    pending: Option<Found>,
    looked_at: usize,
    /// The path looked at last: where another call goes on.
    pub(super) at: Option<String>,
    /// Something was too deep or too large to be looked at.
    pub(super) cut: bool,
}

/// A step of a sweep.
pub(super) enum Step {
    Item(Item),
    /// Enough for one call; there may be more after [`Sweep::at`].
    Pause,
    End,
}

pub(super) struct Item {
    pub(super) path: String,
    pub(super) kind: Kind,
    /// Already open, when it was asked for by name.
    seen: Option<Box<Seen>>,
}

impl<'v> Sweep<'v> {
    pub(super) fn new(
        view: &'v RepoView,
        want: &Selection,
        after: Option<&str>,
    ) -> Result<Self, SelectionError> {
        if after.is_some_and(|after| after.len() > MAX_PATH || after.is_empty()) {
            return Err(SelectionError::Invalid("no cursor of ours"));
        }
        if want.under.len() > MAX_UNDER {
            return Err(SelectionError::Invalid(
                "more than 256 paths to look under; name wider ones",
            ));
        }
        let globs = PathGlobs::new(&want.globs)?;
        let mut starts = vec![];
        for path in &want.under {
            view.stop().go_on()?;
            starts.push(view.resolve("", path, Last::Follow)?.path);
        }
        if want.under.is_empty() {
            starts.push(String::new());
        }
        starts.sort_by(|a, b| in_order(a, b));
        // What lies in another start comes with it.
        starts.dedup_by(|later, kept| is_at_or_below(later.as_bytes(), kept.as_bytes()));
        starts.reverse();
        Ok(Self {
            view,
            globs,
            kinds: want.kinds.clone(),
            starts,
            after: after.map(String::from),
            walk: None,
            pending: None,
            looked_at: 0,
            at: None,
            cut: false,
        })
    }

    pub(super) fn step(&mut self) -> Result<Step, SelectionError> {
        loop {
            self.view.stop().go_on()?;
            if self.walk.is_none() {
                match self.begin()? {
                    Begun::Walk => {}
                    Begun::File(item) => return Ok(Step::Item(item)),
                    Begun::Nothing => return Ok(Step::End),
                }
            }
            if self.looked_at >= MAX_LOOKED_AT {
                return Ok(Step::Pause);
            }
            if let Some(item) = self.walk_on()? {
                return Ok(Step::Item(item));
            }
        }
    }

    fn begin(&mut self) -> Result<Begun, SelectionError> {
        while let Some(start) = self.starts.pop() {
            // Only one start can hold the cursor; those before it are done.
            let within = match self.after.as_deref() {
                None => None,
                Some(after) => match below(after, &start) {
                    Some(rest) => Some(rest.to_owned()),
                    None if in_order(&start, after) == Ordering::Greater => None,
                    None => continue,
                },
            };
            // A real name leads through no link; what changed since it was resolved is judged again.
            let path = if start.is_empty() { "." } else { &start };
            let start = match self.view.resolve("", path, Last::Link) {
                Ok(start) => start,
                Err(ViewError::NotFound | ViewError::Excluded { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            if start.kind == Kind::Link {
                continue;
            }
            if start.kind == Kind::File {
                if within.is_none() && self.is_wanted(&start.path, Kind::File) {
                    self.looked_at += 1;
                    self.at = Some(start.path.clone());
                    return Ok(Begun::File(Item {
                        path: start.path.clone(),
                        kind: Kind::File,
                        seen: Some(Box::new(start)),
                    }));
                }
                continue;
            }
            let within = within.filter(|rest| !rest.is_empty());
            let after = within.as_deref().map(str::as_bytes);
            self.walk = Some(Walk::start(
                (self.view.ignores(), self.view.overlay()),
                self.view.stop(),
                start.path.as_bytes(),
                start.fd,
                after,
            )?);
            return Ok(Begun::Walk);
        }
        Ok(Begun::Nothing)
    }

    /// One entry further; none when it is not for the caller or the walk has ended.
    fn walk_on(&mut self) -> Result<Option<Item>, SelectionError> {
        let Some(walk) = self.walk.as_mut() else { return Ok(None) };
        if let Some(directory) = self.pending.take() {
            match walk.enter(&directory) {
                Ok(_) => {}
                // Unreadable or too deep: the rest is still an answer.
                Err(_) => self.cut = true,
            }
        }
        let Some(found) = walk.next()? else {
            self.cut |= walk.cut;
            self.walk = None;
            return Ok(None);
        };
        self.looked_at += 1;
        let (kind, named_before, ignored) = (found.kind, found.named_before, found.ignored);
        let Ok(path) = String::from_utf8(found.path.clone()) else { return Ok(None) };
        if path.len() > MAX_PATH {
            self.cut = true;
            return Ok(None);
        }
        if !named_before {
            self.at = Some(path.clone());
        }
        if self.view.rule_with(&path, Some(kind), || ignored).is_some() {
            return Ok(None);
        }
        if kind == Kind::Directory {
            self.pending = Some(found);
        }
        let wanted = !named_before && self.is_wanted(&path, kind);
        Ok(wanted.then_some(Item { path, kind, seen: None }))
    }

    fn is_wanted(&self, path: &str, kind: Kind) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (self.globs.is_empty() || self.globs.matches(path))
    }

    /// The item that the last step named, without following it.
    pub(super) fn stat(&self, item: &Item) -> Result<Stat, Errno> {
        match (&item.seen, self.walk.as_ref().and_then(Walk::dir)) {
            (Some(seen), _) => Ok(seen.stat),
            (None, Some(_)) if self.view.is_laid(&item.path) => {
                self.view.resolve("", &item.path, Last::Link).map(|seen| seen.stat).map_err(gone)
            }
            (None, Some(dir)) => {
                rustix::fs::statat(dir, name(&item.path), AtFlags::SYMLINK_NOFOLLOW)
            }
            (None, None) => Err(Errno::NOENT),
        }
    }

    /// The regular file that the last step named.
    pub(super) fn open(&self, item: Item) -> Result<(OwnedFd, Stat), Errno> {
        match (item.seen, self.walk.as_ref().and_then(Walk::dir)) {
            (Some(seen), _) => Ok((seen.fd, seen.stat)),
            (None, Some(_)) if self.view.is_laid(&item.path) => {
                let seen = self.view.resolve("", &item.path, Last::Link).map_err(gone)?;
                handle::regular(seen.fd)
            }
            (None, Some(dir)) => {
                handle::regular(rustix::fs::openat(dir, name(&item.path), READ, Mode::empty())?)
            }
            (None, None) => Err(Errno::NOENT),
        }
    }
}

fn gone(_: ViewError) -> Errno {
    Errno::NOENT
}

enum Begun {
    Walk,
    File(Item),
    Nothing,
}

/// Compares paths component by component, so that the entries of a directory follow it at once.
pub(super) fn in_order(a: &str, b: &str) -> Ordering {
    a.split('/').cmp(b.split('/'))
}

/// The rest of `path` in `dir`; empty when they are the same.
fn below<'p>(path: &'p str, dir: &str) -> Option<&'p str> {
    if dir.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(dir)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
