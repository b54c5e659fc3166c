//! The one engine: its settings, and a component's way from bytes to code that can be instantiated.
//!
//! Compiling happens here, before a query and outside of its deadline.

use std::path::Path;
use std::time::Instant;

use wasmtime::component::Component;
use wasmtime::{Config, Engine, Strategy};

use super::cache::Cache;
use act_core::event::{EventKind, Events};

/// Stack of the guest's own calls; what lies above it in a fiber belongs to the host functions it calls.
const GUEST_STACK: usize = 512 << 10;
const FIBER_STACK: usize = 2 << 20;

pub(super) fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .strategy(Strategy::Cranelift)
        .epoch_interruption(true)
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(FIBER_STACK)
        // A trap is told in one line: no frames are collected and no map from code to source is kept.
        .wasm_backtrace_max_frames(None)
        .generate_address_map(false);
    Engine::new(&config)
}

/// Code for `wasm`, from the cache if it holds it; else compiled, said so, and kept.
pub(super) fn code(
    engine: &Engine,
    cache: Option<&Path>,
    wasm: &[u8],
    sha256: &str,
    name: &str,
    events: &Events,
) -> wasmtime::Result<Component> {
    let cache = cache.map(|dir| Cache::new(dir, engine, sha256));
    if let Some(component) = cache.as_ref().and_then(|cache| cache.load(engine)) {
        return Ok(component);
    }
    let started = Instant::now();
    let component = Component::from_binary(engine, wasm)?;
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    events.emit(EventKind::ComponentCompiled {
        name: name.to_owned(),
        sha256: sha256.to_owned(),
        duration_ms,
    });
    if let Some(cache) = cache {
        // A cache that cannot be written costs time at the next start and nothing else.
        let _ = cache.keep(&component.serialize()?);
    }
    Ok(component)
}
