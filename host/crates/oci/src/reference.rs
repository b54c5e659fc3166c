//! Names of artifacts in registries. A reference always names its host, and either a tag or a digest: no part has a default
//! that somebody else could own.

use std::fmt;
use std::str::FromStr;

use act_fs::Sha256;
use reqwest::Url;

/// The beginning of a reference, by which it differs from the path of a file.
pub const SCHEME: &str = "oci://";
/// Maximum number of bytes of a name, as registries have it.
const MAX_NAME: usize = 255;
/// Maximum number of bytes of a tag, as the specification has it.
const MAX_TAG: usize = 128;
/// Maximum number of bytes of a host with its port: a name of the DNS has at most 253.
const MAX_HOST: usize = 259;

/// A SHA-256 as registries write it: `sha256:` and 64 hexadecimal digits. Other algorithms are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest(Sha256);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::of(bytes))
    }

    /// Returns the 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        self.0.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl FromStr for Digest {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let digits = text.strip_prefix("sha256:").and_then(Sha256::parse);
        digits.map(Self).ok_or(ReferenceError::Digest)
    }
}

/// Why a text is no reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("a reference begins with {SCHEME}")]
    Scheme,
    #[error("its host is not a lower-case name or address with an optional port")]
    Host,
    #[error(
        "its name is not made of lower-case letters, digits and `.`, `_`, `-` between them, in parts between `/`"
    )]
    Name,
    #[error("it has no tag and no digest; add `:TAG` or `@sha256:…`")]
    NoVersion,
    #[error("its tag is not made of at most 128 letters, digits, `.`, `_` and `-`")]
    Tag,
    #[error("a digest is `sha256:` and 64 lower-case hexadecimal digits")]
    Digest,
    #[error("it has a tag and a digest; leave one out")]
    Both,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Version {
    Tag(String),
    Digest(Digest),
}

/// The name of an artifact: `oci://HOST/NAME:TAG` or `oci://HOST/NAME@sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    host: String,
    repository: String,
    version: Version,
}

impl Reference {
    /// The host of the registry, with its port if it has one.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn repository(&self) -> &str {
        &self.repository
    }

    pub fn tag(&self) -> Option<&str> {
        match &self.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(_) => None,
        }
    }

    pub fn digest(&self) -> Option<&Digest> {
        match &self.version {
            Version::Tag(_) => None,
            Version::Digest(digest) => Some(digest),
        }
    }

    /// Returns the word in an address of the registry that names the manifest.
    pub(crate) fn version(&self) -> String {
        match &self.version {
            Version::Tag(tag) => tag.clone(),
            Version::Digest(digest) => digest.to_string(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, repository, version } = self;
        match version {
            Version::Tag(tag) => write!(f, "{SCHEME}{host}/{repository}:{tag}"),
            Version::Digest(digest) => write!(f, "{SCHEME}{host}/{repository}@{digest}"),
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let rest = text.strip_prefix(SCHEME).ok_or(ReferenceError::Scheme)?;
        let (host, rest) = rest.split_once('/').ok_or(ReferenceError::Name)?;
        if !is_host(host) {
            return Err(ReferenceError::Host);
        }
        let (repository, version) = match rest.split_once('@') {
            Some((name, _)) if name.contains(':') => return Err(ReferenceError::Both),
            Some((name, digest)) => (name, Version::Digest(digest.parse()?)),
            None => {
                let (name, tag) = rest.split_once(':').ok_or(ReferenceError::NoVersion)?;
                if !is_tag(tag) {
                    return Err(ReferenceError::Tag);
                }
                (name, Version::Tag(tag.to_owned()))
            }
        };
        if repository.len() > MAX_NAME || !repository.split('/').all(is_part) {
            return Err(ReferenceError::Name);
        }
        Ok(Self { host: host.to_owned(), repository: repository.to_owned(), version })
    }
}

/// Returns whether a text is a host with an optional port, written as an address has it: `127.1` and `EXAMPLE.org` are other
/// spellings of a host, which would get settings and credentials past their names.
fn is_host(text: &str) -> bool {
    let Ok(url) = Url::parse(&format!("https://{text}/")) else { return false };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let written = format!("{}{port}", url.host_str().unwrap_or_default());
    // The port of https is written by nobody, and the parser leaves it out.
    text.len() <= MAX_HOST
        && (written == text || format!("{written}:443") == text)
        && url.username().is_empty()
        && url.password().is_none()
}

/// Returns whether a text is one part of a name: letters and digits, between which may be a `.`, one or two `_`, or any `-`.
fn is_part(part: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let between: Vec<&str> = part.split(is_word).filter(|gap| !gap.is_empty()).collect();
    part.starts_with(is_word)
        && part.ends_with(is_word)
        && between
            .iter()
            .all(|gap| matches!(*gap, "." | "_" | "__") || gap.chars().all(|c| c == '-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.len() <= MAX_TAG
        && tag.starts_with(is_word)
        && tag.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    // OCI-1
    #[test]
    fn a_reference_is_written_in_one_way_only() {
        let hex = "a".repeat(64);
        for text in [
            "oci://ghcr.io/a/b-c__d.e/f:1.2_3-x".to_owned(),
            "oci://localhost:5000/x:latest".to_owned(),
            "oci://127.0.0.1:5000/x:1".to_owned(),
            "oci://[::1]:5000/x:1".to_owned(),
            "oci://registry.example:443/x:1".to_owned(),
            format!("oci://ghcr.io/a/b@sha256:{hex}"),
        ] {
            let reference: Reference = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(reference.to_string(), text);
            assert_eq!(reference.tag().is_some(), reference.digest().is_none());
        }
        for (text, why) in [
            ("ghcr.io/a/b:1".to_owned(), ReferenceError::Scheme),
            ("oci://ghcr.io".to_owned(), ReferenceError::Name),
            ("oci:///b:1".to_owned(), ReferenceError::Host),
            ("oci://GHCR.io/a:1".to_owned(), ReferenceError::Host),
            ("oci://127.1/a:1".to_owned(), ReferenceError::Host),
            ("oci://0x7f.0.0.1/a:1".to_owned(), ReferenceError::Host),
            ("oci://me:secret@ghcr.io/a:1".to_owned(), ReferenceError::Host),
            ("oci://ghcr.io?x=/a:1".to_owned(), ReferenceError::Host),
            ("oci://ghcr.io/a".to_owned(), ReferenceError::NoVersion),
            ("oci://ghcr.io/A:1".to_owned(), ReferenceError::Name),
            ("oci://ghcr.io/../a:1".to_owned(), ReferenceError::Name),
            ("oci://ghcr.io/a//b:1".to_owned(), ReferenceError::Name),
            ("oci://ghcr.io/a/b?c:1".to_owned(), ReferenceError::Name),
            (format!("oci://ghcr.io/{}:1", "a".repeat(256)), ReferenceError::Name),
            ("oci://ghcr.io/a:".to_owned(), ReferenceError::Tag),
            ("oci://ghcr.io/a:../b".to_owned(), ReferenceError::Tag),
            (format!("oci://ghcr.io/a:{}", "t".repeat(129)), ReferenceError::Tag),
            ("oci://ghcr.io/a@sha256:00".to_owned(), ReferenceError::Digest),
            (format!("oci://ghcr.io/a@sha512:{hex}{hex}"), ReferenceError::Digest),
            (format!("oci://ghcr.io/a@sha256:{}", hex.to_uppercase()), ReferenceError::Digest),
            (format!("oci://ghcr.io/a:1@sha256:{hex}"), ReferenceError::Both),
        ] {
            assert_eq!(text.parse::<Reference>(), Err(why), "{text}");
        }
    }
}
