//! Paths as a model writes them, in the form that the host expects. The host checks them again.

use crate::answer::Refused;
use act_kit::paths;
use edit_protocol::Reason;

/// Cleans a path: `./a//b/` is `a/b`, and `.` is the root.
///
/// # Errors
///
/// `outside_repo` for a path that is absolute or contains `..`.
pub(crate) fn clean(path: &str) -> Result<String, Refused> {
    let outside = |message: &str| Refused::new(Reason::OutsideRepo, message);
    if path.starts_with('/') {
        return Err(outside("the path is absolute; name it from the repository's root"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(outside("the path holds ..; name it from the repository's root"));
    }
    Ok(paths::clean(path))
}

/// Cleans the path of a file.
///
/// # Errors
///
/// `outside_repo` as for [`clean`]; `not_a_file` for a path that names the root or a directory.
pub(crate) fn clean_file(path: &str) -> Result<String, Refused> {
    match clean(path)? {
        _ if path.is_empty() => {
            Err(Refused::new(Reason::NotAFile, "the path is empty; name a file"))
        }
        root if root.is_empty() => {
            Err(Refused::new(Reason::NotAFile, "the path names the root; name a file"))
        }
        _ if path.ends_with('/') => {
            Err(Refused::new(Reason::NotAFile, "a path that ends with / names a directory"))
        }
        file => Ok(file),
    }
}
