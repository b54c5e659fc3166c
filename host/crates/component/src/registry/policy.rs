//! `/etc/act/policy.toml`: what the administrator allows anybody on this machine. It takes away and never gives.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::toml_file::{self, FileError};
use super::trusted::{self, Owner};
use crate::{Capability, Clock, EnvName, Grant, Method, Origin, Random, RepoPart, Set};

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

/// At most so much; what is not named is not bounded.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Ceiling {
    #[serde(rename = "repo.read")]
    repo_read: Read,
    llm: Talk,
    http: Requests,
    env: Option<Set<EnvName>>,
    clock: Option<Clock>,
    random: Option<Random>,
    limits: Bounds,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Read {
    paths: Option<Set<RepoPart>>,
    file_bytes: Option<u64>,
    query_bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Talk {
    calls: Option<u32>,
    tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Requests {
    origins: Option<Set<Origin>>,
    methods: Option<Set<Method>>,
    request_bytes: Option<u64>,
    response_bytes: Option<u64>,
    requests: Option<u32>,
    at_once: Option<u32>,
    query_bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Bounds {
    memory_bytes: Option<u64>,
    wall_ms: Option<u64>,
    handles: Option<u32>,
    core_instances: Option<u32>,
    host_call_bytes: Option<u64>,
    result_bytes: Option<u64>,
    wasm_bytes: Option<u64>,
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
        let mut ceiling = written.ceiling.grant();
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

impl Ceiling {
    fn grant(self) -> Grant {
        fn lower<T>(bound: &mut T, to: Option<T>) {
            if let Some(to) = to {
                *bound = to;
            }
        }
        let mut grant = Grant::everything();
        if let Some(read) = &mut grant.repo_read {
            lower(&mut read.paths, self.repo_read.paths);
            lower(&mut read.file_bytes, self.repo_read.file_bytes);
            lower(&mut read.query_bytes, self.repo_read.query_bytes);
        }
        if let Some(llm) = &mut grant.llm {
            lower(&mut llm.calls, self.llm.calls);
            lower(&mut llm.tokens, self.llm.tokens);
        }
        if let Some(http) = &mut grant.http {
            lower(&mut http.origins, self.http.origins);
            lower(&mut http.methods, self.http.methods);
            lower(&mut http.request_bytes, self.http.request_bytes);
            lower(&mut http.response_bytes, self.http.response_bytes);
            lower(&mut http.requests, self.http.requests);
            lower(&mut http.at_once, self.http.at_once);
            lower(&mut http.query_bytes, self.http.query_bytes);
        }
        lower(&mut grant.env, self.env);
        lower(&mut grant.clock, self.clock);
        lower(&mut grant.random, self.random);
        let (limits, to) = (&mut grant.limits, self.limits);
        lower(&mut limits.memory_bytes, to.memory_bytes);
        lower(&mut limits.wall, to.wall_ms.map(std::time::Duration::from_millis));
        lower(&mut limits.handles, to.handles);
        lower(&mut limits.core_instances, to.core_instances);
        lower(&mut limits.host_call_bytes, to.host_call_bytes);
        lower(&mut limits.result_bytes, to.result_bytes);
        lower(&mut limits.wasm_bytes, to.wasm_bytes);
        grant
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
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
