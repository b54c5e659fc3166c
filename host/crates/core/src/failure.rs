//! The failure of a command: one message, and what the user can do next. `anyhow` has no place for the code, the hint and the
//! exit code that each failure has.

use serde::Serialize;

use crate::Document;
use crate::event::VERSION;
use crate::exit::Exit;

/// The failure of a command. `code` is a stable word, listed in `specs/command-line.md`; `message` begins in lower case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
    pub exit: Exit,
}

impl Failure {
    /// A refusal before anything was started; exit code 1.
    pub fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, exit: Exit::Refused }
    }

    /// Invalid arguments; exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: "usage", message: message.into(), hint: None, exit: Exit::Usage }
    }

    /// Adds what the user can do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the document that a command with `--json` prints instead of a result.
    pub fn document(&self) -> Refusal<'_> {
        Refusal {
            v: VERSION,
            r#type: match self.exit {
                Exit::Refused => Word::Refused,
                _ => Word::Failed,
            },
            code: self.code,
            message: &self.message,
            hint: self.hint.as_deref(),
            exit_code: self.exit as u8,
        }
    }
}

/// The document that a command with `--json` prints instead of a result.
#[derive(Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Refusal<'a> {
    /// Version of the lines of `act run --json`, of which this may be one.
    v: u32,
    r#type: Word,
    /// A stable word.
    code: &'a str,
    message: &'a str,
    /// What to do next.
    hint: Option<&'a str>,
    exit_code: u8,
}

impl Document for Refusal<'_> {
    const NAME: &'static str = "refusal";
}

#[derive(Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
enum Word {
    /// The command was refused before anything was started.
    Refused,
    /// The command was started and has no result.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;

    #[test]
    fn a_refusal_is_one_line_of_json() {
        // CLI-15
        let refused = Failure::refused("task_empty", "task is empty");
        assert_eq!(
            Schema::First.to_json(&refused.document()),
            r#"{"v":1,"type":"refused","code":"task_empty","message":"task is empty","hint":null,"exit_code":1}"#
        );
        assert_eq!(
            Schema::Second.to_json(&refused.document()),
            r#"{"schema":2,"v":1,"type":"refused","code":"task_empty","message":"task is empty","hint":null,"exit_code":1}"#
        );
        let failed = Failure { exit: Exit::Infra, ..refused };
        assert!(Schema::Second.to_json(&failed.document()).contains(r#""type":"failed""#));
    }
}
