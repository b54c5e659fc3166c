//! One line in the repository's `.gitignore`, added once and at the end; the file is never rewritten.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::agent_dir::{AGENT_DIR, HostWriteError, failed, open_root};
use super::handle::{self, Root};
use super::ignored::IgnoreRules;

/// Bytes of a `.gitignore` at most.
const MAX_FILE: u64 = 4 << 20;
const NAME: &str = ".gitignore";
const LINE: &str = "agent/";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitignoreEntry {
    Added,
    AlreadyThere,
}

/// A `.gitignore` that is a link, a special file, or one file under two names is left alone.
pub fn append_gitignore_once(root: &Path) -> Result<GitignoreEntry, HostWriteError> {
    let root = open_root(root)?;
    let flags = OFlags::RDWR
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat(&root, NAME, flags, Mode::from_raw_mode(0o666)) {
        Ok(fd) => fd,
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(HostWriteError::NotOurs),
        Err(errno) => return Err(failed(NAME, errno)),
    };
    let (fd, stat) = handle::regular(fd).map_err(|_| HostWriteError::NotOurs)?;
    // What was in another tree under its own name would change there as well.
    if stat.st_nlink > 1 {
        return Err(HostWriteError::NotOurs);
    }
    let mut file = File::from(fd);
    let io = |error| failed(NAME, error);
    let copy = file.try_clone().map_err(io)?;
    let Some(before) = handle::read_whole(copy.into(), MAX_FILE).map_err(io)? else {
        return Err(failed(NAME, "it is too large"));
    };
    if names_agent(&before) {
        return Ok(GitignoreEntry::AlreadyThere);
    }
    let newline = if before.last().is_none_or(|last| *last == b'\n') { "" } else { "\n" };
    file.write_all(format!("{newline}{LINE}\n").as_bytes()).map_err(io)?;
    Ok(GitignoreEntry::Added)
}

/// Whether git shows what is written to `agent/`, because no rule ignores it or something in it is tracked. Where
/// there is no git, nobody is shown anything.
pub fn git_shows_notes(root: &Path) -> bool {
    Root::open(root).is_ok_and(|root| {
        let rules = IgnoreRules::new(&root);
        rules.has_git() && !rules.ignores_path(AGENT_DIR.as_bytes(), true)
    })
}

fn names_agent(gitignore: &[u8]) -> bool {
    let lines = gitignore.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    lines.into_iter().any(|line| matches!(line, b"agent" | b"agent/" | b"/agent" | b"/agent/"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_line_is_added_once_and_nothing_else_changes() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(".gitignore");
        for (before, after) in [
            (None, "agent/\n"),
            (Some(""), "agent/\n"),
            (Some("target\n"), "target\nagent/\n"),
            (Some("target"), "target\nagent/\n"),
            (Some("a\r\nb\r\n"), "a\r\nb\r\nagent/\n"),
        ] {
            let _ = fs::remove_file(&file);
            before.inspect(|text| fs::write(&file, text).unwrap());
            assert_eq!(append_gitignore_once(root.path()), Ok(GitignoreEntry::Added));
            assert_eq!(append_gitignore_once(root.path()), Ok(GitignoreEntry::AlreadyThere));
            assert_eq!(fs::read_to_string(&file).unwrap(), after);
        }
        for there in ["/agent\n", "x\nagent/  \r\n", "agent"] {
            fs::write(&file, there).unwrap();
            assert_eq!(append_gitignore_once(root.path()), Ok(GitignoreEntry::AlreadyThere));
            assert_eq!(fs::read_to_string(&file).unwrap(), there);
        }
    }

    // WORKSPACE-32
    #[test]
    fn what_undoes_the_line_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(".gitignore");
        fs::write(&file, "!agent/\n").unwrap();
        assert!(!git_shows_notes(root.path()), "no git, nobody to show it");
        for directory in ["objects", "refs/heads", "info"] {
            fs::create_dir_all(root.path().join(".git").join(directory)).unwrap();
        }
        fs::write(root.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        assert!(git_shows_notes(root.path()));
        for (text, shown) in
            [("agent/\n", false), ("!agent/\nagent/\n", false), ("agent/\n!agent/\n", true)]
        {
            fs::write(&file, text).unwrap();
            assert_eq!(git_shows_notes(root.path()), shown, "{text}");
        }
        fs::rename(&file, root.path().join("rules")).unwrap();
        symlink("rules", &file).unwrap();
        assert!(git_shows_notes(root.path()), "git reads no linked rules");
        fs::write(root.path().join(".git/info/exclude"), "agent/\n").unwrap();
        assert!(!git_shows_notes(root.path()));
    }

    // security line 65
    #[test]
    fn a_link_a_shared_file_and_a_directory_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("repo"), dir.path().join("profile"));
        fs::create_dir(&root).unwrap();
        fs::write(&outside, "PATH=x").unwrap();
        let file = root.join(".gitignore");

        symlink(&outside, &file).unwrap();
        assert_eq!(append_gitignore_once(&root), Err(HostWriteError::NotOurs));
        fs::remove_file(&file).unwrap();
        symlink(dir.path().join("new"), &file).unwrap();
        assert_eq!(append_gitignore_once(&root), Err(HostWriteError::NotOurs));
        assert!(!dir.path().join("new").exists());
        fs::remove_file(&file).unwrap();
        fs::hard_link(&outside, &file).unwrap();
        assert_eq!(append_gitignore_once(&root), Err(HostWriteError::NotOurs));
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(append_gitignore_once(&root), Err(HostWriteError::NotOurs));
        assert_eq!(fs::read_to_string(&outside).unwrap(), "PATH=x");
    }

    #[test]
    fn a_fifo_does_not_hang() {
        let root = tempfile::tempdir().unwrap();
        let fifo = root.path().join(".gitignore");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert_eq!(append_gitignore_once(root.path()), Err(HostWriteError::NotOurs));
    }
}
