//! Why nothing happened to a document, in the words that `act edit` answers with.

use std::path::{Path, PathBuf};

use edit_protocol::{BadDocument, Refusal};

#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("refused: {}", .0.reason())]
    Protocol(Refusal),
    #[error("the file is no document: {}", .0.0)]
    BadDocument(BadDocument),
    #[error("no such file; name a document with --file")]
    NotFound,
    #[error("{0}")]
    NotAFile(&'static str),
    #[error("more than {} bytes", super::MAX_BYTES)]
    TooLarge,
    #[error("the file may not be written; change its permissions first")]
    ReadOnly,
    #[error("somebody else keeps the file locked or keeps changing it; try again")]
    Busy,
    #[error("{what}: {source}")]
    Failed { what: String, source: std::io::Error },
    /// The place for finished documents cannot be used.
    #[error("{0}")]
    NoPlace(String),
    /// The text that was to be written could not be had.
    #[error("{0}")]
    Content(String),
    /// Any other, of a document's own file.
    #[error("{}: {why}", path.display())]
    Of { path: PathBuf, why: Box<Refused> },
}

impl Refused {
    pub(super) fn failed<E: Into<std::io::Error>>(what: &str) -> impl FnOnce(E) -> Self {
        let what = what.to_owned();
        move |source| Self::Failed { what, source: source.into() }
    }

    pub(super) fn of(path: &Path) -> impl Fn(Self) -> Self {
        move |why| Self::Of { path: path.to_owned(), why: Box::new(why) }
    }

    /// The stable word, listed in `specs/edit-protocol.md`.
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
