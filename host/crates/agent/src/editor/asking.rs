//! Questions to the Scouts: who is asked what, side by side, and what comes back to the model.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::calls::answered;
use super::ending::Ending;
use super::hands::Answer;
use super::prompt;
use super::session::{End, Session};
use super::told::told;
use super::tools::AskScout;
use super::verification;
use crate::context::ScoutPayload;
use crate::scout::Question;
use crate::scout::query::{self, QueryEnd};
use act_core::event::Milestone;
use act_model::TimerPause;

/// To Scouts, between two verifications; each is a conversation of its own.
const QUESTIONS: u32 = 8;

impl Session<'_> {
    pub(super) fn has_scout(&self, name: &str) -> bool {
        self.editor.scouts.iter().any(|scout| scout.name() == name)
    }

    pub(super) fn scouts(&self) -> String {
        self.editor.scouts.iter().map(|scout| scout.name()).collect::<Vec<_>>().join(", ")
    }

    /// The model's question or the task itself, with what the host knows about the last failure.
    pub(super) fn question(&self, text: Option<&String>) -> Question {
        let mut context = vec![];
        if let Some(last) = self.last.as_ref().filter(|last| last.failed()) {
            let log = last.tail.as_deref().unwrap_or_default();
            context.push(("tail_log".to_owned(), verification::tail(log).to_owned()));
            if let Some(step) =
                self.plans.attempts().last().and_then(|attempt| attempt.step.clone())
            {
                context.push(("failing_step".to_owned(), step));
            }
        }
        if let Some(package) = &self.editor.brief.package {
            context.push(("package".to_owned(), package.clone()));
        }
        let text = text.map(String::as_str).filter(|text| !text.trim().is_empty());
        let text = match text {
            // The task's text holds its sections itself.
            None => self.editor.brief.request.text().to_owned(),
            Some(text) => format!("{text}{}", prompt::sections(self.assignment())),
        };
        Question { text, context }
    }

    /// Independent questions, side by side; one that fails for good ends the task.
    pub(super) async fn ask(&mut self, asked: &[(String, Question)]) -> Result<Value, End> {
        for (name, _) in asked {
            match name.as_str() {
                "scout-a" => self.milestone(Milestone::QueryingScoutA),
                "scout-b" => self.milestone(Milestone::QueryingScoutB),
                _ => {}
            }
        }
        let editor = self.editor;
        let scouts: Vec<_> = asked
            .iter()
            .filter_map(|(name, question)| {
                Some((editor.scouts.iter().find(|scout| scout.name() == name)?, question))
            })
            .collect();
        let queries = scouts.iter().map(|(scout, question)| {
            let (check, events, cancel) = (editor.check.as_ref(), &editor.events, &editor.cancel);
            query::ask(scout.as_ref(), question, check, events, &TimerPause, cancel)
        });
        let mut reports = vec![];
        for ((scout, question), answer) in scouts.iter().zip(join_all(queries).await) {
            match answer {
                Ok(payload) => reports.push(ScoutPayload {
                    scout: scout.name().to_owned(),
                    sha256: scout.sha256().to_owned(),
                    question: question.text.clone(),
                    payload,
                }),
                Err(QueryEnd::Cancelled) => return Err(End::Cancelled),
                Err(QueryEnd::Budget) => return Err(End::Stuck(Ending::Budget)),
                Err(QueryEnd::Failed(diagnosis)) => {
                    return Err(End::Stuck(Ending::infra("scout_failed", diagnosis)));
                }
            }
        }
        let answer = reports.iter().map(|report| (report.scout.clone(), told(report))).collect();
        for report in reports {
            match self.reports.iter_mut().find(|known| known.scout == report.scout) {
                Some(known) => *known = report,
                None => self.reports.push(report),
            }
        }
        Ok(Value::Object(answer))
    }

    pub(super) async fn ask_scout(&mut self, ask: AskScout) -> Result<Answer, End> {
        if !self.has_scout(&ask.scout) {
            let message = format!("scout: no {}; there are {}", ask.scout, self.scouts());
            return Ok(Answer::refusal("bad_arguments", &message));
        }
        if self.asked >= QUESTIONS {
            let message = format!(
                "{QUESTIONS} questions are enough for one attempt; act on the answers, or verify"
            );
            return Ok(Answer::refusal("budget", &message));
        }
        self.asked += 1;
        let question = self.question(Some(&ask.question));
        let reports = self.ask(&[(ask.scout, question)]).await?;
        let mut answer = json!({"ok": true, "reports": reports});
        self.put_conflicts(&mut answer);
        Ok(answered(&answer))
    }
}
