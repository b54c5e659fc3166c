//! The only way a tool changes the repository: whole files, checked first, then written in one transaction.
//!
//! [`RepoWriter::apply`] is the entry point. It checks each change (the path may be written, the file is the version
//! that the caller read), hands all of them to a [`Transaction`] or, in a dry run, to an [`Overlay`], and records what
//! the task changed. Several changes are made one after the other and rolled back together. A killed process leaves
//! some of them made, each one whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use act_core::consent::Consent;
use act_fs::{DIRECTORY, Root};
use edit_protocol::Reason;
use rustix::fs::{AtFlags, statat};

use super::copy_set::{UnverifiedFile, VerificationScope};
use super::git::is_git_directory;
use super::guarded::is_guarded;
use super::originals::Originals;
use super::overlay::{Lookup, Overlay};
use super::paths::{PathError, RepoPath};
use super::reading::{MAX_READ, Version, Versions, digest};
use super::transaction::{self, FileState, Metadata, Transaction, directory};
use super::view::{Kind, Profile, RepoView, ViewError};
use super::write_rules::{WriteRule, WriteRules};

/// Maximum number of bytes of a written file: no more than can be read again.
pub const MAX_WRITE: u64 = MAX_READ;
/// Maximum number of bytes of a file that is deleted or moved, which is read to compare it with the expected version.
pub(super) const MAX_SEEN: u64 = 1 << 30;
/// Maximum number of changes in one call.
const MAX_CHANGES: usize = 200;
/// Maximum number of bytes that one task may write.
const MAX_TASK_BYTES: u64 = 1 << 30;
/// Maximum number of files that one task may change.
const MAX_TASK_FILES: usize = 20_000;
/// Maximum number of guarded paths of one task about which the person is asked: more than any change needs, and few enough that
/// a model cannot wear the person out.
const MAX_QUESTIONS: usize = 20;
/// Maximum number of bytes of one text that the writer stores to show the changes of the task.
const MAX_TEXT: usize = 1 << 20;
/// Maximum number of bytes of all these texts together.
const MAX_TEXTS: usize = 64 << 20;

/// A change of one whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The file must not exist. Missing directories are created.
    Create {
        path: String,
        bytes: Vec<u8>,
    },
    Replace {
        path: String,
        expect: Version,
        bytes: Vec<u8>,
    },
    Delete {
        path: String,
        expect: Version,
    },
    /// The target must not exist. Missing directories are created.
    Move {
        from: String,
        expect: Version,
        to: String,
    },
}

impl Change {
    /// Returns the path of the file, by its old name where it is moved.
    pub fn path(&self) -> &str {
        match self {
            Self::Create { path, .. } | Self::Replace { path, .. } | Self::Delete { path, .. } => {
                path
            }
            Self::Move { from, .. } => from,
        }
    }

    /// Returns every path that the change names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let to = match self {
            Self::Move { to, .. } => Some(to.as_str()),
            Self::Create { .. } | Self::Replace { .. } | Self::Delete { .. } => None,
        };
        std::iter::once(self.path()).chain(to)
    }

    /// Returns the word for events: `create`, `replace`, `delete` or `move`.
    pub fn op(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Replace { .. } => "replace",
            Self::Delete { .. } => "delete",
            Self::Move { .. } => "move",
        }
    }
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub op: &'static str,
    /// The file, by its old path where it was moved.
    pub path: String,
    /// The new path of a moved file.
    pub to: Option<String>,
    /// The version of the file after the change, or `None` when it was deleted.
    pub version: Option<Version>,
    pub sha256_before: Option<String>,
    pub sha256_after: Option<String>,
    /// The path is guarded, and the user allowed it for this task.
    pub guarded: bool,
}

/// A file that the task left different from how it found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    pub sha256_before: Option<String>,
    pub sha256_now: Option<String>,
    pub guarded: bool,
}

impl ChangedFile {
    /// Returns `create`, `replace` or `delete`, for all changes of the task together.
    pub fn op(&self) -> &'static str {
        match (&self.sha256_before, &self.sha256_now) {
            (None, _) => "create",
            (Some(_), None) => "delete",
            (Some(_), Some(_)) => "replace",
        }
    }
}

/// A file that was changed and could not be rolled back, because another program changed it meanwhile or the system
/// refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRolledBack {
    pub path: String,
    pub state: LeftState,
}

/// The state of a file that could not be rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftState {
    /// The file holds what was written, changed by another program since.
    Changed,
    Written,
    /// The file was deleted or moved, and another program has created one in its place.
    Other,
    Nothing,
}

impl LeftState {
    /// Returns whether the file holds bytes that this task wrote.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Changed | Self::Written)
    }
}

impl NotRolledBack {
    /// Maximum number of files that are listed in one message.
    const MAX_LISTED: usize = 100;

    /// Returns one sentence about the files.
    pub fn list(files: &[Self]) -> String {
        let shown: Vec<_> = files.iter().take(Self::MAX_LISTED).map(Self::to_string).collect();
        match files.len().saturating_sub(Self::MAX_LISTED) {
            0 => shown.join("; "),
            more => format!("{}; and {more} more", shown.join("; ")),
        }
    }
}

impl std::fmt::Display for NotRolledBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.state {
            LeftState::Changed => "holds the bytes of this task, changed by another program since",
            LeftState::Written => "holds the bytes of this task",
            LeftState::Other => "is a file of another program",
            LeftState::Nothing => "is gone",
        };
        write!(f, "{} {state}", self.path)
    }
}

/// Why changes were refused. The repository is unchanged, except for the files of a `RollbackFailed`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The file is not what the caller read. `current` is its version now, or `None` when it is missing.
    #[error("{path} is not the version that was read; read it again")]
    Conflict { path: String, current: Option<Version> },
    #[error("{path} exists")]
    Exists { path: String },
    #[error("{path} does not exist")]
    NotFound { path: String },
    /// `reason` is `protected`, `guarded`, `boundary` or `excluded`.
    #[error("{path} may not be written ({reason})")]
    Forbidden { path: String, reason: Reason },
    #[error(
        "nobody has the permission to write {path}, so the user does not want it changed; leave it to the user, who can \
         `chmod u+w` it"
    )]
    ReadOnly { path: String },
    #[error(
        "git ignores {path}, so the Verifier would not see it; put it where git does not ignore it, or leave \
         it to the user, who can name it under verification.include in agent.yaml or with --allow-path"
    )]
    Untested { path: String },
    #[error(
        "{path} is not a regular file, or a link or a file is on the way to it; name the real path"
    )]
    NotAFile { path: String },
    #[error("{path:?}: {error}")]
    Path { path: String, error: PathError },
    #[error("{0}")]
    Arguments(String),
    #[error("{path} would have more than {limit} bytes")]
    TooLarge { path: String, limit: u64 },
    #[error("this task has reached its limit for writing: {0}")]
    Budget(&'static str),
    /// The task was cancelled.
    #[error("stopped")]
    Stopped,
    #[error("{path} cannot be written: {why}")]
    Failed { path: String, why: String },
    /// A change failed, and the changes before it could not all be rolled back.
    #[error("{why}; could not be rolled back: {}", NotRolledBack::list(left))]
    RollbackFailed { why: Box<EditError>, left: Vec<NotRolledBack> },
}

impl EditError {
    /// Returns the reason with which a tool answers, or `None` when the machine failed and not the request.
    pub fn reason(&self) -> Option<Reason> {
        Some(match self {
            Self::Conflict { .. } => Reason::VersionMismatch,
            Self::Exists { .. } => Reason::Exists,
            Self::NotFound { .. } => Reason::NotFound,
            Self::Forbidden { reason, .. } => *reason,
            Self::ReadOnly { .. } => Reason::Protected,
            Self::Untested { .. } => Reason::Excluded,
            Self::NotAFile { .. } => Reason::NotAFile,
            Self::Path { error, .. } => error.reason(),
            Self::Arguments(_) => Reason::BadArguments,
            Self::TooLarge { .. } => Reason::TooLarge,
            Self::Budget(_) => Reason::Budget,
            Self::RollbackFailed { why, .. } => return why.reason(),
            Self::Stopped | Self::Failed { .. } => return None,
        })
    }

    /// Returns the stable word of the reason.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            // The interface of components has no case of its own for it, so tools report it as protected.
            Self::ReadOnly { .. } => Some("read_only"),
            other => other.reason().map(Reason::word),
        }
    }
}

/// The writing side of one task. Calls are made one after the other, from whatever thread.
#[derive(Debug)]
pub struct RepoWriter {
    root: Root,
    view: RepoView,
    rules: WriteRules,
    versions: Versions,
    exchange: bool,
    /// Where a dry run writes; `None` when files are written.
    overlay: Option<Overlay>,
    /// Locked during a whole call, which may wait for disks.
    spent: Mutex<Spent>,
    /// Locked for a moment only, so that the changes can be read while a call is running.
    changed: Mutex<BTreeMap<String, ChangedFile>>,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    contents: Mutex<ContentChanges>,
    /// Where the files are stored before the task changes them.
    originals: Option<Arc<Originals>>,
    /// The person who is asked about guarded paths; `None` where there is no one to ask.
    consent: Option<Arc<dyn Consent>>,
    /// The guarded paths that the person was asked about, and whether the task may change them.
    answered: Mutex<BTreeMap<String, bool>>,
}

/// The part of its budget that the task has used.
#[derive(Debug, Default)]
pub(super) struct Spent {
    bytes: u64,
    /// Directories that were cleared of the temporary files of an earlier, killed task.
    swept: BTreeSet<String>,
}

/// A change that passed every check.
pub(super) struct Checked {
    pub(super) path: RepoPath,
    pub(super) to: Option<RepoPath>,
    pub(super) bytes: Vec<u8>,
    /// The digest that the file must have when it is changed.
    pub(super) expect: Option<String>,
    /// The content before the change, if it is to be remembered.
    pub(super) before: Content,
    pub(super) op: &'static str,
    /// The permission bits of a new file, if they are not the default.
    pub(super) mode: Option<u32>,
    /// The metadata of the file that a new file takes the place of.
    pub(super) like: Option<Metadata>,
}

impl RepoWriter {
    /// Opens the repository and removes the temporary files that a killed task left.
    ///
    /// # Errors
    /// The root cannot be opened.
    pub fn open(root: &Path, rules: WriteRules) -> Result<Self, ViewError> {
        let root = Root::open(root)?;
        transaction::sweep_tree(&root);
        Ok(Self::of(root, rules, None))
    }

    /// Opens the repository for a dry run: changes are written to the overlay. Binary files are refused as well.
    ///
    /// # Errors
    /// The root cannot be opened.
    pub fn open_dry(root: &Path, rules: WriteRules, overlay: Overlay) -> Result<Self, ViewError> {
        Ok(Self::of(Root::open(root)?, rules, Some(overlay)))
    }

    fn of(root: Root, rules: WriteRules, overlay: Option<Overlay>) -> Self {
        let view = RepoView::of(root.clone(), Profile::Tool).with_secrets(rules.allowed());
        Self {
            root,
            view: view.over(overlay.as_ref()),
            rules,
            versions: Versions::default(),
            exchange: true,
            overlay,
            spent: Mutex::default(),
            changed: Mutex::default(),
            refused: Mutex::default(),
            contents: Mutex::default(),
            originals: None,
            consent: None,
            answered: Mutex::default(),
        }
    }

    /// Lets a person open guarded paths, each by an answer of its own.
    #[must_use]
    pub fn asking(mut self, consent: Option<Arc<dyn Consent>>) -> Self {
        self.consent = consent;
        self
    }

    /// Returns the person who is asked about guarded paths.
    pub fn consent(&self) -> Option<&Arc<dyn Consent>> {
        self.consent.as_ref()
    }

    /// Returns the guarded paths about which the person has to be asked before these changes, each with the word of its
    /// change. There are none if another rule forbids one of the changes anyway, or if the person was asked about the path
    /// before: one answer counts for the whole task.
    pub fn questions(&self, changes: &[Change]) -> Vec<(String, &'static str)> {
        if self.consent.is_none() || changes.len() > MAX_CHANGES {
            return vec![];
        }
        let scope = self.scope();
        let mut questions = vec![];
        for change in changes {
            for name in change.names() {
                let Ok(path) = RepoPath::parse(name) else { return vec![] };
                let rule = self.rules.forbidden_by(path.as_str());
                let guarded = rule == Some(WriteRule::Guarded);
                if (rule.is_some() && !guarded) || self.permitted_besides(&path, &scope).is_err() {
                    return vec![];
                }
                if guarded {
                    questions.push((path.to_string(), change.op()));
                }
            }
        }
        let answered = self.answered();
        questions.retain(|(path, _)| !answered.contains_key(path));
        questions.truncate(MAX_QUESTIONS.saturating_sub(answered.len()));
        questions
    }

    /// Stores the answer of the person about a guarded path, which counts until the end of the task.
    pub fn answer(&self, path: &str, allowed: bool) {
        self.answered().insert(path.to_owned(), allowed);
    }

    fn answered(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores each file before its first change.
    #[must_use]
    pub fn with_originals(mut self, originals: Arc<Originals>) -> Self {
        self.originals = Some(originals);
        self
    }

    /// Resolves paths as on a kernel without `openat2`.
    #[must_use]
    pub fn without_openat2(mut self) -> Self {
        self.root = self.root.without_openat2();
        self.view = self.view.without_openat2();
        self
    }

    /// Writes as on a file system where two names cannot be exchanged. A change by another program between the last
    /// check and the rename is then lost.
    #[must_use]
    pub fn without_exchange(mut self) -> Self {
        self.exchange = false;
        self
    }

    /// Returns the view of the task's tools: the same root, with the secrets whose paths the user allowed.
    pub fn view(&self) -> &RepoView {
        &self.view
    }

    /// Returns the versions of the files of this task.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Returns the version of a file, or `None` when it does not exist.
    ///
    /// # Errors
    /// The path may not be written, or is no regular file.
    pub fn version(&self, path: &str) -> Result<Option<Version>, EditError> {
        self.current_version(&self.permitted(path, &self.scope())?)
    }

    /// Makes all changes in order, or none. `stopped` is asked before each check and right before each change; once it
    /// returns true, everything is rolled back.
    ///
    /// # Errors
    /// The first change that is refused, or `RollbackFailed` when the changes before it could not be undone.
    pub fn apply(
        &self,
        changes: &[Change],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Applied>, EditError> {
        let spent = self.spent();
        let checked = self.check_all(changes, stopped);
        let outcome = checked.and_then(|checked| self.make(spent, checked, stopped));
        if let Some(reason) = outcome.as_ref().err().and_then(EditError::reason) {
            self.refuse(reason);
        }
        outcome
    }

    fn check_all(
        &self,
        changes: &[Change],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Checked>, EditError> {
        if changes.len() > MAX_CHANGES {
            return Err(EditError::Arguments(format!(
                "more than {MAX_CHANGES} changes in one call"
            )));
        }
        let scope = self.scope();
        let mut named = BTreeSet::new();
        let check = |change| match stopped() {
            true => Err(EditError::Stopped),
            false => self.check(change, &scope, &mut named),
        };
        changes.iter().map(check).collect()
    }

    /// Checks everything that must hold before a change is made.
    fn check(
        &self,
        change: &Change,
        scope: &VerificationScope<'_>,
        named: &mut BTreeSet<RepoPath>,
    ) -> Result<Checked, EditError> {
        let mut name = |text: &str| {
            let path = self.permitted(text, scope)?;
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
                self.check_free(&path)?;
                None
            }
            Change::Replace { expect, .. }
            | Change::Delete { expect, .. }
            | Change::Move { expect, .. } => match self.current_version(&path)? {
                None => return Err(EditError::NotFound { path: path.to_string() }),
                Some(now) if now.is(expect) => Some(now.digest),
                current => return Err(EditError::Conflict { path: path.to_string(), current }),
            },
        };
        if expect.is_some() && self.is_read_only(&path) {
            return Err(EditError::ReadOnly { path: path.to_string() });
        }
        if let Some(to) = &to {
            self.check_free(to)?;
        }
        let before = self.content_before(&path, expect.as_deref());
        Ok(Checked { path, to, bytes, expect, before, op: change.op(), mode: None, like: None })
    }

    /// Parses a path and checks that it may be written. The file itself is not looked at, so a refusal does not show
    /// whether it exists.
    pub(super) fn permitted(
        &self,
        text: &str,
        scope: &VerificationScope<'_>,
    ) -> Result<RepoPath, EditError> {
        let path = RepoPath::parse(text)
            .map_err(|error| EditError::Path { path: text.chars().take(200).collect(), error })?;
        let consented = || self.answered().get(path.as_str()).is_some_and(|allowed| *allowed);
        match self.rules.forbidden_by(path.as_str()) {
            None => {}
            Some(WriteRule::Guarded) if consented() => {}
            Some(rule) => {
                return Err(EditError::Forbidden { path: path.to_string(), reason: rule.reason() });
            }
        }
        self.permitted_besides(&path, scope)?;
        Ok(path)
    }

    /// Checks the rules that no person and no flag of the task lifts for a guarded path.
    fn permitted_besides(
        &self,
        path: &RepoPath,
        scope: &VerificationScope<'_>,
    ) -> Result<(), EditError> {
        let forbidden = |reason| Err(EditError::Forbidden { path: path.to_string(), reason });
        if self.is_in_git_directory(path) {
            return forbidden(Reason::Protected);
        }
        if self.view.rule(path.as_str(), Kind::File).is_some() {
            return forbidden(Reason::Excluded);
        }
        if !self.rules.allowed().matches(path.as_str()) && !scope.holds(path.as_str()) {
            return Err(EditError::Untested { path: path.to_string() });
        }
        Ok(())
    }

    /// Returns whether a directory on the path is one of git's own under another name, or would become one by this write. The
    /// directories are looked at anew for each write, because earlier writes may have made most of one.
    fn is_in_git_directory(&self, path: &RepoPath) -> bool {
        let parts: Vec<_> = path.as_str().split('/').collect();
        (1..parts.len()).any(|end| {
            let directory = parts[..end].join("/");
            is_git_directory(|name| {
                // The write itself makes the entry that is next on its path.
                parts[end].eq_ignore_ascii_case(name)
                    || self.is_there(&format!("{directory}/{name}"))
            })
        })
    }

    fn is_there(&self, path: &str) -> bool {
        match self.overlay.as_ref().map(|over| over.lookup(path)) {
            Some(Lookup::File(_) | Lookup::Directory) => true,
            Some(Lookup::Nothing | Lookup::NotDirectory) => false,
            Some(Lookup::Lower) | None => {
                let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
                let opened = self.root.open_real(directory.as_bytes(), DIRECTORY);
                opened.is_ok_and(|fd| statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
            }
        }
    }

    /// Returns the files that the next verification will see. The rules are read again on each call of the writer.
    pub(super) fn scope(&self) -> VerificationScope<'_> {
        VerificationScope::now(&self.root, self.rules.include())
    }

    fn current_version(&self, path: &RepoPath) -> Result<Option<Version>, EditError> {
        if let Some(Lookup::File(written)) =
            self.overlay.as_ref().map(|over| over.lookup(path.as_str()))
        {
            return Ok(Some(self.versions.observe(path.as_str(), &written.digest())));
        }
        Ok(match self.file_state(path)? {
            FileState::Nothing => None,
            FileState::File { digest, .. } => Some(self.versions.observe(path.as_str(), &digest)),
            FileState::Other => return Err(EditError::NotAFile { path: path.to_string() }),
            FileState::TooLarge => {
                return Err(EditError::TooLarge { path: path.to_string(), limit: MAX_SEEN });
            }
        })
    }

    /// Returns whether no user has the permission to write a file. An edit replaces files and would need no permission of theirs.
    fn is_read_only(&self, path: &RepoPath) -> bool {
        match self.overlay.as_ref().map(|over| over.lookup(path.as_str())) {
            None | Some(Lookup::Lower) => {}
            // What a dry run has written, it may write again.
            Some(_) => return false,
        }
        let (directory, name) = path.split();
        let opened = self.root.open_real(directory.as_bytes(), DIRECTORY);
        let stat = opened.and_then(|fd| statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW));
        stat.is_ok_and(|stat| stat.st_mode & 0o222 == 0)
    }

    fn check_free(&self, path: &RepoPath) -> Result<(), EditError> {
        if let Some(Lookup::File(_)) = self.overlay.as_ref().map(|over| over.lookup(path.as_str()))
        {
            return Err(EditError::Exists { path: path.to_string() });
        }
        match self.file_state(path)? {
            FileState::Nothing => Ok(()),
            FileState::Other => Err(EditError::NotAFile { path: path.to_string() }),
            FileState::File { .. } | FileState::TooLarge => {
                Err(EditError::Exists { path: path.to_string() })
            }
        }
    }

    /// Returns the state of a file that the overlay does not hold.
    pub(super) fn file_state(&self, path: &RepoPath) -> Result<FileState, EditError> {
        match self.overlay.as_ref().map(|over| over.lookup(path.as_str())) {
            Some(Lookup::Nothing) => return Ok(FileState::Nothing),
            Some(Lookup::File(_) | Lookup::Directory) => return Ok(FileState::Other),
            Some(Lookup::NotDirectory) => {
                return Err(EditError::NotAFile { path: path.to_string() });
            }
            Some(Lookup::Lower) | None => {}
        }
        let (dir, name) = path.split();
        let failed = |why: String| EditError::Failed { path: path.to_string(), why };
        match directory(&self.root, dir, path)? {
            None => Ok(FileState::Nothing),
            Some(dir) => transaction::state_of(&dir, name, MAX_SEEN)
                .map_err(|error| failed(error.to_string())),
        }
    }

    /// Reads the text of a file that the task is about to change for the first time.
    fn content_before(&self, path: &RepoPath, expect: Option<&str>) -> Content {
        if expect.is_some() && self.contents().files.contains_key(path.as_str()) {
            return Content::Unknown;
        }
        self.content(path, expect)
    }

    /// Reads the text of a file that has this digest; no file has none.
    fn content(&self, path: &RepoPath, expect: Option<&str>) -> Content {
        let Some(expect) = expect else { return Content::Nothing };
        let (dir, name) = path.split();
        let dir = directory(&self.root, dir, path).ok().flatten();
        let bytes = dir.and_then(|dir| transaction::bytes(dir, name, MAX_TEXT));
        // Other bytes than those of the version would show a change that the task did not make.
        let bytes = bytes.filter(|bytes| digest(bytes) == expect);
        bytes.map_or(Content::Unknown, |bytes| Content::of(&bytes))
    }

    /// Makes checked changes in order, all or none, and records them.
    pub(super) fn make(
        &self,
        mut spent: MutexGuard<'_, Spent>,
        checked: Vec<Checked>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Applied>, EditError> {
        let bytes = checked.iter().map(|change| change.bytes.len() as u64).sum::<u64>();
        if spent.bytes.saturating_add(bytes) > MAX_TASK_BYTES {
            return Err(EditError::Budget("bytes"));
        }
        let named = || checked.iter().flat_map(|change| [Some(&change.path), change.to.as_ref()]);
        if self.changes().len() + named().flatten().count() > MAX_TASK_FILES {
            return Err(EditError::Budget("files"));
        }
        let made = match &self.overlay {
            Some(overlay) => overlay.apply(&self.root, &checked),
            None => {
                for dir in named().flatten().map(|path| path.split().0) {
                    if spent.swept.insert(dir.to_owned()) {
                        transaction::sweep_directory(&self.root, dir);
                    }
                }
                self.keep_originals(&checked);
                Transaction::new(&self.root, self.exchange, MAX_SEEN, stopped).make(&checked)
            }
        };
        if let Err(error) = made {
            if let EditError::RollbackFailed { left, .. } = &error {
                left.iter().for_each(|left| self.record_left(&checked, left));
            }
            return Err(self.with_current_version(error));
        }
        spent.bytes += bytes;
        Ok(self.record(checked))
    }

    /// Stores the files that are about to be changed for the first time.
    fn keep_originals(&self, checked: &[Checked]) {
        let Some(originals) = &self.originals else { return };
        for change in checked {
            let first = !self.changes().contains_key(change.path.as_str());
            let Some(sha256) = change.expect.as_deref().filter(|_| first) else { continue };
            let (dir, name) = change.path.split();
            if let Ok(Some(dir)) = directory(&self.root, dir, &change.path) {
                originals.keep(change.path.as_str(), dir, name, sha256);
            }
        }
    }

    /// Adds the present version of the file to a conflict.
    fn with_current_version(&self, error: EditError) -> EditError {
        match error {
            EditError::Conflict { path, .. } => {
                let parsed = RepoPath::parse(&path).ok();
                let current = parsed.and_then(|path| self.current_version(&path).ok().flatten());
                EditError::Conflict { path, current }
            }
            EditError::RollbackFailed { why, left } => {
                EditError::RollbackFailed { why: Box::new(self.with_current_version(*why)), left }
            }
            other => other,
        }
    }

    /// Records changes as made by this task.
    pub(super) fn record(&self, made: Vec<Checked>) -> Vec<Applied> {
        made.iter().for_each(|change| self.contents().record(change));
        let mut changed = self.changes();
        made.into_iter().map(|change| self.record_one(&mut changed, change)).collect()
    }

    /// Records a file that could not be rolled back as changed by this task, with the content that it has now.
    fn record_left(&self, checked: &[Checked], left: &NotRolledBack) {
        let Ok(path) = RepoPath::parse(&left.path) else { return };
        // The new name of a moved file is the path of no change. No file had this name before.
        let change = checked.iter().find(|change| change.path == path);
        let before = change.and_then(|change| change.expect.clone());
        let now = match self.file_state(&path) {
            Ok(FileState::File { digest, .. }) => Some(digest),
            _ => None,
        };
        let content_before = change.map_or(Content::Nothing, |change| change.before.clone());
        let content_now = self.content(&path, now.as_deref());
        self.contents().set(path.as_str(), content_before, content_now);
        self.set_changed(&mut self.changes(), path.as_str(), before, now);
    }

    fn record_one(&self, changed: &mut BTreeMap<String, ChangedFile>, change: Checked) -> Applied {
        let before = change.expect;
        let after = match change.op {
            "delete" => None,
            "move" => before.clone(),
            _ => Some(digest(&change.bytes)),
        };
        let path = change.path.to_string();
        let mut guarded = is_guarded(&path);
        let to = change.to.map(|to| to.to_string());
        let version = match (&to, &after) {
            (Some(to), Some(after)) => {
                guarded |= is_guarded(to);
                self.set_changed(changed, &path, before.clone(), None);
                self.set_changed(changed, to, None, Some(after.clone()));
                Some(self.versions.written(to, after))
            }
            (_, after) => {
                self.set_changed(changed, &path, before.clone(), after.clone());
                after.as_ref().map(|after| self.versions.written(&path, after))
            }
        };
        Applied {
            op: change.op,
            path,
            to,
            version,
            sha256_before: before,
            sha256_after: after,
            guarded,
        }
    }

    /// Sets the digest that a changed file has now. `before` is used only if the task has not changed the file yet.
    fn set_changed(
        &self,
        changed: &mut BTreeMap<String, ChangedFile>,
        path: &str,
        before: Option<String>,
        now: Option<String>,
    ) {
        let fresh = || ChangedFile {
            path: path.to_owned(),
            sha256_before: before,
            sha256_now: None,
            guarded: is_guarded(path),
        };
        let file = changed.entry(path.to_owned()).or_insert_with(fresh);
        file.sha256_now = now;
        if let Some(originals) = &self.originals {
            let executable = file.sha256_now.is_some() && self.is_executable(path);
            let before = file.sha256_before.as_deref();
            originals.record(path, before, file.sha256_now.as_deref(), executable);
        }
    }

    /// Returns whether the owner of a file that was just written may execute it.
    fn is_executable(&self, path: &str) -> bool {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let opened = self.root.open_real(directory.as_bytes(), DIRECTORY);
        let stat = opened.and_then(|fd| statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW));
        stat.is_ok_and(|stat| stat.st_mode & 0o100 != 0)
    }

    /// Returns every file that differs from before the task, sorted by path.
    pub fn changed(&self) -> Vec<ChangedFile> {
        let differs = |file: &&ChangedFile| file.sha256_before != file.sha256_now;
        self.changes().values().filter(differs).cloned().collect()
    }

    /// Returns the changed files that the next verification does not see: git ignores them, and the user allowed them
    /// nevertheless, or an ignore rule was added since.
    pub fn unverified(&self) -> Vec<UnverifiedFile> {
        let (changed, scope) = (self.changed(), self.scope());
        let unseen = changed.into_iter().filter(|file| !scope.holds(&file.path));
        unseen
            .map(|file| UnverifiedFile {
                allowed: self.rules.allowed().matches(&file.path),
                path: file.path,
            })
            .collect()
    }

    /// Returns the content of a file before the task and after its last change.
    pub fn text(&self, path: &str) -> ContentChange {
        self.contents().files.get(path).cloned().unwrap_or_default()
    }

    /// Returns the contents that the writer knows of the files that changes name, by their paths.
    pub fn texts(&self, changes: &[Change]) -> BTreeMap<String, ContentChange> {
        let contents = self.contents();
        let paths = changes.iter().flat_map(Change::names);
        let paths = paths.filter_map(|name| RepoPath::parse(name).ok());
        paths
            .filter_map(|path| Some((path.to_string(), contents.files.get(path.as_str())?.clone())))
            .collect()
    }

    /// Returns the number of refused calls for each reason, by its word.
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a change that was refused before it reached the writer: by a tool, or because the grant of the component
    /// does not cover its path.
    pub fn refuse(&self, reason: Reason) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(reason.word()).or_default() += 1;
    }

    pub(super) fn spent(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> MutexGuard<'_, BTreeMap<String, ChangedFile>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contents(&self) -> MutexGuard<'_, ContentChanges> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The content of a file, which is shown to the user and never written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Content {
    /// The file does not exist.
    #[default]
    Nothing,
    /// Bytes that are not UTF-8 are replaced.
    Text(Arc<str>),
    /// The file is binary or too large, or all texts together are.
    Unknown,
}

impl Content {
    pub(super) fn of(bytes: &[u8]) -> Self {
        if bytes.len() > MAX_TEXT || bytes.contains(&0) {
            return Self::Unknown;
        }
        Self::Text(String::from_utf8_lossy(bytes).into())
    }

    /// Returns the text, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Nothing | Self::Unknown => None,
        }
    }

    fn len(&self) -> usize {
        self.text().map_or(0, str::len)
    }
}

/// The content of a file before the task and after its last change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContentChange {
    pub before: Content,
    pub now: Content,
}

/// The contents of the files that a task changed, within a bound.
#[derive(Debug, Default)]
struct ContentChanges {
    files: BTreeMap<String, ContentChange>,
    bytes: usize,
}

impl ContentChanges {
    fn record(&mut self, change: &Checked) {
        let (path, before) = (change.path.as_str(), change.before.clone());
        match (&change.to, change.op) {
            (Some(to), _) => {
                let known = self.files.get(path).map(|file| file.now.clone());
                let moved = known.unwrap_or_else(|| before.clone());
                self.set(path, before, Content::Nothing);
                self.set(to.as_str(), Content::Nothing, moved);
            }
            (None, "delete") => self.set(path, before, Content::Nothing),
            (None, _) => self.set(path, before, Content::of(&change.bytes)),
        }
    }

    /// Sets the new content. `before` is used only if the task has not changed the file yet.
    fn set(&mut self, path: &str, before: Content, now: Content) {
        let before = match self.files.remove(path) {
            Some(known) => {
                self.bytes -= known.now.len();
                known.before
            }
            None => {
                let before = self.within_bound(before);
                self.bytes += before.len();
                before
            }
        };
        let now = self.within_bound(now);
        self.bytes += now.len();
        self.files.insert(path.to_owned(), ContentChange { before, now });
    }

    fn within_bound(&self, content: Content) -> Content {
        if self.bytes + content.len() > MAX_TEXTS { Content::Unknown } else { content }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
