//! Verifies a working tree: runs the steps of `agent.yaml` in a fresh container that cannot change the repository.
//!
//! The crate promises that every run has a container of its own, which is removed however the run ends; that the steps
//! see the tree whose digest is in the manifest; that trouble with the machine is never reported as a failure of the
//! tree; and that a run which cannot be recorded in the audit log proves nothing.
//!
//! - [`DockerVerifier`] implements [`Verifier`](act_core::verification::Verifier): one call is one run.
//! - [`DockerChecker`] implements [`Checker`](act_core::check::Checker): one command of the model, which decides nothing.
//! - A [`Variant`] is a run on a tree that the host wrote with [`write_tree`].
//! - [`VerificationConfig`] is the part of `agent.yaml` that a run uses, as it was when the task started.
//! - [`Engine::connect`] finds the container engine; [`Engine::reap_orphans`] removes the containers and volumes of dead
//!   processes.
//! - [`Engine::ensure_image`] gets the image of `agent.yaml`, [`Engine::recorded_image`] that of an earlier run.
//!
//! ```no_run
//! # use act_verifier::Engine;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::connect().await?;
//! engine.reap_orphans().await?;
//! let image = engine.find_image("python:3.12-slim").await?;
//! # Ok(())
//! # }
//! ```
//!
//! The program's own crate is the only user; the agent knows a `Verifier`.
//!
//! An [`Engine`] knows every rule about containers and none of the ways in which an engine is asked: those are behind the
//! interface in `driver`. `docker` implements it for Docker and Podman, and no other file names `bollard`, their client.
//!
//! `docker_verifier` holds the course of a run, and `inputs` says when a later one would be the same. It uses `workspace` for what the steps see, `container` for the
//! container, `steps` for the commands in it, and `pipeline` for the verdict. `warm` decides which attempts begin with what
//! `prepare` left ([`WarmRuns`]). `closed_network` keeps steps with a network from addresses such as the metadata services of
//! clouds. `remote_engine` replaces mounts by
//! archives for an engine on another machine.

mod base_volume;
mod ca_bundle;
mod check;
mod closed_network;
mod container;
mod copy;
mod docker;
mod docker_verifier;
pub mod driver;
mod engine;
mod engine_error;
mod image;
mod inputs;
mod kubernetes;
mod loader_image;
mod no_tests;
mod oom;
mod passwd;
mod pipeline;
mod remote_engine;
mod request;
mod slots;
mod source_writes;
mod step_times;
mod steps;
mod warm;
mod workspace;

pub use ca_bundle::check as check_ca_bundle;
pub use check::DockerChecker;
pub use closed_network::unreachable_addresses;
pub use copy::{Replacement, write_committed, write_tree};
pub use docker_verifier::{DockerVerifier, Downloads, Variant};
pub use driver::Machine;
pub use engine::{Engine, Orphan};
pub use engine_error::EngineUnavailable;
pub use image::{FoundImage, NameNow, RecordedImage, ResolvedImage};
pub use inputs::Inputs;
pub use kubernetes::rights;
pub use loader_image::LoaderImage;
pub use pipeline::VerificationConfig;
pub use remote_engine::CacheVolume;
pub use slots::TakenSlot;
pub use step_times::StepTimes;
pub use warm::{BaseUnderWay, ChangedFile, GateChange, WarmRuns};
pub use workspace::relative_to_repo;
