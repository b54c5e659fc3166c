//! Which server and model the user chose. Who chooses reads the environment; here it is only a value.

use crate::secret::Secret;

/// The model, its address without the part that each wire adds, and the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelAccess {
    /// Any server of OpenAI-compatible Chat Completions; the address includes its version (`/v1`).
    Custom { base_url: String, model: String, key: Option<Secret> },
    /// Messages; the address has no version in it.
    Anthropic { base_url: String, model: String, key: Secret },
    /// Responses; the address includes its version (`/v1`).
    OpenAi { base_url: String, model: String, key: Secret },
}
