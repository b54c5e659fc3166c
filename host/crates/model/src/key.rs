//! The key of a request: a value, or a command of the user that prints it.
//!
//! The command runs when the first request needs the key, without a shell and outside of the repository. Its output is
//! never logged: only the first line of its standard output is used, and that line is a [`Secret`] from then on.

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{ModelError, ModelErrorKind};
use act_core::secret::Secret;
use act_core::user_command::{NoOutput, UserCommand};

/// Maximum time of the command. A password manager that asks a person first has to be unlocked before the task.
const LONGEST: Duration = Duration::from_secs(10);
/// Where the key of a server comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Value(Secret),
    Command(UserCommand),
}

/// Runs the command of the user and returns the key that it prints. If the future is dropped, the command is killed.
pub(super) async fn read(command: &UserCommand) -> Result<Secret, ModelError> {
    let stop = StopOnDrop::default();
    let (started, stopped) = (command.clone(), Arc::clone(&stop.0));
    let read = tokio::task::spawn_blocking(move || first_line(&started, LONGEST, &stopped)).await;
    let read = read.unwrap_or(Err(Trouble::NoOutput(NoOutput::Stopped)));
    read.map_err(|trouble| {
        let program = command.program().escape_debug();
        let message = format!(
            "the command `{program}` of `key_command` in config.toml {trouble}; run it by hand to see why"
        );
        ModelError::new(ModelErrorKind::Rejected, message)
    })
}

/// Tells the thread that runs the command to stop, because its result is not needed any more.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Why a command gave no key. Nothing that it printed is part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    NoOutput(#[from] NoOutput),
    #[error("failed ({0})")]
    Failed(ExitStatus),
    #[error("printed no key: the first line of its standard output is empty")]
    Nothing,
    #[error("printed a first line with characters that a key cannot have")]
    Unusable,
}

fn first_line(
    command: &UserCommand,
    longest: Duration,
    stopped: &AtomicBool,
) -> Result<Secret, Trouble> {
    let (status, output) = command.output(vec![], longest, stopped)?;
    if !status.success() {
        return Err(Trouble::Failed(status));
    }
    key_of(&output)
}

/// Returns the key in the first line of an output.
fn key_of(output: &[u8]) -> Result<Secret, Trouble> {
    let line = output.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| Trouble::Unusable)?.trim();
    match line {
        "" => Err(Trouble::Nothing),
        line if line.chars().all(|c| c.is_ascii_graphic()) => Ok(Secret::learned(line)),
        _ => Err(Trouble::Unusable),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Instant;

    use super::*;

    fn run(script: &str, longest: Duration) -> Result<Secret, Trouble> {
        let words = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        first_line(&UserCommand::new(words).unwrap(), longest, &AtomicBool::new(false))
    }

    fn key(script: &str) -> Result<String, Trouble> {
        run(script, Duration::from_secs(60)).map(|key| key.expose().to_owned())
    }

    // CONFIG-47
    #[test]
    fn the_key_is_the_first_line_without_white_space_around_it() {
        let line = "sk-of-a-command-1";
        for output in
            ["sk-of-a-command-1", "sk-of-a-command-1\\r\\nuser: x\\n", " sk-of-a-command-1 \\n"]
        {
            assert_eq!(key(&format!("printf '{output}'")).as_deref(), Ok(line), "{output}");
        }
        assert_eq!(key("pwd; exit 0").as_deref(), Ok("/"), "not in the repository");
        assert_eq!(
            key("cat; echo sk-after-an-empty-stdin").as_deref(),
            Ok("sk-after-an-empty-stdin")
        );
    }

    // CONFIG-47
    #[test]
    fn a_command_that_gives_no_key_is_named_without_its_output() {
        assert_eq!(key("true"), Err(Trouble::Nothing));
        assert_eq!(key("printf '\\nsecond'"), Err(Trouble::Nothing));
        for output in ["a\\033[2Jb", "two words", "\\377\\376", "a\\000b", "schlüssel"] {
            assert_eq!(key(&format!("printf '{output}'")), Err(Trouble::Unusable), "{output}");
        }
        assert!(matches!(key("echo sk-then-a-failure; exit 1"), Err(Trouble::Failed(_))));
        assert!(matches!(key("echo sk-then-a-signal; kill -9 $$"), Err(Trouble::Failed(_))));
        let missing = UserCommand::new(vec!["/nonexistent/pass".into()]).unwrap();
        let missing = first_line(&missing, LONGEST, &AtomicBool::new(false));
        assert_eq!(missing, Err(NoOutput::NotStarted(io::ErrorKind::NotFound).into()));
    }

    // CONFIG-47
    #[test]
    fn a_command_that_floods_or_hangs_is_killed_with_its_children() {
        assert_eq!(key("yes"), Err(NoOutput::TooMuch.into()));
        assert_eq!(key("yes | cat"), Err(NoOutput::TooMuch.into()));
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let second = Duration::from_secs(1);
        assert_eq!(run(&script, second), Err(NoOutput::TooSlow(second).into()));
        let pid: u32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        while !matches!(act_core::process::look_up(pid), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    // CONFIG-47
    #[test]
    fn a_process_that_stays_behind_holds_nothing_up() {
        let began = Instant::now();
        assert_eq!(key("sleep 30 & echo sk-of-a-command-2").as_deref(), Ok("sk-of-a-command-2"));
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    // CONFIG-47
    #[tokio::test]
    async fn a_key_of_a_command_is_redacted_and_never_printed() {
        let words = ["/bin/sh", "-c", "echo sk-of-a-command-3"].map(str::to_owned).to_vec();
        let command = UserCommand::new(words).unwrap();
        assert!(!format!("{command:?}").contains("sk-of-a-command-3"));
        let key = read(&command).await.unwrap();
        assert_eq!(format!("{key:?}"), "[redacted]");
        let text =
            act_core::secret::Secrets::default().redact("x sk-of-a-command-3 y").into_owned();
        assert_eq!(text, "x [redacted] y");
        let broken = UserCommand::new(vec!["/bin/false".into(), "sk-argument".into()]).unwrap();
        let message = read(&broken).await.unwrap_err().message;
        assert!(
            message.contains("`/bin/false`") && message.contains("exit status: 1"),
            "{message}"
        );
        assert!(!message.contains("sk-argument"), "{message}");
    }
}
