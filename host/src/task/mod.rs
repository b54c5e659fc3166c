//! The life of a task: what was asked, under which id, and how it is run.

mod args;
mod id;
mod pipeline;
mod preflight;
mod runner;
mod signals;
mod team;
mod turn;

pub use args::RunArgs;
pub use id::TaskId;
pub use runner::run;
