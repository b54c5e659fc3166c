//! What components are made of, apart from what they are for.
//!
//! A Scout is a function of `World` and `Question` behind `scout!`, a tool component one of `World`, name and arguments
//! behind `tool!`. `world` says what there is, `host` gets it through WIT and `rehearsal` from memory; `inventory` is what
//! is in the repository, `paths` how its paths are put together, `reading` the tools that a Scout's model may call,
//! `inquiry` the bounded conversation that ends with a report, `report` what all reports have in common, `grounding`
//! what they may name, `quoting` how text of the repository is shown as data. The rules are in `specs/scout-a.md` and
//! `specs/scout-b.md`.

pub mod grounding;
pub mod host;
pub mod inquiry;
pub mod inventory;
pub mod paths;
pub mod quoting;
mod reading;
#[cfg(any(test, feature = "rehearsal"))]
pub mod rehearsal;
pub mod report;
pub mod tool;
pub mod world;

/// The world `scout`, generated; components export through this so that there is one set of types.
#[allow(clippy::all, unreachable_pub, missing_docs, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "agentcommand:worlds/scout@1.1.0",
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "act_kit::bindings",
    });
}

/// What the world `tool` has beside it.
#[allow(clippy::all, unreachable_pub, missing_docs, reason = "generated")]
pub mod tool_bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "agentcommand:worlds/tool@1.1.0",
        with: {
            "agentcommand:types/types@1.0.0": crate::bindings::agentcommand::types::types,
            "agentcommand:progress/progress@1.0.0": crate::bindings::agentcommand::progress::progress,
            "agentcommand:repo/read@1.2.0": crate::bindings::agentcommand::repo::read,
            "agentcommand:repo/symbols@1.2.0": crate::bindings::agentcommand::repo::symbols,
            "agentcommand:model/chat@1.0.0": crate::bindings::agentcommand::model::chat,
        },
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "act_kit::tool_bindings",
    });
}

/// Makes a component of `fn(World<'_>, &Question) -> Result<String, Failure>`.
///
/// The text is the report: JSON that fits the schema in the manifest.
#[macro_export]
macro_rules! scout {
    ($ask:path) => {
        #[cfg(any(target_family = "wasm", clippy))]
        const _: () = {
            use $crate::bindings::exports::agentcommand::scout::scout::{Failure, Guest, Question};
            struct Component;
            impl Guest for Component {
                fn ask(question: Question) -> Result<String, Failure> {
                    $ask($crate::host::world(), &question.into()).map_err(Failure::from)
                }
            }
    $crate::bindings::export!(Component with_types_in $crate::bindings);
        };
    };
}

/// Makes a component of `fn(World<'_>, &str, &str) -> Result<Outcome, NotRun>`, which gets a tool's name and the
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
