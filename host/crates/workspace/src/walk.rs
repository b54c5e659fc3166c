//! Down a tree by handle, in path order, one directory opened inside the other.
//!
//! The caller drives: [`Walk::next`] names what comes, [`Walk::enter`] goes into the directory it named.
//! Order is by path, component by component, so a walk can go on after any path it has named.

use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::io::Errno;

use super::handle::{DIRECTORY, MAX_DEPTH};
use super::ignored::{DirRules, IgnoreRules};
use super::overlay::{Laid, Overlay};
use super::scan::{Over, Scan, scan_over};
use super::stop::StopCheck;
use super::view::Kind;

pub(super) struct Walk<'a> {
    ignores: &'a IgnoreRules,
    stop: &'a StopCheck,
    over: Option<&'a Overlay>,
    frames: Vec<Frame>,
    /// The rest of the path to go on after; its first name is looked for in the next directory entered.
    resume: Vec<Vec<u8>>,
    /// A directory had more names than are looked at.
    pub(super) cut: bool,
}

struct Frame {
    path: Vec<u8>,
    fd: OwnedFd,
    rules: Arc<DirRules>,
    names: std::vec::IntoIter<(Vec<u8>, Kind)>,
    last: Vec<u8>,
    more: bool,
    /// The name under which the walk goes on, as long as it has not come by.
    resume: Option<Vec<u8>>,
}

/// Something on the way; its handle is opened in [`Walk::dir`] by its last name.
pub(super) struct Found {
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) ignored: bool,
    /// An earlier walk has named it; only what lies in it is new.
    pub(super) named_before: bool,
}

impl Found {
    pub(super) fn name(&self) -> &[u8] {
        name_of(&self.path)
    }
}

impl<'a> Walk<'a> {
    /// Through the directory `path`; `after` is relative to it.
    pub(super) fn start(
        (ignores, over): (&'a IgnoreRules, Option<&'a Overlay>),
        stop: &'a StopCheck,
        path: &[u8],
        fd: OwnedFd,
        after: Option<&[u8]>,
    ) -> Result<Self, Errno> {
        let mut walk = Self { ignores, stop, over, frames: vec![], resume: vec![], cut: false };
        if let Some(after) = after {
            walk.resume = after.split(|byte| *byte == b'/').map(<[u8]>::to_vec).rev().collect();
        }
        let rules = ignores.of_dir(path);
        walk.push(path.to_vec(), fd, rules)?;
        Ok(walk)
    }

    pub(super) fn next(&mut self) -> Result<Option<Found>, Errno> {
        loop {
            let Some(frame) = self.frames.last_mut() else { return Ok(None) };
            if let Some((name, kind)) = frame.names.next() {
                let path = if frame.path.is_empty() {
                    name.clone()
                } else {
                    [frame.path.as_slice(), b"/", &name].concat()
                };
                let named_before = frame.resume.take().is_some_and(|resume| resume == name);
                if !named_before {
                    self.resume.clear();
                }
                frame.last = name;
                let ignored = self.ignores.ignores(&frame.rules, &path, kind == Kind::Directory);
                return Ok(Some(Found { path, kind, ignored, named_before }));
            }
            if frame.more {
                let after = Bound::Excluded(frame.last.as_slice());
                let next = names(self.over, self.stop, &frame.path, &frame.fd, after)?;
                frame.more = next.more;
                frame.names = next.names.into_iter();
                self.cut |= next.cut;
            } else {
                self.frames.pop();
            }
        }
    }

    /// Into the directory that was named last. False when it is gone or no directory any more.
    pub(super) fn enter(&mut self, found: &Found) -> Result<bool, Errno> {
        if self.frames.len() >= MAX_DEPTH {
            return Err(Errno::NAMETOOLONG);
        }
        let Some(frame) = self.frames.last() else { return Ok(false) };
        let laid = is_laid(self.over, &found.path);
        let opened = match laid {
            // Only its names are asked for, and none of them is here.
            true => frame.fd.try_clone().map_err(|_| Errno::MFILE),
            false => rustix::fs::openat(&frame.fd, found.name(), DIRECTORY, Mode::empty()),
        };
        let fd = match opened {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        let own = (!laid).then(|| fd.as_fd());
        let rules = self.ignores.inside(&frame.rules, &found.path, own);
        self.push(found.path.clone(), fd, rules)?;
        Ok(true)
    }

    /// The directory in which the thing named last stands.
    pub(super) fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.frames.last().map(|frame| frame.fd.as_fd())
    }

    fn push(&mut self, path: Vec<u8>, fd: OwnedFd, rules: Arc<DirRules>) -> Result<(), Errno> {
        let resume = self.resume.pop();
        let from = resume.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let first = names(self.over, self.stop, &path, &fd, from)?;
        self.cut |= first.cut;
        let names = first.names.into_iter();
        self.frames.push(Frame { path, fd, rules, names, last: vec![], more: first.more, resume });
        Ok(())
    }
}

/// The names of a directory, with what is laid over it.
fn names(
    over: Option<&Overlay>,
    stop: &StopCheck,
    path: &[u8],
    fd: &OwnedFd,
    from: Bound<&[u8]>,
) -> Result<Scan, Errno> {
    let laid = over.zip(std::str::from_utf8(path).ok());
    let laid = laid.map_or_else(Over::new, |(over, path)| over.names(path));
    scan_over((!is_laid(over, path)).then_some(fd), &laid, from, stop)
}

/// A directory that the repository does not have.
fn is_laid(over: Option<&Overlay>, path: &[u8]) -> bool {
    let Some((over, path)) = over.zip(std::str::from_utf8(path).ok()) else { return false };
    matches!(over.look(path), Laid::Directory)
}

pub(super) fn name_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| &path[slash + 1..])
}
