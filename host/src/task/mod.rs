//! The life of a task: what was asked, under which id, and how it is run.

mod args;
mod id;
mod last_word;
mod pipeline;
mod preflight;
mod request;
mod runner;
mod scouting;
mod signals;
pub(crate) mod staff;
mod team;
mod turn;

pub use args::RunArgs;
pub use id::TaskId;
pub use request::{MAX_TEXT_BYTES, RequestError, TaskRequest};
pub use runner::run;
pub use scouting::{ScoutAnswer, ScoutArgs, WhichScout, scout};
