//! Our interfaces as a component imports them: translate, ask, answer. Policy stands elsewhere.

mod model_chat;
mod progress;
mod repo_read;
mod repo_symbols;

pub use model_chat::Chat;
pub(super) use model_chat::ModelRequest;
