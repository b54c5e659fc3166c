//! `act demo`: the whole machine on a small repository, with a model that follows a script.
//!
//! The demo prepares a directory and an image, and then runs the program again for the task itself: the environment of
//! that process names the demo's own directories, and its model plays the script. Real Scouts, file tools and containers
//! do the rest.

mod image;
mod repository;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use image::LocalImage;
use repository::Place;
use rustix::process::{Pid, Signal, kill_process};
use similar::TextDiff;
use tokio::signal::unix::{SignalKind, signal};

use super::repo::RepoArg;
use crate::output::{Line, Output, Tone};
use crate::task::{Mode, RunArgs, TaskId};
use act_core::Failure;
use act_core::exit::Exit;
use act_model::scripted::Script;
use act_verifier::Engine;

const AFTER_HELP: &str = "\
Examples:
  act demo
  act demo --verbose

Exit codes:
  those of the task: 0 SUCCESS, 1 the demo could not be set up, 3 STUCK, 4 INFRA_ERROR, 130 CANCELLED";

/// Watch a whole task on a small repository, with a scripted model
///
/// Creates a repository with a real bug in a temporary directory and runs an ordinary task on it. The first attempt
/// fails, the second passes. The demo needs Docker, but no key. Its image is built from a static busybox of this machine,
/// without network or registry; where there is none, busybox:stable is pulled.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Demo {
    /// Show everything that `act run --verbose` shows
    #[arg(short, long)]
    pub(super) verbose: bool,
}

impl Demo {
    pub(super) fn run(self, color: super::Color, output: &Output) -> Result<Exit, Failure> {
        let say = |text: String| output.progress(&Line::of(Tone::Faint, text));
        let image = match LocalImage::find() {
            Some(image) => {
                let reference = image.reference();
                super::runtime::block_on(provide(image))??;
                reference
            }
            None => {
                say(format!(
                    "No static busybox on this machine; the task pulls {}.",
                    image::FALLBACK
                ));
                image::FALLBACK.to_owned()
            }
        };
        let place = Place::create(&std::env::temp_dir(), TaskId::random().as_str())
            .map_err(|error| trouble("failed to make a temporary directory", &error))?;
        say(format!(
            "Demo in {}: the model is scripted, everything else is real.",
            place.root().display()
        ));
        place.fill(&image).map_err(|error| trouble("failed to write the repository", &error))?;
        let program = std::env::current_exe()
            .map_err(|error| trouble("failed to find the program itself", &error))?;
        let task = command(&program, arguments(&place.repository(), color, self.verbose), &place);
        let end = super::runtime::block_on(run(task))?
            .map_err(|error| trouble("failed to run the task", &error))?;
        match exit_of(end.code()) {
            Exit::Ok => show(&place, output),
            other => {
                say(format!("The demo did not succeed; look into {}.", place.root().display()));
                Ok(other)
            }
        }
    }
}

/// The task of the demo, in a process of its own; nobody types this
#[derive(Debug, clap::Args)]
pub(super) struct DemoTask {
    #[command(flatten)]
    at: RepoArg,
    #[arg(short, long)]
    pub(super) verbose: bool,
}

impl DemoTask {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let args = RunArgs {
            text: repository::TASK.to_owned(),
            repo: self.at.repo,
            verbose: self.verbose,
            allow_paths: vec![],
            max_tokens: None,
            mode: Mode::Run { baseline: false },
            script: Some(script()?),
        };
        super::runtime::block_on(crate::task::run(args, output))?
    }
}

fn arguments(repository: &Path, color: super::Color, verbose: bool) -> Vec<OsString> {
    let color = match color {
        super::Color::Auto => "auto",
        super::Color::Always => "always",
        super::Color::Never => "never",
    };
    let mut arguments: Vec<OsString> =
        ["--color", color, "demo-task", "--repo"].map(Into::into).into();
    arguments.push(repository.into());
    arguments.extend(verbose.then(|| "--verbose".into()));
    arguments
}

/// The exit code of the task is that of the demo.
fn exit_of(code: Option<i32>) -> Exit {
    code.and_then(|code| u8::try_from(code).ok()).map_or(Exit::Refused, Exit::of)
}

fn show(place: &Place, output: &Output) -> Result<Exit, Failure> {
    let after = std::fs::read_to_string(place.repository().join(repository::SOURCE))
        .map_err(|error| trouble("failed to read the changed file", &error))?;
    let runs = runs(&place.artifacts());
    let closing = closing(&runs, place.root()).ok_or_else(|| {
        let place = place.artifacts();
        Failure::refused(
            "demo_unproven",
            format!("no green run is recorded in {}", place.display()),
        )
        .hint("this is a defect of act; please report it with that directory")
    })?;
    output.result_line(&Line::default());
    for line in difference(repository::SOURCE, repository::BEFORE, &after).lines() {
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

fn trouble(what: &str, error: &std::io::Error) -> Failure {
    Failure::refused("demo_failed", format!("{what}: {error}"))
        .hint("TMPDIR may name another directory for it")
}

/// Variables that name a real model. The task plays a script; a key in its environment would be of no use to it.
const FOREIGN: [&str; 6] = [
    "AGENT_LLM_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "AGENT_LLM_MODEL",
];

fn command(program: &Path, arguments: Vec<OsString>, place: &Place) -> Command {
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

/// The turns of the model.
fn script() -> Result<Script, Failure> {
    Script::from_yaml(include_str!("demo.yaml")).map_err(|error| {
        Failure::refused("demo_failed", format!("failed to read the script of the model: {error}"))
            .hint("this is a defect of act; please report it")
    })
}

/// One run, from its manifest.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    run_id: String,
    status: String,
}

/// Returns the difference as git shows it.
fn difference(name: &str, before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    diff.unified_diff().header(&format!("a/{name}"), &format!("b/{name}")).to_string()
}

/// Returns all runs below `artifacts`, oldest first. Directories without a readable manifest are left out.
fn runs(artifacts: &Path) -> Vec<Run> {
    let Ok(directory) = std::fs::read_dir(artifacts.join("runs")) else { return vec![] };
    let mut runs: Vec<_> = directory
        .filter_map(|entry| {
            let manifest = std::fs::read(entry.ok()?.path().join("manifest.json")).ok()?;
            let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
            let text = |name: &str| manifest.get(name)?.as_str().map(str::to_owned);
            Some((
                text("timestamp_start")?,
                Run { run_id: text("run_id")?, status: text("status")? },
            ))
        })
        .collect();
    // Runs that started in the same second are ordered by status: the failure was before the run that ended the task.
    runs.sort_by(|(a_start, a), (b_start, b)| (a_start, &a.status).cmp(&(b_start, &b.status)));
    runs.into_iter().map(|(_, run)| run).collect()
}

/// Returns the last lines of the demo; the very last names the run that passed. `None` without such a run.
fn closing(runs: &[Run], place: &Path) -> Option<String> {
    let green = runs.iter().rfind(|run| run.status == "PASS")?;
    let attempts: Vec<_> = runs
        .iter()
        .zip(1..)
        .map(|(run, attempt)| format!("  attempt {attempt}: {:4}  {}", run.status, run.run_id))
        .collect();
    Some(format!(
        "Verification\n{}\n\n\
         The model was scripted; Scouts, file tools, container and checks were not. With a real one:\n  \
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_is_started_with_ordinary_arguments() {
        let arguments = arguments(Path::new("/tmp/r"), crate::cli::Color::Never, true);
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
        let pulled = format!("where there is none, {} is pulled", image::FALLBACK);
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
}

#[cfg(test)]
mod child_tests {
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

#[cfg(test)]
mod engine_tests {
    #[test]
    fn the_model_of_the_demo_has_a_script() {
        let script = super::script().unwrap();
        assert_eq!(
            script.left().into_iter().collect::<Vec<_>>(),
            [("editor".to_owned(), 7), ("scout-a".to_owned(), 1), ("scout-b".to_owned(), 1)]
        );
    }
}

#[cfg(test)]
mod report_tests {
    use super::*;

    fn run(run_id: &str, status: &str) -> Run {
        Run { run_id: run_id.into(), status: status.into() }
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
        let runs = [run("run_1", "FAIL"), run("run_2", "PASS")];
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
            [run("run_d", "FAIL"), run("run_c", "FAIL"), run("run_b", "PASS")]
        );
        assert_eq!(runs(Path::new("/nonexistent")), []);
    }
}
