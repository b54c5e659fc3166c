//! One query: up to three attempts, each checked; what was wrong with a report is told to the next attempt.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{QueryFailure, Question, Scout};
use crate::event::{EventKind, Events};
use crate::model::{Heal, Pause, with_attempts};

/// Whether a report is believed.
pub trait ReportCheck: Send + Sync {
    /// One line about the report, or what is wrong with it: schema, paths or lines that do not exist.
    fn check(&self, scout: &str, raw: &str) -> Result<String, String>;
}

/// Why a query gave no report after all attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryEnd {
    Cancelled,
    Failed(String),
}

impl Heal for QueryFailure {
    fn can_heal(&self) -> bool {
        self.can_heal
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    fn cancelled() -> Self {
        Self { message: "cancelled".into(), can_heal: false, retry_after: None, cancelled: true }
    }
}

/// Asks until a report holds; the third failure, or one that cannot heal, ends it.
pub async fn ask(
    scout: &dyn Scout,
    question: &Question,
    check: &dyn ReportCheck,
    events: &Events,
    pause: &dyn Pause,
    cancel: &CancellationToken,
) -> Result<String, QueryEnd> {
    let mut question = question.clone();
    let mut made = 0;
    let answer = with_attempts(pause, cancel, async |attempt| {
        made = attempt;
        let checked = once(scout, &question, check, events, attempt, cancel).await;
        checked.map_err(|wrong| match wrong {
            Wrong::Failed(failure) => failure,
            Wrong::Rejected(wrong) => {
                question.context.retain(|(name, _)| name != "rejection");
                question.context.push(("rejection".to_owned(), wrong.clone()));
                let message = format!("the report was rejected: {wrong}");
                QueryFailure { message, can_heal: true, retry_after: None, cancelled: false }
            }
        })
    });
    answer.await.map_err(|failure| {
        if failure.cancelled || cancel.is_cancelled() {
            return QueryEnd::Cancelled;
        }
        let times = if made == 1 { "1 attempt".to_owned() } else { format!("{made} attempts") };
        QueryEnd::Failed(format!("{} gave no report after {times}: {}", scout.name(), failure.message))
    })
}

enum Wrong {
    Failed(QueryFailure),
    /// The Scout answered, but the report does not hold.
    Rejected(String),
}

async fn once(
    scout: &dyn Scout,
    question: &Question,
    check: &dyn ReportCheck,
    events: &Events,
    attempt: u32,
    cancel: &CancellationToken,
) -> Result<String, Wrong> {
    let (name, sha256) = (scout.name().to_owned(), scout.sha256().to_owned());
    events.emit(EventKind::ScoutStarted { scout: name.clone(), sha256, attempt });
    let started = Instant::now();
    let checked = match scout.ask(question, cancel).await {
        Err(failure) => Err(Wrong::Failed(failure)),
        Ok(raw) => match check.check(&name, &raw) {
            Ok(summary) => Ok((raw, summary)),
            Err(wrong) => Err(Wrong::Rejected(wrong)),
        },
    };
    let (outcome, summary, error) = match &checked {
        Ok((_, summary)) => ("ok", summary.clone(), None),
        Err(Wrong::Failed(failure)) => ("failed", String::new(), Some(failure.message.clone())),
        Err(Wrong::Rejected(wrong)) => ("rejected", String::new(), Some(wrong.clone())),
    };
    events.emit(EventKind::ScoutFinished {
        scout: name,
        outcome: outcome.to_owned(),
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        summary,
        error,
    });
    checked.map(|(raw, _)| raw)
}
