//! Commands and paths in messages, so that they work from the directory where the user typed the command.

use std::borrow::Cow;
use std::path::Path;

use act_core::TaskState;
use act_core::event::{Event, EventKind, Sink};

/// The repository that `--repo` named, for commands in hints.
#[derive(Debug, Clone)]
pub struct RepoHint {
    /// Absolute path, quoted as one word of a shell.
    pub directory: String,
    /// Returns whether a command, given as the words after `act`, takes `--repo`.
    pub takes: fn(&[&str]) -> bool,
}

impl RepoHint {
    /// Adds `--repo` to every command in backticks, and to a command at the end of the text.
    pub(super) fn complete<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !text.contains("act ") {
            return Cow::Borrowed(text);
        }
        if let Some(at) = last_command(text) {
            let (before, command) = text.split_at(at);
            return Cow::Owned(format!("{}{}", self.complete(before), self.command(command)));
        }
        // Pieces with an even index are text between commands; an unclosed backtick begins no command.
        let pieces: Vec<_> = text.split('`').collect();
        let closed = |at: usize| at % 2 == 1 && at + 1 < pieces.len();
        let pieces = pieces.iter().enumerate().map(|(at, piece)| match closed(at) {
            true => self.command(piece),
            false => Cow::Borrowed(*piece),
        });
        Cow::Owned(pieces.collect::<Vec<_>>().join("`"))
    }

    /// Adds `--repo` to one command, if it takes it.
    pub(super) fn command<'t>(&self, command: &'t str) -> Cow<'t, str> {
        let words: Vec<_> = command.split_whitespace().collect();
        match words.split_first() {
            Some((&"act", rest)) if !rest.contains(&"--repo") && (self.takes)(rest) => {
                Cow::Owned(format!("{command} --repo {}", self.directory))
            }
            _ => Cow::Borrowed(command),
        }
    }
}

/// Passes events on to a sink after it has completed the commands in the messages of act. The summary of a task that
/// succeeded is the words of the model and stays as it is.
pub(super) struct Completed<S> {
    pub(super) repo: RepoHint,
    pub(super) sink: S,
}

impl<S: Sink> Sink for Completed<S> {
    fn event(&mut self, event: &Event) {
        // The output of steps may be large and contains no commands of act.
        if matches!(event.kind, EventKind::StepOutput(_)) {
            return self.sink.event(event);
        }
        let mut event = event.clone();
        let text = match &mut event.kind {
            EventKind::Notice(notice) => Some(&mut notice.text),
            EventKind::Proposed { apply, .. } => apply.as_mut(),
            EventKind::TaskFinished { state: TaskState::Success | TaskState::Proposed, .. } => None,
            EventKind::TaskFinished { summary, .. } => summary.as_mut(),
            _ => None,
        };
        if let Some(text) = text {
            *text = self.repo.complete(text).into_owned();
        }
        self.sink.event(&event);
    }

    fn take_warning(&mut self) -> Option<String> {
        self.sink.take_warning()
    }
}

/// Returns the start of a command that is the whole text, or everything after a colon.
fn last_command(text: &str) -> Option<usize> {
    let at = if text.starts_with("act ") { 0 } else { text.rfind(": act ")? + 2 };
    (!text[at..].contains(['`', ';', ','])).then_some(at)
}

/// Returns a file of a repository as a path from the current directory; `path` is relative to the root.
pub fn from_here(root: &Path, path: &str) -> String {
    let here = std::env::current_dir().ok();
    seen_from(here.as_deref(), root, path)
}

fn seen_from(here: Option<&Path>, root: &Path, path: &str) -> String {
    let whole = root.join(path);
    let below = here.and_then(|here| whole.strip_prefix(here).ok());
    below.unwrap_or(&whole).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    // CLI-54
    #[test]
    fn commands_in_backticks_name_the_repository_and_nothing_else_changes() {
        let takes = |words: &[&str]| words.first() != Some(&"demo");
        let repo = RepoHint { directory: "'/a b'".into(), takes };
        for (text, completed) in [
            ("run `act init`, or not", "run `act init --repo '/a b'`, or not"),
            ("`act apply t-abc123` makes", "`act apply t-abc123 --repo '/a b'` makes"),
            ("act init and `act demo`", "act init and `act demo`"),
            ("`agent.yaml` and `act init", "`agent.yaml` and `act init"),
            (
                "`act status`; `act queue --repo x`",
                "`act status --repo '/a b'`; `act queue --repo x`",
            ),
            ("`actual` text", "`actual` text"),
            (
                "look with `act status`; to approve it: act components approve x --name y",
                "look with `act status --repo '/a b'`; to approve it: act components approve x --name y --repo '/a b'",
            ),
            ("act components revoke x", "act components revoke x --repo '/a b'"),
            ("act components revoke x, then more", "act components revoke x, then more"),
        ] {
            assert_eq!(repo.complete(text), completed);
        }
    }
}

#[cfg(test)]
mod completed_tests {
    use act_core::event::{Notice, NoticeLevel};

    use super::*;

    #[derive(Default)]
    struct Seen(Vec<EventKind>);

    impl Sink for Seen {
        fn event(&mut self, event: &Event) {
            self.0.push(event.kind.clone());
        }
    }

    // CLI-54
    #[test]
    fn commands_in_messages_of_act_name_the_repository_and_words_of_the_model_stay() {
        let repo = RepoHint { directory: "/r".into(), takes: |_| true };
        let mut completed = Completed { repo, sink: Seen::default() };
        let finished = |state| {
            let mut kind = act_core::testing::task_finished(state, act_core::exit::Exit::Ok);
            if let EventKind::TaskFinished { summary, .. } = &mut kind {
                *summary = Some("see `act status`".into());
            }
            kind
        };
        let notice = Notice { level: NoticeLevel::Warning, text: "run `act apply`".into() };
        for kind in [
            EventKind::Notice(notice),
            finished(TaskState::Refused),
            finished(TaskState::Success),
            EventKind::Diagnosis { text: "`act status`".into() },
        ] {
            let (time, task_id) = (act_core::clock::now(), String::new());
            completed.event(&Event { seq: 1, time, task_id, kind });
        }
        let texts = completed.sink.0.iter().map(|kind| match kind {
            EventKind::Notice(notice) => notice.text.as_str(),
            EventKind::TaskFinished { summary, .. } => summary.as_deref().unwrap(),
            EventKind::Diagnosis { text } => text,
            _ => "",
        });
        let expected = [
            "run `act apply --repo /r`",
            "see `act status --repo /r`",
            "see `act status`",
            "`act status`",
        ];
        assert!(texts.eq(expected));
    }
}

#[cfg(test)]
mod from_here_tests {
    use super::*;

    // CLI-56
    #[test]
    fn a_path_is_short_where_it_can_be_and_whole_elsewhere() {
        let from = |here: &str| seen_from(Some(Path::new(here)), Path::new("/a/b"), "agent/x.md");
        assert_eq!(from("/a/b"), "agent/x.md");
        assert_eq!(from("/a"), "b/agent/x.md");
        for elsewhere in ["/a/b/src", "/c", "/a/bb"] {
            assert_eq!(from(elsewhere), "/a/b/agent/x.md");
        }
        assert_eq!(seen_from(None, Path::new("/a/b"), "agent/x.md"), "/a/b/agent/x.md");
    }
}
