//! Types that every crate of `act` may name. This crate writes no file of the user and knows no other crate of the program.
//!
//! - [`event`]: everything that happens in a task, as values. Code below the command line reports through them only.
//! - [`Failure`]: why a command ended without a result, with a stable code and the next step for the user.
//! - [`Outcome`]: how a task ended. [`TaskState`] and [`exit::Exit`] follow from it alone; [`StuckReason`] and [`reason`] hold
//!   the words.
//! - [`verification::Verification`]: how one run of the pipeline ended; a [`verification::Verifier`] returns it.
//!   The code, the audit log and `gate_inputs_changed` call the pipeline of `agent.yaml` the gate of a task, because a task
//!   succeeds only through it: a gate input is a file that can change how the pipeline judges.
//! - [`evidence::Evidence`]: what the tests of a task prove; an [`evidence::VariantVerifier`] makes the runs for it.
//! - [`check::Checked`]: how a command ended that the model ran while it worked; a [`check::Checker`] runs it.
//! - [`consent::Consent`]: the person for whom a task works, asked while it works.
//! - [`Usd`]: a sum of money, exact to a nano-dollar.
//! - [`Document`]: a JSON document that a command prints, in the version that [`Schema`] names.
//! - [`secret`]: values that are never printed, and the redaction of texts that contain them.
//! - [`user_command`]: a command that the user names in a file of their own, which no repository can change.
//! - [`address::Zone`]: the part of the network that an address belongs to.
//! - [`public_key::PublicKey`]: what verifies signatures of statements and of artifacts.
//! - [`process`]: the identity of a process, which survives the reuse of its number.
//!
//! ```
//! use act_core::{Outcome, StuckReason, TaskState, exit::Exit};
//!
//! let outcome = Outcome::Stuck { reason: StuckReason::Budget };
//! assert_eq!((outcome.state(), outcome.exit()), (TaskState::Stuck, Exit::Stuck));
//! assert_eq!(outcome.reason(), Some("budget"));
//! ```

pub mod address;
pub mod check;
pub mod clock;
pub mod consent;
mod document;
pub mod event;
pub mod evidence;
pub mod exit;
pub mod fail_point;
mod failure;
mod outcome;
pub mod process;
pub mod public_key;
mod run_id;
mod schema_bounds;
pub mod secret;
mod shell_word;
pub mod terminal_text;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod usd;
pub mod user_command;
pub mod verification;

pub use document::{Document, Repo, Schema, Versioned};
pub use failure::{Failure, Refusal};
pub use outcome::{Outcome, StuckReason, TaskState, reason};
pub use run_id::{RunId, RunIdError};
pub use schema_bounds::{
    MAX_SCHEMA_BYTES, MAX_VISITS, SchemaBoundsError, is_checkable, schema_visits,
};
pub use shell_word::shell_word;
pub use terminal_text::is_hidden;
pub use usd::Usd;
