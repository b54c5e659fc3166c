//! What a component says and wants, read from its bytes alone: nothing is compiled and nothing runs.

use wasmparser::{ComponentTypeRef, Parser, Payload, TypeBounds};

use super::admission::{Mismatch, Need};
use super::failure::{MAX_LINE, one_line};
use super::interfaces;
use super::manifest::{Kind, Manifest, ManifestError};
use super::wasm_file::NotAComponent;

/// Imports and exports at the top level; real components have tens.
const MAX_NAMES: usize = 1_000;

/// What approving a component would be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Of the bytes, lower-case hex.
    pub sha256: String,
    pub bytes: u64,
    pub manifest: Manifest,
    /// Names of its top level, in their order.
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

impl Inspection {
    pub fn of(bytes: &[u8]) -> Result<Self, ManifestError> {
        let manifest = Manifest::read(bytes)?;
        let (imports, exports) = names(bytes)?;
        Ok(Self {
            sha256: act_workspace::digest(bytes),
            bytes: bytes.len() as u64,
            manifest,
            imports,
            exports,
        })
    }

    pub fn needs(&self) -> &[Need] {
        &self.manifest.needs
    }

    /// Whether it exports what its kind is.
    pub fn is_what_it_says(&self) -> bool {
        let export = self.manifest.kind.export();
        self.manifest.is_foreign() || self.exports.iter().any(|name| interfaces::is(name, export))
    }

    /// Of what it exports; what it imports is a matter of admission.
    pub fn exports_fit(&self) -> Result<(), Mismatch> {
        interfaces::check(&self.exports)
    }

    pub fn kind(&self) -> Kind {
        self.manifest.kind
    }
}

pub(super) fn malformed(error: wasmparser::BinaryReaderError) -> NotAComponent {
    NotAComponent::Malformed(one_line(&error.to_string(), MAX_LINE))
}

pub(super) fn names(bytes: &[u8]) -> Result<(Vec<String>, Vec<String>), NotAComponent> {
    let (mut imports, mut exports) = (vec![], vec![]);
    // Components and modules inside of it have imports of their own, which it satisfies.
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let import = import.map_err(malformed)?;
                    // A type that it has itself, by name: nobody has to bring anything for that.
                    if !matches!(import.ty, ComponentTypeRef::Type(TypeBounds::Eq(_))) {
                        imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
        if imports.len() + exports.len() > MAX_NAMES {
            let why = format!("more than {MAX_NAMES} imports and exports");
            return Err(NotAComponent::Malformed(why));
        }
    }
    Ok((imports, exports))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    // CAPABILITY-2
    #[test]
    fn the_imports_are_those_of_the_type_that_the_engine_sees() {
        let engine = crate::engine::engine().unwrap();
        for one in builtin::ALL {
            let read = Inspection::of(one.bytes).unwrap();
            assert_eq!(read.sha256, one.sha256);
            let component =
                wasmtime::component::Component::from_binary(&engine, one.bytes).unwrap();
            let seen = component.component_type();
            let imports: Vec<_> = seen.imports(&engine).map(|(name, _)| name.to_owned()).collect();
            assert_eq!(read.imports, imports, "{}", one.name);
            assert!(read.is_what_it_says(), "{:?}", read.exports);
        }
    }

    // security line 37
    #[test]
    fn what_cannot_be_parsed_is_refused() {
        let whole = builtin::SCOUT_A.bytes;
        for end in [0, 7, 8, 100, whole.len() / 2, whole.len() - 1] {
            assert!(Inspection::of(&whole[..end]).is_err(), "cut at {end}");
        }
    }
}
