//! Why a component may or may not do one thing.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Here;
use act_component::registry::State;
use act_component::{Access, PartyAnswer, ValueError};
use act_core::Failure;
use act_workspace::{Kind, Profile, RepoView};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WhyDocument {
    pub name: String,
    pub object: String,
    pub allowed: bool,
    /// All four, in the order in which they are asked.
    pub parties: Vec<PartyAnswer>,
    /// A rule of the host that holds for everybody, whatever is granted.
    pub carved_out: Option<String>,
}

const OBJECTS: &str =
    "an object is an address, `METHOD ADDRESS`, `env:NAME`, a path, `write:PATH` or a grant";

pub fn why(start: &Path, name: &str, object: &str) -> Result<WhyDocument, Failure> {
    let access = Access::parse(object)
        .map_err(|error: ValueError| Failure::usage(format!("{error}; {OBJECTS}")))?;
    let here = Here::open(start)?;
    if is_doubtful(&here, object, &access) {
        let message = format!("`{}` is no grant, and no path here", object.escape_debug());
        return Err(Failure::usage(format!(
            "{message}; write `read:{object}` for a file that is not there yet; {OBJECTS}"
        )));
    }
    let component = here.document(name, &Default::default())?;
    if !matches!(component.state, State::Builtin | State::Approved) {
        let message = format!("`{name}` is {}, so that it may do nothing", component.state.word());
        return Err(Failure::refused("component_not_in_force", message)
            .hint("`act components show NAME` says more"));
    }
    let inspection = here.inspection(name)?;
    let parties = here.registry.parties(&inspection, &component.grants).why(&access).to_vec();
    let carved_out = carved_out(&here, &access, inspection.kind());
    Ok(WhyDocument {
        name: name.to_owned(),
        object: object.to_owned(),
        allowed: carved_out.is_none() && parties.iter().all(|says| says.allows),
        parties,
        carved_out,
    })
}

/// A word that may be a path as well as a grant with a slip in it, where nothing of that name is there.
fn is_doubtful(here: &Here, object: &str, access: &Access) -> bool {
    let word = !object.contains(['/', '.']) || object.starts_with("repo.");
    let path = word && matches!(access, Access::Read(path) if path == object);
    let there = |root: &PathBuf| root.join(object).symlink_metadata().is_ok();
    path && !here.root.as_ref().is_some_and(there)
}

/// The directory of act's notes where the question is asked; outside of a repository the usual one.
fn notes(here: &Here) -> &'static str {
    let name = here.root.as_deref().and_then(|root| act_workspace::notes_dir(root).ok()?);
    name.unwrap_or(act_workspace::NOTES_DIRS[0])
}

fn carved_out(here: &Here, access: &Access, kind: act_component::Kind) -> Option<String> {
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
mod tests {
    use act_core::event::schema;

    #[test]
    fn the_schema_of_an_answer_is_published() {
        // EVENT-8
        schema::holds::<super::WhyDocument>("components-why");
    }
}
