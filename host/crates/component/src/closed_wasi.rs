//! Base WASI: linked, because every guest's standard library imports it, and closed where no grant opens it.
//! No arguments, no input, no directory, no network; without a grant no environment, time stands still and chance
//! repeats itself, so two runs on the same answers are the same run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::bindings::cli::environment;
use wasmtime_wasi::p2::bindings::random::random;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, async_trait};

use super::admission::Capability;
use super::failure::{Ended, Limit};
use super::grant::{self, Grant, Random};
use super::state::State;
use super::usage::Usage;
use act_core::secret::Secrets;

/// Bytes that one write to an output may hold.
const WRITE: usize = 64 << 10;

/// The context of one store; the outputs keep the first `log_bytes` each.
pub(super) fn context(grant: &Grant, usage: &Usage) -> (WasiCtx, Output, Output) {
    let limits = &grant.limits;
    let (stdout, stderr) = (Output::new(limits.log_bytes), Output::new(limits.log_bytes));
    let clock = || Clock { level: grant.clock, began: Instant::now(), usage: usage.clone() };
    let mut wasi = WasiCtx::builder();
    wasi.allow_blocking_current_thread(true)
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .wall_clock(clock())
        .monotonic_clock(clock())
        .insecure_random(StdRng::seed_from_u64(1))
        .insecure_random_seed(0)
        .max_random_size(limits.host_call_bytes);
    (wasi.build(), stdout, stderr)
}

/// What `wasi:random/random` gives; what calls itself insecure repeats in any case.
pub(super) fn random(granted: Random) -> StdRng {
    match granted {
        Random::Seeded => StdRng::seed_from_u64(0),
        Random::Secure => rand::make_rng(),
    }
}

/// Steps of a coarse clock since the query began, in nanoseconds.
const STEP: u64 = 10_000_000;

/// Both clocks, as finely as the grant `clock` says.
struct Clock {
    level: grant::Clock,
    began: Instant,
    usage: Usage,
}

impl Clock {
    /// What it shows, where it shows anything.
    fn read<T: Default>(&self, coarse: impl FnOnce() -> T, precise: impl FnOnce() -> T) -> T {
        let read = match self.level {
            grant::Clock::Constant => return T::default(),
            grant::Clock::Coarse => coarse(),
            grant::Clock::Precise => precise(),
        };
        self.usage.of(Capability::Clock);
        read
    }
}

impl HostWallClock for Clock {
    fn resolution(&self) -> Duration {
        match self.level {
            grant::Clock::Precise => Duration::from_nanos(1),
            _ => Duration::from_secs(1),
        }
    }

    fn now(&self) -> Duration {
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.read(|| Duration::from_secs(now().as_secs()), now)
    }
}

impl HostMonotonicClock for Clock {
    fn resolution(&self) -> u64 {
        if self.level == grant::Clock::Coarse { STEP } else { 1 }
    }

    fn now(&self) -> u64 {
        let passed = || u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.read(|| passed() / STEP * STEP, passed)
    }
}

impl environment::Host for State {
    /// The granted variables that are set. A key of ours stays here under whatever name it stands.
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        let secrets = Secrets::of(|name| std::env::var(name).ok());
        let names = self.query.grant.env.values();
        let set =
            names.filter_map(|name| Some((name.to_string(), std::env::var(name.as_str()).ok()?)));
        let (withheld, set): (Vec<_>, Vec<_>) = set.partition(|(_, value)| secrets.are_in(value));
        for (name, _) in withheld {
            let object = format!("{name}: it holds a key of the host");
            self.query.denials.deny(Capability::Env.name(), &object);
        }
        self.query.usage.env(set.iter().map(|(name, _)| name.as_str()));
        Ok(set)
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(vec![])
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}

impl random::Host for State {
    fn get_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        if length > self.query.grant.limits.host_call_bytes {
            return Err(Ended::Over(Limit::HostCall).into());
        }
        self.note_random();
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        self.random.fill_bytes(&mut bytes);
        Ok(bytes)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.note_random();
        Ok(self.random.next_u64())
    }
}

impl State {
    fn note_random(&self) {
        if self.query.grant.random == Random::Secure {
            self.query.usage.of(Capability::Random);
        }
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
