//! A component's self-description as bytes: the custom section `agentcommand:component`.
//!
//! The build script includes this file too, to write the section into the built-in components.

use wasm_encoder::{ComponentSection, CustomSection};

/// Name of the section that holds a component's manifest.
pub const MANIFEST_SECTION: &str = "agentcommand:component";

/// Appends a manifest to a component. A custom section may lie anywhere between others, and the digest of the whole
/// covers it at the end of the file too.
pub fn pack(component: &[u8], manifest: &[u8]) -> Vec<u8> {
    let mut packed = component.to_vec();
    let section = CustomSection { name: MANIFEST_SECTION.into(), data: manifest.into() };
    section.append_to_component(&mut packed);
    packed
}
