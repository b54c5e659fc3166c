//! Finds out whether the kernel killed a process of a container because its memory was used up. The kernel's own count
//! decides where the container's cgroup is visible, else the events of the engine. An exec has no such flag.

use crate::engine::Engine;
use futures_util::StreamExt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// How long an event may lag behind the exit code that it explains.
const EVENT_LAG: Duration = Duration::from_millis(300);

/// Listens to the `oom` events of one container until it is dropped.
pub(crate) struct OomWatch {
    events: watch::Receiver<u64>,
    counter: Option<KillCounter>,
    _listener: AbortOnDropHandle<()>,
}

/// The number of kills at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kills {
    events: u64,
    counted: Option<u64>,
}

impl OomWatch {
    /// Begins to listen. The engine replays earlier events, so no event of a container that is not yet started is
    /// missed.
    pub(crate) fn new(engine: &Engine, container: &str) -> Self {
        let mut stream = engine.oom_events(container);
        let (sender, events) = watch::channel(0);
        let listener = tokio::spawn(async move {
            while stream.next().await.is_some() {
                sender.send_modify(|count| *count += 1);
            }
        });
        Self { events, counter: None, _listener: AbortOnDropHandle::new(listener) }
    }

    /// Adds the kernel's counter of the container, once it has started.
    pub(crate) fn count_with(&mut self, counter: Option<KillCounter>) {
        self.counter = counter;
    }

    /// Returns whether the kernel's counter can be read.
    pub(crate) fn is_counted(&self) -> bool {
        self.counter.as_ref().is_some_and(|counter| counter.count().is_some())
    }

    /// Returns the number of kills until now.
    pub(crate) fn so_far(&self) -> Kills {
        let counted = self.counter.as_ref().and_then(KillCounter::count);
        Kills { events: *self.events.borrow(), counted }
    }

    /// Returns whether there was a kill after `before`, or `None` when there was no event and no counter.
    pub(crate) fn since(&self, before: Kills) -> Option<bool> {
        let now = self.so_far();
        let counted = now.counted.zip(before.counted).map(|(now, before)| now > before);
        if now.events > before.events { Some(true) } else { counted }
    }

    /// Waits a moment for an event after `before`.
    pub(crate) async fn event_since(&self, before: Kills) -> bool {
        let mut events = self.events.clone();
        let more = events.wait_for(|count| *count > before.events);
        matches!(tokio::time::timeout(EVENT_LAG, more).await, Ok(Ok(_)))
    }
}

impl Kills {
    /// Returns whether there was no kill. Then a container whose flag is set later got its first kill after this
    /// moment.
    pub(crate) fn none(self) -> bool {
        self.events == 0 && self.counted.unwrap_or(0) == 0
    }
}

/// Number of bytes that are read of one of the kernel's files, which have a few hundred.
const MAX_KERNEL_FILE: u64 = 64 * 1024;
/// The name of the count in both versions of cgroups.
const KEY: &str = "oom_kill";

/// Reads the kernel's count of the processes that it killed in one cgroup.
pub(crate) struct KillCounter {
    file: PathBuf,
}

impl KillCounter {
    /// Finds the cgroup of the process `pid`, in the file system below `root`. Returns `None` when the cgroup is not
    /// visible, as in a container, and when its name lacks the container's id: then the pid belongs to another process.
    pub(crate) fn find(root: &Path, pid: u32, container_id: &str) -> Option<Self> {
        let groups = read(&root.join(format!("proc/{pid}/cgroup")))?;
        let top = root.join("sys/fs/cgroup");
        let at = |group: Option<&str>, file: &str, below: &Path| {
            let group =
                group.filter(|group| !container_id.is_empty() && group.contains(container_id))?;
            let file = below.join(group.trim_start_matches('/')).join(file);
            (!group.contains("..")).then_some(file)
        };
        // A machine with both versions has its memory controller in version 1.
        let v1 = groups.lines().find_map(|line| group_of_controller(line, "memory"));
        let v2 = groups.lines().find_map(|line| line.strip_prefix("0::"));
        let file = match v1 {
            Some(group) => at(Some(group), "memory.oom_control", &top.join("memory")),
            None => at(v2, "memory.events", &top),
        };
        let counter = Self { file: file? };
        counter.count().map(|_| counter)
    }

    /// Returns the count, or `None` when the cgroup is gone.
    fn count(&self) -> Option<u64> {
        let text = read(&self.file)?;
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == KEY)?.1.trim().parse().ok()
    }
}

/// Returns the group of a line such as `4:cpu,memory:/docker/ID`, if the line is about the controller `wanted`.
fn group_of_controller<'a>(line: &'a str, wanted: &str) -> Option<&'a str> {
    let mut parts = line.splitn(3, ':');
    let controllers = parts.nth(1)?;
    controllers.split(',').any(|controller| controller == wanted).then(|| parts.next())?
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_KERNEL_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A machine on which process 7 is in the cgroups that `groups` says.
    fn machine(groups: &str, file: &str, text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [("proc/7/cgroup", groups), (file, text)] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn count(root: &tempfile::TempDir, id: &str) -> Option<u64> {
        KillCounter::find(root.path(), 7, id)?.count()
    }

    // VERIFIER-21, security line 100
    #[test]
    fn kills_are_counted_in_both_generations_of_cgroups() {
        let hybrid = machine(
            "9:name=systemd:/docker/abc\n4:cpu,memory:/docker/abc\n0::/docker/abc\n",
            "sys/fs/cgroup/memory/docker/abc/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        );
        assert_eq!(count(&hybrid, "abc"), Some(3));
        let unified = machine(
            "0::/system.slice/docker-abc.scope\n",
            "sys/fs/cgroup/system.slice/docker-abc.scope/memory.events",
            "low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n",
        );
        assert_eq!(count(&unified, "abc"), Some(2));
        let rootless = machine(
            "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-abc.scope/container\n",
            "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-abc.scope/container/memory.events",
            "oom 0\noom_kill 0\n",
        );
        assert_eq!(count(&rootless, "abc"), Some(0));
    }

    // VERIFIER-21
    #[test]
    fn another_process_or_a_cgroup_out_of_sight_is_not_counted() {
        let file = "sys/fs/cgroup/system.slice/docker-abc.scope/memory.events";
        let text = "oom_kill 2\n";
        let other = machine("0::/system.slice/docker-abc.scope\n", file, text);
        assert_eq!(count(&other, "xyz"), None, "the number was given to another process");
        assert_eq!(count(&other, ""), None);
        for groups in ["0::/../../docker-abc.scope\n", "0::/docker-abc.scope\n", "", "no cgroups"] {
            assert_eq!(count(&machine(groups, file, text), "abc"), None, "{groups}");
        }
        assert_eq!(count(&machine("0::/docker-abc.scope\n", "unrelated", ""), "abc"), None);
    }
}
