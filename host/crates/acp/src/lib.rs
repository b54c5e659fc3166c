//! `act acp`: an agent of the Agent Client Protocol, version 1. An editor starts it and speaks JSON-RPC over its standard streams;
//! a person then runs tasks from the editor.
//!
//! This crate promises that stdout carries messages of the protocol and nothing else, that every request is answered once, that
//! a client which reads slowly or not at all holds up no task, and that a client can allow nothing that the command line could
//! not allow. The command line alone calls it. `specs/acp.md` has the rules.
//!
//! - [`serve`] speaks with one client until its stream ends. `server.rs` has the methods, one after the other.
//! - [`Tasks`] is what a server needs of the rest of the program; [`TasksOfThisUser`] implements it.
//! - `translation.rs` turns the events of a task into updates of the protocol, for a task that runs and for one of a journal.
//! - `wire.rs` reads and writes lines: bounded, escaped, and without keys.

mod prompt;
mod server;
mod session;
mod tasks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod translation;
mod wire;

pub use server::{Options, serve};
pub use tasks::{Tasks, TasksOfThisUser};
