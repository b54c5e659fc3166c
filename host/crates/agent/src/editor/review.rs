//! The differences that the model sees of its own edits. Every edit is answered with the lines that it changed. A difference
//! that is too long for the answer is shown whole before the next verification, beside the criteria of the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::Session;
use super::tools::Answer;
use act_workspace::{Content, ContentChange};

impl Session<'_> {
    /// Adds the lines that a call changed to its answer.
    pub(super) fn with_difference(&mut self, mut answer: Answer) -> Answer {
        let writer = &self.editor.writer;
        let paths: Vec<_> = writer.changed().into_iter().map(|file| file.path).collect();
        let edited = self.review.after_call(&paths, &|path| writer.text(path));
        if !edited.changed {
            return answer;
        }
        if let Some(diff) = edited.diff {
            answer.text.push_str(&format!("\n{diff}"));
        }
        if !std::mem::replace(&mut self.criteria_shown, true) {
            answer.text.push_str(&self.criteria());
        }
        answer
    }

    /// Refuses a verification once for changes that the model has not seen whole, and shows them.
    pub(super) fn pending_review(&mut self) -> Option<Answer> {
        let writer = &self.editor.writer;
        let difference = self.review.unseen(&|path| writer.text(path))?;
        let message = "not run yet: compare the difference with the criteria, mend what does not hold, \
                       then call verify again";
        let criteria = self.criteria();
        Some(Answer::refusal("not_verified", &format!("{message}\n{difference}{criteria}")))
    }

    /// Refuses a verification that would miss changed files, because rules of git that changed during the task ignore
    /// them.
    pub(super) fn ignored_changes(&self) -> Option<Answer> {
        let untested = self.editor.writer.unverified().into_iter().filter(|file| !file.allowed);
        let paths: Vec<_> = untested.map(|file| file.path).collect();
        let message = "git ignores these changed files now, so the Verifier would not see them: remove the rule that \
                       ignores them from .gitignore, then call verify again";
        (!paths.is_empty())
            .then(|| Answer::refusal("not_verified", &format!("{message}\n{}", paths.join("\n"))))
    }

    /// All changes so far, for a new conversation.
    pub(super) fn whole_difference(&self) -> String {
        let writer = &self.editor.writer;
        let paths: Vec<_> = writer.changed().into_iter().map(|file| file.path).collect();
        whole(&paths, &|path| writer.text(path))
    }

    /// The criteria, acceptance and non-goals of the plans as lists; a list without items is left out.
    fn criteria(&self) -> String {
        let goals = self.plans.goals();
        let mut all = String::new();
        for (name, items) in [
            ("criteria", &goals.criteria),
            ("acceptance", &goals.acceptance),
            ("non_goals", &goals.non_goals),
        ] {
            if !items.is_empty() {
                all.push_str(&format!("\n{name}:"));
            }
            for item in items {
                all.push_str(&format!("\n- {item}"));
            }
        }
        all
    }
}

/// Bytes of the difference that answers one edit.
const WITH_AN_EDIT: usize = 3 * 1024;
/// Bytes of the whole difference, before a verification or in a new conversation.
const WHOLE: usize = 12 * 1024;

/// The edits of this conversation that the model has seen.
#[derive(Debug, Default)]
pub(super) struct Review {
    /// Each changed file as the model last saw it.
    seen: BTreeMap<String, Content>,
    /// Files whose last difference was cut.
    unseen: BTreeSet<String>,
}

/// The effect of one call of a tool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Edited {
    pub changed: bool,
    /// The difference; `None` when the call itself contains it, as for a new file.
    pub diff: Option<String>,
}

impl Review {
    /// Compares the files after a call with what the model last saw. `changed` lists the files that the task has changed.
    pub(super) fn after_call(
        &mut self,
        changed: &[String],
        text: &dyn Fn(&str) -> ContentChange,
    ) -> Edited {
        let known = self.seen.keys().cloned().chain(changed.iter().cloned());
        let mut edited = Edited::default();
        let mut shown = vec![];
        for path in known.collect::<BTreeSet<_>>() {
            let ContentChange { before, now } = text(&path);
            let was = self.seen.insert(path.clone(), now.clone()).unwrap_or(before);
            if was == now {
                continue;
            }
            edited.changed = true;
            // The model knows a new file from its call, and a deleted file has no lines.
            if let (Some(was), Some(now)) = (was.text(), now.text()) {
                let diff = line_diff(was, now, WITH_AN_EDIT);
                if !diff.whole {
                    self.unseen.insert(path.clone());
                }
                shown.push((path, diff.text));
            }
        }
        edited.diff = match shown.as_slice() {
            [] => None,
            [(_, diff)] => Some(diff.clone()),
            several => {
                Some(several.iter().map(|(path, diff)| format!("{path}\n{diff}\n")).collect())
            }
        };
        edited
    }

    /// Returns the difference that the model still has to see before a verification, and forgets it.
    fn unseen(&mut self, text: &dyn Fn(&str) -> ContentChange) -> Option<String> {
        let paths: Vec<_> = std::mem::take(&mut self.unseen).into_iter().collect();
        let differs = |path: &&String| {
            let ContentChange { before, now } = text(path);
            before != now
        };
        let paths: Vec<_> = paths.iter().filter(differs).cloned().collect();
        (!paths.is_empty()).then(|| whole(&paths, text))
    }

    /// Starts a conversation whose first message shows all changes.
    pub(super) fn restart(&mut self) {
        self.unseen.clear();
    }
}

/// Everything that the task changed in these files.
pub(super) fn whole(paths: &[String], text: &dyn Fn(&str) -> ContentChange) -> String {
    let mut all = String::new();
    for path in paths {
        let left = WHOLE.saturating_sub(all.len());
        let ContentChange { before, now } = text(path);
        let diff = match (&before, &now) {
            _ if left == 0 => "(cut)".to_owned(),
            (_, Content::Nothing) => "(deleted)".to_owned(),
            (Content::Unknown, _) | (_, Content::Unknown) => {
                "(changed; not to be shown)".to_owned()
            }
            (before, Content::Text(now)) => {
                line_diff(before.text().unwrap_or_default(), now, left).text
            }
        };
        all.push_str(&format!("{path}\n{diff}\n"));
    }
    all
}

/// Unchanged lines that are shown around a change.
const AROUND: usize = 1;
/// Bytes of one line that are shown.
const LINE: usize = 400;
/// Time for finding the smallest difference; after it the difference may be larger than necessary.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

pub(super) struct LineDiff {
    pub text: String,
    /// The text was not cut.
    pub whole: bool,
}

/// The difference as lines such as `-12: removed`, `+12: added` and ` 13: unchanged`, with `…` between distant changes. Lines
/// are counted from 0, as by the tools. The text has about `most` bytes.
pub(super) fn line_diff(before: &str, now: &str, most: usize) -> LineDiff {
    let (old, new) = (lines(before), lines(now));
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_slices(&old, &new);
    let mut text = String::new();
    for (at, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if at > 0 {
            text.push_str("…\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, index) = match change.tag() {
                ChangeTag::Delete => ('-', change.old_index()),
                ChangeTag::Insert => ('+', change.new_index()),
                ChangeTag::Equal => (' ', change.new_index()),
            };
            let line = change.value().trim_end_matches('\n');
            let cut = line.floor_char_boundary(LINE.min(line.len()));
            let more = if cut < line.len() { "…" } else { "" };
            let row = format!("{sign}{}: {}{more}\n", index.unwrap_or_default(), &line[..cut]);
            if text.len() + row.len() > most {
                return LineDiff { text: text + "… (cut)", whole: false };
            }
            text.push_str(&row);
        }
    }
    text.truncate(text.trim_end_matches('\n').len());
    LineDiff { text, whole: true }
}

/// Splits at `\n` alone, as the tools count lines. A lone `\r` ends no line, and a byte order mark belongs to none.
fn lines(text: &str) -> Vec<&str> {
    text.strip_prefix('\u{feff}').unwrap_or(text).split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    mod review {
        use super::super::*;
        fn held(text: &str) -> Content {
            Content::Text(text.into())
        }

        fn file(before: Content, now: &str) -> ContentChange {
            ContentChange { before, now: held(now) }
        }

        fn call(review: &mut Review, before: &Content, now: &str) -> Edited {
            review.after_call(&["a".to_owned()], &|_| file(before.clone(), now))
        }

        /// EDITOR-13
        #[test]
        fn each_call_shows_what_it_changed_and_no_more() {
            let mut review = Review::default();
            let before = held("one\ntwo\n");
            let diff = |edited: Edited| edited.diff.unwrap();
            assert_eq!(diff(call(&mut review, &before, "One\ntwo\n")), "-0: one\n+0: One\n 1: two");
            assert_eq!(diff(call(&mut review, &before, "One\nTwo\n")), " 0: One\n-1: two\n+1: Two");
            assert_eq!(call(&mut review, &before, "One\nTwo\n"), Edited::default());
            assert_eq!(review.unseen(&|_| file(before.clone(), "One\nTwo\n")), None);
            // Taken back: nothing differs any more, and that is a change as well.
            let back = review.after_call(&[], &|_| file(before.clone(), "one\ntwo\n"));
            assert!(back.changed && diff(back).contains("+0: one"));
        }

        /// EDITOR-13
        #[test]
        fn what_was_cut_is_owed_once_and_in_whole() {
            let mut review = Review::default();
            let long: String =
                (0..300).map(|n| format!("a rather long line, number {n}\n")).collect();
            let before = held("x\n");
            assert!(call(&mut review, &before, &long).diff.unwrap().ends_with("(cut)"));
            let shown = review.unseen(&|_| file(before.clone(), &long)).unwrap();
            assert!(
                shown.starts_with("a\n-0: x\n+0: a rather") && shown.contains("number 299"),
                "{shown}"
            );
            assert_eq!(review.unseen(&|_| file(before.clone(), &long)), None);
        }

        #[test]
        fn a_new_file_is_known_from_its_call() {
            let mut review = Review::default();
            let edited = call(&mut review, &Content::Nothing, "new\n");
            assert_eq!(edited, Edited { changed: true, diff: None });
            let text = |path: &str| match path {
                "a" => file(Content::Nothing, "new\n"),
                "b" => ContentChange { before: held("old\n"), now: Content::Nothing },
                _ => ContentChange { before: Content::Unknown, now: Content::Unknown },
            };
            let paths = ["a", "b", "c"].map(str::to_owned);
            assert_eq!(
                whole(&paths, &text),
                "a\n+0: new\nb\n(deleted)\nc\n(changed; not to be shown)\n"
            );
        }
    }

    mod differences {
        use super::super::*;
        /// EDITOR-13
        #[test]
        fn lines_have_the_numbers_that_the_tools_use() {
            let before = "a\nb\r\nc\nd\ne\nf\ng\n";
            let diff = line_diff(before, "a\nB\r\nc\nd\ne\nf\nnew\ng\n", 1000);
            assert!(diff.whole);
            assert_eq!(diff.text, " 0: a\n-1: b\r\n+1: B\r\n 2: c\n…\n 5: f\n+6: new\n 7: g");
            assert_eq!(line_diff("a\rb\n", "a\rc\n", 100).text, "-0: a\rb\n+0: a\rc");
            assert_eq!(line_diff("same", "same", 100).text, "");
            assert_eq!(line_diff("a", "a\n", 100).text, "-0: a\n+0: a");
            // EDIT-3
            assert_eq!(line_diff("\u{feff}a\n", "\u{feff}b\n", 100).text, "-0: a\n+0: b");
            assert_eq!(line_diff("\u{feff}a\n", "\u{feff}", 100).text, "-0: a");
        }

        #[test]
        fn a_long_difference_is_cut_and_says_so() {
            let now: String = (0..100).map(|n| format!("line {n}\n")).collect();
            let diff = line_diff("", &now, 60);
            assert!(!diff.whole && diff.text.ends_with("\n… (cut)"), "{}", diff.text);
            assert!(line_diff("", &"é".repeat(500), 5000).text.ends_with("…"));
        }
    }
}
