//! Commands that documents, CI and scripts contain: where they are written, and in which directory they run.

use crate::draft::Rank;
use crate::facts::Location;
use crate::tree::location;
use act_kit::paths::resolve;
use act_kit::reports::commands::{ParsedCommand, parse_line};

#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) parsed: ParsedCommand,
    /// The directory in which the command runs, from the repository's root.
    pub(crate) directory: String,
    pub(crate) rank: Rank,
    /// Whether it is written inside a sentence.
    pub(crate) inline: bool,
    /// How far its job of CI is from running the tests of a change; 0 is the best. See [`crate::ci`].
    pub(crate) weight: u32,
    pub(crate) location: Location,
}

/// Returns the commands of a script with one command on each line. A `cd` applies to the lines below it.
pub(crate) fn script(
    text: &str,
    path: &str,
    line: u32,
    directory: &str,
    rank: Rank,
) -> Vec<Statement> {
    let mut out = Vec::new();
    let mut here = Some(directory.to_owned());
    let mut whole = (String::new(), line);
    for (part, number) in text.lines().zip(line..) {
        if whole.0.is_empty() {
            whole.1 = number;
        }
        let part = part.trim();
        if let Some(more) = part.strip_suffix('\\') {
            whole.0.push_str(more);
            continue;
        }
        whole.0.push_str(part);
        let (parsed, at) = std::mem::take(&mut whole);
        if parsed.starts_with('#') {
            continue;
        }
        if let Some(to) = parsed.strip_prefix("cd ").filter(|to| !to.contains("&&")) {
            here = here.and_then(|here| resolve(&here, to.trim()));
            continue;
        }
        let Some(here) = &here else { continue };
        out.extend(line_of(&parsed, path, at, here, rank));
    }
    out
}

/// Returns the commands of one line.
pub(crate) fn line_of(
    line: &str,
    path: &str,
    at: u32,
    directory: &str,
    rank: Rank,
) -> Vec<Statement> {
    let statement = |parsed: ParsedCommand| {
        let directory = resolve(directory, &parsed.directory)?;
        Some(Statement {
            parsed,
            directory,
            rank,
            inline: false,
            weight: 0,
            location: location(path, at),
        })
    };
    parse_line(line).into_iter().filter_map(statement).collect()
}
