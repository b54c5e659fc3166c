//! `act report`: why the last task of a repository is stuck.

use super::{CommonOptions, answer};
use crate::output::{Line, Output, Tone};
use act_core::Failure;
use act_core::exit::Exit;
use act_task::{self as task, Origin};

const AFTER_HELP: &str = "\
Examples:
  act report
  act report --resolve    mark it as resolved; the next task starts without it

Exit codes:
  0 shown or resolved, 1 there is no report, or none to resolve";

/// Show the stuck report of a repository
///
/// The next task in this repository starts with the report, and its runs are not deleted, until a task succeeds or
/// `--resolve` marks it as resolved. A report that act did not write is shown as foreign and has no such effect.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Report {
    /// Mark it as resolved: the next task starts without it, and its runs may be deleted like others
    #[arg(long)]
    resolve: bool,
    #[command(flatten)]
    common: CommonOptions,
}

impl Report {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        if self.resolve {
            let resolved = task::resolve_report(&self.common.repo)?;
            let line = format!("The report of {} is resolved", resolved.task_id);
            answer(output, &resolved, || vec![Line::plain(line)]);
            return Ok(Exit::Ok);
        }
        let report = task::report(&self.common.repo)?;
        let unread = "It is not a regular file and was not read";
        answer(output, &report, || match &report.text {
            Some(_) => vec![title(&report)],
            None => vec![title(&report), Line::plain(unread)],
        });
        if let Some(text) = report.text.filter(|_| !output.is_json()) {
            output.result(&format!("\n{text}"));
        }
        Ok(Exit::Ok)
    }
}

/// Returns the first line, which names the task; the text of the report follows it.
fn title(report: &task::Report) -> Line {
    let path = &report.path;
    let of = report.task_id.as_deref().unwrap_or_default();
    match (report.origin, report.resolved) {
        (Origin::Own, false) => Line::of(Tone::Bad, "Unresolved").and(
            Tone::Plain,
            format!(" report of {of}; the next task in this repository starts with it"),
        ),
        (Origin::Own, true) => Line::of(Tone::Good, "Resolved")
            .and(Tone::Plain, format!(" report of {of}; no task starts with it any more")),
        (Origin::Foreign, _) => Line::of(Tone::Caution, "Foreign").and(
            Tone::Plain,
            format!(" report: act did not write {path} in this form; no task starts with it"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(origin: Origin, resolved: bool) -> String {
        let own = origin == Origin::Own;
        let report = task::Report {
            path: "agent/stuck_report.md".into(),
            task_id: own.then(|| "t-abc123".into()),
            origin,
            resolved,
            written_at: None,
            run_ids: vec![],
            text: None,
        };
        title(&report).render(false)
    }

    // CLI-32
    #[test]
    fn the_first_line_says_whose_report_it_is() {
        assert_eq!(
            said(Origin::Own, false),
            "Unresolved report of t-abc123; the next task in this repository starts with it\n"
        );
        assert_eq!(
            said(Origin::Own, true),
            "Resolved report of t-abc123; no task starts with it any more\n"
        );
        assert_eq!(
            said(Origin::Foreign, false),
            "Foreign report: act did not write agent/stuck_report.md in this form; no task starts with it\n"
        );
    }
}
