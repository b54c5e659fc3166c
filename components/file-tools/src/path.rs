//! Paths as models write them, brought into the form that the host has. The host checks again.

use crate::answer::Refused;

/// `./a//b/` is `a/b`, `.` is the root; what leaves the repository is refused.
pub(crate) fn clean(path: &str) -> Result<String, Refused> {
    let outside =
        || Refused::new("outside_repo").message("paths are relative to the repository's root");
    if path.starts_with('/') {
        return Err(outside());
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(outside()),
            name => parts.push(name),
        }
    }
    Ok(parts.join("/"))
}

/// The same for what must be a file.
pub(crate) fn clean_file(path: &str) -> Result<String, Refused> {
    match clean(path)? {
        root if root.is_empty() => Err(Refused::new("not_a_file").message("name a file")),
        _ if path.ends_with('/') => {
            Err(Refused::new("not_a_file").message("a path that ends with / names a directory"))
        }
        file => Ok(file),
    }
}
