//! `act init`: writes a first `agent.yaml`. It never replaces a file and never follows a link.

mod starter;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::repo::RepoArg;
use super::runtime;
use crate::output::{Line, Output, Tone};
use crate::task::{self, ScoutArgs, WhichScout};
use act_agent::scout::facts_b::FactsB;
use act_config::Root;
use act_core::Failure;
use act_core::exit::Exit;
use act_fs::NEW;

const NAME: &str = "agent.yaml";

const AFTER_HELP: &str = "\
Examples:
  act init
  act init --repo ../other --json

Exit codes:
  0 written, 1 there is an agent.yaml already, or the file cannot be written";

/// Write a first agent.yaml
///
/// Scout B suggests image and steps from manifests, CI files and documents; each is written with its source. Review them
/// before the first task: they decide when a task is done. An existing agent.yaml is never changed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Init {
    #[command(flatten)]
    at: RepoArg,
    /// Keep tasks from adding the line to .gitignore that hides act's notes
    #[arg(long)]
    no_gitignore: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// What `act init --json` answers.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Written<'a> {
    path: String,
    /// What kind of project it is for, in words.
    kind: &'a str,
    image: &'a str,
    /// The directory that the steps run in; null for the repository's.
    package: Option<&'a str>,
    steps: Vec<WrittenStep<'a>>,
    /// Other projects with tests, which the steps do not name.
    others: Vec<OtherProject<'a>>,
    /// What a person should look at.
    check: &'static str,
}

#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WrittenStep<'a> {
    name: &'a str,
    command: &'a str,
    /// Why this command: the place that names it.
    why: &'a str,
}

#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OtherProject<'a> {
    /// Its directory.
    root: &'a str,
    /// What tests it.
    test: &'a str,
}

impl Init {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let root = match act_config::find_root(&self.at.repo)? {
            Some(Root { path, has_config: true }) => return Err(exists(&path)),
            Some(Root { path, has_config: false }) => path,
            None => {
                let here = self.at.repo.canonicalize();
                let here = here.map_err(|error| unwritable(&self.at.repo, &error))?;
                output.caution(&format!(
                    "{} is in no git repository: git can neither show nor take back what a task will change \
                     there; `git init` comes first",
                    here.display()
                ));
                here
            }
        };
        let starter = starter::choose(&found(&root, output)?);
        let mut yaml = starter.yaml();
        if self.no_gitignore {
            yaml.push_str("# Tasks add no line to .gitignore; agent/.gitignore hides act's notes.\ngitignore: false\n");
        }
        write(&root, &yaml).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&root),
            _ => unwritable(&root, &error),
        })?;
        let path = root.join(NAME);
        if self.json {
            let steps = starter.steps.iter();
            output.document(&Written {
                path: path.display().to_string(),
                kind: &starter.kind,
                image: &starter.image,
                package: starter.package.as_deref(),
                steps: steps
                    .map(|step| WrittenStep {
                        name: step.name,
                        command: &step.command,
                        why: &step.why,
                    })
                    .collect(),
                others: starter
                    .others
                    .iter()
                    .map(|(root, test)| OtherProject { root, test })
                    .collect(),
                check: starter.check(),
            });
            return Ok(Exit::Ok);
        }
        output.result_line(
            &Line::of(Tone::Good, "Wrote")
                .and(Tone::Plain, format!(" {} for {}", path.display(), starter.kind)),
        );
        output.result_line(&Line::plain(format!("  image  {}", starter.image)));
        for step in &starter.steps {
            output.result_line(&Line::plain(format!("  step   {}: {}", step.name, step.command)));
        }
        for (root, test) in &starter.others {
            let line = format!("  not in it unless a step reaches it: {root} ({test})");
            output.result_line(&Line::plain(line));
        }
        output.result_line(&Line::plain(starter.check()));
        output.result_line(&Line::plain(format!("Then: {}", output.command("act doctor"))));
        Ok(Exit::Ok)
    }
}

/// What Scout B finds out about the repository, without a model.
fn found(root: &Path, output: &Output) -> Result<FactsB, Failure> {
    let args = ScoutArgs {
        scout: WhichScout::B,
        question: None,
        repo: root.to_owned(),
        log: None,
        with: None,
    };
    // It has neither options for its Scout nor a configuration yet.
    let facts = runtime::block_on(task::facts(args, output))?.map_err(|failure| {
        match failure.code {
        "scout_failed" => failure.hint(
            "`--repo DIR` names another directory; by hand an agent.yaml needs an image and a step",
        ),
        _ => failure,
    }
    })?;
    serde_json::from_value(facts.document).map_err(|error| {
        Failure::refused("scout_failed", format!("the facts cannot be read: {error}"))
            .hint("please report it; an agent.yaml by hand is in the README")
    })
}

fn write(root: &Path, text: &str) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(root, flags, Mode::empty())?;
    let file = rustix::fs::openat(&directory, NAME, NEW, Mode::from_raw_mode(0o644));
    let mut file = File::from(file.map_err(|error| match error {
        Errno::LOOP => Errno::EXIST,
        other => other,
    })?);
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a file would be found, and never written again.
        rustix::fs::unlinkat(&directory, NAME, rustix::fs::AtFlags::empty()).ok();
    }
    written
}

fn exists(root: &Path) -> Failure {
    Failure::refused("config_exists", format!("{} exists", root.join(NAME).display()))
        .hint("change it by hand, or remove it first; `act doctor` says what is wrong with it")
}

fn unwritable(root: &Path, error: &io::Error) -> Failure {
    let message = format!("{NAME} cannot be written in {}: {error}", root.display());
    Failure::refused("config_unwritable", message).hint("name a directory that you may write")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_written_down() {
        act_core::event::schema::holds::<Written<'_>>("init");
    }
}
