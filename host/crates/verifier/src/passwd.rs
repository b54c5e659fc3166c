//! A name for the steps' uid. Without one `whoami`, Java, Node and Python's `getpass` fail in ways that look
//! like the project's fault.

use bollard::query_parameters::UploadToContainerOptions;
use bytes::Bytes;

use crate::docker_error::{EngineError, Phase};
use crate::engine::{Engine, WORK};

pub(crate) const PASSWD: &str = "/etc/passwd";

/// Replaces a file of a created container by one that root owns and everybody may read.
pub(crate) async fn put_file(
    engine: &Engine,
    container: &str,
    path: &str,
    content: &[u8],
) -> Result<(), EngineError> {
    let Some(archive) = archive(path, content) else { return Ok(()) };
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

/// The file with a line for `uid`; None when it has one.
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

/// `path` is absolute.
pub(crate) fn archive(path: &str, content: &[u8]) -> Option<Vec<u8>> {
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
}
