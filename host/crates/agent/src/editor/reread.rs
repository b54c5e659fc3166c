//! What the model has seen of its own changes. Every edit is answered with the lines that it changed; what was
//! too long for that is owed before a verification: the model compares it with its criteria first. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::line_diff::line_diff;
use act_workspace::{FileText, Held};

/// Shown with one edit.
const WITH_AN_EDIT: usize = 3 * 1024;
/// Of everything, before a verification or in a new conversation.
const WHOLE: usize = 12 * 1024;

#[derive(Debug, Default)]
pub(super) struct Reread {
    /// Each changed file as the model last saw it.
    seen: BTreeMap<String, Held>,
    /// Changed since, and not shown to the end.
    unseen: BTreeSet<String>,
}

/// One call of a tool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Edited {
    pub changed: bool,
    /// What a model does not know from its own call.
    pub diff: Option<String>,
}

impl Reread {
    /// After a call; `changed` are the files that now differ from before the task.
    pub(super) fn after_call(
        &mut self,
        changed: &[String],
        text: &dyn Fn(&str) -> FileText,
    ) -> Edited {
        let known = self.seen.keys().cloned().chain(changed.iter().cloned());
        let mut edited = Edited::default();
        let mut shown = vec![];
        for path in known.collect::<BTreeSet<_>>() {
            let FileText { before, now } = text(&path);
            let was = self.seen.insert(path.clone(), now.clone()).unwrap_or(before);
            if was == now {
                continue;
            }
            edited.changed = true;
            // A new file is known from the call that made it, and one that is gone has no lines.
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

    /// The difference that is owed before a verification; once, then it counts as seen.
    pub(super) fn owed(&mut self, text: &dyn Fn(&str) -> FileText) -> Option<String> {
        let paths: Vec<_> = std::mem::take(&mut self.unseen).into_iter().collect();
        let differs = |path: &&String| {
            let FileText { before, now } = text(path);
            before != now
        };
        let paths: Vec<_> = paths.iter().filter(differs).cloned().collect();
        (!paths.is_empty()).then(|| whole(&paths, text))
    }

    /// A new conversation that was shown everything so far.
    pub(super) fn start_over(&mut self) {
        self.unseen.clear();
    }
}

/// All that the task changed in these files.
pub(super) fn whole(paths: &[String], text: &dyn Fn(&str) -> FileText) -> String {
    let mut all = String::new();
    for path in paths {
        let left = WHOLE.saturating_sub(all.len());
        let FileText { before, now } = text(path);
        let diff = match (&before, &now) {
            _ if left == 0 => "(cut)".to_owned(),
            (_, Held::Nothing) => "(deleted)".to_owned(),
            (Held::Unknown, _) | (_, Held::Unknown) => "(changed; not to be shown)".to_owned(),
            (before, Held::Text(now)) => {
                line_diff(before.text().unwrap_or_default(), now, left).text
            }
        };
        all.push_str(&format!("{path}\n{diff}\n"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(text: &str) -> Held {
        Held::Text(text.into())
    }

    fn file(before: Held, now: &str) -> FileText {
        FileText { before, now: held(now) }
    }

    fn call(reread: &mut Reread, before: &Held, now: &str) -> Edited {
        reread.after_call(&["a".to_owned()], &|_| file(before.clone(), now))
    }

    /// EDITOR-13
    #[test]
    fn each_call_shows_what_it_changed_and_no_more() {
        let mut reread = Reread::default();
        let before = held("one\ntwo\n");
        let diff = |edited: Edited| edited.diff.unwrap();
        assert_eq!(diff(call(&mut reread, &before, "One\ntwo\n")), "-0: one\n+0: One\n 1: two");
        assert_eq!(diff(call(&mut reread, &before, "One\nTwo\n")), " 0: One\n-1: two\n+1: Two");
        assert_eq!(call(&mut reread, &before, "One\nTwo\n"), Edited::default());
        assert_eq!(reread.owed(&|_| file(before.clone(), "One\nTwo\n")), None);
        // Taken back: nothing differs any more, and that is a change as well.
        let back = reread.after_call(&[], &|_| file(before.clone(), "one\ntwo\n"));
        assert!(back.changed && diff(back).contains("+0: one"));
    }

    /// EDITOR-13
    #[test]
    fn what_was_cut_is_owed_once_and_in_whole() {
        let mut reread = Reread::default();
        let long: String = (0..300).map(|n| format!("a rather long line, number {n}\n")).collect();
        let before = held("x\n");
        assert!(call(&mut reread, &before, &long).diff.unwrap().ends_with("(cut)"));
        let owed = reread.owed(&|_| file(before.clone(), &long)).unwrap();
        assert!(
            owed.starts_with("a\n-0: x\n+0: a rather") && owed.contains("number 299"),
            "{owed}"
        );
        assert_eq!(reread.owed(&|_| file(before.clone(), &long)), None);
    }

    #[test]
    fn a_new_file_is_known_from_its_call() {
        let mut reread = Reread::default();
        let edited = call(&mut reread, &Held::Nothing, "new\n");
        assert_eq!(edited, Edited { changed: true, diff: None });
        let text = |path: &str| match path {
            "a" => file(Held::Nothing, "new\n"),
            "b" => FileText { before: held("old\n"), now: Held::Nothing },
            _ => FileText { before: Held::Unknown, now: Held::Unknown },
        };
        let paths = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(
            whole(&paths, &text),
            "a\n+0: new\nb\n(deleted)\nc\n(changed; not to be shown)\n"
        );
    }
}
