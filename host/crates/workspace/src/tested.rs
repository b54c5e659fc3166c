//! Which paths are in the tree that a verification is about. What is not in it must not be written by a task:
//! nothing would prove it.

use super::globs::PathGlobs;
use super::handle::Root;
use super::ignored::IgnoreRules;

/// A changed file that no verification has judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untested {
    pub path: String,
    /// The user named the path for this task.
    pub allowed: bool,
}

/// The ignore rules as they are now, which are those of the next verification: a task may change them.
pub(super) struct Tested<'a> {
    ignores: IgnoreRules,
    include: &'a PathGlobs,
}

impl<'a> Tested<'a> {
    /// `include` are the globs of `agent.yaml` that bring ignored files into the tree.
    pub(super) fn now(root: &Root, include: &'a PathGlobs) -> Self {
        Self { ignores: IgnoreRules::new(root), include }
    }

    /// Whether a file of that path, there or not, is in the tree. What has no place in it by its name alone is
    /// protected or excluded anyway.
    pub(super) fn holds(&self, path: &str) -> bool {
        !self.ignores.ignores_path(path.as_bytes(), false) || self.include.matches(path)
    }
}
