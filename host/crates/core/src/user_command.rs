//! A command that the user names, in `config.toml` or as a helper of Docker's credentials: a program and its arguments, run
//! without a shell.
//!
//! Such a command runs outside of every sandbox, with the rights of the user. So no file of it may lie in the repository, where
//! a task could change it, and none may be one that another user than root and the caller owns or can write. It starts in the
//! root directory, in a process group of
//! its own.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A program and its arguments, as the user wrote them.
#[derive(Clone, PartialEq, Eq)]
pub struct UserCommand {
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
    #[error("would use a file that others can change (`chmod go-w` closes a file or a directory to them): {}", .0.display())]
    Writable(PathBuf),
    #[error("would use a file of user {owner}, who is neither you nor root: {}", .file.display())]
    Foreign { file: PathBuf, owner: u32 },
}

/// The variables that a program of the user gets besides `PATH` where they are set: who the user is, and how a program reaches
/// the desktop. Keys of models are in none of them.
pub const ENVIRONMENT: [&str; 12] = [
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];

/// Maximum number of interpreters that are followed: the kernel follows four scripts.
const MAX_INTERPRETERS: usize = 5;
/// Maximum length of the first line of a script, in bytes, as the kernel reads it.
const FIRST_LINE: u64 = 256;
/// Maximum number of bytes that a command may print where its output is a key or a password, which has some hundred.
const MAX_OUTPUT: usize = 64 << 10;
/// Maximum wait for the rest of the output after the command has ended. A process that it left behind may hold the pipe.
const LAST_BYTES: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

impl UserCommand {
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
    /// A file of the command, which is returned, lies in the repository, where a model can change it, or another user than root
    /// and the caller owns or can write it.
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

    /// Returns `PATH` for the command: without the directories that the repository or everybody can change.
    pub fn path(&self) -> Option<&OsStr> {
        self.path.as_deref()
    }

    /// Returns the command, ready to start in the root directory: a relative entry of `PATH` means nothing in the repository.
    pub fn command(&self) -> Command {
        let [program, arguments @ ..] = self.words.as_slice() else { return Command::new("") };
        let mut command = match &self.file {
            Some(file) => Command::new(file),
            None => Command::new(program),
        };
        command.args(arguments).envs(self.path().map(|path| ("PATH", path)));
        command.current_dir("/").process_group(0);
        command
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

    /// Refuses a file in the repository, one that another user owns or can write, and a script with such an interpreter.
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
        let status = std::fs::metadata(&real_file).ok();
        let owner = status.as_ref().map_or(0, MetadataExt::uid);
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(UnfitCommand::Foreign { file: file.to_owned(), owner });
        }
        let by_group = status.is_some_and(|status| status.permissions().mode() & 0o020 != 0);
        if by_group || is_writable_by_everybody(&real_file) {
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

impl fmt::Debug for UserCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserCommand({:?} ..)", self.program())
    }
}

/// A process that was started with [`UserCommand::command`], and all that it started, unless they left its process group.
#[derive(Debug)]
pub struct ProcessGroup(pub Child);

impl ProcessGroup {
    /// Returns whether the first process has ended. It is not reaped, so that its number still belongs to the group.
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.0)), options);
        !matches!(ended, Ok(None) | Err(rustix::io::Errno::INTR))
    }

    /// Kills the processes of the group, waits for the first one and returns how it ended.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.kill();
        self.0.wait()
    }
}

/// Why a command gave no output. Nothing that it printed is part of it, because that may be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoOutput {
    #[error("cannot be started: {0}")]
    NotStarted(io::ErrorKind),
    #[error("did not end within {} s", .0.as_secs())]
    TooSlow(Duration),
    #[error("printed more than {MAX_OUTPUT} bytes")]
    TooMuch,
    #[error("was stopped")]
    Stopped,
}

impl UserCommand {
    /// Runs the command with `input` as its standard input and without a standard error, and returns how it ended and what it
    /// printed. At `longest`, or when `stopped` is set, it is killed with its process group.
    ///
    /// # Errors
    ///
    /// A [`NoOutput`]: the command cannot be started, does not end in time, or prints more than 64 KiB.
    pub fn output(
        &self,
        input: Vec<u8>,
        longest: Duration,
        stopped: &AtomicBool,
    ) -> Result<(ExitStatus, Vec<u8>), NoOutput> {
        let end = Instant::now() + longest;
        let mut started = self.command();
        let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
        started.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = started.spawn().map_err(|error| NoOutput::NotStarted(error.kind()))?;
        let mut child = ProcessGroup(started);
        if let Some(mut pipe) = child.0.stdin.take() {
            // A command that reads nothing must not hold this thread up.
            std::thread::spawn(move || pipe.write_all(&input));
        }
        let output = Arc::new(Output::default());
        if let Some(pipe) = child.0.stdout.take() {
            let output = Arc::clone(&output);
            std::thread::spawn(move || output.fill(pipe));
        }
        let status = loop {
            let ended = child.0.try_wait().map_err(|error| NoOutput::NotStarted(error.kind()));
            let trouble = match ended {
                Ok(Some(status)) => break status,
                Err(trouble) => trouble,
                Ok(None) if output.is_full() => NoOutput::TooMuch,
                Ok(None) if stopped.load(Ordering::Relaxed) => NoOutput::Stopped,
                Ok(None) if Instant::now() >= end => NoOutput::TooSlow(longest),
                Ok(None) => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
            };
            let _ = child.kill();
            return Err(trouble);
        };
        let last = Instant::now() + LAST_BYTES;
        while !output.ended.load(Ordering::Acquire) && Instant::now() < last {
            std::thread::sleep(PAUSE);
        }
        if output.is_full() {
            return Err(NoOutput::TooMuch);
        }
        Ok((status, output.bytes()))
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
            let command = UserCommand::new(vec![program.to_owned()]).unwrap();
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
        file(&bin.join("of-group"), "#!/bin/sh\n", 0o775);
        file(&temp.path().join("open/pass"), "#!/bin/sh\n", 0o755);
        let open = temp.path().join("open");
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        let path = std::env::join_paths([&bin, &repo]).unwrap();
        let checked = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            UserCommand::new(words).unwrap().found_outside_of(Some(&repo), Some(&path))
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
            vec!["of-group"],
            vec!["/bin/sh", "-c", "of-group"],
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

    // CONFIG-47, NOTIFY-2
    #[test]
    fn a_program_of_another_user_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let program = temp.path().join("pass");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = || {
            let words = vec!["/bin/sh".to_owned(), program.to_str().unwrap().to_owned()];
            UserCommand::new(words).unwrap().found_outside_of(None, None)
        };
        assert!(found().is_ok());
        if std::os::unix::fs::chown(&program, Some(4711), None).is_err() {
            return crate::testing::skip("only root gives a file to another user");
        }
        let foreign = UnfitCommand::Foreign { file: program.clone(), owner: 4711 };
        assert_eq!(found(), Err(foreign));
    }

    // CONFIG-47
    #[test]
    fn a_program_is_a_name_or_an_absolute_path() {
        for program in ["", "./pass", "bin/pass", "../pass", "pa\0ss"] {
            assert_eq!(UserCommand::new(vec![program.to_owned()]), None, "{program:?}");
        }
        assert_eq!(UserCommand::new(vec![]), None);
        assert!(UserCommand::new(vec!["pass".into(), "show".into(), "./x".into()]).is_some());
    }
}
