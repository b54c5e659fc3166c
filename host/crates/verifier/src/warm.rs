//! Warm runs: an attempt begins with a base, which is what `prepare` left of the last commit, and with the files in which
//! the working tree differs from that commit.
//!
//! Only the host makes a base, from git's objects, in a container with the walls of every run. No attempt changes it: it is
//! the lower layer of overlays whose upper layers belong to the attempt. A warm red ends an attempt; a warm green is
//! followed by a cold run, whose result counts, unless the person chose otherwise. Where anything decides against a warm
//! run, the attempt is cold, and the person gets the reason once.

use crate::container::Container;
use crate::docker_verifier::{DockerVerifier, blocking, container_name};
use crate::engine::Engine;
use crate::passwd::PASSWD;
use crate::pipeline::run_steps;
use crate::request::step_environment;
use crate::steps::{ContainerSteps, RunLog};
use crate::workspace::{Beginning, Differences, Overlays, View, Workspace};
use crate::workspace::{overlay_obstacle, sources, view_of};
use act_audit::{Decision, Entry, Event};
use act_config::Warm;
use act_core::RunId;
use act_core::event::Events;
use act_core::verification::{ErrorType, InfraError, Verdict, Verification};
use act_records::artifacts::{Base, BaseFile, BaseRecord, BaseSize, NewBase, RunDir};
use act_workspace::{Committed, CopySet, PathGlobs, digest, git_place, special_files};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Part of the key of every base. It rises when the way in which a base is made or used changes.
const FORMAT: u32 = 1;
/// Bytes of a changed file that are shown to the judge of gate inputs; longer scripts are not followed either.
const MAX_TEXT: u64 = 256 << 10;
/// Longest wait for the first second after the end of `prepare`, in case a clock was set back.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// A file in which the tree of an attempt differs from the commit of its base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    /// `None` for a new file.
    pub sha256_before: Option<String>,
    pub sha256_now: String,
    /// The texts, where they are short enough and valid UTF-8.
    pub text_before: Option<String>,
    pub text_now: Option<String>,
}

/// Returns the first of the changed files that the verification depends on, with the reason.
pub type GateChange = dyn Fn(&[ChangedFile]) -> Option<String> + Send + Sync;

/// The warm runs of one task.
pub struct WarmRuns {
    mode: Warm,
    gate: Box<GateChange>,
    base: tokio::sync::Mutex<Wanted>,
    /// Reasons for cold runs that the person knows already.
    told: Mutex<BTreeSet<String>>,
    /// Digests of trees that failed in a warm run. Their next run is cold, in case the base is to blame.
    red: Mutex<BTreeSet<String>>,
    /// The last green tree had a warm run that was green and a cold one that agreed. Only then runs on other trees, which no
    /// cold run follows, begin with the base.
    agreed: AtomicBool,
}

enum Wanted {
    /// The base was not searched for yet.
    Unknown,
    /// There is none, or it was found to be wrong, for this reason.
    Never(String),
    Ready(Arc<Base>),
}

/// A base that is being made while the task does something else.
#[derive(Debug)]
pub struct BaseUnderWay {
    cancel: CancellationToken,
    work: tokio::task::JoinHandle<()>,
}

impl BaseUnderWay {
    /// Ends the work, and waits until its container is removed.
    pub async fn stop(self) {
        self.cancel.cancel();
        let _ = self.work.await;
    }
}

/// How an attempt that might be warm ended.
pub(crate) enum WarmEnd {
    /// The attempt has to be cold.
    Cold,
    /// This run was green; a cold run decides.
    Green(RunId),
    /// This run is the attempt.
    Counts(Box<Verification>),
}

/// Why there is no base, for the person.
struct NoBase(String);

impl<E: std::fmt::Display> From<E> for NoBase {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl WarmRuns {
    /// Returns the warm runs of a task, or `None` if its configuration has none. `gate` judges the changes of an attempt.
    pub fn of(mode: Warm, gate: Box<GateChange>) -> Option<Arc<Self>> {
        (mode != Warm::Off).then(|| {
            Arc::new(Self {
                mode,
                gate,
                base: tokio::sync::Mutex::new(Wanted::Unknown),
                told: Mutex::default(),
                red: Mutex::default(),
                agreed: AtomicBool::new(mode == Warm::Final),
            })
        })
    }

    /// Starts to find or make the base. An attempt that needs it waits for it.
    pub fn begin(
        self: &Arc<Self>,
        verifier: &DockerVerifier,
        cancel: &CancellationToken,
    ) -> BaseUnderWay {
        let (warm, verifier, cancel) = (Arc::clone(self), verifier.clone(), cancel.child_token());
        let stop = cancel.clone();
        let work = tokio::spawn(async move {
            if warm.base(&verifier, &stop).await.is_some() {
                let lost = verifier.engine.remove_lost_bases(&verifier.artifacts);
                // Trouble with what other processes left is no trouble of the task.
                let _ = stop.run_until_cancelled(lost).await;
            }
        });
        BaseUnderWay { cancel, work }
    }

    /// Runs an attempt that begins with the base, if it may. Returns `None` when cancelled.
    pub(crate) async fn attempt(
        &self,
        verifier: &DockerVerifier,
        number: u32,
        cancel: &CancellationToken,
    ) -> Option<WarmEnd> {
        let of_another_tree = verifier.variant.is_some();
        if of_another_tree && !self.agreed.load(Ordering::Relaxed) {
            return Some(WarmEnd::Cold);
        }
        let Ok(base) = self.base(verifier, cancel).await? else { return Some(WarmEnd::Cold) };
        let differences = match self.compare(verifier, &base).await {
            Ok(differences) => differences,
            // Runs on other trees are not reported to the person.
            Err(_) if of_another_tree => return Some(WarmEnd::Cold),
            Err(NoBase(why)) => {
                self.agreed.store(false, Ordering::Relaxed);
                self.tell(verifier, &format!("this attempt is cold: {why}"));
                return Some(WarmEnd::Cold);
            }
        };
        wait_until(base.record.ended, cancel).await?;
        let tree = differences.tree.digest.clone();
        let beginning = Some((base, Box::new(differences)));
        let run = verifier.run_once(number, beginning, None, cancel).await?;
        match (&run.verdict, &run.run_id) {
            (Verdict::Infra(error), _) if error.error_type == ErrorType::ContainerCreation => {
                let why = &error.message;
                *self.base.lock().await = Wanted::Never(format!("it cannot be used: {why}"));
                self.tell(verifier, &format!("attempts are cold: the base cannot be used: {why}"));
                return Some(WarmEnd::Cold);
            }
            // Only a green attempt may end a task. A baseline, which is no attempt, and a run on another tree end none.
            (Verdict::Pass, Some(run_id)) if number > 0 && !of_another_tree => {
                if self.mode == Warm::Attempts {
                    return Some(WarmEnd::Green(run_id.clone()));
                }
                self.agreed.store(true, Ordering::Relaxed);
            }
            (Verdict::Fail(_), _) if !of_another_tree => {
                self.red.lock().unwrap_or_else(PoisonError::into_inner).insert(tree);
            }
            _ => {}
        }
        Some(WarmEnd::Counts(Box::new(run)))
    }

    /// Waits until a file that is written now is newer than everything in the base.
    pub(crate) async fn wait_for_newer_times(&self, base: &Base, cancel: &CancellationToken) {
        let _ = wait_until(base.record.ended, cancel).await;
    }

    /// Remembers whether the cold run that followed a warm green agreed with it.
    pub(crate) fn followed_by(&self, cold: &Verification) {
        self.agreed.store(cold.passed(), Ordering::Relaxed);
    }

    /// Destroys the base after a cold run failed where a warm one passed, and records that.
    pub(crate) async fn disproved(
        &self,
        verifier: &DockerVerifier,
        warm: &RunId,
        cold: &Verification,
    ) {
        let why = "a cold run failed where a warm one passed, so it was removed".to_owned();
        let Wanted::Ready(base) =
            std::mem::replace(&mut *self.base.lock().await, Wanted::Never(why))
        else {
            return;
        };
        let cold = cold.run_id.as_ref().map(|run| run.as_str().to_owned());
        let entry = Entry::new(Event::BaseDisproved)
            .object(&base.record.key)
            .decision(Decision::Deny)
            .names([Some(warm.as_str().to_owned()), cold].into_iter().flatten());
        let recorded =
            verifier.audit.append(entry).map(drop).and_then(|()| verifier.audit.settle());
        if let Err(error) = recorded {
            verifier.events.warn(format!("the end of a base cannot be recorded: {error}"));
        }
        let size = BaseSize::from(&base.record);
        let artifacts = Arc::clone(&verifier.artifacts);
        let destroyed = blocking(move || match Arc::try_unwrap(base) {
            Ok(base) => artifacts.destroy_base(base),
            Err(shared) => artifacts.remove_base(&shared.record.key).map(drop),
        });
        if let Err(error) = destroyed.await {
            verifier.events.warn(format!("a base that was disproved cannot be removed: {error}"));
        }
        verifier.engine.remove_base_images(&[size]).await;
        self.tell(
            verifier,
            "a cold run failed where a warm one passed, so the base was removed and the attempts of this task are cold",
        );
    }

    /// Tells the person a reason once.
    fn tell(&self, verifier: &DockerVerifier, text: &str) {
        let new = self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned());
        if new {
            verifier.events.warn(text);
        }
    }

    /// Returns the base, and makes it first if there is none; the inner error says why there is none, so that attempts are
    /// cold. Returns `None` when cancelled.
    pub(crate) async fn base(
        &self,
        verifier: &DockerVerifier,
        cancel: &CancellationToken,
    ) -> Option<Result<Arc<Base>, String>> {
        let mut wanted = match self.base.try_lock() {
            Ok(wanted) => wanted,
            Err(_) => {
                verifier.events.inform(
                    "waiting for `prepare` of the last commit, with whose result the attempts begin",
                );
                cancel.run_until_cancelled(self.base.lock()).await?
            }
        };
        match &*wanted {
            Wanted::Never(why) => return Some(Err(why.clone())),
            Wanted::Ready(base) => return Some(Ok(Arc::clone(base))),
            Wanted::Unknown => {}
        }
        match make(verifier, cancel).await {
            Ok(Some(base)) => {
                let base = Arc::new(base);
                *wanted = Wanted::Ready(Arc::clone(&base));
                Some(Ok(base))
            }
            Ok(None) => None,
            Err(NoBase(why)) => {
                *wanted = Wanted::Never(why.clone());
                self.tell(
                    verifier,
                    &format!("there is no warm base, so every attempt is cold: {why}"),
                );
                Some(Err(why))
            }
        }
    }

    /// Compares the working tree with the commit of the base.
    ///
    /// # Errors
    /// The reason why the attempt has to be cold.
    async fn compare(
        &self,
        verifier: &DockerVerifier,
        base: &Arc<Base>,
    ) -> Result<Differences, NoBase> {
        let (owned, base) = (verifier.clone(), Arc::clone(base));
        let work = move || {
            let set = sources(owned.repo.path(), &PathGlobs::new(&owned.config.pipeline.include)?)?;
            is_copied(&owned, &set, owned.artifacts.path())?;
            differences(&owned, &base, set)
        };
        let (differences, files, cold) = blocking(move || Ok(work())).await??;
        if let Some(why) = cold {
            return Err(NoBase(why));
        }
        let red = self.red.lock().unwrap_or_else(PoisonError::into_inner);
        if red.contains(&differences.tree.digest) {
            return Err(NoBase("the same tree failed in a warm run".to_owned()));
        }
        match (self.gate)(&files) {
            Some(why) => Err(NoBase(why)),
            None => Ok(differences),
        }
    }

    /// Compares the working tree with the commit of the base for a check, which decides nothing. What makes an attempt cold
    /// is therefore only a reason to doubt the base, and is returned beside the differences.
    ///
    /// # Errors
    /// The tree cannot be read.
    pub(crate) async fn compare_for_check(
        &self,
        verifier: &DockerVerifier,
        base: &Arc<Base>,
    ) -> Result<(Differences, Option<String>), InfraError> {
        let (owned, base) = (verifier.clone(), Arc::clone(base));
        let work = move || {
            let include = PathGlobs::new(&owned.config.pipeline.include)?;
            differences(&owned, &base, sources(owned.repo.path(), &include)?)
        };
        let failed = |why: String| InfraError::new(ErrorType::Unknown, why);
        let compared = blocking(move || Ok(work())).await.map_err(|e| failed(e.to_string()))?;
        let (differences, files, cold) = compared.map_err(|NoBase(why)| failed(why))?;
        Ok((differences, cold.or_else(|| (self.gate)(&files))))
    }
}

/// Returns the files in which the working tree, whose files are `set`, differs from the commit of the base, and the first
/// reason why an attempt on that tree has to be cold.
///
/// Build tools find out what to build again from the times of files. That fails for a file that is gone, whose output
/// stays, and for what tools do not look at: modes, and the configuration of the build itself.
fn differences(
    verifier: &DockerVerifier,
    base: &Base,
    set: CopySet,
) -> Result<(Differences, Vec<ChangedFile>, Option<String>), NoBase> {
    let pipeline = &verifier.config.pipeline;
    let tree = set.tree()?;
    let mut cold = None;
    let inputs = PathGlobs::new(&pipeline.prepare_inputs)?;
    let (mut changed, mut files, mut known) = (vec![], vec![], BTreeSet::new());
    for (position, file) in tree.files.iter().enumerate() {
        let path = file.path.to_string_lossy().into_owned();
        let before = base.record.files.get(&path).filter(|_| file.path.to_str().is_some());
        if before.is_some() {
            known.insert(path.clone());
        }
        match before {
            Some(before) if before.mode != file.mode => {
                cold.get_or_insert_with(|| {
                    format!("the mode of {path} is another one than in the last commit")
                });
            }
            Some(before) if before.sha256 == file.sha256 => continue,
            _ => {}
        }
        changed.push(position);
        if inputs.matches(&path) {
            cold.get_or_insert_with(|| {
                format!("{path} is one of verification.prepare_inputs and has changed")
            });
        }
        let text = |bytes: io::Result<Vec<u8>>| String::from_utf8(bytes.ok()?).ok();
        let now = set.entries.iter().find(|entry| entry.path == file.path);
        let now = now.filter(|entry| file.mode != "120000" && entry.size <= MAX_TEXT);
        let read = |entry| {
            let file = set.open(entry).map_err(io::Error::other)?;
            act_fs::read_bounded(file, MAX_TEXT)
        };
        files.push(ChangedFile {
            sha256_before: before.map(|before| before.sha256.clone()),
            sha256_now: file.sha256.clone(),
            text_before: before.and_then(|_| text(base.read(&file.path, MAX_TEXT))),
            text_now: now.and_then(|entry| text(read(entry))),
            path,
        });
    }
    let gone = base.record.files.keys().filter(|path| !known.contains(*path));
    let gone: Vec<String> = gone.cloned().collect();
    if let Some(gone) = gone.first() {
        cold.get_or_insert_with(|| format!("{gone} of the last commit was deleted or renamed"));
    }
    Ok((Differences { set, tree, changed, gone }, files, cold))
}

/// Refuses a tree that the steps see in another way than as a copy.
fn is_copied(verifier: &DockerVerifier, set: &CopySet, artifacts: &Path) -> Result<(), NoBase> {
    let special = special_files(verifier.repo.path()).map_err(io::Error::from)?;
    let wanted = verifier.config.pipeline.workspace;
    match view_of(wanted, set, &special, artifacts, true)? {
        View::Copy => Ok(()),
        view => Err(NoBase(format!(
            "the steps see the tree in the view {}, and only a copy can begin warm",
            view.as_str()
        ))),
    }
}

/// Waits until the clock shows this second, so that every file that is written from then on is newer than the base even
/// for a tool that compares whole seconds. Returns `None` when cancelled.
async fn wait_until(second: i64, cancel: &CancellationToken) -> Option<()> {
    let began = Instant::now();
    while act_core::clock::now().timestamp() < second && began.elapsed() < LONGEST_WAIT {
        cancel.run_until_cancelled(tokio::time::sleep(Duration::from_millis(20))).await?;
    }
    Some(())
}

/// Finds the base of this configuration and commit, or makes it. Returns `None` when cancelled.
async fn make(
    verifier: &DockerVerifier,
    cancel: &CancellationToken,
) -> Result<Option<Base>, NoBase> {
    let DockerVerifier { engine, artifacts, config, .. } = verifier;
    engine.check_abilities(&config.pipeline)?;
    if !engine.is_known_to_share_files() {
        return Err(NoBase("the engine does not mount directories of this machine".to_owned()));
    }
    if let Some(why) = overlay_obstacle(artifacts.path(), true) {
        return Err(NoBase(why));
    }
    let owned = verifier.clone();
    let (commit, key) = blocking(move || Ok(commit_and_key(&owned))).await??;
    let new = loop {
        let (store, name) = (Arc::clone(artifacts), key.clone());
        if let Some(base) = blocking(move || store.base(&name)).await? {
            if fits(engine, &base, &commit).await {
                return Ok(Some(base));
            }
            let size = BaseSize::from(&base.record);
            drop(base);
            let (store, name) = (Arc::clone(artifacts), key.clone());
            if !blocking(move || store.remove_base(&name)).await? {
                return Err(NoBase(
                    "another task uses a base that this commit does not fit".to_owned(),
                ));
            }
            engine.remove_base_images(&[size]).await;
        }
        let (store, name, stop) = (Arc::clone(artifacts), key.clone(), cancel.clone());
        match blocking(move || store.begin_base(&name, || !stop.is_cancelled())).await? {
            Some(new) => break new,
            None if cancel.is_cancelled() => return Ok(None),
            // Another process has just made it, or has given up.
            None => {}
        }
    };
    let store = Arc::clone(artifacts);
    let removed = blocking(move || store.prune_bases()).await?;
    engine.remove_base_images(&removed).await;

    let made = prepare(verifier, Arc::new(commit), &new, cancel).await;
    let entry = Entry::new(Event::BasePrepared).object(&key);
    let record = match made {
        Ok(Some(record)) => record,
        ended => {
            let store = Arc::clone(artifacts);
            blocking(move || store.drop_base(new)).await?;
            if ended.is_err() {
                verifier.audit.append(entry.decision(Decision::Deny))?;
                verifier.audit.settle()?;
            }
            return ended.map(|_| None);
        }
    };
    // A base that is not in the log is not used.
    let entry = entry.decision(Decision::Allow).names([record.run_id.clone()]);
    verifier.audit.append(entry)?;
    verifier.audit.settle()?;
    let store = Arc::clone(artifacts);
    Ok(Some(blocking(move || store.publish_base(new, record)).await?))
}

/// Returns the last commit, and the digest of everything that decides what `prepare` makes of it.
fn commit_and_key(verifier: &DockerVerifier) -> Result<(Committed, String), NoBase> {
    let DockerVerifier { engine, image, artifacts, repo, config, .. } = verifier;
    let pipeline = &config.pipeline;
    let set = sources(repo.path(), &PathGlobs::new(&pipeline.include)?)?;
    is_copied(verifier, &set, artifacts.path())?;
    let commit = Committed::of(verifier.home())?;
    if let Some(odd) = commit.files.iter().find(|file| file.path.to_str().is_none()) {
        return Err(NoBase(format!("the name of {} is not valid UTF-8", odd.path.display())));
    }
    let commands: Vec<_> =
        pipeline.prepare.iter().map(|step| (&step.command, step.network)).collect();
    let environment = step_environment(image.path.as_deref(), false, pipeline.ca_bundle.is_some());
    let git = format!("{:?}", git_place(verifier.home())?);
    let key = serde_json::json!([
        FORMAT,
        verifier.home().to_string_lossy(),
        image.id,
        commands,
        environment,
        verifier.user().ids(),
        engine.fingerprint(),
        [&image.os, &image.arch, std::env::consts::ARCH],
        config.package,
        git,
        pipeline.prepare_inputs,
        commit.digest(&pipeline.prepare_inputs)?,
    ]);
    Ok((commit, digest(key.to_string().as_bytes())))
}

/// Returns whether a base can be used: its image exists, and every file of its commit is in the commit of now. With
/// `prepare_inputs` the key does not say so.
async fn fits(engine: &Engine, base: &Base, commit: &Committed) -> bool {
    let record = &base.record;
    let modes: BTreeMap<_, _> =
        commit.files.iter().map(|file| (file.path.to_str(), file.mode)).collect();
    let there = |(path, file): (&String, &BaseFile)| {
        modes.get(&Some(path.as_str())).is_some_and(|mode| *mode == file.mode)
    };
    record.files.iter().all(there)
        && match &record.container_image {
            Some(image) => matches!(engine.find_image(image).await, Ok(Some(_))),
            None => true,
        }
}

/// Runs `prepare` on the files of the commit, and gives what it left to the base. Returns `None` when cancelled.
async fn prepare(
    verifier: &DockerVerifier,
    commit: Arc<Committed>,
    new: &NewBase,
    cancel: &CancellationToken,
) -> Result<Option<BaseRecord>, NoBase> {
    let store = Arc::clone(&verifier.artifacts);
    let dir = Arc::new(blocking(move || store.create_run(act_core::clock::now())).await?);
    // The run is no attempt, so it has no events of its own.
    let quiet = DockerVerifier { events: Events::silent(), warm: None, ..verifier.clone() };
    let Some(slot) = verifier.slot(&dir, cancel).await? else { return Ok(None) };
    let prepared = prepare_in(&quiet, commit, new, &dir, cancel).await;
    // A slot that cannot be freed is freed with what this process leaves.
    let _ = slot.release().await;
    let scratch = Arc::clone(&dir);
    if let Err(error) = blocking(move || scratch.remove_scratch()).await {
        verifier.events.warn(format!("files of {} cannot be removed: {error}", dir.id().as_str()));
    }
    prepared
}

async fn prepare_in(
    verifier: &DockerVerifier,
    commit: Arc<Committed>,
    new: &NewBase,
    dir: &Arc<RunDir>,
    cancel: &CancellationToken,
) -> Result<Option<BaseRecord>, NoBase> {
    let DockerVerifier { engine, image, config, audit, .. } = verifier;
    let pipeline = &config.pipeline;
    let passwd = verifier.passwd(dir).await?;
    let (owned, run, stop) = (verifier.clone(), Arc::clone(dir), cancel.clone());
    let prepared = blocking(move || {
        let include = PathGlobs::new(&owned.config.pipeline.include).map_err(io::Error::other)?;
        let set = sources(owned.repo.path(), &include).map_err(io::Error::other)?;
        // The tree, and as much again for what is built of it.
        if run.free_space()? < set.bytes().saturating_mul(2) {
            return Err(io::Error::other("the disk has less room than twice the tree needs"));
        }
        let with = Overlays { view: false, cache: true };
        let beginning = Beginning::Commit(commit);
        Workspace::local(&owned, &run, &include, beginning, with, &stop).map_err(io::Error::other)
    });
    let mut workspace = match prepared.await {
        Err(_) if cancel.is_cancelled() => return Ok(None),
        workspace => workspace?,
    };
    if let Some(passwd) = passwd {
        workspace.add_file(dir, PASSWD, passwd)?;
    }
    let mut log = RunLog::create(dir)?;
    let request = verifier.request(dir, &mut workspace, &image.id, &pipeline.prepare);
    let targets: Vec<String> = request.mounts.iter().map(|mount| mount.target.clone()).collect();
    let name = container_name(dir);
    let Some(container) = Container::start(engine, name, request, image, audit, cancel).await?
    else {
        return Ok(None);
    };
    // The runs that begin with this base say whether the engine can close addresses.
    let closed = verifier.close_network(dir, &container, &pipeline.prepare, cancel).await;
    if let Err(error) = closed {
        container.remove().await.map_err(InfraError::from)?;
        return Err(error.into());
    }
    let (mut warnings, mut commands) = (vec![], vec![]);
    let mut steps = ContainerSteps {
        verifier,
        container: &container,
        workspace: &mut workspace,
        run: dir,
        log: &mut log,
        warnings: &mut warnings,
        cancel,
        disconnected: None,
        trouble: None,
    };
    let verdict = run_steps(pipeline.prepare.iter(), &mut steps, &mut commands).await;
    let id = dir.id().as_str();
    let step = commands.last().map(|command| command.name.clone()).unwrap_or_default();
    let wrote = commands.iter().flat_map(|command| &command.source_writes).next();
    let usable = match verdict {
        None => None,
        Some(Verdict::Pass) => Some(wrote.map_or(Ok(()), |write| {
            Err(NoBase(format!("`prepare` writes to the source ({})", write.path)))
        })),
        Some(Verdict::Fail(reason)) => Some(Err(NoBase(format!(
            "`prepare` failed on the last commit in step {step:?} ({}); `act logs {id}` shows why",
            reason.as_str()
        )))),
        Some(Verdict::Infra(error)) => Some(Err(NoBase(error.message))),
    };
    let kept = match &usable {
        Some(Ok(())) => {
            container.kill().await.map_err(InfraError::from)?;
            let place = (&*verifier.artifacts, new.key());
            Some(engine.keep_changes(&container.name, &targets, image, place).await)
        }
        _ => None,
    };
    container.remove().await.map_err(InfraError::from)?;
    let Some(usable) = usable else { return Ok(None) };
    usable?;
    let kept = kept.transpose()?.flatten();
    // Rounded up, because some tools compare whole seconds.
    let ended = act_core::clock::now().timestamp() + 1;
    if verifier.is_root_elsewhere() {
        verifier.reclaim(dir, None).await?;
    }
    let files = workspace.committed.take().unwrap_or_default().into_iter().map(|file| {
        let base = BaseFile { mode: file.mode.to_owned(), sha256: file.sha256 };
        (file.path.to_string_lossy().into_owned(), base)
    });
    let record = BaseRecord {
        key: String::new(),
        repo: verifier.home().to_string_lossy().into_owned(),
        image: image.reference.clone(),
        engine: engine.host().to_owned(),
        image_bytes: kept.as_ref().map_or(0, |(_, bytes)| *bytes),
        container_image: kept.map(|(image, _)| image),
        run_id: id.to_owned(),
        ended,
        bytes: 0,
        files: files.collect(),
    };
    let cache = workspace.cache.take();
    let gave = (|| {
        if let Some(cache) = cache {
            cache.give(new)?;
            cache.accept()?;
        }
        new.take(dir)
    })();
    match gave {
        Ok(()) => Ok(Some(record)),
        Err(error) => {
            let size = BaseSize::from(&record);
            engine.remove_base_images(&[size]).await;
            Err(error.into())
        }
    }
}
