//! Running a task whose own process is dead, with this process's environment and before its own task.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::last_word::LastWord;
use super::ticket::Desk;
use super::turn::Waiting;
use super::work::{self, cancelled};
use super::{RunArgs, living, preflight, runner};
use crate::output::Output;
use act_core::fail_point;
use act_core::process::Life;
use act_model::TokenLedger;
use act_records::store::StoreError;
use act_workspace::RepoLock;

/// To its end, whatever that is: it is written down and told to its journal, not to our streams.
pub(super) async fn run(
    desk: &Desk,
    task_id: &str,
    waiting: &mut Waiting<'_>,
    lock: RepoLock,
    output: &Output,
    cancel: &CancellationToken,
) -> Result<(), StoreError> {
    // Before the lock was ours, another process may have done it.
    let Some(record) = desk.store.task(task_id)? else { return Ok(()) };
    if living::life(&desk.artifacts, &desk.this, &record.owner, task_id) != Life::Dead {
        return Ok(());
    }
    let Some(ticket) = desk.adopt(task_id, &record.owner)? else { return Ok(()) };
    waiting.adopted(task_id);
    fail_point::reach("adopted");
    let args = RunArgs::of(&record, waiting.root.to_owned());
    let ledger = TokenLedger::limited(args.max_tokens);
    let events = runner::events(&ticket, &ledger, output, vec![]);
    let ticket = Arc::new(ticket);
    let last = LastWord::new(events.clone(), ledger.clone()).kept(Arc::clone(&ticket), output);
    let checked = tokio::select! {
        checked = preflight::check(&args) => checked,
        () = cancel.cancelled() => {
            last.say(cancelled());
            return Ok(());
        }
    };
    let begun = checked.and_then(|mut ready| {
        ready.begin(None, &desk.audit)?;
        Ok(ready)
    });
    match begun {
        Ok(ready) => {
            work::start(&ready, &lock, &ticket, last, (&ledger, &events), output, cancel).await;
        }
        Err(failure) => {
            last.refuse(&failure);
        }
    }
    Ok(())
}
