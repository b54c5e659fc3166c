//! What a report may name: files in view, lines inside them. The host checks the same afterwards; here it is
//! cheaper to drop one entry than to ask everything again.

use crate::inventory::Inventory;
use crate::world::World;

/// Of a file whose lines are counted.
const COUNTED: u64 = 4 << 20;

pub struct Ground<'a> {
    pub world: World<'a>,
    pub inventory: &'a Inventory,
}

impl Ground<'_> {
    /// The path as the inventory has it, or nothing when it is not there.
    pub fn path(&self, path: &str) -> Option<String> {
        let clean = path.trim().trim_start_matches("./");
        if self.inventory.has(clean) {
            return Some(clean.to_owned());
        }
        self.world.progress.warn(&format!("dropped from the report: there is no file {path:?}"));
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

    /// A range of lines, from 1 and inclusive, cut to what the file has; nothing when it lies outside.
    pub fn lines(&self, path: &str, start: u32, end: u32) -> Option<(u32, u32)> {
        let bytes = self.world.repository.read(&[path], COUNTED).pop()?.ok()?;
        let count = bytes.split_inclusive(|byte| *byte == b'\n').count();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let (start, end) = (start.max(1), end.min(count));
        if start <= end {
            return Some((start, end));
        }
        self.world.progress.warn(&format!("dropped from the report: {path:?} has {count} lines"));
        None
    }
}
