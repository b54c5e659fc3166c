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
mod gate_inputs;
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
mod response;
mod same_tree;
mod source_writes;
mod starting;
mod step;
mod step_log;
mod view;
mod walls;
mod warning_marks;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use ca_bundle::usable as usable_ca_bundle;
pub use docker_error::{EngineUnavailable, InfraError};
pub use docker_verifier::{DockerVerifier, Downloads};
pub use elsewhere::CacheVolume;
pub use engine::{Engine, Machine};
pub use gate_inputs::{
    GateChange, GateInput, Look, MAX_SCRIPT, Steps, gate_inputs_changed, has_tests, is_test,
    touches_tests,
};
pub use image::{FoundImage, Named, RecordedImage, ResolvedImage};
pub use pipeline::Gate;
pub use response::{ErrorType, FailReason, Status, VerifyResponse, Warning, WarningCode};
pub use warning_marks::{lessens, marks};

/// Where nothing is to be verified: whoever asks is told so by the Editor's rules before.
pub struct NoVerifier;

impl Verifier for NoVerifier {
    fn run<'a>(
        &'a self,
        _attempt: u32,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<VerifyResponse>> {
        Box::pin(std::future::ready(None))
    }
}

/// One run of the whole pipeline.
pub trait Verifier: Send + Sync {
    /// Never fails as a call: trouble of the machine is a response with `INFRA_ERROR`. None when cancelled;
    /// then, too, no container is left.
    fn run<'a>(
        &'a self,
        attempt: u32,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<VerifyResponse>>;
}
