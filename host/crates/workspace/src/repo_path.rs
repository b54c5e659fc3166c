//! A path that a change may name: relative, plain, and the same for everybody who reads it.

use edit_protocol::Reason;
use std::fmt;

use super::view::MAX_PATH;

/// Bytes of a name that every file system takes.
const MAX_NAME: usize = 255;

/// Repository-relative, `/`-separated, without `.`, `..` or empty parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path is empty")]
    Empty,
    #[error("the path has more than {MAX_PATH} bytes")]
    TooLong,
    #[error("a name in the path has more than {MAX_NAME} bytes")]
    LongName,
    #[error("the path holds a NUL byte")]
    Nul,
    #[error("the path holds a backslash; parts are separated by /")]
    Backslash,
    #[error("the path is absolute; name it from the repository's root")]
    Absolute,
    #[error("the path ends with /; name a file")]
    TrailingSlash,
    #[error("the path holds ..; name it from the repository's root")]
    Parent,
    #[error("the path holds . or an empty part")]
    EmptyPart,
}

impl PathError {
    /// Returns the reason with which a tool answers.
    pub fn reason(self) -> Reason {
        match self {
            Self::Absolute | Self::Parent => Reason::OutsideRepo,
            _ => Reason::BadArguments,
        }
    }
}

impl RepoPath {
    /// One leading `./` is taken off, because everybody writes it.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > MAX_PATH {
            return Err(PathError::TooLong);
        }
        if text.contains('\0') {
            return Err(PathError::Nul);
        }
        if text.contains('\\') {
            return Err(PathError::Backslash);
        }
        let plain = text.strip_prefix("./").unwrap_or(text);
        if plain.is_empty() {
            return Err(PathError::Empty);
        }
        if plain.starts_with('/') {
            return Err(PathError::Absolute);
        }
        if plain.split('/').any(|part| part == "..") {
            return Err(PathError::Parent);
        }
        if plain.ends_with('/') {
            return Err(PathError::TrailingSlash);
        }
        if plain.split('/').any(|part| matches!(part, "" | ".")) {
            return Err(PathError::EmptyPart);
        }
        if plain.split('/').any(|part| part.len() > MAX_NAME) {
            return Err(PathError::LongName);
        }
        Ok(Self(plain.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory's path, empty for the root, and the name in it.
    pub(super) fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // security line 60
    #[test]
    fn every_odd_path_is_refused_and_the_reason_says_which() {
        let long = "a/".repeat(2500);
        let name = format!("a/{}", "ü".repeat(128));
        let table: [(&str, PathError); 17] = [
            (&name, PathError::LongName),
            ("", PathError::Empty),
            ("./", PathError::Empty),
            (".", PathError::EmptyPart),
            ("..", PathError::Parent),
            ("a/../b", PathError::Parent),
            ("x/../.git/HEAD", PathError::Parent),
            ("/etc/passwd", PathError::Absolute),
            ("//a", PathError::Absolute),
            (".//a", PathError::Absolute),
            ("a/", PathError::TrailingSlash),
            ("a//b", PathError::EmptyPart),
            ("a/./b", PathError::EmptyPart),
            ("a\0b", PathError::Nul),
            ("a\\b", PathError::Backslash),
            ("..\\a", PathError::Backslash),
            (&long, PathError::TooLong),
        ];
        for (text, expected) in table {
            assert_eq!(RepoPath::parse(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn a_plain_path_stays_what_it_is() {
        for text in ["a", "a/b.rs", "..a/b..", "a b/ü", ".hidden/...x"] {
            assert_eq!(RepoPath::parse(text).unwrap().as_str(), text);
        }
        assert_eq!(RepoPath::parse("./src/a.rs").unwrap().as_str(), "src/a.rs");
    }
}
