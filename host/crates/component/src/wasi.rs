//! Base WASI, denied by default. The standard libraries of components import it, so it is linked for all of them:
//! without arguments, input, directories, network and environment, with clocks that do not advance and random numbers that
//! repeat. A grant opens the part that belongs to its capability.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::io::AsyncWrite;
use wasmtime::component::{ComponentType, HasData, HasSelf, Lift, Linker, Lower, ResourceTable};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream, WasiCli, WasiCliView};
use wasmtime_wasi::p2::bindings::cli;
use wasmtime_wasi::p2::bindings::io::{error, poll, streams};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, async_trait};

use crate::bindings::{progress, types};
use crate::call::State;
use crate::capability::{Grant, GrantedClock, Meters};

/// Most bytes of one write to an output.
const WRITE: usize = 64 << 10;

/// Links the interfaces that every component may import and no capability governs.
///
/// # Errors
///
/// An error of the engine if an interface is linked twice.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    error::add_to_linker::<State, HasTable>(linker, |state| &mut state.table)?;
    poll::add_to_linker::<State, HasTable>(linker, |state| &mut state.table)?;
    streams::add_to_linker::<State, HasTable>(linker, |state| &mut state.table)?;

    cli::exit::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stdin::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stdout::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stderr::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(linker, State::cli)?;

    types::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    progress::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    for name in LOGGING {
        linker.instance(name)?.func_wrap("log", |mut store, (level, context, message)| {
            let (level, context, message): (LogLevel, String, String) = (level, context, message);
            let separator = if context.is_empty() { "" } else { ": " };
            let call = &mut store.data_mut().call;
            call.log(level.word(), &format!("{context}{separator}{message}"));
            Ok(())
        })?;
    }
    Ok(())
}

/// The interface of `wasi:logging` under the names by which components are built against it.
///
/// Its lines go where those of `progress` and of standard error go, and count against the same limit of the grant
/// (`log_bytes`). A right of its own would protect nothing, because a component without it has the other two.
pub(crate) const LOGGING: [&str; 2] = ["wasi:logging/logging@0.1.0-draft", "wasi:logging/logging"];

/// The level of a line of `wasi:logging`.
#[derive(Debug, Clone, Copy, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "the engine makes the value of the component's number")]
enum LogLevel {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
    #[component(name = "critical")]
    Critical,
}

impl LogLevel {
    /// Returns the level of the component's log that comes nearest.
    fn word(self) -> &'static str {
        match self {
            Self::Trace | Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn | Self::Error | Self::Critical => "warn",
        }
    }
}

/// The interface has types and no functions.
impl types::Host for State {}

struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

/// The WASI context of one store, with its standard output and its standard error. Each output holds the first
/// `log_bytes` bytes.
pub(crate) fn context(grant: &Grant, meters: &Arc<Meters>) -> (WasiCtx, Output, Output) {
    let limits = &grant.limits;
    let (stdout, stderr) = (Output::new(limits.log_bytes), Output::new(limits.log_bytes));
    let clock = || {
        let meters = Arc::clone(meters);
        GrantedClock { level: grant.clock, began: Instant::now(), meters }
    };
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

/// An output that accepts every write and holds the first bytes.
#[derive(Clone)]
pub(crate) struct Output {
    most: usize,
    start: Arc<Mutex<Vec<u8>>>,
}

impl Output {
    fn new(most: u64) -> Self {
        Self { most: usize::try_from(most).unwrap_or(usize::MAX), start: Arc::default() }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.start.lock().unwrap_or_else(PoisonError::into_inner))
            .into_owned()
    }

    fn take(&self, bytes: &[u8]) {
        let mut start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        let room = self.most.saturating_sub(start.len()).min(bytes.len());
        start.extend_from_slice(&bytes[..room]);
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
        // Only versions of WASI that are not linked call this function.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}
