//! The command line: arguments, one call into the module that does it, one result.
//!
//! Parsing touches nothing: no runtime, engine or network exists before a command has been understood.

mod apply;
mod audit;
mod audit_lines;
mod cache;
mod cancel;
mod compared;
mod completions;
mod components;
mod dashed_text;
mod demo;
mod doctor;
mod edit;
mod elsewhere;
mod facts_b;
mod gate_args;
mod history;
mod init;
mod logs;
mod metrics;
mod queue;
mod repo_arg;
mod report;
mod run;
mod runtime;
mod scout;
mod status;
mod take_over;
mod task_line;
mod task_text;
mod verify;
mod verify_claim;

use std::ffi::OsString;

use crate::output::{self, ColourWish, Output, Style};
use act_core::Failure;
use act_core::exit::Exit;
use act_core::secret::Secrets;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

/// What the end of the help says, and the manual page in sections of their own.
const EXAMPLES: &str = "\
Examples:
  act demo                                    watch a whole task with a scripted model
  act run \"fix the failing test in parser\"    one task in this repository
  act run --file task.md --verbose            the task from a file, with every detail
  act run - < task.md                         the task from standard input
  act run --dry-run \"use tabs\"                a patch of what it would change; nothing is touched
  act apply                                   make the changes of the last dry run, and verify them
  act run --baseline \"fix the parser\"         name the failures that were there before
  act run --detach --file task.md             without this terminal; prints the task's id
  act status                                  what runs here, what waits, what ended last
  act cancel --id 2                           take the second waiting task out of the queue
  act history                                 earlier tasks, and how they ended
  act logs --step test                        what a step of the last run printed
  act report                                  why the last task got stuck
  act metrics                                 how tasks ended, how long they took, what they cost
  act verify                                  the pipeline alone, on the tree as it is
  act audit list --deny                       what was refused, to whom and why
  act audit explain RUN_ID                    what a verification was made of
  act verify-claim RUN_ID                     run it again, and say whether it was true
  act init                                    write an agent.yaml to begin with
  act doctor --model                          what is missing, and how to get it
  act scout b \"why does it fail\" --log ci.log  ask a Scout alone
  act components                              what takes part, and what it may do
  act edit show --file doc.json               a document with its version and lines";

const EXIT_CODES: &str = "\
Exit codes:
  0    SUCCESS, PASS: the pipeline is green; PROPOSED: a dry run has a patch
  1    refused, or failed before the task started; nothing to do; a red line in doctor
  2    the command line makes no sense
  3    STUCK: see agent/stuck_report.md; FAIL of verify
  4    INFRA_ERROR: engine, image, model or machine
  130  CANCELLED by a signal or act cancel";

const ENVIRONMENT: &str = "\
Model access comes from the environment, the first of these that is set:
  AGENT_LLM_BASE_URL  a Chat Completions server, with AGENT_LLM_MODEL; its key in OPENAI_API_KEY
  ANTHROPIC_API_KEY   Anthropic, at ANTHROPIC_BASE_URL if that is set
  OPENAI_API_KEY      OpenAI, at OPENAI_BASE_URL if that is set
AGENT_LLM_MODEL names another model than the default of the last two.

Other variables:
  AGENT_ARTIFACT_DIR  where runs, proposals and the history are kept; ~/.agent-artifacts without it
  DOCKER_HOST         the engine, if it is not at its usual socket
  NO_COLOR            anything but empty: no colour, as with --color never";

/// A coding agent that is done when your own tests are green
///
/// The Editor plans and edits, WebAssembly Scouts read the repository, a container runs your pipeline and
/// decides. The model gets no shell and no git.
#[derive(Debug, Parser)]
#[command(name = "act", version, after_help = [EXAMPLES, EXIT_CODES, ENVIRONMENT].join("\n\n"))]
struct Cli {
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Apply(apply::Apply),
    Status(status::Status),
    Queue(queue::Queue),
    Cancel(cancel::Cancel),
    History(history::History),
    Logs(logs::Logs),
    Report(report::Report),
    Verify(verify::Verify),
    VerifyClaim(verify_claim::VerifyClaim),
    Audit(audit::Audit),
    Metrics(metrics::Metrics),
    Cache(cache::Cache),
    Scout(scout::Scout),
    Components(components::Components),
    Doctor(doctor::Doctor),
    Init(init::Init),
    Demo(demo::Demo),
    Edit(edit::Edit),
    Completions(completions::Completions),
    Man(completions::Man),
    #[command(hide = true)]
    TakeOver(take_over::TakeOver),
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

impl From<Color> for ColourWish {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

/// Runs one command line and answers how it ended; everything that is to be said has been said.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let matches = match Cli::command().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => return answer_instead(&dashed_text::explained(error, &arguments)),
    };
    let place = elsewhere::place(&matches);
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return answer_instead(&error),
    };
    let (verbose, json) = match &cli.command {
        Command::Run(run) => (run.verbose, run.json),
        Command::Apply(apply) => (apply.verbose, apply.json),
        Command::Verify(verify) => (verify.gate.verbose, verify.gate.json),
        Command::VerifyClaim(claim) => (claim.gate.verbose, claim.gate.json),
        Command::Status(status) => (false, status.json),
        Command::Queue(queue) => (false, queue.json),
        Command::Cancel(cancel) => (false, cancel.json),
        Command::History(history) => (false, history.json),
        Command::Logs(logs) => (false, logs.json),
        Command::Report(report) => (false, report.json),
        Command::Audit(audit) => (false, audit.json),
        Command::Metrics(metrics) => (false, metrics.json),
        Command::Cache(cache) => (false, cache.json),
        Command::Scout(scout) => (scout.verbose, scout.json),
        Command::Components(components) => (false, components.json),
        Command::Doctor(doctor) => (false, doctor.json),
        Command::Init(init) => (false, init.json),
        Command::Demo(demo) => (demo.verbose, false),
        Command::Edit(_) => (false, true),
        Command::Completions(_) | Command::Man(_) | Command::TakeOver(_) => (false, false),
    };
    // They catch signals, and their end must not hang on a reader.
    let bounded = match &cli.command {
        Command::Components(components) => components.catches_signals(),
        Command::Run(_)
        | Command::Apply(_)
        | Command::Verify(_)
        | Command::VerifyClaim(_)
        | Command::Scout(_)
        | Command::Demo(_)
        | Command::TakeOver(_) => true,
        _ => false,
    };
    let colour = ColourWish::from(cli.color);
    let dry_run = matches!(&cli.command, Command::Run(run) if run.dry_run);
    let secrets = secrets();
    let output = Output::new(Style { colour, verbose, json, dry_run, secrets, place });
    let result = match cli.command {
        Command::Run(run) => run.run(&output),
        Command::Apply(apply) => apply.run(&output),
        Command::Verify(verify) => verify.run(&output),
        Command::VerifyClaim(claim) => claim.run(&output),
        Command::Status(status) => status.run(&output),
        Command::Queue(queue) => queue.run(&output),
        Command::Cancel(cancel) => cancel.run(&output),
        Command::History(history) => history.run(&output),
        Command::Logs(logs) => logs.run(&output),
        Command::Report(report) => report.run(&output),
        Command::Audit(audit) => audit.run(&output),
        Command::Metrics(metrics) => metrics.run(&output),
        Command::Cache(cache) => cache.run(&output),
        Command::Scout(scout) => scout.run(&output),
        Command::Components(components) => components.run(&output),
        Command::Doctor(doctor) => doctor.run(&output),
        Command::Init(init) => init.run(&output),
        Command::Demo(demo) => demo.run(cli.color, &output),
        Command::Edit(edit) => Ok(edit.run(&output)),
        Command::Completions(completions) => completions.run(&output),
        Command::Man(man) => man.run(&output),
        Command::TakeOver(take_over) => take_over.run(&output),
    };
    let exit = result.unwrap_or_else(|failure: Failure| {
        output.failure(&failure);
        failure.exit
    });
    if !bounded {
        output::wait_for_readers();
    }
    exit
}

/// Every key that the process was given.
pub fn secrets() -> Secrets {
    act_config::secrets(|name| std::env::var(name).ok())
}

/// Help and version are results; everything else that clap says is a usage error, which may echo what was
/// typed and is therefore printed by us.
fn answer_instead(error: &clap::Error) -> Exit {
    let output = Output::new(Style { secrets: secrets(), ..Style::default() });
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output.notice(&text);
        Exit::Usage
    } else if error.use_stderr() {
        output.notice(&format!("act: {}", text.strip_prefix("error: ").unwrap_or(&text)));
        Exit::Usage
    } else {
        output.result(&text);
        Exit::Ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Cli, clap::error::ErrorKind> {
        Cli::try_parse_from(std::iter::once(&"act").chain(arguments)).map_err(|error| error.kind())
    }

    #[test]
    fn the_command_tree_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_task_has_exactly_one_source() {
        // CLI-4
        use clap::error::ErrorKind::{ArgumentConflict, MissingRequiredArgument};
        assert!(parse(&["run", "text"]).is_ok());
        assert!(parse(&["run", "-"]).is_ok());
        assert!(parse(&["run", "--file", "task.md"]).is_ok());
        assert_eq!(parse(&["run"]).unwrap_err(), MissingRequiredArgument);
        assert_eq!(parse(&["run", "text", "--file", "task.md"]).unwrap_err(), ArgumentConflict);
    }

    #[test]
    fn globs_are_checked_before_anything_runs() {
        assert!(parse(&["run", "x", "--allow-path", ".vscode/**", "--allow-path", "a"]).is_ok());
        assert!(parse(&["run", "x", "--allow-path", "a[",]).is_err());
    }

    #[test]
    fn colour_is_a_global_option() {
        assert!(parse(&["--color", "never", "demo"]).is_ok());
        assert!(parse(&["demo", "--color", "always"]).is_ok());
        assert!(parse(&["demo", "--color", "sometimes"]).is_err());
    }

    /// Every command that somebody types, those within others too, by the words that are typed.
    fn commands(of: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
        let shown = of.get_subcommands().filter(|command| !command.is_hide_set());
        shown
            .flat_map(|command| {
                let words = format!("{words} {}", command.get_name());
                let mut all = commands(command, &words);
                all.push((words, command.clone()));
                all
            })
            .collect()
    }

    #[test]
    fn every_command_shows_examples_of_its_own() {
        // CLI-2
        for (words, mut command) in commands(&Cli::command(), "act") {
            let help = command.render_long_help().to_string();
            let (_, rest) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{help}"));
            let mut examples = rest.lines().take_while(|line| line.starts_with("  "));
            assert!(examples.any(|line| line.contains(&words)), "{words}: {help}");
        }
    }

    #[test]
    fn every_argument_is_described() {
        // CLI-2
        for (words, command) in commands(&Cli::command(), "act") {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty(), "{words}: {}", argument.get_id());
            }
        }
    }

    #[test]
    fn what_an_exit_code_means_is_said_where_it_is_not_plain() {
        // CLI-2
        // That of `doctor` stands above its options.
        let plain = [
            "completions",
            "man",
            "status",
            "queue",
            "history",
            "metrics",
            "list",
            "show",
            "doctor",
        ];
        for (words, mut command) in commands(&Cli::command(), "act") {
            let help = command.render_long_help().to_string();
            let last = words.split(' ').next_back().unwrap();
            assert!(plain.contains(&last) || help.contains("\nExit codes:\n  "), "{words}: {help}");
        }
    }

    #[test]
    fn help_has_examples_and_every_exit_code() {
        // CLI-2
        let help = Cli::command().render_long_help().to_string();
        for exit in
            [Exit::Ok, Exit::Refused, Exit::Usage, Exit::Stuck, Exit::Infra, Exit::Cancelled]
        {
            let row = format!("\n  {} ", exit as u8);
            assert!(help.contains(&row), "no row for {exit:?} in {help}");
        }
        assert!(help.contains("act run --file task.md"));
        for variable in ["AGENT_LLM_MODEL", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL"] {
            assert!(help.contains(variable), "{help}");
        }
    }
}
