//! The command line: parses the arguments, calls the module that does the work, and prints one result.
//!
//! Parsing has no side effects: no runtime, engine or network connection exists before a command has been parsed.

mod apply;
mod audit;
mod cache;
mod cancel;
mod completions;
mod components;
mod demo;
mod doctor;
mod edit;
mod init;
mod logs;
mod metrics;
mod repo;
mod report;
mod run;
mod runtime;
mod scout;
mod tasks;
mod verify;

use std::ffi::OsString;

use crate::output::{self, ColourWish, Output, Style};
use act_core::Failure;
use act_core::exit::Exit;
use act_core::secret::Secrets;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

/// The end of the help; the manual page has it in sections of their own.
const EXAMPLES: &str = "\
Examples:
  act demo                                    watch a whole task with a scripted model
  act run \"fix the failing test in parser\"    one task in this repository
  act run --file task.md --verbose            the task from a file, with every detail
  act run - < task.md                         the task from standard input
  act run --dry-run \"use tabs\"                print a patch; the repository is not changed
  act apply                                   apply the patch of the last dry run and verify it
  act run --baseline \"fix the parser\"         run the pipeline first, to know which tests failed before
  act run --detach --file task.md             run in the background; prints the task's id
  act status                                  the running task, waiting tasks and the last one
  act cancel --id 2                           remove the second waiting task from the queue
  act history                                 earlier tasks and their results
  act logs --step test                        the output of one step of the last run
  act report                                  why the last task is stuck
  act metrics                                 results, durations and token use of all tasks
  act verify                                  run the pipeline on the working tree, without a model
  act audit list --deny                       every access that was denied
  act audit explain RUN_ID                    the inputs of a verification
  act verify-claim RUN_ID                     repeat a verification and compare the results
  act init                                    write a first agent.yaml
  act doctor --model                          check the set-up, with one request to the model
  act scout b \"why does it fail\" --log ci.log  ask a Scout, without a task
  act components                              the installed components and their permissions
  act edit show --file doc.json               print a document with its version and lines";

const EXIT_CODES: &str = "\
Exit codes:
  0    SUCCESS or PASS: the pipeline passed; PROPOSED: the dry run printed a patch
  1    refused, or failed before the task started; nothing to do; a failed check of doctor
  2    invalid arguments
  3    STUCK: see agent/stuck_report.md; FAIL: a step of the pipeline failed
  4    INFRA_ERROR: a problem with the engine, the image, the model or the machine
  130  CANCELLED by a signal or by act cancel";

const ENVIRONMENT: &str = "\
The model is selected by the first of these variables that is set:
  AGENT_LLM_BASE_URL  a Chat Completions server; needs AGENT_LLM_MODEL, its key is OPENAI_API_KEY
  ANTHROPIC_API_KEY   Anthropic, at ANTHROPIC_BASE_URL if that is set
  OPENAI_API_KEY      OpenAI, at OPENAI_BASE_URL if that is set
AGENT_LLM_MODEL replaces the default model of Anthropic or OpenAI.

Other variables:
  AGENT_ARTIFACT_DIR  directory for runs, proposals and the history; default ~/.agent-artifacts
  DOCKER_HOST         address of the container engine, if it is not the usual socket
  NO_COLOR            if it is not empty, no colour, as with --color never";

/// A coding agent that is done when your own tests pass
///
/// The Editor plans and edits, WebAssembly Scouts read the repository, and a container runs your pipeline. Only a
/// pipeline that passes ends a task with success. The model has no shell and no git.
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
    Status(tasks::Status),
    Queue(tasks::Queue),
    Cancel(cancel::Cancel),
    History(tasks::History),
    Logs(logs::Logs),
    Report(report::Report),
    Verify(verify::Verify),
    VerifyClaim(verify::VerifyClaim),
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
    DemoTask(demo::DemoTask),
    #[command(hide = true)]
    TakeOver(run::TakeOver),
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// Performs a command and returns how it ended.
type RunCommand = dyn FnOnce(&Output) -> Result<Exit, Failure>;

/// A parsed command: how its output looks, and its work.
struct Prepared {
    verbose: bool,
    json: bool,
    dry_run: bool,
    catches_signals: bool,
    run: Box<RunCommand>,
}

impl Prepared {
    fn new(json: bool, run: impl FnOnce(&Output) -> Result<Exit, Failure> + 'static) -> Self {
        let run = Box::new(run);
        Self { verbose: false, json, dry_run: false, catches_signals: false, run }
    }

    /// A command that may take minutes: it has `--verbose`, and a signal ends it in order.
    fn long(
        verbose: bool,
        json: bool,
        run: impl FnOnce(&Output) -> Result<Exit, Failure> + 'static,
    ) -> Self {
        Self { verbose, catches_signals: true, ..Self::new(json, run) }
    }
}

impl Command {
    fn prepare(self, color: Color) -> Prepared {
        match self {
            Self::Run(it) => Prepared {
                dry_run: it.dry_run,
                ..Prepared::long(it.verbose, it.json, |output| it.run(output))
            },
            Self::Apply(it) => Prepared::long(it.verbose, it.json, |output| it.run(output)),
            Self::Verify(it) => {
                Prepared::long(it.gate.verbose, it.gate.json, |output| it.run(output))
            }
            Self::VerifyClaim(it) => {
                Prepared::long(it.gate.verbose, it.gate.json, |output| it.run(output))
            }
            Self::Scout(it) => Prepared::long(it.verbose, it.json, |output| it.run(output)),
            Self::Demo(it) => {
                Prepared::long(it.verbose, false, move |output| it.run(color, output))
            }
            Self::DemoTask(it) => Prepared::long(it.verbose, false, |output| it.run(output)),
            Self::TakeOver(it) => Prepared::long(false, false, |output| it.run(output)),
            Self::Components(it) => Prepared {
                catches_signals: it.catches_signals(),
                ..Prepared::new(it.json, |output| it.run(output))
            },
            Self::Status(it) => Prepared::new(it.json, |output| it.run(output)),
            Self::Queue(it) => Prepared::new(it.json, |output| it.run(output)),
            Self::Cancel(it) => Prepared::new(it.json, |output| it.run(output)),
            Self::History(it) => Prepared::new(it.json, |output| it.run(output)),
            Self::Logs(it) => Prepared::new(it.json, |output| it.run(output)),
            Self::Report(it) => Prepared::new(it.json, |output| it.run(output)),
            Self::Audit(it) => Prepared::new(it.json, |output| it.run(output)),
            Self::Metrics(it) => Prepared::new(it.json, |output| it.run(output)),
            Self::Cache(it) => Prepared::new(it.json, |output| it.run(output)),
            Self::Doctor(it) => Prepared::new(it.json, |output| it.run(output)),
            Self::Init(it) => Prepared::new(it.json, |output| it.run(output)),
            // Every answer of `act edit` is JSON.
            Self::Edit(it) => Prepared::new(true, |output| Ok(it.run(output))),
            Self::Completions(it) => Prepared::new(false, |output| it.run(output)),
            Self::Man(it) => Prepared::new(false, |output| it.run(output)),
        }
    }
}

/// The groups of commands in `act --help`, in the order in which somebody new needs them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Work", &["run", "apply", "verify", "scout", "cancel", "edit"]),
    ("Look", &["status", "queue", "history", "logs", "report", "metrics"]),
    ("Components", &["components"]),
    ("Record", &["audit", "verify-claim"]),
    ("Set up", &["init", "doctor", "demo", "cache", "completions", "man"]),
];

/// The program's arguments, with the commands in groups: clap has headings for arguments only.
fn program() -> clap::Command {
    let program = Cli::command();
    let mut list = String::new();
    for (title, names) in GROUPS {
        list.push_str(&format!("{title}:\n"));
        for name in names {
            let command = program.find_subcommand(name);
            let about = command.and_then(clap::Command::get_about).map(ToString::to_string);
            list.push_str(&format!("  {name:<13}{}\n", about.unwrap_or_default()));
        }
        list.push('\n');
    }
    program.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    ))
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

/// Runs one command line, prints everything that the user has to know, and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let matches = match program().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => return answer_instead(&run::explained(error, &arguments)),
    };
    let place = repo::place(&matches);
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return answer_instead(&error),
    };
    let color = cli.color;
    let Prepared { verbose, json, dry_run, catches_signals, run } = cli.command.prepare(color);
    let (colour, secrets) = (ColourWish::from(color), secrets());
    let output = Output::new(Style { colour, verbose, json, dry_run, secrets, place });
    let result = run(&output);
    let exit = result.unwrap_or_else(|failure: Failure| {
        output.failure(&failure);
        failure.exit
    });
    // A command that catches signals must not wait for a reader that never reads.
    if !catches_signals {
        output::wait_for_readers();
    }
    exit
}

/// Returns every key in the environment, so that output can be redacted.
pub fn secrets() -> Secrets {
    act_config::secrets(|name| std::env::var(name).ok())
}

/// Prints what clap has to say instead of a command's output. Help and version are results; everything else is a usage
/// error, which may quote the arguments and is therefore sanitised like all other output.
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
    fn every_command_is_in_one_group() {
        // CLI-2
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter()).collect();
        let program = Cli::command();
        let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
        let mut names: Vec<_> = shown.map(clap::Command::get_name).collect();
        grouped.sort();
        names.sort();
        assert!(names.iter().eq(grouped.iter().map(|name| **name).collect::<Vec<_>>().iter()));
        let help = super::program().render_long_help().to_string();
        for (title, names) in GROUPS {
            let (_, rest) = help.split_once(&format!("\n{title}:\n")).unwrap();
            assert!(rest.starts_with(&format!("  {} ", names[0])), "{help}");
        }
    }

    #[test]
    fn help_has_examples_and_every_exit_code() {
        // CLI-2
        let help = super::program().render_long_help().to_string();
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
