//! Finds out whether the kernel killed a process of a container for memory: by the kernel's own count where the cgroup is
//! visible, else by the engine's events, because an exec has no such flag of its own.

use crate::engine::Engine;
use bollard::query_parameters::EventsOptions;
use futures_util::StreamExt;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// How long an event may lag behind the exit code it explains.
const LAG: Duration = Duration::from_millis(300);

/// Listens to the `oom` events of one container, and stops when dropped.
pub(crate) struct OomWatch {
    events: watch::Receiver<u64>,
    counter: Option<KillCounter>,
    _listener: AbortOnDropHandle<()>,
}

/// What was known at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kills {
    events: u64,
    counted: Option<u64>,
}

impl OomWatch {
    /// For a container that was created and not started: nothing can be missed, as the engine replays.
    pub(crate) fn new(engine: &Engine, container: &str) -> Self {
        let filter = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        let options = EventsOptions {
            since: Some("1".to_owned()),
            until: None,
            filters: Some(HashMap::from([
                filter("type", "container"),
                filter("container", container),
                filter("event", "oom"),
            ])),
        };
        let mut stream = Box::pin(engine.docker.events(Some(options)));
        let (sender, events) = watch::channel(0);
        let listener = tokio::spawn(async move {
            while let Some(Ok(_)) = stream.next().await {
                sender.send_modify(|count| *count += 1);
            }
        });
        Self { events, counter: None, _listener: AbortOnDropHandle::new(listener) }
    }

    /// Of the container that was started meanwhile.
    pub(crate) fn count_with(&mut self, counter: Option<KillCounter>) {
        self.counter = counter;
    }

    /// Whether `since` is going to answer while the container lives.
    pub(crate) fn is_counted(&self) -> bool {
        self.counter.as_ref().is_some_and(|counter| counter.count().is_some())
    }

    pub(crate) fn so_far(&self) -> Kills {
        let counted = self.counter.as_ref().and_then(KillCounter::count);
        Kills { events: *self.events.borrow(), counted }
    }

    /// None when nobody has said so and nobody has counted.
    pub(crate) fn since(&self, before: Kills) -> Option<bool> {
        let now = self.so_far();
        let counted = now.counted.zip(before.counted).map(|(now, before)| now > before);
        if now.events > before.events { Some(true) } else { counted }
    }

    /// Waits a moment for an event.
    pub(crate) async fn event_since(&self, before: Kills) -> bool {
        let mut events = self.events.clone();
        let grown = events.wait_for(|count| *count > before.events);
        matches!(tokio::time::timeout(LAG, grown).await, Ok(Ok(_)))
    }
}

impl Kills {
    /// Then the container's own flag speaks of what came after.
    pub(crate) fn none(self) -> bool {
        self.events == 0 && self.counted.unwrap_or(0) == 0
    }
}

/// Bytes of one of the kernel's files.
const MAX_FILE: u64 = 64 * 1024;
/// What both generations of cgroups call the count.
const KEY: &str = "oom_kill";

pub(crate) struct KillCounter {
    file: PathBuf,
}

impl KillCounter {
    /// None where the cgroup is not in sharing: the engine is on another machine, or this is a container. `root`
    /// is that of the file system. A process whose cgroup does not name the container is another one.
    pub(crate) fn find(root: &Path, pid: u32, container_id: &str) -> Option<Self> {
        let groups = read(&root.join(format!("proc/{pid}/cgroup")))?;
        let top = root.join("sys/fs/cgroup");
        let at = |line: Option<&str>, file: &str, below: &Path| {
            let group =
                line.filter(|group| !container_id.is_empty() && group.contains(container_id))?;
            let file = below.join(group.trim_start_matches('/')).join(file);
            (!group.contains("..")).then_some(file)
        };
        // A machine with both has the memory controller in the first generation.
        let first = groups.lines().find_map(|line| controller(line, "memory"));
        let second = groups.lines().find_map(|line| line.strip_prefix("0::"));
        let file = match first {
            Some(group) => at(Some(group), "memory.oom_control", &top.join("memory")),
            None => at(second, "memory.events", &top),
        };
        let counter = Self { file: file? };
        counter.count().map(|_| counter)
    }

    /// None when the cgroup is gone.
    pub(crate) fn count(&self) -> Option<u64> {
        let text = read(&self.file)?;
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == KEY)?.1.trim().parse().ok()
    }
}

/// Of `4:cpu,memory:/docker/ID` the last part, if the controller is one of those.
fn controller<'a>(line: &'a str, wanted: &str) -> Option<&'a str> {
    let mut parts = line.splitn(3, ':');
    let controllers = parts.nth(1)?;
    controllers.split(',').any(|controller| controller == wanted).then(|| parts.next())?
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_FILE).read_to_string(&mut text).ok()?;
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
