//! `/etc/act/policy.toml`: what the administrator allows anybody on this machine. It takes away and never gives.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::toml_file::{self, FileError};
use super::trusted::{self, Owner};
use crate::{Capability, Ceiling, Grant};

const PLACE: &str = "/etc/act/policy.toml";
const MAX_BYTES: u64 = 1 << 20;

/// In force for every component, built in or not. Without a file nothing is taken away.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub ceiling: Grant,
    /// The head of the audit log must go to a place off this machine.
    pub require_anchor: bool,
    /// An image may be named by a tag alone.
    pub allow_unpinned_images: bool,
    /// Steps of a verification may have a network.
    pub step_network: bool,
    /// Tokens that a task may spend at most; `None` sets no limit.
    pub max_tokens: Option<u64>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ceiling: Grant::everything(),
            require_anchor: false,
            allow_unpinned_images: true,
            step_network: true,
            max_tokens: None,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    require_anchor: bool,
    allow_unpinned_images: Option<bool>,
    /// Grants that nobody gets.
    deny: Vec<String>,
    ceiling: Ceiling,
    verifier: Steps,
    limits: TaskLimits,
}

/// What one task may spend; the key is that of `agent.yaml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TaskLimits {
    max_tokens: Option<std::num::NonZeroU64>,
}

/// The words of `agent.yaml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Steps {
    network: Option<Network>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Network {
    On,
    Off,
}

impl Policy {
    pub fn read() -> Result<Self, FileError> {
        let (path, owner) = place();
        let untrusted = |why| FileError::Untrusted { path: path.clone(), why };
        let (Some(above), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
        else {
            return Err(untrusted("is no file name".to_owned()));
        };
        let Some(dir) = trusted::directory(above, None, owner).map_err(untrusted)? else {
            return Ok(Self::default());
        };
        match trusted::text(&dir, name, MAX_BYTES, owner).map_err(untrusted)? {
            Some(text) => Self::parse(&text, &path),
            None => Ok(Self::default()),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let written: Written = toml_file::parse(text, path)?;
        if !written.ceiling.withheld.is_empty() {
            let at = text.find("withheld").unwrap_or_default();
            let why = "unknown field `withheld`; name what nobody gets in `deny`";
            return Err(toml_file::malformed(text, path, at, why));
        }
        let mut ceiling = Grant::everything();
        written.ceiling.lower(&mut ceiling);
        for name in &written.deny {
            let Some(capability) = Capability::named(name) else {
                let at = text.find(&format!("\"{name}\"")).unwrap_or_default();
                let why = format!("`{}` is no grant", name.escape_debug());
                return Err(toml_file::malformed(text, path, at, &why));
            };
            capability.close(&mut ceiling);
        }
        Ok(Self {
            ceiling,
            require_anchor: written.require_anchor,
            allow_unpinned_images: written.allow_unpinned_images.unwrap_or(true),
            step_network: written.verifier.network != Some(Network::Off),
            max_tokens: written.limits.max_tokens.map(std::num::NonZeroU64::get),
        })
    }
}

/// Another place in builds with debug assertions, for tests; what is shipped has none.
fn place() -> (PathBuf, Owner) {
    #[cfg(debug_assertions)]
    if let Some(path) = std::env::var_os("ACT_POLICY_FILE") {
        return (path.into(), Owner::CallerAsRoot);
    }
    (PLACE.into(), Owner::Root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    fn parse(text: &str) -> Result<Policy, String> {
        Policy::parse(text, Path::new("policy.toml")).map_err(|error| error.to_string())
    }

    // CAPABILITY-19
    #[test]
    fn a_policy_takes_away_and_the_empty_one_takes_nothing() {
        assert_eq!(parse("").unwrap(), Policy::default());
        let policy = parse(
            "allow_unpinned_images = false\nrequire_anchor = true\ndeny = [\"http\", \"repo.write\"]\n\
             [verifier]\nnetwork = \"off\"\n[ceiling]\nenv = [\"FOO\"]\nclock = \"coarse\"\n[ceiling.llm]\ncalls = 2\n\
             [ceiling.limits]\nwall_ms = 5000\n[limits]\nmax_tokens = 70\n",
        )
        .unwrap();
        assert_eq!(policy.max_tokens, Some(70));
        assert!(parse("[limits]\nmax_tokens = 0").is_err());
        assert!(policy.require_anchor && !policy.allow_unpinned_images && !policy.step_network);
        assert!(parse("[verifier]\nnetwork = \"on\"").unwrap().step_network);
        let Grant { http, repo_write, env, clock, llm, limits, repo_read, .. } = &policy.ceiling;
        assert_eq!((http.is_none(), *repo_write, *clock), (true, false, Clock::Coarse));
        assert_eq!(env.values().count(), 1);
        assert_eq!((llm.as_ref().unwrap().calls, limits.wall.as_millis()), (2, 5000));
        assert_eq!(*repo_read, Grant::everything().repo_read);
    }

    // CAPABILITY-19
    #[test]
    fn a_policy_that_is_not_understood_is_refused_with_its_place() {
        for (text, says) in [
            ("allow = true", "policy.toml:1:1: unknown field `allow`"),
            ("deny = [\n  \"shell\"]", "policy.toml:2:3: `shell` is no grant"),
            ("[verifier]\nnetwork = \"none\"", "policy.toml:2:11: unknown variant `none`"),
            ("[ceiling.llm]\ncall = 1", "policy.toml:2:1: unknown field `call`"),
            ("[ceiling]\nwithheld = [\"llm\"]", "policy.toml:2:1: unknown field `withheld`"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }

    // CAPABILITY-19
    #[test]
    fn every_bound_of_a_grant_has_a_ceiling_of_its_name() {
        let everything = serde_json::to_value(Grant::everything()).unwrap();
        let mut bounds = 0;
        for (table, values) in everything.as_object().unwrap() {
            for (name, _) in values.as_object().into_iter().flatten().filter(|(_, v)| v.is_number())
            {
                let policy = parse(&format!("[ceiling.\"{table}\"]\n{name} = 7\n")).unwrap();
                let ceiling = serde_json::to_value(&policy.ceiling).unwrap();
                assert_eq!(ceiling[table][name], 7, "{table} {name}");
                bounds += 1;
            }
        }
        assert_eq!(bounds, 18);
    }
}
