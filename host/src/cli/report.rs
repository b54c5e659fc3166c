//! `act report`: why the last task here did not succeed.

use serde::Serialize;

use super::repo_arg::RepoArg;
use crate::output::{Line, Output, Tone};
use crate::task::{self, Origin};
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  act report
  act report --resolve    it is done with; the next task begins without it

Exit codes:
  0 shown or resolved, 1 there is none, or none to resolve";

/// Show the stuck report of a repository
///
/// The next task here begins with it, and its runs are kept, until a task succeeds or `--resolve` says that
/// it is done with. A report that this act did not write is shown as foreign and does neither.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Report {
    /// Forget it: the next task begins without it, and its runs are kept no longer than others
    #[arg(long)]
    resolve: bool,
    #[command(flatten)]
    at: RepoArg,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl Report {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        if self.resolve {
            let resolved = task::resolve_report(&self.at.repo)?;
            let said = format!("The report of {} is resolved", resolved.task_id);
            self.answer(&resolved, output, || output.result_line(&Line::plain(said)));
        } else {
            let report = task::report(&self.at.repo)?;
            self.answer(&report, output, || {
                output.result_line(&title(&report));
                match &report.text {
                    Some(text) => output.result(&format!("\n{text}")),
                    None => output.result_line(&Line::plain("It is no regular file, and not read")),
                }
            });
        }
        Ok(Exit::Ok)
    }

    fn answer(&self, document: &impl Serialize, output: &Output, text: impl FnOnce()) {
        if self.json { output.document(document) } else { text() }
    }
}

/// Whose it is, before anything that it says itself.
fn title(report: &task::Report) -> Line {
    let path = &report.path;
    let of = report.task_id.as_deref().unwrap_or_default();
    match (report.origin, report.resolved) {
        (Origin::Own, false) => Line::of(Tone::Bad, "Unresolved")
            .and(Tone::Plain, format!(" report of {of}; the next task here begins with it")),
        (Origin::Own, true) => Line::of(Tone::Good, "Resolved")
            .and(Tone::Plain, format!(" report of {of}; it starts nothing any more")),
        (Origin::Foreign, _) => Line::of(Tone::Caution, "Foreign").and(
            Tone::Plain,
            format!(" report: this act did not write {path} as it stands; it starts nothing"),
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
            "Unresolved report of t-abc123; the next task here begins with it\n"
        );
        assert_eq!(
            said(Origin::Own, true),
            "Resolved report of t-abc123; it starts nothing any more\n"
        );
        assert_eq!(
            said(Origin::Foreign, false),
            "Foreign report: this act did not write agent/stuck_report.md as it stands; it starts nothing\n"
        );
    }
}
