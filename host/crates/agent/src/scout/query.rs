//! One query: up to three attempts, each checked; what was wrong with a report is told to the next attempt.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{QueryFailure, Question, Scout};
use act_core::event::{EventKind, Events};
use act_model::{Retryable, Timer, with_attempts};

/// Whether a report is believed.
pub trait ReportCheck: Send + Sync {
    /// One line about the report, or what is wrong with it: schema, paths or lines that do not exist.
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

/// A question on its way: what the next attempt will be asked.
struct Query<'q> {
    scout: &'q dyn Scout,
    check: &'q dyn ReportCheck,
    events: &'q Events,
    question: Question,
    attempts: u32,
}

/// None when the task was cancelled meanwhile.
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

/// Asks until a report holds; the third failure, or one that cannot heal, ends it.
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

    /// The report does not hold: the next attempt hears why.
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
