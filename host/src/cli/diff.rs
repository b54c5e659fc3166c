//! `act diff`: the changes of a task as a patch.

use super::CommonOptions;
use crate::output::Output;
use act_core::Failure;
use act_core::exit::Exit;
use act_task as task;

const AFTER_HELP: &str = "\
Examples:
  act diff                     what the newest task here has changed
  act diff t-p2jww3 | less     what this task has changed
  act diff | git apply -R      undo it

Exit codes:
  0 the patch was printed, 1 the files of before are gone, or a file has
  changed since";

/// Show what a task changed, as a patch
///
/// The patch is made from the files as they were before the task, which act stores for the 20 newest tasks of the last 14
/// days, and from the working tree. It does not matter how the task ended or what was committed before. Files whose names
/// are those of secrets, such as .env, are named on stderr and left out.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Diff {
    /// Id of the task; default: the newest one of the repository that has begun and is no dry run
    #[arg(value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    common: CommonOptions,
}

impl Diff {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let diff = task::diff(&self.common.repo, self.task.as_deref())?;
        if output.is_json() {
            output.document(&diff);
            return Ok(Exit::Ok);
        }
        let task = &diff.task_id;
        if !diff.left_out.is_empty() {
            let files = diff.left_out.join(", ");
            output.notice(&format!("left out, because they may hold secrets: {files}\n"));
        } else if diff.files.is_empty() {
            output.notice(&format!("{task} has left no change\n"));
        }
        output.patch(&diff.patch.0);
        Ok(Exit::Ok)
    }
}
