//! Whether an answer is still wanted: asked in every loop over names, files or lines.
//!
//! Work that runs on a thread of its own cannot be interrupted from outside; it ends because it looks.

use std::fmt;
use std::sync::Arc;

use rustix::io::Errno;

/// The error of work that nobody wants any more.
const STOPPED: Errno = Errno::CANCELED;

#[derive(Clone, Default)]
pub(super) struct StopCheck(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl StopCheck {
    pub(super) fn new(stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(stopped)))
    }

    pub(super) fn go_on(&self) -> Result<(), Errno> {
        match &self.0 {
            Some(stopped) if stopped() => Err(STOPPED),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for StopCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopCheck")
    }
}
