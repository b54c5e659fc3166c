//! Commands that somebody writes down: where, for which directory, in which kind of place.

use crate::draft::Rank;
use crate::facts::Place;
use crate::shell::{Spoken, spoken};
use crate::tree::place;
use act_kit::paths::resolve;

#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) said: Spoken,
    /// In which the command runs, from the repository's root.
    pub(crate) directory: String,
    pub(crate) rank: Rank,
    /// Shown in passing, inside a sentence.
    pub(crate) inline: bool,
    pub(crate) place: Place,
}

/// The commands of a script, a line each; `cd` holds for the lines that follow.
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
        let (said, at) = std::mem::take(&mut whole);
        if said.starts_with('#') {
            continue;
        }
        if let Some(to) = said.strip_prefix("cd ").filter(|to| !to.contains("&&")) {
            here = here.and_then(|here| resolve(&here, to.trim()));
            continue;
        }
        let Some(here) = &here else { continue };
        out.extend(line_of(&said, path, at, here, rank));
    }
    out
}

/// The commands of one line.
pub(crate) fn line_of(
    line: &str,
    path: &str,
    at: u32,
    directory: &str,
    rank: Rank,
) -> Vec<Statement> {
    let statement = |said: Spoken| {
        let directory = resolve(directory, &said.directory)?;
        Some(Statement { said, directory, rank, inline: false, place: place(path, at) })
    };
    spoken(line).into_iter().filter_map(statement).collect()
}
