//! Why an edit was refused, in the words of the protocol.

use serde::Serialize;

/// Serialises as `{"reason": …, …}` with the facts that the caller needs to do better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Refusal {
    /// The file is not in the state that the caller has read.
    VersionMismatch { current_version: u64 },
    /// No such line; `max_index` is the last one that there is, -1 in an empty file.
    IndexOutOfBounds { max_index: i64 },
    /// One line was asked for and several were given.
    NewHasNewline,
    /// A rewrite to nothing, which deletes are for.
    ContentEmpty,
    /// The request contradicts itself: a range that ends before it starts, two that overlap, no edit at all.
    BadArguments { message: String },
    /// Neither `pass` nor `hold`.
    InvalidDecision,
    /// The version is as high as it goes.
    VersionExhausted,
    /// A NUL byte near the beginning: this is not text.
    Binary,
}

impl Refusal {
    /// The stable word, as in the JSON.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::VersionMismatch { .. } => "version_mismatch",
            Self::IndexOutOfBounds { .. } => "index_out_of_bounds",
            Self::NewHasNewline => "new_has_newline",
            Self::ContentEmpty => "content_empty",
            Self::BadArguments { .. } => "bad_arguments",
            Self::InvalidDecision => "invalid_decision",
            Self::VersionExhausted => "version_exhausted",
            Self::Binary => "binary",
        }
    }
}
