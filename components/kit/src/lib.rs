//! The kit for components in Rust.
//!
//! A Scout is a function of [`World`](world::World) and [`Question`](world::Question) that is exported with [`scout!`]; a
//! tool component is a function of `World`, name and arguments that is exported with [`tool!`].
//!
//! - [`world`]: the services for a component. [`host`] implements them through WIT, [`testing`] in memory.
//! - [`summaries`]: what parsers say of many files at once.
//! - [`inventory`]: the files of the repository; [`paths`]: how paths are put together.
//! - [`inquiry`]: the bounded conversation with the model that ends with a report. [`grounding`] checks what a report may
//!   name, [`quoting`] shows text of the repository to the model as data.
//! - [`tool`]: what tools answer, and how they change files.
//!
//! The rules are in `specs/scout-a.md` and `specs/scout-b.md`.

/// The shapes of the built-in Scouts' reports, for components that take their place.
pub use act_reports as reports;

pub mod grounding;
pub mod host;
pub mod inquiry;
pub mod inventory;
pub mod json;
pub mod paths;
pub mod quoting;
mod reading;
pub mod report;
pub mod summaries;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tool;
pub mod world;

/// Generated from the world `scout` by the crate `kit-bindings`. All components use these types.
///
/// The source is part of the kit, because the generator would take most of the first build of a component.
#[rustfmt::skip]
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "generated"
)]
pub mod bindings;

/// Generated from the world `tool`: what the world `scout` does not have.
#[rustfmt::skip]
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "generated"
)]
pub mod tool_bindings;

/// Exports a Scout: a function `fn(World<'_>, &Question) -> Result<String, Failure>`.
///
/// The text that it returns is the report: JSON that fits the schema in the manifest.
#[macro_export]
macro_rules! scout {
    ($ask:path) => {
        #[cfg(any(target_family = "wasm", clippy))]
        const _: () = {
            use $crate::bindings::exports::agentcommand::scout::scout::{Failure, Guest, Question};
            struct Component;
            impl Guest for Component {
                fn ask(question: Question) -> Result<String, Failure> {
                    $ask($crate::host::world(), &question)
                }
            }
    $crate::bindings::export!(Component with_types_in $crate::bindings);
        };
    };
}

/// Exports tools: a function `fn(World<'_>, &str, &str) -> Result<Outcome, NotRun>` that is given a tool's name and the
/// arguments as the model wrote them.
#[macro_export]
macro_rules! tool {
    ($call:path) => {
        #[cfg(any(target_family = "wasm", clippy))]
        const _: () = {
            use $crate::tool_bindings::exports::agentcommand::tool::tool::{
                Failure, Guest, Outcome,
            };
            struct Component;
            impl Guest for Component {
                fn call(name: String, arguments: String) -> Result<Outcome, Failure> {
                    let called = $call($crate::host::world(), &name, &arguments);
                    called.map(Outcome::from).map_err(Failure::from)
                }
            }
    $crate::tool_bindings::export!(Component with_types_in $crate::tool_bindings);
        };
    };
}
