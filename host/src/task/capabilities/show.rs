//! One component: what it asked for and why, what it was given, what it used, and what it could do without.

use std::path::Path;

use serde::Serialize;

use super::narrowing::{Narrow, proposal};
use super::said::Said;
use super::{ALL, Here, LAST, used};
use act_component::registry::{ComponentDocument, State, UsageHistory};
use act_component::{Capability, Grant};
use act_core::Failure;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Shown {
    pub component: ComponentDocument,
    /// Imports ∩ needs ∩ grants ∩ ceiling; none where it cannot be loaded.
    #[cfg_attr(
        test,
        schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>")
    )]
    pub effective: Option<Grant>,
    pub effective_sha256: Option<String>,
    /// To the Editor's model; null where its bytes are not there.
    pub says: Option<Said>,
    pub used: UsedDocument,
    /// Granted, and not used in the tasks that were looked at; empty where it had no query in them.
    pub never_used: Vec<String>,
    /// The command that would take those away.
    pub can_be_narrowed_with: Option<String>,
}

/// In the last tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsedDocument {
    /// Tasks that it had a query in, of the last 20.
    pub tasks: u64,
    pub queries: u64,
    pub grants: Vec<String>,
    /// Entries of the root that it read in; null where they are too many to tell.
    pub parts: Option<Vec<String>>,
    pub origins: Vec<String>,
    pub env: Vec<String>,
    /// The most that one query needed.
    pub most_calls: u64,
    pub most_tokens: u64,
    pub denials: u64,
}

pub fn show(start: &Path, name: &str) -> Result<Shown, Failure> {
    let here = Here::open(start)?;
    let component = here.document(name, &used(ALL))?;
    let past = past_of(&component);
    let effective = match component.state {
        State::Builtin | State::Approved => {
            let inspection = here.inspection(name)?;
            Some(here.registry.parties(&inspection, &component.grants).effective())
        }
        _ => None,
    };
    let says = here.inspection(name).ok().map(|found| Said::of(&found.manifest));
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

/// These bytes in the last tasks. In the place of a built-in one it has that one's name there.
pub(super) fn past_of(component: &ComponentDocument) -> UsageHistory {
    let name = component.replaces.as_ref().unwrap_or(&component.name);
    used(LAST).remove(&(name.clone(), component.sha256.clone())).unwrap_or_default()
}

/// Nothing can be said of one that was never asked.
pub(super) fn never_used(grant: &Grant, past: &UsageHistory) -> Vec<String> {
    let unused = |capability: &Capability| {
        past.queries > 0 && grant.has(*capability) && !past.grants.contains(capability.name())
    };
    Capability::ALL.into_iter().filter(unused).map(|one| one.name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_one_component_is_published() {
        // EVENT-8
        schema::holds::<Shown>("components-show");
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
        assert_eq!(never_used(&grant, &asked), ["llm"]);
    }
}
