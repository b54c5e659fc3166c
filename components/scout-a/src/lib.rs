//! Scout.
#[cfg(any(target_family = "wasm", clippy))]
mod component;
