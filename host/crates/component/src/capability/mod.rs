//! The capabilities: everything that a component can be granted.
//!
//! Each capability has one file here: its bounds and their maxima, its meaning for a person, the imports that lead to
//! it, what a need for it asks for, what it covers, how it is linked and what is counted while it is used. To add a capability, write such a
//! file and add one line to the list at the end of this file. The parts below are made from that list: [`Capability`],
//! [`Grant`], [`Ceiling`] and [`Meters`].

mod clock;
mod env;
mod http;
mod llm;
mod random;
mod repo_history;
mod repo_read;
mod repo_write;
mod sockets;

use std::collections::BTreeSet;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use wasmtime::component::Linker;

pub use clock::Clock;
pub use env::EnvName;
pub use http::{Http, LocalOrigin, Method, Origin};
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub use llm::Chat;
pub use llm::Llm;
pub use random::Random;
pub use repo_read::{RepoPart, RepoRead};

pub(crate) use clock::GrantedClock;
pub(crate) use env::CONFIG;
pub(crate) use http::{Direction, HttpMeters, header_bytes};
pub(crate) use llm::{ModelRequest, ModelSession};
pub(crate) use repo_read::{ReadAccess, version};

use crate::admission::{Access, Need};
use crate::bindings::refusal_text;
use crate::bindings::types::Refusal;
use crate::bounds::{Bound, Limiting, Set};
use crate::call::State;
use crate::limits::{Limits, LimitsCeiling};
use crate::meter::{Count, Meter};

/// The rules of one capability.
pub(crate) trait Rules {
    /// The value that a grant holds for the capability. The default grants nothing.
    type Bounds: Bound + Default + Serialize;
    /// Upper limits for the bounds.
    type Ceiling: Limiting<Self::Bounds> + Clone + Serialize;
    /// The amounts that are counted while a component uses the capability.
    type Meters: Metered;

    /// What a component does with the capability, for a person who decides about it and has not read about grants. The
    /// text continues the name and a colon.
    const MEANING: &'static str;

    /// True if every component may import the interfaces, because they are part of the base world or of base WASI. They
    /// are then linked without a grant too, and refuse. An import of any other capability must be declared as a need.
    const IN_BASE_WORLD: bool = true;

    /// True if a granted function of the capability may wait: for the disk, the network, the model or a person. Calls of a
    /// component that was granted it have a thread of their own from their beginning, because a thread that waits in the kernel cannot
    /// be stopped. Only a capability whose functions return at once says false.
    const MAY_WAIT: bool = true;

    /// True if the bounds are written as a table. In a file, tables follow plain values.
    const IS_TABLE: bool = false;

    /// The meters of one call.
    fn meters(bounds: &Self::Bounds, limits: &Limits) -> Self::Meters;

    /// Returns true if an import belongs to the capability.
    fn is_behind(import: &Import<'_>) -> bool;

    /// Returns the bounds that a need requests. A need without bounds requests the capability without bounds.
    fn requested(_need: &Need) -> Self::Bounds {
        Self::Bounds::unlimited()
    }

    /// Returns the widest bounds that an approval gives unless the user chooses others.
    fn usual() -> Self::Bounds {
        Self::Bounds::unlimited()
    }

    /// Checks a need for the capability.
    ///
    /// # Errors
    ///
    /// The field of the manifest that is wrong, and what to write there.
    fn check(_need: &Need) -> Result<(), (&'static str, &'static str)> {
        Ok(())
    }

    /// Returns the bounds in a few words that continue the name, or `None` if the name says everything.
    fn in_words(_bounds: &Self::Bounds) -> Option<String> {
        None
    }

    /// Returns true if a grant covers one access of the capability. `act components why` and edits
    /// ([`Grant::may_write`]) ask this function; no other host function does. A new host function must test the grant
    /// itself, and where the grant does not cover the access, return [`refuse`](crate::call::CallContext::refuse), which records the denial.
    fn covers(grant: &Grant, access: &Access) -> bool;

    /// Links the interfaces. Called for every component if the capability is in the base world, otherwise for a
    /// component that holds the grant or from which it was withheld.
    fn link(linker: &mut Linker<State>) -> wasmtime::Result<()>;
}

/// A capability without a ceiling of its own: the administrator denies it by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NoCeiling;

impl<B> Limiting<B> for NoCeiling {
    fn lower(&self, _value: &mut B) {}

    fn of(_value: &B) -> Self {
        Self
    }
}

/// The meters of one capability. The event and the audit record of a call report them.
pub(crate) trait Metered {
    fn is_used(&self) -> bool;

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![]
    }

    /// Names that the audit record lists: origins, variables.
    fn names(&self) -> Vec<String> {
        vec![]
    }
}

/// The meter of a capability of which only the use is recorded.
impl Metered for Count {
    fn is_used(&self) -> bool {
        self.get() > 0
    }
}

/// The name of an import or export, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Import<'a> {
    /// For example `agentcommand:repo`.
    pub(crate) package: &'a str,
    /// For example `agentcommand:repo/read`.
    pub(crate) interface: &'a str,
    /// For example `1.2.0`; empty if the name has none.
    pub(crate) version: &'a str,
}

impl<'a> Import<'a> {
    pub(crate) fn parse(name: &'a str) -> Self {
        let (interface, version) = name.split_once('@').unwrap_or((name, ""));
        let package = interface.split_once('/').map_or(interface, |(package, _)| package);
        Self { package, interface, version }
    }

    /// Returns true if the name is that of an interface in `wit/`.
    pub(crate) fn is_ours(&self) -> bool {
        self.package.split(':').next() == Some("agentcommand")
    }
}

/// The refusal for a component that was not granted a capability.
pub(crate) fn denied(capability: Capability) -> Refusal {
    Refusal::Denied(refusal_text(capability.name(), "not granted to this component"))
}

impl Grant {
    /// The grant of the built-in Scouts: the view, which files changed together, and a conversation of bounded length. A
    /// survey of 100,000 files reads half a gigabyte, and the questions after it read parts of it again.
    pub fn builtin_scout() -> Self {
        Self {
            repo_read: Some(RepoRead { query_bytes: 2 << 30, ..RepoRead::default() }),
            repo_history: true,
            llm: Some(Llm::default()),
            ..Self::default()
        }
    }

    /// The grant of the built-in file tools: the view, and `repo.edit`. One call has 30 seconds.
    pub fn builtin_tool() -> Self {
        let wall = std::time::Duration::from_secs(30);
        Self {
            repo_read: Some(RepoRead::default()),
            repo_write: true,
            limits: Limits { wall, ..Limits::default() },
            ..Self::default()
        }
    }

    /// Sets the wall time of a Scout's call to that of as many requests as it may make, each of `request`, and as long for
    /// its own computing.
    #[must_use]
    pub fn for_requests_of(self, request: std::time::Duration) -> Self {
        let requests = self.llm.as_ref().map_or(0, |llm| llm.calls);
        self.within(request.saturating_mul(requests.saturating_add(1)))
    }

    /// Returns the time of one query of a Scout, its requests to the model included, where each request and the Scout's own
    /// computing have `wall`. It is never longer than the wall time that is granted.
    pub fn query_time(&self, wall: std::time::Duration) -> std::time::Duration {
        self.clone().for_requests_of(wall).limits.wall.min(self.limits.wall)
    }

    /// Sets the wall time of one call.
    #[must_use]
    pub fn within(mut self, wall: std::time::Duration) -> Self {
        self.limits.wall = wall;
        self
    }

    /// Returns true if a file at `path` may be written. Paths that bound reading bound writing too, because an answer
    /// about a path that may not be read would reveal whether a file exists.
    pub fn may_write(&self, path: &str) -> bool {
        Capability::RepoWrite.covers(self, &Access::Write(path.to_owned()))
    }

    /// Returns true if the interfaces of a capability outside of the base world are linked: the capability is granted,
    /// or it was withheld, and then every function of the interface refuses.
    pub(crate) fn links(&self, capability: Capability) -> bool {
        self.has(capability) || self.withheld.contains(capability.name())
    }

    /// SHA-256 of the grant as JSON, by which audit records name what is in force.
    pub fn sha256(&self) -> String {
        // All keys of a grant are text, so the grant always has a JSON form.
        act_workspace::digest(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// The capabilities of the grant and its limits, each as `NAME BOUND=VALUE…`, as audit records list them.
    pub fn in_words(&self) -> Vec<String> {
        use serde_json::Value;
        let json = serde_json::to_value(self).unwrap_or_default();
        let flat = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let word = |(name, value): (&String, &Value)| match value {
            Value::Null | Value::Bool(false) => None,
            Value::Array(items) if items.is_empty() => None,
            Value::Object(limits) => {
                let limits = limits.iter().filter(|(_, value)| !value.is_null());
                let limits = limits.map(|(limit, value)| format!(" {limit}={}", flat(value)));
                Some(format!("{}{}", name.replace('_', "."), limits.collect::<String>()))
            }
            Value::Bool(true) => Some(name.replace('_', ".")),
            value => Some(format!("{} {}", name.replace('_', "."), flat(value))),
        };
        json.as_object().into_iter().flatten().filter_map(word).collect()
    }
}

impl Ceiling {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Lowers the usual grant of an approval to this ceiling, for a component with these needs.
    pub fn limit_usual(&self, usual: Grant, needs: &[Need]) -> Grant {
        let mut left = usual;
        self.lower(&mut left);
        for need in needs.iter().filter(|need| self.withheld.contains(&need.grant)) {
            if let Some(capability) = Capability::named(&need.grant) {
                capability.close(&mut left);
                left.withheld.insert(need.grant.clone());
            }
        }
        left
    }

    /// Adds the permissions that the user removed since the approval. `held` is the grant that the approval has now, and `given`
    /// the one that it had at first. If `given` is not known any more, everything in `held` counts as an upper limit.
    #[must_use]
    pub fn with_removed(mut self, held: &Grant, given: Option<&Grant>) -> Self {
        self.withheld.extend(held.withheld.iter().cloned());
        if let Some(given) = given {
            let gone = |one: &Capability| given.has(*one) && !held.has(*one);
            let gone = Capability::ALL.into_iter().filter(gone);
            self.withheld.extend(gone.map(|one| one.name().to_owned()));
        }
        let mut both = held.clone();
        self.lower(&mut both);
        self.take_over_lower(&both, held, given);
        self
    }
}

/// Returns true if a grant holds less of a part than it was given.
fn is_less<T: PartialEq>(held: &Grant, given: Option<&Grant>, part: fn(&Grant) -> &T) -> bool {
    given.is_none_or(|given| part(&given.meet(held)) != part(given))
}

macro_rules! capabilities {
    ($( $(#[$note:ident])? $variant:ident: $module:ident, $name:literal, $bounds:ty; )*) => {
        /// Everything that can be granted, and sockets, which cannot.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Capability { $( $variant, )* }

        impl Capability {
            pub const ALL: [Self; [$( $name, )*].len()] = [$( Self::$variant, )*];

            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            pub fn named(name: &str) -> Option<Self> {
                match name { $( $name => Some(Self::$variant), )* _ => None }
            }

            /// Returns what a component does with the capability, for a person who decides about it. The text
            /// continues the name and a colon.
            pub fn meaning(self) -> &'static str {
                match self { $( Self::$variant => $module::Rules::MEANING, )* }
            }

            /// Returns the name and the bounds in a grant, for a person.
            pub fn in_words(self, grant: &Grant) -> String {
                let bounds = match self { $( Self::$variant => $module::Rules::in_words(&grant.$module), )* };
                bounds.map_or_else(|| self.name().to_owned(), |bounds| format!("{} {bounds}", self.name()))
            }

            /// Takes the capability out of a grant.
            pub fn close(self, grant: &mut Grant) {
                match self { $( Self::$variant => grant.$module = Default::default(), )* }
            }

            /// Puts the capability into a grant, without any bound.
            pub(crate) fn open(self, grant: &mut Grant) {
                match self { $( Self::$variant => grant.$module = Bound::unlimited(), )* }
            }

            /// Puts what a need asks for into a grant.
            pub(crate) fn request(self, need: &Need, grant: &mut Grant) {
                match self { $( Self::$variant => grant.$module = $module::Rules::requested(need), )* }
            }

            pub(crate) fn check(self, need: &Need) -> Result<(), (&'static str, &'static str)> {
                match self { $( Self::$variant => $module::Rules::check(need), )* }
            }

            pub(crate) fn is_in_base_world(self) -> bool {
                match self { $( Self::$variant => $module::Rules::IN_BASE_WORLD, )* }
            }

            pub(crate) fn is_behind(self, import: &Import<'_>) -> bool {
                match self { $( Self::$variant => $module::Rules::is_behind(import), )* }
            }

            pub(crate) fn covers(self, grant: &Grant, access: &Access) -> bool {
                match self { $( Self::$variant => $module::Rules::covers(grant, access), )* }
            }

            pub(crate) fn link(self, linker: &mut Linker<State>) -> wasmtime::Result<()> {
                match self { $( Self::$variant => $module::Rules::link(linker), )* }
            }
        }

        /// Everything that a component may do. A component can do nothing that its grant does not name.
        ///
        /// ```
        /// use act_component::{Capability, Grant};
        ///
        /// let grant = Grant::builtin_scout().meet(&Grant::everything());
        /// assert!(grant.has(Capability::RepoRead) && !grant.has(Capability::RepoWrite));
        /// ```
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Grant {
            $( $(#[serde($note)])? #[serde(rename = $name)] pub $module: $bounds, )*
            /// Names of capabilities that the component needs and the user decided against. The component is
            /// loaded without them.
            pub withheld: BTreeSet<String>,
            /// Bounds that are always in force.
            pub limits: Limits,
        }

        impl Grant {
            /// The grant of a party that forbids nothing.
            pub fn everything() -> Self {
                Self {
                    $( $module: Bound::unlimited(), )*
                    withheld: BTreeSet::new(),
                    limits: Limits::unlimited(),
                }
            }

            /// Returns true if the grant holds the capability, within any bounds.
            pub fn has(&self, capability: Capability) -> bool {
                match capability { $( Capability::$variant => !is_default(&self.$module), )* }
            }

            /// Returns true if a component with this grant can call a function that waits.
            pub(crate) fn may_wait(&self) -> bool {
                $( ($module::Rules::MAY_WAIT && !is_default(&self.$module)) )||*
            }

            /// Returns the grant that allows what both allow and withholds what either withholds.
            #[must_use]
            pub fn meet(&self, other: &Self) -> Self {
                Self {
                    $( $module: Bound::meet(&self.$module, &other.$module), )*
                    withheld: self.withheld.union(&other.withheld).cloned().collect(),
                    limits: Bound::meet(&self.limits, &other.limits),
                }
            }

            /// The bounds that an approval gives unless the user says otherwise.
            pub(crate) fn usual(limits: Limits) -> Self {
                Self { $( $module: $module::Rules::usual(), )* withheld: BTreeSet::new(), limits }
            }
        }

        impl Serialize for Grant {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                for tables in [false, true] {
                    $( if $module::Rules::IS_TABLE == tables && !is_default(&self.$module) {
                        map.serialize_entry($name, &self.$module)?;
                    } )*
                    if !tables && !self.withheld.is_empty() {
                        map.serialize_entry("withheld", &self.withheld)?;
                    }
                }
                map.serialize_entry("limits", &self.limits)?;
                map.end()
            }
        }

        /// Upper limits for grants. Capabilities and numbers that are not named have no limit.
        ///
        /// The administrator's `policy.toml` is a ceiling, and so are the permissions that the user removed from the name of a
        /// component. The latter are stored beside the grants because a grant belongs to certain bytes: a version that does
        /// not need a capability has no grant for it, and the limit has to be known when the next version needs it again.
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Ceiling {
            /// Names of capabilities that are not granted at all.
            pub withheld: BTreeSet<String>,
            $( $(#[serde($note)])? #[serde(rename = $name)] $module: <$module::Rules as Rules>::Ceiling, )*
            limits: LimitsCeiling,
        }

        impl Ceiling {
            /// Lowers a grant to the limits. Withheld capabilities stay in the grant; the caller removes them.
            pub(crate) fn lower(&self, grant: &mut Grant) {
                $( self.$module.lower(&mut grant.$module); )*
                self.limits.lower(&mut grant.limits);
            }

            /// Returns the limits as a grant that holds only the limited capabilities.
            pub fn bounds(&self) -> Grant {
                let mut bounds = Grant::default();
                $( if !is_default(&self.$module) {
                    bounds.$module = Bound::unlimited();
                } )*
                if !is_default(&self.limits) {
                    bounds.limits = Limits::unlimited();
                }
                self.lower(&mut bounds);
                bounds
            }

            /// Copies from `both` each part of which `held` allows less than `given`.
            fn take_over_lower(&mut self, both: &Grant, held: &Grant, given: Option<&Grant>) {
                $( if !is_default(&held.$module) && is_less(held, given, |grant| &grant.$module) {
                    self.$module = Limiting::of(&both.$module);
                } )*
                if is_less(held, given, |grant| &grant.limits) {
                    self.limits = Limiting::of(&both.limits);
                }
            }
        }

        impl Serialize for Ceiling {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                if !self.withheld.is_empty() {
                    map.serialize_entry("withheld", &self.withheld)?;
                }
                for tables in [false, true] {
                    $( if $module::Rules::IS_TABLE == tables
                        && !is_default(&self.$module)
                    {
                        map.serialize_entry($name, &self.$module)?;
                    } )*
                }
                if !is_default(&self.limits) {
                    map.serialize_entry("limits", &self.limits)?;
                }
                map.end()
            }
        }

        /// The meters of one call: those of each capability, and those of its limits.
        #[derive(Debug)]
        pub(crate) struct Meters {
            $( pub(crate) $module: <$module::Rules as Rules>::Meters, )*
            /// All linear memories together, in bytes. A memory never shrinks.
            pub(crate) memory: Meter,
            /// Elements of all tables together.
            pub(crate) tables: Meter,
            /// Bytes that the component shows to people and writes to the journal.
            pub(crate) log: Meter,
            /// Bytes of names that open directory listings hold together.
            pub(crate) listings: Meter,
            pub(crate) denials: Count,
        }

        impl Meters {
            pub(crate) fn new(grant: &Grant) -> Self {
                let limits = &grant.limits;
                Self {
                    $( $module: $module::Rules::meters(&grant.$module, limits), )*
                    memory: Meter::new("limits.memory", limits.memory_bytes),
                    tables: Meter::new("limits.tables", limits.table_elements),
                    log: Meter::new("limits.log", limits.log_bytes),
                    listings: Meter::new("limits.listings", limits.host_call_bytes),
                    denials: Count::default(),
                }
            }

            /// Names of the capabilities that were used, sorted.
            pub(crate) fn grants(&self) -> Vec<String> {
                let used = [$( ($name, self.$module.is_used()), )*];
                let used = used.into_iter().filter(|(_, is_used)| *is_used);
                used.map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>().into_iter().collect()
            }

            /// The counts of the audit record.
            pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
                let mut counts = vec![
                    ("memory_bytes", self.memory.used()),
                    ("denials", self.denials.get()),
                ];
                $( counts.extend(self.$module.counts()); )*
                counts
            }

            /// The names that the audit record lists.
            pub(crate) fn names(&self) -> Vec<String> {
                let mut names = vec![];
                $( names.extend(self.$module.names()); )*
                names
            }
        }
    };
}

/// Returns values as words, separated by spaces.
fn joined<T: std::fmt::Display>(values: impl Iterator<Item = T>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns true if bounds grant nothing, or a ceiling limits nothing.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

// One line for each capability: variant, module and field of a grant, name in files and records, bounds.
capabilities! {
    RepoRead: repo_read, "repo.read", Option<RepoRead>;
    RepoHistory: repo_history, "repo.history", bool;
    RepoWrite: repo_write, "repo.write", bool;
    Llm: llm, "llm", Option<Llm>;
    Http: http, "http", Option<Http>;
    Env: env, "env", Set<EnvName>;
    Clock: clock, "clock", Clock;
    Random: random, "random", Random;
    #[skip] Sockets: sockets, "sockets", sockets::NeverGranted;
}

#[cfg(test)]
mod tests;
