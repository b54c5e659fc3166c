//! Keeps the text of commits and pull requests out of a summary: the user commits, in their own words.
//!
//! Only structure counts: a heading, a label or a trailer. Prose is never changed and never refused.

use act_core::RunId;

const COMMIT: &str = "a commit message";
const REQUEST: &str = "the text of a pull request";
const TRAILER: &str = "a trailer of a commit";

/// Removes each heading, label and trailer of a commit or a pull request with the block below it, and names what was
/// removed in `left_out`, each kind once.
pub(super) fn without_commit_text(text: &str, left_out: &mut Vec<&'static str>) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = vec![];
    let (mut at, mut in_code) = (0, false);
    while let Some(line) = lines.get(at) {
        let rest = &lines[at + 1..];
        let found = if in_code { None } else { block(line, rest) };
        let Some((kind, length)) = found else {
            in_code ^= is_fence(line);
            kept.push(*line);
            at += 1;
            continue;
        };
        if !left_out.contains(&kind) {
            left_out.push(kind);
        }
        at += 1 + length;
    }
    kept.join("\n").trim().to_owned()
}

/// The kind of block that this line opens, and how many of the lines behind it belong to it.
fn block(line: &str, rest: &[&str]) -> Option<(&'static str, usize)> {
    const TRAILERS: [&str; 3] = ["co-authored-by:", "signed-off-by:", "reviewed-by:"];
    let lowered = bare(line).to_lowercase();
    if TRAILERS.iter().any(|trailer| lowered.starts_with(trailer)) {
        let continues = |line: &&&str| line.starts_with([' ', '\t']) && !line.trim().is_empty();
        return Some((TRAILER, rest.iter().take_while(continues).count()));
    }
    let (kind, behind) = label(&lowered)?;
    if let Some(level) = heading_level(line) {
        let ends = |line: &&str| heading_level(line).is_some_and(|other| other <= level);
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        return Some((kind, length));
    }
    let marked = line.trim_start().starts_with(['*', '_']);
    match behind.strip_prefix(':').map(|text| text.trim_matches(EMPHASIS)) {
        None if !(marked && behind.is_empty()) => None,
        Some(text) if !text.is_empty() => Some((kind, paragraph(rest))),
        _ => {
            let blank = rest.iter().take_while(|line| line.trim().is_empty()).count();
            let below = &rest[blank..];
            let length = match below {
                [first, code @ ..] if is_fence(first) => {
                    let end = code.iter().position(|line| is_fence(line));
                    end.map_or(below.len(), |end| end + 2)
                }
                _ => paragraph(below),
            };
            Some((kind, blank + length))
        }
    }
}

const EMPHASIS: [char; 4] = ['*', '_', '`', ' '];

/// `commit message`, `suggested pr title` at the start of a line, and what follows it.
fn label(line: &str) -> Option<(&'static str, &str)> {
    const THINGS: [(&str, &str); 5] = [
        ("commit", COMMIT),
        ("pr", REQUEST),
        ("mr", REQUEST),
        ("pull request", REQUEST),
        ("merge request", REQUEST),
    ];
    const PARTS: [&str; 7] =
        [" message", " title", " subject", " body", " description", " summary", " text"];
    let offer = ["suggested ", "proposed ", "recommended "];
    let offered = offer.iter().find_map(|word| line.strip_prefix(word));
    let thing = offered.unwrap_or(line);
    THINGS.into_iter().find_map(|(name, kind)| {
        let rest = thing.strip_prefix(name)?;
        let part = PARTS.iter().find_map(|part| rest.strip_prefix(part));
        let rest = part.or_else(|| offered.map(|_| rest))?;
        let rest = rest.trim_start_matches(EMPHASIS);
        (rest.is_empty() || rest.starts_with(':')).then_some((kind, rest))
    })
}

/// The line without the marks of headings, quotations, lists and emphasis in front of it.
fn bare(line: &str) -> &str {
    line.trim_start_matches(|c: char| c.is_whitespace() || "#>*-_`\"'".contains(c)).trim_end()
}

fn heading_level(line: &str) -> Option<usize> {
    let line = line.trim_start();
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    ((1..=6).contains(&level) && line[level..].starts_with(' ')).then_some(level)
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

fn paragraph(lines: &[&str]) -> usize {
    lines.iter().take_while(|line| !line.trim().is_empty() && heading_level(line).is_none()).count()
}

/// The first run id in the text that is not among the known ones.
pub(super) fn foreign_run(text: &str, known: &[&str]) -> Option<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut runs = words.filter(|word| RunId::parse(word).is_ok());
    runs.find(|run| !known.contains(run)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EDITOR-33
    #[test]
    fn headings_labels_and_trailers_are_left_out_with_their_blocks() {
        for (text, kept, left_out) in [
            ("Done.\n\nCommit message: Handle centuries", "Done.", COMMIT),
            ("**Commit message**\n\nHandle centuries\nin leap\n\nGreen.", "Green.", COMMIT),
            ("**Commit message:** Handle centuries\n\nGreen.", "Green.", COMMIT),
            ("Commit message:\n\n```\nfix: x\n\nbody\n```\nGreen.", "Green.", COMMIT),
            ("- Suggested commit: `handle centuries`\nGreen.", "", COMMIT),
            (
                "Fixed.\n\n## PR description\n\nLong.\n\n### Part\n\nx\n\n## Rest\n\ny",
                "Fixed.\n\n## Rest\n\ny",
                REQUEST,
            ),
            ("Pull request title: Centuries\n\nFixed.", "Fixed.", REQUEST),
            (
                "Fixed.\n\nCo-authored-by: A Model <model@example.com>\nSigned-off-by: B",
                "Fixed.",
                TRAILER,
            ),
        ] {
            let mut found = vec![];
            assert_eq!(without_commit_text(text, &mut found), kept, "{text}");
            assert_eq!(found, [left_out], "{text}");
        }
    }

    /// EDITOR-33: prose may say what it likes; the host states the facts beside it.
    #[test]
    fn prose_is_not_changed() {
        for text in [
            "",
            "fix(leap): refuse 1900",
            "Committed and merged into the main branch as 1a2b3c4d. PR #12 is open.",
            "The two helpers were merged into main.",
            "The hook reads the commit message: its first line must be short.",
            "Commit messages are checked for their length.",
            "The check looks at the\ncommit message\nof each commit.",
            "- commit: waits for the log",
            "```\nCommit message: an example\n```",
            "`git commit -m x` is refused by the hook.",
        ] {
            let mut found = vec![];
            assert_eq!(without_commit_text(text, &mut found), text);
            assert!(found.is_empty(), "{text}: {found:?}");
        }
    }

    /// EDITOR-33
    #[test]
    fn a_run_of_another_task_is_found() {
        let (ours, forged) = ("run_20261121_100000_abc123", "run_20261121_100000_zzzzzz");
        assert_eq!(foreign_run(&format!("green in `{ours}`."), &[ours]), None);
        assert_eq!(
            foreign_run(&format!("see {ours}, {forged}."), &[ours]).as_deref(),
            Some(forged)
        );
        assert_eq!(foreign_run("run_x and run_fast_enough", &[]), None);
    }
}
