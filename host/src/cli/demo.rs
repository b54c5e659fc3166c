//! `act demo`: a whole task on a small repository, with a model that follows a script.
//!
//! The demo prepares a directory and an image, and then runs the program again for the task itself: the environment of
//! that process names the demo's own directories, and its model plays the script. Real Scouts, file tools and containers
//! do the rest.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha256};
use similar::TextDiff;
use tar::{Builder, EntryType, Header};
use tokio::signal::unix::{SignalKind, signal};

use super::{Color, CommonOptions, block_on};
use crate::output::{Line, Output, Tone};
use act_core::Failure;
use act_core::exit::Exit;
use act_model::scripted::Script;
use act_task::{self as task, Mode, Place, RunArgs, TaskId};
use act_verifier::Engine;

const AFTER_HELP: &str = "\
Examples:
  act demo
  act demo --verbose

Exit codes:
  those of the task: 0 SUCCESS, 1 the demo could not be set up, 3 STUCK,
  4 INFRA_ERROR, 130 CANCELLED";

/// Watch a whole task with a scripted model
///
/// Creates a repository with a real bug in a temporary directory and runs an ordinary task on it. The first attempt
/// fails, the second passes. The demo needs Docker, but no key. Its image is built from a static busybox of this machine,
/// without network or registry; where there is none, busybox:stable is pulled.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Demo {
    /// Show everything that `act run --verbose` shows
    #[arg(short, long)]
    verbose: bool,
}

impl Demo {
    pub(super) fn run(self, color: Color, output: &Output) -> Result<Exit, Failure> {
        let say = |text: String| output.progress(&Line::of(Tone::Faint, text));
        let image = match LocalImage::find() {
            Some(image) => {
                let reference = image.reference();
                block_on(provide(image))??;
                reference
            }
            None => {
                say(format!("No static busybox on this machine; the task pulls {}.", FALLBACK));
                FALLBACK.to_owned()
            }
        };
        let directory = DemoDirectory::create(&std::env::temp_dir(), TaskId::random().as_str())
            .map_err(|error| set_up_failed("failed to make a temporary directory", &error))?;
        say(format!(
            "Demo in {}: the model is scripted, everything else is real.",
            directory.root.display()
        ));
        directory
            .fill(&image)
            .map_err(|error| set_up_failed("failed to write the repository", &error))?;
        let program = std::env::current_exe()
            .map_err(|error| set_up_failed("failed to find the program itself", &error))?;
        let task =
            command(&program, arguments(&directory.repository(), color, self.verbose), &directory);
        let end = block_on(run(task))?
            .map_err(|error| set_up_failed("failed to run the task", &error))?;
        match exit_of(end.code()) {
            Exit::Ok => show(&directory, output),
            other => {
                say(format!("The demo did not succeed; look into {}.", directory.root.display()));
                Ok(other)
            }
        }
    }
}

/// The task of the demo, in a process of its own; a hidden command that only `act demo` starts
#[derive(Debug, clap::Args)]
pub(super) struct DemoTask {
    #[command(flatten)]
    common: CommonOptions,
    #[arg(short, long)]
    verbose: bool,
}

impl DemoTask {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let args = RunArgs {
            text: TASK.to_owned(),
            repo: self.common.repo,
            allow_paths: vec![],
            allow_test_changes: vec![],
            max_tokens: None,
            max_cost: None,
            no_agents_md: false,
            engine: None,
            mode: Mode::Run { baseline: false },
            place: Place::Here,
            script: Some(script()?),
        };
        block_on(task::run(args, output.sinks()))?
    }
}

fn arguments(repository: &Path, color: Color, verbose: bool) -> Vec<OsString> {
    let color =
        color.to_possible_value().map_or_else(String::new, |word| word.get_name().to_owned());
    let mut arguments: Vec<OsString> =
        ["--color", &color, "demo-task", "--repo"].map(Into::into).into();
    arguments.push(repository.into());
    arguments.extend(verbose.then(|| "--verbose".into()));
    arguments
}

/// Returns the exit code of the task, which is also that of the demo.
fn exit_of(code: Option<i32>) -> Exit {
    code.and_then(|code| u8::try_from(code).ok()).map_or(Exit::Refused, Exit::of)
}

/// Prints the change and the runs of the demo.
fn show(directory: &DemoDirectory, output: &Output) -> Result<Exit, Failure> {
    let after = std::fs::read_to_string(directory.repository().join(SOURCE))
        .map_err(|error| set_up_failed("failed to read the changed file", &error))?;
    let runs = runs(&directory.artifacts());
    let closing = closing(&runs, &directory.root).ok_or_else(|| {
        let place = directory.artifacts();
        Failure::refused(
            "demo_unproven",
            format!("no passed run is recorded in {}", place.display()),
        )
        .hint("this is a defect of act; please report it with that directory")
    })?;
    output.result_line(&Line::default());
    for line in difference(SOURCE, BEFORE, &after).lines() {
        output.result_line(&Line::of(tone(line), line));
    }
    output.result(&format!("\n{closing}"));
    Ok(Exit::Ok)
}

fn tone(line: &str) -> Tone {
    match line.as_bytes().first() {
        Some(b'+') => Tone::Good,
        Some(b'-') => Tone::Bad,
        _ => Tone::Plain,
    }
}

fn set_up_failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::refused("demo_failed", format!("{what}: {error}"))
        .hint("TMPDIR may name another directory for it")
}

/// Variables that select a real model. The task plays a script, so they are removed from its environment.
const FOREIGN: [&str; 7] = [
    "AGENT_LLM_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "AGENT_LLM_MODEL",
    "AGENT_LLM_TOOLS",
];

fn command(program: &Path, arguments: Vec<OsString>, directory: &DemoDirectory) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    for name in FOREIGN {
        command.env_remove(name);
    }
    command
        .env("AGENT_ARTIFACT_DIR", directory.artifacts())
        // The user's own components and approvals take no part in the demo.
        .env("XDG_CONFIG_HOME", directory.config())
        // With a process group of its own, the child gets each signal once: from this process.
        .process_group(0);
    command
}

/// Waits for the end of the process. Signals are passed on to it, and it decides how to end.
async fn run(mut command: Command) -> io::Result<ExitStatus> {
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

/// Loads the image into the engine, unless the engine has it already.
async fn provide(image: LocalImage) -> Result<(), Failure> {
    let engine = Engine::connect().await.map_err(|error| {
        let message = format!("Docker unavailable: tried {}: {}", error.host, error.why);
        Failure::refused("docker_unavailable", message).hint(error.hint)
    })?;
    engine.import_image(LocalImage::NAME, &image.tag, image.archive).await.map_err(|error| {
        Failure::refused("demo_failed", error.message)
            .hint("look at the engine's log and its free space")
    })
}

/// Returns the replies of the model.
fn script() -> Result<Script, Failure> {
    Script::from_yaml(include_str!("demo.yaml")).map_err(|error| {
        Failure::refused("demo_failed", format!("failed to read the script of the model: {error}"))
            .hint("this is a defect of act; please report it")
    })
}

/// A run, as its manifest records it.
#[derive(Debug, PartialEq, Eq)]
struct RecordedRun {
    run_id: String,
    status: String,
}

/// Returns the difference as git shows it.
fn difference(name: &str, before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    diff.unified_diff().header(&format!("a/{name}"), &format!("b/{name}")).to_string()
}

/// Returns all runs below `artifacts`, oldest first. Directories without a readable manifest are left out.
fn runs(artifacts: &Path) -> Vec<RecordedRun> {
    let Ok(directory) = std::fs::read_dir(artifacts.join("runs")) else { return vec![] };
    let mut runs: Vec<_> = directory
        .filter_map(|entry| {
            let manifest = std::fs::read(entry.ok()?.path().join("manifest.json")).ok()?;
            let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
            let text = |name: &str| manifest.get(name)?.as_str().map(str::to_owned);
            Some((
                text("timestamp_start")?,
                RecordedRun { run_id: text("run_id")?, status: text("status")? },
            ))
        })
        .collect();
    // Runs that started in the same second are ordered by status: the failure was before the run that ended the task.
    runs.sort_by(|(a_start, a), (b_start, b)| (a_start, &a.status).cmp(&(b_start, &b.status)));
    runs.into_iter().map(|(_, run)| run).collect()
}

/// Returns the last lines of the demo; the very last names the run that passed. `None` without such a run.
fn closing(runs: &[RecordedRun], place: &Path) -> Option<String> {
    let green = runs.iter().rfind(|run| run.status == "PASS")?;
    let attempts: Vec<_> = runs
        .iter()
        .zip(1..)
        .map(|(run, attempt)| format!("  attempt {attempt}: {:4}  {}", run.status, run.run_id))
        .collect();
    Some(format!(
        "Verification\n{}\n\n\
         The model was scripted; Scouts, file tools and containers were real. It ran nothing on this machine: the steps \
         of agent.yaml ran\nin fresh containers, and a model may also run single commands there (`check`), without network, \
         .git and secrets.\nWith a real model:\n  \
         export AGENT_LLM_BASE_URL=http://127.0.0.1:11434/v1 AGENT_LLM_MODEL=NAME   (any Chat Completions \
         server)\n  act run \"what you want done\"                    (in a repository with an agent.yaml)\n\n\
         Repository  {}\nSnapshots   {}\nLogs        {}\nVerified by {}\n",
        attempts.join("\n"),
        place.join("repository").display(),
        place.join("repository/agent").display(),
        place.join("artifacts/runs").join(&green.run_id).join("logs").display(),
        green.run_id,
    ))
}

// The image: a static busybox of this machine in a tar archive, so that the demo needs no registry. The digest of the
// archive is its tag, under which an engine finds the image again.

/// Pulled by the task when this machine has no static busybox.
const FALLBACK: &str = "busybox:stable";

/// Largest program in bytes. A busybox has about 2 MB; a far larger file is another program.
const MAX_PROGRAM: u64 = 16 << 20;

/// Programs that shell scripts use.
const APPLETS: [&str; 34] = [
    "ash", "awk", "basename", "cat", "chmod", "cp", "cut", "date", "dirname", "echo", "env",
    "expr", "false", "find", "grep", "head", "id", "ls", "mkdir", "mv", "printf", "pwd", "rm",
    "sed", "sh", "sleep", "sort", "tail", "test", "touch", "tr", "true", "uname", "wc",
];

struct LocalImage {
    tag: String,
    archive: Vec<u8>,
}

impl LocalImage {
    const NAME: &str = "agent-command-tool/demo";

    fn reference(&self) -> String {
        format!("{}:{}", Self::NAME, self.tag)
    }

    /// Builds the image from the first static busybox of this machine, if there is one.
    fn find() -> Option<Self> {
        candidates(std::env::var_os("PATH").as_deref()).iter().find_map(|path| {
            let program = read_program(path)?;
            is_static_elf(&program).then(|| Self::of(&program).ok())?
        })
    }

    fn of(program: &[u8]) -> io::Result<Self> {
        let archive = archive(program)?;
        let digest = Sha256::digest(&archive);
        let tag = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { tag, archive })
    }
}

fn candidates(path: Option<&std::ffi::OsStr>) -> Vec<PathBuf> {
    let on_path = path.map(std::env::split_paths).into_iter().flatten();
    // The usual directories are first, because their files belong to the system.
    ["/bin", "/usr/bin", "/sbin", "/usr/sbin"]
        .into_iter()
        .map(PathBuf::from)
        .chain(on_path.filter(|directory| directory.is_absolute()))
        .flat_map(|directory| ["busybox", "busybox-static"].map(|name| directory.join(name)))
        .collect()
}

fn read_program(path: &Path) -> Option<Vec<u8>> {
    let about = std::fs::metadata(path).ok()?;
    (about.is_file() && about.len() <= MAX_PROGRAM).then(|| std::fs::read(path).ok())?
}

/// Returns whether the file is a little-endian ELF program, 32 or 64 bits, without an interpreter: it needs no libraries.
fn is_static_elf(program: &[u8]) -> bool {
    const PT_INTERP: u64 = 3;
    let (table, entry_size, entries) = match program.get(..6) {
        Some(b"\x7fELF\x02\x01") => {
            (number(program, 32, 8), number(program, 54, 2), number(program, 56, 2))
        }
        Some(b"\x7fELF\x01\x01") => {
            (number(program, 28, 4), number(program, 42, 2), number(program, 44, 2))
        }
        _ => return false,
    };
    let (Some(table), Some(size), Some(entries)) = (table, entry_size, entries) else {
        return false;
    };
    entries > 0
        && (0..entries).all(|entry| {
            let at = entry.checked_mul(size).and_then(|offset| table.checked_add(offset));
            let kind =
                at.and_then(|at| usize::try_from(at).ok()).and_then(|at| number(program, at, 4));
            kind.is_some_and(|kind| kind != PT_INTERP)
        })
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// A root file system with one program under many names. Times and owners are fixed.
fn archive(program: &[u8]) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(vec![]);
    let mut add = |path: &str, kind: EntryType, mode: u32, content: &[u8]| {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, path, content)
    };
    add("bin/", EntryType::Directory, 0o755, b"")?;
    add("bin/busybox", EntryType::Regular, 0o755, program)?;
    add("etc/", EntryType::Directory, 0o755, b"")?;
    add("etc/passwd", EntryType::Regular, 0o644, b"root:x:0:0:root:/root:/bin/sh\n")?;
    add("etc/group", EntryType::Regular, 0o644, b"root:x:0:\n")?;
    add("root/", EntryType::Directory, 0o700, b"")?;
    add("tmp/", EntryType::Directory, 0o1777, b"")?;
    for name in APPLETS {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        archive.append_link(&mut header, format!("bin/{name}"), "busybox")?;
    }
    archive.into_inner()
}

// The repository: a shell function with a real bug, a test that finds it, and the part of `.git` that makes it a
// repository, so that git does not have to be installed.

/// The file with the bug.
const SOURCE: &str = "leap.sh";

const BEFORE: &str = "\
# leap YEAR: succeeds if YEAR is a leap year.
leap() {
    [ $(($1 % 4)) -eq 0 ]
}
";

const TEST: &str = r#"# Run by `sh test.sh`; fails if leap.sh is wrong about a year.
. ./leap.sh
failed=0

expect() {
    if leap "$1"; then answer=yes; else answer=no; fi
    if [ "$answer" = "$2" ]; then
        echo "ok: leap $1 is $2"
    else
        echo "FAIL: leap $1 is $answer, expected $2"
        failed=1
    fi
}

expect 2024 yes
expect 2023 no
expect 1900 no
expect 2000 yes
exit $failed
"#;

const GIT_CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
";

const TASK: &str = "\
leap.sh calls 1900 a leap year, so test.sh fails. Fix it.

Constraints:
- do not change test.sh
- plain POSIX shell
";

/// The directory of one demo. It stays, so that the user can look at it.
struct DemoDirectory {
    root: PathBuf,
}

impl DemoDirectory {
    /// Creates a directory below `parent` that no other user can read.
    fn create(parent: &Path, id: &str) -> io::Result<Self> {
        let root = parent.join(format!("act-demo-{}", id.trim_start_matches("t-")));
        DirBuilder::new().mode(0o700).create(&root)?;
        Ok(Self { root })
    }

    fn repository(&self) -> PathBuf {
        self.root.join("repository")
    }

    fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    fn config(&self) -> PathBuf {
        self.root.join("config")
    }

    fn fill(&self, image: &str) -> io::Result<()> {
        let repository = self.repository();
        let git = repository.join(".git");
        for directory in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
            std::fs::create_dir_all(git.join(directory))?;
        }
        let files = [
            (git.join("HEAD"), "ref: refs/heads/main\n"),
            (git.join("config"), GIT_CONFIG),
            (repository.join("agent.yaml"), &configuration(image)),
            (repository.join(SOURCE), BEFORE),
            (repository.join("test.sh"), TEST),
        ];
        files.into_iter().try_for_each(|(path, text)| std::fs::write(path, text))
    }
}

fn configuration(image: &str) -> String {
    format!(
        "verification:\n  container_image: {image}\n  steps:\n    - {{name: test, command: sh test.sh}}\n"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_task_is_started_with_ordinary_arguments() {
        let arguments = arguments(Path::new("/tmp/r"), Color::Never, true);
        let expected = ["--color", "never", "demo-task", "--repo", "/tmp/r", "--verbose"];
        assert_eq!(arguments, expected);
    }

    #[test]
    fn help_says_when_a_registry_is_needed() {
        // CLI-13
        use clap::CommandFactory;
        let program = crate::cli::Cli::command();
        let help = program.find_subcommand("demo").unwrap().clone().render_long_help().to_string();
        let words: Vec<_> = help.split_whitespace().collect();
        let pulled = format!("where there is none, {} is pulled", FALLBACK);
        assert!(words.join(" ").contains(&pulled), "{help}");
    }

    #[test]
    fn the_exit_code_of_the_task_is_that_of_the_demo() {
        for exit in
            [Exit::Ok, Exit::Refused, Exit::Usage, Exit::Stuck, Exit::Infra, Exit::Cancelled]
        {
            assert_eq!(exit_of(Some(exit as i32)), exit);
        }
        assert_eq!(exit_of(None), Exit::Refused);
    }

    #[tokio::test]
    async fn the_child_sees_its_directories_and_no_key() {
        let script = "test -z \"$OPENAI_API_KEY$ANTHROPIC_API_KEY$AGENT_LLM_BASE_URL\" && \
                      test \"$AGENT_ARTIFACT_DIR\" = \"$1/artifacts\" && \
                      test \"$XDG_CONFIG_HOME\" = \"$1/config\" || exit 9; exit 3";
        let parent = tempfile::tempdir().unwrap();
        let directory = DemoDirectory::create(parent.path(), "t-aaaaaa").unwrap();
        let arguments =
            vec!["-c".into(), script.into(), "sh".into(), directory.root.clone().into()];
        let mut command = command(Path::new("/bin/sh"), arguments, &directory);
        let removed = command.get_envs().filter(|(_, value)| value.is_none()).count();
        assert_eq!(removed, FOREIGN.len());
        command.env_remove("OPENAI_API_KEY");
        assert_eq!(run(command).await.unwrap().code(), Some(3));
    }

    #[test]
    fn the_model_of_the_demo_has_a_script() {
        let script = script().unwrap();
        assert_eq!(script.left().into_iter().collect::<Vec<_>>(), [("editor".to_owned(), 7)]);
    }

    fn recorded(run_id: &str, status: &str) -> RecordedRun {
        RecordedRun { run_id: run_id.into(), status: status.into() }
    }

    #[test]
    fn a_difference_looks_like_that_of_git() {
        assert_eq!(
            difference("x", "a\nb\nc\n", "a\nB\nc\n"),
            "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        );
    }

    #[test]
    fn the_last_line_names_the_green_run() {
        let runs = [recorded("run_1", "FAIL"), recorded("run_2", "PASS")];
        let text = closing(&runs, Path::new("/tmp/x")).unwrap();
        assert!(text.contains("  attempt 1: FAIL  run_1\n  attempt 2: PASS  run_2\n"), "{text}");
        assert!(text.ends_with("\nVerified by run_2\n"), "{text}");
        assert_eq!(closing(&runs[..1], Path::new("/tmp/x")), None);
    }

    #[test]
    fn runs_are_read_from_their_manifests_in_order() {
        let artifacts = tempfile::tempdir().unwrap();
        let manifests = [
            ("run_b", "2026-11-21T10:00:02Z", "PASS"),
            ("run_c", "2026-11-21T10:00:02Z", "FAIL"),
            ("run_d", "2026-11-21T10:00:01Z", "FAIL"),
        ];
        for (run_id, start, status) in manifests {
            let directory = artifacts.path().join("runs").join(run_id);
            std::fs::create_dir_all(&directory).unwrap();
            let manifest =
                serde_json::json!({"run_id": run_id, "timestamp_start": start, "status": status});
            std::fs::write(directory.join("manifest.json"), manifest.to_string()).unwrap();
        }
        std::fs::create_dir(artifacts.path().join("runs/unfinished")).unwrap();
        assert_eq!(
            runs(artifacts.path()),
            [recorded("run_d", "FAIL"), recorded("run_c", "FAIL"), recorded("run_b", "PASS")]
        );
        assert_eq!(runs(Path::new("/nonexistent")), []);
    }

    /// The head of a 64-bit program with segments of these kinds.
    fn elf(kinds: &[u32]) -> Vec<u8> {
        let mut program = vec![0; 64];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        program[32] = 64;
        program[54] = 56;
        program[56] = u8::try_from(kinds.len()).unwrap();
        for kind in kinds {
            let mut segment = vec![0; 56];
            segment[..4].copy_from_slice(&kind.to_le_bytes());
            program.extend(segment);
        }
        program
    }

    #[test]
    fn a_program_without_interpreter_is_static() {
        assert!(is_static_elf(&elf(&[1, 1, 4])));
        assert!(!is_static_elf(&elf(&[6, 3, 1])));
    }

    #[test]
    fn what_is_no_whole_program_is_not_taken() {
        assert!(!is_static_elf(b""));
        assert!(!is_static_elf(b"#!/bin/sh\n"));
        assert!(!is_static_elf(&elf(&[])));
        let cut = elf(&[1, 1]);
        assert!(!is_static_elf(&cut[..100]));
        let mut wild = elf(&[1]);
        wild[32..40].fill(0xff);
        assert!(!is_static_elf(&wild));
    }

    #[test]
    fn the_same_program_gets_the_same_tag() {
        let tag = |program: &[u8]| LocalImage::of(program).unwrap().tag;
        assert_eq!(tag(b"program"), tag(b"program"));
        assert_ne!(tag(b"program"), tag(b"another"));
        assert_eq!(tag(b"program").len(), 12);
    }

    #[test]
    fn the_archive_holds_the_program_under_the_names_of_its_applets() {
        let image = LocalImage::of(b"program").unwrap();
        let mut archive = tar::Archive::new(image.archive.as_slice());
        let mut found = std::collections::BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let link = entry.link_name().unwrap().map(|link| link.to_string_lossy().into_owned());
            found.insert(path, (entry.header().mode().unwrap(), link));
        }
        assert_eq!(found["bin/busybox"], (0o755, None));
        assert_eq!(found["bin/sh"], (0o777, Some("busybox".into())));
        assert_eq!(found["tmp/"].0, 0o1777);
    }

    #[test]
    fn only_absolute_directories_are_searched() {
        let found = candidates(Some(std::ffi::OsStr::new("/opt/x:relative:.")));
        assert!(found.contains(&PathBuf::from("/opt/x/busybox-static")));
        assert!(found.iter().all(|path| path.is_absolute()));
    }

    fn test_passes(source: &str) -> (bool, String) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(SOURCE), source).unwrap();
        std::fs::write(directory.path().join("test.sh"), TEST).unwrap();
        let run = Command::new("/bin/sh").arg("test.sh").current_dir(&directory).output().unwrap();
        (run.status.success(), String::from_utf8(run.stdout).unwrap())
    }

    #[test]
    fn the_bug_is_real_and_the_test_finds_it() {
        let (passes, output) = test_passes(BEFORE);
        assert!(!passes && output.contains("FAIL: leap 1900 is yes, expected no"), "{output}");
    }

    #[test]
    fn the_first_idea_of_the_script_fails_and_the_second_is_green() {
        let script: serde_json::Value = serde_yaml::from_str(include_str!("demo.yaml")).unwrap();
        let edits = script["turns"].as_array().unwrap().iter().filter_map(|turn| {
            let call = &turn["call"];
            (call["name"] == "edit_lines").then(|| &call["arguments"])
        });
        let mut lines: Vec<String> = BEFORE.lines().map(str::to_owned).collect();
        let outcomes: Vec<bool> = edits
            .zip(1..)
            .map(|(edit, version)| {
                assert_eq!(
                    (edit["path"].as_str(), edit["expect_version"].as_u64()),
                    (Some(SOURCE), Some(version))
                );
                let edit = &edit["edits"][0];
                let line = usize::try_from(edit["start"].as_u64().unwrap()).unwrap();
                lines[line - 1] = edit["new"].as_str().unwrap().to_owned();
                test_passes(&format!("{}\n", lines.join("\n"))).0
            })
            .collect();
        assert_eq!(outcomes, [false, true]);
    }

    #[test]
    fn the_repository_is_private_and_one_for_git_too() {
        let parent = tempfile::tempdir().unwrap();
        let directory = DemoDirectory::create(parent.path(), "abc").unwrap();
        directory.fill("x:1").unwrap();
        let mode = std::fs::metadata(&directory.root).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(DemoDirectory::create(parent.path(), "abc").is_err());
        let git = |arguments: &[&str]| {
            Command::new("git").args(arguments).current_dir(directory.repository()).output()
        };
        // Where git is installed it must agree.
        if let Ok(status) = git(&["status", "--porcelain", "--untracked-files=all"]) {
            let text = String::from_utf8(status.stdout).unwrap();
            assert_eq!(text, "?? agent.yaml\n?? leap.sh\n?? test.sh\n");
        }
    }
}
