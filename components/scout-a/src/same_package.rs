//! Finds dependencies between files of one Go package, which use each other's names without an import. They are known
//! when all files of a directory were read. Then the names are dropped, so that memory is bounded by one directory.

use crate::survey::Edge;
use act_kit::paths::directory;
use act_kit::world::Outline;
use std::collections::HashMap;

/// The target that an outline uses for the file's own package.
pub(crate) const OWN_PACKAGE: &str = ".";
/// A name that more files define has a variant for each platform and says nothing about dependencies.
const DEFINED: usize = 8;

#[derive(Default)]
pub(crate) struct SamePackage {
    directory: String,
    /// Maps a name to the files that define it, and whether each is a test.
    defined: HashMap<String, Vec<(u32, bool)>>,
    used: Vec<(u32, bool, Vec<String>)>,
}

impl SamePackage {
    /// Adds a file. All files of a directory must be added in a row.
    pub(crate) fn add(&mut self, at: u32, path: &str, outline: &Outline, edges: &mut Vec<Edge>) {
        if outline.language != "go" {
            return;
        }
        if self.directory != directory(path) {
            self.finish_directory(edges);
            directory(path).clone_into(&mut self.directory);
        }
        let is_test = path.ends_with("_test.go");
        for symbol in outline.symbols.iter().filter(|symbol| symbol.container.is_none()) {
            self.defined.entry(symbol.name.clone()).or_default().push((at, is_test));
        }
        let own = outline.imports.iter().filter(|import| import.target == OWN_PACKAGE);
        self.used.extend(own.map(|import| (at, is_test, import.names.clone())));
    }

    /// Adds the edges between the files of a directory, after the last file of it.
    pub(crate) fn finish_directory(&mut self, edges: &mut Vec<Edge>) {
        for (from, from_test, names) in self.used.drain(..) {
            for name in names {
                let Some(files) = self.defined.get(&name).filter(|files| files.len() <= DEFINED)
                else {
                    continue;
                };
                // Only tests can use names that tests define.
                let seen = files.iter().filter(|(to, test)| *to != from && (from_test || !test));
                edges.extend(seen.map(|(to, _)| (from, *to)));
            }
        }
        self.defined.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_kit::world::{Import, Symbol};

    fn outline(defines: &[&str], uses: &[&str]) -> Outline {
        let symbol = |name: &&str| Symbol { name: (*name).to_owned(), ..Symbol::default() };
        let names = uses.iter().map(|name| (*name).to_owned()).collect();
        Outline {
            language: "go".to_owned(),
            symbols: defines.iter().map(symbol).collect(),
            imports: vec![Import { line: 1, target: OWN_PACKAGE.to_owned(), names }],
            ..Outline::default()
        }
    }

    // SCOUT-A-7
    #[test]
    fn who_uses_what_a_neighbour_defines_leans_on_it() {
        let (mut same_package, mut edges) = (SamePackage::default(), vec![]);
        for (at, path, outline) in [
            (0, "cart/cart.go", outline(&["Add", "helper"], &["Price", "len", "fake"])),
            (1, "cart/cart_test.go", outline(&["fake"], &["Add", "helper", "fake"])),
            (2, "cart/price.go", outline(&["Price"], &["Nothing"])),
            (3, "shop/shop.go", outline(&["Open"], &["Add", "Price"])),
        ] {
            same_package.add(at, path, &outline, &mut edges);
        }
        same_package.finish_directory(&mut edges);
        edges.sort_unstable();
        edges.dedup();
        assert_eq!(edges, [(0, 2), (1, 0)]);
    }
}
