//! One call of a component, from top to bottom: the question, the record that it may begin, the store with its limits, the
//! thread that it runs on, the call of the export, and the record of what was used.
//!
//! Each call has a store of its own. A call that cannot wait begins on the thread of its caller and usually ends there
//! ([`crate::callers_thread`]). Any other call, and one that takes longer, has a thread for itself until it ends. The caller's
//! runtime holds the deadline and the cancellation and sends the requests to the model, while the thread may block on files.
//! When the time is over, the thread is stopped and not waited for: the component ends at its next epoch check, a host function
//! ends when it returns, and a thread that hangs in the kernel delays no other call. A thread sends the answer before the memory
//! of the component is given back, so that nobody waits for that.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::task::Poll;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::WasiHttpCtx;

use crate::audit::{self, ANSWERED, CallSummary, ComponentAudit, Denials, Emitter};
use crate::bindings::progress::{self, Advice, Left, Level};
use crate::bindings::scout::exports::agentcommand::scout::scout;
use crate::bindings::tool::exports::agentcommand::tool::tool;
use crate::bindings::types::Refusal;
use crate::bounds::Set;
use crate::callers_thread::Stay;
use crate::capability::{
    Capability, Grant, Meters, ModelRequest, ModelSession, ReadAccess, denied,
};
use crate::engine::Place;
use crate::failure::{ComponentFailure, Ended, GuestFailure, Limit, MAX_LINE, classify, one_line};
use crate::foreign;
use crate::host::{LoadedComponent, ScoutComponent, ToolCode, ToolComponent};
use crate::limits::GrowthLimits;
use crate::meter::Meter;
use crate::outbound::Outbound;
use crate::symbols::Expected;
use crate::wasi::{self, Output};
use crate::workers::Fate;
use act_core::consent::Answer;
use act_core::event::{EventKind, Events};
use act_model::{Model, ModelError};
use act_symbols::Index;
use act_workspace::{Overlay, RepoView, RepoWriter, Restriction, Versions};

/// Longest line of a component's log, in bytes.
const MAX_LOG_LINE: usize = 1000;
/// Longest step that is shown to people, in bytes.
const MAX_STEP: usize = 200;
/// Bytes that a line of the log costs beside its text, so that empty lines have a bound too.
const LINE_COST: u64 = 16;

/// The services of the host for one call. A component can use those that its effective grant covers.
#[derive(Clone)]
pub struct Services {
    pub view: Option<RepoView>,
    /// The counters of file versions of this task, shared with the writer.
    pub versions: Option<Versions>,
    pub writer: Option<Arc<RepoWriter>>,
    /// The model, and the role under which the component talks to it.
    pub model: Option<(Arc<dyn Model>, String)>,
    /// Number of the attempt, from 1. Only events show it.
    pub attempt: u32,
    pub events: Events,
}

/// A question to a Scout, with named texts as its context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScoutQuestion {
    pub text: String,
    pub context: Vec<(String, String)>,
    pub facts_only: bool,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// The text that the model reads.
    pub text: String,
    pub is_error: bool,
}

impl ScoutComponent {
    /// Asks the Scout once and returns its report as the component wrote it: text that should be JSON and is not
    /// checked yet. `wall` bounds the component's own time and, counted apart, each single request to the model. All of
    /// it together ends after [`Grant::query_time`].
    ///
    /// # Errors
    ///
    /// A [`ComponentFailure`] of this call. Later calls are not affected, because each has a store of its own.
    pub async fn ask(
        &self,
        question: ScoutQuestion,
        host: Services,
        wall: Duration,
        cancel: &CancellationToken,
    ) -> Result<String, ComponentFailure> {
        let ScoutQuestion { text, context, facts_only } = question;
        let named = context.iter().map(|(name, text)| format!("\0{name}\0{text}"));
        let input = format!("{text}{}", named.collect::<String>());
        let (place, code) = self.code.place().map_err(unplaced)?;
        let ask: Function = Box::new(move |store| {
            Box::pin(async move {
                let instance = code.instantiate_async(&mut *store).await?;
                let question = scout::Question { text, context, facts_only };
                let answer = instance.agentcommand_scout_scout().call_ask(store, &question).await?;
                Ok(match answer {
                    Ok(text) => Ok(ToolOutcome { text, is_error: false }),
                    Err(scout::Failure::OutOfScope(why)) => {
                        Err(GuestFailure::OutOfScope(line(&why)))
                    }
                    Err(scout::Failure::Model(why)) => Err(GuestFailure::Model(line(&why))),
                    Err(scout::Failure::Other(why)) => Err(GuestFailure::Other(line(&why))),
                })
            })
        });
        let time = TimeLimit { wall, model: ModelTime::PerRequest };
        Ok(run(&self.component, place, ("ask", &input), ask, host, time, cancel).await?.text)
    }
}

impl ToolComponent {
    /// Calls a tool once, with the arguments as the model wrote them.
    ///
    /// # Errors
    ///
    /// A [`ComponentFailure`] of this call. Later calls are not affected, because each has a store of its own.
    pub async fn call(
        &self,
        tool: &str,
        arguments: &str,
        host: Services,
        wall: Duration,
        cancel: &CancellationToken,
    ) -> Result<ToolOutcome, ComponentFailure> {
        // A tool that is declared as reading only gets no writer, whatever was granted to its component.
        let may_write = !self.manifest.read_only.contains(tool);
        let host = Services { writer: host.writer.filter(|_| may_write), ..host };
        let (component, record) = (&self.component, (tool, arguments));
        let (tool, arguments) = (tool.to_owned(), arguments.to_owned());
        let time = TimeLimit { wall, model: ModelTime::Included };
        let code = match &self.code {
            ToolCode::Typed(code) => code,
            ToolCode::Foreign(code, functions) => {
                let (place, code) = code.place().map_err(unplaced)?;
                let functions = Arc::clone(functions);
                let call: Function = Box::new(move |store| {
                    Box::pin(async move {
                        foreign::call(&code, &functions, store, &tool, &arguments).await
                    })
                });
                return run(component, place, record, call, host, time, cancel).await;
            }
        };
        let (place, code) = code.place().map_err(unplaced)?;
        let call: Function = Box::new(move |store| {
            Box::pin(async move {
                let instance = code.instantiate_async(&mut *store).await?;
                let exports = instance.agentcommand_tool_tool();
                Ok(match exports.call_call(store, &tool, &arguments).await? {
                    // `data` is not used: a tool reports refused edits through `repo/edit.report-refusal`.
                    Ok(tool::Outcome { text, is_error, .. }) => Ok(ToolOutcome { text, is_error }),
                    Err(tool::Failure::UnknownTool) => Err(GuestFailure::UnknownTool),
                    Err(tool::Failure::BadArguments(why)) => {
                        Err(GuestFailure::BadArguments(line(&why)))
                    }
                    Err(tool::Failure::Other(why)) => Err(GuestFailure::Other(line(&why))),
                })
            })
        });
        run(component, place, record, call, host, time, cancel).await
    }
}

/// How long one call may take.
#[derive(Debug, Clone, Copy)]
struct TimeLimit {
    wall: Duration,
    model: ModelTime,
}

/// How the time of requests to the model counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelTime {
    /// It is part of the call's wall time: a tool that hangs must not stop the task.
    Included,
    /// Each request has the wall time for itself, so that the turns of a Scout's conversation do not share it. The whole
    /// call has [`Grant::query_time`], so that a Scout which asks again and again ends.
    PerRequest,
}

/// The failure of a call for which the engine has no place.
fn unplaced(error: wasmtime::Error) -> ComponentFailure {
    ComponentFailure::Host(line(&format!("no place for a call: {error:#}")))
}

fn line(text: &str) -> String {
    one_line(text, MAX_LINE)
}

/// Runs one call until it ends, its deadline passes or it is cancelled, and records what it used. `record` is `ask` or
/// the name of the tool, and the input, of which the record holds a digest.
///
/// # Errors
///
/// [`ComponentFailure::Unrecorded`] if no record can be written; nothing has run then. Any other failure ends this
/// call alone.
async fn run(
    component: &LoadedComponent,
    place: Place,
    record: (&str, &str),
    function: Function,
    host: Services,
    time: TimeLimit,
    cancel: &CancellationToken,
) -> Result<ToolOutcome, ComponentFailure> {
    let (meters, events) = (Arc::new(Meters::new(&component.grant)), host.events.clone());
    let mut summary = None;
    let (what, input) = record;
    if let Some(audit) = &component.audit {
        audit.ready()?;
        summary = Some(CallSummary::new(audit, &meters, what.to_owned(), input));
    }
    let started = Instant::now();
    let result = run_to_end(component, place, function, host, &meters, time, cancel).await;
    let about = (component.manifest.name.as_str(), component.sha256.as_str());
    let outcome = result.as_ref().map_or_else(ComponentFailure::word, |_| ANSWERED);
    events.emit(audit::used(&meters, about, what, outcome, started.elapsed()));
    if let Some(summary) = summary {
        summary.ended(result.as_ref().map(|outcome| outcome.text.as_str()));
    }
    result
}

/// An export of a component with its arguments: instantiates the component in a store and calls the export.
type Function = Box<dyn for<'s> FnOnce(&'s mut Store<State>) -> Called<'s> + Send>;

/// The answer of an export, once it has returned.
type Called<'s> =
    Pin<Box<dyn Future<Output = wasmtime::Result<Result<ToolOutcome, GuestFailure>>> + Send + 's>>;

/// Runs the call on the caller's thread if that is allowed, and otherwise, or when it takes longer, on a thread of its own.
/// Waits then for its answer, its deadline or a cancellation, and sends the requests of the component to the model meanwhile.
///
/// # Errors
///
/// The [`ComponentFailure`] of this call.
async fn run_to_end(
    component: &LoadedComponent,
    place: Place,
    function: Function,
    host: Services,
    meters: &Arc<Meters>,
    time: TimeLimit,
    cancel: &CancellationToken,
) -> Result<ToolOutcome, ComponentFailure> {
    let name = &component.manifest.name;
    let wall = time.wall.min(component.grant.limits.wall);
    let whole = match time.model {
        ModelTime::Included => wall,
        ModelTime::PerRequest => component.grant.query_time(wall),
    };
    let (requests, mut wanted) = mpsc::channel(1);
    let (questions, mut open_questions) = mpsc::channel(1);
    let consent = host.writer.as_ref().and_then(|writer| writer.consent().cloned());
    let (token, stay) = (CancellationToken::new(), Stay::new(component.may_stay()));
    let (waited, asked) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let started = Instant::now();
    let own =
        Deadline { started, wall, whole, waited: Arc::clone(&waited), asked: Arc::clone(&asked) };
    let channels = Channels { requests, questions };
    let ends = (own, token.clone(), stay.clone());
    let context = CallContext::new(component, host, Arc::clone(meters), ends, channels);
    let emitter = context.emitter.clone();
    let faulty = || {
        let why = format!("an internal error while `{name}` ran; please report it");
        Err(ComponentFailure::Host(why))
    };
    let mut call: RunningCall = Box::pin(in_store(place.engine.clone(), function, context));
    if stay.lasts() {
        if cancel.is_cancelled() {
            return Err(ComponentFailure::Cancelled);
        }
        if let Some(_watched) = place.watch() {
            match begun(&mut call).await {
                Some(Poll::Ready((answer, _))) => return answer,
                Some(Poll::Pending) => {}
                None => return faulty(),
            }
        }
        stay.end();
    }
    let (running, ended) = std::sync::mpsc::channel();
    let engine = place.engine.clone();
    let mut stop = Stop { token: token.clone(), emitter, engine, running: Some(ended) };
    let (done, mut finished) = oneshot::channel();
    let work = move |runtime: &Runtime| {
        let _running: Sender<Infallible> = running;
        let (answer, store) = runtime.block_on(call);
        // The receiver is gone if the call was stopped.
        let given_up = done.send(answer).is_err();
        drop(store);
        drop(place);
        if given_up || token.is_cancelled() { Fate::End } else { Fate::Keep }
    };
    component
        .workers
        .run(Box::new(work))
        .map_err(|error| ComponentFailure::Host(format!("no thread for a call: {error}")))?;
    let rest = |time: Duration| tokio::time::sleep(time.saturating_sub(started.elapsed()));
    let (deadline, over) = (rest(wall), rest(whole));
    tokio::pin!(deadline, over);
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ComponentFailure::Cancelled),
            result = &mut finished => {
                stop.running = None;
                return result.unwrap_or_else(|_| faulty());
            }
            () = &mut deadline => return Err(ComponentFailure::Deadline(wall)),
            () = &mut over => return Err(ComponentFailure::Deadline(whole)),
            Some(request) = wanted.recv() => {
                let ModelRequest { mut conversation, ask, answer } = request;
                let (asked, own) = (Instant::now(), deadline.deadline());
                if time.model == ModelTime::PerRequest {
                    deadline.as_mut().reset(tokio::time::Instant::now() + wall);
                }
                // Dropping the request closes its connection.
                let turn = tokio::select! {
                    biased;
                    () = cancel.cancelled() => return Err(ComponentFailure::Cancelled),
                    () = &mut over => return Err(ComponentFailure::Deadline(whole)),
                    () = &mut deadline => return Err(match time.model {
                        ModelTime::Included => ComponentFailure::Deadline(wall),
                        ModelTime::PerRequest => ComponentFailure::Request(wall),
                    }),
                    turn = conversation.next(ask, cancel) => turn,
                };
                if time.model == ModelTime::PerRequest {
                    let took = asked.elapsed();
                    let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                    waited.fetch_add(milliseconds, Ordering::Relaxed);
                    deadline.as_mut().reset(own + took);
                }
                let _ = answer.send((conversation, turn));
            }
            Some(Question { path, op, answer }) = open_questions.recv() => {
                let (begun, own, end) = (Instant::now(), deadline.deadline(), over.deadline());
                let given = match &consent {
                    None => Answer::Refused,
                    Some(person) => tokio::select! {
                        biased;
                        () = cancel.cancelled() => return Err(ComponentFailure::Cancelled),
                        given = person.may_change(&path, op) => given,
                    },
                };
                // The time of the person is not the component's.
                let took = begun.elapsed();
                let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                asked.fetch_add(milliseconds, Ordering::Relaxed);
                deadline.as_mut().reset(own + took);
                over.as_mut().reset(end + took);
                let _ = answer.send(given);
            }
        }
    }
}

/// Stops the component if this value is dropped before the call has finished: at the deadline, after a cancellation, and
/// when the caller drops the call.
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

/// A call that has begun, which any thread can continue.
type RunningCall =
    Pin<Box<dyn Future<Output = (Result<ToolOutcome, ComponentFailure>, Store<State>)> + Send>>;

/// Runs a call on this thread until it has its answer or has to move. Returns `None` if a function of the host panicked.
async fn begun<T>(call: &mut Pin<Box<dyn Future<Output = T> + Send>>) -> Option<Poll<T>> {
    std::future::poll_fn(|context| {
        // On a thread of its own, a panic would end that thread alone. Nothing of the call is used after it.
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
        Poll::Ready(polled.ok())
    })
    .await
}

/// Runs the call and returns its answer, with the store, of which only the memory is left to give back: what the component
/// held open is closed, and its denials are recorded.
async fn in_store(
    engine: Engine,
    function: Function,
    context: CallContext,
) -> (Result<ToolOutcome, ComponentFailure>, Store<State>) {
    let (most, stop) = (context.grant.limits.result_bytes, context.stop.clone());
    let mut store = store(&engine, context);
    let answered = tokio::select! {
        biased;
        () = stop.cancelled() => Err(Ended::Stopped.into()),
        answered = function(&mut store) => answered,
    };
    let state = store.data_mut();
    for (level, text) in [("info", state.stdout.text()), ("warn", state.stderr.text())] {
        text.lines().for_each(|line| state.call.log(level, line));
    }
    let failed = state.call.model.as_mut().and_then(|session| session.failed.take());
    drop(std::mem::take(&mut state.table));
    state.call.denials.finish();
    let answer = match answered {
        Ok(Ok(answer)) if answer.text.len() as u64 > most => {
            Err(ComponentFailure::Limit(Limit::Result))
        }
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(guest)) => Err(gave_up(guest, failed)),
        Err(error) => Err(classify(&error, state.growth.reached(), &state.stderr.text())),
    };
    (answer, store)
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
    let mut has_to_move = context.stay.at_each_tick();
    let mut store = Store::new(engine, State::new(context));
    store.limiter_async(|state| &mut state.growth);
    store.set_hostcall_fuel(usize::try_from(limits.host_call_bytes).unwrap_or(usize::MAX));
    store.set_max_component_handles(limits.handles as usize);
    // The epoch moves when some call is stopped, and while some call is on the thread of its caller. Every other call
    // continues.
    store.epoch_deadline_callback(move |_| {
        if stop.is_cancelled() {
            Err(Ended::Stopped.into())
        } else if has_to_move() {
            Ok(UpdateDeadline::Yield(1))
        } else {
            Ok(UpdateDeadline::Continue(1))
        }
    });
    store.set_epoch_deadline(1);
    store
}

/// The data of one store.
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
        let growth = GrowthLimits::new(limits, Arc::clone(&call.meters), call.stay.clone());
        Self { table, wasi, growth, random, call, stderr, stdout, http: WasiHttpCtx::new() }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// A question to the person about a guarded path, which the thread of a call waits for.
pub(crate) struct Question {
    path: String,
    op: &'static str,
    answer: Sender<Answer>,
}

/// How the thread of a call reaches the caller's runtime.
struct Channels {
    requests: mpsc::Sender<ModelRequest>,
    questions: mpsc::Sender<Question>,
}

/// How often the thread of a call that waits for the person looks whether the call is over.
const LOOK: Duration = Duration::from_millis(50);

/// The grant of one call and the services that it opens. A field that is `None` was not granted, whatever the component
/// imports.
pub(crate) struct CallContext {
    pub(crate) name: String,
    pub(crate) grant: Grant,
    pub(crate) read: Option<ReadAccess>,
    pub(crate) writer: Option<Arc<RepoWriter>>,
    /// The files that a foreign component has written, until its call ends. The view shows them.
    pub(crate) scratch: Option<Overlay>,
    /// Outlines that earlier calls stored.
    pub(crate) outlines: Option<Arc<Index>>,
    /// The next requests of the component, as it has announced them.
    pub(crate) expected: VecDeque<Expected>,
    pub(crate) model: Option<ModelSession>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) denials: Denials,
    /// Records the call in the audit log; `None` if it is not recorded.
    pub(crate) audit: Option<Arc<ComponentAudit>>,
    pub(crate) outbound: Outbound,
    /// The caller's runtime, which sends requests.
    pub(crate) runtime: Handle,
    pub(crate) deadline: Deadline,
    questions: mpsc::Sender<Question>,
    /// Cancelled when the call is over for its caller.
    pub(crate) stop: CancellationToken,
    stay: Stay,
    emitter: Emitter,
}

/// The time that a call has, and its beginning.
#[derive(Clone)]
pub(crate) struct Deadline {
    started: Instant,
    pub(crate) wall: Duration,
    /// The time of the whole call, with its requests to the model.
    whole: Duration,
    /// Milliseconds of requests to the model that do not count for the component's own time.
    waited: Arc<AtomicU64>,
    /// Milliseconds of questions to the person, which count for nothing.
    asked: Arc<AtomicU64>,
}

impl Deadline {
    pub(crate) fn left(&self) -> Duration {
        let waited = Duration::from_millis(self.waited.load(Ordering::Relaxed));
        let asked = Duration::from_millis(self.asked.load(Ordering::Relaxed));
        let elapsed = self.started.elapsed().saturating_sub(asked);
        let own = self.wall.saturating_sub(elapsed.saturating_sub(waited));
        own.min(self.whole.saturating_sub(elapsed))
    }
}

impl CallContext {
    fn new(
        component: &LoadedComponent,
        host: Services,
        meters: Arc<Meters>,
        (deadline, stop, stay): (Deadline, CancellationToken, Stay),
        channels: Channels,
    ) -> Self {
        let Channels { requests, questions } = channels;
        let Services { view, versions, writer, model, attempt, events } = host;
        let (name, grant) = (component.manifest.name.clone(), component.grant.clone());
        let (emitter, audit) = (Emitter::new(events), component.audit.clone());
        let mut scratch = None;
        let read = grant.repo_read.clone().zip(view).map(|(caps, view)| {
            let (over, used) = (stop.clone(), Arc::clone(&meters));
            let mut view = view.restricted(Restriction {
                parts: match &caps.paths {
                    Set::Any => None,
                    Set::Only(parts) => Some(parts.iter().map(ToString::to_string).collect()),
                },
                stopped: Box::new(move || over.is_cancelled()),
                on_read: Box::new(move |path| used.repo_read.file(path)),
            });
            if component.has_scratch {
                // In a dry run the copy begins with the changes of the task so far.
                let overlay = view.overlay().map(Overlay::branch).unwrap_or_default();
                view = view.over(&overlay);
                scratch = Some(overlay);
            }
            ReadAccess { view, versions, caps }
        });
        let session = |(model, role)| ModelSession { model, role, attempt, requests, failed: None };
        Self {
            read,
            writer: writer.filter(|_| grant.repo_write),
            scratch,
            outlines: component.outlines.clone(),
            expected: VecDeque::new(),
            model: model.filter(|_| grant.llm.is_some()).map(session),
            denials: Denials::new(&name, emitter.clone(), audit.clone(), Arc::clone(&meters)),
            audit,
            meters,
            outbound: component.outbound.for_one_call(),
            runtime: Handle::current(),
            deadline,
            questions,
            stop,
            stay,
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

    /// Asks the person whether the task may change a guarded file, and waits for the answer.
    ///
    /// # Errors
    ///
    /// [`Ended::Stopped`] if the call is over before the answer comes.
    pub(crate) fn ask_person(&self, path: &str, op: &'static str) -> Result<Answer, Ended> {
        let (answer, answered) = std::sync::mpsc::channel();
        let question = Question { path: path.to_owned(), op, answer };
        // The thread of the call asks one question at a time, so there is room.
        if self.questions.try_send(question).is_err() {
            return Ok(Answer::Refused);
        }
        loop {
            match answered.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) => self.go_on()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Ended::Stopped),
            }
        }
    }

    pub(crate) fn emit(&self, kind: EventKind) {
        self.emitter.emit(kind);
    }

    /// Records that the grant does not cover an access to `object`.
    pub(crate) fn deny(&self, capability: Capability, object: &str) {
        self.denials.deny(capability, object);
    }

    /// Records that the component was not granted the capability, and returns the refusal for it.
    pub(crate) fn refuse(&self, capability: Capability, object: &str) -> Refusal {
        self.deny(capability, object);
        denied(capability)
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

    /// Returns a message as one line of at most `most` bytes; `None` if the component has logged as much as it may.
    pub(crate) fn line(&mut self, message: &str, most: usize) -> Option<String> {
        let line = one_line(message, most);
        if self.meters.log.take(line.len() as u64 + LINE_COST) {
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

/// The interface `progress`, which is linked for every component: steps and log lines, and how much of the time and the
/// amounts of a call is left.
impl progress::Host for State {
    fn step(&mut self, message: String) -> wasmtime::Result<Advice> {
        let call = &mut self.call;
        if let Some(message) = call.line(&message, MAX_STEP) {
            call.emit(EventKind::ComponentStep { name: call.name.clone(), message });
        }
        let calls = call.model_calls_left();
        Ok(advice(call.deadline.left(), call.deadline.wall, calls))
    }

    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
        };
        self.call.log(level, &message);
        Ok(())
    }

    fn remaining(&mut self) -> wasmtime::Result<Left> {
        let call = &self.call;
        let meters = &call.meters;
        Ok(Left {
            milliseconds: milliseconds(&call.deadline),
            model_calls: call.model_calls_left().unwrap_or(0),
            model_tokens: call.model.as_ref().map_or(0, |_| meters.llm.tokens.left()),
            read_bytes: call.read.as_ref().map_or(0, |_| meters.repo_read.bytes.left()),
        })
    }
}

fn milliseconds(deadline: &Deadline) -> u64 {
    u64::try_from(deadline.left().as_millis()).unwrap_or(u64::MAX)
}

/// Advises to wrap up when a quarter of the time or a single request to the model is left.
fn advice(left: Duration, wall: Duration, model_calls: Option<u32>) -> Advice {
    if left < wall / 4 || model_calls.is_some_and(|calls| calls <= 1) {
        Advice::WrapUp
    } else {
        Advice::CarryOn
    }
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

    // CAPABILITY-16
    #[tokio::test]
    async fn a_panic_on_the_thread_of_the_caller_ends_the_call_alone() {
        let mut call: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async {
            tokio::task::yield_now().await;
            panic!("a test");
        });
        assert!(matches!(begun(&mut call).await, Some(Poll::Pending)));
        assert!(begun(&mut call).await.is_none());
    }

    #[test]
    fn advises_to_wrap_up_before_time_or_calls_run_out() {
        let second = Duration::from_secs(1);
        let cases = [
            (60, None, Advice::CarryOn),
            (15, Some(9), Advice::CarryOn),
            (14, Some(9), Advice::WrapUp),
            (60, Some(1), Advice::WrapUp),
            (0, None, Advice::WrapUp),
        ];
        for (left, calls, expected) in cases {
            assert_eq!(advice(second * left, second * 60, calls), expected, "{left} {calls:?}");
        }
    }
}
