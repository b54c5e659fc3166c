//! The life of a task: checked, accepted into the queue of its repository, run when it is first, stored and reported. The
//! crate also holds the queries of commands about tasks, verifications and components.
//!
//! This crate promises that a task is stored before it is reported to anyone and that its end is stored before it is
//! emitted, that a refusal leaves nothing behind, and that every task ends with exactly one `task_finished`. It prints
//! nothing: the caller passes the sinks of the events, and messages for people are events too
//! ([`act_core::event::Notice`]). The command line and the server for editors call this crate.
//!
//! - [`run()`] runs a task from its text to its exit code; [`detach()`] does so in a process of its own.
//! - [`apply()`] and [`again()`] make the arguments of a task that continues an earlier one.
//! - [`run_for()`] and [`verify_for()`] do the same for a client in the same process, which cancels and can be asked;
//!   [`sessions()`] and [`session()`] read its earlier tasks.
//! - [`verify()`] runs the pipeline without a task, or answers with the run of the unchanged tree; [`verify_claim()`] repeats a
//!   verification.
//! - [`hook()`] answers another agent that is about to stop.
//! - [`needs_person()`] decides whether a task needs a person, for everything that tells the person so.
//! - [`scout()`] asks one Scout one question.
//! - [`worktrees()`] and [`remove_worktrees()`] look after the worktrees in which tasks of a repository work.
//! - [`status()`], [`queue()`], [`history()`], [`cancel()`] look at the tasks of a repository; [`diff()`] shows what one
//!   changed. [`repository()`] describes a repository for their documents.
//! - [`list_engines()`] and [`check_engine()`] ask the container engines of the user.
//! - [`Observer`] holds the ARTIFACT_DIR open for a program that looks at all tasks for hours.
//! - [`audit_verify()`] and the other `audit_*` functions read the audit log; [`capabilities`] decides about components.
//!
//! To follow a task, read `run.rs` from top to bottom. `prepare.rs` has the checks before the start, `queue.rs` the
//! waiting, and `finish.rs` the end.
//!
//! ```
//! use act_task::{Mode, TaskId};
//!
//! assert!(TaskId::is_one("t-abc123"));
//! assert_ne!(Mode::DryRun, Mode::Run { baseline: false });
//! ```

mod attention;
mod audit;
mod caches;
mod cancel;
pub mod capabilities;
mod components;
mod detach;
mod diff;
mod engines;
mod failures;
mod finish;
mod follow;
mod hook;
mod logs;
mod metrics;
mod notify;
mod observer;
mod prepare;
mod proposal;
mod queue;
mod repository;
mod retention;
mod reuse;
mod run;
mod scouting;
mod sessions;
mod sinks;
mod status;
mod stuck_report;
mod trees;
mod verify;
mod worktree;

pub use attention::{
    Attention, OpenQuestions, Situation, awaiting_approval, need_of, needs_person,
};
pub use audit::anchor::{Anchored, audit_anchor};
pub use audit::attestation::{
    Resource, Statement, TestOutcome, TestResult, audit_export, audit_export_signed,
};
pub use audit::explain::{
    ComponentInRun, Explanation, GateInputOfRun, ManifestCheck, audit_explain,
};
pub use audit::grants::{ComponentAt, GrantsAt, GrantsFile, audit_grants};
pub use audit::signature::{Envelope, Signature};
pub use audit::verify::{AuditRestarted, audit_accept, audit_restart, audit_verify};
pub use audit::{AuditFilter, AuditList, audit_list, audit_show};
pub use caches::{CacheList, Cleared, OnEngine, clear_caches, list_caches};
pub use cancel::{CancelTarget, Cancellation, cancel, cancel_was_requested};
pub use components::ComponentScout;
pub use detach::{Detached, TakeOver, detach, take_over};
pub use diff::{TaskDiff, diff};
pub use engines::{
    EngineAnswer, EngineList, EngineState, check_engine, every_engine, list_engines,
};
pub use failures::{FailureList, PlacedFailure, failures};
pub use follow::{FollowedStep, FollowedTask, Follower};
pub use hook::{HookAgent, HookAnswer, HookArgs, HookState, MAX_EVENT, hook, hooks_are_off};
pub use logs::{LogDocument, RunLog, log, run_here};
pub use metrics::{Metrics, Spread, metrics};
pub use notify::{Notification, NotificationEvent};
pub use observer::{Need, Needs, Observer, RunSeen, TaskSeen};
pub use prepare::{
    InForce, Incomplete, ca_bundle, connect_model, granted, in_force, notices, price_unknown,
};
pub use proposal::{ApplyArgs, Proposed, proposed, run_args as apply};
pub use queue::TaskId;
pub use repository::repository;
pub use run::{Client, Mode, Place, RunArgs, again, cancelled_by_signals, run, run_for};
pub use scouting::{
    Comparison, ScoutAnswer, ScoutArgs, ScoutFacts, Side, Took, WhichScout, compare, facts, scout,
};
pub use sessions::{PastSession, PastTask, SessionId, session, sessions};
pub use sinks::JsonLines;
pub use status::{History, Queue, Status, history, queue, status};
pub use stuck_report::{Origin, Report, Resolved, StuckReportNote, report, resolve_report};
pub use verify::{
    ClaimCheck, ClaimSide, Difference, Note, SignedBy, Wanted, verify, verify_claim, verify_for,
};
pub use worktree::{
    Changes, WhichWorktrees, WorktreeKept, WorktreeSeen, Worktrees, WorktreesRemoved,
    remove_worktrees, worktrees,
};
