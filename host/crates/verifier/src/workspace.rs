//! The workspace of a run: the view of the repository that the steps work in, with everything else that is mounted into
//! their container.
//!
//! A view is a copy, an overlay or the repository itself, read-only. [`Workspace::local`] prepares it on an engine that
//! mounts directories of this machine; `remote_engine::prepare` sends it to any other engine.

use crate::ca_bundle;
use crate::copy::{self, Destination, Directory};
use crate::docker_verifier::{DockerVerifier, Downloads, container_name};
use crate::pipeline::VerificationConfig;
use crate::remote_engine::{Unsent, VolumeStore};
use crate::request::{
    CA_BUNDLE, Mount, NewVolume, SentFile, artifacts_tmpfs, bind, new_volume, volume,
};
use crate::source_writes::{Backing, TreeDiff};
use act_config::Workspace as ConfiguredWorkspace;
use act_core::verification::{ErrorType, InfraError, Warning, WarningCode};
use act_fs::{Dir, Entry, Walk, hex};
use act_records::artifacts::{Base, Cache, NewBase, RunDir, STEP_PARTS, Swept, sweep};
use act_workspace::{
    Committed, CopySet, GitPlace, Kind, PathGlobs, READ_AT_ONCE, RepoView, SpecialFiles, Tree,
    TreeFile, git_place, is_stored_as_is, special_files,
};
use rustix::fs::{AtFlags, FileType, statat};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The path at which the repository, the overlay over it or the copy of it is mounted.
pub(crate) const WORKSPACE: &str = "/workspace";
/// The path at which the copy is mounted.
pub(crate) const COPY: &str = "/artifacts/build/tree";
/// The path at which the downloads are mounted.
const CACHE: &str = "/artifacts/cache";
/// The path at which the git directory of a linked worktree is mounted.
pub(crate) const LINKED_GIT: &str = "/artifacts/git";

/// Maximum number of sockets and FIFOs that are hidden one by one. A repository with more is not a source tree.
const MAX_HIDDEN: usize = 64;

/// What a run begins with.
pub(crate) enum Beginning {
    /// The working tree and nothing else.
    Nothing,
    /// The files of the last commit, for the run of `prepare` that makes a base.
    Commit(Arc<Committed>),
    /// A base, with the files in which the working tree differs from its commit.
    Base(Arc<Base>, Box<Differences>),
}

/// The working tree compared with the commit of a base.
pub(crate) struct Differences {
    pub(crate) set: CopySet,
    pub(crate) tree: Tree,
    /// Positions in the tree of the files that are new or changed.
    pub(crate) changed: Vec<usize>,
    /// Files of the commit that the tree does not have.
    pub(crate) gone: Vec<String>,
}

/// The tree of a check.
pub(crate) enum CheckTree {
    /// A copy of these files.
    Copied(Box<CopySet>),
    /// A base, with the files in which the working tree differs from its commit.
    Over(Arc<Base>, Box<Differences>),
}

/// The downloads that a run finds in `/artifacts/cache`, and where it writes.
pub(crate) struct CacheLayer {
    /// The cache of the repository, which no run changes. `None` for a run that has none below its own.
    shared: Option<Cache>,
    /// The directory that takes the writes.
    pub(crate) written: Dir,
    pub(crate) path: PathBuf,
    /// The cache is below `written`, which holds only what the run wrote.
    above: bool,
}

impl CacheLayer {
    /// Gives the downloads of an accepted run to the runs that follow. Call it only after the container was removed.
    ///
    /// # Errors
    /// A file cannot be read or changed.
    pub(crate) fn accept(self) -> io::Result<Swept> {
        let Some(shared) = self.shared else { return Ok(Swept::default()) };
        let swept = sweep(self.written.try_clone()?.into())?;
        // Another run may be using the cache. Then the downloads of this one are lost, which costs time and no trust.
        shared.accept(&self.written)?;
        Ok(swept)
    }

    /// Returns the directory that root may have written into, if it is not among the overlays of the run.
    pub(crate) fn own_directory(&self) -> Option<&Path> {
        (!self.above).then_some(&*self.path)
    }

    /// Moves everything that the run saw into a base.
    ///
    /// # Errors
    /// A file cannot be moved or linked.
    pub(crate) fn give(&self, base: &NewBase) -> io::Result<()> {
        if let Some(shared) = self.shared.as_ref().filter(|_| self.above) {
            shared.complete(&self.written)?;
        }
        base.link("cache", &self.written)
    }
}

/// Everything that the container of a run is built from. It lives until the container is gone.
pub(crate) struct Workspace {
    pub(crate) view: View,
    /// Digest of the tree that the steps get.
    pub(crate) digest: String,
    /// Name of that tree in git, where git would store the same bytes.
    pub(crate) git_tree: Option<String>,
    /// Compares the view with the source after each step. `None` while another thread does so.
    pub(crate) diff: Option<TreeDiff>,
    pub(crate) mounts: Vec<Mount>,
    /// The volumes of overlays, which are created before the container and removed after it.
    pub(crate) overlays: Vec<NewVolume>,
    /// Files that a remote engine cannot mount.
    pub(crate) files: Vec<SentFile>,
    /// The download cache on this machine.
    pub(crate) cache: Option<CacheLayer>,
    /// The volumes that hold the files of the run on a remote engine.
    pub(crate) volumes: Option<VolumeStore>,
    /// The files of the last commit, where the run began with them.
    pub(crate) committed: Option<Vec<TreeFile>>,
    pub(crate) warnings: Vec<Warning>,
    /// The files that a remote engine still has to get.
    pub(crate) unsent: Option<Unsent>,
}

/// Which overlays a run may ask the engine for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overlays {
    /// For the view of the repository, where `agent.yaml` leaves the choice.
    pub(crate) view: bool,
    /// For the download cache.
    pub(crate) cache: bool,
}

impl Workspace {
    /// Prepares the view on this machine and lists what the container mounts.
    ///
    /// # Errors
    /// `container_creation` when the view is impossible for this repository, else trouble with the files. A cancelled
    /// call fails as well.
    pub(crate) fn local(
        verifier: &DockerVerifier,
        run: &RunDir,
        include: &PathGlobs,
        beginning: Beginning,
        with: Overlays,
        cancel: &CancellationToken,
    ) -> Result<Self, InfraError> {
        let DockerVerifier { repo, config, .. } = verifier;
        let repo = repo.path();
        let home = verifier.home();
        // The git directory of a variant is that of the repository, so its sockets are covered as well.
        let special = special_files(home).map_err(|error| unreadable(error.into()))?;
        let git = git_place(home).map_err(|error| git_failed(error.into()))?;
        let mut layers = Layers { verifier, run, mounts: vec![artifacts_tmpfs()], volumes: vec![] };
        let copy_failed = failed_to("copy the repository for the run");
        let of_commit = matches!(beginning, Beginning::Commit(_));

        let (view, set, tree, backing, base) = match beginning {
            Beginning::Nothing => {
                let set = sources(repo, include)?;
                let view =
                    view_of(config.pipeline.workspace, &set, &special, run.path(), with.view)?;
                let (backing, tree) = match view {
                    View::Copy => {
                        let (handle, mut directory) = layers.copied_view().map_err(&copy_failed)?;
                        let mut copied = || -> io::Result<Tree> {
                            let tree = copy::copy(&set, &mut directory, cancel)?;
                            mount_points(config, &git, &mut directory)?;
                            Ok(tree)
                        };
                        (Backing::Copy(handle), copied().map_err(&copy_failed)?)
                    }
                    View::Overlay => {
                        let upper = layers.add("view", repo, WORKSPACE)?;
                        (Backing::OverlayUpper(upper.into()), read_tree(&set)?)
                    }
                    View::Readonly => (Backing::ReadOnly, read_tree(&set)?),
                };
                (view, set, tree, backing, None)
            }
            Beginning::Commit(commit) => {
                let set = sources(repo, include)?;
                let (handle, mut directory) = layers.copied_view().map_err(&copy_failed)?;
                let mut written = || -> io::Result<Tree> {
                    let tree = copy::write_commit(&commit, &mut directory, cancel)?;
                    mount_points(config, &git, &mut directory)?;
                    Ok(tree)
                };
                let tree = written().map_err(failed_to("write the last commit for the run"))?;
                (View::Copy, set, tree, Backing::Copy(handle), None)
            }
            Beginning::Base(base, differences) => {
                let Differences { set, tree, changed, gone: _ } = *differences;
                let upper = layers.add("tree", &base.part("tree"), COPY)?;
                let mut directory = Directory::new(upper.try_clone().map_err(&copy_failed)?.into());
                copy::lay(&set, &tree, &changed, &mut directory, cancel).map_err(&copy_failed)?;
                (View::Copy, set, tree, Backing::OverlayUpper(upper.into()), Some(base))
            }
        };
        // A copied view is at both paths. A mount of the repository would show what the host makes there while the run lasts, such
        // as a socket of one of its programs, which a read-only mount does not close.
        match (view, &base) {
            (View::Copy, None) => layers.mounts.push(bind(&run.view_path(), WORKSPACE, true)?),
            (View::Copy, Some(_)) => {
                let tree = layer_volume(run, "tree");
                layers.mounts.push(volume(&tree, WORKSPACE, true));
            }
            (View::Readonly, _) => layers.mounts.push(bind(repo, WORKSPACE, true)?),
            (View::Overlay, _) => {}
        }
        for part in STEP_PARTS {
            let target = format!("/artifacts/{part}");
            match &base {
                Some(base) if base.holds(part).map_err(failed_to("open the base"))? => {
                    layers.add(part, &base.part(part), &target)?;
                }
                _ => layers.mounts.push(bind(&run.path().join(part), &target, false)?),
            }
        }
        let cache = match &base {
            Some(base) => layers.cache_of_base(base)?,
            None => layers.cache(with.cache)?,
        };

        let stored = !of_commit && verifier.variant.is_none();
        let git_tree = match stored && is_stored_as_is(repo, &set) {
            true => tree.git_tree(),
            false => None,
        };
        // The list serves only to name files that differ later.
        let _ = run.write_tree(&tree.list());
        let (digest, committed) = (tree.digest.clone(), of_commit.then(|| tree.files.clone()));
        let diff = TreeDiff::new(set, tree, backing).map_err(&copy_failed)?;
        let Layers { mounts, volumes: overlays, .. } = layers;
        let mut workspace = Self {
            view,
            digest,
            git_tree,
            diff: Some(diff),
            mounts,
            overlays,
            files: vec![],
            cache: Some(cache),
            volumes: None,
            committed,
            warnings: git_warning(&git).into_iter().collect(),
            unsent: None,
        };
        workspace.mount_git(home, &git, run)?;
        match view {
            View::Copy if git == GitPlace::Directory => {
                let of_git = |channel: &&PathBuf| channel.starts_with(".git");
                let channels: Vec<_> = special.channels.iter().filter(of_git).collect();
                workspace.hide_channels(run, &special, &channels, COPY)?;
            }
            // A copy holds no socket. An overlay has sockets and FIFOs of its own in place of the repository's.
            View::Copy | View::Overlay => {}
            View::Readonly => {
                let channels: Vec<_> = special.channels.iter().collect();
                workspace.hide_channels(run, &special, &channels, WORKSPACE)?;
            }
        }
        // A copy holds the files of every file system.
        if view != View::Copy {
            workspace.warnings.extend(hidden_mounts(&special));
        }
        if let Some(path) = &config.pipeline.ca_bundle {
            let certificates = ca_bundle::certificates(path)?;
            workspace.add_file(run, CA_BUNDLE, certificates.into_bytes())?;
        }
        Ok(workspace)
    }

    /// Prepares the view of a check on this machine. Files that `seen`, the view of the Editor, does not show are empty in it,
    /// and neither the repository nor its git directory is mounted. Returns the paths of those files too.
    ///
    /// # Errors
    /// Trouble with the files. A cancelled call fails as well.
    pub(crate) fn of_check(
        verifier: &DockerVerifier,
        run: &RunDir,
        seen: &RepoView,
        tree: CheckTree,
        with_cache: bool,
        cancel: &CancellationToken,
    ) -> Result<(Self, Vec<String>), InfraError> {
        let DockerVerifier { config, .. } = verifier;
        let mut layers = Layers { verifier, run, mounts: vec![artifacts_tmpfs()], volumes: vec![] };
        let failed = failed_to("copy the repository for the check");
        let is_hidden =
            |path: &Path, kind| path.to_str().is_none_or(|path| seen.rule(path, kind).is_some());
        let shown = |covered: &[PathBuf]| {
            covered.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        let (covered, copies, base) = match tree {
            CheckTree::Copied(mut set) => {
                let (_handle, mut directory) = layers.copied_view().map_err(&failed)?;
                let hidden = set.entries.extract_if(.., |one| is_hidden(&one.path, one.kind));
                let covered: Vec<PathBuf> = hidden.map(|one| one.path).collect();
                let mut write = || {
                    copy::copy(&set, &mut directory, cancel)?;
                    covered.iter().try_for_each(|path| directory.text(path, b""))?;
                    config
                        .package
                        .iter()
                        .try_for_each(|package| directory.directory(package.as_ref()))
                };
                write().map_err(&failed)?;
                (covered, Copies::default(), None)
            }
            CheckTree::Over(base, differences) => {
                let Differences { set, tree, mut changed, gone } = *differences;
                let kinds: HashMap<&Path, Kind> =
                    set.entries.iter().map(|one| (one.path.as_path(), one.kind)).collect();
                let hidden =
                    |path: &Path| is_hidden(path, kinds.get(path).copied().unwrap_or(Kind::File));
                changed.retain(|at| tree.files.get(*at).is_some_and(|file| !hidden(&file.path)));
                let covered = tree.files.iter().map(|file| file.path.clone());
                let covered: Vec<PathBuf> = covered.filter(|path| hidden(path)).collect();
                // The files of the commit are below the layer, also those that the tree does not have any more.
                let gone = gone.into_iter().map(PathBuf::from).filter(|path| hidden(path));
                let gone: Vec<PathBuf> = gone.collect();
                let all: Vec<&PathBuf> = covered.iter().chain(&gone).collect();
                let upper = layers.add("tree", &base.part("tree"), COPY)?;
                let mut directory = Directory::new(upper.try_clone().map_err(&failed)?.into());
                let copies = Copies::of(&base, &all).map_err(&failed)?;
                let mut write = || {
                    copy::lay(&set, &tree, &changed, &mut directory, cancel)?;
                    all.iter().try_for_each(|path| directory.text(path, b""))?;
                    // The pointer of a linked worktree is a file of the base.
                    if base.open("tree")?.is_some_and(|tree| tree.file(".git").is_ok()) {
                        directory.text(".git".as_ref(), b"")?;
                    }
                    copies.cover(&base, "tree", &mut directory, cancel)
                };
                write().map_err(&failed)?;
                (covered, copies, Some(base))
            }
        };
        for part in STEP_PARTS {
            let target = format!("/artifacts/{part}");
            match &base {
                Some(base) if base.holds(part).map_err(failed_to("open the base"))? => {
                    let upper = layers.add(part, &base.part(part), &target)?;
                    let mut directory = Directory::new(upper.into());
                    copies.cover(base, part, &mut directory, cancel).map_err(&failed)?;
                }
                _ => layers.mounts.push(bind(&run.path().join(part), &target, false)?),
            }
        }
        let cache = match &base {
            Some(base) => {
                let cache = layers.cache_of_base(base)?;
                let written = cache.written.try_clone().map_err(&failed)?;
                let mut directory = Directory::new(written.into());
                copies.cover(base, "cache", &mut directory, cancel).map_err(&failed)?;
                cache
            }
            None if with_cache => layers.cache(true)?,
            None => layers.empty_cache()?,
        };
        let Layers { mounts, volumes: overlays, .. } = layers;
        let mut workspace = Self {
            view: View::Copy,
            digest: String::new(),
            diff: None,
            mounts,
            overlays,
            files: vec![],
            cache: Some(cache),
            volumes: None,
            committed: None,
            git_tree: None,
            warnings: vec![],
            unsent: None,
        };
        if let Some(path) = &config.pipeline.ca_bundle {
            let certificates = ca_bundle::certificates(path)?;
            workspace.add_file(run, CA_BUNDLE, certificates.into_bytes())?;
        }
        Ok((workspace, shown(&covered)))
    }

    /// Adds a read-only file at an absolute path of the container: a mount, or a file that is written into a container
    /// of a remote engine.
    ///
    /// # Errors
    /// The file cannot be written into the directory of the run.
    pub(crate) fn add_file(
        &mut self,
        run: &RunDir,
        path: &'static str,
        content: Vec<u8>,
    ) -> Result<(), InfraError> {
        if self.volumes.is_some() {
            self.files.push(SentFile { path, mode: 0o644, content });
            return Ok(());
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let file = run.lend_file(name, &content).map_err(failed_to("write a file for the run"))?;
        self.mounts.push(bind(&file, path, true)?);
        Ok(())
    }

    /// Mounts the git directory, read-only, where the view does not hold it.
    fn mount_git(&mut self, repo: &Path, git: &GitPlace, run: &RunDir) -> Result<(), InfraError> {
        let target = format!("{}/.git", self.view.root());
        if *git == GitPlace::Directory && self.view == View::Copy {
            self.mounts.push(bind(&repo.join(".git"), &target, true)?);
        }
        if let (GitPlace::Linked { common, .. }, Some(pointer)) = (git, git_pointer(git)) {
            let pointer = run.lend_file("git-pointer", pointer.as_bytes()).map_err(git_failed)?;
            self.mounts.push(bind(common, LINKED_GIT, true)?);
            self.mounts.push(bind(&pointer, &target, true)?);
        }
        Ok(())
    }

    /// Mounts an empty file over sockets and FIFOs, because a read-only mount does not close them. `root` is where the
    /// repository, or its git directory as a part of it, is mounted.
    fn hide_channels(
        &mut self,
        run: &RunDir,
        special: &SpecialFiles,
        channels: &[&PathBuf],
        root: &str,
    ) -> Result<(), InfraError> {
        if channels.is_empty() && !special.cut {
            return Ok(());
        }
        if channels.len() > MAX_HIDDEN || special.cut {
            let first = channels.first().copied().or(special.mounts.first());
            return Err(InfraError::new(
                ErrorType::ContainerCreation,
                format!(
                    "the repository holds more sockets, FIFOs or names than can be hidden from the steps (the first: \
                     {}); remove them",
                    first.map_or_else(String::new, |path| path.display().to_string())
                ),
            ));
        }
        let empty = run.lend_file("empty", b"").map_err(failed_to("cover a socket"))?;
        for channel in channels {
            let target = Path::new(root).join(channel);
            let Some(target) = target.to_str() else {
                return Err(InfraError::new(
                    ErrorType::ContainerCreation,
                    format!(
                        "{} is a socket or FIFO whose name is not valid UTF-8; remove it",
                        channel.display()
                    ),
                ));
            };
            self.mounts.push(bind(&empty, target, true)?);
        }
        Ok(())
    }
}

/// Copies that `prepare` made of files which the Editor does not see. It had these files, since it ran on the whole commit,
/// and may have put them anywhere in the base.
#[derive(Default)]
struct Copies {
    /// The digests of those files, by their sizes.
    contents: BTreeMap<u64, BTreeSet<String>>,
}

/// Bytes below which a file is not searched for: `{}` is no secret, and a dependency may hold it as well.
const SHORTEST_COPY: u64 = 8;

impl Copies {
    /// Prepares the search for copies of these files of the commit.
    fn of(base: &Base, hidden: &[&PathBuf]) -> io::Result<Self> {
        let mut contents = BTreeMap::<u64, BTreeSet<String>>::new();
        for path in hidden {
            let known = path.to_str().and_then(|path| base.record.files.get(path));
            let Some(file) = known.filter(|file| file.mode != "120000") else { continue };
            let size = base.size(path)?;
            if size >= SHORTEST_COPY {
                contents.entry(size).or_default().insert(file.sha256.clone());
            }
        }
        Ok(Self { contents })
    }

    /// Lays an empty file over each copy in a part of the base, whose upper layer is `into`.
    ///
    /// # Errors
    /// The part cannot be read, or the layer not written; `Interrupted` when cancelled.
    fn cover(
        &self,
        base: &Base,
        part: &str,
        into: &mut Directory,
        cancel: &CancellationToken,
    ) -> io::Result<()> {
        if self.contents.is_empty() {
            return Ok(());
        }
        let Some(part) = base.open(part)? else { return Ok(()) };
        let mut names = Walk::new(part.into())?;
        while let Some(Entry { name, .. }) = names.next_entry()? {
            if cancel.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let stat = statat(names.here(), &name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let inner = names.open(&name)?;
                    names.enter(&name, inner)?;
                }
                FileType::RegularFile => {
                    let size = u64::try_from(stat.st_size).unwrap_or_default();
                    let Some(digests) = self.contents.get(&size) else { continue };
                    let mut file = act_fs::file(names.here(), &name)?;
                    if digests.contains(&digest_of(&mut file)?) {
                        let path = PathBuf::from(OsString::from_vec(names.path(&name)));
                        into.text(&path, b"")?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn digest_of(file: &mut impl Read) -> io::Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; READ_AT_ONCE]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}

fn failed_to(what: &'static str) -> impl Fn(io::Error) -> InfraError {
    move |error| InfraError::from_io(what, &error)
}

fn unreadable(error: io::Error) -> InfraError {
    InfraError::from_io("read the repository", &error)
}

pub(crate) fn git_failed(error: io::Error) -> InfraError {
    InfraError::from_io("mount the repository's .git", &error)
}

/// Lists the files that the verification is about.
pub(crate) fn sources(repo: &Path, include: &PathGlobs) -> Result<CopySet, InfraError> {
    CopySet::of(repo, include).map_err(|error| unreadable(io::Error::other(error)))
}

fn read_tree(set: &CopySet) -> Result<Tree, InfraError> {
    set.tree().map_err(|error| unreadable(io::Error::other(error)))
}

/// Chooses the view of a run that begins with nothing.
///
/// # Errors
/// `container_creation` when `agent.yaml` asks for a view that is impossible here.
pub(crate) fn view_of(
    wanted: ConfiguredWorkspace,
    set: &CopySet,
    special: &SpecialFiles,
    artifacts: &Path,
    with_overlay: bool,
) -> Result<View, InfraError> {
    let other_file_system = sources_on_other_file_system(set, special);
    let obstacle = if with_overlay {
        other_file_system.clone().or_else(|| overlay_obstacle(artifacts, true))
    } else {
        Some("the engine cannot mount an overlay here".to_owned())
    };
    let view = choose_view(wanted, set, obstacle)?;
    match other_file_system {
        Some(why) if view == View::Readonly => {
            Err(InfraError::new(ErrorType::ContainerCreation, why))
        }
        _ => Ok(view),
    }
}

/// Creates the paths in a copy that the steps and the mounts need.
fn mount_points(
    config: &VerificationConfig,
    git: &GitPlace,
    directory: &mut Directory,
) -> io::Result<()> {
    let pointer = git_pointer(git);
    copy::create_mount_points(config.package.as_deref(), git, pointer.as_deref(), directory)
}

/// The mounts of a run, and the volumes of the overlays among them.
struct Layers<'a> {
    verifier: &'a DockerVerifier,
    run: &'a RunDir,
    mounts: Vec<Mount>,
    volumes: Vec<NewVolume>,
}

impl Layers<'_> {
    /// Creates the directory of a copied view and mounts it.
    fn copied_view(&mut self) -> io::Result<(OwnedFd, Directory)> {
        let (handle, path) = self.run.create_view()?;
        self.mounts.push(bind(&path, COPY, false).map_err(io::Error::other)?);
        let directory = Directory::new(handle.try_clone()?);
        Ok((handle, directory))
    }

    /// Mounts an overlay over `lower`. Returns the directory that takes the writes of the run.
    fn add(&mut self, name: &str, lower: &Path, target: &str) -> Result<Dir, InfraError> {
        let layers = self.run.create_overlay(name, lower).map_err(failed_to("make the overlay"))?;
        let volume_name = layer_volume(self.run, name);
        self.mounts.push(volume(&volume_name, target, false));
        let labels = self.verifier.labels(self.run);
        let volume = NewVolume { layers: Some(layers.path), ..new_volume(&volume_name, labels) };
        self.volumes.push(volume);
        Ok(layers.upper)
    }

    /// Mounts the downloads of the base, with a layer of the run above them.
    fn cache_of_base(&mut self, base: &Base) -> Result<CacheLayer, InfraError> {
        let opened = failed_to("open the cache");
        if !base.holds("cache").map_err(&opened)? {
            return self.empty_cache();
        }
        let path = base.part("cache");
        let written = self.add("cache", &path, CACHE)?;
        Ok(CacheLayer { shared: None, written, path, above: true })
    }

    /// Mounts the cache of this repository in this image, with a layer of the run above it. Where the engine mounts no
    /// overlay the run gets a copy of a small cache, and nothing of a large one.
    fn cache(&mut self, with_overlay: bool) -> Result<CacheLayer, InfraError> {
        let DockerVerifier { downloads, artifacts, image, .. } = self.verifier;
        let opened = failed_to("open the cache");
        if *downloads == Downloads::Private {
            return self.empty_cache();
        }
        let shared = match artifacts.cache_of(&image.digest, self.verifier.downloads_home()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.empty_cache(),
            shared => shared.map_err(&opened)?,
        };
        let path = shared.path().to_owned();
        if with_overlay && overlay_obstacle(self.run.path(), true).is_none() {
            let written = self.add("cache", &path, CACHE)?;
            return Ok(CacheLayer { shared: Some(shared), written, path, above: true });
        }
        let layer = self.empty_cache()?;
        shared.copy(&layer.written).map_err(&opened)?;
        Ok(CacheLayer { shared: Some(shared), ..layer })
    }

    fn empty_cache(&mut self) -> Result<CacheLayer, InfraError> {
        let (written, path) = self.run.private_cache().map_err(failed_to("open the cache"))?;
        self.mounts.push(bind(&path, CACHE, false)?);
        Ok(CacheLayer { shared: None, written, path, above: false })
    }
}

/// Returns the name of the volume of an overlay of a run.
fn layer_volume(run: &RunDir, name: &str) -> String {
    format!("{}-{name}", container_name(run))
}

/// Returns the text of the `.git` file that the steps of a linked worktree see.
pub(crate) fn git_pointer(git: &GitPlace) -> Option<String> {
    match git {
        GitPlace::Linked { inside, .. } => {
            Some(format!("gitdir: {LINKED_GIT}/{}\n", inside.display()))
        }
        _ => None,
    }
}

/// Returns the warning about a `.git` that cannot be mounted.
pub(crate) fn git_warning(git: &GitPlace) -> Option<Warning> {
    (*git == GitPlace::Elsewhere).then(|| Warning {
        code: WarningCode::GitUnavailable,
        step: None,
        message: ".git points elsewhere (a submodule, or a link?); steps have no git history here"
            .to_owned(),
    })
}

/// Explains why only a copy is possible: sources on another file system count for the digest of the tree, but a mount
/// of the repository does not show them.
fn sources_on_other_file_system(set: &CopySet, special: &SpecialFiles) -> Option<String> {
    let holds = |mount: &&PathBuf| set.entries.iter().any(|entry| entry.path.starts_with(mount));
    let mount = special.mounts.iter().find(holds)?;
    Some(format!(
        "{} is another file system mounted in the repository, and this view does not show its files; use \
         `workspace: copy`, or let git ignore it",
        mount.display()
    ))
}

fn hidden_mounts(special: &SpecialFiles) -> Option<Warning> {
    let first = special.mounts.first()?;
    Some(Warning {
        code: WarningCode::MountHidden,
        step: None,
        message: format!(
            "{} (of {}) is another file system mounted in the repository; steps do not see what is in it",
            first.display(),
            special.mounts.len()
        ),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Copy,
    Overlay,
    Readonly,
}

impl View {
    /// Returns the word of `agent.yaml` and of the manifest.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Overlay => "overlay",
            Self::Readonly => "readonly",
        }
    }

    /// Returns the directory in the container that the steps work in.
    pub(crate) fn root(self) -> &'static str {
        match self {
            Self::Copy => COPY,
            Self::Overlay | Self::Readonly => WORKSPACE,
        }
    }
}

/// `auto` copies trees up to these limits. A larger tree gets an overlay, because every run would copy it anew.
pub(crate) const MAX_COPIED_FILES: usize = 50_000;
pub(crate) const MAX_COPIED_BYTES: u64 = 256 * 1024 * 1024;

/// Chooses the view of a tree; `obstacle` says why an overlay is impossible.
///
/// # Errors
/// `container_creation` when `agent.yaml` asks for an overlay and there is an obstacle.
pub(crate) fn choose_view(
    wanted: ConfiguredWorkspace,
    set: &CopySet,
    obstacle: Option<String>,
) -> Result<View, InfraError> {
    choose(wanted, (set.entries.len(), set.bytes()), obstacle.as_deref())
        .map_err(|why| InfraError::new(ErrorType::ContainerCreation, why))
}

fn choose(
    wanted: ConfiguredWorkspace,
    (files, bytes): (usize, u64),
    obstacle: Option<&str>,
) -> Result<View, String> {
    let large = files > MAX_COPIED_FILES || bytes > MAX_COPIED_BYTES;
    match (wanted, obstacle) {
        (ConfiguredWorkspace::Copy, _) => Ok(View::Copy),
        (ConfiguredWorkspace::Readonly, _) => Ok(View::Readonly),
        (ConfiguredWorkspace::Auto, None) if large => Ok(View::Overlay),
        (ConfiguredWorkspace::Auto, _) => Ok(View::Copy),
        (ConfiguredWorkspace::Overlay, None) => Ok(View::Overlay),
        (ConfiguredWorkspace::Overlay, Some(why)) => {
            Err(format!("{why}; set verification.workspace in agent.yaml to copy"))
        }
    }
}

/// Makes the paths of a log relative to the repository, wherever the view is mounted.
pub fn relative_to_repo(text: &str) -> String {
    let shortened = without_root(text, COPY);
    without_root(&shortened, WORKSPACE)
}

fn without_root(text: &str, root: &str) -> String {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(root) {
        let (before, found) = rest.split_at(at);
        let after = &found[root.len()..];
        out.push_str(before);
        // `file:///workspace/x` holds the root, and `/x/workspace` is another directory.
        let starts = !before.ends_with(part_of_name) || before.ends_with("://");
        match after.strip_prefix('/') {
            Some(inside) if starts && inside.starts_with(|c: char| part_of_name(c) && c != '/') => {
                rest = inside;
            }
            _ if starts && !after.starts_with(|c: char| part_of_name(c) && c != '/') => {
                out.push('.');
                rest = after;
            }
            _ => {
                out.push_str(root);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Characters that have a meaning in mount options. No way of escaping works on all kernels.
const SYNTAX: [char; 5] = [',', ':', '\\', '"', '\n'];

/// Explains why the directory of the run cannot hold the upper layer of an overlay. The path of the repository does not
/// matter, because the lower layer is a link in the directory of the run.
pub(crate) fn overlay_obstacle(run: &Path, local_engine: bool) -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("an overlay needs Linux".to_owned());
    }
    if !local_engine {
        return Some("an overlay needs an engine behind a socket of this machine".to_owned());
    }
    match run.to_str() {
        None => Some("the artifact directory's path is not valid UTF-8".to_owned()),
        Some(path) if path.contains(SYNTAX) => {
            Some(format!("an overlay cannot lie in {path:?} because of its `,`, `:`, `\"` or `\\`"))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-4
    #[test]
    fn auto_is_a_copy_and_for_large_trees_an_overlay_where_there_can_be_one() {
        let small = (MAX_COPIED_FILES, MAX_COPIED_BYTES);
        let many = (MAX_COPIED_FILES + 1, 0);
        let big = (1, MAX_COPIED_BYTES + 1);
        assert_eq!(choose(ConfiguredWorkspace::Auto, small, None), Ok(View::Copy));
        for large in [many, big] {
            assert_eq!(choose(ConfiguredWorkspace::Auto, large, None), Ok(View::Overlay));
            assert_eq!(choose(ConfiguredWorkspace::Auto, large, Some("no")), Ok(View::Copy));
            assert_eq!(choose(ConfiguredWorkspace::Copy, large, None), Ok(View::Copy));
        }
        assert_eq!(choose(ConfiguredWorkspace::Readonly, big, None), Ok(View::Readonly));
        assert_eq!(choose(ConfiguredWorkspace::Overlay, small, None), Ok(View::Overlay));
        assert!(
            choose(ConfiguredWorkspace::Overlay, small, Some("no"))
                .unwrap_err()
                .starts_with("no; set")
        );
    }

    // VERIFIER-16
    #[test]
    fn paths_in_the_view_are_shown_relative_to_the_repository() {
        for (text, shown) in [
            ("/artifacts/build/tree/src/a.py:3: error", "src/a.py:3: error"),
            ("rootdir: /artifacts/build/tree", "rootdir: ."),
            ("rootdir: /workspace\nx", "rootdir: .\nx"),
            ("at (/workspace/a.js:1:2)", "at (a.js:1:2)"),
            ("file:///workspace/a.js", "file://a.js"),
            ("cd /workspace/", "cd ./"),
            ("/artifacts/build/trees/x", "/artifacts/build/trees/x"),
            ("/my/workspace/x", "/my/workspace/x"),
            ("/workspaces", "/workspaces"),
            ("/artifacts/build/tree//x", ".//x"),
        ] {
            assert_eq!(relative_to_repo(text), shown);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_overlay_is_refused_where_its_path_would_be_misread() {
        assert_eq!(overlay_obstacle(Path::new("/a/runs/x y"), true), None);
        for path in ["/a,b/runs", "/a:b/runs", "/a\\b"] {
            assert!(overlay_obstacle(Path::new(path), true).unwrap().contains("overlay"), "{path}");
        }
        assert!(overlay_obstacle(Path::new("/a"), false).is_some());
    }
}
