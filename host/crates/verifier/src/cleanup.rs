//! After a run: what it left in its own directory is made harmless, and what held it elsewhere is fetched and
//! removed.

use std::sync::Arc;

use rustix::process::{getegid, geteuid};
use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use super::conclusion::Facts;
use super::docker_verifier::DockerVerifier;
use super::elsewhere::Depot;
use super::reclaim::reclaim;
use super::view::View;
use act_config::User;
use act_core::verification::{InfraError, Warning, WarningCode};
use act_records::artifacts::{ARTIFACTS, Cache, RunDir, STEP_PARTS, Swept};

impl DockerVerifier {
    /// Fetches the artifacts of a run whose container is gone if `wanted`, and removes what held them.
    pub(super) async fn empty(
        &self,
        depot: Depot,
        run: &Arc<RunDir>,
        wanted: bool,
        cancel: &CancellationToken,
    ) -> Vec<Warning> {
        let mut warnings = vec![];
        let mut warn = |code: WarningCode, message: String| {
            warnings.push(Warning { code, step: None, message });
        };
        if wanted {
            let fetched = tokio::select! {
                biased;
                () = cancel.cancelled() => Ok(None),
                fetched = fetch(&depot, run) => fetched,
            };
            match fetched {
                Ok(incomplete) => {
                    if let Some(message) = incomplete {
                        warn(WarningCode::ArtifactsIncomplete, message);
                    }
                }
                Err(error) => warn(WarningCode::ArtifactsIncomplete, error.message),
            }
        }
        if let Err(error) = depot.remove().await {
            let message =
                format!("{}; the next start of act removes it", InfraError::from(error).message);
            warn(WarningCode::ContainerLeft, message);
        }
        warnings
    }

    /// Where the caller is not root, root's files in the run's directory become the caller's.
    pub(super) async fn reclaim(&self, run: &RunDir, facts: &Facts) -> Result<(), InfraError> {
        let ids = (geteuid().as_raw(), getegid().as_raw());
        let by_root = self.gate.pipeline.user == User::Root || facts.view == Some(View::Overlay);
        if ids.0 == 0 || !by_root || self.engine.is_rootless() || facts.elsewhere {
            return Ok(());
        }
        let cache = facts.cache.as_ref().map(Cache::path);
        reclaim(&self.engine, &self.image, &self.audit, run.path(), cache, ids).await
    }

    /// Not while something may still write there; then retention removes what is left.
    pub(super) async fn clean(&self, run: &Arc<RunDir>, facts: &mut Facts) {
        if facts.container_left {
            return;
        }
        if let Err(error) = self.reclaim(run, facts).await {
            facts.warnings.push(Warning {
                code: WarningCode::CleanupFailed,
                step: None,
                message: format!("root's files in the run's directory stay root's: {error}"),
            });
        }
        let (run, cache) = (run.clone(), facts.cache.take());
        let cleaned = blocking(move || {
            let mut swept = Swept::default();
            if let Some(cache) = cache {
                swept += cache.tidy()?;
            }
            run.remove_scratch()?;
            swept += run.sweep()?;
            Ok(swept)
        });
        let mut warn = |code: WarningCode, message: String| {
            facts.warnings.push(Warning { code, step: None, message });
        };
        match cleaned.await {
            Ok(swept) if swept == Swept::default() => {}
            Ok(Swept { privileged, foreign, too_deep }) => warn(
                WarningCode::ArtifactsChanged,
                format!(
                    "made harmless in the run's directory: {privileged} setuid or setgid files, \
                     {foreign} files of another owner and {too_deep} too deep directories removed"
                ),
            ),
            Err(error) => warn(
                WarningCode::CleanupFailed,
                format!("failed to clean the run's directory: {error}"),
            ),
        }
    }
}

/// What the steps wrote, into the run's directory; the answer says what is missing there.
async fn fetch(depot: &Depot, run: &Arc<RunDir>) -> Result<Option<String>, InfraError> {
    let mut allowance = ARTIFACTS;
    let (mut entries, mut cut) = (0, false);
    for part in STEP_PARTS {
        let run = run.clone();
        let received = depot.read_part(part, move |archive| {
            let left_out = run.receive(part, archive, &mut allowance)?;
            Ok((left_out, allowance))
        });
        let (left_out, left) = received.await?;
        allowance = left;
        entries += left_out.entries;
        cut |= left_out.cut;
    }
    Ok((entries > 0 || cut).then(|| {
        let more = if cut { ", and all beyond 4 GiB or 200,000 names" } else { "" };
        format!(
            "of what the steps wrote, {entries} names of no file, directory or link are not here{more}"
        )
    }))
}
