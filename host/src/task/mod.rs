//! The life of a task: what was asked, under which id, and how it is run.

mod adoption;
mod args;
mod caches;
mod cancel;
mod detach;
mod id;
mod interrupted;
mod last_word;
mod line;
mod lookup;
mod preflight;
mod recorder;
mod runner;
mod scouting;
mod signals;
pub(crate) mod staff;
mod status;
mod team;
mod ticket;
mod turn;
mod verify;
mod work;

pub use args::RunArgs;
pub use caches::{CacheList, Cleared, clear_caches, list_caches};
pub use cancel::{Cancellation, Which, cancel};
pub use detach::{Detached, TakeOver, detach, take_over};
pub use id::TaskId;
pub use runner::run;
pub use scouting::{ScoutAnswer, ScoutArgs, WhichScout, scout};
pub use status::{Origin, Queue, Repo, Status, StuckReportNote, queue, status};
pub use verify::verify;
