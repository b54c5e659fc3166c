//! Changes that were thought out in a dry run and are made later: all of them or none, and only on the very
//! bytes that they were made for.

use std::sync::Arc;

use super::apply::{Checked, RepoWriter};
use super::change::{Applied, EditError};
use super::repo_path::RepoPath;
use super::texts::{Held, held};
use super::transaction::{FileState, Metadata};
use super::versions::digest;

/// Of a new file, but for what the user's mask takes away.
pub(super) const NEW_FILE: u32 = 0o644;

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    pub bytes: Arc<[u8]>,
    /// Permission bits.
    pub mode: u32,
    /// In hex.
    pub sha256: String,
}

impl Blob {
    pub fn new(bytes: impl Into<Arc<[u8]>>, mode: u32) -> Self {
        let bytes = bytes.into();
        let sha256 = digest(&bytes);
        Self { bytes, mode, sha256 }
    }

    pub fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

/// One file of a proposal; nothing where there is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedFile {
    pub path: String,
    /// For people: the file that it was moved from, which is in the proposal as well, and gone.
    pub from: Option<String>,
    pub before: Option<Blob>,
    pub after: Option<Blob>,
}

/// How the repository stands to a file of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    AsBefore,
    AsProposed,
    /// Somebody changed it.
    Otherwise,
}

impl RepoWriter {
    /// Refused as an edit would be, by the same rules and in the same order.
    pub fn stands(&self, file: &ProposedFile, all: &[ProposedFile]) -> Result<Stands, EditError> {
        let path = self.permitted(&file.path)?;
        // A directory in place of a file of the proposal, or a file in place of a directory of it.
        let deleted = |path: &str| all.iter().any(|f| f.path == path && f.after.is_none());
        let below = format!("{path}/");
        let made_below = || all.iter().any(|f| f.after.is_some() && f.path.starts_with(&below));
        let mut above = path.as_str().match_indices('/').filter_map(|(at, _)| file.path.get(..at));
        let found = match self.standing(&path) {
            Err(EditError::NotAFile { .. }) if above.any(deleted) => FileState::Nothing,
            found => found?,
        };
        let is = |blob: &Option<Blob>| match (&found, blob) {
            (FileState::Nothing, None) => true,
            (FileState::File { digest, stat, .. }, Some(blob)) => {
                *digest == blob.sha256 && (stat.st_mode & 0o100 != 0) == blob.is_executable()
            }
            (FileState::Other, None) => file.after.is_none() && made_below(),
            _ => false,
        };
        Ok(match (is(&file.before), is(&file.after)) {
            (true, _) => Stands::AsBefore,
            (_, true) => Stands::AsProposed,
            _ => Stands::Otherwise,
        })
    }

    /// Makes files what the proposal says, all of them or none. What is already so is left alone, and counts as
    /// changed all the same.
    pub fn adopt(
        &self,
        files: &[ProposedFile],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Applied>, EditError> {
        let (mut checked, mut found) = (vec![], vec![]);
        for file in files {
            match self.stands(file, files)? {
                Stands::AsBefore => checked.push(self.step(file)?),
                Stands::AsProposed => found.push(self.step(file)?),
                Stands::Otherwise => {
                    let path = file.path.clone();
                    return Err(EditError::Conflict { path, current: None });
                }
            }
        }
        // A file may stand where a directory is wanted.
        checked.sort_by_key(|change| change.op != "delete");
        let made = self.make(checked, stopped)?;
        self.count(found);
        Ok(made)
    }

    fn step(&self, file: &ProposedFile) -> Result<Checked, EditError> {
        let path = self.permitted(&file.path)?;
        let expect = file.before.as_ref().map(|blob| blob.sha256.clone());
        let before = file.before.as_ref().map_or(Held::Nothing, |blob| held(&blob.bytes));
        let op = match (&file.before, &file.after) {
            (_, None) => "delete",
            (None, Some(_)) => "create",
            (Some(_), Some(_)) => "replace",
        };
        let after = file.after.as_ref();
        let bytes = after.map(|blob| blob.bytes.to_vec()).unwrap_or_default();
        let mode = after.map(|blob| blob.mode).filter(|mode| op == "create" && *mode != NEW_FILE);
        let like = match file.from.as_deref().filter(|_| op == "create") {
            Some(from) => self.likeness(from)?,
            None => None,
        };
        Ok(Checked { path, to: None, bytes, expect, before, op, mode, like })
    }

    /// Of the file that another one is moved from; none where an earlier attempt has moved it already.
    fn likeness(&self, from: &str) -> Result<Option<Metadata>, EditError> {
        let FileState::File { file, .. } = self.standing(&self.permitted(from)?)? else {
            return Ok(None);
        };
        let failed =
            |error: std::io::Error| EditError::Failed { path: from.into(), why: error.to_string() };
        Metadata::of(file).map(Some).map_err(failed)
    }
}

/// For those who build proposals from what was stored.
pub fn is_repo_path(path: &str) -> bool {
    RepoPath::parse(path).is_ok_and(|parsed| parsed.as_str() == path)
}

#[cfg(test)]
mod tests;
