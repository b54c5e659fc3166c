//! `progress`: steps and log lines of a component, and how much of its time and amounts is left. Always linked.

use std::time::Duration;

use crate::bindings::progress::{Advice, Host, Left, Level};
use crate::call::{Deadline, State};
use act_core::event::EventKind;

/// Longest step that is shown to people, in bytes.
const MAX_STEP: usize = 200;

impl Host for State {
    fn step(&mut self, message: String) -> wasmtime::Result<Advice> {
        let call = &mut self.call;
        if let Some(message) = call.line(&message, MAX_STEP) {
            call.emit(EventKind::ComponentStep { name: call.name.clone(), message });
        }
        let calls = call.model_calls_left();
        Ok(advice(call.deadline.left(), call.deadline.wall, calls))
    }

    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
        };
        self.call.log(level, &message);
        Ok(())
    }

    fn remaining(&mut self) -> wasmtime::Result<Left> {
        let call = &self.call;
        let meters = &call.meters;
        Ok(Left {
            milliseconds: milliseconds(&call.deadline),
            model_calls: call.model_calls_left().unwrap_or(0),
            model_tokens: call.model.as_ref().map_or(0, |_| meters.llm.tokens.left()),
            read_bytes: call.read.as_ref().map_or(0, |_| meters.repo_read.bytes.left()),
        })
    }
}

fn milliseconds(deadline: &Deadline) -> u64 {
    u64::try_from(deadline.left().as_millis()).unwrap_or(u64::MAX)
}

/// Advises to wrap up when a quarter of the time or a single request to the model is left.
fn advice(left: Duration, wall: Duration, model_calls: Option<u32>) -> Advice {
    if left < wall / 4 || model_calls.is_some_and(|calls| calls <= 1) {
        Advice::WrapUp
    } else {
        Advice::CarryOn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advises_to_wrap_up_before_time_or_calls_run_out() {
        let second = Duration::from_secs(1);
        let cases = [
            (60, None, Advice::CarryOn),
            (15, Some(9), Advice::CarryOn),
            (14, Some(9), Advice::WrapUp),
            (60, Some(1), Advice::WrapUp),
            (0, None, Advice::WrapUp),
        ];
        for (left, calls, expected) in cases {
            assert_eq!(advice(second * left, second * 60, calls), expected, "{left} {calls:?}");
        }
    }
}
