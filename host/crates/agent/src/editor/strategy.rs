//! The strategies of a task, and whether that of a REPLAN is a new one or an old one in other clothes. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::Strategy;

/// Refusals that a REPLAN gets before a repeated strategy or diff is accepted and marked.
const REFUSALS: u32 = 2;

/// What has been tried: the words of every plan and the fingerprint of every tree that was verified.
#[derive(Debug, Clone, Default)]
pub(super) struct Tried {
    strategies: Vec<BTreeSet<String>>,
    trees: Vec<String>,
    /// Refused since the last REPLAN.
    refused_strategies: u32,
    refused_trees: u32,
}

/// Whether something was tried before, and what comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    No,
    Refused,
    /// Refused often enough.
    Accepted,
}

/// Words that say nothing about what is going to be done.
const FILLING: [&str; 21] = [
    "a", "an", "and", "by", "for", "i", "in", "is", "it", "now", "of", "on", "so", "that", "the",
    "then", "this", "to", "we", "will", "with",
];

/// The words that matter, in lower case, whatever their order: case, spacing, punctuation and filling make no new
/// strategy.
fn essence(strategy: &str) -> BTreeSet<String> {
    let words = strategy.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: BTreeSet<_> = words.map(str::to_lowercase).collect();
    let matter: BTreeSet<_> =
        words.iter().filter(|word| !FILLING.contains(&word.as_str())).cloned().collect();
    if matter.is_empty() { words } else { matter }
}

/// Whether two strategies say the same: with one word in ten another one, unless that word is a number or turns
/// the meaning round.
fn alike(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    const TURNS: [&str; 7] = ["no", "not", "never", "without", "instead", "only", "don"];
    let weighs = |word: &String| {
        TURNS.contains(&word.as_str()) || word.bytes().any(|byte| byte.is_ascii_digit())
    };
    let differ: Vec<_> = one.symmetric_difference(other).collect();
    let common = one.intersection(other).count();
    differ.len() * 10 <= common * 2 && !differ.into_iter().any(weighs)
}

impl Tried {
    pub(super) fn add_strategy(&mut self, strategy: &str) {
        self.strategies.push(essence(strategy));
    }

    /// At a REPLAN refusals count anew.
    pub(super) fn start_over(&mut self) {
        (self.refused_strategies, self.refused_trees) = (0, 0);
    }

    pub(super) fn judge_strategy(&mut self, strategy: &str) -> Repeat {
        let known = self.knows_strategy(strategy);
        repeat(known, &mut self.refused_strategies)
    }

    pub(super) fn judge_tree(&mut self, fingerprint: &str) -> Repeat {
        let known = self.knows_tree(fingerprint);
        repeat(known, &mut self.refused_trees)
    }

    fn knows_strategy(&self, strategy: &str) -> bool {
        let essence = essence(strategy);
        self.strategies.iter().any(|known| alike(known, &essence))
    }

    pub(super) fn add_tree(&mut self, fingerprint: &str) {
        if !self.knows_tree(fingerprint) {
            self.trees.push(fingerprint.to_owned());
        }
    }

    fn knows_tree(&self, fingerprint: &str) -> bool {
        self.trees.iter().any(|known| known == fingerprint)
    }
}

fn repeat(known: bool, refused: &mut u32) -> Repeat {
    if !known {
        return Repeat::No;
    }
    if *refused >= REFUSALS {
        return Repeat::Accepted;
    }
    *refused += 1;
    Repeat::Refused
}

/// A state of a task's changes: each changed path with the digest of what it is now.
pub(super) type Changes = BTreeMap<String, Option<String>>;

/// The strategies of a task as snapshots and reports show them.
#[derive(Debug, Default)]
pub(super) struct Strategies {
    all: Vec<Strategy>,
    /// When the one in hand began.
    began: Changes,
}

impl Strategies {
    pub(super) fn begin(&mut self, strategy: Strategy, changes: Changes) {
        self.all = self.so_far(&changes);
        self.all.push(strategy);
        self.began = changes;
    }

    pub(super) fn all(&self) -> &[Strategy] {
        &self.all
    }

    /// The text of the one in hand; empty before the first.
    pub(super) fn in_hand(&self) -> &str {
        self.all.last().map_or("", |last| &last.text)
    }

    pub(super) fn mark_in_hand(&mut self, with: &str) {
        if let Some(last) = self.all.last_mut() {
            last.text.push_str(with);
        }
    }

    /// With what the one in hand has changed until now.
    pub(super) fn so_far(&self, changes: &Changes) -> Vec<Strategy> {
        let mut strategies = self.all.clone();
        if let Some(last) = strategies.last_mut() {
            last.changed = changed(&self.began, changes);
        }
        strategies
    }
}

fn changed(began: &Changes, now: &Changes) -> Vec<String> {
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
        assert!(!tried.knows_strategy("Fix the test of add()"));
    }

    /// EDITOR-27
    #[test]
    fn the_same_words_in_another_order_are_no_other_strategy() {
        let mut tried = Tried::default();
        tried.add_strategy(
            "Change the parser in src/date.rs to accept leap centuries, then extend the tests of the date module",
        );
        let same = "Then extend the tests of the date module, and change the parser in src/date.rs so that it \
                    will accept leap centuries now";
        assert!(tried.knows_strategy(same));
        assert!(tried.knows_strategy(&same.replace("extend", "widen")), "one word in ten");
        for other in [
            "Change the lexer in src/token.rs to accept leap centuries, then extend the tests of the token module",
            &same.replace("accept", "not accept"),
            &same.replace("src/date.rs", "src/date2.rs"),
            "Accept leap centuries",
        ] {
            assert!(!tried.knows_strategy(other), "{other}");
        }
    }

    /// EDITOR-27
    #[test]
    fn what_is_repeated_is_refused_twice_after_each_replan() {
        let mut tried = Tried::default();
        tried.add_strategy("Fix the sign");
        for _ in 0..2 {
            let judged: Vec<_> = (0..4).map(|_| tried.judge_strategy("fix the sign")).collect();
            use Repeat::{Accepted, Refused};
            assert_eq!(judged, [Refused, Refused, Accepted, Accepted]);
            assert_eq!(tried.judge_strategy("Fix the test"), Repeat::No);
            tried.start_over();
        }
    }

    #[test]
    fn a_tree_that_failed_is_known_again() {
        let mut tried = Tried::default();
        tried.add_tree("aa");
        assert!(tried.knows_tree("aa"));
        assert!(!tried.knows_tree("bb"));
    }
}
