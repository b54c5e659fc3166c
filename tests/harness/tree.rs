//! A git repository as users have it, and everything of a directory tree that can change visibly.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};
use rustix::io::Errno;

use super::Act;

/// Returns a command of the machine's git, without any user's settings.
pub(crate) fn git(root: &Path, arguments: &[&str], stdin: &str) -> String {
    let mut child = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}\n{stdin}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Commits all files, and adds what a used repository has: a branch, a tag, packed and loose objects, and a staged change
/// that is not committed.
pub(crate) fn committed(act: &Act) {
    let repo = act.repo();
    git(&repo, &["init", "-q", "-b", "main"], "");
    git(&repo, &["add", "-A"], "");
    git(&repo, &["commit", "-q", "-m", "first"], "");
    git(&repo, &["gc", "-q"], "");
    git(&repo, &["tag", "-a", "v1", "-m", "v1"], "");
    git(&repo, &["branch", "other"], "");
    fs::write(repo.join("staged.txt"), "staged\n").unwrap();
    git(&repo, &["add", "staged.txt"], "");
    fs::write(repo.join("staged.txt"), "changed since\n").unwrap();
    let objects = git(&repo, &["count-objects", "-v"], "");
    let counted = |name: &str| !objects.contains(&format!("{name}: 0\n"));
    assert!(counted("count") && counted("in-pack"), "loose and packed: {objects}");
    for path in ["index", "refs/heads/other", "refs/tags/v1", "logs/HEAD"] {
        assert!(repo.join(".git").join(path).is_file(), "{path}");
    }
}

/// One entry of a tree with everything that can change visibly, except the time of its last read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    mode: u32,
    inode: u64,
    owner: (u32, u32),
    modified: (i64, i64),
    /// Time of the last change of the entry, which also shows a change that was undone.
    changed: (i64, i64),
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Content of a file, target of a link.
    bytes: Vec<u8>,
}

/// Returns every entry of a tree, `.git` included.
pub(crate) fn fingerprint(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let (mut all, mut todo) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let bytes = match meta.file_type() {
            kind if kind.is_file() => fs::read(&path).unwrap(),
            kind if kind.is_symlink() => {
                fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            }
            _ => vec![],
        };
        if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let entry = Entry {
            mode: meta.mode(),
            inode: meta.ino(),
            owner: (meta.uid(), meta.gid()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            attributes: attributes(&path),
            bytes,
        };
        all.insert(path, entry);
    }
    all
}

/// Returns the attributes, or nothing where the file system has none.
fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 4096];
    let length = match llistxattr(path, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return BTreeMap::new(),
        Err(error) => panic!("{}: {error}", path.display()),
    };
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 4096];
        let length = lgetxattr(path, name, &mut value[..]).unwrap();
        value[..length].to_vec()
    };
    names.map(|name| (name.to_vec(), value(name))).collect()
}

/// Sets attributes on files and directories of the tree and of `.git`. Returns false if the file system has none.
pub(crate) fn with_attributes(root: &Path) -> bool {
    let mark = |path: &str| {
        lsetxattr(root.join(path), "user.act.test", path.as_bytes(), XattrFlags::empty())
    };
    let marked: Vec<_> = ["answer.txt", ".", ".git", ".git/index", ".git/HEAD"].map(mark).into();
    let taken = !marked.contains(&Err(Errno::NOTSUP));
    marked.into_iter().filter(|_| taken).for_each(|set| set.unwrap());
    taken
}
