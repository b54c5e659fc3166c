//! Checks that a report names existing files and lines. The host checks the same afterwards. Here it is cheaper to drop one
//! entry than to ask the model again.

use crate::inventory::Inventory;
use crate::world::World;

/// Maximum number of bytes of a file that are read to count its lines.
const COUNTED: u64 = 4 << 20;

pub struct Ground<'a> {
    pub world: World<'a>,
    pub inventory: &'a Inventory,
}

impl Ground<'_> {
    /// Returns whether a report may name a path: a file in view, or a link to a readable file.
    pub fn has(&self, path: &str) -> bool {
        let leads_to_text = || {
            let read = self.world.repository.read(&[path], 1).pop();
            read.is_some_and(|read| read.is_ok())
        };
        self.inventory.has(path) || (self.inventory.is_link(path) && leads_to_text())
    }

    /// Says why a report may not name a path.
    pub fn fault(&self, path: &str) -> String {
        match self.inventory.is_link(path) {
            true => format!("{path:?} is a link that leads to no file in view"),
            false => format!("there is no file {path:?}"),
        }
    }

    /// Returns the path as the repository has it. Logs a warning and returns `None` when there is no such file.
    pub fn path(&self, path: &str) -> Option<String> {
        let clean = path.trim().trim_start_matches("./");
        if self.has(clean) {
            return Some(clean.to_owned());
        }
        self.world.progress.warn(&format!("dropped from the report: {}", self.fault(clean)));
        None
    }

    pub fn keep_paths(&self, paths: &mut Vec<String>) {
        *paths = paths.iter().filter_map(|path| self.path(path)).collect();
        let mut seen = Vec::new();
        paths.retain(|path| {
            let new = !seen.contains(path);
            seen.push(path.clone());
            new
        });
    }

    /// Returns the number of lines of a file. Returns `None` when it cannot be read.
    pub fn line_count(&self, path: &str) -> Option<u32> {
        let bytes = self.world.repository.read(&[path], COUNTED).pop()?.ok()?;
        let count = bytes.split_inclusive(|byte| *byte == b'\n').count();
        Some(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Cuts a range of lines, from 1 and inclusive, to the lines of the file. Returns `None` when it lies outside.
    pub fn lines(&self, path: &str, start: u32, end: u32) -> Option<(u32, u32)> {
        let count = self.line_count(path)?;
        let (start, end) = (start.max(1), end.min(count));
        if start <= end {
            return Some((start, end));
        }
        self.world.progress.warn(&format!("dropped from the report: {path:?} has {count} lines"));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeHost, Files};

    // SCOUT-9
    #[test]
    fn a_link_may_be_named_where_it_leads_to_a_file() {
        let files =
            Files::of(&[("a.py", "one\ntwo\n")]).linked("b.py", "a.py").linked("c.py", "no");
        let host = FakeHost::new(files);
        let inventory = Inventory::of(&host.files).unwrap();
        let ground = Ground { world: host.world(), inventory: &inventory };
        assert_eq!(ground.path("./b.py").as_deref(), Some("b.py"));
        assert_eq!(ground.lines("b.py", 2, 9), Some((2, 2)));
        assert_eq!(ground.path("c.py"), None);
        assert_eq!(ground.fault("c.py"), "\"c.py\" is a link that leads to no file in view");
        assert_eq!(inventory.paths().collect::<Vec<_>>(), ["a.py"], "links are no files of it");
    }
}
