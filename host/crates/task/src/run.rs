//! One task from the command line to its end: checked, accepted, run when its turn comes, and finished.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::audit::anchor;
use crate::finish::FinishGuard;
use crate::notify::Notifier;
use crate::prepare::{AssembledEditor, EditorParts, Ready, failed};
use crate::proposal::{Proposal, propose};
use crate::queue::{AcquiredLock, OwnedTask, StoreRetry, TaskId, Waiting};
use crate::sessions::SessionId;
use crate::sinks::{ProgressSink, RunSink, TimingSink};
use crate::status::Lookup;
use crate::{prepare, proposal, retention, sessions, stuck_report, verify, worktree};
use act_agent::context::NotesWriter;
use act_agent::editor;
use act_agent::editor::{TaskInput, TaskResult};
use act_audit::{Audit, AuditError, Entry, Event};
use act_config::{Config, UserSettings};
use act_core::consent::Consent;
use act_core::event::{EventKind, Events, Milestone, Sink, Uncommitted};
use act_core::exit::Exit;
use act_core::user_command::UserCommand;
use act_core::{Failure, Outcome, Usd, fail_point, reason};
use act_model::TokenLedger;
use act_model::scripted::Script;
use act_records::store::{Flags, ProposalRecord, TaskRecord, Worktree};
use act_verifier::{Engine, ResolvedImage};
use act_workspace::{
    NOTES_DIRS, NotesDir, Originals, RepoLock, RootMoved, add_gitignore_line, digest, head_commit,
    uncommitted,
};

/// The mode of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Work until a verification passes. With `baseline` the pipeline also runs before the first edit.
    Run { baseline: bool },
    /// Propose changes, without writing or verifying them.
    DryRun,
    /// Write the proposal of this dry run, then work until a verification passes.
    Apply { dry_run: String },
}

impl From<Flags> for Mode {
    fn from(flags: Flags) -> Self {
        match flags {
            Flags { apply: Some(dry_run), .. } => Self::Apply { dry_run },
            Flags { dry_run: true, .. } => Self::DryRun,
            Flags { baseline, .. } => Self::Run { baseline },
        }
    }
}

/// The directory in which a task works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Place {
    /// The repository itself, or the worktree in which the command was called.
    #[default]
    Here,
    /// A new worktree of the repository, which begins with the last commit, or with the uncommitted changes as well.
    NewWorktree { dirty: bool },
}

/// The arguments of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunArgs {
    /// The text of the task as the user typed it.
    pub text: String,
    /// The directory in which the search for the root of the repository begins.
    pub repo: PathBuf,
    /// Globs of guarded paths that the task may change.
    pub allow_paths: Vec<String>,
    /// Globs of test files that the task may change although the tests of its start then fail.
    pub allow_test_changes: Vec<String>,
    /// Maximum number of tokens of all roles together.
    pub max_tokens: Option<u64>,
    /// The most that all requests of the task together may cost.
    pub max_cost: Option<Usd>,
    /// The model does not get the instructions of the repository, `AGENTS.md` or `CLAUDE.md`.
    pub no_agents_md: bool,
    /// The name of an engine in `engines.toml`; `None` for the usual engine.
    pub engine: Option<String>,
    pub mode: Mode,
    pub place: Place,
    /// A script that takes the place of the model that the environment names; for `act demo` only.
    pub script: Option<Script>,
}

impl RunArgs {
    /// Returns the arguments of a task that another process accepted.
    pub(super) fn of(record: &TaskRecord, root: PathBuf) -> Self {
        Self {
            text: record.text.clone(),
            repo: root,
            allow_paths: record.flags.allow_paths.clone(),
            allow_test_changes: record.flags.allow_test_changes.clone(),
            max_tokens: record.flags.max_tokens,
            max_cost: record.flags.max_cost,
            no_agents_md: record.flags.no_agents_md,
            engine: record.flags.engine.clone(),
            mode: record.flags.clone().into(),
            place: Place::Here,
            script: None,
        }
    }

    /// Returns the flags that the store holds, from which another process can run the task.
    pub(super) fn flags(&self) -> Flags {
        let flags = Flags {
            allow_paths: self.allow_paths.clone(),
            allow_test_changes: self.allow_test_changes.clone(),
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            no_agents_md: self.no_agents_md,
            engine: self.engine.clone(),
            ..Flags::default()
        };
        match &self.mode {
            Mode::Run { baseline } => Flags { baseline: *baseline, ..flags },
            Mode::DryRun => Flags { dry_run: true, ..flags },
            Mode::Apply { dry_run } => Flags { apply: Some(dry_run.clone()), ..flags },
        }
    }
}

/// Returns `args` with the text and the mode of the ended task `task_id`. Permissions and budgets are those of `args`: the
/// permissions of the earlier task are not granted again.
///
/// # Errors
///
/// Refused with `task_unknown` when the task is not known, belongs to another repository, or has not ended.
pub fn again(task_id: &str, args: RunArgs) -> Result<RunArgs, Failure> {
    let lookup = Lookup::open(&args.repo)?;
    let record = lookup.own_task(task_id)?;
    if !record.state.is_final() {
        let state = record.state.as_str();
        let message = format!("task {task_id} has not ended: it is {state}");
        return Err(Failure::refused("task_unknown", message)
            .hint(format!("`act cancel --id {task_id}` ends it")));
    }
    let TaskRecord { text, flags, .. } = record;
    let place = match (&args.place, &flags.worktree) {
        (Place::Here, Some(Worktree { dirty, .. })) => Place::NewWorktree { dirty: *dirty },
        _ => args.place,
    };
    Ok(RunArgs { text, mode: flags.into(), place, ..args })
}

/// Runs one task from its text to its end, and returns the exit code. `sinks` get every event after the journal and
/// the store.
///
/// # Errors
///
/// Returns the refusal of a task that was not accepted. An accepted task always ends with an exit code.
pub async fn run(args: RunArgs, sinks: Vec<Box<dyn Sink>>) -> Result<Exit, Failure> {
    let client = Client { cancel: cancelled_by_signals()?, consent: None, session: None };
    run_for(client, args, sinks).await
}

/// The program for which this process runs a task, such as an editor.
#[derive(Debug, Clone)]
pub struct Client {
    /// Cancels the task.
    pub cancel: CancellationToken,
    /// The connection to the person; `None` where there is no one to ask.
    pub consent: Option<Arc<dyn Consent>>,
    /// The session that the task belongs to. The task learns how the one before it in that session ended.
    pub session: Option<SessionId>,
}

/// Runs one task like [`run`], for a client that cancels it and can be asked.
///
/// # Errors
///
/// Returns the refusal of a task that was not accepted. An accepted task always ends with an exit code.
pub async fn run_for(
    client: Client,
    args: RunArgs,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<Exit, Failure> {
    let Client { cancel, consent, session } = client;
    let checked = tokio::select! {
        ready = prepare::check(&args) => Some(ready?),
        () = cancel.cancelled() => None,
    };
    // The task was not accepted yet, so only this process knows of it.
    let cancelled = |sinks| {
        let events = Events::new("", sinks);
        Ok(FinishGuard::new(events, TokenLedger::default()).finish(TaskResult::cancelled()))
    };
    let Some(ready) = checked else { return cancelled(sinks) };
    let Some((mut ready, args, made)) = worktree::entered(ready, args, &cancel).await? else {
        return cancelled(sinks);
    };
    let context = prepare::context(&ready)?;
    prepare::proposal(&ready, &context)?;
    let root = ready.config.root.clone();
    anchor::first(ready.anchored, &context.audit, &root, &cancel).await?;
    ready.consent = consent;
    ready.previous = session.as_ref().and_then(|session| sessions::last_task(&context, session));
    let session = session.as_ref().map(ToString::to_string);
    let flags = Flags { session, ..args.flags() };
    let id = made.as_ref().map_or_else(TaskId::random, |made| made.task_id().clone());
    let (owned_task, position) = context.submit_as(id, &args.text, flags, &root)?;
    if let Some(made) = made {
        made.keep();
    }
    fail_point::reach("accepted");
    Ok(follow(Accepted { owned_task, position, args, ready }, sinks, &cancel).await)
}

/// A task in the queue, and what was found when it was accepted.
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
    let ledger = TokenLedger::with(accepted.ready.budget());
    let root = accepted.ready.config.root.clone();
    // A demonstration has no user who waits elsewhere.
    let command = accepted.ready.notify().filter(|_| accepted.args.script.is_none());
    let place = (root.as_path(), accepted.owned_task.context.worktree.clone());
    let (notifier, sinks) = notified(command, place, cancel, sinks);
    let events = task_events(&accepted.owned_task, &ledger, sinks);
    prepare::notices().into_iter().for_each(|text| events.warn(text));
    accepted.ready.engine_why.iter().for_each(|why| events.inform(why));
    let context = accepted.owned_task.context.clone();
    let exit = wait_and_work(accepted, &ledger, &events, cancel).await;
    // The sinks have printed the end of the task, so its runs are like those of any earlier one.
    context.artifacts.release_runs();
    retention::make_room(&context, cancel, &events).await;
    anchor::anchor(&context.audit, &root, cancel, &events).await;
    finish(notifier, &events).await;
    exit
}

/// Starts the worker for the user's command of `notify`, if there is one, and adds its sink to `sinks`.
fn notified(
    command: Option<UserCommand>,
    place: (&Path, Option<Worktree>),
    cancel: &CancellationToken,
    mut sinks: Vec<Box<dyn Sink>>,
) -> (Option<Notifier>, Vec<Box<dyn Sink>>) {
    let started =
        command.map(|command| Notifier::start(command, place, prepare::secrets(), cancel));
    let (notifier, sink) = started.unzip();
    sinks.extend(sink);
    (notifier, sinks)
}

/// Waits for the command of `notify`, and warns if it failed. The result of the task is stored and printed already.
async fn finish(notifier: Option<Notifier>, events: &Events) {
    let Some(notifier) = notifier else { return };
    if let Some(warning) = notifier.finish().await {
        events.warn(warning);
    }
}

/// Waits for the turn of the task, checks again what may have changed, and works.
async fn wait_and_work(
    accepted: Accepted,
    ledger: &TokenLedger,
    events: &Events,
    cancel: &CancellationToken,
) -> Exit {
    let Accepted { owned_task, position, args, mut ready } = accepted;
    let owned_task = Arc::new(owned_task);
    let guard = FinishGuard::new(events.clone(), ledger.clone()).stored_by(Arc::clone(&owned_task));
    let text = ready.request.text().to_owned();
    events.emit(EventKind::TaskQueued { text, position: Some(position) });

    let root = ready.config.root.clone();
    let AcquiredLock { lock, waited } =
        match Waiting::new(&owned_task, &root, events).wait(cancel).await {
            Ok(Some(turn)) => turn,
            Ok(None) => return guard.finish(TaskResult::cancelled()),
            Err(failure) => return guard.refuse(&failure),
        };
    fail_point::reach("first");
    let config = match waited.then(|| act_config::load(&args.repo)).transpose() {
        Ok(Some(config)) if config.root != root => {
            return guard.refuse(&RootMoved::Replaced(root).into());
        }
        Ok(config) => config,
        Err(error) => return guard.refuse(&error.into()),
    };
    if let Err(failure) = ready.begin(config, &owned_task.context.audit) {
        return guard.refuse(&failure);
    }
    ledger.set_budget(ready.budget());
    start_work(&ready, &lock, &owned_task, guard, (ledger, events), cancel).await
}

/// Ends an accepted task that cannot even wait for its turn.
pub(super) async fn refuse(
    owned_task: OwnedTask,
    root: &Path,
    why: &Failure,
    sinks: Vec<Box<dyn Sink>>,
) -> Exit {
    let ledger = TokenLedger::default();
    // The task may be refused because of that file.
    let command = UserSettings::read(Some(root)).ok().and_then(|user| user.notify);
    let (notifier, sinks) = notified(
        command,
        (root, owned_task.context.worktree.clone()),
        &CancellationToken::new(),
        sinks,
    );
    let events = task_events(&owned_task, &ledger, sinks);
    let exit = FinishGuard::new(events.clone(), ledger).stored_by(Arc::new(owned_task)).refuse(why);
    finish(notifier, &events).await;
    exit
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

/// How often a running task looks whether `act cancel` has asked it to end.
const CANCEL_POLL: Duration = Duration::from_millis(200);

/// Starts the task, which is first in the queue and has the lock of the repository, and works until its end.
async fn start_work(
    ready: &Ready,
    lock: &RepoLock,
    owned_task: &OwnedTask,
    guard: FinishGuard,
    (ledger, events): (&TokenLedger, &Events),
    cancel: &CancellationToken,
) -> Exit {
    if let Err(moved) = lock.root().check_not_moved() {
        return guard.refuse(&moved.into());
    }
    // Another task may have applied the proposal meanwhile; then this one is refused before it writes anything.
    let proposal = match prepare::proposal(ready, &owned_task.context) {
        Ok(proposal) => proposal,
        Err(refusal) => return guard.refuse(&refusal),
    };
    // Until the proposal is written, its `.gitignore` must be as the dry run saw it.
    let gitignore_later =
        proposal.as_ref().is_some_and(|(_, proposal)| proposal.holds_ignore_rules());
    let notes = match ready.mode {
        Mode::DryRun => None,
        Mode::Run { .. } | Mode::Apply { .. } => match NotesDir::open(&ready.config.root) {
            Ok(agent) => Some(agent),
            Err(error) => return guard.refuse(&error.into()),
        },
    };
    if let Err(full) = owned_task.context.reserve_room() {
        return guard.refuse(&full);
    }
    match StoreRetry::new(events).ask(cancel, || owned_task.start()).await {
        Some(Ok(true)) => {}
        // The task was cancelled in the last moment.
        Some(Ok(false)) | None => return guard.finish(TaskResult::cancelled()),
        Some(Err(error)) => return guard.refuse(&error.into()),
    }
    proposal::warn_of_half_applied(ready, &owned_task.context, events);
    let cancel = cancel.child_token();
    let asked = CancelledByOthers::watch(owned_task, &cancel);
    let mut input = task_input(ready, owned_task, events);
    // The notes may change `.gitignore`, which is no change of the user.
    let differing = differing_files(&ready.config.root).await;
    let dirty = differing.as_ref().map(|files| !files.is_empty());
    let head = head_commit(&ready.config.root);
    let dirty = dirty.filter(|_| head.is_some());
    let store = &owned_task.context.store;
    if let Err(error) = store.started_from(&owned_task.task_id, head.as_deref(), dirty) {
        events.warn(format!("cannot record the commit at which the task begins: {error}"));
    }
    let uncommitted = differing.filter(|files| !files.is_empty()).map(|files| named(&files));
    // The notes are hidden from git before the first one is written, however the task ends.
    let notes = notes.map(|agent| {
        // In a worktree the line would be a change that `act apply` finds nowhere; the notes hide themselves as well.
        let no_line = gitignore_later || owned_task.context.worktree.is_some();
        input.host_wrote = prepare_notes(&ready.config, &agent, no_line, events);
        NotesWriter::new(agent, prepare::secrets())
    });
    let audit = record_start(ready, owned_task, &input);
    let cancel = &cancel;
    let task =
        RunningTask { ready, lock, owned_task, proposal, uncommitted, ledger, events, cancel };
    let finished = AssertUnwindSafe(task.perform(input, notes, audit)).catch_unwind().await;
    drop(asked);
    match finished {
        Ok(Ok(finished)) => guard.finish(finished),
        Ok(Err(refusal)) => guard.refuse(&refusal),
        Err(panic) => guard.finish(unexpected(panic.as_ref())),
    }
}

/// Maximum wait for the comparison with the last commit. Most take some milliseconds; a task does not wait for the others.
const LONGEST_COMPARISON: Duration = Duration::from_secs(2);

/// Returns the files that differ from the last commit, or `None` where that is not known.
async fn differing_files(root: &Path) -> Option<Vec<PathBuf>> {
    let root = root.to_owned();
    let compared = tokio::task::spawn_blocking(move || uncommitted(&root));
    tokio::time::timeout(LONGEST_COMPARISON, compared).await.ok()?.ok()?.ok()
}

/// Returns the number of the files, and the names of the first ones.
fn named(files: &[PathBuf]) -> Uncommitted {
    let paths = files.iter().take(Uncommitted::NAMED);
    let paths = paths.map(|path| path.display().to_string()).collect();
    Uncommitted { count: files.len(), paths }
}

/// Cancels the task when the store says that `act cancel` was called; stops looking when dropped.
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

/// Returns what the Editor gets at the start: the request, and the unresolved stuck report of an earlier task.
fn task_input(ready: &Ready, owned_task: &OwnedTask, events: &Events) -> TaskInput {
    let (config, context) = (&ready.config, &owned_task.context);
    let found =
        stuck_report::find(&context.store, &context.repo, &config.root).unwrap_or_else(|error| {
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
        allowed_test_changes: ready.allowed_test_changes.clone(),
        host_wrote: vec![],
        stuck_report: stuck_report::unresolved(found),
        previous: ready.previous.clone(),
    }
}

/// A task that has started.
struct RunningTask<'a> {
    ready: &'a Ready,
    lock: &'a RepoLock,
    owned_task: &'a OwnedTask,
    /// The proposal that the task applies.
    proposal: Option<(ProposalRecord, Proposal)>,
    /// What differed from the last commit before the task began.
    uncommitted: Option<Uncommitted>,
    ledger: &'a TokenLedger,
    events: &'a Events,
    cancel: &'a CancellationToken,
}

/// Hides the notes from git and informs the user. Returns the files that were written.
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
        // The notes directory has a `.gitignore` of its own, which hides it as well.
        Err(error) => {
            let text = format!("the line `/{name}/` was not added to .gitignore: {error}");
            events.emit(EventKind::Diagnosis { text });
            None
        }
    }
}

impl RunningTask<'_> {
    /// Works until the end of the task.
    ///
    /// # Errors
    ///
    /// Returns the refusal when the proposal does not fit the tree any more.
    async fn perform(
        &self,
        input: TaskInput,
        notes: Option<NotesWriter>,
        audit: Result<Audit, AuditError>,
    ) -> Result<TaskResult, Failure> {
        let Self { ready, lock, owned_task, ledger, events, cancel, .. } = self;
        let (config, request) = (&ready.config, &ready.request);
        let root = config.root.display().to_string();
        let worktree = owned_task.context.worktree.as_ref();
        events.emit(EventKind::TaskStarted {
            repo: worktree.map_or_else(|| root.clone(), |worktree| worktree.of.clone()),
            worktree: worktree.map(|worktree| worktree.at(&root)),
            pipeline_sha256: config.sha256.clone(),
            notes_dir: notes.as_ref().map(|notes| notes.dir().to_owned()),
            uncommitted: self.uncommitted.clone(),
        });
        events.emit(EventKind::Constraints {
            constraints: request.constraints().to_vec(),
            non_goals: request.non_goals().to_vec(),
            boundaries: request.boundaries().to_vec(),
            enforced: ready.enforced.clone(),
        });
        // Before anything else can end the task, so that `act diff` knows that it changed nothing.
        let originals = self.originals();
        let audit = match audit {
            Ok(audit) => audit,
            Err(error) => {
                let (code, diagnosis) = (error.code(), in_words(&error));
                let (notes, trouble) = (notes.as_ref(), (code, diagnosis.as_str()));
                return Ok(editor::end_before_work(&input, notes, events, None, trouble));
            }
        };
        let (found, pipeline) = oneshot::channel();
        let work = EditorParts {
            ready: Ready::clone(ready),
            held: lock.root().clone(),
            input: input.clone(),
            // The first message states how long a run takes. If the store cannot be read, the message has no such figure.
            last_run: owned_task
                .context
                .store
                .last_verdict_took(&owned_task.context.repo)
                .unwrap_or_default(),
            step_times: verify::step_times(&owned_task.context),
            originals,
            pipeline,
            audit: audit.clone(),
            ledger: TokenLedger::clone(ledger),
            events: Events::clone(events),
            cancel: CancellationToken::clone(cancel),
        };
        let assembled = tokio::task::spawn_blocking(move || prepare::assemble(work));
        let image = match &ready.engine {
            None => Ok(None),
            Some(engine) => match self.find_image(engine).await {
                ImageLookup::Ready(image) => Ok(Some((engine.clone(), image))),
                ImageLookup::Cancelled => return Ok(TaskResult::cancelled()),
                ImageLookup::Missing { code, message } => Err((code, message)),
            },
        };
        // The other end is gone if a component could not be loaded, which is reported below.
        let missing = image.map(|pipeline| drop(found.send(pipeline))).err();
        let assembled = tokio::select! {
            // A compilation that is still running ends with the process.
            () = cancel.cancelled() => return Ok(TaskResult::cancelled()),
            assembled = assembled => assembled,
        };
        // No component is recorded behind the head of the log any more.
        if let Some((code, message)) = missing {
            let (notes, trouble) = (notes.as_ref(), (code, message.as_str()));
            let head = audit.head();
            return Ok(editor::end_before_work(&input, notes, events, head, trouble));
        }
        let assembled = assembled.unwrap_or_else(|stopped| match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(stopped) => Err(failed("the editor cannot be assembled")(stopped)),
        });
        // The parts were opened by the path of the repository; this is still the locked directory.
        let AssembledEditor { mut editor, writer, overlay, warm } =
            match (lock.root().check_not_moved(), assembled) {
                (Ok(()), Ok(assemble)) => assemble,
                (Err(moved), _) => {
                    return Ok(TaskResult::infra(RootMoved::CODE, moved.to_string()));
                }
                (_, Err(error)) => {
                    return Ok(TaskResult::infra(reason::UNKNOWN, error.to_string()));
                }
            };
        editor.notes = notes;
        // The base is made while the Scouts look and the model reads.
        let base = warm.map(|(verifier, warm)| warm.begin(&verifier, cancel));
        if let Some((record, proposal)) = &self.proposal {
            if let Err(result) = editor.begin_with(proposal.draft.clone()).await {
                return Ok(*result);
            }
            events.emit(Milestone::Implementing.into());
            let stopped = || cancel.is_cancelled();
            match proposal::carry_out(owned_task, &writer, (record, proposal), events, &stopped) {
                Ok(()) if proposal.holds_ignore_rules() => {
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
        if let Some(base) = base {
            base.stop().await;
        }
        let draft = finished.draft.take();
        if let (Some(overlay), Some(draft)) = (&overlay, draft.clone()) {
            match overlay.files().is_empty() {
                true => finished = proposal::nothing_to_do(finished),
                false => propose(owned_task, lock.root().path(), overlay, draft, events),
            }
        }
        let draft = draft.filter(|_| finished.outcome == Outcome::Success);
        if let (Some(draft), Some(_)) = (draft, &owned_task.context.worktree) {
            worktree::offer(
                (owned_task, lock.root().path()),
                draft,
                &config.pipeline.include,
                events,
            );
        }
        Ok(finished)
    }

    /// Opens the directory in which files are stored before they change. Without that directory the task runs all the same.
    fn originals(&self) -> Option<Arc<Originals>> {
        if self.ready.mode == Mode::DryRun {
            return None;
        }
        let created = self.owned_task.context.artifacts.create_originals(&self.owned_task.task_id);
        let created = created.inspect_err(|error| {
            self.events.warn(format!(
                "the files that this task changes cannot be stored, so `act diff` cannot show its changes, and its tests \
                 are not compared with the start: {error}"
            ));
        });
        created.ok().map(|dir| Arc::new(Originals::new(dir)))
    }

    async fn find_image(&self, engine: &Engine) -> ImageLookup {
        let Self { ready, events, cancel, .. } = self;
        let reaped = async {
            if let Err(error) = engine.reap_orphans().await {
                let text = format!("left-over containers: {error}");
                events.emit(EventKind::Diagnosis { text });
            }
            retention::sweep_killed(&self.owned_task.context.artifacts, events).await;
        };
        let image = engine.ensure_image(&ready.config.pipeline.image, events, cancel);
        let both = cancel.run_until_cancelled(async { tokio::join!(reaped, image).1 });
        match both.await.unwrap_or(Ok(None)) {
            Ok(Some(image)) => ImageLookup::Ready(image),
            Ok(None) => ImageLookup::Cancelled,
            Err(error) => {
                ImageLookup::Missing { code: error.error_type.as_str(), message: error.message }
            }
        }
    }
}

/// The result of looking for the image of the verification.
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

/// Returns a token that the first SIGINT, SIGTERM or SIGHUP cancels. Later signals change nothing, because the
/// container must be removed before the process ends.
///
/// # Errors
///
/// The signals cannot be caught (`no_signals`).
pub fn cancelled_by_signals() -> Result<CancellationToken, Failure> {
    listen().map_err(|error| {
        Failure::refused("no_signals", format!("signals cannot be caught: {error}"))
    })
}

fn listen() -> std::io::Result<CancellationToken> {
    let mut signals = [
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ];
    let cancel = CancellationToken::new();
    let cancelled = cancel.clone();
    tokio::spawn(async move {
        let [interrupt, terminate, hangup] = &mut signals;
        wait_for_any(interrupt, terminate, hangup).await;
        cancelled.cancel();
        // The handlers stay installed, because without them a second signal would kill the process.
        std::future::pending::<()>().await;
    });
    Ok(cancel)
}

async fn wait_for_any(interrupt: &mut Signal, terminate: &mut Signal, hangup: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

/// Records the start of a task in the audit log. The record is on the disk when this returns; without it the task
/// does nothing.
///
/// # Errors
///
/// The log cannot be written.
fn record_start(
    ready: &Ready,
    owned_task: &OwnedTask,
    input: &TaskInput,
) -> Result<Audit, AuditError> {
    let config = &ready.config;
    let audit = owned_task.begin_audit(&config.root)?;
    let text = digest(input.request.text().as_bytes());
    // The edits of a dry run are recorded as well, although they change nothing on the disk.
    let mut names = match &ready.mode {
        Mode::Run { .. } => vec![],
        Mode::DryRun => vec!["dry_run"],
        Mode::Apply { dry_run } => vec!["apply", dry_run],
    };
    let root = config.root.display().to_string();
    let mut started = Entry::new(Event::TaskStarted).digest("text", Some(&text));
    if let Some(worktree) = &owned_task.context.worktree {
        names.extend(["worktree", &worktree.of]);
        started = started.object(&root);
    }
    let started = started.names(names);
    audit.append(started)?;
    let steps = config.pipeline.all_steps().count() as u64;
    let snapshot = Entry::new(Event::GateSnapshot).object("agent.yaml").count("steps", steps);
    audit.append(snapshot.digest("pipeline", Some(&config.sha256)))?;
    audit.settle()?;
    Ok(audit)
}

fn in_words(error: &AuditError) -> String {
    format!("{error}; {}", error.hint())
}
