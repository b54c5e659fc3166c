//! The life of a task: what was asked, under which id, and how it is run.

mod args;
mod id;
mod request;

pub use args::RunArgs;
pub use id::TaskId;
pub use request::{MAX_TEXT_BYTES, RequestError, TaskRequest};
