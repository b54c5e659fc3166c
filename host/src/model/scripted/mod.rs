//! A model made of a script: the server of `act demo` and of the tests.
//!
//! It speaks Chat Completions over loopback HTTP and keeps every request, so the ordinary client talks to
//! it and nothing has to be replaced. The same script always gives the same answers; their bytes are cut
//! at odd places on purpose.

mod answer;
mod script;
mod server;
mod substitute;
#[cfg(test)]
mod tests;

pub use script::{Script, ScriptError};
pub use server::{Recorded, ScriptedServer, Seen};
