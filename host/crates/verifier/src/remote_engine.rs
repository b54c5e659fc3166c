//! An engine that does not mount directories of this machine: how it is recognised, the volumes that take the place of
//! directories, and the archives that fill and empty them.

use crate::ca_bundle;
use crate::container::{Guard, requested};
use crate::copy::{self, Destination, Packer, holds_at_most};
use crate::docker_verifier::{DockerVerifier, Downloads, blocking, container_name, unrecorded};
use crate::driver::{Ability, Sharing};
use crate::engine::{Engine, WORK, owner_labels};
use crate::engine_error::{EngineError, Phase};
use crate::image::ResolvedImage;
use crate::request::{
    CA_BUNDLE, ContainerRequest, Mount, NewVolume, Role, artifacts_tmpfs, bind, new_volume, volume,
};
use crate::source_writes::{Backing, TreeDiff};
use crate::workspace::{
    COPY, LINKED_GIT, View, WORKSPACE, Workspace, choose_view, git_failed, git_pointer,
    git_warning, overlay_obstacle, sources,
};
use act_core::process::{self, Process};
use act_core::verification::{ErrorType, InfraError};
use act_records::artifacts::{RunDir, STEP_PARTS, cache_names, tidying_script};
use act_workspace::{
    CopyEntry, CopySet, GitPlace, PathGlobs, RepoView, digest, git_place, is_stored_as_is,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use rustix::process::geteuid;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The path at which the probe of an engine mounts a file.
const PROBE_TARGET: &str = "/act-sight";

/// Remembers whether an engine mounts directories of this machine: known, or assumed until a mount fails.
#[derive(Debug, Default)]
pub(crate) struct FileSharing {
    known: OnceLock<bool>,
    assumed: bool,
}

impl FileSharing {
    pub(crate) fn new(declared: Sharing) -> Self {
        let known = match declared {
            Sharing::Always => OnceLock::from(true),
            Sharing::Never => OnceLock::from(false),
            Sharing::Assumed | Sharing::Unknown => OnceLock::new(),
        };
        Self { known, assumed: declared == Sharing::Assumed }
    }

    pub(crate) fn so_far(&self) -> Option<bool> {
        self.known.get().copied().or(self.assumed.then_some(true))
    }
}

impl Engine {
    /// Returns whether the engine is known or assumed to mount directories of this machine.
    pub(crate) fn is_known_to_share_files(&self) -> bool {
        self.sharing.so_far() == Some(true)
    }

    /// Returns whether the engine mounts directories of this machine. An engine for which that is not known is probed
    /// once, with a file of `run`, whose path exists on no other machine.
    ///
    /// # Errors
    /// The engine does not answer.
    pub(crate) async fn shares_files(
        &self,
        run: &RunDir,
        image: &ResolvedImage,
    ) -> Result<bool, InfraError> {
        match self.sharing.so_far() {
            Some(shares) => Ok(shares),
            None => self.probe(run, image).await,
        }
    }

    /// Returns whether the engine was assumed to mount directories of this machine and does not. Call this when the
    /// engine could not create a container.
    ///
    /// # Errors
    /// The engine does not answer.
    pub(crate) async fn turned_out_remote(
        &self,
        run: &RunDir,
        image: &ResolvedImage,
    ) -> Result<bool, InfraError> {
        if self.sharing.known.get().is_some() {
            return Ok(false);
        }
        Ok(!self.probe(run, image).await?)
    }

    /// Creates a container that mounts a file of `run`, and asks whether it holds the file.
    async fn probe(&self, run: &RunDir, image: &ResolvedImage) -> Result<bool, InfraError> {
        let file = run
            .lend_file("sight", b"seen")
            .map_err(|error| InfraError::from_io("test the engine with a mounted file", &error))?;
        let name = format!("act-{}-sight", run.id());
        let guard = Guard::arm(self, &name, vec![]);
        let deadline = act_core::clock::now().timestamp();
        let mounts = vec![bind(&file, PROBE_TARGET, true)?];
        let labels = owner_labels(Process::this(), run.id().as_str(), deadline);
        let request = ContainerRequest::helper(image, mounts, 1, labels);
        let shares = match self.create(&name, &request).await {
            Ok(()) => self.has_path(&name, PROBE_TARGET).await,
            // The source of the mount does not exist there.
            Err(error) if error.status() == Some(400) => Ok(false),
            Err(error) => Err(error),
        };
        guard.remove().await?;
        let shares = shares?;
        Ok(*self.sharing.known.get_or_init(|| shares))
    }
}

/// Maximum size of a git directory that is sent, in bytes. It bounds the time and the disk; a git directory is streamed
/// and takes little memory.
const MAX_GIT: u64 = 4 << 30;

/// Sends the tree to the engine and lists what the container mounts. Returns `None` when cancelled; the volumes are
/// removed then.
///
/// # Errors
/// `container_creation` when the view is impossible on this engine or the git directory is too large, else trouble with
/// the files or the engine.
pub(crate) async fn prepare(
    verifier: &DockerVerifier,
    run: &Arc<RunDir>,
    include: &Arc<PathGlobs>,
    cancel: &CancellationToken,
) -> Result<Option<Workspace>, InfraError> {
    // Everything on this machine is read before anything is sent.
    let (owned, dir, globs) = (verifier.clone(), run.clone(), include.clone());
    let read = blocking(move || {
        let read = || {
            let (repo, pipeline) = (owned.repo.path(), &owned.config.pipeline);
            let set = sources(repo, &globs)?;
            let obstacle = overlay_obstacle(dir.path(), false);
            let view = choose_view(pipeline.workspace, &set, obstacle)?;
            let certificates =
                pipeline.ca_bundle.as_deref().map(ca_bundle::certificates).transpose()?;
            let git = git_place(owned.home()).map_err(|error| git_failed(error.into()))?;
            if let Some(directory) = git_directory(repo, &git) {
                require_sendable(&directory, MAX_GIT)?;
            }
            Ok::<_, InfraError>((set, view, certificates, git))
        };
        Ok(read())
    });
    let (set, view, certificates, git) =
        read.await.map_err(|error| InfraError::from_io("prepare the run", &error))??;

    let ids = verifier.user().ids();
    // The creation is not cancelled: the removal of a volume that the engine is still creating would miss it.
    let mut volumes = VolumeStore::create(verifier, run).await?;
    if verifier.downloads == Downloads::Shared && verifier.engine.can(Ability::KeepVolumes) {
        volumes.cache = RemoteCache::lock(verifier, run, ids).await?;
    }
    if cancel.is_cancelled() {
        volumes.remove().await?;
        return Ok(None);
    }
    let mut workspace = Workspace {
        view,
        digest: String::new(),
        diff: None,
        mounts: volumes.mounts(view, &git_targets(&git, view)),
        overlays: vec![],
        files: vec![],
        cache: None,
        volumes: Some(volumes),
        committed: None,
        git_tree: None,
        warnings: git_warning(&git).into_iter().collect(),
        unsent: Some(Unsent::Tree { set, git: git.clone() }),
    };
    if let Some(certificates) = certificates {
        workspace.add_file(run, CA_BUNDLE, certificates.into_bytes())?;
    }
    workspace.sent_first(verifier, run, cancel).await
}

/// Sends the tree for a check to the engine, with an empty file in place of each one that the Editor does not see, and without
/// a git directory. Returns the view and those files, or `None` when cancelled; the volumes are removed then.
///
/// # Errors
/// Trouble with the files or the engine.
pub(crate) async fn prepare_check(
    verifier: &DockerVerifier,
    run: &Arc<RunDir>,
    seen: RepoView,
    mut set: CopySet,
    cancel: &CancellationToken,
) -> Result<Option<(Workspace, Vec<String>)>, InfraError> {
    // The downloads of this engine are in a volume without a layer above it, and nothing of a check may stay there.
    let volumes = VolumeStore::create(verifier, run).await?;
    let is_hidden =
        |one: &CopyEntry| one.path.to_str().is_none_or(|path| seen.rule(path, one.kind).is_some());
    let hidden = set.entries.extract_if(.., |one| is_hidden(one));
    let empty: Vec<PathBuf> = hidden.map(|one| one.path).collect();
    let covered = empty.iter().map(|path| path.display().to_string()).collect();
    if cancel.is_cancelled() {
        volumes.remove().await?;
        return Ok(None);
    }
    let workspace = Workspace {
        view: View::Copy,
        digest: String::new(),
        diff: None,
        mounts: volumes.mounts(View::Copy, &[]),
        overlays: vec![],
        files: vec![],
        cache: None,
        volumes: Some(volumes),
        committed: None,
        git_tree: None,
        warnings: vec![],
        unsent: Some(Unsent::Check { set, empty }),
    };
    Ok(workspace.sent_first(verifier, run, cancel).await?.map(|workspace| (workspace, covered)))
}

/// The files that the volumes of a run still have to get. Where volumes exist only together with the container that mounts them,
/// they are sent when that was created, and otherwise before ([`Workspace::sent_first`]).
pub(crate) enum Unsent {
    /// The tree of a run, and its git directory.
    Tree { set: CopySet, git: GitPlace },
    /// The tree of a check, with empty files at these paths.
    Check { set: CopySet, empty: Vec<PathBuf> },
}

impl Workspace {
    /// Sends everything before the container of the steps exists, where volumes exist without one: Docker makes mount points in a
    /// volume when it writes a file of the container, and in a read-only one it cannot. Returns `None` when cancelled; the volumes
    /// are removed then.
    async fn sent_first(
        mut self,
        verifier: &DockerVerifier,
        run: &RunDir,
        cancel: &CancellationToken,
    ) -> Result<Option<Self>, InfraError> {
        if verifier.engine.can(Ability::KeepVolumes) && !self.send(verifier, run, cancel).await? {
            if let Some(volumes) = self.volumes.take() {
                volumes.remove().await?;
            }
            return Ok(None);
        }
        Ok(Some(self))
    }

    /// Sends what a remote engine still has to get, and notes what was sent. Returns false when cancelled.
    ///
    /// # Errors
    /// Trouble with the files or the engine.
    pub(crate) async fn send(
        &mut self,
        verifier: &DockerVerifier,
        run: &RunDir,
        cancel: &CancellationToken,
    ) -> Result<bool, InfraError> {
        let (Some(volumes), Some(unsent)) = (&self.volumes, self.unsent.take()) else {
            return Ok(true);
        };
        let ids = verifier.user().ids();
        let package = verifier.config.package.clone();
        let (set, git, empty) = match unsent {
            Unsent::Tree { set, git } => (set, Some(git), vec![]),
            Unsent::Check { set, empty } => (set, None, empty),
        };
        let sent = cancel.run_until_cancelled(async {
            volumes.make_directories(ids).await?;
            let (stop, place) = (cancel.clone(), git.clone());
            let send = volumes.send(TREE, ids, move |packer| {
                packer.top()?;
                match &place {
                    Some(place) => copy::create_mount_points(
                        package.as_deref(),
                        place,
                        git_pointer(place).as_deref(),
                        packer,
                    )?,
                    None => {
                        package.iter().try_for_each(|package| packer.directory(package.as_ref()))?
                    }
                }
                let tree = copy::copy(&set, packer, &stop)?;
                empty.iter().try_for_each(|path| packer.text(path, b""))?;
                Ok((set, tree))
            });
            let sent = send.await?;
            let directory = git.as_ref().and_then(|git| git_directory(verifier.home(), git));
            if let Some(directory) = directory {
                let send = volumes.send(GIT, ids, move |packer| {
                    packer.top()?;
                    packer.all_of(open(&directory)?)
                });
                send.await?;
            }
            Ok::<_, InfraError>(sent)
        });
        let Some(sent) = sent.await else { return Ok(false) };
        let (set, tree) = sent?;
        if git.is_none() {
            // Nothing that a check writes is compared.
            return Ok(true);
        }
        let read_only = self.view == View::Readonly;
        let backing = if read_only { Backing::ReadOnly } else { Backing::Remote };
        let stored = verifier.variant.is_none() && is_stored_as_is(verifier.repo.path(), &set);
        self.git_tree = if stored { tree.git_tree() } else { None };
        // The list serves only to name files that differ later.
        let _ = run.write_tree(&tree.list());
        self.digest = tree.digest.clone();
        let diff = TreeDiff::new(set, tree, backing)
            .map_err(|error| InfraError::from_io("copy the repository for the run", &error))?;
        self.diff = Some(diff);
        Ok(true)
    }
}

/// Returns the git directory that the steps need, or `None` for a tree without one.
fn git_directory(repo: &Path, git: &GitPlace) -> Option<PathBuf> {
    match git {
        GitPlace::None | GitPlace::Elsewhere => None,
        GitPlace::Directory => Some(repo.join(".git")),
        GitPlace::Linked { common, .. } => Some(common.clone()),
    }
}

/// Refuses a git directory that is too large. Steps without the history would verify something else than on this
/// machine.
fn require_sendable(git: &Path, most: u64) -> Result<(), InfraError> {
    let within = open(git).and_then(|directory| holds_at_most(directory, most));
    if within.map_err(|error| InfraError::from_io("measure the git directory", &error))? {
        return Ok(());
    }
    Err(InfraError::new(
        ErrorType::ContainerCreation,
        format!(
            "{} holds more than {} MiB, too much to send to an engine that cannot mount local directories; run `git gc`, or \
             use an engine of this machine",
            git.display(),
            most >> 20
        ),
    ))
}

/// Returns the paths at which the git directory is mounted, read-only.
fn git_targets(git: &GitPlace, view: View) -> Vec<String> {
    match git {
        GitPlace::None | GitPlace::Elsewhere => vec![],
        GitPlace::Linked { .. } => vec![LINKED_GIT.to_owned()],
        GitPlace::Directory if view == View::Copy => {
            vec![format!("{COPY}/.git"), format!("{WORKSPACE}/.git")]
        }
        GitPlace::Directory => vec![format!("{}/.git", view.root())],
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(File::open(path)?.into())
}

/// The path at which a container that is never started mounts the volumes.
const FILES: &str = "/act";
/// Each part is a volume of its own, because the steps get it as a mount of its own.
const PARTS: &str = "/act/artifacts";
/// The cache of a run that shares none.
const CACHE: &str = "cache";
const TREE: &str = "/act/tree";
const GIT: &str = "/act/git";

/// The volumes that hold the files of one run, and the container through which they are read and written.
pub(crate) struct VolumeStore {
    engine: Engine,
    /// Name of the container. The name of a volume begins with it.
    name: String,
    guard: Guard,
    /// The shared cache. `None` when the run has a cache of its own.
    cache: Option<RemoteCache>,
}

/// Returns the names of the parts that steps write.
fn parts() -> impl Iterator<Item = &'static str> {
    STEP_PARTS.into_iter().chain([CACHE])
}

impl VolumeStore {
    /// Creates the volumes. The labels name the run, so that a later
    /// start of `act` can remove what a dead process leaves.
    async fn create(verifier: &DockerVerifier, run: &RunDir) -> Result<Self, InfraError> {
        let (engine, labels) = (&verifier.engine, verifier.labels(run));
        let name = format!("{}-files", container_name(run));
        let paths: Vec<_> = parts()
            .map(|part| (part, format!("{PARTS}/{part}")))
            .chain([("tree", TREE.to_owned()), ("git", GIT.to_owned())])
            .map(|(end, path)| (format!("{name}-{end}"), path))
            .collect();
        let volumes = paths.iter().map(|(volume, _)| volume.clone()).collect();
        let guard = Guard::arm(engine, &name, volumes);
        let store = Self { engine: engine.clone(), name, guard, cache: None };
        let content = digest(verifier.home().as_os_str().as_encoded_bytes());
        for (volume, path) in &paths {
            // No digest covers the git directory, so its content has no name.
            let content = (path == TREE).then(|| content.clone());
            let volume = new_volume(volume, labels.clone());
            engine.create_volume(NewVolume { content, ..volume }).await?;
        }
        let mounts = paths.iter().map(|(name, path)| volume(name, path, false)).collect();
        let request = ContainerRequest::helper(&verifier.image, mounts, 1, labels);
        let request = ContainerRequest { role: Role::Files, user: verifier.user(), ..request };
        engine.create(&store.name, &request).await?;
        Ok(store)
    }

    /// Makes the tops of the volumes, which belong to the user of the steps.
    async fn make_directories(&self, ids: (u32, u32)) -> Result<(), InfraError> {
        // Some engines change the owner of a volume's root only when the archive names it from the directory above.
        self.send(FILES, ids, |packer| {
            packer.directory("tree".as_ref())?;
            parts().try_for_each(|part| packer.directory(format!("artifacts/{part}").as_ref()))?;
            // The copy is mounted here.
            packer.directory("artifacts/build/tree".as_ref())
        })
        .await
    }

    /// Unpacks the archive that `pack` writes at `path`. Everything in it belongs to `ids`.
    async fn send<T: Send + 'static>(
        &self,
        path: &str,
        ids: (u32, u32),
        pack: impl FnOnce(&mut Packer<&mut dyn Write>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        upload(&self.engine, &self.name, path, move |to| {
            let mut packer = Packer::new(to, ids);
            let packed = pack(&mut packer)?;
            packer.finish()?;
            Ok(packed)
        })
        .await
    }

    /// Returns the mounts of the steps' container, at the same paths as on an engine of this machine. `git` are the
    /// paths of the git directory.
    fn mounts(&self, view: View, git: &[String]) -> Vec<Mount> {
        let name = |end: &str| format!("{}-{end}", self.name);
        let mut mounts = vec![artifacts_tmpfs(), volume(&name("tree"), WORKSPACE, true)];
        let own = parts().filter(|part| *part != CACHE || self.cache.is_none());
        mounts.extend(own.map(|part| volume(&name(part), &format!("/artifacts/{part}"), false)));
        if view == View::Copy {
            mounts.push(volume(&name("tree"), COPY, false));
        }
        mounts
            .extend(self.cache.iter().map(|cache| volume(&cache.name, "/artifacts/cache", false)));
        mounts.extend(git.iter().map(|target| volume(&name("git"), target, true)));
        mounts
    }

    /// Reads the tree as it is now, as an archive below `tree/`.
    ///
    /// # Errors
    /// The engine fails, or `read` does.
    pub(crate) async fn read_tree<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut dyn Read) -> io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        download(&self.engine, &self.name, TREE, read).await
    }

    /// Reads one of the parts that steps write, as an archive below its name.
    ///
    /// # Errors
    /// The engine fails, or `read` does.
    pub(crate) async fn read_part<T: Send + 'static>(
        &self,
        part: &str,
        read: impl FnOnce(&mut dyn Read) -> io::Result<T> + Send + 'static,
    ) -> Result<T, InfraError> {
        download(&self.engine, &self.name, &format!("{PARTS}/{part}"), read).await
    }

    /// Removes the volumes and releases the shared cache. Call this after the container of the steps is gone.
    pub(crate) async fn remove(self) -> Result<(), EngineError> {
        let released = match self.cache {
            Some(cache) => cache.guard.remove().await,
            None => Ok(()),
        };
        self.guard.remove().await.and(released)
    }
}

/// Labels of a cache volume, by which `act cache` finds it.
const OWNER: &str = "act.cache.owner";
const IMAGE: &str = "act.cache.image";
const REPO: &str = "act.cache.repo";

/// The path at which a container mounts the cache that it tidies.
const TIDY_TARGET: &str = "/act-cache";

/// A download cache on a remote engine, locked by a container of its name.
struct RemoteCache {
    name: String,
    guard: Guard,
}

impl RemoteCache {
    /// Locks the cache of this repository in this image, and removes from it what is no download. Returns `None` when
    /// another run holds the lock, and when the cache cannot be tidied even after it was created anew.
    async fn lock(
        verifier: &DockerVerifier,
        run: &RunDir,
        ids: (u32, u32),
    ) -> Result<Option<Self>, InfraError> {
        let DockerVerifier { engine, image, .. } = verifier;
        let (image_name, repo_name) = cache_names(&image.digest, verifier.downloads_home());
        let owner = owner();
        let name = cache_name(&image_name, &repo_name, &owner);
        for _ in 0..2 {
            let labels = [(OWNER, &owner), (IMAGE, &image_name), (REPO, &repo_name)];
            let labels = labels.map(|(label, value)| (label.to_owned(), value.clone()));
            engine.create_volume(new_volume(&name, HashMap::from(labels))).await?;
            let mounts = vec![volume(&name, TIDY_TARGET, false)];
            let request = ContainerRequest::helper(image, mounts, 1, verifier.labels(run));
            let script = tidying_script(TIDY_TARGET, ids);
            let request = ContainerRequest { script: Some(script), ..request };
            verifier.audit.append(requested(engine, &name, &request)).map_err(unrecorded)?;
            if let Err(error) = engine.create(&name, &request).await {
                // Engines report in different ways that a name is taken.
                engine.inspect(&name).await.map_err(|_| error)?;
                return Ok(None);
            }
            // The guard is not armed earlier, because it would remove the container of another run.
            let cache = Self { name: name.clone(), guard: Guard::arm(engine, &name, vec![]) };
            engine.start(&name).await?;
            if engine.wait_for_success(&name).await? {
                return Ok(Some(cache));
            }
            cache.guard.remove().await?;
            match engine.remove_volume(&name).await {
                Err(error) if error.status() == Some(409) => return Ok(None),
                removed => removed?,
            }
        }
        Ok(None)
    }
}

/// Returns the user and the machine. Two users of one engine, or two machines, do not share their downloads.
fn owner() -> String {
    format!("{}@{}", geteuid().as_raw(), process::hostname())
}

fn cache_name(image: &str, repo: &str, owner: &str) -> String {
    let digest = digest([image, repo, owner].join("\n").as_bytes());
    format!("act-cache-{}", &digest[..24])
}

/// A download cache in a volume of the engine. Its size is known only to the engine's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheVolume {
    pub volume: String,
    pub image: String,
    pub repo: String,
}

impl Engine {
    /// Lists the cache volumes of this user and machine, by image and repository.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn cache_volumes(&self) -> Result<Vec<CacheVolume>, InfraError> {
        let listed = self.labelled_volumes(format!("{OWNER}={}", owner())).await?;
        let mut found: Vec<_> = listed
            .into_iter()
            .map(|mut volume| CacheVolume {
                image: volume.labels.remove(IMAGE).unwrap_or_default(),
                repo: volume.labels.remove(REPO).unwrap_or_default(),
                volume: volume.id,
            })
            .collect();
        found.sort_by(|a, b| (&a.image, &a.repo).cmp(&(&b.image, &b.repo)));
        Ok(found)
    }

    /// Removes the cache volumes that no run uses. Returns the removed ones and the number of those in use.
    ///
    /// # Errors
    /// The engine does not answer, or refuses a removal for another reason.
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

/// Size of the pieces of an upload, in bytes.
const PIECE: usize = 128 * 1024;
/// Number of pieces between the thread that packs and the connection.
const PIECES_IN_FLIGHT: usize = 8;
/// Sends the archive that `pack` writes, to be unpacked at `path` with the owners that it names.
async fn upload<T: Send + 'static>(
    engine: &Engine,
    container: &str,
    path: &str,
    pack: impl FnOnce(&mut dyn Write) -> io::Result<T> + Send + 'static,
) -> Result<T, InfraError> {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(PIECES_IN_FLIGHT);
    let sent_bytes = Arc::new(AtomicU64::new(0));
    let counter = sent_bytes.clone();
    let packing = blocking(move || {
        let mut writer = PieceWriter { pieces: sender, buffer: vec![], sent_bytes: counter };
        match pack(&mut writer).and_then(|packed| writer.flush().map(|()| packed)) {
            Ok(packed) => Ok(packed),
            Err(error) => {
                // Without an error in the stream, the engine would take the archive for complete.
                let _ = writer.pieces.blocking_send(Err(io::ErrorKind::Interrupted.into()));
                Err(error)
            }
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    let sent = async {
        tokio::select! {
            sent = engine.upload(container, path, pieces) => sent,
            () = stalled(&sent_bytes) => Err(EngineError::silent(Phase::Prepare)),
        }
    };
    match tokio::join!(packing, sent) {
        (Ok(packed), Ok(())) => Ok(packed),
        // The packing thread fails this way because the connection has ended.
        (Err(error), Err(sent)) if error.kind() == io::ErrorKind::BrokenPipe => Err(sent.into()),
        (Err(error), _) => Err(InfraError::from_io("send the tree to the engine", &error)),
        (Ok(_), Err(sent)) => Err(sent.into()),
    }
}

/// Hands the archive of `path` to `unpack`, which need not read it to its end.
async fn download<T: Send + 'static>(
    engine: &Engine,
    container: &str,
    path: &str,
    unpack: impl FnOnce(&mut dyn Read) -> io::Result<T> + Send + 'static,
) -> Result<T, InfraError> {
    let (sender, receiver) = mpsc::channel::<Bytes>(PIECES_IN_FLIGHT);
    let reading =
        blocking(move || unpack(&mut PieceReader { pieces: receiver, piece: Bytes::new() }));
    let mut pieces = engine.download(container, path, Phase::Fetch);
    let receiving = async move {
        loop {
            let piece = match tokio::time::timeout(WORK, pieces.next()).await {
                Ok(Some(piece)) => piece?,
                Ok(None) => return Ok(()),
                Err(_) => return Err(EngineError::silent(Phase::Fetch)),
            };
            if !piece.is_empty() && sender.send(piece).await.is_err() {
                return Ok(());
            }
        }
    };
    match tokio::join!(reading, receiving) {
        (_, Err(error)) => Err(error.into()),
        (read, Ok(())) => {
            read.map_err(|error| InfraError::from_io("read what the engine sends", &error))
        }
    }
}

/// Returns when no byte was sent for [`WORK`].
async fn stalled(sent_bytes: &AtomicU64) {
    let mut before = None;
    loop {
        let now = sent_bytes.load(Ordering::Relaxed);
        if before.replace(now) == Some(now) {
            return;
        }
        tokio::time::sleep(WORK).await;
    }
}

struct PieceWriter {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
    sent_bytes: Arc<AtomicU64>,
}

impl Write for PieceWriter {
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
        self.sent_bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        let sent = self.pieces.blocking_send(Ok(Bytes::from(piece)));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Reads the pieces of the engine's stream and ends with it. The reader of the archive recognises a cut archive.
struct PieceReader {
    pieces: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for PieceReader {
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
    fn a_git_directory_beyond_the_limit_is_refused_with_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("pack"), vec![0; 2 << 20]).unwrap();
        assert!(require_sendable(dir.path(), 2 << 20).is_ok());
        let refused = require_sendable(dir.path(), (2 << 20) - 1).unwrap_err();
        assert_eq!(refused.error_type, ErrorType::ContainerCreation);
        assert!(refused.message.contains("more than 1 MiB") && refused.message.contains("git gc"));
        assert_eq!(git_directory(dir.path(), &GitPlace::None), None);
    }

    // VERIFIER-29, VERIFIER-36
    #[test]
    fn a_cache_belongs_to_one_user_and_one_repository_in_one_image() {
        let first = cache_name("aa", "app-1", "7@here");
        assert_eq!(first, cache_name("aa", "app-1", "7@here"));
        for other in [("bb", "app-1", "7@here"), ("aa", "app-2", "7@here"), ("aa", "app-1", "8@x")]
        {
            assert_ne!(first, cache_name(other.0, other.1, other.2));
        }
    }
}
