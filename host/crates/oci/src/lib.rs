//! Components in OCI registries: a reference is resolved to a digest, and the bytes behind it are fetched or stored.
//!
//! A registry is a stranger, and so is whoever can write to it. Every answer is bounded in size and time, digests and sizes are
//! compared here, and credentials go to the registry and to its token service only. This crate knows nothing of components: its
//! callers read the bytes in a process with limits before they show anything of them, and they alone decide who may start a
//! transfer. No repository can.
//!
//! - [`Reference`]: `oci://HOST/NAME:TAG` or `oci://HOST/NAME@sha256:…`.
//! - [`Registry`]: [`Registry::resolve`] finds the manifest of a reference, [`Registry::fetch`] gets the bytes that it names,
//!   and [`Registry::push`] stores a component.
//! - [`Registry::signatures`]: which of some keys signed an artifact, as `cosign` signs.
//! - [`DockerConfig`]: the credentials that `docker login` stored, also with its helpers.
//!
//! The layout is that of the CNCF's TAG Runtime: a manifest with a configuration of the type
//! `application/vnd.wasm.config.v0+json` and one layer `application/wasm`.
//!
//! ```
//! use act_oci::Reference;
//!
//! let reference: Reference = "oci://ghcr.io/example/licences:1.2".parse()?;
//! assert_eq!((reference.host(), reference.repository()), ("ghcr.io", "example/licences"));
//! assert_eq!(reference.tag(), Some("1.2"));
//! # Ok::<(), act_oci::ReferenceError>(())
//! ```

mod credentials;
mod error;
mod manifest;
mod reference;
mod registry;
mod signature;
mod transport;

pub use credentials::DockerConfig;
pub use error::RegistryError;
pub use manifest::MAX_LAYER;
pub use reference::{Digest, Reference, ReferenceError, SCHEME};
pub use registry::{Contents, Registry, Resolved};
pub use signature::Signatures;
pub use transport::Access;
