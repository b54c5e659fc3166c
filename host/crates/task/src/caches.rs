//! The download caches of all repositories, on this machine and on the engine: `act cache` lists and clears them.

use std::collections::BTreeSet;
use std::path::Path;

use act_core::Failure;
use act_core::verification::InfraError;
use act_records::artifacts::{ArtifactDir, BaseSize, CacheSize};
use act_verifier::{CacheVolume, Engine, EngineUnavailable};

use crate::{engines, prepare};

#[derive(Debug)]
pub struct CacheList {
    pub path: std::path::PathBuf,
    pub caches: Vec<CacheSize>,
    /// What `prepare` left of commits, for attempts of tasks.
    pub bases: Vec<BaseSize>,
    /// Keys of the bases that no run can use, because the engine has their images no more. The next task removes them.
    pub lost: BTreeSet<String>,
    pub on_engine: OnEngine,
}

#[derive(Debug)]
pub struct Cleared {
    pub cleared: Vec<CacheSize>,
    pub bases: Vec<BaseSize>,
    pub on_engine: OnEngine,
    /// Number of caches and bases that were left because a run uses them.
    pub in_use: usize,
}

/// The caches in volumes of an engine that does not share our file system, or why they cannot be listed.
pub type OnEngine = Result<Vec<CacheVolume>, String>;

/// Lists the download caches of all repositories, on this machine and on the engine.
///
/// # Errors
///
/// The ARTIFACT_DIR cannot be read.
pub async fn list_caches() -> Result<CacheList, Failure> {
    let artifacts = open()?;
    let caches = artifacts.cache_sizes().map_err(unreadable)?;
    let bases = artifacts.bases().map_err(unreadable)?;
    let (mut lost, mut on_engines) = (BTreeSet::new(), vec![]);
    for engine in connect_all().await? {
        on_engines.push(match engine {
            Ok(engine) => {
                // Without an answer it is not known which images are gone.
                lost.extend(engine.bases_without_image(&bases).await.unwrap_or_default());
                engine.cache_volumes().await.map_err(|error: InfraError| error.to_string())
            }
            Err(absent) => Err(absent.to_string()),
        });
    }
    let on_engine = together(on_engines);
    Ok(CacheList { path: artifacts.path().join("cache"), caches, bases, lost, on_engine })
}

/// Removes the download caches and the warm bases of all repositories, except those that a run uses.
///
/// # Errors
///
/// The ARTIFACT_DIR cannot be read or written.
pub async fn clear_caches() -> Result<Cleared, Failure> {
    let artifacts = open()?;
    let (cleared, in_use) = artifacts.clear_caches().map_err(unreadable)?;
    let (bases, bases_in_use) = artifacts.clear_bases().map_err(unreadable)?;
    let (mut on_engines, mut busy) = (vec![], 0);
    for engine in connect_all().await? {
        on_engines.push(match engine {
            Ok(engine) => {
                engine.remove_base_images(&bases).await;
                // Trouble with what a killed process left is no trouble of the caches.
                let _ = engine.remove_lost_bases(&artifacts).await;
                let cleared = engine.clear_cache_volumes().await;
                busy += cleared.as_ref().map_or(0, |(_, busy)| *busy);
                cleared.map(|(cleared, _)| cleared).map_err(|error| error.to_string())
            }
            Err(absent) => Err(absent.to_string()),
        });
    }
    let on_engine = together(on_engines);
    Ok(Cleared { cleared, bases, on_engine, in_use: in_use + bases_in_use + busy })
}

/// Returns the engines that may hold caches and images of bases.
async fn connect_all() -> Result<Vec<Result<Engine, EngineUnavailable>>, Failure> {
    let root = act_config::find_root(Path::new("."))?;
    engines::every_engine(root.as_ref().map(|root| root.path.as_path())).await
}

/// Returns what all engines answered. An engine without an answer among others is a notice.
fn together(answers: Vec<OnEngine>) -> OnEngine {
    let (found, mut silent): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    if found.is_empty()
        && let Some(first) = silent.pop()
    {
        return first;
    }
    for why in silent.into_iter().filter_map(Result::err) {
        prepare::say_once(&format!("caches in volumes of an engine are not listed: {why}"));
    }
    // Two names may lead to one engine.
    let mut volumes: Vec<_> = found.into_iter().flatten().flatten().collect();
    volumes.sort_by(|a, b| (&a.image, &a.repo, &a.volume).cmp(&(&b.image, &b.repo, &b.volume)));
    volumes.dedup_by(|a, b| a.volume == b.volume);
    Ok(volumes)
}

/// Opens the ARTIFACT_DIR, which must not lie in the repository of the working directory, if there is one.
fn open() -> Result<std::sync::Arc<ArtifactDir>, Failure> {
    let root = act_config::find_root(Path::new("."))?;
    crate::prepare::artifacts_for(root.as_ref().map(|root| root.path.as_path()))
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::refused("cache_unusable", format!("the cache cannot be read or changed: {error}"))
        .hint("check owner and permissions of the artifact directory")
}
