//! The custom section `agentcommand:component`, which holds the manifest of a component.
//!
//! The build script includes this file too, because it adds the section to the built-in components.

use wasm_encoder::{ComponentSection, CustomSection};

/// Name of the section that holds a component's manifest.
pub const MANIFEST_SECTION: &str = "agentcommand:component";

/// Appends a manifest to a component. The end of the file is a valid position for a custom section, and the digest of the
/// component covers it there.
pub fn pack(component: &[u8], manifest: &[u8]) -> Vec<u8> {
    let mut packed = component.to_vec();
    let section = CustomSection { name: MANIFEST_SECTION.into(), data: manifest.into() };
    section.append_to_component(&mut packed);
    packed
}
