//! Reads commands in READMEs and similar documents: in blocks of code, and inside of sentences.

use crate::draft::Rank;
use crate::statement::{Statement, line_of};
use crate::tree::Tree;
use act_kit::inventory::name;
use act_kit::paths::directory;

const MOST: usize = 30;

/// Names of documents without extension, the most reliable first.
const NAMES: [&str; 8] = [
    "readme",
    "contributing",
    "development",
    "developing",
    "hacking",
    "install",
    "building",
    "testing",
];

/// Languages of code blocks that are shell; an unnamed block counts.
const SHELLS: [&str; 10] = [
    "",
    "sh",
    "bash",
    "shell",
    "zsh",
    "console",
    "shell-session",
    "terminal",
    "text",
    "shellsession",
];

pub(crate) fn read(tree: &Tree<'_>) -> Vec<Statement> {
    let rank = |path: &str| {
        let (stem, extension) = name(path).rsplit_once('.').unwrap_or((name(path), ""));
        let known = ["", "md", "rst", "txt", "markdown", "adoc"].contains(&extension);
        let stem = stem.to_lowercase();
        NAMES
            .iter()
            .position(|name| *name == stem)
            .filter(|_| known && path.matches('/').count() <= 3)
    };
    let mut paths = tree.inventory.paths().filter_map(|p| Some((rank(p)?, p))).collect::<Vec<_>>();
    paths.sort_by_key(|(rank, path)| (path.matches('/').count(), *rank, *path));
    let mut out = Vec::new();
    for (_, path) in paths.into_iter().take(MOST) {
        let Some(text) = tree.text(path) else { continue };
        let lies_in = directory(path);
        let last = lies_in.rsplit('/').next().unwrap_or_default();
        let about =
            if ["docs", "doc", ".github"].contains(&last) { directory(lies_in) } else { lies_in };
        let document = Document { path, about };
        if path.ends_with(".rst") {
            document.rst(&text, &mut out)
        } else {
            document.markdown(&text, &mut out)
        }
    }
    // Commands in blocks are meant to be typed. Those inside of sentences rank lower.
    out.sort_by_key(|statement| statement.inline);
    out
}

struct Document<'a> {
    path: &'a str,
    about: &'a str,
}

impl Document<'_> {
    fn markdown(&self, text: &str, out: &mut Vec<Statement>) {
        let mut fence = None::<(String, Vec<(String, u32)>)>;
        for (line, number) in text.lines().zip(1..) {
            let trimmed = line.trim_start();
            let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
            match (&mut fence, mark) {
                (Some((_, block)), None) => block.push((trimmed.to_owned(), number)),
                (Some(_), Some(_)) => {
                    if let Some((language, block)) = fence.take()
                        && SHELLS.contains(&language.as_str())
                    {
                        self.block(&block, out);
                    }
                }
                (None, Some(mark)) => {
                    let language = trimmed.trim_start_matches(&mark[..1]).trim();
                    let language = language.split([' ', ',', '{']).next().unwrap_or_default();
                    fence = Some((language.to_lowercase(), vec![]));
                }
                (None, None) if line.starts_with("    ") && trimmed.starts_with("$ ") => {
                    self.block(&[(trimmed.to_owned(), number)], out);
                }
                (None, None) => self.passing(line, number, "`", out),
            }
        }
    }

    fn rst(&self, text: &str, out: &mut Vec<Statement>) {
        let mut block = None::<Vec<(String, u32)>>;
        for (line, number) in text.lines().zip(1..) {
            let indented = line.starts_with([' ', '\t']);
            if let Some(lines) = &mut block {
                if indented || line.trim().is_empty() {
                    lines.push((line.trim().to_owned(), number));
                    continue;
                }
                let lines = block.take().unwrap_or_default();
                self.block(&lines, out);
            }
            let directive = line.trim_start().strip_prefix(".. code");
            let shell = directive.is_some_and(|rest| {
                let language = rest.rsplit("::").next().unwrap_or_default().trim();
                SHELLS.contains(&language)
            });
            let plain = directive.is_none()
                && line.trim_end().ends_with("::")
                && !line.trim_start().starts_with("..");
            if shell || plain {
                block = Some(vec![]);
            } else {
                self.passing(line, number, "``", out);
            }
        }
        self.block(&block.unwrap_or_default(), out);
    }

    /// Returns the commands of a block. With a prompt in the block, lines without one are output.
    fn block(&self, lines: &[(String, u32)], out: &mut Vec<Statement>) {
        let prompted = lines.iter().any(|(line, _)| line.starts_with("$ "));
        let mut here = String::new();
        for (line, number) in lines {
            let command = match line.strip_prefix("$ ").or_else(|| line.strip_prefix("> ")) {
                Some(command) => command,
                None if prompted => continue,
                None => line,
            };
            if command.starts_with(['#', ':']) {
                continue;
            }
            // A text far to the right is a remark about the command.
            let command = command.split("  ").next().unwrap_or(command).trim();
            if let Some(to) = command.strip_prefix("cd ").filter(|to| !to.contains(['&', ';'])) {
                // The directory is the clone that the lines above made.
                here = to.trim().trim_end_matches('/').to_owned();
                continue;
            }
            let about = self.about;
            let joined = if about.is_empty() { here.clone() } else { format!("{about}/{here}") };
            out.extend(line_of(command, self.path, *number, &joined, Rank::Documents));
        }
    }

    fn passing(&self, line: &str, number: u32, mark: &str, out: &mut Vec<Statement>) {
        for code in line.split(mark).skip(1).step_by(2) {
            if code.contains(' ') || code.contains('/') {
                let parsed = line_of(code, self.path, number, self.about, Rank::Documents);
                out.extend(
                    parsed.into_iter().map(|statement| Statement { inline: true, ..statement }),
                );
            }
        }
    }
}
