//! The schema of what `act run --json` prints.

use act_core::Refusal;
use act_core::event::EventLine;
use act_core::event::schema;

/// One line of `act run --json`: an event of the task, or why there was none.
#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its shape is looked at")]
enum RunLine<'a> {
    Event(EventLine<'a>),
    Refusal(Refusal<'a>),
}

#[test]
fn the_schema_of_a_line_of_run_is_published() {
    // EVENT-8
    schema::holds::<RunLine<'_>>("run");
}

#[test]
fn the_schema_of_a_refusal_is_published() {
    // EVENT-8
    schema::holds::<Refusal<'_>>("refusal");
}
