//! `act verify-claim`: what a verification said, held against a second one.

use super::gate_args::GateArgs;
use super::runtime;
use crate::output::{Line, Output, Tone};
use crate::task::{ClaimCheck, Note, Said};
use act_core::Failure;
use act_core::exit::Exit;
use act_core::verification::{Status, Verdict};

const AFTER_HELP: &str = "\
Examples:
  act verify-claim run_20261121_213557_u3sq3x
  act verify-claim run_20261121_213557_u3sq3x --json | jq .differences

Exit codes:
  0 both say the same, 1 they do not, or refused, 4 the second one has no verdict, 130 CANCELLED";

/// Run a verification again and compare what it said
///
/// Gate and tree must be what they were, by their digests in the audit log; else it is refused and says what has
/// changed. The image is the recorded one, also where its tag has moved, and no earlier download is used.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct VerifyClaim {
    /// The verification, as `act history`, `act verify` and the summary of its task name it
    #[arg(value_name = "RUN_ID")]
    run_id: String,
    #[command(flatten)]
    pub(super) gate: GateArgs,
}

impl VerifyClaim {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let work = crate::task::verify_claim(&self.gate.at.repo, &self.run_id, output);
        let Some(check) = runtime::block_on(work)?? else { return Ok(Exit::Cancelled) };
        if self.gate.json {
            output.document(&check);
        } else {
            lines(&check).iter().for_each(|line| output.result_line(line));
        }
        Ok(exit(check.response.verdict.status(), check.holds))
    }
}

fn exit(status: Status, holds: bool) -> Exit {
    match (status, holds) {
        (Status::InfraError, _) => Exit::Infra,
        (_, true) => Exit::Ok,
        (_, false) => Exit::Refused,
    }
}

fn lines(check: &ClaimCheck) -> Vec<Line> {
    let word = match (check.response.verdict.status(), check.holds) {
        (Status::InfraError, _) => Line::of(Tone::Caution, "No second word"),
        (_, true) => Line::of(Tone::Good, "Holds"),
        (_, false) => Line::of(Tone::Bad, "Does not hold"),
    };
    let (claimed, found) = (said(&check.claimed), said(&check.found));
    let mut lines = vec![word.and(Tone::Plain, format!(": {claimed}; again: {found}"))];
    if let Verdict::Infra(error) = &check.response.verdict {
        lines.push(Line::plain(format!("  {error}")));
    }
    let none = || "nothing".to_owned();
    for difference in &check.differences {
        let claimed = difference.claimed.clone().unwrap_or_else(none);
        let found = difference.found.clone().unwrap_or_else(none);
        let name = format!("  {}: ", difference.field);
        lines.push(Line::of(Tone::Faint, name).and(Tone::Plain, format!("{claimed}; now {found}")));
    }
    let note = |note: &Note| Line::of(Tone::Faint, "  note: ").and(Tone::Plain, &note.message);
    lines.extend(check.notes.iter().map(note));
    lines
}

fn said(said: &Said) -> String {
    let run = said.run_id.as_deref().unwrap_or("no run");
    let reason = said.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let warnings = said.warnings.as_deref().unwrap_or_default().join("; ");
    let but = if warnings.is_empty() { "" } else { ", but " };
    format!("{run} says {}{reason}{but}{warnings}", said.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    // AUDIT-25
    #[test]
    fn the_exit_code_says_whether_it_was_true() {
        assert_eq!(exit(Status::Pass, true), Exit::Ok);
        assert_eq!(exit(Status::Fail, true), Exit::Ok);
        assert_eq!(exit(Status::Fail, false), Exit::Refused);
        assert_eq!(exit(Status::InfraError, false), Exit::Infra);
    }
}
