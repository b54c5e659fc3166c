//! The capability boundary: the only crate that names wasmtime.
//!
//! A component gets what it imports, declares to need, was granted, and the administrator allows, and nothing else.
//! Each call runs in a store of its own, which ends with the call: on the thread of its caller, if it is short and cannot wait
//! for anything (`callers_thread`), otherwise on a thread that is kept for the next one (`workers`).
//! Every refused access is recorded; what looks empty
//! without a grant is not. Three layers refuse: `admission` refuses to load a component whose imports, needs and grants
//! do not agree; the context of a call (`call`) refuses the functions of a capability that was not granted; and the view
//! of the repository refuses paths that are hidden or outside of the granted ones.
//!
//! The way of a component, file by file:
//!
//! 1. `structure`, `inspect` and `manifest`: [`Inspection::of`] reads its bytes, without compiling or running them. Bytes that
//!    nobody approved are first read by a process with limits (`confined`), which also compiles them.
//! 2. `registry`: [`registry::Registry`] reads what the user approved (`grants.toml`) and what the administrator allows
//!    (`policy.toml`).
//! 3. `admission`: [`Inspection::admit`] computes the effective grant, or refuses the component. Everything that can be
//!    granted has one file in `capability`, made of the values in `bounds`; what is always limited is in `limits`.
//! 4. `host`: [`ComponentHost::load`] compiles the component (`cache`) and links what the grant covers (`wasi`,
//!    `capability`).
//!    `engine` has the pool in which calls get their memory, and the engine for what does not fit it.
//! 5. `call`: [`ScoutComponent::ask`] and [`ToolComponent::call`] run one call. `meter` counts what it uses, `audit`
//!    records it, and `failure` has the ways in which it fails.
//!
//! From a grant to a denial: `registry/grants.rs` reads `grants.toml`, `admission.rs` computes the effective grant, and
//! `call.rs` restricts the view of one call to it ([`act_workspace::RepoView::restricted`]). When the component opens a
//! file, `files/mod.rs` asks that view, where the function `RepoView::rule` decides. `files/mod.rs` has `audit.rs`
//! record the denial and returns the error to the component. Functions of `repo.read` do so in
//! `capability/repo_read.rs`, requests to the network in `capability/http.rs`, and edits in `capability/repo_write.rs`.
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
mod callers_thread;
mod capability;
pub mod confined;
pub mod custom_section;
mod engine;
mod failure;
mod files;
mod foreign;
mod host;
mod inspect;
mod limits;
mod manifest;
mod meter;
mod outbound;
pub mod registry;
mod structure;
mod symbols;
mod values;
mod wasi;
mod workers;

pub use admission::{
    Access, AdmissionError, Admitted, MissingGrant, Need, Parties, Party, PartyAnswer, effective,
    usual,
};
pub use audit::{edits, not_taken_back};
pub use bounds::{MAX_WASM, Set};
pub use cache::{CacheState, cache_dir, cache_state};
pub use call::{ScoutQuestion, Services, ToolOutcome};
pub use capability::{
    Capability, Ceiling, Clock, EnvName, Grant, Http, Llm, LocalOrigin, Method, Origin, Random,
    RepoPart, RepoRead,
};
pub use failure::{ComponentFailure, GuestFailure, Limit};
pub use foreign::LeftOut;
#[cfg(any(test, feature = "testing"))]
pub use foreign::arbitrary::Parameters as ArbitraryParameters;
pub use host::{ComponentHost, LoadError, Loaded, LoadedComponent, ScoutComponent, ToolComponent};
pub use inspect::{Inspection, NotAComponent, code_sha256, pack_manifest};
pub use limits::Limits;
pub use manifest::{Kind, Manifest, ManifestError, SuggestedLimits};
pub use outbound::{Outbound, never_reached};
pub use symbols::BackgroundIndexing;
pub use values::{ComponentName, Sha256, ValueError};

/// Returns the settings of the engine that calls run in, for the bench that runs the same engine without the host.
#[cfg(feature = "testing")]
pub fn engine_config() -> wasmtime::Config {
    engine::pooled()
}
