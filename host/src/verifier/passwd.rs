//! A name for the steps' uid. Without one `whoami`, Java, Node and Python's `getpass` fail in ways that look
//! like the project's fault.

use std::io::Read;

use bollard::query_parameters::{DownloadFromContainerOptions, UploadToContainerOptions};
use bytes::Bytes;
use futures_util::StreamExt;

use super::docker_error::{EngineError, Phase};
use super::engine::{Engine, WORK};

const PASSWD: &str = "/etc/passwd";
/// An image's own file beyond this is not read, and then not replaced either.
const MAX_PASSWD: usize = 1024 * 1024;

/// Adds a line for `uid` to the created container's `/etc/passwd`, unless it has one.
pub(super) async fn name_the_user(
    engine: &Engine,
    container: &str,
    uid: u32,
    gid: u32,
) -> Result<(), EngineError> {
    let reading = async { Ok(read(engine, container).await) };
    let passwd = match engine.call(Phase::Prepare, WORK, reading).await?? {
        Passwd::Absent => Vec::new(),
        Passwd::Text(text) => text,
        Passwd::Strange => return Ok(()),
    };
    let Some(passwd) = with_user(passwd, uid, gid) else { return Ok(()) };
    put_file(engine, container, PASSWD, passwd).await
}

/// Replaces a file of a created container by one that root owns and everybody may read.
pub(super) async fn put_file(
    engine: &Engine,
    container: &str,
    path: &str,
    content: Vec<u8>,
) -> Result<(), EngineError> {
    let Some(archive) = archive(path, &content) else { return Ok(()) };
    let options = UploadToContainerOptions {
        path: "/".to_owned(),
        // Some engines would otherwise make the container's user the owner.
        copy_uidgid: Some("false".to_owned()),
        ..UploadToContainerOptions::default()
    };
    let upload = engine.docker.upload_to_container(
        container,
        Some(options),
        bollard::body_full(Bytes::from(archive)),
    );
    engine.call(Phase::Prepare, WORK, upload).await
}

enum Passwd {
    Absent,
    Text(Vec<u8>),
    /// A link, a directory, or far too big: left as the image has it.
    Strange,
}

async fn read(engine: &Engine, container: &str) -> Result<Passwd, EngineError> {
    let options = DownloadFromContainerOptions { path: PASSWD.to_owned() };
    let mut stream = Box::pin(engine.docker.download_from_container(container, Some(options)));
    let mut bytes = vec![];
    while let Some(chunk) = stream.next().await {
        match chunk.map_err(|error| EngineError::new(Phase::Prepare, &error)) {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(error) if error.status() == Some(404) => return Ok(Passwd::Absent),
            Err(error) => return Err(error),
        }
        if bytes.len() > 2 * MAX_PASSWD {
            return Ok(Passwd::Strange);
        }
    }
    Ok(single_file(&bytes).map_or(Passwd::Strange, Passwd::Text))
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

/// The file with a line for `uid`; None when it has one.
fn with_user(mut passwd: Vec<u8>, uid: u32, gid: u32) -> Option<Vec<u8>> {
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

/// `path` is absolute.
fn archive(path: &str, content: &[u8]) -> Option<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    let mut archive = tar::Builder::new(vec![]);
    archive.append_data(&mut header, path.trim_start_matches('/'), content).ok()?;
    archive.into_inner().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
