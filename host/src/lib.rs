//! `act`: arguments, output and the life of a task. The rest lies in the crates of `host/crates/`.

pub mod cli;
pub mod conformance;
pub mod output;
pub mod task;
