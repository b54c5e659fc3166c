//! The answers that the model reads: `{ok:true,…}` or `{ok:false,reason,…}`.

use act_kit::tool::{EditError, Outcome};
use act_kit::world::Refusal;
use edit_protocol::{Document, Reason};
use serde_json::{Map, Value};
use std::ops::Range;

/// A refusal that the model can act on, with the facts that help it to do better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) reason: Reason,
    /// The host refused a change and has recorded that already.
    pub(crate) by_host: bool,
    facts: Map<String, Value>,
}

impl Refused {
    pub(crate) fn new(reason: Reason) -> Self {
        Self { reason, by_host: false, facts: Map::new() }
    }

    /// The file is at another version than the one that the model has read.
    pub(crate) fn stale(current: u64) -> Self {
        Self::new(Reason::VersionMismatch).with("current_version", current)
    }

    /// The host refused a change and has recorded that already.
    pub(crate) fn by_host(self) -> Self {
        Self { by_host: true, ..self }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn message(self, message: &str) -> Self {
        self.with("message", message)
    }

    /// Adds the lines that are there now around a place.
    pub(crate) fn around(self, document: &Document<'_>, place: Range<usize>) -> Self {
        let lines = document.around(place);
        let lines = lines.into_iter().map(|(index, text)| (index.to_string(), Value::from(text)));
        self.with("line_count", document.lines.len()).with("lines", lines.collect::<Map<_, _>>())
    }

    pub(crate) fn into_answer(self) -> Outcome {
        let mut text = Map::new();
        text.insert("ok".to_owned(), Value::from(false));
        text.insert("reason".to_owned(), Value::from(self.reason.word()));
        text.extend(self.facts);
        Outcome::refusal(Value::Object(text).to_string())
    }
}

impl From<edit_protocol::Refusal> for Refused {
    fn from(refusal: edit_protocol::Refusal) -> Self {
        let mut facts = match serde_json::to_value(&refusal) {
            Ok(Value::Object(facts)) => facts,
            _ => Map::new(),
        };
        facts.remove("reason");
        let reason = Reason::of_word(refusal.reason()).unwrap_or(Reason::BadArguments);
        Self { facts, ..Self::new(reason) }
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
            Self::Refused(Refused::new(reason).message(message))
        };
        match refusal {
            Refusal::NotFound => Refused::new(Reason::NotFound).into(),
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
            EditError::Conflict((_, Some(now))) => Refused::stale(now.number).into(),
            EditError::Conflict((_, None)) => {
                Refused::new(Reason::NotFound).message("the file is gone").into()
            }
            EditError::Exists(path) => Refused::new(Reason::Exists).with("path", path).into(),
            EditError::Protected((path, text)) => {
                let (reason, message) = reason_of(&text, Reason::Protected);
                Refused::new(reason).with("path", path).message(message).into()
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
        assert_eq!(
            protected("guarded: hooks run it"),
            r#"{"ok":false,"reason":"guarded","path":"a","message":"hooks run it"}"#
        );
        assert_eq!(
            protected("agent.yaml is yours"),
            r#"{"ok":false,"reason":"protected","path":"a","message":"agent.yaml is yours"}"#
        );
        assert_eq!(
            answer(Refusal::Invalid("not_a_file: a directory".to_owned())),
            r#"{"ok":false,"reason":"not_a_file","message":"a directory"}"#
        );
        assert_eq!(
            answer(Refusal::Limit("query_bytes".to_owned())),
            r#"{"ok":false,"reason":"budget","message":"query_bytes"}"#
        );
    }

    #[test]
    fn trouble_of_the_machine_is_no_answer() {
        assert_eq!(answer(Refusal::Failed("disk".to_owned())), "failed: disk");
    }
}
