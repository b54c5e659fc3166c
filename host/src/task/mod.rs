//! The life of a task: what was asked, under which id, and how it is run.

mod again;
mod apply;
mod args;
mod assemble;
mod audit;
mod caches;
mod cancel;
pub mod capabilities;
mod claim;
mod comparison;
pub(crate) mod component_loader;
pub mod component_scout;
mod component_tools;
mod detach;
mod earlier_report;
mod facts;
mod history;
mod id;
mod journal;
mod logs;
mod lookup;
mod metrics;
mod policy;
mod preflight;
mod queue;
mod recorder;
mod report;
mod retention;
mod run;
mod scouting;
mod secret_scan;
mod signals;
mod status;
mod verify;

pub use again::again;
pub use apply::{ApplyArgs, run_args as apply};
pub use apply::{Proposed, proposed};
pub use args::{Mode, RunArgs};
pub use audit::{
    AuditFilter, AuditList, AuditRestarted, ComponentAt, ComponentInRun, Explanation,
    GateInputOfRun, GrantsAt, GrantsFile, ManifestCheck, Outcome, Resource, Statement, TestResult,
    audit_accept, audit_explain, audit_export, audit_grants, audit_list, audit_restart, audit_show,
    audit_verify,
};
pub use caches::{CacheList, Cleared, OnEngine, clear_caches, list_caches};
pub use cancel::{Cancellation, Which, cancel};
pub use claim::{ClaimCheck, Difference, Note, Said, verify_claim};
pub use comparison::{Comparison, Side, Took, compare};
pub use detach::{Detached, TakeOver, detach, take_over};
pub use facts::{ScoutFacts, facts};
pub use history::{History, history};
pub use id::TaskId;
pub use journal::JsonLines;
pub use logs::{LogDocument, RunLog, log};
pub use metrics::{Metrics, Spread, metrics};
pub use preflight::{ca_bundle, granted};
pub use report::{Report, Resolved, report, resolve_report};
pub use run::run;
pub use scouting::{ScoutAnswer, ScoutArgs, WhichScout, scout};
pub use signals::cancelled_by_signals;
pub use status::{Origin, Queue, Repo, Status, StuckReportNote, queue, status};
pub use verify::verify;
