//! Which view of the repository the steps work in: what was asked for, the tree's size, what the machine can.

use act_config::Workspace;

/// Trees beyond either are not copied unless asked.
const MANY_FILES: usize = 50_000;
const MANY_BYTES: u64 = 256 * 1024 * 1024;

/// The repository itself, or the overlay over it.
pub(super) const WORKSPACE: &str = "/workspace";
/// The copy.
pub(super) const COPY: &str = "/artifacts/build/tree";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Copy,
    Overlay,
    Readonly,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

/// `obstacle` says why there can be no overlay. A large tree is copied rather than refused, unless an overlay
/// was asked for by name.
pub(super) fn choose(asked: Workspace, size: Size, obstacle: Option<&str>) -> Result<View, String> {
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
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Overlay => "overlay",
            Self::Readonly => "readonly",
        }
    }

    /// Where the tree is that the steps work in.
    pub(super) fn root(self) -> &'static str {
        match self {
            Self::Copy => COPY,
            Self::Overlay | Self::Readonly => WORKSPACE,
        }
    }
}

/// Logs speak of files as people know them: relative to the repository, wherever the view is mounted.
pub(super) fn relative_to_repo(text: &str) -> String {
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
}
