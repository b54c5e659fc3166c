//! The only way a tool changes the repository: whole files, checked first, then swapped in, then verified.
//!
//! A file is exchanged with its replacement and what came out is compared with what the caller had read; a
//! surprise is swapped back, so bytes that somebody else wrote meanwhile survive. Several changes are made
//! one after the other and undone together; a kill in between leaves some of them made, each one whole.

mod check;

use edit_protocol::Reason;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::change::{Applied, Change, ChangedFile, EditError};
use super::handle::Root;
use super::overlay::Overlay;
use super::protected::{WriteRules, is_guarded};
use super::reading::MAX_READ;
use super::repo_path::RepoPath;
use super::tested::{Tested, Untested};
use super::texts::{FileText, Held, Texts};
use super::transaction::{self, Metadata, Transaction};
use super::versions::{Version, Versions, digest};
use super::view::{Profile, RepoView, ViewError};
use act_core::fail_point;

/// Bytes of a written file at most; no more than can be read back.
pub const MAX_WRITE: u64 = MAX_READ;
/// Bytes of a file that is deleted or moved at most: it is read to see that it is the expected one.
const MAX_SEEN: u64 = 1 << 30;
/// Changes in one call.
const MAX_CHANGES: usize = 200;
/// What one task may write in all.
const MAX_TASK_BYTES: u64 = 1 << 30;
const MAX_TASK_FILES: usize = 20_000;

/// The writing side of one task. Calls come one after the other, whoever makes them.
#[derive(Debug)]
pub struct RepoWriter {
    root: Root,
    view: RepoView,
    rules: WriteRules,
    versions: Versions,
    exchange: bool,
    /// Where a dry run writes; none where files are written.
    overlay: Option<Overlay>,
    /// Held for the whole of a call, which may wait for disks.
    turn: Mutex<Turn>,
    /// Held for a moment, so that somebody may look while a call is under way.
    changed: Mutex<BTreeMap<String, ChangedFile>>,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    texts: Mutex<Texts>,
}

#[derive(Debug, Default)]
struct Turn {
    bytes: u64,
    /// Directories cleared of what an earlier, killed task left.
    swept: BTreeSet<String>,
}

/// A change that passed every check, with what it will do.
pub(super) struct Checked {
    pub(super) path: RepoPath,
    pub(super) to: Option<RepoPath>,
    pub(super) bytes: Vec<u8>,
    /// Digest that the file must have when it is taken.
    pub(super) expect: Option<String>,
    /// What it held, as far as that is to be remembered.
    pub(super) before: Held,
    pub(super) op: &'static str,
    /// Permission bits of a new file that are not what the system gives one.
    pub(super) mode: Option<u32>,
    /// The file that a new one is to be like, with which it takes more than its permission bits.
    pub(super) like: Option<Metadata>,
}

impl RepoWriter {
    /// Removes what a killed task may have left half done.
    pub fn open(root: &Path, rules: WriteRules) -> Result<Self, ViewError> {
        let root = Root::open(root)?;
        transaction::sweep_tree(&root);
        Ok(Self::of(root, rules, None))
    }

    /// For a dry run: whatever is written goes into the overlay, and the repository stays as it is. Beside the
    /// rules for all writes, files that are no text are refused.
    pub fn open_dry(root: &Path, rules: WriteRules, overlay: Overlay) -> Result<Self, ViewError> {
        Ok(Self::of(Root::open(root)?, rules, Some(overlay)))
    }

    fn of(root: Root, rules: WriteRules, overlay: Option<Overlay>) -> Self {
        let mut view = RepoView::of(root.clone(), Profile::Tool).lifting(rules.allowed());
        if let Some(overlay) = &overlay {
            view = view.over(overlay);
        }
        let (versions, turn) = (Versions::default(), Mutex::default());
        let (changed, refused, texts) = (Mutex::default(), Mutex::default(), Mutex::default());
        let exchange = true;
        Self { root, view, rules, versions, exchange, overlay, turn, changed, refused, texts }
    }

    /// As on a kernel without `openat2`.
    pub fn without_openat2(mut self) -> Self {
        self.root = self.root.without_openat2();
        self.view = self.view.without_openat2();
        self
    }

    /// As on a file system where two names cannot be exchanged: a change from outside between the last look
    /// and the rename is then lost.
    pub fn without_exchange(mut self) -> Self {
        self.exchange = false;
        self
    }

    /// What the task's tools may read: the same root, secrets lifted where the user allowed a path.
    pub fn view(&self) -> &RepoView {
        &self.view
    }

    /// The counters, for reading with versions.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// What the file's version is now; none when it does not exist.
    pub fn version(&self, path: &str) -> Result<Option<Version>, EditError> {
        let path = self.permitted(path)?;
        self.current(&path)
    }

    /// All or nothing, in order. `stopped` is asked before each change is looked at and again in the moment
    /// before it is made; once it says yes, nothing more is done and what was done is undone.
    pub fn apply(
        &self,
        changes: &[Change],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Applied>, EditError> {
        let outcome = self.carry_out(changes, stopped);
        if let Err(error) = &outcome
            && let Some(reason) = error.reason()
        {
            self.refuse(reason);
        }
        outcome
    }

    fn carry_out(
        &self,
        changes: &[Change],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Applied>, EditError> {
        if changes.len() > MAX_CHANGES {
            return Err(EditError::Arguments(format!(
                "more than {MAX_CHANGES} changes in one call"
            )));
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut named = BTreeSet::new();
        let mut checked = vec![];
        for change in changes {
            if stopped() {
                return Err(EditError::Stopped);
            }
            checked.push(self.check(change, &mut named)?);
        }
        self.perform(turn, checked, stopped)
    }

    /// Changes that were checked by somebody else; all or nothing, in order.
    pub(super) fn make(
        &self,
        checked: Vec<Checked>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Applied>, EditError> {
        self.perform(self.turn.lock().unwrap_or_else(PoisonError::into_inner), checked, stopped)
    }

    fn perform(
        &self,
        mut turn: MutexGuard<'_, Turn>,
        checked: Vec<Checked>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Applied>, EditError> {
        let bytes = checked.iter().map(|change| change.bytes.len() as u64).sum::<u64>();
        if turn.bytes.saturating_add(bytes) > MAX_TASK_BYTES {
            return Err(EditError::Budget("bytes"));
        }
        let named = || checked.iter().flat_map(|change| [Some(&change.path), change.to.as_ref()]);
        if self.changes().len() + named().flatten().count() > MAX_TASK_FILES {
            return Err(EditError::Budget("files"));
        }
        match &self.overlay {
            Some(overlay) => overlay.take(&self.root, &checked),
            None => {
                named().flatten().for_each(|path| self.sweep_once(&mut turn, path.split().0));
                self.write(&checked, stopped)
            }
        }
        .map_err(|error| self.with_current(error))?;
        turn.bytes += bytes;
        checked.iter().for_each(|change| self.texts().remember(change));
        let mut changed = self.changes();
        Ok(checked.into_iter().map(|change| self.record(&mut changed, change)).collect())
    }

    /// Changes that stand there already because an earlier process made them for the same purpose: they count as the
    /// task's own, so that what it changed is told by what was there before all of it.
    pub(super) fn count(&self, found: Vec<Checked>) {
        found.iter().for_each(|change| self.texts().remember(change));
        let mut changed = self.changes();
        found.into_iter().for_each(|change| drop(self.record(&mut changed, change)));
    }

    fn write(&self, checked: &[Checked], stopped: &dyn Fn() -> bool) -> Result<(), EditError> {
        let mut transaction = Transaction::new(&self.root, self.exchange, MAX_SEEN, stopped);
        for change in checked {
            if let Err(error) = transaction.perform(change) {
                let left = transaction.roll_back();
                return Err(match left.is_empty() {
                    true => error,
                    false => EditError::Torn { why: Box::new(error), left },
                });
            }
            fail_point::reach("written");
        }
        transaction.commit();
        Ok(())
    }

    /// Every file that is not what it was before the task, by path.
    pub fn changed(&self) -> Vec<ChangedFile> {
        let differs = |file: &&ChangedFile| file.sha256_before != file.sha256_now;
        self.changes().values().filter(differs).cloned().collect()
    }

    /// How many calls each rule refused, by its word.
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a change that a tool refused by itself, so that it was never asked for here.
    pub fn refuse(&self, reason: Reason) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(reason.word()).or_default() += 1;
    }

    fn changes(&self) -> MutexGuard<'_, BTreeMap<String, ChangedFile>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tested(&self) -> Tested<'_> {
        Tested::now(&self.root, self.rules.include())
    }

    /// Changed files that the next verification does not see: those that the user allowed although git ignores
    /// them, and those that git ignores since rules have changed.
    pub fn untested(&self) -> Vec<Untested> {
        let (changed, tested) = (self.changed(), self.tested());
        let unseen = changed.into_iter().filter(|file| !tested.holds(&file.path));
        unseen
            .map(|file| Untested {
                allowed: self.rules.allowed().matches(&file.path),
                path: file.path,
            })
            .collect()
    }

    /// What a file held before the task and was given last by it.
    pub fn text(&self, path: &str) -> FileText {
        self.texts().get(path)
    }

    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sweep_once(&self, turn: &mut Turn, dir: &str) {
        if turn.swept.insert(dir.to_owned()) {
            transaction::sweep_directory(&self.root, dir);
        }
    }

    fn record(&self, changed: &mut BTreeMap<String, ChangedFile>, change: Checked) -> Applied {
        let before = change.expect;
        let after = match change.op {
            "delete" => None,
            "move" => before.clone(),
            _ => Some(digest(&change.bytes)),
        };
        let path = change.path.to_string();
        let mut guarded = is_guarded(&path);
        let mut note = |path: &str, before: Option<String>, now: Option<String>| {
            let guarded = is_guarded(path);
            let fresh = || ChangedFile {
                path: path.into(),
                sha256_before: before,
                sha256_now: None,
                guarded,
            };
            changed.entry(path.to_owned()).or_insert_with(fresh).sha256_now = now;
        };
        let to = change.to.map(|to| to.to_string());
        let version = match (&to, &after) {
            (Some(to), Some(after)) => {
                guarded |= is_guarded(to);
                note(&path, before.clone(), None);
                note(to, None, Some(after.clone()));
                Some(self.versions.written(to, after))
            }
            (_, after) => {
                note(&path, before.clone(), after.clone());
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
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
