//! The gate: whole pipelines in a fresh container over a read-only repository.
//!
//! `pipeline` decides what a run's steps amount to and knows no engine; `docker_verifier` performs one run;
//! `docker_error` says which trouble of the engine is which `error_type`.

mod audited;
mod blocking;
mod build_product;
mod ca_bundle;
mod cleanup;
mod conclusion;
mod container;
mod copy_view;
mod docker_error;
mod docker_verifier;
mod elsewhere;
mod engine;
mod environment;
mod hint;
mod image;
mod kill_counter;
mod no_tests;
mod oom;
mod overlay;
mod owner;
mod passwd;
mod pipeline;
mod prepare;
mod reclaim;
mod request;
mod same_tree;
mod source_writes;
mod starting;
mod step;
mod step_log;
mod view;
mod walls;

pub use ca_bundle::usable as usable_ca_bundle;
pub use docker_error::EngineUnavailable;
pub use docker_verifier::{DockerVerifier, Downloads};
pub use elsewhere::CacheVolume;
pub use engine::{Engine, Machine};
pub use image::{FoundImage, Named, RecordedImage, ResolvedImage};
pub use pipeline::Gate;
