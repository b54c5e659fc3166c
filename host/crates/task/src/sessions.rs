//! Sessions of a client such as an editor: the tasks that it asked for one after the other in one conversation. The store holds
//! the session of each task in its flags, and the journals hold what happened.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use rand::RngExt;
use serde::Deserialize;

use crate::queue::{TaskContext, TaskId};
use crate::status::Lookup;
use act_agent::editor::EarlierTask;
use act_core::Failure;
use act_records::artifacts::ArtifactDir;
use act_records::store::{TaskRecord, TaskState};

/// Number of tasks of a repository, the newest ones, among which sessions are looked for. More are read by `act history`.
const MAX_TASKS: u32 = 1_000;
/// Maximum number of bytes of one journal that is replayed; those of most tasks have some hundred kilobytes.
const MAX_JOURNAL: u64 = 8 * 1024 * 1024;
/// Maximum number of tasks of one session that are replayed, the newest ones.
const MAX_REPLAYED: usize = 50;

const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// Number of random characters of the id of a session. No process knows the sessions of the others, so collisions must be
/// unlikely.
const RANDOM: usize = 16;

/// The id of a session: `s-` and sixteen random characters of `[a-z0-9]`. A task that belongs to no session is a session of its
/// own, whose id is that of the task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

impl SessionId {
    pub fn random() -> Self {
        let mut rng = rand::rng();
        let random =
            (0..RANDOM).filter_map(|_| ALPHABET.get(rng.random_range(..ALPHABET.len())).copied());
        Self(std::iter::once("s-".chars()).flatten().chain(random.map(char::from)).collect())
    }

    /// Returns the id that a text holds, or `None` if it has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let random = text.strip_prefix("s-").unwrap_or_default();
        let is_own = random.len() == RANDOM && random.bytes().all(|byte| ALPHABET.contains(&byte));
        (is_own || TaskId::is_one(text)).then(|| Self(text.to_owned()))
    }

    /// Returns the session that a stored task belongs to.
    fn of(record: &TaskRecord) -> Self {
        let own = || record.task_id.clone();
        Self(record.flags.session.clone().unwrap_or_else(own))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A session of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastSession {
    pub id: SessionId,
    /// The text of its first task that is known.
    pub text: String,
    /// When its last task ended or was submitted; ISO 8601 in UTC.
    pub updated_at: String,
}

/// A task of a session with its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastTask {
    pub task_id: String,
    pub text: String,
    pub state: TaskState,
    /// The lines of the journal, in order.
    pub lines: Vec<String>,
    /// The journal is gone, or it is longer than what is replayed.
    pub is_cut: bool,
}

/// Returns the sessions of the repository at `start`, the newest first, at most `most`.
///
/// # Errors
///
/// There is no repository at `start`, or the store cannot be read.
pub fn sessions(start: &Path, most: usize) -> Result<Vec<PastSession>, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, _) = lookup.context()?;
    let mut sessions: Vec<PastSession> = vec![];
    let mut places = BTreeMap::new();
    for record in context.store.history(Some(&context.repo), MAX_TASKS)? {
        let id = SessionId::of(&record);
        let place = *places.entry(id.clone()).or_insert(sessions.len());
        match sessions.get_mut(place) {
            // The records come newest first, so this one is the older.
            Some(session) => session.text = record.text,
            None => {
                let updated_at = record.finished_at.unwrap_or(record.submitted_at);
                sessions.push(PastSession { id, text: record.text, updated_at });
            }
        }
    }
    sessions.truncate(most);
    Ok(sessions)
}

/// Returns the tasks of a session of the repository at `start`, the oldest first, with their journals.
///
/// # Errors
///
/// The repository has no such session (`task_unknown`), or the store or a journal cannot be read.
pub fn session(start: &Path, id: &SessionId) -> Result<Vec<PastTask>, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, root) = lookup.context()?;
    let mut records = context.store.history(Some(&context.repo), MAX_TASKS)?;
    records.retain(|record| SessionId::of(record) == *id);
    records.truncate(MAX_REPLAYED);
    if records.is_empty() {
        let message = format!("there is no session {id} in {}", root.display());
        return Err(Failure::refused("task_unknown", message)
            .hint("`act history` lists the tasks of a repository"));
    }
    let past = |TaskRecord { task_id, text, state, .. }: TaskRecord| {
        let (lines, is_cut) = lines(&context.artifacts, &task_id);
        PastTask { task_id, text, state, lines, is_cut }
    };
    Ok(records.into_iter().rev().map(past).collect())
}

/// Returns the whole lines of a journal and whether there are more.
fn lines(artifacts: &ArtifactDir, task_id: &str) -> (Vec<String>, bool) {
    let Ok(Some(file)) = artifacts.open_journal(task_id) else { return (vec![], true) };
    let longer = file.metadata().is_ok_and(|about| about.len() > MAX_JOURNAL);
    let mut reader = BufReader::new(file.take(MAX_JOURNAL));
    let (mut lines, mut line) = (vec![], String::new());
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) && line.ends_with('\n') {
        lines.push(line.trim_end().to_owned());
        line.clear();
    }
    (lines, longer)
}

/// The last line of a journal, as far as the next task of the session needs it.
#[derive(Deserialize)]
struct End {
    r#type: String,
    state: String,
    reason: Option<String>,
    summary: Option<String>,
}

/// Returns how the last task of a session ended that ran. A session without one gives none, and so does trouble with the store:
/// a task needs the one before it for nothing but to be understood.
pub(super) fn last_task(context: &TaskContext, session: &SessionId) -> Option<EarlierTask> {
    let records = context.store.history(Some(&context.repo), MAX_TASKS).ok()?;
    let mut ended = records.into_iter().filter(|record| record.state.is_final());
    let record = ended.find(|record| SessionId::of(record) == *session)?;
    let line = context.artifacts.last_line(&record.task_id).ok().flatten();
    let end = line.and_then(|line| serde_json::from_str::<End>(&line).ok());
    let end = end.filter(|end| end.r#type == "task_finished");
    let (state, reason, summary) = match end {
        Some(End { state, reason, summary, .. }) => (state, reason, summary),
        None => (record.state.as_str().to_owned(), record.reason, None),
    };
    let outcome = reason.map_or_else(|| state.clone(), |reason| format!("{state} ({reason})"));
    Some(EarlierTask { text: record.text, outcome, summary })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::finish::testing::accepted;
    use crate::queue::TaskId;
    use act_records::store::Flags;

    #[test]
    fn an_id_of_a_session_has_its_own_form_or_that_of_a_task() {
        let id = SessionId::random();
        assert_eq!(SessionId::parse(id.as_str()), Some(id));
        assert!(SessionId::parse("t-abc123").is_some());
        for text in ["", "s-", "s-abc", "../s-abcdefghijklmnop", "s-ABCDEFGHIJKLMNOP", "t-abc12"] {
            assert_eq!(SessionId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_next_task_of_a_session_learns_how_the_last_one_ended_and_no_other_does() {
        let task = accepted(true);
        let context = &task.owned_task.context;
        // A repository runs one task at a time.
        task.owned_task.end(&act_core::Outcome::cancelled()).unwrap();
        let session = SessionId::random();
        assert_eq!(last_task(context, &session), None);
        let root = task.dir.path().join("repo");
        let flags = Flags { session: Some(session.to_string()), ..Flags::default() };
        let (owned, _) =
            context.submit_as(TaskId::random(), "write the parser", flags, &root).unwrap();
        assert_eq!(last_task(context, &session), None, "it has not ended");
        let line = r#"{"v":1,"type":"task_finished","state":"CANCELLED","reason":"cancelled","summary":"Half of it."}"#;
        let path = context.artifacts.path().join(format!("state/journal/{}.jsonl", owned.task_id));
        let mut journal = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        writeln!(journal, "{line}").unwrap();
        assert!(owned.start().unwrap());
        owned.end(&act_core::Outcome::cancelled()).unwrap();
        let earlier = last_task(context, &session).unwrap();
        assert_eq!(earlier.text, "write the parser");
        assert_eq!(earlier.outcome, "CANCELLED (cancelled)");
        assert_eq!(earlier.summary.as_deref(), Some("Half of it."));
        assert_eq!(last_task(context, &SessionId::random()), None);
        assert_eq!(lines(&context.artifacts, &owned.task_id).0, [line]);
    }
}
