//! An engine that does not see the files of this machine: how it is recognised, the volumes that take the place of
//! directories of this machine, and the archives that fill and empty them.

use crate::blocking::blocking;
use crate::ca_bundle;
use crate::container::Guard;
use crate::container_audit;
use crate::copy_view;
use crate::docker_error::EngineError;
use crate::docker_error::Phase;
use crate::docker_verifier::Downloads;
use crate::docker_verifier::unrecorded;
use crate::engine::Engine;
use crate::engine::QUICK;
use crate::engine::WORK;
use crate::environment::CA_BUNDLE;
use crate::image::ResolvedImage;
use crate::owner;
use crate::pack::Packer;
use crate::pack::bytes_within;
use crate::prepare::LENT_GIT;
use crate::prepare::Prepared;
use crate::prepare::RunSpec;
use crate::prepare::choose_view;
use crate::prepare::git_elsewhere;
use crate::prepare::git_pointer;
use crate::prepare::sources;
use crate::request::ContainerRequest;
use crate::request::artifacts_tmpfs;
use crate::request::bind;
use crate::request::new_volume;
use crate::request::volume;
use crate::source_writes::Backing;
use crate::source_writes::TreeDiff;
use crate::view::COPY;
use crate::view::View;
use crate::view::WORKSPACE;
use crate::view::overlay_obstacle;
use act_audit::Audit;
use act_core::process;
use act_core::process::Process;
use act_core::verification::ErrorType;
use act_core::verification::InfraError;
use act_core::verification::Warning;
use act_records::artifacts::RunDir;
use act_records::artifacts::STEP_PARTS;
use act_records::artifacts::cache_names;
use act_records::artifacts::tidying_script;
use act_workspace::CopySet;
use act_workspace::GitPlace;
use act_workspace::digest;
use act_workspace::git_place;
use act_workspace::head_commit;
use bollard::errors::Error;
use bollard::models::ContainerCreateBody;
use bollard::models::Mount;
use bollard::query_parameters::ContainerArchiveInfoOptions;
use bollard::query_parameters::DownloadFromContainerOptions;
use bollard::query_parameters::InspectContainerOptions;
use bollard::query_parameters::ListVolumesOptions;
use bollard::query_parameters::StartContainerOptions;
use bollard::query_parameters::UploadToContainerOptions;
use bollard::query_parameters::WaitContainerOptions;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use rustix::process::geteuid;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const SEEN_AT: &str = "/act-sight";

/// What is known, or believed until it is disproved.
#[derive(Debug, Default)]
pub(crate) struct FileSharing {
    known: OnceLock<bool>,
    /// Nobody asks before something goes wrong.
    believed: bool,
}

impl FileSharing {
    pub(crate) fn of(host: &str, podman: bool, hostname: Option<&str>) -> Self {
        let known = |sees: bool| Self { known: OnceLock::from(sees), believed: false };
        if host.starts_with("unix://") {
            // Podman makes a directory where it finds nothing to mount, on a machine that is not ours: it is
            // never asked. On other systems every engine is in a virtual machine, which has our files.
            let far = podman && cfg!(target_os = "linux") && hostname != Some(&process::hostname());
            return if far { known(false) } else { Self { believed: true, ..Self::default() } };
        }
        if podman || !is_loopback(host) { known(false) } else { Self::default() }
    }

    fn so_far(&self) -> Option<bool> {
        self.known.get().copied().or(self.believed.then_some(true))
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.split_once("://").map_or(host, |(_, address)| address);
    let address = address.split('/').next().unwrap_or_default();
    let name = match address.strip_prefix('[') {
        Some(v6) => v6.split(']').next(),
        None => address.split(':').next(),
    };
    name.is_some_and(|name| {
        name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    })
}

impl Engine {
    /// As far as it is known or believed.
    pub(crate) fn sees_files(&self) -> bool {
        self.sharing.so_far() == Some(true)
    }

    /// Asked once per engine, if at all. `run` lends the file, whose directory has a name that no other machine
    /// has.
    pub(crate) async fn shares_files(
        &self,
        run: &RunDir,
        image: &ResolvedImage,
    ) -> Result<bool, InfraError> {
        match self.sharing.so_far() {
            Some(sees) => Ok(sees),
            None => self.look(run, image).await,
        }
    }

    /// After the engine could not make a container with our files: whether it was wrong to believe that it
    /// sees them.
    pub(crate) async fn shares_no_files(
        &self,
        run: &RunDir,
        image: &ResolvedImage,
    ) -> Result<bool, InfraError> {
        if self.is_podman() || self.sharing.known.get().is_some() {
            return Ok(false);
        }
        self.look(run, image).await.map(|sees| !sees)
    }

    async fn look(&self, run: &RunDir, image: &ResolvedImage) -> Result<bool, InfraError> {
        let sees = self.show(run, image).await?;
        Ok(*self.sharing.known.get_or_init(|| sees))
    }

    async fn show(&self, run: &RunDir, image: &ResolvedImage) -> Result<bool, InfraError> {
        let file = run
            .lend_file("sight", b"seen")
            .map_err(|error| InfraError::from_io("show the engine a file", &error))?;
        let name = format!("act-{}-sight", run.id());
        let guard = Guard::arm(self, &name, vec![]);
        let deadline = act_core::clock::now().timestamp();
        let mounts = vec![bind(&file, SEEN_AT, true)?];
        let labels = owner::labels(Process::this(), run.id().as_str(), deadline);
        let request = ContainerRequest::helper(image, mounts, 1, labels);
        let seen = match self.create(&name, request.body()).await {
            Ok(()) => {
                let options = ContainerArchiveInfoOptions { path: SEEN_AT.to_owned() };
                let look = self.docker.get_container_archive_info(&name, Some(options));
                match self.call(Phase::Prepare, QUICK, look).await {
                    Ok(_) => Ok(true),
                    Err(error) if error.status() == Some(404) => Ok(false),
                    Err(error) => Err(error),
                }
            }
            // What it is to mount does not exist there.
            Err(error) if error.status() == Some(400) => Ok(false),
            Err(error) => Err(error),
        };
        guard.remove().await?;
        Ok(seen?)
    }
}

/// A larger git directory is not sent. It travels piece by piece, so this bounds a wait and a disk, no memory.
const MAX_GIT: u64 = 4 << 30;

/// What is read on this machine before anything is sent.
struct Plan {
    set: CopySet,
    view: View,
    certificates: Option<String>,
    git: Git,
    commit: Option<String>,
    warnings: Vec<Warning>,
}

enum Git {
    None,
    /// The repository's own.
    Whole(PathBuf),
    /// That of which the repository is a linked worktree, and the text of its `.git` file there.
    Linked(PathBuf, String),
}

/// `ids` are whom the steps run as. None when cancelled; what was sent until then is gone.
pub(crate) async fn prepare_remote(
    engine: &Engine,
    image: &ResolvedImage,
    order: RunSpec,
    run: &Arc<RunDir>,
    ids: (u32, u32),
    audit: &Audit,
    cancel: &CancellationToken,
) -> Result<Option<Prepared>, InfraError> {
    let (name, labels, package) =
        (order.name.clone(), order.labels.clone(), order.gate.package.clone());
    let (repo, downloads) = (order.repo.clone(), order.downloads);
    let there = run.clone();
    let planned = blocking(move || Ok(plan(&order, &there))).await;
    let plan = planned.map_err(|error| InfraError::from_io("prepare the run", &error))??;
    // To its end: removing what the engine is still making would miss it.
    let mut store = VolumeStore::create(engine, &name, image, labels.clone(), ids).await?;
    if downloads == Downloads::Kept
        && let Some(cache) = RemoteCache::hold(engine, image, &repo, &labels, ids, audit).await?
    {
        store.keep(cache);
    }
    let filled = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        filled = fill(&store, plan, package, ids, cancel) => Some(filled),
    };
    match filled {
        Some(prepared) => Ok(Some(Prepared { store: Some(store), ..prepared? })),
        None => {
            store.remove().await?;
            Ok(None)
        }
    }
}

async fn fill(
    store: &VolumeStore,
    plan: Plan,
    package: Option<String>,
    ids: (u32, u32),
    cancel: &CancellationToken,
) -> Result<Prepared, InfraError> {
    let Plan { set, view, certificates, git, commit, warnings } = plan;
    let pointer = match &git {
        Git::Linked(_, pointer) => Some(pointer.clone()),
        Git::None | Git::Whole(_) => None,
    };
    let (mountpoint, stop) = (matches!(git, Git::Whole(_)), cancel.clone());
    let sent = store.send_tree(ids, move |packer| {
        // What must exist whatever the tree holds: where the steps work, and where git is mounted.
        if let Some(package) = &package {
            packer.directory(package.as_ref())?;
        }
        if mountpoint {
            packer.directory(".git".as_ref())?;
        }
        if let Some(pointer) = pointer {
            packer.text(".git", pointer.as_bytes())?;
        }
        let tree = copy_view::copy(&set, packer, &stop)?;
        Ok((set, tree))
    });
    let (set, tree) = sent.await?;
    let targets = git_targets(&git, view);
    if let Git::Whole(path) | Git::Linked(path, _) = git {
        store.send_git(ids, move |packer| packer.all_of(open(&path)?)).await?;
    }
    let place = if view == View::Readonly { Backing::ReadOnly } else { Backing::Remote };
    let digest = tree.digest.clone();
    let watch = TreeDiff::new(set, tree, place)
        .map_err(|error| InfraError::from_io("copy the repository for the run", &error))?;
    Ok(Prepared {
        view,
        watch,
        mounts: store.mounts(view, &targets),
        volume: None,
        files: certificates.map(|text| (CA_BUNDLE, text.into_bytes())).into_iter().collect(),
        cache: None,
        digest,
        commit,
        warnings,
        store: None,
    })
}

fn plan(order: &RunSpec, run: &RunDir) -> Result<Plan, InfraError> {
    let set = sources(order)?;
    let view = choose_view(order, &set, overlay_obstacle(run.path(), false))?;
    let certificates = order.gate.pipeline.ca_bundle.as_deref().map(ca_bundle::certificates);
    let mut warnings = vec![];
    let git = lend_git(&order.repo, &mut warnings)
        .map_err(|error| InfraError::from_io("lend the repository's .git", &error))?;
    require_sendable(&git, MAX_GIT)?;
    let commit = head_commit(&order.repo);
    Ok(Plan { set, view, certificates: certificates.transpose()?, git, commit, warnings })
}

/// A gate without the history that it has here would be another gate.
fn require_sendable(git: &Git, most: u64) -> Result<(), InfraError> {
    let (Git::Whole(path) | Git::Linked(path, _)) = git else { return Ok(()) };
    let within = open(path).and_then(|git| bytes_within(git, most));
    match within.map_err(|error| InfraError::from_io("measure the git directory", &error))? {
        Some(_) => Ok(()),
        None => Err(InfraError::new(
            ErrorType::ContainerCreation,
            format!(
                "{} holds more than {} MiB, too much to send to an engine that does not see our files; \
                 run `git gc`, or use an engine of this machine",
                path.display(),
                most >> 20
            ),
        )),
    }
}

fn lend_git(repo: &Path, warnings: &mut Vec<Warning>) -> io::Result<Git> {
    Ok(match git_place(repo)? {
        GitPlace::None => Git::None,
        GitPlace::Elsewhere => {
            warnings.push(git_elsewhere());
            Git::None
        }
        GitPlace::Directory => Git::Whole(repo.join(".git")),
        GitPlace::Linked { common, inside } => Git::Linked(common, git_pointer(&inside)),
    })
}

/// Where the git directory is mounted, read-only.
fn git_targets(git: &Git, view: View) -> Vec<String> {
    let roots = [view.root(), WORKSPACE];
    match git {
        Git::None => vec![],
        Git::Linked(..) => vec![LENT_GIT.to_owned()],
        Git::Whole(_) => {
            let different = if view == View::Copy { &roots[..] } else { &roots[..1] };
            different.iter().map(|root| format!("{root}/.git")).collect()
        }
    }
}

fn open(path: &Path) -> io::Result<std::os::fd::OwnedFd> {
    Ok(File::open(path)?.into())
}

/// Where the container that never starts has the volumes.
const FILES: &str = "/act";
/// Each part is a volume of its own, as it is a mount of its own on an engine of this machine.
const PARTS: &str = "/act/artifacts";
/// Of a run that shares none.
const CACHE: &str = "cache";
const TREE: &str = "/act/tree";
const GIT: &str = "/act/git";

pub(crate) struct VolumeStore {
    engine: Engine,
    /// Of the container that holds the volumes, and of the volumes but for their endings.
    name: String,
    guard: Guard,
    /// None where the run has a cache of its own.
    cache: Option<RemoteCache>,
}

/// What steps write into.
fn parts() -> impl Iterator<Item = &'static str> {
    STEP_PARTS.into_iter().chain([CACHE])
}

impl VolumeStore {
    /// Makes the volumes and what steps write into: `tree`, empty, belongs to `ids`, as do the parts. The labels
    /// are those of the run, so that whoever finds it left over knows whose it was.
    pub(crate) async fn create(
        engine: &Engine,
        run: &str,
        image: &ResolvedImage,
        labels: std::collections::HashMap<String, String>,
        ids: (u32, u32),
    ) -> Result<Self, InfraError> {
        let name = format!("{run}-files");
        let places: Vec<_> = parts()
            .map(|part| (part, format!("{PARTS}/{part}")))
            .chain([("tree", TREE.to_owned()), ("git", GIT.to_owned())])
            .map(|(end, place)| (format!("{name}-{end}"), place))
            .collect();
        let volumes = places.iter().map(|(volume, _)| volume.clone()).collect();
        let guard = Guard::arm(engine, &name, volumes);
        let store = Self { engine: engine.clone(), name, guard, cache: None };
        for (volume, _) in &places {
            engine.create_volume(new_volume(volume, labels.clone())).await?;
        }
        let mounts = places.iter().map(|(name, place)| volume(name, place, false)).collect();
        let request = ContainerRequest::helper(image, mounts, 1, labels);
        engine.create(&store.name, request.body()).await?;
        // The root of a volume is made by the engine, and some engines let nobody name its owner but from
        // above.
        store
            .send(FILES, ids, |packer| {
                packer.directory("tree".as_ref())?;
                parts()
                    .try_for_each(|part| packer.directory(format!("artifacts/{part}").as_ref()))?;
                // Where the copy is mounted.
                packer.directory("artifacts/build/tree".as_ref())
            })
            .await?;
        Ok(store)
    }

    /// Given back when the store is removed.
    fn keep(&mut self, cache: RemoteCache) {
        self.cache = Some(cache);
    }

    /// The tree that the steps work in, once.
    async fn send_tree<T: Send + 'static>(
        &self,
        ids: (u32, u32),
        pack: impl FnOnce(&mut Packer<&mut dyn Write>) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        self.send(TREE, ids, pack).await
    }

    async fn send_git(
        &self,
        ids: (u32, u32),
        pack: impl FnOnce(&mut Packer<&mut dyn Write>) -> std::io::Result<()> + Send + 'static,
    ) -> Result<(), InfraError> {
        self.send(GIT, ids, pack).await
    }

    async fn send<T: Send + 'static>(
        &self,
        path: &str,
        ids: (u32, u32),
        pack: impl FnOnce(&mut Packer<&mut dyn Write>) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        let root = path != FILES;
        upload(&self.engine, &self.name, path, move |to| {
            let mut packer = Packer::new(to, ids);
            if root {
                packer.top()?;
            }
            let packed = pack(&mut packer)?;
            packer.finish()?;
            Ok(packed)
        })
        .await
    }

    /// What the container of the steps gets: the same places as on an engine of this machine. `git` is where
    /// the git directory is wanted.
    pub(crate) fn mounts(&self, view: View, git: &[String]) -> Vec<Mount> {
        let of = |end: &str| format!("{}-{end}", self.name);
        let mut mounts = vec![artifacts_tmpfs(), volume(&of("tree"), WORKSPACE, true)];
        let own = parts().filter(|part| *part != CACHE || self.cache.is_none());
        mounts.extend(own.map(|part| volume(&of(part), &format!("/artifacts/{part}"), false)));
        if view == View::Copy {
            mounts.push(volume(&of("tree"), COPY, false));
        }
        mounts.extend(self.cache.iter().map(RemoteCache::mount));
        mounts.extend(git.iter().map(|target| volume(&of("git"), target, true)));
        mounts
    }

    /// The tree as it is now, archived below `tree/`.
    pub(crate) async fn read_tree<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut dyn Read) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        download(&self.engine, &self.name, TREE, read).await
    }

    /// One of the parts that steps write, archived below its name. The tree is not in it.
    pub(crate) async fn read_part<T: Send + 'static>(
        &self,
        part: &str,
        read: impl FnOnce(&mut dyn Read) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        download(&self.engine, &self.name, &format!("{PARTS}/{part}"), read).await
    }

    /// Only after the container of the steps is gone.
    pub(crate) async fn remove(self) -> Result<(), EngineError> {
        let released = match self.cache {
            Some(cache) => cache.release().await,
            None => Ok(()),
        };
        self.guard.remove().await.and(released)
    }
}

/// Whose it is; what `act cache` looks for.
const OWNER: &str = "act.cache.owner";
const IMAGE: &str = "act.cache.image";
const REPO: &str = "act.cache.repo";

const PLACE: &str = "/act-cache";
/// Where steps have it.
const TARGET: &str = "/artifacts/cache";

struct RemoteCache {
    name: String,
    guard: Guard,
}

impl RemoteCache {
    /// None where another run holds it, or where it can be had in no good state. The labels are those of the
    /// run, so that whoever finds its holder left over knows whose it was.
    pub(crate) async fn hold(
        engine: &Engine,
        image: &ResolvedImage,
        repo: &Path,
        labels: &HashMap<String, String>,
        ids: (u32, u32),
        audit: &Audit,
    ) -> Result<Option<Self>, InfraError> {
        let (image_name, repo_name) = cache_names(&image.digest, repo);
        let owner = owner();
        let name = name(&image_name, &repo_name, &owner);
        // Once more from nothing, if what is there cannot be made good.
        for _ in 0..2 {
            let whose = [(OWNER, &owner), (IMAGE, &image_name), (REPO, &repo_name)];
            let whose = whose.map(|(label, value)| (label.to_owned(), value.clone()));
            engine.create_volume(new_volume(&name, HashMap::from(whose))).await?;
            let body = holder(image, &name, labels.clone(), ids);
            audit.append(container_audit::requested(&name, &body)).map_err(unrecorded)?;
            if let Err(error) = engine.create(&name, body).await {
                // Engines say differently that a name is taken.
                let inspect =
                    engine.docker.inspect_container(&name, None::<InspectContainerOptions>);
                engine.call(Phase::Inspect, QUICK, inspect).await.map_err(|_| error)?;
                return Ok(None);
            }
            // Not before: it would remove another run's.
            let held = Self { name: name.clone(), guard: Guard::arm(engine, &name, vec![]) };
            if tidy(engine, &name).await? {
                return Ok(Some(held));
            }
            held.release().await?;
            match engine.remove_volume(&name).await {
                Err(error) if error.status() == Some(409) => return Ok(None),
                removed => removed?,
            }
        }
        Ok(None)
    }

    pub(crate) fn mount(&self) -> Mount {
        volume(&self.name, TARGET, false)
    }

    /// Only after the container of the steps is gone.
    async fn release(self) -> Result<(), EngineError> {
        self.guard.remove().await
    }
}

fn holder(
    image: &ResolvedImage,
    name: &str,
    labels: HashMap<String, String>,
    ids: (u32, u32),
) -> ContainerCreateBody {
    let request = ContainerRequest::helper(image, vec![volume(name, PLACE, false)], 1, labels);
    ContainerCreateBody { cmd: Some(vec![tidying_script(PLACE, ids)]), ..request.body() }
}

/// Whether nothing but downloads is in it now.
async fn tidy(engine: &Engine, name: &str) -> Result<bool, EngineError> {
    let start = engine.docker.start_container(name, None::<StartContainerOptions>);
    engine.call(Phase::Start, WORK, start).await?;
    // Not by looking at its state: Podman has words for that which the client does not know.
    let ended = async {
        let wait = engine.docker.wait_container(name, None::<WaitContainerOptions>);
        match Box::pin(wait).next().await {
            Some(Ok(ended)) => Ok(ended.status_code == 0),
            Some(Err(Error::DockerContainerWaitError { .. })) | None => Ok(false),
            Some(Err(error)) => Err(EngineError::new(Phase::Prepare, &error)),
        }
    };
    tokio::time::timeout(WORK, ended).await.unwrap_or(Ok(false))
}

/// Two users of one engine, or of two machines, do not share what they download.
pub(crate) fn owner() -> String {
    format!("{}@{}", geteuid().as_raw(), process::hostname())
}

fn name(image: &str, repo: &str, owner: &str) -> String {
    let digest = digest([image, repo, owner].join("\n").as_bytes());
    format!("act-cache-{}", &digest[..24])
}

/// A download cache in a volume of the engine; its size only the engine's machine knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheVolume {
    pub volume: String,
    pub image: String,
    pub repo: String,
}

impl Engine {
    pub async fn cache_volumes(&self) -> Result<Vec<CacheVolume>, InfraError> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("{OWNER}={}", owner())])]);
        let options = ListVolumesOptions { filters: Some(filters) };
        let list = self.docker.list_volumes(Some(options));
        let listed = self.call(Phase::Inspect, QUICK, list).await?;
        let mut found: Vec<_> = listed
            .volumes
            .unwrap_or_default()
            .into_iter()
            .map(|mut volume| CacheVolume {
                image: volume.labels.remove(IMAGE).unwrap_or_default(),
                repo: volume.labels.remove(REPO).unwrap_or_default(),
                volume: volume.name,
            })
            .collect();
        found.sort_by(|a, b| (&a.image, &a.repo).cmp(&(&b.image, &b.repo)));
        Ok(found)
    }

    /// Removes all that no run holds; what was removed and how many are in use.
    pub async fn clear_cache_volumes(&self) -> Result<(Vec<CacheVolume>, usize), InfraError> {
        let (mut cleared, mut busy) = (vec![], 0);
        for cache in self.cache_volumes().await? {
            match self.remove_volume(&cache.volume).await {
                Ok(()) => cleared.push(cache),
                Err(error) if error.status() == Some(409) => busy += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok((cleared, busy))
    }
}

const PIECE: usize = 128 * 1024;
/// Pieces on their way at once.
const IN_FLIGHT: usize = 8;
/// In seconds: the client's own limit counts from the first byte sent. Ours is on silence.
const NO_LIMIT: u64 = 24 * 60 * 60;

/// Sends what `pack` writes, an archive, to be unpacked at `path`; the engine obeys the owners in it.
pub(crate) async fn upload<T: Send + 'static>(
    engine: &Engine,
    container: &str,
    path: &str,
    pack: impl FnOnce(&mut dyn Write) -> io::Result<T> + Send + 'static,
) -> Result<T, InfraError> {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(IN_FLIGHT);
    let moved = Arc::new(AtomicU64::new(0));
    let counter = moved.clone();
    let packing = blocking(move || {
        let mut sending = Sending { pieces: sender, buffer: vec![], moved: counter };
        match pack(&mut sending).and_then(|packed| sending.flush().map(|()| packed)) {
            Ok(packed) => Ok(packed),
            Err(error) => {
                // Else what was sent so far would look like all of it.
                let _ = sending.pieces.blocking_send(Err(io::ErrorKind::Interrupted.into()));
                Err(error)
            }
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    let options = UploadToContainerOptions {
        path: path.to_owned(),
        // Else some engines give everything to the container's user, its `/etc/passwd` included.
        copy_uidgid: Some("false".to_owned()),
        ..UploadToContainerOptions::default()
    };
    let mut docker = engine.docker.clone();
    docker.set_timeout(std::time::Duration::from_secs(NO_LIMIT));
    let body = bollard::body_try_stream(pieces);
    let sent = async {
        tokio::select! {
            sent = docker.upload_to_container(container, Some(options), body) => {
                sent.map_err(|error| EngineError::new(Phase::Prepare, &error))
            }
            () = silence(&moved) => Err(EngineError::silent(Phase::Prepare)),
        }
    };
    let (packed, sent) = tokio::join!(packing, sent);
    match (packed, sent) {
        (Ok(packed), Ok(())) => Ok(packed),
        // The thread ends with this because nobody listens any more.
        (Err(error), Err(sent)) if error.kind() == io::ErrorKind::BrokenPipe => Err(sent.into()),
        (Err(error), _) => Err(InfraError::from_io("send the tree to the engine", &error)),
        (Ok(_), Err(sent)) => Err(sent.into()),
    }
}

/// Hands the archive of `path` to `unpack`, which need not read all of it.
pub(crate) async fn download<T: Send + 'static>(
    engine: &Engine,
    container: &str,
    path: &str,
    unpack: impl FnOnce(&mut dyn Read) -> io::Result<T> + Send + 'static,
) -> Result<T, InfraError> {
    let (sender, receiver) = mpsc::channel::<Bytes>(IN_FLIGHT);
    let reading =
        blocking(move || unpack(&mut Receiving { pieces: receiver, piece: Bytes::new() }));
    let options = DownloadFromContainerOptions { path: path.to_owned() };
    let mut pieces = Box::pin(engine.docker.download_from_container(container, Some(options)));
    let pumping = async move {
        loop {
            let piece = match tokio::time::timeout(WORK, pieces.next()).await {
                Ok(Some(Ok(piece))) => piece,
                Ok(Some(Err(error))) => return Err(EngineError::new(Phase::Fetch, &error)),
                Ok(None) => return Ok(()),
                Err(_) => return Err(EngineError::silent(Phase::Fetch)),
            };
            if !piece.is_empty() && sender.send(piece).await.is_err() {
                return Ok(());
            }
        }
    };
    let (read, pumped) = tokio::join!(reading, pumping);
    match (read, pumped) {
        (_, Err(error)) => Err(error.into()),
        (read, Ok(())) => {
            read.map_err(|error| InfraError::from_io("read what the engine sends", &error))
        }
    }
}

/// Ends when nothing has moved for as long as an engine may think.
async fn silence(moved: &AtomicU64) {
    let mut seen = None;
    loop {
        let now = moved.load(Ordering::Relaxed);
        if seen.replace(now) == Some(now) {
            return;
        }
        tokio::time::sleep(WORK).await;
    }
}

struct Sending {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
    moved: Arc<AtomicU64>,
}

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(2 * PIECE));
        self.moved.fetch_add(piece.len() as u64, Ordering::Relaxed);
        let sent = self.pieces.blocking_send(Ok(Bytes::from(piece)));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Ends where the engine's stream does; whether that was the archive's end, the archive says.
struct Receiving {
    pieces: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for Receiving {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let count = into.len().min(self.piece.len());
        let taken = self.piece.split_to(count);
        into.get_mut(..count).unwrap_or_default().copy_from_slice(&taken);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-33
    #[test]
    fn a_socket_is_believed_an_address_elsewhere_is_not_and_loopback_is_tried() {
        let of = |host: &str| FileSharing::of(host, false, Some("any")).so_far();
        assert_eq!(of("unix:///x.sock"), Some(true));
        for host in ["tcp://127.0.0.1:2375", "tcp://localhost:1", "http://[::1]:2"] {
            assert_eq!(of(host), None, "{host}");
        }
        for host in ["tcp://10.0.0.1:2375", "tcp://127.0.0.1.example.com:1", "https://[fe80::1]:2"]
        {
            assert_eq!(of(host), Some(false), "{host}");
        }
    }

    // VERIFIER-33
    #[cfg(target_os = "linux")]
    #[test]
    fn podman_is_never_shown_anything_and_is_here_when_its_machine_has_our_name() {
        let of = |host: &str, name: &str| FileSharing::of(host, true, Some(name)).so_far();
        assert_eq!(of("unix:///x.sock", &process::hostname()), Some(true));
        assert_eq!(of("unix:///x.sock", "some-other-machine"), Some(false));
        assert_eq!(of("tcp://127.0.0.1:1", &process::hostname()), Some(false));
    }

    // VERIFIER-33
    #[test]
    fn a_git_directory_beyond_the_limit_is_refused_with_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("pack"), vec![0; 2 << 20]).unwrap();
        let git = Git::Whole(dir.path().to_owned());
        assert!(require_sendable(&git, 2 << 20).is_ok());
        let refused = require_sendable(&git, (2 << 20) - 1).unwrap_err();
        assert_eq!(refused.error_type, ErrorType::ContainerCreation);
        assert!(refused.message.contains("more than 1 MiB") && refused.message.contains("git gc"));
        assert!(require_sendable(&Git::None, 0).is_ok());
    }

    // VERIFIER-29, VERIFIER-36
    #[test]
    fn a_cache_belongs_to_one_user_and_one_repository_in_one_image() {
        let first = name("aa", "app-1", "7@here");
        assert_eq!(first, name("aa", "app-1", "7@here"));
        for other in [("bb", "app-1", "7@here"), ("aa", "app-2", "7@here"), ("aa", "app-1", "8@x")]
        {
            assert_ne!(first, name(other.0, other.1, other.2));
        }
    }
}
