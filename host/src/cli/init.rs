//! `act init`: writes a first `agent.yaml`, and tries it with `--check`. It never replaces a file and never follows a link.
//!
//! [`gate`] chooses the steps, [`yaml`] writes them down, [`check`] runs them once. [`agents`] is `--for`: the settings of
//! other agents.

pub(super) mod agents;
mod check;
mod compiled;
mod files;
mod gate;
mod node;
mod python;
mod settings;
mod yaml;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{CommonOptions, answer, block_on};
use crate::output::{Line, Output, Tone};
use act_agent::scout::facts_b::FactsB;
use act_config::Root;
use act_core::Failure;
use act_core::exit::Exit;
use act_fs::NEW;
use act_task::{self as task, HookAgent, ScoutArgs, WhichScout};
use check::Tried;
use files::Files;
use gate::{Gate, OtherProject};

const NAME: &str = "agent.yaml";

const AFTER_HELP: &str = "\
Examples:
  act init
  act init --check                 write it, and run its steps once
  act init --repo ../other --json
  act init --for claude            show, then make act the gate of Claude Code
  act init --for codex --scope user --yes
  act init --for claude --undo     remove what is still as act wrote it

Exit codes:
  0 written, 1 an agent.yaml exists already, or the file cannot be written;
  with --for: 1 you did not agree to the changes, or they cannot be made
  With --check:
  0 PASS and tests were seen, 1 PASS but no test was seen, or refused,
  3 FAIL, 4 no container engine or INFRA_ERROR, 130 CANCELLED";

/// Write a first agent.yaml
///
/// Scout B suggests image and steps from manifests, CI files and documents; each step is written with its source. Review
/// them before the first task: they decide when a task is done. An existing agent.yaml is never changed. No container is
/// started, unless `--check` is given.
///
/// With `--for`, the settings of another agent are changed instead, after the difference was shown: it gets the MCP server
/// `act mcp` and a hook that runs `act verify` when it is about to stop. Everything else in its files stays.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Init {
    #[command(flatten)]
    common: CommonOptions,
    /// Let tasks add no line to .gitignore to hide act's notes
    #[arg(long)]
    no_gitignore: bool,
    /// Run the steps once, of the new file or of an existing one, and report whether a test was seen
    #[arg(long)]
    check: bool,
    /// Make act the gate of this agent: claude, codex, copilot, gemini, cursor or opencode
    #[arg(long = "for", value_name = "AGENT", value_parser = agent)]
    #[arg(conflicts_with_all = ["check", "no_gitignore"])]
    agent: Option<HookAgent>,
    /// Whose settings: of this project, or of the user for every project
    #[arg(long, value_enum, default_value_t, requires = "agent")]
    scope: agents::Scope,
    /// Write without asking
    #[arg(long, requires = "agent")]
    yes: bool,
    /// Remove what is still as `--for` wrote it
    #[arg(long, requires = "agent")]
    undo: bool,
}

/// Parses the name of an agent.
pub(super) fn agent(word: &str) -> Result<HookAgent, String> {
    let known = HookAgent::ALL.into_iter().find(|agent| agent.word() == word);
    known.ok_or_else(|| {
        let words = HookAgent::ALL.map(HookAgent::word).join(", ");
        format!("known are {words}")
    })
}

/// The document of `act init --json`.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Written {
    path: String,
    #[serde(flatten)]
    gate: Gate,
    /// The result of `--check`; null if nothing was tried.
    tried: Option<Tried>,
}

impl act_core::Document for Written {
    const NAME: &'static str = "init";
}

/// The document of `act init --check --json` if an agent.yaml exists already.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Checked {
    path: String,
    tried: Tried,
}

impl act_core::Document for Checked {
    const NAME: &'static str = "init";
}

#[cfg(test)]
#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema of the documents is needed")]
enum Document {
    Written(Written),
    Checked(Checked),
}

#[cfg(test)]
impl act_core::Document for Document {
    const NAME: &'static str = <Written as act_core::Document>::NAME;
}

impl Init {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        if let Some(agent) = self.agent {
            let wish = agents::Wish { agent, scope: self.scope, yes: self.yes, undo: self.undo };
            return agents::run(wish, act_config::find_root(&self.common.repo)?, output);
        }
        let root = match act_config::find_root(&self.common.repo)? {
            Some(Root { path, has_config: true }) if self.check => {
                return self.check_existing(&path, output);
            }
            Some(Root { path, has_config: true }) => return Err(exists(&path)),
            Some(Root { path, has_config: false }) => path,
            None => {
                let here = self.common.repo.canonicalize();
                let here = here.map_err(|error| unwritable(&self.common.repo, &error))?;
                output.caution(&format!(
                    "{} is not in a git repository, so git can neither show nor undo what a task changes there; \
                     run `git init` first",
                    here.display()
                ));
                here
            }
        };
        let files = Files::open(&root).map_err(|error| unwritable(&root, &error))?;
        let gate = gate::choose(&found(&root, output)?, &files);
        let yaml = yaml::text(&gate, self.no_gitignore);
        write(&root, &yaml).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&root),
            _ => unwritable(&root, &error),
        })?;
        let mut written =
            Written { path: root.join(NAME).display().to_string(), gate, tried: None };
        if !self.check {
            answer(output, &written, || {
                let mut lines = written.lines();
                lines.push(Line::plain(
                    NOT_TRIED.replace("act init --check", &output.command("act init --check")),
                ));
                lines.push(Line::plain(format!("Then: {}", output.command("act doctor"))));
                lines
            });
            return Ok(Exit::Ok);
        }
        // The file stays, also if the check is refused.
        if !output.is_json() {
            written.lines().iter().for_each(|line| output.result_line(line));
        }
        let Some((tried, exit)) = check::run(&root, output)? else { return Ok(Exit::Cancelled) };
        written.tried = Some(tried);
        if output.is_json() {
            output.document(&written);
        }
        Ok(exit)
    }

    fn check_existing(&self, root: &Path, output: &Output) -> Result<Exit, Failure> {
        let path = root.join(NAME).display().to_string();
        let Some((tried, exit)) = check::run(root, output)? else { return Ok(Exit::Cancelled) };
        // A refusal leaves stdout empty.
        if !output.is_json() {
            output.result_line(&Line::plain(format!("{path} existed before and was not changed.")));
        }
        if output.is_json() {
            output.document(&Checked { path, tried });
        }
        Ok(exit)
    }
}

const NOT_TRIED: &str = "Nothing was tried yet: `act init --check` runs these steps once.";

/// Returns the facts of Scout B about the repository; no model is used.
fn found(root: &Path, output: &Output) -> Result<FactsB, Failure> {
    let args = ScoutArgs {
        scout: WhichScout::B,
        question: None,
        repo: root.to_owned(),
        log: None,
        with: None,
    };
    // The hints of `act scout` name options that `act init` does not have.
    let facts =
        block_on(task::facts(args, &output.events()))?.map_err(|failure| {
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
        // A half-written agent.yaml would stop the next `act init`.
        rustix::fs::unlinkat(&directory, NAME, rustix::fs::AtFlags::empty()).ok();
    }
    written
}

fn exists(root: &Path) -> Failure {
    Failure::refused("config_exists", format!("{} exists", root.join(NAME).display())).hint(
        "change it by hand, or remove it first; `act init --check` runs it once, `act doctor` says what is wrong with it",
    )
}

fn unwritable(root: &Path, error: &io::Error) -> Failure {
    let message = format!("{NAME} cannot be written to {}: {error}", root.display());
    Failure::refused("config_unwritable", message).hint("name a directory that you may write")
}

impl Written {
    /// Returns the lines about the new file that are printed without `--json`.
    fn lines(&self) -> Vec<Line> {
        let gate = &self.gate;
        let wrote = Line::of(Tone::Good, "Wrote");
        let mut lines = vec![wrote.and(Tone::Plain, format!(" {} for {}", self.path, gate.kind))];
        let mut line = |text: String| lines.push(Line::plain(text));
        line(format!("  image   {}", gate.image));
        for step in &gate.steps {
            let list = if step.prepares { "prepare" } else { "step   " };
            line(format!("  {list} {}: {}", step.name, step.command));
        }
        for note in &gate.notes {
            line(format!("  note    {note}"));
        }
        for OtherProject { root, test } in &gate.others {
            line(format!("  not verified unless a step runs it: {root} ({test})"));
        }
        line(gate.check.to_owned());
        lines
    }
}

#[cfg(test)]
mod tests;
