//! What the user took away from a name, for whatever bytes come under it, until he gives it back (pure).
//!
//! It is kept beside the grants because those are of certain bytes: a version that does not need something holds
//! nothing of it that could still be narrow when the next one needs it again.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::admission::{Capability, Need};
use super::grant::{Clock, Grant, Http, Limits, Llm, Random, RepoRead, Set};
use super::words::EnvName;

/// At most so much; what is not named was never narrowed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Narrowed {
    /// Grants that it does not get at all.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub withheld: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<Set<EnvName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<Clock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    random: Option<Random>,
    #[serde(rename = "repo.read", skip_serializing_if = "Option::is_none")]
    repo_read: Option<RepoRead>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm: Option<Llm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<Http>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
}

impl Narrowed {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// What is left of what is usually given for these needs.
    pub fn applied(&self, usual: Grant, needs: &[Need]) -> Grant {
        let mut left = usual.meet(&self.over(Grant::everything()));
        for need in needs.iter().filter(|need| self.withheld.contains(&need.grant)) {
            if let Some(capability) = Capability::named(&need.grant) {
                capability.close(&mut left);
                left.withheld.insert(need.grant.clone());
            }
        }
        left
    }

    /// The same with what was taken away since: `held` is what an approval holds, `given` what it was given. Where that
    /// is not known any more, all that it holds counts as narrow.
    #[must_use]
    pub fn and(mut self, held: &Grant, given: Option<&Grant>) -> Self {
        self.withheld.extend(held.withheld.iter().cloned());
        if let Some(given) = given {
            let gone = |one: &Capability| given.has(*one) && !held.has(*one);
            let gone = Capability::ALL.into_iter().filter(gone);
            self.withheld.extend(gone.map(|one| one.name().to_owned()));
        }
        let both = self.over(Grant::everything()).meet(held);
        if both.repo_read.is_some() && is_less(held, given, |grant| &grant.repo_read) {
            self.repo_read = both.repo_read;
        }
        if both.llm.is_some() && is_less(held, given, |grant| &grant.llm) {
            self.llm = both.llm;
        }
        if both.http.is_some() && is_less(held, given, |grant| &grant.http) {
            self.http = both.http;
        }
        if !held.env.is_empty() && is_less(held, given, |grant| &grant.env) {
            self.env = Some(both.env);
        }
        if held.has(Capability::Clock) && is_less(held, given, |grant| &grant.clock) {
            self.clock = Some(both.clock);
        }
        if held.has(Capability::Random) && is_less(held, given, |grant| &grant.random) {
            self.random = Some(both.random);
        }
        if is_less(held, given, |grant| &grant.limits) {
            self.limits = Some(both.limits);
        }
        self
    }

    /// Only what is bounded, and not what is withheld.
    pub fn bounds(&self) -> Grant {
        self.over(Grant::default())
    }

    /// What is bounded, and `rest` where nothing is.
    fn over(&self, rest: Grant) -> Grant {
        let Self { env, clock, random, repo_read, llm, http, limits, withheld: _ } = self.clone();
        Grant {
            env: env.unwrap_or(rest.env),
            clock: clock.unwrap_or(rest.clock),
            random: random.unwrap_or(rest.random),
            repo_read: repo_read.or(rest.repo_read),
            llm: llm.or(rest.llm),
            http: http.or(rest.http),
            limits: limits.unwrap_or(rest.limits),
            ..rest
        }
    }
}

/// Whether a part of what is held is less than what was given of it.
fn is_less<T: PartialEq>(held: &Grant, given: Option<&Grant>, part: fn(&Grant) -> &T) -> bool {
    given.is_none_or(|given| part(&given.meet(held)) != part(given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usual;

    fn need(grant: &str, paths: &[&str]) -> Need {
        serde_json::from_value(serde_json::json!({"grant": grant, "why": "x", "paths": paths}))
            .unwrap()
    }

    /// One approval after another, each with what the one before leaves.
    fn next(narrowed: &Narrowed, needs: &[Need]) -> Grant {
        narrowed.applied(usual(needs, Limits::default()), needs)
    }

    // CAPABILITY-44
    #[test]
    fn what_was_taken_away_stays_away_and_what_is_new_is_given() {
        let needs = [need("repo.read", &[]), need("llm", &[])];
        let given = usual(&needs, Limits::default());
        let mut held = given.clone();
        Capability::Llm.close(&mut held);
        held.withheld.insert("llm".to_owned());
        held.repo_read.as_mut().unwrap().paths = ["src".parse().unwrap()].into_iter().collect();
        held.limits.memory_bytes = 1 << 20;
        let more = [need("repo.read", &[]), need("llm", &[]), need("random", &[])];
        for given in [Some(&given), None] {
            let kept = next(&Narrowed::default().and(&held, given), &more);
            assert!(kept.llm.is_none() && kept.withheld.contains("llm"));
            let read = kept.repo_read.as_ref().unwrap();
            assert!(read.covers("src/a") && !read.covers("docs"));
            assert_eq!(kept.limits.memory_bytes, 1 << 20);
            assert!(kept.has(Capability::Random), "it is new, and shown as such");
        }
        // Nothing was taken away: new needs are met in full.
        let before = usual(&[need("repo.read", &["src"])], Limits::default());
        let narrowed = Narrowed::default().and(&before, Some(&before));
        assert!(narrowed.is_nothing(), "{narrowed:?}");
    }

    // CAPABILITY-44
    #[test]
    fn a_version_that_needs_less_does_not_give_anything_back() {
        let all = [need("repo.read", &[]), need("llm", &[]), need("clock", &[])];
        let given = usual(&all, Limits::default());
        let mut held = given.clone();
        for capability in [Capability::Llm, Capability::Clock] {
            capability.close(&mut held);
        }
        held.withheld.insert("llm".to_owned());
        held.repo_read.as_mut().unwrap().paths = ["src".parse().unwrap()].into_iter().collect();
        let first = Narrowed::default().and(&held, Some(&given));
        // A version without any need, and one that reads elsewhere.
        let mut last = first.clone();
        for needs in [vec![], vec![need("repo.read", &["docs"])]] {
            let between = next(&last, &needs);
            last = last.and(&between, Some(&between));
        }
        assert_eq!(last, first);
        let again = next(&last, &all);
        let read = again.repo_read.as_ref().unwrap();
        assert!(read.covers("src/a") && !read.covers("docs") && !read.covers("a"));
        assert!(again.llm.is_none() && !again.has(Capability::Clock));
        assert_eq!(again.withheld, ["clock".to_owned(), "llm".to_owned()].into());
        // As it stands in the file.
        let text = toml::to_string(&last).unwrap();
        assert_eq!(toml::from_str::<Narrowed>(&text).unwrap(), last);
    }
}
