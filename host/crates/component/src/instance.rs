//! One query in one store on one thread of its own.
//!
//! The caller's runtime holds deadline and cancellation and makes the model's requests; the store's thread
//! may block on files. At the end of the time the thread is told to stop and left alone: a guest ends at its
//! next check, a host function when it returns, and a thread stuck in the kernel is never waited for.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use wasmtime::component::InstancePre;
use wasmtime::{Engine, Store, UpdateDeadline};

use super::audited::{Audited, Summary};
use super::bindings::{scout, tool};
use super::denials::Denials;
use super::failure::{ComponentFailure, Ended, GuestFailure, Limit, MAX_LINE, classify, one_line};
use super::files::Scratch;
use super::foreign::{self, Function};
use super::grant::{Grant, Set};
use super::http_left::HttpLeft;
use super::imports::ModelRequest;
use super::manifest::Manifest;
use super::outbound::Outbound;
use super::state::{Clock, Query, ReadLeft, Reading, State, Talk};
use super::usage::Usage;
use super::voice::Voice;
use super::{ScoutQuestion, Services, ToolOutcome};
use act_model::ModelError;
use act_symbols::Index;

type Scout = scout::exports::agentcommand::scout::scout::Failure;
type Tool = tool::exports::agentcommand::tool::tool::Failure;

/// A component that is ready to be asked.
pub(super) struct Ready {
    pub(super) pre: Pre,
    /// Outlines of files that earlier queries asked for.
    pub(super) outlines: Option<Arc<Index>>,
    /// Its directory is a scratch copy.
    pub(super) scratch: bool,
}

/// A component that is ready to be instantiated, as what it exports.
pub(super) enum Pre {
    Scout(scout::ScoutPre<State>),
    Tool(tool::ToolPre<State>),
    /// What it exports is called as it is.
    Foreign(InstancePre<State>, Vec<Function>),
}

impl Pre {
    pub(super) fn new(manifest: &Manifest, pre: InstancePre<State>) -> wasmtime::Result<Self> {
        match manifest.kind {
            _ if manifest.is_foreign() => Ok(Self::Foreign(pre, manifest.functions.clone())),
            super::Kind::Scout => scout::ScoutPre::new(pre).map(Self::Scout),
            super::Kind::Tool => tool::ToolPre::new(pre).map(Self::Tool),
        }
    }

    fn engine(&self) -> &Engine {
        match self {
            Self::Scout(pre) => pre.engine(),
            Self::Tool(pre) => pre.engine(),
            Self::Foreign(pre, _) => pre.engine(),
        }
    }
}

pub(super) enum Job {
    Ask(ScoutQuestion),
    Call { tool: String, arguments: String },
}

pub(super) enum Answer {
    Report(String),
    Outcome(ToolOutcome),
}

impl Answer {
    /// What it says, as it is recorded by its digest.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Report(report) => report,
            Self::Outcome(outcome) => &outcome.text,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Report(report) => report.len(),
            Self::Outcome(outcome) => outcome.text.len(),
        }
    }
}

/// Whose query it is.
pub(super) struct Holder<'a> {
    pub(super) name: &'a str,
    pub(super) sha256: &'a str,
    pub(super) grant: &'a Grant,
    /// Where its queries are recorded; none where nothing is.
    pub(super) audited: Option<&'a Arc<Audited>>,
}

/// What one query works with, and where it notes what it used.
pub(super) struct Lent {
    pub(super) services: Services,
    pub(super) outbound: Outbound,
    pub(super) usage: Usage,
}

/// Runs `job` to its end, its deadline or its cancellation, whatever comes first. What it used is recorded
/// then; it does not begin where that could not be.
pub(super) async fn run(
    holder: Holder<'_>,
    ready: Arc<Ready>,
    job: Job,
    with: Lent,
    wall: Duration,
    cancel: &CancellationToken,
) -> Result<Answer, ComponentFailure> {
    let (usage, events) = (with.usage.clone(), with.services.events.clone());
    let (name, sha256) = (holder.name, holder.sha256);
    let mut summary = None;
    if let Some(audited) = holder.audited {
        audited.ready()?;
        summary = Some(Summary::owed(audited, &usage, &job));
    }
    let result = query_to_end(holder, ready, job, with, wall, cancel).await;
    events.emit(usage.event(name, sha256));
    if let Some(summary) = summary {
        summary.ended(&result);
    }
    result
}

async fn query_to_end(
    holder: Holder<'_>,
    ready: Arc<Ready>,
    job: Job,
    with: Lent,
    wall: Duration,
    cancel: &CancellationToken,
) -> Result<Answer, ComponentFailure> {
    let Holder { name, grant, audited, .. } = holder;
    let wall = wall.min(grant.limits.wall);
    let (requests, mut wanted) = mpsc::channel(1);
    let token = CancellationToken::new();
    let audited = audited.cloned();
    let mut query = query((name, grant), with, audited, wall, requests, token.clone());
    query.outlines.clone_from(&ready.outlines);
    query.scratch = ready.scratch.then(Scratch::default);
    let voice = query.voice.clone();
    let (running, ended) = std::sync::mpsc::channel();
    let mut stop = Stop { token, voice, engine: ready.pre.engine().clone(), running: Some(ended) };
    let (done, mut finished) = oneshot::channel();
    std::thread::Builder::new()
        .name(format!("component {name}"))
        .spawn(move || {
            let _running: Sender<Infallible> = running;
            // Nobody listens any more when the query was stopped.
            drop(done.send(on_thread(&ready.pre, query, job)));
        })
        .map_err(|error| ComponentFailure::Host(format!("no thread for a query: {error}")))?;
    let deadline = tokio::time::sleep(wall);
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ComponentFailure::Cancelled),
            result = &mut finished => {
                stop.running = None;
                return result.unwrap_or_else(|_| {
                    Err(ComponentFailure::Host(format!("a fault of its own while `{name}` ran; please report it")))
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

fn query(
    (name, grant): (&str, &Grant),
    with: Lent,
    audited: Option<Arc<Audited>>,
    wall: Duration,
    requests: mpsc::Sender<ModelRequest>,
    stop: CancellationToken,
) -> Query {
    let Lent { services, outbound, usage } = with;
    let Services { view, versions, writer, model, attempt, events } = services;
    let voice = Voice::new(events);
    let read = grant.repo_read.clone().zip(view).map(|(caps, view)| {
        let left = ReadLeft::new(caps.query_bytes, &usage);
        let (over, usage) = (stop.clone(), usage.clone());
        let view = view.until(move || over.is_cancelled()).noting(move |path| usage.file(path));
        let view = match &caps.paths {
            Set::Any => view,
            parts => view.within(parts.values().map(|part| part.as_str().to_owned())),
        };
        Reading { view, versions, caps, left }
    });
    let talk = grant.llm.clone().zip(model).map(|(llm, (model, role))| Talk {
        model,
        role,
        attempt,
        requests,
        calls_left: llm.calls,
        tokens_left: llm.tokens,
        text_left: 2 * grant.limits.host_call_bytes,
        failed: None,
    });
    Query {
        name: name.to_owned(),
        read,
        writer: writer.filter(|_| grant.repo_write),
        scratch: None,
        outlines: None,
        talk,
        stop,
        http_left: HttpLeft::new(grant.http.as_ref(), &usage),
        denials: Denials::new(name, voice.clone(), audited.clone(), usage.clone()),
        audited,
        usage,
        outbound,
        runtime: Handle::current(),
        clock: Clock { started: Instant::now(), wall },
        log_left: grant.limits.log_bytes,
        reported_refusals: 0,
        names_left: grant.limits.host_call_bytes,
        grant: grant.clone(),
        voice,
    }
}

/// Ends the guest when it goes out of scope before the query has finished: at the deadline, when cancelled,
/// and when the caller has lost interest.
struct Stop {
    token: CancellationToken,
    voice: Voice,
    engine: Engine,
    /// Disconnected when the query's thread ends; none when it has answered.
    running: Option<Receiver<Infallible>>,
}

impl Drop for Stop {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        self.token.cancel();
        self.voice.silence();
        self.engine.increment_epoch();
        // A guest that was just about to set its next check goes on until the epoch moves again, however
        // long its thread was kept from running in between.
        let engine = self.engine.clone();
        let ticking = move || tick_until_ended(&running, || engine.increment_epoch());
        let _ = std::thread::Builder::new().name("component stop".to_owned()).spawn(ticking);
    }
}

/// First wait between two ticks, and the longest.
const TICK: Duration = Duration::from_millis(10);
const SLOW_TICK: Duration = Duration::from_secs(1);
/// After about an hour the thread hangs in the kernel and no tick will reach it.
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

fn on_thread(pre: &Pre, query: Query, job: Job) -> Result<Answer, ComponentFailure> {
    // Timers for a guest that sleeps; no I/O driver, because nothing here waits for a socket.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| ComponentFailure::Host(format!("no runtime for a query: {error}")))?;
    let (most, stop) = (query.grant.limits.result_bytes, query.stop.clone());
    let mut store = store(pre.engine(), query);
    let called = runtime.block_on(async {
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(Ended::Stopped.into()),
            called = call(pre, &mut store, job) => called,
        }
    });
    let state = store.data_mut();
    for (level, text) in [("info", state.stdout.text()), ("warn", state.stderr.text())] {
        text.lines().for_each(|line| state.query.log(level, line));
    }
    let failed = state.query.talk.as_mut().and_then(|talk| talk.failed.take());
    match called {
        Ok(Ok(answer)) if answer.bytes() as u64 > most => {
            Err(ComponentFailure::Limit(Limit::Result))
        }
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(guest)) => Err(gave_up(guest, failed)),
        Err(error) => Err(classify(&error, state.limits.reached(), &state.stderr.text())),
    }
}

/// A component that gives up after a failed request has told nothing new; what the model said decides.
fn gave_up(guest: GuestFailure, failed: Option<ModelError>) -> ComponentFailure {
    match (guest, failed) {
        (GuestFailure::Model(_) | GuestFailure::Other(_), Some(error)) => {
            ComponentFailure::Model(error)
        }
        (guest, _) => ComponentFailure::Guest(guest),
    }
}

fn store(engine: &Engine, query: Query) -> Store<State> {
    let (limits, stop) = (query.grant.limits.clone(), query.stop.clone());
    let mut store = Store::new(engine, State::new(query));
    store.limiter(|state| &mut state.limits);
    store.set_hostcall_fuel(usize::try_from(limits.host_call_bytes).unwrap_or(usize::MAX));
    store.set_max_component_handles(limits.handles as usize);
    // The epoch moves only when somebody's query is stopped; everybody else's just goes on.
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

async fn call(
    pre: &Pre,
    store: &mut Store<State>,
    job: Job,
) -> wasmtime::Result<Result<Answer, GuestFailure>> {
    let line = |text: String| one_line(&text, MAX_LINE);
    match (pre, job) {
        (Pre::Scout(pre), Job::Ask(question)) => {
            let scout = pre.instantiate_async(&mut *store).await?;
            let question = scout::exports::agentcommand::scout::scout::Question {
                text: question.text,
                context: question.context,
                facts_only: question.facts_only,
            };
            let answer = scout.agentcommand_scout_scout().call_ask(store, &question).await?;
            Ok(answer.map(Answer::Report).map_err(|failure| match failure {
                Scout::OutOfScope(why) => GuestFailure::OutOfScope(line(why)),
                Scout::Model(why) => GuestFailure::Model(line(why)),
                Scout::Other(why) => GuestFailure::Other(line(why)),
            }))
        }
        (Pre::Tool(pre), Job::Call { tool, arguments }) => {
            let tools = pre.instantiate_async(&mut *store).await?;
            let answer = tools.agentcommand_tool_tool().call_call(store, &tool, &arguments).await?;
            // `data` has no reader: what a tool refuses comes through `repo/edit.report-refusal`.
            let outcome = answer
                .map(|outcome| ToolOutcome { text: outcome.text, is_error: outcome.is_error });
            Ok(outcome.map(Answer::Outcome).map_err(|failure| match failure {
                Tool::UnknownTool => GuestFailure::UnknownTool,
                Tool::BadArguments(why) => GuestFailure::BadArguments(line(why)),
                Tool::Other(why) => GuestFailure::Other(line(why)),
            }))
        }
        (Pre::Foreign(pre, functions), Job::Call { tool, arguments }) => {
            let answer = foreign::call(pre, functions, store, &tool, &arguments).await?;
            Ok(answer.map(Answer::Outcome))
        }
        _ => wasmtime::bail!("a scout has no tools and a tool component no answers"),
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
}
