//! Advisory locks (`flock`). The system releases a lock when its handle is closed or its process ends, so no lock file
//! has to be removed. No lock is waited for without end: a stopped process can hold one for ever.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

use super::Dir;

/// First pause between two tries. Most locks are held for less than a millisecond.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
/// Longest pause between two tries, so that a waiting process costs little and is still prompt.
const LONGEST_PAUSE: Duration = Duration::from_millis(3);

/// The kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Held by any number of handles at once, while none holds it exclusively.
    Shared,
    Exclusive,
}

/// An open file or directory, to which a lock can belong.
pub trait AsHandle {
    fn as_handle(&self) -> &File;
}

impl AsHandle for File {
    fn as_handle(&self) -> &File {
        self
    }
}

impl AsHandle for Dir {
    fn as_handle(&self) -> &File {
        self.as_file()
    }
}

/// Takes a lock if it is free, and returns whether it was.
///
/// # Errors
/// The file system has no locks, or another error of the system.
pub fn try_lock(handle: &impl AsHandle, kind: Kind) -> io::Result<bool> {
    loop {
        let locked = match kind {
            Kind::Shared => handle.as_handle().try_lock_shared(),
            Kind::Exclusive => handle.as_handle().try_lock(),
        };
        return match locked {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {
                continue;
            }
            Err(TryLockError::Error(error)) => Err(error),
        };
    }
}

/// Takes a lock, and waits at most `longest` while others hold it. Returns whether the lock was taken.
///
/// # Errors
/// The errors of [`try_lock`].
pub fn wait(handle: &impl AsHandle, kind: Kind, longest: Duration) -> io::Result<bool> {
    wait_while(handle, kind, longest, || true)
}

/// Waits like [`wait`], and gives up as soon as `wanted` returns false.
///
/// # Errors
/// The errors of [`try_lock`].
pub fn wait_while(
    handle: &impl AsHandle,
    kind: Kind,
    longest: Duration,
    mut wanted: impl FnMut() -> bool,
) -> io::Result<bool> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    while !try_lock(handle, kind)? {
        if start.elapsed() > longest || !wanted() {
            return Ok(false);
        }
        // The jitter keeps several waiting processes from trying at the same moments.
        std::thread::sleep(pause.mul_f64(rand::random_range(0.5..1.5)));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(true)
}

/// Releases a lock before its handle is closed.
///
/// # Errors
/// The error of the system.
pub fn unlock(handle: &impl AsHandle) -> io::Result<()> {
    handle.as_handle().unlock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_belongs_to_its_handle_and_is_waited_for_with_a_bound() {
        let temporary = tempfile::tempdir().unwrap();
        let first = Dir::open(temporary.path()).unwrap();
        let second = first.reopen().unwrap();
        let short = Duration::from_millis(10);
        assert!(try_lock(&first, Kind::Exclusive).unwrap());
        assert!(!try_lock(&second, Kind::Shared).unwrap());
        assert!(!wait(&second, Kind::Shared, short).unwrap());
        unlock(&first).unwrap();
        assert!(wait(&second, Kind::Shared, short).unwrap());
        assert!(try_lock(&first, Kind::Shared).unwrap());
        drop(second);
        assert!(wait(&first, Kind::Exclusive, short).unwrap());
    }

    #[test]
    fn waiting_ends_when_the_lock_is_released() {
        let temporary = tempfile::tempdir().unwrap();
        let first = Dir::open(temporary.path()).unwrap();
        let second = first.reopen().unwrap();
        assert!(try_lock(&first, Kind::Exclusive).unwrap());
        let waiting = std::thread::spawn(move || {
            wait(&second, Kind::Exclusive, Duration::from_mins(1)).unwrap()
        });
        drop(first);
        assert!(waiting.join().unwrap());
    }
}
