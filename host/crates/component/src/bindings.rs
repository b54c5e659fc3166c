//! The generated bindings, one set for each world. Interfaces that both worlds import are generated once.
//!
//! Host functions are plain ones: a store has a thread of its own, so they may block it. Only waiting for
//! the model is asynchronous, because that happens on the caller's side. Every one may end the guest.

pub(super) mod scout {
    wasmtime::component::bindgen!({
        path: "../../../wit",
        world: "agentcommand:worlds/scout@1.1.0",
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
        world: "agentcommand:worlds/tool@1.1.0",
        imports: { default: trappable },
        exports: { default: async },
        with: {
            "agentcommand:types/types": super::scout::agentcommand::types::types,
            "agentcommand:progress/progress": super::scout::agentcommand::progress::progress,
            "agentcommand:repo/read": super::scout::agentcommand::repo::read,
            "agentcommand:repo/symbols": super::scout::agentcommand::repo::symbols,
            "agentcommand:model/chat": super::scout::agentcommand::model::chat,
        },
    });
}

pub(super) use scout::agentcommand::model::chat;
pub(super) use scout::agentcommand::progress::progress;
pub(super) use scout::agentcommand::repo::{read, symbols};
pub(super) use scout::agentcommand::types::types;
pub(super) use tool::agentcommand::repo::edit;
