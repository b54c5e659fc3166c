//! What a failed step's output suggests to change in `agent.yaml`. Advice only: no verdict depends on it.

use super::view::View;

/// A step that wanted to write where a view has nothing writable. npm says that the directory is missing.
pub(super) fn needs_writable_view(view: View, output: &str) -> Option<String> {
    const SIGNS: [&str; 4] =
        ["Read-only file system", "EROFS", "read-only file system", "os error 30"];
    let mkdir = |line: &str| line.contains("ENOENT") && line.contains("mkdir '/workspace");
    let met = SIGNS.iter().any(|sign| output.contains(sign)) || output.lines().any(mkdir);
    (view == View::Readonly && met).then(|| {
        "a step wanted to write into the repository, which is read-only here; set verification.workspace \
         in agent.yaml to copy or overlay"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-28
    #[test]
    fn a_write_into_a_readonly_tree_is_explained_and_only_there() {
        for output in [
            "error: could not create 'x.egg-info': Read-only file system",
            "npm error code ENOENT\nnpm error ENOENT: no such file or directory, mkdir '/workspace/node_modules'",
            "Read-only file system (os error 30) at path",
        ] {
            assert!(needs_writable_view(View::Readonly, output).is_some(), "{output}");
            assert_eq!(needs_writable_view(View::Copy, output), None);
        }
        assert_eq!(needs_writable_view(View::Readonly, "ENOENT: open 'x'"), None);
    }
}
