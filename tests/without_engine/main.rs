//! The real program in its own process, as far as it needs no Docker engine. No engine answers in these tests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

#[path = "../harness/mod.rs"]
mod harness;

mod acp;
mod approval;
mod artifacts;
mod command_line;
mod comparison;
mod components;
mod costs;
mod decisions;
mod dev;
mod documents;
mod dry_run;
mod engine;
mod first_version;
mod following;
mod grants;
mod hooks;
mod init;
mod json_versions;
mod mcp;
mod new_component;
mod oci;
mod refusals;
mod release;
mod scout;
mod settings;
mod watch;
