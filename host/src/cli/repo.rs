//! `--repo`: the repository of a command, and its name in hints when it is not the current directory.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory};

use super::Cli;
use crate::output::Place;
use act_core::shell_word;

// No words of its own: they would take the place of the command's.
#[derive(Debug, clap::Args)]
pub(super) struct RepoArg {
    /// Repository, or a directory in it
    // Global: where the command has subcommands, also behind theirs.
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    pub(super) repo: PathBuf,
}

const REPO: &str = "repo";

/// Of a command line with `--repo`. One that is not text, and that no hint could name, is none.
pub(super) fn place(matches: &ArgMatches) -> Option<Place> {
    let named = named(matches)?;
    let directory = shell_word(std::path::absolute(named).ok()?.to_str()?);
    Some(Place { directory, takes })
}

/// Said by the innermost command last.
fn named(matches: &ArgMatches) -> Option<&Path> {
    let inner = matches.subcommand().and_then(|(_, matches)| named(matches));
    let here = || {
        let typed = matches.try_contains_id(REPO).ok()?
            && matches.value_source(REPO) == Some(ValueSource::CommandLine);
        typed.then(|| matches.get_one::<PathBuf>(REPO).map(PathBuf::as_path))?
    };
    inner.or_else(here)
}

fn takes(words: &[&str]) -> bool {
    let has = |command: &Command, inherited: bool| {
        let mut repo = command.get_arguments().filter(|argument| argument.get_id() == REPO);
        repo.any(|argument| !inherited || argument.is_global_set())
    };
    let whole = Cli::command();
    let mut path = vec![&whole];
    for word in words {
        match path.last().and_then(|command| command.find_subcommand(word)) {
            Some(inner) => path.push(inner),
            None => break,
        }
    }
    let last = path.len() - 1;
    path.iter().enumerate().any(|(at, command)| has(command, at != last))
}

#[cfg(test)]
mod elsewhere_tests {
    use super::*;

    fn directory(arguments: &[&str]) -> Option<String> {
        let matches = Cli::command().try_get_matches_from(arguments).unwrap();
        place(&matches).map(|place| place.directory)
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
            assert!(takes(&takes_it.split(' ').collect::<Vec<_>>()), "{takes_it}");
        }
        for does_not in ["demo", "edit show", "metrics", "cache clear", "--help", ""] {
            assert!(!takes(&does_not.split(' ').collect::<Vec<_>>()), "{does_not}");
        }
    }
}
