//! The component's export and its way to the repository.

#[expect(unsafe_code, reason = "generated code crosses the component boundary")]
#[allow(clippy::all, unreachable_pub, missing_docs, reason = "generated")]
mod bindings {
    use super::FileTools;
    wit_bindgen::generate!({
        path: "../../wit",
        world: "agentcommand:worlds/tool@0.1.0",
        generate_all,
    });
    export!(FileTools);
}

use bindings::exports::agentcommand::tool::tool::{Failure, Guest, Outcome};

struct FileTools;

impl Guest for FileTools {
    fn call(_name: String, _arguments: String) -> Result<Outcome, Failure> {
        Err(Failure::UnknownTool)
    }
}
