//! The real program in its own process, from the command line to the exit code.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

#[path = "../harness/engine.rs"]
mod engine;
#[path = "../harness/mod.rs"]
mod harness;
#[path = "../container/image.rs"]
mod image;
#[path = "../container/proxy.rs"]
mod proxy;

mod acp;
mod action;
mod agents;
mod anchored;
mod applying;
mod audit;
mod bases;
mod boundaries;
mod checking;
mod clumsy_model;
mod command_line;
mod comparing;
mod components;
mod conversation;
mod diff;
mod doctor;
mod dry_run;
mod engine_loss;
mod engines;
mod evidence;
mod examples;
mod foreign;
mod golden;
mod guidance;
mod hooks;
mod hostile_model;
mod init;
mod json;
mod lifecycle;
mod mcp;
mod metrics;
mod notes;
mod past;
mod proposed;
mod published;
mod reuse;
mod streams;
mod task;
mod terminal;
mod tested_tree;
mod untouched;
mod verify;
mod warm;
mod watch;
mod wires;
mod worktrees;
