//! A model made of a script: the server of `act demo` and of the tests.
//!
//! It speaks all three wires over loopback HTTP and keeps every request, so the ordinary client talks to it
//! and nothing has to be replaced. The same script always gives the same answers; their bytes are cut at
//! odd places on purpose.

mod answer;
mod chat_completions;
mod messages;
mod responses;
mod script;
mod server;
mod substitute;
#[cfg(test)]
mod tests;
mod wire;

pub use script::{Script, ScriptError};
pub use server::{Recorded, ScriptedServer, Seen};
pub use wire::Wire;

/// The bytes of a role's first turn on a wire, uncut.
#[cfg(test)]
pub(super) fn stream_of(wire: Wire, script: &Script, role: &str) -> String {
    let asked = answer::Asked { wire, role, number: 1, model: &"m-1".into(), request: "" };
    let turn = &script.roles[role][0];
    wire.stream(&answer::said(turn, asked, &substitute::Values::new(turn.n, "")))
}
