//! Trees that a task never had: the working tree in which some files are as they were at the start. The host writes each into
//! a directory of ARTIFACT_DIR, and the ordinary Verifier judges it.
//!
//! The directory holds the files that every run sees, read by handle from the repository, and originals that the writer stored
//! before its first change of each file. It is removed right after its run.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use act_config::Workspace;
use act_core::event::Events;
use act_core::evidence::{FileAtStart, VariantVerifier};
use act_core::verification::{Verification, Verifier};
use act_records::artifacts::TaskDir;
use act_verifier::{
    DockerVerifier, Replacement, StepTimes, Variant, VerificationConfig, write_tree,
};
use act_workspace::{CopySet, OpenRoot, Originals, PathGlobs};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

/// Verifies such trees for one task.
pub(super) struct TaskTrees {
    /// The verifier of the task's attempts.
    pub(super) verifier: DockerVerifier,
    pub(super) originals: Arc<Originals>,
    /// The directory of the task in ARTIFACT_DIR.
    pub(super) dir: Arc<TaskDir>,
}

impl TaskTrees {
    /// Writes the tree, and returns its directory.
    fn write(
        &self,
        purpose: &str,
        files: &[FileAtStart],
        cancel: &CancellationToken,
    ) -> Result<PathBuf, String> {
        let root = self.verifier.repo.path();
        let include = PathGlobs::new(&self.verifier.config.pipeline.include)
            .map_err(|error| error.to_string())?;
        self.verifier.repo.check_not_moved().map_err(|moved| moved.to_string())?;
        let mut set = CopySet::of(root, &include).map_err(|error| error.to_string())?;
        set.entries.retain(|entry| files.iter().all(|file| entry.path != *file.path));
        let original = |file: &FileAtStart| {
            let sha256 = file.sha256.as_deref()?;
            let stored = self.originals.open(&file.path, sha256);
            let stored = stored.ok_or_else(|| {
                format!(
                    "the original of {} is not stored: it is too large, or the disk is full",
                    file.path
                )
            });
            Some(stored.map(|(content, executable)| Replacement {
                path: file.path.clone().into(),
                executable,
                content,
            }))
        };
        let replacements = files.iter().filter_map(original).collect::<Result<Vec<_>, _>>()?;
        let failed = |error: io::Error| format!("the tree cannot be written: {error}");
        let (handle, path) = self.dir.create(purpose).map_err(failed)?;
        write_tree(&set, replacements, handle.into(), cancel).map_err(failed)?;
        Ok(path)
    }

    async fn verify(
        self: Arc<Self>,
        purpose: &'static str,
        files: Vec<FileAtStart>,
        cancel: &CancellationToken,
    ) -> Option<Result<Verification, String>> {
        let (this, stop) = (Arc::clone(&self), cancel.clone());
        let written = tokio::task::spawn_blocking(move || this.write(purpose, &files, &stop)).await;
        if cancel.is_cancelled() {
            return None;
        }
        let path = match written.unwrap_or_else(|stopped| Err(stopped.to_string())) {
            Ok(path) => path,
            Err(why) => return Some(Err(why)),
        };
        let repo = match OpenRoot::open(&path) {
            Ok(repo) => repo,
            Err(error) => return Some(Err(format!("the tree cannot be opened: {error}"))),
        };
        let mut config = VerificationConfig::clone(&self.verifier.config);
        // In the other views the steps would see the repository, where the files are as they are now.
        config.pipeline.workspace = Workspace::Copy;
        let verifier = DockerVerifier {
            variant: Some(Variant { of: self.verifier.repo.clone(), purpose }),
            repo,
            config: Arc::new(config),
            // Its steps are no attempt, so neither the progress nor the list of runs shows them.
            events: Events::silent(),
            tests_weakened: Arc::default(),
            step_times: StepTimes::default(),
            ..self.verifier.clone()
        };
        let verification = verifier.run(0, cancel).await;
        let dir = Arc::clone(&self.dir);
        // A directory that stays is removed with that of the task.
        let _ = tokio::task::spawn_blocking(move || dir.remove(purpose)).await;
        verification.map(Ok)
    }
}

/// A [`TaskTrees`] behind the trait that the agent knows.
pub(super) struct Trees(pub(super) Arc<TaskTrees>);

impl VariantVerifier for Trees {
    fn run<'a>(
        &'a self,
        purpose: &'static str,
        files: &'a [FileAtStart],
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<Result<Verification, String>>> {
        Box::pin(Arc::clone(&self.0).verify(purpose, files.to_vec(), cancel))
    }
}
