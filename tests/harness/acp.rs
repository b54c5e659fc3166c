//! An editor that speaks with `act acp` as a test wants.

use std::process::Child;
use std::time::{Duration, Instant};

use act_acp::testing::TestClient;
use serde_json::{Value, json};

use super::Act;

/// `act acp` with its client.
pub(crate) struct Agent {
    pub(crate) client: TestClient,
    process: Child,
    pub(crate) repo: String,
}

impl Agent {
    pub(crate) fn start(act: &Act, arguments: &[&str]) -> Self {
        let mut process = act.piped(&[&["acp"], arguments].concat());
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut client = TestClient::new(to, from);
        let answer = client.call("initialize", &json!({"protocolVersion": 1})).unwrap();
        assert_eq!(answer["result"]["agentInfo"]["name"], "act");
        let repo = act.repo().canonicalize().unwrap().to_str().unwrap().to_owned();
        Self { client, process, repo }
    }

    pub(crate) fn session(&mut self, mode: &str) -> String {
        let opened = self.client.call("session/new", &json!({"cwd": self.repo, "mcpServers": []}));
        let session = opened.unwrap()["result"]["sessionId"].as_str().unwrap().to_owned();
        let set = json!({"sessionId": session, "modeId": mode});
        assert!(self.client.call("session/set_mode", &set).unwrap()["error"].is_null());
        session
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": session, "prompt": prompt});
        self.client.request("session/prompt", &params).unwrap()
    }

    pub(crate) fn question(&mut self) -> Value {
        self.client.until(|message| message["method"] == "session/request_permission").unwrap()
    }

    pub(crate) fn select(&mut self, question: &Value, option: &str) {
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome});
        self.client.send(&answer).unwrap();
    }

    /// Closes the stream, and returns the standard error and how long the end took.
    pub(crate) fn end(mut self) -> (String, Duration) {
        drop(self.client);
        let begun = Instant::now();
        let status = self.process.wait().unwrap();
        let took = begun.elapsed();
        let stderr = std::io::read_to_string(self.process.stderr.take().unwrap()).unwrap();
        assert_eq!(status.code(), Some(0), "{stderr}");
        (stderr, took)
    }
}
