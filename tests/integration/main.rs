//! Rules that hold over several modules, without containers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

mod events;
mod layers;
mod specifications;
