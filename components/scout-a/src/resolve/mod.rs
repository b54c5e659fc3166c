//! Finds the files of the repository that an import means, by the rules of each language. A file that is only likely is
//! not returned.

mod c;
mod go;
mod java;
mod javascript;
mod manifests;
mod python;
mod rust;

use act_kit::inventory::{Inventory, name};
use act_kit::paths::directory;
use act_kit::reports::source::extension;
use act_kit::summaries::Imported;
use act_kit::world::Repository;
use manifests::Manifests;
pub(crate) use manifests::binaries;
use std::collections::HashMap;

/// Maximum number of files that one import of a directory means.
const DIRECTORY: usize = 50;

pub(crate) struct Resolver<'i> {
    inventory: &'i Inventory,
    manifests: Manifests,
    by_path: HashMap<&'i str, u32>,
    /// Source files of Go and Java by directory, and of C and Java by name. Their imports name no root to start from.
    by_directory: HashMap<&'i str, Vec<usize>>,
    by_name: HashMap<&'i str, Vec<usize>>,
}

impl<'i> Resolver<'i> {
    pub(crate) fn new(repository: &dyn Repository, inventory: &'i Inventory) -> Self {
        let (mut by_directory, mut by_name) =
            (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for (at, file) in inventory.files.iter().enumerate() {
            let name = name(&file.path);
            match extension(name) {
                Some("go" | "java") => {
                    by_directory.entry(directory(&file.path)).or_default().push(at);
                    by_name.entry(name).or_default().push(at);
                }
                Some("h" | "hh" | "hpp" | "hxx" | "inc" | "c" | "cc" | "cpp" | "cxx") => {
                    by_name.entry(name).or_default().push(at);
                }
                _ => {}
            }
        }
        let by_path = inventory.paths().zip(0..).collect();
        let manifests = Manifests::read(repository, inventory);
        Self { inventory, manifests, by_path, by_directory, by_name }
    }

    /// Returns the files that an import means, as indices into the inventory; none for a file outside of the repository.
    pub(crate) fn files(&self, from: &str, language: &str, import: &Imported<'_>) -> Vec<usize> {
        match language {
            "c" | "cpp" => c::files(self, from, import.target),
            "go" => go::files(self, import.target),
            "java" => java::files(self, from, import),
            "javascript" | "typescript" => javascript::files(self, from, import.target),
            "python" => python::files(self, from, import),
            "rust" => rust::files(self, from, import.target),
            _ => vec![],
        }
    }

    fn find(&self, path: &str) -> Option<usize> {
        self.by_path.get(path).map(|at| *at as usize)
    }

    fn first(&self, paths: impl IntoIterator<Item = String>) -> Option<usize> {
        paths.into_iter().find_map(|path| self.find(&path))
    }

    /// Returns the file that a path means with the first of these endings that exists. One text is made for all of them.
    fn ended(&self, place: &str, endings: &[&str]) -> Option<usize> {
        let mut path = String::with_capacity(place.len() + 16);
        path.push_str(place);
        endings.iter().find_map(|ending| {
            path.truncate(place.len());
            path.push_str(ending);
            self.find(&path)
        })
    }

    fn path(&self, at: usize) -> &'i str {
        &self.inventory.files[at].path
    }

    /// Returns the file whose path ends with `suffix` and is nearest to `from`.
    fn nearest(&self, from: &str, suffix: &str) -> Option<usize> {
        let candidates = self.by_name.get(name(suffix))?;
        let fits = |at: &&usize| {
            let rest = self.path(**at).strip_suffix(suffix);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        let distance = |at: &&usize| {
            let path = self.path(**at);
            let shared = path.split('/').zip(from.split('/')).take_while(|(a, b)| a == b).count();
            (usize::MAX - shared, path.len(), path)
        };
        candidates.iter().filter(fits).min_by_key(distance).copied()
    }
}

#[cfg(test)]
mod tests;
