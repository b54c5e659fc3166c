//! Bytes of one file, and which version of it they are.

use std::fs::File;
use std::os::unix::fs::FileExt;

pub use edit_protocol::{SNIFFED as BINARY_PROBE, is_binary};

use super::versions::{Version, Versions, digest};
use super::view::{Kind, Last, Profile, RepoView, ViewError};

/// Bytes in one answer at most.
pub const MAX_READ: u64 = 8 << 20;

/// Bytes from `offset`, at most `length`; without one to the end or to the bound.
#[derive(Debug, Clone, Default)]
pub struct Slice {
    pub path: String,
    pub offset: u64,
    pub length: Option<u64>,
    /// Needed to edit; the whole file is read for it.
    pub with_version: bool,
    /// Maximum size in bytes of a file that is read for its version, below [`MAX_READ`].
    pub version_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The real path, which is the one to edit.
    pub path: String,
    pub bytes: Vec<u8>,
    /// Of the whole file.
    pub size: u64,
    pub version: Option<Version>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    View(#[from] ViewError),
    #[error("{path} is no regular file")]
    NotAFile { path: String },
    /// Only a reader to whom binaries are not in view is told so.
    #[error("{path} is binary")]
    Binary { path: String },
    #[error("{path} has {size} bytes, more than the {MAX_READ} that can be read for an edit")]
    TooLarge { path: String, size: u64 },
    #[error("{path} cannot be read: {why}")]
    Failed { path: String, why: String },
}

/// Follows links inside the view. With `with_version` the bytes and the version are of the same moment.
pub fn read(
    view: &RepoView,
    want: &Slice,
    versions: Option<&Versions>,
) -> Result<Chunk, ReadError> {
    view.stop().go_on().map_err(ViewError::from)?;
    let seen = view.resolve("", &want.path, Last::Follow)?;
    let path = seen.path;
    if seen.kind != Kind::File {
        return Err(ReadError::NotAFile { path });
    }
    let failed =
        |error: std::io::Error| ReadError::Failed { path: path.clone(), why: error.to_string() };
    let file = File::from(seen.fd);
    let said = u64::try_from(seen.stat.st_size).unwrap_or(0);
    let text_only = view.profile() == Profile::Scout;
    let head = || read_at(&file, 0, (BINARY_PROBE as u64).min(said)).map_err(failed);
    let length = want.length.unwrap_or(MAX_READ).min(MAX_READ);
    if !want.with_version {
        // What begins at the beginning is its own probe: one look at the file instead of two.
        let probes_itself = want.offset == 0 && length >= (BINARY_PROBE as u64).min(said);
        if text_only && !probes_itself && is_binary(&head()?) {
            return Err(ReadError::Binary { path });
        }
        let there = length.min(said.saturating_sub(want.offset));
        let bytes = read_at(&file, want.offset, there).map_err(failed)?;
        if text_only && probes_itself && is_binary(&bytes) {
            return Err(ReadError::Binary { path });
        }
        view.note(&path);
        return Ok(Chunk { path, bytes, size: said, version: None });
    }
    if text_only && is_binary(&head()?) {
        return Err(ReadError::Binary { path });
    }
    view.note(&path);
    let size = file.metadata().map_err(failed)?.len();
    if size > want.version_bytes.unwrap_or(MAX_READ).min(MAX_READ) {
        return Err(ReadError::TooLarge { path, size });
    }
    let whole = read_at(&file, 0, size).map_err(failed)?;
    let version = match versions {
        Some(versions) => versions.observe(&path, &digest(&whole)),
        None => Version { number: 1, digest: digest(&whole) },
    };
    let size = whole.len() as u64;
    let from = usize::try_from(want.offset.min(size)).unwrap_or(usize::MAX);
    let to = usize::try_from(want.offset.saturating_add(length).min(size)).unwrap_or(usize::MAX);
    let bytes = whole.get(from..to).unwrap_or_default().to_vec();
    Ok(Chunk { path, bytes, size, version: Some(version) })
}

/// At most `length` bytes; a file that shrinks meanwhile gives fewer.
pub(super) fn read_at(file: &File, mut offset: u64, length: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset) {
            Ok(0) => break,
            Ok(count) => {
                filled += count;
                offset += count as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
