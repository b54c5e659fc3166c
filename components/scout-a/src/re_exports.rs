//! Follows names through files that only re-export them: `mod.rs`, `lib.rs`, `__init__.py`, `index.ts`. A file that imports
//! a name from one of them depends on the file that defines the name.

use crate::survey::Edge;
use act_kit::inventory::{Inventory, is_test, name};
use act_kit::summaries::Imported;
use std::collections::{BTreeSet, HashMap};

/// Maximum number of names that are followed. Beyond it, the re-exporting file counts as the dependency.
const MOST: usize = 500_000;
/// Maximum number of re-exports in a row that are followed.
const HOPS: usize = 4;
/// Maximum number of imports of whole files by tests.
const WHOLE: usize = 2_000;

#[derive(Default)]
pub(crate) struct ReExports {
    /// Maps a file and a name to the file that the name is re-exported from.
    from: HashMap<(u32, String), u32>,
    /// Imports from re-exporting files: importer, re-exporting file, name.
    taken: Vec<(u32, u32, String)>,
    /// Imports of a whole re-exporting file by tests: importer, re-exporting file, the name that the test has for it.
    whole: Vec<(u32, u32, String)>,
}

impl ReExports {
    /// Adds an import of `to`: as an edge at once, or to be resolved after all files were read.
    pub(crate) fn add(
        &mut self,
        at: u32,
        to: u32,
        import: &Imported<'_>,
        inventory: &Inventory,
        edges: &mut Vec<Edge>,
    ) {
        if at == to {
            return;
        }
        let path = |at: u32| inventory.files[at as usize].path.as_str();
        let (from_at, from_to) = (re_exports_names(path(at)), re_exports_names(path(to)));
        let room = self.from.len() + self.taken.len() < MOST;
        let names = if from_at || from_to { names(import) } else { vec![] };
        if room && from_at {
            self.from.extend(names.iter().map(|name| ((at, (*name).to_owned()), to)));
        }
        if room && from_to && !names.is_empty() {
            self.taken.extend(names.into_iter().map(|name| (at, to, name.to_owned())));
        } else {
            if self.whole.len() < WHOLE && from_to && is_test(path(at)) {
                let last = import.target.rsplit(['.', '/']).find(|part| !part.is_empty());
                self.whole.extend(last.map(|last| (at, to, last.to_owned())));
            }
            edges.push((at, to));
        }
    }

    /// Returns the tests that import a whole re-exporting file. Only their text tells what they use of it.
    pub(crate) fn importers_of_whole(&self) -> Vec<u32> {
        let mut tests = self.whole.iter().map(|(at, _, _)| *at).collect::<Vec<_>>();
        tests.dedup();
        tests
    }

    /// Adds the names that a test takes from whole re-exporting files: `click.prompt` after `import click`.
    pub(crate) fn add_uses(&mut self, test: u32, text: &str) {
        let in_name = |c: char| c.is_alphanumeric() || c == '_';
        let mut uses = BTreeSet::new();
        for (_, to, name) in self.whole.iter().filter(|(at, _, _)| *at == test) {
            for (at, _) in text.match_indices(&format!("{name}.")) {
                let rest = &text[at + name.len() + 1..];
                let used = &rest[..rest.find(|c| !in_name(c)).unwrap_or(rest.len())];
                let key = (*to, used.to_owned());
                if !text[..at].ends_with(in_name) && self.from.contains_key(&key) {
                    uses.insert(key);
                }
            }
        }
        self.taken.extend(uses.into_iter().map(|(to, name)| (test, to, name)));
    }

    /// Adds an edge for each import from a re-exporting file.
    pub(crate) fn resolve(self, edges: &mut Vec<Edge>) {
        for (at, mut to, name) in self.taken {
            let mut key = (to, name);
            for _ in 0..HOPS {
                match self.from.get(&key) {
                    Some(next) if *next != at => (to, key.0) = (*next, *next),
                    _ => break,
                }
            }
            edges.push((at, to));
        }
    }
}

/// Returns the imported names: those beside the target, or the last part of a path.
fn names<'t>(import: &Imported<'t>) -> Vec<&'t str> {
    if !import.names.is_empty() {
        return import.names.clone();
    }
    let last = import.target.rsplit("::").next().filter(|last| *last != import.target);
    last.into_iter().collect()
}

fn re_exports_names(path: &str) -> bool {
    let name = name(path);
    matches!(name, "mod.rs" | "lib.rs" | "__init__.py") || name.starts_with("index.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_kit::testing::Files;

    #[test]
    fn a_re_exported_name_leads_to_where_it_is_defined() {
        let paths = ["a.rs", "lib.rs", "store/mod.rs", "store/open.rs"].map(|path| (path, ""));
        let inventory = Inventory::of(&Files::of(&paths)).unwrap();
        let (a, lib, store, open) = (0, 1, 2, 3);
        let import = |target| Imported { target, names: vec![] };
        let (mut re_exports, mut edges) = (ReExports::default(), vec![]);
        let mut take = |at, to, target: &'static str| {
            re_exports.add(at, to, &import(target), &inventory, &mut edges);
        };
        take(a, lib, "crate::Store");
        take(a, store, "crate::store::MAX");
        take(lib, store, "self::store::Store");
        take(store, open, "self::open");
        take(store, open, "open::Store");
        re_exports.resolve(&mut edges);
        edges.sort_unstable();
        edges.dedup();
        assert_eq!(edges, [(a, store), (a, open), (lib, open), (store, open)]);
    }

    #[test]
    fn a_test_of_a_whole_package_leads_to_the_files_whose_names_it_uses() {
        let paths = [
            "src/click/__init__.py",
            "src/click/core.py",
            "src/click/termui.py",
            "tests/test_all.py",
        ];
        let inventory = Inventory::of(&Files::of(&paths.map(|path| (path, "")))).unwrap();
        let (package, core, termui, test) = (0, 1, 2, 3);
        let import = |target, names: &[&'static str]| Imported { target, names: names.to_vec() };
        let (mut re_exports, mut edges) = (ReExports::default(), vec![]);
        re_exports.add(package, core, &import(".core", &["Command"]), &inventory, &mut edges);
        re_exports.add(package, termui, &import(".termui", &["prompt"]), &inventory, &mut edges);
        re_exports.add(test, package, &import("click", &[]), &inventory, &mut edges);
        assert_eq!(re_exports.importers_of_whole(), [test]);
        re_exports.add_uses(test, "x = click.prompt(click.no_such)\nmyclick.Command\n");
        re_exports.resolve(&mut edges);
        assert!(edges.contains(&(test, termui)) && !edges.contains(&(test, core)), "{edges:?}");
    }
}
