//! The head of the log on its way to another machine, where nobody who can write here can change it.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use act_audit::{Audit, AuditError, Entry, Event, GENESIS, Head};
use act_component::registry::{Policy, anchor_command};
use act_core::Failure;
use act_core::event::Events;

/// Nobody waits longer for it; the next edge says it again.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);
const SHELL: &str = "/bin/sh";

/// At the end of a task and after `act verify`, if the user has a command for it. Recorded either way. After a
/// signal nobody waits for it.
pub(in crate::task) async fn anchor(
    audit: &Audit,
    repo: &Path,
    cancel: &CancellationToken,
    events: &Events,
) {
    let Some(head) = audit.head().filter(|_| !cancel.is_cancelled()) else { return };
    let Some(command) = command(Some(repo), events) else { return };
    let outcome = sent(command, head.clone()).await;
    tell(audit, &Anchored { head, outcome }, events);
}

/// The same for what is done in one go: a decision about components, or about the log itself.
pub(in crate::task) fn after(repo: Option<&Path>, audit: &Audit, events: &Events) {
    let Some(head) = audit.head() else { return };
    let Some(command) = command(repo, events) else { return };
    let outcome = send(&command, &head);
    tell(audit, &Anchored { head, outcome }, events);
}

/// None where there is none that counts.
fn command(repo: Option<&Path>, events: &Events) -> Option<String> {
    anchor_command(repo).unwrap_or_else(|error| {
        events.warn(format!("the audit log is not anchored: {error}"));
        None
    })
}

fn tell(audit: &Audit, anchored: &Anchored, events: &Events) {
    if anchored.outcome != Sent::Yes {
        let what = anchored.outcome.word();
        events.warn(format!("the head of the audit log was not sent off ({what}): see `anchor`"));
    }
    if let Err(error) = anchored.record(audit) {
        events.warn(format!("that the audit log was anchored is not recorded: {error}"));
    }
}

/// Before a decision is taken, where the administrator wants the head on another machine.
pub(in crate::task) fn before(repo: Option<&Path>, audit: &Audit) -> Result<(), Failure> {
    if !Policy::read()?.require_anchor {
        return Ok(());
    }
    let command = is_set_up(repo)?;
    let head = last(audit)?;
    let outcome = send(&command, &head);
    let anchored = Anchored { head, outcome };
    anchored.record(audit)?;
    anchored.or_refuse()
}

/// The same before a log is begun anew: it has no last record that counts, so that the store's goes. To be recorded as
/// soon as there is a log for it.
pub(in crate::task) fn before_restart(
    repo: Option<&Path>,
    kept: Option<Head>,
) -> Result<Option<Anchored>, Failure> {
    if !Policy::read()?.require_anchor {
        return Ok(None);
    }
    let command = is_set_up(repo)?;
    let head = kept.unwrap_or_else(of_none);
    let anchored = Anchored { outcome: send(&command, &head), head };
    anchored.or_refuse()?;
    Ok(Some(anchored))
}

fn last(audit: &Audit) -> Result<Head, AuditError> {
    audit.ready()?;
    Ok(audit.head().unwrap_or_else(of_none))
}

/// Of a log without records it is only seen that the way is open.
fn of_none() -> Head {
    Head { seq: 0, hash: GENESIS.to_owned(), end: 0 }
}

/// Where the administrator wants the head on another machine: before anything begins, so that nothing does whose
/// record could be taken back unseen. What a task leaves last goes with the next one, if it could not be sent then.
pub(in crate::task) async fn first(
    required: bool,
    audit: &Audit,
    repo: &Path,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    if !required {
        return Ok(());
    }
    let command = is_set_up(Some(repo))?;
    let head = last(audit)?;
    let outcome = tokio::select! {
        outcome = sent(command, head.clone()) => outcome,
        () = cancel.cancelled() => return Ok(()),
    };
    let anchored = Anchored { head, outcome };
    anchored.record(audit)?;
    anchored.or_refuse()
}

/// The command, where there must be one.
pub(in crate::task) fn is_set_up(repo: Option<&Path>) -> Result<String, Failure> {
    let why = match anchor_command(repo) {
        Ok(Some(command)) => return Ok(command),
        Ok(None) => "there is no command that does so".to_owned(),
        Err(why) => why,
    };
    let message = format!(
        "the administrator's policy wants the head of the audit log sent to another machine: {why}"
    );
    Err(Failure::refused("anchor_required", message)
        .hint("write a shell command to ~/.config/act/anchor, with mode 0600 (AUDIT-22)"))
}

async fn sent(command: String, head: Head) -> Sent {
    let sending = tokio::task::spawn_blocking(move || send(&command, &head));
    sending.await.unwrap_or(Sent::NotStarted)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Yes,
    Failed,
    TooSlow,
    NotStarted,
}

impl Sent {
    fn word(self) -> &'static str {
        match self {
            Self::Yes => "sent",
            Self::Failed => "failed",
            Self::TooSlow => "too_slow",
            Self::NotStarted => "not_started",
        }
    }
}

/// That a head was sent off, or was to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::task) struct Anchored {
    head: Head,
    outcome: Sent,
}

impl Anchored {
    pub(in crate::task) fn record(&self, audit: &Audit) -> Result<(), AuditError> {
        let entry = Entry::new(Event::Anchored)
            .reason(self.outcome.word())
            .count("seq", self.head.seq)
            .digest("head", Some(&self.head.hash));
        audit.append(entry)?;
        audit.settle()
    }

    fn or_refuse(&self) -> Result<(), Failure> {
        if self.outcome == Sent::Yes {
            return Ok(());
        }
        let message = format!(
            "the head of the audit log could not be sent off ({}), as the administrator's policy wants it before \
             anything begins",
            self.outcome.word()
        );
        Err(Failure::refused("anchor_failed", message)
            .hint("run your `anchor` command by hand, with ACT_AUDIT_SEQ and ACT_AUDIT_HEAD set"))
    }
}

/// Without anything of our environment but the way to programs and the home directory.
fn send(command: &str, head: &Head) -> Sent {
    let kept =
        ["PATH", "HOME"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut shell = Command::new(SHELL);
    shell.args(["-c", command]).env_clear().envs(kept).current_dir("/");
    shell.env("ACT_AUDIT_SEQ", head.seq.to_string()).env("ACT_AUDIT_HEAD", &head.hash);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = shell.spawn() else { return Sent::NotStarted };
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                return if ExitStatus::success(&status) { Sent::Yes } else { Sent::Failed };
            }
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Sent::TooSlow;
            }
        }
    }
}
