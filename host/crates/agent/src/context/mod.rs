//! The notes that act leaves in the repository for people: `context_NNN.md`, `summary.md` and `stuck_report.md`.
//!
//! [`Snapshot`], [`Summary`] and [`StuckReport`] render the text of a file and do nothing else. [`NotesWriter`] writes the
//! files through [`NotesDir`], which holds the directory by its handle and follows no link that a repository may have
//! prepared under these names. The host decides nothing by what a note contains.

mod markdown;
mod snapshot;
mod stuck_report;
mod summary;

pub use snapshot::{ChangedLines, EditorState, ScoutPayload, Snapshot, SnapshotKind, VerifiedRun};
pub use stuck_report::{Hypothesis, MachineFailure, Replan, Strategy, StuckReport};
pub use summary::Summary;

use act_core::secret::Secrets;
use act_core::terminal_text;
use act_workspace::{NotesDir, NotesError, digest};

/// The highest number of a snapshot. A repository could ship a file with a higher one and leave no number free.
const LAST_NUMBER: u32 = 999_999;
/// Numbers that are tried in a row when other processes take each one between the listing and the writing.
const MAX_TAKEN: u32 = 100;

/// Why a note could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("failed to write {path}: {source}")]
    Write { path: String, source: NotesError },
    #[error("failed to list {dir}/: {source}")]
    List { dir: String, source: NotesError },
    #[error("{dir}/ has no number left for a snapshot; move old context files away")]
    Full { dir: String },
}

/// The name of the stuck report in the directory of the notes.
pub const STUCK_REPORT: &str = "stuck_report.md";
const LATEST: &str = "context_latest.md";

/// A stuck report that has been written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenReport {
    /// From the repository's root.
    pub path: String,
    /// SHA-256 of the file's bytes, as hex.
    pub sha256: String,
}

/// A snapshot that has been written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// From the repository's root.
    pub path: String,
    /// The reason why `context_latest.md` does not point to the snapshot. A task continues without the link.
    pub not_linked: Option<String>,
}

/// Writes the notes of a task.
pub struct NotesWriter {
    files: NotesDir,
    secrets: Secrets,
}

impl NotesWriter {
    /// Writes notes into `files`, without any of `secrets`, whatever a model or a Scout wrote.
    pub fn new(files: NotesDir, secrets: Secrets) -> Self {
        Self { files, secrets }
    }

    /// The name of the directory, relative to the repository's root.
    pub fn dir(&self) -> &str {
        self.files.name()
    }

    /// Writes a snapshot under the next free number and lets `context_latest.md` point to it. No file is overwritten.
    ///
    /// # Errors
    ///
    /// The directory cannot be listed or written, or it has no number left.
    pub fn snapshot(&self, snapshot: &Snapshot<'_>) -> Result<Written, ContextError> {
        let listed = self.files.names();
        let names = listed
            .map_err(|source| ContextError::List { dir: self.dir().to_owned(), source })?
            .into_iter()
            .map(|(name, _)| name);
        let name = first_free(next_number(names), |number| {
            let name = snapshot_name(number);
            let text = snapshot.render(number);
            match self.files.create_new(&name, self.secrets.redact(&text).as_bytes()) {
                Ok(()) => Ok(Some(name)),
                Err(NotesError::Exists { .. }) => Ok(None),
                Err(source) => Err(ContextError::Write { path: self.path(&name), source }),
            }
        })?;
        let Some(name) = name else {
            return Err(ContextError::Full { dir: self.dir().to_owned() });
        };
        let link = self.files.replace_with_link(LATEST, &name);
        let not_linked = link
            .err()
            .map(|source| ContextError::Write { path: self.path(LATEST), source }.to_string());
        Ok(Written { path: self.path(&name), not_linked })
    }

    /// Writes the summary in place of an earlier one.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn summary(&self, summary: &Summary) -> Result<(), ContextError> {
        self.replace("summary.md", &self.readable(&summary.render()))
    }

    /// Writes the stuck report in place of an earlier one, and returns how it can be recognised later.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn stuck_report(&self, report: &StuckReport) -> Result<WrittenReport, ContextError> {
        let text = self.readable(&report.render());
        self.replace(STUCK_REPORT, &text)?;
        Ok(WrittenReport { path: self.path(STUCK_REPORT), sha256: digest(text.as_bytes()) })
    }

    /// Removes secrets and escapes controls: people print these files to a terminal, and models choose some of the words.
    fn readable(&self, text: &str) -> String {
        self.secrets.redact(&terminal_text::block(text)).into_owned()
    }

    fn replace(&self, name: &str, text: &str) -> Result<(), ContextError> {
        let written = self.files.replace(name, text.as_bytes());
        written.map_err(|source| ContextError::Write { path: self.path(name), source })
    }

    /// The path of one of the files, from the repository's root.
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir())
    }
}

fn snapshot_name(number: u32) -> String {
    format!("context_{number:03}.md")
}

/// The number after the highest one among these names of files.
fn next_number(names: impl Iterator<Item = String>) -> u32 {
    let numbers = names.filter_map(|name| {
        let digits = name.strip_prefix("context_")?.strip_suffix(".md")?;
        let ours = (3..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        ours.then(|| digits.parse::<u32>().ok())?
    });
    numbers.max().unwrap_or(0) + 1
}

/// Tries numbers from `first` until `create` returns a file; `create` returns `None` for a number that is taken.
fn first_free<T, E>(
    first: u32,
    mut create: impl FnMut(u32) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let mut numbers = (first..=LAST_NUMBER).take(MAX_TAKEN as usize);
    numbers.find_map(|number| create(number).transpose()).transpose()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A repository with `agent/`, and the writer of its notes.
    fn notes() -> (tempfile::TempDir, NotesWriter) {
        let root = tempfile::tempdir().unwrap();
        let notes = writer(root.path());
        (root, notes)
    }

    fn writer(root: &std::path::Path) -> NotesWriter {
        NotesWriter::new(NotesDir::open(root).unwrap(), Secrets::default())
    }

    fn write(notes: &NotesWriter) -> Result<Written, ContextError> {
        notes.snapshot(&Snapshot {
            taken: act_core::clock::now(),
            kind: SnapshotKind::TaskStart,
            task_id: "t-abc123",
            task_text: "x",
            scouts: &[],
            editor: &EditorState::default(),
        })
    }

    #[test]
    fn snapshots_are_numbered_on_and_the_newest_is_linked() {
        // CONTEXT-1, CONTEXT-5
        let (root, notes) = notes();
        assert_eq!(write(&notes).unwrap().path, "agent/context_001.md");
        assert_eq!(write(&notes).unwrap().path, "agent/context_002.md");
        let agent = root.path().join("agent");
        assert_eq!(fs::read_link(agent.join(LATEST)).unwrap().to_str(), Some("context_002.md"));
        let text = fs::read_to_string(agent.join("context_002.md")).unwrap();
        assert!(text.starts_with("# Context 002: task start") && text.contains("\n- number: 2\n"));
    }

    #[test]
    fn names_prepared_by_a_repository_are_neither_followed_nor_overwritten() {
        // CONTEXT-2, CONTEXT-5, security line 65
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("repo"), place.path().join("outside.md"));
        let agent = root.join("agent");
        fs::create_dir_all(&agent).unwrap();
        fs::write(&outside, "outside").unwrap();
        fs::write(agent.join("context_001.md"), "shipped").unwrap();
        symlink(&outside, agent.join("context_002.md")).unwrap();
        symlink(place.path().join("nowhere"), agent.join("context_003.md")).unwrap();
        symlink(&outside, agent.join(LATEST)).unwrap();

        let written = write(&writer(&root)).unwrap();
        assert_eq!(written, Written { path: "agent/context_004.md".into(), not_linked: None });
        assert_eq!(fs::read_link(agent.join(LATEST)).unwrap().to_str(), Some("context_004.md"));
        assert_eq!(fs::read_to_string(agent.join("context_001.md")).unwrap(), "shipped");
        assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
        assert!(!place.path().join("nowhere").exists());

        fs::remove_file(agent.join(LATEST)).unwrap();
        fs::create_dir(agent.join(LATEST)).unwrap();
        fs::write(agent.join("context_latest.md/x"), "").unwrap();
        let written = write(&writer(&root)).unwrap();
        assert_eq!(written.path, "agent/context_005.md");
        let why = written.not_linked.unwrap();
        assert!(why.contains("context_latest.md") && why.contains("is a directory"), "{why}");
    }

    #[test]
    fn a_number_that_others_took_meanwhile_is_left_alone_and_the_next_one_used() {
        // CONTEXT-2, security line 65
        let taken = |number: u32| Ok::<_, ()>((number > 3).then_some(number));
        assert_eq!(first_free(1, taken), Ok(Some(4)));
        assert_eq!(first_free(1, |_| Ok::<Option<u32>, ()>(None)), Ok(None));
        assert_eq!(first_free(LAST_NUMBER + 1, |number| Ok::<_, ()>(Some(number))), Ok(None));
        assert_eq!(first_free(1, |_| Err::<Option<u32>, _>("full")), Err("full"));
    }

    #[test]
    fn names_that_are_not_ours_do_not_count() {
        let next = |names: &[&str]| next_number(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(next(&[]), 1);
        assert_eq!(next(&[LATEST, "context_9.md", "context_+12.md", "summary.md"]), 1);
        assert_eq!(next(&["context_007.md", "context_1000.md", "context_99999999999.md"]), 1001);
    }

    #[test]
    fn a_directory_without_a_free_number_is_full() {
        let (root, notes) = notes();
        fs::write(root.path().join("agent/context_999999.md"), "").unwrap();
        assert!(matches!(write(&notes), Err(ContextError::Full { .. })));
    }

    #[test]
    fn summary_and_report_replace_the_earlier_ones() {
        // CONTEXT-6
        let (root, notes) = notes();
        for what in ["first", "second"] {
            notes.summary(&Summary { what: what.into(), ..Summary::default() }).unwrap();
        }
        let written = notes.stuck_report(&StuckReport::default()).unwrap();
        let read = |name: &str| fs::read_to_string(root.path().join("agent").join(name)).unwrap();
        assert_eq!(written.path, "agent/stuck_report.md");
        assert_eq!(written.sha256, digest(read(STUCK_REPORT).as_bytes()));
        let summary = read("summary.md");
        assert!(summary.contains("> second") && !summary.contains("first"));
        assert!(read(STUCK_REPORT).starts_with("# Stuck report"));
    }

    #[test]
    fn what_a_person_reads_has_no_effect_on_a_terminal() {
        // CONTEXT-9
        let (root, notes) = notes();
        let words = "gr\u{1b}[2Jeen\u{7} \u{9b}1m\u{202e}txt";
        notes.summary(&Summary { what: words.into(), ..Summary::default() }).unwrap();
        let explanation = Some(words.to_owned());
        notes.stuck_report(&StuckReport { explanation, ..StuckReport::default() }).unwrap();
        for name in ["summary.md", STUCK_REPORT] {
            let text = fs::read_to_string(root.path().join("agent").join(name)).unwrap();
            assert!(text.contains("green\\u{7} \\u{9b}1m\\u{202e}txt"), "{name}: {text}");
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{name}: {text}");
        }
    }
}
