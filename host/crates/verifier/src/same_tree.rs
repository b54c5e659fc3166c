//! Was it one tree, in one directory, from the start of a run to its end?

use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use super::conclusion::Facts;
use super::docker_verifier::DockerVerifier;
use super::pipeline::settle;
use act_core::verification::{ErrorType, FailReason, InfraError, Verdict};
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

/// A run of a directory that was replaced says nothing about the repository.
pub(super) fn root_moved(moved: RootMoved) -> InfraError {
    let message =
        format!("{moved}, so nothing is proved about the repository; {}", RootMoved::HINT);
    InfraError::new(ErrorType::Unknown, message)
}

/// What the tree after the run makes of the verdict.
pub(super) fn compare(
    verdict: Verdict,
    after: io::Result<Result<String, CopyError>>,
    stays: Result<(), RootMoved>,
    facts: &mut Facts,
) -> Verdict {
    if let Err(moved) = stays {
        return Verdict::Infra(root_moved(moved));
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
