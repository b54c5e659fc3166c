//! Line edits under a version, of files and of document snapshots. Pure functions: they take the content, the expected
//! version and the edit, and return the new content or a refusal.
//!
//! - [`Document`] splits bytes into lines and keeps every line ending.
//! - [`edit_many`], [`replace`] and [`full_rewrite`] compute the bytes after an edit; [`Occurrences`] finds a text.
//! - [`Snapshot`] is a document of `act edit`, with its lines and its version.
//! - [`Refusal`] says why an edit was refused, and [`Reason`] is its stable word.
//!
//! The host and the file tools use this crate. The rules are EDIT-1 to EDIT-23 and EDIT-37 in `specs/edit-protocol.md`.

mod edit;
mod lines;
mod number;
mod occurrences;
#[cfg(test)]
mod properties;
mod refusal;
mod snapshot;

pub use edit::{Edit, check_text, edit_many, full_rewrite};
pub use lines::{BYTE_ORDER_MARK, Document, Line, SNIFFED, is_binary};
pub use number::version;
pub use occurrences::{Occurrences, replace};
pub use refusal::{Reason, Refusal};
pub use snapshot::{BadDocument, Decision, MAX_VERSION, Snapshot};

/// Checks that `current` is the version that the caller has read.
///
/// # Errors
///
/// `version_mismatch` when the caller has read another version.
pub fn expect(expected: u64, current: u64) -> Result<(), Refusal> {
    if expected == current {
        Ok(())
    } else {
        Err(Refusal::VersionMismatch { current_version: current })
    }
}
