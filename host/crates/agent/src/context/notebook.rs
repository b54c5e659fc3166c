//! Which name a snapshot gets, and the writing of all three kinds of files.

use std::io;

use super::{AgentFiles, Snapshot, StuckReport, Summary};
use act_core::secret::Secrets;
use act_core::terminal_text;
use act_workspace::digest;

/// Numbers beyond this are not ours; a repository could ship a name that leaves no next one.
const LAST_NUMBER: u32 = 999_999;
/// Names that others may take between listing and writing before that counts as trouble.
const MAX_TAKEN: u32 = 100;

#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("failed to write {path}: {source}")]
    Write { path: String, source: io::Error },
    #[error("failed to list {dir}/: {source}")]
    List { dir: String, source: io::Error },
    #[error("{dir}/ has no number left for a snapshot; move old context files away")]
    Full { dir: String },
}

/// The file's name in `agent/`.
pub const STUCK_REPORT: &str = "stuck_report.md";

/// A stuck report that has been written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenReport {
    /// From the repository's root.
    pub path: String,
    /// Of the file's bytes, in hex.
    pub sha256: String,
}

/// A snapshot that has been written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub path: String,
    /// Why `context_latest.md` does not name it; no reason to stop a task.
    pub not_linked: Option<String>,
}

/// The files of `agent/`, as the Editor writes them.
pub struct NotesWriter<F> {
    files: F,
    secrets: Secrets,
}

impl<F: AgentFiles> NotesWriter<F> {
    pub fn new(files: F) -> Self {
        Self { files, secrets: Secrets::default() }
    }

    /// Whose files hold none of these, whatever a model or a Scout says.
    pub fn without(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// The name of the directory, relative to the repository's root.
    pub fn dir(&self) -> &str {
        self.files.dir()
    }

    /// Writes a snapshot under the next free number and never over another; says where.
    pub fn snapshot(&self, snapshot: &Snapshot<'_>) -> Result<Written, ContextError> {
        let first =
            next_number(&self.files.list().map_err(|source| ContextError::List {
                dir: self.files.dir().to_owned(),
                source,
            })?);
        for number in (first..=LAST_NUMBER).take(MAX_TAKEN as usize) {
            let name = snapshot_name(number);
            let text = snapshot.render(number);
            match self.files.create_new(&name, self.secrets.redact(&text).as_bytes()) {
                Ok(()) => {
                    let linked = self
                        .files
                        .link_latest(&name)
                        .map_err(self.write_error("context_latest.md"));
                    let not_linked = linked.err().map(|error| error.to_string());
                    return Ok(Written { path: self.path(&name), not_linked });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(self.write_error(&name)(error)),
            }
        }
        Err(ContextError::Full { dir: self.files.dir().to_owned() })
    }

    /// Overwrites the summary of an earlier success; answers its path.
    pub fn summary(&self, summary: &Summary) -> Result<String, ContextError> {
        self.replace("summary.md", &self.readable(&summary.render()))
    }

    /// Overwrites an earlier stuck report; answers what makes this one ours.
    pub fn stuck_report(&self, report: &StuckReport) -> Result<WrittenReport, ContextError> {
        let text = self.readable(&report.render());
        let path = self.replace(STUCK_REPORT, &text)?;
        Ok(WrittenReport { path, sha256: digest(text.as_bytes()) })
    }

    /// For people, also with `cat`: models and steps choose some of the words.
    fn readable(&self, text: &str) -> String {
        self.secrets.redact(&terminal_text::block(text)).into_owned()
    }

    fn replace(&self, name: &str, text: &str) -> Result<String, ContextError> {
        self.files.replace(name, text.as_bytes()).map_err(self.write_error(name))?;
        Ok(self.path(name))
    }

    /// The path of one of the files, from the repository's root.
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.files.dir())
    }

    fn write_error(&self, name: &str) -> impl FnOnce(io::Error) -> ContextError {
        let path = self.path(name);
        move |source| ContextError::Write { path, source }
    }
}

fn snapshot_name(number: u32) -> String {
    format!("context_{number:03}.md")
}

fn next_number(names: &[String]) -> u32 {
    let numbers = names.iter().filter_map(|name| {
        let digits = name.strip_prefix("context_")?.strip_suffix(".md")?;
        let ours = (3..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        ours.then(|| digits.parse::<u32>().ok())?
    });
    numbers.max().unwrap_or(0) + 1
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;
    use crate::context::{EditorState, SnapshotKind};

    /// `agent/` in memory; `hidden` names are taken but not listed, as by a racing writer.
    #[derive(Default)]
    struct Memory {
        files: RefCell<BTreeMap<String, String>>,
        latest: RefCell<Option<String>>,
        hidden: Vec<String>,
        latest_is_a_directory: bool,
    }

    impl AgentFiles for Memory {
        fn dir(&self) -> &str {
            "agent"
        }

        fn create_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
            if self.files.borrow().contains_key(name)
                || self.hidden.iter().any(|taken| taken == name)
            {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            self.replace(name, bytes)
        }
        fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.files.borrow_mut().insert(name.into(), text);
            Ok(())
        }
        fn link_latest(&self, target: &str) -> io::Result<()> {
            if self.latest_is_a_directory {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            *self.latest.borrow_mut() = Some(target.into());
            Ok(())
        }
        fn list(&self) -> io::Result<Vec<String>> {
            Ok(self.files.borrow().keys().cloned().collect())
        }
    }

    fn take(notebook: &NotesWriter<Memory>) -> Result<String, ContextError> {
        write(notebook).map(|written| written.path)
    }

    fn write(notebook: &NotesWriter<Memory>) -> Result<Written, ContextError> {
        let editor = EditorState::default();
        notebook.snapshot(&Snapshot {
            taken: act_core::clock::now(),
            kind: SnapshotKind::TaskStart,
            task_id: "t-abc123",
            task_text: "x",
            scouts: &[],
            editor: &editor,
        })
    }

    #[test]
    fn snapshots_are_numbered_on_and_the_newest_is_linked() {
        // CONTEXT-1, CONTEXT-5
        let notebook = NotesWriter::new(Memory::default());
        assert_eq!(take(&notebook).unwrap(), "agent/context_001.md");
        assert_eq!(take(&notebook).unwrap(), "agent/context_002.md");
        assert_eq!(notebook.files.latest.borrow().as_deref(), Some("context_002.md"));
        assert!(
            notebook.files.files.borrow()["context_002.md"]
                .starts_with("# Context 002: task start")
        );
    }

    #[test]
    fn a_taken_number_is_left_alone_and_the_next_one_used() {
        // CONTEXT-2, security line 65
        let files = Memory::default();
        files.replace("context_001.md", b"shipped by the repository").unwrap();
        let files =
            Memory { hidden: vec!["context_002.md".into(), "context_003.md".into()], ..files };
        let notebook = NotesWriter::new(files);
        assert_eq!(take(&notebook).unwrap(), "agent/context_004.md");
        assert_eq!(notebook.files.files.borrow()["context_001.md"], "shipped by the repository");
        assert!(notebook.files.files.borrow()["context_004.md"].contains("\n- number: 4\n"));
    }

    #[test]
    fn a_name_that_cannot_be_a_link_does_not_cost_the_snapshot() {
        // CONTEXT-5, security line 65
        let notebook =
            NotesWriter::new(Memory { latest_is_a_directory: true, ..Memory::default() });
        let written = write(&notebook).unwrap();
        assert_eq!(written.path, "agent/context_001.md");
        assert!(written.not_linked.unwrap().contains("context_latest.md"));
    }

    #[test]
    fn names_that_are_not_ours_do_not_count() {
        let names = |names: &[&str]| {
            next_number(&names.iter().map(|name| (*name).into()).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]), 1);
        assert_eq!(
            names(&["context_latest.md", "context_9.md", "context_+12.md", "summary.md"]),
            1
        );
        assert_eq!(names(&["context_007.md", "context_1000.md", "context_99999999999.md"]), 1001);
    }

    #[test]
    fn a_directory_without_free_number_is_said_and_not_searched_for_ever() {
        let files = Memory::default();
        files.replace("context_999999.md", b"").unwrap();
        assert!(matches!(take(&NotesWriter::new(files)), Err(ContextError::Full { .. })));
        let hidden = (1..=MAX_TAKEN).map(snapshot_name).collect();
        let files = Memory { hidden, ..Memory::default() };
        assert!(matches!(take(&NotesWriter::new(files)), Err(ContextError::Full { .. })));
    }

    #[test]
    fn summary_and_report_replace_the_earlier_ones() {
        // CONTEXT-6
        let notebook = NotesWriter::new(Memory::default());
        for what in ["first", "second"] {
            let summary = Summary { what: what.into(), ..Summary::default() };
            assert_eq!(notebook.summary(&summary).unwrap(), "agent/summary.md");
        }
        let written = notebook.stuck_report(&StuckReport::default()).unwrap();
        let files = notebook.files.files.borrow();
        assert_eq!(written.path, "agent/stuck_report.md");
        assert_eq!(written.sha256, digest(files["stuck_report.md"].as_bytes()));
        assert!(files["summary.md"].contains("> second") && !files["summary.md"].contains("first"));
        assert!(files["stuck_report.md"].starts_with("# Stuck report"));
    }

    #[test]
    fn what_a_person_reads_has_no_effect_on_a_terminal() {
        // CONTEXT-9
        let notebook = NotesWriter::new(Memory::default());
        let words = "gr\u{1b}[2Jeen\u{7} \u{9b}1m\u{202e}txt";
        notebook.summary(&Summary { what: words.into(), ..Summary::default() }).unwrap();
        let explanation = Some(words.to_owned());
        notebook.stuck_report(&StuckReport { explanation, ..StuckReport::default() }).unwrap();
        for (name, text) in notebook.files.files.borrow().iter() {
            assert!(text.contains("green\\u{7} \\u{9b}1m\\u{202e}txt"), "{name}: {text}");
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{name}: {text}");
        }
    }
}
