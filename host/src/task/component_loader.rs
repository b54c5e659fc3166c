//! What a task and a single question have in common: the model, and Scouts that read one repository.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::component_scout::ComponentScout;
use act_agent::scout::Scout;
use act_component::builtin::Builtin;
use act_component::registry::Member;
use act_component::{
    ComponentHost, Grant, HostContext, Kind, LoadError, Loaded, ScoutComponent, ToolComponent,
};
use act_config::ModelAccess;
use act_core::event::Events;
use act_model::{Deadlines, Model, TokenLedger};
use act_workspace::{Profile, RepoView};

/// What could not be put together; the machine's trouble, for people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Incomplete(String);

pub(super) fn failed<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Incomplete {
    let what = what.to_owned();
    move |error| Incomplete(format!("{what}: {error}"))
}

pub(crate) fn model(
    access: &ModelAccess,
    ledger: &TokenLedger,
    events: &Events,
) -> Result<Arc<dyn Model>, Incomplete> {
    act_model::connect(access.clone(), Deadlines::default(), events.clone(), ledger.clone())
        .map_err(failed("the model client cannot be made"))
}

/// The repository as Scouts see it.
pub(super) fn view(root: &Path) -> Result<RepoView, Incomplete> {
    RepoView::open(root, Profile::Scout).map_err(failed("the repository cannot be opened"))
}

/// Loads components and lends Scouts what they work with.
pub(super) struct ComponentLoader<'a> {
    pub(super) host: ComponentHost,
    /// What the user approved; loaded in place of a built-in component or beside them.
    pub(super) members: &'a [Member],
    /// None where nobody is to be asked, whatever a component was granted.
    pub(super) model: Option<Arc<dyn Model>>,
    pub(super) view: RepoView,
    /// For one attempt of a Scout, the model's time included.
    pub(super) wall: Duration,
    pub(super) events: &'a Events,
}

impl ComponentLoader<'_> {
    /// The built-in component, or the one that the user put in its place, which then has its name.
    fn load<C>(
        &self,
        builtin: Builtin,
        grant: &Grant,
        of_kind: fn(Loaded) -> Result<C, LoadError>,
    ) -> Result<C, Incomplete> {
        let replaces = |member: &&Member| member.replaces.as_deref() == Some(builtin.name);
        if let Some(member) = self.members.iter().find(replaces) {
            return self.load_member(member, builtin.name, of_kind);
        }
        let loaded = self.host.load_builtin(builtin, grant, self.events);
        loaded.and_then(of_kind).map_err(failed("a component cannot be loaded"))
    }

    fn load_member<C>(
        &self,
        member: &Member,
        name: &str,
        of_kind: fn(Loaded) -> Result<C, LoadError>,
    ) -> Result<C, Incomplete> {
        let loaded = self.host.load_admitted(name, &member.admitted, self.events);
        loaded.and_then(of_kind).map_err(failed("an approved component cannot be loaded"))
    }

    /// The name of the approval that took this place; without one, its own.
    pub(super) fn known_as(&self, place: &str) -> String {
        let replaces = |member: &&Member| member.replaces.as_deref() == Some(place);
        let member = self.members.iter().find(replaces);
        member.map_or(place, |member| &member.name).to_owned()
    }

    pub(super) fn load_scout(&self, builtin: Builtin) -> Result<ScoutComponent, Incomplete> {
        self.load(builtin, &Grant::builtin_scout().within(self.wall), Loaded::into_scout)
    }

    pub(super) fn load_tools(&self, builtin: Builtin) -> Result<ToolComponent, Incomplete> {
        self.load(builtin, &Grant::builtin_tool(), Loaded::into_tool)
    }

    pub(super) fn load_member_scout(
        &self,
        member: &Member,
        name: &str,
    ) -> Result<ScoutComponent, Incomplete> {
        self.load_member(member, name, Loaded::into_scout)
    }

    pub(super) fn load_member_tool(&self, member: &Member) -> Result<ToolComponent, Incomplete> {
        self.load_member(member, &member.name, Loaded::into_tool)
    }

    /// Those that replace nothing, in the order of their approval.
    pub(super) fn others(&self, kind: Kind) -> impl Iterator<Item = &Member> {
        let wanted = move |member: &&Member| member.kind == kind && member.replaces.is_none();
        self.members.iter().filter(wanted)
    }

    /// One of the two that every Editor knows.
    pub(super) fn scout(&self, component: ScoutComponent) -> Arc<dyn Scout> {
        Arc::new(self.component_scout(component))
    }

    /// One more.
    pub(super) fn added_scout(&self, component: ScoutComponent) -> Arc<dyn Scout> {
        Arc::new(self.component_scout(component).introduced())
    }

    fn component_scout(&self, component: ScoutComponent) -> ComponentScout {
        let name = component.manifest.name.clone();
        let services = self.services(&name);
        ComponentScout::new(&name, component, services, self.wall)
    }

    /// What a Scout is lent.
    pub(super) fn services(&self, name: &str) -> HostContext {
        HostContext {
            view: Some(self.view.clone()),
            versions: None,
            writer: None,
            model: self.model.clone().map(|model| (model, name.to_owned())),
            attempt: 1,
            events: self.events.clone(),
        }
    }
}
