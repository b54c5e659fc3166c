//! The draft of a dry run, and the task that applies it.

use serde::{Deserialize, Serialize};

use super::finish::cancelled;
use super::plan::{Changes, Plan, PlanGoals};
use super::prompt::{self, ResumeContext, TaskSpec};
use super::tools::{Done, ToolOutput};
use super::{Abort, ConversationExit, Editor, Finished, Phase, Session, State};
use crate::context::{ScoutPayload, SnapshotKind, Strategy};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    plan: Plan,
    goals: PlanGoals,
    reports: Vec<Report>,
    decisions: Vec<String>,
    had_tests: Option<bool>,
    /// `None` where the Editor stopped without `done`.
    account: Option<Done>,
}

/// A Scout's report, as it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    scout: String,
    sha256: String,
    question: String,
    payload: String,
}

const NO_ACCOUNT: &str = "The Editor did not say that it was done (it called no tool, or came to its \
    fortieth turn): look whether all of it is there.";

/// How a task continues when it begins, or after its proposal was verified.
pub(super) enum Resumed {
    Finished(Option<Done>),
    /// The first message of the conversation that mends it.
    Opening(String),
}

impl Editor {
    /// Writes the snapshot of the start of a task whose files are still to be put into the repository: the draft
    /// in hand, and nothing changed yet. How the task has ended when it cannot be written.
    pub async fn begin_with(&mut self, draft: Draft) -> Result<(), Finished> {
        self.draft = Some(draft.clone());
        let mut session = Session::new(self);
        session.restore(draft);
        match session.snapshot(SnapshotKind::TaskStart) {
            Ok(()) => Ok(()),
            Err(end) => Err(session.end(end).await),
        }
    }
}

impl Session<'_> {
    /// The end of a dry run.
    pub(super) fn propose(&self, done: Option<Done>) -> Finished {
        if self.editor.cancel.is_cancelled() {
            return cancelled();
        }
        let reports = self.reports.iter().cloned().map(|report| Report {
            scout: report.scout,
            sha256: report.sha256,
            question: report.question,
            payload: report.payload,
        });
        let draft = self.plans.in_force().cloned().map(|plan| Draft {
            plan,
            goals: self.plans.goals().clone(),
            reports: reports.collect(),
            decisions: self.decisions.lines(),
            had_tests: self.has_tests,
            account: done.clone(),
        });
        Finished {
            summary: Some(match done {
                Some(Done { what, why, tests }) => {
                    let tests = tests.map(|tests| format!("\n\n{tests}")).unwrap_or_default();
                    format!("{what}\n\n{why}{tests}")
                }
                None => NO_ACCOUNT.to_owned(),
            }),
            gate_inputs_changed: self.gate_inputs_named(),
            draft,
            ..Finished::of(State::Proposed)
        }
    }

    /// The changes of a proposal stand in the repository: its plan is in force and its verification is the first.
    pub(super) async fn resume(&mut self, draft: &Draft) -> Result<Resumed, Abort> {
        let account = draft.account.clone();
        self.restore(draft.clone());
        self.phase = Phase::Working;
        match self.verify().await? {
            ToolOutput::Exit(ConversationExit::Finished(done)) => {
                Ok(Resumed::Finished(done.or(account)))
            }
            ToolOutput::Exit(ConversationExit::Replan { number, attempt }) => {
                Ok(Resumed::Opening(self.start_replan(number, attempt)))
            }
            ToolOutput::Answer(_)
                if self.phase == Phase::Closing && self.tree_is_green().await? =>
            {
                Ok(Resumed::Finished(account))
            }
            ToolOutput::Answer(_) => {
                let tried = self.plans.so_far();
                let green = self.phase == Phase::Closing;
                let message = |task: TaskSpec<'_>, context: ResumeContext<'_>| {
                    prompt::after_apply(task, context, green)
                };
                Ok(Resumed::Opening(self.message_with_facts(&tried, message)))
            }
        }
    }

    /// Plan, reports and decisions of the dry run are in force.
    fn restore(&mut self, draft: Draft) {
        let Draft { plan, goals, reports, decisions, had_tests, account: _ } = draft;
        self.history.add_strategy(&plan.strategy);
        let text = plan.strategy.trim().to_owned();
        self.strategies.begin(Strategy { text, ..Strategy::default() }, Changes::default());
        self.plans.restore(plan, goals);
        self.has_tests = had_tests;
        self.decisions.restore(decisions);
        self.reports = reports
            .into_iter()
            .map(|report| ScoutPayload {
                scout: report.scout,
                sha256: report.sha256,
                question: report.question,
                payload: report.payload,
            })
            .collect();
    }
}
