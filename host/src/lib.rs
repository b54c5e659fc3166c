//! The program `act`: reads the command line, prints, and returns an exit code. What commands do is in the crates of
//! `host/crates/`, the life of a task in `act-task`; none of them prints.
//!
//! - [`cli::run`] runs one command line; the binary is nothing else.
//! - [`output::Output`] is everything that is printed, and the sinks that print events.
//! - [`mcp::serve`] is `act mcp`: the gate as tools for other agents.
//! - [`conformance`] is `act components test`: a component of any author, tested without a model.

pub mod cli;
pub mod conformance;
pub mod mcp;
pub mod output;
