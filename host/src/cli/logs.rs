//! `act logs`: the output of the steps of a run.

use super::{CommonOptions, answer};
use crate::output::{Line, Output, Tone};
use act_core::Failure;
use act_core::exit::Exit;
use act_task as task;

const AFTER_HELP: &str = "\
Examples:
  act logs                         the last run of this repository
  act logs t-p2jww3 --step test    one step of the last run of a task
  act logs run_20260131_235959_a1b2c3 --json
  act logs --failures              the failures of a red run, with their places

Exit codes:
  0 printed, 1 there is no such run or step, or it was deleted";

/// Print the log of a run or of one step
///
/// Control characters are removed or shown by their code; the exact bytes are in the directory of the run. The JSON
/// document holds at most the last 16 MiB.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Logs {
    /// A run, or a task for its last run; default: the last run of this repository
    #[arg(value_name = "RUN_ID")]
    run_id: Option<String>,
    /// Print this step only; if several have the name, the last one
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
    /// Print the failures in the log of the failing step, one a line, with their places
    #[arg(long, conflicts_with = "step")]
    failures: bool,
    #[command(flatten)]
    common: CommonOptions,
}

impl Logs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        if self.failures {
            let list = task::failures(&self.common.repo, self.run_id.as_deref())?;
            answer(output, &list, || {
                let mut lines: Vec<_> =
                    list.failures.iter().map(|one| Line::plain(one.line())).collect();
                if list.more > 0 {
                    lines.push(Line::of(Tone::Faint, format!("and {} more", list.more)));
                }
                lines
            });
            if list.failures.is_empty() {
                output.progress(&Line::of(Tone::Faint, "No failure was recognised."));
            }
            return Ok(Exit::Ok);
        }
        let step = self.step.as_deref();
        let log = task::log(&self.common.repo, self.run_id.as_deref(), step)?;
        if output.is_json() {
            output.document(&log.document(step)?);
        } else {
            if log.is_empty() {
                output.progress(&Line::of(Tone::Faint, "The steps printed nothing."));
            }
            output.copy(log.file).map_err(|error| {
                Failure::refused("run_unreadable", format!("cannot read the log: {error}"))
            })?;
        }
        Ok(Exit::Ok)
    }
}
