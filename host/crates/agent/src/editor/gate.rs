//! The Editor at the gate: a verification and what follows from it, and whether the tree as it stands is the one
//! that was green.

use std::sync::Arc;

use super::Aim;
use super::attempt::Attempt;
use super::calls::answered;
use super::debug_loop::{HARD_STOP_AFTER, NextStep};
use super::ending::Ending;
use super::hands::Answer;
use super::phase::Phase;
use super::session::{End, Left, Session};
use super::strategy::Repeat;
use super::tools::Done;
use super::turns::Step;
use super::{prompt, verification as answer};
use crate::context::VerifiedRun;
use act_core::RunId;
use act_core::event::{EventKind, Milestone};
use act_core::verification::{Status, Verification};

/// Green runs in one task before the host closes it by itself.
const GREEN_RUNS: usize = 12;

impl Session<'_> {
    /// Green as long as nothing differs from what the green run judged; an edit that is undone counts.
    pub(super) fn phase_of_tree(&self) -> Phase {
        let green = self.last.as_ref().is_some_and(Verification::passed);
        if green && !self.edited() { Phase::Closing } else { Phase::Working }
    }

    /// Whether the last run was green and judged exactly the tree as it stands.
    pub(super) async fn tree_is_green(&self) -> Result<bool, End> {
        let green = self.last.as_ref().filter(|last| last.passed());
        let verified = green.and_then(Verification::tree_digest);
        let read = Arc::clone(&self.editor.tree_digest);
        let current = tokio::task::spawn_blocking(move || read()).await;
        // What was read by its path proves something about what is edited only while they are the same.
        if let Some(moved) = (self.editor.moved)() {
            return Err(End::Stuck(Ending::moved(moved)));
        }
        match current.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped))) {
            Ok(current) => Ok(verified.is_some_and(|verified| verified == current)),
            Err(error) => {
                let diagnosis = format!("the repository cannot be read: {error}");
                Err(End::Stuck(Ending::infra("unknown", diagnosis)))
            }
        }
    }

    pub(super) async fn done(&mut self, done: Done) -> Result<Step, End> {
        let done = self.without_commit_text(done);
        if self.editor.aim == Aim::Proposal {
            return Ok(Step::Leave(Left::Finished(Some(done))));
        }
        if !self.tree_is_green().await? {
            self.phase = Phase::Working;
            let message = "the tree has changed since the green run; call verify again";
            return Ok(Answer::refusal("not_verified", message).into());
        }
        Ok(Step::Leave(Left::Finished(Some(done))))
    }

    async fn close_or(&self, told: Answer) -> Result<Step, End> {
        let green = self.tree_is_green().await?;
        Ok(if green { Step::Leave(Left::Finished(None)) } else { told.into() })
    }

    /// A green model that never says `done`: closed by the host, unless the tree changed meanwhile.
    pub(super) async fn close(&mut self) -> Result<Step, End> {
        if self.tree_is_green().await? {
            return Ok(Step::Leave(Left::Finished(None)));
        }
        self.verify().await
    }

    /// Runs the pipeline, whoever asks for it. The refusals come first, so that silence bypasses none of them.
    pub(super) async fn verify(&mut self) -> Result<Step, End> {
        if let Some(refusal) = self.hidden().or_else(|| self.owed()) {
            return Ok(refusal.into());
        }
        let fingerprint = self.fingerprint();
        if !self.verified_in_strategy && self.debug_loop.replans() > 0 {
            match self.tried.judge_tree(&fingerprint) {
                Repeat::No => {}
                Repeat::Refused => {
                    let message =
                        "this tree was verified before and failed; change something first";
                    return Ok(Answer::refusal("same_strategy", message).into());
                }
                Repeat::Accepted => {
                    self.strategies.mark_in_hand(" (verified an unchanged tree)");
                }
            }
        }
        self.verified_in_strategy = true;
        (self.reminded, self.asked) = (false, 0);
        self.verified_tree.clone_from(&fingerprint);

        let number = self.debug_loop.next_attempt();
        self.milestone(Milestone::Attempt { number, of: HARD_STOP_AFTER });
        self.milestone(Milestone::Verifying);
        let verification = self.editor.verifier.run(number, &self.editor.cancel).await;
        let Some(verification) = verification.filter(|_| !self.editor.cancel.is_cancelled()) else {
            return Err(End::Cancelled);
        };
        self.record_gate_inputs(verification.run_id.as_ref().map(RunId::as_str));
        let next = self.debug_loop.judge(verification.verdict.status());
        let failure = Attempt::of(number, self.strategies.all().len() as u32, &verification);
        let as_before = self.baseline.as_ref().and_then(|baseline| baseline.comparison(&failure));
        let told = answered(&answer::told(&verification, &failure, as_before));
        self.verified.push(failure.shown(&verification));
        if verification.failed() {
            self.milestone(Milestone::VerificationFailed);
            self.editor.events.emit(EventKind::Diagnosis { text: prompt::attempt_line(&failure) });
            self.plans.fail(failure);
            self.tried.add_tree(&fingerprint);
        }
        let infra = verification.verdict.infra().cloned();
        self.last = Some(verification);
        match next {
            NextStep::Fix => {
                self.phase = Phase::Working;
                Ok(Step::Answer(Answer { is_error: true, ..told }))
            }
            NextStep::Finish => {
                self.phase = Phase::Closing;
                let green = |run: &&VerifiedRun| run.status == Status::Pass;
                // A model that goes on editing a green tree for ever is closed while it is green.
                if self.verified.iter().filter(green).count() >= GREEN_RUNS {
                    return self.close_or(told).await;
                }
                Ok(told.into())
            }
            NextStep::Replan { number: replan } => {
                Ok(Step::Leave(Left::Replan { number: replan, attempt: number }))
            }
            NextStep::HardStop => Err(End::Stuck(Ending::HardStop)),
            NextStep::InfraStop => {
                if let Some(moved) = (self.editor.moved)() {
                    return Err(End::Stuck(Ending::moved(moved)));
                }
                let (code, diagnosis) = infra.map_or(("unknown", String::new()), |error| {
                    (error.error_type.as_str(), error.message)
                });
                Err(End::Stuck(Ending::infra(code, diagnosis)))
            }
        }
    }
}
