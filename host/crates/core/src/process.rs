//! The identity of a process, which survives the reuse of its number, and whether the process is alive.

use std::path::PathBuf;

use rustix::io::Errno;
#[cfg(not(target_os = "linux"))]
use rustix::process::kill_process;
use rustix::process::{Pid, Signal, test_kill_process};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

/// Returns the path by which this process can start its own program again, also after an update put another file in its place or
/// removed it.
///
/// # Errors
///
/// The system does not say which program it is.
pub fn running_program() -> std::io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    // The link leads to the file that is being executed, by whatever name.
    let running = PathBuf::from("/proc/self/exe");
    Ok(if !program.exists() && running.exists() { running } else { program })
}

/// The identity of a process. Fields are empty where the system does not report them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// Start time in a unit of the system; only compared, never calculated with.
    pub start_time: String,
    pub boot_id: String,
    /// The PID namespace: a number names different processes in different namespaces.
    pub pid_namespace: String,
}

/// The state of a process, as the system reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessState {
    pub start_time: String,
    /// Stopped by SIGSTOP or a terminal; it may continue.
    pub stopped: bool,
}

/// The answer of [`look_up`]. `None` means that there is no such process. An error means that the question cannot be
/// answered, for example because of too many open files or because the system hides the process.
pub type LookupResult = Result<Option<ProcessState>, Errno>;

/// The state of a recorded process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Runs,
    /// Stopped, not dead: it still owns its locks and tasks.
    Stalled,
    Dead,
    /// The process is in another namespace, or the system does not report it.
    Unknown,
}

impl Process {
    /// The identity of the running process.
    pub fn this() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_time: look_up(pid).ok().flatten().map(|seen| seen.start_time).unwrap_or_default(),
            boot_id: boot_id(),
            pid_namespace: pid_namespace(),
        }
    }

    /// Returns whether the recorded process `self` is alive, as seen from the process `this`.
    pub fn life(&self, this: &Self, look_up: impl Fn(u32) -> LookupResult) -> Life {
        let known = [&this.start_time, &this.boot_id, &self.start_time, &self.boot_id];
        if known.iter().any(|word| word.is_empty()) {
            return Life::Unknown;
        }
        // The record was made on this machine, so a different boot id belongs to an earlier boot.
        if self.boot_id != this.boot_id {
            return Life::Dead;
        }
        if self.pid_namespace != this.pid_namespace {
            return Life::Unknown;
        }
        match look_up(self.pid) {
            Ok(Some(seen)) if seen.start_time != self.start_time => Life::Dead,
            Ok(Some(seen)) if seen.stopped => Life::Stalled,
            Ok(Some(_)) => Life::Runs,
            Ok(None) => Life::Dead,
            Err(_) => Life::Unknown,
        }
    }
}

impl Process {
    /// Sends a signal to the process, but never to a later process with its number.
    ///
    /// # Errors
    ///
    /// Fails when the process has ended or the signal is not permitted.
    #[cfg(target_os = "linux")]
    pub fn send_signal(&self, signal: Signal) -> Result<(), Errno> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        // The descriptor keeps naming this process, whatever happens to the number.
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        if look_up(self.pid)?.is_none_or(|seen| seen.start_time != self.start_time) {
            return Err(Errno::SRCH);
        }
        pidfd_send_signal(process, signal)
    }

    /// Sends a signal to the process if it still has the recorded start time.
    ///
    /// # Errors
    ///
    /// Fails when the process has ended or the signal is not permitted.
    #[cfg(not(target_os = "linux"))]
    pub fn send_signal(&self, signal: Signal) -> Result<(), Errno> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        if look_up(self.pid)?.is_none_or(|seen| seen.start_time != self.start_time) {
            return Err(Errno::SRCH);
        }
        kill_process(pid, signal)
    }
}

#[cfg(target_os = "linux")]
fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(target_os = "linux")]
fn pid_namespace() -> String {
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    namespace.to_string_lossy().into_owned()
}

/// Returns a process that runs or is stopped. A zombie, or a process that is about to become one, does not count: none of
/// its code runs any more, and its locks may be free already.
///
/// # Errors
///
/// The system does not answer, for example because of too many open files or because it hides the process.
#[cfg(target_os = "linux")]
pub fn look_up(pid: u32) -> LookupResult {
    let stat = match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) => {
            return match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::SRCH) => missing(pid),
                errno => Err(errno.unwrap_or(Errno::IO)),
            };
        }
    };
    parse(&String::from_utf8_lossy(&stat)).ok_or(Errno::IO)
}

/// The kernel's PF_EXITING, set before a process closes its files.
#[cfg(target_os = "linux")]
const EXITING: u32 = 0x4;

/// The program's name is in parentheses and may contain any character.
#[cfg(target_os = "linux")]
fn parse(stat: &str) -> Option<Option<ProcessState>> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let flags: u32 = fields.nth(5)?.parse().ok()?;
    let start_time = fields.nth(12)?.to_owned();
    let gone = matches!(state, "Z" | "X" | "x") || flags & EXITING != 0;
    Some((!gone).then_some(ProcessState { start_time, stopped: state == "T" }))
}

/// Handles a process that is not visible: it does not exist, unless the system hides it.
fn missing(pid: u32) -> LookupResult {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match test_kill_process(pid) {
        Err(Errno::SRCH) => Ok(None),
        _ => Err(Errno::ACCESS),
    }
}

/// Returns the identity of this machine.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(target_os = "macos")]
fn boot_id() -> String {
    let mut sysctl = std::process::Command::new("/usr/sbin/sysctl");
    let told = sysctl.args(["-n", "kern.bootsessionuuid"]).env_clear().output();
    let told = told.ok().and_then(|told| String::from_utf8(told.stdout).ok());
    told.unwrap_or_default().trim().to_owned()
}

/// A start time is a date on these systems, so only machines need an identity.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn boot_id() -> String {
    hostname()
}

#[cfg(not(target_os = "linux"))]
fn pid_namespace() -> String {
    String::new()
}

/// Looks a process up with `ps`, which every Unix has. It prints nothing for a process that does not exist; the state `E`
/// is an exiting process.
///
/// # Errors
///
/// `ps` cannot be started or its output cannot be parsed.
#[cfg(not(target_os = "linux"))]
pub fn look_up(pid: u32) -> LookupResult {
    let mut ps = std::process::Command::new("/bin/ps");
    ps.args(["-o", "stat=,lstart=", "-p", &pid.to_string()]).env_clear().env("TZ", "UTC0");
    let told = ps.output().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let told = String::from_utf8_lossy(&told.stdout);
    if told.trim().is_empty() {
        return missing(pid);
    }
    let (state, start_time) = told.trim().split_once(' ').ok_or(Errno::IO)?;
    let seen =
        ProcessState { start_time: start_time.trim().to_owned(), stopped: state.starts_with('T') };
    Ok((!state.contains(['Z', 'E'])).then_some(seen))
}

#[cfg(any(test, feature = "testing"))]
impl Process {
    /// Returns a process with the number `pid` of a boot that never happened.
    pub fn invented(pid: u32) -> Self {
        Self {
            pid,
            start_time: "100".into(),
            boot_id: "boot".into(),
            pid_namespace: "pid:[1]".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> Process {
        Process::invented(7)
    }

    fn life(change: impl Fn(&mut Process), seen: Option<(&str, bool)>) -> Life {
        let mut noted = process();
        change(&mut noted);
        let seen = seen.map(|(start, stopped)| ProcessState { start_time: start.into(), stopped });
        noted.life(&process(), |_| Ok(seen.clone()))
    }

    #[test]
    fn a_process_lives_as_long_as_its_number_has_its_start_time() {
        // TASK-20
        let same = |_: &mut Process| {};
        assert_eq!(life(same, Some(("100", false))), Life::Runs);
        assert_eq!(life(same, Some(("100", true))), Life::Stalled);
        assert_eq!(life(same, Some(("101", false))), Life::Dead, "another has its number");
        assert_eq!(life(same, None), Life::Dead);
    }

    #[test]
    fn no_answer_is_not_death() {
        // TASK-20
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::ACCESS, Errno::IO] {
            assert_eq!(process().life(&process(), |_| Err(errno)), Life::Unknown, "{errno}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_may_hold_anything_and_what_is_cut_off_is_no_answer() {
        // TASK-20
        let stat = |state: &str, flags: u32| {
            let (before, after) = ("0 ".repeat(5), "0 ".repeat(12));
            parse(&format!("7 (a) b) {state} {before}{flags} {after}4711 0"))
        };
        let start_time = "4711".to_owned();
        assert_eq!(stat("T", 0x40_0000), Some(Some(ProcessState { start_time, stopped: true })));
        assert_eq!(stat("Z", 0), Some(None));
        assert_eq!(stat("R", 0x40_0004), Some(None), "its locks are free before it is a zombie");
        assert_eq!(parse("7 (a) S 1 2"), None);
        assert_eq!(missing(u32::MAX), Ok(None));
        assert_eq!(missing(std::process::id()), Err(Errno::ACCESS), "hidden, not gone");
    }

    #[test]
    fn another_boot_is_death_and_another_namespace_is_unknown() {
        // TASK-20
        let here = Some(("100", false));
        assert_eq!(life(|process| process.boot_id = "earlier".into(), here), Life::Dead);
        assert_eq!(life(|process| process.pid_namespace = "pid:[2]".into(), None), Life::Unknown);
        assert_eq!(life(|process| process.start_time.clear(), None), Life::Unknown);
        assert_eq!(life(|process| process.boot_id.clear(), here), Life::Unknown);
    }

    #[test]
    fn a_running_process_is_seen_a_stopped_one_too_and_a_zombie_is_not() {
        use rustix::process::{Pid, Signal, kill_process};
        let this = Process::this();
        assert_eq!(this.life(&this, look_up), Life::Runs);
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "read x"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (pid, number) = (Pid::from_child(&child), child.id());
        // This process may have started within the same tick of the clock as the child.
        let mut noted = Process { pid: number, start_time: "0".into(), ..this.clone() };
        let until = |wanted: &dyn Fn(Option<ProcessState>) -> bool| {
            while !wanted(look_up(number).unwrap()) {
                std::thread::yield_now();
            }
        };
        until(&|seen| seen.is_some_and(|seen| !seen.stopped));
        kill_process(pid, Signal::STOP).unwrap();
        until(&|seen| seen.is_some_and(|seen| seen.stopped));
        assert_eq!(noted.send_signal(Signal::KILL), Err(Errno::SRCH), "not this one's start time");
        noted.start_time = look_up(number).unwrap().unwrap().start_time;
        noted.send_signal(Signal::KILL).unwrap();
        // Not yet waited for, so it stays in the table as a zombie.
        until(&|seen| seen.is_none());
        child.wait().unwrap();
    }
}
