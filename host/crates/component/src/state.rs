//! What one store holds while it answers one query: the grant as it is in force, what the host lends for it,
//! and what is left of both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::WasiHttpCtx;

use super::audited::Audited;
use super::closed_wasi::{self, Output};
use super::denials::Denials;
use super::failure::{Ended, one_line};
use super::files::Scratch;
use super::grant::{Grant, RepoRead};
use super::http_left::HttpLeft;
use super::imports::ModelRequest;
use super::limits::StoreLimits;
use super::outbound::Outbound;
use super::usage::Usage;
use super::voice::Voice;
use act_core::event::EventKind;
use act_model::{Model, ModelError};
use act_symbols::Index;
use act_workspace::{RepoView, RepoWriter, Versions};

const MAX_LOG_LINE: usize = 1000;

pub(super) struct State {
    pub(super) table: ResourceTable,
    pub(super) wasi: WasiCtx,
    pub(super) http: WasiHttpCtx,
    pub(super) limits: StoreLimits,
    /// What is drawn from where chance is asked for by name.
    pub(super) random: StdRng,
    pub(super) query: Query,
    pub(super) stderr: Output,
    pub(super) stdout: Output,
}

impl State {
    pub(super) fn new(query: Query) -> Self {
        let limits = &query.grant.limits;
        let (wasi, stdout, stderr) = closed_wasi::context(&query.grant, &query.usage);
        let random = closed_wasi::random(query.grant.random);
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles as usize);
        Self {
            table,
            wasi,
            limits: StoreLimits::new(limits, query.usage.clone()),
            random,
            query,
            stderr,
            stdout,
            http: WasiHttpCtx::new(),
        }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// One query. What is none here is not granted, whatever the component imports.
pub(super) struct Query {
    pub(super) name: String,
    pub(super) grant: Grant,
    pub(super) read: Option<Reading>,
    pub(super) writer: Option<Arc<RepoWriter>>,
    /// What a foreign component has written, until its call is over.
    pub(super) scratch: Option<Scratch>,
    /// Outlines of earlier queries.
    pub(super) outlines: Option<Arc<Index>>,
    pub(super) talk: Option<Talk>,
    pub(super) denials: Denials,
    /// Where what it does is recorded; none where nothing is.
    pub(super) audited: Option<Arc<Audited>>,
    pub(super) usage: Usage,
    pub(super) outbound: Outbound,
    pub(super) http_left: Arc<HttpLeft>,
    /// The caller's, on which requests are sent.
    pub(super) runtime: Handle,
    pub(super) clock: Clock,
    /// Set when the query is over for its caller.
    pub(super) stop: CancellationToken,
    pub(super) voice: Voice,
    /// Bytes of names that its open listings may still hold together.
    pub(super) names_left: u64,
    /// Bytes that it may still say to people and journal.
    pub(super) log_left: u64,
    /// Edits that the component reported as refused by itself.
    pub(super) reported_refusals: usize,
}

/// Reading the repository.
pub(super) struct Reading {
    pub(super) view: RepoView,
    /// Counted together with the writer's, so that an edit can expect what was read.
    pub(super) versions: Option<Versions>,
    pub(super) caps: RepoRead,
    pub(super) left: Arc<ReadLeft>,
}

/// Bytes that the query may still read, shared with the streams that it opened.
pub(super) struct ReadLeft(AtomicU64, Usage);

impl ReadLeft {
    pub(super) fn new(bytes: u64, usage: &Usage) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(bytes), usage.clone()))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether so many are still there; then they are used up.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let rest = |left: u64| left.checked_sub(bytes);
        let there = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok();
        if there {
            self.1.read(bytes);
        }
        there
    }

    pub(super) fn spend(&self, bytes: u64) {
        self.1.read(bytes);
        // Saturating: what is read side by side may come out longer than what was left.
        let spent = |left: u64| Some(left.saturating_sub(bytes));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent);
    }
}

/// Talking to the model; the request itself is made on the caller's side.
pub(super) struct Talk {
    pub(super) model: Arc<dyn Model>,
    pub(super) role: String,
    pub(super) attempt: u32,
    pub(super) requests: mpsc::Sender<ModelRequest>,
    pub(super) calls_left: u32,
    pub(super) tokens_left: u64,
    /// Bytes that may still be put into conversations: they stay in the host's memory until the end.
    pub(super) text_left: u64,
    /// Of the last request, if it failed.
    pub(super) failed: Option<ModelError>,
}

/// How long the query may take and has taken.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    pub(super) started: Instant,
    pub(super) wall: Duration,
}

impl Clock {
    pub(super) fn left(&self) -> Duration {
        self.wall.saturating_sub(self.started.elapsed())
    }
}

impl Query {
    /// Ends the guest when the query is over for its caller.
    pub(super) fn go_on(&self) -> Result<(), Ended> {
        if self.stop.is_cancelled() { Err(Ended::Stopped) } else { Ok(()) }
    }

    /// A line of at most `most` bytes out of what a component says; none when it has said enough.
    pub(super) fn line(&mut self, message: &str, most: usize) -> Option<String> {
        let line = one_line(message, most);
        // A line costs something even when it is empty, so that their number is bounded too.
        let cost = line.len() as u64 + 16;
        let Some(left) = self.log_left.checked_sub(cost) else {
            self.denials.deny("limits.log", "progress and log");
            return None;
        };
        self.log_left = left;
        Some(line)
    }

    pub(super) fn log(&mut self, level: &str, message: &str) {
        if let Some(message) = self.line(message, MAX_LOG_LINE) {
            let (name, level) = (self.name.clone(), level.to_owned());
            self.voice.tell(EventKind::ComponentLog { name, level, message });
        }
    }
}
