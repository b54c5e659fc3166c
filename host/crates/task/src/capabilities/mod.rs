//! `act components`: the queries and decisions of each command. The module `registry` of `act-component` holds the rules.

mod approve;
mod call;
mod dev;
mod oci;
mod pack;
mod show;

use std::path::{Path, PathBuf};

use crate::audit::anchor;
use crate::prepare;
use act_component::registry::{
    self, Change, ComponentDocument, ComponentList, Registry, UsageHistory,
};
use act_component::{ComponentName, Inspection, Kind, ManifestError, ValueError, builtin};
use act_config::ComponentRequest;
use act_core::Failure;
use act_core::event::Events;
use act_records::artifacts::{ArtifactDir, newest_journals};

pub use approve::{
    Approve, Candidate, Difference, FieldChange, InspectDocument, ModelText, Proposal, ToolText,
    free_name, inspect, propose,
};
pub use call::{Call, CallDocument, call};
pub use dev::{BuildFailed, Dev, DevOptions, DevProject, Rebuilt, Sources};
pub use oci::{
    Fetched, Outdated, OutdatedDocument, PulledDocument, PushedDocument, Signature, Unchecked,
    confirm, fetch, outdated, pull, push, push_loader,
};
pub use pack::{Packed, pack};
pub use show::{Narrow, Shown, UsedDocument, WhyDocument, narrow, show, why};

/// Number of tasks in which `list` looks for uses.
const ALL: usize = 200;
const LAST: usize = 20;

type UsageByComponent = std::collections::BTreeMap<(String, String), UsageHistory>;

/// The registry, and what the repository in use requests.
struct RepoRegistry {
    root: Option<PathBuf>,
    registry: Registry,
    requests: Vec<ComponentRequest>,
}

impl RepoRegistry {
    /// Opens the registry. A broken `agent.yaml` requests nothing.
    fn open(start: &Path) -> Result<Self, Failure> {
        let root = act_config::find_root(start)?.map(|root| root.path);
        let registry = prepare::registry(root.as_deref())?;
        let asked = root.as_deref().and_then(|root| act_config::load(root).ok());
        let requests = asked.map(|config| config.components).unwrap_or_default();
        Ok(Self { root, registry, requests })
    }

    fn document(&self, name: &str, used: &UsageByComponent) -> Result<ComponentDocument, Failure> {
        let list = registry::list(&self.registry, &self.requests, used);
        list.components.into_iter().find(|one| one.name == name).ok_or_else(|| unknown(name))
    }

    /// Returns the component that is in force under a name.
    fn inspection(&self, name: &str) -> Result<Inspection, Failure> {
        let built_in = builtin::ALL.into_iter().find(|one| one.name == name);
        let dev = self.registry.dev.iter().find(|dev| dev.approval.name.as_str() == name);
        if let Some(dev) = dev {
            let sha256 = dev.approval.sha256.as_str();
            let bytes = dev.bytes().map_err(|error| error.into_refused(name, sha256))?;
            return Inspection::of(bytes).map_err(|error| not_a_component(name, &error));
        }
        let bytes = match (built_in, self.registry.grants.get(name)) {
            (Some(one), _) => {
                return Inspection::of_builtin(one).map_err(|error| not_a_component(name, &error));
            }
            (None, Some(approval)) => self
                .registry
                .store
                .load(&approval.sha256)
                .map_err(|error| error.into_refused(name, approval.sha256.as_str()))?,
            (None, None) => return Err(unknown(name)),
        };
        Inspection::of(bytes).map_err(|error| not_a_component(name, &error))
    }
}

/// Returns every component with its state and permissions.
///
/// # Errors
///
/// The registry cannot be read.
pub fn list(start: &Path) -> Result<ComponentList, Failure> {
    let here = RepoRegistry::open(start)?;
    Ok(registry::list(&here.registry, &here.requests, &used(ALL)))
}

/// Returns the components that the repository at `start` requests, with their states and without their uses.
///
/// # Errors
///
/// The registry cannot be read.
pub(super) fn requested(start: &Path) -> Result<ComponentList, Failure> {
    let here = RepoRegistry::open(start)?;
    let mut list = registry::list(&here.registry, &here.requests, &UsageByComponent::new());
    list.components.retain(|one| here.requests.iter().any(|asked| *asked.name == *one.name));
    Ok(list)
}

/// Revokes an approval, so that the component is not loaded any more.
///
/// # Errors
///
/// There is no such approval, or the file of grants or the audit log cannot be written.
pub fn revoke(start: &Path, name: &str, events: &Events) -> Result<ComponentDocument, Failure> {
    let name = component_name(name)?;
    if builtin::ALL.iter().any(|one| one.name == name.as_str()) {
        let message = format!("`{name}` is built in, so there is nothing to revoke");
        return Err(Failure::refused("nothing_to_revoke", message).hint(
            "`act components approve FILE --replaces` approves another component in its place",
        ));
    }
    apply(start, Change::Revoke { name: name.clone() }, events)?;
    RepoRegistry::open(start)?.document(name.as_str(), &used(ALL))
}

/// Returns what components used in the last tasks, from the journals.
fn used(tasks: usize) -> UsageByComponent {
    let place =
        ArtifactDir::locate(std::env::var_os("AGENT_ARTIFACT_DIR"), std::env::var_os("HOME"));
    registry::usage_history(place.map(|place| newest_journals(&place, tasks)).unwrap_or_default())
}

/// Writes a decision to the file of grants and to the audit log.
fn apply(start: &Path, change: Change, events: &Events) -> Result<(), Failure> {
    let root = act_config::find_root(start)?.map(|root| root.path);
    let artifacts = prepare::artifacts_for(root.as_deref())?;
    let (state, _) = prepare::state(&artifacts)?;
    let audit = prepare::audit(&artifacts, &prepare::store(&artifacts)?)?;
    anchor::before(root.as_deref(), &audit)?;
    registry::change(change, &state, root.as_deref(), &audit)?;
    anchor::after(root.as_deref(), &audit, events);
    Ok(())
}

fn component_name(name: &str) -> Result<ComponentName, Failure> {
    name.parse().map_err(|error: ValueError| Failure::usage(error.to_string()))
}

/// Reads a component file that the user named.
pub(super) fn component_file(file: &Path) -> Result<Vec<u8>, Failure> {
    registry::read_component_file(file).map_err(|error| {
        let message = format!("{} cannot be read as a component: {error}", file.display());
        Failure::refused("component_unreadable", message)
            .hint("name a regular file of at most 64 MiB")
    })
}

fn unknown(name: &str) -> Failure {
    Failure::refused("component_unknown", format!("there is no component `{name}` here"))
        .hint("`act components` lists all components")
}

fn not_a_component(what: &str, error: &ManifestError) -> Failure {
    let message = format!("{what}: {error}");
    match error {
        ManifestError::NotAComponent(error) if error.is_over_limit() => over_limit(message),
        _ => Failure::refused("not_a_component", message)
            .hint("a component is built for wasm32-wasip2, and packed with `act components pack`"),
    }
}

fn over_limit(message: String) -> Failure {
    Failure::refused("component_over_limit", message).hint(
        "no toolchain builds such a component: do not use one of a stranger, and build your own from smaller parts",
    )
}

fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::Scout => "scout",
        Kind::Tool => "tool component",
    }
}
