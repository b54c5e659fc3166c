//! Every component that there is here: built in, approved once, or asked for by the repository.

use std::collections::BTreeMap;

use super::members::kind;
use super::state::{Known, Stored, state};
use super::{Approval, ComponentDocument, ComponentList, Past, Registry, State, Taken};
use crate::{Ceiling, Grant, Inspection, Kind, builtin};
use act_config::ComponentRequest;

type Used = BTreeMap<(String, String), Past>;

/// Built-in ones first, then those that were approved, then those that are only asked for.
pub fn list(registry: &Registry, requests: &[ComponentRequest], used: &Used) -> ComponentList {
    let mut components: Vec<_> = builtin::ALL
        .into_iter()
        .filter_map(|one| Some(of_builtin(registry, one.name, &Inspection::of_builtin(one).ok()?)))
        .collect();
    for approval in &registry.grants.approvals {
        components.push(of_approval(registry, approval, requests));
    }
    for request in requests {
        let known = registry.grants.of(&request.name);
        if known.is_none_or(|known| !registry.is_in_scope(known)) {
            components.push(of_request(registry, request));
        }
    }
    for component in &mut components {
        // In the place of a built-in one it has that one's name in tasks.
        let name = component.replaces.as_ref().unwrap_or(&component.name);
        let key = (name.clone(), component.sha256.clone());
        if let Some(past) = used.get(&key) {
            component.last_used.clone_from(&past.last_used);
            component.denials = past.denials;
        }
    }
    ComponentList { components }
}

/// What the built-in component of this name holds.
pub(super) fn builtin_grant(kind: Kind) -> Grant {
    match kind {
        Kind::Scout => Grant::builtin_scout(),
        Kind::Tool => Grant::builtin_tool(),
    }
}

fn of_builtin(registry: &Registry, name: &str, inspection: &Inspection) -> ComponentDocument {
    let grant = builtin_grant(inspection.kind());
    ComponentDocument {
        grants: registry.parties(inspection, &grant).effective(),
        ..of_inspection(name, State::Builtin, inspection, name)
    }
}

fn of_approval(
    registry: &Registry,
    approval: &Approval,
    requests: &[ComponentRequest],
) -> ComponentDocument {
    let name = approval.name.as_str();
    let in_scope = registry.is_in_scope(approval);
    let asked: Vec<String> = requests
        .iter()
        .filter(|request| in_scope && request.name == name)
        .flat_map(|request| [Some(request.sha256.clone()), registry.file_digest(request)])
        .flatten()
        .collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let taken = registry.shelf.take(&approval.sha256);
    let stored = match &taken {
        Taken::Bytes(_) => Stored::Whole,
        Taken::Missing => Stored::Missing,
        Taken::Changed(_) | Taken::Unreadable(_) => Stored::Changed,
    };
    let sha256 = approval.sha256.as_str();
    let known = Known { sha256, revoked: approval.revoked_at.is_some(), stored };
    let state = state(Some(known), &asked);
    let found = match &taken {
        Taken::Changed(found) => Some(found.to_string()),
        _ => asked.iter().find(|asked| **asked != sha256).map(|asked| (*asked).to_owned()),
    };
    let inspection = match &taken {
        Taken::Bytes(bytes) => Inspection::of(bytes.clone()).ok(),
        _ => None,
    };
    let known_by = approval.replaces.as_ref().map_or(name, |replaced| replaced.as_str());
    let mut document = match &inspection {
        Some(inspection) => of_inspection(name, state, inspection, known_by),
        None => bare(name, approval.kind, state, sha256),
    };
    document.found = found;
    document.replaces = approval.replaces.as_ref().map(ToString::to_string);
    document.scope = match (&approval.repo, in_scope) {
        (None, _) => "all",
        (Some(_), true) => "here",
        (Some(_), false) => "elsewhere",
    };
    document.approved_at = Some(approval.approved_at.clone());
    document.revoked_at.clone_from(&approval.revoked_at);
    document.grants = approval.grants.clone();
    document.narrowed = approval.narrowed.clone();
    document
}

fn of_request(registry: &Registry, request: &ComponentRequest) -> ComponentDocument {
    let (name, state) = (&request.name, State::Unapproved);
    let bytes = registry.file_bytes(request);
    let inspection = bytes.and_then(|bytes| Inspection::of(bytes).ok());
    let mut document = match &inspection {
        Some(inspection) => of_inspection(name, state, inspection, name),
        None => bare(name, kind(request.kind), state, &request.sha256),
    };
    let found = std::mem::replace(&mut document.sha256, request.sha256.clone());
    document.found = Some(found).filter(|found| *found != request.sha256);
    document.replaces.clone_from(&request.replaces);
    document.scope = "here";
    document
}

fn of_inspection(
    name: &str,
    state: State,
    inspection: &Inspection,
    known_by: &str,
) -> ComponentDocument {
    let manifest = &inspection.manifest;
    let tool = |tool: &act_model::ToolSpec| tool_name(known_by, &tool.name);
    ComponentDocument {
        version: Some(manifest.version.clone()),
        about: Some(manifest.about.clone()),
        world: manifest.world().to_owned(),
        imports: inspection.imports.clone(),
        needs: manifest.needs.clone(),
        tools: manifest.tools.iter().map(tool).collect(),
        ..bare(name, manifest.kind, state, &inspection.sha256)
    }
}

fn bare(name: &str, kind: Kind, state: State, sha256: &str) -> ComponentDocument {
    ComponentDocument {
        name: name.to_owned(),
        kind,
        state,
        sha256: sha256.to_owned(),
        found: None,
        world: kind.world().to_owned(),
        version: None,
        about: None,
        replaces: None,
        scope: "all",
        approved_at: None,
        revoked_at: None,
        imports: vec![],
        needs: vec![],
        grants: Grant::default(),
        narrowed: Ceiling::default(),
        tools: vec![],
        last_used: None,
        denials: 0,
    }
}

/// The built-in tools have plain names; those of others cannot be taken for them.
fn tool_name(component: &str, tool: &str) -> String {
    if component == builtin::FILE_TOOLS.name {
        tool.to_owned()
    } else {
        format!("{component}__{tool}")
    }
}
