//! The key of a request: a value, or a command of the user that prints it.
//!
//! The command runs when the first request needs the key, without a shell and outside of the repository. Its output is
//! never logged: only the first line of its standard output is used, and that line is a [`Secret`] from then on.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
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
    /// `PATH` without the directories that the repository or everybody can change; `None` leaves it as it is.
    path: Option<OsString>,
}

/// Why a command must not run: it, or a part of it, runs a file that others than the user decide about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnfitCommand {
    #[error("would use a file of the repository, which a task can change: {}", .0.display())]
    InRepository(PathBuf),
    #[error("would use a file that everybody can change: {}", .0.display())]
    Writable(PathBuf),
}

/// Maximum number of interpreters that are followed: the kernel follows four scripts.
const MAX_INTERPRETERS: usize = 5;
/// Maximum length of the first line of a script, in bytes, as the kernel reads it.
const FIRST_LINE: u64 = 256;

impl KeyCommand {
    /// Takes a program and its arguments. The program is a name that `PATH` finds or an absolute path, so that no file of
    /// the repository in use can take its place. Returns `None` for any other program, and for a NUL character.
    pub fn new(words: Vec<String>) -> Option<Self> {
        let program = words.first()?;
        let fits = !program.is_empty() && (program.starts_with('/') || !program.contains('/'));
        (fits && !words.iter().any(|word| word.contains('\0'))).then_some(Self {
            words,
            file: None,
            path: None,
        })
    }

    /// Finds the file of the program in `path`, which has the form of `PATH`, and returns the command with it, so that no
    /// file that appears later takes its place. A program that is not found stays as it is. Arguments are looked at as well,
    /// because `sh` and `env` run theirs, and so are the interpreters of scripts.
    ///
    /// # Errors
    ///
    /// A file of the command, which is returned, lies in the repository, where a model can change it, or everybody can write
    /// it.
    pub fn found_outside_of(
        self,
        repo: Option<&Path>,
        path: Option<&OsStr>,
    ) -> Result<Self, UnfitCommand> {
        let places = Places { repo: repo.map(real), path };
        let [program, arguments @ ..] = self.words.as_slice() else { return Ok(self) };
        let file = places.find(program);
        if let Some(file) = &file {
            places.check(file, MAX_INTERPRETERS)?;
        }
        for argument in arguments {
            places.check_text(argument, MAX_INTERPRETERS)?;
        }
        let path = places.sound_path();
        Ok(Self { file, path, ..self })
    }

    /// Returns the program without its arguments, which may be private.
    pub fn program(&self) -> &str {
        self.words.first().map(String::as_str).unwrap_or_default()
    }

    /// Runs the command and returns the key. If the future is dropped, the command is killed.
    pub(super) async fn read(&self) -> Result<Secret, ModelError> {
        let stop = StopOnDrop::default();
        let (mut words, stopped) = (self.words.clone(), Arc::clone(&stop.0));
        let path = self.path.clone();
        if let (Some(file), Some(program)) = (&self.file, words.first_mut())
            && let Some(file) = file.to_str()
        {
            file.clone_into(program);
        }
        let read = tokio::task::spawn_blocking(move || {
            first_line(&words, path.as_deref(), LONGEST, &stopped)
        })
        .await;
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

/// Where the files of a command may be.
struct Places<'a> {
    repo: Option<PathBuf>,
    /// `PATH`.
    path: Option<&'a OsStr>,
}

impl Places<'_> {
    /// Returns the directories of `PATH`. The command starts in the root directory, so a relative entry means a directory
    /// there.
    fn directories(&self) -> impl Iterator<Item = PathBuf> {
        let entries = self.path.into_iter().flat_map(std::env::split_paths);
        entries.map(|entry| Path::new("/").join(entry))
    }

    /// Returns the file that a word means as a program: a path, or a name that `PATH` finds.
    fn find(&self, word: &str) -> Option<PathBuf> {
        let is_program = |file: &PathBuf| {
            let status = std::fs::metadata(file);
            status.is_ok_and(|status| status.is_file() && status.permissions().mode() & 0o111 != 0)
        };
        match word.contains('/') {
            true => Some(Path::new("/").join(word)),
            false if word.is_empty() => None,
            false => self.directories().map(|entry| entry.join(word)).find(is_program),
        }
    }

    /// Refuses a file in the repository, one that everybody can write, and a script with such an interpreter.
    fn check(&self, file: &Path, more: usize) -> Result<(), UnfitCommand> {
        let real_file = real(file);
        if let Some(repo) = &self.repo
            && [file, &real_file].into_iter().any(|file| file.starts_with(repo))
        {
            return Err(UnfitCommand::InRepository(file.to_owned()));
        }
        if !real_file.is_file() {
            return Ok(());
        }
        if is_writable_by_everybody(&real_file) {
            return Err(UnfitCommand::Writable(file.to_owned()));
        }
        match interpreter(&real_file) {
            Some(line) if more > 0 => self.check_text(&line, more - 1),
            _ => Ok(()),
        }
    }

    /// Checks each word of a text that means a file. The words are those between blanks and signs of shell syntax.
    fn check_text(&self, text: &str, more: usize) -> Result<(), UnfitCommand> {
        let ends = |c: char| c.is_whitespace() || ";|&()<>\"'`=,:".contains(c);
        let home = std::env::var("HOME").unwrap_or_default();
        for word in text.split(ends) {
            let of_home = ["~/", "$HOME/", "${HOME}/"];
            let of_home = of_home.iter().find_map(|start| word.strip_prefix(start));
            let word =
                of_home.map_or(Cow::Borrowed(word), |rest| Cow::Owned(format!("{home}/{rest}")));
            if let Some(file) = self.find(&word) {
                self.check(&file, more)?;
            }
        }
        Ok(())
    }

    /// Returns `PATH` without the directories that somebody else decides about.
    fn sound_path(&self) -> Option<OsString> {
        let is_sound = |directory: &PathBuf| {
            let directory = real(directory);
            !self.repo.as_ref().is_some_and(|repo| directory.starts_with(repo))
                && !is_writable_by_everybody(&directory)
        };
        self.path?;
        std::env::join_paths(self.directories().filter(is_sound)).ok()
    }
}

/// Returns a path without links, or the path itself if it does not exist.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns whether everybody can write a file or a directory, or can put another one in its place. The names in a directory
/// with the sticky bit, as `/tmp` has it, are safe.
fn is_writable_by_everybody(real: &Path) -> bool {
    let mode =
        |path: &Path| std::fs::metadata(path).map_or(0, |status| status.permissions().mode());
    let replaceable = |directory: &Path| mode(directory) & 0o1002 == 0o002;
    mode(real) & 0o002 != 0 || real.ancestors().skip(1).any(replaceable)
}

/// Returns the first line of a script without `#!`.
fn interpreter(file: &Path) -> Option<String> {
    let mut first = vec![];
    std::fs::File::open(file).ok()?.take(FIRST_LINE).read_to_end(&mut first).ok()?;
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

impl fmt::Debug for KeyCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyCommand({:?} ..)", self.program())
    }
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
    path: Option<&OsStr>,
    longest: Duration,
    stopped: &AtomicBool,
) -> Result<Secret, Trouble> {
    let [program, arguments @ ..] = words else { return Err(Trouble::Nothing) };
    let end = Instant::now() + longest;
    // A relative entry of PATH means nothing in the repository, because the command starts in the root directory.
    let started = Command::new(program)
        .args(arguments)
        .envs(path.map(|path| ("PATH", path)))
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
        first_line(&words, None, longest, &AtomicBool::new(false))
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
        let refused = |file: &Path| Err(UnfitCommand::InRepository(file.to_owned()));
        assert_eq!(found("pass", &[&repo, &other]), refused(&inside));
        assert_eq!(found(inside.to_str().unwrap(), &[]), refused(&inside));
        assert_eq!(found("link", &[&other]), refused(&other.join("link")));
        let pinned = found("pass", &[&other, &repo]).unwrap();
        assert_eq!(pinned.program(), "pass");
        assert_eq!(pinned.file, Some(other.join("pass")));
        assert_eq!(found("unknown", &[&repo, &other]).unwrap().file, None);
        let sound = std::env::join_paths([&other]).unwrap();
        assert_eq!(pinned.path, Some(sound), "the command finds nothing of the repository either");
    }

    // CONFIG-47
    #[test]
    fn a_program_behind_another_one_is_refused_as_well() {
        let temp = tempfile::tempdir().unwrap();
        let (repo, bin) = (temp.path().join("repo"), temp.path().join("bin"));
        let file = |path: &Path, text: &str, mode: u32| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let own = repo.join("pass");
        file(&own, "#!/bin/sh\n", 0o755);
        file(&repo.join("notes.txt"), "x", 0o644);
        file(&bin.join("pass"), "#!/bin/sh\n", 0o755);
        file(&bin.join("script"), &format!("#!{}\n", own.display()), 0o755);
        file(&bin.join("by-env"), "#!/usr/bin/env -S only-here -x\n", 0o755);
        file(&repo.join("only-here"), "#!/bin/sh\n", 0o755);
        file(&bin.join("open"), "#!/bin/sh\n", 0o777);
        file(&temp.path().join("open/pass"), "#!/bin/sh\n", 0o755);
        let open = temp.path().join("open");
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        let path = std::env::join_paths([&bin, &repo]).unwrap();
        let checked = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            KeyCommand::new(words).unwrap().found_outside_of(Some(&repo), Some(&path))
        };
        let own = own.to_str().unwrap();
        for words in [
            vec!["/bin/sh", "-c", own],
            vec!["/bin/sh", "-c", &format!("x=1 exec '{own}' --quiet")],
            vec!["/usr/bin/env", own],
            vec!["/usr/bin/env", "-i", "A=b", "only-here"],
            vec!["/bin/sh", "-c", "true; only-here | head -1"],
            vec!["/bin/cat", &format!("{own}/../notes.txt")],
            vec!["script"],
            vec!["by-env"],
            vec!["/bin/sh", bin.join("script").to_str().unwrap()],
        ] {
            let unfit = checked(&words);
            assert!(matches!(unfit, Err(UnfitCommand::InRepository(_))), "{words:?}: {unfit:?}");
        }
        let replaceable = open.join("pass");
        for words in [
            vec!["open"],
            vec!["/bin/sh", "-c", "open"],
            vec!["/usr/bin/env", replaceable.to_str().unwrap()],
        ] {
            let unfit = checked(&words);
            assert!(matches!(unfit, Err(UnfitCommand::Writable(_))), "{words:?}: {unfit:?}");
        }
        for words in [
            vec!["pass", "show", "llm/key"],
            vec!["/bin/sh", "-c", "pass show key 2>/dev/null"],
            vec!["/usr/bin/env", "A=/etc/hostname", "pass"],
        ] {
            assert!(checked(&words).is_ok(), "{words:?}");
        }
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
        let missing =
            first_line(&["/nonexistent/pass".into()], None, LONGEST, &AtomicBool::new(false));
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
