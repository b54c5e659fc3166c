//! `act components show`, `narrow` and `why`: the permissions of one component, their use, and how to reduce them.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::capabilities::approve::ModelText;
use crate::capabilities::{ALL, LAST, RepoRegistry, apply, component_name, used};
use act_component::registry::{Change, ComponentDocument, State, UsageHistory};
use act_component::{Access, Capability, Grant, Origin, PartyAnswer, RepoPart, Set, ValueError};
use act_core::event::Events;
use act_core::{Document, Failure, shell_word};
use act_workspace::{Kind, Profile, RepoView};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Shown {
    pub component: ComponentDocument,
    /// The effective grant, imports ∩ needs ∩ grants ∩ ceiling; null when the component cannot be loaded.
    #[cfg_attr(
        any(test, feature = "testing"),
        schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>")
    )]
    pub effective: Option<Grant>,
    pub effective_sha256: Option<String>,
    /// The texts of the component that the Editor's model sees; null when its bytes are missing.
    pub says: Option<ModelText>,
    pub used: UsedDocument,
    /// Permissions that are granted and were not used in the last tasks; empty when no query was made in them.
    pub never_used: Vec<String>,
    /// The command that removes these permissions.
    pub can_be_narrowed_with: Option<String>,
}

impl Document for Shown {
    const NAME: &'static str = "components-show";
}

/// The use of a component in the last tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct UsedDocument {
    /// Number of tasks, out of the last 20, in which a query was made.
    pub tasks: u64,
    pub queries: u64,
    pub grants: Vec<String>,
    /// The top-level entries of the repository in which it read; null when there are too many to list.
    pub parts: Option<Vec<String>>,
    pub origins: Vec<String>,
    pub env: Vec<String>,
    /// Maximum number of model calls in one query; the next field is that of tokens.
    pub most_calls: u64,
    pub most_tokens: u64,
    pub denials: u64,
}

/// Returns one component: its permissions, their source and their use.
///
/// # Errors
///
/// There is no component of that name, or the registry cannot be read.
pub fn show(start: &Path, name: &str) -> Result<Shown, Failure> {
    let here = RepoRegistry::open(start)?;
    let component = here.document(name, &used(ALL))?;
    let past = past_of(&component);
    let effective = match component.state {
        State::Builtin | State::Approved | State::Dev => {
            let inspection = here.inspection(name)?;
            Some(here.registry.parties(&inspection, &component.grants).effective())
        }
        _ => None,
    };
    let says = here.inspection(name).ok().map(|found| ModelText::of(&found.manifest));
    let never_used = never_used(&component.grants, &past);
    let narrowing = (component.state == State::Approved)
        .then(|| proposal(&component.grants, &past))
        .flatten()
        .map(|narrow: Narrow| narrow.command(name));
    let parts = past.known_parts().map(|parts| parts.iter().cloned().collect());
    Ok(Shown {
        effective_sha256: effective.as_ref().map(Grant::sha256),
        effective,
        says,
        used: UsedDocument {
            tasks: past.tasks,
            queries: past.queries,
            grants: past.grants.iter().cloned().collect(),
            parts: if past.queries == 0 { Some(vec![]) } else { parts },
            origins: past.origins.iter().cloned().collect(),
            env: past.env.iter().cloned().collect(),
            most_calls: past.most_calls,
            most_tokens: past.most_tokens,
            denials: past.denials,
        },
        never_used,
        can_be_narrowed_with: narrowing,
        component,
    })
}

/// Returns what the component used in the last tasks. If it replaces a built-in one, it was recorded under that name.
pub(super) fn past_of(component: &ComponentDocument) -> UsageHistory {
    let name = component.replaces.as_ref().unwrap_or(&component.name);
    used(LAST).remove(&(name.clone(), component.sha256.clone())).unwrap_or_default()
}

/// Returns the granted permissions that were not used. Returns none for a component that was never asked.
pub(super) fn never_used(grant: &Grant, past: &UsageHistory) -> Vec<String> {
    let unused = |capability: &Capability| {
        past.queries > 0 && grant.has(*capability) && !past.grants.contains(capability.name())
    };
    Capability::ALL.into_iter().filter(unused).map(|one| one.name().to_owned()).collect()
}

/// Permissions to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrow {
    /// Names of grants to remove.
    pub drop: Vec<String>,
    /// The only paths that may be read.
    pub paths: Vec<String>,
    /// The only origins that requests may reach.
    pub origins: Vec<String>,
}

impl Narrow {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the command that a user would type.
    pub(super) fn command(&self, name: &str) -> String {
        let mut command = format!("act components narrow {name}");
        for (option, values) in
            [("--drop", &self.drop), ("--path", &self.paths), ("--origin", &self.origins)]
        {
            for value in values {
                command.push_str(&format!(" {option} {}", shell_word(value)));
            }
        }
        command
    }
}

/// Proposes to remove what was granted and not used, wholly or in part (pure).
pub(super) fn proposal(grant: &Grant, past: &UsageHistory) -> Option<Narrow> {
    if past.queries == 0 {
        return None;
    }
    let mut narrow = Narrow { drop: never_used(grant, past), ..Narrow::default() };
    if let (Some(read), Some(parts)) = (&grant.repo_read, past.known_parts())
        && read.paths == Set::Any
        && parts.iter().all(|part| part.parse::<RepoPart>().is_ok())
    {
        narrow.paths = parts.iter().cloned().collect();
    }
    if let Some(http) = &grant.http
        && !past.origins.is_empty()
        && http.origins.values().any(|origin| !past.origins.contains(origin.as_str()))
    {
        narrow.origins = past.origins.iter().cloned().collect();
    }
    (!narrow.is_empty()).then_some(narrow)
}

/// Removes permissions from an approval: those of `narrow`, or those that `show` proposes if it is empty.
///
/// # Errors
///
/// There is no such approval or grant, the result would be wider, or the file of grants cannot be written.
pub fn narrow(
    start: PathBuf,
    name: &str,
    narrow: Narrow,
    events: &Events,
) -> Result<ComponentDocument, Failure> {
    let name = component_name(name)?;
    let here = RepoRegistry::open(&start)?;
    let component = here.document(name.as_str(), &used(ALL))?;
    if !matches!(component.state, State::Approved) {
        let message =
            format!("`{name}` is {}, so there is nothing to narrow", component.state.word());
        return Err(Failure::refused("nothing_to_narrow", message)
            .hint("only components that you approved can be narrowed; policy.toml limits the built-in ones"));
    }
    let narrow = if narrow.is_empty() {
        proposal(&component.grants, &past_of(&component)).ok_or_else(|| {
            let message = format!("`{name}` has no permission that is known to be unused");
            Failure::refused("nothing_to_narrow", message)
                .hint("name what to remove: --drop GRANT, --path PATH, --origin ORIGIN")
        })?
    } else {
        narrow
    };
    let grant = narrowed(&component.grants, &narrow)?;
    let sha256 = component.sha256.parse();
    let sha256 = sha256.map_err(|error: ValueError| Failure::usage(error.to_string()))?;
    apply(&start, Change::Narrow { name: name.clone(), sha256, grant }, events)?;
    RepoRegistry::open(&start)?.document(name.as_str(), &used(ALL))
}

fn narrowed(grant: &Grant, narrow: &Narrow) -> Result<Grant, Failure> {
    let usage = |error: ValueError| Failure::usage(error.to_string());
    let mut less = grant.clone();
    for name in &narrow.drop {
        let held = |capability: &Capability| grant.has(*capability);
        let Some(capability) = Capability::named(name).filter(held) else {
            return Err(Failure::refused("nothing_to_narrow", format!("`{name}` is not granted"))
                .hint("`act components show NAME` lists what is granted"));
        };
        capability.close(&mut less);
        less.withheld.insert(name.clone());
    }
    for (values, option, held) in [
        (&narrow.paths, "--path", less.repo_read.is_some()),
        (&narrow.origins, "--origin", less.http.is_some()),
    ] {
        if !values.is_empty() && !held {
            let message = format!("{option}: the component has no grant of that kind");
            return Err(Failure::refused("nothing_to_narrow", message)
                .hint("`act components show NAME` lists its grants"));
        }
    }
    if let Some(read) = less.repo_read.as_mut().filter(|_| !narrow.paths.is_empty()) {
        let paths = narrow.paths.iter().map(|path| path.parse());
        read.paths =
            paths.collect::<Result<Vec<RepoPart>, _>>().map_err(usage)?.into_iter().collect();
    }
    if let Some(http) = less.http.as_mut().filter(|_| !narrow.origins.is_empty()) {
        let origins = narrow.origins.iter().map(|origin| origin.parse());
        http.origins =
            origins.collect::<Result<Vec<Origin>, _>>().map_err(usage)?.into_iter().collect();
    }
    let less = grant.meet(&less);
    let of_nothing = less.repo_read.as_ref().is_some_and(|read| read.paths.is_empty())
        || less.http.as_ref().is_some_and(|http| http.origins.is_empty());
    if of_nothing {
        return Err(Failure::refused("nothing_to_narrow", "none of these values was granted")
            .hint("to remove a whole grant use --drop GRANT"));
    }
    Ok(less)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct WhyDocument {
    pub name: String,
    pub object: String,
    pub allowed: bool,
    /// The answers of all four parties, in the order in which they are asked.
    pub parties: Vec<PartyAnswer>,
    /// A rule of the host that forbids the access to every component, whatever is granted.
    pub carved_out: Option<String>,
}

impl Document for WhyDocument {
    const NAME: &'static str = "components-why";
}

const OBJECTS: &str =
    "an object is an address, `METHOD ADDRESS`, `env:NAME`, a path, `write:PATH` or a grant";
/// Returns whether a component may access `object`, and which rule decides.
///
/// # Errors
///
/// `object` cannot be read as an access, or the component is not in force.
pub fn why(start: &Path, name: &str, object: &str) -> Result<WhyDocument, Failure> {
    let access = Access::parse(object)
        .map_err(|error: ValueError| Failure::usage(format!("{error}; {OBJECTS}")))?;
    let here = RepoRegistry::open(start)?;
    if is_doubtful(&here, object, &access) {
        let message = format!("`{}` is neither a grant nor a path here", object.escape_debug());
        return Err(Failure::usage(format!(
            "{message}; write `read:{object}` for a file that does not exist yet; {OBJECTS}"
        )));
    }
    let component = here.document(name, &Default::default())?;
    if !matches!(component.state, State::Builtin | State::Approved | State::Dev) {
        let message = format!("`{name}` is {}, so it has no permissions", component.state.word());
        return Err(Failure::refused("component_not_in_force", message)
            .hint("`act components show NAME` shows why"));
    }
    let inspection = here.inspection(name)?;
    let parties = here.registry.parties(&inspection, &component.grants);
    let effective = parties.effective();
    let parties = parties.why(&access).to_vec();
    let carved_out = match &access {
        Access::Request { origin, .. }
            if effective.http.iter().any(|http| http.allows_local(origin.as_str())) =>
        {
            None
        }
        _ => carved_out(&here, &access, inspection.kind()),
    };
    Ok(WhyDocument {
        name: name.to_owned(),
        object: object.to_owned(),
        allowed: carved_out.is_none() && parties.iter().all(|says| says.allows),
        parties,
        carved_out,
    })
}

/// Returns whether a word could be a path or a misspelt grant, and no file has that name.
fn is_doubtful(here: &RepoRegistry, object: &str, access: &Access) -> bool {
    let word = !object.contains(['/', '.']) || object.starts_with("repo.");
    let path = word && matches!(access, Access::Read(path) if path == object);
    let there = |root: &PathBuf| root.join(object).symlink_metadata().is_ok();
    path && !here.root.as_ref().is_some_and(there)
}

/// Returns the directory of the notes in the repository in use; outside of a repository the usual one.
fn notes(here: &RepoRegistry) -> &'static str {
    let name = here.root.as_deref().and_then(|root| act_workspace::notes_dir(root).ok()?);
    name.unwrap_or(act_workspace::NOTES_DIRS[0])
}

fn carved_out(here: &RepoRegistry, access: &Access, kind: act_component::Kind) -> Option<String> {
    match access {
        Access::Request { origin, .. } if act_component::never_reached(origin) => {
            Some("not_public".to_owned())
        }
        Access::Write(path) if act_workspace::is_protected(path, notes(here)) => {
            Some("protected".to_owned())
        }
        Access::Write(path) if act_workspace::is_guarded(path) => Some("guarded".to_owned()),
        Access::Write(path) | Access::Read(path) => {
            let profile = match (kind, access) {
                (act_component::Kind::Scout, Access::Read(_)) => Profile::Scout,
                _ => Profile::Tool,
            };
            let view = RepoView::open(here.root.as_deref()?, profile).ok()?;
            Some(view.rule(path, Kind::File)?.word().to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod show_tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_one_component_is_published() {
        // EVENT-8
        schema::document_holds::<Shown>();
    }

    // CAPABILITY-30
    #[test]
    fn never_used_is_only_said_of_one_that_was_asked() {
        let grant = Grant::builtin_scout();
        assert!(never_used(&grant, &UsageHistory::default()).is_empty());
        let asked = UsageHistory {
            queries: 1,
            grants: ["repo.read".to_owned()].into(),
            ..UsageHistory::default()
        };
        assert_eq!(never_used(&grant, &asked), ["repo.history", "llm"]);
    }
}

#[cfg(test)]
mod narrowing_tests {
    use super::*;

    // CAPABILITY-32
    #[test]
    fn what_was_not_used_is_proposed_and_nothing_is_proposed_for_nothing() {
        let grant = Grant::builtin_scout();
        assert_eq!(proposal(&grant, &UsageHistory::default()), None);
        let past = UsageHistory {
            queries: 3,
            grants: ["repo.read".to_owned()].into(),
            parts: Some(["src".to_owned(), "it's".to_owned()].into()),
            ..UsageHistory::default()
        };
        let narrow = proposal(&grant, &past).unwrap();
        assert_eq!(
            narrow.command("x"),
            "act components narrow x --drop repo.history --drop llm --path 'it'\\''s' --path src"
        );
        let less = narrowed(&grant, &narrow).unwrap();
        assert_eq!(less.llm, None);
        assert!(less.withheld.contains("llm"));
        let read = less.repo_read.as_ref().unwrap();
        assert!(read.covers("src/lib.rs") && !read.covers("docs"));
        let all = UsageHistory {
            grants: ["repo.read", "repo.history", "llm"].map(str::to_owned).into(),
            parts: None,
            ..past
        };
        assert_eq!(proposal(&grant, &all), None);
    }

    // CAPABILITY-32
    #[test]
    fn no_wish_widens() {
        let wide = Narrow { drop: vec!["http".into()], ..Narrow::default() };
        assert!(narrowed(&Grant::builtin_scout(), &wide).is_err());
        let first = Narrow { paths: vec!["src".into()], ..Narrow::default() };
        let once = narrowed(&Grant::builtin_scout(), &first).unwrap();
        let other = Narrow { paths: vec!["docs".into()], ..Narrow::default() };
        assert!(narrowed(&once, &other).is_err(), "reading nothing is no reading");
        let none = Narrow { origins: vec!["https://a.example".into()], ..Narrow::default() };
        assert!(narrowed(&once, &none).is_err());
        let second = Narrow { paths: vec!["docs".into(), "src/a".into()], ..Narrow::default() };
        let twice = narrowed(&once, &second).unwrap().repo_read.unwrap();
        assert!(twice.covers("src/a/b") && !twice.covers("docs") && !twice.covers("src/b"));
    }
}

#[cfg(test)]
mod why_tests {
    use act_core::event::schema;

    #[test]
    fn the_schema_of_an_answer_is_published() {
        // EVENT-8
        schema::document_holds::<super::WhyDocument>();
    }
}
