//! `act completions` and `act man`: shell completions and manual page, generated from the arguments of the program.

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::{Cli, ENVIRONMENT, EXAMPLES, EXIT_CODES};
use crate::output::Output;
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  d=~/.local/share/bash-completion/completions; mkdir -p $d && act completions bash > $d/act
  mkdir -p ~/.config/fish/completions && act completions fish > ~/.config/fish/completions/act.fish
  d=~/.zfunc; mkdir -p $d && act completions zsh > $d/_act";

/// Print the completion script of a shell
///
/// bash and fish find the files of the examples without further settings. zsh looks for a file named `_act` in the directories of
/// `fpath`: `fpath+=~/.zfunc` in .zshrc, before `compinit`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let mut page = vec![];
        clap_complete::generate(self.shell, &mut program(), "act", &mut page);
        output.result(&String::from_utf8_lossy(&page));
        Ok(Exit::Ok)
    }
}

const MAN_HELP: &str = "\
Examples:
  act man | man -l -
  d=~/.local/share/man/man1; mkdir -p $d && act man > $d/act.1";

/// Print the manual page, for `man -l -` or a file `act.1`
#[derive(Debug, clap::Args)]
#[command(after_long_help = MAN_HELP)]
pub(super) struct Man {}

impl Man {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        output.result(&page().map_err(|error| {
            Failure::refused("man_failed", format!("cannot generate the manual page: {error}"))
        })?);
        Ok(Exit::Ok)
    }
}

/// The arguments without hidden commands.
fn program() -> Command {
    let whole = Cli::command();
    let shown: Vec<_> =
        whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let arguments: Vec<_> = whole.get_arguments().cloned().collect();
    let about = whole.get_about().cloned().unwrap_or_default();
    let long_about = whole.get_long_about().cloned().unwrap_or_default();
    let after = whole.get_after_help().cloned().unwrap_or_default();
    Command::new("act")
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .long_about(long_about)
        .after_help(after)
        .args(arguments)
        .subcommand_required(true)
        .subcommands(shown)
}

/// The program, then each of its commands.
fn page() -> std::io::Result<String> {
    let program = program();
    let mut page = vec![];
    let whole = clap_mangen::Man::new(with_usage(program.clone(), "act"));
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    whole.render_synopsis_section(&mut page)?;
    whole.render_description_section(&mut page)?;
    whole.render_options_section(&mut page)?;
    for command in program.get_subcommands() {
        section(&mut page, command, "act")?;
    }
    for (title, text) in
        [("EXIT STATUS", EXIT_CODES), ("ENVIRONMENT", ENVIRONMENT), ("EXAMPLES", EXAMPLES)]
    {
        page.extend(format!(".SH \"{title}\"\n").bytes());
        // The title says what the first line says.
        let lines = text.strip_prefix("Exit codes:\n").or(text.strip_prefix("Examples:\n"));
        page.extend(as_it_stands(lines.unwrap_or(text))?.bytes());
    }
    whole.render_version_section(&mut page)?;
    Ok(without_repetition(&String::from_utf8_lossy(&page)))
}

/// Examples and tables, whose lines and columns stay.
fn as_it_stands(text: &str) -> std::io::Result<String> {
    let part = clap_mangen::Man::new(Command::new("act").after_help(text.to_owned()));
    let mut text = vec![];
    part.render_extra_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('.')).collect();
    Ok(match lines.iter().any(|line| !line.is_empty()) {
        true => format!(".PP\n.nf\n{}\n.fi\n", lines.join("\n")),
        false => String::new(),
    })
}

/// Every part begins with the same definition; the first one is enough.
fn without_repetition(page: &str) -> String {
    let (mut seen, mut kept) = (false, String::new());
    for line in page.split_inclusive('\n') {
        let definition = line.starts_with(".ie ") || line.starts_with(".el ");
        if !(definition && seen) {
            kept.push_str(line);
        }
        seen |= line.starts_with(".el ");
    }
    kept
}

/// With what its help says how it is typed: what is needed and what goes together.
fn with_usage(command: Command, name: &str) -> Command {
    let mut command = command.bin_name(name);
    let usage = command.render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    command.override_usage(usage)
}

/// A command, then each of its own.
fn section(page: &mut Vec<u8>, command: &Command, above: &str) -> std::io::Result<()> {
    let name = format!("{above} {}", command.get_name());
    page.extend(format!(".SH \"{}\"\n", name.to_uppercase()).bytes());
    let command = with_usage(command.clone().name("act"), &name);
    let part = clap_mangen::Man::new(command.clone());
    let mut text = vec![];
    part.render_synopsis_section(&mut text)?;
    text.extend(b".PP\n");
    part.render_description_section(&mut text)?;
    part.render_options_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    page.extend(
        text.lines()
            .filter(|line| !line.starts_with(".SH"))
            .flat_map(|line| format!("{line}\n").into_bytes()),
    );
    let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    page.extend(as_it_stands(&after)?.bytes());
    for inner in command.get_subcommands() {
        section(page, inner, &name)?;
    }
    Ok(())
}
