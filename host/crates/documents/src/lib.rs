//! Documents that are files of their own: edited under their version, finished into a queue or a review list.
//!
//! What an edit means is decided in `edit_protocol`, which the file tools use as well; here a document is
//! read and written so that of editors with the same expectation exactly one wins. Rules EDIT-18 to EDIT-35.

mod document_file;
mod refused;
mod shelf;
#[cfg(test)]
mod tests;

use std::path::Path;

use edit_protocol::{Decision, Refusal, Snapshot};

use document_file::{DocumentFile, Written};
pub use refused::Refused;
pub use shelf::{Entry, Listing, Shelves};

/// Times an edit is thought over again because something that takes no lock changed the file meanwhile.
const LOOKS: u32 = 20;

/// Bytes of a document, and of a text that becomes one.
pub const MAX_BYTES: u64 = 16 << 20;

/// The document as it stands.
pub fn show(path: &Path) -> Result<Snapshot, Refused> {
    document_file::read(path).map_err(Refused::of(path))
}

/// One line becomes `new`; the document as it stands then.
pub fn edit_line(path: &Path, expected: u64, index: usize, new: &str) -> Result<Snapshot, Refused> {
    edit(path, |document| document.edit_line(expected, index, new))
}

/// The whole text becomes `content`.
pub fn full_rewrite(path: &Path, expected: u64, content: &str) -> Result<Snapshot, Refused> {
    edit(path, |document| document.full_rewrite(expected, content))
}

/// Puts the document, as it stands, into the queue or the list for review. `shelves` is only asked for when
/// there is something to put there.
pub fn finish(
    path: &Path,
    expected: u64,
    decision: &str,
    notes: &str,
    shelves: impl FnOnce() -> Result<Shelves, Refused>,
) -> Result<Decision, Refused> {
    // Held until the entry is there, so that it is made of the version that was judged.
    let of = Refused::of(path);
    let file = DocumentFile::lock(path).map_err(&of)?;
    let document = file.document().map_err(&of)?;
    let decision = document.finish(expected, decision)?;
    shelves()?.add(decision, &document, path, notes)?;
    Ok(decision)
}

fn edit(
    path: &Path,
    change: impl Fn(&Snapshot) -> Result<Snapshot, Refusal>,
) -> Result<Snapshot, Refused> {
    let of = Refused::of(path);
    for _ in 0..LOOKS {
        let file = DocumentFile::lock(path).map_err(&of)?;
        let after = change(&file.document().map_err(&of)?)?;
        let text = after.print();
        if text.len() as u64 > MAX_BYTES {
            return Err(of(Refused::TooLarge));
        }
        match file.replace(text.as_bytes()).map_err(&of)? {
            Written::Done => return Ok(after),
            Written::Overtaken => {}
        }
    }
    Err(of(Refused::Busy))
}
