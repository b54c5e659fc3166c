//! One step: it runs as an exec in the container of the run, its output goes to the logs, and its result counts only when
//! the engine says that the exec has ended and the container has not.

use crate::blocking::blocking;
use crate::container::Container;
use crate::docker_error::EngineError;
use crate::docker_error::Phase;
use crate::engine::QUICK;
use crate::engine::WORK;
use crate::no_tests::no_tests_ran;
use crate::oom::Kills;
use crate::pipeline::Gate;
use crate::pipeline::KILLED;
use crate::pipeline::StepEnd;
use crate::pipeline::StepReport;
use crate::pipeline::StepRunner;
use crate::remote_engine::VolumeStore;
use crate::source_writes::TreeDiff;
use crate::source_writes::Writes;
use crate::view::View;
use crate::view::relative_to_repo;
use act_config::Step;
use act_core::event::EventKind;
use act_core::event::Events;
use act_core::event::StepOutput;
use act_core::verification::ErrorType;
use act_core::verification::InfraError;
use act_core::verification::Warning;
use act_core::verification::WarningCode;
use act_records::artifacts::RunDir;
use act_records::artifacts::log_name;
use bollard::container::LogOutput;
use bollard::exec::StartExecOptions;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use std::fs::File;
use std::io;
use std::io::Write;
use std::time::Duration;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// For what a killed container had still printed.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// The first of the pauses between questions to an exec that closed its output but goes on.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// What a shell says of a command that cannot run.
const NOT_EXECUTABLE: i64 = 126;

pub(crate) struct ContainerSteps<'a> {
    pub(crate) container: &'a Container,
    pub(crate) gate: &'a Gate,
    pub(crate) view: View,
    /// Away only while it looks.
    pub(crate) watch: Option<TreeDiff>,
    /// Where the tree is, if not on this machine.
    pub(crate) store: Option<&'a VolumeStore>,
    pub(crate) run: &'a RunDir,
    pub(crate) log: &'a mut RunLog,
    pub(crate) events: &'a Events,
    pub(crate) cancel: &'a CancellationToken,
    /// Of the step that runs.
    pub(crate) warnings: Vec<Warning>,
    /// Networks taken away for a step without; given back for the next one with.
    pub(crate) detached: Option<Vec<String>>,
}

/// Why a step ends other than by its exit code.
enum Broken {
    TimedOut,
    Infra(InfraError),
}

impl From<EngineError> for Broken {
    fn from(error: EngineError) -> Self {
        Self::Infra(error.into())
    }
}

impl StepRunner for ContainerSteps<'_> {
    fn run<'a>(&'a mut self, number: usize, step: &'a Step) -> BoxFuture<'a, StepReport> {
        Box::pin(async move {
            let seen = self.container.oom.so_far();
            let began = Instant::now();
            let end = self.execute(number, step).await;
            let duration = began.elapsed();
            let (mut end, oom) = self.examine(step, end, seen).await;
            let cancel = self.cancel;
            let writes = tokio::select! {
                biased;
                // Fetching a large tree takes its time.
                () = cancel.cancelled() => None,
                writes = self.written(&end) => Some(writes),
            };
            let writes = match writes {
                Some(Ok(writes)) => writes,
                None => {
                    end = StepEnd::Cancelled;
                    Writes::default()
                }
                Some(Err(error)) => {
                    end = StepEnd::Infra(error);
                    Writes::default()
                }
            };
            if matches!(end, StepEnd::Exited(0)) {
                // The engine hears of the container's end a little later than the step's own shell.
                match self.container.state().await {
                    Ok(state) if state.running => {}
                    Ok(state) => end = StepEnd::Infra(gone(step, state.oom_killed)),
                    Err(error) => end = StepEnd::Infra(error.into()),
                }
            }
            self.events.emit(EventKind::StepFinished {
                run_id: self.run.id().to_string(),
                name: step.name.clone(),
                exit_code: match end {
                    StepEnd::Exited(code) => Some(code),
                    _ => None,
                },
                duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            });
            let warnings = std::mem::take(&mut self.warnings);
            StepReport { end, oom, duration, writes, warnings }
        })
    }
}

impl ContainerSteps<'_> {
    async fn execute(&mut self, number: usize, step: &Step) -> StepEnd {
        let logged = |error: std::io::Error| {
            StepEnd::Infra(InfraError::from_io("write the step's log", &error))
        };
        if let Err(error) = self.log.begin(self.run, number, &step.name) {
            return logged(error);
        }
        let cancel = self.cancel;
        let end = tokio::select! {
            biased;
            () = cancel.cancelled() => StepEnd::Cancelled,
            end = self.attempt(number, step) => match end {
                Ok(code) => StepEnd::Exited(code),
                Err(Broken::TimedOut) => StepEnd::TimedOut,
                Err(Broken::Infra(error)) => StepEnd::Infra(error),
            },
        };
        self.listen(step, &end);
        match self.log.end() {
            Err(error) if end != StepEnd::Cancelled => logged(error),
            _ => end,
        }
    }

    /// What the step's output says beside its exit code.
    fn listen(&mut self, step: &Step, end: &StepEnd) {
        let Some(output) = self.log.heard() else { return };
        let mut warn = |code: WarningCode, message: String| {
            let step = Some(step.name.clone());
            self.warnings.push(Warning { code, step, message });
        };
        match end {
            StepEnd::Exited(0) => {
                if let Some(runner) = no_tests_ran(&step.command, &output) {
                    warn(
                        WarningCode::NoTestsRan,
                        format!("step {:?} ran no test ({runner})", step.name),
                    );
                }
            }
            _ => {
                if let Some(message) = needs_writable_view(self.view, &output) {
                    warn(WarningCode::NeedsWritableView, message);
                }
            }
        }
    }

    /// What the step did to the source; of a run that is over anyway nobody asks.
    async fn written(&mut self, end: &StepEnd) -> Result<Writes, InfraError> {
        if !matches!(end, StepEnd::Exited(_) | StepEnd::TimedOut) {
            return Ok(Writes::default());
        }
        let Some(mut watch) = self.watch.take() else { return Ok(Writes::default()) };
        let failed =
            |error: std::io::Error| InfraError::from_io("compare the view with the source", &error);
        let (watch, looked) = match self.store.filter(|_| watch.is_elsewhere()) {
            Some(store) => {
                let read = store.read_tree(move |archive| {
                    let looked = watch.look_into(archive);
                    Ok((watch, looked))
                });
                read.await?
            }
            None => {
                let looked = blocking(move || {
                    let looked = watch.look();
                    Ok((watch, looked))
                });
                looked.await.map_err(failed)?
            }
        };
        self.watch = Some(watch);
        looked.map_err(failed)
    }

    async fn attempt(&mut self, number: usize, step: &Step) -> Result<i64, Broken> {
        self.set_network(step.network).await?;
        let container = self.container;
        let (engine, docker) = (&container.engine, &container.engine.docker);
        let create = docker.create_exec(&container.name, exec(self.gate, self.view, step));
        let exec = match engine.call(Phase::Exec, WORK, create).await {
            Ok(created) => created.id,
            Err(error) => return Err(self.ended_early(number, error).await),
        };
        let options =
            StartExecOptions { detach: false, tty: false, output_capacity: Some(64 * 1024) };
        match engine.call(Phase::Exec, WORK, docker.start_exec(&exec, Some(options))).await {
            Ok(StartExecResults::Attached { mut output, .. }) => {
                let limit = tokio::time::sleep(self.gate.step_timeout);
                tokio::pin!(limit);
                let ended = async {
                    self.read(&mut output, step).await?;
                    self.exit_code(&exec, step).await
                };
                let ended = tokio::select! {
                    ended = ended => Some(ended),
                    () = limit => None,
                };
                match ended {
                    Some(ended) => ended,
                    None => {
                        // An exec cannot be killed, and what it started could outlive a polite signal: the
                        // container goes.
                        container.kill().await?;
                        let last = self.read(&mut output, step);
                        let _ = tokio::time::timeout(LAST_WORDS, last).await;
                        Err(Broken::TimedOut)
                    }
                }
            }
            // We never ask for it.
            Ok(StartExecResults::Detached) => self.exit_code(&exec, step).await,
            Err(error) if error.status().is_some() && container.state().await?.running => {
                // The engine is well and so is the container: what cannot run is the step's own making.
                let words = format!("{}\n", error.message);
                self.write(Bytes::from(words)).map_err(Broken::Infra)?;
                let found = engine.call(Phase::Inspect, QUICK, docker.inspect_exec(&exec)).await?;
                Ok(found.exit_code.filter(|code| *code != 0).unwrap_or(NOT_EXECUTABLE))
            }
            Err(error) => Err(self.ended_early(number, error).await),
        }
    }

    async fn set_network(&mut self, on: bool) -> Result<(), EngineError> {
        match (on, self.detached.take()) {
            (true, Some(networks)) => self.container.attach(&networks).await,
            (false, None) => {
                self.detached = Some(self.container.detach().await?);
                Ok(())
            }
            (_, unchanged) => {
                self.detached = unchanged;
                Ok(())
            }
        }
    }

    /// Reads to the end of the stream, which says nothing about how the step ended.
    async fn read(
        &mut self,
        output: &mut (impl Stream<Item = Result<LogOutput, bollard::errors::Error>> + Unpin),
        step: &Step,
    ) -> Result<(), Broken> {
        while let Some(Ok(frame)) = output.next().await {
            if matches!(frame, LogOutput::Console { .. }) {
                // Not a frame of this protocol: the stream was cut within one.
                self.warnings.push(Warning {
                    code: WarningCode::LogIncomplete,
                    step: Some(step.name.clone()),
                    message: "the engine's output stream was cut; the log may lack its end"
                        .to_owned(),
                });
            }
            self.write(frame.into_bytes()).map_err(Broken::Infra)?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: Bytes) -> Result<(), InfraError> {
        self.log
            .write(&bytes)
            .map_err(|error| InfraError::from_io("write the step's log", &error))?;
        self.events.emit(EventKind::StepOutput(StepOutput(bytes)));
        Ok(())
    }

    /// A result counts only when the engine says that the exec has ended and that the container has not: an
    /// engine that dies, or a container that somebody removes, ends the stream just the same.
    async fn exit_code(&self, exec: &str, step: &Step) -> Result<i64, Broken> {
        let engine = &self.container.engine;
        let mut pause = FIRST_PAUSE;
        loop {
            let asked = engine.call(Phase::Inspect, QUICK, engine.docker.inspect_exec(exec)).await;
            let found = match asked {
                Ok(found) => Some(found),
                // The exec is gone with its container.
                Err(error) if error.status().is_some() => None,
                Err(error) => return Err(error.into()),
            };
            let state = self.container.state().await?;
            if !state.running {
                return Err(Broken::Infra(gone(step, state.oom_killed)));
            }
            let ended = found.filter(|found| found.running == Some(false));
            if let Some(code) = ended.and_then(|found| found.exit_code) {
                return Ok(code);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn exec(gate: &Gate, view: View, step: &Step) -> ExecConfig {
    let root = view.root();
    let directory = match gate.package.as_deref() {
        Some(package) => format!("{root}/{package}"),
        None => root.to_owned(),
    };
    // Two pipes would lose the order of the two streams, so the outer shell makes them one; the inner one is
    // what the pipeline promises: `/bin/sh -c COMMAND`.
    let merged = r#"exec /bin/sh -c "$1" 2>&1"#;
    let command = ["/bin/sh", "-c", merged, "sh", &step.command];
    ExecConfig {
        attach_stdin: Some(false),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        cmd: Some(command.map(str::to_owned).to_vec()),
        working_dir: Some(directory),
        ..ExecConfig::default()
    }
}

/// Below this a failed step is blamed on the disk.
const FREE_SPACE: u64 = 1024 * 1024;

impl ContainerSteps<'_> {
    async fn ended_early(&self, number: usize, error: EngineError) -> Broken {
        if error.unreachable() {
            return error.into();
        }
        match self.container.state().await {
            Ok(state) if !state.running && number == 1 && !state.oom_killed => {
                Broken::Infra(InfraError::new(
                    ErrorType::ContainerCreation,
                    "the container ended before the first step; an image needs `sleep` and a working /bin/sh",
                ))
            }
            Ok(state) if !state.running => {
                let step = self.gate.pipeline.steps.get(number - 1);
                Broken::Infra(
                    step.map_or_else(|| error.into(), |step| gone(step, state.oom_killed)),
                )
            }
            Ok(_) => error.into(),
            Err(error) => error.into(),
        }
    }

    /// What was behind a step's failure: memory, the disk, or the end of the container? A failed step ends the
    /// run, so the container may go to find out.
    async fn examine(&mut self, step: &Step, end: StepEnd, seen: Kills) -> (StepEnd, bool) {
        let oom = &self.container.oom;
        let mut killed = oom.since(seen);
        let StepEnd::Exited(code) = end else { return (end, killed == Some(true)) };
        if code == 0 {
            return (end, killed == Some(true));
        }
        if code == KILLED {
            // Whoever ends the container kills the step first, and the engine tells of it a little later.
            if killed != Some(true) && oom.event_since(seen).await {
                killed = Some(true);
            }
            match self.container.state().await {
                Ok(state) if state.running => {}
                Ok(state) => {
                    let killed = killed == Some(true);
                    return (StepEnd::Infra(gone(step, killed || state.oom_killed)), killed);
                }
                Err(error) => return (StepEnd::Infra(error.into()), killed == Some(true)),
            }
        }
        if killed.is_none() && seen.none() {
            // The flag speaks of the whole container, so it counts only while no earlier step had an event.
            if let Err(error) = self.container.kill().await {
                return (StepEnd::Infra(error.into()), false);
            }
            killed = self.container.state().await.ok().map(|state| state.oom_killed);
        }
        let killed = killed == Some(true);
        match self.run.free_space() {
            Ok(free) if free < FREE_SPACE => {
                let error = InfraError::new(
                    ErrorType::ResourceExhaustion,
                    "the disk of the artifact directory is full; make room and run again",
                );
                (StepEnd::Infra(error), killed)
            }
            _ => (end, killed),
        }
    }
}

pub(crate) fn gone(step: &Step, oom_killed: bool) -> InfraError {
    if oom_killed {
        InfraError::new(
            ErrorType::ResourceExhaustion,
            format!(
                "the container ran out of memory in step {:?}; raise verification.limits.memory_mb in \
                 agent.yaml",
                step.name
            ),
        )
    } else {
        InfraError::new(
            ErrorType::Unknown,
            format!(
                "the container ended while step {:?} ran, and not by this run; was it removed, or the \
                 engine restarted?",
                step.name
            ),
        )
    }
}

/// A step that wanted to write where a view has nothing writable. npm says that the directory is missing.
fn needs_writable_view(view: View, output: &str) -> Option<String> {
    const SIGNS: [&str; 4] =
        ["Read-only file system", "EROFS", "read-only file system", "os error 30"];
    let mkdir = |line: &str| line.contains("ENOENT") && line.contains("mkdir '/workspace");
    let met = SIGNS.iter().any(|sign| output.contains(sign)) || output.lines().any(mkdir);
    (view == View::Readonly && met).then(|| {
        "a step wanted to write into the repository, which is read-only here; set verification.workspace \
         in agent.yaml to copy or overlay"
            .to_owned()
    })
}

/// Exact up to here, per step.
const HEAD: u64 = 64 * 1024 * 1024;
/// Kept of what comes after.
const TAIL: usize = 1024 * 1024;

/// As much of a step's output is looked at for what it says about tests.
const HEARD: usize = 256 * 1024;

const TAIL_LINES: usize = 200;
const TAIL_BYTES: usize = 64 * 1024;

/// The logs of one run; steps follow one another.
pub(crate) struct RunLog {
    combined: File,
    recent: Recent,
    step: Option<StepLog>,
    printed: bool,
}

struct StepLog {
    file: File,
    written: u64,
    /// What did not fit the head.
    after: Recent,
    heard: Recent,
}

impl RunLog {
    pub(crate) fn create(run: &RunDir) -> io::Result<Self> {
        let combined = run.create_log("combined.log")?;
        Ok(Self { combined, recent: Recent::new(TAIL_BYTES), step: None, printed: false })
    }

    pub(crate) fn begin(&mut self, run: &RunDir, number: usize, name: &str) -> io::Result<()> {
        let file = run.create_log(&log_name(number, name))?;
        self.step =
            Some(StepLog { file, written: 0, after: Recent::new(TAIL), heard: Recent::new(HEARD) });
        Ok(())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(step) = &mut self.step else { return Ok(()) };
        self.printed |= !bytes.is_empty();
        self.recent.push(bytes);
        let room = usize::try_from(HEAD - step.written).unwrap_or(usize::MAX);
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        step.after.push(rest);
        step.heard.push(bytes);
        step.written += head.len() as u64;
        step.file.write_all(head)?;
        self.combined.write_all(head)
    }

    /// What the current step has printed, as text; none if it was too much to tell.
    fn heard(&self) -> Option<String> {
        let heard = &self.step.as_ref()?.heard;
        (heard.dropped() == 0).then(|| String::from_utf8_lossy(heard.bytes()).into_owned())
    }

    /// Closes the step's log: marker and tail, if it printed more than is kept.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        let Some(mut step) = self.step.take() else { return Ok(()) };
        let left_out = step.after.dropped();
        let mut rest = vec![];
        if left_out > 0 {
            rest.extend_from_slice(
                format!("\n[act: {left_out} bytes left out here, the end follows]\n").as_bytes(),
            );
        }
        rest.extend_from_slice(step.after.bytes());
        step.file.write_all(&rest)?;
        self.combined.write_all(&rest)
    }

    pub(crate) fn printed(&self) -> bool {
        self.printed
    }

    pub(crate) fn tail(&self) -> String {
        tail_text(self.recent.bytes())
    }
}

/// The last bytes of a stream.
struct Recent {
    limit: usize,
    buffer: Vec<u8>,
    seen: u64,
}

impl Recent {
    fn new(limit: usize) -> Self {
        Self { limit, buffer: vec![], seen: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        self.buffer.extend_from_slice(&bytes[bytes.len().saturating_sub(self.limit)..]);
        // Cut at twice the limit, so that each byte moves once and not with every push.
        if self.buffer.len() > 2 * self.limit {
            self.buffer.drain(..self.buffer.len() - self.limit);
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.buffer.len().saturating_sub(self.limit)..]
    }

    fn dropped(&self) -> u64 {
        self.seen - self.bytes().len() as u64
    }
}

fn tail_text(bytes: &[u8]) -> String {
    let text = relative_to_repo(&String::from_utf8_lossy(bytes));
    // A replaced byte takes three, so the bound is drawn again.
    let mut start = text.len().saturating_sub(TAIL_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let text = &text[start..];
    let body = text.strip_suffix('\n').unwrap_or(text);
    match body.rmatch_indices('\n').nth(TAIL_LINES - 1) {
        Some((at, _)) => text[at + 1..].to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-28
    #[test]
    fn a_write_into_a_readonly_tree_is_explained_and_only_there() {
        for output in [
            "error: could not create 'x.egg-info': Read-only file system",
            "npm error code ENOENT\nnpm error ENOENT: no such file or directory, mkdir '/workspace/node_modules'",
            "Read-only file system (os error 30) at path",
        ] {
            assert!(needs_writable_view(View::Readonly, output).is_some(), "{output}");
            assert_eq!(needs_writable_view(View::Copy, output), None);
        }
        assert_eq!(needs_writable_view(View::Readonly, "ENOENT: open 'x'"), None);
    }

    // VERIFIER-16
    #[test]
    fn the_tail_is_the_last_200_lines() {
        let lines = |from, to| (from..=to).map(|n| format!("{n}\n")).collect::<String>();
        assert_eq!(tail_text(lines(1, 500).as_bytes()), lines(301, 500));
        assert_eq!(tail_text(lines(1, 50).as_bytes()), lines(1, 50));
        assert_eq!(tail_text(lines(1, 201).trim_end().as_bytes()), lines(2, 201).trim_end());
        assert_eq!(tail_text(b""), "");
    }

    // VERIFIER-16, security line 108
    #[test]
    fn the_tail_is_bounded_and_valid_text_whatever_was_printed() {
        let wild = tail_text(&vec![0xff; 200_000]);
        assert!(wild.len() <= TAIL_BYTES && wild.ends_with('\u{fffd}'));
        let cut = tail_text("é".repeat(TAIL_BYTES).as_bytes());
        assert!(cut.len() <= TAIL_BYTES && cut.ends_with('é'));
    }

    // VERIFIER-15
    #[test]
    fn the_last_bytes_are_kept_whatever_the_pieces() {
        for piece in [1, 3, 7, 100] {
            let mut recent = Recent::new(10);
            let all: Vec<u8> = (0..100).collect();
            for part in all.chunks(piece) {
                recent.push(part);
            }
            assert_eq!(recent.bytes(), &all[90..], "pieces of {piece}");
            assert_eq!(recent.dropped(), 90);
        }
    }
}
