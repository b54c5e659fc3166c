//! Types that every crate of `act` may name. This crate reads and writes no files and knows no other crate of the program.
//!
//! - [`event`]: everything that happens in a task, as values; code below the command line reports through them.
//! - [`Failure`]: why a command ended without a result, with a stable code and the next step for the user.
//! - [`Outcome`]: how a task ended; it alone maps to [`TaskState`] and [`exit::Exit`].
//! - [`verification::Verification`]: how one run of the pipeline ended; [`verification::Verifier`] makes it.
//! - [`secret`]: values that are never printed, and the redaction of texts that contain them.
//! - [`process`]: the identity of a process, which survives the reuse of its number.

pub mod clock;
pub mod event;
pub mod exit;
pub mod fail_point;
mod failure;
mod hidden_char;
mod outcome;
pub mod process;
mod run_id;
pub mod secret;
mod shell_word;
pub mod terminal_text;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod verification;

pub use failure::{Failure, Refusal};
pub use hidden_char::is_hidden;
pub use outcome::{Outcome, StuckReason, TaskState, reason};
pub use run_id::{RunId, RunIdError};
pub use shell_word::shell_word;
