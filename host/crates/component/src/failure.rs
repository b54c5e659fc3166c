//! The failures of calls, and the meaning of the engine's errors.

use std::time::Duration;

use wasmtime::Trap;
use wasmtime::component::ResourceTableError;
use wasmtime_wasi::I32Exit;

use act_audit::AuditError;
use act_core::is_hidden;
use act_model::ModelError;

/// Longest message of a component in a failure, in bytes.
pub(super) const MAX_LINE: usize = 400;

/// The failure of one call. The next call gets a fresh store in any case.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ComponentFailure {
    #[error("the component trapped: {0}")]
    Trap(String),
    /// The component used a capability that was not granted, through an interface that has no error.
    #[error("the component was stopped: it used `{0}`, which is not granted")]
    Withheld(&'static str),
    #[error("the component went over its limit: {0}")]
    Limit(Limit),
    #[error("the component was stopped after {} ms, its time limit", .0.as_millis())]
    Deadline(Duration),
    #[error("the model did not finish an answer within {} ms, the time that one request has", .0.as_millis())]
    Request(Duration),
    #[error("cancelled")]
    Cancelled,
    /// The component itself returned a failure.
    #[error("the component gave up: {0}")]
    Guest(GuestFailure),
    /// The component gave up after a request to the model had failed.
    #[error("the model gave no usable answer: {0}")]
    Model(#[source] ModelError),
    /// A fault of this program or its machine, not of the component.
    #[error("the component host failed: {0}")]
    Host(String),
    /// The call did not begin, because it could not be recorded.
    #[error("nothing runs unless it can be recorded: {0}; {hint}", hint = .0.hint())]
    Unrecorded(#[source] AuditError),
}

impl ComponentFailure {
    /// A stable word for records and events.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Trap(_) => "trap",
            Self::Withheld(_) => "not_granted",
            Self::Limit(_) => "limit",
            Self::Deadline(_) | Self::Request(_) => "deadline",
            Self::Cancelled => "cancelled",
            Self::Guest(_) => "gave_up",
            Self::Model(_) => "model_failed",
            Self::Host(_) => "host_failed",
            Self::Unrecorded(_) => "unrecorded",
        }
    }

    /// Returns true if another attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Trap(_)
            | Self::Limit(_)
            | Self::Deadline(_)
            | Self::Request(_)
            | Self::Host(_) => true,
            // Another attempt has the same grant.
            Self::Withheld(_) | Self::Cancelled | Self::Unrecorded(_) => false,
            Self::Guest(GuestFailure::Model(_) | GuestFailure::Other(_)) => true,
            Self::Guest(_) => false,
            Self::Model(error) => error.is_retryable(),
        }
    }

    /// Returns what the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Trap(_) => {
                "a fault of the component: `--verbose` shows its log; report it to its author"
            }
            Self::Withheld(_) => {
                "`act components` shows its grants; approve it again with a manifest that needs this one, if you trust it with it"
            }
            Self::Limit(_) => {
                "ask for less at once; `act components show NAME` shows the limits of its grant, and `--verbose` its log"
            }
            Self::Deadline(_) => {
                "a larger `timeouts.scout_query` in agent.yaml gives it more time; `--verbose` shows its log"
            }
            Self::Request(_) => {
                "larger `timeouts.model_*` in config.toml give the model more time; `act doctor --model` asks it one question"
            }
            Self::Cancelled => "run the command again",
            Self::Guest(GuestFailure::OutOfScope(_)) => {
                "ask another Scout, or put the question in its words"
            }
            Self::Guest(GuestFailure::BadArguments(_) | GuestFailure::UnknownTool) => {
                "`act components inspect FILE` shows its tools and their arguments"
            }
            Self::Guest(GuestFailure::Model(_)) | Self::Model(_) => {
                "`act doctor --model` asks the model one question; `--verbose` shows the log of the Scout"
            }
            Self::Guest(GuestFailure::Other(_)) => {
                "the component gives this reason itself; `--verbose` shows its log"
            }
            Self::Host(_) => "a fault of act or of this machine; look at its memory and its disk",
            Self::Unrecorded(error) => error.hint(),
        }
    }

    /// Returns the time that the provider asks to wait before the next request.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Model(error) => error.retry_after,
            _ => None,
        }
    }
}

/// The failure that a component returned instead of a result, on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestFailure {
    #[error("out of scope: {0}")]
    OutOfScope(String),
    #[error("the model gave no usable answer: {0}")]
    Model(String),
    #[error("no such tool")]
    UnknownTool,
    #[error("bad arguments: {0}")]
    BadArguments(String),
    #[error("{0}")]
    Other(String),
}

/// The limit of the grant that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    #[error("memory")]
    Memory,
    #[error("table elements")]
    Tables,
    #[error("core instances")]
    Instances,
    #[error("handles")]
    Handles,
    #[error("bytes passed to the host in one call")]
    HostCall,
    #[error("bytes of the result")]
    Result,
    #[error("text of its conversations with the model")]
    Conversation,
}

/// An error with which a host function ends the component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Ended {
    /// The deadline passed or the call was cancelled. The caller's side knows which.
    #[error("stopped")]
    Stopped,
    #[error("over the limit: {0}")]
    Over(Limit),
    #[error("`{0}` is not granted")]
    Withheld(&'static str),
}

/// Turns an error of the engine into a failure. `reached` is the limit that growth was refused for, and `stderr` is what
/// the component printed.
pub(super) fn classify(
    error: &wasmtime::Error,
    reached: Option<Limit>,
    stderr: &str,
) -> ComponentFailure {
    match error.downcast_ref::<Ended>() {
        Some(Ended::Stopped) => return ComponentFailure::Cancelled,
        Some(Ended::Over(limit)) => return ComponentFailure::Limit(*limit),
        Some(Ended::Withheld(capability)) => return ComponentFailure::Withheld(capability),
        None => {}
    }
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        return ComponentFailure::Limit(Limit::Handles);
    }
    // The engine has no types for these errors. Integration tests fail when it changes the texts.
    let root = error.root_cause().to_string();
    for (words, limit) in [
        ("fuel allocated for hostcalls", Limit::HostCall),
        ("store handle limit exceeded", Limit::Handles),
        ("instance count too high", Limit::Instances),
        ("table count too high", Limit::Tables),
        ("memory count too high", Limit::Memory),
    ] {
        if root.contains(words) {
            return ComponentFailure::Limit(limit);
        }
    }
    // A component that is refused memory usually traps. The cause says more than the trap.
    if let Some(limit) = reached {
        return ComponentFailure::Limit(limit);
    }
    let mut message = match (error.downcast_ref::<Trap>(), error.downcast_ref::<I32Exit>()) {
        (Some(trap), _) => trap.to_string().trim_start_matches("wasm trap: ").to_owned(),
        (_, Some(I32Exit(code))) => format!("it exited with status {code}"),
        _ => root,
    };
    if let Some(printed) = last_output(stderr) {
        message = format!("{message}; it printed: {printed}");
    }
    ComponentFailure::Trap(one_line(&message, MAX_LINE))
}

/// Returns the text from the last panic on, or else the last line.
fn last_output(stderr: &str) -> Option<&str> {
    let panicked = stderr.rfind("panicked at").map(|at| &stderr[at..]);
    panicked.or_else(|| stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()))
}

/// Returns a text as one line of at most `most` bytes without hidden characters. Every text of a component that is shown
/// or recorded passes through here.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let mut line = String::with_capacity(text.len().min(most));
    for c in text.trim().chars() {
        let c = if is_hidden(c) { ' ' } else { c };
        if c == ' ' && line.ends_with(' ') {
            continue;
        }
        if line.len() + c.len_utf8() > most {
            line.truncate(line.floor_char_boundary(most.saturating_sub('…'.len_utf8())));
            line.push('…');
            break;
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_component_says_stays_on_one_bounded_line() {
        assert_eq!(one_line("  a\n\tb\u{1b}[31m\u{9b}c  ", 100), "a b [31m c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abc…");
        assert_eq!(one_line(&"ä".repeat(1000), 11).len(), 11);
        assert_eq!(one_line("", 5), "");
    }

    // CLI-60
    #[test]
    fn only_a_deadline_is_cured_by_more_time() {
        let second = Duration::from_secs(1);
        let failures = [
            ComponentFailure::Trap("x".into()),
            ComponentFailure::Withheld("clock"),
            ComponentFailure::Limit(Limit::Memory),
            ComponentFailure::Guest(GuestFailure::Other("x".into())),
            ComponentFailure::Host("x".into()),
            ComponentFailure::Request(second),
        ];
        let mut hints: Vec<_> = failures.iter().map(ComponentFailure::hint).collect();
        assert!(hints.iter().all(|hint| !hint.contains("scout_query")), "{hints:?}");
        let late = ComponentFailure::Deadline(second).hint();
        assert!(late.contains("`timeouts.scout_query`"));
        hints.push(late);
        let count = hints.len();
        hints.sort_unstable();
        hints.dedup();
        assert_eq!(hints.len(), count, "each failure has its own");
    }

    #[test]
    fn a_trap_is_told_with_the_last_panic() {
        let error = wasmtime::Error::from(Trap::UnreachableCodeReached);
        let stderr = "hello\nthread 'main' panicked at src/lib.rs:1:2:\nno\nway\n";
        let ComponentFailure::Trap(message) = classify(&error, None, stderr) else { panic!() };
        assert_eq!(
            message,
            "wasm `unreachable` instruction executed; it printed: panicked at src/lib.rs:1:2: no way"
        );
    }

    #[test]
    fn a_trap_after_a_refused_limit_is_that_limit() {
        let error = wasmtime::Error::from(Trap::UnreachableCodeReached);
        let failure = classify(&error, Some(Limit::Memory), "");
        assert!(matches!(failure, ComponentFailure::Limit(Limit::Memory)));
    }

    #[test]
    fn what_a_host_function_raised_comes_first() {
        let error =
            wasmtime::Error::from(Ended::Over(Limit::Conversation)).context("while calling");
        let failure = classify(&error, Some(Limit::Memory), "panicked at x");
        assert!(matches!(failure, ComponentFailure::Limit(Limit::Conversation)));
    }
}
