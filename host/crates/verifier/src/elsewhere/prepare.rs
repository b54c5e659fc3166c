//! What a run needs before there is a container: it is sent to the engine, and the container gets volumes in the
//! places where it otherwise gets directories of this machine.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::cache::CacheThere;
use super::depot::Depot;
use super::pack::bytes_within;
use crate::blocking::blocking;
use crate::ca_bundle;
use crate::copy_view;
use crate::docker_verifier::Downloads;
use crate::engine::Engine;
use crate::environment::CA_BUNDLE;
use crate::image::ResolvedImage;
use crate::overlay;
use crate::prepare::{LENT_GIT, Order, Prepared, choose_view, git_elsewhere, git_pointer, sources};
use crate::source_writes::{Place, SourceWatch};
use crate::view::{View, WORKSPACE};
use act_audit::Audit;
use act_core::verification::{ErrorType, InfraError, Warning};
use act_records::artifacts::RunDir;
use act_workspace::{CopySet, GitPlace, git_place, head_commit};

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
pub(crate) async fn prepare_elsewhere(
    engine: &Engine,
    image: &ResolvedImage,
    order: Order,
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
    let mut depot = Depot::create(engine, &name, image, labels.clone(), ids).await?;
    if downloads == Downloads::Kept
        && let Some(cache) = CacheThere::hold(engine, image, &repo, &labels, ids, audit).await?
    {
        depot.keep(cache);
    }
    let filled = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        filled = fill(&depot, plan, package, ids, cancel) => Some(filled),
    };
    match filled {
        Some(prepared) => Ok(Some(Prepared { depot: Some(depot), ..prepared? })),
        None => {
            depot.remove().await?;
            Ok(None)
        }
    }
}

async fn fill(
    depot: &Depot,
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
    let sent = depot.send_tree(ids, move |packer| {
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
        depot.send_git(ids, move |packer| packer.all_of(open(&path)?)).await?;
    }
    let place = if view == View::Readonly { Place::Sealed } else { Place::Engine };
    let digest = tree.digest.clone();
    let watch = SourceWatch::new(set, tree, place)
        .map_err(|error| InfraError::from_io("copy the repository for the run", &error))?;
    Ok(Prepared {
        view,
        watch,
        mounts: depot.mounts(view, &targets),
        volume: None,
        files: certificates.map(|text| (CA_BUNDLE, text.into_bytes())).into_iter().collect(),
        cache: None,
        digest,
        commit,
        warnings,
        depot: None,
    })
}

fn plan(order: &Order, run: &RunDir) -> Result<Plan, InfraError> {
    let set = sources(order)?;
    let view = choose_view(order, &set, overlay::obstacle(run.path(), false))?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
