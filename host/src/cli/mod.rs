//! The command line: parses the arguments, calls the module that does the work, and prints one result.
//!
//! Parsing has no side effects: no runtime, engine or network connection exists before a command has been parsed.

mod acp;
mod apply;
mod audit;
mod cache;
mod cancel;
mod completions;
mod components;
mod demo;
mod diff;
mod doctor;
mod edit;
mod engines;
mod hook;
mod init;
mod logs;
mod mcp;
mod metrics;
mod report;
mod run;
mod scout;
mod tasks;
mod verify;
mod watch;
mod worktrees;

use std::any::{Any, TypeId};
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::output::{self, ColourWish, Line, Output, RepoHint, Style};
use act_core::exit::Exit;
use act_core::secret::Secrets;
use act_core::{Document, Failure, Schema, Usd, shell_word};
use act_task::CancelTarget;

/// Version, package and commit, behind the name `act`. Other programs have that name, so a report has to say which one it is
/// about.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("CARGO_PKG_NAME"),
    ", commit ",
    env!("ACT_COMMIT"),
    ")"
);

/// The end of the help; the manual page has it in sections of their own.
const EXAMPLES: &str = "\
Examples:
  act demo                               watch a task with a scripted model
  act init                               write a first agent.yaml
  act doctor --model                     check the set-up and the model
  act init --for claude                  make act the gate of another agent
  act run \"fix the failing parser test\"  one task in this repository
  act run --file task.md --verbose       the task from a file, with details
  act run - < task.md                    the task from standard input
  act run --dry-run \"use tabs\"           print a patch and change nothing
  act apply                              apply that patch and verify it
  act run --baseline \"fix the parser\"    run the pipeline first, as it is
  act run --detach --file task.md        run in the background
  act run --worktree \"fix the parser\"    run beside other tasks
  act status                             running, waiting and last task
  act cancel --id 2                      remove the second waiting task
  act history                            earlier tasks and their results
  act watch --open                       all tasks in a browser
  act diff                               what the newest task has changed
  act logs --step test                   output of a step of the last run
  act report                             why the last task is stuck
  act metrics                            results, durations and tokens
  act verify                             run the pipeline without a model
  act verify-claim RUN_ID                repeat a verification and compare
  act mcp                                serve the gate to another agent
  act audit list --deny                  every access that was denied
  act audit explain RUN_ID               the inputs of a verification
  act scout a \"where are dates parsed\"   ask a Scout, without a task
  act components                         components and their permissions
  act edit show --file doc.json          a document with version and lines";

const EXIT_CODES: &str = "\
Exit codes:
  0    SUCCESS or PASS: the pipeline passed; PROPOSED: a patch was printed
  1    refused, or failed before the task started, or what the command is
       about does not exist; doctor found a problem
  2    invalid arguments
  3    STUCK: see agent/stuck_report.md; FAIL: a step of the pipeline failed
  4    INFRA_ERROR: the engine, the image, the model or the machine failed
  130  CANCELLED by a signal or by act cancel";

const ENVIRONMENT: &str = "\
The model is selected by the first of these variables that is set:
  AGENT_LLM_BASE_URL  a Chat Completions server; needs AGENT_LLM_MODEL;
                      its key is OPENAI_API_KEY
  ANTHROPIC_API_KEY   Anthropic, at ANTHROPIC_BASE_URL if that is set
  OPENAI_API_KEY      OpenAI, at OPENAI_BASE_URL if that is set
Without them, [model] in config.toml in $XDG_CONFIG_HOME/act or ~/.config/act
counts. AGENT_LLM_MODEL replaces the model; AGENT_LLM_TOOLS=schema lets a
model without tool calls write each call as a JSON object.

Other variables:
  AGENT_ARTIFACT_DIR  directory for runs, proposals and the history;
                      default: ~/.agent-artifacts
  DOCKER_HOST         address of the container engine, if not the usual socket
  ACT_JSON_SCHEMA     1: JSON as before version 0.2; 0.3 will not have that
  ACT_HOOK            off: hooks of agents and of git let everything go
  NO_COLOR            if not empty, no colour, as with --color never";

/// A coding agent that is done when your own tests pass
///
/// The Editor plans and edits, WebAssembly Scouts read the repository, and a container runs your pipeline. Only a
/// pipeline that passes ends a task with success. The model has no shell and no git.
#[derive(Debug, Parser)]
#[command(name = "act", version = VERSION, after_help = [EXAMPLES, EXIT_CODES, ENVIRONMENT].join("\n\n"))]
struct Cli {
    /// Use colour: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    #[arg(hide_possible_values = true, display_order = 900)]
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
    Worktrees(worktrees::Worktrees),
    History(tasks::History),
    Watch(watch::Watch),
    Diff(diff::Diff),
    Logs(logs::Logs),
    Report(report::Report),
    Verify(verify::Verify),
    VerifyClaim(verify::VerifyClaim),
    Mcp(mcp::Mcp),
    Audit(audit::Audit),
    Metrics(metrics::Metrics),
    Cache(cache::Cache),
    Engines(engines::Engines),
    Scout(scout::Scout),
    Components(components::Components),
    Doctor(doctor::Doctor),
    Init(init::Init),
    Hook(hook::Hook),
    Demo(demo::Demo),
    Edit(edit::Edit),
    Acp(acp::Acp),
    Completions(completions::Completions),
    Man(completions::Man),
    #[command(hide = true)]
    DemoTask(demo::DemoTask),
    #[command(hide = true)]
    TakeOver(run::TakeOver),
    #[command(hide = true)]
    CheckComponent(components::CheckComponent),
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// The options that most commands share. They are not options of `act` itself, because a command must not accept an option
/// that it ignores. `run` reads `--json` once for all commands; [`answer`] prints accordingly.
#[derive(Debug, clap::Args)]
struct CommonOptions {
    /// Repository, or a directory in it
    // Global: commands with subcommands take it before and after the subcommand.
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

impl Command {
    /// Returns whether the command may take minutes and ends in order on a signal.
    fn catches_signals(&self) -> bool {
        match self {
            Self::Run(_) | Self::Apply(_) | Self::Verify(_) | Self::VerifyClaim(_) => true,
            Self::Scout(_) | Self::Demo(_) | Self::DemoTask(_) | Self::TakeOver(_) => true,
            Self::Acp(_) | Self::Mcp(_) | Self::Watch(_) => true,
            Self::Status(status) => status.catches_signals(),
            Self::Components(components) => components.catches_signals(),
            _ => false,
        }
    }

    fn run(self, color: Color, output: &Output) -> Result<Exit, Failure> {
        match self {
            Self::Run(it) => it.run(output),
            Self::Apply(it) => it.run(output),
            Self::Status(it) => it.run(output),
            Self::Queue(it) => it.run(output),
            Self::Cancel(it) => it.run(output),
            Self::Worktrees(it) => it.run(output),
            Self::History(it) => it.run(output),
            Self::Watch(it) => it.run(output),
            Self::Diff(it) => it.run(output),
            Self::Logs(it) => it.run(output),
            Self::Report(it) => it.run(output),
            Self::Verify(it) => it.run(output),
            Self::VerifyClaim(it) => it.run(output),
            Self::Mcp(it) => it.run(output),
            Self::Audit(it) => it.run(output),
            Self::Metrics(it) => it.run(output),
            Self::Cache(it) => it.run(output),
            Self::Engines(it) => it.run(output),
            Self::Scout(it) => it.run(output),
            Self::Components(it) => it.run(output),
            Self::Doctor(it) => it.run(output),
            Self::Init(it) => it.run(output),
            Self::Hook(it) => it.run(output),
            Self::Demo(it) => it.run(color, output),
            Self::Edit(it) => Ok(it.run(output)),
            Self::Acp(it) => it.run(),
            Self::Completions(it) => Ok(it.run(output)),
            Self::Man(it) => it.run(output),
            Self::DemoTask(it) => it.run(output),
            Self::TakeOver(it) => it.run(output),
            Self::CheckComponent(it) => it.run(),
        }
    }
}

/// The groups of commands in `act --help`, in the order in which a new user needs them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Work", &["run", "apply", "verify", "scout", "cancel", "worktrees", "edit", "acp", "mcp"]),
    ("Look", &["status", "queue", "history", "watch", "diff", "logs", "report", "metrics"]),
    ("Components", &["components"]),
    ("Record", &["audit", "verify-claim"]),
    ("Set up", &["init", "doctor", "engines", "hook", "demo", "cache", "completions", "man"]),
];

/// The program's arguments, with the commands in groups: clap has headings for arguments only.
fn program() -> clap::Command {
    let program = with_signed_numbers(Cli::command());
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

/// Lets a number have a minus sign where an argument is a number. Otherwise clap takes `-1` for an unknown option, and the parser
/// of the number never says what is wrong.
fn with_signed_numbers(command: clap::Command) -> clap::Command {
    let numbers = [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<Usd>(),
        TypeId::of::<CancelTarget>(),
    ];
    let is_number = |argument: &clap::Arg| {
        let value = argument.get_value_parser().type_id();
        numbers.iter().any(|number| value == *number)
    };
    command
        .mut_args(|argument| match is_number(&argument) {
            true => argument.allow_negative_numbers(true),
            false => argument,
        })
        .mut_subcommands(with_signed_numbers)
}

/// Adds to a usage error what the person may have overlooked.
fn explained(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let is_negative = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => value.parse::<f64>().is_ok_and(|number| number < 0.0),
        _ => false,
    };
    if error.kind() == ErrorKind::ValueValidation && is_negative {
        let tip = "the number cannot be negative";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    run::explained(error, arguments)
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

/// Has the process get SIGTERM when the process that started it dies, if that is the server which the environment names. A
/// command of `act mcp` would otherwise spend time and tokens for nobody after its server was killed.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{
            Pid, Signal, getppid, kill_process, set_parent_process_death_signal,
        };
        let named = std::env::var(crate::mcp::PARENT).ok().and_then(|pid| pid.parse().ok());
        let Some(parent) = named.and_then(Pid::from_raw) else { return };
        if getppid() == Some(parent) && set_parent_process_death_signal(Some(Signal::TERM)).is_ok()
        {
            // It may have died in between.
            if getppid() != Some(parent) {
                let _ = kill_process(rustix::process::getpid(), Signal::TERM);
            }
        }
    }
}

/// Runs one command line, prints its result or failure, and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    end_with_parent();
    let arguments: Vec<_> = arguments.into_iter().collect();
    let matches = match program().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => return print_clap_error(&explained(error, &arguments), &arguments),
    };
    let Cli { color, command } = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return print_clap_error(&error, &arguments),
    };
    let is_set = |option| typed::<bool>(&matches, option).is_some();
    let schema = Schema::asked_for(std::env::var_os(Schema::VARIABLE).as_deref());
    let output = Output::new(Style {
        colour: color.into(),
        verbose: is_set("verbose"),
        json: is_set("json"),
        dry_run: is_set("dry_run"),
        schema: schema.as_ref().copied().unwrap_or_default(),
        secrets: secrets(),
        repo: repo_hint(&matches),
    });
    if let Err(failure) = schema {
        if hook::is_call(&arguments) {
            return hook::called_wrongly(&failure.message, &output);
        }
        output.failure(&failure);
        return failure.exit;
    }
    components::confine(typed::<PathBuf>(&matches, "repo").cloned());
    let catches_signals = command.catches_signals();
    let exit = command.run(color, &output).unwrap_or_else(|failure| {
        output.failure(&failure);
        failure.exit
    });
    // Commands with events have reported it already.
    act_task::notices().iter().for_each(|text| output.caution(text));
    // A command that catches signals must not wait for a reader that never reads.
    if !catches_signals {
        output::wait_for_readers();
    }
    exit
}

/// Prints the result of a command: one JSON document with `--json`, and lines for people without.
fn answer(output: &Output, document: &impl Document, lines: impl FnOnce() -> Vec<Line>) {
    if output.is_json() {
        output.document(document);
    } else {
        lines().iter().for_each(|line| output.result_line(line));
    }
}

/// Runs the asynchronous work of a command. Commands without such work start no runtime.
///
/// # Errors
///
/// Returns `no_runtime` if the threads of the runtime cannot be started.
fn block_on<F: Future>(work: F) -> Result<F::Output, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            Failure::refused("no_runtime", format!("failed to start the async runtime: {error}"))
                .hint("look at the limits for threads and open files (`ulimit -a`)")
        })?;
    let result = runtime.block_on(work);
    // A thread that is stuck in the kernel must not keep the process alive.
    runtime.shutdown_background();
    Ok(result)
}

/// Returns the value of an option that was typed. The option of a subcommand wins over that of its parent.
fn typed<'m, T: Any + Clone + Send + Sync>(matches: &'m ArgMatches, option: &str) -> Option<&'m T> {
    let inner = matches.subcommand().and_then(|(_, inner)| typed(inner, option));
    inner.or_else(|| {
        let value = matches.try_get_one(option).ok()??;
        (matches.value_source(option) == Some(ValueSource::CommandLine)).then_some(value)
    })
}

/// Returns the repository that `--repo` names, for the commands in hints. A path that is not UTF-8 cannot be part of a hint.
fn repo_hint(matches: &ArgMatches) -> Option<RepoHint> {
    let repo = std::path::absolute(typed::<PathBuf>(matches, "repo")?).ok()?;
    Some(RepoHint { directory: shell_word(repo.to_str()?), takes: takes_repo })
}

/// Returns whether a command, given as the words after `act`, takes `--repo`.
fn takes_repo(words: &[&str]) -> bool {
    let mut command = &Cli::command();
    let has = |command: &clap::Command, inherited: bool| {
        let mut arguments = command.get_arguments().filter(|argument| argument.get_id() == "repo");
        arguments.any(|argument| !inherited || argument.is_global_set())
    };
    for word in words {
        let Some(inner) = command.find_subcommand(word) else { break };
        if has(command, true) {
            return true;
        }
        command = inner;
    }
    has(command, false)
}

/// Returns every key in the environment, so that output can be redacted.
pub fn secrets() -> Secrets {
    act_config::secrets(|name| std::env::var(name).ok())
}

/// Prints the help, the version or the usage error that clap returns instead of a command. A usage error may quote the
/// arguments and is therefore sanitised like all other output.
fn print_clap_error(error: &clap::Error, arguments: &[OsString]) -> Exit {
    let output = Output::new(Style { secrets: secrets(), ..Style::default() });
    let text = error.render().to_string();
    if error.use_stderr() && hook::is_call(arguments) {
        return hook::called_wrongly(&text, &output);
    }
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

    #[test]
    fn a_negative_number_reaches_the_parser_of_its_option_and_is_refused_with_the_reason() {
        // CLI-3
        for arguments in [
            &["run", "x", "--max-cost", "-1"][..],
            &["run", "x", "--max-tokens", "-1"],
            &["apply", "--max-cost", "-0.5"],
            &["history", "--limit", "-20"],
            &["cancel", "--id", "-1"],
            &["audit", "show", "-1"],
            &["audit", "list", "--limit", "-1"],
            &["watch", "--port", "-1"],
            &["verify", "--hook", "claude", "--max-blocks", "-1"],
            &["mcp", "--max-tokens", "-1"],
            &["acp", "--max-cost", "-1"],
        ] {
            let arguments: Vec<_> = ["act"].iter().chain(arguments).map(OsString::from).collect();
            let error = program().try_get_matches_from(&arguments).unwrap_err();
            let told = explained(error, &arguments).render().to_string();
            let number = arguments.last().unwrap().display().to_string();
            assert!(told.starts_with(&format!("error: invalid value '{number}' for ")), "{told}");
            assert!(told.contains("tip: the number cannot be negative"), "{told}");
        }
        let unknown = program().try_get_matches_from(["act", "status", "-1"]).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::UnknownArgument);
    }

    /// Returns every visible command, including subcommands, with the words that a user types for it.
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
        // `doctor` has its table of exit codes above its options.
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

    fn directory(arguments: &[&str]) -> Option<String> {
        let matches = Cli::command().try_get_matches_from(arguments).unwrap();
        repo_hint(&matches).map(|repo| repo.directory)
    }

    // CLI-54
    #[test]
    fn the_repository_is_what_the_command_line_names() {
        assert_eq!(directory(&["act", "status"]), None);
        assert_eq!(directory(&["act", "edit", "queue"]), None);
        assert_eq!(directory(&["act", "status", "--repo", "/a b"]).as_deref(), Some("'/a b'"));
        for nested in [
            ["act", "audit", "--repo", "/r", "list"],
            ["act", "audit", "list", "--repo", "/r"],
            ["act", "take-over", "t-abc123", "--from=1", "--repo=/r"],
        ] {
            assert_eq!(directory(&nested).as_deref(), Some("/r"), "{nested:?}");
        }
    }

    // CLI-54
    #[test]
    fn commands_that_take_no_repository_get_none() {
        for takes_it in ["run x", "apply t-abc123", "init", "audit list", "components show NAME"] {
            assert!(takes_repo(&takes_it.split(' ').collect::<Vec<_>>()), "{takes_it}");
        }
        for does_not in ["demo", "edit show", "metrics", "cache clear", "--help", ""] {
            assert!(!takes_repo(&does_not.split(' ').collect::<Vec<_>>()), "{does_not}");
        }
    }
}
