//! Whether a component is let in, and with what.
//!
//! Four parties have a say, each as a grant: what the component imports, what it declares to need, what the user
//! granted to its bytes, and the administrator's ceiling. In force is what all four allow. Pure, so that every
//! answer can be tested without an engine.

use serde::{Deserialize, Serialize};

use super::grant::{Clock, Grant, Http, Llm, Random, RepoRead, Set};
use super::interfaces;
use super::manifest::SuggestedLimits;
use super::words::{EnvName, Method, Origin, RepoPart};

/// What a component says that it needs, and why. The lists belong to the grant that they narrow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Need {
    pub grant: String,
    pub why: String,
    /// Of `repo.read`; all of the view when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RepoPart>,
    /// Of `http`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<Origin>,
    /// Of `http`; GET and HEAD when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<Method>,
    /// Of `env`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<EnvName>,
    /// Of `clock`; coarse when none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Clock>,
}

/// An import that no grant covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingGrant {
    pub import: String,
    pub grant: String,
}

impl std::fmt::Display for MissingGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (grant `{}`)", self.import, self.grant)
    }
}

/// What can be granted, and sockets, which cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    RepoRead,
    RepoWrite,
    Llm,
    Http,
    Env,
    Clock,
    Random,
    Sockets,
}

impl Capability {
    pub const ALL: [Self; 8] = [
        Self::RepoRead,
        Self::RepoWrite,
        Self::Llm,
        Self::Http,
        Self::Env,
        Self::Clock,
        Self::Random,
        Self::Sockets,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::RepoRead => "repo.read",
            Self::RepoWrite => "repo.write",
            Self::Llm => "llm",
            Self::Http => "http",
            Self::Env => "env",
            Self::Clock => "clock",
            Self::Random => "random",
            Self::Sockets => "sockets",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.name() == name)
    }

    /// In the world of every component or in base WASI, so that an import alone says nothing: without a need it
    /// is linked closed.
    fn in_base_world(self) -> bool {
        !matches!(self, Self::RepoWrite | Self::Http | Self::Sockets)
    }

    /// Whether an import leads to it.
    fn is_behind(self, import: &str) -> bool {
        let (package, interface) = parts(import);
        match self {
            Self::RepoRead => matches!(
                interface,
                "agentcommand:repo/read" | "agentcommand:repo/symbols" | "wasi:filesystem/preopens"
            ),
            Self::RepoWrite => interface == "agentcommand:repo/edit",
            Self::Llm => interface == "agentcommand:model/chat",
            Self::Http => package == "wasi:http",
            Self::Env => interface == "wasi:cli/environment",
            Self::Clock => package == "wasi:clocks",
            Self::Random => package == "wasi:random",
            Self::Sockets => package == "wasi:sockets",
        }
    }

    fn open(self, in_grant: &mut Grant) {
        let all = Grant::everything();
        match self {
            Self::RepoRead => in_grant.repo_read = all.repo_read,
            Self::RepoWrite => in_grant.repo_write = true,
            Self::Llm => in_grant.llm = all.llm,
            Self::Http => in_grant.http = all.http,
            Self::Env => in_grant.env = Set::Any,
            Self::Clock => in_grant.clock = all.clock,
            Self::Random => in_grant.random = all.random,
            Self::Sockets => {}
        }
    }

    pub fn close(self, in_grant: &mut Grant) {
        match self {
            Self::RepoRead => in_grant.repo_read = None,
            Self::RepoWrite => in_grant.repo_write = false,
            Self::Llm => in_grant.llm = None,
            Self::Http => in_grant.http = None,
            Self::Env => in_grant.env = Set::default(),
            Self::Clock => in_grant.clock = Clock::Constant,
            Self::Random => in_grant.random = Random::Seeded,
            Self::Sockets => {}
        }
    }
}

/// Package, and package with interface, without the version.
fn parts(import: &str) -> (&str, &str) {
    let (interface, _) = interfaces::split(import);
    (interface.split_once('/').map_or(interface, |(package, _)| package), interface)
}

/// Whether this program has such an interface at all.
fn is_known(import: &str) -> bool {
    let (package, interface) = parts(import);
    matches!(package, "wasi:io" | "wasi:cli" | "wasi:clocks" | "wasi:random" | "wasi:filesystem")
        || matches!(interface, "agentcommand:progress/progress" | "agentcommand:types/types")
        || Capability::ALL.into_iter().any(|capability| capability.is_behind(import))
}

/// Why imports, declared needs, grant and ceiling do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("it imports {} without that grant; approve it with the grant, or leave it out", list(.0))]
    Missing(Vec<MissingGrant>),
    #[error(
        "it imports {} without declaring the need; declare it in its manifest, or leave it out", list(.0)
    )]
    Undeclared(Vec<MissingGrant>),
    #[error(
        "it imports {0}, which this program does not have; build it against the interfaces in `wit/`"
    )]
    UnknownImport(String),
    #[error(
        "it is built against {import}, a newer minor version than the {ours} of this program; update act, or build it against the interfaces in `wit/`"
    )]
    Newer { import: String, ours: String },
    #[error(
        "it is built against {import}, and this program has {ours}, another generation; build it against the interfaces in `wit/`"
    )]
    Foreign { import: String, ours: String },
    #[error("it needs `{0}` but imports nothing for it; drop the need from its manifest")]
    NeedWithoutImport(String),
    #[error("it needs `{0}`, which is no grant; the grants are {known}", known = grants())]
    UnknownNeed(String),
    #[error("it needs `{0}`, which the administrator's policy.toml does not allow here")]
    Ceiling(String),
}

impl Mismatch {
    /// A stable word for records.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "grant_missing",
            Self::Undeclared(_) => "need_undeclared",
            Self::UnknownImport(_) => "import_unknown",
            Self::Newer { .. } => "interface_newer",
            Self::Foreign { .. } => "interface_foreign",
            Self::NeedWithoutImport(_) => "need_without_import",
            Self::UnknownNeed(_) => "need_unknown",
            Self::Ceiling(_) => "ceiling",
        }
    }
}

fn list(missing: &[MissingGrant]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn grants() -> String {
    let names = Capability::ALL.into_iter().filter(|one| *one != Capability::Sockets);
    names.map(|one| format!("`{}`", one.name())).collect::<Vec<_>>().join(", ")
}

/// The four parties, each with what it allows by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    pub imports: Grant,
    pub needs: Grant,
    pub grants: Grant,
    pub ceiling: Grant,
}

impl Terms {
    pub fn new(
        imports: &[String],
        needs: &[Need],
        suggested: &SuggestedLimits,
        grants: &Grant,
        ceiling: &Grant,
    ) -> Self {
        let mut wanted = asked(needs);
        wanted.limits.narrow(suggested);
        Self {
            imports: imported(imports, needs),
            needs: wanted,
            grants: grants.clone(),
            ceiling: ceiling.clone(),
        }
    }

    /// Imports ∩ needs ∩ grants ∩ ceiling.
    pub fn effective(&self) -> Grant {
        let mut effective = self.imports.meet(&self.needs).meet(&self.grants).meet(&self.ceiling);
        for capability in self.grants.withheld.iter().filter_map(|name| Capability::named(name)) {
            capability.close(&mut effective);
        }
        effective
    }
}

/// Whether a component is to write at all.
pub(super) fn needs_to_write(needs: &[Need]) -> bool {
    needs.iter().any(|need| need.grant == Capability::RepoWrite.name())
}

/// Knows no interface of ours and wants to write: its directory is a scratch copy, and that is what leads to writing.
fn wants_scratch(imports: &[String], needs: &[Need]) -> bool {
    let knows_us = imports.iter().any(|import| import.starts_with("agentcommand:"));
    !knows_us && needs_to_write(needs)
}

/// The imports that lead to a capability.
fn behind<'a>(
    capability: Capability,
    imports: &'a [String],
    needs: &'a [Need],
) -> impl Iterator<Item = &'a String> {
    let scratch = capability == Capability::RepoWrite && wants_scratch(imports, needs);
    let leads = move |import: &&String| {
        capability.is_behind(import) || (scratch && Capability::RepoRead.is_behind(import))
    };
    imports.iter().filter(leads)
}

fn imported(imports: &[String], needs: &[Need]) -> Grant {
    let mut grant = Grant { limits: Grant::everything().limits, ..Grant::default() };
    for capability in Capability::ALL {
        if behind(capability, imports, needs).next().is_some() {
            capability.open(&mut grant);
        }
    }
    grant
}

/// What needs ask for, without bounds where they name none.
fn asked(needs: &[Need]) -> Grant {
    let all = Grant::everything();
    let mut grant = Grant { limits: all.limits, ..Grant::default() };
    for need in needs {
        match Capability::named(&need.grant) {
            Some(Capability::RepoRead) => {
                let paths = match need.paths.as_slice() {
                    [] => Set::Any,
                    paths => paths.iter().cloned().collect(),
                };
                grant.repo_read = all.repo_read.clone().map(|read| RepoRead { paths, ..read });
            }
            Some(Capability::Http) => {
                let usual = ["GET", "HEAD"].into_iter().filter_map(|word| word.parse().ok());
                let methods = match need.methods.as_slice() {
                    [] => usual.collect(),
                    methods => methods.iter().cloned().collect(),
                };
                let origins = need.origins.iter().cloned().collect();
                grant.http = all.http.clone().map(|http| Http { origins, methods, ..http });
            }
            Some(Capability::Env) => grant.env = need.names.iter().cloned().collect(),
            Some(Capability::Clock) => grant.clock = need.level.unwrap_or(Clock::Coarse),
            Some(other) => other.open(&mut grant),
            None => {}
        }
    }
    grant
}

/// What an approval gives when nobody says otherwise: what is asked for, within the usual bounds.
pub fn usual(needs: &[Need], limits: super::grant::Limits) -> Grant {
    let bounds = Grant {
        repo_read: Some(RepoRead::default()),
        llm: Some(Llm { calls: 32, tokens: 1_000_000 }),
        http: Some(Http { origins: Set::Any, methods: Set::Any, ..Http::default() }),
        limits,
        ..Grant::everything()
    };
    asked(needs).meet(&bounds)
}

/// What the component really gets, or why it is not to be loaded.
pub fn effective(imports: &[String], needs: &[Need], terms: &Terms) -> Result<Grant, Mismatch> {
    interfaces::check(imports)?;
    if let Some(unknown) = imports.iter().find(|import| !is_known(import)) {
        return Err(Mismatch::UnknownImport(unknown.clone()));
    }
    let mut declared = vec![];
    for need in needs {
        let unknown = || Mismatch::UnknownNeed(need.grant.clone());
        declared.push(Capability::named(&need.grant).ok_or_else(unknown)?);
    }
    let of = |capability: Capability| {
        behind(capability, imports, needs).map(move |import| MissingGrant {
            import: import.clone(),
            grant: capability.name().to_owned(),
        })
    };
    let undeclared: Vec<_> = Capability::ALL
        .into_iter()
        .filter(|capability| !capability.in_base_world() && !declared.contains(capability))
        .flat_map(of)
        .collect();
    if !undeclared.is_empty() {
        return Err(Mismatch::Undeclared(undeclared));
    }
    let mut missing = vec![];
    for capability in declared {
        let name = capability.name();
        if of(capability).next().is_none() {
            return Err(Mismatch::NeedWithoutImport(name.to_owned()));
        }
        if terms.grants.withheld.contains(name) {
            continue;
        }
        if !terms.grants.has(capability) {
            missing.extend(of(capability));
        } else if !terms.ceiling.has(capability) {
            return Err(Mismatch::Ceiling(name.to_owned()));
        }
    }
    if missing.is_empty() { Ok(terms.effective()) } else { Err(Mismatch::Missing(missing)) }
}

impl Grant {
    /// Whether any of it is there.
    pub fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::RepoRead => self.repo_read.is_some(),
            Capability::RepoWrite => self.repo_write,
            Capability::Llm => self.llm.is_some(),
            Capability::Http => self.http.is_some(),
            Capability::Env => !self.env.is_empty(),
            Capability::Clock => self.clock > Clock::Constant,
            Capability::Random => self.random > Random::Seeded,
            Capability::Sockets => false,
        }
    }

    /// Whether an interface that nobody else gets is linked: granted, or imported and withheld, which is closed.
    pub(super) fn links(&self, capability: Capability) -> bool {
        self.has(capability) || self.withheld.contains(capability.name())
    }
}

#[cfg(test)]
mod tests;
