//! The resources that a component can waste are bounded, and the end of its query is reported with the right reason.

mod endings;
mod memory;
mod model;
mod reading;
mod time;

use std::time::Duration;

use act_component::{Grant, Limits};
use act_core::event::ModelUsage;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::hostile::{PLENTY, Told};

const SHORT: Duration = Duration::from_millis(300);

fn scout_with(limits: Limits) -> Grant {
    Grant { limits, ..Grant::builtin_scout() }
}

fn usage(input: u64, output: u64) -> ModelUsage {
    ModelUsage { input, cached: 0, cache_write: 0, output }
}

/// Waits until the store and the thread of a query have ended; then nothing else holds the model.
async fn gone(hear: &mut UnboundedReceiver<Told>) {
    let all = async { while hear.recv().await.is_some_and(|told| told != Told::Dropped) {} };
    tokio::time::timeout(PLENTY, all).await.expect("the guest still runs");
}
