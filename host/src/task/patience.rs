//! Trouble that may pass, with the store or the system, ends nothing that waits.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::output::Output;
use act_records::store::StoreError;

const LOOK: Duration = Duration::from_millis(250);

/// Tells of trouble once for each time that it comes up.
pub(super) struct Patience<'a> {
    output: &'a Output,
    told: bool,
}

impl<'a> Patience<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        Self { output, told: false }
    }

    /// Why a task that waits goes on waiting.
    pub(super) fn waits_on(&mut self, error: &dyn std::fmt::Display) {
        if !std::mem::replace(&mut self.told, true) {
            self.output.caution(&format!(
                "{error}; the task stays in the queue and goes on as soon as it can (Ctrl-C to give up)"
            ));
        }
    }

    pub(super) fn is_over(&mut self) {
        self.told = false;
    }

    /// Asks until there is an answer, or an error that does not pass. None when cancelled before.
    pub(super) async fn ask<T>(
        &mut self,
        cancel: &CancellationToken,
        mut ask: impl FnMut() -> Result<T, StoreError>,
    ) -> Option<Result<T, StoreError>> {
        loop {
            match ask() {
                Err(error) if error.may_pass() => self.waits_on(&error),
                answer => return Some(answer),
            }
            tokio::select! {
                () = cancel.cancelled() => return None,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
