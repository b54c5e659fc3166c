//! One call of a component: one store on one thread of its own.
//!
//! The caller's runtime holds the deadline and the cancellation and makes the requests to the model; the thread of the
//! store may block on files. When the time is over, the thread is stopped and not waited for: the component ends at
//! its next epoch check, a host function ends when it returns, and a thread that hangs in the kernel delays nobody.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::WasiHttpCtx;

use crate::audit::{self, CallSummary, ComponentAudit, Denials, Emitter};
use crate::bounds::Set;
use crate::capability::{Capability, Grant, Meters, ModelRequest, ModelSession, ReadAccess};
use crate::failure::{ComponentFailure, Ended, GuestFailure, Limit, classify, one_line};
use crate::files::Scratch;
use crate::limits::GrowthLimits;
use crate::meter::Meter;
use crate::outbound::Outbound;
use crate::wasi::{self, Output};
use crate::{HostContext, LoadedComponent};
use act_core::event::EventKind;
use act_model::ModelError;
use act_symbols::Index;
use act_workspace::{RepoWriter, Restriction};

/// Longest line of a component's log, in bytes.
const MAX_LOG_LINE: usize = 1000;
/// Bytes that a line of the log costs beside its text, so that empty lines have a bound too.
const LOG_LINE: u64 = 16;

/// What one store holds.
pub(crate) struct State {
    pub(crate) table: ResourceTable,
    pub(crate) wasi: WasiCtx,
    pub(crate) http: WasiHttpCtx,
    pub(crate) growth: GrowthLimits,
    /// The source of the interfaces for random numbers that a grant opens.
    pub(crate) random: StdRng,
    pub(crate) call: CallContext,
    stderr: Output,
    stdout: Output,
}

impl State {
    fn new(call: CallContext) -> Self {
        let limits = &call.grant.limits;
        let (wasi, stdout, stderr) = wasi::context(&call.grant, &call.meters);
        let random = call.grant.random.source();
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles as usize);
        let growth = GrowthLimits::new(limits, Arc::clone(&call.meters));
        Self { table, wasi, growth, random, call, stderr, stdout, http: WasiHttpCtx::new() }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// What one call works with. A field that is `None` was not granted, whatever the component imports.
pub(crate) struct CallContext {
    pub(crate) name: String,
    pub(crate) grant: Grant,
    pub(crate) read: Option<ReadAccess>,
    pub(crate) writer: Option<Arc<RepoWriter>>,
    /// What a plain component has written, until its call ends.
    pub(crate) scratch: Option<Scratch>,
    /// Outlines that earlier calls stored.
    pub(crate) outlines: Option<Arc<Index>>,
    pub(crate) model: Option<ModelSession>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) denials: Denials,
    /// Where the call is recorded, if it is.
    pub(crate) audit: Option<Arc<ComponentAudit>>,
    pub(crate) outbound: Outbound,
    /// The caller's runtime, which sends requests.
    pub(crate) runtime: Handle,
    pub(crate) deadline: Deadline,
    /// Cancelled when the call is over for its caller.
    pub(crate) stop: CancellationToken,
    emitter: Emitter,
}

/// How long a call may take and has taken.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    started: Instant,
    pub(crate) wall: Duration,
}

impl Deadline {
    pub(crate) fn left(&self) -> Duration {
        self.wall.saturating_sub(self.started.elapsed())
    }
}

impl CallContext {
    fn new(
        component: &LoadedComponent,
        host: HostContext,
        meters: Arc<Meters>,
        wall: Duration,
        requests: mpsc::Sender<ModelRequest>,
        stop: CancellationToken,
    ) -> Self {
        let HostContext { view, versions, writer, model, attempt, events } = host;
        let (name, grant) = (component.manifest.name.clone(), component.grant.clone());
        let (emitter, audit) = (Emitter::new(events), component.audit.clone());
        let read = grant.repo_read.clone().zip(view).map(|(caps, view)| {
            let (over, used) = (stop.clone(), Arc::clone(&meters));
            let view = view.restricted(Restriction {
                parts: match &caps.paths {
                    Set::Any => None,
                    Set::Only(parts) => Some(parts.iter().map(ToString::to_string).collect()),
                },
                stopped: Box::new(move || over.is_cancelled()),
                on_read: Box::new(move |path| used.repo_read.file(path)),
            });
            ReadAccess { view, versions, caps }
        });
        let session = |(model, role)| ModelSession { model, role, attempt, requests, failed: None };
        Self {
            read,
            writer: writer.filter(|_| grant.repo_write),
            scratch: component.has_scratch.then(Scratch::default),
            outlines: component.outlines.clone(),
            model: model.filter(|_| grant.llm.is_some()).map(session),
            denials: Denials::new(&name, emitter.clone(), audit.clone(), Arc::clone(&meters)),
            audit,
            meters,
            outbound: component.outbound.for_one_call(),
            runtime: Handle::current(),
            deadline: Deadline { started: Instant::now(), wall },
            stop,
            emitter,
            name,
            grant,
        }
    }

    /// Ends the component when the call is over for its caller.
    ///
    /// # Errors
    ///
    /// [`Ended::Stopped`] after a deadline, a cancellation, or when the caller dropped the call.
    pub(crate) fn go_on(&self) -> Result<(), Ended> {
        if self.stop.is_cancelled() { Err(Ended::Stopped) } else { Ok(()) }
    }

    pub(crate) fn emit(&self, kind: EventKind) {
        self.emitter.emit(kind);
    }

    /// Records that the grant does not cover an access to `object`.
    pub(crate) fn deny(&self, capability: Capability, object: &str) {
        self.denials.deny(capability, object);
    }

    /// Records that an amount is used up.
    pub(crate) fn used_up(&self, meter: &Meter, object: &str) {
        self.denials.used_up(meter, object);
    }

    /// Requests that the component may still make to the model; `None` without a model.
    pub(crate) fn model_calls_left(&self) -> Option<u32> {
        let calls = || u32::try_from(self.meters.llm.calls.left()).unwrap_or(u32::MAX);
        self.model.as_ref().map(|_| calls())
    }

    /// A message as one line of at most `most` bytes; `None` when the component has logged enough.
    pub(crate) fn line(&mut self, message: &str, most: usize) -> Option<String> {
        let line = one_line(message, most);
        if self.meters.log.take(line.len() as u64 + LOG_LINE) {
            return Some(line);
        }
        self.used_up(&self.meters.log, "progress and log");
        None
    }

    pub(crate) fn log(&mut self, level: &str, message: &str) {
        if let Some(message) = self.line(message, MAX_LOG_LINE) {
            let (name, level) = (self.name.clone(), level.to_owned());
            self.emit(EventKind::ComponentLog { name, level, message });
        }
    }
}

/// What is called: the code, and what is asked of it.
pub(crate) trait Call: Send + 'static {
    type Answer: Send + 'static;

    fn engine(&self) -> &Engine;

    /// `ask`, or the name of the tool; and the input, of which the record holds a digest.
    fn record(&self) -> (String, String);

    /// The text of an answer, of which the record holds a digest.
    fn text(answer: &Self::Answer) -> &str;

    /// Bytes of the answer, which `limits.result_bytes` bounds.
    fn bytes(answer: &Self::Answer) -> usize;

    /// Instantiates the component and calls its export.
    fn run(
        self,
        store: &mut Store<State>,
    ) -> impl Future<Output = wasmtime::Result<Result<Self::Answer, GuestFailure>>>;
}

/// Runs one call to its end, its deadline or its cancellation, whichever is first, and records then what it used.
///
/// # Errors
///
/// [`ComponentFailure::Unrecorded`] if no record can be written; nothing has run then. Any other failure ends this
/// call alone.
pub(crate) async fn run<C: Call>(
    component: &LoadedComponent,
    call: C,
    host: HostContext,
    wall: Duration,
    cancel: &CancellationToken,
) -> Result<C::Answer, ComponentFailure> {
    let (meters, events) = (Arc::new(Meters::new(&component.grant)), host.events.clone());
    let mut summary = None;
    if let Some(audit) = &component.audit {
        audit.ready()?;
        let (what, input) = call.record();
        summary = Some(CallSummary::new(audit, &meters, what, &input));
    }
    let result = run_to_end(component, call, host, &meters, wall, cancel).await;
    events.emit(audit::used(&meters, &component.manifest.name, &component.sha256));
    if let Some(summary) = summary {
        summary.ended(result.as_ref().map(C::text));
    }
    result
}

async fn run_to_end<C: Call>(
    component: &LoadedComponent,
    call: C,
    host: HostContext,
    meters: &Arc<Meters>,
    wall: Duration,
    cancel: &CancellationToken,
) -> Result<C::Answer, ComponentFailure> {
    let name = &component.manifest.name;
    let wall = wall.min(component.grant.limits.wall);
    let (requests, mut wanted) = mpsc::channel(1);
    let token = CancellationToken::new();
    let context =
        CallContext::new(component, host, Arc::clone(meters), wall, requests, token.clone());
    let emitter = context.emitter.clone();
    let (running, ended) = std::sync::mpsc::channel();
    let mut stop = Stop { token, emitter, engine: call.engine().clone(), running: Some(ended) };
    let (done, mut finished) = oneshot::channel();
    std::thread::Builder::new()
        .name(format!("component {name}"))
        .spawn(move || {
            let _running: Sender<Infallible> = running;
            // The receiver is gone if the call was stopped.
            drop(done.send(on_thread(call, context)));
        })
        .map_err(|error| ComponentFailure::Host(format!("no thread for a call: {error}")))?;
    let deadline = tokio::time::sleep(wall);
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ComponentFailure::Cancelled),
            result = &mut finished => {
                stop.running = None;
                return result.unwrap_or_else(|_| {
                    Err(ComponentFailure::Host(format!(
                        "a fault of its own while `{name}` ran; please report it"
                    )))
                });
            }
            () = &mut deadline => return Err(ComponentFailure::Deadline(wall)),
            Some(request) = wanted.recv() => {
                let ModelRequest { mut conversation, ask, answer } = request;
                // Dropping the request closes its connection.
                let turn = tokio::select! {
                    biased;
                    () = cancel.cancelled() => return Err(ComponentFailure::Cancelled),
                    () = &mut deadline => return Err(ComponentFailure::Deadline(wall)),
                    turn = conversation.next(ask, cancel) => turn,
                };
                let _ = answer.send((conversation, turn));
            }
        }
    }
}

/// Stops the component when it is dropped before the call has finished: at the deadline, when cancelled, and when the
/// caller drops the call.
struct Stop {
    token: CancellationToken,
    emitter: Emitter,
    engine: Engine,
    /// Disconnected when the thread of the call ends; `None` when it has answered.
    running: Option<Receiver<Infallible>>,
}

impl Drop for Stop {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        self.token.cancel();
        self.emitter.close();
        self.engine.increment_epoch();
        // A component that was about to set its next check continues until the epoch moves again, so the epoch moves
        // until the thread has ended.
        let engine = self.engine.clone();
        let ticking = move || tick_until_ended(&running, || engine.increment_epoch());
        let _ = std::thread::Builder::new().name("component stop".to_owned()).spawn(ticking);
    }
}

/// First wait between two ticks.
const TICK: Duration = Duration::from_millis(10);
/// Longest wait between two ticks.
const SLOW_TICK: Duration = Duration::from_secs(1);
/// Number of ticks, about an hour of them. A thread that has not ended by then hangs in the kernel.
const TICKS: u32 = 3600;

fn tick_until_ended(running: &Receiver<Infallible>, mut tick: impl FnMut()) {
    let mut wait = TICK;
    for _ in 0..TICKS {
        match running.recv_timeout(wait) {
            Ok(never) => match never {},
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => tick(),
        }
        wait = (wait * 2).min(SLOW_TICK);
    }
}

fn on_thread<C: Call>(call: C, context: CallContext) -> Result<C::Answer, ComponentFailure> {
    // The runtime has timers for a component that sleeps, and no I/O driver because nothing here waits for a socket.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| ComponentFailure::Host(format!("no runtime for a call: {error}")))?;
    let (most, stop) = (context.grant.limits.result_bytes, context.stop.clone());
    let mut store = store(call.engine(), context);
    let answered = runtime.block_on(async {
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(Ended::Stopped.into()),
            answered = call.run(&mut store) => answered,
        }
    });
    let state = store.data_mut();
    for (level, text) in [("info", state.stdout.text()), ("warn", state.stderr.text())] {
        text.lines().for_each(|line| state.call.log(level, line));
    }
    let failed = state.call.model.as_mut().and_then(|session| session.failed.take());
    match answered {
        Ok(Ok(answer)) if C::bytes(&answer) as u64 > most => {
            Err(ComponentFailure::Limit(Limit::Result))
        }
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(guest)) => Err(gave_up(guest, failed)),
        Err(error) => Err(classify(&error, state.growth.reached(), &state.stderr.text())),
    }
}

/// The failure of a component that gave up. After a failed request to the model, the error of that request decides
/// whether another attempt may succeed.
fn gave_up(guest: GuestFailure, failed: Option<ModelError>) -> ComponentFailure {
    match (guest, failed) {
        (GuestFailure::Model(_) | GuestFailure::Other(_), Some(error)) => {
            ComponentFailure::Model(error)
        }
        (guest, _) => ComponentFailure::Guest(guest),
    }
}

fn store(engine: &Engine, context: CallContext) -> Store<State> {
    let (limits, stop) = (context.grant.limits.clone(), context.stop.clone());
    let mut store = Store::new(engine, State::new(context));
    store.limiter(|state| &mut state.growth);
    store.set_hostcall_fuel(usize::try_from(limits.host_call_bytes).unwrap_or(usize::MAX));
    store.set_max_component_handles(limits.handles as usize);
    // The epoch moves only when some call is stopped. Every other call continues.
    store.epoch_deadline_callback(move |_| {
        if stop.is_cancelled() {
            Err(Ended::Stopped.into())
        } else {
            Ok(UpdateDeadline::Continue(1))
        }
    });
    store.set_epoch_deadline(1);
    store
}

#[cfg(test)]
mod tests {
    use super::*;

    // security line 15: a guest that missed one tick, or many, meets another
    #[test]
    fn ticks_go_on_until_the_thread_has_ended() {
        let (running, ended) = std::sync::mpsc::channel();
        let (mut running, mut ticks) = (Some(running), 0);
        tick_until_ended(&ended, || {
            ticks += 1;
            if ticks == 5 {
                running = None;
            }
        });
        assert_eq!(ticks, 5);
    }
}
