//! Plans: the first one brings the Scouts' reports, one after a REPLAN must differ from all before.

use std::sync::Arc;

use serde_json::json;

use super::calls::{answered, refusal_hint};
use super::debug_loop::REPLAN_AFTER;
use super::ending::Ending;
use super::hands::Answer;
use super::phase::Phase;
use super::plans::FailedStrategy;
use super::prompt::{self, Assignment, Known};
use super::session::{End, Session};
use super::strategy::Repeat;
use super::tools::Plan;
use super::{replan, verification};
use crate::context::{EditorState, Moment, Replan, Snapshot, Strategy};
use crate::scout::Question;
use act_core::event::{EventKind, Milestone};

impl Session<'_> {
    /// Closes the books on the strategy in hand and words the next conversation.
    pub(super) fn start_replan(&mut self, number: u32, attempt: u32) -> String {
        self.plans.give_up();
        self.phase = Phase::Planning;
        self.replanning = Some((number, attempt));
        self.tried.start_over();
        self.verified_in_strategy = false;
        self.reminded = false;
        self.reread.start_over();
        self.facts_with(self.plans.failed(), prompt::replanning)
    }

    /// What is known goes into the first message of another conversation.
    pub(super) fn facts_with(
        &self,
        tried: &[FailedStrategy],
        word: impl FnOnce(Assignment<'_>, Known<'_>) -> String,
    ) -> String {
        let log = self.last.as_ref().and_then(|last| last.tail.as_deref()).unwrap_or_default();
        let known = Known {
            goals: self.plans.goals(),
            reports: &self.reports,
            decisions: &self.decided.lines(),
            tried,
            changed: &self.whole_difference(),
            tail: verification::tail(log),
        };
        word(self.assignment(), known)
    }

    /// The conversation has become longer than the model takes: a fresh one goes on with the same plan, once
    /// between two verifications. One that has no plan yet would only say the same again.
    pub(super) fn start_over(&mut self, said: String) -> Result<String, End> {
        if self.plans.in_force().is_none() || self.phase == Phase::Planning {
            return Err(End::Stuck(Ending::ContextFull { said }));
        }
        if self.started_over.replace(self.verified.len()) == Some(self.verified.len()) {
            let said = format!("{said}; a fresh conversation became too long as well");
            return Err(End::Stuck(Ending::ContextFull { said }));
        }
        let text = format!("{said}; a fresh conversation goes on with the same plan");
        self.editor.events.emit(EventKind::Diagnosis { text });
        let tried = self.plans.so_far();
        self.reread.start_over();
        let green = self.phase == Phase::Closing;
        Ok(self.facts_with(&tried, |task, known| prompt::going_on(task, known, green)))
    }

    /// Takes a plan: the first one brings the Scouts' reports, one after a REPLAN must differ from all before.
    pub(super) async fn adopt(&mut self, plan: Plan) -> Result<Answer, End> {
        if plan.strategy.trim().is_empty() {
            return Ok(Answer::refusal("bad_arguments", "strategy is empty"));
        }
        let first = self.strategies.all().is_empty();
        let repeat = match self.replanning {
            Some(_) => self.tried.judge_strategy(&plan.strategy),
            None => Repeat::No,
        };
        let mark = match repeat {
            Repeat::No => "",
            Repeat::Refused => {
                return Ok(Answer::refusal("same_strategy", refusal_hint("same_strategy")));
            }
            Repeat::Accepted => " (repeats an earlier strategy)",
        };
        let unknown: Vec<_> =
            plan.questions.keys().filter(|name| !self.has_scout(name)).cloned().collect();
        if !unknown.is_empty() {
            let message =
                format!("questions: no Scout {}; there are {}", unknown.join(", "), self.scouts());
            return Ok(Answer::refusal("bad_arguments", &message));
        }

        let requery = self.requery();
        let asked = self.asked_for(&plan, first, &requery);
        let mut answer = json!({"ok": true});
        if !asked.is_empty() {
            let names: Vec<String> = asked.iter().map(|(name, _)| name.clone()).collect();
            let tests = first.then(|| {
                let has_tests = Arc::clone(&self.editor.has_tests);
                tokio::task::spawn_blocking(move || has_tests())
            });
            answer["reports"] = self.ask(&asked).await?;
            if let Some(tests) = tests {
                self.has_tests = tests.await.ok();
            }
            self.annotate(&mut answer);
            self.decisions.push(format!("asked {}", names.join(" and ")));
        }

        let text = format!("{}{mark}", plan.strategy.trim());
        let same = self.replanning.is_none() && text == self.strategies.in_hand();
        let strategy = Strategy {
            text,
            replan: self.replanning.map(|(number, after_attempt)| Replan { number, after_attempt }),
            requery: requery.clone(),
            changed: vec![],
        };
        // A plan that only adds decisions or criteria goes on with its strategy.
        if !same {
            self.strategies.begin(strategy, self.changes());
            self.tried.add_strategy(&plan.strategy);
        }
        self.decided.decide(&plan.decisions);
        self.plans.adopt(plan);
        self.write_due_snapshot()?;
        match self.replanning.take() {
            Some((number, attempt)) => {
                let strategy = self.strategies.in_hand().to_owned();
                self.editor.events.emit(EventKind::Replan { number, attempt, strategy, requery });
                self.snapshot_when_decided(Moment::Replan { number })?;
            }
            None if first => self.snapshot_when_decided(Moment::TaskStart)?,
            None => {}
        }
        if self.phase == Phase::Planning {
            self.phase = Phase::Working;
            self.milestone(Milestone::Implementing);
        }
        Ok(answered(&answer))
    }

    /// Scouts whose knowledge the last failures put in doubt, after a REPLAN.
    fn requery(&self) -> Vec<String> {
        if self.replanning.is_none() {
            return vec![];
        }
        let attempts = self.plans.attempts();
        let from = attempts.len().saturating_sub(REPLAN_AFTER as usize);
        let again = replan::requery(attempts.get(from..).unwrap_or_default());
        again.into_iter().map(str::to_owned).collect()
    }

    /// Who is asked what for a plan: Scouts A and B for the first one, whom it names, and those in doubt.
    fn asked_for(&self, plan: &Plan, first: bool, requery: &[String]) -> Vec<(String, Question)> {
        let names = self.editor.scouts.iter().map(|scout| scout.name());
        let asked = names.filter(|name| {
            (first && ["scout-a", "scout-b"].contains(name))
                || plan.questions.contains_key(*name)
                || requery.iter().any(|again| again == name)
        });
        asked.map(|name| (name.to_owned(), self.question(plan.questions.get(name)))).collect()
    }

    pub(super) fn snapshot(&self, moment: Moment) -> Result<(), End> {
        let Some(notes) = &self.editor.notes else { return Ok(()) };
        let strategies = self.strategies.all().iter().enumerate();
        let mut decisions: Vec<String> =
            strategies.map(|(at, one)| format!("strategy {}: {}", at + 1, one.text)).collect();
        decisions.extend(self.decisions.iter().cloned());
        decisions.extend(self.decided.lines());
        let state = EditorState {
            hypothesis: self.strategies.in_hand().to_owned(),
            files_modified: self.changed(),
            verify_attempts: self.verified.clone(),
            decisions,
        };
        let snapshot = Snapshot {
            taken: act_core::clock::now(),
            moment,
            task_id: &self.editor.brief.task_id,
            task_text: self.editor.brief.request.text(),
            scouts: &self.reports,
            editor: &state,
        };
        let written = notes.snapshot(&snapshot).map_err(|error| {
            End::Stuck(Ending::infra(
                "unknown",
                format!("the context snapshot could not be written: {error}"),
            ))
        })?;
        let milestone = moment.word().to_owned();
        self.editor.events.emit(EventKind::Snapshot { path: written.path, milestone });
        if let Some(text) = written.not_linked {
            self.editor.events.emit(EventKind::Diagnosis { text });
        }
        Ok(())
    }
}
