//! Work on the bytes of a stranger in a process of its own, with limits on memory and time.
//!
//! Parsers, validators and compilers were not written for bytes that are meant to harm them, and a thread cannot be ended
//! when it needs too much. The program therefore executes itself with a hidden argument: [`serve`] is what that process
//! does, and [`run`] starts it, sends the component, and ends the process at its limits. Its memory is limited by its address
//! space, which only Linux enforces.
//!
//! The program says once with [`install`] how it is executed. Without that, as in tests of libraries, the work is done in
//! the process itself.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::bounds::MAX_WASM;
use crate::failure::{MAX_LINE, one_line};
use crate::inspect::Inspection;

pub use act_config::CheckLimits;

/// Stack for reading a component, in bytes. It is half of the smallest stack of a thread of this program, on which the same
/// work is done again.
const READ_STACK: usize = 1 << 20;
/// Stack for compiling a component, in bytes.
const COMPILE_STACK: usize = 8 << 20;
/// Maximum size of the result, which is compiled code.
const MAX_RESULT: u64 = 1 << 30;
/// Maximum size of what the process prints about its end.
const MAX_STDERR: u64 = 64 << 10;
/// Number of threads that compile. More threads would need more of the address space, without which they end.
const THREADS: u32 = 4;
/// First bytes of the result.
const DONE: u8 = b'd';
const FAILED: u8 = b'f';

/// What is to be done with a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Read it as [`Inspection::of`] does. The result is empty.
    Inspect,
    /// Compile it. The result is the code.
    Compile,
}

impl Work {
    const ALL: [Self; 2] = [Self::Inspect, Self::Compile];

    /// The word for the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::Compile => "compile",
        }
    }

    /// Returns the work of this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|work| work.word() == word)
    }

    fn stack(self) -> usize {
        match self {
            Self::Inspect => READ_STACK,
            Self::Compile => COMPILE_STACK,
        }
    }

    fn perform(self, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
        match self {
            // An error is found again by the caller, which knows its type.
            Self::Inspect => Ok(Inspection::of(bytes).map_or(vec![], |_| vec![])),
            Self::Compile => crate::engine::on_demand()
                .and_then(|engine| engine.precompile_component(&bytes))
                .map_err(|error| format!("{error:#}")),
        }
    }
}

/// Why work on a component has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfinementError {
    #[error(
        "it needs more than {0} MiB of memory, the limit for a component that you have not approved; `check_memory_mb` of [components] in config.toml is the limit"
    )]
    Memory(u64),
    #[error(
        "it takes more than {0} s, the limit for a component that you have not approved; `check_seconds` of [components] in config.toml is the limit"
    )]
    Time(u64),
    #[error("its types or functions nest too deeply for the stack of {} KiB", .0 >> 10)]
    Stack(usize),
    #[error("the process that checks it ended early: {0}")]
    Ended(String),
    #[error("the process that checks it cannot be started: {0}")]
    NotStarted(String),
    #[error("{0}")]
    Failed(String),
}

/// How the program is executed, and how it reads the limits.
struct Program {
    file: PathBuf,
    arguments: Vec<OsString>,
    limits: Box<dyn Fn() -> Result<CheckLimits, String> + Send + Sync>,
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// Has the work done by this program, executed with these arguments; the name of the [`Work`] and the limits are added to
/// them. `limits` is called when the first component is checked. Only the first call counts.
pub fn install(
    arguments: Vec<OsString>,
    limits: impl Fn() -> Result<CheckLimits, String> + Send + Sync + 'static,
) {
    // The link leads to the file that is being executed, also after another one was put into its place.
    let running = PathBuf::from("/proc/self/exe");
    let file = if running.exists() { Some(running) } else { std::env::current_exe().ok() };
    if let Some(file) = file {
        let _ = PROGRAM.set(Program { file, arguments, limits: Box::new(limits) });
    }
}

/// Does the work in a process with limits.
///
/// # Errors
///
/// The limit that was reached, or why the work has failed.
pub(crate) fn run(work: Work, bytes: &[u8]) -> Result<Vec<u8>, ConfinementError> {
    match PROGRAM.get() {
        None => work.perform(bytes.to_vec()).map_err(ConfinementError::Failed),
        Some(program) => {
            let limits = (program.limits)().map_err(ConfinementError::NotStarted)?;
            program.run(work, bytes, limits)
        }
    }
}

impl Program {
    fn run(
        &self,
        work: Work,
        bytes: &[u8],
        limits: CheckLimits,
    ) -> Result<Vec<u8>, ConfinementError> {
        let not_started = |error: io::Error| ConfinementError::NotStarted(error.to_string());
        let mut command = Command::new(&self.file);
        command
            .args(&self.arguments)
            .arg(work.word())
            .arg(limits.memory_mb.to_string())
            .arg(limits.seconds.to_string())
            // No key and no setting is visible, and the allocator reserves little of the address space.
            .env_clear()
            .env("MALLOC_ARENA_MAX", "2")
            .env("RAYON_NUM_THREADS", THREADS.to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = Started(command.spawn().map_err(not_started)?);
        let deadline = Instant::now() + Duration::from_secs(limits.seconds);
        let (stdin, stdout, stderr) =
            (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
        let (result, printed, status) = thread::scope(|scope| {
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(bytes)));
            let result = scope.spawn(move || read_at_most(stdout, MAX_RESULT));
            let printed = scope.spawn(move || read_at_most(stderr, MAX_STDERR));
            // The pipes end with the process, and the threads with the pipes.
            let status = child.wait_until(deadline);
            (result.join().unwrap_or_default(), printed.join().unwrap_or_default(), status)
        });
        let Some(status) = status.map_err(not_started)? else {
            return Err(ConfinementError::Time(limits.seconds));
        };
        match result.split_first() {
            Some((&DONE, result)) if status.success() => Ok(result.to_vec()),
            Some((&FAILED, why)) if status.success() => {
                let why = one_line(&String::from_utf8_lossy(why), MAX_LINE);
                Err(ConfinementError::Failed(why))
            }
            _ => Err(ended(work, status, &String::from_utf8_lossy(&printed), limits)),
        }
    }
}

/// The process, which is ended when this value is dropped.
struct Started(Child);

impl Started {
    /// Waits for the end of the process; `None` if it was ended at the deadline.
    fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        // Most components take milliseconds, and a longer pause costs nothing where they take seconds.
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                self.0.kill()?;
                self.0.wait()?;
                return Ok(None);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_at_most(from: Option<impl Read>, most: u64) -> Vec<u8> {
    let mut bytes = vec![];
    if let Some(mut from) = from {
        let _ = from.by_ref().take(most).read_to_end(&mut bytes);
        // What is beyond is read as well, so that the process does not wait for ever.
        let _ = io::copy(&mut from, &mut io::sink());
    }
    bytes
}

/// Returns why a process ended without a result. The texts are those of the standard library and of its allocator.
fn ended(work: Work, status: ExitStatus, printed: &str, limits: CheckLimits) -> ConfinementError {
    if status.signal() == Some(Signal::XCPU.as_raw()) {
        return ConfinementError::Time(limits.seconds);
    }
    if printed.contains("has overflowed its stack") {
        return ConfinementError::Stack(work.stack());
    }
    let no_memory = ["memory allocation of", "Cannot allocate memory", "out of memory"];
    if no_memory.iter().any(|words| printed.contains(words))
        || status.signal() == Some(Signal::KILL.as_raw())
    {
        return ConfinementError::Memory(limits.memory_mb);
    }
    let last = printed.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    ConfinementError::Ended(one_line(&format!("{status} {last}"), MAX_LINE))
}

/// Does the work on the component in the standard input and writes the result to the standard output. This is what the
/// process with limits does.
///
/// # Errors
///
/// The limits cannot be set, the component cannot be read, or the result cannot be written.
pub fn serve(work: Work, limits: CheckLimits) -> io::Result<()> {
    confine(limits)?;
    let mut bytes = vec![];
    io::stdin().lock().take(MAX_WASM + 1).read_to_end(&mut bytes)?;
    let thread = Builder::new().stack_size(work.stack()).spawn(move || work.perform(bytes))?;
    // The panic was printed, and the caller quotes its last line.
    let performed = thread.join().map_err(|_| io::Error::other("a panic"))?;
    let (word, result) = match performed {
        Ok(result) => (DONE, result),
        Err(why) => (FAILED, why.into_bytes()),
    };
    let mut out = io::stdout().lock();
    out.write_all(&[word])?;
    out.write_all(&result)?;
    out.flush()
}

/// Limits this process: its memory, its processor time, and that it writes no file. It ends with the process that started it.
fn confine(limits: CheckLimits) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Several threads compile, and each second of each one counts.
    let processor = limits.seconds.saturating_mul(u64::from(THREADS));
    for (resource, limit) in [
        (Resource::As, limits.memory_mb << 20),
        (Resource::Cpu, processor),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ] {
        // A limit that this process has already may be lower, and cannot be raised.
        let lower = getrlimit(resource).maximum.map_or(limit, |maximum| maximum.min(limit));
        setrlimit(resource, Rlimit { current: Some(lower), maximum: Some(lower) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CheckLimits = CheckLimits { memory_mb: 64, seconds: 7 };

    // CAPABILITY-50, security line 302
    #[test]
    fn each_end_of_the_process_names_its_limit() {
        let signal = |signal: Signal| ExitStatus::from_raw(signal.as_raw());
        let ended = |status, printed| ended(Work::Inspect, status, printed, LIMITS);
        let overflow = "\nthread '<unnamed>' has overflowed its stack\nfatal runtime error";
        assert_eq!(ended(signal(Signal::ABORT), overflow), ConfinementError::Stack(READ_STACK));
        let memory = ended(signal(Signal::ABORT), "memory allocation of 1073741824 bytes failed");
        assert_eq!(memory, ConfinementError::Memory(64));
        assert!(memory.to_string().contains("64 MiB"), "{memory}");
        assert_eq!(ended(signal(Signal::KILL), ""), ConfinementError::Memory(64));
        let time = ended(signal(Signal::XCPU), "");
        assert_eq!(time, ConfinementError::Time(7));
        assert!(time.to_string().contains("check_seconds"), "{time}");
        let other = ended(ExitStatus::from_raw(1 << 8), "thread panicked\nat x\u{1b}[0m\n");
        assert_eq!(other.to_string().matches(char::is_control).count(), 0, "{other}");
    }

    /// A program that answers for the process: `sh` with a script, which gets the work and the limits as arguments.
    fn program(script: &str) -> Program {
        let arguments = ["-c", script, "sh"].map(OsString::from).to_vec();
        Program { file: "/bin/sh".into(), arguments, limits: Box::new(|| Ok(LIMITS)) }
    }

    // CAPABILITY-50
    #[test]
    fn the_process_gets_the_bytes_and_its_limits_and_sees_no_variable() {
        let run = |script| program(script).run(Work::Compile, b"bytes", LIMITS);
        assert_eq!(run("printf d; cat").unwrap(), b"bytes");
        assert_eq!(run(r#"printf "d$1 $2 $3 $HOME""#).unwrap(), b"compile 64 7 ");
        assert_eq!(run("printf fwhy").unwrap_err(), ConfinementError::Failed("why".to_owned()));
        for early in ["", "printf d; exit 3", "exit 0", "printf x"] {
            assert!(matches!(run(early).unwrap_err(), ConfinementError::Ended(_)), "{early}");
        }
    }

    // CAPABILITY-50, security line 302
    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let limits = CheckLimits { seconds: 1, ..LIMITS };
        let run = program("cat >/dev/null; exec sleep 600").run(Work::Inspect, b"", limits);
        assert_eq!(run.unwrap_err(), ConfinementError::Time(1));
    }
}
