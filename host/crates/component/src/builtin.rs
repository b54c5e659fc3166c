//! The built-in components. The build compiles them, adds their manifests and computes their digests.

/// A component that is part of this program, manifest section included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    pub bytes: &'static [u8],
    /// SHA-256 of `bytes`, in lower-case hexadecimal digits.
    pub sha256: &'static str,
}

// Statics, because each place that uses a constant has a copy of its bytes in the program.

include!(concat!(env!("OUT_DIR"), "/builtin_digests.rs"));

pub static SCOUT_A: Builtin = Builtin {
    name: "scout-a",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/scout-a.wasm")),
    sha256: SCOUT_A_SHA256,
};

pub static SCOUT_B: Builtin = Builtin {
    name: "scout-b",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/scout-b.wasm")),
    sha256: SCOUT_B_SHA256,
};

pub static FILE_TOOLS: Builtin = Builtin {
    name: "file-tools",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/file-tools.wasm")),
    sha256: FILE_TOOLS_SHA256,
};

/// Directory of the example components and hostile components that tests load.
#[cfg(any(test, feature = "testing"))]
pub const TEST_COMPONENTS: &str = env!("ACT_TEST_COMPONENTS");

pub static ALL: [Builtin; 3] = [SCOUT_A, SCOUT_B, FILE_TOOLS];
