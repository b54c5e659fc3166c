//! The gate at the end of a turn of another agent: `act verify --hook NAME`.
//!
//! An agent calls [`hook()`] when a session begins and whenever it is about to stop. The beginning of a session is stored as
//! cheaply as possible; at a stop the pipeline decides whether the agent may stop, unless nothing has changed. What is
//! stored lies in `state/hooks/` of ARTIFACT_DIR, in files with names that are hashes, so an event names no file.
//!
//! The gate stops mistakes. An agent with the rights of the user can change its own hook, and everything here lets go rather
//! than hold an agent for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::verify::Wanted;
use crate::{failures, prepare};
use act_agent::gate_inputs::{FileChange, MAX_SCRIPT, Steps, gate_inputs_changed};
use act_config::{Config, Root};
use act_core::verification::{FailReason, Verdict, Verification};
use act_core::{Failure, terminal_text};
use act_fs::lock::{self, Kind};
use act_fs::{Dir, Durability, Sha256, check_private};
use act_records::artifacts::ArtifactDir;
use act_workspace::{
    CopySet, PathGlobs, Profile, RepoView, Slice, TreeMarks, digest, is_binary, read,
};

/// Maximum number of bytes of an event. The last message of an agent may be part of it.
pub const MAX_EVENT: u64 = 8 << 20;
/// Maximum number of bytes of a session's id that count. An id is a UUID or a short word.
const MAX_SESSION: usize = 512;
/// Maximum number of sessions whose beginning is stored, which is more than people have open.
const MAX_SESSIONS: usize = 64;
/// Age at which the record of a session is removed.
const MAX_AGE: Duration = Duration::from_hours(14 * 24);
/// Maximum number of bytes of one record.
const MAX_RECORD: u64 = 256 << 10;
/// Maximum number of bytes of the list of files of one session: about 30,000 files. A larger tree has none, and then the
/// changed gate inputs are not named.
const MAX_LIST: usize = 2 << 20;
/// Maximum number of names in `state/hooks/` that are looked at.
const MAX_NAMES: usize = 10_000;
/// Longest wait for another hook that reads or writes a record, which takes milliseconds.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Time before the end of the agent's own limit at which a pipeline is ended, so that the answer still counts.
const RESERVE: Duration = Duration::from_secs(10);
/// Two ticks of the slowest usual clock of Linux (100 Hz). A file that changed that long ago has another mark when it changes
/// again.
const TICKS: Duration = Duration::from_millis(20);
/// Age at which blocks without a session id are forgotten, because their session is unknown.
const UNKNOWN_SESSION: Duration = Duration::from_hours(1);
/// Maximum number of places, and of changed files of each kind, that an answer names.
const NAMED: usize = 8;
/// Maximum number of bytes of the end of a log in an answer.
const TAIL: usize = 2 << 10;
/// Pause between two looks whether another verification of the repository has ended.
const PAUSE: Duration = Duration::from_millis(500);

/// An agent that can call the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HookAgent {
    Claude,
    Codex,
    Copilot,
    Gemini,
    Cursor,
    Opencode,
}

impl HookAgent {
    pub const ALL: [Self; 6] =
        [Self::Claude, Self::Codex, Self::Copilot, Self::Gemini, Self::Cursor, Self::Opencode];

    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Copilot => "copilot",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor",
            Self::Opencode => "opencode",
        }
    }

    /// The name of the product.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Copilot => "GitHub Copilot CLI",
            Self::Gemini => "Gemini CLI",
            Self::Cursor => "Cursor",
            Self::Opencode => "opencode",
        }
    }

    /// The time after which the agent ends a hook that has no limit of its own, by the agent's documentation.
    pub fn usual_limit(self) -> Duration {
        match self {
            Self::Claude | Self::Codex => Duration::from_secs(600),
            Self::Copilot => Duration::from_secs(30),
            Self::Gemini | Self::Cursor => Duration::from_secs(60),
            // The plugin that act writes has none.
            Self::Opencode => Duration::from_secs(3600),
        }
    }

    /// The variable with which the agent tells its hooks the directory of the project. An agent changes its working directory,
    /// and this variable does not follow.
    pub fn project_variable(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("CLAUDE_PROJECT_DIR"),
            Self::Gemini => Some("GEMINI_PROJECT_DIR"),
            Self::Cursor => Some("CURSOR_PROJECT_DIR"),
            Self::Codex | Self::Copilot | Self::Opencode => None,
        }
    }
}

/// What an agent called the gate with.
#[derive(Debug, Clone)]
pub struct HookArgs {
    pub agent: HookAgent,
    /// The repository, or a directory in it.
    pub repo: PathBuf,
    /// The number of blocks in a row after which the agent is let go.
    pub max_blocks: u32,
    /// The agent's own limit for its hook.
    pub limit: Duration,
    /// When the agent started the hook.
    pub started: Instant,
    /// The event on standard input; `None` if there was none, or if it was too large.
    pub event: Option<Vec<u8>>,
    /// The settings files of the agent: in the project, relative to its root, and elsewhere.
    pub settings: Vec<PathBuf>,
}

/// The answer to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// The agent may stop.
    Go,
    /// The agent may stop, and the user reads this.
    Tell(String),
    /// The agent continues with this text as its next instruction.
    Block(String),
}

impl HookAnswer {
    /// Returns the document that the agent expects on standard output.
    pub fn document(&self, agent: HookAgent) -> Value {
        use HookAgent::{Claude, Codex, Copilot, Cursor, Gemini, Opencode};
        match (self, agent) {
            (Self::Go, _) => json!({}),
            (Self::Block(reason), Claude | Codex | Copilot) => {
                json!({"decision": "block", "reason": reason})
            }
            (Self::Block(reason), Gemini) => json!({"decision": "deny", "reason": reason}),
            // Neither can be held; the text becomes the next message.
            (Self::Block(reason), Cursor) => json!({"followup_message": reason}),
            (Self::Block(reason), Opencode) => json!({"message": reason}),
            (Self::Tell(text), Claude | Codex | Gemini) => json!({"systemMessage": text}),
            (Self::Tell(text), Opencode) => json!({"notice": text}),
            // Neither shows a text of a hook that lets go; it is on standard error.
            (Self::Tell(_), Copilot | Cursor) => json!({}),
        }
    }

    /// Returns the text for the user where the agent has no place for it.
    pub fn on_stderr(&self, agent: HookAgent) -> Option<&str> {
        match self {
            Self::Tell(text) if matches!(agent, HookAgent::Copilot | HookAgent::Cursor) => {
                Some(text)
            }
            _ => None,
        }
    }
}

/// Answers one event of an agent. It never fails: after an error the agent may end its turn and is given the reason.
pub async fn hook(args: HookArgs) -> HookAnswer {
    match answered(&args).await {
        Ok(answer) => answer,
        Err(failure) => {
            let hint = failure.hint.map_or_else(String::new, |hint| format!("; {hint}"));
            not_verified(&format!("{}{hint}", failure.message))
        }
    }
}

fn not_verified(why: &str) -> HookAnswer {
    HookAnswer::Tell(format!("act: not verified: {}", terminal_text::line(why)))
}

async fn answered(args: &HookArgs) -> Result<HookAnswer, Failure> {
    let Some(root) = act_config::find_root(&args.repo)? else { return Ok(HookAnswer::Go) };
    let event = Event::of(args.event.as_deref().unwrap_or_default());
    let session = Session::new(args.agent, &root.path, event.session.as_deref());
    if !root.has_config && !has_state() {
        return Ok(HookAnswer::Go);
    }
    let artifacts = prepare::artifacts(&root.path)?;
    let state = HookState::open(&artifacts)?;
    if state.is_off(&root.path)? {
        return Ok(HookAnswer::Go);
    }
    if event.begins {
        if root.has_config {
            begin(args, &root, &session, &state)?;
        }
        return Ok(HookAnswer::Go);
    }
    let record = state.record(&session)?;
    if !root.has_config {
        // Without the record this project never had a gate.
        return match record.filter(|_| event.session.is_some()) {
            Some(_) => blocked(args, &state, &session, None, || {
                "agent.yaml is gone, and it was there when this session began. It names the project's checks: restore it."
                    .to_owned()
            }),
            None => Ok(HookAnswer::Go),
        };
    }
    let config = match act_config::load(&root.path) {
        Ok(config) => config,
        Err(error) => {
            return blocked(args, &state, &session, None, || {
                let error = error.to_string();
                format!("the project's checks cannot run: {}", terminal_text::line(&error))
            });
        }
    };
    let marks = marks(&config)?;
    if let Some(record) = &record
        && event.session.is_some()
        && record.settled.is_some()
        && record.settled == marks.settled
    {
        return Ok(match &record.let_go {
            Some(run) => {
                HookAnswer::Tell(format!("act: nothing has changed since {run}, which is red"))
            }
            None => HookAnswer::Go,
        });
    }
    let verification = match verified(args, &config).await? {
        Gate::Ended(verification) => *verification,
        Gate::TooSlow(waited) => {
            return Ok(not_verified(&format!(
                "too slow: the pipeline had not ended {} s after the hook began, {} s before the limit of the hook; run \
                 `act verify`, or `act init --for {}` again, which sets the limit by the pipeline",
                waited.as_secs(),
                RESERVE.as_secs(),
                args.agent.word()
            )));
        }
        Gate::Cancelled => return Ok(not_verified("cancelled")),
    };
    match &verification.verdict {
        Verdict::Pass => {
            state.change(&session, |record| {
                record.blocks = 0;
                record.let_go = None;
                record.settled = marks.settled.clone();
            })?;
            Ok(green(&verification))
        }
        Verdict::Infra(error) => Ok(not_verified(&error.to_string())),
        Verdict::Fail(_) => blocked(args, &state, &session, Some((&verification, &marks)), || {
            red(
                &verification,
                &config,
                &artifacts,
                &marks,
                &changed(args, &config, &state, &session, &marks),
            )
        }),
    }
}

/// Lets the agent go. A green run that proves less than it seems is worth a word to the user.
fn green(verification: &Verification) -> HookAnswer {
    let weak = verification.warnings.iter().filter(|warning| warning.code.lessens_verdict());
    let weak: Vec<_> = weak.map(|warning| warning.message.as_str()).take(NAMED).collect();
    if weak.is_empty() {
        return HookAnswer::Go;
    }
    let run = verification.run_id.as_ref().map(ToString::to_string).unwrap_or_default();
    let weak = weak.join("; ");
    HookAnswer::Tell(format!("act: green, {run}, but {}", terminal_text::line(&weak)))
}

/// Returns whether the gate was turned off in a repository. Nothing is created.
///
/// # Errors
///
/// What is stored cannot be used.
pub fn hooks_are_off(root: &Path) -> Result<bool, Failure> {
    let path =
        ArtifactDir::locate(std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME"))?;
    let Some(state) = ArtifactDir::inspect(&path, Some(root))? else { return Ok(false) };
    let dir = state.existing_subdirectory("hooks").map_err(|error| unusable(&error))?;
    let Some(dir) = dir else { return Ok(false) };
    check_private(&dir).map_err(|error| unusable(&error))?;
    HookState { dir }.is_off(root)
}

/// Returns whether ARTIFACT_DIR exists, so that a hook in a directory without a gate creates nothing.
fn has_state() -> bool {
    let path =
        ArtifactDir::locate(std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME"));
    path.is_ok_and(|path| path.join("state/hooks").is_dir())
}

/// Stores the beginning of a session, unless it is known.
fn begin(
    args: &HookArgs,
    root: &Root,
    session: &Session,
    state: &HookState,
) -> Result<(), Failure> {
    // A gate that cannot be loaded is reported when the agent stops.
    let Ok(config) = act_config::load(&root.path) else { return Ok(()) };
    if session.unknown || state.record(session)?.is_some() {
        return Ok(());
    }
    let marks = marks(&config)?;
    let settings = settings_digests(args, &root.path);
    state.create(session, &marks, settings)
}

/// Blocks, or lets go after so many blocks in a row.
fn blocked(
    args: &HookArgs,
    state: &HookState,
    session: &Session,
    run: Option<(&Verification, &Marks)>,
    reason: impl FnOnce() -> String,
) -> Result<HookAnswer, Failure> {
    let id =
        run.and_then(|(verification, _)| verification.run_id.as_ref()).map(ToString::to_string);
    let record = state.change(session, |record| {
        if session.unknown && record.age() > UNKNOWN_SESSION {
            record.blocks = 0;
        }
        record.blocks = record.blocks.saturating_add(1);
        record.let_go = None;
        record.settled = None;
        if record.blocks > args.max_blocks {
            record.blocks = 0;
            record.let_go = id.clone().or_else(|| Some("no run".to_owned()));
            record.settled = run.and_then(|(_, marks)| marks.settled.clone());
        }
    })?;
    if record.let_go.is_some() {
        let run = id.map_or_else(String::new, |id| format!(", {id}"));
        let times = args.max_blocks;
        return Ok(HookAnswer::Tell(format!("act: still red after {times}{run}")));
    }
    let (at, most) = (record.blocks, args.max_blocks);
    Ok(HookAnswer::Block(format!("{}\n(block {at} of {most})", reason())))
}

/// The end of the gate.
enum Gate {
    Ended(Box<Verification>),
    TooSlow(Duration),
    Cancelled,
}

/// Runs the pipeline until shortly before the agent ends its hook. Another run in the repository is waited for.
async fn verified(args: &HookArgs, config: &Config) -> Result<Gate, Failure> {
    let end = args.limit.saturating_sub(RESERVE);
    let left = || end.saturating_sub(args.started.elapsed());
    let by_signal = crate::run::cancelled_by_signals()?;
    loop {
        let cancel = by_signal.child_token();
        let work = crate::verify::verify_for(&config.root, Wanted::default(), vec![], &cancel);
        tokio::pin!(work);
        let (ended, late) = tokio::select! {
            ended = &mut work => (ended, false),
            () = tokio::time::sleep(left()) => {
                cancel.cancel();
                // The container is removed before this returns.
                (work.await, true)
            }
        };
        return match ended {
            Ok(Some(verification)) => Ok(Gate::Ended(Box::new(verification))),
            Ok(None) if late => Ok(Gate::TooSlow(args.started.elapsed())),
            Ok(None) => Ok(Gate::Cancelled),
            Err(failure) if failure.code == "task_running" && left() > PAUSE => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(failure) => Err(failure),
        };
    }
}

/// The marks of the tree.
struct Marks {
    tree: TreeMarks,
    /// The digest, unless a file changed so recently that it could change again without another mark.
    settled: Option<String>,
}

fn marks(config: &Config) -> Result<Marks, Failure> {
    let unreadable = |why: String| {
        Failure::refused("repository_unusable", format!("the tree cannot be read: {why}"))
    };
    let include =
        PathGlobs::new(&config.pipeline.include).map_err(|error| unreadable(error.to_string()))?;
    let tree = || CopySet::of(&config.root, &include).map(|set| set.marks());
    let mut now = tree().map_err(|error| unreadable(error.to_string()))?;
    if !is_old(&now) {
        std::thread::sleep(TICKS);
        now = tree().map_err(|error| unreadable(error.to_string()))?;
    }
    let settled = is_old(&now).then(|| now.digest.clone());
    Ok(Marks { tree: now, settled })
}

fn is_old(marks: &TreeMarks) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
    let ticks = i128::try_from(TICKS.as_nanos()).unwrap_or_default();
    marks.newest.is_none_or(|newest| newest <= now - ticks)
}

/// What counts of an event.
#[derive(Debug, Default, PartialEq, Eq)]
struct Event {
    session: Option<String>,
    /// The session begins; otherwise the agent is about to stop.
    begins: bool,
}

impl Event {
    /// Reads an event, which any program may have written. What cannot be read is an agent that is about to stop.
    fn of(bytes: &[u8]) -> Self {
        // Cursor on Windows writes a mark of the byte order.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let Ok(Value::Object(event)) = serde_json::from_slice(bytes) else {
            return Self::default();
        };
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        let names = ["session_id", "sessionId", "conversation_id"];
        let session = names.into_iter().find_map(text).filter(|id| !id.trim().is_empty());
        let name = text("hook_event_name").or_else(|| text("hookEventName"));
        let begins = match name {
            Some(name) => name.eq_ignore_ascii_case("sessionstart"),
            // Events of Copilot have no name; only the one of a beginning session says how it began.
            None => event.contains_key("source") && !event.contains_key("stopReason"),
        };
        let cut = |id: &str| id.get(..id.floor_char_boundary(MAX_SESSION)).map(str::to_owned);
        Self { session: session.and_then(cut), begins }
    }
}

/// Names the record of one session of one agent in one repository.
struct Session {
    name: String,
    agent: HookAgent,
    root: String,
    /// The event has no session id, so the record is that of every such session.
    unknown: bool,
}

impl Session {
    fn new(agent: HookAgent, root: &Path, id: Option<&str>) -> Self {
        let root = root.display().to_string();
        let whole = format!("{}\0{root}\0{}", agent.word(), id.unwrap_or_default());
        Self { name: hashed("s-", &whole), agent, root, unknown: id.is_none() }
    }

    fn list(&self) -> String {
        format!("{}.list", self.name)
    }
}

/// Returns a file name that says nothing and is as long as any other.
fn hashed(kind: &str, text: &str) -> String {
    let digest = act_fs::hex(Sha256::of(text.as_bytes()).as_bytes());
    format!("{kind}{}", digest.get(..32).unwrap_or_default())
}

/// The record of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    v: u32,
    agent: HookAgent,
    root: String,
    /// Seconds since 1970 of the last change.
    at: u64,
    /// Blocks in a row.
    blocks: u32,
    /// The marks of the trees that need no run: the tree at the beginning of the session, and the tree that was judged last.
    settled: Option<String>,
    /// The red run with which the agent was let go.
    let_go: Option<String>,
    /// The digests of the agent's settings files when the session began.
    settings: BTreeMap<String, String>,
}

impl Record {
    fn new(session: &Session) -> Self {
        let (agent, root) = (session.agent, session.root.clone());
        let settings = BTreeMap::new();
        Self { v: 1, agent, root, at: seconds(), blocks: 0, settled: None, let_go: None, settings }
    }

    fn age(&self) -> Duration {
        Duration::from_secs(seconds().saturating_sub(self.at))
    }
}

fn seconds() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_secs()
}

/// `state/hooks/` of ARTIFACT_DIR: what the gate knows of sessions, which repositories it is off in, and what
/// `act init --for` wrote. Only this type reads and writes there.
pub struct HookState {
    dir: Dir,
}

/// The file with what `act init --for` wrote.
const INSTALLED: &str = "installed.json";
/// Maximum number of bytes of that file.
const MAX_INSTALLED: u64 = 4 << 20;

impl HookState {
    /// Opens the directory, and creates it when it is missing.
    ///
    /// # Errors
    ///
    /// It belongs to another user, others can read it, a link is in its place, or it cannot be created (`hook_state`).
    pub fn open(artifacts: &ArtifactDir) -> Result<Self, Failure> {
        let dir = artifacts.state().and_then(|state| state.private_subdirectory("hooks"));
        let dir = dir.and_then(|dir| check_private(&dir).map(|_| dir));
        Ok(Self { dir: dir.map_err(|error| unusable(&error))? })
    }

    /// Opens the directory of the user's ARTIFACT_DIR.
    ///
    /// # Errors
    ///
    /// ARTIFACT_DIR cannot be used, or the errors of [`HookState::open`].
    pub fn of_user(root: Option<&Path>) -> Result<Self, Failure> {
        let artifacts = prepare::artifacts_for(root)?;
        Self::open(&artifacts)
    }

    /// Returns whether the gate is off in a repository.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn is_off(&self, root: &Path) -> Result<bool, Failure> {
        self.dir.contains(&*off_name(root)).map_err(|error| unusable(&error))
    }

    /// Turns the gate off or on in a repository. Returns whether that changed anything.
    ///
    /// # Errors
    ///
    /// The directory cannot be written.
    pub fn set_off(&self, root: &Path, off: bool) -> Result<bool, Failure> {
        let name = off_name(root);
        let was = self.is_off(root)?;
        let done = match off {
            true => {
                let text = format!("{}\n", root.display());
                self.dir.replace(&name, text.as_bytes(), Durability::Contents)
            }
            false => self.dir.remove_file(&*name),
        };
        done.map_err(|error| unusable(&error))?;
        Ok(was != off)
    }

    /// Reads what `act init --for` wrote, changes it, and stores it again. No other process does so meanwhile.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or the errors of `change`.
    pub fn with_installed<T>(
        &self,
        change: impl FnOnce(&mut Vec<Value>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let _lock = self.lock()?;
        let bytes =
            self.dir.read_existing(INSTALLED, MAX_INSTALLED).map_err(|error| unusable(&error))?;
        // A file that is not ours any more knows of nothing, and then nothing is removed.
        let mut all: Vec<Value> =
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let before = all.clone();
        // What was written before a failure is written.
        let result = change(&mut all);
        if all != before {
            let bytes = serde_json::to_vec(&all).unwrap_or_default();
            let stored = self.dir.replace(INSTALLED, &bytes, Durability::Contents);
            stored.map_err(|error| unusable(&error))?;
        }
        result
    }

    fn lock(&self) -> Result<Dir, Failure> {
        let handle = self.dir.reopen().map_err(|error| unusable(&error))?;
        match lock::wait(&handle, Kind::Exclusive, LONGEST_WAIT) {
            Ok(true) => Ok(handle),
            Ok(false) => {
                Err(Failure::refused("hook_state", "another process holds the lock on state/hooks"))
            }
            Err(error) => Err(unusable(&error)),
        }
    }

    /// Returns the record of a session. One that cannot be parsed is as good as none.
    fn record(&self, session: &Session) -> Result<Option<Record>, Failure> {
        let bytes = self.dir.read_existing(&*session.name, MAX_RECORD);
        let bytes = bytes.map_err(|error| unusable(&error))?;
        let record: Option<Record> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let fits = |record: &Record| {
            record.v == 1 && record.agent == session.agent && record.root == session.root
        };
        Ok(record.filter(fits).filter(|record| record.age() < MAX_AGE))
    }

    /// Changes the record of a session, which is new if there was none, and returns it.
    fn change(
        &self,
        session: &Session,
        change: impl FnOnce(&mut Record),
    ) -> Result<Record, Failure> {
        let _lock = self.lock()?;
        let found = self.record(session)?;
        if found.is_none() {
            self.make_room()?;
        }
        let mut record = found.unwrap_or_else(|| Record::new(session));
        change(&mut record);
        record.at = seconds();
        self.store(session, &record)?;
        Ok(record)
    }

    fn store(&self, session: &Session, record: &Record) -> Result<(), Failure> {
        let bytes = serde_json::to_vec(record).unwrap_or_default();
        let stored = self.dir.replace(&session.name, &bytes, Durability::Unsynced);
        stored.map_err(|error| unusable(&error))
    }

    /// Stores the beginning of a session: its record, and the list of its files for the names of those that change.
    fn create(
        &self,
        session: &Session,
        marks: &Marks,
        settings: BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let _lock = self.lock()?;
        if self.record(session)?.is_some() {
            return Ok(());
        }
        self.make_room()?;
        if let Some(list) = list(&marks.tree) {
            let stored = self.dir.replace(&session.list(), &list, Durability::Unsynced);
            stored.map_err(|error| unusable(&error))?;
        }
        let settled = marks.settled.clone();
        self.store(session, &Record { settled, settings, ..Record::new(session) })
    }

    /// Removes the records of old sessions, and the oldest ones of more than [`MAX_SESSIONS`].
    fn make_room(&self) -> Result<(), Failure> {
        let names = self.dir.names(MAX_NAMES).map_err(|error| unusable(&error))?;
        let mut found: Vec<_> = names
            .iter()
            .filter_map(|name| name.to_str().ok())
            .filter(|name| name.starts_with("s-") || name.starts_with(".s-"))
            .filter_map(|name| Some((self.dir.stat(name).ok()?.st_mtime, name)))
            .collect();
        found.sort_unstable();
        let oldest = i64::try_from(seconds().saturating_sub(MAX_AGE.as_secs())).unwrap_or(i64::MAX);
        let records = found.iter().filter(|(_, name)| !name.contains('.')).count();
        let mut more = (records + 1).saturating_sub(MAX_SESSIONS);
        for (time, name) in found {
            let record = !name.contains('.');
            if time >= oldest && !(record && more > 0) {
                continue;
            }
            more -= usize::from(record && more > 0);
            for name in [name.to_owned(), format!("{name}.list")] {
                self.dir.remove_file(&*name).map_err(|error| unusable(&error))?;
            }
        }
        Ok(())
    }

    /// Returns the marks of the files when the session began, if they are stored.
    fn files(&self, session: &Session) -> Option<HashMap<String, String>> {
        let bytes = self.dir.read_existing(&*session.list(), MAX_LIST as u64).ok()??;
        let text = String::from_utf8(bytes).ok()?;
        let mut parts = text.split('\0');
        let mut files = HashMap::new();
        while let (Some(mark), Some(path)) = (parts.next(), parts.next()) {
            files.insert(path.to_owned(), mark.to_owned());
        }
        Some(files)
    }
}

fn off_name(root: &Path) -> String {
    hashed("off-", &root.display().to_string())
}

fn unusable(error: &io::Error) -> Failure {
    Failure::refused("hook_state", format!("state/hooks in ARTIFACT_DIR cannot be used: {error}")).hint(
        "it must be a directory of yours that others cannot read; `act doctor` shows where ARTIFACT_DIR is",
    )
}

/// Returns mark and path of each file, each with a NUL at its end; `None` for a tree with too many.
fn list(marks: &TreeMarks) -> Option<Vec<u8>> {
    let mut list = vec![];
    for (path, mark) in &marks.files {
        // A path that is not UTF-8 cannot be named in an answer either.
        let Some(path) = path.to_str() else { continue };
        list.extend([mark.as_bytes(), b"\0", path.as_bytes(), b"\0"].concat());
        if list.len() > MAX_LIST {
            return None;
        }
    }
    Some(list)
}

/// Returns the digests of the agent's settings files, by the path that an answer names.
fn settings_digests(args: &HookArgs, root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for path in &args.settings {
        let file = root.join(path);
        let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else { continue };
        let bytes = Dir::open_following(dir).and_then(|dir| dir.read(name, MAX_SETTINGS));
        let state = match bytes {
            Ok(bytes) => digest(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => "unreadable".to_owned(),
        };
        found.insert(path.display().to_string(), state);
    }
    found
}

/// Maximum number of bytes of a settings file that is compared.
const MAX_SETTINGS: u64 = 4 << 20;

/// What changed since the session began, beside the work itself.
#[derive(Debug, Default)]
struct Changed {
    gate_inputs: Vec<String>,
    settings: Vec<String>,
}

fn changed(
    args: &HookArgs,
    config: &Config,
    state: &HookState,
    session: &Session,
    marks: &Marks,
) -> Changed {
    let mut changed = Changed::default();
    if let Ok(Some(record)) = state.record(session)
        && !session.unknown
        && record.settings != settings_digests(args, &config.root)
    {
        let now = settings_digests(args, &config.root);
        let all = record.settings.keys().chain(now.keys());
        let differs = |name: &&String| record.settings.get(*name) != now.get(*name);
        let names: BTreeSet<_> = all.filter(differs).collect();
        changed.settings = names.into_iter().cloned().collect();
    }
    let Some(before) = state.files(session) else { return changed };
    let now: HashMap<&str, &str> = marks
        .tree
        .files
        .iter()
        .filter_map(|(path, mark)| Some((path.to_str()?, mark.as_str())))
        .collect();
    let mut paths: Vec<&str> = now.keys().copied().collect();
    paths.extend(before.keys().map(String::as_str).filter(|path| !now.contains_key(path)));
    paths.sort_unstable();
    let changes: Vec<_> = paths
        .into_iter()
        .map(|path| FileChange {
            path,
            sha256_before: before.get(path).map(String::as_str),
            sha256_now: now.get(path).copied(),
            text_before: None,
            text_now: None,
        })
        .filter(|change| change.sha256_before != change.sha256_now)
        .collect();
    let commands: Vec<_> = config.pipeline.all_steps().map(|step| step.command.as_str()).collect();
    let Ok(view) = RepoView::open(&config.root, Profile::Tool) else { return changed };
    let look = |path: &str| {
        let want = Slice { path: path.to_owned(), length: Some(MAX_SCRIPT), ..Slice::default() };
        let chunk = read(&view, &want, None).ok()?;
        let text = String::from_utf8_lossy(&chunk.bytes).into_owned();
        (!is_binary(&chunk.bytes)).then_some((chunk.path, text))
    };
    let package = config.monorepo_package.as_deref();
    let steps = Steps { commands: &commands, package, look: &look };
    for input in gate_inputs_changed(&changes, &steps, &[]) {
        if !changed.gate_inputs.contains(&input.path) {
            changed.gate_inputs.push(input.path);
        }
    }
    changed
}

/// Describes a red run for the agent that has to mend it.
fn red(
    verification: &Verification,
    config: &Config,
    artifacts: &Arc<ArtifactDir>,
    marks: &Marks,
    changed: &Changed,
) -> String {
    let run = verification.run_id.as_ref().map(ToString::to_string).unwrap_or_default();
    let step = verification.failing_step().map(|step| step.name.as_str());
    let reason = verification.verdict.fail_reason().map_or("", FailReason::as_str);
    let mut text = match step {
        Some(step) => {
            format!("The project's checks are red: step {step:?} failed ({reason}), {run}.")
        }
        None => format!("The project's checks are red ({reason}), {run}."),
    };
    let tail = verification.tail.as_deref().unwrap_or_default();
    let known: HashSet<&Path> = marks.tree.files.iter().map(|(file, _)| file.as_path()).collect();
    let (failures, more) = failures::of_step(
        artifacts,
        (&run, step, tail),
        config.monorepo_package.as_deref(),
        &|path| known.contains(path),
    );
    for failure in failures.iter().take(NAMED) {
        text.push_str(&format!("\n- {}", failure.line()));
    }
    let more = more + failures.len().saturating_sub(NAMED);
    if more > 0 {
        text.push_str(&format!("\n- and {more} more"));
    }
    if failures.is_empty() && !tail.trim().is_empty() {
        let tail = tail.trim_end();
        let from = tail.ceil_char_boundary(tail.len().saturating_sub(TAIL));
        text.push_str(&format!("\n{}", tail.get(from..).unwrap_or_default()));
    }
    for (what, names) in [
        ("Changed since the session began, and the checks depend on it", &changed.gate_inputs),
        ("Changed since the session began: settings of this agent", &changed.settings),
    ] {
        if !names.is_empty() {
            let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            text.push_str(&format!("\n{what}: {shown}{more}"));
        }
    }
    text.push_str(&format!(
        "\nMend the cause, not the checks; `act logs {run}` shows the whole output. The checks run again when you stop."
    ));
    terminal_text::block(&text).into_owned()
}
