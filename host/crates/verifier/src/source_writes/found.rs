//! What one look at the view found, within bounds: a step may make millions of files with names of any length.

use std::collections::BTreeSet;

use super::Change;

/// Bytes of the paths that are kept. What was changed or deleted is a source and is always kept.
const MAX_NEW: usize = 4 << 20;

#[derive(Default)]
pub(crate) struct Found {
    pub(crate) writes: BTreeSet<(Vec<u8>, Change)>,
    kept: usize,
    /// New files whose names are not kept.
    pub(crate) beyond: usize,
}

impl Found {
    pub(crate) fn source(&mut self, path: Vec<u8>, change: Change) {
        self.writes.insert((path, change));
    }

    pub(crate) fn new_file(&mut self, path: &[u8]) {
        if self.kept + path.len() > MAX_NEW {
            self.beyond += 1;
        } else if self.writes.insert((path.to_vec(), Change::New)) {
            self.kept += path.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-25
    #[test]
    fn names_of_new_files_are_kept_up_to_a_bound_and_counted_beyond_it() {
        let mut found = Found::default();
        let name = |n: usize| format!("{n:04}{}", "x".repeat((1 << 20) - 4)).into_bytes();
        (0..10).for_each(|n| found.new_file(&name(n)));
        found.source(name(10), Change::Deleted);
        assert_eq!((found.writes.len(), found.beyond), (5, 6));
    }
}
