//! `act verify` runs the pipeline on the working tree, without a model; `act verify-claim` repeats a verification and
//! compares the results.

use std::path::PathBuf;

use super::hook::{self, Called};
use super::{CommonOptions, answer, block_on};
use crate::output::{Line, Output, Tone};
use act_core::Failure;
use act_core::exit::Exit;
use act_core::verification::{Reused, Status, Verdict, Verification, WarningCode};
use act_task::{ClaimCheck, ClaimSide, HookAgent, Note, SignedBy, Wanted};
use act_verifier::Downloads;

const AFTER_HELP: &str = "\
Examples:
  act verify && git commit
  act verify --fresh
  act verify --json > response.json
  act verify --hook claude < event.json     what a hook of Claude Code runs

Exit codes:
  0 PASS, 1 refused, 3 FAIL, 4 INFRA_ERROR, 130 CANCELLED; with --hook always
  0, and the answer is on standard output";

/// Run the pipeline on the working tree
///
/// Uses the same container, files and rules as a task; no model is used and nothing is edited. If neither the tree nor the
/// gate has changed since the last green run, that run is the answer, and a verification that runs already is waited for.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Verify {
    #[command(flatten)]
    common: CommonOptions,
    /// Show the output of the steps
    #[arg(short, long)]
    verbose: bool,
    /// Use no downloads of earlier runs, and keep none for later ones
    #[arg(long)]
    no_cache: bool,
    /// Run the pipeline even if the last green run was of this very tree
    #[arg(long)]
    fresh: bool,
    /// Run the pipeline on this engine of engines.toml
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Answer the event of an agent on standard input: claude, codex, copilot, gemini, cursor or opencode
    #[arg(long, value_name = "AGENT", value_parser = super::init::agent)]
    #[arg(conflicts_with_all = ["json", "verbose", "no_cache", "fresh", "engine"])]
    hook: Option<HookAgent>,
    /// With --hook: let the agent go after so many red results in a row
    #[arg(long, value_name = "N", default_value_t = 3, requires = "hook")]
    max_blocks: u32,
    /// With --hook: seconds after which the agent ends the hook [default: the agent's own]
    #[arg(long, value_name = "SECONDS", requires = "hook")]
    hook_timeout: Option<u64>,
}

impl Verify {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        if let Some(agent) = self.hook {
            let (repo, max_blocks) = (self.common.repo, self.max_blocks);
            let called = Called { agent, repo, max_blocks, timeout: self.hook_timeout };
            return Ok(hook::called(called, output));
        }
        let downloads = if self.no_cache { Downloads::Private } else { Downloads::Shared };
        let wanted = Wanted { downloads, fresh: self.fresh, engine: self.engine };
        let work = act_task::verify(&self.common.repo, wanted, vec![output.verification_sink()]);
        let Some(mut verification) = block_on(work)?? else { return Ok(Exit::Cancelled) };
        let warnings = verification.warnings.iter_mut();
        for warning in warnings.filter(|one| one.code == WarningCode::ProposalUnfinished) {
            warning.message = output.with_repo(&warning.message).into_owned();
        }
        if output.is_json() {
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

/// Returns the end of the log unless the pipeline passed, warnings, then one line with the verdict.
pub(super) fn text(verification: &Verification) -> String {
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
    match verification.reused {
        None => {}
        Some(Reused { joined: true, .. }) => text.push_str(", a verification that ran already"),
        Some(Reused { age_s, .. }) => text.push_str(&format!(
            ", {} ago; nothing has changed since, so nothing was run (`act verify --fresh` runs it)",
            age(age_s)
        )),
    }
    text.push('\n');
    text
}

/// Returns a duration in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

const CLAIM_HELP: &str = "\
Examples:
  act verify-claim run_20261121_213557_u3sq3x
  act verify-claim run_20261121_213557_u3sq3x --json | jq .differences
  act verify-claim run_20261121_213557_u3sq3x --statement s.json --key ci.pub

Exit codes:
  0 same result, 1 different result or refused, 4 the second run has no
  verdict, 130 CANCELLED";

/// Repeat a verification, compare results
///
/// Pipeline and working tree must have the digests in the audit log; otherwise the command is refused and names what has
/// changed. The recorded image is used, even if its tag has moved, and no earlier download is used.
#[derive(Debug, clap::Args)]
#[command(after_long_help = CLAIM_HELP)]
pub(super) struct VerifyClaim {
    /// Id of the verification, as shown by `act history`, `act verify` and the summary of its task
    #[arg(value_name = "RUN_ID")]
    run_id: String,
    #[command(flatten)]
    common: CommonOptions,
    /// Show the output of the steps
    #[arg(short, long)]
    verbose: bool,
    /// A signed statement about the run, which must say the same as the log of this machine
    #[arg(long, value_name = "FILE", requires = "key")]
    statement: Option<PathBuf>,
    /// The public key of whoever signed the statement, in PEM
    #[arg(long, value_name = "PUB", requires = "statement")]
    key: Option<PathBuf>,
}

impl VerifyClaim {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let signed_by = self.statement.as_deref().zip(self.key.as_deref());
        let signed_by = signed_by.map(|(statement, key)| SignedBy { statement, key });
        let sinks = vec![output.verification_sink()];
        let work = act_task::verify_claim(&self.common.repo, &self.run_id, signed_by, sinks);
        let Some(check) = block_on(work)?? else { return Ok(Exit::Cancelled) };
        answer(output, &check, || claim_lines(&check));
        Ok(claim_exit(check.response.verdict.status(), check.holds))
    }
}

fn claim_exit(status: Status, holds: bool) -> Exit {
    match (status, holds) {
        (Status::InfraError, _) => Exit::Infra,
        (_, true) => Exit::Ok,
        (_, false) => Exit::Refused,
    }
}

fn claim_lines(check: &ClaimCheck) -> Vec<Line> {
    let word = match (check.response.verdict.status(), check.holds) {
        (Status::InfraError, _) => Line::of(Tone::Caution, "No verdict"),
        (_, true) => Line::of(Tone::Good, "Holds"),
        (_, false) => Line::of(Tone::Bad, "Does not hold"),
    };
    let (claimed, found) = (summary(&check.claimed), summary(&check.found));
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

fn summary(said: &ClaimSide) -> String {
    let run = said.run_id.as_deref().unwrap_or("no run");
    let reason = said.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let warnings = said.warnings.as_deref().unwrap_or_default().join("; ");
    let but = if warnings.is_empty() { "" } else { ", but " };
    format!("{run}: {}{reason}{but}{warnings}", said.status)
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
        let reused = |age_s, joined| {
            text(&Verification { reused: Some(Reused { age_s, joined }), ..run(Verdict::Pass) })
        };
        assert!(reused(90, false).starts_with(&format!("PASS {RUN_ID}, 90 s ago; nothing")));
        assert!(reused(7_199, false).contains(", 119 min ago;"));
        assert!(reused(7_200, false).contains(", 2 h ago;"));
        assert_eq!(reused(0, true), format!("PASS {RUN_ID}, a verification that ran already\n"));
        let infra = Verification::not_started(InfraError::new(ErrorType::ImagePull, "no"));
        assert_eq!(text(&infra), "INFRA_ERROR: image_pull: no\n");
    }

    // CLI-18
    #[test]
    fn the_exit_code_is_the_verdict() {
        let codes = [Status::Pass, Status::Fail, Status::InfraError].map(|s| exit(s) as u8);
        assert_eq!(codes, [0, 3, 4]);
    }

    // AUDIT-25
    #[test]
    fn the_exit_code_says_whether_it_was_true() {
        assert_eq!(claim_exit(Status::Pass, true), Exit::Ok);
        assert_eq!(claim_exit(Status::Fail, true), Exit::Ok);
        assert_eq!(claim_exit(Status::Fail, false), Exit::Refused);
        assert_eq!(claim_exit(Status::InfraError, false), Exit::Infra);
    }
}
