//! The real program in its own process, from the command line to the exit code.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../container/image.rs"]
mod image;
#[path = "../container/proxy.rs"]
mod proxy;

mod anchored;
mod applying;
mod approval;
mod audit;
mod boundaries;
mod clumsy_model;
mod command_line;
mod comparison;
mod components;
mod conversation;
mod decisions;
mod doctor;
mod documents;
mod dry_run;
mod engine_loss;
mod evidence;
mod examples;
mod foreign;
mod golden;
mod grants;
mod guidance;
mod hostile_model;
mod init;
mod json;
mod lifecycle;
mod metrics;
mod new_component;
mod notes;
mod past;
mod proposed;
mod published;
mod refusals;
mod scout;
mod streams;
mod task;
mod terminal;
mod tested_tree;
mod tool_answers;
mod untouched;
mod verify;
mod wires;
