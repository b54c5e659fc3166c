//! One module for each kind of project: its manifests, and what they say.
//!
//! The order of the modules decides which manifest makes a project. A Makefile counts only without another manifest.

mod autotools;
mod cargo;
mod cmake;
mod go;
mod gradle;
mod make;
pub(crate) mod maven;
pub(crate) mod node;
pub(crate) mod python;

use crate::draft::Draft;
use crate::tree::Tree;

/// Names of files that make a directory a project.
pub(crate) const MANIFESTS: [&str; 18] = [
    "Cargo.toml",
    "go.mod",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "Pipfile",
    "tox.ini",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
    "configure.ac",
    "configure.in",
    "GNUmakefile",
    "makefile",
    "Makefile",
];

/// Returns the projects of one directory. `above` are the projects of the directories above.
pub(crate) fn projects(tree: &Tree<'_>, root: &str, above: &[Draft]) -> Vec<Draft> {
    let languages = [
        cargo::project(tree, root),
        go::project(tree, root),
        node::project(tree, root),
        python::project(tree, root),
        maven::project(tree, root),
        gradle::project(tree, root),
    ];
    let mut found = languages.into_iter().flatten().collect::<Vec<_>>();
    let enclosed = above.iter().any(|draft| {
        draft.root.is_empty() || root == draft.root || root.starts_with(&format!("{}/", draft.root))
    });
    if found.is_empty() && !enclosed {
        let built = cmake::project(tree, root).or_else(|| autotools::project(tree, root));
        found.extend(built.or_else(|| make::project(tree, root)));
    }
    // A malformed manifest may declare anything, so that nothing is derived from its absence.
    for draft in found.iter_mut().filter(|draft| tree.is_broken(&draft.source.path)) {
        draft.offers.clear();
        draft.prerequisites.clear();
        draft.framework = None;
    }
    found
}
