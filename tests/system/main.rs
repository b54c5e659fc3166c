//! The real program in its own process, from the command line to the exit code.

#[path = "../harness/mod.rs"]
mod harness;

mod command_line;
mod refusals;
mod streams;
