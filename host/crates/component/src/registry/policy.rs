//! `/etc/act/policy.toml`: upper limits that the administrator sets for all users of this machine. A policy only takes
//! away and never grants.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use act_config::{ConfigCeiling, User};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::trusted::{self, FileError, Owner};
use crate::{Capability, Ceiling, Grant};

const PATH: &str = "/etc/act/policy.toml";
const MAX_BYTES: u64 = 1 << 20;

/// The policy in force, for built-in components too. Without a file it limits nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub ceiling: Grant,
    /// The head of the audit log must be sent to another machine.
    pub require_anchor: bool,
    /// An image may be named by its tag, without a digest.
    pub allow_unpinned_images: bool,
    /// The upper limits for `agent.yaml`.
    pub config: ConfigCeiling,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ceiling: Grant::everything(),
            require_anchor: false,
            allow_unpinned_images: true,
            config: ConfigCeiling::default(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PolicyFile {
    require_anchor: bool,
    allow_unpinned_images: Option<bool>,
    /// False keeps the instructions of every repository from the model. `agent.yaml` has the same key.
    agents_md: Option<bool>,
    /// Names of capabilities that no component gets.
    deny: Vec<String>,
    ceiling: Ceiling,
    verifier: Steps,
    timeouts: Timeouts,
    limits: TaskLimits,
}

/// Limits of one task. `agent.yaml` has the same key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TaskLimits {
    max_tokens: Option<NonZeroU64>,
}

/// Timeouts in milliseconds. `agent.yaml` has the same keys.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Timeouts {
    verification_step: Option<NonZeroU64>,
}

/// Limits of the steps of a verification. `agent.yaml` has the same keys and words.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Steps {
    network: Option<Network>,
    user: Option<StepUser>,
    limits: StepLimits,
}

/// Engines refuse less than 6 MiB, and a container needs processes of its own, so smaller numbers are errors.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StepLimits {
    #[serde(deserialize_with = "from_0_01")]
    cpus: Option<f64>,
    #[serde(deserialize_with = "from::<_, 6>")]
    memory_mb: Option<u64>,
    #[serde(deserialize_with = "from::<_, 8>")]
    pids: Option<u64>,
}

fn from<'de, D: Deserializer<'de>, const LEAST: u64>(from: D) -> Result<Option<u64>, D::Error> {
    let number = u64::deserialize(from)?;
    let fits = number >= LEAST;
    let wrong = || D::Error::custom(format!("{number} is not a number from {LEAST}"));
    if fits { Ok(Some(number)) } else { Err(wrong()) }
}

fn from_0_01<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(from)?;
    let fits = number >= 0.01 && number.is_finite();
    let wrong = || D::Error::custom(format!("{number} is not a number from 0.01"));
    if fits { Ok(Some(number)) } else { Err(wrong()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StepUser {
    Caller,
    Root,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Network {
    On,
    Off,
}

impl Policy {
    /// Reads the policy of this machine.
    ///
    /// # Errors
    ///
    /// A [`FileError`] if the file is not trusted or malformed. No component may be loaded then.
    pub fn read() -> Result<Self, FileError> {
        let (path, owner) = path_and_owner();
        let untrusted = |why| FileError::Untrusted { path: path.clone(), why };
        let (Some(directory), Some(name)) =
            (path.parent(), path.file_name().and_then(|n| n.to_str()))
        else {
            return Err(untrusted("is no file name".to_owned()));
        };
        let Some(dir) = trusted::open_directory(directory, None, owner).map_err(untrusted)? else {
            return Ok(Self::default());
        };
        match trusted::read_text(&dir, name, MAX_BYTES, owner).map_err(untrusted)? {
            Some(text) => Self::parse(&text, &path),
            None => Ok(Self::default()),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let written: PolicyFile = trusted::parse(text, path)?;
        if !written.ceiling.withheld.is_empty() {
            let at = text.find("withheld").unwrap_or_default();
            let why = "unknown field `withheld`; name what nobody gets in `deny`";
            return Err(trusted::malformed(text, path, at, why));
        }
        let mut ceiling = Grant::everything();
        written.ceiling.lower(&mut ceiling);
        for name in &written.deny {
            let Some(capability) = Capability::named(name) else {
                let at = text.find(&format!("\"{name}\"")).unwrap_or_default();
                let why = format!("`{}` is no grant", name.escape_debug());
                return Err(trusted::malformed(text, path, at, &why));
            };
            capability.close(&mut ceiling);
        }
        let Steps { network, user, limits } = written.verifier;
        let config = ConfigCeiling {
            max_tokens: written.limits.max_tokens.map(NonZeroU64::get),
            step_timeout: written
                .timeouts
                .verification_step
                .map(|ms| Duration::from_millis(ms.get())),
            cpus: limits.cpus,
            memory_mb: limits.memory_mb,
            pids: limits.pids,
            step_network: network.map(|network| network == Network::On),
            step_user: user.map(|user| match user {
                StepUser::Caller => User::Caller,
                StepUser::Root => User::Root,
            }),
            agents_md: written.agents_md,
            ..ConfigCeiling::default()
        };
        Ok(Self {
            ceiling,
            require_anchor: written.require_anchor,
            allow_unpinned_images: written.allow_unpinned_images.unwrap_or(true),
            config,
        })
    }
}

/// Tests choose another path with `ACT_POLICY_FILE`. Only builds with debug assertions read that variable.
fn path_and_owner() -> (PathBuf, Owner) {
    #[cfg(debug_assertions)]
    if let Some(path) = std::env::var_os("ACT_POLICY_FILE") {
        return (path.into(), Owner::CallerAsRoot);
    }
    (PATH.into(), Owner::Root)
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
            "allow_unpinned_images = false\nagents_md = false\nrequire_anchor = true\ndeny = [\"http\", \"repo.write\"]\n\
             [verifier]\nnetwork = \"off\"\n[ceiling]\nenv = [\"FOO\"]\nclock = \"coarse\"\n[ceiling.llm]\ncalls = 2\n\
             [ceiling.limits]\nwall_ms = 5000\n[limits]\nmax_tokens = 70\n",
        )
        .unwrap();
        assert_eq!((policy.config.max_tokens, policy.config.agents_md), (Some(70), Some(false)));
        assert!(policy.require_anchor && !policy.allow_unpinned_images);
        assert_eq!(policy.config.step_network, Some(false));
        assert_eq!(parse("[verifier]\nnetwork = \"on\"").unwrap().config.step_network, Some(true));
        let Grant { http, repo_write, env, clock, llm, limits, repo_read, .. } = &policy.ceiling;
        assert_eq!((http.is_none(), *repo_write, *clock), (true, false, Clock::Coarse));
        assert_eq!(env.values().count(), 1);
        assert_eq!((llm.as_ref().unwrap().calls, limits.wall.as_millis()), (2, 5000));
        assert_eq!(*repo_read, Grant::everything().repo_read);
    }

    // CONFIG-18
    #[test]
    fn a_policy_bounds_what_a_pipeline_may_use() {
        let policy = parse(
            "[timeouts]\nverification_step = 9000\n[verifier]\nuser = \"caller\"\n\
             [verifier.limits]\ncpus = 2\nmemory_mb = 512\npids = 64\n[limits]\nmax_tokens = 70\n",
        );
        let config = ConfigCeiling {
            max_tokens: Some(70),
            step_timeout: Some(Duration::from_secs(9)),
            cpus: Some(2.0),
            memory_mb: Some(512),
            pids: Some(64),
            step_user: Some(User::Caller),
            ..ConfigCeiling::default()
        };
        assert_eq!(policy.unwrap().config, config);
        for wrong in [
            "[limits]\nmax_tokens = 0",
            "[timeouts]\nverification_step = 0",
            "[timeouts]\nscout_query = 1",
            "[verifier.limits]\ncpus = 0",
            "[verifier.limits]\ncpus = inf",
            "[verifier.limits]\nmemory_mb = 5",
            "[verifier.limits]\npids = 7",
            "[verifier]\nuser = \"nobody\"",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
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
