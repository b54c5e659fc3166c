//! Linked worktrees of git, which the host makes itself: what a new one needs of its repository, and the files by which git
//! knows it. git is never run, so neither a hook nor a filter of the repository is.
//!
//! Only `worktrees/NAME` in the git directory is written, and the file `.git` of the worktree, which points there.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use act_fs::Dir;
use gix_index::entry::{Flags, Mode as EntryMode, Stat, stat::Time};
use rustix::fs::{AtFlags, Mode, fchmod, statat};

use super::committed::{Committed, NotCommitted};
use super::copy_set::CopySet;
use super::exclusion::is_secret;
use super::git::{GitPlace, git_place, prefix_in_git};
use super::history::HASH;
use super::paths::PathGlobs;

/// Maximum number of bytes of the file that says where a worktree lies: one path and a line feed.
const MAX_POINTER: u64 = 4097;

/// A repository as the source of a linked worktree.
#[derive(Debug)]
pub struct WorktreeSource {
    /// The path from the top of git's working tree to the root of the repository; empty where they are the same.
    pub prefix: PathBuf,
    /// The git directory with the objects and the references.
    pub git: PathBuf,
    /// The files of the last commit, from the top of git's working tree.
    pub commit: Committed,
}

impl WorktreeSource {
    /// Reads the last commit of the repository at `root`, which is a real path.
    ///
    /// # Errors
    /// The reason why the files of that commit cannot be written down.
    pub fn of(root: &Path) -> Result<Self, NotCommitted> {
        let prefix = PathBuf::from(std::ffi::OsStr::from_bytes(&prefix_in_git(root)));
        let depth = prefix.components().count();
        let top = root.ancestors().nth(depth).ok_or(NotCommitted::NoCommit)?;
        let git = match git_place(top) {
            Ok(GitPlace::Directory) => top.join(".git"),
            Ok(GitPlace::Linked { common, .. }) => common,
            Ok(GitPlace::None | GitPlace::Elsewhere) | Err(_) => {
                return Err(NotCommitted::NoCommit);
            }
        };
        let prefix = prefix.components().collect();
        Ok(Self { prefix, git, commit: Committed::of(top)? })
    }

    /// Removes from the files of the repository those with names of secrets that neither the commit nor `include` names, and
    /// returns their paths.
    pub fn leave_out_secrets(&self, set: &mut CopySet, include: &PathGlobs) -> Vec<String> {
        let known: BTreeSet<_> = self
            .commit
            .files
            .iter()
            .filter_map(|file| file.path.strip_prefix(&self.prefix).ok())
            .collect();
        let mut left_out = vec![];
        set.retain(|entry| {
            let name = entry.path.to_string_lossy();
            let is_wanted = !is_secret(&name)
                || known.contains(entry.path.as_path())
                || include.matches_bytes(entry.path.as_os_str().as_bytes());
            if !is_wanted {
                left_out.push(name.into_owned());
            }
            is_wanted
        });
        left_out
    }

    /// Makes the directory `tree`, whose path is `at`, a linked worktree of the repository: detached at the commit, with an
    /// index of it. The files were written before. If they are those of the commit, `is_clean` lets the index say so.
    ///
    /// # Errors
    /// A worktree of this name exists, or a file cannot be written; the caller then removes what was written.
    pub fn link(&self, name: &str, tree: &Dir, at: &Path, is_clean: bool) -> io::Result<()> {
        let line = |path: &Path| [path.as_os_str().as_bytes(), b"\n"].concat();
        let index = self.index(tree, is_clean)?;
        let git = Dir::open(&self.git)?;
        let is_new = !git.contains("worktrees")?;
        let trees = git.private_subdirectory("worktrees")?;
        // Modes as git sets them: the steps of a verification may be another user.
        let (file_mode, directory_mode) = (Mode::from_raw_mode(0o644), Mode::from_raw_mode(0o755));
        if is_new {
            fchmod(&trees, directory_mode)?;
        }
        let own = trees.create_subdirectory(name)?;
        fchmod(&own, directory_mode)?;
        let write = |dir: &Dir, name: &str, bytes: &[u8]| {
            let mut file = dir.create(name)?;
            fchmod(&file, file_mode)?;
            file.write_all(bytes)
        };
        for (file, bytes) in [
            ("HEAD", format!("{}\n", self.commit.head).into_bytes()),
            ("commondir", b"../..\n".to_vec()),
            ("gitdir", line(&at.join(".git"))),
            ("index", index),
        ] {
            write(&own, file, &bytes)?;
        }
        let pointer = line(&self.git.join("worktrees").join(name));
        write(tree, ".git", &[b"gitdir: ".as_slice(), &pointer].concat())
    }

    fn index(&self, tree: &Dir, is_clean: bool) -> io::Result<Vec<u8>> {
        let mut state = gix_index::State::new(HASH);
        for file in &self.commit.files {
            let path = file.path.as_os_str().as_bytes();
            // The parents were created as directories, so no link is followed on the way.
            let stat = match is_clean {
                true => stat_of(&statat(tree, path, AtFlags::SYMLINK_NOFOLLOW)?),
                false => Stat::default(),
            };
            let mode = match file.mode {
                "120000" => EntryMode::SYMLINK,
                "100755" => EntryMode::FILE_EXECUTABLE,
                _ => EntryMode::FILE,
            };
            state.dangerously_push_entry(stat, file.id, Flags::empty(), mode, path.into());
        }
        state.sort_entries();
        let mut bytes = vec![];
        gix_index::File::from_state(state, "index")
            .write_to(&mut bytes, gix_index::write::Options::default())
            .map_err(|error| io::Error::other(error.to_string()))?;
        Ok(bytes)
    }
}

/// Returns what git's index says of a file. The index stores the lower 32 bits of each number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the format has 32 bits"
)]
fn stat_of(stat: &rustix::fs::Stat) -> Stat {
    Stat {
        mtime: Time { secs: stat.st_mtime as u32, nsecs: stat.st_mtime_nsec as u32 },
        ctime: Time { secs: stat.st_ctime as u32, nsecs: stat.st_ctime_nsec as u32 },
        dev: stat.st_dev as u32,
        ino: stat.st_ino as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size as u32,
    }
}

/// Returns whether `own`, a directory below `worktrees` of a git directory, is that of the worktree at `at`.
pub fn is_link_of(own: &Dir, at: &Path) -> bool {
    let expected = at.join(".git");
    own.read("gitdir", MAX_POINTER)
        .is_ok_and(|text| text.trim_ascii_end() == expected.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GitPlace, head_commit, hidden_files, uncommitted};
    use std::process::Command;

    fn git(root: &Path, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let done = Command::new("git").args(identity).args(arguments).current_dir(root).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    // WORKTREE-2, WORKTREE-4
    #[test]
    fn git_takes_what_was_written_for_a_clean_worktree_detached_at_the_commit() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap().join("repo");
        std::fs::create_dir(&root).unwrap();
        git(&root, &["init", "-q"]);
        for (path, text) in [("a-b", "1\n"), ("a/b", "2\n"), ("a.b", "3\n"), ("z.log", "tracked")] {
            write(&root, path, text);
        }
        write(&root, ".gitignore", "*.log\n");
        git(&root, &["add", "-A", "-f"]);
        git(&root, &["commit", "-q", "-m", "x"]);
        let at = temp.path().canonicalize().unwrap().join("tree");
        std::fs::create_dir(&at).unwrap();
        let source = WorktreeSource::of(&root).unwrap();
        source
            .commit
            .read(|file, bytes| {
                write(&at, file.path.to_str().unwrap(), std::str::from_utf8(bytes).unwrap());
                Ok(())
            })
            .unwrap()
            .unwrap();
        source.link("act-t-abc123", &Dir::open(&at).unwrap(), &at, true).unwrap();
        assert_eq!(git(&at, &["status", "--porcelain"]), "");
        assert_eq!(git(&at, &["rev-parse", "HEAD"]), git(&root, &["rev-parse", "HEAD"]));
        assert!(git(&root, &["worktree", "list"]).contains("(detached HEAD)"));
        git(&root, &["fsck", "--strict"]);
        git(&root, &["worktree", "prune", "--expire=now"]);
        assert_eq!(git(&at, &["status", "--porcelain"]), "", "it is in use");

        // act reads it like any other linked worktree.
        assert!(matches!(git_place(&at).unwrap(), GitPlace::Linked { .. }));
        assert_eq!(head_commit(&at).as_deref(), Some(source.commit.head.as_str()));
        assert!(uncommitted(&at).unwrap().is_empty());
        assert!(hidden_files(&at).unwrap().is_empty(), "what is tracked is not ignored");

        // A worktree of a worktree belongs to the same git directory, and no name is used twice.
        let inner = WorktreeSource::of(&at).unwrap();
        assert_eq!(inner.git, root.join(".git"));
        assert!(inner.link("act-t-abc123", &Dir::open(&at).unwrap(), &at, true).is_err());
        let own = Dir::open(&root.join(".git/worktrees/act-t-abc123")).unwrap();
        assert!(is_link_of(&own, &at) && !is_link_of(&own, &root));
    }

    // WORKTREE-3
    #[test]
    fn a_root_below_the_top_of_git_has_the_whole_tree_and_its_own_place_in_it() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        git(&top, &["init", "-q"]);
        write(&top, "shared/x", "x");
        write(&top, "one/two/agent.yaml", "y");
        git(&top, &["add", "-A"]);
        git(&top, &["commit", "-q", "-m", "x"]);
        let source = WorktreeSource::of(&top.join("one/two")).unwrap();
        assert_eq!(source.prefix, Path::new("one/two"));
        assert_eq!(source.git, top.join(".git"));
        assert_eq!(source.commit.files.len(), 2);
    }
}
