//! Tasks of several processes in one repository: the queue, its ends, and what kills leave.

mod cancel;
mod damage;
mod detach;
mod drill;
mod elsewhere;
mod fail_points;
mod full_disk;
mod held_store;
mod moved;
mod queue;
mod signals;

use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::harness::script::{call, opening, script};
use crate::harness::{Act, containers_of, image};

/// The usual pipeline of these tests.
const QUICK: &[(&str, &str)] = &[("test", "true")];

/// A repository whose pipeline is green.
fn repository() -> Act {
    Act::new().file("answer.txt", "none\n").pipeline(image(), QUICK)
}

/// A model that can do `times` whole tasks, one after the other, each without an edit.
fn whole_tasks(times: u32) -> String {
    let account = json!({
        "what": "The step is green.", "why": "Nothing is missing.", "outcome": "nothing_to_do"});
    let last = [call("verify", json!({})), call("done", account)];
    let turns: Vec<_> = opening("look").into_iter().chain(last).collect();
    script([json!({"repeat": times, "turns": turns})])
}

/// A model that says nothing: each task, of a few, runs until it is ended.
fn silent() -> String {
    let turn = json!({"role": "editor", "text": "thinking", "stall_after_bytes": 40});
    script(vec![turn; 4])
}

/// One row of the history.
#[derive(Debug, Clone)]
struct Kept {
    task_id: String,
    text: String,
    state: String,
    reason: Option<String>,
    started_at: Option<String>,
    finished_at: Option<String>,
    run_ids: Vec<String>,
}

/// Every task, in order of acceptance; and the database is sound.
fn history(act: &Act) -> Vec<Kept> {
    let path = act.artifacts().join("state/act.db");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let db = Connection::open_with_flags(path, flags).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let mut runs = db.prepare("SELECT run_id FROM runs WHERE task_id = ? ORDER BY rowid").unwrap();
    let mut tasks = db.prepare("SELECT * FROM tasks ORDER BY seq").unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        let task_id: String = row.get("task_id")?;
        let run_ids = runs.query_map([&task_id], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(Kept {
            task_id,
            text: row.get("text")?,
            state: row.get("state")?,
            reason: row.get("reason")?,
            started_at: row.get("started_at")?,
            finished_at: row.get("finished_at")?,
            run_ids,
        })
    };
    let mut read = read;
    tasks.query_map([], |row| read(row)).unwrap().map(Result::unwrap).collect()
}

/// Texts and states, in order of acceptance.
fn states(act: &Act) -> Vec<(String, String)> {
    history(act).into_iter().map(|task| (task.text, task.state)).collect()
}

/// Each began after the one before it had ended, and none twice.
#[track_caller]
fn in_order(tasks: &[Kept]) {
    let ran: Vec<_> = tasks.iter().filter(|task| task.started_at.is_some()).collect();
    for pair in ran.windows(2) {
        let (before, after) = (&pair[0].finished_at, &pair[1].started_at);
        assert!(before.is_some() && before <= after, "{:#?}", tasks);
    }
}

/// How often the journal of a task says that it started.
fn starts(act: &Act, task_id: &str) -> usize {
    let path = act.artifacts().join(format!("state/journal/{task_id}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.matches(r#""type":"task_started""#).count()
}

/// Waits for what another process brings about.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(300), "{what}: never");
        std::thread::sleep(Duration::from_millis(20));
    }
    start.elapsed()
}

/// The one JSON document of a command in the repository.
fn document(act: &Act, arguments: &[&str]) -> Value {
    let told = act.clone().act(arguments.iter().copied()).status(0);
    told.json()
}

/// Containers of every run that the store knows of.
pub(crate) fn containers(act: &Act) -> Vec<String> {
    let runs = history(act).into_iter().flat_map(|task| task.run_ids);
    runs.flat_map(|run_id| containers_of(&run_id)).collect()
}
