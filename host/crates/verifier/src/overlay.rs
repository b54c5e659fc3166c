//! The overlay view: the repository below, a directory of the run above. What the steps write lands above.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::VolumeCreateRequest;

use super::request::new_volume;

/// Characters that the kernel takes for syntax among mount options; nothing escapes all of them everywhere.
const SYNTAX: [char; 5] = [',', ':', '\\', '"', '\n'];

/// Why the run's directory cannot hold the upper layer. The repository may have any name: it is reached by a
/// link in the run's directory.
pub(super) fn obstacle(run: &Path, local_engine: bool) -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("an overlay needs Linux".to_owned());
    }
    if !local_engine {
        return Some("an overlay needs an engine behind a socket of this machine".to_owned());
    }
    match run.to_str() {
        None => Some("the artifact directory's path is not valid UTF-8".to_owned()),
        Some(path) if path.contains(SYNTAX) => {
            Some(format!("an overlay cannot lie in {path:?} because of its `,`, `:`, `\"` or `\\`"))
        }
        Some(_) => None,
    }
}

/// `dirs` holds `lower`, `upper` and `work`. With `userxattr` the upper layer can be read back without root.
pub(super) fn volume(
    name: &str,
    dirs: &Path,
    labels: HashMap<String, String>,
) -> VolumeCreateRequest {
    let dirs = dirs.display();
    let layers =
        format!("lowerdir={dirs}/lower,upperdir={dirs}/upper,workdir={dirs}/work,userxattr");
    let options = [("type", "overlay"), ("device", "overlay"), ("o", layers.as_str())];
    VolumeCreateRequest {
        driver_opts: Some(
            options.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect(),
        ),
        ..new_volume(name, labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn an_overlay_is_refused_where_its_path_would_be_misread() {
        assert_eq!(obstacle(Path::new("/a/runs/x y"), true), None);
        for path in ["/a,b/runs", "/a:b/runs", "/a\\b"] {
            assert!(obstacle(Path::new(path), true).unwrap().contains("overlay"), "{path}");
        }
        assert!(obstacle(Path::new("/a"), false).is_some());
    }
}
