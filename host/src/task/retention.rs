//! After a task and after `act verify`: old runs and journals go.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::ticket::Desk;
use crate::artifacts::{Pruned, RunId};
use crate::audit::{Audit, AuditError, Entry, Event};
use crate::output::Output;
use crate::store::Store;
use crate::workspace::digest;

/// Nobody waits longer for the end of a command; the next one goes on.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a signal.
const HURRY: Duration = Duration::from_millis(50);

/// The runs of this process are not needed by it any more. What was pinned is in the store by now.
pub(super) async fn make_room(desk: &Desk, hurry: bool, output: &Output) {
    desk.artifacts.release_runs();
    let (artifacts, store) = (Arc::clone(&desk.artifacts), Arc::clone(&desk.store));
    let patience = if hurry { HURRY } else { PATIENCE };
    let pruned = tokio::task::spawn_blocking(move || {
        artifacts.prune(crate::clock::now(), patience, || pinned(&store))
    });
    match pruned.await.unwrap_or_else(|stopped| Err(io::Error::other(stopped))) {
        Ok(Pruned { left, runs, journals }) => {
            if let Err(error) = recorded(&desk.audit, &runs, &journals) {
                output.caution(&format!("which old runs were removed is not recorded: {error}"));
            }
            for (run, error) in left {
                output.caution(&format!("old run {run} cannot be removed: {error}"));
            }
        }
        Err(error) => output.caution(&format!("old runs cannot be removed: {error}")),
    }
}

/// What went, by its names.
fn recorded(audit: &Audit, runs: &[RunId], journals: &[String]) -> Result<(), AuditError> {
    if runs.is_empty() && journals.is_empty() {
        return Ok(());
    }
    let names: Vec<_> =
        runs.iter().map(RunId::as_str).chain(journals.iter().map(String::as_str)).collect();
    let entry = Entry::new(Event::RunsRemoved)
        .reason("retention")
        .count("runs", runs.len() as u64)
        .count("journals", journals.len() as u64)
        .digest("names", Some(&digest(names.join("\n").as_bytes())))
        .names(names);
    audit.append(entry)?;
    audit.settle()
}

/// The runs of every unresolved stuck report.
fn pinned(store: &Store) -> io::Result<BTreeSet<RunId>> {
    let reports = store.unresolved_stuck_reports().map_err(io::Error::other)?;
    let runs = reports.iter().flat_map(|report| &report.run_ids);
    Ok(runs.filter_map(|run| RunId::parse(run).ok()).collect())
}
