//! The one way to open something for reading: resolve from the root's handle, judge the real name, then
//! judge the handle that was opened.
//!
//! Links are followed inside the root and nowhere else. What a caller gets is the handle that was judged,
//! so nothing can be swapped between the look and the use.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::handle::{self, MAX_DEPTH, READ};
use super::overlay::Laid;
use super::view::{Kind, Last, MAX_PATH, RepoView, Seen, ViewError, join};

/// Links on a path at most, the system's own bound.
const MAX_LINKS: usize = 40;

impl RepoView {
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

    fn find(&self, base: &str, path: &str, last: Last) -> Result<Seen, ViewError> {
        let asked: Vec<&str> = components(base).chain(components(path)).collect();
        if asked.len() > MAX_DEPTH {
            return Err(ViewError::TooLong);
        }
        // Without a link and without `..` the name that was asked for is the real one.
        if !asked.contains(&"..") {
            let name = asked.join("/");
            self.admit(&name, None)?;
            if let Some(laid) = self.laid(&name) {
                return laid;
            }
            if let Some(opened) = self.root().open_at_once(name.as_bytes(), READ) {
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
            if let Some(laid) = self.laid(&name) {
                let seen = laid?;
                if todo.is_empty() {
                    return Ok(seen);
                }
                if seen.kind != Kind::Directory {
                    return Err(ViewError::NotDirectory);
                }
                above.push((seen.path, seen.fd));
                continue;
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
            Some((name, fd)) => self.laid(&name).unwrap_or_else(|| self.judge(fd, name)),
            None => self.judge(open_in(self.root().as_fd(), ".", "")?, String::new()),
        }
    }

    /// What a dry run says about a real name; none where the repository itself is asked.
    fn laid(&self, name: &str) -> Option<Result<Seen, ViewError>> {
        let handle = match self.overlay()?.look(name) {
            Laid::Through => return None,
            Laid::Nothing => return Some(Err(ViewError::NotFound)),
            Laid::NotDirectory => return Some(Err(ViewError::NotDirectory)),
            Laid::File(written) => written.open(),
            // Never listed by its handle.
            Laid::Directory => self.root().as_fd().try_clone_to_owned(),
        };
        let failed = |_| ViewError::Io(Errno::MFILE);
        Some(handle.map_err(failed).and_then(|fd| self.judge(fd, name.to_owned())).map(|seen| {
            // One file for as long as it has its name, whatever handle shows it.
            let mut stat = seen.stat;
            stat.st_ino = number_of(name);
            Seen { stat, ..seen }
        }))
    }

    fn link(&self, dir: BorrowedFd<'_>, part: &str, name: String) -> Result<Seen, ViewError> {
        let fd = rustix::fs::openat(dir, part, handle::LINK, Mode::empty())
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
}

/// In place of the number by which a file system knows a file.
fn number_of(name: &str) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hash = std::hash::DefaultHasher::new();
    name.hash(&mut hash);
    hash.finish()
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
