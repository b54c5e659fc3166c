//! Whether a summary hands over a commit message or the text of a pull request. The user commits, in his own
//! words; so what has that form is sent back. Plain prose may speak of commits as often as it likes. Pure.

use super::claim::{self, is_hash};
use act_records::artifacts::RunId;

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
            } else if claim::is_claim(&words) {
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

/// A commit by its hash or a pull request by its number that `task` does not name either. What stands in
/// backticks is code.
pub(super) fn reference(text: &str, task: &str) -> Option<String> {
    let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let (prose, task) = (prose.to_lowercase(), task.to_lowercase());
    let words: Vec<_> = prose
        .split(|c: char| !(c.is_alphanumeric() || c == '#'))
        .filter(|w| !w.is_empty())
        .collect();
    let numbered = |word: &str| {
        let number = word.strip_prefix('#')?;
        (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then(|| word.to_owned())
    };
    (0..words.len()).find_map(|at| {
        let named = match &words[at..] {
            ["commit", hash, ..] if is_hash(hash) => (*hash).to_owned(),
            ["pr" | "mr", number, ..] | ["pull" | "merge", "request", number, ..] => {
                numbered(number)?
            }
            _ => return None,
        };
        (!task.contains(&named)).then_some(named)
    })
}

/// A run that the text names and that is none of the task's.
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
            "All changes are committed on branch fix-1 and pushed.",
            "All changes are committed.",
            "The fix was pushed to origin.",
            "Committed to main.",
            "Done; everything has been committed and pushed.",
            "The work is committed as 1a2b3c4d.",
            "A pull request was opened.",
            "Committed.",
            "Pushed.",
            "Committed and pushed.",
            "PR opened.",
            "PR #12 is open.",
            "A PR is ready for review.",
            "Opened a PR for this.",
            "Merged to main.",
            "Landed as 1a2b3c4d on main.",
            "The commit has been made.",
            "I've pushed the branch fix/foo.",
            "Changes were pushed upstream.",
            "The work has been checked in to git.",
            "All of it was merged into the main branch.",
            "The merge request has been created for review.",
            "Co-authored-by: A Model <model@example.com>",
            "Then run `git commit -am 'centuries'`.",
        ] {
            assert!(found(text).is_some(), "{text}");
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

    /// EDITOR-33
    #[test]
    fn a_commit_or_pull_request_by_its_number_is_the_tasks_or_nobodys() {
        let of = |text: &str| reference(text, "fix what PR #7 and commit 9f8e7d6c broke");
        assert_eq!(of("Commit abc123 holds it.").as_deref(), Some("abc123"));
        assert_eq!(of("See PR #12.").as_deref(), Some("#12"));
        assert_eq!(of("Opened pull request #3").as_deref(), Some("#3"));
        for text in [
            "As PR #7 wanted, and not as commit 9f8e7d6c did.",
            "They commit 100000 rows at a time.",
            "It commits added rows; commit defaced nothing.",
            "The parser takes `PR #12` and `commit abc123`.",
            "Issue #12 is closed by this.",
        ] {
            assert_eq!(of(text), None, "{text}");
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
            "The session commits the transaction and closes the cursor.",
            "All changes are committed in one transaction.",
            "The changes are pushed to the client as they come.",
            "Pending changes were committed twice; now once.",
            "Pushed values stay in order.",
            "Committed offsets are kept.",
            "It parses the commit message and the branch name.",
            "The bot comments after a pull request was opened.",
            "States are: pending, committed.",
            "Edits are pushed onto the stack.",
            "Updates were pushed in the wrong order.",
            "Both lists are merged into one.",
            "The options are merged with the defaults.",
            "A merged cell keeps its style.",
            "It opened the file and pushed the token.",
            "The plane landed on time.",
            "This is ready for review.",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
