//! `act apply`: a task that begins with the files of a proposal, and then goes on like any other.

use std::path::PathBuf;

use super::lookup::Lookup;
use super::preflight::Ready;
use super::proposal::{self, Proposal};
use super::ticket::{Desk, Ticket};
use super::{Errand, RunArgs};
use crate::output::Output;
use act_audit::{Decision, Entry, Event};
use act_core::Failure;
use act_core::event::{EventKind, Events};
use act_core::fail_point;
use act_records::store::{ProposalRecord, ProposalState};
use act_workspace::{Applied, EditError, Left, ProposedFile, RepoWriter, Stands};

/// What `act apply` was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyArgs {
    /// The dry run; none for the newest proposal of the repository.
    pub task: Option<String>,
    pub repo: PathBuf,
    pub verbose: bool,
    pub max_tokens: Option<u64>,
}

/// The task that applies it: with the words and the permissions of the dry run.
pub fn errand(args: ApplyArgs) -> Result<RunArgs, Failure> {
    let lookup = Lookup::open(&args.repo)?;
    let (desk, root) = lookup.desk()?;
    let record = proposal::find(&desk, args.task.as_deref())?;
    let Some(task) = desk.store.task(&record.task_id)? else {
        let message = format!("the dry run {} is not known any more", record.task_id);
        return Err(Failure::refused("no_proposal", message));
    };
    Ok(RunArgs {
        text: task.text,
        repo: root.to_owned(),
        verbose: args.verbose,
        allow_paths: task.flags.allow_paths,
        max_tokens: args.max_tokens,
        errand: Errand::Apply { dry_run: record.task_id },
        script: None,
    })
}

/// Refuses what cannot be applied to the repository as it is; nothing is written.
pub(super) fn check(desk: &Desk, writer: &RepoWriter, dry_run: &str) -> Result<Proposal, Failure> {
    let record = proposal::find(desk, Some(dry_run))?;
    let proposal = proposal::open(desk, &record)?;
    judge(&proposal.files, writer, record.state == ProposalState::Applying)?;
    Ok(proposal)
}

/// Puts the files of the proposal into the repository, all of them or none.
pub(super) fn carry_out(
    ticket: &Ticket,
    writer: &RepoWriter,
    dry_run: &str,
    events: &Events,
    output: &Output,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let Ticket { desk, task_id, .. } = ticket;
    let record = proposal::find(desk, Some(dry_run))?;
    let proposal = proposal::open(desk, &record)?;
    let begun = record.state == ProposalState::Applying;
    let done = judge(&proposal.files, writer, begun)?;
    if begun {
        let all = proposal.files.len();
        let text = format!(
            "an earlier `act apply` of this proposal was killed after {done} of {all} files; it is finished now"
        );
        output.caution(&text);
        events.emit(EventKind::Diagnosis { text });
    }
    // From here on a process that dies leaves a mark by which the next one knows.
    desk.store.set_proposal(dry_run, ProposalState::Applying, Some(task_id))?;
    fail_point::reach("applying");
    match writer.adopt(&proposal.files, stopped) {
        Ok(applied) => {
            fail_point::reach("adopted_files");
            let kept = desk.store.set_proposal(dry_run, ProposalState::Applied, Some(task_id));
            if let Err(error) = kept {
                output.caution(&format!("that the proposal was applied cannot be kept: {error}"));
            }
            for applied in &applied {
                audited(ticket, applied);
                events.emit(edit(applied));
            }
            Ok(())
        }
        Err(error) => {
            let before = if begun { ProposalState::Applying } else { ProposalState::Open };
            desk.store.set_proposal(dry_run, before, record.applied_by.as_deref())?;
            let refusal = refusal(&error);
            if let EditError::Torn { left, .. } = &error {
                left.iter().for_each(|left| not_taken_back(ticket, left));
                events.emit(EventKind::Diagnosis { text: refusal.message.clone() });
                // Who cancelled it is shown no refusal.
                if stopped() {
                    output.caution(&refusal.message);
                }
            }
            Err(refusal)
        }
    }
}

/// In the words of a warning.
pub(super) fn half_applied_text(dry_run: &str, output: &Output) -> String {
    let finish = format!("act apply {dry_run}");
    format!(
        "an `act apply` was killed while it wrote the proposal of {dry_run}, so some of its files may be written and \
         others not; `{}` finishes it",
        output.command(&finish)
    )
}

/// To whoever works next in the repository.
pub(super) fn tell_half_applied(ready: &Ready, desk: &Desk, output: &Output) {
    for ProposalRecord { task_id, .. } in desk.store.half_applied(&desk.repo).unwrap_or_default() {
        if ready.errand != (Errand::Apply { dry_run: task_id.clone() }) {
            output.caution(&half_applied_text(&task_id, output));
        }
    }
}

/// How many files are as proposed already, which they may be where an earlier attempt died.
fn judge(files: &[ProposedFile], writer: &RepoWriter, begun: bool) -> Result<usize, Failure> {
    let mut done = 0;
    let mut stale = vec![];
    for file in files {
        match writer.stands(file, files).map_err(|error| refusal(&error))? {
            Stands::AsBefore => {}
            Stands::AsProposed if begun => done += 1,
            Stands::AsProposed | Stands::Otherwise => stale.push(file.path.as_str()),
        }
    }
    match stale.as_slice() {
        [] => Ok(done),
        paths => Err(stale_paths(paths)),
    }
}

fn stale_paths(paths: &[&str]) -> Failure {
    let shown = paths.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    let more = paths.len().saturating_sub(5);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!("the repository has changed since the dry run: {shown}{more}");
    Failure::refused("proposal_stale", message)
        .hint("make the proposal again with `act run --dry-run`, or take these changes back")
}

fn refusal(error: &EditError) -> Failure {
    match error {
        EditError::Conflict { path, .. } => stale_paths(&[path]),
        EditError::Stopped => {
            Failure::refused("cancelled", "cancelled before everything was written")
        }
        EditError::Torn { why, left } => {
            let (why, left) = (refusal(why).message, Left::list(left));
            let message = format!("{why}; everything else was taken back, but {left}");
            Failure::refused("proposal_torn", message).hint(
                "look at these files and put them right first; then make the proposal again with `act run --dry-run`",
            )
        }
        EditError::Failed { .. } => Failure::refused("proposal_refused", error.to_string())
            .hint("everything was taken back; `act apply` makes it again when that can be written"),
        error => Failure::refused("proposal_refused", error.to_string())
            .hint("nothing was changed; `act run --dry-run` makes a proposal by today's rules"),
    }
}

/// What cannot be written now is written before the next action.
fn audited(ticket: &Ticket, applied: &Applied) {
    let Some(audit) = ticket.audit() else { return };
    let edit = Entry::new(Event::Edit).decision(Decision::Allow).reason(applied.op);
    let (before, after) = (applied.sha256_before.as_deref(), applied.sha256_after.as_deref());
    let edit = edit.object(&applied.path).digest("before", before).digest("after", after);
    let _ = audit.append(edit);
}

/// An edit that stays although the rest was undone.
fn not_taken_back(ticket: &Ticket, left: &Left) {
    let Some(audit) = ticket.audit().filter(|_| left.holds.ours()) else { return };
    let edit = Entry::new(Event::Edit).decision(Decision::Allow).reason("not_taken_back");
    let _ = audit.append(edit.object(&left.path));
}

fn edit(applied: &Applied) -> EventKind {
    EventKind::Edit {
        path: applied.path.clone(),
        op: applied.op.to_owned(),
        version: applied.version.as_ref().map_or(0, |version| version.number),
        sha256_before: applied.sha256_before.clone(),
        sha256_after: applied.sha256_after.clone(),
    }
}
