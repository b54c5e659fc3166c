//! One task from the command line to its end: refused, or accepted, run when its turn comes, and finished with a state
//! that has an exit code.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::Mode;
use super::RunArgs;
use super::apply;
use super::apply::propose;
use super::assemble;
use super::assemble::AssembledEditor;
use super::assemble::EditorParts;
use super::audit::anchoring;
use super::audit::start_end_records;
use super::component_loader::failed;
use super::earlier_report;
use super::preflight;
use super::preflight::Ready;
use super::queue::Kept;
use super::queue::OwnedTask;
use super::queue::StoreRetry;
use super::queue::Turn;
use super::queue::Waiting;
use super::recorder::ProgressSink;
use super::recorder::RunSink;
use super::recorder::TimingSink;
use super::retention;
use super::signals;
use act_agent::context::NotesWriter;
use act_agent::editor;
use act_agent::editor::TaskInput;
use act_agent::editor::TaskResult;
use act_audit::Audit;
use act_audit::AuditError;
use act_config::Config;
use act_core::Failure;
use act_core::event::EventKind;
use act_core::event::Events;
use act_core::event::Milestone;
use act_core::event::Sink;
use act_core::exit::Exit;
use act_core::fail_point;
use act_core::{Outcome, reason};
use act_model::TokenLedger;
use act_records::store::StoreError;
use act_records::store::TaskState;
use act_verifier::Engine;
use act_verifier::ResolvedImage;
use act_workspace::NOTES_DIRS;
use act_workspace::NotesDir;
use act_workspace::RepoLock;
use act_workspace::RootMoved;
use act_workspace::add_gitignore_line;

pub async fn run(args: RunArgs, sinks: Vec<Box<dyn Sink>>) -> Result<Exit, Failure> {
    let cancel = signals::cancelled_by_signals()?;
    let checked = tokio::select! {
        ready = preflight::check(&args) => Some(ready?),
        () = cancel.cancelled() => None,
    };
    let Some(ready) = checked else {
        // The task was not accepted yet, so only this process knows of it.
        let events = Events::new("", sinks);
        return Ok(FinishGuard::new(events, TokenLedger::default()).say(TaskResult::cancelled()));
    };
    ready.read_ahead();
    let context = preflight::context(&ready)?;
    preflight::proposal(&ready, &context)?;
    let root = ready.config.root.clone();
    anchoring::first(ready.anchored, &context.audit, &root, &cancel).await?;
    let (owned_task, position) = context.submit(&args, &root)?;
    fail_point::reach("accepted");
    Ok(follow(Accepted { owned_task, position, args, ready }, sinks, &cancel).await)
}

/// A task in the line, and what was found when it was accepted.
pub(super) struct Accepted {
    pub(super) owned_task: OwnedTask,
    pub(super) position: u32,
    pub(super) args: RunArgs,
    pub(super) ready: Ready,
}

/// Follows an accepted task to its end, and then removes old runs and sends the head of the audit log.
pub(super) async fn follow(
    accepted: Accepted,
    sinks: Vec<Box<dyn Sink>>,
    cancel: &CancellationToken,
) -> Exit {
    let ledger = TokenLedger::limited(accepted.ready.max_tokens());
    let events = task_events(&accepted.owned_task, &ledger, sinks);
    let context = accepted.owned_task.context.clone();
    let root = accepted.ready.config.root.clone();
    let exit = wait_and_work(accepted, &ledger, &events, cancel).await;
    retention::make_room(&context, cancel, &events).await;
    anchoring::anchor(&context.audit, &root, cancel, &events).await;
    exit
}

async fn wait_and_work(
    accepted: Accepted,
    ledger: &TokenLedger,
    events: &Events,
    cancel: &CancellationToken,
) -> Exit {
    let Accepted { owned_task, position, args, mut ready } = accepted;
    let owned_task = Arc::new(owned_task);
    let last = FinishGuard::new(events.clone(), ledger.clone()).kept(Arc::clone(&owned_task));
    let text = ready.request.text().to_owned();
    events.emit(EventKind::TaskQueued { text, position: Some(position) });

    let root = ready.config.root.clone();
    let Turn { lock, waited } = match Waiting::new(&owned_task, &root, events).wait(cancel).await {
        Ok(Some(turn)) => turn,
        Ok(None) => return last.say(TaskResult::cancelled()),
        Err(failure) => return last.refuse(&failure),
    };
    fail_point::reach("first");
    let config = match waited.then(|| act_config::load(&args.repo)).transpose() {
        Ok(Some(config)) if config.root != root => {
            return last.refuse(&RootMoved::Replaced(root).into());
        }
        Ok(config) => config,
        Err(error) => return last.refuse(&error.into()),
    };
    if let Err(failure) = ready.begin(config, &owned_task.context.audit) {
        return last.refuse(&failure);
    }
    ledger.set_limit(ready.max_tokens());
    start_work(&ready, &lock, &owned_task, last, (ledger, events), cancel).await
}

/// The end of a task that cannot even wait for its turn.
pub(super) fn refuse(owned_task: OwnedTask, why: &Failure, sinks: Vec<Box<dyn Sink>>) -> Exit {
    let ledger = TokenLedger::default();
    let events = task_events(&owned_task, &ledger, sinks);
    FinishGuard::new(events, ledger).kept(Arc::new(owned_task)).refuse(why)
}

/// Returns the events of a task. The journal and the store get each event before the user does.
fn task_events(owned_task: &OwnedTask, ledger: &TokenLedger, sinks: Vec<Box<dyn Sink>>) -> Events {
    let OwnedTask { context, task_id, .. } = owned_task;
    let (journal, lines) = owned_task.journal();
    let store: [Box<dyn Sink>; 3] = [
        Box::new(RunSink::new(context, Some(task_id))),
        Box::new(ProgressSink::new(context, task_id, ledger)),
        Box::new(TimingSink::new(context, Some(task_id))),
    ];
    Events::resumed(task_id, lines, journal.into_iter().chain(store).chain(sinks).collect())
}

/// How often a running task looks whether it is to end.
const CANCEL_POLL: Duration = Duration::from_millis(200);

/// From QUEUED to the end, with the repository's lock.
async fn start_work(
    ready: &Ready,
    lock: &RepoLock,
    owned_task: &OwnedTask,
    last: FinishGuard,
    (ledger, events): (&TokenLedger, &Events),
    cancel: &CancellationToken,
) -> Exit {
    if let Err(moved) = lock.root().check_not_moved() {
        return last.refuse(&moved.into());
    }
    // What another task has applied meanwhile begins nothing and leaves nothing.
    let proposes_ignore_rules = match preflight::proposal(ready, &owned_task.context) {
        Ok(proposal) => proposal.is_some_and(|proposal| proposal.holds_ignore_rules()),
        Err(refusal) => return last.refuse(&refusal),
    };
    let notes = match ready.mode {
        Mode::DryRun => None,
        Mode::Run { .. } | Mode::Apply { .. } => match NotesDir::open(&ready.config.root) {
            Ok(agent) => Some(agent),
            Err(error) => return last.refuse(&error.into()),
        },
    };
    match StoreRetry::new(events).ask(cancel, || owned_task.start()).await {
        Some(Ok(true)) => {}
        // Taken out of the line in the last moment.
        Some(Ok(false)) | None => return last.say(TaskResult::cancelled()),
        Some(Err(error)) => return last.refuse(&error.into()),
    }
    apply::tell_half_applied(ready, &owned_task.context, events);
    let cancel = cancel.child_token();
    let asked = CancelledByOthers::watch(owned_task, &cancel);
    let mut brief = brief(ready, owned_task, events);
    // Before the first note, whoever writes it and however this task ends.
    let notes = notes.map(|agent| {
        brief.host_wrote = prepare_notes(&ready.config, &agent, proposes_ignore_rules, events);
        NotesWriter::new(agent, preflight::secrets())
    });
    let audit = start_end_records::begin(ready, owned_task, &brief);
    let cancel = &cancel;
    let task =
        RunningTask { ready, lock, owned_task, ledger, events, cancel, proposes_ignore_rules };
    let finished = AssertUnwindSafe(task.perform(brief, notes, audit)).catch_unwind().await;
    drop(asked);
    match finished {
        Ok(Ok(finished)) => last.say(finished),
        Ok(Err(refusal)) => last.refuse(&refusal),
        Err(panic) => last.say(unexpected(panic.as_ref())),
    }
}

/// Looks whether `act cancel` has asked for the end, as long as it is not dropped.
struct CancelledByOthers(tokio::task::JoinHandle<()>);

impl CancelledByOthers {
    fn watch(owned_task: &OwnedTask, cancel: &CancellationToken) -> Self {
        let (store, cancel) = (owned_task.context.store.clone(), cancel.clone());
        let task_id = owned_task.task_id.clone();
        Self(tokio::spawn(async move {
            while !matches!(store.cancel_requested(&task_id), Ok(true)) {
                tokio::time::sleep(CANCEL_POLL).await;
            }
            cancel.cancel();
        }))
    }
}

impl Drop for CancelledByOthers {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the task is about, and the one thing of the past that it begins with.
fn brief(ready: &Ready, owned_task: &OwnedTask, events: &Events) -> TaskInput {
    let (config, context) = (&ready.config, &owned_task.context);
    let found =
        earlier_report::find(&context.store, &context.repo, &config.root).unwrap_or_else(|error| {
            events.warn(format!(
                "cannot read the previous stuck report, continuing without it: {error}"
            ));
            None
        });
    TaskInput {
        task_id: owned_task.task_id.clone(),
        request: ready.request.clone(),
        package: config.monorepo_package.clone(),
        not_enforced: {
            let boundaries = ready.request.boundaries().iter();
            boundaries.filter(|item| !ready.enforced.contains(item)).cloned().collect()
        },
        host_wrote: vec![],
        stuck_report: earlier_report::unresolved(found),
    }
}

/// What the work needs to know, and whom it tells.
struct RunningTask<'a> {
    ready: &'a Ready,
    lock: &'a RepoLock,
    owned_task: &'a OwnedTask,
    ledger: &'a TokenLedger,
    events: &'a Events,
    cancel: &'a CancellationToken,
    /// The proposal to be applied changes `.gitignore`, which has to be what the dry run saw until then.
    proposes_ignore_rules: bool,
}

/// Hides the notes from git and tells the user about it. Returns the files that were written.
fn prepare_notes(config: &Config, agent: &NotesDir, later: bool, events: &Events) -> Vec<String> {
    let name = agent.name();
    if name != NOTES_DIRS[0] {
        let users = NOTES_DIRS[0];
        events.warn(format!("{users}/ is yours, so act keeps its notes in {name}/"));
    }
    if let Err(error) = agent.hide_from_git() {
        events.warn(format!("{name}/.gitignore cannot be written: {error}"));
    }
    match later {
        true => vec![],
        false => ignore_notes(config, name, events).into_iter().collect(),
    }
}

/// Adds the line that hides the notes to `.gitignore`, unless the repository's configuration forbids it. Returns what
/// was written.
fn ignore_notes(config: &Config, name: &str, events: &Events) -> Option<String> {
    if !config.gitignore {
        return None;
    }
    match add_gitignore_line(&config.root, name) {
        Ok(false) => None,
        Ok(true) => {
            events.warn(format!(
                "added the line `/{name}/` to .gitignore, which hides act's notes from git; `gitignore: false` in \
                 agent.yaml turns this off"
            ));
            Some(format!(".gitignore (the line /{name}/)"))
        }
        // The `.gitignore` in the directory hides the notes as well.
        Err(error) => {
            let text = format!("the line `/{name}/` was not added to .gitignore: {error}");
            events.emit(EventKind::Diagnosis { text });
            None
        }
    }
}

impl RunningTask<'_> {
    /// A refusal is the end of a task whose turn came for something that does not hold any more.
    async fn perform(
        &self,
        brief: TaskInput,
        notes: Option<NotesWriter>,
        audit: Result<Audit, AuditError>,
    ) -> Result<TaskResult, Failure> {
        let Self { ready, lock, owned_task, ledger, events, cancel, .. } = self;
        let (config, request) = (&ready.config, &ready.request);
        events.emit(EventKind::TaskStarted {
            repo: config.root.display().to_string(),
            pipeline_sha256: config.sha256.clone(),
            notes_dir: notes.as_ref().map(|notes| notes.dir().to_owned()),
        });
        events.emit(EventKind::Constraints {
            constraints: request.constraints().to_vec(),
            non_goals: request.non_goals().to_vec(),
            boundaries: request.boundaries().to_vec(),
            enforced: ready.enforced.clone(),
        });
        let audit = match audit {
            Ok(audit) => audit,
            Err(error) => {
                let (code, diagnosis) = (error.code(), start_end_records::in_words(&error));
                let (notes, trouble) = (notes.as_ref(), (code, diagnosis.as_str()));
                return Ok(editor::end_before_work(&brief, notes, events, None, trouble));
            }
        };
        let gate = match &ready.engine {
            None => None,
            Some(engine) => match self.gate(engine).await {
                ImageLookup::Ready(image) => Some((engine.clone(), image)),
                ImageLookup::Cancelled => return Ok(TaskResult::cancelled()),
                ImageLookup::Missing { code, message } => {
                    let (notes, trouble) = (notes.as_ref(), (code, message.as_str()));
                    let head = audit.head();
                    return Ok(editor::end_before_work(&brief, notes, events, head, trouble));
                }
            },
        };
        let work = EditorParts {
            ready: Ready::clone(ready),
            held: lock.root().clone(),
            brief,
            notes,
            gate,
            audit,
            ledger: TokenLedger::clone(ledger),
            events: Events::clone(events),
            cancel: CancellationToken::clone(cancel),
        };
        let assembled = tokio::select! {
            // What is being compiled then ends with the process.
            () = cancel.cancelled() => return Ok(TaskResult::cancelled()),
            assembled = tokio::task::spawn_blocking(move || assemble::assemble(work)) => assembled,
        };
        let assembled = assembled.unwrap_or_else(|stopped| match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(stopped) => Err(failed("the editor cannot be assembled")(stopped)),
        });
        // What was opened by its path is the directory that is locked.
        let AssembledEditor { mut editor, writer, overlay } =
            match (lock.root().check_not_moved(), assembled) {
                (Ok(()), Ok(assemble)) => assemble,
                (Err(moved), _) => {
                    return Ok(TaskResult::infra(RootMoved::CODE, moved.to_string()));
                }
                (_, Err(error)) => {
                    return Ok(TaskResult::infra(reason::UNKNOWN, error.to_string()));
                }
            };
        if let Mode::Apply { dry_run } = &ready.mode {
            let proposal = apply::check(&owned_task.context, &writer, dry_run)?;
            if let Err(result) = editor.begin_with(proposal.draft).await {
                return Ok(*result);
            }
            events.emit(Milestone::Implementing.into());
            let stopped = || cancel.is_cancelled();
            match apply::carry_out(owned_task, &writer, dry_run, events, &stopped) {
                Ok(()) if self.proposes_ignore_rules => {
                    if let Ok(name) = NotesDir::name_in(&config.root) {
                        let wrote = ignore_notes(config, name, events);
                        editor.input.host_wrote.extend(wrote);
                    }
                }
                Ok(()) => {}
                Err(_) if cancel.is_cancelled() => return Ok(TaskResult::cancelled()),
                Err(refusal) => return Err(refusal),
            }
        }
        let mut finished = editor.work().await;
        if let (Some(overlay), Some(draft)) = (overlay, finished.draft.take()) {
            propose(owned_task, lock.root().path(), &overlay, draft, events);
        }
        Ok(finished)
    }

    async fn gate(&self, engine: &Engine) -> ImageLookup {
        let Self { ready, events, cancel, .. } = self;
        tokio::select! {
            () = cancel.cancelled() => return ImageLookup::Cancelled,
            reaped = engine.reap_orphans() => {
                if let Err(error) = reaped {
                    let text = format!("left-over containers: {error}");
                    events.emit(EventKind::Diagnosis { text });
                }
            }
        }
        match engine.ensure_image(&ready.config.pipeline.image, events, cancel).await {
            Ok(Some(image)) => ImageLookup::Ready(image),
            Ok(None) => ImageLookup::Cancelled,
            Err(error) => {
                ImageLookup::Missing { code: error.error_type.as_str(), message: error.message }
            }
        }
    }
}

/// What there is to verify with.
enum ImageLookup {
    Ready(ResolvedImage),
    Cancelled,
    Missing { code: &'static str, message: String },
}

/// The result of a task that panicked, which is a fault of act; the panic hook has printed where.
fn unexpected(panic: &(dyn std::any::Any + Send)) -> TaskResult {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    let why = format!("a fault of act itself: {message}; please report it");
    TaskResult::infra(reason::UNEXPECTED, why)
}

/// For a process that holds the store.
const LONGEST_HELD: Duration = Duration::from_secs(60);
/// For a disk that is full or gone.
const LONGEST_UNUSABLE: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_millis(250);

/// Owes the world a `task_finished`. Dropped without a word, by a panic or a return that forgot it, it says
/// that the task ended by a fault of ours.
pub(super) struct FinishGuard {
    events: Events,
    ledger: TokenLedger,
    /// None before it was accepted.
    owned_task: Option<Arc<OwnedTask>>,
    said: bool,
}

impl FinishGuard {
    pub(super) fn new(events: Events, ledger: TokenLedger) -> Self {
        Self { events, ledger, owned_task: None, said: false }
    }

    /// In the store as well, before anybody is told.
    pub(super) fn kept(mut self, owned_task: Arc<OwnedTask>) -> Self {
        self.owned_task = Some(owned_task);
        self
    }

    pub(super) fn say(mut self, result: TaskResult) -> Exit {
        self.tell(result)
    }

    /// Its turn came, and what had been fine is not any more.
    pub(super) fn refuse(mut self, failure: &Failure) -> Exit {
        let hint = failure.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        self.tell(TaskResult {
            summary: Some(format!("{}{hint}", failure.message)),
            ..TaskResult::of(Outcome::Refused { reason: failure.code.to_owned() })
        })
    }

    /// What is told is what is kept.
    fn tell(&mut self, mut result: TaskResult) -> Exit {
        self.said = true;
        if let Some(owned_task) = &self.owned_task {
            let kept = keep(owned_task, &result.outcome, &self.events);
            if let Some((outcome, why)) = self.instead(owned_task, &result.outcome, kept) {
                result.outcome = outcome;
                result.summary = why.or(result.summary);
            }
            let recorded =
                start_end_records::end(owned_task, &result.outcome, result.run_id.as_deref());
            if let Err(error) = recorded {
                self.events
                    .warn(format!("cannot record the end of this task in the audit log: {error}"));
            }
        }
        let (state, exit) = (result.outcome.state(), result.outcome.exit());
        self.events.emit(EventKind::TaskFinished {
            state,
            exit_code: exit as u8,
            run_id: result.run_id,
            reason: result.outcome.reason().map(str::to_owned),
            summary: result.summary,
            report_path: result.report_path,
            tokens: self.ledger.by_role(),
            gate_inputs_changed: result.gate_inputs_changed,
            edits_refused: result.edits_refused,
        });
        exit
    }

    /// Returns the end that is recorded where it is not the wanted one, and what replaces the summary.
    fn instead(
        &self,
        owned_task: &OwnedTask,
        wanted: &Outcome,
        kept: Result<Kept, StoreError>,
    ) -> Option<(Outcome, Option<String>)> {
        let task_id = &owned_task.task_id;
        Some(match kept {
            Ok(Kept::Yes) => return None,
            Ok(Kept::Otherwise(outcome)) if outcome.state() == TaskState::Cancelled => {
                (outcome, None)
            }
            Ok(Kept::Otherwise(outcome)) => {
                let why = "another act process took this one for dead and has ended the task";
                (outcome, Some(why.to_owned()))
            }
            Err(error) if !owned_task.is_running() => {
                let why = format!(
                    "{error}; the end of the task could not be saved: the next act in this repository records it as \
                     cancelled, and `act run --again {task_id}` then runs it again"
                );
                (Outcome::NotStored { reason: error.code().to_owned() }, Some(why))
            }
            Err(error) => {
                let state = wanted.state().as_str();
                let text = format!(
                    "{error}; the result ({state}) could not be saved to the database; the next act command restores it from the journal"
                );
                self.events.emit(EventKind::Diagnosis { text });
                // Also that line had to be written.
                if owned_task.is_journaled() {
                    return None;
                }
                let why = format!(
                    "{error}; the task ended as {state}, but the result could not be saved; your working tree keeps its changes"
                );
                (Outcome::infra(reason::END_NOT_KEPT), Some(why))
            }
        })
    }
}

/// Tries again for as long as it may help, and makes room for it.
fn keep(owned_task: &OwnedTask, wanted: &Outcome, events: &Events) -> Result<Kept, StoreError> {
    let start = Instant::now();
    let mut told = false;
    loop {
        let error = match owned_task.end(wanted) {
            Err(error) if error.may_pass() => error,
            kept => return kept,
        };
        let patience = match error {
            StoreError::Busy { .. } => LONGEST_HELD,
            _ => LONGEST_UNUSABLE,
        };
        if start.elapsed() > patience {
            return Err(error);
        }
        if !std::mem::replace(&mut told, true) {
            events.warn(format!("the result of this task cannot be saved yet: {error}"));
            let room =
                retention::make_room_while(&owned_task.context, &|| start.elapsed() < patience);
            // The end is tried again whether there is room now or not.
            let _ = room;
        }
        std::thread::sleep(RETRY);
    }
}

impl Drop for FinishGuard {
    fn drop(&mut self) {
        if self.said {
            return;
        }
        // A reader that panics now would end the process before the others have received the event.
        let told = std::panic::AssertUnwindSafe(|| {
            self.tell(TaskResult::of(Outcome::infra(reason::UNEXPECTED)));
        });
        let _ = std::panic::catch_unwind(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::Event;
    use act_core::event::Milestone;
    use act_core::event::Sink;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<serde_json::Value>>>);

    impl Sink for Seen {
        fn event(&mut self, event: &Event) {
            let line = event.to_json().map(|line| serde_json::from_str(&line).unwrap());
            self.0.lock().unwrap().extend(line);
        }
    }

    fn story(work: impl FnOnce(FinishGuard, Events)) -> Vec<serde_json::Value> {
        let seen = Seen::default();
        let events = Events::new("t-1", vec![Box::new(seen.clone())]);
        let last = FinishGuard::new(events.clone(), TokenLedger::default());
        let work = std::panic::AssertUnwindSafe(|| work(last, events));
        let _ = std::panic::catch_unwind(work);
        let seen = seen.0.lock().unwrap();
        seen.clone()
    }

    #[test]
    fn a_panic_still_ends_with_the_last_word() {
        // EVENT-3, TASK-16
        let lines = story(|_last, events| {
            events.emit(Milestone::Analyzing.into());
            panic!("a fault");
        });
        let last = lines.last().unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!(last["type"], "task_finished");
        assert_eq!(last["state"], "INFRA_ERROR");
        assert_eq!(last["reason"], "unexpected");
        assert_eq!(last["exit_code"], 4);
    }

    #[test]
    fn what_was_said_is_not_said_again() {
        let lines = story(|last, _| {
            assert_eq!(last.say(TaskResult::cancelled()), Exit::Cancelled);
        });
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["state"], "CANCELLED");
    }

    struct Place {
        dir: tempfile::TempDir,
        owned_task: Arc<OwnedTask>,
    }

    /// A task that waits, or has begun.
    fn accepted(running: bool) -> Place {
        use crate::task::queue::TaskContext;
        use crate::task::{Mode, RunArgs};
        use act_records::artifacts::ArtifactDir;
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        let artifacts = Arc::new(ArtifactDir::open(&dir.path().join("a"), &repo).unwrap());
        let store = crate::task::preflight::store(&artifacts).unwrap();
        let context = TaskContext::new(store, artifacts, &repo).unwrap();
        let args = RunArgs {
            text: "x".into(),
            repo: repo.clone(),
            verbose: false,
            allow_paths: vec![],
            max_tokens: None,
            mode: Mode::Run { baseline: false },
            script: None,
        };
        let (owned_task, _) = context.submit(&args, &repo).unwrap();
        assert!(!running || owned_task.start().unwrap());
        Place { dir, owned_task: Arc::new(owned_task) }
    }

    /// Returns the last event and the exit code when a success cannot be saved as it should.
    fn told(place: &Place, spoil: impl FnOnce(&OwnedTask)) -> (serde_json::Value, Exit) {
        let seen = Seen::default();
        let mut sinks: Vec<Box<dyn Sink>> = place.owned_task.journal().0.into_iter().collect();
        sinks.push(Box::new(seen.clone()));
        let events = Events::new(place.owned_task.task_id.as_str(), sinks);
        let last = FinishGuard::new(events, TokenLedger::default());
        let last = last.kept(Arc::clone(&place.owned_task));
        spoil(&place.owned_task);
        let exit = last.say(TaskResult::of(Outcome::Success));
        let told = seen.0.lock().unwrap().last().unwrap().clone();
        assert_eq!(told["exit_code"], exit as u8);
        (told, exit)
    }

    fn forget_row(owned_task: &OwnedTask) {
        let db = rusqlite::Connection::open(owned_task.context.store.path()).unwrap();
        db.execute("DELETE FROM tasks", []).unwrap();
    }

    #[test]
    fn an_end_that_only_the_journal_has_is_told_and_one_that_nothing_has_is_not() {
        // TASK-30
        let place = accepted(true);
        let (end, exit) = told(&place, forget_row);
        assert_eq!((end["state"].as_str(), exit), (Some("SUCCESS"), Exit::Ok));
        let artifacts = &place.owned_task.context.artifacts;
        let line = artifacts.last_line(&place.owned_task.task_id).unwrap().unwrap();
        assert!(line.contains(r#""state":"SUCCESS""#), "{line}");

        let place = accepted(true);
        // A journal that cannot be written any more.
        let full = std::fs::File::options().write(true).open("/dev/full");
        let Ok(full) = full else {
            act_core::testing::skip("no /dev/full");
            return;
        };
        let journal = place.dir.path().join("a/state/journal");
        let path = journal.join(format!("{}.jsonl", place.owned_task.task_id));
        assert!(path.exists());
        place.owned_task.replace_journal(full);
        let (end, exit) = told(&place, forget_row);
        assert_eq!((end["state"].as_str(), exit), (Some("INFRA_ERROR"), Exit::Infra));
        assert_eq!(end["reason"], "end_not_kept");
    }

    #[test]
    fn an_end_that_others_have_kept_is_told_as_they_have() {
        // TASK-30
        let place = accepted(true);
        let (end, exit) = told(&place, |owned_task| {
            let interrupted = Outcome::infra(reason::INTERRUPTED);
            assert!(
                owned_task
                    .context
                    .store
                    .end(&owned_task.task_id, &owned_task.context.this, &interrupted)
                    .unwrap()
            );
        });
        assert_eq!((end["state"].as_str(), exit), (Some("INFRA_ERROR"), Exit::Infra));
        assert_eq!(end["reason"], "interrupted");

        let place = accepted(false);
        let (end, exit) = told(&place, forget_row);
        assert_eq!((end["state"].as_str(), exit), (Some("CANCELLED"), Exit::Cancelled));
    }

    #[test]
    fn a_task_whose_configuration_broke_while_it_waited_is_refused() {
        let failure = Failure::refused("config_missing", "gone").hint("run `act init`");
        let lines = story(|last, _| {
            assert_eq!(last.refuse(&failure), Exit::Refused);
        });
        assert_eq!(lines[0]["state"], "REFUSED");
        assert_eq!(lines[0]["reason"], "config_missing");
        assert_eq!(lines[0]["summary"], "gone\nhint: run `act init`");
    }
}
