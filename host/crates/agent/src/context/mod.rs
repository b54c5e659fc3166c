//! The Editor's memory for people: `agent/context_NNN.md`, `summary.md` and `stuck_report.md`.
//!
//! What a file says is rendered by pure functions; how it reaches the disk is `AgentFiles`, because the
//! repository may have prepared links and directories under these names. Nothing here is read back as
//! truth: the files are for people and for the next task's model, the host's records are elsewhere.

mod agent_files;
mod failure_matrix;
mod markdown;
mod notebook;
mod snapshot;
mod stuck_report;
mod summary;
mod verified_run;

pub use agent_files::AgentFiles;
pub use failure_matrix::{Replan, Strategy};
pub use notebook::{ContextError, NotesWriter, STUCK_REPORT, Written, WrittenReport};
pub use snapshot::{EditorState, ScoutPayload, Snapshot, SnapshotKind};
pub use stuck_report::{Hypothesis, StuckReport};
pub use summary::Summary;
pub use verified_run::VerifiedRun;
