//! `progress`: what goes on, and what is left. Always linked.

use std::time::Duration;

use crate::bindings::progress::{Advice, Host, Left, Level};
use crate::state::{Clock, State};
use act_core::event::EventKind;

/// What is shown to people is short.
const MAX_STEP: usize = 200;

impl Host for State {
    fn step(&mut self, message: String) -> wasmtime::Result<Advice> {
        let query = &mut self.query;
        if let Some(message) = query.line(&message, MAX_STEP) {
            query.voice.tell(EventKind::ComponentStep { name: query.name.clone(), message });
        }
        let calls = query.talk.as_ref().map(|talk| talk.calls_left);
        Ok(advice(query.clock.left(), query.clock.wall, calls))
    }

    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
        };
        self.query.log(level, &message);
        Ok(())
    }

    fn remaining(&mut self) -> wasmtime::Result<Left> {
        let query = &self.query;
        let talk = query.talk.as_ref();
        Ok(Left {
            milliseconds: milliseconds(&query.clock),
            model_calls: talk.map_or(0, |talk| talk.calls_left),
            model_tokens: talk.map_or(0, |talk| talk.tokens_left),
            read_bytes: query.read.as_ref().map_or(0, |read| read.left.bytes()),
        })
    }
}

fn milliseconds(clock: &Clock) -> u64 {
    u64::try_from(clock.left().as_millis()).unwrap_or(u64::MAX)
}

/// Time to wrap up when a quarter of the time or a single model call is left.
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
