//! The view of the repository that the steps work in: a copy, an overlay or the repository itself, read-only.

use crate::request::new_volume;
use act_config::Workspace;
use bollard::models::VolumeCreateRequest;
use std::collections::HashMap;
use std::path::Path;

/// Trees beyond either are not copied unless asked.
const MANY_FILES: usize = 50_000;
const MANY_BYTES: u64 = 256 * 1024 * 1024;

/// The repository itself, or the overlay over it.
pub(crate) const WORKSPACE: &str = "/workspace";
/// The copy.
pub(crate) const COPY: &str = "/artifacts/build/tree";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Copy,
    Overlay,
    Readonly,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

/// `obstacle` says why there can be no overlay. A large tree is copied rather than refused, unless an overlay
/// was asked for by name.
pub(crate) fn choose(asked: Workspace, size: Size, obstacle: Option<&str>) -> Result<View, String> {
    let large = size.files > MANY_FILES || size.bytes > MANY_BYTES;
    match (asked, obstacle) {
        (Workspace::Copy, _) => Ok(View::Copy),
        (Workspace::Readonly, _) => Ok(View::Readonly),
        (Workspace::Auto, None) if large => Ok(View::Overlay),
        (Workspace::Auto, _) => Ok(View::Copy),
        (Workspace::Overlay, None) => Ok(View::Overlay),
        (Workspace::Overlay, Some(why)) => {
            Err(format!("{why}; set verification.workspace in agent.yaml to copy"))
        }
    }
}

impl View {
    /// The word of `agent.yaml` and of the manifest.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Overlay => "overlay",
            Self::Readonly => "readonly",
        }
    }

    /// Where the tree is that the steps work in.
    pub(crate) fn root(self) -> &'static str {
        match self {
            Self::Copy => COPY,
            Self::Overlay | Self::Readonly => WORKSPACE,
        }
    }
}

/// Logs speak of files as people know them: relative to the repository, wherever the view is mounted.
pub(crate) fn relative_to_repo(text: &str) -> String {
    let shortened = without_root(text, COPY);
    without_root(&shortened, WORKSPACE)
}

fn without_root(text: &str, root: &str) -> String {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(root) {
        let (before, found) = rest.split_at(at);
        let after = &found[root.len()..];
        out.push_str(before);
        // `file:///workspace/x` is a path as well, and `/x/workspace` is another one.
        let starts = !before.ends_with(part_of_name) || before.ends_with("://");
        match after.strip_prefix('/') {
            Some(inside) if starts && inside.starts_with(|c: char| part_of_name(c) && c != '/') => {
                rest = inside;
            }
            _ if starts && !after.starts_with(|c: char| part_of_name(c) && c != '/') => {
                out.push('.');
                rest = after;
            }
            _ => {
                out.push_str(root);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Characters that the kernel takes for syntax among mount options; nothing escapes all of them everywhere.
const SYNTAX: [char; 5] = [',', ':', '\\', '"', '\n'];

/// Why the run's directory cannot hold the upper layer. The repository may have any name: it is reached by a
/// link in the run's directory.
pub(crate) fn overlay_obstacle(run: &Path, local_engine: bool) -> Option<String> {
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
pub(crate) fn overlay_volume(
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

    // VERIFIER-4
    #[test]
    fn auto_is_a_copy_and_for_large_trees_an_overlay_where_there_can_be_one() {
        let small = Size { files: MANY_FILES, bytes: MANY_BYTES };
        let many = Size { files: MANY_FILES + 1, bytes: 0 };
        let big = Size { files: 1, bytes: MANY_BYTES + 1 };
        assert_eq!(choose(Workspace::Auto, small, None), Ok(View::Copy));
        for large in [many, big] {
            assert_eq!(choose(Workspace::Auto, large, None), Ok(View::Overlay));
            assert_eq!(choose(Workspace::Auto, large, Some("no")), Ok(View::Copy));
            assert_eq!(choose(Workspace::Copy, large, None), Ok(View::Copy));
        }
        assert_eq!(choose(Workspace::Readonly, big, None), Ok(View::Readonly));
        assert_eq!(choose(Workspace::Overlay, small, None), Ok(View::Overlay));
        assert!(choose(Workspace::Overlay, small, Some("no")).unwrap_err().starts_with("no; set"));
    }

    // VERIFIER-16
    #[test]
    fn paths_in_the_view_are_shown_relative_to_the_repository() {
        for (text, shown) in [
            ("/artifacts/build/tree/src/a.py:3: error", "src/a.py:3: error"),
            ("rootdir: /artifacts/build/tree", "rootdir: ."),
            ("rootdir: /workspace\nx", "rootdir: .\nx"),
            ("at (/workspace/a.js:1:2)", "at (a.js:1:2)"),
            ("file:///workspace/a.js", "file://a.js"),
            ("cd /workspace/", "cd ./"),
            ("/artifacts/build/trees/x", "/artifacts/build/trees/x"),
            ("/my/workspace/x", "/my/workspace/x"),
            ("/workspaces", "/workspaces"),
            ("/artifacts/build/tree//x", ".//x"),
        ] {
            assert_eq!(relative_to_repo(text), shown);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_overlay_is_refused_where_its_path_would_be_misread() {
        assert_eq!(overlay_obstacle(Path::new("/a/runs/x y"), true), None);
        for path in ["/a,b/runs", "/a:b/runs", "/a\\b"] {
            assert!(overlay_obstacle(Path::new(path), true).unwrap().contains("overlay"), "{path}");
        }
        assert!(overlay_obstacle(Path::new("/a"), false).is_some());
    }
}
