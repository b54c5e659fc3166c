//! The outcome of one run of the program. Each assertion prints the whole outcome when it fails.

use std::fmt;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

use act_testing::{Recorded, ScriptedServer};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Done {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) place: Arc<TempDir>,
    pub(super) model: Option<Arc<ScriptedServer>>,
}

impl Done {
    #[track_caller]
    pub(crate) fn status(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "exit code\n{self}");
        self
    }

    /// Returns the exit code; panics if a signal ended the program.
    pub(crate) fn exit_code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("no exit code\n{self}"))
    }

    /// Returns whether the exit code is 0.
    pub(crate) fn ended_well(&self) -> bool {
        self.status.success()
    }

    /// Returns the signal that ended the program, if one did.
    pub(crate) fn killed_by(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Asserts that stdout is exactly `text`.
    #[track_caller]
    pub(crate) fn stdout(self, text: &str) -> Self {
        assert_eq!(self.stdout_text(), text, "stdout\n{self}");
        self
    }

    /// Asserts that stderr is exactly `text`.
    #[track_caller]
    pub(crate) fn stderr(self, text: &str) -> Self {
        assert_eq!(self.stderr_text(), text, "stderr\n{self}");
        self
    }

    #[track_caller]
    pub(crate) fn stdout_has(self, text: &str) -> Self {
        assert!(self.stdout_text().contains(text), "no {text:?} in stdout\n{self}");
        self
    }

    #[track_caller]
    pub(crate) fn stdout_lacks(self, text: &str) -> Self {
        assert!(!self.stdout_text().contains(text), "{text:?} in stdout\n{self}");
        self
    }

    /// Asserts that stderr contains `text`, ignoring case: a message may begin a line or follow a prefix.
    #[track_caller]
    pub(crate) fn stderr_has(self, text: &str) -> Self {
        let found = self.stderr_text().to_lowercase().contains(&text.to_lowercase());
        assert!(found, "no {text:?} in stderr\n{self}");
        self
    }

    #[track_caller]
    pub(crate) fn stderr_lacks(self, text: &str) -> Self {
        assert!(!self.stderr_text().contains(text), "{text:?} in stderr\n{self}");
        self
    }

    /// Asserts that the lines of stderr that are among `texts` are exactly `texts`, in this order.
    #[track_caller]
    pub(crate) fn stderr_lines(self, texts: &[&str]) -> Self {
        let stderr = self.stderr_text();
        let found: Vec<_> = stderr.lines().filter(|line| texts.contains(line)).collect();
        assert_eq!(found, texts, "lines of stderr\n{self}");
        self
    }

    /// Asserts that neither stream holds a character that acts on a terminal, except line feeds and tabs.
    #[track_caller]
    pub(crate) fn inert(self) -> Self {
        for text in [self.stdout_text(), self.stderr_text()] {
            let acts = |c: char| {
                (c.is_control() && c != '\n' && c != '\t')
                    || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            };
            assert_eq!(text.chars().find(|c| acts(*c)), None, "control character\n{self}");
        }
        self
    }

    pub(crate) fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Parses stdout, which must be one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout_text()).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    pub(crate) fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.place.path().join("repo")
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.repo().join(path))
            .unwrap_or_else(|error| panic!("{path}: {error}\n{self}"))
    }

    /// Returns the names of the notes in `agent/`, sorted.
    pub(crate) fn agent_files(&self) -> Vec<String> {
        let all = names(self.repo().join("agent")).into_iter();
        // The file that hides the notes from git is not a note.
        all.filter(|name| name != ".gitignore").collect()
    }

    /// Returns the names of the run directories in the order of their creation; two names may share a second.
    pub(crate) fn runs(&self) -> Vec<String> {
        let all = self.place.path().join("artifacts/runs");
        let made = |run: &String| fs::metadata(all.join(run)).unwrap().created().unwrap();
        let mut runs = names(&all);
        runs.sort_by_key(made);
        runs
    }

    pub(crate) fn manifest(&self, run_id: &str) -> Value {
        let path = self.place.path().join("artifacts/runs").join(run_id).join("manifest.json");
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}\n{self}"));
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the requests to the model, in order.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.model.as_deref().map(ScriptedServer::requests).unwrap_or_default()
    }

    /// Returns the requests of one role.
    pub(crate) fn requests_of(&self, role: &str) -> Vec<Recorded> {
        self.requests().into_iter().filter(|request| request.role == role).collect()
    }

    /// Asserts that every turn of the script was requested.
    #[track_caller]
    pub(crate) fn script_used_up(self) -> Self {
        let left = self.model.as_deref().map(ScriptedServer::left).unwrap_or_default();
        assert!(left.is_empty(), "turns left: {left:?}\n{self}");
        self
    }

    /// Returns the files of the test, in repository, home and artifacts, that contain `needle`.
    pub(crate) fn files_with(&self, needle: &str) -> Vec<PathBuf> {
        let (mut found, mut todo) = (vec![], vec![self.place.path().to_owned()]);
        while let Some(path) = todo.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if meta.is_file() {
                let bytes = fs::read(&path).unwrap();
                let has = bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
                found.extend(has.then_some(path));
            }
        }
        found
    }

    /// Returns the names in the home directory of the program.
    pub(crate) fn home(&self) -> Vec<String> {
        names(self.place.path().join("home"))
    }
}

fn names(directory: impl AsRef<std::path::Path>) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return vec![] };
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {signal:?}"),
        };
        write!(f, "{end}\n--- stdout\n{}--- stderr\n{}---", self.stdout_text(), self.stderr_text())
    }
}
