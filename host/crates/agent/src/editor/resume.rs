//! The draft of a dry run, and the task that applies it.

use serde::{Deserialize, Serialize};

use super::plan::{Changes, Plan, PlanGoals};
use super::prompt;
use super::tools::{Account, ToolOutput};
use super::{AfterConversation, Editor, OrEnd, Phase, Session, TaskResult};
use crate::context::{ScoutPayload, SnapshotKind, Strategy};
use act_core::Outcome;

/// The state of a dry run, or of a task in a worktree, for the task that applies its changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    plan: Plan,
    goals: PlanGoals,
    reports: Vec<ScoutPayload>,
    decisions: Vec<String>,
    had_tests: Option<bool>,
    /// The Editor's account; `None` when it never called `done`.
    account: Option<Account>,
}

const NO_ACCOUNT: &str = "The Editor did not say that it was done (it called no tool, or came to its \
    fortieth turn): look whether all of it is there.";

impl Editor {
    /// Takes the draft of a dry run and writes the snapshot of the task's start, before the draft's files are put into
    /// the repository.
    ///
    /// # Errors
    ///
    /// The result of the task, when the snapshot cannot be written.
    pub async fn begin_with(&mut self, draft: Draft) -> OrEnd<()> {
        self.draft = Some(draft.clone());
        let mut session = Session::new(self);
        session.restore(draft);
        match session.snapshot(SnapshotKind::TaskStart) {
            Ok(()) => Ok(()),
            Err(ended) => Err(session.end(*ended).await.into()),
        }
    }
}

impl Session<'_> {
    /// Ends a dry run with its proposal.
    pub(super) fn propose(&self, done: Option<Account>) -> TaskResult {
        if self.editor.cancel.is_cancelled() {
            return TaskResult::cancelled();
        }
        let draft = self.draft_of(done.clone());
        let account = match done {
            Some(Account { what, why, tests, outcome: _ }) => {
                let tests = tests.map(|tests| format!("\n\n{tests}")).unwrap_or_default();
                format!("{what}\n\n{why}{tests}")
            }
            None => NO_ACCOUNT.to_owned(),
        };
        let goals = self.plans.goals();
        let list = |title: &str, items: &[String]| {
            let items: String = items.iter().map(|item| format!("\n- {item}")).collect();
            if items.is_empty() { items } else { format!("\n\n{title}:{items}") }
        };
        let assumed = list("Assumptions", &goals.assumptions);
        let dropped = list("Criteria that were dropped", &goals.dropped_lines());
        let weakened = list(
            "Existing tests that demand less than at the start, or something else",
            &self.weakened_lines(),
        );
        TaskResult {
            summary: Some(format!("{account}{weakened}{assumed}{dropped}")),
            gate_inputs_changed: self.gate_inputs_named(),
            draft,
            ..TaskResult::of(Outcome::Proposed)
        }
    }

    /// Returns what a task that makes the same changes elsewhere has to know; `None` before the first plan.
    pub(super) fn draft_of(&self, account: Option<Account>) -> Option<Draft> {
        self.plans.in_force().cloned().map(|plan| Draft {
            plan,
            goals: self.plans.goals().clone(),
            reports: self.reports.clone(),
            decisions: self.decisions.lines(),
            had_tests: self.has_tests,
            account,
        })
    }

    /// Continues after the files of a proposal were written: its plan is in force, and the first action verifies it.
    pub(super) async fn resume(&mut self, draft: &Draft) -> OrEnd<AfterConversation> {
        let account = draft.account.clone();
        self.restore(draft.clone());
        self.phase = Phase::Working;
        match self.verify().await? {
            ToolOutput::End(AfterConversation::Done(done)) => {
                return Ok(AfterConversation::Done(done.or(account)));
            }
            ToolOutput::End(next) => return Ok(next),
            ToolOutput::Answer(_) => {}
        }
        let ended = match self.phase == Phase::Closing && self.tree_is_green().await? {
            true => Some(self.end_green(account).await?),
            false => None,
        };
        match ended {
            Some(ToolOutput::End(next)) => Ok(next),
            Some(ToolOutput::Answer(_)) | None => {
                let tried = self.plans.so_far();
                let green = self.phase == Phase::Closing;
                let instruction = prompt::after_apply(green);
                Ok(AfterConversation::Conversation(self.message_with_facts(&tried, &instruction)))
            }
        }
    }

    /// Takes over the plan, the reports and the decisions of the dry run.
    fn restore(&mut self, draft: Draft) {
        let Draft { plan, goals, reports, decisions, had_tests, account: _ } = draft;
        self.history.add_strategy(&plan.strategy);
        let text = plan.strategy.trim().to_owned();
        self.strategies.begin(Strategy { text, ..Strategy::default() }, Changes::default());
        self.plans.restore(plan, goals);
        self.has_tests = had_tests;
        self.decisions.restore(decisions);
        self.reports = reports;
    }
}
