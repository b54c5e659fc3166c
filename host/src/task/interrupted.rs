//! Tasks whose process died while they ran: found by whichever `act` comes next.

use std::io::{self, Write};

use serde::Deserialize;

use super::living;
use act_core::event::{Event, EventKind};
use act_core::exit::Exit;
use act_core::process::{Life, Process};
use act_records::artifacts::ArtifactDir;
use act_records::store::{Ended, Store, StoreError, TaskState};

/// In every repository. What is not known to be dead is left alone.
pub(super) fn bury(
    store: &Store,
    artifacts: &ArtifactDir,
    this: &Process,
) -> Result<(), StoreError> {
    for place in store.running()? {
        if living::life(artifacts, this, &place.owner, &place.task_id) == Life::Dead {
            end(store, artifacts, &place.task_id, &place.owner)?;
        }
    }
    Ok(())
}

/// The end of one of them; nothing when its owner is another one by now. What it told as its end, and could not keep,
/// is its end.
pub(super) fn end(
    store: &Store,
    artifacts: &ArtifactDir,
    task_id: &str,
    owner: &Process,
) -> Result<(), StoreError> {
    let line = artifacts.last_line(task_id).unwrap_or_default();
    let told = line.and_then(|line| told(&line, task_id));
    let how = told.clone().unwrap_or_else(|| Ended {
        state: TaskState::InfraError,
        exit_code: Exit::Infra as u8,
        reason: Some("interrupted".to_owned()),
    });
    if store.end(task_id, owner, &how)? && told.is_none() {
        // What counts is in the store by now.
        let _ = last_event(store, artifacts, task_id, how);
    }
    Ok(())
}

#[derive(Deserialize)]
struct Told {
    r#type: String,
    task_id: String,
    state: String,
    exit_code: u8,
    reason: Option<String>,
}

/// The end that the last line of a journal tells, if it does (pure).
fn told(line: &str, task_id: &str) -> Option<Ended> {
    let told: Told = serde_json::from_str(line).ok()?;
    let state = TaskState::parse(&told.state).filter(|state| state.is_final())?;
    let ours = told.r#type == "task_finished" && told.task_id == task_id;
    ours.then_some(Ended { state, exit_code: told.exit_code, reason: told.reason })
}

/// Its journal ends as that of every task does.
fn last_event(store: &Store, artifacts: &ArtifactDir, task_id: &str, how: Ended) -> io::Result<()> {
    let Some(task) = store.task(task_id).map_err(io::Error::other)? else { return Ok(()) };
    let mut journal = artifacts.resume_journal(task_id)?;
    let kind = EventKind::TaskFinished {
        state: how.state.as_str().to_owned(),
        exit_code: how.exit_code,
        run_id: task.run_ids.last().cloned(),
        reason: how.reason,
        summary: None,
        report_path: None,
        tokens: task.tokens,
        gate_inputs_changed: vec![],
        edits_refused: Default::default(),
    };
    let (seq, time, task_id) = (journal.lines + 1, act_core::clock::now(), task_id.to_owned());
    let line = Event { seq, time, task_id, kind }.to_json().unwrap_or_default();
    journal.file.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_what_the_last_line_says_when_it_is_one() {
        // TASK-24
        let line = |kind: &str, task: &str, state: &str| {
            format!(
                r#"{{"v":1,"type":"{kind}","task_id":"{task}","state":"{state}","exit_code":0,"reason":null,"x":1}}"#
            )
        };
        let success = told(&line("task_finished", "t-1", "SUCCESS"), "t-1").unwrap();
        assert_eq!((success.state, success.exit_code), (TaskState::Success, 0));
        for other in [
            line("task_started", "t-1", "SUCCESS"),
            line("task_finished", "t-2", "SUCCESS"),
            line("task_finished", "t-1", "QUEUED"),
            line("task_finished", "t-1", "success"),
            "{}".to_owned(),
        ] {
            assert_eq!(told(&other, "t-1"), None, "{other}");
        }
    }
}
