//! `act diff`: what a task changed, as a patch from the files that it stored before it changed them.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use crate::audit::edited_by;
use crate::status::Lookup;
use act_audit::as_object;
use act_core::event::{Patch, ProposedChange, TaskWorktree};
use act_core::{Document, Failure};
use act_records::store::{TaskRecord, TaskState};
use act_workspace::{NoPatch, TaskPatch, patch_of_task};

/// Maximum number of files that a message names.
const NAMED: usize = 10;
/// Number of tasks among which the newest is looked for that could change files.
const LOOKED_AT: u32 = 1000;

/// What a task changed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TaskDiff {
    pub task_id: String,
    pub state: TaskState,
    /// The worktree in which the task worked; omitted for a task that worked in the repository itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<TaskWorktree>,
    /// The files in the patch.
    pub files: Vec<ProposedChange>,
    /// Changed files that the patch leaves out, because their names are those of secrets.
    pub left_out: Vec<String>,
    #[serde(flatten)]
    pub patch: Patch,
}

impl Document for TaskDiff {
    const NAME: &'static str = "diff";
}

/// Returns what a task changed; without an id, the newest task of the repository at `start` that could change files.
///
/// # Errors
///
/// There is no such task (`task_unknown`), its originals are not stored any more (`originals_gone`), a file is no longer as
/// the task left it (`changed_since`), or the files are too large (`diff_too_large`).
pub fn diff(start: &Path, task_id: Option<&str>) -> Result<TaskDiff, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, root) = lookup.context()?;
    let task = match task_id {
        Some(task_id) => lookup.own_task(task_id)?,
        None => {
            let all = context.store.history(Some(&context.repo), LOOKED_AT)?;
            // What a task did in a worktree is shown where its id is typed.
            let is_here = |task: &TaskRecord| task.repo == context.repo && could_change_files(task);
            all.into_iter().find(is_here).ok_or_else(|| {
                Failure::refused("task_unknown", "no task has run in this repository yet")
                    .hint("`act history --all` lists the tasks of other repositories")
            })?
        }
    };
    let root = match &task.flags.worktree {
        Some(_) => Path::new(&task.root),
        None => root,
    };
    if !root.is_dir() {
        let message = format!("the worktree of {} was removed", task.task_id);
        let hint = format!("`act apply --show {}` prints the patch of a success", task.task_id);
        return Err(Failure::refused("worktree_unknown", message).hint(hint));
    }
    let found = if could_change_files(&task) {
        let dir = context.artifacts.originals(&task.task_id).map_err(NoPatch::Io);
        let patch = dir.and_then(|dir| match dir {
            Some(dir) => patch_of_task(root, &dir),
            None => Err(NoPatch::Missing(vec![])),
        });
        patch.map_err(|why| no_patch(&task.task_id, why))?
    } else {
        TaskPatch::default()
    };
    // The list of changes is a file of the user. One that was emptied or shortened would give a patch that lacks changes.
    let listed: BTreeSet<_> = found.listed.iter().map(|path| as_object(path)).collect();
    let edited = edited_by(start, &task.task_id);
    let lost: Vec<_> = edited.difference(&listed).cloned().collect();
    if !lost.is_empty() {
        return Err(no_patch(&task.task_id, NoPatch::Missing(lost)));
    }
    let change = |(path, op, from): (String, &str, Option<String>)| ProposedChange {
        path,
        from,
        op: op.to_owned(),
    };
    let worktree = task.flags.worktree.as_ref().map(|worktree| worktree.at(&task.root));
    Ok(TaskDiff {
        worktree,
        task_id: task.task_id,
        state: task.state,
        files: found.files.into_iter().map(change).collect(),
        left_out: found.secrets,
        patch: Patch(found.patch.into()),
    })
}

/// Returns whether a task has begun and is no dry run.
fn could_change_files(task: &TaskRecord) -> bool {
    task.started_at.is_some() && !task.flags.dry_run
}

fn no_patch(task_id: &str, why: NoPatch) -> Failure {
    let list = |paths: &[String]| {
        let shown = paths.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        match paths.len().saturating_sub(NAMED) {
            0 => shown,
            more => format!("{shown} and {more} more"),
        }
    };
    match why {
        NoPatch::Missing(paths) if paths.is_empty() => Failure::refused(
            "originals_gone",
            format!("the files that {task_id} changed are not stored as they were before"),
        )
        .hint("they are stored for the 20 newest tasks of the last 14 days; `git diff` shows what is not committed"),
        NoPatch::Missing(paths) => Failure::refused(
            "originals_gone",
            format!("not stored as they were before {task_id}: {}", list(&paths)),
        )
        .hint("`git diff` shows what is not committed"),
        NoPatch::Changed(paths) => Failure::refused(
            "changed_since",
            format!("no longer as {task_id} left them: {}", list(&paths)),
        )
        .hint("a patch would mix the changes of the task with later ones; `git diff` shows what is not committed"),
        NoPatch::TooLarge => Failure::refused("diff_too_large", format!("{task_id}: {why}"))
            .hint("`git diff` shows what is not committed"),
        NoPatch::Io(error) => Failure::refused(
            "originals_gone",
            format!("what {task_id} changed cannot be read: {error}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::document_holds::<TaskDiff>();
    }
}
