//! One line in the repository's `.gitignore`, added once and at the end; the file is never rewritten.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::agent_dir::{HostWriteError, failed, open_root};
use super::handle::{self, Root};
use super::ignored::IgnoreRules;

/// Bytes of a `.gitignore` at most.
const MAX_FILE: u64 = 4 << 20;
const NAME: &str = ".gitignore";
/// Directories that are looked at for what an unanchored line hides.
const MAX_DIRECTORIES: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitignoreEntry {
    Added,
    AlreadyThere,
}

/// Appends the line `/NAME/`, which hides the directory of act's notes, to the root's `.gitignore`. Changes nothing
/// where a rule hides the directory already. The line is anchored: `NAME/` would hide every nested directory of this
/// name, which belongs to the user.
///
/// # Errors
///
/// The file is a link, a special file or one file under two names, which are left alone; or it cannot be written.
pub fn append_gitignore_once(root: &Path, name: &str) -> Result<GitignoreEntry, HostWriteError> {
    let hidden = Root::open(root)
        .is_ok_and(|root| IgnoreRules::new(&root).ignores_path(name.as_bytes(), true));
    if hidden {
        return Ok(GitignoreEntry::AlreadyThere);
    }
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
    if has_line_for(&before, name) {
        return Ok(GitignoreEntry::AlreadyThere);
    }
    let newline = if before.last().is_none_or(|last| *last == b'\n') { "" } else { "\n" };
    file.write_all(format!("{newline}/{name}/\n").as_bytes()).map_err(io)?;
    Ok(GitignoreEntry::Added)
}

/// Whether a line of the file is about the directory, also where a later line undoes it: that is the user's wish.
fn has_line_for(gitignore: &[u8], name: &str) -> bool {
    lines(gitignore).any(|line| {
        let line = line.strip_prefix(b"/").unwrap_or(line);
        line.strip_suffix(b"/").unwrap_or(line) == name.as_bytes()
    })
}

fn lines(gitignore: &[u8]) -> impl Iterator<Item = &[u8]> {
    gitignore.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end)
}

/// Returns directories named `agent` below the root that the unanchored line `agent/` hides from git and from the tested
/// tree. act 0.1.0 wrote that line; it is the user's file, so only the user changes it. Returns none where the root's
/// `.gitignore` has no such line. Looks at no more than 20,000 directories.
pub fn hidden_by_unanchored_line(root: &Path) -> Vec<String> {
    let read = || {
        let file = rustix::fs::openat(open_root(root).ok()?, NAME, act_fs::READ, Mode::empty());
        let (fd, _) = handle::regular(file.ok()?).ok()?;
        handle::read_whole(fd, MAX_FILE).ok()?
    };
    let has_line =
        read().is_some_and(|text| lines(&text).any(|line| matches!(line, b"agent" | b"agent/")));
    let Some(held) = has_line.then(|| Root::open(root).ok()).flatten() else { return vec![] };
    let rules = IgnoreRules::new(&held);
    let (mut found, mut left) = (vec![], vec![String::new()]);
    let mut seen = 0;
    while let Some(dir) = left.pop() {
        seen += 1;
        if seen > MAX_DIRECTORIES {
            break;
        }
        let Ok(fd) = held.open_real(dir.as_bytes(), handle::DIRECTORY) else { continue };
        let Ok(entries) = rustix::fs::Dir::new(fd) else { continue };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            let directory = entry.file_type() == rustix::fs::FileType::Directory;
            if !directory || matches!(name, "." | ".." | ".git") {
                continue;
            }
            let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
            match (name, dir.is_empty(), rules.ignores_path(path.as_bytes(), true)) {
                ("agent", false, true) => found.push(path),
                (_, _, false) => left.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
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
            (None, "/agent/\n"),
            (Some(""), "/agent/\n"),
            (Some("target\n"), "target\n/agent/\n"),
            (Some("target"), "target\n/agent/\n"),
            (Some("a\r\nb\r\n"), "a\r\nb\r\n/agent/\n"),
        ] {
            let _ = fs::remove_file(&file);
            before.inspect(|text| fs::write(&file, text).unwrap());
            assert_eq!(append_gitignore_once(root.path(), "agent"), Ok(GitignoreEntry::Added));
            assert_eq!(
                append_gitignore_once(root.path(), "agent"),
                Ok(GitignoreEntry::AlreadyThere)
            );
            assert_eq!(fs::read_to_string(&file).unwrap(), after);
        }
        for there in ["/agent\n", "x\nagent/  \r\n", "agent"] {
            fs::write(&file, there).unwrap();
            assert_eq!(
                append_gitignore_once(root.path(), "agent"),
                Ok(GitignoreEntry::AlreadyThere)
            );
            assert_eq!(fs::read_to_string(&file).unwrap(), there);
        }
    }

    // WORKSPACE-32
    #[test]
    fn nothing_is_written_where_a_rule_hides_the_directory_or_the_user_has_undone_the_line() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(".gitignore");
        for there in ["ag*\n", "agent/\n!agent/\n", "/agent/\n"] {
            fs::write(&file, there).unwrap();
            let entry = append_gitignore_once(root.path(), "agent");
            assert_eq!(entry, Ok(GitignoreEntry::AlreadyThere), "{there}");
            assert_eq!(fs::read_to_string(&file).unwrap(), there);
        }
        assert_eq!(append_gitignore_once(root.path(), ".act"), Ok(GitignoreEntry::Added));
        assert_eq!(fs::read_to_string(&file).unwrap(), "/agent/\n/.act/\n");
    }

    // WORKSPACE-32
    #[test]
    fn directories_that_the_unanchored_line_hides_are_named() {
        let root = tempfile::tempdir().unwrap();
        for directory in
            ["agent", "src/agent/agent", "src/agents", "lib/deep/agent", "target/agent"]
        {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        let file = root.path().join(".gitignore");
        fs::write(&file, "target/\n/agent/\n").unwrap();
        assert!(hidden_by_unanchored_line(root.path()).is_empty());
        for line in ["agent/", "agent"] {
            fs::write(&file, format!("target/\n{line}\n")).unwrap();
            let hidden = hidden_by_unanchored_line(root.path());
            assert_eq!(hidden, ["lib/deep/agent", "src/agent"]);
        }
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
        assert_eq!(append_gitignore_once(&root, "agent"), Err(HostWriteError::NotOurs));
        fs::remove_file(&file).unwrap();
        symlink(dir.path().join("new"), &file).unwrap();
        assert_eq!(append_gitignore_once(&root, "agent"), Err(HostWriteError::NotOurs));
        assert!(!dir.path().join("new").exists());
        fs::remove_file(&file).unwrap();
        fs::hard_link(&outside, &file).unwrap();
        assert_eq!(append_gitignore_once(&root, "agent"), Err(HostWriteError::NotOurs));
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(append_gitignore_once(&root, "agent"), Err(HostWriteError::NotOurs));
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
        assert_eq!(append_gitignore_once(root.path(), "agent"), Err(HostWriteError::NotOurs));
    }
}
