//! Errors of the files that decide what is granted, and how these files are parsed. `act_fs::trusted` judges who may
//! have written them.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use act_fs::trusted::{Owner, open_directory, read_text, user_directory};

/// File with the command that sends the head of the audit log away.
const ANCHOR: &str = "anchor";
const MAX_ANCHOR_BYTES: u64 = 16 << 10;

/// Why `grants.toml` or `policy.toml` cannot be used. No component is loaded then.
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
    /// A stable word for records and for `--json`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Untrusted { .. } => "grants_untrusted",
            Self::Malformed { .. } => "grants_malformed",
            Self::Unwritable { .. } | Self::NoHome => "grants_unwritable",
        }
    }

    pub fn hint(&self) -> &'static str {
        match self {
            Self::Untrusted { .. } => "correct owner, mode and location of the file, or remove it",
            Self::Malformed { .. } => "correct the file at this place",
            Self::Unwritable { .. } => "look at owner and mode of the directory",
            Self::NoHome => "set HOME to a directory that you can write",
        }
    }
}

impl From<FileError> for act_core::Failure {
    fn from(error: FileError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}

/// Parses a whole document.
pub(super) fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, FileError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        malformed(text, path, at, &error.message().replace('\n', " "))
    })
}

/// Returns the error for a mistake at byte `at` of the text; `why` describes it.
pub(super) fn malformed(text: &str, path: &Path, at: usize, why: &str) -> FileError {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    FileError::Malformed { path: path.to_owned(), line, column, why: why.to_owned() }
}

/// Reads the command, for `/bin/sh`, that sends the head of the audit log to another machine; `None` if the user has
/// none. The command lies beside the grants and is trusted under the same conditions.
///
/// # Errors
///
/// A message if the file is not trusted or cannot be read.
pub fn anchor_command(repo: Option<&Path>) -> Result<Option<String>, String> {
    let Some(path) = user_directory() else { return Ok(None) };
    let untrusted = |why: String| format!("{} {why}", path.join(ANCHOR).display());
    let Some(dir) = open_directory(&path, repo, Owner::Caller).map_err(untrusted)? else {
        return Ok(None);
    };
    let text = read_text(&dir, ANCHOR, MAX_ANCHOR_BYTES, Owner::Caller).map_err(untrusted)?;
    Ok(text.filter(|text| !text.trim().is_empty()))
}
