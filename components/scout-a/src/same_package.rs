//! Finds dependencies between files of one Go package, which use each other's names without an import. They are known
//! when all files of a directory were read. Then the names are dropped, so that memory is bounded by one directory.

use crate::survey::Edge;
use act_kit::paths::directory;
use act_kit::world::{Repository, Summary};
use std::collections::{HashMap, HashSet};

/// The target that an outline uses for the file's own package.
pub(crate) const OWN_PACKAGE: &str = ".";
/// A name that more files define has a variant for each platform and says nothing about dependencies.
const DEFINED: usize = 8;

/// Number of outlines in one request.
const PART: usize = 128;

#[derive(Default)]
pub(crate) struct SamePackage {
    directory: String,
    /// The files of the directory, with their paths.
    files: Vec<(u32, String)>,
    /// The names that a file uses and does not define itself.
    used: Vec<(u32, Vec<String>)>,
}

impl SamePackage {
    /// Adds a file. All files of a directory must be added in a row.
    pub(crate) fn add(
        &mut self,
        repository: &dyn Repository,
        (at, path): (u32, &str),
        file: &Summary,
        edges: &mut Vec<Edge>,
    ) {
        if file.language != "go" {
            return;
        }
        if self.directory != directory(path) {
            self.finish_directory(repository, edges);
            directory(path).clone_into(&mut self.directory);
        }
        self.files.push((at, path.to_owned()));
        let own = file.imports.iter().filter(|import| import.target == OWN_PACKAGE);
        self.used.extend(own.map(|import| (at, import.names.clone())));
    }

    /// Adds the edges between the files of a directory, after the last file of it. Their outlines, which are long, are requested
    /// only where a file uses a name that another one may define.
    pub(crate) fn finish_directory(&mut self, repository: &dyn Repository, edges: &mut Vec<Edge>) {
        let (files, used) = (std::mem::take(&mut self.files), std::mem::take(&mut self.used));
        if used.is_empty() || files.len() < 2 {
            return;
        }
        let mut defined = HashMap::<String, Vec<u32>>::new();
        for part in files.chunks(PART) {
            let paths = part.iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>();
            for ((at, _), outline) in part.iter().zip(repository.outlines(&paths)) {
                let symbols = outline.map(|outline| outline.symbols).unwrap_or_default();
                for symbol in symbols.into_iter().filter(|symbol| symbol.container.is_none()) {
                    defined.entry(symbol.name).or_default().push(*at);
                }
            }
        }
        let tests = files.iter().filter(|(_, path)| path.ends_with("_test.go"));
        let tests = tests.map(|(at, _)| *at).collect::<HashSet<_>>();
        for (from, names) in used {
            for name in names {
                let Some(files) = defined.get(&name).filter(|files| files.len() <= DEFINED) else {
                    continue;
                };
                // Only tests can use names that tests define.
                let is_seen = |to: &&u32| tests.contains(&from) || !tests.contains(to);
                let seen = files.iter().filter(|to| **to != from).filter(is_seen);
                edges.extend(seen.map(|to| (from, *to)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_kit::testing::Files;
    use act_kit::world::{Import, Outline, Symbol};

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
        let files = [
            (0, "cart/cart.go", outline(&["Add", "helper"], &["Price", "len", "fake"])),
            (1, "cart/cart_test.go", outline(&["fake"], &["Add", "helper", "fake"])),
            (2, "cart/price.go", outline(&["Price"], &["Nothing"])),
            (3, "shop/shop.go", outline(&["Open"], &["Add", "Price"])),
        ];
        let add = |repository: Files, (_, path, outline): &(u32, &str, Outline)| {
            repository.outlined(path, outline.clone())
        };
        let repository = files.iter().fold(Files::of(&[]), add);
        let (mut same_package, mut edges) = (SamePackage::default(), vec![]);
        for (at, path, outline) in files {
            let summary = Summary::of(outline);
            same_package.add(&repository, (at, path), &summary, &mut edges);
        }
        same_package.finish_directory(&repository, &mut edges);
        edges.sort_unstable();
        edges.dedup();
        assert_eq!(edges, [(0, 2), (1, 0)]);
    }
}
