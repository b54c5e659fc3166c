//! One file for each kind of project: what makes a directory one, and what its manifests say.
//!
//! Decides whose manifest makes a project, in this order; a Makefile speaks only where nothing else does.

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

/// Names of files that may make a directory a project.
pub(crate) const MANIFESTS: [&str; 16] = [
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
    "GNUmakefile",
    "makefile",
    "Makefile",
];

/// The projects of one directory; `above` are those of the directories above it.
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
        found.extend(cmake::project(tree, root).or_else(|| make::project(tree, root)));
    }
    // What a malformed manifest would have said is not known.
    for draft in found.iter_mut().filter(|draft| tree.is_broken(&draft.source.path)) {
        draft.offers.clear();
        draft.prerequisites.clear();
        draft.framework = None;
    }
    found
}
