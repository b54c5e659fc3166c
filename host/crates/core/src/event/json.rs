//! An event as a line of JSON: the shape of `--json` and of the journal, `specs/events.md`.

use serde::Serialize;

use super::{Event, EventKind};

/// Raised when existing fields change their meaning; new fields and types do not raise it.
pub const VERSION: u32 = 1;

/// One line of `act run --json` and of the journal.
#[derive(Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(title = "Event", rename = "Event")
)]
pub struct Line<'a> {
    /// Version of this format.
    v: u32,
    /// From 1, without gaps.
    seq: u64,
    /// ISO 8601 in UTC, to the millisecond.
    time: String,
    task_id: &'a str,
    #[serde(flatten)]
    kind: &'a EventKind,
}

impl Event {
    /// Returns the line without its line feed; `None` for events that only people see.
    pub fn to_json(&self) -> Option<String> {
        if self.kind.is_for_people() {
            return None;
        }
        let time = crate::clock::milliseconds(self.time);
        let Self { seq, task_id, kind, .. } = self;
        serde_json::to_string(&Line { v: VERSION, seq: *seq, time, task_id, kind }).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind) -> Event {
        let time = chrono::DateTime::from_timestamp_millis(1_792_000_000_123).unwrap();
        Event { seq: 7, time, task_id: "t-abc123".into(), kind }
    }

    #[test]
    fn a_line_begins_with_version_number_time_and_task() {
        // EVENT-7
        let kind = EventKind::Milestone { text: "Analyzing codebase...".into(), attempt: None };
        assert_eq!(
            event(kind).to_json().unwrap(),
            r#"{"v":1,"seq":7,"time":"2026-10-14T17:46:40.123Z","task_id":"t-abc123","type":"milestone","text":"Analyzing codebase...","attempt":null}"#
        );
    }

    #[test]
    fn what_steps_print_is_no_line() {
        // EVENT-7
        let output = super::super::StepOutput(bytes::Bytes::from_static(b"x"));
        assert_eq!(event(EventKind::StepOutput(output)).to_json(), None);
    }
}
