//! Base WASI as a component gets it without a grant: linked, because every guest's standard library imports
//! it, and closed. No arguments, no environment, no input, no directory, no network; time stands still and
//! chance repeats itself, so two runs on the same answers are the same run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, async_trait};

/// Bytes that one write to an output may hold.
const WRITE: usize = 64 << 10;

/// The context of one store; the outputs keep the first `log_bytes` each.
pub(super) fn context(log_bytes: u64, random_bytes: u64) -> (WasiCtx, Output, Output) {
    let (stdout, stderr) = (Output::new(log_bytes), Output::new(log_bytes));
    let mut wasi = WasiCtx::builder();
    wasi.allow_blocking_current_thread(true)
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .wall_clock(Stopped)
        .monotonic_clock(Stopped)
        .secure_random(StdRng::seed_from_u64(0))
        .insecure_random(StdRng::seed_from_u64(1))
        .insecure_random_seed(0)
        .max_random_size(random_bytes);
    (wasi.build(), stdout, stderr)
}

/// A clock without the grant `clock`.
struct Stopped;

impl HostWallClock for Stopped {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for Stopped {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Takes everything that a guest prints and keeps the beginning.
#[derive(Clone)]
pub(super) struct Output {
    most: usize,
    kept: Arc<Mutex<Vec<u8>>>,
}

impl Output {
    fn new(most: u64) -> Self {
        Self { most: usize::try_from(most).unwrap_or(usize::MAX), kept: Arc::default() }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept.lock().unwrap_or_else(PoisonError::into_inner))
            .into_owned()
    }

    fn take(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = self.most.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(&bytes[..room]);
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE)
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only asked for by generations of WASI that are not linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}
