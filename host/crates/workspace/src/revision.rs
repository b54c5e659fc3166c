//! Which commit the working tree stands on, read from git's files. git itself is never run: in a foreign
//! repository its configuration names programs.

use std::path::Path;

use super::git_dir::{GitDir, MAX_POINTER, small};
use super::handle::Root;
use super::ignored;

/// Bytes of `packed-refs` at most; a hundred thousand references take about ten.
const MAX_PACKED: u64 = 32 << 20;
/// Symbolic references on the way at most, as git has it.
const MAX_HOPS: usize = 5;

/// The commit that `HEAD` means; none before the first commit, without git, or where references are kept
/// in a form that is not read here.
pub fn head_commit(root: &Path) -> Option<String> {
    let git = ignored::speaks_for(&Root::open(root).ok()?).0?.git;
    let mut text = small(&git.own, b"HEAD", MAX_POINTER)?;
    for _ in 0..MAX_HOPS {
        let line = text.trim();
        let Some(name) = line.strip_prefix("ref:") else { return commit(line) };
        let name = name.trim().to_owned();
        if !name.starts_with("refs/") || name.split('/').any(|part| matches!(part, "" | "." | ".."))
        {
            return None;
        }
        let loose =
            [&git.own, &git.common].iter().find_map(|dir| small(dir, name.as_bytes(), MAX_POINTER));
        match loose {
            Some(next) => text = next,
            None => return packed(&git, &name),
        }
    }
    None
}

fn packed(git: &GitDir, name: &str) -> Option<String> {
    let all = small(&git.common, b"packed-refs", MAX_PACKED)?;
    all.lines().find_map(|line| {
        let (id, of) = line.split_once(' ')?;
        (of == name).then(|| commit(id))?
    })
}

/// An object name of either length.
fn commit(text: &str) -> Option<String> {
    let is_name =
        matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef01234567";
    const B: &str = "fedcba9876543210fedcba9876543210fedcba98";

    fn repo(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn head_is_found_detached_loose_and_packed() {
        let detached = repo(&[(".git/HEAD", &format!("{A}\n"))]);
        assert_eq!(head_commit(detached.path()).as_deref(), Some(A));
        let head = (".git/HEAD", "ref: refs/heads/main\n");
        let packed = format!(
            "# pack-refs with: peeled\n{B} refs/heads/mainline\n{A} refs/heads/main\n^{B}\n"
        );
        let packed = (".git/packed-refs", packed.as_str());
        assert_eq!(head_commit(repo(&[head, packed]).path()).as_deref(), Some(A));
        let loose = repo(&[head, packed, (".git/refs/heads/main", B)]);
        assert_eq!(
            head_commit(loose.path()).as_deref(),
            Some(B),
            "a loose reference is the newer one"
        );
    }

    #[test]
    fn a_linked_worktree_is_followed_to_the_shared_references() {
        let root = repo(&[
            ("main/.git/refs/heads/topic", A),
            ("main/.git/worktrees/w/HEAD", "ref: refs/heads/topic\n"),
            ("main/.git/worktrees/w/commondir", "../..\n"),
        ]);
        let tree = root.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let target = root.path().join("main/.git/worktrees/w");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", target.display())).unwrap();
        assert_eq!(head_commit(&tree).as_deref(), Some(A));
        fs::write(tree.join(".git"), "gitdir: ../main/.git/worktrees/w\n").unwrap();
        assert_eq!(head_commit(&tree).as_deref(), Some(A));
    }

    #[test]
    fn what_is_no_commit_is_none() {
        for files in [
            &[][..],
            &[(".git/HEAD", "ref: refs/heads/unborn\n")],
            &[(".git/HEAD", "ref: refs/heads/../../../secret\n"), ("secret", A)],
            &[(".git/HEAD", "ref: HEAD\n")],
            &[(".git/HEAD", "ref: refs/heads/a\n"), (".git/refs/heads/a", "ref: refs/heads/a\n")],
            &[(".git/HEAD", "not a commit")],
            &[(".git", "gitdir:")],
        ] {
            assert_eq!(head_commit(repo(files).path()), None, "{files:?}");
        }
    }
}
