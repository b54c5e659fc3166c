//! A store in a directory of its own, for tests.

use super::{Flags, Store, Submission};
use act_core::process::Process;

pub(super) struct TempStore {
    store: Store,
    _dir: tempfile::TempDir,
}

impl std::ops::Deref for TempStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

pub(super) fn store() -> TempStore {
    let dir = tempfile::tempdir().unwrap();
    let state = act_fs::Dir::open(dir.path()).unwrap();
    TempStore { store: Store::open(&state, dir.path()).unwrap(), _dir: dir }
}

/// Returns process number `pid` of an invented boot.
pub(super) fn process(pid: u32) -> Process {
    Process {
        pid,
        start_time: format!("start {pid}"),
        boot_id: "boot".into(),
        pid_namespace: "pid:[1]".into(),
    }
}

/// Submits the task `task_id` of process `pid` and returns its position.
pub(super) fn submit(store: &Store, repo: &str, task_id: &str, pid: u32) -> u32 {
    let flags =
        Flags { allow_paths: vec![".vscode/**".into()], max_tokens: Some(9), ..Flags::default() };
    let task = Submission {
        task_id,
        repo,
        root: "/home/me/repo",
        text: "do it",
        flags: &flags,
        owner: &process(pid),
    };
    store.submit(&task).unwrap()
}
