//! The whole first request of a task on each wire, as the provider gets it. `ACT_BLESS=1` writes the golden files.

use std::fs;
use std::sync::Arc;

use act_core::event::Events;
use act_core::secret::Secret;
use act_model::{Deadlines, ModelAccess, ModelServer, TokenLedger, ToolSpec, WireName, connect};
use act_testing::{Script, ScriptedServer};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::fakes::Story;
use crate::editor::{Answer, Called, Session, Tool};

/// A tool of a component that is offered and never called.
struct Offered(ToolSpec);

impl Tool for Offered {
    fn spec(&self) -> ToolSpec {
        self.0.clone()
    }

    fn call<'a>(&'a self, _arguments: &'a str, _session: &'a Session<'_>) -> BoxFuture<'a, Called> {
        std::future::ready(Answer::refusal("tool_failed", "not here").into()).boxed()
    }
}

/// The tools of the built-in file tools, from their manifest.
fn file_tools() -> Vec<Arc<dyn Tool>> {
    let manifest = fs::read_to_string(
        act_core::testing::checkout().join("components/file-tools/manifest.json"),
    )
    .unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let text = |tool: &Value, name: &str| tool[name].as_str().unwrap().to_owned();
    let tools = manifest["tools"].as_array().unwrap().iter().map(|tool| {
        let (name, description) = (text(tool, "name"), text(tool, "description"));
        let parameters = tool["parameters"].to_string();
        Arc::new(Offered(ToolSpec { name, description, parameters })) as Arc<dyn Tool>
    });
    tools.collect()
}

/// EDITOR-3
#[test]
fn the_first_request_is_the_golden_one() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    for wire in ["chat", "messages", "responses"] {
        let script = "turns: [{repeat: 3, role: editor, text: hello}]";
        let server = ScriptedServer::start(Script::from_yaml(script).unwrap()).unwrap();
        let (name, base_url) = match wire {
            "chat" => (WireName::ChatCompletions, server.base_url()),
            "messages" => (WireName::Messages, server.anthropic_base_url()),
            _ => (WireName::Responses, server.base_url()),
        };
        let endpoint = ModelServer::new(name, base_url, "a-model").with_key(Secret::new("a-key"));
        let access = ModelAccess::Server(endpoint);
        let ledger = TokenLedger::limited(None);
        let model = connect(access, Deadlines::default(), Events::silent(), ledger).unwrap();
        let task =
            "Fix the answer.\n\nConstraints:\n- keep the file\n\nBoundaries:\n- answer.txt\n";
        let told = Story::new().task(task).with(model, file_tools()).run();
        assert_eq!(told.state(), ("STUCK", Some("model_idle")), "{:?}", told.finished);
        let request = server.requests().remove(0);
        let text = format!("{:#}\n", request.body);
        let path =
            act_core::testing::checkout().join(format!("tests/golden/first-request.{wire}.json"));
        if std::env::var_os("ACT_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, golden, "{}: ACT_BLESS=1 writes it", path.display());
    }
}
