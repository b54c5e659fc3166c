//! Paths of a repository: relative, separated by `/`, and empty for the root.

use act_reports::source::last_split;

/// Returns the directory that a path lies in.
pub fn directory(path: &str) -> &str {
    last_split(path, b'/').map_or("", |(directory, _)| directory)
}

/// Joins two paths, either of which may be the root.
pub fn join(a: &str, b: &str) -> String {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.to_owned(),
        (_, true) => a.to_owned(),
        _ => [a, "/", b].concat(),
    }
}

/// Iterates over a directory and every directory above it; the root is last.
pub fn upwards(directory: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(directory), |at| (!at.is_empty()).then(|| self::directory(at)))
}

/// Removes empty and `.` parts: `./a//b/` is `a/b`. A `..` stays.
pub fn clean(path: &str) -> String {
    parts(path).collect::<Vec<_>>().join("/")
}

/// Removes empty, `.` and `..` parts. Returns `None` when the path leads out of the repository.
pub fn normal(path: &str) -> Option<String> {
    let mut normal = Vec::new();
    for part in parts(path) {
        match part {
            ".." => {
                normal.pop()?;
            }
            part => normal.push(part),
        }
    }
    Some(normal.join("/"))
}

/// Returns what `path` means in a directory. Returns `None` when it leads out of the repository.
pub fn resolve(directory: &str, path: &str) -> Option<String> {
    normal(&join(directory, path))
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_the_repository_leads_nowhere() {
        assert_eq!(resolve("a/b", "./../c//d").as_deref(), Some("a/c/d"));
        assert_eq!(resolve("", ".").as_deref(), Some(""));
        assert_eq!(resolve("a", "../.."), None);
        assert_eq!(clean("./a//../b/"), "a/../b");
        assert_eq!(upwards("a/b").collect::<Vec<_>>(), ["a/b", "a", ""]);
    }
}
