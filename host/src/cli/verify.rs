//! `act verify`: the pipeline alone, on the tree as it is.

use super::gate_args::GateArgs;
use super::runtime;
use crate::output::Output;
use act_core::Failure;
use act_core::exit::Exit;
use act_core::verification::{Status, Verdict, Verification};
use act_verifier::Downloads;

const AFTER_HELP: &str = "\
Examples:
  act verify && git commit
  act verify --json > response.json

Exit codes:
  0 PASS, 1 refused, 3 FAIL, 4 INFRA_ERROR, 130 CANCELLED";

/// Run the pipeline of `agent.yaml` on the tree as it is
///
/// The same container, view and rules as in a task, without model or edits.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Verify {
    #[command(flatten)]
    pub(super) gate: GateArgs,
    /// Use no downloads of earlier runs, and keep none
    #[arg(long)]
    no_cache: bool,
}

impl Verify {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let downloads = if self.no_cache { Downloads::Own } else { Downloads::Kept };
        let work = crate::task::verify(&self.gate.at.repo, downloads, output);
        let Some(verification) = runtime::block_on(work)?? else { return Ok(Exit::Cancelled) };
        if self.gate.json {
            output.document(&verification);
        } else {
            output.result(&text(&verification));
        }
        Ok(exit(verification.verdict.status()))
    }
}

fn exit(status: Status) -> Exit {
    match status {
        Status::Pass => Exit::Ok,
        Status::Fail => Exit::Stuck,
        Status::InfraError => Exit::Infra,
    }
}

/// The end of the log unless all is well, warnings, then one line with the verdict.
fn text(verification: &Verification) -> String {
    let Verification { run_id, verdict, tail, warnings, .. } = verification;
    let mut text = String::new();
    let tail = tail.as_deref().unwrap_or_default().trim_end();
    if !verification.passed() && !tail.is_empty() {
        text.push_str(tail);
        text.push_str("\n\n");
    }
    for warning in warnings {
        text.push_str(&format!("warning: {}\n", warning.message));
    }
    text.push_str(verdict.status().as_str());
    if let Some(run_id) = run_id {
        text.push_str(&format!(" {run_id}"));
    }
    match verdict {
        Verdict::Pass => {}
        Verdict::Fail(reason) => {
            text.push_str(&format!(": {}", reason.as_str()));
            if let Some(step) = verification.steps().last() {
                text.push_str(&format!(" in step {:?}", step.name));
            }
        }
        Verdict::Infra(error) => text.push_str(&format!(": {error}")),
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::verification::testing::{RUN_ID, verification};
    use act_core::verification::{ErrorType, FailReason, InfraError, Warning, WarningCode};

    // CLI-18
    #[test]
    fn a_verification_ends_with_its_verdict() {
        let run = |verdict| verification(verdict, &["a", "b"], "broken\n");
        assert_eq!(text(&run(Verdict::Pass)), format!("PASS {RUN_ID}\n"));
        let mut failed = run(Verdict::Fail(FailReason::StepFailed));
        failed.warnings =
            vec![Warning { code: WarningCode::Oom, step: None, message: "mind this".into() }];
        assert_eq!(
            text(&failed),
            format!("broken\n\nwarning: mind this\nFAIL {RUN_ID}: step_failed in step \"b\"\n")
        );
        let infra = Verification::not_started(InfraError::new(ErrorType::ImagePull, "no"));
        assert_eq!(text(&infra), "INFRA_ERROR: image_pull: no\n");
    }

    // CLI-18
    #[test]
    fn the_exit_code_is_the_verdict() {
        let codes = [Status::Pass, Status::Fail, Status::InfraError].map(|s| exit(s) as u8);
        assert_eq!(codes, [0, 3, 4]);
    }
}
