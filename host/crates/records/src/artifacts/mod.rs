//! ARTIFACT_DIR, the directory that holds the evidence of runs. Only this module reads and writes it.
//!
//! A step may write hostile files, so everything below the directory is reached from an open handle without following links,
//! and the host creates its own files new.
//!
//! The entry points are [`ArtifactDir::open`], [`ArtifactDir::create_run`] with its [`RunDir`], [`ArtifactDir::cache_of`] with
//! the downloads of one repository, [`ArtifactDir::base`] with what `prepare` left of a commit, [`ArtifactDir::create_journal`] with the events of a task, and [`ArtifactDir::prune`],
//! which removes old runs.

mod archive;
mod artifact_dir;
mod bases;
mod cache;
mod journal;
mod originals;
mod proofs;
mod reserve;
mod retention;
mod run_dir;
mod task_dir;
mod tree;

pub use archive::{ARTIFACTS, Allowance, ArchiveEntry, ArchiveReader, LeftOut};
pub use artifact_dir::{ArtifactDir, ArtifactDirError};
pub use bases::{Base, BaseFile, BaseRecord, BaseSize, NewBase};
pub use cache::{Cache, CacheSize, cache_names, tidying_script};
pub use journal::{Journal, newest_journals};
pub use reserve::Reserve;
pub use retention::{KnownRuns, Pruned};
pub use run_dir::{
    COMBINED, EvidencePlace, LogError, LogText, MAX_PROOF_LOG, OverlayDirs, RecordedManifest,
    RunDir, STEP_PARTS, log_name, manifest_digest, steps_digest,
};
pub use task_dir::TaskDir;
pub use tree::{Descent, Swept, make_directory, remove_tree, sweep};
