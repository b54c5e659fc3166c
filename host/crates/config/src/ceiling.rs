//! The rule by which one setting wins over another. It holds for every key of `agent.yaml` that costs or endangers the
//! user.

use std::fmt::Display;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use act_core::Usd;

use super::{CheckMode, Config, EvidenceRule, Limits, User, Warm};

/// Tokens that a task may spend, input (cached included) and output of all roles, unless a setting says otherwise. This
/// is about ten times what a large task of the benchmarks used, so it stops a task that makes no progress and no other.
pub const DEFAULT_MAX_TOKENS: u64 = 10_000_000;

/// Returns the value in force, or `None` when no source sets one.
///
/// `agent_yaml` arrives with a clone, so it can only tighten: the smaller of `agent_yaml`, the limit of the `user` and
/// the limit of the administrator's `policy` is in force. The person types `flag` for one task: it replaces the first
/// two and never exceeds the policy. A permission is a value as well: the setting that allows less is the smaller value.
///
/// ```
/// use act_config::effective;
/// assert_eq!(effective(None, Some(9), Some(5), Some(7)), Some(5));
/// assert_eq!(effective(Some(9), Some(3), Some(5), Some(7)), Some(7));
/// assert_eq!(effective(None, Some(true), None, Some(false)), Some(false));
/// ```
pub fn effective<T: PartialOrd>(
    flag: Option<T>,
    agent_yaml: Option<T>,
    user: Option<T>,
    policy: Option<T>,
) -> Option<T> {
    let smaller = |a: Option<T>, b: Option<T>| match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    };
    smaller(flag.or(smaller(agent_yaml, user)), policy)
}

/// The words for a limit of the cost of a task, for messages.
pub const COST_LIMIT: &str = "a number of dollars above 0 and at most 1000000, such as 2.50";

/// Returns whether a sum can be the limit of the cost of a task. A limit of nothing would end each task before its first request.
pub fn is_cost_limit(sum: Usd) -> bool {
    sum > Usd::ZERO && sum <= Usd::MOST
}

/// The most that the user or the administrator allows any `agent.yaml`, by key. `None` sets no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ConfigCeiling {
    /// `limits.max_tokens`, for one task.
    pub max_tokens: Option<u64>,
    /// `limits.max_cost`, for one task.
    pub max_cost: Option<Usd>,
    /// `timeouts.verification_step`
    pub step_timeout: Option<Duration>,
    /// `timeouts.scout_query`
    pub scout_timeout: Option<Duration>,
    /// `verification.limits.cpus`
    pub cpus: Option<f64>,
    /// `verification.limits.memory_mb`
    pub memory_mb: Option<u64>,
    /// `verification.limits.pids`
    pub pids: Option<u64>,
    /// `verification.network` and the `network` of each step
    pub step_network: Option<bool>,
    /// Whether steps with a network reach private addresses. No key of `agent.yaml` says so: a clone gets what is usual.
    pub private_network: Option<bool>,
    /// `verification.user`
    pub step_user: Option<User>,
    /// `verification.warm`
    pub warm: Option<Warm>,
    /// `verification.checks`
    pub checks: Option<CheckMode>,
    /// `verification.evidence`, of which `require` is the smaller one: it lets fewer tasks succeed.
    pub evidence: Option<EvidenceRule>,
    /// `gitignore`
    pub gitignore: Option<bool>,
    /// `agents_md`
    pub agents_md: Option<bool>,
}

/// The table `[verifier]` of `policy.toml` and of `config.toml`: limits of the steps of a verification. `agent.yaml` has the
/// same keys and words, except for `network_private`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerifierTable {
    network: Option<Network>,
    network_private: Option<Network>,
    user: Option<StepUser>,
    warm: Option<WarmWord>,
    checks: Option<CheckMode>,
    evidence: Option<EvidenceRule>,
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
enum WarmWord {
    Off,
    Attempts,
    Final,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Network {
    On,
    Off,
}

impl VerifierTable {
    /// Writes the limits of the table into a ceiling.
    pub fn lower(self, ceiling: &mut ConfigCeiling) {
        let Self { network, network_private, user, warm, checks, evidence, limits } = self;
        (ceiling.checks, ceiling.evidence) = (checks, evidence);
        (ceiling.cpus, ceiling.memory_mb, ceiling.pids) =
            (limits.cpus, limits.memory_mb, limits.pids);
        ceiling.step_network = network.map(|network| network == Network::On);
        ceiling.private_network = network_private.map(|network| network == Network::On);
        ceiling.step_user = user.map(|user| match user {
            StepUser::Caller => User::Caller,
            StepUser::Root => User::Root,
        });
        ceiling.warm = warm.map(|warm| match warm {
            WarmWord::Off => Warm::Off,
            WarmWord::Attempts => Warm::Attempts,
            WarmWord::Final => Warm::Final,
        });
    }
}

impl ConfigCeiling {
    /// Returns the limits of a user who has set none: the default budget.
    pub fn of_user() -> Self {
        Self { max_tokens: Some(DEFAULT_MAX_TOKENS), ..Self::default() }
    }
}

impl Config {
    /// Returns whether the steps are to run as root and neither the user nor the administrator has said anything about that.
    pub fn asks_for_root(&self, user: &ConfigCeiling, policy: &ConfigCeiling) -> bool {
        self.pipeline.user == User::Root && user.step_user.or(policy.step_user).is_none()
    }

    /// Lowers every setting that costs or endangers the user to what the user and the administrator allow, except
    /// `max_tokens` and `max_cost`, for which a flag may exist: see [`effective`]. Returns a sentence for each limit of the steps that
    /// `agent.yaml` sets higher than anybody allowed: the defaults are the most that a clone gets by itself.
    pub fn lower(&mut self, user: &ConfigCeiling, policy: &ConfigCeiling) -> Vec<String> {
        fn lower<T: PartialOrd + Copy>(value: &mut T, user: Option<T>, policy: Option<T>) {
            *value = effective(None, Some(*value), user, policy).unwrap_or(*value);
        }
        let pipeline = &mut self.pipeline;
        let asked = pipeline.limits;
        let usual = Limits::default();
        // The default applies only where neither the user nor the administrator sets the limit.
        fn or_usual<T>(user: Option<T>, policy: Option<T>, usual: T) -> Option<T> {
            if policy.is_some() { user } else { user.or(Some(usual)) }
        }
        lower(&mut self.step_timeout, user.step_timeout, policy.step_timeout);
        lower(&mut self.scout_timeout, user.scout_timeout, policy.scout_timeout);
        let cpus = or_usual(user.cpus, policy.cpus, usual.cpus);
        lower(&mut pipeline.limits.cpus, cpus, policy.cpus);
        let memory_mb = or_usual(user.memory_mb, policy.memory_mb, usual.memory_mb);
        lower(&mut pipeline.limits.memory_mb, memory_mb, policy.memory_mb);
        let pids = or_usual(user.pids, policy.pids, usual.pids);
        lower(&mut pipeline.limits.pids, pids, policy.pids);
        let held = pipeline.limits;
        lower(&mut pipeline.user, user.step_user, policy.step_user);
        // The one key that a person may raise above its default: neither a repository nor the administrator asks for it.
        let wanted = [user.warm.or(Some(Warm::Attempts)), pipeline.warm, policy.warm];
        pipeline.warm = wanted.into_iter().flatten().min();
        lower(&mut self.checks.mode, user.checks, policy.checks);
        if [user.evidence, policy.evidence].contains(&Some(EvidenceRule::Require)) {
            self.evidence = EvidenceRule::Require;
        }
        lower(&mut self.gitignore, user.gitignore, policy.gitignore);
        lower(&mut self.agents_md, user.agents_md, policy.agents_md);
        if effective(None, None, user.step_network, policy.step_network) == Some(false) {
            pipeline.cut_off();
        }
        lower(&mut pipeline.private_network, user.private_network, policy.private_network);
        let said = |key: &str, wanted: &dyn Display, held: &dyn Display| {
            format!(
                "agent.yaml asks for verification.limits.{key} {wanted}, and the steps get {held}; `{key}` in \
                 [verifier.limits] of config.toml allows more, as far as policy.toml does"
            )
        };
        let mut lines = vec![];
        if held.cpus < asked.cpus {
            lines.push(said("cpus", &asked.cpus, &held.cpus));
        }
        if held.memory_mb < asked.memory_mb {
            lines.push(said("memory_mb", &asked.memory_mb, &held.memory_mb));
        }
        if held.pids < asked.pids {
            lines.push(said("pids", &asked.pids, &held.pids));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, agent_yaml};

    // CONFIG-18
    #[test]
    fn a_repository_only_lowers_and_nothing_exceeds_the_policy() {
        let default = Some(DEFAULT_MAX_TOKENS);
        assert_eq!(effective(None, None, default, None), default);
        assert_eq!(effective(None, Some(3), default, None), Some(3));
        assert_eq!(effective(None, Some(u64::MAX), default, None), default);
        assert_eq!(effective(None, Some(3), default, Some(2)), Some(2));
        assert_eq!(effective::<u64>(None, None, None, None), None);
        assert_eq!(effective(Some(u64::MAX - 1), Some(3), default, None), Some(u64::MAX - 1));
        assert_eq!(effective(Some(9), Some(3), default, Some(2)), Some(2));
        assert_eq!(effective(Some(1), None, default, Some(2)), Some(1));
    }

    /// Returns the configuration of a clone that asks for much, after the limits of the user and the administrator.
    fn lowered(user: ConfigCeiling, policy: ConfigCeiling) -> Config {
        let yaml = agent_yaml::parse(
            "verification:\n  container_image: i\n  user: root\n  limits: {cpus: 3, memory_mb: 8000, pids: 900}\n  \
             steps: [{name: a, command: b}, {name: c, command: d, network: off}]\n\
             timeouts: {verification_step: 90000, scout_query: 80000}\n",
        )
        .unwrap();
        let mut config = yaml.into_config("/".into(), String::new());
        config.lower(&user, &policy);
        config
    }

    // CONFIG-18
    #[test]
    fn each_key_has_the_smallest_of_its_three_values() {
        let none = ConfigCeiling::default();
        let plain = lowered(none, none);
        type Change = fn(&mut ConfigCeiling);
        type Check = fn(&Config) -> bool;
        let keys: [(Change, Change, Check, Check); 12] = [
            (
                |c| c.step_timeout = Some(Duration::from_secs(9)),
                |c| c.step_timeout = Some(Duration::from_secs(7)),
                |c| c.step_timeout == Duration::from_secs(9),
                |c| c.step_timeout == Duration::from_secs(7),
            ),
            (
                |c| c.scout_timeout = Some(Duration::from_secs(9)),
                |c| c.scout_timeout = Some(Duration::from_secs(7)),
                |c| c.scout_timeout == Duration::from_secs(9),
                |c| c.scout_timeout == Duration::from_secs(7),
            ),
            (
                |c| c.cpus = Some(2.5),
                |c| c.cpus = Some(1.5),
                |c| c.pipeline.limits == Limits { cpus: 2.5, memory_mb: 8000, pids: 900 },
                |c| c.pipeline.limits == Limits { cpus: 1.5, memory_mb: 8000, pids: 900 },
            ),
            (
                |c| c.memory_mb = Some(600),
                |c| c.memory_mb = Some(500),
                |c| c.pipeline.limits == Limits { cpus: 3.0, memory_mb: 600, pids: 900 },
                |c| c.pipeline.limits == Limits { cpus: 3.0, memory_mb: 500, pids: 900 },
            ),
            (
                |c| c.pids = Some(60),
                |c| c.pids = Some(50),
                |c| c.pipeline.limits == Limits { cpus: 3.0, memory_mb: 8000, pids: 60 },
                |c| c.pipeline.limits == Limits { cpus: 3.0, memory_mb: 8000, pids: 50 },
            ),
            (
                |c| c.step_user = Some(User::Root),
                |c| c.step_user = Some(User::Caller),
                |c| c.pipeline.user == User::Root,
                |c| c.pipeline.user == User::Caller,
            ),
            (
                |c| c.step_network = Some(true),
                |c| c.step_network = Some(false),
                |c| c.pipeline.cut_off.is_empty() && c.pipeline.steps[0].network,
                |c| c.pipeline.cut_off == ["a"] && !c.pipeline.steps[0].network,
            ),
            (
                |c| c.private_network = Some(true),
                |c| c.private_network = Some(false),
                |c| c.pipeline.private_network,
                |c| !c.pipeline.private_network,
            ),
            (
                |c| c.checks = Some(CheckMode::Declared),
                |c| c.checks = Some(CheckMode::Off),
                |c| c.checks.mode == CheckMode::Declared,
                |c| c.checks.mode == CheckMode::Off,
            ),
            (
                |c| c.evidence = Some(EvidenceRule::Report),
                |c| c.evidence = Some(EvidenceRule::Require),
                |c| c.evidence == EvidenceRule::Report,
                |c| c.evidence == EvidenceRule::Require,
            ),
            (
                |c| c.gitignore = Some(true),
                |c| c.gitignore = Some(false),
                |c| c.gitignore,
                |c| !c.gitignore,
            ),
            (
                |c| c.agents_md = Some(true),
                |c| c.agents_md = Some(false),
                |c| c.agents_md,
                |c| !c.agents_md,
            ),
        ];
        for (index, (higher, lower, has_higher, has_lower)) in keys.into_iter().enumerate() {
            let with = |change: Change| {
                let mut ceiling = none;
                change(&mut ceiling);
                ceiling
            };
            let (higher, lower) = (with(higher), with(lower));
            assert!(has_higher(&lowered(higher, none)), "{index}: the user");
            assert!(has_higher(&lowered(none, higher)), "{index}: the policy");
            assert!(has_lower(&lowered(lower, higher)), "{index}: the user allows less");
            assert!(has_lower(&lowered(higher, lower)), "{index}: the policy allows less");
        }
        assert_eq!(plain.pipeline.limits, Limits { cpus: 3.0, memory_mb: 8000, pids: 900 });
        assert_eq!(plain, lowered(ConfigCeiling::of_user(), none));
    }

    // CONFIG-18
    #[test]
    fn only_a_person_lets_a_warm_run_end_a_task_and_everyone_else_may_forbid_more() {
        let yaml = |warm: &str| {
            format!(
                "verification: {{container_image: i, prepare: [{{name: a, command: b}}], {warm} \
                 steps: [{{name: c, command: d}}]}}"
            )
        };
        let in_force = |text: &str, user, policy| {
            let parsed = agent_yaml::parse(&yaml(text)).unwrap();
            let mut config = parsed.into_config("/".into(), String::new());
            let ceiling = |warm| ConfigCeiling { warm, ..ConfigCeiling::default() };
            config.lower(&ceiling(user), &ceiling(policy));
            config.pipeline.warm()
        };
        let (off, attempts, last) = (Some(Warm::Off), Some(Warm::Attempts), Some(Warm::Final));
        for (text, user, policy, expected) in [
            ("", None, None, Warm::Attempts),
            ("", last, None, Warm::Final),
            ("", None, last, Warm::Attempts),
            ("", last, attempts, Warm::Attempts),
            ("warm: attempts,", last, None, Warm::Attempts),
            ("warm: off,", last, last, Warm::Off),
            ("", off, None, Warm::Off),
            ("", None, off, Warm::Off),
        ] {
            assert_eq!(in_force(text, user, policy), expected, "{text} {user:?} {policy:?}");
        }
        assert!(agent_yaml::parse(&yaml("warm: final,")).is_err());
    }

    // CONFIG-60
    #[test]
    fn a_clone_gets_no_more_than_the_usual_limits_by_itself_and_that_is_said() {
        let with = |user: ConfigCeiling, policy: ConfigCeiling| {
            let yaml = "verification:\n  container_image: i\n  limits: {cpus: 64, memory_mb: 99999, pids: 9999}\n  \
                        steps: [{name: a, command: b}]\n";
            let mut config =
                agent_yaml::parse(yaml).unwrap().into_config("/".into(), String::new());
            let said = config.lower(&user, &policy);
            (config.pipeline.limits, said)
        };
        let none = ConfigCeiling::default();
        let (limits, said) = with(ConfigCeiling::of_user(), none);
        assert_eq!(limits, Limits::default());
        assert_eq!(said.len(), 3);
        assert!(
            said[0].starts_with(
                "agent.yaml asks for verification.limits.cpus 64, and the steps get 4;"
            )
        );
        let wide = ConfigCeiling { cpus: Some(64.0), ..none };
        for (user, policy) in [(wide, none), (none, wide), (wide, wide)] {
            let (limits, said) = with(user, policy);
            assert_eq!((limits.cpus, limits.memory_mb, said.len()), (64.0, 8192, 2));
        }
        let narrow = ConfigCeiling { cpus: Some(2.0), ..none };
        assert_eq!(with(wide, narrow).0.cpus, 2.0);
    }

    // CONFIG-61
    #[test]
    fn only_a_person_lets_steps_be_root() {
        let none = ConfigCeiling::default();
        let yaml = "verification: {container_image: i, user: root, steps: [{name: a, command: b}]}";
        let config = agent_yaml::parse(yaml).unwrap().into_config("/".into(), String::new());
        let word = |user| ConfigCeiling { step_user: Some(user), ..none };
        assert!(config.asks_for_root(&ConfigCeiling::of_user(), &none));
        for said in [User::Root, User::Caller] {
            assert!(!config.asks_for_root(&word(said), &none));
            assert!(!config.asks_for_root(&none, &word(said)));
        }
    }

    // CONFIG-18
    #[test]
    fn a_ceiling_never_raises_what_the_repository_sets() {
        let wide = ConfigCeiling {
            max_tokens: Some(u64::MAX),
            max_cost: Some(Usd::MOST),
            step_timeout: Some(Duration::MAX),
            scout_timeout: Some(Duration::MAX),
            cpus: Some(1024.0),
            memory_mb: Some(u64::MAX),
            pids: Some(u64::MAX),
            step_network: Some(true),
            private_network: Some(true),
            step_user: Some(User::Root),
            warm: None,
            checks: Some(CheckMode::Any),
            evidence: Some(EvidenceRule::Report),
            gitignore: Some(true),
            agents_md: Some(true),
        };
        let none = ConfigCeiling::default();
        assert_eq!(lowered(wide, wide), lowered(none, none));
        assert!(!lowered(wide, wide).pipeline.steps[1].network);
    }
}
