//! The Verifier against a real engine: what steps may do, what counts as what, and what is left behind.
//!
//! Images are made here from the machine's static busybox; no registry is asked.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

mod audit;
mod checks;
mod closed_network;
mod elsewhere;
mod gate;
mod honesty;
mod image;
mod lifecycle;
mod logs;
mod loopback;
mod own_engine;
mod proxy;
mod recorded_image;
mod sealed;
mod stock_projects;
mod surroundings;
mod trouble;
mod tunnel;
mod views;
mod warm;
mod world;
