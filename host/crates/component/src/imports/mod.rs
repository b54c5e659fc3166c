//! Our interfaces as a component imports them: translate, ask, answer. Policy stands elsewhere.

mod http;
mod model_chat;
mod outlining;
mod progress;
mod repo_edit;
mod repo_read;
mod repo_symbols;

#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub use model_chat::Chat;
pub(super) use model_chat::ModelRequest;

use super::bindings::types::{self, Refusal};
use super::state::State;

// Words only; it has no functions.
impl types::Host for State {}

fn denied(grant: &str) -> Refusal {
    Refusal::Denied(format!("{grant}: not granted to this component"))
}
