//! Why an edit was refused.

use serde::Serialize;
use std::fmt;

/// Calls a macro with every reason: the case of the WIT enum `reason`, and its word. The components and the host convert
/// their generated enums with it, so that a case that is missing here or there does not compile.
#[macro_export]
macro_rules! for_each_reason {
    ($callback:ident) => {
        $callback! {
            VersionMismatch "version_mismatch",
            IndexOutOfBounds "index_out_of_bounds",
            NewHasNewline "new_has_newline",
            ContentEmpty "content_empty",
            BadArguments "bad_arguments",
            NotFound "not_found",
            Exists "exists",
            Protected "protected",
            Guarded "guarded",
            Boundary "boundary",
            OutsideRepo "outside_repo",
            Excluded "excluded",
            Binary "binary",
            TooLarge "too_large",
            NotAFile "not_a_file",
            Budget "budget",
        }
    };
}

macro_rules! define {
    ($($case:ident $word:literal,)*) => {
        /// Why an edit or a look at a file was refused. `wit/deps/types/types.wit` describes each case.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the WIT file describes them")]
        pub enum Reason {
            $($case,)*
        }

        impl Reason {
            /// Returns the stable word: in answers of tools, in events and in the audit log.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$case => $word,)*
                }
            }

            /// Returns the reason that a word stands for.
            pub fn of_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$case),)*
                    _ => None,
                }
            }
        }
    };
}

for_each_reason!(define);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A refusal with the facts that the caller needs to do better. It serialises as `{"reason": …, …}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Refusal {
    /// The file is not in the state that the caller has read.
    VersionMismatch { current_version: u64 },
    /// The file has no such line. `max_index` is the last line, -1 in an empty file.
    IndexOutOfBounds { max_index: i64 },
    /// One line was to be replaced, and the new text has several.
    NewHasNewline,
    /// A file was to be replaced by nothing; deleting is another operation.
    ContentEmpty,
    /// The request contradicts itself: a range that ends before it starts, two that overlap, no edit at all.
    BadArguments { message: String },
    /// The decision is neither `pass` nor `hold`.
    InvalidDecision,
    /// The version has reached its maximum.
    VersionExhausted,
    /// The file has a NUL byte near its beginning, so it is no text.
    Binary,
}

impl Refusal {
    /// Returns the stable word, as in the JSON.
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
