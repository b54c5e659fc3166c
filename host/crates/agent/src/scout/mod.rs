//! Asks Scouts questions about the repository, and checks their reports against it.
//!
//! - [`ask`] puts one question to a [`Scout`], with up to three attempts.
//! - [`Grounded`] rejects reports with a wrong schema, and reports that name paths or lines which do not exist.
//! - [`difference`] compares the reports of two components (`act scout --with --compare`).
//!
//! The shapes of reports and facts are those of the crate `act-reports`, which the components share.

mod check;
pub mod difference;

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use act_core::event::{EventKind, Events};
use act_model::{Retryable, Timer, with_attempts};
pub use act_reports::version::{SCHEMA_VERSION, SchemaError};
pub use act_reports::{facts_a, facts_b, report_a, report_b};
pub use check::{Grounded, OwnReport, Ungrounded, check_facts, ground_a, ground_facts_b};

/// A question of the Editor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    pub text: String,
    /// Facts that the host adds, by name: `tail_log`, `failing_step`, `changes`, `rejection`, `package`, in this
    /// order where present.
    pub context: Vec<(String, String)>,
}

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
    /// Another attempt may succeed.
    pub is_retryable: bool,
    pub retry_after: Option<Duration>,
    pub cancelled: bool,
    /// The task's tokens are spent, so no further attempt is possible.
    pub budget_spent: bool,
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
    Failed(String),
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
            is_retryable: false,
            retry_after: None,
            cancelled: true,
            budget_spent: false,
        }
    }
}

/// A question with the state of its attempts.
struct Query<'q> {
    scout: &'q dyn Scout,
    check: &'q dyn ReportCheck,
    events: &'q Events,
    question: Question,
    attempts: u32,
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
/// reason.
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
) -> Result<String, QueryEnd> {
    let mut query = Query { scout, check, events, question: question.clone(), attempts: 0 };
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
        QueryEnd::Failed(format!("{name} gave no report after {times}: {}", failure.message))
    })
}

impl Query<'_> {
    async fn attempt(
        &mut self,
        attempt: u32,
        cancel: &CancellationToken,
    ) -> Result<String, QueryFailure> {
        self.attempts = attempt;
        let (name, sha256) = (self.scout.name().to_owned(), self.scout.sha256().to_owned());
        self.events.emit(EventKind::ScoutStarted { scout: name.clone(), sha256, attempt });
        let started = Instant::now();
        let answer = self.scout.ask(&self.question, attempt, cancel).await;
        let (outcome, result) = match answer {
            Err(failure) if failure.cancelled => ("cancelled", Err(failure)),
            Err(failure) => ("failed", Err(failure)),
            Ok(raw) => match checked(self.check, &name, &raw, cancel).await {
                Some(Ok(summary)) => ("ok", Ok((raw, summary))),
                Some(Err(wrong)) => ("rejected", Err(self.reject(wrong))),
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

    /// Puts the reason of a rejection into the next attempt's question.
    fn reject(&mut self, wrong: String) -> QueryFailure {
        let message = format!("the report was rejected: {wrong}");
        self.question.context.retain(|(name, _)| name != "rejection");
        self.question.context.push(("rejection".to_owned(), wrong));
        QueryFailure {
            message,
            is_retryable: true,
            retry_after: None,
            cancelled: false,
            budget_spent: false,
        }
    }
}
