//! `act run`: one task in one repository, until its pipeline passes; and the background process of `act run --detach`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::ArgGroup;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{CommonOptions, answer, block_on};
use crate::output::{Line, Output};
use act_agent::editor::{MAX_TEXT_BYTES, RequestError};
use act_core::exit::Exit;
use act_core::{Failure, Usd};
use act_task::{self as task, Mode, Place, RunArgs};
use act_workspace::{GlobError, PathGlobs};

const AFTER_HELP: &str = "\
Examples:
  act run \"fix the failing parser test\"
  act run --file task.md --verbose 2> progress.txt
  act run --dry-run \"use tabs\" | git apply --check
  act run --json --max-tokens 500000 \"fix the parser\" > events.jsonl
  act run --max-cost 2.50 \"fix the parser\"
  act run --again t-4k2m9x
  act run --worktree \"fix the parser\"     beside other tasks

Exit codes:
  0 SUCCESS or PROPOSED, 1 refused, 3 STUCK, 4 INFRA_ERROR, 130 CANCELLED
`act --help` lists the environment variables.";

/// Run one task until your pipeline passes
///
/// The pipeline is in `agent.yaml`. The task is free text. A line that consists of `Constraints:`, `Non-goals:` or `Boundaries:` starts a list that
/// applies to the whole task; boundaries that consist of paths are enforced. The changes stay in the working tree for you
/// to review; nothing is committed.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("source").required(true).args(["text", "file", "again"]))]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Run {
    /// The task; `-` reads it from standard input
    text: Option<String>,
    /// Read the task from a file; `-` reads standard input
    #[arg(long)]
    file: Option<PathBuf>,
    /// Run an ended task of this repository again, with its text and mode, but not its permissions and budgets
    #[arg(long, value_name = "TASK", conflicts_with_all = ["dry_run", "baseline"])]
    again: Option<String>,
    /// Repository, or a directory in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    /// Show the summaries of the Scouts, the diagnosis, each edit and the output of the steps
    #[arg(short, long)]
    verbose: bool,
    /// Write every event to stdout as one line of JSON, for programs
    #[arg(long)]
    json: bool,
    /// Let this task change guarded paths (hooks, CI workflows, editor settings) that match GLOB; may be repeated
    #[arg(long = "allow-path", value_name = "GLOB", value_parser = glob)]
    allow_path: Vec<String>,
    /// Let this task change test files that match GLOB, although the tests of its start fail then; may be repeated
    #[arg(long = "allow-test-change", value_name = "GLOB", value_parser = glob)]
    allow_test_change: Vec<String>,
    /// Token budget of this task, in place of the one in agent.yaml: input and output of all roles; when it is spent, the
    /// task ends STUCK
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// The most that this task may cost, in place of `limits.max_cost` in agent.yaml and config.toml: dollars for all requests;
    /// when they are spent, the task ends STUCK. Refused if the price of the model is not known
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<Usd>,
    /// Keep AGENTS.md (or CLAUDE.md) of the repository from the model in this task
    #[arg(long)]
    no_agents_md: bool,
    /// Print a patch for `git apply` instead of changing the repository; nothing is verified
    #[arg(long, conflicts_with = "baseline")]
    dry_run: bool,
    /// Also run the pipeline before the first edit, so that failures that existed before are reported as such
    #[arg(long)]
    baseline: bool,
    /// Work in a new worktree of the last commit, beside other tasks of this repository; `act apply` brings the result back
    #[arg(long, conflicts_with = "dry_run")]
    worktree: bool,
    /// Begin the worktree with the uncommitted changes as well
    #[arg(long, requires = "worktree")]
    dirty: bool,
    /// Run the pipeline on this engine of engines.toml
    #[arg(long, value_name = "NAME", conflicts_with = "dry_run")]
    engine: Option<String>,
    /// Run the task in the background: print its id and return
    #[arg(long)]
    detach: bool,
}

impl Run {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let text = match self.again {
            None => Source::of(self.text, self.file).read()?,
            Some(_) => String::new(),
        };
        let mut args = RunArgs {
            text,
            repo: self.repo,
            allow_paths: self.allow_path,
            allow_test_changes: self.allow_test_change,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            no_agents_md: self.no_agents_md,
            engine: self.engine,
            mode: match self.dry_run {
                true => Mode::DryRun,
                false => Mode::Run { baseline: self.baseline },
            },
            place: match self.worktree {
                true => Place::NewWorktree { dirty: self.dirty },
                false => Place::Here,
            },
            script: None,
        };
        if let Some(task_id) = &self.again {
            args = task::again(task_id, args)?;
        }
        if self.detach {
            let detached = block_on(task::detach(args))??;
            answer(output, &detached, || vec![Line::plain(&detached.task_id)]);
            return Ok(Exit::Ok);
        }
        block_on(task::run(args, output.sinks()))?
    }
}

/// Reads a limit of the cost of a task.
pub(super) fn dollars(text: &str) -> Result<Usd, String> {
    act_config::cost_limit(text).ok_or_else(|| format!("the limit is {}", act_config::COST_LIMIT))
}

fn glob(text: &str) -> Result<String, GlobError> {
    let glob = text.to_owned();
    PathGlobs::new(std::slice::from_ref(&glob)).map(|_| glob)
}

/// Where the text of a task is.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    Words(String),
    Stdin,
    File(PathBuf),
}

impl Source {
    /// The parser has made sure that there is exactly one source.
    fn of(words: Option<String>, file: Option<PathBuf>) -> Self {
        match (words, file) {
            (Some(words), None) if words != "-" => Self::Words(words),
            (None, Some(file)) if file.as_os_str() != "-" => Self::File(file),
            _ => Self::Stdin,
        }
    }

    fn read(self) -> Result<String, Failure> {
        match self {
            Self::Words(words) => Ok(words),
            Self::Stdin => decoded("standard input", bounded(io::stdin().lock())),
            Self::File(path) => {
                decoded(&path.display().to_string(), File::open(&path).and_then(bounded))
            }
        }
    }
}

/// Reads one byte more than a task may have, which is enough to know that the text is too large.
fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    from.take(MAX_TEXT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn decoded(name: &str, bytes: io::Result<Vec<u8>>) -> Result<String, Failure> {
    let unreadable = |message, hint| Failure::refused("task_unreadable", message).hint(hint);
    let bytes = bytes.map_err(|error| {
        let message = format!("failed to read the task from {name}: {error}");
        unreadable(message, "name a file with the text of the task, or `-` for standard input")
    })?;
    // Checked before the encoding: the bound may have cut a character in two.
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(RequestError::TooLarge { bytes: bytes.len() }.into());
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        unreadable(format!("the task from {name} is not UTF-8 text"), "save it as UTF-8")
    })?;
    // Some editors write a byte order mark at the start of a file.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

const TIP: &str = "write `--` before a text that begins with a dash, after all options: act run -- \"- fix the parser\"";

/// Adds that tip to a usage error whose cause may be such a text.
pub(super) fn explained(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let misspelt = error.get(ContextKind::SuggestedArg).is_some();
    if error.kind() == ErrorKind::UnknownArgument && !misspelt && arguments.iter().any(is_dashed) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![TIP.into()]));
    }
    error
}

/// Returns whether an argument is a text that begins with a dash: the name of an option contains no blank.
fn is_dashed(argument: &OsString) -> bool {
    let text = argument.to_string_lossy();
    let name = text.split('=').next().unwrap_or_default();
    name.starts_with('-') && name.contains(char::is_whitespace)
}

/// Run a task that another process has accepted
#[derive(Debug, clap::Args)]
pub(super) struct TakeOver {
    task_id: String,
    #[arg(long, value_name = "PID")]
    from: u32,
    #[command(flatten)]
    common: CommonOptions,
}

impl TakeOver {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let Self { task_id, from, common } = self;
        block_on(task::take_over(
            task::TakeOver { task_id, from, repo: common.repo },
            output.sinks(),
        ))?
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_text_is_read_up_to_its_bound_and_must_be_utf_8() {
        let text = |bytes| decoded("x", bytes);
        assert_eq!(text(bounded("täsk".as_bytes())).unwrap(), "täsk");
        // CLI-5
        let marked = "\u{feff}Constraints:\r\n- a\r\n\r\nConstraints:";
        let unmarked = marked.trim_start_matches('\u{feff}');
        assert_eq!(text(bounded(marked.as_bytes())).unwrap(), unmarked);
        assert_eq!(text(bounded("\u{feff}".as_bytes())).unwrap(), "");
        let endless = text(bounded(io::repeat(b'x'))).unwrap_err();
        assert_eq!(endless.code, "task_too_large");
        assert_eq!(text(bounded(&b"\xff"[..])).unwrap_err().code, "task_unreadable");
        let missing = Source::File("/nonexistent/task.md".into()).read().unwrap_err();
        assert_eq!(missing.code, "task_unreadable");
    }

    #[test]
    fn a_dash_is_standard_input_and_a_file_wins_over_nothing() {
        assert_eq!(Source::of(Some("-".into()), None), Source::Stdin);
        assert_eq!(Source::of(Some("fix -".into()), None), Source::Words("fix -".into()));
        // CLI-4
        assert_eq!(Source::of(None, Some("-".into())), Source::Stdin);
        assert_eq!(Source::of(None, Some("./-".into())), Source::File("./-".into()));
    }

    fn rendered(arguments: &[&str]) -> String {
        let arguments: Vec<_> = [&["act"], arguments].concat().iter().map(OsString::from).collect();
        let error = Cli::command().try_get_matches_from(&arguments).unwrap_err();
        explained(error, &arguments).render().to_string()
    }

    // CLI-4
    #[test]
    fn a_text_is_told_from_an_option() {
        for text in ["- fix x", "-fix x", "--fix x", "-\tx"] {
            let rendered = rendered(&["run", text]);
            assert!(rendered.contains(TIP), "{rendered}");
            assert!(!rendered.contains("to pass"), "{rendered}");
        }
        for arguments in [
            &["run", "--dryrun", "- fix x"][..],
            &["run", "--no-such", "fix x"],
            &["run", "--no-such=a b", "fix"],
            &["run", "-q"],
        ] {
            assert!(!rendered(arguments).contains(TIP), "{arguments:?}");
        }
    }
}
