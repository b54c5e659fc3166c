//! Removes old runs after a task and after `act verify`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use tokio_util::sync::CancellationToken;

use crate::queue::TaskContext;
use act_audit::{Audit, AuditError, Entry, Event};
use act_config::UserSettings;
use act_core::RunId;
use act_core::event::Events;
use act_records::artifacts::{ArtifactDir, KnownRuns, Pruned};
use act_records::store::{Store, StuckReportRecord};
use act_workspace::digest;

/// Longest time that a command spends on removing runs; the next command continues.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// A report pins its runs even if its repository is gone, but then no longer than this.
const PIN_LIMIT: TimeDelta = TimeDelta::days(14);

/// Removes old runs and originals after a task or a verification, until a signal or the time limit ends this. Warns of what cannot
/// be removed.
pub(super) async fn make_room(context: &TaskContext, cancel: &CancellationToken, events: &Events) {
    let audit = context.audit.clone();
    let (context, cancel, start) = (context.clone(), cancel.clone(), Instant::now());
    let pruned = tokio::task::spawn_blocking(move || {
        make_room_while(&context, &|| !cancel.is_cancelled() && start.elapsed() < TIME_LIMIT)
    });
    match pruned.await.unwrap_or_else(|stopped| Err(io::Error::other(stopped))) {
        Ok(Pruned { left, runs }) => {
            if let Err(error) = recorded(&audit, &runs) {
                events.warn(format!("cannot record which old runs were removed: {error}"));
            }
            for (run, error) in left {
                events.warn(format!("old run {run} cannot be removed: {error}"));
            }
        }
        Err(error) => events.warn(format!("old runs cannot be removed: {error}")),
    }
}

/// Sweeps the runs of killed processes, whose containers are removed by now.
pub(super) async fn sweep_killed(artifacts: &Arc<ArtifactDir>, events: &Events) {
    let artifacts = Arc::clone(artifacts);
    let swept = tokio::task::spawn_blocking(move || artifacts.sweep_killed()).await;
    match swept.unwrap_or_else(|stopped| Err(io::Error::other(stopped))) {
        Ok(swept) if swept.privileged + swept.foreign > 0 => events.warn(format!(
            "made harmless in the runs of killed processes: {} setuid or setgid files, {} files of another owner removed",
            swept.privileged, swept.foreign
        )),
        Ok(_) => {}
        Err(error) => events.warn(format!("the runs of killed processes cannot be swept: {error}")),
    }
}

pub(super) fn make_room_while(
    context: &TaskContext,
    go_on: &dyn Fn() -> bool,
) -> io::Result<Pruned> {
    let (now, store) = (act_core::clock::now(), Arc::clone(&context.store));
    let order = |task: &str| store.task_order(task).map_err(io::Error::other);
    context.artifacts.prune_originals(now, &order)?;
    // Settings that cannot be read remove nothing.
    if let Ok(settings) = UserSettings::read(None) {
        let count = settings.keep_proofs;
        context.artifacts.prune_proofs(now, count, |ids| order_of(&store, ids))?;
    }
    context.artifacts.prune(now, go_on, |runs| known(&store, runs, now))
}

/// Records the names of the removed runs in the audit log.
fn recorded(audit: &Audit, runs: &[RunId]) -> Result<(), AuditError> {
    if runs.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = runs.iter().map(RunId::as_str).collect();
    let entry = Entry::new(Event::RunsRemoved)
        .reason("retention")
        .count("runs", runs.len() as u64)
        .digest("names", Some(&digest(names.join("\n").as_bytes())))
        .names(names);
    audit.append(entry)?;
    audit.settle()
}

fn known(store: &Store, runs: &[RunId], now: DateTime<Utc>) -> io::Result<KnownRuns> {
    Ok(KnownRuns { pinned: pinned(store, now)?, order: order_of(store, runs)? })
}

/// Returns the places of runs in the order in which they began.
fn order_of(store: &Store, runs: &[RunId]) -> io::Result<BTreeMap<RunId, i64>> {
    let mut order = BTreeMap::new();
    for run in runs {
        let place = store.run_order(run.as_str()).map_err(io::Error::other)?;
        order.extend(place.map(|place| (run.clone(), place)));
    }
    Ok(order)
}

/// Returns the runs that unresolved stuck reports pin.
fn pinned(store: &Store, now: DateTime<Utc>) -> io::Result<BTreeSet<RunId>> {
    let mut pinned = BTreeSet::new();
    for report in store.unresolved_stuck_reports().map_err(io::Error::other)? {
        let root = store.last_root(&report.repo).map_err(io::Error::other)?;
        if !is_forgotten(&report, root.as_deref(), now) {
            pinned.extend(report.run_ids.iter().filter_map(|run| RunId::parse(run).ok()));
        }
    }
    Ok(pinned)
}

fn is_forgotten(report: &StuckReportRecord, root: Option<&str>, now: DateTime<Utc>) -> bool {
    let gone = |root: &str| {
        let found = Path::new(root).symlink_metadata();
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let written = DateTime::parse_from_rfc3339(&report.written_at);
    let old = written.is_ok_and(|at| now.signed_duration_since(at) > PIN_LIMIT);
    old && root.is_some_and(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_repository_that_is_gone_keeps_its_runs_for_a_while_only() {
        // ARTIFACT-13
        let dir = tempfile::tempdir().unwrap();
        let (here, gone) = (dir.path().to_str().unwrap(), dir.path().join("gone"));
        let gone = gone.to_str();
        let now = act_core::clock::now();
        let report = |days: i64| StuckReportRecord {
            task_id: "t-abc123".into(),
            repo: "repo".into(),
            path: "agent/stuck_report.md".into(),
            sha256: "ab".into(),
            run_ids: vec![],
            written_at: act_core::clock::milliseconds(now - TimeDelta::days(days)),
            resolved_at: None,
        };
        assert!(is_forgotten(&report(15), gone, now));
        assert!(!is_forgotten(&report(13), gone, now));
        assert!(!is_forgotten(&report(400), Some(here), now));
        assert!(!is_forgotten(&report(400), None, now), "nothing is known of it");
    }
}
