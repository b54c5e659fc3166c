//! The methods of the protocol, one after the other, from the first message of a client to the end of its stream.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use act_core::secret::Secrets;
use act_core::{Failure, Usd};
use act_task::SessionId;

use crate::prompt;
use crate::session::{Mode, Session, is_one_of};
use crate::tasks::Tasks;
use crate::translation::{line, message};
use crate::wire::{Id, Incoming, RpcError, Wire, code, lines};

/// The version of the protocol that this program speaks.
const VERSION: u64 = 1;
/// Sessions that one client may have open. The one that was used longest ago is forgotten when there is another.
const MAX_SESSIONS: usize = 64;
/// Prompts of one client that run at the same time, in different sessions. The tasks of one repository wait for each other.
const MAX_PROMPTS: usize = 16;
/// Sessions that one list holds.
const LISTED: usize = 100;
/// Bytes of the title of a session.
const TITLE: usize = 120;
/// How long a permission waits for the person. Then it is refused, so that no task waits for a person who has gone.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long tasks may take to end after the client has gone. A task that has not ended by then is recorded by the next `act`.
const LONGEST_END: Duration = Duration::from_millis(4_500);
/// How long the last messages may take to be read.
const LONGEST_DRAIN: Duration = Duration::from_millis(400);

/// The decisions of the person who starts the program.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Roots of the only repositories that a client may name; empty for all of this user.
    pub repositories: Vec<PathBuf>,
    /// Maximum number of tokens of each task.
    pub max_tokens: Option<u64>,
    /// The most that each task may cost.
    pub max_cost: Option<Usd>,
    /// Keys that no message may hold.
    pub secrets: Secrets,
    /// How long a permission waits for the person; `None` for ten minutes.
    pub patience: Option<Duration>,
}

/// Speaks with one client until its stream ends or a signal comes. Then every task is cancelled and waited for, at most five
/// seconds.
///
/// # Errors
///
/// The threads or the signals that this needs are not available.
pub async fn serve(
    (input, output): (Box<dyn Read + Send>, Box<dyn Write + Send>),
    tasks: Arc<dyn Tasks>,
    options: Options,
) -> Result<(), Failure> {
    let unusable = |error: std::io::Error| {
        Failure::refused("no_runtime", format!("the streams cannot be served: {error}"))
            .hint("look at the limits for threads and open files (`ulimit -a`)")
    };
    let wire = Wire::new(output, options.secrets.clone()).map_err(unusable)?;
    let mut messages = lines(input).map_err(unusable)?;
    let mut signals = [SignalKind::interrupt(), SignalKind::hangup(), SignalKind::terminate()]
        .map(signal)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(unusable)?
        .into_iter();
    let (Some(mut interrupt), Some(mut hangup), Some(mut terminate)) =
        (signals.next(), signals.next(), signals.next())
    else {
        return Ok(());
    };
    let mut server = Server {
        wire,
        tasks,
        options,
        initialized: false,
        sessions: BTreeMap::new(),
        running: Arc::default(),
        prompts: JoinSet::new(),
        remarks: vec![],
    };
    loop {
        let message = tokio::select! {
            biased;
            _ = interrupt.recv() => break,
            _ = hangup.recv() => break,
            _ = terminate.recv() => match server.is_for_one_task().await {
                true => continue,
                false => break,
            },
            message = messages.recv() => message,
        };
        let Some(message) = message else { break };
        while server.prompts.try_join_next().is_some() {}
        server.handle(message).await;
        if server.wire.room().await.is_err() {
            break;
        }
    }
    server.end().await;
    Ok(())
}

/// The prompts in progress, by the ids of their requests as JSON.
type Running = Arc<Mutex<BTreeMap<String, CancellationToken>>>;

fn running(running: &Running) -> MutexGuard<'_, BTreeMap<String, CancellationToken>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Server {
    wire: Wire,
    tasks: Arc<dyn Tasks>,
    options: Options,
    initialized: bool,
    /// The sessions, and when each was used last.
    sessions: BTreeMap<SessionId, (Arc<Session>, Instant)>,
    running: Running,
    prompts: JoinSet<()>,
    /// Messages of sessions that follow the answer in progress: before it the client does not know the session.
    remarks: Vec<(Arc<Session>, String)>,
}

#[derive(Deserialize)]
struct Initialize {
    #[serde(rename = "protocolVersion")]
    _protocol_version: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    cwd: String,
    session_id: Option<String>,
    #[serde(default)]
    mcp_servers: Option<Vec<Value>>,
    #[serde(default)]
    additional_directories: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct List {
    cwd: Option<String>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfSession {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetMode {
    session_id: String,
    mode_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetOption {
    session_id: String,
    config_id: String,
    value: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prompt {
    session_id: String,
    prompt: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelRequest {
    request_id: Value,
}

fn read<'v, T: Deserialize<'v>>(params: &'v Value) -> Result<T, RpcError> {
    T::deserialize(params).map_err(|error| {
        RpcError::new(code::INVALID_PARAMS, format!("the parameters cannot be read: {error}"))
    })
}

fn refused(code: i64, failure: &Failure) -> RpcError {
    RpcError::new(code, failure.message.clone()).with(failure.code, failure.hint.as_deref())
}

impl Server {
    async fn handle(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Broken { id, error } => self.wire.answer(&id, &Err(error)),
            Incoming::Answer { id, result } => self.wire.answered(&id, result),
            Incoming::Notification { method, params } => self.notified(&method, &params),
            Incoming::Request { id, method, params } => {
                if running(&self.running).contains_key(&id.to_string()) {
                    // The answer to this id belongs to the request that runs.
                    let message =
                        format!("the id {id} belongs to a request that has no answer yet");
                    let error = RpcError::new(code::INVALID_REQUEST, message);
                    return self.wire.answer(&Value::Null, &Err(error));
                }
                if let Some(result) = self.request(&id, &method, params).await.transpose() {
                    self.wire.answer(&id, &result);
                }
                for (session, text) in self.remarks.drain(..) {
                    session.update(&message(&text));
                }
            }
        }
    }

    /// Handles a request. Returns `None` where the answer comes later.
    async fn request(
        &mut self,
        id: &Id,
        method: &str,
        params: Value,
    ) -> Result<Option<Value>, RpcError> {
        if !self.initialized && method != "initialize" {
            return Err(RpcError::new(code::INVALID_REQUEST, "the first request is `initialize`"));
        }
        Ok(Some(match method {
            "initialize" => self.initialize(&params)?,
            "session/new" => self.new_session(&params)?,
            "session/load" => self.load(&params).await?,
            "session/list" => self.list(&params).await?,
            "session/set_mode" => {
                let SetMode { session_id, mode_id } = read(&params)?;
                let session = self.session(&session_id)?;
                session.set_mode(mode(&mode_id)?);
                let options = session.options();
                session.update(
                    &json!({"sessionUpdate": "config_option_update", "configOptions": options}),
                );
                json!({})
            }
            "session/set_config_option" => {
                let SetOption { session_id, config_id, value } = read(&params)?;
                let session = self.session(&session_id)?;
                if config_id != "mode" {
                    let message = format!("there is no option {:?}", line(&config_id, TITLE));
                    return Err(RpcError::new(code::INVALID_PARAMS, message));
                }
                let mode = mode(value.as_str().unwrap_or_default())?;
                session.set_mode(mode);
                session.update(
                    &json!({"sessionUpdate": "current_mode_update", "currentModeId": mode.id()}),
                );
                json!({"configOptions": session.options()})
            }
            "session/prompt" => {
                self.prompt(id, params)?;
                return Ok(None);
            }
            method => {
                let message = format!("there is no method {:?}", line(method, TITLE));
                return Err(RpcError::new(code::UNKNOWN_METHOD, message));
            }
        }))
    }

    /// Handles a notification. An unknown one, or one that cannot be read, has no effect.
    fn notified(&mut self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                if let Ok(OfSession { session_id }) = read(params)
                    && let Ok(session) = self.session(&session_id)
                {
                    session.cancel();
                }
            }
            "$/cancel_request" => {
                if let Ok(CancelRequest { request_id }) = read(params)
                    && let Some(cancel) = running(&self.running).get(&request_id.to_string())
                {
                    cancel.cancel();
                }
            }
            _ => {}
        }
    }

    fn initialize(&mut self, params: &Value) -> Result<Value, RpcError> {
        read::<Initialize>(params)?;
        self.initialized = true;
        // A client of another protocol version continues with this version or ends the connection.
        Ok(json!({
            "protocolVersion": VERSION,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": false, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": false, "sse": false},
                "sessionCapabilities": {"list": {}},
            },
            "agentInfo": {"name": "act", "title": "AgentCommandTool", "version": env!("CARGO_PKG_VERSION")},
            "authMethods": [],
            "_meta": {"act": {
                "files": "tasks work on saved files; text in editors that is not saved is not read",
                "mcpServers": "ignored",
            }},
        }))
    }

    fn new_session(&mut self, params: &Value) -> Result<Value, RpcError> {
        let open: Open = read(params)?;
        let root = self.repository(&open.cwd)?;
        let session = self.open(SessionId::random(), root, &open);
        let mut answer = session.modes();
        if let Some(answer) = answer.as_object_mut() {
            answer.insert("sessionId".to_owned(), json!(session.id.as_str()));
        }
        Ok(answer)
    }

    async fn load(&mut self, params: &Value) -> Result<Value, RpcError> {
        let open: Open = read(params)?;
        let root = self.repository(&open.cwd)?;
        let given = open.session_id.as_deref().unwrap_or_default();
        let unknown = || {
            let message = format!("there is no session {:?}", line(given, TITLE));
            RpcError::new(code::NOT_FOUND, message).with("task_unknown", None)
        };
        let id = SessionId::parse(given).ok_or_else(unknown)?;
        if self.sessions.get(&id).is_some_and(|(session, _)| session.is_busy()) {
            return Err(busy());
        }
        let tasks = Arc::clone(&self.tasks);
        let (place, wanted) = (root.clone(), id.clone());
        let past = blocking(move || tasks.session(&place, &wanted)).await?;
        let past = past.map_err(|failure| match failure.code {
            "task_unknown" => refused(code::NOT_FOUND, &failure),
            _ => refused(code::INTERNAL, &failure),
        })?;
        let session = self.open(id, root, &open);
        // A client that has gone gets no answer.
        let _ = session.replay(past).await;
        Ok(session.modes())
    }

    async fn list(&mut self, params: &Value) -> Result<Value, RpcError> {
        let List { cwd, cursor } =
            if params.is_null() { List { cwd: None, cursor: None } } else { read(params)? };
        if cursor.is_some() {
            return Err(RpcError::new(
                code::INVALID_PARAMS,
                "the list has one page; leave out `cursor`",
            ));
        }
        let mut sessions = vec![];
        for (root, cwd) in self.places(cwd)? {
            let tasks = Arc::clone(&self.tasks);
            let found = blocking(move || tasks.sessions(&root, LISTED)).await?;
            for session in found.map_err(|failure| refused(code::INTERNAL, &failure))? {
                let title = line(session.text.trim(), TITLE);
                sessions.push(json!({"sessionId": session.id.as_str(), "cwd": cwd, "title": title,
                    "updatedAt": session.updated_at}));
            }
        }
        let time = |session: &Value| session["updatedAt"].as_str().map(str::to_owned);
        sessions.sort_by_key(|session| std::cmp::Reverse(time(session)));
        sessions.truncate(LISTED);
        Ok(json!({"sessions": sessions}))
    }

    /// Returns the repositories whose sessions a list holds, each with the directory that the client named for it: the one of the
    /// request, or without one those of the open sessions and of the working directory.
    fn places(&self, cwd: Option<String>) -> Result<BTreeMap<PathBuf, String>, RpcError> {
        if let Some(cwd) = cwd {
            return Ok([(self.repository(&cwd)?, cwd)].into());
        }
        let here = std::env::current_dir().ok().and_then(|here| here.to_str().map(str::to_owned));
        let here = here.and_then(|here| Some((self.repository(&here).ok()?, here)));
        let open = self.sessions.values();
        let open = open.map(|(session, _)| (session.root.clone(), session.cwd.clone()));
        Ok(here.into_iter().chain(open).collect())
    }

    fn prompt(&mut self, id: &Id, params: Value) -> Result<(), RpcError> {
        let Prompt { session_id, prompt } = read(&params)?;
        let session = self.session(&session_id)?;
        let text = prompt::text(prompt, &session.root)?;
        if running(&self.running).len() >= MAX_PROMPTS {
            let message = format!("{MAX_PROMPTS} prompts run already; wait for one of them to end");
            return Err(
                RpcError::new(code::INVALID_REQUEST, message).with("too_many_prompts", None)
            );
        }
        let turn = session.begin().map_err(|_| busy())?;
        running(&self.running).insert(id.to_string(), turn.token());
        let (wire, all, id) = (self.wire.clone(), Arc::clone(&self.running), id.clone());
        self.prompts.spawn(async move {
            // A fault of a task must not leave the client without an answer.
            let work = tokio::spawn(turn.run(text));
            let result = match work.await {
                Ok(reason) => Ok(json!({"stopReason": reason})),
                Err(_) => {
                    Err(RpcError::new(code::INTERNAL, "a fault of act itself; please report it"))
                }
            };
            running(&all).remove(&id.to_string());
            wire.answer(&id, &result);
        });
        Ok(())
    }

    /// Returns the repository of a directory that the client named.
    fn repository(&self, cwd: &str) -> Result<PathBuf, RpcError> {
        let invalid = |message: String| RpcError::new(code::INVALID_PARAMS, message);
        let path = Path::new(cwd);
        if !path.is_absolute() || cwd.contains('\0') {
            let message = format!("cwd is not an absolute path: {:?}", line(cwd, TITLE));
            return Err(invalid(message).with("cwd_invalid", None));
        }
        let root = self.tasks.repository(path);
        let root = root.map_err(|failure| refused(code::INVALID_PARAMS, &failure))?;
        if !is_one_of(&root, &self.options.repositories) {
            let message = format!("act was not started for the repository {}", root.display());
            let hint = "name it with --repo where the editor's settings start `act acp`";
            return Err(invalid(message).with("cwd_outside", Some(hint)));
        }
        Ok(root)
    }

    /// Opens a session. If there are too many, the session that was used least recently is closed.
    fn open(&mut self, id: SessionId, root: PathBuf, open: &Open) -> Arc<Session> {
        if self.sessions.len() >= MAX_SESSIONS {
            let idle = self.sessions.iter().filter(|(_, (session, _))| !session.is_busy());
            let oldest = idle.min_by_key(|(_, (_, used))| *used).map(|(id, _)| id.clone());
            oldest.and_then(|id| self.sessions.remove(&id));
        }
        let session = Session::new(
            (id.clone(), root, open.cwd.clone()),
            (self.wire.clone(), Arc::clone(&self.tasks)),
            (
                self.options.patience.unwrap_or(PATIENCE),
                self.options.max_tokens,
                self.options.max_cost,
            ),
        );
        let names = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
        if names(&open.mcp_servers) {
            let text = "The MCP servers of this client are not used: act has its own tools.";
            self.remarks.push((Arc::clone(&session), text.to_owned()));
        }
        if names(&open.additional_directories) {
            let text = "The additional directories of this client are not used: a session has one repository.";
            self.remarks.push((Arc::clone(&session), text.to_owned()));
        }
        self.sessions.insert(id, (Arc::clone(&session), Instant::now()));
        session
    }

    fn session(&mut self, id: &str) -> Result<Arc<Session>, RpcError> {
        let found = SessionId::parse(id).and_then(|id| self.sessions.get_mut(&id));
        let Some((session, used)) = found else {
            let message = format!("there is no open session {:?}", line(id, TITLE));
            return Err(RpcError::new(code::NOT_FOUND, message)
                .with("session_unknown", Some("open it with `session/new` or `session/load`")));
        };
        *used = Instant::now();
        Ok(Arc::clone(session))
    }

    /// Returns whether SIGTERM came from `act cancel`, which ends one task and not the program. That task finds the request in the
    /// store.
    async fn is_for_one_task(&self) -> bool {
        let sessions: Vec<_> =
            self.sessions.values().map(|(session, _)| Arc::clone(session)).collect();
        let asked = move || sessions.iter().any(|session| session.cancel_was_requested());
        blocking(asked).await.unwrap_or(false)
    }

    async fn end(mut self) {
        self.sessions.values().for_each(|(session, _)| session.cancel());
        let all = async { while self.prompts.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LONGEST_END, all).await;
        if !self.wire.is_closed() {
            self.wire.drain(LONGEST_DRAIN).await;
        }
    }
}

fn busy() -> RpcError {
    let message = "a prompt of this session has not ended";
    RpcError::new(code::INVALID_REQUEST, message)
        .with("prompt_running", Some("wait for it, or cancel it with `session/cancel`"))
}

fn mode(id: &str) -> Result<Mode, RpcError> {
    Mode::parse(id).ok_or_else(|| {
        let message =
            format!("there is no mode {:?}; there are run, dry_run and verify", line(id, TITLE));
        RpcError::new(code::INVALID_PARAMS, message)
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RpcError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| RpcError::new(code::INTERNAL, "a fault of act itself; please report it"))
}
