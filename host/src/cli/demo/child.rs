//! The task of the demo in a process of its own. Its environment names the demo's directories, so the task is an
//! ordinary one in all but its model.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use super::repository::Place;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// Variables that name a real model. The task plays a script; a key in its environment would be of no use to it.
const FOREIGN: [&str; 6] = [
    "AGENT_LLM_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "AGENT_LLM_MODEL",
];

pub(super) fn command(program: &Path, arguments: Vec<OsString>, place: &Place) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    for name in FOREIGN {
        command.env_remove(name);
    }
    command
        .env("AGENT_ARTIFACT_DIR", place.artifacts())
        // The user's own components and approvals take no part in the demo.
        .env("XDG_CONFIG_HOME", place.config())
        // With a process group of its own, the child gets each signal once: from this process.
        .process_group(0);
    command
}

/// Waits for the end. Signals are passed on, and the child decides how to end.
pub(super) async fn run(mut command: Command) -> io::Result<ExitStatus> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut end = tokio::task::spawn_blocking(move || child.wait());
    loop {
        let asked = tokio::select! {
            biased;
            ended = &mut end => return ended.map_err(io::Error::other)?,
            _ = interrupt.recv() => Signal::INT,
            _ = terminate.recv() => Signal::TERM,
            _ = hangup.recv() => Signal::HUP,
        };
        if let Some(pid) = pid {
            // An error means that the child has just ended.
            let _ = kill_process(pid, asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_child_sees_its_directories_and_no_key() {
        let script = "test -z \"$OPENAI_API_KEY$ANTHROPIC_API_KEY$AGENT_LLM_BASE_URL\" && \
                      test \"$AGENT_ARTIFACT_DIR\" = \"$1/artifacts\" && \
                      test \"$XDG_CONFIG_HOME\" = \"$1/config\" || exit 9; exit 3";
        let parent = tempfile::tempdir().unwrap();
        let place = Place::create(parent.path(), "t-aaaaaa").unwrap();
        let arguments = vec!["-c".into(), script.into(), "sh".into(), place.root().into()];
        let mut command = command(Path::new("/bin/sh"), arguments, &place);
        let removed = command.get_envs().filter(|(_, value)| value.is_none()).count();
        assert_eq!(removed, FOREIGN.len());
        command.env_remove("OPENAI_API_KEY");
        assert_eq!(run(command).await.unwrap().code(), Some(3));
    }
}
