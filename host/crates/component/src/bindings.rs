//! The bindings that are generated from `wit/`, one set for each world. Interfaces that both worlds import are generated
//! once.
//!
//! Host functions are synchronous, because a store has its own thread, which they may block. Only `conversation.next` is
//! asynchronous: the caller's side makes the request to the model. Every host function can end the call with a trap.

pub(super) mod scout {
    wasmtime::component::bindgen!({
        path: "../../../wit",
        world: "agentcommand:worlds/scout@1.2.0",
        imports: {
            "agentcommand:model/chat@1.0.0.[method]conversation.next": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        with: { "agentcommand:model/chat.conversation": crate::capability::Chat },
    });
}

pub(super) mod tool {
    wasmtime::component::bindgen!({
        path: "../../../wit",
        world: "agentcommand:worlds/tool@1.2.0",
        imports: { default: trappable },
        exports: { default: async },
        with: {
            "agentcommand:types/types": super::scout::agentcommand::types::types,
            "agentcommand:progress/progress": super::scout::agentcommand::progress::progress,
            "agentcommand:repo/read": super::scout::agentcommand::repo::read,
            "agentcommand:repo/symbols": super::scout::agentcommand::repo::symbols,
            "agentcommand:repo/history": super::scout::agentcommand::repo::history,
            "agentcommand:model/chat": super::scout::agentcommand::model::chat,
        },
    });
}

pub(super) use scout::agentcommand::model::chat;
pub(super) use scout::agentcommand::progress::progress;
pub(super) use scout::agentcommand::repo::{history, read, symbols};
pub(super) use scout::agentcommand::types::types;
pub(super) use tool::agentcommand::repo::edit;

/// The text of a refusal for a component: the word of the reason, then a message.
///
/// The interfaces of version 1 have fewer cases than there are reasons, so components that were built against them read the
/// word from the beginning of the text. The prefix stays for them.
pub(super) fn refusal_text(reason: &str, message: impl std::fmt::Display) -> String {
    format!("{reason}: {message}")
}
