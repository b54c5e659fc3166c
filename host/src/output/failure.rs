//! How a command says that it ended without a result: one message, and what to do next.

use super::line::{Line, Tone};
use crate::exit::Exit;

/// `code` is a stable word, listed in `specs/command-line.md`; `message` a lower-case fragment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
    pub exit: Exit,
}

impl Failure {
    /// Nothing was started; exit code 1.
    pub fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, exit: Exit::Refused }
    }

    /// The command line makes no sense; exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: "usage", message: message.into(), hint: None, exit: Exit::Usage }
    }

    /// What to type or to look at next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let message = Line::of(Tone::Bad, "act:").and(Tone::Plain, format!(" {}", self.message));
        let hint = self
            .hint
            .as_ref()
            .map(|hint| Line::of(Tone::Strong, "hint:").and(Tone::Plain, format!(" {hint}")));
        std::iter::once(message).chain(hint).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_and_its_hint_another() {
        let failure = Failure::refused("task_empty", "task is empty\x1b[2J\nact: all is well")
            .hint("say what to do");
        let text: String = failure.lines().iter().map(|line| line.render(false)).collect();
        assert_eq!(text, "act: task is empty\\nact: all is well\nhint: say what to do\n");
    }
}
