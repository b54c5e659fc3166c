//! The Editor's hands: ten tools over a read-only view, with every change asked of the host.
//!
//! `tools` finds the tool and checks its arguments, `reading` and `editing` do the work against
//! `repository`, `answer` puts what came of it in the words of the edit protocol. All of that is pure and tested
//! natively; `component` is the way to the real host. Rules TOOLS-1 and following.

mod answer;
#[cfg(any(target_family = "wasm", clippy))]
mod component;
mod editing;
mod path;
mod reading;
pub mod repository;
#[cfg(test)]
mod tests;
mod tools;

pub use tools::run;
