//! The `/etc/passwd` of the steps' container. An image may lack a line for the caller's uid; `whoami`, Java, Node and
//! Python's `getpass` then fail in ways that look like the project's fault.

use crate::container::{Guard, creation_failed};
use crate::engine::{Engine, WORK};
use crate::engine_error::{EngineError, Phase};
use crate::image::ResolvedImage;
use crate::request::{ContainerRequest, Role};
use act_core::verification::{ErrorType, InfraError};
use act_records::artifacts::ArtifactDir;
use futures_util::StreamExt;
use std::collections::HashMap;
use std::io::Read;

pub(crate) const PASSWD: &str = "/etc/passwd";
/// Seconds after which the container ends by itself, on an engine that starts it to read its files.
const LIFETIME: u64 = 120;
/// Maximum size of the image's file in bytes. A larger one is neither read nor replaced.
const MAX_PASSWD: usize = 1024 * 1024;

/// Returns the image's `/etc/passwd`, empty if it has none, or `None` when it is too large or not a regular file. A
/// container called `name` is created to read it, once for each image.
///
/// # Errors
/// `container_creation` when the image has no shell, else trouble with the engine.
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
    let request = ContainerRequest {
        role: Role::Image,
        ..ContainerRequest::helper(image, vec![], LIFETIME, labels)
    };
    let read = async {
        let created = engine.create(name, &request).await;
        created.map_err(|error| creation_failed(image, error))?;
        // Engines differ in what they do when a container without a shell is started.
        if !engine.has_path(name, "/bin/sh").await? {
            return Err(InfraError::new(
                ErrorType::ContainerCreation,
                format!(
                    "image {} has no /bin/sh, which every step needs; use an image with a shell",
                    image.reference
                ),
            ));
        }
        let reading = tokio::time::timeout(WORK, read(engine, name)).await;
        Ok(reading.unwrap_or_else(|_| Err(EngineError::silent(Phase::Prepare)))?)
    };
    let passwd = read.await;
    let removed = guard.remove().await;
    let passwd = passwd?;
    removed?;
    if let Some(text) = &passwd {
        artifacts
            .remember_passwd(&image.id, text)
            .map_err(|error| InfraError::from_io("store the image's /etc/passwd", &error))?;
    }
    Ok(passwd)
}

async fn read(engine: &Engine, container: &str) -> Result<Option<Vec<u8>>, EngineError> {
    let mut pieces = engine.download(container, PASSWD, Phase::Prepare);
    let mut bytes = vec![];
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(error) if error.status() == Some(404) => return Ok(Some(vec![])),
            Err(error) => return Err(error),
        }
        if bytes.len() > 2 * MAX_PASSWD {
            return Ok(None);
        }
    }
    Ok(single_file(&bytes))
}

/// Returns the content of an archive that holds one regular file. The image chooses these bytes, so nothing is
/// unpacked.
fn single_file(archive: &[u8]) -> Option<Vec<u8>> {
    let limit = MAX_PASSWD as u64;
    let mut archive = tar::Archive::new(archive);
    let entry = archive.entries().ok()?.next()?.ok()?;
    let regular = entry.header().entry_type().is_file() && entry.size() <= limit;
    let mut text = vec![];
    (regular && entry.take(limit).read_to_end(&mut text).is_ok()).then_some(text)
}

/// Adds a line for `uid`. Returns `None` when the file has one.
pub(crate) fn with_user(mut passwd: Vec<u8>, uid: u32, gid: u32) -> Option<Vec<u8>> {
    let wanted = uid.to_string();
    let known = passwd
        .split(|byte| *byte == b'\n')
        .any(|line| line.split(|byte| *byte == b':').nth(2) == Some(wanted.as_bytes()));
    if known {
        return None;
    }
    if passwd.last().is_some_and(|byte| *byte != b'\n') {
        passwd.push(b'\n');
    }
    passwd.extend_from_slice(format!("act:x:{uid}:{gid}::/artifacts/home:/bin/sh\n").as_bytes());
    Some(passwd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::SentFile;

    // VERIFIER-7
    #[test]
    fn a_uid_without_a_name_gets_a_line_and_a_known_one_is_left_alone() {
        let add = |text: &str, uid| {
            with_user(text.into(), uid, 8).map(|text| String::from_utf8(text).unwrap())
        };
        let line = "act:x:7:8::/artifacts/home:/bin/sh\n";
        assert_eq!(add("", 7).unwrap(), line);
        assert_eq!(
            add("root:x:0:0::/root:/bin/sh", 7).unwrap(),
            format!("root:x:0:0::/root:/bin/sh\n{line}")
        );
        assert_eq!(
            add("n:x:17:7::/:/bin/sh\n", 7).unwrap(),
            format!("n:x:17:7::/:/bin/sh\n{line}")
        );
        assert_eq!(add("node:x:7:7::/home/node:/bin/sh\n", 7), None);
    }

    #[test]
    fn only_one_regular_file_is_read_from_what_the_image_sends() {
        let file = SentFile { path: PASSWD, mode: 0o644, content: b"x\n".to_vec() };
        assert_eq!(single_file(&SentFile::archive(&[file]).unwrap()), Some(b"x\n".to_vec()));
        assert_eq!(single_file(b"not an archive"), None);
        let mut link = tar::Header::new_ustar();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        let mut builder = tar::Builder::new(vec![]);
        builder.append_link(&mut link, "passwd", "/etc/shadow").unwrap();
        assert_eq!(single_file(&builder.into_inner().unwrap()), None);
    }
}
