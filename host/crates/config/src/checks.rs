//! Checks: single commands that the model may run in a container while it works. They decide nothing about a task.
//!
//! A template of `agent.yaml` is a command with places for arguments, `pytest -q {path}`. What runs is made from the
//! template and from arguments that `shlex` has quoted, so that an argument is one word for the shell, whatever it holds.

use std::fmt;

use serde::Deserialize;

/// Maximum number of bytes of a command: a long list of tests, and no program.
pub const MAX_CHECK: usize = 4096;

/// The commands that the model may run. The order is that of how much they allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckMode {
    /// None.
    Off,
    /// Those of the templates.
    Declared,
    /// Any.
    Any,
}

impl CheckMode {
    /// The words of `agent.yaml`, `config.toml` and `policy.toml`.
    pub(super) const WORDS: [(&'static str, Self); 3] =
        [("off", Self::Off), ("declared", Self::Declared), ("any", Self::Any)];
}

/// `verification.checks` and the templates of `checks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checks {
    pub mode: CheckMode,
    pub templates: Vec<CheckTemplate>,
}

/// A command that the repository lets the model run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckTemplate {
    pub name: String,
    /// The command as `agent.yaml` has it.
    pub command: String,
    /// The words of a command with arguments; `None` for one that runs as it is written.
    words: Option<Vec<Word>>,
}

/// A word of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Fixed(String),
    /// One argument between two texts, of which both may be empty.
    Argument {
        before: String,
        after: String,
    },
}

/// Why a command is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckRefused {
    /// Checks are off for this repository.
    Off,
    /// The command is empty or too long, or holds a character that no command needs.
    Malformed(&'static str),
    /// No template fits the command.
    NotDeclared,
}

/// What the template of a command with arguments may be.
pub(super) const EXPECTED: &str = "a command whose arguments stand as `{word}`, one in a word, among plain words of letters, \
    digits and `_-./:=,@%+` (a command without arguments may be any script)";

impl Checks {
    /// Returns the script that runs for a command of the model.
    ///
    /// # Errors
    ///
    /// The command may not run.
    pub fn admit(&self, command: &str) -> Result<String, CheckRefused> {
        if self.mode == CheckMode::Off {
            return Err(CheckRefused::Off);
        }
        let command = command.trim();
        if command.is_empty() {
            return Err(CheckRefused::Malformed("command must not be empty"));
        }
        if command.len() > MAX_CHECK {
            return Err(CheckRefused::Malformed("command must have at most 4096 bytes"));
        }
        if command.contains('\0') {
            return Err(CheckRefused::Malformed("command must not hold a NUL"));
        }
        match self.mode {
            CheckMode::Any => Ok(command.to_owned()),
            _ => {
                let fits = self.templates.iter().find_map(|template| template.fill(command));
                fits.ok_or(CheckRefused::NotDeclared)
            }
        }
    }
}

impl CheckTemplate {
    /// Parses a template. Returns `None` when it cannot be filled safely.
    pub(super) fn parse(name: String, command: String) -> Option<Self> {
        if !has_argument(&command) {
            return Some(Self { name, command, words: None });
        }
        let words = command.split_whitespace().map(Word::parse).collect::<Option<_>>()?;
        Some(Self { name, words: Some(words), command })
    }

    /// Returns the script for a command of the model that fits the template.
    fn fill(&self, command: &str) -> Option<String> {
        let Some(words) = &self.words else {
            return (self.command.trim() == command).then(|| self.command.clone());
        };
        let given = shlex::split(command)?;
        if given.len() != words.len() {
            return None;
        }
        let filled = words.iter().zip(given).map(|(word, given)| word.fill(&given));
        Some(filled.collect::<Option<Vec<_>>>()?.join(" "))
    }
}

impl Word {
    fn parse(word: &str) -> Option<Self> {
        let is_plain = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
            text.chars().all(plain)
        };
        let Some((before, rest)) = word.split_once('{') else {
            return is_plain(word).then(|| Self::Fixed(word.to_owned()));
        };
        let (name, after) = rest.split_once('}')?;
        (is_name(name) && is_plain(before) && is_plain(after))
            .then(|| Self::Argument { before: before.to_owned(), after: after.to_owned() })
    }

    /// Returns the word of the script for a word of the model's command. An argument may not pass for an option.
    fn fill(&self, given: &str) -> Option<String> {
        match self {
            Self::Fixed(word) => (word == given).then(|| word.clone()),
            Self::Argument { before, after } => {
                let argument = given.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
                let option = before.is_empty() && argument.starts_with('-');
                if argument.is_empty() || option || argument.chars().any(char::is_control) {
                    return None;
                }
                shlex::try_quote(given).ok().map(Into::into)
            }
        }
    }
}

/// Returns whether a command has a place for an argument.
fn has_argument(command: &str) -> bool {
    command.match_indices('{').any(|(at, _)| {
        let rest = command.get(at + 1..).unwrap_or_default();
        rest.split_once('}').is_some_and(|(name, _)| is_name(name))
    })
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(fits)
}

impl fmt::Display for CheckTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.command.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(mode: CheckMode, commands: &[&str]) -> Checks {
        let template = |command: &&str| CheckTemplate::parse("t".into(), (*command).into());
        Checks { mode, templates: commands.iter().map(|c| template(c).unwrap()).collect() }
    }

    // CONFIG-57
    #[test]
    fn a_template_takes_one_word_for_each_argument_and_nothing_else() {
        let declared = checks(
            CheckMode::Declared,
            &[
                "pytest -q {path}",
                "npx jest --testNamePattern={name} {path}",
                "cd web && npm test | tail",
            ],
        );
        for (command, script) in [
            ("pytest -q tests/test_a.py::test_x", "pytest -q tests/test_a.py::test_x"),
            ("pytest  -q 'a b.py'", "pytest -q 'a b.py'"),
            ("pytest -q '$(id)'", "pytest -q '$(id)'"),
            ("pytest -q a.py\\;id", "pytest -q 'a.py;id'"),
            ("pytest -q \"it's\"", "pytest -q \"it's\""),
            (
                "npx jest '--testNamePattern=adds two' a.js",
                "npx jest '--testNamePattern=adds two' a.js",
            ),
            (" cd web && npm test | tail ", "cd web && npm test | tail"),
        ] {
            let filled = declared.admit(command).unwrap();
            assert_eq!(filled, script, "{command}");
            if !command.contains("&&") {
                assert_eq!(shlex::split(&filled), shlex::split(command), "{command}");
            }
        }
        for command in [
            "pytest -q",
            "pytest -q a b",
            "pytest -v a.py",
            "pytest -q a.py; id",
            "pytest -q a.py && id",
            "pytest -q $(id) x",
            "pytest -q ''",
            "pytest -q -p=evil",
            "pytest -q 'a",
            "pytest -q \"a\u{7}\"",
            "cd web && npm test",
            "id",
        ] {
            assert_eq!(declared.admit(command), Err(CheckRefused::NotDeclared), "{command}");
        }
    }

    // CONFIG-57
    #[test]
    fn a_place_for_an_argument_inside_of_quotes_or_of_shell_syntax_is_no_template() {
        for command in [
            "sh -c 'pytest {path}'",
            "sh -c \"pytest {path}\"",
            "cd web && pytest {path}",
            "pytest {path} | tail",
            "pytest `x` {path}",
            "pytest $X {path}",
            "pytest {path}{name}",
            "cat <<E\n{path}\nE",
            "pytest #{path}",
        ] {
            assert_eq!(CheckTemplate::parse("t".into(), command.into()), None, "{command}");
        }
        for script in ["awk '{ print $1 }' x", "echo ${HOME} {} {A}", "a\nb"] {
            let template = CheckTemplate::parse("t".into(), script.into()).unwrap();
            assert_eq!(template.fill(script).as_deref(), Some(script));
        }
    }

    // CONFIG-56
    #[test]
    fn any_command_of_bounded_size_runs_where_any_may() {
        let any = checks(CheckMode::Any, &[]);
        assert_eq!(any.admit(" ls | wc -l ").as_deref(), Ok("ls | wc -l"));
        for command in ["", " \n", "a\0b", &"x".repeat(MAX_CHECK + 1)] {
            assert!(matches!(any.admit(command), Err(CheckRefused::Malformed(_))), "{command:?}");
        }
        assert_eq!(checks(CheckMode::Off, &["true"]).admit("true"), Err(CheckRefused::Off));
    }
}
