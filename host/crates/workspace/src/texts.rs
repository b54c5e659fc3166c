//! What the files that a task changed held before it and hold now, as far as that is text of a size that
//! people read: for showing differences, never for writing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::apply::Checked;

/// Of one file, and of all together; what does not fit is not held.
pub(super) const MAX_TEXT: usize = 1 << 20;
const MAX_TEXTS: usize = 64 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Held {
    /// There is no such file.
    #[default]
    Nothing,
    Text(Arc<str>),
    /// Binary, too large, or too much in all.
    Unknown,
}

impl Held {
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

/// One file of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileText {
    pub before: Held,
    pub now: Held,
}

#[derive(Debug, Default)]
pub(super) struct Texts {
    files: BTreeMap<String, FileText>,
    bytes: usize,
}

impl Texts {
    pub(super) fn get(&self, path: &str) -> FileText {
        self.files.get(path).cloned().unwrap_or_default()
    }

    pub(super) fn knows(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// What became of one file, or of two that are one.
    pub(super) fn remember(&mut self, change: &Checked) {
        let (path, before) = (change.path.as_str(), change.before.clone());
        match (&change.to, change.op) {
            (Some(to), _) => {
                let moved = if self.knows(path) { self.get(path).now } else { before.clone() };
                self.note(path, before, Held::Nothing);
                self.note(to.as_str(), Held::Nothing, moved);
            }
            (None, "delete") => self.note(path, before, Held::Nothing),
            (None, _) => self.note(path, before, held(&change.bytes)),
        }
    }

    /// `before` counts only for a file that was not changed by the task yet.
    fn note(&mut self, path: &str, before: Held, now: Held) {
        let file = match self.files.remove(path) {
            Some(known) => {
                self.bytes -= size(&known.now);
                FileText { now, ..known }
            }
            None => {
                let before = self.within(before);
                self.bytes += size(&before);
                FileText { before, now }
            }
        };
        let file = FileText { now: self.within(file.now), ..file };
        self.bytes += size(&file.now);
        self.files.insert(path.to_owned(), file);
    }

    fn within(&self, held: Held) -> Held {
        if self.bytes + size(&held) > MAX_TEXTS { Held::Unknown } else { held }
    }
}

fn size(held: &Held) -> usize {
    held.text().map_or(0, str::len)
}

/// Bytes as text; what is no UTF-8 in it is replaced, because it is only shown.
pub(super) fn held(bytes: &[u8]) -> Held {
    if bytes.len() > MAX_TEXT || bytes.contains(&0) {
        return Held::Unknown;
    }
    Held::Text(String::from_utf8_lossy(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_there_first_stays_what_was_before() {
        let mut texts = Texts::default();
        texts.note("a", held(b"one"), held(b"two"));
        texts.note("a", held(b"two"), held(b"three"));
        texts.note("b", Held::Nothing, held(b"new"));
        assert_eq!(texts.get("a"), FileText { before: held(b"one"), now: held(b"three") });
        assert_eq!(texts.get("b").before, Held::Nothing);
        assert_eq!(texts.get("c"), FileText::default());
        assert_eq!(texts.bytes, 11);
    }

    #[test]
    fn binary_and_large_files_are_not_held() {
        assert_eq!(held(b"a\0b"), Held::Unknown);
        assert_eq!(held(&vec![b'x'; MAX_TEXT + 1]), Held::Unknown);
        let mut texts = Texts::default();
        for n in 0..100 {
            texts.note(&n.to_string(), Held::Nothing, held(&vec![b'x'; MAX_TEXT]));
        }
        assert_eq!(texts.bytes, MAX_TEXTS);
        assert_eq!(texts.get("99").now, Held::Unknown);
    }
}
