//! Asking a Scout and believing the answer.

mod check;
pub mod difference;
pub mod grounding;
mod own_report;
pub mod query;
#[cfg(test)]
mod shapes;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use act_reports::version::{SCHEMA_VERSION, SchemaError};
/// The shapes that the host and the components share.
pub use act_reports::{facts_a, facts_b, report_a, report_b};
pub use check::{Grounded, check_facts};
pub use own_report::{OwnReport, report_schema};

/// What the Editor wants to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    pub text: String,
    /// What the host adds: `tail_log`, `failing_step`, `rejection`, `package`, in this order where present.
    pub context: Vec<(String, String)>,
}

/// One way to get an answer; one call is one attempt.
pub trait Scout: Send + Sync {
    /// `scout-a`, `scout-b` or the name it was approved under.
    fn name(&self) -> &str;
    /// Digest of the bytes that answer.
    fn sha256(&self) -> &str;
    /// What it is good for, where the Editor has to be told.
    fn about(&self) -> Option<&str> {
        None
    }
    /// The report as JSON text, not yet checked. `attempt` counts from 1 and is told in events only.
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
    /// Whether another attempt may succeed.
    pub is_retryable: bool,
    pub retry_after: Option<std::time::Duration>,
    pub cancelled: bool,
    /// The task's tokens are spent; nobody can be asked any more.
    pub budget_spent: bool,
}
