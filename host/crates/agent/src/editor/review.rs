//! The differences that the model sees of its own edits. Every edit is answered with its hunks; lines that equal those of the
//! call are folded, because the model has just written them. A difference that is too long for the answer is shown to its end
//! before the next verification, beside the criteria of the plan.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, DiffTag, TextDiff};

use super::Session;
use super::tools::Answer;
// A name of a file stays on its line, or it would forge rows of an answer.
use act_core::terminal_text::line;
use act_reports::source;
use act_workspace::{Content, ContentChange};

impl Session<'_> {
    /// Adds the lines that a call with these arguments changed to its answer.
    pub(super) fn with_difference(&mut self, arguments: &str, mut answer: Answer) -> Answer {
        let writer = &self.editor.writer;
        let paths: Vec<_> = writer.changed().into_iter().map(|file| file.path).collect();
        let edited = self.review.after_call(&paths, arguments, &|path| writer.text(path));
        if !edited.changed {
            return answer;
        }
        if let Some(diff) = edited.diff {
            answer.text.push_str(&format!("\n{diff}"));
        }
        self.this_turn.line_doubled |= !edited.doubled.is_empty();
        edited.doubled.iter().for_each(|note| answer.text.push_str(&format!("\n{note}")));
        if let Some(weakened) = self.newly_weakened() {
            answer.text.push_str(&format!("\n{weakened}"));
        }
        if !std::mem::replace(&mut self.criteria_shown, true) {
            answer.text.push_str(&self.criteria());
        }
        answer
    }

    /// Refuses a verification once for changes that the model has not seen whole, and shows the rest of them. `None` means that
    /// the verification may run.
    pub(super) fn pending_review(&mut self) -> Option<Answer> {
        let writer = &self.editor.writer;
        let rest = self.review.rest(&|path| writer.text(path))?;
        let paths: Vec<_> = writer.changed().into_iter().map(|file| file.path).collect();
        let files: Vec<_> = in_order(&paths)
            .into_iter()
            .map(|path| format!("- {} ({})", line(path), size_of(&writer.text(path))))
            .collect();
        let message = "not run yet, this once: some changes were too long to be shown with their edits. Compare them \
                       with the criteria, mend what does not hold, then call verify again";
        let text = format!(
            "{message}\nall changed files:\n{}\nnot shown yet:\n{rest}{}",
            files.join("\n"),
            self.criteria()
        );
        Some(Answer::refusal("not_verified", &text))
    }

    /// Refuses a verification that would miss changed files, because rules of git that changed during the task ignore
    /// them.
    pub(super) fn ignored_changes(&self) -> Option<Answer> {
        let untested = self.editor.writer.unverified().into_iter().filter(|file| !file.allowed);
        let paths: Vec<_> = untested.map(|file| line(&file.path).into_owned()).collect();
        let message = "git ignores these changed files now, so the Verifier would not see them: remove the rule that \
                       ignores them from .gitignore, then call verify again";
        (!paths.is_empty())
            .then(|| Answer::refusal("not_verified", &format!("{message}\n{}", paths.join("\n"))))
    }

    /// All changes so far, for a new conversation.
    pub(super) fn whole_difference(&self) -> String {
        let writer = &self.editor.writer;
        let paths: Vec<_> = writer.changed().into_iter().map(|file| file.path).collect();
        let version =
            |path: &str| writer.version(path).ok().flatten().map(|version| version.number);
        whole(&paths, &|path| writer.text(path), &version)
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

/// Bytes of the difference that answers one edit. Lines of the call itself are folded, so that more than this is removed text.
const WITH_AN_EDIT: usize = 8 * 1024;
/// Bytes of the whole difference, before a verification or in a new conversation.
const WHOLE: usize = 12 * 1024;

/// The edits of this conversation that the model has seen.
#[derive(Debug, Default)]
pub(super) struct Review {
    /// Each changed file as the model last saw it.
    seen: BTreeMap<String, Content>,
    /// The rows of differences that were cut off, by file.
    rest: BTreeMap<String, Vec<String>>,
    /// A verification was refused for the rest of a difference, and has not run since.
    is_shown: bool,
}

/// The effect of one call of a tool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Edited {
    pub changed: bool,
    /// The difference; `None` when the call itself contains it, as for a new file.
    pub diff: Option<String>,
    /// A sentence for each place where lines are there twice now.
    pub doubled: Vec<String>,
}

impl Review {
    /// Compares the files after a call with what the model last saw. `changed` lists the files that the task has changed.
    pub(super) fn after_call(
        &mut self,
        changed: &[String],
        arguments: &str,
        text: &dyn Fn(&str) -> ContentChange,
    ) -> Edited {
        let known = self.seen.keys().cloned().chain(changed.iter().cloned());
        let given = given_lines(arguments);
        let inserted = inserted_texts(arguments);
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
                edited.doubled.extend(doubled(was, now, &inserted));
                let mut rows = rows(was, now, &given);
                let rest = cut(&mut rows, WITH_AN_EDIT);
                if !rest.is_empty() {
                    rows.push(format!(
                        "… ({} rows more, shown before the next verify)",
                        rest.len()
                    ));
                    self.rest.entry(path.clone()).or_default().extend(rest);
                }
                shown.push((path, rows));
            }
        }
        edited.diff = match shown.as_slice() {
            [] => None,
            [(_, rows)] => Some(rows.join("\n")),
            several => Some(of_files(several)),
        };
        edited
    }

    /// Returns the rest of the differences that were cut, once between two verifications, and forgets it. `None` means that a
    /// verification may run.
    fn rest(&mut self, text: &dyn Fn(&str) -> ContentChange) -> Option<String> {
        let rest = std::mem::take(&mut self.rest);
        let differs = |path: &&String| {
            let ContentChange { before, now } = text(path);
            before != now
        };
        let paths: Vec<String> = rest.keys().filter(differs).cloned().collect();
        if paths.is_empty() || std::mem::take(&mut self.is_shown) {
            self.is_shown = false;
            return None;
        }
        self.is_shown = true;
        let mut all: Vec<String> = vec![];
        for path in in_order(&paths) {
            all.push(format!("{}, under the numbers of the edit", line(path)));
            all.extend(rest[path].iter().cloned());
        }
        if !cut(&mut all, WHOLE).is_empty() {
            all.push("… (cut)".to_owned());
        }
        Some(all.join("\n"))
    }

    /// Starts a conversation whose first message shows all changes.
    pub(super) fn restart(&mut self) {
        self.rest.clear();
        self.is_shown = false;
    }
}

/// The differences of several files. Files with the same rows under other numbers are named below the first of them, since one
/// edit of many files mostly makes one change many times.
fn of_files(files: &[(String, Vec<String>)]) -> String {
    let mut groups = Vec::<(Cow<'_, str>, &[String], Vec<Cow<'_, str>>)>::new();
    for (path, rows) in files {
        let words =
            |rows: &[String]| rows.iter().map(|row| without_number(row)).collect::<Vec<_>>();
        match groups.iter_mut().find(|(_, first, _)| words(first) == words(rows)) {
            Some((.., more)) => more.push(line(path)),
            None => groups.push((line(path), rows, vec![])),
        }
    }
    let mut text = vec![];
    for (path, rows, more) in groups {
        text.push(format!("{path}\n{}", rows.join("\n")));
        if !more.is_empty() {
            text.push(format!("the same lines changed in {}", more.join(", ")));
        }
    }
    text.join("\n")
}

/// A row without the numbers of its lines.
fn without_number(row: &str) -> String {
    let sign = row.chars().take(1).collect::<String>();
    let rest = row.get(sign.len()..).unwrap_or_default();
    match rest.split_once('|') {
        Some((number, text)) if number.bytes().all(|byte| byte.is_ascii_digit()) => sign + text,
        // `+12..14 as given` has the lines of the call.
        _ => sign + rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'),
    }
}

/// Sorts files for a reader: source, then tests, then documents.
fn in_order(paths: &[String]) -> Vec<&String> {
    let mut paths: Vec<&String> = paths.iter().collect();
    paths.sort_by_key(|path| source::kind(path));
    paths
}

/// Lines that are compared with those beside them.
const BESIDE: usize = 12;
/// Sentences about doubled lines for one file.
const DOUBLED: usize = 4;
/// Bytes of a doubled line that are shown.
const DOUBLED_LINE: usize = 80;

/// Sentences about new lines that repeat the lines before or after them: the commonest slip of an edit, which counts a line
/// too many or too few. Lines that one of the `inserted` texts has twice in a row are meant.
fn doubled(before: &str, now: &str, inserted: &[String]) -> Vec<String> {
    let (old, new) = (lines(before), lines(now));
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_slices(&old, &new);
    let mut notes = vec![];
    for op in diff.ops() {
        let (tag, _, Range { mut start, mut end }) = op.as_tag_tuple();
        if tag != DiffTag::Insert && tag != DiffTag::Replace {
            continue;
        }
        // A line that was added beside an equal line could be either of the two; this takes the last one.
        while tag == DiffTag::Insert && start < end && new.get(start) == new.get(end) {
            (start, end) = (start + 1, end + 1);
        }
        let says = |text: &[&str]| text.iter().any(|line| !line.trim().is_empty());
        let longest = (1..=BESIDE.min(end - start)).rev();
        let repeats = longest.into_iter().find_map(|count| {
            let (first, last) = (&new[start..start + count], &new[end - count..end]);
            let above = start.checked_sub(count).and_then(|from| new.get(from..start));
            match () {
                () if above == Some(first) && says(first) => Some((start, count, "before")),
                () if new.get(end..end + count) == Some(last) && says(last) => {
                    Some((end - count, count, "after"))
                }
                () => None,
            }
        });
        let is_meant = |at: usize, count: usize, place: &str| {
            let from = if place == "before" { at.saturating_sub(count) } else { at };
            let both = new.get(from..from + 2 * count).unwrap_or_default().concat();
            inserted.iter().any(|text| text.contains(both.trim_end_matches(['\n', '\r'])))
        };
        let repeats = repeats.filter(|(at, count, place)| !is_meant(*at, *count, place));
        if let Some((at, count, place)) = repeats {
            let line = new[at].trim_end_matches(['\n', '\r']);
            let line = &line[..line.floor_char_boundary(DOUBLED_LINE)];
            let (number, last) = (at + 1, at + count);
            notes.push(match count {
                1 => format!("this line repeats the one {place} it: {number}| {line}"),
                _ => {
                    format!("the lines {number}-{last} repeat those {place} them: {number}| {line}")
                }
            });
        }
    }
    notes.truncate(DOUBLED);
    notes
}

/// The size of a change: `+12 -3`, or what happened to the file.
fn size_of(change: &ContentChange) -> String {
    match (&change.before, &change.now) {
        (_, Content::Nothing) => "deleted".to_owned(),
        (Content::Unknown, _) | (_, Content::Unknown) => "changed; not to be shown".to_owned(),
        (before, Content::Text(now)) => {
            let (old, new) = (lines(before.text().unwrap_or_default()), lines(now));
            let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_slices(&old, &new);
            let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
            format!("+{} -{}", count(ChangeTag::Insert), count(ChangeTag::Delete))
        }
    }
}

/// Everything that the task changed in these files, each with the version that an edit may name.
pub(super) fn whole(
    paths: &[String],
    text: &dyn Fn(&str) -> ContentChange,
    version: &dyn Fn(&str) -> Option<u64>,
) -> String {
    let mut all = String::new();
    for path in in_order(paths) {
        let left = WHOLE.saturating_sub(all.len());
        let change = text(path);
        let number = version(path).filter(|_| matches!(change.now, Content::Text(_)));
        let number = number.map(|number| format!("version {number}, ")).unwrap_or_default();
        all.push_str(&format!("{} ({number}{})\n", line(path), size_of(&change)));
        let Content::Text(now) = &change.now else { continue };
        if change.before == Content::Unknown {
            continue;
        }
        let mut rows = rows(change.before.text().unwrap_or_default(), now, &HashSet::new());
        if !cut(&mut rows, left).is_empty() {
            rows.push("… (cut)".to_owned());
        }
        all.push_str(&format!("{}\n", rows.join("\n")));
    }
    all
}

/// Unchanged lines that are shown around a change.
const AROUND: usize = 2;
/// Bytes of one line that are shown.
const LINE: usize = 400;
/// Time for finding the smallest difference; after it the difference may be larger than necessary.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

/// The lines of the texts in a call's arguments, except for those of a text that is to be replaced.
fn given_lines(arguments: &str) -> HashSet<String> {
    fn collect(value: &Value, lines: &mut HashSet<String>) {
        match value {
            Value::String(text) => {
                lines.extend(text.split('\n').map(|line| line.trim_end_matches('\r').to_owned()));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, lines)),
            Value::Object(fields) => fields
                .iter()
                .filter(|(name, _)| *name != "old")
                .for_each(|(_, value)| collect(value, lines)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut lines = HashSet::new();
    collect(&serde_json::from_str(arguments).unwrap_or_default(), &mut lines);
    lines
}

/// The texts that a call puts into a file: the `new` ones in its arguments, not the content of a whole file.
fn inserted_texts(arguments: &str) -> Vec<String> {
    fn collect(value: &Value, texts: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
            Value::Object(fields) => {
                texts.extend(fields.get("new").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| collect(value, texts));
            }
            _ => {}
        }
    }
    let mut texts = vec![];
    collect(&serde_json::from_str(arguments).unwrap_or_default(), &mut texts);
    texts
}

/// The difference as rows such as `-12| removed`, `+12| added` and ` 13| unchanged`, with `…` between distant changes. Lines are
/// counted from 1, as by the tools. A run of added lines that are all `given` is one row, `+12..14 as given`.
fn rows(before: &str, now: &str, given: &HashSet<String>) -> Vec<String> {
    let (old, new) = (lines(before), lines(now));
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_slices(&old, &new);
    let mut rows = vec![];
    for (at, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if at > 0 {
            rows.push("…".to_owned());
        }
        let mut folded: Option<(usize, usize)> = None;
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, index) = match change.tag() {
                ChangeTag::Delete => ('-', change.old_index()),
                ChangeTag::Insert => ('+', change.new_index()),
                ChangeTag::Equal => (' ', change.new_index()),
            };
            let number = index.unwrap_or_default() + 1;
            let line = change.value().trim_end_matches('\n');
            if sign == '+' && given.contains(line.trim_end_matches('\r')) {
                folded = Some((folded.map_or(number, |(first, _)| first), number));
                continue;
            }
            rows.extend(folded.take().map(as_given));
            let cut = line.floor_char_boundary(LINE.min(line.len()));
            let more = if cut < line.len() { "…" } else { "" };
            rows.push(format!("{sign}{number}| {}{more}", &line[..cut]));
        }
        rows.extend(folded.take().map(as_given));
    }
    rows
}

fn as_given((first, last): (usize, usize)) -> String {
    match first == last {
        true => format!("+{first} as given"),
        false => format!("+{first}..{last} as given"),
    }
}

/// Shortens rows to about `most` bytes and returns those that were cut off.
fn cut(rows: &mut Vec<String>, most: usize) -> Vec<String> {
    let mut bytes = 0;
    let fits = rows.iter().take_while(|row| {
        bytes += row.len() + 1;
        bytes <= most
    });
    let count = fits.count();
    rows.split_off(count)
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
            review.after_call(&["a".to_owned()], "{}", &|_| file(before.clone(), now))
        }

        /// EDITOR-13
        #[test]
        fn each_call_shows_what_it_changed_and_no_more() {
            let mut review = Review::default();
            let before = held("one\ntwo\n");
            let diff = |edited: Edited| edited.diff.unwrap();
            assert_eq!(diff(call(&mut review, &before, "One\ntwo\n")), "-1| one\n+1| One\n 2| two");
            assert_eq!(diff(call(&mut review, &before, "One\nTwo\n")), " 1| One\n-2| two\n+2| Two");
            assert_eq!(call(&mut review, &before, "One\nTwo\n"), Edited::default());
            assert_eq!(review.rest(&|_| file(before.clone(), "One\nTwo\n")), None);
            // Taken back: nothing differs any more, and that is a change as well.
            let back = review.after_call(&[], "{}", &|_| file(before.clone(), "one\ntwo\n"));
            assert!(back.changed && diff(back).contains("+1| one"));
        }

        /// EDITOR-72
        #[test]
        fn lines_that_repeat_their_neighbours_are_named() {
            let text = "fn a() {\n    x();\n}\n\nfn b() {\n}\n";
            let replaced = |old: &str, new: &str| doubled(text, &text.replacen(old, new, 1), &[]);
            let after = replaced("    x();\n", "    y();\n}\n");
            assert_eq!(after, ["this line repeats the one after it: 3| }"]);
            let before = replaced("    x();\n", "fn a() {\n    y();\n");
            assert_eq!(before, ["this line repeats the one before it: 2| fn a() {"]);
            assert_eq!(
                replaced("fn b() {\n}\n", "fn b() {\n}\n}\n"),
                ["this line repeats the one before it: 7| }"]
            );
            let block = "fn b() {\n}\n";
            let note = ["the lines 7-8 repeat those before them: 7| fn b() {"];
            assert_eq!(replaced(block, &block.repeat(2)), note);
            for fine in ["    y();\n\n", "    y();\n", ""] {
                assert_eq!(replaced("    x();\n", fine), [""; 0], "{fine:?}");
            }
            assert_eq!(doubled("x\nx\ny\n", "x\nx\nz\ny\n", &[]), [""; 0]);
            assert_eq!(doubled("a\n", "a\n\n\n", &[]), [""; 0]);
            // The model wrote both of them.
            let both = inserted_texts(
                r#"{"edits": [{"start": 1, "new": "f(1,\n1,\n1)"}], "content": "a\na"}"#,
            );
            assert_eq!(both, ["f(1,\n1,\n1)"]);
            assert_eq!(doubled("f(1,\n1)\n", "f(1,\n1,\n1)\n", &both), [""; 0]);
            assert_eq!(doubled("x\n1,\n", "x\n1,\n1,\n", &both), [""; 0]);
            assert_eq!(doubled("x\n2,\n", "x\n2,\n2,\n", &both).len(), 1);
        }

        /// EDITOR-13
        #[test]
        fn what_was_cut_is_shown_once_and_nothing_twice() {
            let mut review = Review::default();
            let long: String =
                (0..400).map(|n| format!("a rather long line, number {n}\n")).collect();
            let before = held("x\n");
            let first = call(&mut review, &before, &long).diff.unwrap();
            assert!(first.ends_with(" rows more, shown before the next verify)"), "{first}");
            let shown = review.rest(&|_| file(before.clone(), &long)).unwrap();
            assert!(shown.starts_with("a, under the numbers of the edit\n+"), "{shown}");
            assert!(shown.contains("number 399") && !shown.contains("number 1\n"), "{shown}");
            assert_eq!(review.rest(&|_| file(before.clone(), &long)), None);
        }

        /// EDITOR-13: the model answers a review with edits, which must not lead to another review.
        #[test]
        fn a_verification_is_refused_once_for_a_review() {
            let mut review = Review::default();
            let long = |word: &str| {
                (0..400).map(|n| format!("a {word} line, number {n}\n")).collect::<String>()
            };
            let (before, one, two) = (held("x\n"), long("rather long"), long("very long"));
            let _ = call(&mut review, &before, &one);
            assert!(review.rest(&|_| file(before.clone(), &one)).is_some());
            let _ = call(&mut review, &before, &two);
            assert_eq!(review.rest(&|_| file(before.clone(), &two)), None, "the verification runs");
            let _ = call(&mut review, &before, &one);
            assert!(review.rest(&|_| file(before.clone(), &one)).is_some());
        }

        /// EDITOR-13
        #[test]
        fn lines_of_the_call_are_folded_and_count_as_shown() {
            let mut review = Review::default();
            let new: String =
                (0..400).map(|n| format!("a rather long line, number {n}\r\n")).collect();
            let before = held("old\r\nlast\r\n");
            let now = format!("{new}last\r\n");
            let arguments =
                serde_json::json!({"edits": [{"new": new.replace('\r', ""), "start": 1}]});
            let text = |_: &str| file(before.clone(), &now);
            let edited = review.after_call(&["a".to_owned()], &arguments.to_string(), &text);
            assert_eq!(edited.diff.unwrap(), "-1| old\r\n+1..400 as given\n 401| last\r");
            assert_eq!(review.rest(&text), None);
            // A text that is to be replaced is not new.
            let arguments = serde_json::json!({"old": "x = 1", "new": "2"}).to_string();
            assert_eq!(given_lines(&arguments), HashSet::from(["2".to_owned()]));
            assert_eq!(
                rows("x = 1\n", "x = 2\n", &given_lines(&arguments)),
                ["-1| x = 1", "+1| x = 2"]
            );
        }

        #[test]
        fn a_new_file_is_known_from_its_call() {
            let mut review = Review::default();
            let edited = call(&mut review, &Content::Nothing, "new\n");
            assert_eq!(edited, Edited { changed: true, diff: None, doubled: vec![] });
            let text = |path: &str| match path {
                "a" => file(Content::Nothing, "new\n"),
                "b" => ContentChange { before: held("old\n"), now: Content::Nothing },
                _ => ContentChange { before: Content::Unknown, now: Content::Unknown },
            };
            let paths = ["a", "b", "c"].map(str::to_owned);
            assert_eq!(
                whole(&paths, &text, &|_| Some(4)),
                "a (version 4, +1 -0)\n+1| new\nb (deleted)\nc (changed; not to be shown)\n"
            );
        }

        /// EDITOR-13
        #[test]
        fn one_change_in_several_files_is_shown_once() {
            let text = |path: &str| {
                let is = if path == "c" { "z" } else { "y" };
                file(held("x\n"), &format!("{is}\n"))
            };
            let forged = ["a\n+1| x".to_owned()];
            let shown = whole(&forged, &text, &|_| None);
            assert!(shown.starts_with("a\\n+1| x ("), "security line 266: {shown}");
            let paths = ["a", "b", "c", "d"].map(str::to_owned);
            let edited = Review::default().after_call(&paths, "{}", &text);
            assert_eq!(
                edited.diff.unwrap(),
                "a\n-1| x\n+1| y\nthe same lines changed in b, d\nc\n-1| x\n+1| z"
            );
            let given = |path: &str| {
                let above = if path == "b" { "1\n2\n3\n" } else { "" };
                file(held(&format!("{above}1\n2\n3\nx\n")), &format!("{above}1\n2\n3\ny\n"))
            };
            let at_other_lines =
                Review::default().after_call(&paths[..2], r#"{"new": "y"}"#, &given);
            assert_eq!(
                at_other_lines.diff.unwrap(),
                "a\n 2| 2\n 3| 3\n-4| x\n+4 as given\nthe same lines changed in b"
            );
        }

        /// EDITOR-13
        #[test]
        fn source_is_shown_before_tests_and_documents() {
            let paths = ["README.md", "a.py", "tests/test_a.py", "z.py"].map(str::to_owned);
            assert_eq!(in_order(&paths), ["a.py", "z.py", "tests/test_a.py", "README.md"]);
        }
    }

    mod differences {
        use super::super::*;

        fn diff(before: &str, now: &str) -> String {
            rows(before, now, &HashSet::new()).join("\n")
        }

        /// EDITOR-13
        #[test]
        fn lines_have_the_numbers_that_the_tools_use() {
            let before = "a\nb\r\nc\nd\ne\nf\ng\nh\ni\n";
            assert_eq!(
                diff(before, "a\nB\r\nc\nd\ne\nf\ng\nh\nnew\ni\n"),
                " 1| a\n-2| b\r\n+2| B\r\n 3| c\n 4| d\n…\n 7| g\n 8| h\n+9| new\n 10| i"
            );
            assert_eq!(diff("a\rb\n", "a\rc\n"), "-1| a\rb\n+1| a\rc");
            assert_eq!(diff("same", "same"), "");
            assert_eq!(diff("a", "a\n"), "-1| a\n+1| a");
            // EDIT-3
            assert_eq!(diff("\u{feff}a\n", "\u{feff}b\n"), "-1| a\n+1| b");
            assert_eq!(diff("\u{feff}a\n", "\u{feff}"), "-1| a");
        }

        #[test]
        fn a_long_difference_is_cut_between_rows() {
            let now: String = (0..100).map(|n| format!("line {n}\n")).collect();
            let mut shown = rows("", &now, &HashSet::new());
            let rest = cut(&mut shown, 60);
            assert_eq!((shown.len(), rest.len()), (5, 95));
            assert!(diff("", &"é".repeat(500)).ends_with('…'));
        }
    }
}
