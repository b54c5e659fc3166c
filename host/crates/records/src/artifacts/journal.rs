//! The journal of a task: its events as lines, and a lock that shows to every process that the task's process lives.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use act_fs::lock::{self, Kind};
use act_fs::{Dir, READ};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use super::artifact_dir::ArtifactDir;

/// Maximum wait for a process that tests the lock of a journal. A test takes microseconds.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of a last line, which contains the summary.
const LONGEST_LINE: u64 = 1024 * 1024;

/// An open journal, which is written at its end.
#[derive(Debug)]
pub struct Journal {
    pub file: File,
    /// Number of whole lines that it had when it was opened.
    pub lines: u64,
}

impl Journal {
    /// Returns a handle that holds the lock after the file itself is closed.
    ///
    /// # Errors
    /// The process has no free file descriptor.
    pub fn hold(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }
}

impl ArtifactDir {
    /// Creates the journal of a task, readable by its owner alone.
    ///
    /// # Errors
    /// The name is taken, or the file cannot be created.
    pub fn create_journal(&self, task_id: &str) -> io::Result<Journal> {
        let file = self.journals()?.create(name(task_id))?;
        Ok(Journal { file: locked(file)?, lines: 0 })
    }

    /// Opens the journal that another process began, to append to it, and cuts off an incomplete last line. Creates it when
    /// that process had not created it yet.
    ///
    /// # Errors
    /// The file cannot be opened or changed; a link in its place is refused.
    pub fn resume_journal(&self, task_id: &str) -> io::Result<Journal> {
        let flags = OFlags::RDWR | OFlags::APPEND | READ;
        let file = match openat(self.journals()?, name(task_id), flags, Mode::empty()) {
            Ok(file) => file.into(),
            Err(Errno::NOENT) => return self.create_journal(task_id),
            Err(errno) => return Err(errno.into()),
        };
        let mut file = act_fs::regular(file)?;
        let (mut lines, mut whole, mut at) = (0, 0, 0);
        let mut piece = [0; 64 * 1024];
        loop {
            let length = file.read(&mut piece)?;
            if length == 0 {
                break;
            }
            for byte in piece.iter().take(length) {
                at += 1;
                if *byte == b'\n' {
                    (lines, whole) = (lines + 1, at);
                }
            }
        }
        file.set_len(whole)?;
        Ok(Journal { file: locked(file)?, lines })
    }

    /// Removes the journal of a task that was deleted.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove_journal(&self, task_id: &str) -> io::Result<()> {
        Ok(unlinkat(self.journals()?, name(task_id), AtFlags::empty())?)
    }

    /// Returns whether the journal exists and no process holds its lock: its process is then dead, in whichever namespace it
    /// ran. Returns false when that cannot be found out.
    pub fn is_abandoned(&self, task_id: &str) -> bool {
        let free = |file: File| lock::try_lock(&file, Kind::Exclusive).is_ok_and(|free| free);
        self.open_journal(task_id).is_ok_and(|found| found.is_some_and(free))
    }

    /// Returns the last line, or `None` when it is incomplete or the journal has no lines.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn last_line(&self, task_id: &str) -> io::Result<Option<String>> {
        let Some(file) = self.open_journal(task_id)? else { return Ok(None) };
        let (end, before) = act_fs::read_last(&file, LONGEST_LINE)?;
        let Some((b'\n', lines)) = end.split_last() else { return Ok(None) };
        let last = lines.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        // A longer line was not read from its beginning.
        let whole = last.len() < lines.len() || before == 0;
        Ok(std::str::from_utf8(last).ok().filter(|_| whole).map(str::to_owned))
    }

    /// Opens the journal to read it. Returns `None` when there is none.
    ///
    /// # Errors
    /// The file cannot be opened; a link in its place is refused.
    pub fn open_journal(&self, task_id: &str) -> io::Result<Option<File>> {
        let Some(state) = self.existing_state()? else { return Ok(None) };
        let Some(journals) = state.existing_subdirectory("journal")? else { return Ok(None) };
        match journals.file(name(task_id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => file.map(Some),
        }
    }

    fn journals(&self) -> io::Result<Dir> {
        self.state()?.private_subdirectory("journal")
    }
}

fn name(task_id: &str) -> String {
    format!("{task_id}.jsonl")
}

/// Takes the lock that shows that the task's process lives. The lock is shared, because one process hands it to another;
/// only a process that tests whether the journal is locked takes it exclusively, for a moment.
fn locked(journal: File) -> io::Result<File> {
    match lock::wait(&journal, Kind::Shared, LONGEST_WAIT)? {
        true => Ok(journal),
        false => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "another process holds the lock on the new journal",
        )),
    }
}

/// Opens at most `most` journals of earlier tasks, the last written one first. Returns none when there is no such directory,
/// and creates nothing. `path` is ARTIFACT_DIR.
pub fn newest_journals(path: &Path, most: usize) -> Vec<File> {
    find_newest(path, most).unwrap_or_default()
}

fn find_newest(path: &Path, most: usize) -> std::io::Result<Vec<File>> {
    let dir = Dir::open(path)?.subdirectory("state")?.subdirectory("journal")?;
    let mut names = vec![];
    for name in dir.names(usize::MAX)? {
        let Ok(name) = name.to_str() else { continue };
        if name.starts_with("t-") && name.ends_with(".jsonl") {
            let stat = dir.stat(name)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                names.push((stat.st_mtime, stat.st_mtime_nsec, name.to_owned()));
            }
        }
    }
    names.sort_unstable();
    let newest = names.iter().rev().take(most);
    Ok(newest.filter_map(|(.., name)| dir.file(name.as_str()).ok()).collect())
}

#[cfg(test)]
mod journal_tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_journal_is_new_and_for_the_owner_alone() {
        // ARTIFACT-11
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        let (place, repo) = (temp.path().join("a"), temp.path().join("r"));
        fs::create_dir(&repo).unwrap();
        let artifacts = ArtifactDir::open(&place, &repo).unwrap();
        artifacts.create_journal("t-abc123").unwrap();
        let mode =
            |path: &str| fs::metadata(place.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("state"), 0o700);
        assert_eq!(mode("state/journal"), 0o700);
        assert_eq!(mode("state/journal/t-abc123.jsonl"), 0o600);
        let taken = artifacts.create_journal("t-abc123").unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_journal_goes_on_behind_its_last_whole_line() {
        // ARTIFACT-11, TASK-23
        use std::io::Write;
        let temp = tempfile::tempdir().unwrap();
        let (place, repo) = (temp.path().join("a"), temp.path().join("r"));
        fs::create_dir(&repo).unwrap();
        let artifacts = ArtifactDir::open(&place, &repo).unwrap();
        let lines = artifacts.resume_journal("t-abc123").unwrap().lines;
        assert_eq!(lines, 0);
        let path = place.join("state/journal/t-abc123.jsonl");
        fs::write(&path, "{}\n{}\n{\"half").unwrap();
        let Journal { mut file, lines } = artifacts.resume_journal("t-abc123").unwrap();
        assert_eq!(lines, 2);
        file.write_all(b"next\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n{}\nnext\n");
        artifacts.remove_journal("t-abc123").unwrap();
        assert!(!path.exists());
        std::os::unix::fs::symlink(&repo, &path).unwrap();
        assert!(artifacts.resume_journal("t-abc123").is_err());
    }

    #[test]
    fn a_journal_is_never_written_through_a_link() {
        // ARTIFACT-11
        let temp = tempfile::tempdir().unwrap();
        let (place, repo) = (temp.path().join("a"), temp.path().join("r"));
        fs::create_dir(&repo).unwrap();
        let artifacts = ArtifactDir::open(&place, &repo).unwrap();
        std::os::unix::fs::symlink(&repo, place.join("state")).unwrap();
        assert!(artifacts.create_journal("t-abc123").is_err());
        assert_eq!(fs::read_dir(&repo).unwrap().count(), 0);
    }

    #[test]
    fn a_journal_is_left_alone_when_nobody_holds_it() {
        // TASK-20
        let temp = tempfile::tempdir().unwrap();
        let (place, repo) = (temp.path().join("a"), temp.path().join("r"));
        fs::create_dir(&repo).unwrap();
        let artifacts = ArtifactDir::open(&place, &repo).unwrap();
        assert!(!artifacts.is_abandoned("t-abc123"), "there is none");
        let journal = artifacts.create_journal("t-abc123").unwrap();
        let held = journal.hold().unwrap();
        let other = artifacts.resume_journal("t-abc123").unwrap();
        drop(journal);
        assert!(!artifacts.is_abandoned("t-abc123"));
        drop(other);
        assert!(!artifacts.is_abandoned("t-abc123"), "closed, and still held");
        drop(held);
        assert!(artifacts.is_abandoned("t-abc123"));
    }

    #[test]
    fn the_last_line_is_a_whole_one_or_none() {
        // TASK-24
        let temp = tempfile::tempdir().unwrap();
        let (place, repo) = (temp.path().join("a"), temp.path().join("r"));
        fs::create_dir(&repo).unwrap();
        let artifacts = ArtifactDir::open(&place, &repo).unwrap();
        assert_eq!(artifacts.last_line("t-abc123").unwrap(), None);
        drop(artifacts.create_journal("t-abc123").unwrap());
        let long = "x".repeat(LONGEST_LINE as usize);
        for (text, last) in [
            ("", None),
            ("one\n", Some("one")),
            ("one\ntwo\n", Some("two")),
            ("one\ntw", None),
            (&format!("{long}\n"), None),
            (&format!("{long}\ntwo\n"), Some("two")),
        ] {
            fs::write(place.join("state/journal/t-abc123.jsonl"), text).unwrap();
            assert_eq!(artifacts.last_line("t-abc123").unwrap().as_deref(), last);
        }
    }
}

#[cfg(test)]
mod journals_tests {
    use std::fs;
    use std::io::Read;

    use super::*;

    #[test]
    fn the_newest_come_first_and_nothing_else_is_taken_for_one() {
        let temp = tempfile::tempdir().unwrap();
        assert!(newest_journals(temp.path(), 9).is_empty());
        let dir = temp.path().join("state/journal");
        fs::create_dir_all(dir.join("t-dir.jsonl")).unwrap();
        for (at, name) in ["t-b.jsonl", "t-a.jsonl", "notes"].into_iter().enumerate() {
            fs::write(dir.join(name), name).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(at as u64 + 9);
            File::open(dir.join(name)).unwrap().set_modified(time).unwrap();
        }
        std::os::unix::fs::symlink("notes", dir.join("t-link.jsonl")).unwrap();
        let read = |mut file: File| {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        };
        let names =
            |most| newest_journals(temp.path(), most).into_iter().map(read).collect::<Vec<_>>();
        assert_eq!(names(9), ["t-a.jsonl", "t-b.jsonl"]);
        assert_eq!(names(1), ["t-a.jsonl"]);
    }
}
