//! Images: the one that `agent.yaml` names, pulled when the engine lacks it; the one that a run was recorded with; an
//! import from an archive; and what is read from an image before its first run.

use crate::container::Guard;
use crate::container::creation_failed;
use crate::docker_error::EngineError;
use crate::docker_error::Fault;
use crate::docker_error::Phase;
use crate::engine::Engine;
use crate::engine::QUICK;
use crate::engine::WORK;
use crate::passwd::PASSWD;
use crate::request::ContainerRequest;
use act_core::event::EventKind;
use act_core::event::Events;
use act_core::verification::ErrorType;
use act_core::verification::InfraError;
use act_records::artifacts::ArtifactDir;
use act_workspace::bare_digest as bare;
use bollard::models::CreateImageInfo;
use bollard::models::ImageInspect;
use bollard::query_parameters::ContainerArchiveInfoOptions;
use bollard::query_parameters::CreateImageOptions;
use bollard::query_parameters::DownloadFromContainerOptions;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::TryStreamExt;
use std::collections::HashMap;
use std::io::Read;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

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
    pub(crate) path: Option<String>,
    /// Where the image wants volumes of its own.
    pub(crate) volumes: Vec<String>,
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

/// A pull that says nothing for this long has died.
const SILENCE: Duration = Duration::from_secs(180);
/// Layers whose progress is added up; more than any image has.
const MAX_LAYERS: usize = 512;

impl Engine {
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

impl Engine {
    /// Imports a root file system, a tar archive, as `NAME:TAG`. An image of that name stays as it is: the
    /// tag is expected to say what is in the archive.
    pub async fn import_image(
        &self,
        name: &str,
        tag: &str,
        archive: Vec<u8>,
    ) -> Result<(), InfraError> {
        let reference = format!("{name}:{tag}");
        if self.inspect(&reference).await?.is_some() {
            return Ok(());
        }
        let options = CreateImageOptions {
            from_src: Some("-".to_owned()),
            // Name and tag in one: Podman does not read the tag's own field.
            repo: Some(reference.clone()),
            ..CreateImageOptions::default()
        };
        let archive = bollard::body_full(Bytes::from(archive));
        let import = self.docker.create_image(Some(options), Some(archive), None);
        // What it says on the way is of no interest; that it ended without an error is.
        let ended = import.map(|info| info.map(drop)).try_collect::<()>();
        self.call(Phase::Pull, WORK, ended).await.map_err(|error| {
            let mut error = InfraError::from(error);
            error.message = format!("import of {reference}: {}", error.message);
            error
        })
    }
}

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

/// An image's own file beyond this is not read, and then not replaced either.
const MAX_PASSWD: usize = 1024 * 1024;

/// The image's `/etc/passwd`, empty if it has none. None when it is no ordinary file: a link, or far too big.
/// An image without a shell is an error. `name` is for a container.
pub(crate) async fn passwd_of(
    engine: &Engine,
    image: &ResolvedImage,
    artifacts: &ArtifactDir,
    name: &str,
    labels: HashMap<String, String>,
) -> Result<Option<Vec<u8>>, InfraError> {
    if let Some(known) = artifacts.image_passwd(&image.id) {
        return Ok(Some(known));
    }
    let guard = Guard::arm(engine, name, vec![]);
    let request = ContainerRequest::helper(image, vec![], 1, labels);
    let asked = async {
        let created = engine.create(name, request.body()).await;
        created.map_err(|error| creation_failed(image, error))?;
        require_shell(engine, name, image).await?;
        let reading = async { Ok(read(engine, name).await) };
        Ok::<_, InfraError>(engine.call(Phase::Prepare, WORK, reading).await??)
    };
    let passwd = asked.await;
    let removed = guard.remove().await;
    let passwd = passwd?;
    removed?;
    if let Some(text) = &passwd {
        artifacts
            .remember_passwd(&image.id, text)
            .map_err(|error| InfraError::from_io("keep what is known of the image", &error))?;
    }
    Ok(passwd)
}

/// What an image without a shell does when it is started differs between engines.
async fn require_shell(
    engine: &Engine,
    name: &str,
    image: &ResolvedImage,
) -> Result<(), InfraError> {
    let options = ContainerArchiveInfoOptions { path: "/bin/sh".to_owned() };
    let probe = engine.docker.get_container_archive_info(name, Some(options));
    match engine.call(Phase::Prepare, QUICK, probe).await {
        Err(error) if error.status() == Some(404) => Err(InfraError::new(
            ErrorType::ContainerCreation,
            format!(
                "image {} has no /bin/sh, which every step needs; use an image with a shell",
                image.reference
            ),
        )),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

async fn read(engine: &Engine, container: &str) -> Result<Option<Vec<u8>>, EngineError> {
    let options = DownloadFromContainerOptions { path: PASSWD.to_owned() };
    let mut stream = Box::pin(engine.docker.download_from_container(container, Some(options)));
    let mut bytes = vec![];
    while let Some(chunk) = stream.next().await {
        match chunk.map_err(|error| EngineError::new(Phase::Prepare, &error)) {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(error) if error.status() == Some(404) => return Ok(Some(vec![])),
            Err(error) => return Err(error),
        }
        if bytes.len() > 2 * MAX_PASSWD {
            return Ok(None);
        }
    }
    Ok(single_file(&bytes))
}

/// The content of an archive that holds one ordinary file. The image chose these bytes; nothing is unpacked.
fn single_file(archive: &[u8]) -> Option<Vec<u8>> {
    let mut archive = tar::Archive::new(archive);
    let entry = archive.entries().ok()?.next()?.ok()?;
    let ordinary = entry.header().entry_type().is_file() && entry.size() <= MAX_PASSWD as u64;
    let mut text = vec![];
    let limit = MAX_PASSWD as u64;
    (ordinary && entry.take(limit).read_to_end(&mut text).is_ok()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passwd::archive;
    use bollard::models::ProgressDetail;

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

    #[test]
    fn only_one_ordinary_file_is_read_from_what_the_image_sends() {
        assert_eq!(single_file(&archive(PASSWD, b"x\n").unwrap()), Some(b"x\n".to_vec()));
        assert_eq!(single_file(b"not an archive"), None);
        let mut link = tar::Header::new_ustar();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        let mut builder = tar::Builder::new(vec![]);
        builder.append_link(&mut link, "passwd", "/etc/shadow").unwrap();
        assert_eq!(single_file(&builder.into_inner().unwrap()), None);
    }
}
