//! One step as an exec in the run's container, and when its result counts.

mod cause;

use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use self::cause::gone;
use super::blocking::blocking;
use super::container::Container;
use super::docker_error::{EngineError, Phase};
use super::elsewhere::Depot;
use super::engine::{QUICK, WORK};
use super::hint::needs_writable_view;
use super::no_tests::no_tests_ran;
use super::pipeline::{Gate, StepEnd, StepReport, StepRunner};
use super::source_writes::{SourceWatch, Writes};
use super::step_log::RunLog;
use super::view::View;
use act_config::Step;
use act_core::event::{EventKind, Events, StepOutput};
use act_core::verification::{InfraError, Warning, WarningCode};
use act_records::artifacts::RunDir;

/// For what a killed container had still printed.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// The first of the pauses between questions to an exec that closed its output but goes on.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// What a shell says of a command that cannot run.
const NOT_EXECUTABLE: i64 = 126;

pub(super) struct ContainerSteps<'a> {
    pub(super) container: &'a Container,
    pub(super) gate: &'a Gate,
    pub(super) view: View,
    /// Away only while it looks.
    pub(super) watch: Option<SourceWatch>,
    /// Where the tree is, if not on this machine.
    pub(super) depot: Option<&'a Depot>,
    pub(super) run: &'a RunDir,
    pub(super) log: &'a mut RunLog,
    pub(super) events: &'a Events,
    pub(super) cancel: &'a CancellationToken,
    /// Of the step that runs.
    pub(super) warnings: Vec<Warning>,
    /// Networks taken away for a step without; given back for the next one with.
    pub(super) detached: Option<Vec<String>>,
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
        let (watch, looked) = match self.depot.filter(|_| watch.is_elsewhere()) {
            Some(depot) => {
                let read = depot.read_tree(move |archive| {
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
