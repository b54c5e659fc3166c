//! What outlives a process: the store of tasks and runs, and the artifacts that verifications leave behind.

pub mod artifacts;
pub mod store;
