//! Files that only hand on what others define: `mod.rs`, `lib.rs`, `__init__.py`, `index.ts`. Who takes a name from one of
//! them leans on the file that defines it, not on the one that hands it on.

use crate::survey::Edge;
use act_kit::inventory::{Inventory, name};
use act_kit::world::Import;
use std::collections::HashMap;

/// Names that are followed; with more the files themselves are as good.
const MOST: usize = 500_000;
/// How often something is handed on in a row.
const HOPS: usize = 4;

#[derive(Default)]
pub(crate) struct ReExports {
    /// File and name to where that file has it from.
    from: HashMap<(u32, String), u32>,
    /// Who takes what from which such file.
    taken: Vec<(u32, u32, String)>,
}

impl ReExports {
    /// An import of `to`, which is an edge now or will be when everything was seen.
    pub(crate) fn add(
        &mut self,
        at: u32,
        to: u32,
        import: &Import,
        inventory: &Inventory,
        edges: &mut Vec<Edge>,
    ) {
        if at == to {
            return;
        }
        let names = names(import);
        let path = |at: u32| inventory.files[at as usize].path.as_str();
        let room = self.from.len() + self.taken.len() < MOST;
        if room && re_exports_names(path(at)) {
            self.from.extend(names.iter().map(|name| ((at, name.clone()), to)));
        }
        if room && re_exports_names(path(to)) && !names.is_empty() {
            self.taken.extend(names.into_iter().map(|name| (at, to, name)));
        } else {
            edges.push((at, to));
        }
    }

    /// Adds what was taken as edges to where it comes from.
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

/// What is taken: the names beside the target, or the end of a path.
fn names(import: &Import) -> Vec<String> {
    if !import.names.is_empty() {
        return import.names.clone();
    }
    let last = import.target.rsplit("::").next().filter(|last| *last != import.target);
    last.map(str::to_owned).into_iter().collect()
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
    fn what_is_re_exports_leads_to_where_it_is_defined() {
        let paths = ["a.rs", "lib.rs", "store/mod.rs", "store/open.rs"].map(|path| (path, ""));
        let inventory = Inventory::of(&Files::of(&paths)).unwrap();
        let (a, lib, store, open) = (0, 1, 2, 3);
        let import = |target: &str| Import { target: target.to_owned(), ..Import::default() };
        let (mut re_exports, mut edges) = (ReExports::default(), vec![]);
        let mut take = |at, to, target: &str| {
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
}
