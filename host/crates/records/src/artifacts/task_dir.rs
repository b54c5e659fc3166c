//! The directory of a task that runs, `tasks/TASK_ID/`: the originals of the files that it changes, and trees that are verified
//! beside the working tree. It is removed when the task ends; what a killed task left is removed by the next one.

use std::io;
use std::path::PathBuf;

use act_fs::Dir;
use act_fs::lock::{self, Kind};

use super::artifact_dir::ArtifactDir;
use super::tree::remove_tree;

/// The directory that holds those of the tasks.
const TASKS: &str = "tasks";

/// The directory of one task, locked while the task lives. It is removed when the value is dropped.
#[derive(Debug)]
pub struct TaskDir {
    tasks: Dir,
    name: String,
    handle: Dir,
    path: PathBuf,
}

impl ArtifactDir {
    /// Creates the empty directory of a task, and removes those of tasks whose process has died.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn task_dir(&self, task_id: &str) -> io::Result<TaskDir> {
        let tasks = self.top().private_subdirectory(TASKS)?;
        for name in tasks.names(usize::MAX)? {
            let Ok(name) = name.into_string() else { continue };
            let dead = match tasks.existing_subdirectory(&*name) {
                Ok(Some(dir)) => lock::try_lock(&dir, Kind::Exclusive).unwrap_or(false),
                _ => false,
            };
            if dead {
                // Another act may remove it at the same time; what cannot be removed does not prevent this task.
                let _ = remove_tree(&tasks, &name);
            }
        }
        let handle = tasks.create_subdirectory(task_id)?;
        lock::try_lock(&handle, Kind::Exclusive)?;
        let path = self.path().join(TASKS).join(task_id);
        Ok(TaskDir { tasks, name: task_id.to_owned(), handle, path })
    }
}

impl TaskDir {
    /// Creates a private, empty directory in the one of the task, in place of an older one of that name.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn create(&self, name: &str) -> io::Result<(Dir, PathBuf)> {
        self.remove(name)?;
        Ok((self.handle.create_subdirectory(name)?, self.path.join(name)))
    }

    /// Removes a directory that [`TaskDir::create`] made.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        remove_tree(&self.handle, name)
    }
}

impl Drop for TaskDir {
    fn drop(&mut self) {
        // The next task removes what is left.
        let _ = remove_tree(&self.tasks, &self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARTIFACT-21
    #[test]
    fn the_directory_of_a_task_ends_with_it_and_that_of_a_dead_one_with_the_next() {
        let base = tempfile::tempdir().unwrap();
        let repo = base.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        let artifacts = ArtifactDir::open(&base.path().join("a"), &repo).unwrap();
        let at = |name: &str| base.path().join("a/tasks").join(name);
        std::fs::create_dir_all(at("t-dead").join("originals/deep")).unwrap();
        let one = artifacts.task_dir("t-one").unwrap();
        assert!(!at("t-dead").exists());
        let (_, path) = one.create("tree").unwrap();
        std::fs::write(path.join("a.txt"), "x").unwrap();
        // A task that lives keeps its directory.
        let two = artifacts.task_dir("t-two").unwrap();
        assert!(path.join("a.txt").exists() && at("t-two").exists());
        assert!(one.create("tree").unwrap().1.read_dir().unwrap().next().is_none());
        drop((one, two));
        assert!(!at("t-one").exists() && !at("t-two").exists());
    }
}
