//! The certificates of `ca_bundle` in `agent.yaml`. The repository chooses the path of the file, so the container gets
//! the certificate blocks of the file and nothing else of it.

use act_core::verification::{ErrorType, InfraError};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::Path;

/// Maximum size of the file in bytes. The bundle of a distribution has about 200 KiB.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Checks that the file exists and holds a certificate.
///
/// # Errors
/// `container_creation` with the reason.
pub fn check(path: &Path) -> Result<(), InfraError> {
    certificates(path).map(|_| ())
}

/// Returns the certificates of a file.
///
/// # Errors
/// `container_creation` when the file cannot be read, is too large or holds no certificate.
pub(crate) fn certificates(path: &Path) -> Result<String, InfraError> {
    let refused = |why: &str| {
        InfraError::new(
            ErrorType::ContainerCreation,
            format!("verification.ca_bundle in agent.yaml: {} {why}", path.display()),
        )
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| refused(&format!("cannot be opened: {error}")))?
        .into();
    let file = act_fs::regular(file).map_err(|_| refused("is not a file"))?;
    let bytes = act_fs::read_bounded(file, MAX_BYTES).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => refused("is larger than 16 MiB"),
        _ => refused(&format!("cannot be read: {error}")),
    })?;
    let found = blocks(&String::from_utf8_lossy(&bytes));
    if found.is_empty() { Err(refused("holds no certificate")) } else { Ok(found) }
}

/// Returns the blocks between the two marks. A block that is not Base64 is left out.
fn blocks(text: &str) -> String {
    let mut out = String::new();
    for part in text.split(BEGIN).skip(1) {
        let Some((body, _)) = part.split_once(END) else { continue };
        let base64 = |c: char| c.is_ascii_alphanumeric() || "+/=\r\n".contains(c);
        if body.chars().all(base64) {
            out.push_str(&format!("{BEGIN}\n{}\n{END}\n", body.trim()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-26
    #[test]
    fn only_certificates_leave_the_host() {
        let text = "password: hunter2\n-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n\
                    -----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\ntoken\n\
                    -----BEGIN CERTIFICATE-----\nmy secret!\n-----END CERTIFICATE-----\n";
        let found = blocks(text);
        assert_eq!(found, format!("{BEGIN}\nQUJD\n{END}\n"));
    }

    // VERIFIER-26
    #[test]
    fn a_file_without_certificates_and_what_is_no_file_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let secret = dir.path().join("id_rsa");
        std::fs::write(&secret, "secret").unwrap();
        for path in [fifo, secret, dir.path().to_owned(), dir.path().join("none")] {
            let error = certificates(&path).unwrap_err();
            assert_eq!(error.error_type, ErrorType::ContainerCreation);
            assert!(error.message.contains("ca_bundle") && !error.message.contains("secret"));
        }
    }
}
