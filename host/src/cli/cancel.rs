//! `act cancel`: ends a running or waiting task.

use super::{CommonOptions, answer};
use crate::output::{Line, Output};
use act_core::Failure;
use act_core::exit::Exit;
use act_records::store::TaskState;
use act_task::{self as task, CancelTarget};

const AFTER_HELP: &str = "\
Examples:
  act cancel              the running task of this repository
  act cancel --id 2       the second waiting task of this repository
  act cancel --id t-p2jww3

Exit codes:
  0 cancelled, 1 there was nothing to cancel";

/// Cancel the running task or a waiting one
///
/// Without `--id` the running task is cancelled. Its changes so far stay in the working tree, and the next waiting task
/// starts.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Cancel {
    /// Number of a waiting task, as `act queue` shows it, or the id of any task (from any directory)
    #[arg(long, value_name = "N|TASK", value_parser = which)]
    id: Option<CancelTarget>,
    #[command(flatten)]
    common: CommonOptions,
}

impl Cancel {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let cancelled = task::cancel(&self.id.unwrap_or(CancelTarget::Running), &self.common.repo)?;
        let task_id = &cancelled.task_id;
        answer(output, &cancelled, || {
            vec![Line::plain(match (cancelled.was, cancelled.ended) {
                (TaskState::Queued, _) => format!("{task_id} was removed from the queue"),
                (_, true) => {
                    format!("{task_id} is cancelled; its changes so far stay in the working tree")
                }
                (_, false) => format!("{task_id} was asked to stop and is still running"),
            })]
        });
        Ok(Exit::Ok)
    }
}

fn which(text: &str) -> Result<CancelTarget, String> {
    if let Ok(position @ 1..) = text.parse() {
        return Ok(CancelTarget::Position(position));
    }
    let of_an_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    match text.strip_prefix("t-") {
        Some(rest) if rest.len() == 6 && rest.chars().all(of_an_id) => {
            Ok(CancelTarget::Id(text.to_owned()))
        }
        _ => Err("expected a number from 1, or an id: t- and six of a-z and 0-9".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_named_by_its_place_or_its_id() {
        // CLI-24
        assert_eq!(which("2"), Ok(CancelTarget::Position(2)));
        assert_eq!(which("t-abc123"), Ok(CancelTarget::Id("t-abc123".into())));
        for wrong in
            ["0", "-1", "", "t-", "t-abc12", "t-ABC123", "abc123", "99999999999", "t-abc12%"]
        {
            assert!(which(wrong).is_err(), "{wrong}");
        }
    }
}
