//! The key of a request: a value, or a command of the user that prints it.
//!
//! The command runs when the first request needs the key, without a shell and outside of the repository. Its output is
//! never logged: only the first line of its standard output is used, and that line is a [`Secret`] from then on.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{ModelError, ModelErrorKind};
use act_core::secret::Secret;

/// Maximum time of the command. A password manager that asks a person first has to be unlocked before the task.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum number of bytes that the command may print. A key has some hundred.
const MAX_OUTPUT: usize = 64 << 10;
/// Maximum wait for the rest of the output after the command has ended. A process that it left behind may hold the pipe.
const LAST_BYTES: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// Where the key of a server comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Value(Secret),
    Command(KeyCommand),
}

/// A command, as a program and its arguments, that prints a key.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyCommand {
    /// The words of the user.
    words: Vec<String>,
    /// The file of the program, where it was found.
    file: Option<PathBuf>,
}

impl KeyCommand {
    /// Takes a program and its arguments. The program is a name that `PATH` finds or an absolute path, so that no file of
    /// the repository in use can take its place. Returns `None` for any other program, and for a NUL character.
    pub fn new(words: Vec<String>) -> Option<Self> {
        let program = words.first()?;
        let fits = !program.is_empty() && (program.starts_with('/') || !program.contains('/'));
        (fits && !words.iter().any(|word| word.contains('\0')))
            .then_some(Self { words, file: None })
    }

    /// Finds the file of the program in `path`, which has the form of `PATH`, and returns the command with it, so that no
    /// file that appears later takes its place. A program that is not found stays as it is.
    ///
    /// # Errors
    ///
    /// The file, which is returned, lies in the repository, where a model can change it.
    pub fn found_outside_of(
        self,
        repo: Option<&Path>,
        path: Option<&OsStr>,
    ) -> Result<Self, PathBuf> {
        let program = Path::new(self.program());
        let is_program = |file: &PathBuf| {
            let status = std::fs::metadata(file);
            status.is_ok_and(|status| status.is_file() && status.permissions().mode() & 0o111 != 0)
        };
        let file = match program.is_absolute() {
            true => Some(program.to_owned()),
            // The command starts in the root directory, so a relative entry means a directory there.
            false => path.and_then(|path| {
                let entries = std::env::split_paths(path).map(|entry| Path::new("/").join(entry));
                entries.map(|entry| entry.join(program)).find(is_program)
            }),
        };
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if let (Some(file), Some(repo)) = (&file, repo) {
            let repo = real(repo);
            if file.starts_with(&repo) || real(file).starts_with(&repo) {
                return Err(file.clone());
            }
        }
        Ok(Self { file, ..self })
    }

    /// Returns the program without its arguments, which may be private.
    pub fn program(&self) -> &str {
        self.words.first().map(String::as_str).unwrap_or_default()
    }

    /// Runs the command and returns the key. If the future is dropped, the command is killed.
    pub(super) async fn read(&self) -> Result<Secret, ModelError> {
        let stop = StopOnDrop::default();
        let (mut words, stopped) = (self.words.clone(), Arc::clone(&stop.0));
        if let (Some(file), Some(program)) = (&self.file, words.first_mut())
            && let Some(file) = file.to_str()
        {
            file.clone_into(program);
        }
        let read = tokio::task::spawn_blocking(move || first_line(&words, LONGEST, &stopped)).await;
        let read = read.unwrap_or(Err(Trouble::Stopped));
        read.map_err(|trouble| {
            let program = self.program().escape_debug();
            let message = format!(
                "the command `{program}` of `key_command` in config.toml {trouble}; run it by hand to see why"
            );
            ModelError::new(ModelErrorKind::Rejected, message)
        })
    }
}

impl fmt::Debug for KeyCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyCommand({:?} ..)", self.program())
    }
}

/// Tells the thread with the command that nobody waits for it any more.
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
    #[error("cannot be started: {0}")]
    NotStarted(io::ErrorKind),
    #[error("did not end within {} s", LONGEST.as_secs())]
    TooSlow,
    #[error("printed more than {MAX_OUTPUT} bytes")]
    TooMuch,
    #[error("failed ({0})")]
    Failed(ExitStatus),
    #[error("printed no key: the first line of its standard output is empty")]
    Nothing,
    #[error("printed a first line with characters that a key cannot have")]
    Unusable,
    #[error("was stopped")]
    Stopped,
}

/// A process and all that it started, unless they left its process group.
struct Group(Child);

impl Group {
    fn kill(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn first_line(
    words: &[String],
    longest: Duration,
    stopped: &AtomicBool,
) -> Result<Secret, Trouble> {
    let [program, arguments @ ..] = words else { return Err(Trouble::Nothing) };
    let end = Instant::now() + longest;
    // A relative entry of PATH means nothing in the repository, because the command starts in the root directory.
    let started = Command::new(program)
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = Group(started.map_err(|error| Trouble::NotStarted(error.kind()))?);
    let output = Arc::new(Output::default());
    if let Some(pipe) = child.0.stdout.take() {
        let output = Arc::clone(&output);
        std::thread::spawn(move || output.fill(pipe));
    }
    let status = loop {
        let ended = child.0.try_wait().map_err(|error| Trouble::NotStarted(error.kind()));
        let trouble = match ended {
            Ok(Some(status)) => break status,
            Err(trouble) => trouble,
            Ok(None) if output.is_full() => Trouble::TooMuch,
            Ok(None) if stopped.load(Ordering::Relaxed) => Trouble::Stopped,
            Ok(None) if Instant::now() >= end => Trouble::TooSlow,
            Ok(None) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        child.kill();
        return Err(trouble);
    };
    let last = Instant::now() + LAST_BYTES;
    while !output.ended.load(Ordering::Acquire) && Instant::now() < last {
        std::thread::sleep(PAUSE);
    }
    if output.is_full() {
        return Err(Trouble::TooMuch);
    }
    if !status.success() {
        return Err(Trouble::Failed(status));
    }
    key_of(&output.bytes())
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

/// The bytes that the command has printed so far, at most one more than [`MAX_OUTPUT`].
#[derive(Default)]
struct Output {
    bytes: Mutex<Vec<u8>>,
    ended: AtomicBool,
}

impl Output {
    fn fill(&self, mut pipe: impl Read) {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = pipe.read(&mut piece) {
            let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            let room = (MAX_OUTPUT + 1).saturating_sub(bytes.len());
            bytes.extend_from_slice(&piece[..read.min(room)]);
            if bytes.len() > MAX_OUTPUT {
                break;
            }
        }
        self.ended.store(true, Ordering::Release);
    }

    fn is_full(&self) -> bool {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).len() > MAX_OUTPUT
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, longest: Duration) -> Result<Secret, Trouble> {
        let words = ["/bin/sh", "-c", script].map(str::to_owned);
        first_line(&words, longest, &AtomicBool::new(false))
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
    fn a_program_in_the_repository_is_refused_however_it_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let (repo, other) = (temp.path().join("repo"), temp.path().join("bin"));
        for directory in [&repo, &other] {
            std::fs::create_dir(directory).unwrap();
            let file = directory.join("pass");
            std::fs::write(&file, "#!/bin/sh\necho sk-1\n").unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink(repo.join("pass"), other.join("link")).unwrap();
        let path = |entries: &[&Path]| std::env::join_paths(entries).unwrap();
        let found = |program: &str, entries: &[&Path]| {
            let command = KeyCommand::new(vec![program.to_owned()]).unwrap();
            command.found_outside_of(Some(&repo), Some(&path(entries)))
        };
        let inside = repo.join("pass");
        assert_eq!(found("pass", &[&repo, &other]), Err(inside.clone()));
        assert_eq!(found(inside.to_str().unwrap(), &[]), Err(inside));
        assert_eq!(found("link", &[&other]), Err(other.join("link")));
        let pinned = found("pass", &[&other, &repo]).unwrap();
        assert_eq!(pinned.program(), "pass");
        assert_eq!(pinned.file, Some(other.join("pass")));
        assert_eq!(found("unknown", &[&repo, &other]).unwrap().file, None);
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
        let missing = first_line(&["/nonexistent/pass".into()], LONGEST, &AtomicBool::new(false));
        assert_eq!(missing, Err(Trouble::NotStarted(io::ErrorKind::NotFound)));
    }

    // CONFIG-47
    #[test]
    fn a_command_that_floods_or_hangs_is_killed_with_its_children() {
        assert_eq!(key("yes"), Err(Trouble::TooMuch));
        assert_eq!(key("yes | cat"), Err(Trouble::TooMuch));
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        assert_eq!(run(&script, Duration::from_secs(1)), Err(Trouble::TooSlow));
        let pid: u32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        while !matches!(act_core::process::look_up(pid), Ok(None)) {
            std::thread::sleep(PAUSE);
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
        let command = KeyCommand::new(words).unwrap();
        assert!(!format!("{command:?}").contains("sk-of-a-command-3"));
        let key = command.read().await.unwrap();
        assert_eq!(format!("{key:?}"), "[redacted]");
        let text =
            act_core::secret::Secrets::default().redact("x sk-of-a-command-3 y").into_owned();
        assert_eq!(text, "x [redacted] y");
        let broken = KeyCommand::new(vec!["/bin/false".into(), "sk-argument".into()]).unwrap();
        let message = broken.read().await.unwrap_err().message;
        assert!(
            message.contains("`/bin/false`") && message.contains("exit status: 1"),
            "{message}"
        );
        assert!(!message.contains("sk-argument"), "{message}");
    }

    // CONFIG-47
    #[test]
    fn a_program_is_a_name_or_an_absolute_path() {
        for program in ["", "./pass", "bin/pass", "../pass", "pa\0ss"] {
            assert_eq!(KeyCommand::new(vec![program.to_owned()]), None, "{program:?}");
        }
        assert_eq!(KeyCommand::new(vec![]), None);
        assert!(KeyCommand::new(vec!["pass".into(), "show".into(), "./x".into()]).is_some());
    }
}
