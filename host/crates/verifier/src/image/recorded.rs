//! The image that a run was recorded with, found by its id and its digest: whatever its name means by now.

use bollard::models::ImageInspect;
use tokio_util::sync::CancellationToken;

use super::{ResolvedImage, is_reference, resolved, split_reference};
use crate::engine::Engine;
use act_core::event::Events;
use act_core::verification::InfraError;
use act_workspace::bare_digest as bare;

/// What the audit log says of it.
#[derive(Debug, Clone, Copy)]
pub struct RecordedImage<'a> {
    /// As the pipeline names it.
    pub name: &'a str,
    /// None of a log that does not hold it.
    pub id: Option<&'a str>,
    /// The registry's digest, or the id.
    pub digest: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundImage {
    /// The very image, known by the digest that was recorded.
    There(Box<ResolvedImage>, Named),
    /// Neither on the engine nor to be had; why not.
    Gone(String),
}

/// What the name means now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    This,
    /// The image with this id.
    Other(String),
    Nothing,
}

impl Engine {
    /// None when cancelled. By its id, then by its digest; only what the engine does not have is pulled, and by digest.
    pub async fn recorded_image(
        &self,
        recorded: RecordedImage<'_>,
        events: &Events,
        cancel: &CancellationToken,
    ) -> Result<Option<FoundImage>, InfraError> {
        cancel.run_until_cancelled(self.look_for(recorded, events)).await.transpose()
    }

    async fn look_for(
        &self,
        recorded: RecordedImage<'_>,
        events: &Events,
    ) -> Result<FoundImage, InfraError> {
        let Some((ways, by_digest)) = recorded.ways() else {
            return Ok(FoundImage::Gone("the log names no digest of an image".to_owned()));
        };
        for way in ways.iter().chain([&by_digest]) {
            if let Some(found) = self.inspect(way).await?
                && recorded.is(&found)
            {
                return self.named(recorded, found).await;
            }
        }
        if let Err(error) = self.pull(&by_digest, events).await {
            return Ok(FoundImage::Gone(error.message));
        }
        match self.inspect(&by_digest).await? {
            Some(found) if recorded.is(&found) => self.named(recorded, found).await,
            _ => Ok(FoundImage::Gone("the pull ended without it".to_owned())),
        }
    }

    async fn named(
        &self,
        recorded: RecordedImage<'_>,
        found: ImageInspect,
    ) -> Result<FoundImage, InfraError> {
        let mut image = resolved(recorded.name, found);
        image.digest = format!("sha256:{}", bare(recorded.digest));
        let named = match self.inspect(recorded.name).await? {
            Some(now) if now.id.as_deref() == Some(image.id.as_str()) => Named::This,
            Some(now) => Named::Other(now.id.unwrap_or_default()),
            None => Named::Nothing,
        };
        Ok(FoundImage::There(Box::new(image), named))
    }
}

impl RecordedImage<'_> {
    /// How to ask the engine for it, the surest first, and at last the one to pull it by. None where the log holds
    /// something else than digests: these words become part of an address.
    fn ways(&self) -> Option<(Vec<String>, String)> {
        let is_digest =
            |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let digests = self.id.into_iter().chain([self.digest]).map(bare);
        let mut ways = vec![];
        for digest in digests {
            if !is_digest(digest) {
                return None;
            }
            ways.push(format!("sha256:{digest}"));
        }
        ways.dedup();
        let (name, _) = split_reference(self.name);
        let by_digest = format!("{name}@sha256:{}", bare(self.digest));
        is_reference(self.name).then_some((ways, by_digest))
    }

    /// Not by its name.
    fn is(&self, found: &ImageInspect) -> bool {
        let id = found.id.as_deref().map(bare);
        let registry = found.repo_digests.iter().flatten();
        let mut digests = registry.filter_map(|known| Some(bare(known.split_once('@')?.1)));
        let digest = bare(self.digest);
        id.is_some() && (id == self.id.map(bare) || id == Some(digest))
            || digests.any(|known| known == digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // AUDIT-25
    #[test]
    fn an_image_is_asked_for_by_id_and_digest_and_known_by_them() {
        let (id, digest) = ("a".repeat(64), "d".repeat(64));
        let recorded = |id| RecordedImage { name: "host:5000/py:3", id, digest: &digest };
        assert_eq!(
            recorded(Some(&id)).ways().unwrap(),
            (
                vec![format!("sha256:{id}"), format!("sha256:{digest}")],
                format!("host:5000/py@sha256:{digest}")
            )
        );
        assert_eq!(recorded(None).ways().unwrap().0.len(), 1);
        let long = "g".repeat(64);
        for wrong in ["", "../x", "sha256:zz", &long] {
            assert_eq!(recorded(Some(wrong)).ways(), None, "{wrong}");
        }
        let image = |id: &str, digests: &[&str]| ImageInspect {
            id: Some(format!("sha256:{id}")),
            repo_digests: Some(digests.iter().map(|&digest| digest.into()).collect()),
            ..ImageInspect::default()
        };
        let known = format!("x@sha256:{digest}");
        assert!(recorded(Some(&id)).is(&image(&id, &[])));
        assert!(
            recorded(None).is(&image(&digest, &[])) && recorded(None).is(&image("e", &[&known]))
        );
        assert!(!recorded(Some(&id)).is(&image("e", &["x@sha256:f"])));
        assert!(!recorded(None).is(&ImageInspect::default()));
    }
}
