//! Reads files of the repository: bounded, each once, with a list of files that could not be parsed.

use crate::facts::{Location, Problem};
use crate::located::{self, Malformed, Node};
use act_kit::inventory::{Inventory, is_test, name};
use act_kit::paths::join;
use act_kit::world::{Entry, Repository};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Maximum number of bytes of one file, and of all files together.
const FILE: u64 = 256 * 1024;
const ALL: u64 = 24 << 20;
const REPLACED: &str = "not UTF-8; what is not was replaced";
/// Maximum number of bytes of a file that are read to count its lines.
const COUNTED: u64 = 4 << 20;

pub(crate) struct Tree<'a> {
    pub(crate) repository: &'a dyn Repository,
    pub(crate) inventory: &'a Inventory,
    texts: RefCell<BTreeMap<String, Option<Rc<str>>>>,
    problems: RefCell<Vec<Problem>>,
    left: Cell<u64>,
    lengths: RefCell<BTreeMap<String, Option<u32>>>,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(repository: &'a dyn Repository, inventory: &'a Inventory) -> Self {
        Self {
            repository,
            inventory,
            texts: RefCell::default(),
            problems: RefCell::default(),
            left: Cell::new(ALL),
            lengths: RefCell::default(),
        }
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.inventory.has(path)
    }

    /// Returns whether there is a file that is not empty. An empty one declares nothing and has no line to refer to.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.file(path).is_some_and(|file| file.size > 0)
    }

    fn file(&self, path: &str) -> Option<&Entry> {
        let files = &self.inventory.files;
        let at = files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        files.get(at)
    }

    /// Returns whether the directory has files.
    pub(crate) fn has_directory(&self, path: &str) -> bool {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let files = &self.inventory.files;
        let at = files.partition_point(|file| file.path.as_str() < prefix.as_str());
        files.get(at).is_some_and(|file| file.path.starts_with(&prefix))
    }

    /// Returns the files below a directory; `""` is the root.
    pub(crate) fn below<'b>(&'b self, root: &str) -> impl Iterator<Item = &'b str> + use<'b, 'a> {
        let prefix = if root.is_empty() { String::new() } else { format!("{root}/") };
        let files = &self.inventory.files;
        let at = files.partition_point(|file| file.path.as_str() < prefix.as_str());
        let from = files.get(at..).unwrap_or_default().iter().map(|file| file.path.as_str());
        from.take_while(move |path| path.starts_with(&prefix))
    }

    /// Returns the test files below a directory, judged by their paths from there.
    pub(crate) fn tests(&self, root: &str) -> impl Iterator<Item = &str> {
        let cut = if root.is_empty() { 0 } else { root.len() + 1 };
        self.below(root).filter(move |path| path.get(cut..).is_some_and(is_test))
    }

    /// Returns the first of these names that exists in the directory.
    pub(crate) fn first(&self, root: &str, names: &[&str]) -> Option<String> {
        names.iter().map(|name| join(root, name)).find(|path| self.has(path))
    }

    pub(crate) fn text(&self, path: &str) -> Option<Rc<str>> {
        if let Some(known) = self.texts.borrow().get(path) {
            return known.clone();
        }
        let text = self.read(path);
        self.texts.borrow_mut().insert(path.to_owned(), text.clone());
        text
    }

    fn read(&self, path: &str) -> Option<Rc<str>> {
        let size = self.file(path)?.size;
        if size > FILE {
            self.problem(path, None, "larger than 256 KiB, not read");
            return None;
        }
        let Some(left) = self.left.get().checked_sub(size.max(64)) else {
            self.problem(path, None, "not read: enough was read before it");
            return None;
        };
        self.left.set(left);
        let bytes = match self.repository.read(&[path], FILE).pop()? {
            Ok(bytes) => bytes,
            Err(why) => {
                self.problem(path, None, &format!("cannot be read: {why}"));
                return None;
            }
        };
        if bytes.contains(&0) {
            self.problem(path, None, "binary, or UTF-16: not text that a tool reads");
            return None;
        }
        if std::str::from_utf8(&bytes).is_err() {
            self.problem(path, None, REPLACED);
        }
        Some(String::from_utf8_lossy(&bytes).into())
    }

    /// Parses a manifest in the format that its name tells.
    pub(crate) fn manifest(&self, path: &str) -> Option<Node> {
        let text = self.text(path)?;
        let name = name(path);
        let parsed = match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("json") => located::json(&text),
            Some("toml") => located::toml(&text),
            Some("yml" | "yaml") => located::yaml(&text),
            _ if name == "Pipfile" => located::toml(&text),
            _ => Ok(located::ini(&text)),
        };
        parsed.map_err(|Malformed { line, message }| self.problem(path, line, &message)).ok()
    }

    /// Returns the number of lines of a file, or `None` when there is no such file or it is too large.
    pub(crate) fn lines(&self, path: &str) -> Option<u32> {
        if let Some(known) = self.lengths.borrow().get(path) {
            return *known;
        }
        let size = self.file(path)?.size;
        let left = self.left.get().checked_sub(size.max(64)).filter(|_| size <= COUNTED)?;
        self.left.set(left);
        let bytes = self.repository.read(&[path], COUNTED).pop()?.ok();
        let count = bytes.map(|bytes| {
            u32::try_from(bytes.split_inclusive(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX)
        });
        self.lengths.borrow_mut().insert(path.to_owned(), count);
        count
    }

    /// Corrects a location to an existing line, because parsers count lines differently. Returns `false` for a file without
    /// lines.
    pub(crate) fn settled(&self, location: &mut Location) -> bool {
        let known = self.texts.borrow().get(&location.path).cloned().flatten();
        let lines = match known {
            Some(text) => u32::try_from(text.split_inclusive('\n').count()).unwrap_or(u32::MAX),
            None if location.line == 1 => u32::from(self.begins(&location.path)),
            None => self.lines(&location.path).unwrap_or(0),
        };
        location.line = location.line.clamp(1, lines.max(1));
        lines > 0
    }

    /// Returns whether a file is text and has a line.
    fn begins(&self, path: &str) -> bool {
        let read = self.repository.read(&[path], 1).pop();
        self.has(path) && read.is_some_and(|bytes| bytes.is_ok_and(|bytes| !bytes.is_empty()))
    }

    pub(crate) fn problem(&self, path: &str, line: Option<u32>, message: &str) {
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let message = act_kit::quoting::cut(&message, 200);
        self.problems.borrow_mut().push(Problem { path: path.to_owned(), line, message });
    }

    /// Returns whether a manifest could not be read or parsed, so that nothing is derived from it.
    pub(crate) fn is_broken(&self, path: &str) -> bool {
        let told = self.problems.borrow();
        told.iter().any(|problem| problem.path == path && !problem.message.starts_with(REPLACED))
    }

    /// Returns the problems that were found, sorted and without duplicates.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let mut problems = self.problems.borrow().clone();
        problems.sort();
        problems.dedup();
        problems
    }

    /// Returns the line of a file that contains a text, else the first line.
    pub(crate) fn location(&self, path: &str, text: &str) -> Location {
        let content = self.text(path);
        let at = content.iter().flat_map(|content| content.lines()).position(|l| l.contains(text));
        location(path, at.map_or(1, |at| at as u32 + 1))
    }
}

pub(crate) fn location(path: &str, line: u32) -> Location {
    Location { path: path.to_owned(), line: line.max(1) }
}
