//! The components that come inside the program, pinned by their digests.

/// A component as the build made it, manifest section included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    pub bytes: &'static [u8],
    /// SHA-256 of `bytes`, lower-case hex.
    pub sha256: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/builtin_digests.rs"));

pub const SCOUT_A: Builtin = Builtin {
    name: "scout-a",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/scout-a.wasm")),
    sha256: SCOUT_A_SHA256,
};

pub const SCOUT_B: Builtin = Builtin {
    name: "scout-b",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/scout-b.wasm")),
    sha256: SCOUT_B_SHA256,
};

pub const FILE_TOOLS: Builtin = Builtin {
    name: "file-tools",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/file-tools.wasm")),
    sha256: FILE_TOOLS_SHA256,
};

/// Directory of the example components and of the hostile ones that tests load.
#[cfg(any(test, feature = "testing"))]
pub const TEST_COMPONENTS: &str = env!("ACT_TEST_COMPONENTS");

pub const ALL: [Builtin; 3] = [SCOUT_A, SCOUT_B, FILE_TOOLS];

#[cfg(test)]
mod tests {
    use super::ALL;
    use sha2::{Digest, Sha256};

    #[test]
    fn every_built_in_component_has_the_digest_it_is_pinned_to() {
        for component in ALL {
            let digest = Sha256::digest(component.bytes);
            let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            assert_eq!(hex, component.sha256, "{}", component.name);
        }
    }

    #[test]
    fn every_built_in_component_is_a_component_and_carries_its_manifest() {
        for component in ALL {
            assert!(component.bytes.starts_with(b"\0asm\x0d\0\x01\0"), "{}", component.name);
            let section = b"agentcommand:component{";
            assert!(component.bytes.windows(section.len()).any(|bytes| bytes == section));
        }
    }
}
