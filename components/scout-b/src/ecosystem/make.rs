//! A Makefile in a directory without another manifest.

use crate::draft::Draft;
use crate::facts::{Kind, System};
use crate::tasks;
use crate::tree::{Tree, location};
use act_kit::reports::commands::Family;

pub(super) fn project(tree: &Tree<'_>, root: &str) -> Option<Draft> {
    let makefile = tasks::makefile(tree, root)?;
    let line = makefile.targets.first().map_or(1, |target| target.line);
    let mut draft = Draft::new(root, System::Make, Family::Any, location(&makefile.path, line));
    if makefile.target("build").or(makefile.target("all")).is_none() && !makefile.targets.is_empty()
    {
        draft.custom(Kind::Build, "make");
    }
    draft.has_tests = tree.tests(root).next().is_some();
    draft.needs("make", None, draft.source.clone());
    let compiles = tree
        .below(root)
        .any(|path| [".c", ".cc", ".cpp", ".h"].iter().any(|extension| path.ends_with(extension)));
    if compiles {
        draft.needs("c compiler", None, draft.source.clone());
    }
    Some(draft)
}
