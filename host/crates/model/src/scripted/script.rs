//! The script: turns by role, in the order in which the role's requests will use them.
//!
//! The format is described in `specs/scripted-model.md`.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::Value;
use serde_yaml::Spanned;

use act_core::event::ModelUsage;

/// Loops are written out when a script is read; this bounds them.
const MAX_TURNS: usize = 100_000;

/// What each role will hear.
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub(super) roles: BTreeMap<String, VecDeque<Turn>>,
}

/// Why a script cannot be used; line and column count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("script line {line}, column {column}: {message}")]
pub struct ScriptError {
    pub line: u64,
    pub column: u64,
    pub message: String,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    /// Which round of its loop this is, from 1; `{{n}}` in its texts.
    pub(super) n: u32,
    pub(super) text: Option<String>,
    pub(super) calls: Vec<Call>,
    pub(super) finish: Option<String>,
    pub(super) usage: Option<ModelUsage>,
    pub(super) fault: Fault,
}

/// One tool call. Arguments that are a text are sent as they are, also when they are no JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) name: String,
    #[serde(default)]
    pub(super) arguments: Value,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Fault {
    pub(super) status: Option<u16>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Option<String>,
    pub(super) delay_ms: u64,
    pub(super) end: Option<End>,
}

/// How an answer stops short after so many bytes of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As if it were complete.
    Cut(usize),
    /// With a broken connection.
    Reset(usize),
    /// With silence until the client goes away.
    Stall(usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    turns: Vec<Spanned<Entry>>,
}

/// A turn, or with `turns` a loop of turns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    role: Option<String>,
    repeat: Option<u32>,
    turns: Option<Vec<Spanned<Entry>>>,
    text: Option<String>,
    call: Option<Call>,
    calls: Option<Vec<Call>>,
    finish: Option<String>,
    usage: Option<Usage>,
    status: Option<u16>,
    headers: Option<BTreeMap<String, String>>,
    body: Option<String>,
    delay_ms: Option<u64>,
    cut_after_bytes: Option<usize>,
    reset_after_bytes: Option<usize>,
    stall_after_bytes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Usage {
    input: u64,
    #[serde(default)]
    cached: u64,
    output: u64,
}

impl Script {
    pub fn from_yaml(text: &str) -> Result<Self, ScriptError> {
        let options = serde_yaml::options! { strict_booleans: true, with_snippet: false };
        let file: File = serde_yaml::from_str_with_options(text, options).map_err(|error| {
            let at = error.location().unwrap_or(serde_yaml::Location::UNKNOWN);
            let message = error.render_with_formatter(&serde_yaml::UserMessageFormatter);
            ScriptError { line: at.line(), column: at.column(), message }
        })?;
        let mut script = Self::default();
        let mut count = 0;
        for entry in &file.turns {
            script.add(entry, None, &mut count)?;
        }
        Ok(script)
    }

    /// Adds a turn as often as it repeats; inside a loop, `round` is the loop's.
    fn add(
        &mut self,
        at: &Spanned<Entry>,
        round: Option<u32>,
        count: &mut usize,
    ) -> Result<(), ScriptError> {
        let entry = &at.value;
        let wrong = |message: &str| ScriptError {
            line: at.referenced.line(),
            column: at.referenced.column(),
            message: message.to_owned(),
        };
        for own in 1..=entry.repeat.unwrap_or(1) {
            *count += 1;
            if *count > MAX_TURNS {
                return Err(wrong("more than 100000 turns"));
            }
            if let Some(turns) = &entry.turns {
                if round.is_some() || !entry.only_loops() {
                    return Err(wrong("a loop has `repeat` and `turns` and no loop inside"));
                }
                for turn in turns {
                    self.add(turn, Some(own), count)?;
                }
            } else {
                let role = entry.role.clone().ok_or_else(|| wrong("a turn needs a role"))?;
                let n = if entry.repeat.is_some() { own } else { round.unwrap_or(1) };
                let turn = entry.turn(n).map_err(wrong)?;
                self.roles.entry(role).or_default().push_back(turn);
            }
        }
        Ok(())
    }
}

impl Entry {
    fn only_loops(&self) -> bool {
        self.role.is_none() && !self.says_something()
    }

    fn says_something(&self) -> bool {
        self.text.is_some()
            || self.call.is_some()
            || self.calls.is_some()
            || self.finish.is_some()
            || self.status.is_some()
            || self.body.is_some()
    }

    fn turn(&self, n: u32) -> Result<Turn, &'static str> {
        if !self.says_something() {
            return Err("a turn needs one of text, call, calls, finish, status, body");
        }
        let ends = [
            self.cut_after_bytes.map(End::Cut),
            self.reset_after_bytes.map(End::Reset),
            self.stall_after_bytes.map(End::Stall),
        ];
        let mut ends = ends.into_iter().flatten();
        let end = ends.next();
        if ends.next().is_some() {
            return Err("a turn stops short in one way only");
        }
        let mut calls: Vec<Call> = self.call.iter().cloned().collect();
        calls.extend(self.calls.iter().flatten().cloned());
        let usage = |usage: &Usage| ModelUsage {
            input: usage.input,
            cached: usage.cached,
            output: usage.output,
        };
        Ok(Turn {
            n,
            text: self.text.clone(),
            calls,
            finish: self.finish.clone(),
            usage: self.usage.as_ref().map(usage),
            fault: Fault {
                status: self.status,
                headers: self.headers.clone().unwrap_or_default(),
                body: self.body.clone(),
                delay_ms: self.delay_ms.unwrap_or(0),
                end,
            },
        })
    }
}
