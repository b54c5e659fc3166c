//! Who a container belongs to, and whether that process is still there: the labels, and the decision which
//! containers are orphans.

use std::collections::HashMap;

use rustix::process::{Uid, geteuid};

use act_core::process::{Life, Look, Process};

pub(crate) const RUN_ID: &str = "act.run_id";
const PID: &str = "act.pid";
const START_TIME: &str = "act.start_time";
const BOOT_ID: &str = "act.boot_id";
const PID_NAMESPACE: &str = "act.pid_namespace";
const UID: &str = "act.uid";
const DEADLINE: &str = "act.deadline";

/// Left alone for this long after its deadline, should clocks differ.
const GRACE_SECONDS: i64 = 300;

pub(crate) fn labels(of: Process, run_id: &str, deadline: i64) -> HashMap<String, String> {
    HashMap::from([
        (RUN_ID.to_owned(), run_id.to_owned()),
        (PID.to_owned(), of.pid.to_string()),
        (START_TIME.to_owned(), of.start_time),
        (BOOT_ID.to_owned(), of.boot_id),
        (PID_NAMESPACE.to_owned(), of.pid_namespace),
        (UID.to_owned(), geteuid().as_raw().to_string()),
        (DEADLINE.to_owned(), deadline.to_string()),
    ])
}

/// Whether the container's owner is dead. Another engine client, another machine, another namespace may own
/// it as well, and a system may hide the processes of other users: what cannot be known is judged by the
/// deadline alone.
pub(crate) fn is_orphan(
    labels: &HashMap<String, String>,
    (this, uid): (&Process, Uid),
    now: i64,
    look: impl Fn(u32) -> Look,
) -> bool {
    let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
    if label(RUN_ID).is_empty() {
        return false;
    }
    let overdue = label(DEADLINE)
        .parse::<i64>()
        .is_ok_and(|deadline| now > deadline.saturating_add(GRACE_SECONDS));
    let Ok(pid) = label(PID).parse() else { return overdue };
    let visible = uid.is_root() || label(UID).parse() == Ok(uid.as_raw());
    // An engine may serve several machines: there, another boot is no earlier one.
    if label(BOOT_ID) != this.boot_id || !visible {
        return overdue;
    }
    let owner = Process {
        pid,
        start_time: label(START_TIME).to_owned(),
        boot_id: label(BOOT_ID).to_owned(),
        pid_namespace: label(PID_NAMESPACE).to_owned(),
    };
    match owner.life(this, look) {
        Life::Runs | Life::Stalled => false,
        Life::Dead => true,
        Life::Unknown => overdue,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::process::Seen;

    fn process() -> Process {
        Process::invented(7)
    }

    fn orphan(
        change: impl Fn(&mut HashMap<String, String>),
        running: Option<&str>,
        now: i64,
    ) -> bool {
        let mut changed = super::labels(process(), "run_x", 1_000);
        changed.insert(UID.to_owned(), "1000".to_owned());
        change(&mut changed);
        let seen = |start: &str| Seen { start_time: start.to_owned(), stopped: false };
        is_orphan(&changed, (&process(), Uid::from_raw(1000)), now, |_| Ok(running.map(seen)))
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
}
