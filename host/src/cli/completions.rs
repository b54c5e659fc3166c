//! `act completions` and `act man`: shell completions and manual page, generated from the arguments of the program.

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::{Cli, ENVIRONMENT, EXAMPLES, EXIT_CODES};
use crate::output::Output;
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  d=~/.local/share/bash-completion/completions; mkdir -p $d
  act completions bash > $d/act
  d=~/.config/fish/completions; mkdir -p $d
  act completions fish > $d/act.fish
  d=~/.zfunc; mkdir -p $d
  act completions zsh > $d/_act";

/// Print the completions of a shell
///
/// bash and fish find the files of the examples without further settings. zsh also needs `fpath+=~/.zfunc` in .zshrc,
/// before `compinit`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, output: &Output) -> Exit {
        let mut page = vec![];
        clap_complete::generate(self.shell, &mut program(), "act", &mut page);
        output.result(&String::from_utf8_lossy(&page));
        Exit::Ok
    }
}

const MAN_HELP: &str = "\
Examples:
  act man | man -l -
  d=~/.local/share/man/man1; mkdir -p $d && act man > $d/act.1";

/// Print the manual page
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

/// Returns the program without its hidden commands. clap cannot remove a command, so the visible parts are copied.
fn program() -> Command {
    let whole = Cli::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("act")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .long_about(whole.get_long_about().cloned().unwrap_or_default())
        .after_help(whole.get_after_help().cloned().unwrap_or_default())
        .args(whole.get_arguments())
        .subcommand_required(true)
        .subcommands(shown)
}

/// Returns the manual page: the program, each of its commands, then exit codes, variables and examples.
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
        // The title of the section replaces the first line.
        let lines = text.strip_prefix("Exit codes:\n").or(text.strip_prefix("Examples:\n"));
        page.extend(preformatted(lines.unwrap_or(text))?.bytes());
    }
    whole.render_version_section(&mut page)?;
    Ok(without_repetition(&String::from_utf8_lossy(&page)))
}

/// Returns examples and tables as preformatted text, so that man does not fill their lines.
fn preformatted(text: &str) -> std::io::Result<String> {
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

/// Removes the roff definitions that clap_mangen repeats at the start of every part; the first one is enough.
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

/// Returns the command with the usage line of its help, which shows what is required and what excludes each other.
fn with_usage(command: Command, name: &str) -> Command {
    let mut command = command.bin_name(name);
    let usage = command.render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    command.override_usage(usage)
}

/// Appends the section of a command, then those of its subcommands.
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
    page.extend(preformatted(&after)?.bytes());
    for inner in command.get_subcommands() {
        section(page, inner, &name)?;
    }
    Ok(())
}
