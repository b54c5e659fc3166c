//! The Editor role: it owns the plan and every decision of the loop, and is the only writer of the
//! repository. Decisions are pure (`debug_loop`, `phase`, `strategy`, `replan`); `session`, `turns`, `calls` and
//! `gate` perform them.

mod asking;
mod attempt;
mod audited;
mod baseline;
mod boundary;
mod calls;
mod closing;
mod component_hands;
mod debug_loop;
mod decisions;
mod draft;
mod ending;
mod first_steps;
mod gate;
mod hand_over;
mod hands;
mod hypotheses;
mod line_diff;
mod phase;
mod planning;
mod plans;
mod prompt;
mod refused_edit;
mod replan;
mod request;
mod reread;
mod review;
mod scope;
mod session;
mod settling;
mod strategy;
mod told;
mod tools;
mod turns;
mod verification;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use boundary::Boundary;
pub use component_hands::ComponentHands;
pub use draft::Draft;
use ending::Ending;
pub use hands::{Answer, Hands};
pub use request::{MAX_TEXT_BYTES, RequestError, TaskRequest};

use crate::context::{Notebook, StuckReport};
use crate::scout::{Scout, query::ReportCheck};
use act_audit::{Audit, Head};
use act_config::Step;
use act_core::event::Events;
use act_core::verification::Verifier;
use act_model::{Model, TokenLedger};
use act_workspace::AgentDir;

/// What a session is about: the user's words and where they hold.
#[derive(Debug, Clone)]
pub struct Brief {
    pub task_id: String,
    pub request: TaskRequest,
    /// Directory of the monorepo package the task is scoped to.
    pub package: Option<String>,
    /// Items of `Boundaries:` that no rule holds to.
    pub unheld: Vec<String>,
    /// Our own unresolved stuck report of an earlier task in this repository; nothing else of the past.
    pub stuck_report: Option<EarlierReport>,
}

/// What an earlier task left when it did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierReport {
    pub text: String,
    /// Its verifications, whose logs can still be read.
    pub run_ids: Vec<String>,
}

type TreeDigest = dyn Fn() -> std::io::Result<String> + Send + Sync;
type Moved = dyn Fn() -> Option<String> + Send + Sync;
type HasTests = dyn Fn() -> bool + Send + Sync;
type Look = dyn Fn(&str) -> Option<(String, String)> + Send + Sync;
type ReadLog = dyn Fn(&str, Option<&str>) -> std::io::Result<String> + Send + Sync;

/// Everything a session works with; each part is replaceable on its own.
pub struct Editor {
    pub brief: Brief,
    pub model: Arc<dyn Model>,
    /// What all roles have spent so far.
    pub ledger: TokenLedger,
    /// Scout A, Scout B, then any others.
    pub scouts: Vec<Arc<dyn Scout>>,
    pub check: Arc<dyn ReportCheck>,
    pub hands: Arc<dyn Hands>,
    pub verifier: Arc<dyn Verifier>,
    /// Digest of the tree as it stands, by the same rule as the manifest's.
    pub tree_digest: Arc<TreeDigest>,
    /// Why the repository's path does not mean the directory any more that is edited; none while it does.
    pub moved: Arc<Moved>,
    /// Whether the repository, or the package in work, has any tests.
    pub has_tests: Arc<HasTests>,
    /// The log of a run of this task, or of one step of it.
    pub read_log: Box<ReadLog>,
    /// Steps of the pipeline; a changed file that one of their commands names or reaches is told to the user.
    pub steps: Vec<Step>,
    /// Real path and text of a file of the repository as it stands.
    pub look: Box<Look>,
    /// Where what the task does is recorded; it does nothing that could not be.
    pub audit: Audit,
    /// None in a dry run, which leaves nothing in the repository.
    pub notes: Option<Notebook<AgentDir>>,
    pub aim: Aim,
    /// Whose files have just been put into the repository (`begin_with`).
    pub draft: Option<Draft>,
    /// Ask the pipeline before the first edit.
    pub baseline: bool,
    pub events: Events,
    pub cancel: CancellationToken,
}

/// What a task works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// A green run.
    Green,
    /// A dry run's: edits that somebody may apply. Nothing is verified.
    Proposal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Success,
    Proposed,
    Stuck,
    InfraError,
    Cancelled,
}

impl State {
    /// The word of the task's state everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Proposed => "PROPOSED",
            Self::Stuck => "STUCK",
            Self::InfraError => "INFRA_ERROR",
            Self::Cancelled => "CANCELLED",
        }
    }
}

/// How a task ended.
#[derive(Debug, Clone)]
pub struct Finished {
    pub state: State,
    /// The green run of a success, else the last one.
    pub run_id: Option<String>,
    /// A stable word for everything but success.
    pub reason: Option<String>,
    pub summary: Option<String>,
    pub report_path: Option<String>,
    /// Changed files that the verification depends on, as `path (why)`.
    pub gate_inputs_changed: Vec<String>,
    /// How many edits each rule refused, by its word.
    pub edits_refused: BTreeMap<String, u64>,
    /// Of a dry run.
    pub draft: Option<Draft>,
}

impl Finished {
    /// An end of which nothing more is known.
    pub fn of(state: State) -> Self {
        Self {
            state,
            run_id: None,
            reason: None,
            summary: None,
            report_path: None,
            gate_inputs_changed: vec![],
            edits_refused: BTreeMap::new(),
            draft: None,
        }
    }
}

impl Editor {
    /// Works until the task has ended, one way or another; never fails as a call.
    pub async fn work(&self) -> Finished {
        session::run(self).await
    }
}

/// A task that the machine ended before its first conversation; reports it all the same.
pub fn end_before_work(
    brief: &Brief,
    notes: Option<&Notebook<AgentDir>>,
    events: &Events,
    audit_head: Option<Head>,
    (code, diagnosis): (&str, &str),
) -> Finished {
    let ending = Ending::infra(code, diagnosis);
    let report = StuckReport { audit_head, ..StuckReport::default() };
    closing::write_report(brief, notes, events, &ending, report)
}
