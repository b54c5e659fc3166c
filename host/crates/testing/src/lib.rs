//! Support for the tests and benches of every crate. Nothing of the product depends on this crate.
//!
//! [`ScriptedServer`] serves a [`Script`] over loopback HTTP on all three wires and records every request, so the
//! ordinary client talks to it and no part of the product has to be replaced. The same script gives the same bytes;
//! they are cut at odd places on purpose. `specs/scripted-model.md` describes the format. The script and its player are in
//! `act_model::scripted`, because the product needs them as well.
//!
//! ```
//! use act_testing::{Script, ScriptedServer};
//!
//! let script = Script::from_yaml("turns: [{role: editor, text: hello}]").unwrap();
//! let server = ScriptedServer::start(script).unwrap();
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! assert_eq!(server.left()["editor"], 1);
//! ```

mod messages;
mod responses;
mod server;
#[cfg(test)]
mod tests;
mod wire;

pub use act_model::scripted::{Script, ScriptError};
pub use server::{Counts, Recorded, ScriptedServer};
pub use wire::Wire;

/// Returns the bytes of a role's first turn on a wire, in one piece.
///
/// # Panics
///
/// Panics when the script is not valid.
#[expect(clippy::expect_used, reason = "for tests only")]
pub fn stream_of(wire: Wire, script: &str, role: &str) -> String {
    let script = Script::from_yaml(script).expect("a valid script");
    let request = wire.request(role);
    let answer =
        act_model::scripted::Player::new(script).answer(&wire, &request.to_string(), &request);
    let bytes: Vec<u8> = answer.body.into_iter().flatten().collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
