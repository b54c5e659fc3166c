//! `act logs`: the log of a run, chosen by its id, by the id of its task, or as the last one of the repository.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::prepare;
use crate::queue::TaskId;
use crate::status::Lookup;
use act_core::{Document, Failure, RunId};
use act_records::artifacts::{ArtifactDir, LogError, LogText};
use act_records::store::RunRecord;

/// Bytes of a log in a JSON document.
const DOCUMENT: u64 = 16 * 1024 * 1024;
/// Number of runs that a hint names.
const NAMED: usize = 3;

/// The open log of a run.
#[derive(Debug)]
pub struct RunLog {
    pub run_id: String,
    pub file: File,
}

impl RunLog {
    pub fn is_empty(&self) -> bool {
        self.file.metadata().is_ok_and(|about| about.len() == 0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LogDocument {
    pub run_id: String,
    /// Name of the step; null for the log of all steps.
    pub step: Option<String>,
    /// Bytes of the log before `log`.
    pub left_out: u64,
    /// The log as UTF-8; invalid bytes are replaced.
    pub log: String,
}

impl Document for LogDocument {
    const NAME: &'static str = "logs";
}

/// Opens the log of a run. `of` is a run or a task; `None` means the last run of the repository at `start`. Nothing
/// is opened before `of` has the form of an id.
///
/// # Errors
///
/// The run or the step is unknown or was removed, or the log cannot be read.
pub fn log(start: &Path, of: Option<&str>, step: Option<&str>) -> Result<RunLog, Failure> {
    let run_id = run_named(start, of)?;
    let root = act_config::find_root(start)?.map(|root| root.path);
    let artifacts = prepare::artifacts(root.as_deref().unwrap_or(start))?;
    match artifacts.open_log(&run_id, step) {
        Ok(file) => Ok(RunLog { run_id, file }),
        Err(error @ LogError::NoRun { .. }) => Err(unknown(error, &artifacts, start, &run_id)),
        Err(error) => Err(error.into()),
    }
}

fn run_named(start: &Path, of: Option<&str>) -> Result<String, Failure> {
    match of {
        None => last_here(start),
        Some(of) if TaskId::is_one(of) => last_of(start, of),
        Some(of) => Ok(RunId::parse(of).map_err(LogError::from)?.as_str().to_owned()),
    }
}

/// Returns the id of the run that `of` names, as for [`log`], if it is one of the repository at `start`.
///
/// # Errors
///
/// The run is unknown, or belongs to another repository (`run_unknown` both times, so that the caller does not learn which).
pub fn run_here(start: &Path, of: Option<&str>) -> Result<String, Failure> {
    let unknown = |name: &str| {
        Failure::refused("run_unknown", format!("this repository has no run {name}"))
            .hint("`act history` lists the runs of a repository")
    };
    let run_id = match run_named(start, of) {
        Err(failure) if failure.code == "task_unknown" => {
            return Err(unknown(&format!("of {}", of.unwrap_or_default())));
        }
        named => named?,
    };
    let lookup = Lookup::open(start)?;
    let (context, _) = lookup.context()?;
    match lookup.store.run(&run_id)? {
        Some(run) if is_of(&lookup, &run, &context.repo)? => Ok(run_id),
        _ => Err(unknown(of.unwrap_or(&run_id))),
    }
}

/// Returns whether a run belongs to a repository: it tested that, or a worktree of it.
fn is_of(lookup: &Lookup, run: &RunRecord, repo: &str) -> Result<bool, Failure> {
    let task = run.task_id.as_deref().map(|id| lookup.store.task(id)).transpose()?.flatten();
    Ok(run.repo == repo || task.is_some_and(|task| task.belongs_to(repo)))
}

fn last_here(start: &Path) -> Result<String, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, _) = lookup.context()?;
    lookup.store.last_run(&context.repo)?.map(|run| run.run_id).ok_or_else(|| {
        Failure::refused("run_unknown", "nothing was verified in this repository")
            .hint("`act verify` runs the pipeline; `act history --all` lists the tasks of all repositories")
    })
}

fn last_of(start: &Path, task_id: &str) -> Result<String, Failure> {
    let lookup = Lookup::open(start)?;
    let Some(task) = lookup.store.task(task_id)? else {
        return Err(Failure::refused("task_unknown", format!("there is no task {task_id}"))
            .hint("`act history --all` lists the tasks of all repositories"));
    };
    task.run_ids.last().cloned().ok_or_else(|| {
        Failure::refused("run_unknown", format!("task {task_id} has verified nothing"))
            .hint("`act history` shows how it ended")
    })
}

/// Returns the refusal for a run without files: it was removed, or it never existed.
fn unknown(error: LogError, artifacts: &Arc<ArtifactDir>, start: &Path, run_id: &str) -> Failure {
    // This is only for the message, so a store that cannot be read is ignored.
    let known = Lookup::open(start).ok().and_then(|lookup| lookup.store.run(run_id).ok()?);
    if let Some(run) = known {
        let whose = run.task_id.map(|task_id| format!(" of task {task_id}")).unwrap_or_default();
        let status = run.status.map(|status| format!(", {status},")).unwrap_or_default();
        let message = format!("run {run_id}{whose}{status} was removed since");
        return Failure::refused("run_removed", message)
            .hint("the 20 newest runs of the last 14 days are kept");
    }
    let newest: Vec<_> = artifacts.run_ids().unwrap_or_default();
    let names: Vec<_> = newest.iter().rev().take(NAMED).map(RunId::as_str).collect();
    let failure = Failure::from(error);
    match names.is_empty() {
        true => failure.hint("there are no runs; `act verify` makes one"),
        false => failure.hint(format!("the newest are {}", names.join(", "))),
    }
}

impl RunLog {
    /// Returns the log as a JSON document: all of it, or the end of a long one.
    ///
    /// # Errors
    ///
    /// The log cannot be read (`run_unreadable`).
    pub fn document(self, step: Option<&str>) -> Result<LogDocument, Failure> {
        let LogText { text, left_out } = LogText::end_of(&self.file, DOCUMENT)
            .map_err(|error| Failure::refused("run_unreadable", error.to_string()))?;
        let step = step.map(str::to_owned);
        Ok(LogDocument { run_id: self.run_id, step, left_out, log: text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::document_holds::<LogDocument>();
    }
}
