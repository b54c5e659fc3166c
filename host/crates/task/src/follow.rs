//! `act status --follow`: every task of this user that waits or runs, with what it does at the moment.
//!
//! The store says which tasks there are, of every repository and every process. What a task does comes from its journal, which
//! is read from near its end and then as it grows. A journal belongs to the user, and texts in it come from elsewhere: the bytes
//! that are read at once, the length of a line and the length of each text are bounded.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::attention::{Attention, OpenQuestions, need_of};
use crate::status::Lookup;
use act_core::event::TaskWorktree;
use act_core::{Document, Failure, Repo, TaskState, Usd, reason};
use act_records::store::{Task, TaskRecord};

/// Bytes at the end of a journal from which a task is followed. What a task does at the moment is in its last lines.
const BEGIN: u64 = 256 << 10;
/// Maximum number of bytes of a journal that are read in one look.
const MAX_READ: usize = 1 << 20;
/// Maximum length of a line that is understood. A longer one holds a patch, which says nothing about what the task does.
const MAX_LINE: usize = 1 << 20;
/// Maximum number of characters of a text that is taken from a journal.
const MAX_TEXT: usize = 200;

/// A task that waits or runs, or has just ended: one line of `act status --follow --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FollowedTask {
    pub task_id: String,
    /// The repository, with its path at the submission and its state at the start of the task.
    pub repo: Repo,
    /// The worktree in which the task works; omitted for a task that works in the repository itself. `head` and `dirty` of `repo`
    /// are its.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<TaskWorktree>,
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub state: TaskState,
    /// Position among the waiting tasks of the repository, from 1; null unless QUEUED.
    pub position: Option<u32>,
    /// What the task does, in the words of the last milestone or of a command that the model runs; null unless RUNNING.
    pub doing: Option<String>,
    /// The step of the pipeline that runs.
    pub step: Option<FollowedStep>,
    /// Number of verifications so far; 0 before the first.
    pub attempt: u32,
    pub max_attempts: u32,
    /// Why the task needs a person.
    pub needs: Option<Attention>,
    /// `runs`, `stalled` (stopped by a signal), `dead` or `unknown`; null once the task has ended.
    pub owner: Option<&'static str>,
    /// What the requests of the task cost so far, in US dollars; null where that is not known.
    pub cost_usd: Option<Usd>,
    /// Why the task ended, as a stable word.
    pub reason: Option<String>,
    pub exit_code: Option<u8>,
    /// The newest run of the task.
    pub run_id: Option<String>,
}

impl Document for FollowedTask {
    const NAME: &'static str = "status-follow";
}

/// A step of the pipeline that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
pub struct FollowedStep {
    pub name: String,
    /// ISO 8601 in UTC, to the millisecond.
    pub started_at: String,
    /// What the step took last time; null where that is not known.
    pub last_ms: Option<u64>,
}

/// Looks at the tasks again and again.
pub struct Follower {
    lookup: Lookup,
    /// By the order of acceptance.
    seen: BTreeMap<i64, Seen>,
}

/// A task that was seen in an earlier look.
struct Seen {
    document: FollowedTask,
    journal: Option<JournalTail>,
    activity: Activity,
}

impl Follower {
    /// Opens the store. `start` is the directory in which the command was called.
    ///
    /// # Errors
    ///
    /// The store or the ARTIFACT_DIR cannot be used.
    pub fn open(start: &Path) -> Result<Self, Failure> {
        Ok(Self { lookup: Lookup::open(start)?, seen: BTreeMap::new() })
    }

    /// Looks once. Returns the tasks that have changed since the last look, those that have ended among them, in the order in
    /// which they were accepted.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn look(&mut self) -> Result<Vec<FollowedTask>, Failure> {
        self.lookup.record_dead_tasks(None)?;
        let mut changed = vec![];
        let mut positions = BTreeMap::<String, u32>::new();
        let mut unfinished = vec![];
        for task in self.lookup.store.unfinished_everywhere()? {
            // A task may end or be removed between the two questions.
            if let Ok(Some(record)) = self.lookup.store.task(&task.task_id)
                && !record.state.is_final()
            {
                unfinished.push(record);
            }
        }
        for record in unfinished {
            let waiting = positions.entry(record.repo.clone()).or_default();
            *waiting += u32::from(record.state == TaskState::Queued);
            let position = *waiting;
            changed.extend(self.follow(record, position)?);
        }
        let (ended, unfinished): (Vec<_>, Vec<_>) = self.split_ended()?;
        changed.extend(ended);
        self.seen.retain(|seq, _| unfinished.contains(seq));
        Ok(changed)
    }

    /// Returns the tasks that wait or run, as the last look has found them.
    pub fn tasks(&self) -> impl Iterator<Item = &FollowedTask> {
        self.seen.values().map(|seen| &seen.document)
    }

    /// Follows one unfinished task. Returns its document if that has changed.
    fn follow(
        &mut self,
        record: TaskRecord,
        position: u32,
    ) -> Result<Option<FollowedTask>, Failure> {
        let seq = record.seq;
        let (before, mut journal, mut activity) = match self.seen.remove(&seq) {
            Some(Seen { document, journal, activity }) => (Some(document), journal, activity),
            None => (None, None, Activity::default()),
        };
        if journal.is_none() {
            let opened = self.lookup.artifacts.open_journal(&record.task_id).ok().flatten();
            journal = opened.and_then(|file| JournalTail::near_the_end(file).ok());
        }
        if let Some(tail) = &mut journal {
            // The task goes on without its journal, which may be unreadable.
            let lines = tail.lines().unwrap_or_default();
            lines.iter().for_each(|line| activity.take(line));
        }
        let needs = need_of(
            &self.lookup.store,
            &record,
            self.lookup.life(&record),
            activity.questions.is_open(),
        )?;
        let document = document(&self.lookup, record, position, &activity, needs);
        let changed = before.as_ref() != Some(&document);
        self.seen.insert(seq, Seen { document: document.clone(), journal, activity });
        Ok(changed.then_some(document))
    }

    /// Returns the documents of the tasks that have ended since the last look, and the orders of the others.
    fn split_ended(&self) -> Result<(Vec<FollowedTask>, Vec<i64>), Failure> {
        let (mut ended, mut unfinished) = (vec![], vec![]);
        for (seq, seen) in &self.seen {
            match self.lookup.store.task(&seen.document.task_id)? {
                Some(record) if !record.state.is_final() => unfinished.push(*seq),
                Some(record) => {
                    let needs =
                        need_of(&self.lookup.store, &record, self.lookup.life(&record), false)?;
                    let activity = Activity::default();
                    ended.push(document(&self.lookup, record, 0, &activity, needs));
                }
                // A waiting task that was cancelled leaves no row.
                None => ended.push(FollowedTask {
                    state: TaskState::Cancelled,
                    position: None,
                    needs: None,
                    owner: None,
                    reason: Some(reason::CANCELLED.to_owned()),
                    ..seen.document.clone()
                }),
            }
        }
        Ok((ended, unfinished))
    }
}

fn document(
    lookup: &Lookup,
    record: TaskRecord,
    position: u32,
    activity: &Activity,
    needs: Option<Attention>,
) -> FollowedTask {
    let runs = record.state == TaskState::Running;
    let task: Task = lookup.show(record, Some(position));
    FollowedTask {
        task_id: task.task_id,
        repo: task.repo,
        worktree: task.worktree,
        state: task.state,
        position: task.position,
        doing: activity.doing.clone().or(task.phase).filter(|_| runs),
        step: activity.step.clone().filter(|_| runs),
        attempt: task.attempt,
        max_attempts: task.max_attempts,
        needs,
        owner: task.owner,
        cost_usd: task.cost_usd,
        reason: task.reason,
        exit_code: task.exit_code,
        run_id: task.run_ids.last().cloned(),
    }
}

/// What a task does at the moment, from the lines of its journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Activity {
    /// What it does; `None` while the phase in the store says it.
    doing: Option<String>,
    step: Option<FollowedStep>,
    questions: OpenQuestions,
}

impl Activity {
    /// Takes a line of the journal.
    fn take(&mut self, line: &Value) {
        self.questions.take_line(line);
        let text = |field: &str| {
            let text = line.get(field).and_then(Value::as_str).unwrap_or_default();
            text.chars().take(MAX_TEXT).collect::<String>()
        };
        match line.get("type").and_then(Value::as_str).unwrap_or_default() {
            "milestone" => (self.doing, self.step) = (Some(text("text")), None),
            "step_started" => {
                let last_ms = line.get("last_ms").and_then(Value::as_u64);
                self.step =
                    Some(FollowedStep { name: text("name"), started_at: text("time"), last_ms });
            }
            "step_finished" | "verify_finished" => self.step = None,
            "image_pull" => self.doing = Some(format!("Pulling {}", text("image"))),
            "check_started" => self.doing = Some(format!("Checking: {}", text("command"))),
            // After a command or the answer of a Scout the model goes on; the store has the phase.
            "check_finished" | "scout_finished" => self.doing = None,
            _ => {}
        }
    }
}

/// The end of a journal, read as it grows.
struct JournalTail {
    file: File,
    /// The place of the next byte.
    at: u64,
    /// The beginning of a line whose end has not been written yet.
    rest: Vec<u8>,
    /// The bytes up to the next line feed belong to a line whose beginning was not read.
    within: bool,
}

impl JournalTail {
    fn near_the_end(file: File) -> io::Result<Self> {
        let at = file.metadata()?.len().saturating_sub(BEGIN);
        Ok(Self { file, at, rest: vec![], within: at > 0 })
    }

    /// Returns the lines that have become whole since the last call, at most those of [`MAX_READ`] bytes.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    fn lines(&mut self) -> io::Result<Vec<Value>> {
        let (mut lines, mut piece, mut left) = (vec![], vec![0; 64 << 10], MAX_READ);
        while left > 0 {
            let room = piece.len().min(left);
            let read = self.file.read_at(&mut piece[..room], self.at)?;
            if read == 0 {
                break;
            }
            (self.at, left) = (self.at + read as u64, left - read);
            for part in piece[..read].split_inclusive(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(part);
                if part.ends_with(b"\n") {
                    let line = std::mem::take(&mut self.rest);
                    if !std::mem::take(&mut self.within) {
                        lines.extend(serde_json::from_slice(&line).ok());
                    }
                } else if self.rest.len() > MAX_LINE {
                    self.rest = vec![];
                    self.within = true;
                }
            }
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;
    use serde_json::json;
    use std::io::Write;

    #[test]
    fn the_schema_of_a_followed_task_is_published() {
        // EVENT-8
        schema::document_holds::<FollowedTask>();
    }

    // CLI-75
    #[test]
    fn a_task_does_what_the_last_lines_of_its_journal_say() {
        let mut activity = Activity::default();
        let mut after = |line: Value| {
            activity.take(&line);
            let step = activity.step.as_ref().map(|step| step.name.clone());
            (activity.doing.clone(), step, activity.questions.is_open())
        };
        let doing = |text: &str| Some(text.to_owned());
        let verifying = || doing("Running verification...");
        assert_eq!(
            after(json!({"type": "milestone", "text": "Running verification..."})),
            (verifying(), None, false)
        );
        let started = json!({"type": "step_started", "name": "test", "time": "T", "last_ms": 40});
        assert_eq!(after(started), (verifying(), doing("test"), false));
        let finished = json!({"type": "step_finished", "name": "test"});
        assert_eq!(after(finished), (verifying(), None, false));
        let asked = json!({"type": "consent_asked", "path": ".envrc", "op": "create"});
        assert!(after(asked).2);
        assert!(!after(json!({"type": "consent", "path": ".envrc"})).2);
        let check = json!({"type": "check_started", "command": "x".repeat(1000)});
        assert_eq!(after(check).0.unwrap().len(), "Checking: ".len() + MAX_TEXT);
        assert_eq!(after(json!({"type": "check_finished"})).0, None, "the phase of the store");
        assert_eq!(after(json!({"type": ["no", "text"]})).0, None);
    }

    // CLI-75
    #[test]
    fn a_journal_is_read_as_it_grows_and_no_line_is_read_twice_or_halfway() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("journal");
        let mut writer = File::create(&path).unwrap();
        let begin = BEGIN as usize;
        // The first line begins before the place from which the journal is read.
        writer
            .write_all(format!("{{\"a\":\"{}\"}}\n{{\"n\":1}}\n", "x".repeat(begin)).as_bytes())
            .unwrap();
        let mut tail = JournalTail::near_the_end(File::open(&path).unwrap()).unwrap();
        assert_eq!(tail.lines().unwrap(), [json!({"n": 1})]);
        assert_eq!(tail.lines().unwrap(), [] as [Value; 0]);
        writer.write_all(b"{\"n\":2}\n{\"n\"").unwrap();
        assert_eq!(tail.lines().unwrap(), [json!({"n": 2})]);
        writer.write_all(b":3}\nno json\n").unwrap();
        assert_eq!(tail.lines().unwrap(), [json!({"n": 3})]);
        // A line without an end takes no memory, and the one behind it is read.
        writer.write_all("y".repeat(3 * MAX_LINE).as_bytes()).unwrap();
        writer.write_all(b"\n{\"n\":4}\n").unwrap();
        let mut found = vec![];
        for _ in 0..8 {
            found.extend(tail.lines().unwrap());
            assert!(tail.rest.len() <= MAX_LINE + (64 << 10), "{}", tail.rest.len());
        }
        assert_eq!(found, [json!({"n": 4})]);
    }
}
