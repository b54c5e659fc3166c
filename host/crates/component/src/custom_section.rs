//! A component's self-description as bytes: the custom section `agentcommand:component`.
//!
//! Standard library only: the build script includes this file too, to write the section.

/// Name of the section that holds a component's manifest.
pub const SECTION: &str = "agentcommand:component";

/// The component with its manifest appended. A custom section may stand anywhere between others, so the
/// end of the file is as good as any, and the digest of the whole covers it.
pub fn pack(component: &[u8], manifest: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(SECTION.len() + manifest.len() + 1);
    leb128(SECTION.len(), &mut body);
    body.extend_from_slice(SECTION.as_bytes());
    body.extend_from_slice(manifest);
    let mut packed = component.to_vec();
    packed.push(0);
    leb128(body.len(), &mut packed);
    packed.extend_from_slice(&body);
    packed
}

fn leb128(mut value: usize, out: &mut Vec<u8>) {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}
