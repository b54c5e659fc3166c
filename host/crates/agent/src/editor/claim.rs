//! Whether a sentence claims that work was committed, pushed, merged or put up for review: nobody did that. By its
//! words alone, in any order of clauses; the host says the fact beside whatever a claim in other words gets past.
//! Pure.

/// `words` are lower case letters and digits of one sentence.
pub(super) fn is_claim(words: &[&str]) -> bool {
    is_bare(words)
        || (0..words.len()).any(|at| is_about_this(&words[at..]) || is_placed(&words[at..]))
        || (!words.iter().any(|word| CONDITIONS.contains(word))
            && (0..words.len()).any(|at| is_there(&words[at..]) || is_made(&words[at..])))
}

/// A project may be about such things: `after a pull request was opened, the bot comments`.
const CONDITIONS: [&str; 12] = [
    "when", "whenever", "after", "before", "once", "if", "until", "while", "that", "which", "each",
    "every",
];

/// What becomes of work in git.
const DONE: [&str; 4] = ["committed", "pushed", "merged", "landed"];

/// Work, and words around it that say nothing of where or how.
const FILLING: [&str; 33] = [
    "a",
    "all",
    "already",
    "and",
    "are",
    "been",
    "change",
    "changes",
    "diff",
    "edit",
    "edits",
    "everything",
    "fix",
    "fixes",
    "has",
    "have",
    "i",
    "is",
    "it",
    "my",
    "now",
    "patch",
    "result",
    "the",
    "these",
    "this",
    "update",
    "updates",
    "ve",
    "was",
    "we",
    "were",
    "work",
];

/// `Committed.`, `All changes are committed and pushed.`, with nothing else in it.
fn is_bare(words: &[&str]) -> bool {
    words.iter().any(|word| DONE.contains(word))
        && words.iter().all(|word| DONE.contains(word) || FILLING.contains(word))
}

/// `This PR adds …`, `this commit makes …`.
fn is_about_this(words: &[&str]) -> bool {
    let ["this", rest @ ..] = words else { return false };
    let rest = match rest {
        ["commit", rest @ ..] => Some(rest),
        rest => after_request(rest),
    };
    matches!(rest, Some([verb, ..]) if verb.len() > 1 && verb.ends_with('s') && *verb != "is")
}

/// `merged to main`, `checked in to git`, `landed as 1a2b3c4d`, `pushed the branch`.
fn is_placed(words: &[&str]) -> bool {
    let rest = match words {
        ["checked", "in", rest @ ..] => rest,
        [verb, rest @ ..] if DONE.contains(verb) => rest,
        _ => return false,
    };
    match rest {
        ["upstream", ..] => true,
        ["to" | "on" | "in" | "into" | "onto", rest @ ..] => is_place(rest),
        ["as", hash, ..] => is_hash(hash),
        ["with", rest @ ..] => rest.contains(&"message"),
        [article, "branch" | "commit" | "commits", ..] => ARTICLES.contains(article),
        _ => false,
    }
}

const ARTICLES: [&str; 6] = ["the", "a", "this", "its", "my", "our"];

fn is_place(words: &[&str]) -> bool {
    let words = match words {
        [article, rest @ ..] if ARTICLES.contains(article) => rest,
        words => words,
    };
    let first = words.first().copied().unwrap_or_default();
    ["branch", "main", "master", "git", "github", "gitlab", "origin", "upstream"].contains(&first)
        || (["new", "feature", "remote"].contains(&first) && words.contains(&"branch"))
        || (["repository", "repo", "remote"].contains(&first) && words.len() == 1)
}

/// `PR opened`, `the pull request is ready`, `PR 12 is open`, `the commit has been made`.
fn is_there(words: &[&str]) -> bool {
    const AUXILIARY: [&str; 8] = ["is", "was", "were", "has", "have", "been", "now", "already"];
    const STATES: [&str; 13] = [
        "open",
        "opened",
        "up",
        "ready",
        "pending",
        "created",
        "submitted",
        "raised",
        "prepared",
        "filed",
        "merged",
        "made",
        "pushed",
    ];
    let rest = match words {
        ["commit", rest @ ..] => Some(rest),
        words => after_request(words),
    };
    let Some(rest) = rest else { return false };
    let skipped =
        |word: &&&str| AUXILIARY.contains(*word) || word.bytes().all(|byte| byte.is_ascii_digit());
    let rest = &rest[rest.iter().take_while(skipped).count()..];
    rest.first().is_some_and(|word| STATES.contains(word))
}

/// `opened a pull request for …`; a template or a check for pull requests is another thing.
fn is_made(words: &[&str]) -> bool {
    const MADE: [&str; 7] =
        ["opened", "created", "submitted", "raised", "prepared", "filed", "made"];
    let [verb, rest @ ..] = words else { return false };
    let rest = match rest {
        [article, rest @ ..] if ARTICLES.contains(article) => rest,
        rest => rest,
    };
    let ends = |rest: &[&str]| match rest {
        [] => true,
        [next, ..] => {
            ["for", "with", "and", "to", "on"].contains(next) || next.parse::<u64>().is_ok()
        }
    };
    MADE.contains(verb) && after_request(rest).is_some_and(ends)
}

/// What follows the name of a pull request.
pub(super) fn after_request<'a, 'w>(words: &'a [&'w str]) -> Option<&'a [&'w str]> {
    match words {
        ["pr" | "mr", rest @ ..] | ["pull" | "merge", "request", rest @ ..] => Some(rest),
        _ => None,
    }
}

/// Not a number, and not a word.
pub(super) fn is_hash(word: &str) -> bool {
    let hex = word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let mixed = word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic());
    hex && mixed && (6..=64).contains(&word.len())
}
