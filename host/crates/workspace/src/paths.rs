//! Paths in the repository and globs over them. Nothing here touches the file system.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use edit_protocol::Reason;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::view::MAX_PATH;

/// Maximum number of bytes of a name that every file system accepts.
const MAX_NAME: usize = 255;
/// Maximum number of globs in one list, and of bytes in one glob.
const MAX_GLOBS: usize = 256;
const MAX_GLOB_BYTES: usize = 1024;

/// The path of a file that a change may name: relative to the repository, with `/` between its parts, and without `.`,
/// `..` or empty parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(String);

/// The rule that a path breaks.
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
    /// Parses a path. One leading `./` is removed, because models often write it.
    ///
    /// # Errors
    /// The first rule that the path breaks.
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

    /// Splits the path into its directory, which is empty for the root, and the name in it.
    pub(super) fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a stored path is one that [`RepoPath::parse`] leaves as it is.
pub fn is_repo_path(path: &str) -> bool {
    RepoPath::parse(path).is_ok_and(|parsed| parsed.as_str() == path)
}

/// Returns whether `path` is `dir` or lies in it.
pub fn is_at_or_below(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty()
        || path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

pub(super) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

pub(super) fn name_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| &path[slash + 1..])
}

/// Globs over repository paths, as users write them in `agent.yaml` and on the command line.
///
/// A glob without `/` matches the name at any depth, any other glob the whole path. `*` stops at `/` and `**` does not.
/// A glob that matches a directory matches everything in it.
#[derive(Debug, Clone, Default)]
pub struct PathGlobs {
    set: GlobSet,
    /// For each glob, the directory outside of which it matches nothing.
    bases: Vec<String>,
}

/// Why globs cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    #[error("more than {MAX_GLOBS} globs; use a wider one")]
    TooMany,
    #[error("a glob of more than {MAX_GLOB_BYTES} bytes")]
    TooLong,
    #[error("`{glob}` is not a glob: {why}")]
    Malformed { glob: String, why: String },
}

impl PathGlobs {
    /// # Errors
    /// A glob cannot be parsed or is too long, or there are too many.
    pub fn new(globs: &[String]) -> Result<Self, GlobError> {
        if globs.len() > MAX_GLOBS {
            return Err(GlobError::TooMany);
        }
        let mut set = GlobSetBuilder::new();
        let mut bases = vec![];
        for glob in globs {
            if glob.len() > MAX_GLOB_BYTES {
                return Err(GlobError::TooLong);
            }
            let malformed = |why: String| GlobError::Malformed { glob: glob.clone(), why };
            let bare = glob.strip_prefix("./").unwrap_or(glob).trim_matches('/');
            if bare.is_empty() {
                return Err(malformed("it names nothing".into()));
            }
            let anchored = glob.trim_end_matches('/').contains('/');
            let whole = if anchored { bare.to_owned() } else { format!("**/{bare}") };
            bases.push(base(&whole).to_owned());
            for text in [format!("{whole}/**"), whole] {
                let built = GlobBuilder::new(&text).literal_separator(true).build();
                set.add(built.map_err(|error| malformed(error.kind().to_string()))?);
            }
        }
        let set = set.build().map_err(|error| GlobError::Malformed {
            glob: globs.join(" "),
            why: error.kind().to_string(),
        })?;
        Ok(Self { set, bases })
    }

    pub fn is_empty(&self) -> bool {
        self.bases.is_empty()
    }

    pub fn matches(&self, path: &str) -> bool {
        self.matches_bytes(path.as_bytes())
    }

    pub(super) fn matches_bytes(&self, path: &[u8]) -> bool {
        !self.is_empty() && self.set.is_match(OsStr::from_bytes(path))
    }

    /// Returns whether the directory is on the way to the plain leading part of a glob.
    pub(super) fn may_lie_below(&self, dir: &str) -> bool {
        self.bases.iter().any(|base| is_at_or_below(base.as_bytes(), dir.as_bytes()))
    }

    /// Returns whether a path below the directory could match. The answer may be true although none does.
    pub(super) fn may_match_below(&self, dir: &[u8]) -> bool {
        self.bases.iter().any(|base| {
            let base = base.as_bytes();
            is_at_or_below(base, dir) || is_at_or_below(dir, base)
        })
    }
}

/// Returns the leading directories of a glob that are plain text.
fn base(glob: &str) -> &str {
    match glob.find(['*', '?', '[', '{', '\\']) {
        Some(special) => glob[..special].rfind('/').map_or("", |slash| &glob[..slash]),
        None => glob,
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

    fn globs(globs: &[&str]) -> PathGlobs {
        PathGlobs::new(&globs.iter().map(|g| (*g).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_bare_name_matches_at_any_depth_and_everything_in_it() {
        let dist = globs(&["dist/", "*.rs"]);
        for path in ["dist", "dist/a/b", "web/dist/x.js", "src/lib.rs"] {
            assert!(dist.matches(path), "{path}");
        }
        assert!(!dist.matches("distant/x.js"));
    }

    #[test]
    fn a_glob_with_a_slash_is_the_whole_path_and_a_star_stops_at_one() {
        let one = globs(&["src/*.rs", "/top"]);
        assert!(one.matches("src/a.rs") && one.matches("top/x"));
        assert!(!one.matches("src/a/b.rs") && !one.matches("x/src/a.rs") && !one.matches("x/top"));
    }

    #[test]
    fn a_directory_is_entered_only_where_a_glob_can_match() {
        let one = globs(&["gen/out/*.c"]);
        assert!(one.may_match_below(b"gen") && one.may_match_below(b"gen/out/deep"));
        assert!(!one.may_match_below(b"node_modules") && !one.may_match_below(b"generated"));
        assert!(globs(&["*.c"]).may_match_below(b"node_modules"));
    }

    #[test]
    fn what_is_no_glob_is_an_error_that_names_it() {
        let bad = PathGlobs::new(&["src/[".into()]).unwrap_err();
        assert!(matches!(bad, GlobError::Malformed { glob, .. } if glob == "src/["));
        assert_eq!(PathGlobs::new(&vec!["a".into(); 257]).unwrap_err(), GlobError::TooMany);
    }
}
