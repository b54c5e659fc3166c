//! Everything that a run needs before there is a container: which view, the tree's digest, what is mounted.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bollard::models::{Mount, VolumeCreateRequest};
use tokio_util::sync::CancellationToken;

use crate::ca_bundle;
use crate::copy_view;
use crate::copy_view::Directory;
use crate::docker_verifier::Downloads;
use crate::environment::CA_BUNDLE;
use crate::pipeline::Gate;
use crate::remote_engine::VolumeStore;
use crate::request::{artifacts_tmpfs, bind, volume};
use crate::source_writes::{Backing, TreeDiff};
use crate::view::{COPY, Size, View, WORKSPACE, choose};
use crate::view::{overlay_obstacle, overlay_volume};
use act_core::verification::{ErrorType, InfraError, Warning, WarningCode};
use act_records::artifacts::{ArtifactDir, Cache, RunDir, STEP_PARTS};
use act_workspace::{CopySet, GitPlace, PathGlobs, Special, Tree, git_place, head_commit, special};

/// Sockets and FIFOs that are covered one by one; a repository with more is no repository.
const MAX_MASKS: usize = 64;

/// Where the git directory of a linked worktree is.
pub(crate) const LENT_GIT: &str = "/artifacts/git";

pub(crate) struct RunSpec {
    pub(crate) repo: PathBuf,
    pub(crate) gate: Arc<Gate>,
    pub(crate) include: Arc<PathGlobs>,
    pub(crate) artifacts: Arc<ArtifactDir>,
    pub(crate) image_digest: String,
    pub(crate) downloads: Downloads,
    /// Of the container, and of the overlay's volume.
    pub(crate) name: String,
    pub(crate) labels: HashMap<String, String>,
    /// An overlay was tried and the engine could not.
    pub(crate) without_overlay: bool,
}

pub(crate) struct Prepared {
    pub(crate) view: View,
    pub(crate) watch: TreeDiff,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) volume: Option<VolumeCreateRequest>,
    /// What cannot be mounted.
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
    /// None where it is on the engine.
    pub(crate) cache: Option<Cache>,
    pub(crate) digest: String,
    pub(crate) commit: Option<String>,
    pub(crate) warnings: Vec<Warning>,
    /// Holds the run's files on an engine that does not see ours.
    pub(crate) store: Option<VolumeStore>,
}

/// Cancelled work ends with an error of kind `Interrupted`.
pub(crate) fn prepare(
    order: &RunSpec,
    run: &RunDir,
    cancel: &CancellationToken,
) -> Result<Prepared, InfraError> {
    let set = sources(order)?;
    let found = special(&order.repo).map_err(|error| unread(error.into()))?;
    let unseen = unseen(&set, &found);
    let obstacle = if order.without_overlay {
        Some("the engine cannot mount an overlay here".to_owned())
    } else {
        unseen.clone().or_else(|| overlay_obstacle(run.path(), true))
    };
    let view = choose_view(order, &set, obstacle)?;
    if view == View::Readonly
        && let Some(why) = unseen
    {
        return Err(InfraError::new(ErrorType::ContainerCreation, why));
    }
    let mut warnings = vec![];
    let mut mounts = vec![artifacts_tmpfs()];
    let mut new_volume = None;
    let (place, tree) = match view {
        View::Copy => {
            mounts.push(bind(&order.repo, WORKSPACE, true)?);
            let (copy, path, tree) = copied(&set, order, run, cancel)
                .map_err(doing("copy the repository for the run"))?;
            mounts.push(bind(&path, COPY, false)?);
            (Backing::Copy(copy), tree)
        }
        View::Overlay => {
            let dirs = run.create_overlay(&order.repo).map_err(doing("make the overlay"))?;
            new_volume = Some(overlay_volume(&order.name, &dirs.path, order.labels.clone()));
            mounts.push(volume(&order.name, WORKSPACE, false));
            (Backing::OverlayUpper(dirs.upper), read_tree(&set)?)
        }
        View::Readonly => {
            mounts.push(bind(&order.repo, WORKSPACE, true)?);
            (Backing::ReadOnly, read_tree(&set)?)
        }
    };
    let digest = tree.digest.clone();
    for part in STEP_PARTS {
        mounts.push(bind(&run.path().join(part), &format!("/artifacts/{part}"), false)?);
    }
    let cache = cache(order, run).map_err(doing("open the cache"))?;
    mounts.push(bind(cache.path(), "/artifacts/cache", false)?);

    let git = lend_git(order, run, view, &place, &mut mounts, &mut warnings)?;
    // An overlay has channels of its own in place of the repository's.
    if view != View::Overlay {
        mask(run, &found, git, &mut mounts)?;
    }
    // A copy holds what was in it.
    if view != View::Copy {
        warnings.extend(hidden_mounts(&found));
    }
    if let Some(path) = &order.gate.pipeline.ca_bundle {
        let certificates = ca_bundle::certificates(path)?;
        let copy = run
            .lend_file("ca-certificates.crt", certificates.as_bytes())
            .map_err(doing("copy the certificates"))?;
        mounts.push(bind(&copy, CA_BUNDLE, true)?);
    }
    let watch =
        TreeDiff::new(set, tree, place).map_err(doing("copy the repository for the run"))?;
    let commit = head_commit(&order.repo);
    Ok(Prepared {
        view,
        watch,
        mounts,
        volume: new_volume,
        files: vec![],
        cache: Some(cache),
        digest,
        commit,
        warnings,
        store: None,
    })
}

fn doing(what: &'static str) -> impl Fn(io::Error) -> InfraError {
    move |error| InfraError::from_io(what, &error)
}

fn unread(error: io::Error) -> InfraError {
    InfraError::from_io("read the repository", &error)
}

pub(crate) fn sources(order: &RunSpec) -> Result<CopySet, InfraError> {
    CopySet::of(&order.repo, &order.include).map_err(|error| unread(io::Error::other(error)))
}

fn read_tree(set: &CopySet) -> Result<Tree, InfraError> {
    set.tree().map_err(|error| unread(io::Error::other(error)))
}

/// The copy that the steps work in, by handle and by path.
fn copied(
    set: &CopySet,
    order: &RunSpec,
    run: &RunDir,
    cancel: &CancellationToken,
) -> io::Result<(OwnedFd, PathBuf, Tree)> {
    let (copy, path) = run.create_view()?;
    let tree = copy_view::copy(set, &mut Directory::new(copy.try_clone()?), cancel)?;
    if let Some(package) = &order.gate.package {
        // The working directory exists even where the tree lacks it.
        copy_view::ensure_directory(&copy, package.as_ref())?;
    }
    Ok((copy, path, tree))
}

pub(crate) fn choose_view(
    order: &RunSpec,
    set: &CopySet,
    obstacle: Option<String>,
) -> Result<View, InfraError> {
    let size = Size { files: set.entries.len(), bytes: set.bytes() };
    choose(order.gate.pipeline.workspace, size, obstacle.as_deref())
        .map_err(|why| InfraError::new(ErrorType::ContainerCreation, why))
}

/// Held by another run of the same repository, it stays that run's alone.
fn cache(order: &RunSpec, run: &RunDir) -> io::Result<Cache> {
    if order.downloads == Downloads::Own {
        return run.private_cache();
    }
    match order.artifacts.cache_of(&order.image_digest, &order.repo) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => run.private_cache(),
        other => other,
    }
}

/// Whether the repository's own `.git` directory is mounted in the copy.
fn lend_git(
    order: &RunSpec,
    run: &RunDir,
    view: View,
    place: &Backing,
    mounts: &mut Vec<Mount>,
    warnings: &mut Vec<Warning>,
) -> Result<bool, InfraError> {
    let failed = |error: io::Error| InfraError::from_io("lend the repository's .git", &error);
    let found = git_place(&order.repo).map_err(|error| failed(error.into()))?;
    let target = format!("{}/.git", view.root());
    match found {
        GitPlace::None => Ok(false),
        GitPlace::Directory => {
            let Backing::Copy(copy) = place else { return Ok(false) };
            copy_view::ensure_directory(copy, ".git".as_ref()).map_err(failed)?;
            mounts.push(bind(&order.repo.join(".git"), &target, true)?);
            Ok(true)
        }
        GitPlace::Linked { common, inside } => {
            if let Backing::Copy(copy) = place {
                copy_view::ensure_file(copy, ".git").map_err(failed)?;
            }
            let pointer = git_pointer(&inside);
            let pointer = run.lend_file("git-pointer", pointer.as_bytes()).map_err(failed)?;
            mounts.push(bind(&common, LENT_GIT, true)?);
            mounts.push(bind(&pointer, &target, true)?);
            Ok(false)
        }
        GitPlace::Elsewhere => {
            warnings.push(git_elsewhere());
            Ok(false)
        }
    }
}

/// The `.git` file of a linked worktree, for the steps.
pub(crate) fn git_pointer(inside: &Path) -> String {
    format!("gitdir: {LENT_GIT}/{}\n", inside.display())
}

pub(crate) fn git_elsewhere() -> Warning {
    Warning {
        code: WarningCode::GitUnavailable,
        step: None,
        message: ".git points elsewhere (a submodule, or a link?); steps have no git history here"
            .to_owned(),
    }
}

/// Covers every socket and FIFO with an empty file: being read-only does not close them.
fn mask(
    run: &RunDir,
    found: &Special,
    git: bool,
    mounts: &mut Vec<Mount>,
) -> Result<(), InfraError> {
    if found.channels.is_empty() && !found.cut {
        return Ok(());
    }
    if found.channels.len() > MAX_MASKS || found.cut {
        let first = found.channels.first().or(found.mounts.first());
        return Err(InfraError::new(
            ErrorType::ContainerCreation,
            format!(
                "the repository holds more sockets, FIFOs or names than can be kept from the steps \
                 (the first: {}); remove them",
                first.map_or_else(String::new, |path| path.display().to_string())
            ),
        ));
    }
    let empty = run
        .lend_file("empty", b"")
        .map_err(|error| InfraError::from_io("cover a socket", &error))?;
    for channel in &found.channels {
        let in_copy = git && channel.starts_with(".git");
        let roots = [Some(WORKSPACE), in_copy.then_some(COPY)];
        for root in roots.into_iter().flatten() {
            let target = Path::new(root).join(channel);
            let Some(target) = target.to_str() else {
                return Err(InfraError::new(
                    ErrorType::ContainerCreation,
                    format!(
                        "{} is a socket or FIFO without a plain name; remove it",
                        channel.display()
                    ),
                ));
            };
            mounts.push(bind(&empty, target, true)?);
        }
    }
    Ok(())
}

/// Sources on another file system would be in the tree's digest, and not in a view that is mounted.
fn unseen(set: &CopySet, found: &Special) -> Option<String> {
    let holds = |mount: &&PathBuf| set.entries.iter().any(|entry| entry.path.starts_with(mount));
    let mount = found.mounts.iter().find(holds)?;
    Some(format!(
        "{} is another file system mounted in the repository, and what is in it is not there in this view; use \
         `workspace: copy`, or let git ignore it",
        mount.display()
    ))
}

fn hidden_mounts(found: &Special) -> Option<Warning> {
    let first = found.mounts.first()?;
    Some(Warning {
        code: WarningCode::MountHidden,
        step: None,
        message: format!(
            "{} (of {}) is another file system mounted in the repository; steps do not see what is in it",
            first.display(),
            found.mounts.len()
        ),
    })
}
