//! What a file that is given as a component really is, and its top-level sections, without running or
//! compiling it.

use super::custom_section::SECTION;

/// Layer 1 of the binary format is a component, layer 0 a core module.
const MAGIC: &[u8; 4] = b"\0asm";
const COMPONENT: &[u8; 4] = b"\x0d\0\x01\0";
const CORE_MODULE: &[u8; 4] = b"\x01\0\0\0";
/// Sections that one component may have at its top level; real ones have tens.
const MAX_SECTIONS: usize = 10_000;

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
        "a component without the section `{SECTION}`; `act components pack FILE --manifest manifest.json` adds it"
    )]
    NoManifest,
    #[error("a component with more than one section `{SECTION}`; leave one")]
    SeveralManifests,
}

/// The one manifest section of a component.
pub(super) fn manifest_section(bytes: &[u8]) -> Result<&[u8], NotAComponent> {
    let mut rest = body(bytes)?;
    let mut found = None;
    for _ in 0..MAX_SECTIONS {
        let at = bytes.len() - rest.len();
        let cut = NotAComponent::Cut(at);
        let Some((id, after)) = rest.split_first() else {
            return found.ok_or(NotAComponent::NoManifest);
        };
        let (size, after) = leb128(after).ok_or_else(|| cut.clone())?;
        if after.len() < size {
            return Err(cut);
        }
        let (section, next) = after.split_at(size);
        rest = next;
        if *id != 0 {
            continue;
        }
        let (length, named) = leb128(section).ok_or_else(|| cut.clone())?;
        if named.len() < length {
            return Err(cut);
        }
        let (name, content) = named.split_at(length);
        if name == SECTION.as_bytes() && found.replace(content).is_some() {
            return Err(NotAComponent::SeveralManifests);
        }
    }
    Err(NotAComponent::Cut(bytes.len() - rest.len()))
}

/// The component without its manifest sections, for another one to be put in.
pub(super) fn without_manifest(bytes: &[u8]) -> Result<Vec<u8>, NotAComponent> {
    let mut rest = body(bytes)?;
    let mut kept = bytes[..bytes.len() - rest.len()].to_vec();
    for _ in 0..MAX_SECTIONS {
        let cut = NotAComponent::Cut(bytes.len() - rest.len());
        let Some((id, after)) = rest.split_first() else { return Ok(kept) };
        let (size, after) = leb128(after).ok_or_else(|| cut.clone())?;
        let (section, next) = after.split_at_checked(size).ok_or_else(|| cut.clone())?;
        let whole = &rest[..rest.len() - next.len()];
        rest = next;
        let is_manifest = *id == 0
            && leb128(section).is_some_and(|(length, named)| {
                named.get(..length).is_some_and(|name| name == SECTION.as_bytes())
            });
        if !is_manifest {
            kept.extend_from_slice(whole);
        }
    }
    Err(NotAComponent::Cut(bytes.len() - rest.len()))
}

/// What follows a component's preamble, or what the file is instead.
fn body(bytes: &[u8]) -> Result<&[u8], NotAComponent> {
    if bytes.is_empty() {
        return Err(NotAComponent::Empty);
    }
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let start = &bytes[..bytes.len().min(1024)];
        let texty = |b: &u8| matches!(b, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..);
        return Err(if start.iter().all(texty) {
            NotAComponent::Text
        } else {
            NotAComponent::Other
        });
    };
    match rest.split_at_checked(4) {
        None => Err(NotAComponent::Cut(bytes.len())),
        Some((version, rest)) if version == COMPONENT => Ok(rest),
        Some((version, _)) if version == CORE_MODULE => Err(NotAComponent::CoreModule),
        Some(_) => Err(NotAComponent::OtherWasm),
    }
}

/// An unsigned number of at most 32 bits.
fn leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).ok()?;
            return Some((value as usize, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::custom_section::pack;

    const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

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
