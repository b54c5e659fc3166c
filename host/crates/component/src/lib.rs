//! The capability boundary: the only crate that names wasmtime.
//!
//! A component gets what it imports, declares to need, was granted, and the administrator allows, and nothing else.
//! Each call runs in a store of its own, which ends with the call. Every denial is recorded.
//!
//! The way of a component, and where to read about it:
//!
//! 1. [`Inspection::of`] reads its bytes (`inspect`, `manifest`), without compiling or running them.
//! 2. [`registry::Registry`] knows what the user approved (`grants.toml`) and what the administrator allows
//!    (`policy.toml`).
//! 3. [`Inspection::admit`] decides whether the component is let in, and with what (`admission`). What can be granted
//!    has one file for each capability (`capability`).
//! 4. [`ComponentHost::load`] compiles and links it (`host`, `cache`).
//! 5. [`ScoutComponent::ask`] and [`ToolComponent::call`] run one call (`handle`, `call`). While the call runs, meters
//!    count what it uses and refuse what is too much (`meter`), and denials, edits and the end of the call are recorded
//!    (`audit`). The file system that the component sees is the filtered view (`files`).
//!
//! The agent and the command line call this crate. It calls `act-workspace` for the repository, `act-model` for the
//! model, and `act-audit` for records.
//!
//! ```
//! use act_component::{Grant, Inspection, Parties, builtin};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scout = Inspection::of_builtin(builtin::SCOUT_A)?;
//! let parties = Parties::new(&scout, &Grant::builtin_scout(), &Grant::everything());
//! assert!(parties.effective().repo_read.is_some());
//! # Ok(())
//! # }
//! ```

mod admission;
mod audit;
mod bindings;
mod bounds;
pub mod builtin;
mod cache;
mod call;
mod capability;
pub mod custom_section;
mod failure;
mod files;
mod foreign;
mod handle;
mod host;
mod inspect;
mod limits;
mod manifest;
mod meter;
mod outbound;
mod progress;
pub mod registry;
mod symbols;
mod values;
mod wasi;

pub use admission::{
    Access, AdmissionError, Admitted, MissingGrant, Need, Parties, Party, PartyAnswer, effective,
    usual,
};
pub use bounds::{MAX_WASM, Set};
pub use cache::{CacheState, cache_dir, cache_state};
pub use capability::{
    Capability, Ceiling, Clock, EnvName, Grant, Http, Llm, Method, Origin, Random, RepoPart,
    RepoRead,
};
pub use failure::{ComponentFailure, GuestFailure, Limit};
pub use foreign::LeftOut;
#[cfg(any(test, feature = "testing"))]
pub use foreign::arbitrary::Parameters as ArbitraryParameters;
pub use handle::{
    HostContext, Loaded, LoadedComponent, ScoutComponent, ScoutQuestion, ToolComponent, ToolOutcome,
};
pub use host::{ComponentHost, LoadError};
pub use inspect::{Inspection, NotAComponent, code_sha256, pack_manifest};
pub use limits::Limits;
pub use manifest::{Kind, Manifest, ManifestError, SuggestedLimits};
pub use outbound::{Outbound, never_reached};
pub use values::{ComponentName, Sha256, ValueError};
