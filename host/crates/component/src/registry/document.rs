//! Components as programs read them; the shape of `act components --json`.

use serde::Serialize;

use super::State;
use crate::{Ceiling, Grant, Kind, Need};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ComponentList {
    pub components: Vec<ComponentDocument>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ComponentDocument {
    pub name: String,
    pub kind: Kind,
    pub state: State,
    /// Approved, or of the program's own; asked for where nothing is approved.
    pub sha256: String,
    /// What stands in its place, where that is something else.
    pub found: Option<String>,
    pub world: String,
    pub version: Option<String>,
    pub about: Option<String>,
    /// The built-in component whose place it takes.
    pub replaces: Option<String>,
    /// `all` repositories, `here` alone, or only `elsewhere`.
    pub scope: &'static str,
    pub approved_at: Option<String>,
    pub revoked_at: Option<String>,
    pub imports: Vec<String>,
    pub needs: Vec<Need>,
    /// By the name of the grant.
    #[cfg_attr(
        any(test, feature = "testing"),
        schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")
    )]
    pub grants: Grant,
    /// By the name of the grant: what stays away from this name, whatever its bytes need, until `approve --anew`.
    #[cfg_attr(
        any(test, feature = "testing"),
        schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")
    )]
    pub narrowed: Ceiling,
    /// Names as the Editor's model knows them.
    pub tools: Vec<String>,
    /// UTC; as far as journals are kept.
    pub last_used: Option<String>,
    pub denials: u64,
}

#[cfg(test)]
mod tests {
    use act_core::event::schema;

    #[test]
    fn the_schema_of_the_list_is_published() {
        // EVENT-8
        schema::holds::<super::ComponentList>("components");
        // What is left of the one that it was about.
        schema::holds::<super::ComponentDocument>("components-narrow");
        schema::holds::<super::ComponentDocument>("components-revoke");
    }
}
