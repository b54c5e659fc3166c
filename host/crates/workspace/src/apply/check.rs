//! What must hold before a change is made: the path is one to write, and the file is the one that was read.

use edit_protocol::Reason;
use std::collections::BTreeSet;

use super::{Checked, MAX_SEEN, MAX_WRITE, RepoWriter};
use crate::change::{Change, EditError};
use crate::overlay::Laid;
use crate::repo_path::RepoPath;
use crate::texts::{Held, MAX_TEXT, held};
use crate::transaction::{self, FileState, directory};
use crate::versions::{Version, digest};
use crate::view::Kind;

impl RepoWriter {
    pub(super) fn check(
        &self,
        change: &Change,
        named: &mut BTreeSet<RepoPath>,
    ) -> Result<Checked, EditError> {
        let mut name = |text: &str| {
            let path = self.permitted(text)?;
            if !named.insert(path.clone()) {
                return Err(EditError::Arguments(format!("{path} is named twice in one call")));
            }
            Ok(path)
        };
        let path = name(change.path())?;
        let to = match change {
            Change::Move { to, .. } => Some(name(to)?),
            _ => None,
        };
        let bytes = match change {
            Change::Create { bytes, .. } | Change::Replace { bytes, .. } => bytes.clone(),
            Change::Delete { .. } | Change::Move { .. } => vec![],
        };
        if bytes.len() as u64 > MAX_WRITE {
            return Err(EditError::TooLarge { path: path.to_string(), limit: MAX_WRITE });
        }
        let expect = match change {
            Change::Create { .. } => {
                self.free(&path)?;
                None
            }
            Change::Replace { expect, .. }
            | Change::Delete { expect, .. }
            | Change::Move { expect, .. } => match self.current(&path)? {
                None => return Err(EditError::NotFound { path: path.to_string() }),
                Some(now) if now.is(expect) => Some(now.digest),
                current => return Err(EditError::Conflict { path: path.to_string(), current }),
            },
        };
        if let Some(to) = &to {
            self.free(to)?;
        }
        let before = self.before(&path, expect.as_deref());
        Ok(Checked { path, to, bytes, expect, before, op: change.op(), mode: None, like: None })
    }

    /// Nothing about the file itself is looked at, so the answer does not tell whether it exists.
    pub(crate) fn permitted(&self, text: &str) -> Result<RepoPath, EditError> {
        let path = RepoPath::parse(text)
            .map_err(|error| EditError::Path { path: text.chars().take(200).collect(), error })?;
        let forbidden = |reason| Err(EditError::Forbidden { path: path.to_string(), reason });
        if let Some(rule) = self.rules.judge(path.as_str()) {
            return forbidden(rule.reason());
        }
        if self.view.rule(path.as_str(), Kind::File).is_some() {
            return forbidden(Reason::Excluded);
        }
        // Nothing would prove what is written where the Verifier does not look.
        if !self.rules.allowed().matches(path.as_str()) && !self.tested().holds(path.as_str()) {
            return Err(EditError::Untested { path: path.to_string() });
        }
        Ok(path)
    }

    pub(super) fn current(&self, path: &RepoPath) -> Result<Option<Version>, EditError> {
        if let Some(Laid::File(written)) =
            self.overlay.as_ref().map(|over| over.look(path.as_str()))
        {
            return Ok(Some(self.versions.observe(path.as_str(), written.digest())));
        }
        Ok(match self.standing(path)? {
            FileState::Nothing => None,
            FileState::File { digest, .. } => Some(self.versions.observe(path.as_str(), &digest)),
            FileState::Other => return Err(EditError::NotAFile { path: path.to_string() }),
            FileState::TooLarge => {
                return Err(EditError::TooLarge { path: path.to_string(), limit: MAX_SEEN });
            }
        })
    }

    /// The text of a file that the task is about to change for the first time.
    pub(crate) fn before(&self, path: &RepoPath, expect: Option<&str>) -> Held {
        let Some(expect) = expect else { return Held::Nothing };
        if self.texts().knows(path.as_str()) {
            return Held::Unknown;
        }
        let (dir, name) = path.split();
        let dir = directory(&self.root, dir, path).ok().flatten();
        let bytes = dir.and_then(|dir| transaction::bytes(dir, name, MAX_TEXT));
        // Other bytes than those of the version would show a change that nobody made.
        let bytes = bytes.filter(|bytes| digest(bytes) == expect);
        bytes.map_or(Held::Unknown, |bytes| held(&bytes))
    }

    fn free(&self, path: &RepoPath) -> Result<(), EditError> {
        if let Some(Laid::File(_)) = self.overlay.as_ref().map(|over| over.look(path.as_str())) {
            return Err(EditError::Exists { path: path.to_string() });
        }
        match self.standing(path)? {
            FileState::Nothing => Ok(()),
            FileState::Other => Err(EditError::NotAFile { path: path.to_string() }),
            FileState::File { .. } | FileState::TooLarge => {
                Err(EditError::Exists { path: path.to_string() })
            }
        }
    }

    /// Of a file that no dry run has changed.
    pub(crate) fn standing(&self, path: &RepoPath) -> Result<FileState, EditError> {
        match self.overlay.as_ref().map(|over| over.look(path.as_str())) {
            Some(Laid::Nothing) => return Ok(FileState::Nothing),
            Some(Laid::File(_) | Laid::Directory) => return Ok(FileState::Other),
            Some(Laid::NotDirectory) => {
                return Err(EditError::NotAFile { path: path.to_string() });
            }
            Some(Laid::Through) | None => {}
        }
        let (dir, name) = path.split();
        let failed = |why: String| EditError::Failed { path: path.to_string(), why };
        match directory(&self.root, dir, path)? {
            None => Ok(FileState::Nothing),
            Some(dir) => transaction::state_of(&dir, name, MAX_SEEN)
                .map_err(|error| failed(error.to_string())),
        }
    }

    /// A conflict says what the file is now.
    pub(super) fn with_current(&self, error: EditError) -> EditError {
        match error {
            EditError::Conflict { path, .. } => {
                let parsed = RepoPath::parse(&path).ok();
                let current = parsed.and_then(|path| self.current(&path).ok().flatten());
                EditError::Conflict { path, current }
            }
            EditError::Torn { why, left } => {
                EditError::Torn { why: Box::new(self.with_current(*why)), left }
            }
            other => other,
        }
    }
}
