//! Waiting for a lock that other processes hold for a moment, never for ever.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::Refused;

/// An edit takes milliseconds; whoever holds a lock this long does something else.
const LONGEST: Duration = Duration::from_secs(30);
/// While others make edit after edit, so that no turn is left; then nobody's turn comes any more.
pub(super) const LONGEST_IN_LINE: Duration = Duration::from_secs(300);
/// Between two tries, chosen anew each time so that those who wait do not march in step.
const PAUSE: std::ops::Range<u64> = 500..3000;

/// The system lets go of the lock when the handle is closed or the process ends, however it ends.
pub(super) fn take(handle: impl AsFd) -> Result<(), Refused> {
    take_while(handle, || Ok(true)).map(drop)
}

/// Whether the lock is ours, and `wanted`: not when that has become another's meanwhile. Those who wait for what nobody
/// wants any more would have to take it one after the other only to find that out.
pub(super) fn take_while(
    handle: impl AsFd,
    wanted: impl Fn() -> Result<bool, Refused>,
) -> Result<bool, Refused> {
    let start = Instant::now();
    loop {
        match rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return wanted(),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if !wanted()? => return Ok(false),
            Err(Errno::WOULDBLOCK) if start.elapsed() > LONGEST => return Err(Refused::Busy),
            Err(Errno::WOULDBLOCK) => {
                std::thread::sleep(Duration::from_micros(rand::random_range(PAUSE)));
            }
            Err(errno) => return Err(Refused::failed("the file cannot be locked")(errno)),
        }
    }
}
