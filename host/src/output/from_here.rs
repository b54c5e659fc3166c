//! A file of a repository, named so that it opens from where the user stands.

use std::path::Path;

/// `path` is from the repository's root.
pub fn from_here(root: &Path, path: &str) -> String {
    let here = std::env::current_dir().ok();
    seen_from(here.as_deref(), root, path)
}

fn seen_from(here: Option<&Path>, root: &Path, path: &str) -> String {
    let whole = root.join(path);
    let below = here.and_then(|here| whole.strip_prefix(here).ok());
    below.unwrap_or(&whole).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    // CLI-56
    #[test]
    fn a_path_is_short_where_it_can_be_and_whole_elsewhere() {
        let from = |here: &str| seen_from(Some(Path::new(here)), Path::new("/a/b"), "agent/x.md");
        assert_eq!(from("/a/b"), "agent/x.md");
        assert_eq!(from("/a"), "b/agent/x.md");
        for elsewhere in ["/a/b/src", "/c", "/a/bb"] {
            assert_eq!(from(elsewhere), "/a/b/agent/x.md");
        }
        assert_eq!(seen_from(None, Path::new("/a/b"), "agent/x.md"), "/a/b/agent/x.md");
    }
}
