//! The work of one task whose turn has come, to the word that says how it ended.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::audit::edges;
use super::last_word::LastWord;
use super::preflight::{self, Ready};
use super::propose::propose;
use super::queue::StoreRetry;
use super::staff::failed;
use super::team::{self, Team, Work};
use super::ticket::Ticket;
use super::{Errand, apply, earlier_report};
use crate::output::Output;
use act_agent::context::NotesWriter;
use act_agent::editor::{self, Finished, State, TaskInput};
use act_audit::{Audit, AuditError};
use act_config::Config;
use act_core::Failure;
use act_core::event::{EventKind, Events, Milestone};
use act_core::exit::Exit;
use act_model::TokenLedger;
use act_verifier::{Engine, ResolvedImage};
use act_workspace::{
    AgentDir, GitignoreEntry, NOTES_DIRS, RepoLock, RootMoved, append_gitignore_once,
};

/// How often a running task looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// From QUEUED to the end, with the repository's lock.
pub(super) async fn start(
    ready: &Ready,
    lock: &RepoLock,
    ticket: &Ticket,
    last: LastWord,
    (ledger, events): (&TokenLedger, &Events),
    output: &Output,
    cancel: &CancellationToken,
) -> Exit {
    if let Err(moved) = lock.root().stays() {
        return last.refuse(&moved.into());
    }
    // What another task has applied meanwhile begins nothing and leaves nothing.
    let proposes_ignore_rules = match preflight::proposal(ready, &ticket.desk) {
        Ok(proposal) => proposal.is_some_and(|proposal| proposal.holds_ignore_rules()),
        Err(refusal) => return last.refuse(&refusal),
    };
    let notes = match ready.errand {
        Errand::DryRun => None,
        Errand::Run { .. } | Errand::Apply { .. } => match AgentDir::open(&ready.config.root) {
            Ok(agent) => Some(agent),
            Err(error) => return last.refuse(&error.into()),
        },
    };
    match StoreRetry::new(output).ask(cancel, || ticket.start()).await {
        Some(Ok(true)) => {}
        // Taken out of the line in the last moment.
        Some(Ok(false)) | None => return last.say(cancelled()),
        Some(Err(error)) => return last.refuse(&error.into()),
    }
    apply::tell_half_applied(ready, &ticket.desk, output);
    let cancel = cancel.child_token();
    let asked = CancelledByOthers::watch(ticket, &cancel);
    let mut brief = brief(ready, ticket, output);
    // Before the first note, whoever writes it and however this task ends.
    let notes = notes.map(|agent| {
        brief.host_wrote =
            prepare_notes(&ready.config, &agent, proposes_ignore_rules, events, output);
        NotesWriter::new(agent).without(output.secrets().clone())
    });
    let audit = edges::begin(ready, ticket, &brief);
    let cancel = &cancel;
    let task = Task { ready, lock, ticket, ledger, events, output, cancel, proposes_ignore_rules };
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
    fn watch(ticket: &Ticket, cancel: &CancellationToken) -> Self {
        let (store, cancel) = (ticket.desk.store.clone(), cancel.clone());
        let task_id = ticket.task_id.clone();
        Self(tokio::spawn(async move {
            while !matches!(store.cancel_requested(&task_id), Ok(true)) {
                tokio::time::sleep(LOOK).await;
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
fn brief(ready: &Ready, ticket: &Ticket, output: &Output) -> TaskInput {
    let (config, desk) = (&ready.config, &ticket.desk);
    let found =
        earlier_report::find(&desk.store, &desk.repo, &config.root).unwrap_or_else(|error| {
            output.caution(&format!("begins without the stuck report, if there is one: {error}"));
            None
        });
    TaskInput {
        task_id: ticket.task_id.clone(),
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
struct Task<'a> {
    ready: &'a Ready,
    lock: &'a RepoLock,
    ticket: &'a Ticket,
    ledger: &'a TokenLedger,
    events: &'a Events,
    output: &'a Output,
    cancel: &'a CancellationToken,
    /// The proposal to be applied changes `.gitignore`, which has to be what the dry run saw until then.
    proposes_ignore_rules: bool,
}

/// Hides the notes from git and tells the user about it. Returns the files that were written.
fn prepare_notes(
    config: &Config,
    agent: &AgentDir,
    later: bool,
    events: &Events,
    output: &Output,
) -> Vec<String> {
    let name = agent.name();
    if name != NOTES_DIRS[0] {
        let users = NOTES_DIRS[0];
        output.caution(&format!("{users}/ is yours, so act keeps its notes in {name}/"));
    }
    if let Err(error) = agent.hide_from_git() {
        output.caution(&format!("{name}/.gitignore cannot be written: {error}"));
    }
    match later {
        true => vec![],
        false => ignore_notes(config, name, events, output).into_iter().collect(),
    }
}

/// Adds the line that hides the notes to `.gitignore`, unless the repository's configuration forbids it. Returns what
/// was written.
fn ignore_notes(config: &Config, name: &str, events: &Events, output: &Output) -> Option<String> {
    if !config.gitignore {
        return None;
    }
    match append_gitignore_once(&config.root, name) {
        Ok(GitignoreEntry::AlreadyThere) => None,
        Ok(GitignoreEntry::Added) => {
            output.caution(&format!(
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

impl Task<'_> {
    /// A refusal is the end of a task whose turn came for something that does not hold any more.
    async fn perform(
        &self,
        brief: TaskInput,
        notes: Option<NotesWriter<AgentDir>>,
        audit: Result<Audit, AuditError>,
    ) -> Result<Finished, Failure> {
        let Self { ready, lock, ticket, ledger, events, output, cancel, .. } = self;
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
                let (code, diagnosis) = (error.code(), edges::in_words(&error));
                let (notes, trouble) = (notes.as_ref(), (code, diagnosis.as_str()));
                return Ok(editor::end_before_work(&brief, notes, events, None, trouble));
            }
        };
        let gate = match &ready.engine {
            None => None,
            Some(engine) => match self.gate(engine).await {
                Gate::Ready(image) => Some((engine.clone(), image)),
                Gate::Cancelled => return Ok(cancelled()),
                Gate::Missing { code, message } => {
                    let (notes, trouble) = (notes.as_ref(), (code, message.as_str()));
                    let head = audit.head();
                    return Ok(editor::end_before_work(&brief, notes, events, head, trouble));
                }
            },
        };
        let work = Work {
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
            () = cancel.cancelled() => return Ok(cancelled()),
            assembled = tokio::task::spawn_blocking(move || team::assemble(work)) => assembled,
        };
        let assembled = assembled.unwrap_or_else(|stopped| match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(stopped) => Err(failed("the team cannot be put together")(stopped)),
        });
        // What was opened by its path is the directory that is locked.
        let Team { mut editor, writer, overlay } = match (lock.root().stays(), assembled) {
            (Ok(()), Ok(team)) => team,
            (Err(moved), _) => return Ok(cannot_work(RootMoved::CODE, moved.to_string())),
            (_, Err(error)) => return Ok(cannot_work("unknown", error.to_string())),
        };
        if let Errand::Apply { dry_run } = &ready.errand {
            let proposal = apply::check(&ticket.desk, &writer, dry_run)?;
            if let Err(finished) = editor.begin_with(proposal.draft).await {
                return Ok(finished);
            }
            events.emit(Milestone::Implementing.into());
            let stopped = || cancel.is_cancelled();
            match apply::carry_out(ticket, &writer, dry_run, events, output, &stopped) {
                Ok(()) if self.proposes_ignore_rules => {
                    if let Ok(name) = AgentDir::name_in(&config.root) {
                        let wrote = ignore_notes(config, name, events, output);
                        editor.input.host_wrote.extend(wrote);
                    }
                }
                Ok(()) => {}
                Err(_) if cancel.is_cancelled() => return Ok(cancelled()),
                Err(refusal) => return Err(refusal),
            }
        }
        let mut finished = editor.work().await;
        if let (Some(overlay), Some(draft)) = (overlay, finished.draft.take()) {
            propose(ticket, lock.root().path(), &overlay, draft, events, output);
        }
        Ok(finished)
    }

    async fn gate(&self, engine: &Engine) -> Gate {
        let Self { ready, events, cancel, .. } = self;
        tokio::select! {
            () = cancel.cancelled() => return Gate::Cancelled,
            reaped = engine.reap_orphans() => {
                if let Err(error) = reaped {
                    let text = format!("left-over containers: {error}");
                    events.emit(EventKind::Diagnosis { text });
                }
            }
        }
        match engine.ensure_image(&ready.config.pipeline.image, events, cancel).await {
            Ok(Some(image)) => Gate::Ready(image),
            Ok(None) => Gate::Cancelled,
            Err(error) => Gate::Missing { code: error.error_type.as_str(), message: error.message },
        }
    }
}

/// What there is to verify with.
enum Gate {
    Ready(ResolvedImage),
    Cancelled,
    Missing { code: &'static str, message: String },
}

fn cannot_work(reason: &str, why: String) -> Finished {
    Finished {
        reason: Some(reason.to_owned()),
        summary: Some(why),
        ..Finished::of(State::InfraError)
    }
}

pub(super) fn cancelled() -> Finished {
    Finished { reason: Some("cancelled".into()), ..Finished::of(State::Cancelled) }
}

/// A fault of ours; the panic hook has said where.
fn unexpected(panic: &(dyn std::any::Any + Send)) -> Finished {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    cannot_work("unexpected", format!("a fault of act itself: {message}; please report it"))
}
