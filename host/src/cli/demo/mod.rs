//! `act demo`: the whole machine on a small repository, with a model that follows a script.
//!
//! Everything that is only for the demo is in this folder. It prepares a directory and an image, and then runs the
//! program again for the task itself; real Scouts, file tools and containers do the rest.

mod child;
mod engine;
mod image;
mod report;
mod repository;

use std::ffi::OsString;
use std::path::Path;

use super::repo::RepoArg;
use crate::output::{Line, Output, Tone};
use crate::task::{Mode, RunArgs, TaskId};
use act_core::Failure;
use act_core::exit::Exit;
use image::LocalImage;
use repository::Place;

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
                super::runtime::block_on(engine::provide(image))??;
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
        let task =
            child::command(&program, arguments(&place.repository(), color, self.verbose), &place);
        let end = super::runtime::block_on(child::run(task))?
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
            script: Some(engine::script()?),
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
    match code {
        Some(0) => Exit::Ok,
        Some(2) => Exit::Usage,
        Some(3) => Exit::Stuck,
        Some(4) => Exit::Infra,
        Some(130) => Exit::Cancelled,
        _ => Exit::Refused,
    }
}

fn show(place: &Place, output: &Output) -> Result<Exit, Failure> {
    let after = std::fs::read_to_string(place.repository().join(repository::SOURCE))
        .map_err(|error| trouble("failed to read the changed file", &error))?;
    let runs = report::runs(&place.artifacts());
    let closing = report::closing(&runs, place.root()).ok_or_else(|| {
        let place = place.artifacts();
        Failure::refused(
            "demo_unproven",
            format!("no green run is recorded in {}", place.display()),
        )
        .hint("this is a defect of act; please report it with that directory")
    })?;
    output.result_line(&Line::default());
    for line in report::difference(repository::SOURCE, repository::BEFORE, &after).lines() {
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
