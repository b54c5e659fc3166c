//! Images: the one that `agent.yaml` names, which is pulled when the engine lacks it; the one that a run was recorded
//! with; and one that is imported from an archive.

use crate::driver::{Fault, ImageInfo, Labelled, NewImage, PullProgress};
use crate::engine::{Engine, QUICK, WORK};
use crate::engine_error::{EngineError, Phase};
use act_core::event::{EventKind, Events};
use act_core::verification::{ErrorType, InfraError};
use act_records::artifacts::{ArtifactDir, BaseSize};
use act_workspace::bare_digest as bare;
use futures_util::StreamExt;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// An image of the engine, pinned by its id: the runs of a task use it even when its tag moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedImage {
    /// The name in `agent.yaml`.
    pub reference: String,
    /// The id that containers are created from.
    pub id: String,
    /// The digest of the registry, or the id of an image without one.
    pub digest: String,
    pub os: String,
    pub arch: String,
    /// `PATH` in the environment of the image.
    pub(crate) path: Option<String>,
    /// The paths for which the image declares volumes.
    pub(crate) volumes: Vec<String>,
}

/// An image as the audit log records it.
#[derive(Debug, Clone, Copy)]
pub struct RecordedImage<'a> {
    /// The name in `agent.yaml`.
    pub name: &'a str,
    /// `None` in records that lack the id.
    pub id: Option<&'a str>,
    /// The digest of the registry, or the id.
    pub digest: &'a str,
}

/// The result of [`Engine::recorded_image`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundImage {
    /// The image with the recorded id or digest, and the image that its name means now.
    Found(Box<ResolvedImage>, NameNow),
    /// The engine lacks the image and cannot pull it, for this reason.
    Unavailable(String),
}

/// The image that a recorded name means now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameNow {
    Same,
    /// Another image, with this id.
    Other(String),
    Missing,
}

/// The repository of the images that belong to bases. No registry has one of this name.
const BASE_IMAGES: &str = "act-base";
/// The label of such an image: the digest of the path of the artifact directory, a dot, and the key of the base. It is one
/// label, because Podman takes a second one in an instruction for a part of the first.
const OF_BASE: &str = "act.base";
/// Time limit for a commit, which writes everything that `prepare` installed.
const COMMIT_LIMIT: Duration = Duration::from_secs(600);

/// Returns the name of an ARTIFACT_DIR, which is the same one with and without a slash at the end of its path.
fn store_of(artifacts: &ArtifactDir) -> String {
    let path: PathBuf = artifacts.path().components().collect();
    act_workspace::digest(path.as_os_str().as_encoded_bytes())
}

/// Returns whether a container was changed by its steps, by the list of changed paths with their kinds (0 is a change, 1
/// an addition, 2 a deletion). The engine itself creates the targets of mounts and some files of its own.
fn has_own_changes(changes: &[(&str, u8)], mounts: &[String]) -> bool {
    const ENGINES: [&str; 7] = [
        "/.dockerenv",
        "/dev",
        "/etc/hostname",
        "/etc/hosts",
        "/etc/mtab",
        "/etc/resolv.conf",
        "/run/.containerenv",
    ];
    changes.iter().any(|(path, kind)| {
        let path = Path::new(path);
        let above_mount = mounts.iter().any(|mount| Path::new(mount).starts_with(path));
        let engines = ENGINES.iter().any(|own| path.starts_with(own));
        // The directory of a changed name is in the list as well.
        let above = |other: &str| Path::new(other) != path && Path::new(other).starts_with(path);
        let of_others = *kind == 0 && changes.iter().any(|(other, _)| above(other));
        !above_mount && !engines && !of_others
    })
}

/// Time limit for a pull without any progress.
const PULL_STALLED: Duration = Duration::from_secs(180);
/// Maximum number of layers whose progress is added up. Images have up to 127.
const MAX_LAYERS: usize = 512;

impl Engine {
    /// Returns an image, and pulls it if the engine lacks it. Returns `None` when cancelled.
    ///
    /// # Errors
    /// `image_pull` when the name is invalid or the pull fails; the message says what to check.
    pub async fn ensure_image(
        &self,
        image: &str,
        events: &Events,
        cancel: &CancellationToken,
    ) -> Result<Option<ResolvedImage>, InfraError> {
        cancel.run_until_cancelled(self.resolve(image, events)).await.transpose()
    }

    /// Returns an image if the engine has it. Nothing is pulled, and no container is started to look at it.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn find_image(&self, image: &str) -> Result<Option<ResolvedImage>, InfraError> {
        match self.call(Phase::Pull, QUICK, self.driver().present_image(image)).await {
            Ok(found) => Ok(Some(resolved(image, found))),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether an image is known only after a container of it has run.
    pub fn looks_at_images_in_containers(&self) -> bool {
        self.driver().facts().starts_images
    }

    /// Finds an image by its recorded id, then by its digest, and pulls it by digest if the engine lacks it. Returns
    /// `None` when cancelled.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn recorded_image(
        &self,
        recorded: RecordedImage<'_>,
        events: &Events,
        cancel: &CancellationToken,
    ) -> Result<Option<FoundImage>, InfraError> {
        cancel.run_until_cancelled(self.find_recorded(recorded, events)).await.transpose()
    }

    /// Imports the tar archive of a root file system as `NAME:TAG`. An existing image of that name is left as it is, so
    /// the tag should identify the content.
    ///
    /// # Errors
    /// The engine fails or refuses the archive.
    pub async fn import_image(
        &self,
        name: &str,
        tag: &str,
        archive: Vec<u8>,
    ) -> Result<(), InfraError> {
        let reference = format!("{name}:{tag}");
        if self.inspect_image(&reference).await?.is_some() {
            return Ok(());
        }
        let import = self.driver().import(&reference, archive);
        self.call(Phase::Pull, WORK, import).await.map_err(|error| {
            let mut error = InfraError::from(error);
            error.message = format!("import of {reference}: {}", error.message);
            error
        })
    }

    /// Commits what a stopped container changed outside of its mounts, for a base. Returns the id of the new image with the
    /// bytes that it adds, or `None` if nothing was changed.
    ///
    /// # Errors
    /// The engine fails.
    pub(crate) async fn keep_changes(
        &self,
        container: &str,
        mounts: &[String],
        image: &ResolvedImage,
        (artifacts, key): (&ArtifactDir, &str),
    ) -> Result<Option<(String, u64)>, InfraError> {
        let changes = self.call(Phase::Inspect, WORK, self.driver().changes(container)).await?;
        let changes: Vec<_> = changes.iter().map(|(path, kind)| (path.as_str(), *kind)).collect();
        if !has_own_changes(&changes, mounts) {
            return Ok(None);
        }
        let made = NewImage {
            name: BASE_IMAGES.to_owned(),
            tag: container.to_owned(),
            comment: "what `prepare` changed in the container, for act".to_owned(),
            label: format!("{OF_BASE}={}.{key}", store_of(artifacts)),
        };
        let commit = self.driver().commit(container, made);
        let id = self.call(Phase::Prepare, COMMIT_LIMIT, commit).await?;
        let size = |found: Option<ImageInfo>| found.map_or(0, |found| found.bytes);
        let (before, now) =
            (size(self.inspect_image(&image.id).await?), size(self.inspect_image(&id).await?));
        Ok(Some((id, now.saturating_sub(before))))
    }

    /// Removes the images of bases that were removed. An engine that does not answer, or another engine, keeps them; the
    /// next base that is made or cleared removes them.
    pub async fn remove_base_images(&self, bases: &[BaseSize]) {
        for base in bases.iter().filter(|base| base.engine == self.host()) {
            if let Some(image) = &base.container_image {
                self.remove_base_image(image).await;
            }
        }
    }

    /// Removes the images of this ARTIFACT_DIR that belong to no base, which a killed process left or whose base was removed
    /// without this engine, and the bases whose images this engine has no more. No run can use either.
    ///
    /// # Errors
    /// The bases or the images cannot be listed or removed.
    pub async fn remove_lost_bases(&self, artifacts: &ArtifactDir) -> Result<(), InfraError> {
        let failed = |error| InfraError::from_io("look for lost warm bases", &error);
        let images = self.call(Phase::Inspect, QUICK, self.driver().images(OF_BASE)).await?;
        let store = store_of(artifacts);
        let key_of = |image: &Labelled| {
            let (of, key) = image.labels.get(OF_BASE)?.split_once('.')?;
            (of == store).then(|| key.to_owned())
        };
        let images: Vec<_> =
            images.into_iter().filter_map(|image| Some((key_of(&image)?, image.id))).collect();
        // In this order: a base that is published meanwhile is among the bases.
        let mut begun = vec![];
        for (key, _) in &images {
            begun.push(artifacts.is_base_begun(key).map_err(failed)?);
        }
        let bases = artifacts.bases().map_err(failed)?;
        for ((_, image), begun) in images.iter().zip(begun) {
            // Podman writes an id with its algorithm in one place and without it in another.
            let is_of =
                |base: &BaseSize| base.container_image.as_deref().map(bare) == Some(bare(image));
            if !begun && !bases.iter().any(is_of) {
                self.remove_base_image(image).await;
            }
        }
        for key in self.bases_without_image(&bases).await? {
            artifacts.remove_base(&key).map_err(failed)?;
        }
        Ok(())
    }

    /// Returns the keys of the bases that this engine made and whose images it has no more.
    ///
    /// # Errors
    /// An image cannot be inspected.
    pub async fn bases_without_image(
        &self,
        bases: &[BaseSize],
    ) -> Result<BTreeSet<String>, InfraError> {
        let mut lost = BTreeSet::new();
        for base in bases.iter().filter(|base| base.engine == self.host()) {
            if let Some(image) = &base.container_image
                && self.inspect_image(image).await?.is_none()
            {
                lost.insert(base.key.clone());
            }
        }
        Ok(lost)
    }

    async fn remove_base_image(&self, image: &str) {
        let _ = self.call(Phase::Remove, WORK, self.driver().remove_image(image)).await;
    }

    async fn resolve(&self, image: &str, events: &Events) -> Result<ResolvedImage, InfraError> {
        if !is_reference(image) {
            return Err(InfraError::new(
                ErrorType::ImagePull,
                format!(
                    "{image:?} is not an image name; correct verification.container_image in agent.yaml"
                ),
            ));
        }
        if let Some(found) = self.inspect_image(image).await? {
            return Ok(resolved(image, found));
        }
        self.pull(image, events).await.map_err(|error| {
            let mut error = InfraError::from(error);
            let other = match self.looks_at_images_in_containers() {
                true => String::new(),
                false => format!(", or try `docker pull {image}`"),
            };
            error.message = format!(
                "{image}: {}; check verification.container_image in agent.yaml{other}",
                error.message
            );
            error
        })?;
        match self.inspect_image(image).await? {
            Some(found) => Ok(resolved(image, found)),
            None => Err(InfraError::new(
                ErrorType::ImagePull,
                format!("{image}: the pull ended without an image"),
            )),
        }
    }

    async fn find_recorded(
        &self,
        recorded: RecordedImage<'_>,
        events: &Events,
    ) -> Result<FoundImage, InfraError> {
        let Some((references, by_digest)) = recorded.references() else {
            return Ok(FoundImage::Unavailable("the log has no digest of the image".to_owned()));
        };
        for reference in references.iter().chain([&by_digest]) {
            if let Some(found) = self.inspect_image(reference).await?
                && recorded.is(&found)
            {
                return self.with_name(recorded, found).await;
            }
        }
        if let Err(error) = self.pull(&by_digest, events).await {
            return Ok(FoundImage::Unavailable(error.message));
        }
        match self.inspect_image(&by_digest).await? {
            Some(found) if recorded.is(&found) => self.with_name(recorded, found).await,
            _ => Ok(FoundImage::Unavailable("the pull ended without it".to_owned())),
        }
    }

    async fn with_name(
        &self,
        recorded: RecordedImage<'_>,
        found: ImageInfo,
    ) -> Result<FoundImage, InfraError> {
        let mut image = resolved(recorded.name, found);
        image.digest = format!("sha256:{}", bare(recorded.digest));
        let named = match self.inspect_image(recorded.name).await? {
            Some(now) if now.id.as_deref() == Some(image.id.as_str()) => NameNow::Same,
            Some(now) => NameNow::Other(now.id.unwrap_or_default()),
            None => NameNow::Missing,
        };
        Ok(FoundImage::Found(Box::new(image), named))
    }

    async fn pull(&self, image: &str, events: &Events) -> Result<(), EngineError> {
        let (name, tag) = split_reference(image);
        let mut stream = self.driver().pull(name, tag);
        let mut progress = Progress::default();
        loop {
            match tokio::time::timeout(PULL_STALLED, stream.next()).await {
                Ok(Some(Ok(info))) => {
                    if let Some((status, current, total)) = progress.take(info) {
                        let image = image.to_owned();
                        events.emit(EventKind::ImagePull { image, status, current, total });
                    }
                }
                Ok(Some(Err(error))) => return Err(EngineError::new(Phase::Pull, error)),
                Ok(None) => return Ok(()),
                Err(_) => {
                    // The engine answers, but the registry does not.
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

    async fn inspect_image(&self, image: &str) -> Result<Option<ImageInfo>, InfraError> {
        let limit = if self.looks_at_images_in_containers() { WORK } else { QUICK };
        match self.call(Phase::Pull, limit, self.driver().image(image)).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn resolved(image: &str, found: ImageInfo) -> ResolvedImage {
    let id = found.id.unwrap_or_else(|| image.to_owned());
    let registry = found.registry_digests.first().and_then(|known| known.split_once('@'));
    let path = found.environment.iter().find_map(|entry| entry.strip_prefix("PATH="));
    ResolvedImage {
        reference: image.to_owned(),
        digest: registry.map_or_else(|| id.clone(), |(_, digest)| digest.to_owned()),
        id,
        os: found.os,
        arch: found.arch,
        path: path.map(str::to_owned),
        volumes: found.volumes,
    }
}

/// Returns whether `image` has only the characters of image names. The name becomes part of the path of a request.
fn is_reference(image: &str) -> bool {
    const LONGEST: usize = 512;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let plain = |part: &str| part.starts_with(|c: char| c.is_ascii_alphanumeric());
    image.len() <= LONGEST && image.chars().all(allowed) && image.split('/').all(plain)
}

/// Splits a reference into its name and its tag or digest. The tag is `latest` by default, because an engine pulls all
/// tags when none is given.
fn split_reference(image: &str) -> (&str, &str) {
    if let Some(parts) = image.split_once('@') {
        return parts;
    }
    // A colon before the last slash separates the port of the registry.
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

/// Adds up the progress of the layers of a pull.
#[derive(Default)]
struct Progress {
    /// Bytes that have arrived, and all bytes, by layer.
    layers: HashMap<String, (u64, u64)>,
    /// The status and the percentage of the last event.
    emitted: Option<(String, u64)>,
}

impl Progress {
    /// Takes a message of the engine. Returns the status and the bytes for an event, or `None` when less than one
    /// percent has changed.
    fn take(&mut self, message: PullProgress) -> Option<(String, Option<u64>, Option<u64>)> {
        let status: String = message.status?.chars().take(200).collect();
        // A message about the whole image has no progress.
        let of_layer = message.bytes.is_some();
        if let (Some(layer), Some((current, total))) = (message.layer, message.bytes)
            && total > 0
            && (self.layers.len() < MAX_LAYERS || self.layers.contains_key(&layer))
        {
            self.layers.insert(layer, (current, total));
        }
        let (current, total) =
            self.layers.values().fold((0, 0), |(c, t), layer| (layer.0 + c, layer.1 + t));
        let percent = (current * 100).checked_div(total).unwrap_or(0);
        let now = (status, percent);
        if self.emitted.as_ref() == Some(&now) {
            return None;
        }
        self.emitted = Some(now.clone());
        let known = of_layer && total > 0;
        Some((now.0, known.then_some(current), known.then_some(total)))
    }
}

impl RecordedImage<'_> {
    /// Returns the references by id and digest, and the one to pull the image by. Returns `None` when the log holds
    /// something else than digests, because they become part of the path of a request.
    fn references(&self) -> Option<(Vec<String>, String)> {
        let is_digest =
            |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let digests = self.id.into_iter().chain([self.digest]).map(bare);
        let mut references = vec![];
        for digest in digests {
            if !is_digest(digest) {
                return None;
            }
            references.push(format!("sha256:{digest}"));
        }
        references.dedup();
        let (name, _) = split_reference(self.name);
        let by_digest = format!("{name}@sha256:{}", bare(self.digest));
        is_reference(self.name).then_some((references, by_digest))
    }

    /// Returns whether an image has the recorded id or digest. The name does not count.
    fn is(&self, found: &ImageInfo) -> bool {
        let id = found.id.as_deref().map(bare);
        let registry = found.registry_digests.iter();
        let mut digests = registry.filter_map(|known| Some(bare(known.split_once('@')?.1)));
        let digest = bare(self.digest);
        id.is_some() && (id == self.id.map(bare) || id == Some(digest))
            || digests.any(|known| known == digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-50
    #[test]
    fn what_the_engine_puts_into_a_container_is_no_change_of_its_steps() {
        let mounts = ["/artifacts", "/artifacts/home", "/etc/passwd", "/workspace"];
        let mounts = mounts.map(str::to_owned);
        let engines =
            [("/artifacts", 1), ("/workspace", 1), ("/etc", 0), ("/etc/passwd", 1), ("/dev", 0)];
        assert!(!has_own_changes(&engines, &mounts));
        assert!(!has_own_changes(&[], &mounts));
        for own in [
            vec![("/usr", 0), ("/usr/bin", 0), ("/usr/bin/tool", 1)],
            vec![("/etc", 0), ("/etc/hosts.deny", 1)],
            vec![("/tmp", 0), ("/tmp/x", 1)],
            vec![("/opt", 2)],
            vec![("/root", 0)],
        ] {
            let all: Vec<_> = engines.iter().copied().chain(own.iter().copied()).collect();
            assert!(has_own_changes(&all, &mounts), "{own:?}");
        }
    }

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
        let inspect = |digests: &[&str]| ImageInfo {
            id: Some("sha256:id".into()),
            registry_digests: digests.iter().map(|&digest| digest.into()).collect(),
            ..ImageInfo::default()
        };
        assert_eq!(resolved("x", inspect(&[])).digest, "sha256:id");
        assert_eq!(resolved("x", inspect(&["x@sha256:dd"])).digest, "sha256:dd");
    }

    #[test]
    fn progress_adds_layers_up_and_reports_no_value_twice() {
        let info = |id: &str, current, total| PullProgress {
            layer: Some(id.into()),
            status: Some("Downloading".into()),
            bytes: Some((current, total)),
        };
        let mut progress = Progress::default();
        let event = |sum| Some(("Downloading".to_owned(), Some(sum), Some(1000)));
        assert_eq!(progress.take(info("a", 10, 1000)), event(10));
        assert_eq!(progress.take(info("a", 11, 1000)), None);
        assert_eq!(
            progress.take(info("b", 500, 1000)),
            Some(("Downloading".to_owned(), Some(511), Some(2000)))
        );
        let whole = PullProgress { status: Some("Digest: x".into()), ..Default::default() };
        assert_eq!(progress.take(whole), Some(("Digest: x".to_owned(), None, None)));
    }

    // AUDIT-25
    #[test]
    fn an_image_is_asked_for_by_id_and_digest_and_known_by_them() {
        let (id, digest) = ("a".repeat(64), "d".repeat(64));
        let recorded = |id| RecordedImage { name: "host:5000/py:3", id, digest: &digest };
        assert_eq!(
            recorded(Some(&id)).references().unwrap(),
            (
                vec![format!("sha256:{id}"), format!("sha256:{digest}")],
                format!("host:5000/py@sha256:{digest}")
            )
        );
        assert_eq!(recorded(None).references().unwrap().0.len(), 1);
        let long = "g".repeat(64);
        for wrong in ["", "../x", "sha256:zz", &long] {
            assert_eq!(recorded(Some(wrong)).references(), None, "{wrong}");
        }
        let image = |id: &str, digests: &[&str]| ImageInfo {
            id: Some(format!("sha256:{id}")),
            registry_digests: digests.iter().map(|&digest| digest.into()).collect(),
            ..ImageInfo::default()
        };
        let known = format!("x@sha256:{digest}");
        assert!(recorded(Some(&id)).is(&image(&id, &[])));
        assert!(
            recorded(None).is(&image(&digest, &[])) && recorded(None).is(&image("e", &[&known]))
        );
        assert!(!recorded(Some(&id)).is(&image("e", &["x@sha256:f"])));
        assert!(!recorded(None).is(&ImageInfo::default()));
    }
}
