//! One task from the command line to its end: refused, or accepted and run to a state that has an exit code.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::audit::anchoring;
use super::last_word::LastWord;
use super::preflight::{self, Ready};
use super::queue::{Turn, Waiting};
use super::recorder::{ProgressSink, RunSink};
use super::ticket::Ticket;
use super::timing::TimingSink;
use super::work::{self, cancelled};
use super::{RunArgs, retention, signals};
use crate::output::Output;
use act_core::Failure;
use act_core::event::{EventKind, Events, Sink};
use act_core::exit::Exit;
use act_core::fail_point;
use act_model::TokenLedger;
use act_workspace::RootMoved;

pub async fn run(args: RunArgs, output: &Output) -> Result<Exit, Failure> {
    let cancel = signals::cancelled_by_signals()?;
    let checked = tokio::select! {
        ready = preflight::check(&args) => Some(ready?),
        () = cancel.cancelled() => None,
    };
    let Some(ready) = checked else {
        // Nobody has heard of it yet.
        let events = Events::new("", output.sinks());
        return Ok(LastWord::new(events, TokenLedger::default()).say(cancelled()));
    };
    ready.read_ahead();
    let desk = preflight::desk(&ready)?;
    preflight::proposal(&ready, &desk)?;
    let root = ready.config.root.clone();
    anchoring::first(ready.anchored, &desk.audit, &root, &cancel).await?;
    let (ticket, position) = desk.submit(&args, &root)?;
    fail_point::reach("accepted");
    let exit = follow(Accepted { ticket, position, args, ready }, output, &cancel).await;
    retention::make_room(&desk, &cancel, output).await;
    anchoring::anchor(&desk.audit, &root, &cancel, output).await;
    Ok(exit)
}

/// A task in the line, and what was found when it was accepted.
pub(super) struct Accepted {
    pub(super) ticket: Ticket,
    pub(super) position: u32,
    pub(super) args: RunArgs,
    pub(super) ready: Ready,
}

pub(super) async fn follow(
    accepted: Accepted,
    output: &Output,
    cancel: &CancellationToken,
) -> Exit {
    let Accepted { ticket, position, args, mut ready } = accepted;
    let ticket = Arc::new(ticket);
    let ledger = TokenLedger::limited(ready.max_tokens());
    let events = events(&ticket, &ledger, output, output.sinks());
    let last = LastWord::new(events.clone(), ledger.clone()).kept(Arc::clone(&ticket), output);
    let text = ready.request.text().to_owned();
    events.emit(EventKind::TaskQueued { text, position: Some(position) });

    let root = ready.config.root.clone();
    let Turn { lock, waited } =
        match Waiting::new(&ticket, &root, &events, output).wait(cancel).await {
            Ok(Some(turn)) => turn,
            Ok(None) => return last.say(cancelled()),
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
    if let Err(failure) = ready.begin(config, &ticket.desk.audit) {
        return last.refuse(&failure);
    }
    ledger.set_limit(ready.max_tokens());
    work::start(&ready, &lock, &ticket, last, (&ledger, &events), output, cancel).await
}

/// The end of a task that cannot even wait for its turn.
pub(super) fn refuse(ticket: Ticket, why: &Failure, output: &Output) -> Exit {
    let ledger = TokenLedger::default();
    let events = events(&ticket, &ledger, output, output.sinks());
    LastWord::new(events, ledger).kept(Arc::new(ticket), output).refuse(why)
}

/// The events of a task: the readers that write down come before those that tell.
pub(super) fn events(
    ticket: &Ticket,
    ledger: &TokenLedger,
    output: &Output,
    tell: Vec<Box<dyn Sink>>,
) -> Events {
    let Ticket { desk, task_id, .. } = ticket;
    let (journal, lines) = ticket.journal(output);
    let store: [Box<dyn Sink>; 3] = [
        Box::new(RunSink::new(desk, Some(task_id), output)),
        Box::new(ProgressSink::new(desk, task_id, ledger, output)),
        Box::new(TimingSink::new(desk, Some(task_id), output)),
    ];
    Events::resumed(task_id, lines, journal.into_iter().chain(store).chain(tell).collect())
}
