//! Paths as models write them, brought into the form that the host has. The host checks again.

use crate::answer::Refused;

/// `./a//b/` is `a/b`, `.` is the root; what leaves the repository is refused.
pub(crate) fn clean(path: &str) -> Result<String, Refused> {
    let outside = |message: &str| Refused::new("outside_repo").message(message);
    if path.starts_with('/') {
        return Err(outside("the path is absolute; name it from the repository's root"));
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(outside("the path holds ..; name it from the repository's root")),
            name => parts.push(name),
        }
    }
    Ok(parts.join("/"))
}

/// The same for what must be a file.
pub(crate) fn clean_file(path: &str) -> Result<String, Refused> {
    match clean(path)? {
        _ if path.is_empty() => {
            Err(Refused::new("not_a_file").message("the path is empty; name a file"))
        }
        root if root.is_empty() => {
            Err(Refused::new("not_a_file").message("the path names the root; name a file"))
        }
        _ if path.ends_with('/') => {
            Err(Refused::new("not_a_file").message("a path that ends with / names a directory"))
        }
        file => Ok(file),
    }
}
