//! The one rule for repeating a failed request, for the Editor's requests and for whole queries of a Scout. Nothing below
//! [`with_attempts`] repeats anything.
//!
//! Not `backon`: its waits cannot be cancelled, and an operation that borrows its conversation mutably does not fit its
//! closures.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{ModelError, ModelErrorKind};

/// Waits between the three attempts. They are short, because a person waits for the task.
const BACK_OFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// Longest wait that a server may ask for with `retry-after`. Servers with daily limits ask for hours.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A failure that knows whether another attempt may succeed.
pub trait Retryable {
    fn is_retryable(&self) -> bool;
    fn retry_after(&self) -> Option<Duration>;
    /// Returns the failure of a task that was cancelled between two attempts.
    fn cancelled() -> Self;
}

impl Retryable for ModelError {
    fn is_retryable(&self) -> bool {
        Self::is_retryable(self)
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    fn cancelled() -> Self {
        Self::new(ModelErrorKind::Cancelled, "cancelled")
    }
}

/// Waits between two attempts. Tests replace it by a recorder.
pub trait Timer: Send + Sync {
    fn wait(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// Waits on the clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioTimer;

impl Timer for TokioTimer {
    fn wait(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// Returns the wait after a failure, or `None` when there is no further attempt. `failures` counts the earlier ones.
fn next_wait(failures: usize, failure: &impl Retryable) -> Option<Duration> {
    let back_off = BACK_OFF.get(failures).filter(|_| failure.is_retryable())?;
    Some(failure.retry_after().unwrap_or_default().min(LONGEST_WAIT).max(*back_off))
}

/// Runs attempts until one succeeds, one fails for good, or the third fails.
///
/// `attempt` gets its subject (a conversation, or a Scout and its question), its number from 1 and the token. It returns
/// a boxed future because the future of an async closure over `&mut` cannot be spawned.
///
/// # Errors
///
/// Returns the failure of the last attempt, or [`Retryable::cancelled`] when the task is cancelled during a wait.
pub async fn with_attempts<S: ?Sized, T, E: Retryable>(
    timer: &dyn Timer,
    cancel: &CancellationToken,
    subject: &mut S,
    mut attempt: impl for<'a> FnMut(
        &'a mut S,
        u32,
        &'a CancellationToken,
    ) -> BoxFuture<'a, Result<T, E>>,
) -> Result<T, E> {
    let mut failures = 0;
    loop {
        let failure = match attempt(subject, failures as u32 + 1, cancel).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        if cancel.is_cancelled() {
            return Err(failure);
        }
        let Some(time) = next_wait(failures, &failure) else { return Err(failure) };
        failures += 1;
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(E::cancelled()),
            () = timer.wait(time) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn three_attempts_with_one_and_two_seconds_between() {
        let waits: Vec<_> = (0..3).map(|at| next_wait(at, &failure(ModelErrorKind::Cut))).collect();
        assert_eq!(waits, [Some(secs(1)), Some(secs(2)), None]);
    }

    #[test]
    fn a_longer_retry_after_replaces_the_back_off_up_to_a_minute() {
        let wait = |after| {
            let failure = ModelError { retry_after: Some(after), ..failure(ModelErrorKind::Cut) };
            next_wait(0, &failure)
        };
        assert_eq!(wait(Duration::from_millis(200)), Some(secs(1)));
        assert_eq!(wait(secs(7)), Some(secs(7)));
        assert_eq!(wait(secs(3600)), Some(secs(60)));
    }

    #[test]
    fn what_cannot_heal_ends_at_once() {
        assert_eq!(next_wait(0, &failure(ModelErrorKind::Rejected)), None);
    }

    #[derive(Default)]
    struct Record(Mutex<Vec<Duration>>);

    impl Timer for Record {
        fn wait(&self, time: Duration) -> BoxFuture<'static, ()> {
            self.0.lock().unwrap().push(time);
            Box::pin(async {})
        }
    }

    fn failure(kind: ModelErrorKind) -> ModelError {
        ModelError::new(kind, "no")
    }

    #[tokio::test]
    async fn the_driver_numbers_attempts_and_answers_with_the_last_failure() {
        let record = Record::default();
        let mut numbers = vec![];
        let cancel = CancellationToken::new();
        let result: Result<(), _> =
            with_attempts(&record, &cancel, &mut numbers, |numbers, number, _| {
                numbers.push(number);
                Box::pin(async { Err(failure(ModelErrorKind::Cut)) })
            })
            .await;
        assert_eq!(result.unwrap_err().kind, ModelErrorKind::Cut);
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(*record.0.lock().unwrap(), [secs(1), secs(2)]);
    }

    #[tokio::test]
    async fn cancelling_ends_the_wait() {
        struct Endless(CancellationToken);
        impl Timer for Endless {
            fn wait(&self, _: Duration) -> BoxFuture<'static, ()> {
                self.0.cancel();
                Box::pin(std::future::pending())
            }
        }
        let cancel = CancellationToken::new();
        let endless = Endless(cancel.clone());
        let result: Result<(), _> = with_attempts(&endless, &cancel, &mut (), |_, _, _| {
            Box::pin(async { Err(failure(ModelErrorKind::Unavailable)) })
        })
        .await;
        assert_eq!(result.unwrap_err().kind, ModelErrorKind::Cancelled);
    }
}
