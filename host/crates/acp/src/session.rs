//! One session: a repository, a mode, and the tasks that its prompts ask for, one at a time.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use act_core::consent::{Answer, Consent};
use act_core::event::{Event, EventKind, NoticeLevel, Sink};
use act_core::verification::{Verdict, Verification};
use act_core::{Failure, Usd};
use act_task::{ApplyArgs, Client, Mode as TaskMode, PastTask, Place, RunArgs, SessionId};

use crate::tasks::Tasks;
use crate::translation::{self, Ended, Proposed, Translation, block, fenced, message, thought};
use crate::wire::{Gone, Wire};

/// Bytes of a log that a failed verification shows.
const TAIL: usize = 4 * 1024;
/// After `act cancel` has asked for the end of a task, its signal comes within this time.
const SIGNAL_COMES: Duration = Duration::from_secs(2);

/// The work that a prompt of the session starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Run,
    DryRun,
    Verify,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Run, Self::DryRun, Self::Verify];

    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::DryRun => "dry_run",
            Self::Verify => "verify",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Run => "Run",
            Self::DryRun => "Dry run",
            Self::Verify => "Verify",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Run => "Change the files until the pipeline passes",
            Self::DryRun => "Propose changes, ask, and only then change the files and verify them",
            Self::Verify => "Run the pipeline on the files as they are, without a model",
        }
    }

    pub(crate) fn parse(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.id() == id)
    }
}

/// A session and what it shares with the task that runs in it.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) root: PathBuf,
    /// The directory that the client named.
    pub(crate) cwd: String,
    wire: Wire,
    tasks: Arc<dyn Tasks>,
    /// How long a question to the person waits for its answer.
    patience: Duration,
    max_tokens: Option<u64>,
    max_cost: Option<Usd>,
    translation: Arc<Mutex<Translation>>,
    state: Mutex<State>,
}

struct State {
    mode: Mode,
    /// Cancels the prompt in progress.
    prompt: Option<CancellationToken>,
    /// The task in progress or the last one, and when it ended.
    task: Option<(String, Option<Instant>)>,
}

/// A prompt runs in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

/// The prompt in progress. The session is free again when this is dropped.
pub(crate) struct Turn {
    session: Arc<Session>,
    cancel: CancellationToken,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.session.state().prompt = None;
    }
}

impl Session {
    pub(crate) fn new(
        (id, root, cwd): (SessionId, PathBuf, String),
        (wire, tasks): (Wire, Arc<dyn Tasks>),
        (patience, max_tokens, max_cost): (Duration, Option<u64>, Option<Usd>),
    ) -> Arc<Self> {
        let budget = max_tokens.or_else(|| tasks.token_budget(&root));
        let translation = Arc::new(Mutex::new(Translation::new(&root, budget)));
        let state = Mutex::new(State { mode: Mode::Run, prompt: None, task: None });
        Arc::new(Self {
            id,
            root,
            cwd,
            wire,
            tasks,
            patience,
            max_tokens,
            max_cost,
            translation,
            state,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn translation(&self) -> MutexGuard<'_, Translation> {
        self.translation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.state().mode = mode;
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.state().prompt.is_some()
    }

    /// Cancels the prompt in progress, if there is one.
    pub(crate) fn cancel(&self) {
        if let Some(cancel) = &self.state().prompt {
            cancel.cancel();
        }
    }

    /// Returns whether `act cancel` has just been called for the task of this session.
    pub(crate) fn cancel_was_requested(&self) -> bool {
        let recent =
            |ended: Option<Instant>| ended.is_none_or(|ended| ended.elapsed() < SIGNAL_COMES);
        let task = self.state().task.clone().filter(|(_, ended)| recent(*ended));
        task.is_some_and(|(task_id, _)| self.tasks.cancel_was_requested(&self.root, &task_id))
    }

    /// Returns the modes as fields of the answer that opens a session: once as modes, which older clients read, and once as an
    /// option, which newer ones read.
    pub(crate) fn modes(&self) -> Value {
        let mode =
            |mode: Mode| json!({"id": mode.id(), "name": mode.name(), "description": mode.about()});
        let all: Vec<_> = Mode::ALL.into_iter().map(mode).collect();
        json!({
            "modes": {"currentModeId": self.state().mode.id(), "availableModes": all},
            "configOptions": self.options(),
        })
    }

    /// Returns the options of the session; the mode is the only one.
    pub(crate) fn options(&self) -> Value {
        let value = |mode: Mode| json!({"value": mode.id(), "name": mode.name(), "description": mode.about()});
        let all: Vec<_> = Mode::ALL.into_iter().map(value).collect();
        json!([{"type": "select", "id": "mode", "name": "Mode", "category": "mode",
            "description": "What a prompt starts", "currentValue": self.state().mode.id(), "options": all}])
    }

    pub(crate) fn update(&self, update: &Value) {
        self.wire.update(self.id.as_str(), update);
    }

    /// Begins a prompt.
    ///
    /// # Errors
    ///
    /// Another prompt of the session has not ended.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Turn, Busy> {
        let mut state = self.state();
        if state.prompt.is_some() {
            return Err(Busy);
        }
        let cancel = CancellationToken::new();
        state.prompt = Some(cancel.clone());
        Ok(Turn { session: Arc::clone(self), cancel })
    }

    /// Sends what happened in earlier tasks of the session, as it was sent while they ran.
    ///
    /// # Errors
    ///
    /// The client does not read any more.
    pub(crate) async fn replay(&self, past: Vec<PastTask>) -> Result<(), Gone> {
        for task in past {
            self.translation().begin();
            if task.is_cut {
                self.translation().cost_is_unknown();
            }
            self.update(&translation::user_message(&task.text));
            for line in task.lines {
                let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
                let updates = self.translation().event(&event);
                updates.iter().for_each(|update| self.update(update));
                self.wire.room_for_updates().await?;
            }
            if task.is_cut {
                self.update(&thought(
                    "(The journal of this task is gone, or only its beginning is shown.)",
                ));
            }
            if !task.state.is_final() {
                let said = format!("**{}**: {} has not ended.", task.state.as_str(), task.task_id);
                self.update(&message(&said));
            }
        }
        self.translation().begin();
        Ok(())
    }
}

impl Turn {
    /// Cancels the prompt when the client asks for it by the id of the request.
    pub(crate) fn token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Does what a prompt asks for, to its end. Returns the reason why the turn ended.
    pub(crate) async fn run(self, text: String) -> &'static str {
        let session = &self.session;
        let mode = session.state().mode;
        match mode {
            Mode::Run => self.task(self.args(text, TaskMode::Run { baseline: false }), None).await,
            Mode::DryRun => self.propose(text).await,
            Mode::Verify => self.verify().await,
        }
    }

    fn args(&self, text: String, mode: TaskMode) -> RunArgs {
        RunArgs {
            text,
            repo: self.session.root.clone(),
            allow_paths: vec![],
            allow_test_changes: vec![],
            max_tokens: self.session.max_tokens,
            max_cost: self.session.max_cost,
            no_agents_md: false,
            engine: None,
            mode,
            place: Place::Here,
            script: None,
        }
    }

    /// Runs one task, and returns the reason why the turn ends with it.
    async fn task(&self, args: RunArgs, person: Option<Arc<Person>>) -> &'static str {
        let session = &self.session;
        session.translation().begin();
        let person = person.unwrap_or_else(|| self.person());
        let client = Client {
            cancel: self.cancel.clone(),
            consent: Some(person),
            session: Some(session.id.clone()),
        };
        let ended = session.tasks.run(client, args, vec![self.updates()]).await;
        let mut state = session.state();
        if let Some((_, ended)) = &mut state.task {
            *ended = Some(Instant::now());
        }
        drop(state);
        match ended {
            Ok(_) => stop_reason(session.translation().ended().as_ref()),
            Err(failure) => self.refused(&failure),
        }
    }

    fn person(&self) -> Arc<Person> {
        Arc::new(Person { session: Arc::clone(&self.session), allowed: Mutex::default() })
    }

    fn updates(&self) -> Box<dyn Sink> {
        Box::new(Updates { session: Arc::clone(&self.session) })
    }

    fn refused(&self, failure: &Failure) -> &'static str {
        let hint =
            failure.hint.as_ref().map_or_else(String::new, |hint| format!("\n\nHint: {hint}"));
        self.session.update(&message(&format!("**Refused**: {}{hint}", failure.message)));
        if self.cancel.is_cancelled() { "cancelled" } else { "refusal" }
    }

    /// Makes a proposal, asks whether to apply it, and applies it.
    async fn propose(&self, text: String) -> &'static str {
        let session = &self.session;
        let person = self.person();
        let reason = self.task(self.args(text, TaskMode::DryRun), Some(Arc::clone(&person))).await;
        let proposed = session.translation().proposed().filter(|proposed| proposed.is_stored);
        let dry_run = session.state().task.clone().map(|(task_id, _)| task_id);
        let (Some(proposed), Some(dry_run), "end_turn") = (proposed, dry_run, reason) else {
            return reason;
        };
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return "cancelled",
            answer = session.ask_to_apply(&proposed) => answer,
        };
        if answer != Answer::Allowed {
            let why = if answer == Answer::Unanswered {
                "There was no answer, so no file"
            } else {
                "No file"
            };
            let said =
                format!("{why} was changed. `act apply {dry_run}` applies the proposal later.");
            session.update(&message(&said));
            return reason;
        }
        let args = ApplyArgs {
            task: Some(dry_run),
            repo: session.root.clone(),
            max_tokens: session.max_tokens,
            max_cost: session.max_cost,
        };
        match session.tasks.apply(args) {
            Ok(mut args) => {
                // The proposal holds what the person allowed for the dry run, file by file.
                let allowed = person.allowed.lock().unwrap_or_else(PoisonError::into_inner).clone();
                args.allow_paths.extend(allowed.iter().map(|path| exactly(path)));
                self.task(args, Some(person)).await
            }
            Err(failure) => self.refused(&failure),
        }
    }

    async fn verify(&self) -> &'static str {
        let session = &self.session;
        session.translation().begin();
        let (root, cancel) = (session.root.clone(), self.cancel.clone());
        match session.tasks.verify(root, vec![self.updates()], cancel).await {
            Ok(Some(verification)) => {
                session.update(&message(&verdict(&verification)));
                "end_turn"
            }
            Ok(None) => "cancelled",
            Err(failure) => self.refused(&failure),
        }
    }
}

/// Returns the reason of the protocol for which a turn ended with a task. A task without an end was cancelled before it began.
fn stop_reason(ended: Option<&Ended>) -> &'static str {
    let Some(Ended { state, reason }) = ended else { return "cancelled" };
    match (state.as_str(), reason.as_deref()) {
        ("CANCELLED", _) => "cancelled",
        ("REFUSED", _) => "refusal",
        ("STUCK", Some("budget")) => "max_tokens",
        _ => "end_turn",
    }
}

/// Returns a glob that matches this path alone.
fn exactly(path: &str) -> String {
    let escape = |c: char| match c {
        '*' | '?' | '[' | ']' | '{' | '}' | '!' => format!("[{c}]"),
        c => c.to_string(),
    };
    path.chars().map(escape).collect()
}

/// Returns the result of a verification as a message.
fn verdict(verification: &Verification) -> String {
    let Verification { run_id, verdict, tail, warnings, .. } = verification;
    let mut said = String::new();
    let tail = tail.as_deref().unwrap_or_default().trim_end();
    if !verification.passed() && !tail.is_empty() {
        let tail = &tail[tail.ceil_char_boundary(tail.len().saturating_sub(TAIL))..];
        said.push_str(&format!("{}\n\n", fenced(tail, "")));
    }
    for warning in warnings {
        said.push_str(&format!("Warning: {}\n\n", warning.message));
    }
    said.push_str(&format!("**{}**", verdict.status().as_str()));
    match verdict {
        Verdict::Pass => {}
        Verdict::Fail(reason) => {
            said.push_str(&format!(": {}", reason.as_str()));
            if let Some(step) = verification.steps().last() {
                said.push_str(&format!(" in step `{}`", step.name));
            }
        }
        Verdict::Infra(error) => said.push_str(&format!(": {error}")),
    }
    if let Some(run_id) = run_id {
        said.push_str(&format!(", `{run_id}`"));
    }
    said
}

/// Sends the events of a task as updates.
struct Updates {
    session: Arc<Session>,
}

impl Sink for Updates {
    fn event(&mut self, event: &Event) {
        let session = &self.session;
        let updates = match &event.kind {
            EventKind::StepOutput(output) => session.translation().output(&output.0),
            EventKind::EditedText(texts) => {
                session.translation().edited(texts);
                vec![]
            }
            EventKind::Notice(notice) => vec![match notice.level {
                NoticeLevel::Info => thought(&notice.text),
                NoticeLevel::Warning => message(&format!("Warning: {}", notice.text)),
            }],
            kind => {
                if let EventKind::TaskQueued { .. } = kind {
                    session.state().task = Some((event.task_id.clone(), None));
                }
                let line = event.to_json().and_then(|line| serde_json::from_str(&line).ok());
                line.map_or_else(Vec::new, |line: Value| session.translation().event(&line))
            }
        };
        updates.iter().for_each(|update| session.update(update));
    }
}

/// The person in front of the client, who is asked about guarded files of one prompt.
struct Person {
    session: Arc<Session>,
    /// The paths that the person allowed.
    allowed: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Person {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Person")
    }
}

impl Consent for Person {
    fn may_change<'a>(
        &'a self,
        path: &'a str,
        op: &'a str,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move {
            let title = format!("{op} {path}, which other programs of yours obey or run");
            let content = vec![block(
                "A task writes such files only with your permission. The permission is for this file and this task.",
            )];
            let session = &self.session;
            let paths = [path.to_owned()];
            let answer = session.ask((&title, "Allow this file"), &paths, content).await;
            if answer == Answer::Allowed {
                self.allowed.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
            }
            answer
        })
    }
}

/// Paths that a question names as places.
const PLACES: usize = 50;

impl Session {
    async fn ask_to_apply(&self, proposed: &Proposed) -> Answer {
        let title = match proposed.paths.as_slice() {
            [path] => format!("Apply the change of {path}"),
            paths => format!("Apply these {} files", paths.len()),
        };
        self.ask((&title, "Apply and verify"), &proposed.paths, proposed.content.clone()).await
    }

    /// Asks the person. A permission is the selection of the option that allows: an error, a cancelled question and an
    /// unknown option are refusals.
    async fn ask(
        &self,
        (title, allow): (&str, &str),
        paths: &[String],
        content: Vec<Value>,
    ) -> Answer {
        let call = self.translation().new_call();
        let place = |path: &String| json!({"path": self.root.join(path)});
        let places: Vec<_> = paths.iter().take(PLACES).map(place).collect();
        let params = json!({
            "sessionId": self.id.as_str(),
            "toolCall": {"toolCallId": call, "title": translation::line(title, 300), "kind": "edit",
                "status": "pending", "content": content, "locations": places},
            "options": [
                {"optionId": "allow", "name": allow, "kind": "allow_once"},
                {"optionId": "reject", "name": "Do not allow", "kind": "reject_once"},
            ],
        });
        let question = self.wire.ask(&params);
        let asked = Instant::now();
        let result = question.answer(self.patience).await;
        let answer = match result.as_ref().map(selected) {
            Some(Some("allow")) => Answer::Allowed,
            Some(_) => Answer::Refused,
            None if asked.elapsed() >= self.patience => Answer::Unanswered,
            None => Answer::Refused,
        };
        let status = if answer == Answer::Allowed { "completed" } else { "failed" };
        self.update(
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status}),
        );
        answer
    }
}

/// Returns the option that an answer selects.
fn selected(result: &Value) -> Option<&str> {
    let outcome = result.get("outcome")?;
    let is_selected = outcome.get("outcome").and_then(Value::as_str) == Some("selected");
    outcome.get("optionId").filter(|_| is_selected)?.as_str()
}

/// Returns whether two paths lead to the same directory, by their text after links were followed.
pub(crate) fn is_one_of(root: &Path, allowed: &[PathBuf]) -> bool {
    allowed.is_empty() || allowed.iter().any(|allowed| allowed == root)
}
