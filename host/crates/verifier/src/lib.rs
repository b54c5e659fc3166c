//! Verifies a tree: runs the steps of `agent.yaml` in a fresh container that cannot change the repository.
//!
//! - [`DockerVerifier`] implements [`Verifier`](act_core::verification::Verifier): one call is one run.
//! - [`Engine::connect`] finds the container engine; [`Engine::reap_orphans`] removes what dead processes left on it.
//! - [`Engine::ensure_image`] gets the image of `agent.yaml`, [`Engine::recorded_image`] the one of an earlier run.
//! - [`Gate`] is the configuration that a run goes by, as it was when the task started.
//!
//! Only the program's own crate uses this one; the agent knows it by the trait alone. No other crate names the client of
//! the engine. Read `docker_verifier` for the course of a run and `pipeline` for what its steps amount to.

mod blocking;
mod build_product;
mod ca_bundle;
mod container;
mod container_audit;
mod copy_view;
mod docker_error;
mod docker_verifier;
mod engine;
mod environment;
mod image;
mod no_tests;
mod oom;
mod owner;
mod pack;
mod passwd;
mod pipeline;
mod prepare;
mod remote_engine;
mod request;
mod source_writes;
mod step;
mod view;

pub use ca_bundle::usable as usable_ca_bundle;
pub use docker_error::EngineUnavailable;
pub use docker_verifier::{DockerVerifier, Downloads};
pub use engine::{Engine, Machine};
pub use image::{FoundImage, Named, RecordedImage, ResolvedImage};
pub use pipeline::Gate;
pub use remote_engine::CacheVolume;
