//! stdout and stderr, each written by its own thread behind a bounded queue.
//!
//! The code that reports something does not write it: a pipe whose reader has stopped must not block the work, its time
//! limits, signals and cancellation. When a queue stays full, the oldest lines are dropped, because the end of a task is
//! among the newest, and stderr reports how many are missing. Not `tracing-appender`: it drops the newest lines, does not
//! mark the gap, and never waits for a slow reader.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bytes queued for stdout, which a program reads: more than the events of any usual task.
const DATA: usize = 32 * 1024 * 1024;
/// Bytes queued for stderr, which shows progress.
const PROGRESS: usize = 1024 * 1024;
/// A frame of the live row is dropped when more bytes than this are queued before it.
const LIVE: usize = 64 * 1024;
/// How long a caller waits for a reader that has stopped reading; once, until it reads again.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause before the next attempt on a non-blocking descriptor.
const LATER: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(20);

pub(super) fn stdout() -> QueuedWriter {
    static OUT: OnceLock<QueuedWriter> = OnceLock::new();
    OUT.get_or_init(|| QueuedWriter::new(DATA, None, || Descriptor::Out)).clone()
}

pub(super) fn stderr() -> QueuedWriter {
    static ERR: OnceLock<QueuedWriter> = OnceLock::new();
    ERR.get_or_init(|| QueuedWriter::new(PROGRESS, Some(left_out), || Descriptor::Err)).clone()
}

fn left_out(lines: u64) -> String {
    format!("act: {lines} lines were dropped here, because they were not read in time\n")
}

/// Writes to one stream; clones share its queue.
#[derive(Clone)]
pub(super) struct QueuedWriter(Arc<Shared>);

struct Shared {
    limit: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Used if no thread could be started.
    direct: OnceLock<Mutex<Box<dyn Write + Send>>>,
    /// The message in the place of missing lines.
    left_out: Option<fn(u64) -> String>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The thread is writing a piece.
    busy: bool,
    /// Bytes written so far.
    moved: u64,
    /// Callers do not wait for this reader until it reads again.
    stalled: bool,
    lost: u64,
    broken: Option<ErrorKind>,
}

impl Queue {
    fn idle(&self) -> bool {
        self.broken.is_some() || (self.waiting.is_empty() && !self.busy)
    }

    fn full(&self, more: usize, limit: usize) -> bool {
        !self.waiting.is_empty() && self.bytes.saturating_add(more) > limit
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let piece = self.waiting.pop_front()?;
        self.bytes -= piece.len();
        Some(piece)
    }
}

impl QueuedWriter {
    fn new<W: Write + Send + 'static>(
        limit: usize,
        left_out: Option<fn(u64) -> String>,
        out: impl Fn() -> W,
    ) -> Self {
        let shared = Arc::new(Shared {
            limit,
            queue: Mutex::default(),
            changed: Condvar::new(),
            direct: OnceLock::new(),
            left_out,
        });
        let (pumped, mut writer) = (Arc::clone(&shared), out());
        let thread = std::thread::Builder::new().name("output".into());
        if thread.spawn(move || pumped.pump(&mut writer)).is_err() {
            let _ = shared.direct.set(Mutex::new(Box::new(out())));
        }
        Self(shared)
    }

    /// Queues a piece, which is written as a whole or dropped.
    ///
    /// # Errors
    ///
    /// Fails when the stream is closed.
    pub(super) fn put(&self, piece: &[u8]) -> Result<()> {
        self.0.put(piece)
    }

    /// Queues a frame of the live row, unless older output is still waiting.
    pub(super) fn put_frame(&self, piece: &[u8]) {
        if self.0.queue().bytes < LIVE {
            let _ = self.0.put(piece);
        }
    }

    /// Waits a short time until everything is written, so that output on the other stream appears after it.
    pub(super) fn wait_briefly(&self) {
        let queue = self.0.queue();
        let writing = |queue: &mut Queue| !queue.idle() && !queue.stalled;
        let waited = self.0.changed.wait_timeout_while(queue, PATIENCE, writing);
        let (mut queue, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.stalled |= waited.timed_out();
    }

    /// Waits until everything is written, or until the reader has not read for the time `still`. Returns whether everything
    /// is written.
    pub(super) fn drain(&self, still: Option<Duration>) -> bool {
        let mut queue = self.0.queue();
        let mut last = (queue.moved, Instant::now());
        while !queue.idle() {
            if queue.moved != last.0 {
                last = (queue.moved, Instant::now());
            }
            if still.is_some_and(|still| last.1.elapsed() >= still) {
                return false;
            }
            let woken = self.0.changed.wait_timeout(queue, LOOK);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Returns whether the reader has closed the stream, as far as that was noticed while writing.
    pub(super) fn is_broken(&self) -> bool {
        self.0.queue().broken.is_some()
    }

    /// Returns the number of dropped pieces.
    pub(super) fn lost(&self) -> u64 {
        self.0.queue().lost
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, piece: &[u8]) -> Result<()> {
        if let Some(direct) = self.direct.get() {
            let mut out = direct.lock().unwrap_or_else(PoisonError::into_inner);
            return out.write_all(piece);
        }
        let mut queue = self.queue();
        let full = |queue: &mut Queue| {
            queue.broken.is_none() && queue.full(piece.len(), self.limit) && !queue.stalled
        };
        if full(&mut queue) {
            let waited = self.changed.wait_timeout_while(queue, PATIENCE, full);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.stalled |= full(&mut queue);
        }
        if let Some(kind) = queue.broken {
            return Err(kind.into());
        }
        while queue.full(piece.len(), self.limit) {
            queue.take();
            queue.lost += 1;
        }
        queue.bytes += piece.len();
        queue.waiting.push_back(piece.to_vec());
        self.changed.notify_all();
        Ok(())
    }

    fn pump(&self, out: &mut impl Write) {
        let mut told = 0;
        loop {
            let (piece, lost) = self.next();
            if let (Some(words), true) = (self.left_out, lost > told) {
                self.write(out, words(lost - told).as_bytes());
            }
            told = lost;
            self.write(out, &piece);
            let mut queue = self.queue();
            queue.busy = false;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> (Vec<u8>, u64) {
        let mut queue = self.queue();
        loop {
            if let Some(piece) = queue.take() {
                queue.busy = true;
                return (piece, queue.lost);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&self, out: &mut impl Write, mut piece: &[u8]) {
        while !piece.is_empty() {
            match out.write(piece) {
                Ok(count @ 1..) => {
                    piece = piece.get(count..).unwrap_or_default();
                    let mut queue = self.queue();
                    queue.moved += count as u64;
                    queue.stalled &= queue.bytes > self.limit / 2;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LATER),
                ended => {
                    let mut queue = self.queue();
                    let kind = ended.err().map_or(ErrorKind::WriteZero, |error| error.kind());
                    (queue.broken, queue.bytes) = (Some(kind), 0);
                    queue.waiting.clear();
                    return;
                }
            }
        }
    }
}

impl Write for QueuedWriter {
    fn write(&mut self, piece: &[u8]) -> Result<usize> {
        self.put(piece).map(|()| piece.len())
    }

    /// Does nothing: the thread writes what is queued.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A standard stream without the lock and the buffer of the standard library, so that a blocked thread holds no lock.
enum Descriptor {
    Out,
    Err,
}

impl Write for Descriptor {
    fn write(&mut self, piece: &[u8]) -> Result<usize> {
        let written = match self {
            Self::Out => rustix::io::write(std::io::stdout().as_fd(), piece),
            Self::Err => rustix::io::write(std::io::stderr().as_fd(), piece),
        };
        written.map_err(Error::from)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// A queue of `limit` bytes before a pipe.
    fn piped(limit: usize) -> (std::io::PipeReader, QueuedWriter) {
        let (reader, writer) = std::io::pipe().unwrap();
        let outlet = QueuedWriter::new(limit, Some(|lines| format!("[{lines}]\n")), || {
            writer.try_clone().unwrap()
        });
        (reader, outlet)
    }

    #[test]
    fn nobody_waits_for_a_reader_that_does_not_read() {
        // CLI-33, EVENT-10: longer than one patience, and the newest line is kept
        let (mut reader, outlet) = piped(64 * 1024);
        let began = Instant::now();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        for _ in 0..1000 {
            outlet.put(&line).unwrap();
        }
        outlet.put(b"last\n").unwrap();
        // Hundreds of lines, and one patience for all of them; generous, because machines are shared.
        assert!(began.elapsed() < PATIENCE * 60, "{:?}", began.elapsed());
        assert!(!outlet.drain(Some(LATER)));
        assert!(outlet.lost() > 700, "{}", outlet.lost());
        let reading = std::thread::spawn(move || {
            let (mut text, mut piece) = (vec![], [0; 8192]);
            while !text.ends_with(b"last\n") {
                let count = reader.read(&mut piece).unwrap();
                text.extend_from_slice(&piece[..count]);
            }
            String::from_utf8(text).unwrap()
        });
        assert!(outlet.drain(None), "what is read goes on");
        let text = reading.join().unwrap();
        assert!(text.contains(&format!("\n[{}]\nx", outlet.lost())), "the gap is told");
        assert!(text.lines().all(|line| line.len() == 1023 || line.len() < 8), "whole lines");
    }

    #[test]
    fn all_of_it_arrives_where_somebody_reads_and_none_where_nobody_can() {
        // CLI-7, CLI-33
        let (mut reader, outlet) = piped(1024);
        let reading = std::thread::spawn(move || {
            let mut text = vec![0; 3000 * 100];
            reader.read_exact(&mut text).map(|()| (text, reader)).unwrap()
        });
        for _ in 0..3000 {
            outlet.put(&[b'y'; 100]).unwrap();
        }
        let (text, reader) = reading.join().unwrap();
        assert_eq!((text.len(), outlet.lost()), (300_000, 0));
        drop(reader);
        let gone = (0..).find_map(|_| {
            outlet.wait_briefly();
            outlet.put(b"z").err()
        });
        assert_eq!(gone.unwrap().kind(), ErrorKind::BrokenPipe);
    }
}
