//! What the Editor edits with: the tools of a component, and the record of what they changed.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::model::ToolSpec;
use crate::workspace::{ChangedFile, FileText, Untested};

/// What a tool answers, as JSON text for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub json: String,
    pub is_error: bool,
}

impl Answer {
    pub fn refusal(reason: &str, message: &str) -> Self {
        let json = serde_json::json!({"ok": false, "reason": reason, "message": message});
        Self { json: json.to_string(), is_error: true }
    }
}

pub trait Hands: Send + Sync {
    fn tools(&self) -> Vec<ToolSpec>;
    /// Never fails as a call: a trap or a limit is an answer that the model can act on.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a str,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Answer>;
    /// Files that differ from what they were when the task began, by path.
    fn changed(&self) -> Vec<ChangedFile>;
    /// What a changed file held before the task and holds by it.
    fn text(&self, path: &str) -> FileText;
    /// Changed files that a verification would not see now.
    fn untested(&self) -> Vec<Untested>;
    /// How many edits each rule refused, by its word.
    fn refused(&self) -> BTreeMap<String, u64>;
}
