//! What both Scouts are made of, apart from what they look for.
//!
//! `world` says what a Scout needs, `host` gets it through WIT and `rehearsal` from memory; `inventory` is what is
//! there, `reading` the tools that the model may call, `inquiry` the bounded conversation that ends with a
//! report, `grounding` what that may name, `quoting` how text of the repository is shown as data. The rules are in
//! `specs/scout-a.md` and `specs/scout-b.md`.

pub mod grounding;
pub mod host;
pub mod inquiry;
pub mod inventory;
pub mod quoting;
mod reading;
#[cfg(any(test, feature = "rehearsal"))]
pub mod rehearsal;
pub mod world;

/// The world `scout`, generated; Scouts export through this so that there is one set of types.
#[allow(clippy::all, unreachable_pub, missing_docs, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "agentcommand:worlds/scout@0.1.0",
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "scouting::bindings",
    });
}
