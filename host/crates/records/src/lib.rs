//! The records that outlive a process: the store of tasks and runs, and the artifacts of verifications.
//!
//! The crate promises that a change survives a loss of power once `act` has reported it, that a damaged or foreign store is
//! refused and left as it is, and that files which a step made are read and removed without following links. The program and
//! the Verifier call it; below it are only the audit log and the file system.
//!
//! - [`store::Store`] is the database: tasks, runs, stuck reports, proposals, and the audit log's head.
//! - [`artifacts::ArtifactDir`] is ARTIFACT_DIR: run directories, caches of downloads, journals, proposals and retention.
//!
//! ```
//! use act_records::artifacts::ArtifactDir;
//! use act_records::store::Store;
//! # let temporary = tempfile::tempdir().unwrap();
//! # let (path, repo) = (temporary.path().join("artifacts"), temporary.path().join("repo"));
//! # std::fs::create_dir(&repo).unwrap();
//! let artifacts = ArtifactDir::open(&path, &repo).unwrap();
//! let store = Store::open(&artifacts.state().unwrap(), &path.join("state")).unwrap();
//! assert!(store.history(None, 10).unwrap().is_empty());
//! ```

pub mod artifacts;
pub mod store;
