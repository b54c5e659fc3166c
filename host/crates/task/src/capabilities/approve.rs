//! `act components inspect` and `approve`: everything that the user should see before an approval, and the approval.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::capabilities::{
    Fetched, RepoRegistry, Signature, apply, component_file, component_name, not_a_component, oci,
    over_limit, used, what,
};
use act_agent::scout::OwnReport;
use act_component::registry::{Approval, Change, ComponentDocument, Source, is_reserved};
use act_component::{
    self, Capability, Ceiling, ComponentHost, ComponentName, Grant, Http, Inspection, Kind,
    LeftOut, Limits, LoadError, LocalOrigin, Manifest, Need, Parties, SuggestedLimits, ValueError,
    builtin, code_sha256, usual,
};
use act_core::event::Events;
use act_core::{Document, Failure};

/// Longest name of a tool that the models' interfaces accept, in bytes.
const MAX_TOOL_NAME: usize = 64;
/// Tokens that an approval grants for one call unless the user says another number. Questions to the built-in Scouts take some
/// ten thousand.
const TOKENS: u64 = 100_000;

/// The arguments of `act components approve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approve {
    pub component: Candidate,
    pub name: String,
    pub replaces: Option<String>,
    /// Only for the repository in use.
    pub here: bool,
    /// For every repository, even if the earlier approval was for one only.
    pub everywhere: bool,
    /// Needs that are not granted.
    pub without: Vec<String>,
    /// Ignore what was removed from the earlier approval of this name.
    pub anew: bool,
    /// Model tokens of one call, instead of the usual number.
    pub tokens: Option<u64>,
    /// Seconds of one call, instead of the usual number.
    pub seconds: Option<u64>,
    /// Origins on this machine that the component may reach, each with a literal loopback address.
    pub allow_local: Vec<String>,
    pub start: PathBuf,
}

/// The component that an approval is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Candidate {
    File(PathBuf),
    Fetched(Fetched),
    /// What the build of a development session has left, as it was read and inspected.
    Built(Box<Inspection>),
}

/// A component file as `act components inspect` describes it, without any approval.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct InspectDocument {
    pub sha256: String,
    pub bytes: u64,
    /// The name in the component's manifest.
    pub name: String,
    pub kind: Kind,
    pub world: String,
    pub version: String,
    pub about: String,
    pub imports: Vec<String>,
    pub needs: Vec<Need>,
    pub limits: SuggestedLimits,
    pub tools: Vec<String>,
    /// Exported functions that cannot be tools.
    pub left_out: Vec<LeftOut>,
    /// The texts of the component that the Editor's model sees.
    pub says: ModelText,
    /// Why the component cannot be loaded, whatever the user grants; null when it can.
    pub problem: Option<String>,
}

impl Document for InspectDocument {
    const NAME: &'static str = "components-inspect";
}

/// An approval that the user can decide on.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub inspection: Inspection,
    pub name: ComponentName,
    pub grant: Grant,
    /// Permissions that this name does not get, whatever a component needs.
    pub narrowed: Ceiling,
    pub difference: Option<Difference>,
    pub replaces: Option<ComponentName>,
    /// The registry that the component was fetched from, and what is known of its signatures.
    pub source: Option<(Source, Signature)>,
    repo: Option<String>,
    seen: Option<Box<Approval>>,
    start: PathBuf,
}

/// Reads a component file, without running it.
///
/// # Errors
///
/// The file cannot be read, or is not a component.
pub fn inspect(file: &Path) -> Result<InspectDocument, Failure> {
    let inspection = read(file)?;
    let Inspection { sha256, bytes, manifest, imports, .. } = &inspection;
    Ok(InspectDocument {
        sha256: sha256.clone(),
        bytes: bytes.len() as u64,
        name: manifest.name.clone(),
        kind: manifest.kind,
        world: manifest.world().to_owned(),
        version: manifest.version.clone(),
        about: manifest.about.clone(),
        imports: imports.clone(),
        needs: manifest.needs.clone(),
        limits: manifest.limits.clone(),
        tools: manifest.tools.iter().map(|tool| tool.name.clone()).collect(),
        left_out: manifest.left_out.clone(),
        says: ModelText::of(manifest),
        problem: problem(&inspection),
    })
}

/// Returns why the component cannot be loaded with any permission.
fn problem(inspection: &Inspection) -> Option<String> {
    if let Err(mismatch) = inspection.exports_fit() {
        return Some(mismatch.to_string());
    }
    if let Some(why) = unusable_report(inspection) {
        return Some(why);
    }
    if !inspection.is_what_it_says() {
        let kind = what(inspection.kind());
        return Some(format!(
            "its manifest declares a {kind}, but it does not export the interface of one"
        ));
    }
    let grant = usual(inspection.needs(), Limits::default());
    let parties = Parties::new(inspection, &grant, &Grant::everything());
    act_component::effective(inspection, &parties).err().map(|why| why.to_string())
}

/// Returns why no report can be checked by the schema of the component.
fn unusable_report(inspection: &Inspection) -> Option<String> {
    let why = OwnReport::new(inspection.manifest.report.as_deref()).err()?;
    Some(format!("the schema of its report cannot be used: {why}"))
}

/// Parses the name of an approval.
///
/// # Errors
///
/// The name is invalid, or the name of a built-in component (`name_reserved`).
pub fn free_name(text: &str) -> Result<ComponentName, Failure> {
    let name = component_name(text)?;
    if is_reserved(name.as_str()) {
        let message = format!("`{name}` is a reserved name");
        return Err(Failure::refused("name_reserved", message)
            .hint("choose another name; use --replaces to replace a built-in component"));
    }
    Ok(name)
}

/// Checks and compiles a component, and compares it with the earlier approval. Decides nothing.
///
/// # Errors
///
/// The component cannot be loaded, or conflicts with the name, the place or the scope that was asked for.
pub fn propose(args: Approve, events: &Events) -> Result<Proposal, Failure> {
    let name = free_name(&args.name)?;
    let here = RepoRegistry::open(&args.start)?;
    let (inspection, source) = match &args.component {
        Candidate::File(file) => {
            oci::unsigned_file(&here.registry.policy)?;
            (read(file)?, None)
        }
        Candidate::Built(inspection) => {
            oci::unsigned_file(&here.registry.policy)?;
            (inspection.as_ref().clone(), None)
        }
        Candidate::Fetched(Fetched { bytes, source, signature }) => {
            let inspection = Inspection::of_stranger(bytes.clone());
            let inspection = inspection.map_err(|error| not_a_component(&source.reference, &error));
            (inspection?, Some((source.clone(), signature.clone())))
        }
    };
    let manifest = &inspection.manifest;
    if let Some(why) = unusable_report(&inspection) {
        return Err(Failure::refused("component_refused", why)
            .hint("the schema must be complete (no `$ref` to another document), and its patterns must be short"));
    }
    let replaces = args.replaces.as_deref().map(|builtin| replaced(builtin, manifest.kind));
    let replaces = replaces.transpose()?;
    if let Some(builtin) = replaces.as_ref().filter(|_| manifest.is_foreign()) {
        let message =
            format!("a component whose tools are its own functions cannot replace {builtin}");
        return Err(Failure::refused("component_conflict", message).hint("leave --replaces out"));
    }
    let known_as = replaces.as_ref().unwrap_or(&name);
    let too_long =
        |tool: &str| replaces.is_none() && name.as_str().len() + 2 + tool.len() > MAX_TOOL_NAME;
    if let Some(tool) = manifest.tools.iter().find(|tool| too_long(&tool.name)) {
        let message =
            format!("the tool {name}__{} has a name of more than {MAX_TOOL_NAME} bytes", tool.name);
        return Err(Failure::refused("name_too_long", message).hint("choose a shorter --name"));
    }
    let earlier = Earlier::of(&here, &name);
    let narrowed_before = earlier.as_ref().filter(|_| !args.anew).map(Earlier::narrowed);
    let mut narrowed = narrowed_before.unwrap_or_default();
    let mut usual = granted(&inspection);
    if let Some(tokens) = args.tokens {
        let Some(llm) = &mut usual.llm else {
            return Err(Failure::usage("--tokens: the component does not need `llm`"));
        };
        llm.tokens = tokens;
    }
    if let Some(seconds) = args.seconds {
        usual.limits.wall = Duration::from_secs(seconds);
    }
    let mut grant = narrowed.limit_usual(usual, inspection.needs());
    for without in &args.without {
        let needed = inspection.needs().iter().any(|need| need.grant == *without);
        let Some(capability) = Capability::named(without).filter(|_| needed) else {
            return Err(Failure::usage(format!(
                "--without {without}: the component does not need that grant"
            )));
        };
        capability.close(&mut grant);
        grant.withheld.insert(without.clone());
        narrowed.withheld.insert(without.clone());
    }
    allow_local(&args, &mut grant)?;
    let host = ComponentHost::new(act_component::cache_dir().as_deref())
        .below(here.registry.policy.ceiling.clone());
    let loaded = host.load_inspected(Some(known_as.as_str()), inspection.clone(), &grant, events);
    loaded.map_err(|error| match &error {
        LoadError::Confined { .. } => over_limit(error.to_string()),
        _ => Failure::refused("component_refused", error.to_string())
            .hint("`act components inspect FILE` shows what it imports and needs"),
    })?;
    let repo = scope(&args, &here, earlier.as_ref().map(|earlier| &earlier.approval))?;
    let terms = Terms {
        grant: &grant,
        repo: repo.as_deref(),
        replaces: replaces.as_ref().map(ComponentName::as_str),
        revoked: false,
    };
    let difference = earlier.as_ref().map(|earlier| earlier.difference(&inspection, terms));
    Ok(Proposal {
        inspection,
        name,
        grant,
        narrowed,
        difference,
        replaces,
        source,
        repo,
        seen: earlier.map(|earlier| Box::new(earlier.approval)),
        start: args.start,
    })
}

impl Proposal {
    /// Returns the texts that the component sends to the model.
    pub fn model_text(&self) -> ModelText {
        ModelText::of(&self.inspection.manifest)
    }

    /// Returns whether the approval is for one repository only.
    pub fn is_local(&self) -> bool {
        self.repo.is_some()
    }

    /// Returns the origins that would be granted in vain, because no component ever reaches them.
    pub fn never_reached(&self) -> Vec<String> {
        let of = |http: &Http| {
            let origins = http.origins.values().filter(|origin| {
                act_component::never_reached(origin) && !http.allows_local(origin.as_str())
            });
            origins.map(ToString::to_string).collect()
        };
        self.grant.http.as_ref().map(of).unwrap_or_default()
    }

    /// Returns the origins on this machine that the component may reach.
    pub fn local_origins(&self) -> Vec<String> {
        let local = self.grant.http.iter().flat_map(|http| http.local.values());
        local.map(ToString::to_string).collect()
    }

    /// Writes the approval, after the user has agreed.
    ///
    /// # Errors
    ///
    /// Another approval was written meanwhile, or the file of grants or the audit log cannot be written.
    pub fn approve(self, events: &Events) -> Result<ComponentDocument, Failure> {
        let sha256 = self.inspection.sha256.parse();
        let sha256 = sha256.map_err(|error: ValueError| Failure::usage(error.to_string()))?;
        let change = Change::Approve {
            name: self.name.clone(),
            kind: self.inspection.kind(),
            sha256,
            bytes: self.inspection.bytes.to_vec(),
            grant: self.grant,
            narrowed: Box::new(self.narrowed),
            seen: self.seen,
            repo: self.repo,
            replaces: self.replaces,
            source: self.source.map(|(source, _)| source),
        };
        apply(&self.start, change, events)?;
        RepoRegistry::open(&self.start)?.document(self.name.as_str(), &used(super::ALL))
    }
}

fn read(file: &Path) -> Result<Inspection, Failure> {
    Inspection::of_stranger(component_file(file)?)
        .map_err(|error| not_a_component(&file.display().to_string(), &error))
}

fn replaced(name: &str, kind: Kind) -> Result<ComponentName, Failure> {
    let Some(builtin) = builtin::ALL.into_iter().find(|one| one.name == name) else {
        let names = builtin::ALL.map(|one| one.name).join(", ");
        return Err(Failure::usage(format!("--replaces: the built-in components are {names}")));
    };
    let is_tool = builtin == builtin::FILE_TOOLS;
    if is_tool != (kind == Kind::Tool) {
        let message = format!("a {} cannot replace {name}", what(kind));
        return Err(Failure::refused("component_conflict", message).hint("leave --replaces out"));
    }
    component_name(name)
}

/// Grants the local origins that the user named, of those that the component needs.
fn allow_local(args: &Approve, grant: &mut Grant) -> Result<(), Failure> {
    for text in &args.allow_local {
        let origin: LocalOrigin = text
            .parse()
            .map_err(|error: ValueError| Failure::usage(format!("--allow-local: {error}")))?;
        let needed = |http: &&mut Http| {
            http.origins.values().any(|needed| needed.as_str() == origin.as_str())
        };
        let Some(http) = grant.http.as_mut().filter(needed) else {
            return Err(Failure::usage(format!(
                "--allow-local {origin}: the component does not need that origin"
            )));
        };
        let both = http.local.values().cloned().chain([origin]).collect();
        http.local = both;
    }
    // An address of this machine means another service in each repository's surroundings.
    if !args.allow_local.is_empty() && !args.here {
        return Err(Failure::usage(
            "--allow-local holds for one repository only; add --here".to_owned(),
        ));
    }
    Ok(())
}

/// Returns what an approval grants to a component unless the user says otherwise.
fn granted(inspection: &Inspection) -> Grant {
    let limits = match inspection.kind() {
        Kind::Scout => Limits::default(),
        Kind::Tool => Grant::builtin_tool().limits,
    };
    let mut grant = usual(inspection.needs(), limits);
    if let Some(llm) = &mut grant.llm {
        llm.tokens = llm.tokens.min(TOKENS);
    }
    grant
}

/// The earlier approval of a name, and its component if the bytes are still stored.
struct Earlier {
    approval: Approval,
    version: Option<Inspection>,
}

impl Earlier {
    fn of(here: &RepoRegistry, name: &ComponentName) -> Option<Self> {
        let approval = here.registry.grants.get(name.as_str())?.clone();
        let bytes = here.registry.store.load(&approval.sha256).ok();
        let version = bytes.and_then(|bytes| Inspection::of(bytes).ok());
        Some(Self { approval, version })
    }

    /// Returns the permissions that the user has removed so far, with a command or by hand.
    fn narrowed(&self) -> Ceiling {
        let Approval { narrowed, grants, .. } = &self.approval;
        let given = self
            .version
            .as_ref()
            .map(|inspection| narrowed.limit_usual(granted(inspection), inspection.needs()));
        narrowed.clone().with_removed(grants, given.as_ref())
    }

    fn difference(&self, now: &Inspection, after: Terms<'_>) -> Difference {
        let Approval { sha256, grants, repo, replaces, revoked_at, .. } = &self.approval;
        let before = Terms {
            grant: grants,
            repo: repo.as_deref(),
            replaces: replaces.as_ref().map(ComponentName::as_str),
            revoked: revoked_at.is_some(),
        };
        difference(sha256.as_str(), self.version.as_ref(), now, before, after)
    }
}

/// Returns the repository that the approval is for, or `None` for all. An approval for one repository is never
/// extended without `--everywhere`.
fn scope(
    args: &Approve,
    here: &RepoRegistry,
    earlier: Option<&Approval>,
) -> Result<Option<String>, Failure> {
    let this = here.registry.repo.as_ref().map(|repo| repo.identity.clone());
    if args.everywhere {
        return Ok(None);
    }
    let earlier = earlier.filter(|earlier| earlier.revoked_at.is_none());
    match (earlier.and_then(|earlier| earlier.repo.clone()), this) {
        (Some(only), this) if this.as_ref() == Some(&only) => Ok(this),
        (Some(_), _) => {
            let message = format!("`{}` is approved for another repository only", args.name);
            Err(Failure::refused("component_conflict", message).hint(
                "choose another --name, or approve these bytes for every repository with --everywhere",
            ))
        }
        (None, _) if !args.here => Ok(None),
        (None, Some(this)) => Ok(Some(this)),
        (None, None) => Err(Failure::refused(
            "no_repository",
            "there is no repository here or in a parent directory",
        )
        .hint("change into the repository for which --here should hold")),
    }
}

/// The differences between a component and the component that was approved under the same name before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Difference {
    pub before: String,
    pub version_before: Option<String>,
    /// The bytes outside of the manifest differ.
    pub code_changed: bool,
    pub imports_added: Vec<String>,
    pub imports_removed: Vec<String>,
    pub needs_added: Vec<Need>,
    pub needs_removed: Vec<Need>,
    /// The other fields of the manifest that differ: `about`, `tools.NAME.description`, `report`.
    pub manifest: Vec<FieldChange>,
    /// The parts of the approval that differ: grants, limits, withheld capabilities, and the repositories where it holds.
    pub approval: Vec<FieldChange>,
    /// The bytes that were approved before are not stored any more, so only digests and approvals can be compared.
    pub unknown: bool,
}

/// A field that differs; a missing value is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FieldChange {
    pub field: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// The terms of an approval that can differ from those of another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) grant: &'a Grant,
    pub(super) repo: Option<&'a str>,
    pub(super) replaces: Option<&'a str>,
    pub(super) revoked: bool,
}

/// Compares two versions of a component. `earlier` is `None` if its bytes are not in the store any more.
pub(super) fn difference(
    sha256: &str,
    earlier: Option<&Inspection>,
    now: &Inspection,
    before: Terms<'_>,
    after: Terms<'_>,
) -> Difference {
    let approval = changes(&before.fields(), &after.fields());
    let difference = Difference { before: sha256.to_owned(), approval, ..Difference::default() };
    let Some(old) = earlier else { return Difference { unknown: true, ..difference } };
    let new = now;
    Difference {
        version_before: Some(old.manifest.version.clone()),
        code_changed: code_sha256(&old.bytes) != code_sha256(&new.bytes),
        imports_added: without(&new.imports, &old.imports),
        imports_removed: without(&old.imports, &new.imports),
        needs_added: without(new.needs(), old.needs()),
        needs_removed: without(old.needs(), new.needs()),
        manifest: changes(&words(&old.manifest), &words(&new.manifest)),
        ..difference
    }
}

impl Difference {
    /// Returns whether bytes and terms are the same.
    pub fn is_nothing(&self) -> bool {
        let Self { before, version_before, unknown, .. } = self;
        let same = Self {
            before: before.clone(),
            version_before: version_before.clone(),
            unknown: *unknown,
            ..Self::default()
        };
        !*unknown && *self == same
    }
}

impl Terms<'_> {
    fn fields(&self) -> BTreeMap<String, String> {
        let words = self.grant.in_words();
        let split = |word: &String| match word.split_once(' ') {
            Some((name, values)) => (name.to_owned(), values.to_owned()),
            None => (word.clone(), "granted".to_owned()),
        };
        let mut fields: BTreeMap<_, _> = words.iter().map(split).collect();
        let scope = self
            .repo
            .map_or("every repository".to_owned(), |repo| format!("repository {repo} only"));
        fields.insert("holds in".to_owned(), scope);
        fields.extend(self.replaces.map(|place| ("replaces".to_owned(), place.to_owned())));
        if self.revoked {
            fields.insert("revoked".to_owned(), "yes".to_owned());
        }
        fields
    }
}

fn words(manifest: &Manifest) -> BTreeMap<String, String> {
    let Manifest { kind, name, version, about, limits, tools, report, .. } = manifest;
    let mut words = BTreeMap::from([
        ("kind".to_owned(), kind.word().to_owned()),
        ("name".to_owned(), name.clone()),
        ("version".to_owned(), version.clone()),
        ("about".to_owned(), about.clone()),
    ]);
    words.extend(limits.memory_mb.map(|n| ("limits.memory_mb".to_owned(), n.to_string())));
    words.extend(limits.wall_ms.map(|n| ("limits.wall_ms".to_owned(), n.to_string())));
    words.extend(report.clone().map(|report| ("report".to_owned(), report)));
    for tool in tools {
        let field = |what: &str| format!("tools.{}.{what}", tool.name);
        words.insert(field("description"), tool.description.clone());
        words.insert(field("parameters"), tool.parameters.clone());
    }
    words
}

fn changes(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<FieldChange> {
    let mut fields: Vec<_> = before.keys().chain(after.keys()).collect();
    fields.sort();
    fields.dedup();
    let change = |field: &String| FieldChange {
        field: field.clone(),
        before: before.get(field).cloned(),
        after: after.get(field).cloned(),
    };
    fields.into_iter().map(change).filter(|one| one.before != one.after).collect()
}

fn without<T: PartialEq + Clone>(all: &[T], known: &[T]) -> Vec<T> {
    all.iter().filter(|one| !known.contains(one)).cloned().collect()
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(rename = "Said"))]
pub struct ModelText {
    pub tools: Vec<ToolText>,
    /// JSON Schema of a Scout's report; null when there is none.
    pub report: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "ToolSaid")
)]
pub struct ToolText {
    /// The name in the component's manifest.
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

impl ModelText {
    pub(super) fn of(manifest: &Manifest) -> Self {
        // The texts were checked to be JSON when the manifest was read.
        let json = |text: &String| serde_json::from_str(text).unwrap_or_default();
        let tools = manifest.tools.iter().map(|tool| ToolText {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: json(&tool.parameters),
        });
        Self { tools: tools.collect(), report: manifest.report.as_ref().map(json) }
    }
}

#[cfg(test)]
mod tests {
    use act_core::event::schema;

    #[test]
    fn the_schema_of_an_inspection_is_published() {
        // EVENT-8
        schema::document_holds::<super::InspectDocument>();
    }
}
