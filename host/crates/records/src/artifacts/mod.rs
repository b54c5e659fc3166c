//! ARTIFACT_DIR, where runs leave their evidence. Only this module writes or reads there.
//!
//! Everything that a step can write is hostile, so everything below the directory is reached from an open handle without
//! following links, and files of the host are created new.

mod archive;
mod artifact_dir;
mod cache;
mod journal;
mod log;
mod manifest;
mod retention;
mod run_dir;
mod tree;

pub use archive::{ARTIFACTS, Allowance, ArchiveEntry, ArchiveReader, LeftOut};
pub use artifact_dir::{ArtifactDir, ArtifactDirError};
pub use cache::{Cache, CacheSize, cache_names, tidying_script};
pub use journal::{Journal, newest_journals};
pub use log::{LogError, LogText};
pub use manifest::{RecordedManifest, manifest_digest, steps_digest};
pub use retention::Pruned;
pub use run_dir::{OverlayDirs, RunDir, STEP_PARTS, log_name};
pub use tree::{Descent, Swept, make_directory, remove_tree, sweep};
