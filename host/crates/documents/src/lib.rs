//! Documents that `act edit` changes: one file each, edited under a version, and finished into a queue or a review
//! list.
//!
//! The crate promises that exactly one of several editors that expect the same version wins, and that a killed process
//! leaves the old or the new document. The `edit_protocol` crate decides what an edit means; the file tools use it as
//! well. Only the command line uses this crate; no task of the agent does. The rules are EDIT-18 to EDIT-35.
//!
//! - [`show`], [`edit_line`] and [`full_rewrite`] read and change a document.
//! - [`finish`] stores a finished document in [`Publishing`], which lists them.
//!
//! ```
//! use act_documents::{Refused, edit_line, show};
//! # let directory = tempfile::tempdir().unwrap();
//! let file = directory.path().join("doc.json");
//! let text = r#"{"doc_id": "d", "version": 3, "meta": {}, "lines": {"0": "one", "1": "two"}}"#;
//! std::fs::write(&file, text).unwrap();
//!
//! assert_eq!(edit_line(&file, 3, 1, "zwei").unwrap().version(), 4);
//! assert_eq!(show(&file).unwrap().lines(), ["one", "zwei"]);
//! // A second edit of version 3 is refused, because the document is at version 4 now.
//! let refused: Refused = edit_line(&file, 3, 0, "eins").unwrap_err();
//! assert_eq!(refused.reason(), "version_mismatch");
//! ```

mod document_file;
mod publishing;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use edit_protocol::{BadDocument, Decision, Refusal, Snapshot};

use document_file::DocumentFile;
pub use publishing::{Entry, Listing, Publishing};

/// Maximum number of attempts at an edit. An attempt fails when a program that takes no lock changes the file
/// meanwhile.
const MAX_ATTEMPTS: u32 = 20;

/// Maximum number of bytes of a document, and of a text that becomes one.
pub const MAX_BYTES: u64 = 16 << 20;

/// Reads a document.
///
/// # Errors
/// The file is missing, too large or no document.
pub fn show(path: &Path) -> Result<Snapshot, Refused> {
    document_file::read(path).map_err(Refused::of(path))
}

/// Replaces one line by `new`, and returns the new document.
///
/// # Errors
/// `Protocol` when the version or the line does not fit; `Busy` when others keep changing the file; otherwise as for
/// [`show`].
pub fn edit_line(path: &Path, expected: u64, index: usize, new: &str) -> Result<Snapshot, Refused> {
    edit(path, |document| document.edit_line(expected, index, new))
}

/// Replaces the whole text by `content`, and returns the new document.
///
/// # Errors
/// The errors of [`edit_line`].
pub fn full_rewrite(path: &Path, expected: u64, content: &str) -> Result<Snapshot, Refused> {
    edit(path, |document| document.full_rewrite(expected, content))
}

/// Stores a copy of the document in the queue or in the list for review. `publishing` is called only when there is
/// something to store.
///
/// # Errors
/// The errors of [`edit_line`]; `NoPlace` when the artifact directory cannot be used.
pub fn finish(
    path: &Path,
    expected: u64,
    decision: &str,
    notes: &str,
    publishing: impl FnOnce() -> Result<Publishing, Refused>,
) -> Result<Decision, Refused> {
    // The lock is held until the copy is stored, so that the stored version is the version that was judged.
    let of = Refused::of(path);
    let file = DocumentFile::lock(path).map_err(&of)?;
    let document = file.document().map_err(&of)?;
    let decision = document.finish(expected, decision)?;
    publishing()?.add(decision, &document, path, notes)?;
    Ok(decision)
}

fn edit(
    path: &Path,
    change: impl Fn(&Snapshot) -> Result<Snapshot, Refusal>,
) -> Result<Snapshot, Refused> {
    let of = Refused::of(path);
    for _ in 0..MAX_ATTEMPTS {
        let file = DocumentFile::lock(path).map_err(&of)?;
        let after = change(&file.document().map_err(&of)?)?;
        let text = after.print();
        if text.len() as u64 > MAX_BYTES {
            return Err(of(Refused::TooLarge));
        }
        if file.replace(text.as_bytes()).map_err(&of)? {
            return Ok(after);
        }
    }
    Err(of(Refused::Busy))
}

/// Why `act edit` did nothing. The messages are what it prints.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("refused: {}", .0.reason())]
    Protocol(Refusal),
    #[error("the file is not a document: {}", .0.0)]
    BadDocument(BadDocument),
    #[error("no such file; name a document with --file")]
    NotFound,
    #[error("{0}")]
    NotAFile(&'static str),
    #[error("more than {} bytes", MAX_BYTES)]
    TooLarge,
    #[error("the file may not be written; change its permissions first")]
    ReadOnly,
    #[error("another process keeps the file locked or keeps changing it; try again")]
    Busy,
    #[error("{what}: {source}")]
    Failed { what: String, source: std::io::Error },
    /// The directory for finished documents cannot be used.
    #[error("{0}")]
    NoPlace(String),
    /// The new text cannot be read.
    #[error("{0}")]
    Content(String),
    /// One of the above, with the path of the document.
    #[error("{}: {why}", path.display())]
    Of { path: PathBuf, why: Box<Refused> },
}

impl Refused {
    fn failed<E: Into<std::io::Error>>(what: &str) -> impl FnOnce(E) -> Self {
        let what = what.to_owned();
        move |source| Self::Failed { what, source: source.into() }
    }

    fn of(path: &Path) -> impl Fn(Self) -> Self {
        move |why| Self::Of { path: path.to_owned(), why: Box::new(why) }
    }

    /// Returns the stable word, which `specs/edit-protocol.md` lists.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Protocol(refusal) => refusal.reason(),
            Self::BadDocument(_) => "bad_document",
            Self::NotFound => "not_found",
            Self::NotAFile(_) => "not_a_file",
            Self::TooLarge => "too_large",
            Self::ReadOnly => "read_only",
            Self::Busy => "busy",
            Self::Failed { .. } => "failed",
            Self::NoPlace(_) => "artifact_dir",
            Self::Content(_) => "bad_arguments",
            Self::Of { why, .. } => why.reason(),
        }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Protocol(refusal)
    }
}

impl From<BadDocument> for Refused {
    fn from(bad: BadDocument) -> Self {
        Self::BadDocument(bad)
    }
}
