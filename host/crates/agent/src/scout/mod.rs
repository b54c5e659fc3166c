//! Asks Scouts questions about the repository, and checks their reports against it.
//!
//! - [`ask`] puts one question to a [`Scout`], with up to three attempts, and falls back to facts when its model gives no
//!   report that fits.
//! - [`shown`] writes reports as the Editor's model reads them.
//! - [`Grounded`] rejects reports with a wrong schema, and reports that name paths or lines which do not exist.
//! - [`excerpts`] reads the lines that facts of Scout A name, for people.
//! - [`difference`] compares the reports of two components (`act scout --with --compare`).
//!
//! The shapes of reports and facts are those of the crate `act-reports`, which the components share.

mod check;
pub mod difference;
mod excerpts;
pub mod shown;

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use act_core::event::{EventKind, Events};
use act_model::{Retryable, Timer, with_attempts};
pub use act_reports::version::{SCHEMA_VERSION, SchemaError};
pub use act_reports::{facts_a, facts_b, report_a, report_b};
pub use check::{
    Grounded, OwnReport, Ungrounded, check_facts, check_facts_schema, checked_facts_a, ground_a,
    ground_facts_b,
};
pub use excerpts::{Lines, excerpts};

/// A question of the Editor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    pub text: String,
    /// Facts that the host adds, by name: `tail_log`, `failing_step`, `changes`, `rejection`, `package`, in this
    /// order where present.
    pub context: Vec<(String, String)>,
    /// The report is to be made of facts, without a model.
    pub facts_only: bool,
}

/// A report that passed the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The report as the Scout wrote it.
    pub json: String,
    /// Why the report is made of facts alone although the model was asked: a sentence that begins with
    /// [`FACTS_ONLY`]. `None` for the report that was asked for.
    pub warning: Option<String>,
}

/// Bytes of a question that its event has, which a person reads beside the answer.
const MAX_ASKED: usize = 4 << 10;

/// The stable word of the warning that a report is made of facts alone because the model gave none that fits.
pub const FACTS_ONLY: &str = "scout_facts_only";

/// The Scouts that every task has. They can make a report of facts, and the host knows the schema of their reports.
pub const STANDARD: [&str; 2] = ["scout-a", "scout-b"];

/// A Scout that answers questions. One call is one attempt.
pub trait Scout: Send + Sync {
    /// `scout-a`, `scout-b` or the name under which the component was approved.
    fn name(&self) -> &str;
    /// Digest of the component that answers.
    fn sha256(&self) -> &str;
    /// A description for the model, for Scouts that the Editor does not know.
    fn about(&self) -> Option<&str> {
        None
    }
    /// Returns the report as JSON text, not yet checked. `attempt` counts from 1 and only appears in events.
    fn ask<'a>(
        &'a self,
        question: &'a Question,
        attempt: u32,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, QueryFailure>>;
}

/// Why one attempt gave no report.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct QueryFailure {
    pub message: String,
    /// What the user can do about it.
    pub hint: &'static str,
    /// Another attempt may succeed.
    pub is_retryable: bool,
    pub retry_after: Option<Duration>,
    pub cancelled: bool,
    /// The task's tokens are spent, so no further attempt is possible.
    pub budget_spent: bool,
    /// The Scout ran to its end and has no report that fits: its model's answers cannot be used, or it cannot answer from
    /// facts. Everything else is a failure of the component, the model's server or the machine.
    pub is_unfit: bool,
}

/// Decides whether the Editor may use a report.
pub trait ReportCheck: Send + Sync {
    /// Returns one line about the report, or what is wrong with it: its schema, or paths and lines that do not exist.
    fn check<'a>(&'a self, scout: &'a str, raw: &'a str) -> BoxFuture<'a, Result<String, String>>;
}

/// Why a query gave no report after all attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryEnd {
    Cancelled,
    /// The task's tokens are spent.
    Budget,
    Failed {
        message: String,
        /// What the user can do about the last failure.
        hint: &'static str,
    },
}

impl Retryable for QueryFailure {
    fn is_retryable(&self) -> bool {
        self.is_retryable
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    fn cancelled() -> Self {
        Self {
            message: "cancelled".into(),
            hint: "run the command again",
            is_retryable: false,
            retry_after: None,
            cancelled: true,
            budget_spent: false,
            is_unfit: false,
        }
    }
}

/// The name of the context that says what was wrong with the last report.
const REJECTION: &str = "rejection";

/// A question with the state of its attempts.
struct Query<'q> {
    scout: &'q dyn Scout,
    check: &'q dyn ReportCheck,
    events: &'q Events,
    question: Question,
    attempts: u32,
    /// The model had its second chance after a report that the check rejected.
    corrected: bool,
}

/// Checks a report; `None` when the task is cancelled meanwhile.
async fn checked(
    check: &dyn ReportCheck,
    name: &str,
    raw: &str,
    cancel: &CancellationToken,
) -> Option<Result<String, String>> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        checked = check.check(name, raw) => Some(checked),
    }
}

/// Asks a Scout up to three times, until a report passes the check. After a rejected report the next attempt gets the
/// reason. When the model's report still does not fit, the Scout is asked for a report of facts. A Scout that cannot make a
/// report of facts is asked with its model.
///
/// # Errors
///
/// The task was cancelled, its tokens are spent, or no attempt gave a report that can be used.
pub async fn ask(
    scout: &dyn Scout,
    question: &Question,
    check: &dyn ReportCheck,
    events: &Events,
    timer: &dyn Timer,
    cancel: &CancellationToken,
) -> Result<Report, QueryEnd> {
    let question = question.clone();
    let mut query = Query { scout, check, events, question, attempts: 0, corrected: false };
    let answer = with_attempts(timer, cancel, &mut query, |query, attempt, cancel| {
        Box::pin(query.attempt(attempt, cancel))
    });
    answer.await.map_err(|failure| {
        if failure.cancelled || cancel.is_cancelled() {
            return QueryEnd::Cancelled;
        }
        if failure.budget_spent {
            return QueryEnd::Budget;
        }
        let times = match query.attempts {
            1 => "1 attempt".to_owned(),
            n => format!("{n} attempts"),
        };
        let name = scout.name();
        let message = format!("{name} gave no report after {times}: {}", failure.message);
        QueryEnd::Failed { message, hint: failure.hint }
    })
}

impl Query<'_> {
    async fn attempt(
        &mut self,
        attempt: u32,
        cancel: &CancellationToken,
    ) -> Result<Report, QueryFailure> {
        self.attempts = attempt;
        let question = self.question.clone();
        let mut asked = self.put(&question, cancel).await;
        if question.facts_only && asked.as_ref().is_err_and(|failure| failure.is_unfit) {
            self.question.facts_only = false;
            let question = self.question.clone();
            asked = self.put(&question, cancel).await;
        }
        let failure = match asked {
            Ok(json) => return Ok(Report { json, warning: None }),
            Err(failure) => failure,
        };
        if !failure.is_unfit || !STANDARD.contains(&self.scout.name()) {
            return Err(failure);
        }
        let mut facts = Question { facts_only: true, ..question };
        facts.context.retain(|(name, _)| name != REJECTION);
        match self.put(&facts, cancel).await {
            Ok(json) => {
                let name = self.scout.name();
                let warning = format!(
                    "{FACTS_ONLY}: the model of {name} gave no report that fits, so this one is made of facts \
                     alone ({})",
                    failure.message
                );
                self.events.warn(&warning);
                self.events.emit(EventKind::Diagnosis { text: warning.clone() });
                Ok(Report { json, warning: Some(warning) })
            }
            Err(end) if end.cancelled || end.budget_spent => Err(end),
            Err(_) => Err(failure),
        }
    }

    /// Asks once and checks the report.
    async fn put(
        &mut self,
        question: &Question,
        cancel: &CancellationToken,
    ) -> Result<String, QueryFailure> {
        let attempt = self.attempts;
        let (name, sha256) = (self.scout.name().to_owned(), self.scout.sha256().to_owned());
        // The text of a question may be that of the task, which has up to 256 KiB.
        let text = &question.text;
        let asked = text.get(..text.floor_char_boundary(MAX_ASKED)).unwrap_or_default().to_owned();
        let scout = name.clone();
        self.events.emit(EventKind::ScoutStarted { scout, sha256, attempt, question: asked });
        let started = Instant::now();
        let answer = self.scout.ask(question, attempt, cancel).await;
        let (outcome, result) = match answer {
            Err(failure) if failure.cancelled => ("cancelled", Err(failure)),
            Err(failure) => ("failed", Err(failure)),
            Ok(raw) => match checked(self.check, &name, &raw, cancel).await {
                Some(Ok(summary)) => ("ok", Ok((raw, summary))),
                Some(Err(wrong)) => ("rejected", Err(self.reject(question, wrong))),
                None => ("cancelled", Err(QueryFailure::cancelled())),
            },
        };
        let (summary, error) = match &result {
            Ok((_, summary)) => (summary.clone(), None),
            Err(failure) => (String::new(), Some(failure.message.clone())),
        };
        self.events.emit(EventKind::ScoutFinished {
            scout: name,
            outcome: outcome.to_owned(),
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            summary,
            error,
        });
        result.map(|(raw, _)| raw)
    }

    /// Puts the reason of a rejection into the next attempt's question. Facts cannot be corrected, and a model is asked to
    /// correct its report once.
    fn reject(&mut self, question: &Question, wrong: String) -> QueryFailure {
        let message = format!("the report was rejected: {wrong}");
        let is_unfit = question.facts_only || std::mem::replace(&mut self.corrected, true);
        if !question.facts_only {
            self.question.context.retain(|(name, _)| name != REJECTION);
            self.question.context.push((REJECTION.to_owned(), wrong));
        }
        QueryFailure {
            message,
            hint: "the answer does not fit the schema of its report; `--verbose` shows every attempt",
            is_retryable: true,
            retry_after: None,
            cancelled: false,
            budget_spent: false,
            is_unfit,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use futures_util::FutureExt;

    use super::*;

    /// A Scout that answers as a script says, and records whether each question was for facts.
    struct Scripted {
        name: &'static str,
        answers: Mutex<VecDeque<Result<&'static str, QueryFailure>>>,
        asked: Mutex<Vec<(bool, Vec<String>)>>,
    }

    impl Scout for Scripted {
        fn name(&self) -> &str {
            self.name
        }

        fn sha256(&self) -> &str {
            "0000"
        }

        fn ask<'a>(
            &'a self,
            question: &'a Question,
            _attempt: u32,
            _cancel: &'a CancellationToken,
        ) -> BoxFuture<'a, Result<String, QueryFailure>> {
            let names = question.context.iter().map(|(name, _)| name.clone()).collect();
            self.asked.lock().unwrap().push((question.facts_only, names));
            let answer = self.answers.lock().unwrap().pop_front().unwrap();
            std::future::ready(answer.map(str::to_owned)).boxed()
        }
    }

    /// Waits no time between attempts.
    struct NoWait;

    impl Timer for NoWait {
        fn wait(&self, _: Duration) -> BoxFuture<'static, ()> {
            std::future::ready(()).boxed()
        }
    }

    /// Accepts reports that begin with `good`.
    struct Good;

    impl ReportCheck for Good {
        fn check<'a>(&'a self, _: &'a str, raw: &'a str) -> BoxFuture<'a, Result<String, String>> {
            let checked =
                if raw.starts_with("good") { Ok(String::new()) } else { Err("no".into()) };
            std::future::ready(checked).boxed()
        }
    }

    fn failure(is_unfit: bool) -> QueryFailure {
        QueryFailure {
            message: "why".into(),
            is_retryable: true,
            is_unfit,
            cancelled: false,
            ..QueryFailure::cancelled()
        }
    }

    /// Each query: whether it was for facts alone, and the names in its context.
    type Queries = Vec<(bool, Vec<String>)>;

    /// The result of a question, with the queries that it took.
    fn asked(
        name: &'static str,
        facts_only: bool,
        answers: impl IntoIterator<Item = Result<&'static str, QueryFailure>>,
    ) -> (Result<Report, QueryEnd>, Queries) {
        let answers = Mutex::new(answers.into_iter().collect());
        let scout = Scripted { name, answers, asked: Mutex::default() };
        let question = Question { text: "where?".into(), facts_only, ..Question::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let (events, cancel) = (Events::silent(), CancellationToken::new());
        let asked = ask(&scout, &question, &Good, &events, &NoWait, &cancel);
        let report = runtime.unwrap().block_on(asked);
        assert!(scout.answers.lock().unwrap().is_empty(), "an answer of the script is left");
        (report, scout.asked.into_inner().unwrap())
    }

    fn kinds(asked: &[(bool, Vec<String>)]) -> Vec<bool> {
        asked.iter().map(|(facts_only, _)| *facts_only).collect()
    }

    // SCOUT-11
    #[test]
    fn a_model_without_a_report_that_fits_is_replaced_by_facts_with_a_warning() {
        let (report, asked) = asked("scout-a", false, [Err(failure(true)), Ok("good facts")]);
        let report = report.unwrap();
        assert_eq!(report.json, "good facts");
        assert!(report.warning.unwrap().starts_with("scout_facts_only: "));
        assert_eq!(kinds(&asked), [false, true]);
    }

    // SCOUT-11: the check of the host gives the model one correction, too.
    #[test]
    fn a_rejected_report_is_corrected_once_before_facts_replace_it() {
        let (report, corrected) = asked("scout-b", false, [Ok("bad"), Ok("good")]);
        assert_eq!(report.unwrap(), Report { json: "good".into(), warning: None });
        assert_eq!(corrected[1].1, ["rejection"]);
        let answers = [Ok("bad"), Ok("bad"), Ok("good facts")];
        let (report, replaced) = asked("scout-b", false, answers);
        assert!(report.unwrap().warning.is_some());
        assert_eq!(kinds(&replaced), [false, false, true]);
        assert_eq!(replaced[2].1, [""; 0], "the correction is not for facts");
    }

    // SCOUT-10: a component that does not know the form is asked with its model, as before.
    #[test]
    fn a_scout_that_cannot_answer_from_facts_is_asked_with_its_model() {
        for no_facts in [Err(failure(true)), Ok("facts in a schema of their own")] {
            let (report, asked) = asked("scout-a", true, [no_facts, Ok("good")]);
            assert_eq!(report.unwrap(), Report { json: "good".into(), warning: None });
            assert_eq!(kinds(&asked), [true, false]);
        }
    }

    // SCOUT-11: neither facts nor a plain failure of the component or the model's server is papered over.
    #[test]
    fn three_failures_end_the_question_with_and_without_facts() {
        for facts_only in [false, true] {
            let failures = [false; 3].map(|unfit| Err(failure(unfit)));
            let (report, asked) = asked("scout-a", facts_only, failures);
            let Err(QueryEnd::Failed { message: why, .. }) = report else { panic!("{report:?}") };
            assert_eq!(why, "scout-a gave no report after 3 attempts: why");
            assert_eq!(kinds(&asked), [facts_only; 3]);
        }
        let failures = [true; 3].map(|unfit| Err(failure(unfit)));
        let (report, asked) = asked("licences", false, failures);
        assert!(matches!(report, Err(QueryEnd::Failed { .. })), "{report:?}");
        assert_eq!(kinds(&asked), [false; 3], "the host knows no facts of other Scouts");
    }
}
