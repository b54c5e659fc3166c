//! Line edits under a version, over the bytes of a file and over document snapshots. Pure: what there is
//! and what is expected in, what there is then or a refusal out.
//!
//! The decisions it owns: what a line is ([`lines`]), what an edit does to the bytes and to nothing but its
//! own lines ([`edit`]), what a document is and what becomes of it ([`snapshot`]), and which words a refusal
//! has ([`refusal`]). Rules EDIT-1 to EDIT-23.

mod edit;
mod lines;
mod number;
#[cfg(test)]
mod properties;
mod refusal;
mod snapshot;

pub use edit::{Edit, check_text, edit_line, edit_lines, edit_many, full_rewrite};
pub use lines::{BYTE_ORDER_MARK, Document, Line, SNIFFED, is_binary};
pub use number::{index, version};
pub use refusal::{Reason, Refusal};
pub use snapshot::{BadDocument, Decision, MAX_VERSION, Snapshot};

/// Whether `current` is the version that the caller has read.
pub fn expect(expected: u64, current: u64) -> Result<(), Refusal> {
    if expected == current {
        Ok(())
    } else {
        Err(Refusal::VersionMismatch { current_version: current })
    }
}
