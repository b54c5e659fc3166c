//! Who a container belongs to, and whether that process is still there: the labels, and the decision which
//! containers are orphans.

use std::collections::HashMap;
use std::fs;

pub(super) const RUN_ID: &str = "act.run_id";
const PID: &str = "act.pid";
const START_TIME: &str = "act.start_time";
const BOOT_ID: &str = "act.boot_id";
const PID_NAMESPACE: &str = "act.pid_namespace";
const UID: &str = "act.uid";
const DEADLINE: &str = "act.deadline";

/// Left alone for this long after its deadline, should clocks differ.
const GRACE_SECONDS: i64 = 300;

/// A process, told apart from a later one with the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pid: u32,
    start_time: String,
    boot_id: String,
    pid_namespace: String,
    uid: u32,
}

impl Process {
    /// Empty words where the system does not tell; then only deadlines count.
    pub(super) fn this() -> Self {
        let pid = std::process::id();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            pid,
            start_time: start_time(pid).unwrap_or_default(),
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .map(|id| id.trim().to_owned())
                .unwrap_or_default(),
            pid_namespace: namespace.to_string_lossy().into_owned(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    pub(super) fn labels(self, run_id: &str, deadline: i64) -> HashMap<String, String> {
        HashMap::from([
            (RUN_ID.to_owned(), run_id.to_owned()),
            (PID.to_owned(), self.pid.to_string()),
            (START_TIME.to_owned(), self.start_time),
            (BOOT_ID.to_owned(), self.boot_id),
            (PID_NAMESPACE.to_owned(), self.pid_namespace),
            (UID.to_owned(), self.uid.to_string()),
            (DEADLINE.to_owned(), deadline.to_string()),
        ])
    }
}

/// When the kernel started a process that still runs; None when there is none. A zombie does not run.
pub(super) fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands in parentheses and may hold any character.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| start.to_owned())
}

/// Whether the container's owner is dead. Another engine client, another machine, another namespace may own
/// it as well, and a system may hide the processes of other users: what cannot be known is judged by the
/// deadline alone.
pub(super) fn is_orphan(
    labels: &HashMap<String, String>,
    this: &Process,
    now: i64,
    start_time: impl Fn(u32) -> Option<String>,
) -> bool {
    let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
    if label(RUN_ID).is_empty() {
        return false;
    }
    let overdue = label(DEADLINE)
        .parse::<i64>()
        .is_ok_and(|deadline| now > deadline.saturating_add(GRACE_SECONDS));
    let comparable = !this.boot_id.is_empty()
        && !this.start_time.is_empty()
        && label(BOOT_ID) == this.boot_id
        && label(PID_NAMESPACE) == this.pid_namespace
        && (this.uid == 0 || label(UID).parse() == Ok(this.uid));
    match label(PID).parse::<u32>() {
        Ok(pid) if comparable => start_time(pid).is_none_or(|start| start != label(START_TIME)),
        _ => overdue,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> Process {
        Process {
            pid: 7,
            start_time: "100".into(),
            boot_id: "boot".into(),
            pid_namespace: "pid:[1]".into(),
            uid: 1000,
        }
    }

    fn orphan(
        change: impl Fn(&mut HashMap<String, String>),
        running: Option<&str>,
        now: i64,
    ) -> bool {
        let mut labels = process().labels("run_x", 1_000);
        change(&mut labels);
        is_orphan(&labels, &process(), now, |_| running.map(str::to_owned))
    }

    // VERIFIER-18, security line 111
    #[test]
    fn a_container_is_an_orphan_when_its_very_owner_is_dead() {
        let same = |_: &mut HashMap<String, String>| {};
        assert!(!orphan(same, Some("100"), 0), "the owner runs");
        assert!(!orphan(same, Some("100"), 1_000_000), "even past the deadline");
        assert!(orphan(same, None, 0), "the owner is gone");
        assert!(orphan(same, Some("200"), 0), "another process has its number");
    }

    // VERIFIER-18
    #[test]
    fn what_cannot_be_known_is_left_alone_until_its_deadline() {
        for (name, value) in
            [(BOOT_ID, "other"), (PID_NAMESPACE, "pid:[2]"), (PID, "x"), (UID, "1001")]
        {
            let change = |labels: &mut HashMap<String, String>| {
                labels.insert(name.to_owned(), value.to_owned());
            };
            assert!(!orphan(change, None, 1_000), "{name}");
            assert!(orphan(change, None, 1_000 + GRACE_SECONDS + 1), "{name}");
        }
    }

    #[test]
    fn a_container_without_our_label_is_never_ours() {
        assert!(!orphan(
            |labels| {
                labels.remove(RUN_ID);
            },
            None,
            i64::MAX
        ));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_running_process_has_a_start_time_and_a_zombie_has_none() {
        assert_eq!(start_time(std::process::id()), Some(Process::this().start_time));
        let mut child = std::process::Command::new("/bin/sh")
            .arg("-c")
            .arg("read x")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(start_time(child.id()).is_some());
        child.kill().unwrap();
        // Not yet waited for, so it stays in the table as a zombie.
        let pid = child.id();
        while fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().split(' ').nth(2)
            != Some("Z")
        {
            std::thread::yield_now();
        }
        assert_eq!(start_time(pid), None);
        child.wait().unwrap();
    }
}
