//! What one component may reach, as a value.
//!
//! Nothing here knows the engine: a grant can be printed, written down, compared and tested on its own, and the
//! empty one is the default. All four parties that have a say are grants of this kind; what they agree on is
//! `meet`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bounds::{self, at_most};
use super::manifest::SuggestedLimits;
use super::words::{EnvName, Method, Origin, RepoPart};

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

/// Some values, or any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Set<T> {
    Any,
    Only(BTreeSet<T>),
}

/// The filtered view of the repository: as a preopen at `/repo` and in batches through `repo.read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RepoRead {
    /// What may be seen of the view.
    #[serde(skip_serializing_if = "Set::is_any")]
    pub paths: Set<RepoPart>,
    /// Bytes that may be read of any one file.
    #[serde(deserialize_with = "at_most::<{ bounds::FILE }, _, _>")]
    pub file_bytes: u64,
    /// Bytes that one query may read in all.
    #[serde(deserialize_with = "at_most::<{ bounds::READ }, _, _>")]
    pub query_bytes: u64,
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

/// Requests to these origins and to nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub origins: Set<Origin>,
    pub methods: Set<Method>,
    /// Of one request's body.
    #[serde(deserialize_with = "at_most::<{ bounds::BODY }, _, _>")]
    pub request_bytes: u64,
    /// Of one response's body.
    #[serde(deserialize_with = "at_most::<{ bounds::BODY }, _, _>")]
    pub response_bytes: u64,
    /// Of one query.
    #[serde(default = "Http::usual_requests")]
    #[serde(deserialize_with = "at_most::<{ bounds::REQUESTS }, _, _>")]
    pub requests: u32,
    /// That are under way together; others wait.
    #[serde(default = "Http::usual_at_once")]
    #[serde(deserialize_with = "at_most::<{ bounds::AT_ONCE }, _, _>")]
    pub at_once: u32,
    /// Of all requests and responses of one query: addresses, headers and bodies.
    #[serde(default = "Http::usual_query_bytes")]
    #[serde(deserialize_with = "at_most::<{ bounds::TRAFFIC }, _, _>")]
    pub query_bytes: u64,
}

/// How finely time is told, from nothing to everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Random {
    /// The same in every run.
    #[default]
    Seeded,
    Secure,
}

/// Always in force, whatever else is granted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Of all linear memories together.
    #[serde(deserialize_with = "at_most::<{ bounds::MEMORY }, _, _>")]
    pub memory_bytes: u64,
    #[serde(
        rename = "wall_ms",
        serialize_with = "milliseconds",
        deserialize_with = "from_milliseconds"
    )]
    pub wall: Duration,
    /// Of all tables together.
    #[serde(deserialize_with = "at_most::<{ bounds::TABLE_ELEMENTS }, _, _>")]
    pub table_elements: u64,
    #[serde(deserialize_with = "at_most::<{ bounds::CORE_INSTANCES }, _, _>")]
    pub core_instances: u32,
    #[serde(deserialize_with = "at_most::<{ bounds::HANDLES }, _, _>")]
    pub handles: u32,
    /// What one call from the guest may hand to the host.
    #[serde(deserialize_with = "at_most::<{ bounds::HOST_CALL }, _, _>")]
    pub host_call_bytes: u64,
    #[serde(deserialize_with = "at_most::<{ bounds::RESULT }, _, _>")]
    pub result_bytes: u64,
    #[serde(deserialize_with = "at_most::<{ bounds::LOG }, _, _>")]
    pub log_bytes: u64,
    #[serde(deserialize_with = "at_most::<{ bounds::WASM }, _, _>")]
    pub wasm_bytes: u64,
}

/// More than any file on any disk, and still a number that every reader of JSON and TOML takes.
const UNLIMITED: u64 = 1 << 53;

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            wall: Duration::from_secs(60),
            table_elements: 100_000,
            core_instances: 256,
            handles: 1_000,
            host_call_bytes: 8 << 20,
            result_bytes: 4 << 20,
            log_bytes: 64 << 10,
            wasm_bytes: 64 << 20,
        }
    }
}

impl Limits {
    fn unlimited() -> Self {
        Self {
            memory_bytes: UNLIMITED,
            wall: Duration::from_millis(UNLIMITED),
            table_elements: UNLIMITED,
            core_instances: u32::MAX,
            handles: u32::MAX,
            host_call_bytes: UNLIMITED,
            result_bytes: UNLIMITED,
            log_bytes: UNLIMITED,
            wasm_bytes: UNLIMITED,
        }
    }

    /// What the component's author suggests can only take away.
    pub(super) fn narrow(&mut self, suggested: &SuggestedLimits) {
        if let Some(megabytes) = suggested.memory_mb {
            self.memory_bytes = self.memory_bytes.min(megabytes.saturating_mul(1 << 20));
        }
        if let Some(milliseconds) = suggested.wall_ms {
            self.wall = self.wall.min(Duration::from_millis(milliseconds));
        }
    }

    fn meet(&self, other: &Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            wall: self.wall.min(other.wall),
            table_elements: self.table_elements.min(other.table_elements),
            core_instances: self.core_instances.min(other.core_instances),
            handles: self.handles.min(other.handles),
            host_call_bytes: self.host_call_bytes.min(other.host_call_bytes),
            result_bytes: self.result_bytes.min(other.result_bytes),
            log_bytes: self.log_bytes.min(other.log_bytes),
            wasm_bytes: self.wasm_bytes.min(other.wasm_bytes),
        }
    }
}

impl Default for RepoRead {
    fn default() -> Self {
        // A tree of a quarter of a gigabyte can be read whole and some of it twice.
        Self { paths: Set::Any, file_bytes: 16 << 20, query_bytes: 512 << 20 }
    }
}

impl RepoRead {
    fn meet(&self, other: &Self) -> Self {
        let paths = match (&self.paths, &other.paths) {
            (Set::Any, paths) | (paths, Set::Any) => paths.clone(),
            (Set::Only(a), Set::Only(b)) => {
                let both = a.iter().flat_map(|a| b.iter().filter_map(move |b| deeper(a, b)));
                Set::Only(both.cloned().collect())
            }
        };
        Self {
            paths,
            file_bytes: self.file_bytes.min(other.file_bytes),
            query_bytes: self.query_bytes.min(other.query_bytes),
        }
    }

    /// Whether a file at `path` may be read as far as the names go.
    pub fn covers(&self, path: &str) -> bool {
        match &self.paths {
            Set::Any => true,
            Set::Only(parts) => parts.iter().any(|part| is_at_or_below(path, part.as_str())),
        }
    }
}

/// The one that lies in the other.
fn deeper<'a>(a: &'a RepoPart, b: &'a RepoPart) -> Option<&'a RepoPart> {
    if is_at_or_below(a.as_str(), b.as_str()) {
        Some(a)
    } else {
        is_at_or_below(b.as_str(), a.as_str()).then_some(b)
    }
}

fn is_at_or_below(path: &str, part: &str) -> bool {
    path.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Llm {
    fn meet(&self, other: &Self) -> Self {
        Self { calls: self.calls.min(other.calls), tokens: self.tokens.min(other.tokens) }
    }
}

/// The usual bounds, and no origin.
impl Default for Http {
    fn default() -> Self {
        Self {
            origins: Set::default(),
            methods: Set::default(),
            request_bytes: 1 << 20,
            response_bytes: 8 << 20,
            requests: Self::usual_requests(),
            at_once: Self::usual_at_once(),
            query_bytes: Self::usual_query_bytes(),
        }
    }
}

impl Http {
    fn meet(&self, other: &Self) -> Self {
        Self {
            origins: self.origins.meet(&other.origins),
            methods: self.methods.meet(&other.methods),
            request_bytes: self.request_bytes.min(other.request_bytes),
            response_bytes: self.response_bytes.min(other.response_bytes),
            requests: self.requests.min(other.requests),
            at_once: self.at_once.min(other.at_once),
            query_bytes: self.query_bytes.min(other.query_bytes),
        }
    }

    fn usual_requests() -> u32 {
        100
    }

    fn usual_at_once() -> u32 {
        8
    }

    fn usual_query_bytes() -> u64 {
        64 << 20
    }

    fn unlimited() -> Self {
        Self {
            origins: Set::Any,
            methods: Set::Any,
            request_bytes: UNLIMITED,
            response_bytes: UNLIMITED,
            requests: u32::MAX,
            at_once: u32::MAX,
            query_bytes: UNLIMITED,
        }
    }
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl<T: Ord + Clone> Set<T> {
    pub fn contains(&self, value: &T) -> bool {
        match self {
            Self::Any => true,
            Self::Only(values) => values.contains(value),
        }
    }

    fn meet(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Any, set) | (set, Self::Any) => set.clone(),
            (Self::Only(a), Self::Only(b)) => Self::Only(a.intersection(b).cloned().collect()),
        }
    }
}

impl<T> Set<T> {
    pub fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(values) if values.is_empty())
    }

    /// Nothing to go over where it is any.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        match self {
            Self::Any => None,
            Self::Only(values) => Some(values.iter()),
        }
        .into_iter()
        .flatten()
    }
}

impl<T> FromIterator<T> for Set<T>
where
    T: Ord,
{
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::Only(values.into_iter().collect())
    }
}

impl<T: Serialize> Serialize for Set<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str("any"),
            Self::Only(values) => serializer.collect_seq(values),
        }
    }
}

/// A list: nobody writes down that anything goes.
impl<'de, T: Deserialize<'de> + Ord> Deserialize<'de> for Set<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BTreeSet::deserialize(from).map(Self::Only)
    }
}

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
            repo_read: Some(RepoRead {
                paths: Set::Any,
                file_bytes: UNLIMITED,
                query_bytes: UNLIMITED,
            }),
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
        crate::workspace::digest(&serde_json::to_vec(self).unwrap_or_default())
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn milliseconds<S: Serializer>(wall: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(wall.as_millis()).unwrap_or(UNLIMITED))
}

fn from_milliseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    at_most::<{ bounds::WALL_MS }, _, _>(from).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn suggested_limits_only_narrow() {
        let mut limits = Limits::default();
        limits.narrow(&SuggestedLimits { memory_mb: Some(64), wall_ms: Some(999_999) });
        assert_eq!((limits.memory_bytes, limits.wall), (64 << 20, Limits::default().wall));
        limits.narrow(&SuggestedLimits { memory_mb: Some(u64::MAX), wall_ms: Some(5) });
        assert_eq!((limits.memory_bytes, limits.wall), (64 << 20, Duration::from_millis(5)));
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
