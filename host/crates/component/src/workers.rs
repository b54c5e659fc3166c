//! The threads of calls that may wait, or that have been on the thread of their caller for too long. A thread is kept after
//! its call for the next one, because a short call should not pay for a new thread and its runtime. Each call still has a
//! store of its own, so nothing of a component is kept.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, Builder, ThreadId};
use std::time::Duration;

use tokio::runtime::Runtime;

/// Maximum number of threads that wait for a call: the Editor's reads and Scouts that run side by side.
pub(crate) const MAX_IDLE: usize = 8;
/// Time after which a thread that got no call ends.
const IDLE: Duration = Duration::from_secs(10);

/// One call, which runs to its end on a thread with a runtime. It answers whether the thread may run another call.
pub(crate) type Work = Box<dyn FnOnce(&Runtime) -> Fate + Send>;

/// Says whether a thread may run another call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    /// The call was stopped, so something of it may still hang on the thread.
    End,
}

/// The threads of one host that wait for a call. Clones share them. They end with the last clone.
#[derive(Clone, Default)]
pub(crate) struct Workers(Arc<Idle>);

/// Each thread that waits, with the way to send it a call. A thread takes itself out before it ends.
type Idle = Mutex<Vec<(ThreadId, Sender<Work>)>>;

impl Workers {
    /// Number of threads that wait for a call.
    #[cfg(test)]
    pub(crate) fn idle(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Runs the work on a thread that waits, or on a new one. A thread that runs another call, or overran and was given
    /// up, is never waited for.
    ///
    /// # Errors
    ///
    /// The system starts no thread, or its runtime cannot be made.
    pub(crate) fn run(&self, mut work: Work) -> io::Result<()> {
        loop {
            let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((_, worker)) = waiting else { break };
            match worker.send(work) {
                Ok(()) => return Ok(()),
                // The thread has ended, so another one takes the call.
                Err(SendError(back)) => work = back,
            }
        }
        // The runtime has timers for a component that sleeps, and no I/O driver because nothing here waits for a socket.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let idle = Arc::downgrade(&self.0);
        Builder::new().name("component call".to_owned()).spawn(move || {
            let mut next = Some(work);
            while let Some(work) = next.take() {
                if work(&runtime) == Fate::Keep && runtime.metrics().num_alive_tasks() == 0 {
                    next = wait(&idle, IDLE);
                }
            }
        })?;
        Ok(())
    }
}

/// Waits so long for the next call. Returns `None` if the thread shall end.
fn wait(idle: &Weak<Idle>, patience: Duration) -> Option<Work> {
    let (sender, work): (Sender<Work>, Receiver<Work>) = channel();
    {
        let idle = idle.upgrade()?;
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= MAX_IDLE {
            return None;
        }
        idle.push((thread::current().id(), sender));
    }
    match work.recv_timeout(patience) {
        Ok(work) => Some(work),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => {
            let idle = idle.upgrade()?;
            let mut waiting = idle.lock().unwrap_or_else(PoisonError::into_inner);
            let this = thread::current().id();
            if let Some(at) = waiting.iter().position(|(thread, _)| *thread == this) {
                waiting.swap_remove(at);
                return None;
            }
            drop(waiting);
            drop(idle);
            // Somebody has chosen this thread in this moment, so a call is on its way.
            work.recv().ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs work on a thread, and returns the thread when the work has ended.
    fn thread_of(workers: &Workers, fate: Fate) -> ThreadId {
        let (sender, ran) = channel();
        let work = move |_: &Runtime| {
            sender.send(thread::current().id()).unwrap();
            fate
        };
        workers.run(Box::new(work)).unwrap();
        ran.recv().unwrap()
    }

    /// Waits until this number of threads wait for a call.
    fn settle(workers: &Workers, count: usize) {
        let begun = std::time::Instant::now();
        while workers.idle() != count {
            assert!(begun.elapsed() < Duration::from_secs(30), "{count} threads do not wait");
            thread::sleep(Duration::from_millis(1));
        }
    }

    // CAPABILITY-14
    #[test]
    fn the_next_call_runs_on_the_thread_of_the_one_before() {
        let workers = Workers::default();
        let first = thread_of(&workers, Fate::Keep);
        settle(&workers, 1);
        assert_eq!(thread_of(&workers, Fate::Keep), first);
        settle(&workers, 1);
    }

    // CAPABILITY-14
    #[test]
    fn a_thread_whose_time_is_over_takes_itself_out_and_loses_no_call_that_chose_it() {
        let workers = Workers::default();
        let idle = Arc::downgrade(&workers.0);
        assert!(wait(&idle, Duration::ZERO).is_none());
        assert!(workers.0.lock().unwrap().is_empty());
        // The thread is chosen before its time is over, and the call is sent after it.
        let waits = thread::spawn(move || wait(&idle, Duration::from_millis(200)).is_some());
        settle(&workers, 1);
        let (_, chosen) = workers.0.lock().unwrap().pop().unwrap();
        thread::sleep(Duration::from_millis(400));
        chosen.send(Box::new(|_: &Runtime| Fate::Keep)).unwrap();
        assert!(waits.join().unwrap());
    }

    // CAPABILITY-15, security line 15
    #[test]
    fn a_thread_that_overran_is_given_up_and_another_one_runs_the_next_call() {
        let workers = Workers::default();
        let (go_on, held) = channel::<()>();
        let (begun, begins) = channel();
        workers
            .run(Box::new(move |_| {
                begun.send(thread::current().id()).unwrap();
                let _ = held.recv();
                Fate::End
            }))
            .unwrap();
        let hangs = begins.recv().unwrap();
        let second = thread_of(&workers, Fate::Keep);
        assert_ne!(second, hangs);
        settle(&workers, 1);
        drop(go_on);
        thread::sleep(Duration::from_millis(50));
        settle(&workers, 1);
        assert_eq!(thread_of(&workers, Fate::Keep), second);
    }

    #[test]
    fn a_panic_ends_its_thread_and_no_other_call() {
        let workers = Workers::default();
        let (sender, ran) = channel::<()>();
        let panics = move |_: &Runtime| -> Fate {
            let _held = sender;
            panic!("a test")
        };
        workers.run(Box::new(panics)).unwrap();
        assert!(ran.recv().is_err());
        thread_of(&workers, Fate::Keep);
        settle(&workers, 1);
    }

    #[test]
    fn a_thread_with_a_task_that_is_left_over_runs_no_other_call() {
        let workers = Workers::default();
        let (sender, ran) = channel();
        let leaves = move |runtime: &Runtime| {
            runtime.spawn(std::future::pending::<()>());
            sender.send(thread::current().id()).unwrap();
            Fate::Keep
        };
        workers.run(Box::new(leaves)).unwrap();
        let first = ran.recv().unwrap();
        let second = thread_of(&workers, Fate::Keep);
        settle(&workers, 1);
        assert_ne!(second, first);
        assert_eq!(thread_of(&workers, Fate::Keep), second);
    }
}
