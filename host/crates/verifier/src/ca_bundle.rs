//! `ca_bundle`: the certificates of a host file, and nothing else of it. The repository chooses the path, so
//! what reaches the container is a copy of the certificate blocks alone.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use act_core::verification::{ErrorType, InfraError};
use rustix::fs::{Mode, OFlags};

const MAX_BYTES: u64 = 16 * 1024 * 1024;
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Whether it is there and holds a certificate.
pub fn usable(path: &Path) -> Result<(), InfraError> {
    certificates(path).map(|_| ())
}

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
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(refused("is not a file"));
    }
    let mut bytes = vec![];
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refused(&format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refused("is larger than 16 MiB"));
    }
    let found = blocks(&String::from_utf8_lossy(&bytes));
    if found.is_empty() { Err(refused("holds no certificate")) } else { Ok(found) }
}

/// Base64 lines between the two marks; what has anything else in it is no certificate.
fn blocks(text: &str) -> String {
    let mut out = String::new();
    for part in text.split(BEGIN).skip(1) {
        let Some((body, _)) = part.split_once(END) else { continue };
        let plain = |c: char| c.is_ascii_alphanumeric() || "+/=\r\n".contains(c);
        if body.chars().all(plain) {
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
