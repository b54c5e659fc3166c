//! Globs over repository paths, as people write them in `agent.yaml` and on the command line.
//!
//! A glob without `/` means the name at any depth, any other the whole path; `*` stops at `/`, `**` does
//! not; a glob that means a directory means everything in it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Globs in one list at most, and bytes in one glob.
const MAX_GLOBS: usize = 256;
const MAX_BYTES: usize = 1024;

#[derive(Debug, Clone, Default)]
pub struct PathGlobs {
    set: GlobSet,
    /// For each glob, the directory that it certainly stays in.
    bases: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    #[error("more than {MAX_GLOBS} globs; use a wider one")]
    TooMany,
    #[error("a glob of more than {MAX_BYTES} bytes")]
    TooLong,
    #[error("`{glob}` is no glob: {why}")]
    Malformed { glob: String, why: String },
}

impl PathGlobs {
    pub fn new(globs: &[String]) -> Result<Self, GlobError> {
        if globs.len() > MAX_GLOBS {
            return Err(GlobError::TooMany);
        }
        let mut set = GlobSetBuilder::new();
        let mut bases = vec![];
        for glob in globs {
            if glob.len() > MAX_BYTES {
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

    /// Whether the directory is on the way to a glob's plain leading part.
    pub(super) fn may_lie_below(&self, dir: &str) -> bool {
        self.bases.iter().any(|base| is_at_or_below(base.as_bytes(), dir.as_bytes()))
    }

    /// Whether something below the directory could match; may say yes too often.
    pub(super) fn may_match_below(&self, dir: &[u8]) -> bool {
        self.bases.iter().any(|base| {
            let base = base.as_bytes();
            is_at_or_below(base, dir) || is_at_or_below(dir, base)
        })
    }
}

/// Whether `path` is `dir` or lies in it.
pub fn is_at_or_below(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty()
        || path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

/// The leading part of a glob that is plain text, up to a `/`.
fn base(glob: &str) -> &str {
    match glob.find(['*', '?', '[', '{', '\\']) {
        Some(special) => glob[..special].rfind('/').map_or("", |slash| &glob[..slash]),
        None => glob,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
