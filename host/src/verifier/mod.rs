//! The gate: whole pipelines in a fresh container over a read-only repository.

mod response;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use response::{ErrorType, FailReason, Status, VerifyResponse, Warning};

/// One run of the whole pipeline.
pub trait Verifier: Send + Sync {
    /// Never fails as a call: trouble of the machine is a response with `INFRA_ERROR`. None when cancelled;
    /// then, too, no container is left.
    fn run<'a>(
        &'a self,
        attempt: u32,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<VerifyResponse>>;
}
