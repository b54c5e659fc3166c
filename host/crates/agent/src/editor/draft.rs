//! What a dry run leaves to the task that applies it: the plan in force, what the Scouts said, and the Editor's
//! own account. The files themselves are the workspace's.

use serde::{Deserialize, Serialize};

use super::phase::Phase;
use super::prompt::{self, Assignment, Known};
use super::session::{End, Left, Session};
use super::strategy::Changes;
use super::tools::{Done, Goals, Plan};
use super::turns::Step;
use super::{Editor, Finished, State};
use crate::context::{Moment, ScoutPayload, Strategy};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    plan: Plan,
    goals: Goals,
    reports: Vec<Report>,
    decisions: Vec<String>,
    had_tests: Option<bool>,
    /// None where the Editor stopped without a word.
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

/// How a task goes on after what was proposed has been verified.
pub(super) enum TakenUp {
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
        session.know(draft);
        match session.snapshot(Moment::TaskStart) {
            Ok(()) => Ok(()),
            Err(end) => Err(session.end(end).await),
        }
    }
}

impl Session<'_> {
    /// The end of a dry run.
    pub(super) fn propose(&self, done: Option<Done>) -> Finished {
        if self.editor.cancel.is_cancelled() {
            return super::closing::cancelled();
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
            decisions: self.decided.lines(),
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
    pub(super) async fn take_up(&mut self, draft: &Draft) -> Result<TakenUp, End> {
        let account = draft.account.clone();
        self.know(draft.clone());
        self.phase = Phase::Working;
        match self.verify().await? {
            Step::Leave(Left::Finished(done)) => Ok(TakenUp::Finished(done.or(account))),
            Step::Leave(Left::Replan { number, attempt }) => {
                Ok(TakenUp::Opening(self.start_replan(number, attempt)))
            }
            Step::Answer(_) if self.phase == Phase::Closing && self.tree_is_green().await? => {
                Ok(TakenUp::Finished(account))
            }
            Step::Answer(_) => {
                let tried = self.plans.so_far();
                let green = self.phase == Phase::Closing;
                let word = |task: Assignment<'_>, known: Known<'_>| {
                    prompt::after_apply(task, known, green)
                };
                Ok(TakenUp::Opening(self.facts_with(&tried, word)))
            }
        }
    }

    /// Plan, reports and decisions of the dry run are in force.
    fn know(&mut self, draft: Draft) {
        let Draft { plan, goals, reports, decisions, had_tests, account: _ } = draft;
        self.tried.add_strategy(&plan.strategy);
        let text = plan.strategy.trim().to_owned();
        self.strategies.begin(Strategy { text, ..Strategy::default() }, Changes::default());
        self.plans.take_up(plan, goals);
        self.has_tests = had_tests;
        self.decided.restore(decisions);
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
