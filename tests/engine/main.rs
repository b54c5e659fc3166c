//! What every engine has to do for a run, whichever it is: first the interface by itself, then whole runs through it. No test
//! here names an engine, and none asks one by another way than the interface of the Verifier.
//!
//! The engine is the one that `DOCKER_HOST` names, else the one of this machine. `scripts/test-podman` runs the suite on Podman,
//! and `scripts/test-kubernetes` on a cluster.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

#[allow(dead_code, reason = "only the archive is used: the engine imports it by its interface")]
#[path = "../container/image.rs"]
mod image;

mod interface;
mod orphans;
mod place;
mod runs;
mod slots;
mod walls;
