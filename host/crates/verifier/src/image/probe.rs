//! What is asked of an image, once: whether it has a shell, and its `/etc/passwd`. Of a container that never
//! starts, so nothing of the image runs.

use std::collections::HashMap;
use std::io::Read;

use bollard::query_parameters::{ContainerArchiveInfoOptions, DownloadFromContainerOptions};
use futures_util::StreamExt;

use super::ResolvedImage;
use crate::container::{Guard, creation_failed};
use crate::docker_error::{EngineError, Phase};
use crate::engine::{Engine, QUICK, WORK};
use crate::passwd::PASSWD;
use crate::request::ContainerRequest;
use act_core::verification::{ErrorType, InfraError};
use act_records::artifacts::ArtifactDir;

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
    let request = ContainerRequest::chore(image, vec![], 1, labels);
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
