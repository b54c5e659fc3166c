//! Paths of a repository: relative, with `/`, and empty for its root.

/// The directory that a path lies in.
pub fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// `b` below `a`, either of which may be the root.
pub fn join(a: &str, b: &str) -> String {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.to_owned(),
        (_, true) => a.to_owned(),
        _ => format!("{a}/{b}"),
    }
}

/// The directory itself and every one above it, the root last.
pub fn upwards(directory: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(directory), |at| (!at.is_empty()).then(|| self::directory(at)))
}

/// A path with `.` and `..` taken out; none when it leads out of the repository.
pub fn normal(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// `./a/../b` seen from a directory; none when it leads out of the repository.
pub fn resolve(directory: &str, path: &str) -> Option<String> {
    normal(&join(directory, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_the_repository_leads_nowhere() {
        assert_eq!(resolve("a/b", "./../c//d").as_deref(), Some("a/c/d"));
        assert_eq!(resolve("", ".").as_deref(), Some(""));
        assert_eq!(resolve("a", "../.."), None);
        assert_eq!(upwards("a/b").collect::<Vec<_>>(), ["a/b", "a", ""]);
    }
}
