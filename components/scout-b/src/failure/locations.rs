//! Finds the locations in a log that exist in the repository: the file is in view and has that line.

use crate::facts::Location;
use crate::tree::Tree;
use act_kit::inventory::name;
use act_kit::reports::failures::{Log, is_elsewhere, mentions};
use std::collections::{BTreeMap, BTreeSet};

/// Collects the locations of a log.
pub(super) struct Locations<'a> {
    tree: &'a Tree<'a>,
    log: &'a Log,
    /// Paths by their file name.
    names: BTreeMap<&'a str, Vec<&'a str>>,
    /// Packages that failed, for file names that several directories have.
    packages: Vec<&'a str>,
    seen: BTreeSet<Location>,
    pub(super) found: Vec<Location>,
}

impl<'a> Locations<'a> {
    pub(super) fn new(tree: &'a Tree<'a>, log: &'a Log) -> Self {
        let mut names = BTreeMap::<_, Vec<_>>::new();
        for path in tree.inventory.paths() {
            names.entry(name(path)).or_default().push(path);
        }
        let failed = |(_, line): (usize, &'a str)| {
            let package = line.strip_prefix("FAIL\t").or_else(|| line.strip_prefix("# "))?;
            package.split_whitespace().next()
        };
        let packages = log.iter().filter_map(failed).take(50).collect();
        Self { tree, log, names, packages, seen: BTreeSet::new(), found: vec![] }
    }

    /// Adds the locations that a line names.
    pub(super) fn add_line(&mut self, at: usize) {
        for (path, line) in mentions(self.log.line(at)) {
            self.add(&path, line);
        }
    }

    /// Adds a location if it exists.
    pub(super) fn add(&mut self, path: &str, line: u32) {
        let Some(path) = self.resolved(path) else { return };
        let there = self.tree.lines(&path).is_some_and(|lines| 1 <= line && line <= lines);
        let location = Location { path, line };
        if there && self.seen.insert(location.clone()) {
            self.found.push(location);
        }
    }

    /// Returns the file that a path in a log means: the same path, or the only one with that ending.
    fn resolved(&self, path: &str) -> Option<String> {
        let path = path.trim_start_matches("file://").trim_start_matches("./");
        if path.is_empty() || is_elsewhere(path) {
            return None;
        }
        if self.tree.has(path) {
            return Some(path.to_owned());
        }
        let candidates = self.names.get(name(path))?;
        let parts =
            path.split('/').filter(|part| !part.is_empty() && *part != "..").collect::<Vec<_>>();
        let common = |candidate: &str| {
            let theirs = candidate.rsplit('/');
            theirs.zip(parts.iter().rev()).take_while(|(a, b)| a == *b).count()
        };
        if path.starts_with('/') {
            // The log is from another directory, so that only the end of the path is the same.
            let whole = candidates.iter().filter(|path| common(path) == path.split('/').count());
            return whole.max_by_key(|path| path.len()).map(|path| (*path).to_owned());
        }
        // The path is relative to a directory of the repository.
        let below =
            candidates.iter().filter(|path| common(path) == parts.len()).collect::<Vec<_>>();
        match below.as_slice() {
            [only] => Some((**only).to_owned()),
            several => {
                let failed = |path: &&&&str| {
                    let directory = act_kit::paths::directory(path);
                    self.packages.iter().any(|package| {
                        package.strip_suffix(directory).is_some_and(|rest| rest.ends_with('/'))
                    })
                };
                let mut failed = several.iter().filter(failed);
                let first = failed.next()?;
                failed.next().is_none().then(|| (***first).to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_kit::inventory::Inventory;
    use act_kit::testing::Files;

    fn found(files: &[(&str, &str)], log: &str) -> Vec<String> {
        let files = Files::of(files);
        let inventory = Inventory::of(&files).unwrap();
        let tree = Tree::new(&files, &inventory);
        let log = Log::of(log);
        let mut locations = Locations::new(&tree, &log);
        (0..log.len()).for_each(|at| locations.add_line(at));
        locations
            .found
            .iter()
            .map(|location| format!("{}:{}", location.path, location.line))
            .collect()
    }

    // SCOUT-B-14
    #[test]
    fn a_place_is_one_of_the_repository_or_none() {
        let five = "1\n2\n3\n4\n5\n";
        let files = [
            ("src/a.py", five),
            ("b.ts", five),
            ("x/go/c_test.go", five),
            ("y/go/c_test.go", five),
            ("src/main/java/p/A.java", five),
        ];
        for (log, locations) in [
            ("  File \"/srv/tree/src/a.py\", line 3, in f", &["src/a.py:3"][..]),
            ("src/a.py:5: AssertionError", &["src/a.py:5"]),
            ("src/a.py:6: AssertionError", &[]),
            ("/usr/lib/python3/src/a.py:3: x", &[]),
            ("b.ts(3,5): error TS1", &["b.ts:3"]),
            ("b.ts:4:1 - error", &["b.ts:4"]),
            ("at f (file:///home/u/b.ts:2:1)", &["b.ts:2"]),
            ("    c_test.go:4: no", &[]),
            ("    c_test.go:4: no\nFAIL\texample.com/y/go\t0.1s", &["y/go/c_test.go:4"]),
            ("at p.A.f(A.java:5)", &["src/main/java/p/A.java:5"]),
            ("[ERROR] /w/src/main/java/p/A.java:[2,9] x", &["src/main/java/p/A.java:2"]),
            ("ghost.py:1: x, ../../etc/passwd:1", &[]),
        ] {
            assert_eq!(found(&files, log), locations, "{log}");
        }
    }
}
