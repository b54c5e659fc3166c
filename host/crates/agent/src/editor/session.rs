//! One task from its first conversation to its end, and what is known on the way. `turns` holds a conversation,
//! `calls` performs what it asks for, `gate` verifies; what happens next is decided in pure modules beside them.

use super::baseline::Baseline;
use super::debug_loop::DebugLoop;
use super::decisions::Decisions;
use super::draft::TakenUp;
use super::ending::Ending;
use super::phase::Phase;
use super::plans::Plans;
use super::prompt::{self, Assignment};
use super::reread::Reread;
use super::strategy::{Changes, Strategies, Tried};
use super::tools::Done;
use super::{Aim, Editor, Finished};
use crate::context::{Moment, ScoutPayload, VerifiedRun};
use act_core::event::Milestone;
use act_core::verification::Verification;

/// Why a task ends without success; carried up by `?`.
pub(super) enum End {
    Cancelled,
    Stuck(Ending),
}

/// How one conversation was left.
pub(super) enum Left {
    /// REPLAN of this number, after this attempt.
    Replan { number: u32, attempt: u32 },
    /// Green and closed, with the model's own account if it gave one.
    Finished(Option<Done>),
}

pub(super) struct Session<'a> {
    pub(super) editor: &'a Editor,
    pub(super) debug_loop: DebugLoop,
    pub(super) phase: Phase,
    pub(super) plans: Plans,
    pub(super) strategies: Strategies,
    pub(super) tried: Tried,
    /// Raw reports, newest per Scout, in the order of the Scouts.
    pub(super) reports: Vec<ScoutPayload>,
    pub(super) decided: Decisions,
    /// What the pipeline said before the first edit, if it was asked.
    pub(super) baseline: Option<Baseline>,
    /// Every verification, green ones too, as snapshots show them.
    pub(super) verified: Vec<VerifiedRun>,
    pub(super) decisions: Vec<String>,
    /// REPLAN that a new plan still has to answer.
    pub(super) replanning: Option<(u32, u32)>,
    /// Fingerprint of the tree that the last verification judged.
    pub(super) verified_tree: String,
    pub(super) verified_in_strategy: bool,
    pub(super) last: Option<Verification>,
    /// Whether there were tests when the task began; none before the first plan.
    pub(super) has_tests: Option<bool>,
    /// A snapshot that waits for the Editor's decision about a conflict. Every action but `plan` writes it first.
    pub(super) snapshot_due: Option<Moment>,
    /// Parts of `done` that were left out because they are text for a commit or a pull request.
    pub(super) left_out: Vec<&'static str>,
    /// What the model has seen of its changes.
    pub(super) reread: Reread,
    /// The criteria were said again since the last verification.
    pub(super) reminded: bool,
    /// Bytes of the host's answers in this conversation.
    pub(super) told_bytes: usize,
    /// Questions to Scouts since the last verification.
    pub(super) asked: u32,
    /// How many verifications there had been when a conversation was last given up for its length.
    pub(super) started_over: Option<usize>,
}

pub(super) async fn run(editor: &Editor) -> Finished {
    let mut session = Session::new(editor);
    let finished = match session.drive().await {
        Ok(done) if editor.aim == Aim::Proposal => session.propose(done),
        Ok(done) => session.succeed(done),
        Err(end) => session.end(end).await,
    };
    Finished { edits_refused: editor.hands.refused(), ..finished }
}

impl<'a> Session<'a> {
    pub(super) fn new(editor: &'a Editor) -> Self {
        Self {
            editor,
            debug_loop: DebugLoop::default(),
            phase: Phase::Planning,
            plans: Plans::default(),
            strategies: Strategies::default(),
            tried: Tried::default(),
            reports: vec![],
            decided: Decisions::default(),
            baseline: None,
            verified: vec![],
            decisions: vec![],
            replanning: None,
            verified_tree: String::new(),
            verified_in_strategy: false,
            last: None,
            has_tests: None,
            snapshot_due: None,
            left_out: vec![],
            reread: Reread::default(),
            reminded: false,
            told_bytes: 0,
            asked: 0,
            started_over: None,
        }
    }

    pub(super) fn assignment(&self) -> Assignment<'a> {
        let brief = &self.editor.brief;
        Assignment {
            text: brief.request.text(),
            constraints: brief.request.constraints(),
            non_goals: brief.request.non_goals(),
            boundaries: brief.request.boundaries(),
            package: brief.package.as_deref(),
        }
    }

    pub(super) fn milestone(&self, milestone: Milestone) {
        self.editor.events.emit(milestone.into());
    }

    pub(super) fn edited(&self) -> bool {
        self.fingerprint() != self.verified_tree
    }

    async fn drive(&mut self) -> Result<Option<Done>, End> {
        let mut opening = match self.begin().await? {
            TakenUp::Finished(done) => return Ok(done),
            TakenUp::Opening(opening) => opening,
        };
        loop {
            match self.converse(&opening).await {
                Ok(Left::Finished(done)) => return Ok(done),
                Ok(Left::Replan { number, attempt }) => {
                    self.milestone(Milestone::Replanning);
                    opening = self.start_replan(number, attempt);
                }
                Err(End::Stuck(Ending::ContextFull { said })) => opening = self.start_over(said)?,
                Err(end) => return Err(end),
            }
        }
    }

    /// To the first conversation, which a proposal that is green does not need.
    async fn begin(&mut self) -> Result<TakenUp, End> {
        if self.editor.baseline {
            self.look_before_the_first_edit().await?;
        }
        if let Some(draft) = &self.editor.draft {
            return self.take_up(draft).await;
        }
        self.milestone(Milestone::Analyzing);
        let known = prompt::Beginning {
            report: self.editor.brief.stuck_report.as_ref(),
            baseline: self.baseline.as_ref().map(Baseline::told),
            dry_run: self.editor.aim == Aim::Proposal,
        };
        Ok(TakenUp::Opening(prompt::opening(self.assignment(), known)))
    }

    pub(super) fn changes(&self) -> Changes {
        let files = self.editor.hands.changed().into_iter();
        files.map(|file| (file.path, file.sha256_now)).collect()
    }

    /// The same as one text that is equal when they are.
    pub(super) fn fingerprint(&self) -> String {
        let mut text = String::new();
        for (path, sha256) in self.changes() {
            text.push_str(&format!("{} {path}\n", sha256.as_deref().unwrap_or("-")));
        }
        text
    }

    pub(super) fn changed(&self) -> Vec<String> {
        self.editor
            .hands
            .changed()
            .iter()
            .map(|file| format!("{} ({})", file.path, file.op()))
            .collect()
    }
}
