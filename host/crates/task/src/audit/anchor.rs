//! Sends the head of the audit log to another machine, where a user who can write on this one cannot change it.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use act_audit::{Audit, AuditError, Entry, Event, GENESIS, Head};
use act_component::registry::{Policy, anchor_command};
use act_core::event::Events;
use act_core::{Document, Failure};
use serde::Serialize;

use crate::status::Lookup;

/// Time limit of the command. The next task sends a newer head, so nothing is lost.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
const SHELL: &str = "/bin/sh";
const BY_POLICY: &str = "by the administrator's policy before anything begins";

/// Sends the head of the log at the end of a task and after `act verify`, if the user has a command for it. Records
/// the result. Not after a signal, because the user wants the end.
pub(crate) async fn anchor(
    audit: &Audit,
    repo: &Path,
    cancel: &CancellationToken,
    events: &Events,
) {
    let Some(head) = audit.head().filter(|_| !cancel.is_cancelled()) else { return };
    let Some(command) = command(Some(repo), events) else { return };
    let outcome = send_in_background(command, head.clone()).await;
    report(audit, &AnchorResult { head, outcome }, events);
}

/// Sends the head of the log after a decision about components or about the log itself, if the user has a command for
/// it. Records the result.
pub(crate) fn after(repo: Option<&Path>, audit: &Audit, events: &Events) {
    let Some(head) = audit.head() else { return };
    let Some(command) = command(repo, events) else { return };
    let outcome = send(&command, &head);
    report(audit, &AnchorResult { head, outcome }, events);
}

/// The last record of the audit log, to be noted down where the user of this machine cannot change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Anchored {
    /// Number of the last record; 0 in a log without records.
    pub seq: u64,
    /// Its hash.
    pub head: String,
    /// True if the configured command has sent it.
    pub sent: bool,
}

impl Document for Anchored {
    const NAME: &'static str = "audit-anchor";
}

/// Returns the head of the log. With `send`, the user's command sends it first, and the result is recorded.
///
/// # Errors
///
/// The log cannot be used, or with `send` there is no command (`anchor_required`) or it failed (`anchor_failed`).
pub fn audit_anchor(start: &Path, send: bool) -> Result<Anchored, Failure> {
    let lookup = Lookup::open(start)?;
    let audit = lookup.audit()?;
    let root = act_config::find_root(start)?.map(|root| root.path);
    let command = send.then(|| configured(root.as_deref())).transpose()?;
    let head = last(&audit)?;
    if let Some(command) = command {
        let outcome = self::send(&command, &head);
        let anchored = AnchorResult { head: head.clone(), outcome };
        anchored.record(&audit)?;
        anchored.or_refuse("with --send")?;
    }
    Ok(Anchored { seq: head.seq, head: head.hash, sent: send })
}

/// Returns the user's command for `--send`.
///
/// # Errors
///
/// There is no command that may be run (`anchor_required`).
fn configured(repo: Option<&Path>) -> Result<String, Failure> {
    let why = match anchor_command(repo) {
        Ok(Some(command)) => return Ok(command),
        Ok(None) => "there is no command that sends the head of the audit log".to_owned(),
        Err(why) => why,
    };
    Err(Failure::refused("anchor_required", why)
        .hint("write a shell command to ~/.config/act/anchor, with mode 0600 (AUDIT-22)"))
}

/// Returns the user's command, or `None` if there is none that may be run.
fn command(repo: Option<&Path>, events: &Events) -> Option<String> {
    anchor_command(repo).unwrap_or_else(|error| {
        events.warn(format!("the audit log is not anchored: {error}"));
        None
    })
}

fn report(audit: &Audit, anchored: &AnchorResult, events: &Events) {
    if anchored.outcome != SendOutcome::Yes {
        let what = anchored.outcome.word();
        events.warn(format!(
            "the head of the audit log could not be sent ({what}): check your `anchor` command"
        ));
    }
    if let Err(error) = anchored.record(audit) {
        events.warn(format!("cannot record that the audit log was anchored: {error}"));
    }
}

/// Sends the head of the log before a decision, if the policy requires it.
///
/// # Errors
///
/// There is no command (`anchor_required`), it failed (`anchor_failed`), or the log cannot be written.
pub(crate) fn before(repo: Option<&Path>, audit: &Audit) -> Result<(), Failure> {
    if !Policy::read()?.require_anchor {
        return Ok(());
    }
    let command = is_set_up(repo)?;
    let head = last(audit)?;
    let outcome = send(&command, &head);
    let anchored = AnchorResult { head, outcome };
    anchored.record(audit)?;
    anchored.or_refuse(BY_POLICY)
}

/// Sends the head before the log is restarted, if the policy requires it. The log itself cannot be trusted, so the
/// head is that of the store (`kept`). The caller records the result as soon as there is a log.
///
/// # Errors
///
/// There is no command (`anchor_required`), or it failed (`anchor_failed`).
pub(crate) fn before_restart(
    repo: Option<&Path>,
    kept: Option<Head>,
) -> Result<Option<AnchorResult>, Failure> {
    if !Policy::read()?.require_anchor {
        return Ok(None);
    }
    let command = is_set_up(repo)?;
    let head = kept.unwrap_or_else(empty_head);
    let anchored = AnchorResult { outcome: send(&command, &head), head };
    anchored.or_refuse(BY_POLICY)?;
    Ok(Some(anchored))
}

fn last(audit: &Audit) -> Result<Head, AuditError> {
    audit.ready()?;
    Ok(audit.head().unwrap_or_else(empty_head))
}

/// The head of a log without records; sending it shows that the command works.
fn empty_head() -> Head {
    Head { seq: 0, hash: GENESIS.to_owned(), end: 0 }
}

/// Sends the head before a task or a verification starts, if the policy requires it, so that no record of it could be
/// removed unnoticed. A head that could not be sent at the end of a task is sent with the next one.
///
/// # Errors
///
/// There is no command (`anchor_required`), it failed (`anchor_failed`), or the log cannot be written.
pub(crate) async fn first(
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
        outcome = send_in_background(command, head.clone()) => outcome,
        () = cancel.cancelled() => return Ok(()),
    };
    let anchored = AnchorResult { head, outcome };
    anchored.record(audit)?;
    anchored.or_refuse(BY_POLICY)
}

/// Returns the command that the policy requires.
///
/// # Errors
///
/// There is no command that may be run (`anchor_required`).
pub(crate) fn is_set_up(repo: Option<&Path>) -> Result<String, Failure> {
    let why = match anchor_command(repo) {
        Ok(Some(command)) => return Ok(command),
        Ok(None) => "there is no command for it".to_owned(),
        Err(why) => why,
    };
    let message = format!(
        "the administrator's policy requires that the head of the audit log is sent to another machine: {why}"
    );
    Err(Failure::refused("anchor_required", message)
        .hint("write a shell command to ~/.config/act/anchor, with mode 0600 (AUDIT-22)"))
}

async fn send_in_background(command: String, head: Head) -> SendOutcome {
    let sending = tokio::task::spawn_blocking(move || send(&command, &head));
    sending.await.unwrap_or(SendOutcome::NotStarted)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendOutcome {
    Yes,
    Failed,
    TooSlow,
    NotStarted,
}

impl SendOutcome {
    fn word(self) -> &'static str {
        match self {
            Self::Yes => "sent",
            Self::Failed => "failed",
            Self::TooSlow => "too_slow",
            Self::NotStarted => "not_started",
        }
    }
}

/// The result of sending one head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnchorResult {
    head: Head,
    outcome: SendOutcome,
}

impl AnchorResult {
    pub(crate) fn record(&self, audit: &Audit) -> Result<(), AuditError> {
        let entry = Entry::new(Event::Anchored)
            .reason(self.outcome.word())
            .count("seq", self.head.seq)
            .digest("head", Some(&self.head.hash));
        audit.append(entry)?;
        audit.settle()
    }

    fn or_refuse(&self, wanted: &str) -> Result<(), Failure> {
        if self.outcome == SendOutcome::Yes {
            return Ok(());
        }
        let message = format!(
            "the head of the audit log could not be sent ({}), which is required {wanted}",
            self.outcome.word()
        );
        Err(Failure::refused("anchor_failed", message)
            .hint("run your `anchor` command by hand, with ACT_AUDIT_SEQ and ACT_AUDIT_HEAD set"))
    }
}

/// Runs the command in a shell that gets only PATH and HOME of the environment, so that no key reaches it.
fn send(command: &str, head: &Head) -> SendOutcome {
    let environment =
        ["PATH", "HOME"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut shell = Command::new(SHELL);
    shell.args(["-c", command]).env_clear().envs(environment).current_dir("/");
    shell.env("ACT_AUDIT_SEQ", head.seq.to_string()).env("ACT_AUDIT_HEAD", &head.hash);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = shell.spawn() else { return SendOutcome::NotStarted };
    let until = Instant::now() + TIME_LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                return if ExitStatus::success(&status) {
                    SendOutcome::Yes
                } else {
                    SendOutcome::Failed
                };
            }
            Ok(None) if Instant::now() < until => std::thread::sleep(POLL),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return SendOutcome::TooSlow;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::document_holds::<Anchored>();
    }
}
