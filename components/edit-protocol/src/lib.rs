//! Line edits over the bytes of a file. Pure: bytes and expectations in, new bytes or a refusal out.
//!
//! The decisions it owns: what a line is ([`lines`]), what an edit does to the bytes and to nothing but its
//! own lines ([`edit`]), and which words a refusal has ([`refusal`]). Rules EDIT-1 to EDIT-16.

mod edit;
mod lines;
#[cfg(test)]
mod properties;
mod refusal;

pub use edit::{Edit, edit_line, edit_lines, edit_many, full_rewrite};
pub use lines::{Document, Line};
pub use refusal::Refusal;

/// Whether `current` is the version that the caller has read.
pub fn expect(expected: u64, current: u64) -> Result<(), Refusal> {
    if expected == current {
        Ok(())
    } else {
        Err(Refusal::VersionMismatch { current_version: current })
    }
}
