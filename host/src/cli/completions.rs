//! `act completions` and `act man`: what shells and `man` know of this program, made from its own arguments.

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use crate::exit::Exit;
use crate::output::{Failure, Output};

const AFTER_HELP: &str = "\
Examples:
  act completions bash > ~/.local/share/bash-completion/completions/act
  act completions fish > ~/.config/fish/completions/act.fish";

/// Print what a shell needs to complete commands and options
///
/// For bash: `act completions bash > ~/.local/share/bash-completion/completions/act`. For zsh a file named
/// `_act` in a directory of `fpath`, for fish `~/.config/fish/completions/act.fish`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Completions {
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

/// Print the manual page, for `man -l -` or a file `act.1`
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  act man | man -l -\n  act man > ~/.local/share/man/man1/act.1"
)]
pub(super) struct Man {}

impl Man {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        output.result(&page().map_err(|error| {
            Failure::refused("man_failed", format!("the manual page cannot be made: {error}"))
        })?);
        Ok(Exit::Ok)
    }
}

/// Without the commands that nobody types.
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
        .subcommands(shown)
}

/// The program, then each of its commands.
fn page() -> std::io::Result<String> {
    let program = program();
    let mut page = vec![];
    let whole = clap_mangen::Man::new(program.clone());
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    whole.render_synopsis_section(&mut page)?;
    whole.render_description_section(&mut page)?;
    whole.render_options_section(&mut page)?;
    for command in program.get_subcommands() {
        section(&mut page, command, "act")?;
    }
    page.extend(b".SH EXAMPLES\n");
    page.extend(as_it_stands(&whole)?.bytes());
    whole.render_version_section(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Examples and tables, whose lines and columns stay.
fn as_it_stands(part: &clap_mangen::Man) -> std::io::Result<String> {
    let mut text = vec![];
    part.render_extra_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('.')).collect();
    Ok(match lines.iter().any(|line| !line.is_empty()) {
        true => format!(".PP\n.nf\n{}\n.fi\n", lines.join("\n")),
        false => String::new(),
    })
}

/// A command, then each of its own.
fn section(page: &mut Vec<u8>, command: &Command, above: &str) -> std::io::Result<()> {
    let name = format!("{above} {}", command.get_name());
    page.extend(format!(".SH \"{}\"\n", name.to_uppercase()).bytes());
    let part = clap_mangen::Man::new(command.clone().name("act"));
    let mut text = vec![];
    part.render_description_section(&mut text)?;
    part.render_options_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    page.extend(
        text.lines()
            .filter(|line| !line.starts_with(".SH"))
            .flat_map(|line| format!("{line}\n").into_bytes()),
    );
    page.extend(as_it_stands(&part)?.bytes());
    for inner in command.get_subcommands() {
        section(page, inner, &name)?;
    }
    Ok(())
}
