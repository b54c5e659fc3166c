//! Decides whether a component may be loaded, and with which permissions.
//!
//! Four parties decide, and each one is a grant: what the component imports, what it declares to need, what the user
//! granted to its bytes, and the administrator's ceiling. The effective grant is what all four allow. Nothing here
//! touches the engine or a file, so every answer can be tested alone.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::capability::{
    CONFIG, Capability, Clock, EnvName, Grant, Import, Method, Origin, RepoPart,
};
use crate::inspect::Inspection;
use crate::limits::Limits;
use crate::manifest::Kind;
use crate::values::ValueError;
use crate::wasi::LOGGING;

/// A capability that the manifest of a component requests, and the reason. Each list narrows the capability to which it
/// belongs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Need {
    pub grant: String,
    pub why: String,
    /// Paths for `repo.read`; an empty list means the whole view.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RepoPart>,
    /// Origins for `http`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<Origin>,
    /// Methods for `http`; an empty list means GET and HEAD.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<Method>,
    /// Variables for `env`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<EnvName>,
    /// Resolution for `clock`; null means `coarse`.
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

/// Why a component may not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    #[error("it imports {} without that grant; approve it with the grant, or leave it out", list(.0))]
    Missing(Vec<MissingGrant>),
    #[error(
        "it imports {} without declaring the need; declare it in its manifest, or leave it out", list(.0)
    )]
    Undeclared(Vec<MissingGrant>),
    #[error(
        "it imports {}, and no grant opens a socket; build it against `wasi:http`, which the grant `http` opens, or without the network", list(.0)
    )]
    Sockets(Vec<MissingGrant>),
    #[error(
        "it imports or exports {0}, which this program does not have and no grant opens; build it without it, or against the interfaces in `wit/`"
    )]
    UnknownImport(String),
    #[error(
        "it is built against {import}, a newer minor version than the {ours} of this program; update act, or build it against the interfaces in `wit/`"
    )]
    Newer { import: String, ours: String },
    #[error(
        "it is built against {import}, and this program has {ours}, another major version; build it against the interfaces in `wit/`"
    )]
    OtherMajor { import: String, ours: String },
    #[error(
        "it is built against {import}, a draft that this program does not have; build it against {}", .ours.join(" or ")
    )]
    OtherDraft { import: String, ours: &'static [&'static str] },
    #[error("it needs `{0}` but imports nothing for it; drop the need from its manifest")]
    NeedWithoutImport(String),
    #[error("it needs `{0}`, which is not a grant; the grants are {known}", known = grant_names())]
    UnknownNeed(String),
    #[error("it needs `{0}`, which the administrator's policy.toml does not allow here")]
    Ceiling(String),
    #[error("it is a scout and requests {0}: a scout can never change a file")]
    ScoutThatEdits(String),
}

impl AdmissionError {
    /// A stable word for records and for `--json`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "grant_missing",
            Self::Undeclared(_) | Self::Sockets(_) => "need_undeclared",
            Self::UnknownImport(_) => "import_unknown",
            Self::Newer { .. } => "interface_newer",
            Self::OtherMajor { .. } | Self::OtherDraft { .. } => "interface_foreign",
            Self::NeedWithoutImport(_) => "need_without_import",
            Self::UnknownNeed(_) => "need_unknown",
            Self::Ceiling(_) => "ceiling",
            Self::ScoutThatEdits(_) => "scout_that_edits",
        }
    }
}

fn list(missing: &[MissingGrant]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The names of all grants that exist, for messages.
pub(crate) fn grant_names() -> String {
    let names = Capability::ALL.into_iter().filter(|one| *one != Capability::Sockets);
    names.map(|one| format!("`{}`", one.name())).collect::<Vec<_>>().join(", ")
}

/// The four parties that decide, each with what it allows on its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Parties {
    pub imports: Grant,
    pub needs: Grant,
    pub grants: Grant,
    pub ceiling: Grant,
}

impl Parties {
    pub fn new(component: &Inspection, grants: &Grant, ceiling: &Grant) -> Self {
        let mut needs = requested(&component.manifest.needs);
        needs.limits.narrow(&component.manifest.limits);
        Self {
            imports: imported(component),
            needs,
            grants: grants.clone(),
            ceiling: ceiling.clone(),
        }
    }

    /// Returns the grant that all parties allow: imports ∩ needs ∩ grants ∩ ceiling, without the withheld capabilities.
    pub fn effective(&self) -> Grant {
        let mut effective = self.imports.meet(&self.needs).meet(&self.grants).meet(&self.ceiling);
        for capability in self.grants.withheld.iter().filter_map(|name| Capability::named(name)) {
            capability.close(&mut effective);
        }
        effective
    }

    /// The answers of all four parties to one access, in the order in which they are asked.
    pub fn why(&self, access: &Access) -> [PartyAnswer; 4] {
        let capability = access.capability();
        let withheld = self.grants.withheld.contains(capability.name());
        [
            (Party::Imports, &self.imports),
            (Party::Needs, &self.needs),
            (Party::Grants, &self.grants),
            (Party::Ceiling, &self.ceiling),
        ]
        .map(|(party, grant)| PartyAnswer {
            party,
            allows: capability.covers(grant, access) && !(withheld && party == Party::Grants),
        })
    }
}

/// Returns the imports that lead to a capability. A foreign component writes to a scratch copy through the interfaces for
/// reading, so these lead to writing as well.
fn imports_behind(capability: Capability, component: &Inspection) -> impl Iterator<Item = &String> {
    let scratch = capability == Capability::RepoWrite && component.writes_to_scratch;
    component.imports.iter().filter(move |import| {
        let import = Import::parse(import);
        capability.is_behind(&import) || (scratch && Capability::RepoRead.is_behind(&import))
    })
}

fn imported(component: &Inspection) -> Grant {
    let mut grant = Grant { limits: Limits::unlimited(), ..Grant::default() };
    for capability in Capability::ALL {
        if imports_behind(capability, component).next().is_some() {
            capability.open(&mut grant);
        }
    }
    grant
}

/// Returns the grant that the needs request. A need without bounds requests the capability without bounds.
fn requested(needs: &[Need]) -> Grant {
    let mut grant = Grant { limits: Limits::unlimited(), ..Grant::default() };
    for need in needs {
        if let Some(capability) = Capability::named(&need.grant) {
            capability.request(need, &mut grant);
        }
    }
    grant
}

/// The grant of an approval unless the user chooses another one: what the needs request, within the usual bounds.
pub fn usual(needs: &[Need], limits: Limits) -> Grant {
    requested(needs).meet(&Grant::usual(limits))
}

/// Returns the effective grant of a component.
///
/// # Errors
///
/// The first rule that the component breaks. [`AdmissionError::code`] is its stable word.
pub fn effective(component: &Inspection, parties: &Parties) -> Result<Grant, AdmissionError> {
    let Inspection { imports, exports, manifest, .. } = component;
    // The versions come first, because every later rule reads the names by what they mean in our version.
    imports.iter().chain(exports).try_for_each(|name| check_version(name))?;
    if let Some(unknown) = imports.iter().find(|import| !is_known(import)) {
        return Err(AdmissionError::UnknownImport(unknown.clone()));
    }
    if manifest.kind == Kind::Scout {
        never_edits(component)?;
    }
    let mut declared = vec![];
    for need in &manifest.needs {
        let unknown = || AdmissionError::UnknownNeed(need.grant.clone());
        declared.push(Capability::named(&need.grant).ok_or_else(unknown)?);
    }
    let without = |capability: Capability| {
        imports_behind(capability, component).map(move |import| MissingGrant {
            import: import.clone(),
            grant: capability.name().to_owned(),
        })
    };
    let sockets: Vec<_> = without(Capability::Sockets).collect();
    if !sockets.is_empty() && !declared.contains(&Capability::Sockets) {
        return Err(AdmissionError::Sockets(sockets));
    }
    let undeclared: Vec<_> = Capability::ALL
        .into_iter()
        .filter(|capability| !capability.is_in_base_world() && !declared.contains(capability))
        .flat_map(without)
        .collect();
    if !undeclared.is_empty() {
        return Err(AdmissionError::Undeclared(undeclared));
    }
    let mut missing = vec![];
    for capability in declared {
        let name = capability.name();
        if without(capability).next().is_none() {
            return Err(AdmissionError::NeedWithoutImport(name.to_owned()));
        }
        if parties.grants.withheld.contains(name) {
            continue;
        }
        if !parties.grants.has(capability) {
            missing.extend(without(capability));
        } else if !parties.ceiling.has(capability) {
            return Err(AdmissionError::Ceiling(name.to_owned()));
        }
    }
    if missing.is_empty() { Ok(parties.effective()) } else { Err(AdmissionError::Missing(missing)) }
}

/// A component that may be loaded, with its effective grant.
#[derive(Debug, Clone, PartialEq)]
pub struct Admitted {
    pub(crate) inspection: Inspection,
    pub(crate) effective: Grant,
}

impl Admitted {
    /// The effective grant.
    pub fn grant(&self) -> &Grant {
        &self.effective
    }

    /// The JSON Schema of a Scout's report.
    pub fn report(&self) -> Option<&str> {
        self.inspection.manifest.report.as_deref()
    }
}

impl Inspection {
    /// Decides once whether the component may be loaded. The result carries the effective grant to the loader.
    ///
    /// # Errors
    ///
    /// The errors of [`effective`].
    pub fn admit(self, grants: &Grant, ceiling: &Grant) -> Result<Admitted, AdmissionError> {
        let effective = effective(&self, &Parties::new(&self, grants, ceiling))?;
        Ok(Admitted { inspection: self, effective })
    }
}

/// A Scout can never change a file: it neither imports an interface for that nor needs one.
fn never_edits(component: &Inspection) -> Result<(), AdmissionError> {
    let edits = |import: &&String| Capability::RepoWrite.is_behind(&Import::parse(import));
    if let Some(import) = component.imports.iter().find(edits) {
        return Err(AdmissionError::ScoutThatEdits(import.clone()));
    }
    let name = Capability::RepoWrite.name();
    if component.manifest.needs.iter().any(|need| need.grant == name) {
        return Err(AdmissionError::ScoutThatEdits(format!("`{name}`")));
    }
    Ok(())
}

/// Returns whether this program has the interface.
fn is_known(name: &str) -> bool {
    let import = Import::parse(name);
    matches!(
        import.package,
        "wasi:io" | "wasi:cli" | "wasi:clocks" | "wasi:random" | "wasi:filesystem"
    ) || drafts(import.package).is_some()
        || matches!(import.interface, "agentcommand:progress/progress" | "agentcommand:types/types")
        || Capability::ALL.into_iter().any(|capability| capability.is_behind(&import))
}

/// Returns the names of the linked interfaces of a WASI package that exists in drafts only; `None` for another package.
fn drafts(package: &str) -> Option<&'static [&'static str]> {
    match package {
        "wasi:config" => Some(&CONFIG),
        "wasi:logging" => Some(&LOGGING),
        _ => None,
    }
}

/// The packages of WASI 0.2 that this program has or refuses by the name of a grant. Another package has versions of its own.
const WASI: [&str; 7] = [
    "wasi:io",
    "wasi:cli",
    "wasi:clocks",
    "wasi:random",
    "wasi:filesystem",
    "wasi:http",
    "wasi:sockets",
];

/// The versions of the packages in `wit/`, and of the linked WASI.
const OURS: [(&str, Version); 7] = [
    ("agentcommand:model", Version { major: 1, minor: 0 }),
    ("agentcommand:progress", Version { major: 1, minor: 0 }),
    ("agentcommand:repo", Version { major: 1, minor: 5 }),
    ("agentcommand:scout", Version { major: 1, minor: 0 }),
    ("agentcommand:tool", Version { major: 1, minor: 0 }),
    ("agentcommand:types", Version { major: 1, minor: 1 }),
    ("wasi", Version { major: 0, minor: 2 }),
];

/// A version without its patch: a patch changes documentation only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    major: u32,
    minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// Parses three numbers. A pre-release is refused: its interfaces may still change.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| number.parse::<u32>().ok());
        let (major, minor, _patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(Self { major, minor })
    }
}

/// Returns whether a name is that of the interface, in any version.
pub(crate) fn is_interface(name: &str, interface: &str) -> bool {
    Import::parse(name).interface == Import::parse(interface).interface
}

/// Refuses an import or export of another major or a newer minor version than ours.
///
/// A minor version only adds interfaces and functions, so a component of an older minor version finds all that it was built
/// with. A component of a newer minor version may call functions that do not exist here, and in another major version the
/// same name has another meaning. A draft of WASI has only the names under which it is linked, because each draft may differ
/// from the one before. A package `agentcommand:*` that is not in `wit/` is refused too; names of other packages are not
/// checked here.
pub(crate) fn check_version(name: &str) -> Result<(), AdmissionError> {
    let import = Import::parse(name);
    let package = import.package;
    if let Some(ours) = drafts(package) {
        let different = || AdmissionError::OtherDraft { import: name.to_owned(), ours };
        return if ours.contains(&name) { Ok(()) } else { Err(different()) };
    }
    let is_of = |ours: &str| package == ours || (ours == "wasi" && WASI.contains(&package));
    let Some((_, ours)) = OURS.into_iter().find(|(package, _)| is_of(package)) else {
        return match import.is_ours() {
            true => Err(AdmissionError::UnknownImport(name.to_owned())),
            false => Ok(()),
        };
    };
    // Before 1.0, each minor version may break its predecessor.
    let is_ours = |built: &Version| {
        built.major == ours.major && (ours.major > 0 || built.minor == ours.minor)
    };
    let (name, version) = (name.to_owned(), ours.to_string());
    match Version::parse(import.version) {
        Some(built) if is_ours(&built) && built <= ours => Ok(()),
        Some(built) if is_ours(&built) => {
            Err(AdmissionError::Newer { import: name, ours: version })
        }
        _ => Err(AdmissionError::OtherMajor { import: name, ours: version }),
    }
}

/// One access that a component may attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    Read(String),
    Write(String),
    Request {
        origin: Origin,
        method: Method,
    },
    Env(EnvName),
    /// A capability, without an object.
    Plain(Capability),
}

/// A party whose permission an access needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Party {
    Imports,
    Needs,
    Grants,
    Ceiling,
}

/// The answer of one party to an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(rename = "Says"))]
pub struct PartyAnswer {
    pub party: Party,
    pub allows: bool,
}

impl Access {
    /// Parses an access as users write it: an address, `METHOD ADDRESS`, `env:NAME`, `write:PATH`, `read:PATH`, the name of a
    /// grant, or else a path to read.
    ///
    /// # Errors
    ///
    /// A [`ValueError`] if the text is none of these.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        if let Some(capability) = Capability::named(text) {
            return Ok(Self::Plain(capability));
        }
        if let Some(name) = text.strip_prefix("env:") {
            return name.parse().map(Self::Env);
        }
        let (method, address) = match text.split_once(' ') {
            Some((method, address)) => (method, address),
            None => ("GET", text),
        };
        if address.contains("://") {
            let (origin, method) = (origin_of(address)?, method.parse()?);
            return Ok(Self::Request { origin, method });
        }
        let part = |path: &str| path.parse().map(|part: RepoPart| part.as_str().to_owned());
        match text.split_once(':') {
            Some(("write", path)) => part(path).map(Self::Write),
            Some(("read", path)) => part(path).map(Self::Read),
            _ => part(text).map(Self::Read),
        }
    }

    fn capability(&self) -> Capability {
        match self {
            Self::Read(_) => Capability::RepoRead,
            Self::Write(_) => Capability::RepoWrite,
            Self::Request { .. } => Capability::Http,
            Self::Env(_) => Capability::Env,
            Self::Plain(capability) => *capability,
        }
    }
}

/// The origin of an address as it is written. It is not normalised, because an inexact spelling is to be refused.
fn origin_of(address: &str) -> Result<Origin, ValueError> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    format!("{scheme}://{host}").parse()
}

#[cfg(test)]
mod tests;
