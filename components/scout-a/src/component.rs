//! The component's export.

use scouting::bindings::exports::agentcommand::scout::scout::{Failure, Guest, Question};

struct Scout;

impl Guest for Scout {
    fn ask(_question: Question) -> Result<String, Failure> {
        Err(Failure::Other("not answered".to_owned()))
    }
}

mod export {
    use super::Scout;
    scouting::bindings::export!(Scout with_types_in scouting::bindings);
}
