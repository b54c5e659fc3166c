//! `act worktrees`: lists and removes the worktrees in which tasks of a repository work.

use clap::Subcommand;

use super::{CommonOptions, answer};
use crate::output::{Line, Output, Tone};
use act_core::Failure;
use act_core::exit::Exit;
use act_task::{self as task, Changes, WhichWorktrees, WorktreeSeen};

const AFTER_HELP: &str = "\
Examples:
  act worktrees
  act worktrees list --json
  act worktrees remove t-4k2m9x
  act worktrees remove --done

Exit codes:
  0 listed or removed, 1 refused";

const LIST_HELP: &str = "\
Examples:
  act worktrees list
  act worktrees list --json | jq -r '.worktrees[].path'";

const REMOVE_HELP: &str = "\
Examples:
  act worktrees remove t-4k2m9x
  act worktrees remove t-4k2m9x --force    its changes are lost
  act worktrees remove --done              all whose changes were applied

Exit codes:
  0 removed; with --done also if some stay, 1 refused";

/// List or remove the worktrees in which tasks work
///
/// `act run --worktree` makes one for its task, in the artifact directory. `act apply TASK` makes its changes in the repository
/// and verifies them there.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Worktrees {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the worktrees of this repository, with what became of their changes
    #[command(after_long_help = LIST_HELP)]
    List,
    /// Remove a worktree, or all whose changes were applied
    #[command(after_long_help = REMOVE_HELP)]
    Remove(Remove),
}

#[derive(Debug, clap::Args)]
struct Remove {
    /// The task whose worktree is removed
    #[arg(value_name = "TASK", required_unless_present = "done", conflicts_with = "done")]
    task: Option<String>,
    /// Remove every worktree whose changes were applied
    #[arg(long)]
    done: bool,
    /// Remove the worktree although its changes were not applied, or files in it have changed since
    #[arg(long, conflicts_with = "done")]
    force: bool,
}

impl Worktrees {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let repo = &self.common.repo;
        match self.action {
            None | Some(Action::List) => {
                let found = task::worktrees(repo)?;
                answer(output, &found, || match found.worktrees.as_slice() {
                    [] => vec![Line::plain("No task of this repository has a worktree")],
                    all => all.iter().flat_map(|tree| lines(tree, output)).collect(),
                });
            }
            Some(Action::Remove(Remove { task, force, .. })) => {
                let which = task.map_or(WhichWorktrees::Done, WhichWorktrees::Of);
                let done = task::remove_worktrees(repo, &which, force)?;
                answer(output, &done, || {
                    let removed =
                        done.removed.iter().map(|id| Line::plain(format!("removed {id}")));
                    let kept =
                        done.kept.iter().map(|kept| Line::plain(format!("kept: {}", kept.why)));
                    let lines: Vec<_> = removed.chain(kept).collect();
                    match lines.is_empty() {
                        true => vec![Line::plain("No task of this repository has a worktree")],
                        false => lines,
                    }
                });
            }
        }
        Ok(Exit::Ok)
    }
}

/// Returns a line with the task of a worktree, its state and what became of its changes, and one with its path.
pub(super) fn lines(tree: &WorktreeSeen, output: &Output) -> [Line; 2] {
    let (tone, changes) = match tree.changes {
        Changes::None if tree.state.is_final() => (Tone::Plain, "nothing to apply".to_owned()),
        Changes::None => (Tone::Plain, "not ended".to_owned()),
        Changes::Open => {
            let apply = format!("act apply {}", tree.task_id);
            let apply = output.command(&apply);
            (Tone::Caution, format!("not applied: `{apply}`"))
        }
        Changes::Applying => (Tone::Caution, "applied in part".to_owned()),
        Changes::Applied => (Tone::Good, "applied".to_owned()),
    };
    let head = Line::of(Tone::Strong, tree.task_id.as_str())
        .and(Tone::Plain, format!(" {}, ", tree.state.as_str()))
        .and(tone, changes);
    let commit: String = tree.repo.head.as_deref().unwrap_or_default().chars().take(12).collect();
    let with = if tree.repo.dirty == Some(true) { " with uncommitted changes" } else { "" };
    [head, Line::of(Tone::Faint, format!("  {} of {commit}{with}", tree.path))]
}
