//! Which directory of a repository holds act's notes: `agent/`, or `.act/` where `agent/` is the user's.
//!
//! A directory is act's when it does not exist, is empty, or has no tracked file and holds only names that act writes.
//! A link, a file, or a directory of another owner is the user's: it is read and edited like any other.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, Stat, statat};
use rustix::io::Errno;

use super::exclusion::{fold, is_temporary};
use super::handle::{DIRECTORY, Root};
use super::ignored::IgnoreRules;

/// The names that the directory of the notes may have, in the order of preference.
pub const NOTES_DIRS: [&str; 2] = ["agent", ".act"];

/// Returns the name of the directory that holds act's notes in the repository at `root`, or `None` when both names are
/// taken by the user.
///
/// # Errors
///
/// The root cannot be opened.
pub fn notes_dir(root: &Path) -> Result<Option<&'static str>, Errno> {
    let root = Root::open(root)?;
    Ok(notes_dir_of(&root, &IgnoreRules::new(&root)))
}

pub(super) fn notes_dir_of(root: &Root, rules: &IgnoreRules) -> Option<&'static str> {
    NOTES_DIRS.into_iter().find(|name| is_ours(root, rules, name))
}

/// Whether `path` is the directory of the notes `notes`, or lies in it.
pub(super) fn is_in_notes(path: &str, notes: Option<&str>) -> bool {
    notes.is_some_and(|notes| fold(path).split('/').next() == Some(notes))
}

fn is_ours(root: &Root, rules: &IgnoreRules, name: &str) -> bool {
    match statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return true,
        Ok(stat) if is_own_directory(&stat) => {}
        Ok(_) | Err(_) => return false,
    }
    // Opened without following: between the two calls the name may have become a link.
    let Ok(dir) = rustix::fs::openat(root, name, DIRECTORY, Mode::empty()) else { return false };
    let same_owner = rustix::fs::fstat(&dir).is_ok_and(|stat| is_own_directory(&stat));
    same_owner && holds_only_notes(&dir) && !rules.tracks_below(name.as_bytes())
}

fn is_own_directory(stat: &Stat) -> bool {
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    directory && stat.st_uid == rustix::process::geteuid().as_raw()
}

fn holds_only_notes(dir: &OwnedFd) -> bool {
    // Special files have names as well, so the directory is read here and not by what a view would show.
    let Ok(mut entries) = rustix::fs::Dir::read_from(dir) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name().to_bytes();
            matches!(name, b"." | b"..") || std::str::from_utf8(name).is_ok_and(is_note)
        })
    })
}

/// Whether act writes files of this name into the directory of its notes.
fn is_note(name: &str) -> bool {
    const FIXED: [&str; 4] = ["context_latest.md", "summary.md", "stuck_report.md", ".gitignore"];
    let numbered = || {
        let digits = name.strip_prefix("context_").and_then(|rest| rest.strip_suffix(".md"));
        digits.is_some_and(|digits| {
            (3..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    FIXED.contains(&name) || is_temporary(name) || numbered()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    fn of(root: &Path) -> Option<&'static str> {
        notes_dir(root).unwrap()
    }

    #[test]
    fn what_earlier_tasks_left_is_known_at_the_root_alone() {
        // WORKSPACE-7
        for path in ["agent", "agent/summary.md", "Agent/stuck_report.md", "AGENT"] {
            assert!(is_in_notes(path, Some("agent")), "{path}");
            assert!(!is_in_notes(path, Some(".act")) && !is_in_notes(path, None), "{path}");
        }
        for path in ["src/agent/mod.rs", "agent.yaml", "agents/a.md", "agent.rs", ".act/x"] {
            assert!(!is_in_notes(path, Some("agent")), "{path}");
        }
    }

    // WORKSPACE-57
    #[test]
    fn a_directory_is_ours_when_it_holds_nothing_but_notes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(of(root), Some("agent"));
        fs::create_dir(root.join("agent")).unwrap();
        assert_eq!(of(root), Some("agent"));
        let ours = [
            "context_001.md",
            "context_123456.md",
            "context_latest.md",
            "summary.md",
            "stuck_report.md",
            ".gitignore",
            ".act-write-0123456789abcdef.tmp",
        ];
        for name in ours {
            fs::write(root.join("agent").join(name), "x").unwrap();
            assert_eq!(of(root), Some("agent"), "{name}");
        }
        for name in ["new.py", "context_1.md", "context_0000001.md", "summary.txt", "Summary.md"] {
            fs::write(root.join("agent").join(name), "x").unwrap();
            assert_eq!(of(root), Some(".act"), "{name}");
            fs::remove_file(root.join("agent").join(name)).unwrap();
        }
        fs::write(root.join("agent/new.py"), "x").unwrap();
        fs::create_dir(root.join(".act")).unwrap();
        assert_eq!(of(root), Some(".act"));
        fs::write(root.join(".act/settings"), "x").unwrap();
        assert_eq!(of(root), None, "both are the user's");
    }

    // WORKSPACE-57, security line 64
    #[test]
    fn a_link_a_file_and_the_directory_of_another_owner_are_never_ours() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repo");
        fs::create_dir(&root).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        symlink(dir.path().join("outside"), root.join("agent")).unwrap();
        assert_eq!(of(&root), Some(".act"));
        fs::remove_file(root.join("agent")).unwrap();
        symlink("nowhere", root.join("agent")).unwrap();
        assert_eq!(of(&root), Some(".act"));
        fs::remove_file(root.join("agent")).unwrap();
        fs::write(root.join("agent"), "a file").unwrap();
        assert_eq!(of(&root), Some(".act"));
        fs::remove_file(root.join("agent")).unwrap();
        fs::create_dir(root.join("agent")).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(root.join("agent"), Some(12345), None).unwrap();
            assert_eq!(of(&root), Some(".act"));
        }
    }

    // WORKSPACE-57
    #[test]
    fn a_directory_with_a_tracked_file_is_the_users_whatever_its_name() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let git = |arguments: &[&str]| {
            let done = Command::new("git").args(arguments).current_dir(root).status().unwrap();
            assert!(done.success(), "{arguments:?}");
        };
        git(&["init", "-q"]);
        fs::create_dir(root.join("agent")).unwrap();
        fs::write(root.join("agent/stuck_report.md"), "x").unwrap();
        assert_eq!(of(root), Some("agent"));
        git(&["add", "-f", "agent/stuck_report.md"]);
        assert_eq!(of(root), Some(".act"));
    }
}
