//! The Editor's file tools: ten tools over a read-only view. The host carries out every change.
//!
//! `tools` is the table of tools, `reading` and `editing` do the work, `path` cleans the paths that a model writes, `shown`
//! shows files, `answer` words refusals. All of that is tested natively against a repository in memory; `component` exports it. The rules are
//! TOOLS-1 and following in `specs/edit-protocol.md`.

mod answer;
#[cfg(any(target_family = "wasm", clippy))]
mod component;
mod editing;
mod path;
mod reading;
mod shown;
#[cfg(test)]
mod tests;
mod tools;

pub use tools::run;
