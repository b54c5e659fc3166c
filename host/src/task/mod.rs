//! The life of a task: what was asked, under which id, and how it is run.

mod args;
mod id;
mod preflight;
mod request;
mod runner;
mod signals;
mod team;
mod turn;

pub use args::RunArgs;
pub use id::TaskId;
pub use request::{MAX_TEXT_BYTES, RequestError, TaskRequest};
pub use runner::run;
