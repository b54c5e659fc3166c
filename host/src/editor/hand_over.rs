//! Whether a summary hands over a commit message or the text of a pull request. The user commits, in his own
//! words; so what has that form is sent back. Plain prose may speak of commits as often as it likes. Pure.

/// What a text hands over, if anything, in words for the model.
pub(super) fn found(text: &str) -> Option<&'static str> {
    let lowered = text.to_lowercase();
    if COMMANDS.iter().any(|command| lowered.contains(command)) {
        return Some("a command for git");
    }
    text.lines().map(bare).find_map(|line| {
        if is_header(line) {
            return Some("a commit message");
        }
        let lowered = line.to_lowercase();
        if TRAILERS.iter().any(|trailer| lowered.starts_with(trailer)) {
            return Some("a trailer of a commit");
        }
        lowered.split_inclusive(['.', '!', '?', ';']).find_map(|sentence| {
            let words: Vec<_> =
                sentence.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
            if is_label(bare(sentence)) || is_offer(&words) {
                Some("a commit message or the text of a pull request")
            } else if is_claim(&words) {
                Some("a commit or a pull request that nobody made")
            } else {
                None
            }
        })
    })
}

const COMMANDS: [&str; 4] = ["git commit -", "git push origin", "gh pr create", "glab mr create"];

const TRAILERS: [&str; 3] = ["co-authored-by:", "signed-off-by:", "reviewed-by:"];

/// Without the marks of headings, quotations, lists and emphasis in front.
fn bare(line: &str) -> &str {
    line.trim_start_matches(|c: char| c.is_whitespace() || "#>*-_`\"'".contains(c)).trim_end()
}

/// `feat(parser)!: …`, as the first line of a message is written. Some types are ordinary words with a colon
/// unless they name a scope.
fn is_header(line: &str) -> bool {
    const ALONE: [&str; 5] = ["feat", "fix", "chore", "refactor", "revert"];
    const SCOPED: [&str; 6] = ["build", "ci", "docs", "perf", "style", "test"];
    let Some((head, subject)) = line.split_once(": ") else { return false };
    let plain = head.strip_suffix('!').unwrap_or(head);
    let (kind, scope) = match plain.strip_suffix(')').and_then(|head| head.split_once('(')) {
        Some((kind, scope)) => (kind, !scope.is_empty()),
        None => (plain, false),
    };
    let marked = scope || plain.len() < head.len();
    !subject.trim().is_empty() && (ALONE.contains(&kind) || (marked && SCOPED.contains(&kind)))
}

/// `Commit message:`, `## PR description`; not a sentence about commit messages.
fn is_label(sentence: &str) -> bool {
    let parts = ["message", "title", "subject", "body", "description", "summary", "text"];
    let things = ["commit ", "pr ", "mr ", "pull request ", "merge request "];
    let rest = things.iter().find_map(|thing| {
        let rest = sentence.strip_prefix(thing)?;
        parts.iter().find_map(|part| rest.strip_prefix(part))
    });
    rest.is_some_and(|rest| {
        let rest = rest.trim_start_matches(|c: char| "*_`\" ".contains(c));
        rest.is_empty() || rest.starts_with(':')
    })
}

/// `Suggested commit: …`, wherever it stands.
fn is_offer(words: &[&str]) -> bool {
    words.windows(2).any(|pair| {
        matches!(
            pair,
            ["suggested" | "proposed" | "recommended", "commit" | "pr" | "pull" | "merge"]
        )
    })
}

/// `This PR adds …`, `I committed …`, `we opened a pull request`.
fn is_claim(words: &[&str]) -> bool {
    if let ["this", rest @ ..] = words
        && let Some([verb, ..]) = after_request(rest).or(match rest {
            ["commit", rest @ ..] => Some(rest),
            _ => None,
        })
        && verb.len() > 1
        && verb.ends_with('s')
    {
        return true;
    }
    (0..words.len()).any(|at| match &words[at..] {
        ["i" | "we", "have" | "ve", rest @ ..] | ["i" | "we", rest @ ..] => match rest {
            ["committed", ..] => true,
            [
                "opened" | "created" | "submitted" | "raised" | "prepared",
                "a" | "the",
                rest @ ..,
            ] => {
                // A template or a check for pull requests is another thing.
                let ends = |rest: &[&str]| matches!(rest, [] | ["for" | "with" | "and" | "to", ..]);
                after_request(rest).is_some_and(ends)
            }
            _ => false,
        },
        _ => false,
    })
}

/// What follows the name of a pull request.
fn after_request<'a, 'w>(words: &'a [&'w str]) -> Option<&'a [&'w str]> {
    match words {
        ["pr", rest @ ..] | ["pull" | "merge", "request", rest @ ..] => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EDITOR-33
    #[test]
    fn messages_and_texts_for_others_are_found() {
        for text in [
            "feat: handle centuries",
            "Handled centuries.\n\nfix(leap): refuse 1900\n\nIt was taken.",
            "`refactor!: drop the old parser`",
            "docs(readme): say how",
            "Commit message: Handle centuries",
            "**Commit message**\n\nHandle centuries",
            "Done. Commit message: handle centuries",
            "## PR description\n\nHandles centuries.",
            "Pull request title: Centuries",
            "All green; suggested commit: `handle centuries`.",
            "This PR adds the rule for centuries.",
            "Fixed. This commit makes leap right.",
            "I committed the changes.",
            "I have opened a pull request with the fix.",
            "Co-authored-by: A Model <model@example.com>",
            "Then run `git commit -am 'centuries'`.",
        ] {
            assert!(found(text).is_some(), "{text}");
        }
    }

    #[test]
    fn prose_about_commits_is_no_commit_message() {
        for text in [
            "",
            "A committed transaction is never rolled back now.",
            "Readers wait until the writer has committed; then they see the commit.",
            "`commit` retries twice. Commit messages are checked for their length.",
            "The hook reads the commit message: its first line must be short.",
            "- begin: takes the lock\n- commit: waits for the log",
            "The list of pull requests is sorted by date; each pull request shows its author.",
            "I created a pull request template. We push the filter down into the scan.",
            "When all participants are ready to commit, the coordinator decides.",
            "This commits the cursor after each batch.",
            "test: tests/leap.sh asks about 1900",
            "Fix: the rule for centuries was missing.",
            "Tests: two added. Docs: none.",
            "It skips what `git commit` would skip.",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
