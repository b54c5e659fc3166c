//! `act`: an Editor loop on the host, Scouts and file tools as WebAssembly components, a Docker Verifier
//! that decides what "done" means.
//!
//! Modules stand in layers. A module may use what stands below its own line, never what stands above it,
//! and not its neighbours on the same line; `tests/integration/layers.rs` reads this list and holds it.
//!
//! ```text
//! 8 cli
//! 7 doctor
//! 6 task
//! 5 editor conformance
//! 4 registry scout verifier
//! 3 component artifacts context config publishing store
//! 2 workspace model output audit symbols
//! 1 event
//! 0 clock exit fail_point hidden_char no_follow process secret
//! ```
//!
//! One task: `cli/run` reads the text, `task` checks what must hold before it starts and takes the
//! repository's lock, `editor/session` plans, asks the Scouts, lets the file tools edit, has the Verifier
//! judge and follows `editor/debug_loop` until summary or stuck report. Everything that happens goes out
//! as an `event`; only `output` prints.

pub mod artifacts;
pub mod audit;
pub mod cli;
pub mod clock;
pub mod component;
pub mod config;
pub mod conformance;
pub mod context;
pub mod doctor;
pub mod editor;
pub mod event;
pub mod exit;
pub mod fail_point;
mod hidden_char;
pub mod model;
mod no_follow;
pub mod output;
pub mod process;
pub mod publishing;
pub mod registry;
pub mod scout;
pub mod secret;
pub mod store;
pub mod symbols;
pub mod task;
pub mod verifier;
pub mod workspace;
