//! The one rule for repeating a failed request, for the Editor's requests and for whole queries of a Scout.
//!
//! [`Attempts`] decides; [`with_attempts`] acts. Nothing below either of them repeats anything. Not `backon`: its waits
//! cannot be cancelled, and an operation that borrows its conversation mutably does not fit its closures.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{ModelError, ModelErrorKind};

/// Waits between the three attempts: short, because a person waits for the task.
const BACK_OFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// Longest wait that a server may ask for with `retry-after`. Servers with daily limits ask for hours.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Wait(Duration),
    End,
}

/// Counts the attempts of one request or query.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempts {
    failed: usize,
}

impl Attempts {
    /// Returns the number of the current attempt, from 1.
    pub fn number(&self) -> u32 {
        self.failed as u32 + 1
    }

    /// Counts a failed attempt and decides what is next.
    pub fn failed(&mut self, can_heal: bool, retry_after: Option<Duration>) -> Next {
        let Some(back_off) = BACK_OFF.get(self.failed).filter(|_| can_heal) else {
            return Next::End;
        };
        self.failed += 1;
        Next::Wait(retry_after.unwrap_or_default().min(LONGEST_WAIT).max(*back_off))
    }
}

/// A failure that knows whether another attempt may succeed.
pub trait Heal {
    fn can_heal(&self) -> bool;
    fn retry_after(&self) -> Option<Duration>;
    /// The failure that is returned when the task is cancelled between two attempts.
    fn cancelled() -> Self;
}

impl Heal for ModelError {
    fn can_heal(&self) -> bool {
        Self::can_heal(self)
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    fn cancelled() -> Self {
        Self::new(ModelErrorKind::Cancelled, "cancelled")
    }
}

/// The wait between two attempts; tests replace it by a recorder.
pub trait Pause: Send + Sync {
    fn pause(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// Waits on the clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimerPause;

impl Pause for TimerPause {
    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// Runs attempts until one succeeds, one fails for good, or the third fails.
///
/// `attempt` gets its subject (a conversation, or a Scout and its question), its number from 1 and the token. It returns
/// a boxed future because the future of an async closure over `&mut` cannot be spawned.
///
/// # Errors
///
/// Returns the failure of the last attempt, or [`Heal::cancelled`] when the task is cancelled during a wait.
pub async fn with_attempts<S: ?Sized, T, E: Heal>(
    pause: &dyn Pause,
    cancel: &CancellationToken,
    subject: &mut S,
    mut attempt: impl for<'a> FnMut(
        &'a mut S,
        u32,
        &'a CancellationToken,
    ) -> BoxFuture<'a, Result<T, E>>,
) -> Result<T, E> {
    let mut attempts = Attempts::default();
    loop {
        let failure = match attempt(subject, attempts.number(), cancel).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        if cancel.is_cancelled() {
            return Err(failure);
        }
        let Next::Wait(time) = attempts.failed(failure.can_heal(), failure.retry_after()) else {
            return Err(failure);
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(E::cancelled()),
            () = pause.pause(time) => {}
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
        let mut attempts = Attempts::default();
        let mut seen = vec![];
        loop {
            let number = attempts.number();
            let next = attempts.failed(true, None);
            seen.push((number, next));
            if next == Next::End {
                break;
            }
        }
        assert_eq!(seen, [(1, Next::Wait(secs(1))), (2, Next::Wait(secs(2))), (3, Next::End)]);
    }

    #[test]
    fn a_longer_retry_after_replaces_the_back_off_up_to_a_minute() {
        let wait = |after| Attempts::default().failed(true, Some(after));
        assert_eq!(wait(Duration::from_millis(200)), Next::Wait(secs(1)));
        assert_eq!(wait(secs(7)), Next::Wait(secs(7)));
        assert_eq!(wait(secs(3600)), Next::Wait(secs(60)));
    }

    #[test]
    fn what_cannot_heal_ends_at_once() {
        assert_eq!(Attempts::default().failed(false, Some(secs(1))), Next::End);
    }

    #[derive(Default)]
    struct Record(Mutex<Vec<Duration>>);

    impl Pause for Record {
        fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
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
        impl Pause for Endless {
            fn pause(&self, _: Duration) -> BoxFuture<'static, ()> {
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
