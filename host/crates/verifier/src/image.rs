//! Which image a name means on the engine; pulled, once and without a retry, when the engine does not have it.

mod import;
mod probe;
mod pull;
mod recorded;

use bollard::models::ImageInspect;
use tokio_util::sync::CancellationToken;

pub(super) use self::probe::passwd_of;
pub use self::recorded::{FoundImage, Named, RecordedImage};

use super::docker_error::Phase;
use super::engine::{Engine, QUICK};
use act_core::event::Events;
use act_core::verification::{ErrorType, InfraError};

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
        cancel.run_until_cancelled(self.resolve(image, events)).await.transpose()
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

#[cfg(test)]
mod tests {
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
}
