//! A check: one command of the model's choice, in a fresh container over the working tree as it is. It proves nothing: it has
//! no manifest, no verdict and no place among the runs of a task.
//!
//! The model sees what the command prints, so the container holds what the Editor may read and no more of the repository:
//! files outside of the Editor's view are empty, and neither the repository nor its git directory is mounted. There is no
//! network, and the walls are those of every run. What the command writes is removed with the container.

use crate::container::Container;
use crate::docker_verifier::{DockerVerifier, blocking, container_name, unrecorded};
use crate::driver::Command;
use crate::passwd::PASSWD;
use crate::pipeline::{VerificationConfig, run_steps};
use crate::remote_engine::prepare_check;
use crate::steps::{ContainerSteps, RunLog};
use crate::workspace::{
    CacheLayer, CheckTree, MAX_COPIED_BYTES, MAX_COPIED_FILES, Workspace, relative_to_repo, sources,
};
use act_audit::{Decision, Entry, Event};
use act_config::{Step, Workspace as ConfiguredWorkspace};
use act_core::check::{CheckEnd, CheckUnderWay, Checked, CheckedOver, Checker, NotChecked};
use act_core::event::Events;
use act_core::secret::Secrets;
use act_core::terminal_text;
use act_core::verification::{ErrorType, FailReason, InfraError, Verdict};
use act_records::artifacts::{Base, RunDir};
use act_workspace::{PathGlobs, RepoView, digest};
use futures_util::StreamExt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Longest time of a command: one test file, and no pipeline.
const LONGEST: Duration = Duration::from_secs(60);
/// Bytes of the beginning and of the end of an output that the model gets, together 16 KiB. The end says how a test ended.
const SHOWN_START: usize = 4 * 1024;
const SHOWN_END: usize = 12 * 1024;
/// Bytes at either end of an output that are searched for keys, before what is shown is cut from them.
const READ: u64 = 1024 * 1024;
/// Bytes of the paths that one command line names. A system takes at least 128 KiB, pointers included.
const REMOVED_BYTES: usize = 64 * 1024;
/// Time limit for removing the deleted files.
const REMOVAL: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// Runs the checks of one task.
pub struct DockerChecker {
    /// The verifier of the task's attempts: its engine, image, limits and base are those of a check.
    pub verifier: DockerVerifier,
    /// The repository as the Editor sees it.
    pub view: RepoView,
    /// The keys that are redacted in the output.
    pub secrets: Secrets,
}

impl Checker for DockerChecker {
    fn check<'a>(&'a self, command: &'a str, cancel: &'a CancellationToken) -> CheckUnderWay<'a> {
        Box::pin(self.run(command, cancel))
    }
}

impl DockerChecker {
    async fn run(
        &self,
        command: &str,
        cancel: &CancellationToken,
    ) -> Option<Result<Checked, NotChecked>> {
        let verifier = &self.verifier;
        if let Err(error) = cancel.run_until_cancelled(verifier.engine.ping()).await? {
            return Some(Err(unavailable(&error.into())));
        }
        if let Err(error) = verifier.engine.check_abilities(&verifier.config.pipeline) {
            return Some(Err(unavailable(&error)));
        }
        let base = match self.base(cancel).await? {
            Ok(base) => base,
            Err(why) => return Some(Err(NotChecked::NoBase(why))),
        };
        let artifacts = Arc::clone(&verifier.artifacts);
        let dir = match blocking(move || artifacts.create_run(act_core::clock::now())).await {
            Ok(dir) => Arc::new(dir),
            Err(error) => {
                let error = InfraError::from_io("create the directory of the check", &error);
                return Some(Err(unavailable(&error)));
            }
        };
        let mut check = Check {
            checker: self,
            verifier: self.for_command(command),
            dir,
            base,
            cache: None,
            covered: vec![],
            outdated: None,
            started: false,
            container_left: false,
            cancel,
        };
        let ended = check.execute().await;
        let ended = check.clean(ended).await;
        match ended {
            Ok(checked) => checked.map(Ok),
            Err(error) => Some(Err(unavailable(&error))),
        }
    }

    /// Returns the base that a check begins with, or `None` for a pipeline that prepares nothing. The inner error says why
    /// there is no base. Returns `None` when cancelled.
    async fn base(&self, cancel: &CancellationToken) -> Option<Result<Option<Arc<Base>>, String>> {
        match &self.verifier.warm {
            Some(warm) => Some(warm.base(&self.verifier, cancel).await?.map(Some)),
            None if self.verifier.config.pipeline.prepare.is_empty() => Some(Ok(None)),
            None => Some(Err("`verification.warm` is off".to_owned())),
        }
    }

    /// Returns a verifier whose pipeline is this command, without network. It has no events, because its run is none of the
    /// task's.
    fn for_command(&self, command: &str) -> DockerVerifier {
        let mut config = VerificationConfig::clone(&self.verifier.config);
        let (name, command) = ("check".to_owned(), command.to_owned());
        config.step_timeout = config.step_timeout.min(LONGEST);
        config.pipeline.prepare.clear();
        config.pipeline.steps = vec![Step { name, command, network: false }];
        DockerVerifier {
            config: Arc::new(config),
            events: Events::silent(),
            ..self.verifier.clone()
        }
    }
}

fn unavailable(error: &InfraError) -> NotChecked {
    NotChecked::Unavailable(error.message.clone())
}

/// One check under way.
struct Check<'a> {
    checker: &'a DockerChecker,
    /// The verifier whose only step is the command.
    verifier: DockerVerifier,
    dir: Arc<RunDir>,
    base: Option<Arc<Base>>,
    /// The downloads of the container, which nothing of this check is added to.
    cache: Option<CacheLayer>,
    covered: Vec<String>,
    outdated: Option<String>,
    /// The start is in the audit log.
    started: bool,
    container_left: bool,
    cancel: &'a CancellationToken,
}

impl Check<'_> {
    /// Waits for a slot of the engine and runs the command in it. Returns `None` when cancelled.
    async fn execute(&mut self) -> Result<Option<Checked>, InfraError> {
        self.record_start().await?;
        // The person who waits is told by the events of the task.
        let Some(slot) = self.checker.verifier.slot(&self.dir, self.cancel).await? else {
            return Ok(None);
        };
        let ended = self.execute_in_slot().await;
        // A slot that cannot be freed is freed with what this process leaves.
        let _ = slot.release().await;
        ended
    }

    /// Runs the command. Returns `None` when cancelled. No container is left then, unless `container_left` is set.
    async fn execute_in_slot(&mut self) -> Result<Option<Checked>, InfraError> {
        let DockerVerifier { engine, image, config, .. } = self.verifier.clone();
        let remote = !engine.shares_files(&self.dir, &image).await?;
        let Some((mut workspace, container, gone)) = self.start(remote).await? else {
            return Ok(None);
        };
        let mut log = RunLog::create(&self.dir)
            .map_err(|error| InfraError::from_io("create the log of the check", &error))?;
        let removed = remove_files(&self.verifier, &container, &gone);
        let removed = self.cancel.run_until_cancelled(removed).await;
        let (mut warnings, mut commands) = (vec![], vec![]);
        let began = Instant::now();
        let verdict = match removed {
            None => None,
            Some(Err(error)) => Some(Verdict::Infra(error)),
            Some(Ok(())) => {
                let mut steps = ContainerSteps {
                    verifier: &self.verifier,
                    container: &container,
                    workspace: &mut workspace,
                    run: &self.dir,
                    log: &mut log,
                    warnings: &mut warnings,
                    cancel: self.cancel,
                    disconnected: None,
                    trouble: None,
                };
                run_steps(config.pipeline.steps.iter(), &mut steps, &mut commands).await
            }
        };
        let took = began.elapsed();
        if let Err(error) = container.remove().await {
            self.container_left = true;
            return Err(error.into());
        }
        if let Some(volumes) = workspace.volumes.take() {
            volumes.remove().await?;
        }
        let Some(verdict) = verdict else { return Ok(None) };
        let exit_code = commands.first().and_then(|command| command.exit_code);
        let end = match (verdict, exit_code) {
            (Verdict::Infra(error), _) => return Err(error),
            (Verdict::Fail(FailReason::Timeout), _) | (_, None) => {
                CheckEnd::TimedOut(config.step_timeout)
            }
            (_, Some(code)) => CheckEnd::Exited(code),
        };
        let over = if self.base.is_some() { CheckedOver::Base } else { CheckedOver::Image };
        let output = self.output().await?;
        let (covered, outdated) = (self.covered.clone(), self.outdated.clone());
        Ok(Some(Checked { end, over, took, output, covered, outdated }))
    }

    /// Prepares the view and starts the container over it. Returns `None` when cancelled, else also the files of the base
    /// that the tree does not have.
    /// `remote`: the engine shares no files with this machine.
    async fn start(
        &mut self,
        mut remote: bool,
    ) -> Result<Option<(Workspace, Container, Vec<String>)>, InfraError> {
        let DockerVerifier { engine, image, audit, config, .. } = &self.verifier.clone();
        let passwd = self.verifier.passwd(&self.dir).await?;
        let mut with_cache = engine.may_mount_overlays();
        loop {
            let (tree, gone) = self.tree().await?;
            let (verifier, dir) = (self.verifier.clone(), Arc::clone(&self.dir));
            let (seen, cancel) = (self.checker.view.clone(), self.cancel.clone());
            let (mut workspace, covered) = match tree {
                CheckTree::Copied(set) if remote => {
                    let sent = prepare_check(&verifier, &dir, seen, *set, &cancel).await?;
                    let Some(sent) = sent else { return Ok(None) };
                    sent
                }
                tree => {
                    let work = blocking(move || {
                        Ok(Workspace::of_check(&verifier, &dir, &seen, tree, with_cache, &cancel))
                    });
                    let prepared = work.await;
                    if self.cancel.is_cancelled() {
                        return Ok(None);
                    }
                    prepared.map_err(|error| InfraError::from_io("prepare the check", &error))??
                }
            };
            self.covered = covered;
            self.cache = workspace.cache.take();
            if let Some(passwd) = passwd.clone() {
                workspace.add_file(&self.dir, PASSWD, passwd)?;
            }
            let base = self.base.as_ref().and_then(|base| base.record.container_image.as_ref());
            let image_id = base.unwrap_or(&image.id);
            let steps = &config.pipeline.steps;
            let request = self.verifier.request(&self.dir, &mut workspace, image_id, steps);
            let layered = !request.volumes.is_empty();
            let name = container_name(&self.dir);
            let created = Container::create(engine, name, request, image, audit, self.cancel).await;
            let started = match created {
                Ok(Some(created)) => {
                    let sent = workspace.send(&self.verifier, &self.dir, self.cancel);
                    created.start(sent, audit, self.cancel).await
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            match started {
                Ok(Some(container)) => {
                    if layered {
                        engine.mounted_overlays(true);
                    }
                    return Ok(Some((workspace, container, gone)));
                }
                Ok(None) => {
                    if let Some(volumes) = workspace.volumes.take() {
                        volumes.remove().await?;
                    }
                    return Ok(None);
                }
                Err(error)
                    if error.error_type == ErrorType::ContainerCreation
                        && !remote
                        && self.base.is_none()
                        && engine.turned_out_remote(&self.dir, image).await? =>
                {
                    remote = true;
                    self.begin_again().await?;
                }
                Err(error)
                    if error.error_type == ErrorType::ContainerCreation
                        && layered
                        && self.base.is_none()
                        && !engine.has_mounted_overlays() =>
                {
                    // The engine mounts no layer above the downloads, so the command gets none.
                    engine.mounted_overlays(false);
                    with_cache = false;
                    self.begin_again().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes what was prepared for a container that the engine could not start.
    async fn begin_again(&mut self) -> Result<(), InfraError> {
        self.cache = None;
        let dir = Arc::clone(&self.dir);
        let removed = blocking(move || dir.remove_scratch()).await;
        removed.map_err(|error| InfraError::from_io("begin again", &error))
    }

    /// Returns the tree of the container, and the files of the base that the working tree does not have.
    async fn tree(&mut self) -> Result<(CheckTree, Vec<String>), InfraError> {
        let verifier = &self.checker.verifier;
        if let (Some(base), Some(warm)) = (&self.base, &verifier.warm) {
            let (differences, outdated) = warm.compare_for_check(verifier, base).await?;
            warm.wait_for_newer_times(base, self.cancel).await;
            self.outdated = outdated;
            let gone = differences.gone.clone();
            return Ok((CheckTree::Over(Arc::clone(base), Box::new(differences)), gone));
        }
        let pipeline = verifier.config.pipeline.clone();
        let repo = verifier.repo.path().to_owned();
        let work = blocking(move || {
            let include = PathGlobs::new(&pipeline.include).map_err(io::Error::other)?;
            sources(&repo, &include).map_err(io::Error::other)
        });
        let read = |error| InfraError::from_io("read the repository", &error);
        let set = work.await.map_err(read)?;
        let large = set.entries.len() > MAX_COPIED_FILES || set.bytes() > MAX_COPIED_BYTES;
        if large && verifier.config.pipeline.workspace != ConfiguredWorkspace::Copy {
            let why = "the tree is too large to be copied for one command";
            return Err(InfraError::new(ErrorType::ResourceExhaustion, why));
        }
        Ok((CheckTree::Copied(Box::new(set)), vec![]))
    }

    /// Returns what the command printed, without keys, and cut.
    async fn output(&self) -> Result<String, InfraError> {
        let (artifacts, run) = (Arc::clone(&self.verifier.artifacts), self.dir.id().clone());
        let work = blocking(move || {
            let log = artifacts.open_log(run.as_str(), None).map_err(io::Error::other)?;
            let (end, before) = act_fs::read_last(&log, READ)?;
            let start = match before {
                0 => vec![],
                _ => {
                    io::Seek::rewind(&mut &log)?;
                    act_fs::read_first(&log, before.min(READ))?
                }
            };
            Ok((start, before, end))
        });
        let read = |error| InfraError::from_io("read the log of the check", &error);
        let (start, before, end) = work.await.map_err(read)?;
        let text = |bytes: &[u8]| {
            let text = relative_to_repo(&String::from_utf8_lossy(bytes));
            // Sequences for a terminal tell the model nothing, and what cannot be seen must not reach it unseen.
            let text = terminal_text::block(&text);
            self.checker.secrets.redact(&text).into_owned()
        };
        Ok(shown(&text(&start), before, &text(&end)))
    }

    /// Removes everything that the check left, and records its end. The trouble of the command comes before that of the
    /// cleaning.
    async fn clean(
        mut self,
        ended: Result<Option<Checked>, InfraError>,
    ) -> Result<Option<Checked>, InfraError> {
        let mut cleaned = Ok(());
        if !self.container_left {
            // The kernel's part of the layers over a base belongs to root.
            if self.base.is_some() || self.verifier.is_root_elsewhere() {
                cleaned = self.verifier.reclaim(&self.dir, self.cache.as_ref()).await;
            }
            self.cache = None;
            let (artifacts, dir) = (Arc::clone(&self.verifier.artifacts), Arc::clone(&self.dir));
            let discarded = blocking(move || artifacts.discard_run(&dir)).await;
            let failed = |error| InfraError::from_io("remove the directory of the check", &error);
            cleaned = cleaned.and(discarded.map_err(failed));
        }
        let recorded = self.record_end(&ended).await;
        let checked = ended?;
        recorded?;
        if let Err(error) = cleaned {
            self.checker.verifier.events.warn(format!("a check left files: {}", error.message));
        }
        Ok(checked)
    }

    /// Records the start. No container is created without this record.
    async fn record_start(&mut self) -> Result<(), InfraError> {
        self.verifier.audit.ready().map_err(unrecorded)?;
        let command = self.verifier.config.pipeline.steps.first();
        let command = command.map(|step| digest(step.command.as_bytes()));
        let base = self.base.as_ref().map(|base| base.record.key.clone());
        let record = Entry::new(Event::CheckStarted)
            .object(self.dir.id().as_str())
            .decision(Decision::Allow)
            .digest("command", command.as_deref())
            .digest("image_id", Some(self.verifier.image.id.trim_start_matches("sha256:")))
            .digest("base", base.as_deref());
        self.write_record(record).await?;
        self.started = true;
        Ok(())
    }

    async fn record_end(
        &self,
        ended: &Result<Option<Checked>, InfraError>,
    ) -> Result<(), InfraError> {
        if !self.started {
            return Ok(());
        }
        let record = Entry::new(Event::CheckFinished).object(self.dir.id().as_str());
        let record = match ended {
            Ok(None) => record.reason("cancelled"),
            Err(error) => record.reason(error.error_type.as_str()),
            Ok(Some(checked)) => {
                let record = match checked.end {
                    CheckEnd::Exited(code) => {
                        let code = u64::try_from(code).unwrap_or_default();
                        record.reason("exited").count("exit_code", code)
                    }
                    CheckEnd::TimedOut(_) => record.reason("timeout"),
                };
                let took = u64::try_from(checked.took.as_millis()).unwrap_or(u64::MAX);
                record
                    .count("duration_ms", took)
                    .count("covered", checked.covered.len() as u64)
                    .digest("output", Some(&digest(checked.output.as_bytes())))
            }
        };
        self.write_record(record).await
    }

    async fn write_record(&self, record: Entry) -> Result<(), InfraError> {
        let audit = self.verifier.audit.clone();
        let recorded = blocking(move || Ok(audit.append(record).and_then(|_| audit.settle())));
        let recorded =
            recorded.await.map_err(|error| InfraError::from_io("record the check", &error))?;
        recorded.map_err(unrecorded)
    }
}

/// Removes files of the base that the working tree does not have any more from the layer of this container.
async fn remove_files(
    verifier: &DockerVerifier,
    container: &Container,
    gone: &[String],
) -> Result<(), InfraError> {
    let engine = &verifier.engine;
    let remove = async {
        for paths in command_lines(gone) {
            let paths = paths.iter().map(|path| format!("./{path}"));
            let command = Command {
                arguments: ["rm", "-f", "--"].map(str::to_owned).into_iter().chain(paths).collect(),
                directory: Some(crate::workspace::COPY.to_owned()),
            };
            let exec = engine.create_exec(&container.name, command).await?;
            let mut output = engine.start_exec(&exec).await?;
            while let Some(Ok(_)) = output.next().await {}
            let code = loop {
                let found = engine.inspect_exec(&exec).await?;
                match found.exit_code.filter(|_| found.running == Some(false)) {
                    Some(code) => break code,
                    None => tokio::time::sleep(POLL).await,
                }
            };
            if code != 0 {
                let why = "files that were deleted since the last commit could not be removed";
                return Err(InfraError::new(ErrorType::Unknown, why));
            }
        }
        Ok(())
    };
    let late = || InfraError::new(ErrorType::Unknown, "deleted files could not be removed in time");
    tokio::time::timeout(REMOVAL, remove).await.unwrap_or_else(|_| Err(late()))
}

/// Divides paths into lists, each of which fits into one command line.
fn command_lines(paths: &[String]) -> Vec<&[String]> {
    let (mut lists, mut begin, mut bytes) = (vec![], 0, 0);
    for (at, path) in paths.iter().enumerate() {
        // The prefix `./`, the end of the text and its pointer.
        let more = path.len() + 11;
        if bytes + more > REMOVED_BYTES && at > begin {
            lists.push(&paths[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += more;
    }
    lists.extend((begin < paths.len()).then(|| &paths[begin..]));
    lists
}

/// Cuts an output. `start` and `end` are its ends, with `before` bytes before `end`; without any, `end` is the whole.
fn shown(start: &str, before: u64, end: &str) -> String {
    let whole = before == 0;
    if whole && end.len() <= SHOWN_START + SHOWN_END {
        return end.to_owned();
    }
    let start = if whole { end } else { start };
    let start = &start[..start.floor_char_boundary(SHOWN_START)];
    let from = end.ceil_char_boundary(end.len().saturating_sub(SHOWN_END));
    let tail = &end[from..];
    let left_out = before + (from as u64) - (start.len() as u64);
    format!("{start}\n[act: {left_out} bytes left out here, the end follows]\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_files_are_removed_with_few_commands_whose_lines_fit() {
        let paths: Vec<_> = (0..10_000).map(|n| format!("directory/of/files/{n}.txt")).collect();
        let lists = command_lines(&paths);
        assert!(lists.len() < 10, "{}", lists.len());
        assert_eq!(lists.concat(), paths);
        let long = vec!["x".repeat(4096); 100];
        assert!(command_lines(&long).iter().all(|list| list.len() <= 16));
        assert_eq!(command_lines(&[]), Vec::<&[String]>::new());
    }

    // VERIFIER-57
    #[test]
    fn a_long_output_has_its_beginning_and_its_end() {
        let short = "x".repeat(SHOWN_START + SHOWN_END);
        assert_eq!(shown("", 0, &short), short);
        let long = format!("begin{}end", "ä".repeat(20_000));
        let cut = shown("", 0, &long);
        assert!(cut.starts_with("begin") && cut.ends_with("end"), "{cut}");
        assert!(cut.len() < SHOWN_START + SHOWN_END + 80, "{}", cut.len());
        let left_out = long.len()
            - (cut.len() - "\n[act: 23625 bytes left out here, the end follows]\n".len());
        assert!(cut.contains(&format!("[act: {left_out} bytes left out here")), "{left_out} {cut}");
        let huge = shown(&long, 1 << 30, &long);
        assert!(huge.starts_with("begin") && huge.ends_with("end") && huge.len() == cut.len() + 5);
    }
}
