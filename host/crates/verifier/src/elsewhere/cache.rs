//! The download cache of a repository on an engine that does not see our files: a volume there, which outlives
//! runs and is held by one at a time.
//!
//! Whoever makes the container of its name holds it. That container does one thing, before any step: it removes
//! all but downloads. So what a run built is not there for the next, however that run ended.

use std::collections::HashMap;
use std::path::Path;

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, Mount};
use bollard::query_parameters::{
    InspectContainerOptions, StartContainerOptions, WaitContainerOptions,
};
use futures_util::StreamExt;
use rustix::process::geteuid;

use crate::audited::unrecorded;
use crate::container::Guard;
use crate::docker_error::{EngineError, Phase};
use crate::engine::{Engine, QUICK, WORK};
use crate::image::ResolvedImage;
use crate::request::{ContainerRequest, new_volume, volume};
use crate::walls;
use act_audit::Audit;
use act_core::process;
use act_core::verification::InfraError;
use act_records::artifacts::{cache_names, tidying_script};
use act_workspace::digest;

/// Whose it is; what `act cache` looks for.
pub(super) const OWNER: &str = "act.cache.owner";
pub(super) const IMAGE: &str = "act.cache.image";
pub(super) const REPO: &str = "act.cache.repo";

const PLACE: &str = "/act-cache";
/// Where steps have it.
const TARGET: &str = "/artifacts/cache";

pub(super) struct CacheThere {
    name: String,
    guard: Guard,
}

impl CacheThere {
    /// None where another run holds it, or where it can be had in no good state. The labels are those of the
    /// run, so that whoever finds its holder left over knows whose it was.
    pub(super) async fn hold(
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
            audit.append(walls::requested(&name, &body)).map_err(unrecorded)?;
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

    pub(super) fn mount(&self) -> Mount {
        volume(&self.name, TARGET, false)
    }

    /// Only after the container of the steps is gone.
    pub(super) async fn release(self) -> Result<(), EngineError> {
        self.guard.remove().await
    }
}

fn holder(
    image: &ResolvedImage,
    name: &str,
    labels: HashMap<String, String>,
    ids: (u32, u32),
) -> ContainerCreateBody {
    let request = ContainerRequest::chore(image, vec![volume(name, PLACE, false)], 1, labels);
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
pub(super) fn owner() -> String {
    format!("{}@{}", geteuid().as_raw(), process::hostname())
}

fn name(image: &str, repo: &str, owner: &str) -> String {
    let digest = digest([image, repo, owner].join("\n").as_bytes());
    format!("act-cache-{}", &digest[..24])
}

#[cfg(test)]
mod tests {
    use super::*;

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
