//! Letting a component in: everything that the user should see first, then the decision.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::difference::{Difference, Terms, difference};
use super::said::Said;
use super::{Here, apply, component_file, component_name, not_a_component, used, what};
use act_agent::scout::OwnReport;
use act_component::registry::{Approval, Change, ComponentDocument, is_reserved};
use act_component::{
    self, Capability, Ceiling, ComponentHost, ComponentName, Grant, Inspection, Kind, LeftOut,
    Limits, Need, Parties, SuggestedLimits, ValueError, builtin, usual,
};
use act_core::Failure;
use act_core::event::Events;

/// A tool's name as the model takes it.
const MAX_TOOL_NAME: usize = 64;
/// For one query of an added Scout at most; `timeouts.scout_query` is what counts.
const SCOUT_WALL: std::time::Duration = std::time::Duration::from_secs(600);

/// What is asked of `approve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approve {
    pub file: PathBuf,
    pub name: String,
    pub replaces: Option<String>,
    /// For the repository in use alone.
    pub here: bool,
    /// For every repository, also where it held for one alone.
    pub everywhere: bool,
    /// Needs that are not granted.
    pub without: Vec<String>,
    /// As if nothing had been taken away from what had the name before.
    pub anew: bool,
    pub start: PathBuf,
}

/// What a component is about, before anybody has decided anything.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InspectDocument {
    pub sha256: String,
    pub bytes: u64,
    /// As its author calls it.
    pub name: String,
    pub kind: Kind,
    pub world: String,
    pub version: String,
    pub about: String,
    pub imports: Vec<String>,
    pub needs: Vec<Need>,
    pub limits: SuggestedLimits,
    pub tools: Vec<String>,
    /// Exported functions that are no tools.
    pub left_out: Vec<LeftOut>,
    /// To the Editor's model.
    pub says: Said,
    /// Why it could not be loaded, whatever were granted.
    pub problem: Option<String>,
}

/// Ready to be decided on.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub inspection: Inspection,
    pub name: ComponentName,
    pub grant: Grant,
    /// What stays away from this name, whatever its bytes need.
    pub narrowed: Ceiling,
    pub difference: Option<Difference>,
    pub replaces: Option<ComponentName>,
    repo: Option<String>,
    seen: Option<Box<Approval>>,
    start: PathBuf,
}

/// Only parses.
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
        says: Said::of(manifest),
        problem: problem(&inspection),
    })
}

/// What no grant could heal.
fn problem(inspection: &Inspection) -> Option<String> {
    if let Err(mismatch) = inspection.exports_fit() {
        return Some(mismatch.to_string());
    }
    if let Some(why) = unusable_report(inspection) {
        return Some(why);
    }
    if !inspection.is_what_it_says() {
        let kind = what(inspection.kind());
        return Some(format!("it says that it is a {kind} and does not export what one exports"));
    }
    let grant = usual(inspection.needs(), Limits::default());
    let parties = Parties::new(inspection, &grant, &Grant::everything());
    act_component::effective(inspection, &parties).err().map(|why| why.to_string())
}

/// No report could ever be judged by it.
fn unusable_report(inspection: &Inspection) -> Option<String> {
    let why = OwnReport::new(inspection.manifest.report.as_deref()).err()?;
    Some(format!("the schema of its report cannot be used: {why}"))
}

/// A name that is none of ours.
pub fn free_name(text: &str) -> Result<ComponentName, Failure> {
    let name = component_name(text)?;
    if is_reserved(name.as_str()) {
        let message = format!("`{name}` is a name of our own");
        return Err(Failure::refused("name_reserved", message).hint(
            "choose another name; to take a built-in component's place approve with --replaces",
        ));
    }
    Ok(name)
}

/// Looks at everything, compiles, and decides nothing.
pub fn propose(args: Approve, events: &Events) -> Result<Proposal, Failure> {
    let name = free_name(&args.name)?;
    let here = Here::open(&args.start)?;
    let inspection = read(&args.file)?;
    let manifest = &inspection.manifest;
    if let Some(why) = unusable_report(&inspection) {
        return Err(Failure::refused("component_refused", why)
            .hint("a schema stands for itself: `$ref` leads nowhere, and patterns are short"));
    }
    let replaces = args.replaces.as_deref().map(|builtin| replaced(builtin, manifest.kind));
    let replaces = replaces.transpose()?;
    if let Some(builtin) = replaces.as_ref().filter(|_| manifest.is_plain()) {
        let message = format!("functions of its own are not the tools of {builtin}");
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
    let kept = earlier.as_ref().filter(|_| !args.anew).map(Earlier::narrowed);
    let mut narrowed = kept.unwrap_or_default();
    let usual = usual(inspection.needs(), limits(manifest.kind));
    let mut grant = narrowed.applied(usual, inspection.needs());
    for without in &args.without {
        let needed = inspection.needs().iter().any(|need| need.grant == *without);
        let Some(capability) = Capability::named(without).filter(|_| needed) else {
            return Err(Failure::usage(format!("--without {without}: it does not need that")));
        };
        capability.close(&mut grant);
        grant.withheld.insert(without.clone());
        narrowed.withheld.insert(without.clone());
    }
    let host = ComponentHost::new(act_component::cache_dir().as_deref())
        .below(here.registry.policy.ceiling.clone());
    let loaded = host.load_inspected(Some(known_as.as_str()), inspection.clone(), &grant, events);
    loaded.map_err(|error| {
        Failure::refused("component_refused", error.to_string())
            .hint("`act components inspect FILE` shows what it imports and needs")
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
        repo,
        seen: earlier.map(|earlier| Box::new(earlier.approval)),
        start: args.start,
    })
}

impl Proposal {
    /// To the Editor's model.
    pub fn says(&self) -> Said {
        Said::of(&self.inspection.manifest)
    }

    /// For one repository alone.
    pub fn is_local(&self) -> bool {
        self.repo.is_some()
    }

    /// Origins that it would be granted to no effect.
    pub fn never_reached(&self) -> Vec<String> {
        let origins = self.grant.http.iter().flat_map(|http| http.origins.values());
        origins
            .filter(|origin| act_component::never_reached(origin))
            .map(ToString::to_string)
            .collect()
    }

    /// The user has agreed.
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
        };
        apply(&self.start, change, events)?;
        Here::open(&self.start)?.document(self.name.as_str(), &used(super::ALL))
    }
}

fn read(file: &Path) -> Result<Inspection, Failure> {
    Inspection::of(component_file(file)?)
        .map_err(|error| not_a_component(&file.display().to_string(), &error))
}

fn replaced(name: &str, kind: Kind) -> Result<ComponentName, Failure> {
    let Some(builtin) = builtin::ALL.into_iter().find(|one| one.name == name) else {
        let names = builtin::ALL.map(|one| one.name).join(", ");
        return Err(Failure::usage(format!("--replaces: built in are {names}")));
    };
    let is_tool = builtin == builtin::FILE_TOOLS;
    if is_tool != (kind == Kind::Tool) {
        let message = format!("a {} cannot take the place of {name}", what(kind));
        return Err(Failure::refused("component_conflict", message).hint("leave --replaces out"));
    }
    component_name(name)
}

fn limits(kind: Kind) -> Limits {
    match kind {
        Kind::Scout => Limits { wall: SCOUT_WALL, ..Limits::default() },
        Kind::Tool => Grant::builtin_tool().limits,
    }
}

/// An approval that counts, and its bytes where they are still there.
struct Earlier {
    approval: Approval,
    version: Option<Inspection>,
}

impl Earlier {
    fn of(here: &Here, name: &ComponentName) -> Option<Self> {
        let approval = here.registry.grants.get(name.as_str())?.clone();
        let bytes = here.registry.store.load(&approval.sha256).ok();
        let version = bytes.and_then(|bytes| Inspection::of(bytes).ok());
        Some(Self { approval, version })
    }

    /// What the user took away so far, also by hand.
    fn narrowed(&self) -> Ceiling {
        let Approval { narrowed, grants, .. } = &self.approval;
        let given = self.version.as_ref().map(|inspection| {
            let usual = usual(inspection.needs(), limits(inspection.kind()));
            narrowed.applied(usual, inspection.needs())
        });
        narrowed.clone().and(grants, given.as_ref())
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

/// For which repository alone, if for one. What holds for one is not made to hold for others without a word.
fn scope(
    args: &Approve,
    here: &Here,
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
            let message = format!("`{}` is approved for another repository alone", args.name);
            Err(Failure::refused("component_conflict", message).hint(
                "choose another --name; or --everywhere lets it hold in every repository, with these bytes",
            ))
        }
        (None, _) if !args.here => Ok(None),
        (None, Some(this)) => Ok(Some(this)),
        (None, None) => Err(Failure::refused("no_repository", "no repository here or above")
            .hint("go into the one that --here is about")),
    }
}

#[cfg(test)]
mod tests {
    use act_core::event::schema;

    #[test]
    fn the_schema_of_an_inspection_is_published() {
        // EVENT-8
        schema::holds::<super::InspectDocument>("components-inspect");
    }
}
