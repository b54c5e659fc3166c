//! Making changes one after the other, each so that it can be taken back.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::apply::Checked;
use super::change::{EditError, Holds, Left};
use super::handle::{DIRECTORY, MAX_DEPTH, Root};
use super::likeness::Likeness;
use super::place::{self, Standing, Temp};
use super::repo_path::RepoPath;
use super::versions::digest;

/// How often a file that somebody keeps replacing is put back before we leave it.
const MAX_SWAPS: usize = 8;

pub(super) struct Steps<'r> {
    root: &'r Root,
    exchange: bool,
    most: u64,
    stopped: &'r dyn Fn() -> bool,
    done: Vec<Done>,
}

/// What was done, with what is needed to take it back.
enum Done {
    MadeDirectory {
        parent: Arc<OwnedFd>,
        name: String,
    },
    Created {
        file: Place,
        digest: String,
    },
    /// `old` holds the old bytes until all is done.
    Replaced {
        file: Place,
        old: Temp,
        digest: String,
    },
    Deleted {
        file: Place,
        old: Temp,
    },
    Moved {
        from: Place,
        to: Place,
    },
}

/// Where a file is.
struct Place {
    path: RepoPath,
    dir: Arc<OwnedFd>,
}

impl Place {
    fn new(path: &RepoPath, dir: &Arc<OwnedFd>) -> Self {
        Self { path: path.clone(), dir: dir.clone() }
    }

    fn name(&self) -> &str {
        self.path.split().1
    }

    fn left(&self, holds: Holds) -> Left {
        Left { path: self.path.to_string(), holds }
    }
}

impl<'r> Steps<'r> {
    pub(super) fn new(
        root: &'r Root,
        exchange: bool,
        most: u64,
        stopped: &'r dyn Fn() -> bool,
    ) -> Self {
        Self { root, exchange, most, stopped, done: vec![] }
    }

    /// The last look before something changes.
    fn go_on(&self) -> Result<(), EditError> {
        if (self.stopped)() { Err(EditError::Stopped) } else { Ok(()) }
    }

    pub(super) fn perform(&mut self, change: &Checked) -> Result<(), EditError> {
        match (change.op, &change.expect, &change.to) {
            ("create", _, _) => self.create(change),
            ("replace", Some(expect), _) => self.replace(change, expect),
            ("delete", Some(expect), _) => self.delete(change, expect),
            (_, Some(expect), Some(to)) => self.rename(change, expect, to),
            (op, _, _) => Err(EditError::Arguments(format!("{op} of a file that was not read"))),
        }
    }

    /// All changes stay.
    pub(super) fn keep(mut self) {
        self.done.clear();
    }

    /// Back to how it was, the last change first. What somebody else changed meanwhile is left alone, and told in the
    /// order in which it was changed by us.
    pub(super) fn undo(mut self) -> Vec<Left> {
        self.stopped = &|| false;
        let mut left = vec![];
        while let Some(done) = self.done.pop() {
            left.extend(self.take_back(done).into_iter().flatten());
        }
        left.reverse();
        left
    }

    fn take_back(&self, done: Done) -> [Option<Left>; 2] {
        let only = |file: &Place, holds: Option<Holds>| [holds.map(|holds| file.left(holds)), None];
        match done {
            Done::MadeDirectory { parent, name } => {
                // Fails when somebody put something in: then it stays.
                let _ = rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR);
                [None, None]
            }
            Done::Created { file, digest } => {
                let out = self.take_out(&file.dir, file.name(), &digest);
                let holds = out.err().map(|_| self.holds(&file, &digest));
                // Nothing is what there was before.
                only(&file, holds.filter(|holds| *holds != Holds::Nothing))
            }
            Done::Replaced { file, old, digest } => {
                let back = self.put_back(&file, &old, &digest);
                only(&file, (!back).then(|| self.holds(&file, &digest)))
            }
            Done::Deleted { file, old } => {
                let dir = file.dir.as_fd();
                let back = place::rename_new(dir, &old.name, dir, file.name());
                only(&file, back.err().map(|_| self.instead(&file)))
            }
            Done::Moved { from, to } => {
                let (into, out_of) = (from.dir.as_fd(), to.dir.as_fd());
                match place::rename_new(out_of, to.name(), into, from.name()) {
                    Ok(()) => [None, None],
                    Err(_) => {
                        let there = self.instead(&to) != Holds::Nothing;
                        let there = there.then(|| to.left(Holds::Written));
                        [there, Some(from.left(self.instead(&from)))]
                    }
                }
            }
        }
    }

    fn put_back(&self, file: &Place, old: &Temp, digest: &str) -> bool {
        let (dir, name) = (&file.dir, file.name());
        let swapped = match self.exchange {
            true => self.swap(dir, old, name, digest),
            false => Err(Swap::Unsupported),
        };
        match swapped {
            Err(Swap::Unsupported) => {
                self.is(dir, name, digest)
                    && rustix::fs::renameat(dir, &old.name, dir, name).is_ok()
            }
            swapped => swapped.is_ok(),
        }
    }

    /// What there is of a file that was written.
    fn holds(&self, file: &Place, digest: &str) -> Holds {
        match place::standing(&file.dir, file.name(), self.most) {
            Ok(Standing::Nothing) => Holds::Nothing,
            Ok(Standing::File { digest: now, .. }) if now == digest => Holds::Written,
            _ => Holds::Changed,
        }
    }

    /// What there is where a file was taken away.
    fn instead(&self, file: &Place) -> Holds {
        match place::standing(&file.dir, file.name(), self.most) {
            Ok(Standing::Nothing) => Holds::Nothing,
            _ => Holds::Other,
        }
    }

    fn create(&mut self, change: &Checked) -> Result<(), EditError> {
        let dir = self.directory_made(&change.path)?;
        let name = change.path.split().1;
        let temp = Temp::write(&dir, &change.bytes, change.like.as_ref(), change.mode)
            .map_err(failed(&change.path))?;
        self.go_on()?;
        match place::rename_new(dir.as_fd(), &temp.name, dir.as_fd(), name) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(EditError::Exists { path: change.path.to_string() }),
            Err(errno) => return Err(failed(&change.path)(errno.into())),
        }
        let digest = digest(&change.bytes);
        self.done.push(Done::Created { file: Place::new(&change.path, &dir), digest });
        Ok(())
    }

    fn replace(&mut self, change: &Checked, expect: &str) -> Result<(), EditError> {
        let dir = self.directory(&change.path)?;
        let name = change.path.split().1;
        let conflict = || EditError::Conflict { path: change.path.to_string(), current: None };
        let failed = failed(&change.path);
        let like = match place::standing(&dir, name, self.most).map_err(&failed)? {
            Standing::File { digest, file, .. } if digest == expect => Likeness::of(file),
            _ => return Err(conflict()),
        };
        let like = like.map_err(&failed)?;
        let temp = Temp::write(&dir, &change.bytes, Some(&like), None).map_err(&failed)?;
        let digest = digest(&change.bytes);
        let done = |old| Done::Replaced { file: Place::new(&change.path, &dir), old, digest };
        match if self.exchange {
            self.swap(&dir, &temp, name, expect)
        } else {
            Err(Swap::Unsupported)
        } {
            Ok(()) => {
                self.done.push(done(temp));
                Ok(())
            }
            Err(Swap::Stopped) => Err(EditError::Stopped),
            Err(Swap::Surprise) => Err(conflict()),
            Err(Swap::Failed(Errno::NOENT)) => Err(conflict()),
            Err(Swap::Failed(errno)) => Err(failed(errno.into())),
            Err(Swap::Unsupported) => {
                // A second name keeps the old bytes for an undo; where there are no hard links, none does.
                let old = Temp::free(&dir);
                let _ = rustix::fs::linkat(&dir, name, &dir, &old.name, AtFlags::empty());
                if !self.is(&dir, name, expect) {
                    return Err(conflict());
                }
                self.go_on()?;
                rustix::fs::renameat(&dir, &temp.name, &dir, name)
                    .map_err(|errno| failed(errno.into()))?;
                self.done.push(done(old));
                Ok(())
            }
        }
    }

    fn delete(&mut self, change: &Checked, expect: &str) -> Result<(), EditError> {
        let dir = self.directory(&change.path)?;
        let name = change.path.split().1;
        self.go_on()?;
        match self.take_out(&dir, name, expect) {
            Ok(old) => {
                self.done.push(Done::Deleted { file: Place::new(&change.path, &dir), old });
                Ok(())
            }
            Err(Swap::Stopped) => Err(EditError::Stopped),
            Err(Swap::Surprise | Swap::Failed(Errno::NOENT)) => {
                Err(EditError::Conflict { path: change.path.to_string(), current: None })
            }
            Err(Swap::Failed(errno)) => Err(failed(&change.path)(errno.into())),
            Err(Swap::Unsupported) => Err(failed(&change.path)(Errno::OPNOTSUPP.into())),
        }
    }

    fn rename(&mut self, change: &Checked, expect: &str, to: &RepoPath) -> Result<(), EditError> {
        let (from, old) = (self.directory(&change.path)?, change.path.split().1);
        let (into, new) = (self.directory_made(to)?, to.split().1);
        let conflict = || EditError::Conflict { path: change.path.to_string(), current: None };
        self.go_on()?;
        match place::rename_new(from.as_fd(), old, into.as_fd(), new) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(EditError::Exists { path: to.to_string() }),
            Err(Errno::NOENT) => return Err(conflict()),
            Err(errno) => return Err(failed(&change.path)(errno.into())),
        }
        if !self.is(&into, new, expect) {
            let _ = place::rename_new(into.as_fd(), new, from.as_fd(), old);
            return Err(conflict());
        }
        self.done
            .push(Done::Moved { from: Place::new(&change.path, &from), to: Place::new(to, &into) });
        Ok(())
    }

    /// `temp` becomes `name` and the other way round, if what came out is what was expected. Otherwise the
    /// newest bytes that somebody else wrote are put back.
    fn swap(&self, dir: &Arc<OwnedFd>, temp: &Temp, name: &str, expect: &str) -> Result<(), Swap> {
        let exchange = || place::exchange(dir, &temp.name, name);
        let put_in = self.what(dir, &temp.name);
        if (self.stopped)() {
            return Err(Swap::Stopped);
        }
        exchange().map_err(Swap::of)?;
        let mut came_out = self.what(dir, &temp.name);
        if came_out.as_deref() == Some(expect) {
            return Ok(());
        }
        let mut under_the_name = put_in;
        for _ in 0..MAX_SWAPS {
            exchange().map_err(Swap::of)?;
            let now = self.what(dir, &temp.name);
            // What we had put there came back, so nothing newer is lost.
            if now == under_the_name {
                break;
            }
            under_the_name = came_out;
            came_out = now;
        }
        Err(Swap::Surprise)
    }

    /// The file gets a temporary name, if it is the expected one.
    fn take_out(&self, dir: &Arc<OwnedFd>, name: &str, expect: &str) -> Result<Temp, Swap> {
        let out = Temp::free(dir);
        place::rename_new(dir.as_fd(), name, dir.as_fd(), &out.name).map_err(Swap::of)?;
        if self.is(dir, &out.name, expect) {
            return Ok(out);
        }
        // If the name was taken again meanwhile, what is there now is newer than what came out.
        let _ = place::rename_new(dir.as_fd(), &out.name, dir.as_fd(), name);
        Err(Swap::Surprise)
    }

    fn is(&self, dir: &Arc<OwnedFd>, name: &str, expect: &str) -> bool {
        self.what(dir, name).as_deref() == Some(expect)
    }

    /// The digest of a regular file; none for everything else.
    fn what(&self, dir: &Arc<OwnedFd>, name: &str) -> Option<String> {
        match place::standing(dir, name, self.most) {
            Ok(Standing::File { digest, .. }) => Some(digest),
            _ => None,
        }
    }

    fn directory(&self, path: &RepoPath) -> Result<Arc<OwnedFd>, EditError> {
        directory(self.root, path.split().0, path)?
            .map(Arc::new)
            .ok_or_else(|| EditError::Conflict { path: path.to_string(), current: None })
    }

    /// The directory of `path`, made where it is missing.
    fn directory_made(&mut self, path: &RepoPath) -> Result<Arc<OwnedFd>, EditError> {
        let dir = path.split().0;
        if let Some(fd) = directory(self.root, dir, path)? {
            return Ok(Arc::new(fd));
        }
        let here =
            self.root.open_real(b"", DIRECTORY).map_err(|errno| failed(path)(errno.into()))?;
        let mut here = Arc::new(here);
        for name in dir.split('/') {
            match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => {
                    self.done
                        .push(Done::MadeDirectory { parent: here.clone(), name: name.to_owned() });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(path)(errno.into())),
            }
            let fd = rustix::fs::openat(&here, name, DIRECTORY, Mode::empty());
            here = Arc::new(fd.map_err(|errno| on_the_way(errno, path))?);
        }
        Ok(here)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Swap {
    Stopped,
    Surprise,
    Unsupported,
    Failed(Errno),
}

impl Swap {
    fn of(errno: Errno) -> Self {
        if place::is_unsupported(errno) { Self::Unsupported } else { Self::Failed(errno) }
    }
}

/// The real directory `dir`, none when it does not exist; a link on the way is an error.
pub(super) fn directory(
    root: &Root,
    dir: &str,
    path: &RepoPath,
) -> Result<Option<OwnedFd>, EditError> {
    if dir.split('/').count() >= MAX_DEPTH {
        return Err(EditError::Arguments(format!("more than {MAX_DEPTH} directories on the way")));
    }
    match root.open_real(dir.as_bytes(), DIRECTORY) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(on_the_way(errno, path)),
    }
}

pub(super) fn on_the_way(errno: Errno, path: &RepoPath) -> EditError {
    match errno {
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => EditError::NotAFile { path: path.to_string() },
        other => failed(path)(other.into()),
    }
}

fn failed(path: &RepoPath) -> impl Fn(std::io::Error) -> EditError {
    let path = path.to_string();
    move |error| EditError::Failed { path: path.clone(), why: error.to_string() }
}
