//! The component's export.

use scouting::bindings::exports::agentcommand::scout::scout::{Failure, Guest, Question};

struct ScoutA;

impl Guest for ScoutA {
    fn ask(question: Question) -> Result<String, Failure> {
        crate::ask(scouting::host::world(), &question.into()).map_err(Failure::from)
    }
}

mod export {
    use super::ScoutA;
    scouting::bindings::export!(ScoutA with_types_in scouting::bindings);
}
