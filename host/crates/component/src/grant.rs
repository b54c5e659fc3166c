//! What one component may reach, as a value.
//!
//! Nothing here knows the engine: a grant can be printed, written down, compared and tested on its own, and the
//! empty one is the default. All four parties that have a say are grants of this kind; what they agree on is
//! `meet`.

mod http;
mod limits;
mod repo_read;
mod set;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::http::Http;
pub use self::limits::Limits;
pub use self::repo_read::RepoRead;
pub use self::set::Set;
use super::bounds::{self, at_most};
use super::words::EnvName;

/// Everything that a component may do. What is not named here it cannot do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grant {
    /// Through `repo.edit` only; no component ever holds a writable handle.
    #[serde(rename = "repo.write", skip_serializing_if = "std::ops::Not::not")]
    pub repo_write: bool,
    /// Variables that it sees; there are no others.
    #[serde(skip_serializing_if = "Set::is_empty")]
    pub env: Set<EnvName>,
    #[serde(skip_serializing_if = "is_default")]
    pub clock: Clock,
    #[serde(skip_serializing_if = "is_default")]
    pub random: Random,
    /// Needs that the user decided against: it is loaded without them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub withheld: BTreeSet<String>,
    #[serde(rename = "repo.read", skip_serializing_if = "Option::is_none")]
    pub repo_read: Option<RepoRead>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<Llm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    pub limits: Limits,
}

/// Talking to the configured model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llm {
    #[serde(deserialize_with = "at_most::<{ bounds::CALLS }, _, _>")]
    pub calls: u32,
    /// Input and output together.
    #[serde(deserialize_with = "at_most::<{ bounds::TOKENS }, _, _>")]
    pub tokens: u64,
}

impl Llm {
    fn meet(&self, other: &Self) -> Self {
        Self { calls: self.calls.min(other.calls), tokens: self.tokens.min(other.tokens) }
    }
}

/// How finely time is told, from nothing to everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Stands still.
    #[default]
    Constant,
    /// Whole seconds, and steps of 10 ms.
    Coarse,
    Precise,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Random {
    /// The same in every run.
    #[default]
    Seeded,
    Secure,
}

/// More than any file on any disk, and still a number that every reader of JSON and TOML takes.
const UNLIMITED: u64 = 1 << 53;

impl Grant {
    /// What the built-in Scouts hold: the view and a conversation of bounded length.
    pub fn builtin_scout() -> Self {
        Self {
            repo_read: Some(RepoRead::default()),
            llm: Some(Llm { calls: 32, tokens: 1_000_000 }),
            ..Self::default()
        }
    }

    /// What the built-in file tools hold: the view and `repo.edit`. A tool call has 30 s.
    pub fn builtin_tool() -> Self {
        Self {
            repo_read: Some(RepoRead::default()),
            repo_write: true,
            limits: Limits { wall: Duration::from_secs(30), ..Limits::default() },
            ..Self::default()
        }
    }

    /// All there is, for parties that say what they do not want.
    pub fn everything() -> Self {
        Self {
            repo_read: Some(RepoRead::unlimited()),
            repo_write: true,
            llm: Some(Llm { calls: u32::MAX, tokens: UNLIMITED }),
            http: Some(Http::unlimited()),
            env: Set::Any,
            clock: Clock::Precise,
            random: Random::Secure,
            withheld: BTreeSet::new(),
            limits: Limits::unlimited(),
        }
    }

    /// Whether a file at `path` may be written as far as names go. A narrowed `repo.read` holds for writing as well:
    /// an answer about a path that may not be read would tell what is there.
    pub fn may_write(&self, path: &str) -> bool {
        self.repo_write && self.repo_read.as_ref().is_none_or(|read| read.covers(path))
    }

    /// The same with at most this long for one query.
    #[must_use]
    pub fn within(mut self, wall: Duration) -> Self {
        self.limits.wall = wall;
        self
    }

    /// What both allow. What either of them withholds stays named.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        fn both<T>(a: Option<&T>, b: Option<&T>, meet: impl FnOnce(&T, &T) -> T) -> Option<T> {
            a.zip(b).map(|(a, b)| meet(a, b))
        }
        Self {
            repo_write: self.repo_write && other.repo_write,
            env: self.env.meet(&other.env),
            clock: self.clock.min(other.clock),
            random: self.random.min(other.random),
            withheld: self.withheld.union(&other.withheld).cloned().collect(),
            repo_read: both(self.repo_read.as_ref(), other.repo_read.as_ref(), RepoRead::meet),
            llm: both(self.llm.as_ref(), other.llm.as_ref(), Llm::meet),
            http: both(self.http.as_ref(), other.http.as_ref(), Http::meet),
            limits: self.limits.meet(&other.limits),
        }
    }

    /// Of what is in force, as the record of a query names it.
    pub fn sha256(&self) -> String {
        // A grant has text keys alone, so that it can always be written.
        act_workspace::digest(&serde_json::to_vec(self).unwrap_or_default())
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::RepoPart;

    // CAPABILITY-1
    #[test]
    fn the_default_grant_is_nothing() {
        let Grant { repo_read, repo_write, llm, http, env, clock, random, .. } = Grant::default();
        assert_eq!((repo_read, repo_write, llm, http), (None, false, None, None));
        assert!(env.is_empty());
        assert_eq!((clock, random), (Clock::Constant, Random::Seeded));
    }

    #[test]
    fn a_grant_prints_its_limits_in_units_that_people_read() {
        let shown = serde_json::to_value(Grant::builtin_tool()).unwrap();
        assert_eq!(shown["limits"]["wall_ms"], 30_000);
        assert_eq!(shown["repo.write"], true);
        assert_eq!(shown.get("llm"), None);
    }

    fn parts(paths: &[&str]) -> Set<RepoPart> {
        paths.iter().map(|path| path.parse().unwrap()).collect()
    }

    // CAPABILITY-18
    #[test]
    fn meeting_takes_the_smaller_of_everything() {
        let a = Grant {
            repo_read: Some(RepoRead { paths: parts(&["src", "docs/a"]), ..RepoRead::default() }),
            llm: Some(Llm { calls: 3, tokens: 900 }),
            env: ["A", "B"].map(|name| name.parse().unwrap()).into_iter().collect(),
            clock: Clock::Precise,
            ..Grant::everything()
        };
        let b = Grant {
            repo_read: Some(RepoRead { paths: parts(&["docs", "src/lib"]), ..RepoRead::default() }),
            llm: Some(Llm { calls: 9, tokens: 100 }),
            env: ["B", "C"].map(|name| name.parse().unwrap()).into_iter().collect(),
            clock: Clock::Coarse,
            http: None,
            ..Grant::everything()
        };
        let both = a.meet(&b);
        assert_eq!(both.repo_read.as_ref().unwrap().paths, parts(&["docs/a", "src/lib"]));
        assert_eq!(both.llm, Some(Llm { calls: 3, tokens: 100 }));
        assert_eq!(both.env, ["B"].map(|name| name.parse().unwrap()).into_iter().collect());
        assert_eq!((both.clock, both.http.clone()), (Clock::Coarse, None));
        assert_eq!(both, b.meet(&a));
        assert_eq!(both.meet(&Grant::everything()), both);
        assert_eq!(both.meet(&Grant::default()).repo_read, None);
        let apart = RepoRead { paths: parts(&["a"]), ..RepoRead::default() };
        let none = apart.meet(&RepoRead { paths: parts(&["ab"]), ..RepoRead::default() });
        assert!(none.paths.is_empty() && !none.covers("a") && !none.covers("ab/x"));
    }

    #[test]
    fn a_grant_is_read_as_it_was_written_and_never_with_a_word_too_many() {
        let grant = Grant { clock: Clock::Coarse, ..Grant::builtin_scout() };
        let text = serde_json::to_string(&grant).unwrap();
        assert_eq!(serde_json::from_str::<Grant>(&text).unwrap(), grant);
        for bad in [r#"{"root":true}"#, r#"{"limits":{"cpu":1}}"#, r#"{"env":"any"}"#] {
            assert!(serde_json::from_str::<Grant>(bad).is_err(), "{bad}");
        }
    }
}
