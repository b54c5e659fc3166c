//! Tasks in worktrees: a linked worktree of git for one task, the list of them, and their removal.
//!
//! A worktree lies in `state/worktrees/TASK_ID/tree` of ARTIFACT_DIR, and `worktree.json` beside it says to which repository it
//! belongs. The directory is locked until the task is in the store; one without a row in the store was left by a killed process,
//! and the next command about worktrees removes it.
//!
//! A success stores its changes as a proposal of the repository, and so `act apply` applies them like those of a dry run.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use act_agent::editor::Draft;
use act_core::event::Events;
use act_core::{Document, Failure, Repo, fail_point};
use act_fs::lock::{Kind, try_lock};
use act_fs::{Dir, Durability};
use act_records::artifacts::{ArtifactDir, remove_tree};
use act_records::store::{ProposalState, Store, TaskRecord, TaskState, Worktree};
use act_verifier::{write_committed, write_tree};
use act_workspace::{
    CopySet, NoPatch, NotCommitted, PathGlobs, RepoLock, RootIdentity, TaskFiles, WorktreeSource,
    files_of_task, is_link_of, patch, prefix_in_git,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::prepare::{self, Ready};
use crate::proposal::{self, Proposal};
use crate::queue::{OwnedTask, TaskContext, TaskId};
use crate::run::{Place, RunArgs};
use crate::status::Lookup;

/// The file that says to which repository a worktree belongs.
const RECORD: &str = "worktree.json";
/// The file with the state of the files at the end of the last success.
const END: &str = "end.json";
/// The worktree itself.
const TREE: &str = "tree";
/// Maximum number of bytes of either file: some paths, and the globs of `include`.
const MAX_RECORD: u64 = 1 << 20;
/// Version of both files.
const VERSION: u32 = 1;
/// Maximum number of bytes of the changed files of a result that `act apply` can apply: as much as a dry run may propose.
const MAX_OFFERED: usize = 64 << 20;
/// Number of files that a message names.
const NAMED: usize = 5;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    v: u32,
    /// The git directory in which git knows the worktree.
    git: String,
    /// The path from the top of the worktree to its root.
    prefix: String,
    worktree: Worktree,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    v: u32,
    include: Vec<String>,
    /// The marks of the files, which any later change changes.
    marks: String,
}

impl Record {
    fn read(place: &Dir) -> Option<Self> {
        let record: Self = serde_json::from_slice(&place.read(RECORD, MAX_RECORD).ok()?).ok()?;
        (record.v == VERSION).then_some(record)
    }
}

/// Returns the worktree of act at `root`, or `None` for any other directory.
pub(super) fn at(artifacts: &ArtifactDir, root: &Path) -> Option<Worktree> {
    below(artifacts.path(), root)
}

/// Returns the worktree at `root` among those of the ARTIFACT_DIR at `artifacts`. No repository can pass itself off as one,
/// because only act writes there.
pub(super) fn below(artifacts: &Path, root: &Path) -> Option<Worktree> {
    let trees = artifacts.canonicalize().ok()?.join("state/worktrees");
    let inside = root.canonicalize().ok()?.strip_prefix(&trees).ok()?.to_owned();
    let mut parts = inside.components();
    let task_id = parts.next()?.as_os_str().to_str().filter(|name| TaskId::is_one(name))?;
    if parts.next()?.as_os_str() != TREE {
        return None;
    }
    let record = Record::read(&Dir::open(&trees.join(task_id)).ok()?)?;
    (parts.as_path() == Path::new(&record.prefix)).then_some(record.worktree)
}

/// Returns whether the worktree that was made for a task is there.
pub(super) fn is_there(artifacts: &ArtifactDir, task_id: &str) -> bool {
    let trees = artifacts.worktrees();
    trees.is_ok_and(|trees| matches!(trees.existing_subdirectory(task_id), Ok(Some(_))))
}

/// The directory of one worktree in an ARTIFACT_DIR.
struct TreePlace {
    trees: Dir,
    dir: Dir,
    path: PathBuf,
    task_id: TaskId,
}

impl TreePlace {
    /// Opens the directory of the worktree of a task; `None` when there is none.
    fn open(artifacts: &ArtifactDir, task_id: &str) -> io::Result<Option<Self>> {
        let Some(task_id) = TaskId::parse(task_id) else { return Ok(None) };
        let trees = artifacts.worktrees()?;
        let Some(dir) = trees.existing_subdirectory(task_id.as_str())? else { return Ok(None) };
        Ok(Some(Self { trees, dir, path: path_of(artifacts, &task_id), task_id }))
    }

    /// Returns the top of the worktree.
    fn tree(&self) -> PathBuf {
        self.path.join(TREE)
    }

    /// Returns the root of the repository in the worktree.
    fn root(&self, record: &Record) -> PathBuf {
        // Without a slash at the end, as the root of a task is written everywhere.
        self.tree().join(&record.prefix).components().collect()
    }

    /// Removes the worktree, and what git knows of it.
    fn discard(&self) -> io::Result<()> {
        // Without a record nothing was written into the repository. A repository that is gone needs nothing either.
        if let Some(record) = Record::read(&self.dir)
            && let Ok(git) = Dir::open(Path::new(&record.git))
            && let Ok(Some(known)) = git.existing_subdirectory("worktrees")
        {
            let name = name_in_git(self.task_id.as_str());
            if let Ok(Some(own)) = known.existing_subdirectory(&*name)
                && is_link_of(&own, &self.tree())
            {
                remove_tree(&known, &name)?;
            }
            // git removes the directory as well when it becomes empty.
            let _ = rustix::fs::unlinkat(&git, "worktrees", rustix::fs::AtFlags::REMOVEDIR);
        }
        remove_tree(&self.trees, self.task_id.as_str())
    }
}

fn path_of(artifacts: &ArtifactDir, task_id: &TaskId) -> PathBuf {
    artifacts.path().join("state/worktrees").join(task_id.as_str())
}

/// A worktree for a task that was not accepted yet. It is removed when the value is dropped, unless it is kept. Its directory is
/// locked, so that no other process takes it for one that a killed process left.
pub(super) struct NewWorktree {
    place: TreePlace,
    kept: bool,
}

impl NewWorktree {
    pub(super) fn task_id(&self) -> &TaskId {
        &self.place.task_id
    }

    /// Leaves the worktree to its task, which is in the store.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for NewWorktree {
    fn drop(&mut self) {
        if !self.kept {
            // The next command about worktrees removes what is left.
            let _ = self.place.discard();
        }
    }
}

/// Makes the worktree that `args` ask for, and checks the task once more in it: its `agent.yaml` is that of the commit. Returns
/// `None` when cancelled.
///
/// # Errors
///
/// The refusal of the worktree, or of the task in it. Nothing of it is left then.
pub(super) async fn entered(
    ready: Ready,
    args: RunArgs,
    cancel: &CancellationToken,
) -> Result<Option<(Ready, RunArgs, Option<NewWorktree>)>, Failure> {
    let Place::NewWorktree { dirty } = args.place else { return Ok(Some((ready, args, None))) };
    let store = prepare::store(&ready.artifacts)?;
    sweep(&ready.artifacts, &store)?;
    drop(store);
    let (root, artifacts) = (ready.config.root.clone(), Arc::clone(&ready.artifacts));
    let (include, stop) = (ready.config.pipeline.include.clone(), cancel.clone());
    let make = move || make(&artifacts, &root, &include, dirty, &stop);
    let made = tokio::task::spawn_blocking(make).await;
    let made = made.unwrap_or_else(|error| Err(failed(error)));
    if cancel.is_cancelled() {
        return Ok(None);
    }
    let (made, root) = made?;
    let args = RunArgs { repo: root, place: Place::Here, ..args };
    let checked = tokio::select! {
        ready = prepare::check(&args) => Some(ready?),
        () = cancel.cancelled() => None,
    };
    Ok(checked.map(|ready| (ready, args, Some(made))))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::refused("worktree_failed", format!("the worktree cannot be made: {error}"))
        .hint("run the task in the repository itself, without --worktree")
}

fn unsupported(why: &NotCommitted) -> Failure {
    let message = format!("a worktree of this repository cannot be made: {why}");
    let hint = match why {
        NotCommitted::NoCommit => "make a first commit; a worktree begins with one",
        NotCommitted::Unreadable => {
            "a partial, shared or damaged clone lacks objects: `git fetch --refetch` or `git repack -a` brings them; or run \
             the task without --worktree"
        }
        // git's own programs would have to run to write these files, and a repository names those programs.
        _ => {
            "act writes the files of a worktree itself and runs no filter; run the task without --worktree"
        }
    };
    Failure::refused("worktree_unsupported", message).hint(hint)
}

/// Makes a worktree of the repository at `root`. Returns it and its root.
fn make(
    artifacts: &ArtifactDir,
    root: &Path,
    include: &[String],
    dirty: bool,
    cancel: &CancellationToken,
) -> Result<(NewWorktree, PathBuf), Failure> {
    let mut source = WorktreeSource::of(root).map_err(|why| unsupported(&why))?;
    let config = source.prefix.join("agent.yaml");
    if !dirty && !source.commit.files.iter().any(|file| file.path == config) {
        let message = "agent.yaml is not in the last commit, so a worktree would have none";
        return Err(Failure::refused("worktree_without_config", message)
            .hint("commit agent.yaml, or take the uncommitted changes along with --dirty"));
    }
    let home = RootIdentity::of(root).map_err(failed)?.to_string();
    let globs = PathGlobs::new(include).map_err(failed)?;
    // A task that works here would leave half of its changes in the copy.
    let lock = match dirty {
        true => Some(RepoLock::try_acquire(root).map_err(failed)?.ok_or_else(busy)?),
        false => None,
    };
    let mut set = CopySet::of(root, &globs).map_err(failed)?;
    let task_id = TaskId::random();
    let trees = artifacts.worktrees().map_err(failed)?;
    // The tree, and as much again for the copy that a verification makes of it.
    let (need, free) = (set.bytes().saturating_mul(2), free_space(&trees).map_err(failed)?);
    if free < need {
        let message = format!(
            "{} has {} MiB of free space, and a worktree with its verification needs {}",
            artifacts.path().display(),
            free >> 20,
            (need >> 20) + 1
        );
        return Err(Failure::refused("worktree_no_room", message)
            .hint("`act worktrees remove --done` removes those whose result was applied"));
    }
    let dir = trees.create_subdirectory(task_id.as_str()).map_err(failed)?;
    if !try_lock(&dir, Kind::Exclusive).map_err(failed)? {
        return Err(failed("another process holds its directory"));
    }
    let path = path_of(artifacts, &task_id);
    let made = NewWorktree { place: TreePlace { trees, dir, path, task_id }, kept: false };
    let place = &made.place;
    let at = place.tree();
    let text = |path: &Path| {
        let text = path.to_str().filter(|text| !text.contains('\n'));
        text.map(str::to_owned)
            .ok_or_else(|| failed(format!("{} is no plain text", path.display())))
    };
    let head = source.commit.head.clone();
    let record = Record {
        v: VERSION,
        git: text(&source.git)?,
        prefix: text(&source.prefix)?,
        worktree: Worktree { of: text(root)?, home, head, dirty },
    };
    text(&at)?;
    let bytes = serde_json::to_vec(&record).map_err(failed)?;
    place.dir.replace(RECORD, &bytes, Durability::ContentsAndName).map_err(failed)?;
    fail_point::reach("worktree_begun");
    let tree = place.dir.create_subdirectory(TREE).map_err(failed)?;
    open_to_steps(&tree).map_err(failed)?;
    let handle = |dir: &Dir| dir.try_clone().map(OwnedFd::from).map_err(failed);
    if dirty {
        let all = source.commit.files.clone();
        let left_out = source.leave_out_secrets(&mut set, &globs);
        name_left_out(&left_out);
        let prefix = source.prefix.clone();
        source.commit.files.retain(|file| !file.path.starts_with(&prefix));
        write_committed(&source.commit, handle(&tree)?, cancel).map_err(failed)?;
        let inside = below_tree(&tree, &source.prefix).map_err(failed)?;
        write_tree(&set, vec![], handle(&inside)?, cancel).map_err(failed)?;
        let mut again = CopySet::of(root, &globs).map_err(failed)?;
        // The index has the whole commit, and so has the question of which secrets are committed.
        source.commit.files = all;
        source.leave_out_secrets(&mut again, &globs);
        if set.marks() != again.marks() {
            return Err(failed("files of the repository changed while they were copied"));
        }
    } else {
        write_committed(&source.commit, handle(&tree)?, cancel).map_err(failed)?;
    }
    drop(lock);
    fail_point::reach("worktree_written");
    let name = name_in_git(place.task_id.as_str());
    source.link(&name, &tree, &at, !dirty).map_err(failed)?;
    fail_point::reach("worktree_linked");
    let inside = place.root(&record);
    Ok((made, inside))
}

fn busy() -> Failure {
    let message = "a task or a verification runs in this repository, and --dirty would copy half of its changes";
    Failure::refused("task_running", message)
        .hint("without --dirty the worktree begins with the last commit; or wait, `act status` shows what runs")
}

fn name_left_out(paths: &[String]) {
    if paths.is_empty() {
        return;
    }
    let shown = paths.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = paths.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    prepare::say_once(&format!(
        "not in the worktree, because the names are those of secrets and they are not committed: {shown}{more}; \
         `verification.include` in agent.yaml names what a verification needs"
    ));
}

fn below_tree(tree: &Dir, prefix: &Path) -> io::Result<Dir> {
    let mut inside = tree.try_clone()?;
    for part in prefix.components() {
        inside = inside.private_subdirectory(part.as_os_str())?;
        open_to_steps(&inside)?;
    }
    Ok(inside)
}

/// Lets other users enter a directory, because the steps of a verification may be one. The directory above lets nobody in.
fn open_to_steps(dir: &Dir) -> io::Result<()> {
    Ok(rustix::fs::fchmod(dir, rustix::fs::Mode::from_raw_mode(0o755))?)
}

/// Returns the name by which git knows the worktree of a task.
fn name_in_git(task_id: &str) -> String {
    format!("act-{task_id}")
}

fn free_space(dir: &Dir) -> io::Result<u64> {
    let stat = rustix::fs::fstatvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Removes the worktrees of tasks that are in no row of the store: a process was killed before its task was accepted, or the task
/// was cancelled while it waited.
///
/// # Errors
///
/// The directory or the store cannot be read.
fn sweep(artifacts: &ArtifactDir, store: &Store) -> Result<(), Failure> {
    for task_id in names(artifacts)? {
        if store.task(&task_id)?.is_some() {
            continue;
        }
        let Ok(Some(place)) = TreePlace::open(artifacts, &task_id) else { continue };
        // Its process lives, or has just put the task into the store.
        if !try_lock(&place.dir, Kind::Exclusive).unwrap_or(false)
            || store.task(&task_id)?.is_some()
        {
            continue;
        }
        // What cannot be removed now does not prevent the command.
        let _ = place.discard();
    }
    Ok(())
}

/// Returns the ids of the tasks that have a worktree here, in order.
fn names(artifacts: &ArtifactDir) -> Result<Vec<String>, Failure> {
    let names =
        artifacts.worktrees().and_then(|trees| trees.names(usize::MAX)).map_err(|error| {
            let path = artifacts.path().join("state/worktrees");
            Failure::refused(
                "worktree_failed",
                format!("{} cannot be read: {error}", path.display()),
            )
            .hint("make it readable for you, or set AGENT_ARTIFACT_DIR")
        })?;
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let mut names: Vec<_> = names.filter(|name| TaskId::is_one(name)).collect();
    names.sort();
    Ok(names)
}

/// Stores the changes of a task that succeeded in its worktree as a proposal of the repository, and tells the user how they get
/// there. The success does not depend on it.
pub(super) fn offer(
    (owned_task, root): (&OwnedTask, &Path),
    draft: Draft,
    include: &[String],
    events: &Events,
) {
    let OwnedTask { context, task_id, .. } = owned_task;
    let Some(Worktree { of, .. }) = &context.worktree else { return };
    match stored(context, task_id, root, draft) {
        Ok(true) => events.inform(format!(
            "the changes are in the worktree {}; `act apply {task_id}` makes them in {of} and verifies them there",
            root.display()
        )),
        Ok(false) => events.inform(format!("nothing was changed in the worktree {}", root.display())),
        Err(why) => events.warn(format!(
            "`act apply {task_id}` cannot make the changes in {of}: {why}; they are in the worktree {}",
            root.display()
        )),
    }
    if let Err(error) = remember_end(&context.artifacts, root, include) {
        events.warn(format!("`act worktrees remove` will need --force for {task_id}: {error}"));
    }
}

/// Returns false for a task that changed no file.
fn stored(context: &TaskContext, task_id: &str, root: &Path, draft: Draft) -> Result<bool, String> {
    let secrets = prepare::secrets();
    let draft = proposal::without(&draft, &secrets).unwrap_or(draft);
    let originals = context.artifacts.originals(task_id).map_err(|error| error.to_string())?;
    let originals = originals.ok_or("the files are not stored as they were before")?;
    let TaskFiles { files, secrets: names, .. } =
        files_of_task(root, &originals).map_err(|why| in_words(&why))?;
    if !names.is_empty() {
        return Err(format!("act stores no file with the name of a secret ({})", names.join(", ")));
    }
    if files.is_empty() {
        return Ok(false);
    }
    let bytes: usize = files.iter().filter_map(|file| Some(file.after.as_ref()?.bytes.len())).sum();
    if bytes > MAX_OFFERED {
        return Err(format!("the changed files have more than {} MiB", MAX_OFFERED >> 20));
    }
    let patch = secrets.redact_bytes(&patch(&files, &prefix_in_git(root)));
    let proposal = Proposal { files, draft, patch, worktree: true };
    proposal::store(context, task_id, &proposal).map(|()| true)
}

fn in_words(why: &NoPatch) -> String {
    match why {
        NoPatch::Missing(paths) if !paths.is_empty() => {
            format!("not stored as they were before: {}", paths.join(", "))
        }
        NoPatch::Changed(paths) => format!("changed by something else: {}", paths.join(", ")),
        why => why.to_string(),
    }
}

/// Writes down how the files are at the end of a success, so that later changes are not removed without a word.
fn remember_end(artifacts: &ArtifactDir, root: &Path, include: &[String]) -> Result<(), String> {
    let place = root.strip_prefix(artifacts.path().join("state/worktrees"));
    let place = place.ok().and_then(|inside| inside.components().next());
    let name = place.and_then(|name| name.as_os_str().to_str()).unwrap_or_default();
    let place = TreePlace::open(artifacts, name).map_err(|error| error.to_string())?;
    let place = place.ok_or("its directory is gone")?;
    let end = End { v: VERSION, include: include.to_vec(), marks: marks(root, include)? };
    let bytes = serde_json::to_vec(&end).map_err(|error| error.to_string())?;
    let written = place.dir.replace(END, &bytes, Durability::ContentsAndName);
    written.map_err(|error| error.to_string())
}

fn marks(root: &Path, include: &[String]) -> Result<String, String> {
    let globs = PathGlobs::new(include).map_err(|error| error.to_string())?;
    let set = CopySet::of(root, &globs).map_err(|error| error.to_string())?;
    Ok(set.marks().digest)
}

/// What became of the changes in a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum Changes {
    /// The task has not succeeded, or has not ended.
    None,
    /// The task succeeded, and `act apply` can apply its changes.
    Open,
    /// An `act apply` writes them, or was killed while it did.
    Applying,
    Applied,
}

/// A worktree in which tasks of a repository work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct WorktreeSeen {
    /// The task for which the worktree was made.
    pub task_id: String,
    pub state: TaskState,
    /// The repository, with the commit at which the worktree began.
    pub repo: Repo,
    /// Path of the root in the worktree.
    pub path: String,
    pub changes: Changes,
    /// The task that applied them.
    pub applied_by: Option<String>,
}

/// The worktrees of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Worktrees {
    /// In the order of their tasks, the newest first.
    pub worktrees: Vec<WorktreeSeen>,
}

impl Document for Worktrees {
    const NAME: &'static str = "worktrees";
}

/// Returns the worktrees of the repository at `start`, which may be one of them.
///
/// # Errors
///
/// There is no repository at `start`, or the store cannot be read.
pub fn worktrees(start: &Path) -> Result<Worktrees, Failure> {
    let lookup = Lookup::open(start)?;
    Ok(Worktrees { worktrees: of_repository(&lookup)?.into_iter().map(|tree| tree.seen).collect() })
}

/// A worktree with what is needed to remove it.
struct Found {
    place: TreePlace,
    seen: WorktreeSeen,
    /// Identity of the root in the worktree, under which its tasks wait and run; `None` when it cannot be opened.
    repo: Option<String>,
    seq: i64,
}

/// Returns the worktrees of the repository of a command, after removing those that belong to no task.
pub(super) fn seen(lookup: &Lookup) -> Result<Vec<WorktreeSeen>, Failure> {
    Ok(of_repository(lookup)?.into_iter().map(|tree| tree.seen).collect())
}

fn of_repository(lookup: &Lookup) -> Result<Vec<Found>, Failure> {
    let (context, _) = lookup.context()?;
    sweep(&lookup.artifacts, &lookup.store)?;
    let mut all = vec![];
    for task_id in names(&lookup.artifacts)? {
        let Some(task) = lookup.store.task(&task_id)? else { continue };
        let Ok(Some(place)) = TreePlace::open(&lookup.artifacts, &task_id) else { continue };
        let Some(record) = Record::read(&place.dir) else { continue };
        if record.worktree.home == context.home() {
            all.push(found(lookup, task, place, &record)?);
        }
    }
    all.sort_by_key(|tree| std::cmp::Reverse(tree.seq));
    Ok(all)
}

fn found(
    lookup: &Lookup,
    task: TaskRecord,
    place: TreePlace,
    record: &Record,
) -> Result<Found, Failure> {
    let root = place.root(record);
    let proposal = lookup.store.proposal(&task.task_id)?;
    let changes = match proposal.as_ref().map(|proposal| proposal.state) {
        Some(ProposalState::Open) if task.state == TaskState::Success => Changes::Open,
        Some(ProposalState::Applying) => Changes::Applying,
        Some(ProposalState::Applied) => Changes::Applied,
        Some(ProposalState::Open | ProposalState::Removed) | None => Changes::None,
    };
    let Worktree { of, home, head, dirty } = &record.worktree;
    let seen = WorktreeSeen {
        task_id: task.task_id,
        state: task.state,
        repo: Repo {
            path: Some(of.clone()),
            identity: Some(home.clone()),
            head: Some(head.clone()),
            dirty: Some(*dirty),
        },
        path: root.display().to_string(),
        changes,
        applied_by: proposal.and_then(|proposal| proposal.applied_by),
    };
    let repo = RootIdentity::of(&root).ok().map(|identity| identity.to_string());
    Ok(Found { place, seen, repo, seq: task.seq })
}

/// The worktrees that a command removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichWorktrees {
    Of(String),
    /// All whose changes were applied.
    Done,
}

/// A worktree that stays, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct WorktreeKept {
    pub task_id: String,
    pub why: String,
}

/// The result of removing worktrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct WorktreesRemoved {
    /// The tasks whose worktrees were removed.
    pub removed: Vec<String>,
    /// Those that stay.
    pub kept: Vec<WorktreeKept>,
}

impl Document for WorktreesRemoved {
    const NAME: &'static str = "worktrees-removed";
}

/// Removes worktrees of the repository at `start`. `force` removes one whose changes were not applied as well, but none in which
/// a task waits or runs.
///
/// # Errors
///
/// The worktree is not known (`worktree_unknown`), is in use (`worktree_in_use`), was not applied (`worktree_not_applied`), or
/// cannot be removed.
pub fn remove_worktrees(
    start: &Path,
    which: &WhichWorktrees,
    force: bool,
) -> Result<WorktreesRemoved, Failure> {
    let lookup = Lookup::open(start)?;
    let all = of_repository(&lookup)?;
    let (mut removed, mut kept) = (vec![], vec![]);
    match which {
        WhichWorktrees::Of(task_id) => {
            let tree = all.iter().find(|tree| tree.seen.task_id == *task_id).ok_or_else(|| {
                let message = format!("this repository has no worktree of {task_id}");
                Failure::refused("worktree_unknown", message).hint("`act worktrees` lists them")
            })?;
            remove(&lookup, tree, force)?;
            removed.push(task_id.clone());
        }
        WhichWorktrees::Done => {
            for tree in &all {
                let task_id = tree.seen.task_id.clone();
                match remove(&lookup, tree, force && tree.seen.changes == Changes::Applied) {
                    Ok(()) => removed.push(task_id),
                    Err(why) => kept.push(WorktreeKept { task_id, why: why.message }),
                }
            }
        }
    }
    Ok(WorktreesRemoved { removed, kept })
}

fn remove(lookup: &Lookup, tree: &Found, force: bool) -> Result<(), Failure> {
    let Found { place, seen, repo, .. } = tree;
    let task_id = &seen.task_id;
    let in_use = || {
        let message = format!("a task or a verification works in the worktree of {task_id}");
        Failure::refused("worktree_in_use", message)
            .hint(format!("wait for its end, or `act cancel --id {task_id}`"))
    };
    if repo
        .as_ref()
        .is_some_and(|repo| lookup.store.unfinished(repo).map_or(true, |all| !all.is_empty()))
    {
        return Err(in_use());
    }
    // Held until the worktree is gone, so that no task begins there.
    let lock = match Path::new(&seen.path).is_dir() {
        true => {
            Some(RepoLock::try_acquire(Path::new(&seen.path)).map_err(failed)?.ok_or_else(in_use)?)
        }
        false => None,
    };
    if !force {
        not_lost(lookup, tree)?;
    }
    place.discard().map_err(|error| {
        let message = format!("{} cannot be removed: {error}", place.path.display());
        Failure::refused("worktree_failed", message).hint("remove it by hand")
    })?;
    drop(lock);
    Ok(())
}

/// Refuses a worktree with changes that exist nowhere else.
fn not_lost(lookup: &Lookup, Found { place, seen, repo, .. }: &Found) -> Result<(), Failure> {
    let refused = |why: &str| {
        let message = format!("the worktree of {} was not removed: {why}", seen.task_id);
        Err(Failure::refused("worktree_not_applied", message).hint(format!(
            "`act diff {0}` shows its changes; `act worktrees remove {0} --force` removes it all the same",
            seen.task_id
        )))
    };
    match seen.changes {
        Changes::Applied => {}
        Changes::Open => return refused("its changes were not applied"),
        Changes::Applying => return refused("its changes are applied in part"),
        Changes::None if seen.state == TaskState::Success => {
            return refused("its changes are stored nowhere else");
        }
        Changes::None => return refused("its task did not succeed"),
    }
    // Later tasks in the same worktree have results of their own.
    for task in repo.as_ref().map_or(Ok(vec![]), |repo| lookup.store.history(Some(repo), LATER))? {
        let proposal = lookup.store.proposal(&task.task_id)?;
        if proposal.is_some_and(|proposal| proposal.state != ProposalState::Applied) {
            return refused(&format!("the changes of {} were not applied", task.task_id));
        }
    }
    let end = place.dir.read(END, MAX_RECORD).ok();
    let end = end.and_then(|bytes| serde_json::from_slice::<End>(&bytes).ok());
    let is_same = |end: &End| {
        marks(Path::new(&seen.path), &end.include).is_ok_and(|marks| marks == end.marks)
    };
    match end.is_some_and(|end| is_same(&end)) {
        true => Ok(()),
        false => refused("files in it have changed since its task ended"),
    }
}

/// Number of tasks of one worktree that are looked at.
const LATER: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schemas_are_published() {
        // EVENT-8
        schema::document_holds::<Worktrees>();
        schema::document_holds::<WorktreesRemoved>();
    }
}
