//! Finds dependencies between files of one Go package, which use each other's names without an import. They are known
//! when all files of a directory were read. Then the names are dropped, so that memory is bounded by one directory.

use crate::survey::Edge;
use act_kit::paths::directory;
use act_kit::summaries::Summary;
use std::collections::HashMap;

/// The target that an outline uses for the file's own package.
pub(crate) const OWN_PACKAGE: &str = ".";
/// A name that more files define has a variant for each platform and says nothing about dependencies.
const DEFINED: usize = 8;

#[derive(Default)]
pub(crate) struct SamePackage {
    directory: String,
    files: Vec<File>,
}

/// A file of the directory. Its names are one a line.
struct File {
    at: u32,
    is_test: bool,
    /// The names that it defines for its package.
    defines: String,
    /// The names that it uses and does not define itself.
    uses: String,
}

impl SamePackage {
    /// Adds a file. All files of a directory must be added in a row.
    pub(crate) fn add(
        &mut self,
        (at, path): (u32, &str),
        file: &Summary<'_>,
        edges: &mut Vec<Edge>,
    ) {
        if file.language != "go" {
            return;
        }
        if self.directory != directory(path) {
            self.finish_directory(edges);
            directory(path).clone_into(&mut self.directory);
        }
        let mut uses = String::new();
        for import in file.imports().filter(|import| import.target == OWN_PACKAGE) {
            import.names.iter().for_each(|name| uses.extend([name, "\n"]));
        }
        let (defines, is_test) = (file.package_names().to_owned(), path.ends_with("_test.go"));
        self.files.push(File { at, is_test, defines, uses });
    }

    /// Adds the edges between the files of a directory, after the last file of it.
    pub(crate) fn finish_directory(&mut self, edges: &mut Vec<Edge>) {
        let files = std::mem::take(&mut self.files);
        let used = files.iter().flat_map(|file| names(&file.uses));
        let mut defined = used.map(|name| (name, vec![])).collect::<HashMap<_, Vec<&File>>>();
        if defined.is_empty() || files.len() < 2 {
            return;
        }
        // Most names that a file defines are used by no other file, and their lengths tell it without a look at the map.
        let lengths = defined.keys().fold(0, |lengths, name| lengths | length_bit(name));
        for file in &files {
            let names = names(&file.defines).filter(|name| lengths & length_bit(name) != 0);
            for name in names {
                if let Some(files) = defined.get_mut(name) {
                    files.push(file);
                }
            }
        }
        defined.retain(|_, files| (1..=DEFINED).contains(&files.len()));
        for from in &files {
            for found in names(&from.uses).filter_map(|name| defined.get(name)) {
                // Only tests can use names that tests define.
                let is_seen = |to: &&&File| from.is_test || !to.is_test;
                let seen = found.iter().filter(|to| to.at != from.at).filter(is_seen);
                edges.extend(seen.map(|to| (from.at, to.at)));
            }
        }
    }
}

/// Returns the names in a text, one a line.
#[expect(
    clippy::manual_pattern_char_comparison,
    reason = "names are so short that to compare each character is faster than the search for a line end that a `char` begins"
)]
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split_terminator(|c: char| c == '\n')
}

/// One bit for each length of a name, and one for all that are longer.
fn length_bit(name: &str) -> u64 {
    1 << name.len().min(63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_kit::summaries::Summaries;
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
        let paths = files.each_ref().map(|(_, path, _)| *path);
        Summaries::of(&repository, paths.to_vec(), &[]).each(&mut |at, summary| {
            same_package.add((files[at].0, paths[at]), &summary, &mut edges);
        });
        same_package.finish_directory(&mut edges);
        edges.sort_unstable();
        edges.dedup();
        assert_eq!(edges, [(0, 2), (1, 0)]);
    }
}
