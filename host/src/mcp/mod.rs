//! `act mcp`: the verification, and on request tasks, as tools of the Model Context Protocol over stdin and stdout.
//!
//! The person who starts the server names its repositories, its tools and its budgets. A client chooses among them and can
//! only lower a budget: no tool grants, approves, narrows or configures anything, and none reads a run or a task of another
//! repository. The protocol is that of the crate `rmcp`, in its versions 2025-11-25 and 2026-07-28 and older ones; what a
//! tool does is a process of `act` (`jobs`), what it returns is bounded and harmless (`answer`), and so is what waits for a client
//! that does not read (`streams`).

mod answer;
mod jobs;
mod streams;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use act_core::{Failure, Usd};
use act_workspace::{OpenRoot, RootMoved};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CreateTaskResult,
    ErrorData, GetTaskParams, GetTaskResult, Implementation, JsonObject, ListToolsResult,
    NumberOrString, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use jobs::PARENT;
use jobs::{CommandLine, Job};
use streams::{Shallow, Streams};

/// Seconds that a call waits for the end of what it began, below the time limits of common clients (60 s).
const WAIT_S: u64 = 45;
const MAX_WAIT_S: u64 = 600;
/// Verifications, and tasks, that may wait in a repository behind the one that runs.
const WAITING: usize = 8;
/// Calls that are answered at a time. Clients make a few; more are a loop that went wrong.
const CALLS: usize = 64;
/// Commands that look something up at a time.
const LOOKUPS: usize = 4;
/// Ended jobs whose results `status` can still return.
const REMEMBERED: usize = 64;
/// Bytes of a line from the client: the text of a task has at most 256 KiB, which JSON may write six times as long.
const MAX_LINE: usize = 2 << 20;
/// Bytes of a progress token; clients send a number or a UUID.
const MAX_TOKEN: usize = 256;
/// Time for everything that the server began to end after the client has gone.
const SHUTDOWN: Duration = Duration::from_millis(4_700);
/// Milliseconds that the tasks extension keeps a task at least: longer than any pipeline.
const TASK_TTL: u64 = 24 * 60 * 60 * 1000;

/// The limits that the person who starts the server has set.
#[derive(Debug, Clone)]
pub struct Allowed {
    /// The repositories, by the paths that the person has named.
    pub repos: Vec<PathBuf>,
    /// Tasks may be run, and their changes applied.
    pub tasks: bool,
    /// Tokens that one task may spend; `None` leaves the limit in force for its repository.
    pub max_tokens: Option<u64>,
    /// The most that one task may cost; `None` leaves the limit in force for its repository.
    pub max_cost: Option<Usd>,
    /// Number of tasks that the server starts in all.
    pub max_tasks: u64,
}

/// Serves one client on stdin and stdout, until it closes stdin or the process gets a signal.
///
/// # Errors
///
/// A repository cannot be opened, or the protocol could not begin.
pub async fn serve(allowed: Allowed) -> Result<(), Failure> {
    let server = Server::new(allowed)?;
    let stop = ended_by_signals()?;
    // Also cancelled at the end of stdin, where calls in progress are answered as cancelled, and not dropped.
    let gone = stop.child_token();
    let state = Arc::clone(&server.state);
    let (read, write) = rmcp::transport::io::stdio_pipes();
    let (read, too_deep) = Shallow::new(read);
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MAX_LINE);
    let transport = Streams::new(transport, too_deep, gone.clone());
    let served = async {
        let ended = match server.serve_with_ct(transport, stop.clone()).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
            // A client that goes away before it has said anything has asked for nothing.
            Err(_) => Ok(()),
        };
        gone.cancel();
        ended
    };
    let cancelled = async {
        gone.cancelled().await;
        state.cancel_all().await;
    };
    let too_late = async {
        gone.cancelled().await;
        tokio::time::sleep(SHUTDOWN).await;
    };
    let ended = tokio::select! {
        (ended, ()) = async { tokio::join!(served, cancelled) } => ended,
        () = too_late => Ok(()),
    };
    ended.map_err(|error| Failure::refused("mcp_failed", format!("the server has failed: {error}")))
}

fn ended_by_signals() -> Result<CancellationToken, Failure> {
    let listen = |kind| {
        signal(kind).map_err(|error| {
            Failure::refused("no_signals", format!("signals cannot be caught: {error}"))
        })
    };
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let stop = CancellationToken::new();
    for kind in kinds {
        let (mut signal, stop): (Signal, _) = (listen(kind)?, stop.clone());
        tokio::spawn(async move {
            signal.recv().await;
            stop.cancel();
        });
    }
    Ok(stop)
}

/// A repository that the person has named.
#[derive(Debug)]
struct Repo {
    named: PathBuf,
    root: OpenRoot,
}

impl Repo {
    fn open(named: &Path) -> Result<Self, Failure> {
        let unusable = |error: std::io::Error| {
            Failure::refused("repository_unusable", format!("{}: {error}", named.display()))
                .hint("name an existing directory with --repo")
        };
        let path = named.canonicalize().map_err(unusable)?;
        let root = act_config::find_root(&path)?.map_or(path, |root| root.path);
        Ok(Self { named: named.to_owned(), root: OpenRoot::open(&root).map_err(unusable)? })
    }
}

/// The commands that the server has begun, and the rest of its budgets.
#[derive(Debug)]
struct State {
    jobs: Mutex<Jobs>,
    /// A place for each task that may still be started. A job that ends without a task gives its place back.
    places: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Jobs {
    /// By their numbers, in the order in which they began.
    all: BTreeMap<u64, Job>,
    next: u64,
    /// The client has gone.
    closed: bool,
}

impl State {
    fn locked(&self) -> std::sync::MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn job(&self, id: &str) -> Option<Job> {
        self.locked().all.values().find(|job| job.id == id).cloned()
    }

    /// Cancels everything that has not ended, and waits for it. Nothing begins any more.
    async fn cancel_all(&self) {
        let running: Vec<_> = {
            let mut jobs = self.locked();
            jobs.closed = true;
            jobs.all.values().filter(|job| !job.is_over()).cloned().collect()
        };
        running.iter().for_each(|job| job.cancel.cancel());
        for job in &running {
            job.wait().await;
        }
    }
}

impl Jobs {
    /// Starts a command, if the repository has room for one more of its kind.
    fn begin(
        &mut self,
        tool: &'static str,
        repo: &Path,
        line: CommandLine,
        places: &Arc<Semaphore>,
    ) -> Result<Job, Failure> {
        if self.closed {
            return Err(cancelled());
        }
        let is_task = |tool: &str| tool != "verify";
        let alike =
            |job: &&Job| !job.is_over() && job.repo == repo && is_task(job.tool) == is_task(tool);
        if self.all.values().filter(alike).count() > WAITING {
            let message = format!("{WAITING} wait in {} already", repo.display());
            return Err(Failure::refused("too_many_waiting", message)
                .hint("wait for one of them with `status`, or end one with `cancel`"));
        }
        let place = match is_task(tool) {
            false => None,
            true => Some(Arc::clone(places).try_acquire_owned().map_err(|_| {
                let message = "this server has started as many tasks as it may";
                Failure::refused("budget_spent", message).hint(
                    "whoever started the server may start it again, with a higher --max-tasks",
                )
            })?),
        };
        self.next += 1;
        // The number cannot be guessed from outside, but an id has to be unmistakable in a conversation.
        let id = format!("j-{}", self.next);
        let job = Job::start(id, tool, repo, line, place);
        self.all.insert(self.next, job.clone());
        let ended: Vec<u64> =
            self.all.iter().filter(|(_, job)| job.is_over()).map(|(number, _)| *number).collect();
        for number in ended.iter().take(ended.len().saturating_sub(REMEMBERED)) {
            self.all.remove(number);
        }
        Ok(job)
    }
}

/// The server of one client.
#[derive(Clone)]
struct Server {
    repos: Arc<Vec<Repo>>,
    allowed: Arc<Allowed>,
    state: Arc<State>,
    calls: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
    extension: Arc<Mutex<Extension>>,
}

/// The tasks of the tasks extension. The crate keeps the result of each one for as long as it may live, so two managers take
/// turns: when the newer one has [`REMEMBERED`] tasks, the older one is forgotten, and with it what only its clients could ask.
#[derive(Default)]
struct Extension {
    newer: TaskManager,
    older: TaskManager,
    in_newer: usize,
}

impl Extension {
    /// Returns the manager for a new task.
    fn for_a_new_task(&mut self) -> TaskManager {
        if self.in_newer >= REMEMBERED {
            self.older = std::mem::take(&mut self.newer);
            self.in_newer = 0;
        }
        self.in_newer += 1;
        self.newer.clone()
    }
}

/// The arguments of `verify`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VerifyArguments {
    repo: Option<String>,
    #[serde(default)]
    fresh: bool,
    wait_s: Option<u64>,
}

/// The arguments of `run` and `dry_run`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunArguments {
    repo: Option<String>,
    text: String,
    max_tokens: Option<u64>,
    max_cost: Option<Dollars>,
    wait_s: Option<u64>,
}

/// The arguments of `apply`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplyArguments {
    repo: Option<String>,
    task_id: Option<String>,
    max_tokens: Option<u64>,
    max_cost: Option<Dollars>,
    wait_s: Option<u64>,
}

/// A sum of dollars in a call: a number, since models write one.
#[derive(Debug)]
struct Dollars(Usd);

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(from)?;
        // The shortest decimal text of a float is the number that was written; it has no exponent.
        let text = match number.as_u64() {
            Some(whole) => whole.to_string(),
            None => number.as_f64().unwrap_or(f64::NAN).to_string(),
        };
        let sum = act_config::cost_limit(&text).map(Self);
        sum.ok_or_else(|| D::Error::custom(format!("`max_cost` is {}", act_config::COST_LIMIT)))
    }
}

/// The arguments of `status`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusArguments {
    repo: Option<String>,
    id: Option<String>,
    wait_s: Option<u64>,
}

/// The arguments of `logs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogsArguments {
    repo: Option<String>,
    run: Option<String>,
    step: Option<String>,
}

/// The arguments of `report`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportArguments {
    repo: Option<String>,
}

/// The arguments of `claim`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimArguments {
    repo: Option<String>,
    run: String,
}

/// The arguments of `cancel`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelArguments {
    id: String,
}

/// The answer of a call, or the job for which the call waits.
enum Call {
    Answered(CallToolResult),
    Begun(Job, Duration),
}

impl Server {
    fn new(allowed: Allowed) -> Result<Self, Failure> {
        let repos = allowed.repos.iter().map(|repo| Repo::open(repo)).collect::<Result<_, _>>()?;
        Ok(Self {
            repos: Arc::new(repos),
            state: Arc::new(State {
                jobs: Mutex::default(),
                places: Arc::new(Semaphore::new(
                    usize::try_from(allowed.max_tasks)
                        .unwrap_or(Semaphore::MAX_PERMITS)
                        .min(Semaphore::MAX_PERMITS),
                )),
            }),
            allowed: Arc::new(allowed),
            calls: Arc::new(Semaphore::new(CALLS)),
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
            extension: Arc::default(),
        })
    }

    /// Returns the root of the repository that a call names.
    fn repo(&self, named: Option<&str>) -> Result<PathBuf, Failure> {
        let all = || {
            let all: Vec<_> =
                self.repos.iter().map(|repo| repo.named.display().to_string()).collect();
            format!("this server has: {}", all.join(", "))
        };
        let is_named = |repo: &&Repo| {
            named.is_none_or(|name| {
                repo.named == Path::new(name) || repo.root.path() == Path::new(name)
            })
        };
        let mut found = self.repos.iter().filter(is_named);
        let Some(repo) = found.next() else {
            return Err(Failure::refused(
                "repo_unknown",
                "the server was not started for this repository",
            )
            .hint(all()));
        };
        if named.is_none() && found.next().is_some() {
            return Err(Failure::refused(
                "repo_needed",
                "`repo` has to name one of several repositories",
            )
            .hint(all()));
        }
        repo.root.check_not_moved().map_err(|moved: RootMoved| {
            Failure::refused(RootMoved::CODE, moved.to_string()).hint("start the server again")
        })?;
        Ok(repo.root.path().to_owned())
    }

    /// Begins the call of a tool, or answers it.
    async fn begin(&self, name: &str, arguments: JsonObject) -> Result<Call, Failure> {
        match name {
            "verify" => {
                let VerifyArguments { repo, fresh, wait_s } = parsed(arguments)?;
                let fresh = fresh.then_some("--fresh");
                let words = ["verify"].into_iter().chain(fresh);
                self.job("verify", repo, words.map(OsString::from).collect(), "", wait_s)
            }
            "run" | "dry_run" => {
                let RunArguments { repo, text, max_tokens, max_cost, wait_s } = parsed(arguments)?;
                let root = self.repo(repo.as_deref())?;
                let mut words = vec!["run".into(), "-".into()];
                words.extend(self.budget(&root, max_tokens, max_cost).await?);
                let tool = if name == "run" { "run" } else { "dry_run" };
                if tool == "dry_run" {
                    words.push("--dry-run".into());
                }
                // An empty text is refused by the command, as at the command line.
                let text = if text.is_empty() { " " } else { &text };
                self.job(tool, repo, words, text, wait_s)
            }
            "apply" => {
                let ApplyArguments { repo, task_id, max_tokens, max_cost, wait_s } =
                    parsed(arguments)?;
                let root = self.repo(repo.as_deref())?;
                let mut words = vec!["apply".into()];
                words.extend(self.budget(&root, max_tokens, max_cost).await?);
                words.extend(task_id.map(|id| word(&id)).transpose()?);
                self.job("apply", repo, words, "", wait_s)
            }
            "status" => {
                let StatusArguments { repo, id, wait_s } = parsed(arguments)?;
                let Some(id) = id else {
                    let repo = self.repo(repo.as_deref())?;
                    // Tasks in worktrees are tasks of the repository as well.
                    let words = vec!["status".into(), "--all".into()];
                    return Ok(Call::Answered(self.looked_up(&repo, words).await));
                };
                Ok(Call::Begun(self.own(&id)?, wait(wait_s)?))
            }
            "cancel" => {
                let CancelArguments { id } = parsed(arguments)?;
                let job = self.own(&id)?;
                job.cancel.cancel();
                job.wait().await;
                Ok(Call::Begun(job, Duration::ZERO))
            }
            "logs" => {
                let LogsArguments { repo, run, step } = parsed(arguments)?;
                let repo = self.repo(repo.as_deref())?;
                let mut words = vec!["logs".into(), self.run_of(&repo, run).await?.into()];
                if let Some(step) = step {
                    words.push(format!("--step={step}").into());
                }
                Ok(Call::Answered(self.looked_up(&repo, words).await))
            }
            "report" => {
                let ReportArguments { repo } = parsed(arguments)?;
                let repo = self.repo(repo.as_deref())?;
                Ok(Call::Answered(self.looked_up(&repo, vec!["report".into()]).await))
            }
            _ => {
                let ClaimArguments { repo, run } = parsed(arguments)?;
                let repo = self.repo(repo.as_deref())?;
                let run = self.run_of(&repo, Some(run)).await?;
                let words = ["audit", "export", &run, "--in-toto"].map(OsString::from);
                Ok(Call::Answered(self.looked_up(&repo, words.into()).await))
            }
        }
    }

    /// Returns a job of this server.
    fn own(&self, id: &str) -> Result<Job, Failure> {
        self.state.job(id).ok_or_else(|| {
            let hint = "ids are those that this server returned, for its last calls; `act status` shows other tasks";
            Failure::refused("id_unknown", "this server has begun nothing with this id").hint(hint)
        })
    }

    /// Returns the id of a run, if it belongs to the repository.
    async fn run_of(&self, repo: &Path, run: Option<String>) -> Result<String, Failure> {
        let repo = repo.to_owned();
        let found = tokio::task::spawn_blocking(move || act_task::run_here(&repo, run.as_deref()));
        found.await.unwrap_or_else(|error| {
            Err(Failure::refused("unexpected", format!("the lookup has failed: {error}")))
        })
    }

    /// Returns the options for the budget of a task. A call may only lower what the person or the configuration has set.
    async fn budget(
        &self,
        repo: &Path,
        tokens: Option<u64>,
        cost: Option<Dollars>,
    ) -> Result<Vec<OsString>, Failure> {
        if tokens == Some(0) {
            return Err(arguments("`max_tokens` is a whole number from 1"));
        }
        let cost = cost.map(|Dollars(sum)| sum);
        let Allowed { max_tokens, max_cost, .. } = *self.allowed;
        let (mut most_tokens, mut most_cost) = (max_tokens, max_cost);
        if tokens.is_some() && max_tokens.is_none() || cost.is_some() && max_cost.is_none() {
            let repo = repo.to_owned();
            let read = move || act_task::in_force(act_config::load(&repo)?);
            let in_force = tokio::task::spawn_blocking(read).await.map_err(|error| {
                Failure::refused("unexpected", format!("the limits could not be read: {error}"))
            })??;
            most_tokens = most_tokens.or(in_force.max_tokens());
            most_cost = most_cost.or(in_force.max_cost());
        }
        let is_raised = |wanted: Option<u64>, most: Option<u64>| {
            wanted.zip(most).is_some_and(|(wanted, most)| wanted > most)
        };
        if is_raised(tokens, most_tokens) {
            let (wanted, most) = (tokens.unwrap_or_default(), most_tokens.unwrap_or_default());
            let message = format!("`max_tokens` is {wanted}, and a task may spend {most} tokens");
            return Err(Failure::refused("budget_raised", message).hint(
                "a call may only lower the budget; whoever starts the server sets it with --max-tokens",
            ));
        }
        if is_raised(cost.map(Usd::nanos), most_cost.map(Usd::nanos)) {
            let (wanted, most) = (cost.unwrap_or_default(), most_cost.unwrap_or_default());
            let message = format!("`max_cost` is {wanted}, and a task may cost {most} dollars");
            return Err(Failure::refused("budget_raised", message).hint(
                "a call may only lower the budget; whoever starts the server sets it with --max-cost",
            ));
        }
        let mut options = vec![];
        if let Some(tokens) = tokens.or(max_tokens) {
            options.extend(["--max-tokens".into(), tokens.to_string().into()]);
        }
        if let Some(cost) = cost.or(max_cost) {
            options.extend(["--max-cost".into(), cost.to_string().into()]);
        }
        Ok(options)
    }

    fn job(
        &self,
        tool: &'static str,
        repo: Option<String>,
        words: Vec<OsString>,
        stdin: &str,
        wait_s: Option<u64>,
    ) -> Result<Call, Failure> {
        let repo = self.repo(repo.as_deref())?;
        let wait = wait(wait_s)?;
        let events = tool != "verify";
        let line = CommandLine { arguments: words, stdin: stdin.to_owned(), events };
        let job = self.state.locked().begin(tool, &repo, line, &self.state.places)?;
        Ok(Call::Begun(job, wait))
    }

    /// Runs a command that only reads, and returns its document.
    async fn looked_up(&self, repo: &Path, words: Vec<OsString>) -> CallToolResult {
        let _permit = self.lookups.acquire().await;
        let line = CommandLine { arguments: words, stdin: String::new(), events: false };
        answer::of_document(&jobs::run(repo, line, &CancellationToken::new(), None).await)
    }

    /// Waits for a job, at most as long as the call said, and tells the client what it does if the client asked for that.
    async fn followed(
        &self,
        job: &Job,
        wait: Duration,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let mut progress = job.progress.clone();
        // Each notification repeats the token, so a long one would be sent thousands of times.
        let is_short = |token: &ProgressToken| match &token.0 {
            NumberOrString::Number(_) => true,
            NumberOrString::String(text) => text.len() <= MAX_TOKEN,
        };
        let token = context.meta.get_progress_token().filter(is_short);
        let deadline = tokio::time::sleep(wait);
        tokio::pin!(deadline);
        let mut told = 0;
        loop {
            let now = progress.borrow_and_update().clone();
            if let Some(ended) = now.result {
                return answer::of(job, &ended);
            }
            if let Some(token) = token.clone().filter(|_| now.number > told) {
                told = now.number;
                let news = ProgressNotificationParam::new(token, f64::from(told));
                // A client that has gone away gets no result either.
                let _ = context.peer.notify_progress(news.with_message(now.message)).await;
            }
            tokio::select! {
                // A result that has come by the end of the wait is the answer.
                biased;
                changed = progress.changed() => if changed.is_err() {
                    return answer::of(job, &*job.wait().await);
                },
                () = &mut deadline => {
                    return answer::own(&answer::Running::of(job), false);
                }
                () = context.ct.cancelled() => {
                    return answer::own(&answer::Running::of(job), false);
                }
            }
        }
    }

    fn extension(&self) -> std::sync::MutexGuard<'_, Extension> {
        self.extension.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a task of the tasks extension.
    fn of_task<T>(
        &self,
        with: impl Fn(&TaskManager) -> Result<T, ErrorData>,
    ) -> Result<T, ErrorData> {
        let extension = self.extension();
        with(&extension.newer).or_else(|_| with(&extension.older))
    }

    /// Hands a job over to the tasks extension.
    fn as_task(&self, job: Job) -> CallToolResponse {
        let options = TaskOptions::new()
            .with_ttl_ms(TASK_TTL)
            .with_status_message(format!("{} {}", job.tool, job.id));
        let manager = self.extension().for_a_new_task();
        let task = manager.spawn(options, move |context| {
            Box::pin(async move {
                tokio::select! {
                    ended = job.result() => Ok(answer::of(&job, &ended)),
                    () = context.cancelled() => {
                        job.cancel.cancel();
                        job.wait().await;
                        Err(TaskExit::Cancelled)
                    }
                }
            })
        });
        CallToolResponse::Task(CreateTaskResult::new(task))
    }
}

/// Returns the time that a call waits.
fn wait(wait_s: Option<u64>) -> Result<Duration, Failure> {
    match wait_s.unwrap_or(WAIT_S) {
        seconds @ 0..=MAX_WAIT_S => Ok(Duration::from_secs(seconds)),
        _ => Err(arguments(&format!("`wait_s` is at most {MAX_WAIT_S}"))),
    }
}

/// Returns an argument of a command that must not be an option.
fn word(text: &str) -> Result<OsString, Failure> {
    match text.starts_with('-') {
        true => Err(arguments("an id does not begin with `-`")),
        false => Ok(text.into()),
    }
}

fn arguments(why: &str) -> Failure {
    Failure { code: "arguments_invalid", ..Failure::usage(why) }
        .hint("`tools/list` describes the arguments of each tool")
}

fn parsed<T: DeserializeOwned>(given: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(given)).map_err(|error| arguments(&error.to_string()))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tasks().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("act", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = &*request.name;
        if !self.tools().iter().any(|tool| tool.name == name) {
            return Err(ErrorData::invalid_params(
                "there is no such tool; tools/list names them",
                None,
            ));
        }
        let Ok(_permit) = self.calls.try_acquire() else {
            let message = format!("{CALLS} calls are not answered yet");
            let failure =
                Failure::refused("too_many_calls", message).hint("wait for their answers");
            return Ok(answer::refused(&failure).into());
        };
        let begun = tokio::select! {
            begun = self.begin(name, request.arguments.unwrap_or_default()) => begun,
            () = context.ct.cancelled() => return Ok(answer::refused(&cancelled()).into()),
        };
        Ok(match begun {
            Err(failure) => answer::refused(&failure).into(),
            Ok(Call::Answered(result)) => result.into(),
            Ok(Call::Begun(job, wait)) => {
                let is_new = !matches!(name, "status" | "cancel");
                let extended =
                    context.client_capabilities().is_some_and(|caps| caps.supports_tasks());
                if is_new && extended {
                    return Ok(self.as_task(job));
                }
                let result = self.followed(&job, wait, &context).await;
                // The client has no use any more for what this very call began.
                if is_new && context.ct.is_cancelled() {
                    job.cancel.cancel();
                }
                result.into()
            }
        })
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.of_task(|tasks| tasks.get_task(&request.task_id)).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // No tool asks the client for anything, so there is nothing to deliver.
        self.of_task(|tasks| tasks.get_task(&request.task_id)).map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.of_task(|tasks| tasks.cancel_task(&request.task_id))
    }
}

fn cancelled() -> Failure {
    Failure::refused("cancelled", "the client has cancelled the call")
}

const INSTRUCTIONS: &str = "\
act runs the project's own pipeline (agent.yaml) on the working tree, in a sealed container. Call `verify` before you say that \
a task is done: only the verdict PASS means that the pipeline passed, and an unchanged tree is answered at once from its last \
green run. On FAIL mend what `failing_step` and `places` name and call it again; INFRA_ERROR says nothing about the code. A \
long call returns state `running` with an id for `status`. Nothing here approves, grants or configures anything: ask the person.";

impl Server {
    /// Returns the tools that the person has allowed.
    fn tools(&self) -> Vec<Tool> {
        let repo = json!({"type": "string",
            "description": "One of the repositories that the server was started for; not needed if it is only one"});
        let wait_s = json!({"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S,
            "description": "Seconds to wait for the end, default 45; then the answer has state `running` and an id for `status`"});
        let max_tokens = json!({"type": "integer", "minimum": 1,
            "description": "A lower token budget for this task than the one in force"});
        let max_cost = json!({"type": "number", "exclusiveMinimum": 0,
            "description": "A lower limit of the cost of this task than the one in force, in US dollars"});
        let text = json!({"type": "string", "description": "The task, in free text"});
        let run = json!({"type": "string", "description": "Id of a run (run_…) or of a task (t-…) of this repository"});
        let id = json!({"type": "string", "description": "An id (j-…) that this server returned"});
        let tool = |name: &'static str,
                    about: &'static str,
                    read_only: bool,
                    needed: &[&str],
                    properties: Value| {
            let schema = json!({"type": "object", "properties": properties, "required": needed, "additionalProperties": false});
            let schema = schema.as_object().cloned().unwrap_or_default();
            let annotations =
                ToolAnnotations::new().read_only(read_only).destructive(false).open_world(false);
            Tool::new(name, about, Arc::new(schema)).annotate(annotations)
        };
        let mut tools = vec![
            tool(
                "verify",
                "Run the project's pipeline on the working tree in a sealed container and return the verdict (PASS, FAIL or \
                 INFRA_ERROR), the run id, the failing step with the places of the failures, the end of the log, digests as \
                 evidence, and warnings. Changes no source file. An unchanged tree is answered at once from its last green run.",
                true,
                &[],
                json!({"repo": repo, "wait_s": wait_s, "fresh": {"type": "boolean",
                    "description": "Run the pipeline even if the tree has not changed since its last green run"}}),
            ),
            tool(
                "status",
                "With `id`: wait for something that this server has begun, and return its result or state `running`. Without: the \
                 running, waiting and last task of the repository.",
                true,
                &[],
                json!({"repo": repo, "id": id, "wait_s": wait_s}),
            ),
            tool(
                "logs",
                "Return the log of a run, its end if it is long; of one step with `step`. Default: the last run of the repository.",
                true,
                &[],
                json!({"repo": repo, "run": run, "step": {"type": "string", "description": "Name of a step in agent.yaml"}}),
            ),
            tool(
                "report",
                "Return the report of the last task that got stuck in the repository.",
                true,
                &[],
                json!({"repo": repo}),
            ),
            tool(
                "claim",
                "Return an in-toto statement about a run with a verdict, for other tools; it is not signed.",
                true,
                &["run"],
                json!({"repo": repo, "run": run}),
            ),
            tool(
                "cancel",
                "End something that this server has begun.",
                false,
                &["id"],
                json!({"id": id}),
            ),
        ];
        if self.allowed.tasks {
            tools.push(tool(
                "run",
                "Give a task to act's own agent, which changes files of the repository until the pipeline passes. It needs a model, \
                 takes minutes and spends tokens.",
                false,
                &["text"],
                json!({"repo": repo, "text": text, "max_tokens": max_tokens, "max_cost": max_cost, "wait_s": wait_s}),
            ));
            tools.push(tool(
                "dry_run",
                "Like `run`, but change nothing and return a patch, which `apply` makes and verifies.",
                true,
                &["text"],
                json!({"repo": repo, "text": text, "max_tokens": max_tokens, "max_cost": max_cost, "wait_s": wait_s}),
            ));
            tools.push(tool(
                "apply",
                "Make the changes of a dry run, all or none, and verify them.",
                false,
                &[],
                json!({"repo": repo, "max_tokens": max_tokens, "max_cost": max_cost, "wait_s": wait_s, "task_id": {"type": "string",
                    "description": "Id of the dry run (t-…); default: the newest one of the repository"}}),
            ));
        }
        tools
    }
}
