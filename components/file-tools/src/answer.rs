//! The answers that the model reads: text, and refusals that begin with their stable word.

use act_kit::tool::{EditError, Outcome};
use act_kit::world::Refusal;
use edit_protocol::Reason;

/// A refusal that the model can act on: the reason, what to do next, and the lines that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) reason: Reason,
    /// The host refused a change and has recorded that already.
    pub(crate) by_host: bool,
    message: String,
    shown: String,
}

impl Refused {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, by_host: false, message: message.into(), shown: String::new() }
    }

    /// The file is at another version than the one that the model has read.
    pub(crate) fn stale(path: &str, current: u64) -> Self {
        let message =
            format!("{path} is at version {current} now; base the edit on what it has now");
        Self::new(Reason::VersionMismatch, message)
    }

    /// The host refused a change and has recorded that already.
    pub(crate) fn by_host(self) -> Self {
        Self { by_host: true, ..self }
    }

    /// Says which of several edits is refused, from 1, and that none was made.
    pub(crate) fn of_edit(self, at: usize) -> Self {
        let message = format!("edit {}: {}; no edit was made", at + 1, self.message);
        Self { message, ..self }
    }

    /// Shows lines of the file below the message.
    pub(crate) fn showing(self, lines: String) -> Self {
        Self { shown: lines, ..self }
    }

    /// The refusal as one text.
    pub(crate) fn text(&self) -> String {
        let text = format!("{}: {}", self.reason, self.message);
        if self.shown.is_empty() { text } else { format!("{text}\n{}", self.shown) }
    }

    pub(crate) fn into_answer(self) -> Outcome {
        Outcome::refusal(self.text())
    }
}

impl From<edit_protocol::Refusal> for Refused {
    fn from(refusal: edit_protocol::Refusal) -> Self {
        use edit_protocol::Refusal::{BadArguments, Binary, ContentEmpty};
        let reason = Reason::of_word(refusal.reason()).unwrap_or(Reason::BadArguments);
        let message = match refusal {
            BadArguments { message } => message,
            Binary => "the file is no text: it has a NUL byte near its beginning".to_owned(),
            ContentEmpty => "content is empty; call delete to remove the file".to_owned(),
            other => format!("the edit does not fit the file ({})", other.reason()),
        };
        Self::new(reason, message)
    }
}

/// Why a tool did not do what was asked: a refusal for the model, or a failure of the machine, which is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    Refused(Refused),
    Failed(String),
}

impl Trouble {
    /// The host refused a change and has recorded that already.
    fn by_host(self) -> Self {
        match self {
            Self::Refused(refused) => Self::Refused(refused.by_host()),
            failed => failed,
        }
    }
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<edit_protocol::Refusal> for Trouble {
    fn from(refusal: edit_protocol::Refusal) -> Self {
        Self::Refused(refusal.into())
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        let refused = |text: String, otherwise: Reason| {
            let (reason, message) = reason_of(&text, otherwise);
            Self::Refused(Refused::new(reason, message))
        };
        match refusal {
            Refusal::NotFound => {
                Refused::new(Reason::NotFound, "nothing in view has this path").into()
            }
            Refusal::Invalid(text) => refused(text, Reason::BadArguments),
            Refusal::Denied(text) => refused(text, Reason::Excluded),
            Refusal::Limit(text) => refused(text, Reason::Budget),
            Refusal::Stale => Self::Failed("the repository changed during the call".to_owned()),
            Refusal::Failed(text) => Self::Failed(text),
        }
    }
}

impl From<EditError> for Trouble {
    fn from(error: EditError) -> Self {
        let refused: Self = match error {
            EditError::Conflict((path, Some(now))) => Refused::stale(&path, now.number).into(),
            EditError::Conflict((path, None)) => {
                Refused::new(Reason::NotFound, format!("{path} is gone")).into()
            }
            EditError::Exists(path) => {
                let message = format!("{path} exists already; edit it, or choose another name");
                Refused::new(Reason::Exists, message).into()
            }
            EditError::Protected((path, text)) => {
                let (reason, message) = reason_of(&text, Reason::Protected);
                let message = match message.contains(&path) {
                    true => message.to_owned(),
                    false => format!("{path}: {message}"),
                };
                Refused::new(reason, message).into()
            }
            EditError::Refused(refusal) => refusal.into(),
        };
        refused.by_host()
    }
}

/// Splits the host's text into the reason that it begins with and the rest. Without a known word the whole text is the
/// message, and the reason is `otherwise`.
fn reason_of(text: &str, otherwise: Reason) -> (Reason, &str) {
    let (word, rest) = text.split_once(':').unwrap_or((text, text));
    match Reason::of_word(word.trim()) {
        Some(reason) => (reason, rest.trim()),
        None => (otherwise, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(trouble: impl Into<Trouble>) -> String {
        match trouble.into() {
            Trouble::Refused(refused) => refused.into_answer().text,
            Trouble::Failed(text) => format!("failed: {text}"),
        }
    }

    // TOOLS-4
    #[test]
    fn the_word_that_a_refusal_begins_with_becomes_the_reason() {
        let protected =
            |text: &str| answer(EditError::Protected(("a".to_owned(), text.to_owned())));
        assert_eq!(protected("guarded: hooks run it"), "guarded: a: hooks run it");
        assert_eq!(protected("a belongs to the user"), "protected: a belongs to the user");
        assert_eq!(
            answer(Refusal::Invalid("not_a_file: a directory".to_owned())),
            "not_a_file: a directory"
        );
        assert_eq!(answer(Refusal::Limit("query_bytes".to_owned())), "budget: query_bytes");
    }

    #[test]
    fn trouble_of_the_machine_is_no_answer() {
        assert_eq!(answer(Refusal::Failed("disk".to_owned())), "failed: disk");
    }
}
