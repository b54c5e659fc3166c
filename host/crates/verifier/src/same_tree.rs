//! Was it one tree, in one directory, from the start of a run to its end?

use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use super::conclusion::Facts;
use super::docker_error::InfraError;
use super::docker_verifier::DockerVerifier;
use super::pipeline::{Verdict, settle};
use super::response::{ErrorType, FailReason};
use act_workspace::{CopyError, PathGlobs, RootMoved, tree_digest};

impl DockerVerifier {
    /// The tree's digest once more; None when cancelled.
    pub(super) async fn look_again(
        &self,
        include: Arc<PathGlobs>,
        cancel: &CancellationToken,
    ) -> Option<io::Result<Result<String, CopyError>>> {
        let repo = self.repo.path().to_owned();
        tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            after = blocking(move || Ok(tree_digest(&repo, &include))) => Some(after),
        }
    }
}

impl From<RootMoved> for InfraError {
    fn from(moved: RootMoved) -> Self {
        let message =
            format!("{moved}, so nothing is proved about the repository; {}", RootMoved::HINT);
        Self::new(ErrorType::Unknown, message)
    }
}

/// What the tree after the run makes of the verdict.
pub(super) fn compare(
    verdict: Verdict,
    after: Option<io::Result<Result<String, CopyError>>>,
    stays: Result<(), RootMoved>,
    facts: &mut Facts,
) -> Verdict {
    let Some(after) = after else { return Verdict::Cancelled };
    if let Err(moved) = stays {
        return Verdict::Infra(moved.into());
    }
    match (after, &facts.digest) {
        (Ok(Ok(after)), Some(before)) => {
            let verdict = settle(verdict, before, &after);
            facts.digest_after = Some(after);
            verdict
        }
        // It changes even now.
        (Ok(Err(CopyError::Changed { .. })), _) if verdict == Verdict::Pass => {
            Verdict::Fail(FailReason::TreeChanged)
        }
        (Ok(Err(error)), _) if verdict == Verdict::Pass => Verdict::Infra(InfraError::from_io(
            "read the repository after the run",
            &io::Error::other(error),
        )),
        (Err(error), _) if verdict == Verdict::Pass => {
            Verdict::Infra(InfraError::from_io("read the repository after the run", &error))
        }
        _ => verdict,
    }
}
