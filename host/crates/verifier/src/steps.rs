//! The steps of a run: each is an exec in the container of the run, its output is written to the logs, and its result
//! counts only when the engine reports that the exec has ended and the container has not.

use crate::container::Container;
use crate::docker_verifier::{DockerVerifier, blocking};
use crate::driver::{Command, DriverError, Output};
use crate::engine::ASK_LIMIT;
use crate::engine_error::EngineError;
use crate::no_tests::no_tests_ran;
use crate::oom::Kills;
use crate::pipeline::{KILLED, StepRunner, VerificationConfig, verdict_of_step};
use crate::source_writes::Writes;
use crate::workspace::{View, Workspace, relative_to_repo};
use act_config::Step;
use act_core::event::{EventKind, StepOutput};
use act_core::verification::{
    CommandExecuted, ErrorType, InfraError, Verdict, Warning, WarningCode,
};
use act_fs::hex;
use act_records::artifacts::{COMBINED, MAX_PROOF_LOG, RunDir, log_name};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long the output of a killed container is read, so that the bytes which it printed before its end are not lost.
const KILLED_OUTPUT: Duration = Duration::from_millis(300);
/// The first and the longest pause between two polls of an exec that closed its output and still runs.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The exit codes with which an engine reports a command that cannot be executed, as a shell does.
const NOT_EXECUTED: [i64; 2] = [126, 127];
/// The exit codes of a step that the engine ends when the connection with its output is lost: SIGTERM, then SIGKILL.
const ENDED_BY_ENGINE: [i64; 2] = [143, KILLED];
/// Free space in bytes below which a failed step is blamed on the full disk of the artifact directory.
const FREE_SPACE: u64 = 1024 * 1024;

/// Runs the steps in the container of the run.
pub(crate) struct ContainerSteps<'a> {
    pub(crate) verifier: &'a DockerVerifier,
    pub(crate) container: &'a Container,
    pub(crate) workspace: &'a mut Workspace,
    pub(crate) run: &'a RunDir,
    pub(crate) log: &'a mut RunLog,
    pub(crate) warnings: &'a mut Vec<Warning>,
    pub(crate) cancel: &'a CancellationToken,
    /// The networks that were disconnected for a step without network. The next step with network gets them back.
    pub(crate) disconnected: Option<Vec<String>>,
    /// The engine answers questions about the step that runs with an error, since then.
    pub(crate) trouble: Option<(Instant, EngineError)>,
}

impl StepRunner for ContainerSteps<'_> {
    fn run<'a>(
        &'a mut self,
        number: usize,
        step: &'a Step,
    ) -> BoxFuture<'a, Option<(CommandExecuted, Verdict)>> {
        Box::pin(async move {
            let (began, cancel) = (Instant::now(), self.cancel);
            self.verifier.events.emit(EventKind::StepStarted {
                run_id: self.run.id().to_string(),
                name: step.name.clone(),
                last_ms: self.verifier.step_times.last(&step.name),
            });
            let ended = cancel.run_until_cancelled(self.run_step(number, step)).await;
            let (exit_code, duration_ms) = match &ended {
                Some((command, _)) => (command.exit_code, command.duration_ms),
                None => {
                    let _ = self.log.end();
                    (None, milliseconds(began.elapsed()))
                }
            };
            self.verifier.step_times.took(&step.name, exit_code, duration_ms);
            self.verifier.events.emit(EventKind::StepFinished {
                run_id: self.run.id().to_string(),
                name: step.name.clone(),
                exit_code,
                duration_ms,
            });
            ended
        })
    }
}

impl ContainerSteps<'_> {
    /// Runs one step and finds out why it ended, what it printed and what it wrote.
    async fn run_step(&mut self, number: usize, step: &Step) -> (CommandExecuted, Verdict) {
        let kills = self.container.oom.so_far();
        let began = Instant::now();
        let mut ended = match self.log.begin(self.run, number, &step.name) {
            Ok(()) => self.execute(number, step).await,
            Err(error) => Err(log_failed(&error)),
        };
        let duration = began.elapsed();
        self.read_output(step, &ended);
        let logged = self.log.end();
        if let Err(error) = &logged {
            ended = Err(log_failed(error));
        }
        let Logged { sha256, bytes, end_sha256 } = logged.ok().flatten().unwrap_or_default();
        let (mut ended, oom) = self.explain(step, ended, kills).await;
        let mut writes = Writes::default();
        if ended.is_ok() {
            match self.source_writes().await {
                Ok(found) => writes = found,
                Err(error) => ended = Err(error),
            }
        }
        if ended == Ok(Some(0)) {
            // A step may end the container, which the engine reports a little later than the end of the exec.
            match self.container.state().await {
                Ok(state) if state.running => {}
                Ok(state) => ended = Err(container_gone(step, state.oom_killed)),
                Err(error) => ended = Err(error.into()),
            }
        }
        self.warnings.extend(writes.warning(&step.name));
        let command = CommandExecuted {
            name: step.name.clone(),
            command: step.command.clone(),
            exit_code: ended.as_ref().ok().copied().flatten(),
            duration_ms: milliseconds(duration),
            timed_out: ended == Ok(None),
            oom,
            network: if step.network { "on" } else { "off" }.to_owned(),
            source_writes: writes.listed,
            log_sha256: sha256,
            log_bytes: bytes,
            log_end_sha256: end_sha256,
        };
        let pipeline = &self.verifier.config.pipeline;
        let verdict = verdict_of_step(pipeline, &command, ended.err(), self.warnings);
        (command, verdict)
    }

    /// Runs the command of a step. Returns its exit code, or `None` when its time is up; the container is killed then.
    async fn execute(&mut self, number: usize, step: &Step) -> Result<Option<i64>, InfraError> {
        let (config, container) = (&self.verifier.config, self.container);
        let engine = &container.engine;
        self.set_network(step.network).await?;
        let command = command_of(config, self.workspace.view, step);
        let exec = match engine.create_exec(&container.name, command).await {
            Ok(exec) => exec,
            Err(error) => return Err(self.ended_early(number, step, error).await),
        };
        match engine.start_exec(&exec).await {
            Ok(mut output) => {
                self.trouble = None;
                let ended = async {
                    let cut = self.write_log(&mut output, step).await?;
                    // The interface has no way to ask for the rest of an output: to attach is to start the step.
                    let (code, ran_on) = self.exit_code(&exec, step).await?;
                    if cut.is_some() {
                        self.warn_of_cut_log(step);
                    }
                    // The end of the connection ends the step as well, which says nothing about the code.
                    match cut.filter(|_| code != 0) {
                        Some(why) => Err(output_lost(step, &why)),
                        None if ran_on && ENDED_BY_ENGINE.contains(&code) => {
                            Err(output_lost(step, "it ended before the step did"))
                        }
                        None => Ok(code),
                    }
                };
                if let Ok(ended) = tokio::time::timeout(config.step_timeout, ended).await {
                    return ended.map(Some);
                }
                // The time is up while the engine does not say how the step does: it may have ended long ago.
                if let Some((_, error)) = self.trouble.take() {
                    let _ = container.kill().await;
                    return Err(error.into());
                }
                // An exec cannot be killed, and processes that it started could survive a polite signal.
                container.kill().await?;
                let rest = self.write_log(&mut output, step);
                let _ = tokio::time::timeout(KILLED_OUTPUT, rest).await;
                Ok(None)
            }
            Err(error) if error.status().is_some() && container.state().await?.running => {
                // A command that cannot be executed has the exit code that says so. Otherwise the engine failed.
                let found = engine.inspect_exec(&exec).await.ok();
                let code = found.and_then(|found| found.exit_code);
                match code.filter(|code| NOT_EXECUTED.contains(code)) {
                    Some(code) => {
                        self.write(Bytes::from(format!("{}\n", error.message)))?;
                        Ok(Some(code))
                    }
                    None => Err(error.into()),
                }
            }
            Err(error) => Err(self.ended_early(number, step, error).await),
        }
    }

    async fn set_network(&mut self, on: bool) -> Result<(), EngineError> {
        let (engine, container) = (&self.container.engine, &self.container.name);
        match (on, self.disconnected.take()) {
            (true, Some(networks)) => engine.connect_networks(container, &networks).await,
            (false, None) => {
                self.disconnected = Some(engine.disconnect_networks(container).await?);
                Ok(())
            }
            (_, unchanged) => {
                self.disconnected = unchanged;
                Ok(())
            }
        }
    }

    /// Writes the output to the log until the stream ends, and returns why it was cut, if it was. The end of the stream does
    /// not show how the step ended.
    async fn write_log(
        &mut self,
        output: &mut (impl Stream<Item = Result<Output, DriverError>> + Unpin),
        step: &Step,
    ) -> Result<Option<String>, InfraError> {
        let mut cut = None;
        while let Some(piece) = output.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => {
                    cut = Some(error.message);
                    break;
                }
            };
            if piece.cut {
                cut = Some("the last frame is incomplete".to_owned());
                self.warn_of_cut_log(step);
            }
            self.write(piece.bytes)?;
        }
        Ok(cut)
    }

    fn warn_of_cut_log(&mut self, step: &Step) {
        let warning = Warning {
            code: WarningCode::LogIncomplete,
            step: Some(step.name.clone()),
            message: "the engine's output stream was cut; the log may lack its end".to_owned(),
        };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn write(&mut self, bytes: Bytes) -> Result<(), InfraError> {
        self.log.write(&bytes).map_err(|error| log_failed(&error))?;
        self.verifier.events.emit(EventKind::StepOutput(StepOutput(bytes)));
        Ok(())
    }

    /// Waits for the exit code, and returns with it whether the step still ran when its output had ended. The output also ends
    /// when the engine dies or the container is removed, so the engine must report that the exec has ended and that the
    /// container still runs. An engine that answers with errors is asked again for some seconds.
    async fn exit_code(&mut self, exec: &str, step: &Step) -> Result<(i64, bool), InfraError> {
        let (mut pause, mut ran_on) = (FIRST_PAUSE, false);
        loop {
            let found = match self.container.engine.inspect_exec(exec).await {
                Ok(found) => Some(found),
                Err(error) if error.unreachable() => return Err(error.into()),
                Err(error) => {
                    let since =
                        self.trouble.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                    self.trouble = Some((since, error));
                    None
                }
            };
            let state = self.container.state().await?;
            if !state.running {
                return Err(container_gone(step, state.oom_killed));
            }
            if found.is_some() {
                self.trouble = None;
            } else if let Some((since, error)) = &self.trouble
                && since.elapsed() >= ASK_LIMIT
            {
                return Err(error.clone().into());
            }
            ran_on |= found.as_ref().is_some_and(|found| found.running == Some(true));
            let ended = found.filter(|found| found.running == Some(false));
            if let Some(code) = ended.and_then(|found| found.exit_code) {
                return Ok((code, ran_on));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Explains why the engine could not start a step.
    async fn ended_early(&self, number: usize, step: &Step, error: EngineError) -> InfraError {
        if error.unreachable() {
            return error.into();
        }
        match self.container.state().await {
            Ok(state) if !state.running && number == 1 && !state.oom_killed => InfraError::new(
                ErrorType::ContainerCreation,
                "the container ended before the first step; an image needs `sleep` and a working /bin/sh",
            ),
            Ok(state) if !state.running => container_gone(step, state.oom_killed),
            _ => error.into(),
        }
    }

    /// Adds warnings about what a step printed.
    fn read_output(&mut self, step: &Step, ended: &Result<Option<i64>, InfraError>) {
        let Some(output) = self.log.output_of_step() else { return };
        let warning = match ended {
            Ok(Some(0)) => no_tests_ran(&step.command, &output).map(|runner| {
                let message = format!("step {:?} ran no test ({runner})", step.name);
                (WarningCode::NoTestsRan, message)
            }),
            _ => needs_writable_view(self.workspace.view, &output)
                .map(|message| (WarningCode::NeedsWritableView, message)),
        };
        let step = Some(step.name.clone());
        self.warnings.extend(warning.map(|(code, message)| Warning { code, step, message }));
    }

    /// Finds out whether memory, a full disk or the end of the container is behind the failure of a step, and returns
    /// whether the kernel killed a process for memory. This may kill the container, because a failed step is the last
    /// one.
    async fn explain(
        &mut self,
        step: &Step,
        ended: Result<Option<i64>, InfraError>,
        before: Kills,
    ) -> (Result<Option<i64>, InfraError>, bool) {
        let oom = &self.container.oom;
        let mut killed = oom.since(before);
        let code = match ended {
            Ok(Some(code)) if code != 0 => code,
            _ => return (ended, killed == Some(true)),
        };
        if code == KILLED {
            // The end of the container kills the step first, and the engine reports it a little later.
            if killed != Some(true) && oom.event_since(before).await {
                killed = Some(true);
            }
            match self.container.state().await {
                Ok(state) if state.running => {}
                Ok(state) => {
                    let killed = killed == Some(true);
                    return (Err(container_gone(step, killed || state.oom_killed)), killed);
                }
                Err(error) => return (Err(error.into()), killed == Some(true)),
            }
        }
        if killed.is_none() && before.none() {
            // The flag is about the whole container, so it counts only if no earlier step had a kill. The engine sets
            // it when the container stops.
            if let Err(error) = self.container.kill().await {
                return (Err(error.into()), false);
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
                (Err(error), killed)
            }
            _ => (ended, killed),
        }
    }

    /// Returns what the step wrote to the source.
    async fn source_writes(&mut self) -> Result<Writes, InfraError> {
        let Some(mut diff) = self.workspace.diff.take() else { return Ok(Writes::default()) };
        let failed =
            |error: io::Error| InfraError::from_io("compare the view with the source", &error);
        let volumes = self.workspace.volumes.as_ref().filter(|_| diff.is_remote());
        let (diff, writes) = match volumes {
            Some(volumes) => {
                let read = volumes.read_tree(move |archive| {
                    let writes = diff.compare_archive(archive);
                    Ok((diff, writes))
                });
                read.await?
            }
            None => {
                let compared = blocking(move || {
                    let writes = diff.compare();
                    Ok((diff, writes))
                });
                compared.await.map_err(failed)?
            }
        };
        self.workspace.diff = Some(diff);
        writes.map_err(failed)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn log_failed(error: &io::Error) -> InfraError {
    InfraError::from_io("write the step's log", error)
}

/// Returns the error of a step that the engine ended because the connection with its output was lost.
fn output_lost(step: &Step, why: &str) -> InfraError {
    InfraError::new(
        ErrorType::Unknown,
        format!(
            "the connection with the output of step {:?} was cut, and the engine ended the step: {why}; run it again",
            step.name
        ),
    )
}

fn command_of(config: &VerificationConfig, view: View, step: &Step) -> Command {
    let root = view.root();
    let directory = match config.package.as_deref() {
        Some(package) => format!("{root}/{package}"),
        None => root.to_owned(),
    };
    // The inner shell is the one that the pipeline promises, `/bin/sh -c COMMAND`. The outer one merges the two output
    // streams, whose order would otherwise be lost.
    let merged = r#"exec /bin/sh -c "$1" 2>&1"#;
    let command = ["/bin/sh", "-c", merged, "sh", &step.command];
    Command { arguments: command.map(str::to_owned).to_vec(), directory: Some(directory) }
}

fn container_gone(step: &Step, oom_killed: bool) -> InfraError {
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

/// Returns the message for a step that tried to write into a read-only view. npm reports such a write as a missing
/// directory.
fn needs_writable_view(view: View, output: &str) -> Option<String> {
    const SIGNS: [&str; 4] =
        ["Read-only file system", "EROFS", "read-only file system", "os error 30"];
    let mkdir = |line: &str| line.contains("ENOENT") && line.contains("mkdir '/workspace");
    let found = SIGNS.iter().any(|sign| output.contains(sign)) || output.lines().any(mkdir);
    (view == View::Readonly && found).then(|| {
        "a step tried to write into the repository, which is read-only here; set verification.workspace \
         in agent.yaml to copy or overlay"
            .to_owned()
    })
}

/// Number of bytes at the start of a step's output that the log holds.
const MAX_LOG_START: u64 = 64 * 1024 * 1024;
/// Number of bytes at the end of a longer output that the log holds.
const MAX_LOG_END: usize = 1024 * 1024;
/// Longest output, in bytes, that is searched for the summary lines of test runners.
const MAX_SEARCHED: usize = 256 * 1024;
/// Lines and bytes of the tail of a run.
const TAIL_LINES: usize = 200;
const TAIL_BYTES: usize = 64 * 1024;

/// The logs of one run: one for each step, and all of them combined.
pub(crate) struct RunLog {
    combined: File,
    recent: LastBytes,
    step: Option<StepLog>,
    printed: bool,
}

struct StepLog {
    file: File,
    /// The digest and the size of what was written to the file.
    hash: Sha256,
    size: u64,
    written: u64,
    /// The end of what was written to the file.
    last: LastBytes,
    /// The end of an output that is longer than [`MAX_LOG_START`].
    end: LastBytes,
    searched: LastBytes,
}

impl StepLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        self.last.push(bytes);
        self.file.write_all(bytes)
    }
}

/// The digest and the size of the log of a step, for the manifest.
#[derive(Default)]
struct Logged {
    sha256: Option<String>,
    bytes: Option<u64>,
    /// Digest of the end of a log that a proof does not hold whole.
    end_sha256: Option<String>,
}

impl RunLog {
    /// Creates the combined log.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn create(run: &RunDir) -> io::Result<Self> {
        let combined = run.create_log(COMBINED)?;
        Ok(Self { combined, recent: LastBytes::new(TAIL_BYTES), step: None, printed: false })
    }

    fn begin(&mut self, run: &RunDir, number: usize, name: &str) -> io::Result<()> {
        self.step = Some(StepLog {
            file: run.create_log(&log_name(number, name))?,
            hash: Sha256::new(),
            size: 0,
            written: 0,
            last: LastBytes::new(usize::try_from(MAX_PROOF_LOG).unwrap_or(usize::MAX)),
            end: LastBytes::new(MAX_LOG_END),
            searched: LastBytes::new(MAX_SEARCHED),
        });
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(step) = &mut self.step else { return Ok(()) };
        self.printed |= !bytes.is_empty();
        self.recent.push(bytes);
        let room = usize::try_from(MAX_LOG_START - step.written).unwrap_or(usize::MAX);
        let (start, rest) = bytes.split_at(room.min(bytes.len()));
        step.end.push(rest);
        step.searched.push(bytes);
        step.written += start.len() as u64;
        step.write(start)?;
        self.combined.write_all(start)
    }

    /// Returns what the current step has printed as text, or `None` when that is longer than [`MAX_SEARCHED`].
    fn output_of_step(&self) -> Option<String> {
        let searched = &self.step.as_ref()?.searched;
        (searched.dropped() == 0).then(|| String::from_utf8_lossy(searched.bytes()).into_owned())
    }

    /// Ends the log of the current step: with the end of a longer output and a line about what is left out before it.
    /// Returns the digest and the size of the log.
    fn end(&mut self) -> io::Result<Option<Logged>> {
        let Some(mut step) = self.step.take() else { return Ok(None) };
        let left_out = step.end.dropped();
        let mut rest = vec![];
        if left_out > 0 {
            rest.extend_from_slice(
                format!("\n[act: {left_out} bytes left out here, the end follows]\n").as_bytes(),
            );
        }
        rest.extend_from_slice(step.end.bytes());
        step.write(&rest)?;
        self.combined.write_all(&rest)?;
        let is_cut = step.size > MAX_PROOF_LOG;
        Ok(Some(Logged {
            sha256: Some(hex(&step.hash.finalize())),
            bytes: Some(step.size),
            end_sha256: is_cut.then(|| hex(&Sha256::digest(step.last.bytes()))),
        }))
    }

    pub(crate) fn printed(&self) -> bool {
        self.printed
    }

    /// Returns the last lines of all steps as text.
    pub(crate) fn tail(&self) -> String {
        tail_text(self.recent.bytes())
    }
}

/// The last bytes of a stream.
struct LastBytes {
    limit: usize,
    buffer: Vec<u8>,
    pushed: u64,
}

impl LastBytes {
    fn new(limit: usize) -> Self {
        Self { limit, buffer: vec![], pushed: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.pushed += bytes.len() as u64;
        self.buffer.extend_from_slice(&bytes[bytes.len().saturating_sub(self.limit)..]);
        // The buffer is cut at twice the limit, so that a byte is moved once and not with every push.
        if self.buffer.len() > 2 * self.limit {
            self.buffer.drain(..self.buffer.len() - self.limit);
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.buffer.len().saturating_sub(self.limit)..]
    }

    fn dropped(&self) -> u64 {
        self.pushed - self.bytes().len() as u64
    }
}

fn tail_text(bytes: &[u8]) -> String {
    let text = relative_to_repo(&String::from_utf8_lossy(bytes));
    // A replaced byte becomes three, so the text may be longer than the bytes.
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
    fn the_last_bytes_are_stored_whatever_the_pieces() {
        for piece in [1, 3, 7, 100] {
            let mut recent = LastBytes::new(10);
            let all: Vec<u8> = (0..100).collect();
            for part in all.chunks(piece) {
                recent.push(part);
            }
            assert_eq!(recent.bytes(), &all[90..], "pieces of {piece}");
            assert_eq!(recent.dropped(), 90);
        }
    }
}
