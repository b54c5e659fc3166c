//! `state/originals/TASK_ID/`: the files that a task changed, as they were before, and the list of its changes. They are
//! stored while the task runs and outlive it, so that `act diff` can show and undo what the task did.
//!
//! The directory is locked while the task lives. A task that is killed leaves what it has stored so far.

use std::io;

use act_fs::Dir;
use act_fs::lock::{self, Kind};
use chrono::{DateTime, TimeDelta, Utc};

use super::artifact_dir::ArtifactDir;
use super::retention::{Candidate, Limits, changed_at, expired};
use super::tree::remove_tree;

const ORIGINALS: &str = "originals";

/// As many tasks and days as runs have: a person undoes what a task of the last days did.
const LIMITS: Limits = Limits { count: 20, age: TimeDelta::days(14) };
/// Maximum number of bytes of all tasks together. The newest task may have more: it may store 1 GiB.
const MAX_BYTES: u64 = 4 << 30;
/// Maximum number of names in the directory of one task: the files that a task may change, and the list.
const MAX_NAMES: usize = 50_000;

impl ArtifactDir {
    /// Creates the directory for the originals of a task. It is locked as long as the returned handle lives.
    ///
    /// # Errors
    /// The directory exists or cannot be created.
    pub fn create_originals(&self, task_id: &str) -> io::Result<Dir> {
        let dir = self.state()?.private_subdirectory(ORIGINALS)?.create_subdirectory(task_id)?;
        lock::try_lock(&dir, Kind::Exclusive)?;
        Ok(dir)
    }

    /// Opens the originals of a task, or returns `None` when none are stored.
    ///
    /// # Errors
    /// The directory cannot be opened; a link in its place is refused.
    pub fn originals(&self, task_id: &str) -> io::Result<Option<Dir>> {
        match self.existing_state()?.map(|state| state.existing_subdirectory(ORIGINALS)) {
            None => Ok(None),
            Some(all) => all?.map_or(Ok(None), |all| all.existing_subdirectory(task_id)),
        }
    }

    /// Removes the originals of tasks that are too old, too many or too large. `order` returns the place of a task in the
    /// order in which tasks were accepted.
    ///
    /// # Errors
    /// A directory cannot be listed or removed, or `order` fails.
    pub fn prune_originals(
        &self,
        now: DateTime<Utc>,
        order: &dyn Fn(&str) -> io::Result<Option<i64>>,
    ) -> io::Result<()> {
        let Some(state) = self.existing_state()? else { return Ok(()) };
        let Some(all) = state.existing_subdirectory(ORIGINALS)? else { return Ok(()) };
        let mut tasks = vec![];
        for name in all.names(usize::MAX)? {
            let Ok(name) = name.into_string() else { continue };
            let Ok(Some(dir)) = all.existing_subdirectory(&*name) else { continue };
            let spared = !lock::try_lock(&dir, Kind::Shared)?;
            let (since, order) = (changed_at(&dir)?, order(&name)?);
            tasks.push(Candidate { name, since, order, spared });
        }
        let gone: Vec<_> =
            expired(tasks.clone(), LIMITS, now).into_iter().map(|one| one.name).collect();
        tasks.retain(|one| !gone.contains(&one.name));
        let oldest_first = Limits { count: 0, ..LIMITS };
        let newest_first = expired(tasks, oldest_first, now).into_iter().rev();
        let mut bytes = 0;
        let mut too_large = vec![];
        for Candidate { name, .. } in newest_first {
            bytes += all.subdirectory(&*name).and_then(|dir| size(&dir))?;
            // The newest stays whatever its size.
            if bytes > MAX_BYTES {
                too_large.push(name);
                continue;
            }
        }
        for name in gone.iter().chain(&too_large) {
            remove_tree(&all, name)?;
        }
        Ok(())
    }
}

fn size(dir: &Dir) -> io::Result<u64> {
    let sizes = dir.names(MAX_NAMES)?;
    let size =
        |name: &std::ffi::CString| dir.stat(name).map(|stat| stat.st_size).unwrap_or_default();
    Ok(sizes.iter().map(|name| u64::try_from(size(name)).unwrap_or_default()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, FileTimes};
    use std::time::{Duration, SystemTime};

    fn artifacts(base: &std::path::Path) -> ArtifactDir {
        std::fs::create_dir(base.join("repo")).unwrap();
        ArtifactDir::open(&base.join("a"), &base.join("repo")).unwrap()
    }

    // ARTIFACT-23
    #[test]
    fn originals_outlive_their_task_until_20_newer_ones_or_14_days() {
        let base = tempfile::tempdir().unwrap();
        let artifacts = artifacts(base.path());
        let at = base.path().join("a/state/originals");
        assert!(artifacts.originals("t-00").unwrap().is_none());
        let day = |days: u64| SystemTime::now() - Duration::from_hours(24 * days);
        let names: Vec<_> = (0..24).map(|n| format!("t-{n:02}")).collect();
        for name in &names {
            drop(artifacts.create_originals(name).unwrap());
            std::fs::write(at.join(name).join("1"), "x").unwrap();
        }
        assert!(artifacts.create_originals("t-00").is_err(), "never twice");
        // The clock was set back while tasks 3 and later ran: only 0 to 2 are known to be old.
        for (number, name) in names.iter().enumerate() {
            let days = if number < 2 {
                30
            } else if number == 2 {
                3
            } else {
                400
            };
            let times = FileTimes::new().set_modified(day(days));
            File::open(at.join(name)).unwrap().set_times(times).unwrap();
        }
        let order = |name: &str| Ok(name[2..].parse().ok());
        let lives = artifacts.originals("t-01").unwrap().unwrap();
        assert!(lock::try_lock(&lives, Kind::Exclusive).unwrap());
        artifacts.prune_originals(act_core::clock::now(), &order).unwrap();
        let mut left: Vec<_> = at
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        // 0 is too old, 1 lives, and of 2 to 23 the two oldest are too many.
        assert_eq!(left, [&names[1..2], &names[4..]].concat());
        std::os::unix::fs::symlink("/etc", at.join("t-link")).unwrap();
        assert!(artifacts.originals("t-link").is_err());
    }
}
