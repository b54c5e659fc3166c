//! Whether a REPLAN is a new strategy or an old one in other clothes. Pure.

use std::collections::BTreeMap;

/// Refusals that a REPLAN gets before a repeated strategy or diff is accepted and marked.
pub(super) const SAME_STRATEGY_REFUSALS: u32 = 2;

/// What has been tried: the words of every plan and the fingerprint of every tree that was verified.
#[derive(Debug, Clone, Default)]
pub(super) struct Tried {
    strategies: Vec<String>,
    trees: Vec<String>,
}

/// Letters and digits only, in lower case: punctuation, spacing and capitals make no new strategy.
fn essence(strategy: &str) -> String {
    let mut words = String::new();
    for word in strategy.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        words.extend(word.chars().flat_map(char::to_lowercase));
        words.push(' ');
    }
    words
}

impl Tried {
    pub(super) fn add_strategy(&mut self, strategy: &str) {
        self.strategies.push(essence(strategy));
    }

    pub(super) fn knows_strategy(&self, strategy: &str) -> bool {
        self.strategies.contains(&essence(strategy))
    }

    pub(super) fn add_tree(&mut self, fingerprint: &str) {
        if !self.knows_tree(fingerprint) {
            self.trees.push(fingerprint.to_owned());
        }
    }

    pub(super) fn knows_tree(&self, fingerprint: &str) -> bool {
        self.trees.iter().any(|known| known == fingerprint)
    }
}

/// Paths that differ between two states of a task's changes, each a path and the digest of what it is now.
pub(super) fn changed(
    began: &BTreeMap<String, Option<String>>,
    now: &BTreeMap<String, Option<String>>,
) -> Vec<String> {
    let undone = began.keys().filter(|path| !now.contains_key(*path));
    let made = now.iter().filter(|(path, sha256)| began.get(*path) != Some(sha256));
    let mut paths: Vec<_> = undone.chain(made.map(|(path, _)| path)).cloned().collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strategy_changed_what_differs_from_the_tree_it_began_with() {
        let tree = |files: &[(&str, &str)]| {
            let files = files.iter();
            files.map(|(path, sha256)| (path.to_string(), Some(sha256.to_string()))).collect()
        };
        let began = tree(&[("again", "1"), ("kept", "1"), ("undone", "1")]);
        let now = tree(&[("again", "2"), ("kept", "1"), ("new", "1")]);
        assert_eq!(changed(&began, &now), ["again", "new", "undone"]);
        assert!(changed(&now, &now).is_empty());
    }

    #[test]
    fn other_punctuation_is_no_other_strategy() {
        let mut tried = Tried::default();
        tried.add_strategy("Fix the sign in add()");
        assert!(tried.knows_strategy("fix  the sign in `add`."));
        assert!(!tried.knows_strategy("Rewrite add()"));
    }

    #[test]
    fn a_tree_that_failed_is_known_again() {
        let mut tried = Tried::default();
        tried.add_tree("aa");
        assert!(tried.knows_tree("aa"));
        assert!(!tried.knows_tree("bb"));
    }
}
