//! ARTIFACT_DIR: where runs leave their evidence, and the only code that writes or reads there.
//!
//! What a step may write is hostile, so everything below the directory is reached from an open handle,
//! without following links, and host files are created new.

mod archive;
mod cache;
mod descent;
mod download;
mod image_memory;
mod journal;
mod journals;
mod layout;
mod log;
mod manifest;
mod proposals;
mod prune;
mod remove;
mod retention;
mod run_dir;
mod spread;
mod sweep;
mod tidying;
mod unpack;

pub use archive::{ArchiveEntry, ArchiveReader};
pub use cache::{Cache, CacheSize, cache_names};
pub use descent::{Descent, make_directory};
pub use journal::Journal;
pub use journals::newest_journals;
pub use layout::{ArtifactDir, ArtifactDirError};
pub use log::{LogError, LogText};
pub use manifest::{RecordedManifest, manifest_digest, steps_digest};
pub use prune::Pruned;
pub use remove::remove_tree;
pub use run_dir::{OverlayDirs, RunDir, STEP_PARTS, log_name};
pub use sweep::{Swept, sweep};
pub use tidying::tidying_script;
pub use unpack::{ARTIFACTS, Allowance, LeftOut};
