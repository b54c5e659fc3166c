//! Rules that hold over several modules, without containers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

mod attack_rows;
mod audit;
mod builtin_components;
mod certificates;
mod component_http;
mod component_limits;
mod components;
mod conformance;
mod events;
mod foreign;
mod hostile;
mod hostile_components;
mod recorded;
mod retention;
mod scout_a_facts;
mod symbols;
