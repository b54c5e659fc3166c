//! What both Scouts are made of, apart from what they look for.

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
