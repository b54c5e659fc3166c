//! For tests: a client's side of the protocol. It writes every message that it receives to the directory `ACT_ACP_DIR`, if that is
//! set, where `tests/acp/schema` checks them with the protocol's published types.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// A client that speaks with an agent over two streams, and checks what it receives.
pub struct TestClient {
    to: Box<dyn Write + Send>,
    from: Box<dyn BufRead + Send>,
    last_id: u64,
    /// The methods of requests without an answer, by their ids as JSON.
    open: BTreeMap<String, String>,
    /// Every message that came, in order.
    pub received: Vec<Value>,
    /// The lines for `tests/acp/schema`.
    record: Vec<u8>,
}

impl TestClient {
    pub fn new(to: impl Write + Send + 'static, from: impl Read + Send + 'static) -> Self {
        let from = Box::new(BufReader::new(from));
        Self {
            to: Box::new(to),
            from,
            last_id: 0,
            open: BTreeMap::new(),
            received: vec![],
            record: vec![],
        }
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    ///
    /// The agent has closed the stream.
    pub fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.to.write_all(bytes)?;
        self.to.flush()
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// The agent has closed the stream.
    pub fn send(&mut self, message: &Value) -> std::io::Result<()> {
        if let (Some(id), Some(method)) = (message.get("id"), message.get("method")) {
            let method = method.as_str().unwrap_or_default().to_owned();
            self.open.entry(id.to_string()).or_insert(method);
        }
        self.send_raw(format!("{message}\n").as_bytes())
    }

    /// Sends a request, and returns its id.
    ///
    /// # Errors
    ///
    /// The agent has closed the stream.
    pub fn request(&mut self, method: &str, params: &Value) -> std::io::Result<u64> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    /// Reads the next message, and checks it. `None` is the end of the stream.
    ///
    /// # Errors
    ///
    /// The message is none of the protocol.
    pub fn receive(&mut self) -> std::io::Result<Option<Value>> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let message: Value = serde_json::from_str(&line).map_err(std::io::Error::other)?;
        self.check(&message).map_err(|why| std::io::Error::other(format!("{why}: {message}")))?;
        self.received.push(message.clone());
        Ok(Some(message))
    }

    /// Reads messages until one fits.
    ///
    /// # Errors
    ///
    /// A message is none of the protocol, or the stream ends before.
    pub fn until(&mut self, fits: impl Fn(&Value) -> bool) -> std::io::Result<Value> {
        loop {
            match self.receive()? {
                Some(message) if fits(&message) => return Ok(message),
                Some(_) => {}
                None => return Err(std::io::Error::other("the stream has ended")),
            }
        }
    }

    /// Reads messages until the answer to a request comes.
    ///
    /// # Errors
    ///
    /// A message is none of the protocol, or the stream ends before.
    pub fn answer(&mut self, id: u64) -> std::io::Result<Value> {
        self.until(|message| {
            message.get("id") == Some(&json!(id)) && message.get("method").is_none()
        })
    }

    /// Sends a request and reads messages until its answer comes.
    ///
    /// # Errors
    ///
    /// As for [`Self::answer`].
    pub fn call(&mut self, method: &str, params: &Value) -> std::io::Result<Value> {
        let id = self.request(method, params)?;
        self.answer(id)
    }

    /// Returns the updates that came, in order.
    pub fn updates(&self) -> Vec<Value> {
        self.received
            .iter()
            .filter_map(|message| message.pointer("/params/update").cloned())
            .collect()
    }

    /// Returns the texts of all messages of the agent together.
    pub fn text(&self) -> String {
        let updates = self.updates();
        let messages =
            updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        messages.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    /// Checks what holds for every message of JSON-RPC, and stores it with the method that it belongs to.
    fn check(&mut self, message: &Value) -> Result<(), String> {
        if message.get("jsonrpc") != Some(&json!("2.0")) {
            return Err("no message of JSON-RPC 2.0".to_owned());
        }
        let method = match message.get("method").and_then(Value::as_str) {
            Some(method) => Some(method.to_owned()),
            None => {
                let id = message.get("id").ok_or("an answer without id")?;
                let method = self.open.remove(&id.to_string());
                if method.is_none() && !(id.is_null() && message.get("error").is_some()) {
                    return Err("an answer to no request".to_owned());
                }
                method
            }
        };
        self.record.extend(format!("{}\n", json!({"method": method, "message": message})).bytes());
        Ok(())
    }
}

impl Drop for TestClient {
    fn drop(&mut self) {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Some(directory) = std::env::var_os("ACT_ACP_DIR").map(PathBuf::from) else { return };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}.jsonl", std::process::id());
        // `tests/acp/schema` fails when nothing was written.
        let _ = std::fs::create_dir_all(&directory);
        let _ = std::fs::write(directory.join(name), &self.record);
    }
}
