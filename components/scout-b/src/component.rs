//! The component's export.

use scouting::bindings::exports::agentcommand::scout::scout::{Failure, Guest, Question};

struct ScoutB;

impl Guest for ScoutB {
    fn ask(question: Question) -> Result<String, Failure> {
        crate::ask(scouting::host::world(), &question.into()).map_err(Failure::from)
    }
}

mod export {
    use super::ScoutB;
    scouting::bindings::export!(ScoutB with_types_in scouting::bindings);
}
