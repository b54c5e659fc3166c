//! A client of `act mcp` that speaks as a test wants, also wrongly.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use act_testing::ScriptedServer;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Act, program};

/// An answer takes no longer, however slow the machine is.
const LIMIT: Duration = Duration::from_secs(300);

/// The revision of the protocol that begins with `initialize`.
pub(crate) const SESSION: &str = "2025-11-25";
/// The revision in which each request stands for itself.
pub(crate) const STATELESS: &str = "2026-07-28";

pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    /// The stdout of a server whose client never reads.
    _unread: Option<ChildStdout>,
    lines: Receiver<String>,
    next: u64,
    /// Messages that were no answer.
    pub(crate) notifications: Vec<Value>,
    /// Sent with each request of the stateless revision.
    meta: Option<Value>,
    _place: Arc<TempDir>,
    _model: Option<Arc<ScriptedServer>>,
}

impl Act {
    /// Starts `act mcp` with these arguments and sends nothing.
    pub(crate) fn mcp_silent<A: Into<OsString>>(
        self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Client {
        self.mcp_started(Path::new(program()), arguments, true)
    }

    /// Starts `act mcp` as a client that never reads.
    pub(crate) fn mcp_unread<A: Into<OsString>>(
        self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Client {
        self.mcp_started(Path::new(program()), arguments, false)
    }

    /// Starts this copy of the program as `act mcp`, and begins a session.
    pub(crate) fn mcp_of(self, copy: &Path) -> Client {
        self.mcp_started(copy, [] as [&str; 0], true).begun()
    }

    fn mcp_started<A: Into<OsString>>(
        self,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        reads: bool,
    ) -> Client {
        let mut command = Command::new(program);
        command.arg("mcp").args(arguments.into_iter().map(Into::into));
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let (sender, lines) = channel();
        let unread = match reads {
            false => child.stdout.take(),
            true => {
                let stdout = child.stdout.take().unwrap();
                std::thread::spawn(move || {
                    for line in BufReader::new(stdout).lines() {
                        let Ok(line) = line else { break };
                        if sender.send(line).is_err() {
                            break;
                        }
                    }
                });
                None
            }
        };
        Client {
            child,
            stdin,
            _unread: unread,
            lines,
            next: 0,
            notifications: vec![],
            meta: None,
            _place: self.place,
            _model: self.model,
        }
    }

    /// Starts `act mcp` and begins a session of the revision 2025-11-25.
    pub(crate) fn mcp<A: Into<OsString>>(self, arguments: impl IntoIterator<Item = A>) -> Client {
        self.mcp_silent(arguments).begun()
    }

    /// Starts `act mcp` and speaks the revision 2026-07-28, with these capabilities of the client.
    pub(crate) fn mcp_stateless<A: Into<OsString>>(
        self,
        arguments: impl IntoIterator<Item = A>,
        capabilities: Value,
    ) -> Client {
        let mut client = self.mcp_silent(arguments);
        client.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }));
        client
    }
}

impl Client {
    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a message, and returns whether the server still takes it.
    pub(crate) fn try_send(&mut self, message: &Value) -> bool {
        self.stdin.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).is_ok()
    }

    /// Returns the largest memory of the server so far, in kB; `None` where the system does not say.
    pub(crate) fn peak_kb(&self) -> Option<u64> {
        let file = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(file).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    }

    /// Waits for the end of the server without closing its streams.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Returns the next message of the server.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Value {
        let line = self.lines.recv_timeout(LIMIT).expect("the server answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Sends a request and returns its id.
    pub(crate) fn ask(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if let Some(meta) = &self.meta {
            let own = params.get("_meta").cloned().unwrap_or(json!({}));
            let mut meta = meta.clone();
            for (name, value) in own.as_object().unwrap() {
                meta[name] = value.clone();
            }
            params["_meta"] = meta;
        }
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Returns the answer to the request with this id.
    #[track_caller]
    pub(crate) fn answer_to(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
            self.notifications.push(message);
        }
    }

    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer_to(id)
    }

    /// Begins a session of the revision 2025-11-25.
    fn begun(mut self) -> Self {
        let begun = self.request(
            "initialize",
            json!({"protocolVersion": SESSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        );
        assert_eq!(begun["result"]["protocolVersion"], SESSION, "{begun:#}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self
    }

    /// Calls a tool and returns its result, and whether it is an error.
    #[track_caller]
    pub(crate) fn tool(&mut self, name: &str, arguments: Value) -> (Value, bool) {
        let answer = self.request("tools/call", json!({"name": name, "arguments": arguments}));
        let result = &answer["result"];
        assert!(result.is_object(), "{answer:#}");
        let text = result["content"][0]["text"].as_str().unwrap();
        let value = result["structuredContent"].clone();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
        // JSON-1, JSON-4: a document names its version, and a statement of in-toto has its own.
        assert_ne!(value["schema"] == 2, value["_type"].is_string(), "{name}: {value:#}");
        (value, result["isError"] == true)
    }

    /// Calls a tool that does what it is asked.
    #[track_caller]
    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> Value {
        let (value, is_error) = self.tool(name, arguments);
        assert!(!is_error, "{value:#}");
        value
    }

    /// Calls a tool that refuses, and returns the code of the refusal.
    #[track_caller]
    pub(crate) fn refused(&mut self, name: &str, arguments: Value) -> String {
        let (value, is_error) = self.tool(name, arguments);
        assert!(is_error, "{value:#}");
        assert!(value["message"].is_string() && value["exit_code"].is_number(), "{value:#}");
        value["code"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let listed = self.request("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Closes stdin, and returns the end of the server and how long it took.
    pub(crate) fn close(mut self) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        drop(self.stdin.take());
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        (status, begun.elapsed())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
