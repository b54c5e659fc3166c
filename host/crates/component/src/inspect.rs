//! Reads kind, imports, exports and manifest from the bytes of a component. No code is compiled or run.
//!
//! The registry and the loader share one [`Inspection`]. It holds the bytes that were inspected, so what was judged is
//! what is loaded.

use bytes::Bytes;
use wasmparser::{
    BinaryReader, ComponentExportSectionReader, ComponentImportSectionReader, ComponentTypeRef,
    CustomSectionReader, Parser, TypeBounds,
};

use crate::admission::{AdmissionError, Need, check_version, is_interface};
use crate::builtin::Builtin;
use crate::capability::{Capability, Import};
use crate::confined::{self, ConfinementError, Work};
use crate::custom_section::{MANIFEST_SECTION, pack};
use crate::failure::{MAX_LINE, one_line};
use crate::foreign::docs;
use crate::manifest::{Kind, Manifest, ManifestError};
use crate::structure::{self, MAX_DEFINITIONS, MAX_DEPTH, MAX_FUNCTIONS};

/// The first bytes of every WebAssembly file. Layer 1 of the binary format is a component, layer 0 a core module.
const MAGIC: &[u8; 4] = b"\0asm";
pub(crate) const COMPONENT: &[u8; 4] = b"\x0d\0\x01\0";
const CORE_MODULE: &[u8; 4] = b"\x01\0\0\0";
/// Sections at the top level of a component. Real components have tens.
const MAX_SECTIONS: usize = 10_000;
/// Imports and exports at the top level. Real components have tens.
const MAX_NAMES: usize = 1_000;
/// Bytes before the first section: the magic number and the version.
pub(crate) const PREAMBLE: usize = 8;
/// Ids of sections at the top level of a component.
const CUSTOM_SECTION: u8 = 0;
const IMPORT_SECTION: u8 = 10;
const EXPORT_SECTION: u8 = 11;

/// Why the bytes are no component, or none with a readable manifest section.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAComponent {
    #[error("an empty file, not a component")]
    Empty,
    #[error("a text file, not a component; if it is WebAssembly text, compile it first")]
    Text,
    #[error(
        "a core module, not a component; build it for `wasm32-wasip2` or wrap it as a component"
    )]
    CoreModule,
    #[error("WebAssembly of a kind that this program does not know; build it for `wasm32-wasip2`")]
    OtherWasm,
    #[error("not WebAssembly at all")]
    Other,
    #[error("a component that was cut off or damaged at byte {0}; copy or build it again")]
    Cut(usize),
    #[error("not a well-formed component: {0}; build it again")]
    Malformed(String),
    #[error("{bytes} bytes large, over the limit of {limit}")]
    TooLarge { bytes: u64, limit: u64 },
    #[error(
        "a component whose types or components nest more than {MAX_DEPTH} deep, over the limit"
    )]
    TooDeep,
    #[error("a component with more than {MAX_FUNCTIONS} functions, over the limit")]
    TooManyFunctions,
    #[error(
        "a component with more than {MAX_DEFINITIONS} types, imports, exports and other definitions, over the limit"
    )]
    TooManyDefinitions,
    #[error("a component that could not be checked: {0}")]
    Confined(#[from] ConfinementError),
    #[error(
        "a component without the section `{MANIFEST_SECTION}`; `act components pack FILE --manifest manifest.json` adds it"
    )]
    NoManifest,
    #[error("a component with more than one section `{MANIFEST_SECTION}`; leave one")]
    SeveralManifests,
}

impl NotAComponent {
    /// Returns whether the component is beyond a limit, instead of damaged or something else.
    pub fn is_over_limit(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. }
                | Self::TooDeep
                | Self::TooManyFunctions
                | Self::TooManyDefinitions
                | Self::Confined(_)
        )
    }
}

/// A component with its digest, imports, exports and manifest, as they are in its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub bytes: Bytes,
    /// SHA-256 of the bytes, in lower-case hexadecimal digits.
    pub sha256: String,
    pub manifest: Manifest,
    /// Names of the imports at the top level, in their order.
    pub imports: Vec<String>,
    /// Names of the exports at the top level, in their order.
    pub exports: Vec<String>,
    /// True if the component needs to write and imports no interface of ours. The directory that it sees is then a
    /// scratch copy, and its import of the file system is what leads to `repo.write`.
    pub writes_to_scratch: bool,
}

impl Inspection {
    /// Inspects the bytes of a component.
    ///
    /// # Errors
    ///
    /// [`ManifestError::NotAComponent`] if the bytes are no component or a damaged one, any other error if the
    /// manifest breaks a rule.
    pub fn of(bytes: impl Into<Bytes>) -> Result<Self, ManifestError> {
        let bytes = bytes.into();
        let sections = Sections::of(&bytes)?;
        let manifest = Manifest::of(&bytes, &sections)?;
        for payload in Parser::new(0).parse_all(&bytes) {
            payload.map_err(malformed)?;
        }
        let sha256 = act_workspace::digest(&bytes);
        Ok(Self::new(bytes.clone(), sha256, manifest, sections.imports, sections.exports))
    }

    /// Inspects the bytes of somebody who was not approved: first in a process with limits (`confined`), and here only after
    /// the same work has ended there.
    ///
    /// # Errors
    ///
    /// The errors of [`Inspection::of`], and [`NotAComponent::Confined`] if a limit was reached.
    pub fn of_stranger(bytes: impl Into<Bytes>) -> Result<Self, ManifestError> {
        let bytes = bytes.into();
        // What these find needs no process, and no process is started for a file that is no component.
        Sections::of(&bytes)?;
        confined::run(Work::Inspect, &bytes).map_err(NotAComponent::from)?;
        Self::of(bytes)
    }

    /// Inspects a component that is part of this program. The build compiled it and computed its digest, so neither the
    /// digest nor the modules inside are checked again.
    ///
    /// # Errors
    ///
    /// The errors of [`Inspection::of`].
    pub fn of_builtin(builtin: Builtin) -> Result<Self, ManifestError> {
        let bytes = Bytes::from_static(builtin.bytes);
        let sections = Sections::of(&bytes)?;
        let manifest = Manifest::of(&bytes, &sections)?;
        let sha256 = builtin.sha256.to_owned();
        Ok(Self::new(bytes.clone(), sha256, manifest, sections.imports, sections.exports))
    }

    fn new(
        bytes: Bytes,
        sha256: String,
        manifest: Manifest,
        imports: Vec<String>,
        exports: Vec<String>,
    ) -> Self {
        let needs_to_write =
            manifest.needs.iter().any(|need| need.grant == Capability::RepoWrite.name());
        let imports_ours = imports.iter().any(|import| Import::parse(import).is_ours());
        let writes_to_scratch = needs_to_write && !imports_ours;
        Self { bytes, sha256, manifest, imports, exports, writes_to_scratch }
    }

    /// A component without bytes that has these imports and needs, for tests of the rules.
    #[cfg(test)]
    pub(crate) fn imagined(imports: &[String], needs: &[Need]) -> Self {
        let manifest = Manifest { needs: needs.to_vec(), ..Manifest::bare() };
        Self::new(Bytes::new(), String::new(), manifest, imports.to_vec(), vec![])
    }

    pub fn needs(&self) -> &[Need] {
        &self.manifest.needs
    }

    pub fn kind(&self) -> Kind {
        self.manifest.kind
    }

    /// Returns whether the component exports the interface of its kind.
    pub fn is_what_it_says(&self) -> bool {
        let export = self.manifest.kind.export();
        self.manifest.is_foreign() || self.exports.iter().any(|name| is_interface(name, export))
    }

    /// Checks the versions of the exports. Admission checks those of the imports too.
    ///
    /// # Errors
    ///
    /// [`AdmissionError::Newer`], [`AdmissionError::OtherMajor`] or [`AdmissionError::UnknownImport`] for the first export
    /// of a version or a package that this program does not have.
    pub fn exports_fit(&self) -> Result<(), AdmissionError> {
        self.exports.iter().try_for_each(|name| check_version(name))
    }
}

/// SHA-256 of a component without its manifest section, as hex. Two components with the same value differ only in their
/// manifest.
pub fn code_sha256(component: &[u8]) -> Option<String> {
    let bare = without_manifest(component).ok()?;
    Some(act_workspace::digest(&bare))
}

/// Puts a manifest into a component, in place of any that it has.
///
/// # Errors
///
/// The errors of [`Inspection::of`], for the component and for the manifest, and a need for a grant that does not exist.
pub fn pack_manifest(component: &[u8], manifest: &[u8]) -> Result<Vec<u8>, ManifestError> {
    let bare = without_manifest(component)?;
    Manifest::parse(manifest)?.check_grants()?;
    Ok(pack(&bare, manifest))
}

/// The component without its manifest sections.
fn without_manifest(bytes: &[u8]) -> Result<Vec<u8>, NotAComponent> {
    let sections = Sections::of(bytes)?;
    let mut bare = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for section in sections.manifests {
        bare.extend_from_slice(&bytes[from..section.start]);
        from = section.end;
    }
    bare.extend_from_slice(&bytes[from..]);
    Ok(bare)
}

/// The sections at the top level of a component.
#[derive(Debug, Default)]
pub(crate) struct Sections<'a> {
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    /// The content of the first section with comments of the author.
    pub(crate) docs: Option<&'a [u8]>,
    /// The content of the first manifest section.
    manifest: Option<&'a [u8]>,
    /// All manifest sections, header included.
    manifests: Vec<std::ops::Range<usize>>,
}

impl<'a> Sections<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Self, NotAComponent> {
        check_preamble(bytes)?;
        structure::check(bytes)?;
        let mut sections = Self::default();
        let mut at = PREAMBLE;
        for _ in 0..=MAX_SECTIONS {
            if at == bytes.len() {
                return Ok(sections);
            }
            let cut = |_| NotAComponent::Cut(at);
            let mut reader = BinaryReader::new(&bytes[at..], at as _);
            let id = reader.read_u8().map_err(cut)?;
            let size = reader.read_var_u32().map_err(cut)?;
            let content = reader.read_bytes(size as usize).map_err(cut)?;
            let end = bytes.len() - reader.bytes_remaining();
            sections.add(id, content, at..end)?;
            at = end;
        }
        Err(NotAComponent::Cut(at))
    }

    /// Adds the names and the manifest that a section holds. Nested components and modules are skipped, because the component
    /// itself satisfies their imports.
    fn add(
        &mut self,
        id: u8,
        content: &'a [u8],
        range: std::ops::Range<usize>,
    ) -> Result<(), NotAComponent> {
        let reader = BinaryReader::new(content, (range.end - content.len()) as _);
        match id {
            CUSTOM_SECTION => {
                let section = CustomSectionReader::new(reader)
                    .map_err(|_| NotAComponent::Cut(range.start))?;
                if section.name() == MANIFEST_SECTION {
                    self.manifest.get_or_insert(section.data());
                    self.manifests.push(range);
                } else if section.name() == docs::SECTION {
                    self.docs.get_or_insert(section.data());
                }
            }
            IMPORT_SECTION => {
                for import in ComponentImportSectionReader::new(reader).map_err(malformed)? {
                    let import = import.map_err(malformed)?;
                    // An import that only names a type needs nothing from the host.
                    if !matches!(import.ty, ComponentTypeRef::Type(TypeBounds::Eq(_))) {
                        self.imports.push(import.name.name.to_owned());
                    }
                }
            }
            EXPORT_SECTION => {
                for export in ComponentExportSectionReader::new(reader).map_err(malformed)? {
                    self.exports.push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
        if self.imports.len() + self.exports.len() > MAX_NAMES {
            let why = format!("more than {MAX_NAMES} imports and exports");
            return Err(NotAComponent::Malformed(why));
        }
        Ok(())
    }

    /// The content of the one manifest section.
    pub(crate) fn manifest(&self) -> Result<&'a [u8], NotAComponent> {
        if self.manifests.len() > 1 {
            return Err(NotAComponent::SeveralManifests);
        }
        self.manifest.ok_or(NotAComponent::NoManifest)
    }
}

pub(crate) fn malformed(error: wasmparser::BinaryReaderError) -> NotAComponent {
    // The engine has no type for this error. A unit test fails when it changes the text.
    if error.message().contains("type nesting is too deep") {
        return NotAComponent::TooDeep;
    }
    NotAComponent::Malformed(one_line(&error.to_string(), MAX_LINE))
}

/// Checks the first eight bytes. The error says what the file is if it is not a component.
fn check_preamble(bytes: &[u8]) -> Result<(), NotAComponent> {
    if bytes.is_empty() {
        return Err(NotAComponent::Empty);
    }
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let start = &bytes[..bytes.len().min(1024)];
        let is_text = |b: &u8| matches!(b, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..);
        return Err(if start.iter().all(is_text) {
            NotAComponent::Text
        } else {
            NotAComponent::Other
        });
    };
    match rest.split_at_checked(4) {
        None => Err(NotAComponent::Cut(bytes.len())),
        Some((version, _)) if version == COMPONENT => Ok(()),
        Some((version, _)) if version == CORE_MODULE => Err(NotAComponent::CoreModule),
        Some(_) => Err(NotAComponent::OtherWasm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    fn manifest_section(bytes: &[u8]) -> Result<&[u8], NotAComponent> {
        Sections::of(bytes)?.manifest()
    }

    // CAPABILITY-2
    #[test]
    fn the_imports_are_those_of_the_type_that_the_engine_sees() {
        let engine = crate::engine::on_demand().unwrap();
        for one in builtin::ALL {
            let read = Inspection::of_builtin(one).unwrap();
            assert_eq!(read, Inspection::of(one.bytes).unwrap());
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

    // security line 37
    #[test]
    fn what_is_no_component_is_named_for_what_it_is() {
        let named = |bytes: &[u8]| manifest_section(bytes).unwrap_err();
        assert_eq!(named(b""), NotAComponent::Empty);
        assert_eq!(named(b"(component)\n"), NotAComponent::Text);
        assert_eq!(named("héllo".as_bytes()), NotAComponent::Text);
        assert_eq!(named(b"\0asm\x01\0\0\0"), NotAComponent::CoreModule);
        assert_eq!(named(b"\x7fELF\x02\x01\x01\0"), NotAComponent::Other);
        assert_eq!(named(b"\0asm\x0d\0"), NotAComponent::Cut(6));
        assert_eq!(named(b"\0asm\xff\0\x01\0"), NotAComponent::OtherWasm);
        assert_eq!(named(EMPTY_COMPONENT), NotAComponent::NoManifest);
    }

    // security line 37
    #[test]
    fn a_component_cut_anywhere_is_refused() {
        let whole = pack(EMPTY_COMPONENT, b"{\"kind\":\"scout\"}");
        assert_eq!(manifest_section(&whole), Ok(&b"{\"kind\":\"scout\"}"[..]));
        for end in 9..whole.len() {
            assert_eq!(manifest_section(&whole[..end]), Err(NotAComponent::Cut(8)), "cut at {end}");
        }
    }

    #[test]
    fn two_manifests_are_refused_because_readers_could_differ_on_which_counts() {
        let twice = pack(&pack(EMPTY_COMPONENT, b"{}"), b"{}");
        assert_eq!(manifest_section(&twice), Err(NotAComponent::SeveralManifests));
    }

    #[test]
    fn a_manifest_inside_a_nested_component_does_not_count() {
        let inner = pack(EMPTY_COMPONENT, b"{}");
        let mut outer = EMPTY_COMPONENT.to_vec();
        outer.extend([4, u8::try_from(inner.len()).unwrap()]);
        outer.extend(inner);
        assert_eq!(manifest_section(&outer), Err(NotAComponent::NoManifest));
    }

    // CAPABILITY-22
    #[test]
    fn taking_the_manifest_out_leaves_the_rest_as_it_was() {
        let other = b"\0asm\x0d\0\x01\0\0\x02\x01x";
        assert_eq!(without_manifest(other).unwrap(), other);
        assert_eq!(without_manifest(&pack(other, b"{}")).unwrap(), other);
        let twice = pack(&pack(other, b"{}"), b"{}");
        assert_eq!(without_manifest(&twice).unwrap(), other);
        assert!(without_manifest(&twice[..twice.len() - 1]).is_err());
        assert_eq!(without_manifest(b"text").unwrap_err(), NotAComponent::Text);
    }

    #[test]
    fn a_size_beyond_32_bits_is_damage_not_an_overflow() {
        let mut bytes = EMPTY_COMPONENT.to_vec();
        bytes.extend([0, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(manifest_section(&bytes), Err(NotAComponent::Cut(8)));
    }
}
