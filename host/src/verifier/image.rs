//! Resolving the image, and pulling it when the engine does not have it. Never twice: no retry.

mod import;
mod probe;
mod recorded;

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

pub(super) use self::probe::passwd_of;
pub use self::recorded::{FoundImage, Named, RecordedImage};

use super::docker_error::{EngineError, Fault, InfraError, Phase};
use super::engine::{Engine, QUICK};
use super::response::ErrorType;
use crate::event::{EventKind, Events};

/// A pull that says nothing for this long has died.
const SILENCE: Duration = Duration::from_secs(180);
/// Layers whose progress is added up; more than any image has.
const MAX_LAYERS: usize = 512;

/// An image that the engine has, pinned: its tag may move, the runs stay with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedImage {
    /// As the pipeline names it.
    pub reference: String,
    /// What containers are made from.
    pub id: String,
    /// The registry's digest, or the id of an image that no registry knows.
    pub digest: String,
    pub os: String,
    pub arch: String,
    /// `PATH` of the image's own environment.
    pub(super) path: Option<String>,
    /// Where the image wants volumes of its own.
    pub(super) volumes: Vec<String>,
}

impl Engine {
    /// None when cancelled. An image that is there is not pulled.
    pub async fn ensure_image(
        &self,
        image: &str,
        events: &Events,
        cancel: &CancellationToken,
    ) -> Result<Option<ResolvedImage>, InfraError> {
        tokio::select! {
            () = cancel.cancelled() => Ok(None),
            resolved = self.resolve(image, events) => resolved.map(Some),
        }
    }

    /// The image if the engine has it; nothing is pulled.
    pub async fn find_image(&self, image: &str) -> Result<Option<ResolvedImage>, InfraError> {
        Ok(self.inspect(image).await?.map(|found| resolved(image, found)))
    }

    async fn resolve(&self, image: &str, events: &Events) -> Result<ResolvedImage, InfraError> {
        if !is_reference(image) {
            return Err(InfraError::new(
                ErrorType::ImagePull,
                format!(
                    "{image:?} is no image name; correct verification.container_image in agent.yaml"
                ),
            ));
        }
        if let Some(found) = self.inspect(image).await? {
            return Ok(resolved(image, found));
        }
        self.pull(image, events).await.map_err(|error| {
            let mut error = InfraError::from(error);
            error.message = format!(
                "{}: {}; check verification.container_image in agent.yaml, or try `docker pull {image}`",
                image, error.message
            );
            error
        })?;
        match self.inspect(image).await? {
            Some(found) => Ok(resolved(image, found)),
            None => Err(InfraError::new(
                ErrorType::ImagePull,
                format!("{image}: the pull ended without an image"),
            )),
        }
    }

    async fn inspect(&self, image: &str) -> Result<Option<ImageInspect>, InfraError> {
        match self.call(Phase::Pull, QUICK, self.docker.inspect_image(image)).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn pull(&self, image: &str, events: &Events) -> Result<(), EngineError> {
        let (name, tag) = split_reference(image);
        let options = CreateImageOptions {
            from_image: Some(name.to_owned()),
            tag: Some(tag.to_owned()),
            ..CreateImageOptions::default()
        };
        let mut stream = Box::pin(self.docker.create_image(Some(options), None, None));
        let mut progress = Progress::default();
        loop {
            match tokio::time::timeout(SILENCE, stream.next()).await {
                Ok(Some(Ok(info))) => {
                    if let Some((status, current, total)) = progress.take(info) {
                        let image = image.to_owned();
                        events.emit(EventKind::ImagePull { image, status, current, total });
                    }
                }
                Ok(Some(Err(error))) => return Err(EngineError::new(Phase::Pull, &error)),
                Ok(None) => return Ok(()),
                Err(_) => {
                    // The engine is there; whom it waits for is not.
                    let message = "the pull made no progress in time".to_owned();
                    return Err(EngineError {
                        phase: Phase::Pull,
                        fault: Fault::Status(504),
                        message,
                    });
                }
            }
        }
    }
}

fn resolved(image: &str, found: ImageInspect) -> ResolvedImage {
    let id = found.id.unwrap_or_else(|| image.to_owned());
    let registry = found.repo_digests.unwrap_or_default();
    let digest = registry.first().and_then(|known| known.split_once('@')).map(|(_, digest)| digest);
    let config = found.config.unwrap_or_default();
    let env = config.env.unwrap_or_default();
    ResolvedImage {
        reference: image.to_owned(),
        digest: digest.map_or_else(|| id.clone(), str::to_owned),
        id,
        os: found.os.unwrap_or_default(),
        arch: found.architecture.unwrap_or_default(),
        path: env.iter().find_map(|entry| entry.strip_prefix("PATH=")).map(str::to_owned),
        volumes: config.volumes.unwrap_or_default(),
    }
}

/// The name becomes part of an address at the engine, so it is held to the characters of image names.
fn is_reference(image: &str) -> bool {
    const LONGEST: usize = 512;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let plain = |part: &str| part.starts_with(|c: char| c.is_ascii_alphanumeric());
    image.len() <= LONGEST && image.chars().all(allowed) && image.split('/').all(plain)
}

/// Name, and tag or digest. Without a tag the engine would pull every tag there is.
fn split_reference(image: &str) -> (&str, &str) {
    if let Some(parts) = image.split_once('@') {
        return parts;
    }
    // A colon before the last slash belongs to the registry's port.
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

/// Adds the layers up and lets through what is worth telling.
#[derive(Default)]
struct Progress {
    layers: HashMap<String, (u64, u64)>,
    told: Option<(String, u64)>,
}

impl Progress {
    fn take(&mut self, info: CreateImageInfo) -> Option<(String, Option<u64>, Option<u64>)> {
        let status: String = info.status?.chars().take(200).collect();
        // What is said of the image as a whole is no progress.
        let of_layer = info.progress_detail.is_some();
        if let (Some(id), Some(detail)) = (info.id, info.progress_detail)
            && (self.layers.len() < MAX_LAYERS || self.layers.contains_key(&id))
        {
            let bytes = |n: Option<i64>| u64::try_from(n.unwrap_or(0)).unwrap_or(0);
            let (current, total) = (bytes(detail.current), bytes(detail.total));
            if total > 0 {
                self.layers.insert(id, (current, total));
            }
        }
        let (current, total) =
            self.layers.values().fold((0, 0), |(c, t), layer| (layer.0 + c, layer.1 + t));
        // Once a percent is often enough for a person and cheap for everyone else.
        let percent = (current * 100).checked_div(total).unwrap_or(0);
        let now = (status, percent);
        if self.told.as_ref() == Some(&now) {
            return None;
        }
        self.told = Some(now.clone());
        let known = of_layer && total > 0;
        Some((now.0, known.then_some(current), known.then_some(total)))
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::ProgressDetail;

    use super::*;

    #[test]
    fn a_reference_without_a_tag_means_latest() {
        assert_eq!(split_reference("python"), ("python", "latest"));
        assert_eq!(split_reference("python:3.12-slim"), ("python", "3.12-slim"));
        assert_eq!(split_reference("host:5000/a/b"), ("host:5000/a/b", "latest"));
        assert_eq!(split_reference("host:5000/a/b:1"), ("host:5000/a/b", "1"));
        assert_eq!(split_reference("a:1@sha256:ff"), ("a:1", "sha256:ff"));
    }

    #[test]
    fn what_is_no_image_name_is_never_sent() {
        for image in ["python:3.12-slim", "host:5000/a/b@sha256:ff", "a", "A/b_c:1.0"] {
            assert!(is_reference(image), "{image}");
        }
        for image in
            ["", "../x", "a/../b", "a/./b", "a//b", "a?b", "a%2f", "a b", "a#b", "/a", "a\n"]
        {
            assert!(!is_reference(image), "{image}");
        }
    }

    #[test]
    fn a_local_image_is_known_by_its_id_and_a_pulled_one_by_its_digest() {
        let inspect = |digests: &[&str]| ImageInspect {
            id: Some("sha256:id".into()),
            repo_digests: Some(digests.iter().map(|&digest| digest.into()).collect()),
            ..ImageInspect::default()
        };
        assert_eq!(resolved("x", inspect(&[])).digest, "sha256:id");
        assert_eq!(resolved("x", inspect(&["x@sha256:dd"])).digest, "sha256:dd");
    }

    #[test]
    fn progress_adds_layers_up_and_says_nothing_twice() {
        let info = |id: &str, current, total| CreateImageInfo {
            id: Some(id.into()),
            status: Some("Downloading".into()),
            progress_detail: Some(ProgressDetail { current: Some(current), total: Some(total) }),
            ..CreateImageInfo::default()
        };
        let mut progress = Progress::default();
        let told = |sum| Some(("Downloading".to_owned(), Some(sum), Some(1000)));
        assert_eq!(progress.take(info("a", 10, 1000)), told(10));
        assert_eq!(progress.take(info("a", 11, 1000)), None);
        assert_eq!(
            progress.take(info("b", 500, 1000)),
            Some(("Downloading".to_owned(), Some(511), Some(2000)))
        );
        let whole = CreateImageInfo { status: Some("Digest: x".into()), ..Default::default() };
        assert_eq!(progress.take(whole), Some(("Digest: x".to_owned(), None, None)));
    }
}
