//! What the two files of grants have in common: strict TOML, and errors that say where.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// Why a file of grants or the policy does not count; nothing is loaded then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("{} {why}", path.display())]
    Untrusted { path: PathBuf, why: String },
    #[error("{}:{line}:{column}: {why}", path.display())]
    Malformed { path: PathBuf, line: usize, column: usize, why: String },
    #[error("{} cannot be written: {why}", path.display())]
    Unwritable { path: PathBuf, why: String },
    #[error("no home directory for grants; set HOME or XDG_CONFIG_HOME")]
    NoHome,
}

impl FileError {
    /// A word that stays the same when messages get better.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Untrusted { .. } => "grants_untrusted",
            Self::Malformed { .. } => "grants_malformed",
            Self::Unwritable { .. } | Self::NoHome => "grants_unwritable",
        }
    }

    pub fn hint(&self) -> &'static str {
        match self {
            Self::Untrusted { .. } => "put owner, mode and place of the file right, or remove it",
            Self::Malformed { .. } => "correct the file at this place",
            Self::Unwritable { .. } => "look at owner and mode of the directory",
            Self::NoHome => "set HOME to a directory that you can write",
        }
    }
}

/// The whole of a document, without a word that nobody knows.
pub(super) fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, FileError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        malformed(text, path, at, &error.message().replace('\n', " "))
    })
}

pub(super) fn malformed(text: &str, path: &Path, at: usize, why: &str) -> FileError {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    FileError::Malformed { path: path.to_owned(), line, column, why: why.to_owned() }
}

impl From<FileError> for act_core::Failure {
    fn from(error: FileError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}
