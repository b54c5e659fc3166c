//! The agent: the Editor's loop, the Scouts' reports and the context files of a task.

pub mod context;
pub mod editor;
pub mod gate_inputs;
pub mod scout;
