//! Calls on the thread of their caller. A short call would spend more time on the way to another thread and back than in the
//! component, so a call begins where its caller is, and moves to a thread of its own (`workers`) before the caller would notice.
//!
//! Three rules bound the time that a call can hold its caller's thread:
//!
//! 1. A component with a capability whose functions may wait, for the disk, the network, the model or a person, never runs
//!    there (`Rules::MAY_WAIT`), nor does one that imports more than the basic interfaces of WASI
//!    (`LoadedComponent::may_stay`). Only a thread of its own can be given up while the kernel holds it.
//! 2. Code of the component is stopped at the second tick after its beginning, which is one to two [`TICK`]s later. The engine
//!    looks for it at the beginning of each function and loop. A function of 7.6 MB, the largest that there is, may call a
//!    function of WASI 600,000 times in between, which takes some tenths of a second.
//! 3. A single instruction cannot be stopped, and some work on a whole memory. A component whose memory would be larger than
//!    [`MEMORY`] moves before it gets that memory.
//!
//! A call is a future, and the engine runs components on stacks of their own, so any thread can continue it.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::thread;
use std::time::Duration;

/// Time between two ticks: long beside a short call, which takes 30 us, and short beside what a person or another task of
/// the caller's runtime notices.
const TICK: Duration = Duration::from_millis(1);
/// Ticks that a call sees on its caller's thread. The first one may come at once, so the second one is at least one [`TICK`]
/// after the beginning.
const TICKS: u32 = 2;
/// Ticks without a new call after which the ticking thread sleeps, so that it costs nothing between calls and short calls
/// that follow each other do not wake it each time.
const QUIET: u32 = 10;
/// Bytes of memory, and of tables, that a component may have on its caller's thread. Writing all of it with one instruction
/// takes a few milliseconds, most of them for the pages that the system adds.
pub(crate) const MEMORY: u64 = 16 << 20;
/// Bytes of one element of a table.
pub(crate) const ELEMENT: u64 = 8;

/// Says whether a call is still on the thread of its caller. The call and its caller share it.
#[derive(Debug, Clone)]
pub(crate) struct Stay(Arc<AtomicBool>);

impl Stay {
    /// `begins_there` is false for a call that has a thread of its own from its beginning.
    pub(crate) fn new(begins_there: bool) -> Self {
        Self(Arc::new(AtomicBool::new(begins_there)))
    }

    pub(crate) fn lasts(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Called by the caller before it gives the call to another thread.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Returns a function that the engine calls at each tick. It returns true if the call has to move.
    pub(crate) fn at_each_tick(&self) -> impl FnMut() -> bool + Send + Sync + 'static {
        let (stay, mut ticks) = (self.clone(), 0);
        move || {
            ticks = TICKS.min(ticks + 1);
            ticks == TICKS && stay.lasts()
        }
    }

    /// Waits until the call is on a thread of its own. Every call whose future is not ready at its first poll moves.
    pub(crate) async fn move_away(&self) {
        let mut polled = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut polled, true) || !self.lasts() {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

/// The thread that moves the engine's epoch on while calls are on the threads of their callers. It is started by the first
/// of them, sleeps [`QUIET`] ticks after the last one, and ends when this value is dropped.
#[derive(Default)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    /// Wakes the thread; `None` if the system starts no thread.
    wake: OnceLock<Option<Sender<()>>>,
}

#[derive(Default)]
struct Shared {
    begun: AtomicU64,
    ended: AtomicU64,
    asleep: AtomicBool,
}

/// One call on the thread of its caller. The thread of the [`Ticker`] is awake while this value exists.
pub(crate) struct Watched(Arc<Shared>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Ticker {
    /// Begins to tick for one call. `tick` is called from now on at each tick, until it returns false. Returns `None` if
    /// there is no thread to tick, so that the call must not run on its caller's thread.
    pub(crate) fn watch<T>(&self, tick: impl FnOnce() -> T) -> Option<Watched>
    where
        T: FnMut() -> bool + Send + 'static,
    {
        let wake = self.wake.get_or_init(|| {
            let (wake, woken) = channel();
            let (shared, tick) = (Arc::clone(&self.shared), tick());
            let ticking = move || shared.run(&woken, tick);
            let started = thread::Builder::new().name("component ticks".to_owned()).spawn(ticking);
            started.is_ok().then_some(wake)
        });
        let wake = wake.as_ref()?;
        self.shared.begun.fetch_add(1, Ordering::SeqCst);
        let watched = Watched(Arc::clone(&self.shared));
        if self.shared.asleep.swap(false, Ordering::SeqCst) {
            wake.send(()).ok()?;
        }
        Some(watched)
    }
}

impl Shared {
    /// Ticks until `tick` returns false or the [`Ticker`] is dropped.
    fn run(&self, woken: &Receiver<()>, mut tick: impl FnMut() -> bool) {
        let (mut seen, mut quiet) = (0, 0);
        loop {
            thread::sleep(TICK);
            if !tick() {
                return;
            }
            let begun = self.begun.load(Ordering::SeqCst);
            quiet = if begun == seen { quiet + 1 } else { 0 };
            seen = begun;
            if quiet < QUIET || self.ended.load(Ordering::SeqCst) != begun {
                continue;
            }
            // A call that begins after this line sees the mark and wakes the thread; one that began before is seen below.
            self.asleep.store(true, Ordering::SeqCst);
            if self.begun.load(Ordering::SeqCst) == begun {
                if woken.recv().is_err() {
                    return;
                }
            } else {
                self.asleep.store(false, Ordering::SeqCst);
            }
            quiet = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until a condition holds.
    fn until(what: &str, holds: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    // CAPABILITY-14
    #[test]
    fn ticks_come_while_a_call_runs_and_end_after_it() {
        let (ticker, ticks) = (Ticker::default(), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&ticks);
        let tick = || move || count.fetch_add(1, Ordering::SeqCst) < u64::MAX;
        let watched = ticker.watch(tick).unwrap();
        let now = || ticks.load(Ordering::SeqCst);
        until("it ticks", || now() > 3 * u64::from(QUIET));
        drop(watched);
        let asleep = || ticker.shared.asleep.load(Ordering::SeqCst);
        until("it sleeps", asleep);
        let before = now();
        thread::sleep(20 * TICK);
        assert_eq!(now(), before);
        // The next call wakes it.
        let _watched = ticker.watch(|| || true).unwrap();
        until("it ticks again", || now() > before);
    }

    // CAPABILITY-14
    #[test]
    fn the_ticking_thread_ends_with_the_last_host() {
        let (ticker, alive) = (Ticker::default(), Arc::new(()));
        let held = Arc::clone(&alive);
        let tick = || move || Arc::strong_count(&held) > 0;
        drop(ticker.watch(tick));
        until("it sleeps", || ticker.shared.asleep.load(Ordering::SeqCst));
        drop(ticker);
        until("it has ended", || Arc::strong_count(&alive) == 1);
    }

    // CAPABILITY-14
    #[test]
    fn a_call_moves_at_the_second_tick_and_only_while_it_is_with_its_caller() {
        let stay = Stay::new(true);
        let mut moves = stay.at_each_tick();
        assert_eq!([moves(), moves(), moves()], [false, true, true]);
        stay.end();
        assert!(!moves());
        let mut moves = Stay::new(false).at_each_tick();
        assert_eq!([moves(), moves(), moves()], [false; 3]);
    }
}
