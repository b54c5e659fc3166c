//! `act`: an Editor loop on the host, Scouts and file tools as WebAssembly components, a Docker Verifier
//! that decides what "done" means.
//!
//! Modules stand in layers. A module may use what stands below its own line, never what stands above it,
//! and not its neighbours on the same line; `tests/integration/layers.rs` reads this list and holds it.
//!
//! ```text
//! 6 cli
//! 5 task
//! 4 editor
//! 3 scout verifier
//! 2 component artifacts context
//! 1 workspace model config output
//! 0 event clock exit
//! ```
//!
//! One task: `cli/run` reads the text, `task` checks what must hold before it starts and takes the
//! repository's lock, `editor/session` plans, asks the Scouts, lets the file tools edit, has the Verifier
//! judge and follows `editor/debug_loop` until summary or stuck report. Everything that happens goes out
//! as an `event`; only `output` prints.

pub mod clock;
pub mod component;
pub mod event;
pub mod exit;
pub mod model;
pub mod scout;
pub mod verifier;
pub mod workspace;
