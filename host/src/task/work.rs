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
use act_agent::context::Notebook;
use act_agent::editor::{self, Brief, Finished, State};
use act_audit::{Audit, AuditError};
use act_core::Failure;
use act_core::event::{EventKind, Events, Milestone};
use act_core::exit::Exit;
use act_model::TokenLedger;
use act_verifier::{Engine, ResolvedImage};
use act_workspace::{AgentDir, RepoLock, RootMoved, append_gitignore_once, git_shows_notes};

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
    let first_notes = matches!(AgentDir::look(&ready.config.root), Ok(None));
    let notes = match ready.errand {
        Errand::DryRun => None,
        Errand::Run { .. } | Errand::Apply { .. } => match AgentDir::open(&ready.config.root) {
            Ok(agent) => Some(Notebook::new(agent).without(output.secrets().clone())),
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
    let brief = brief(ready, ticket, output);
    let audit = edges::begin(ready, ticket, &brief);
    let cancel = &cancel;
    let hiding = Hiding { first_notes, proposes_ignore_rules };
    let task = Task { ready, lock, ticket, ledger, events, output, cancel, hiding };
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
fn brief(ready: &Ready, ticket: &Ticket, output: &Output) -> Brief {
    let (config, desk) = (&ready.config, &ticket.desk);
    let found =
        earlier_report::find(&desk.store, &desk.repo, &config.root).unwrap_or_else(|error| {
            output.caution(&format!("begins without the stuck report, if there is one: {error}"));
            None
        });
    Brief {
        task_id: ticket.task_id.clone(),
        request: ready.request.clone(),
        package: config.monorepo_package.clone(),
        unheld: {
            let boundaries = ready.request.boundaries().iter();
            boundaries.filter(|item| !ready.enforced.contains(item)).cloned().collect()
        },
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
    hiding: Hiding,
}

/// What there is to know about hiding `agent/` from git.
#[derive(Clone, Copy)]
struct Hiding {
    /// Nothing was ever written to `agent/` here.
    first_notes: bool,
    /// What is to be applied fits only as long as `.gitignore` is what the dry run saw.
    proposes_ignore_rules: bool,
}

impl Task<'_> {
    /// A refusal is the end of a task whose turn came for something that does not hold any more.
    async fn perform(
        &self,
        brief: Brief,
        notes: Option<Notebook<AgentDir>>,
        audit: Result<Audit, AuditError>,
    ) -> Result<Finished, Failure> {
        let Self { ready, lock, ticket, ledger, events, output, cancel, .. } = self;
        let (config, request) = (&ready.config, &ready.request);
        events.emit(EventKind::TaskStarted {
            repo: config.root.display().to_string(),
            pipeline_sha256: config.sha256.clone(),
        });
        events.emit(EventKind::Constraints {
            constraints: request.constraints().to_vec(),
            non_goals: request.non_goals().to_vec(),
            boundaries: request.boundaries().to_vec(),
            enforced: ready.enforced.clone(),
        });
        // Before the first note, whoever writes it and however this task ends.
        if !matches!(ready.errand, Errand::DryRun) {
            self.hide_notes_from_git(self.hiding.proposes_ignore_rules);
        }
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
                Ok(()) if self.hiding.proposes_ignore_rules => self.hide_notes_from_git(false),
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

    /// agent/ is left out of every view by name; only the user's own git would show it, which is said in the first
    /// task of a repository.
    fn hide_notes_from_git(&self, later: bool) {
        const CURE: &str = "the line `agent/` in .git/info/exclude hides it";
        let root = &self.ready.config.root;
        let line = (!later).then(|| append_gitignore_once(root));
        if !git_shows_notes(root) {
            return;
        }
        let (why, cure) = match line {
            None => (".gitignore gets its line when the proposal is applied".to_owned(), CURE),
            Some(Err(error)) => (error.to_string(), CURE),
            Some(Ok(_)) => (
                "what .gitignore says of it is undone by a later rule, or files in it are tracked"
                    .to_owned(),
                "`git check-ignore -v agent` names the rule",
            ),
        };
        let text = format!("git shows agent/, the notes of act: {why}; {cure}");
        if self.hiding.first_notes {
            self.output.caution(&text);
        }
        self.events.emit(EventKind::Diagnosis { text });
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
