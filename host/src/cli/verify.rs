//! `act verify`: runs the pipeline on the working tree, without a model.

use super::gate_args::GateArgs;
use super::runtime;
use crate::output::Output;
use act_core::Failure;
use act_core::exit::Exit;
use act_verifier::{Downloads, Status, VerifyResponse};

const AFTER_HELP: &str = "\
Examples:
  act verify && git commit
  act verify --json > response.json

Exit codes:
  0 PASS, 1 refused, 3 FAIL, 4 INFRA_ERROR, 130 CANCELLED";

/// Run the pipeline of `agent.yaml` on the working tree
///
/// Container, files and rules are those of a task; no model is used and nothing is edited.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Verify {
    #[command(flatten)]
    pub(super) gate: GateArgs,
    /// Use no downloads of earlier runs, and store none
    #[arg(long)]
    no_cache: bool,
}

impl Verify {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let downloads = if self.no_cache { Downloads::Own } else { Downloads::Kept };
        let work = crate::task::verify(&self.gate.at.repo, downloads, output);
        let Some(response) = runtime::block_on(work)?? else { return Ok(Exit::Cancelled) };
        if self.gate.json {
            output.document(&response);
        } else {
            output.result(&text(&response));
        }
        Ok(exit(response.status))
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
fn text(response: &VerifyResponse) -> String {
    let mut text = String::new();
    let tail = response.tail_log.as_deref().unwrap_or_default().trim_end();
    if response.status != Status::Pass && !tail.is_empty() {
        text.push_str(tail);
        text.push_str("\n\n");
    }
    for warning in &response.warnings {
        text.push_str(&format!("warning: {}\n", warning.message));
    }
    text.push_str(response.status.as_str());
    if let Some(run_id) = &response.run_id {
        text.push_str(&format!(" {run_id}"));
    }
    if let Some(reason) = response.reason {
        text.push_str(&format!(": {}", reason.as_str()));
        if let Some(step) = last_step(response) {
            text.push_str(&format!(" in step {step:?}"));
        }
    }
    if let (Some(kind), Some(message)) = (response.error_type, &response.error_message) {
        text.push_str(&format!(": {}: {message}", kind.as_str()));
    }
    text.push('\n');
    text
}

fn last_step(response: &VerifyResponse) -> Option<&str> {
    let manifest = response.manifest.as_ref()?;
    manifest.get("commands_executed")?.as_array()?.last()?.get("name")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_verifier::{ErrorType, FailReason, Warning, WarningCode};

    fn response(status: Status) -> VerifyResponse {
        VerifyResponse {
            status,
            run_id: Some("run_x".into()),
            tail_log: Some("broken\n".into()),
            artifact_paths: vec![],
            manifest: Some(
                serde_json::json!({"commands_executed": [{"name": "a"}, {"name": "b"}]}),
            ),
            error_type: None,
            error_message: None,
            reason: None,
            warnings: vec![],
        }
    }

    // CLI-18
    #[test]
    fn a_verification_ends_with_its_verdict() {
        assert_eq!(text(&response(Status::Pass)), "PASS run_x\n");
        let mut failed = response(Status::Fail);
        failed.reason = Some(FailReason::StepFailed);
        failed.warnings =
            vec![Warning { code: WarningCode::Oom, step: None, message: "mind this".into() }];
        assert_eq!(
            text(&failed),
            "broken\n\nwarning: mind this\nFAIL run_x: step_failed in step \"b\"\n"
        );
        let mut infra = response(Status::InfraError);
        (infra.run_id, infra.tail_log) = (None, None);
        (infra.error_type, infra.error_message) = (Some(ErrorType::ImagePull), Some("no".into()));
        assert_eq!(text(&infra), "INFRA_ERROR: image_pull: no\n");
    }

    // CLI-18
    #[test]
    fn the_exit_code_is_the_verdict() {
        let codes = [Status::Pass, Status::Fail, Status::InfraError].map(|s| exit(s) as u8);
        assert_eq!(codes, [0, 3, 4]);
    }
}
