//! Names that a file uses and neither declares nor imports. In Go and Java they belong to other files of the same package,
//! which need no import. A name that the file declares anywhere is left out.

use std::collections::{BTreeSet, HashSet};

use tree_sitter::Node;

use crate::scope::Found;

/// Maximum number of names of one file; files written by people have fewer.
const MOST: usize = 1_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    /// The package as an import would name it, and the line of its declaration.
    package: Option<(usize, String)>,
    used: BTreeSet<String>,
    declared: HashSet<String>,
    /// First bytes of nodes that only look like a use.
    passed_over: HashSet<usize>,
    cut: bool,
}

impl Uses {
    pub(super) fn package(&mut self, node: Node<'_>, name: &str) {
        self.package.get_or_insert((node.start_position().row, name.to_owned()));
    }

    pub(super) fn uses(&mut self, node: Node<'_>, found: &Found<'_>) {
        let name = found.raw(node);
        if self.passed_over.remove(&node.start_byte()) || self.used.contains(name) {
            return;
        }
        if self.used.len() >= MOST {
            self.cut = true;
        } else if !name.is_empty() {
            self.used.insert(name.to_owned());
        }
    }

    pub(super) fn declares(&mut self, name: &str) {
        if !self.declared.contains(name) {
            self.declared.insert(name.to_owned());
        }
    }

    pub(super) fn pass_over(&mut self, node: Node<'_>) {
        self.passed_over.insert(node.start_byte());
    }

    /// Adds an import of the file's own package with these names.
    pub(super) fn tell(&mut self, found: &mut Found<'_>) {
        let Some((row, package)) = self.package.take() else { return };
        let used = std::mem::take(&mut self.used).into_iter();
        let names: Vec<_> = used.filter(|name| !self.declared.contains(name)).collect();
        if !names.is_empty() {
            found.import_at(row, &package, names);
        }
        if self.cut {
            found.was_cut();
        }
    }
}
