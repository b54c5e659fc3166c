//! The list of `act components`: every component that is built in, approved, or requested by the repository, with its
//! state and the permissions that it used in earlier tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use serde::{Deserialize, Serialize};

use bytes::Bytes;

use super::{Approval, DevComponent, Registry, Source, StoreError, kind};
use act_core::Document;

use crate::{Ceiling, Grant, Inspection, Kind, Need, builtin};
use act_config::ComponentRequest;
use act_workspace::digest;

/// Maximum number of bytes that are read of one journal.
const MAX_JOURNAL_BYTES: u64 = 256 << 20;
const MAX_LINE: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ComponentList {
    pub components: Vec<ComponentDocument>,
}

impl Document for ComponentList {
    const NAME: &'static str = "components";
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ComponentDocument {
    pub name: String,
    pub kind: Kind,
    pub state: State,
    /// Digest of the approved or built-in component; of the requested one if none is approved.
    pub sha256: String,
    /// Digest of the bytes that were found instead of the approved ones; null when they are equal.
    pub found: Option<String>,
    pub world: String,
    pub version: Option<String>,
    pub about: Option<String>,
    /// The built-in component that it replaces.
    pub replaces: Option<String>,
    /// Where the approval holds: in `all` repositories, `here` only, or `elsewhere` only.
    pub scope: &'static str,
    pub approved_at: Option<String>,
    pub revoked_at: Option<String>,
    /// The registry from which the approved bytes were fetched; null for a file.
    pub source: Option<Source>,
    pub imports: Vec<String>,
    pub needs: Vec<Need>,
    /// The effective grant of each capability, by its name.
    #[cfg_attr(
        any(test, feature = "testing"),
        schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")
    )]
    pub grants: Grant,
    /// The permissions that the user removed from this name, by capability. They stay removed for later versions of the
    /// component, until `approve --anew`.
    #[cfg_attr(
        any(test, feature = "testing"),
        schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")
    )]
    pub narrowed: Ceiling,
    /// Names of the tools as the Editor's model sees them.
    pub tools: Vec<String>,
    /// Time of the last use that a stored journal records, in UTC.
    pub last_used: Option<String>,
    pub denials: u64,
}

/// The state of a component, as every listing shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The component is part of this program.
    Builtin,
    /// The user approved the component, and its bytes are in the store.
    Approved,
    /// The bytes in the store, in the file or in the request of the repository differ from the approved ones.
    Changed,
    /// The repository requests the component, and it is not approved here.
    Unapproved,
    /// The component is of a development session (`act components watch --dev`) that runs for this repository.
    Dev,
    /// The user revoked the approval.
    Revoked,
    /// The component is approved, and its bytes are missing.
    Missing,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Approved => "approved",
            Self::Changed => "changed",
            Self::Unapproved => "unapproved",
            Self::Dev => "dev",
            Self::Revoked => "revoked",
            Self::Missing => "missing",
        }
    }

    /// The state of an approved component. `error` is why the store does not return its bytes, and `asked` are the digests
    /// of the repository's requests for its name and of the files that they name.
    fn of_approved(
        sha256: &str,
        is_revoked: bool,
        error: Option<&StoreError>,
        asked: &[&str],
    ) -> Self {
        match error {
            _ if is_revoked => Self::Revoked,
            _ if asked.iter().any(|asked| *asked != sha256) => Self::Changed,
            Some(StoreError::Missing) => Self::Missing,
            Some(StoreError::Changed(_) | StoreError::Unreadable(_)) => Self::Changed,
            None => Self::Approved,
        }
    }
}

type History = BTreeMap<(String, String), UsageHistory>;

/// Lists the built-in components, then the approved ones, then those that are only requested.
pub fn list(
    registry: &Registry,
    requests: &[ComponentRequest],
    history: &History,
) -> ComponentList {
    let mut components: Vec<_> = builtin::ALL
        .into_iter()
        .filter_map(|one| {
            Some(describe_builtin(registry, one.name, &Inspection::of_builtin(one).ok()?))
        })
        .collect();
    for approval in &registry.grants.approvals {
        let stored = registry.store.load(&approval.sha256).map(Bytes::from);
        components.push(describe_approval(registry, approval, stored, requests));
    }
    for DevComponent { approval, bytes } in &registry.dev {
        let document = describe_approval(registry, approval, bytes.clone(), &[]);
        let state = if document.state == State::Approved { State::Dev } else { document.state };
        components.push(ComponentDocument { state, ..document });
    }
    for request in requests {
        let approval = registry.grants.get(&request.name);
        if approval.is_none_or(|approval| !registry.is_in_scope(approval)) {
            components.push(describe_request(registry, request));
        }
    }
    for component in &mut components {
        // Tasks know a component that replaces a built-in one by the name of the latter.
        let name = component.replaces.as_ref().unwrap_or(&component.name);
        if let Some(usage) = history.get(&(name.clone(), component.sha256.clone())) {
            component.last_used.clone_from(&usage.last_used);
            component.denials = usage.denials;
        }
    }
    ComponentList { components }
}

fn describe_builtin(registry: &Registry, name: &str, inspection: &Inspection) -> ComponentDocument {
    let grant = match inspection.kind() {
        Kind::Scout => Grant::builtin_scout(),
        Kind::Tool => Grant::builtin_tool(),
    };
    ComponentDocument {
        grants: registry.parties(inspection, &grant).effective(),
        ..describe(name, State::Builtin, inspection, name)
    }
}

fn describe_approval(
    registry: &Registry,
    approval: &Approval,
    stored: Result<Bytes, StoreError>,
    requests: &[ComponentRequest],
) -> ComponentDocument {
    let name = approval.name.as_str();
    let in_scope = registry.is_in_scope(approval);
    let asked: Vec<String> = requests
        .iter()
        .filter(|request| in_scope && request.name == name)
        .flat_map(|request| {
            let file = registry.file_bytes(request).map(|bytes| digest(&bytes));
            [Some(request.sha256.clone()), file]
        })
        .flatten()
        .collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let (sha256, is_revoked) = (approval.sha256.as_str(), approval.revoked_at.is_some());
    let state = State::of_approved(sha256, is_revoked, stored.as_ref().err(), &asked);
    let found = match &stored {
        Err(StoreError::Changed(found)) => Some(found.to_string()),
        _ => asked.iter().find(|asked| **asked != sha256).map(|asked| (*asked).to_owned()),
    };
    let known_by = approval.replaces.as_ref().map_or(name, |replaced| replaced.as_str());
    let inspection = stored.ok().and_then(|bytes| Inspection::of(bytes).ok());
    let document = match &inspection {
        Some(inspection) => describe(name, state, inspection, known_by),
        None => without_bytes(name, approval.kind, state, sha256),
    };
    ComponentDocument {
        found,
        replaces: approval.replaces.as_ref().map(ToString::to_string),
        scope: match (&approval.repo, in_scope) {
            (None, _) => "all",
            (Some(_), true) => "here",
            (Some(_), false) => "elsewhere",
        },
        approved_at: Some(approval.approved_at.clone()),
        revoked_at: approval.revoked_at.clone(),
        source: approval.source.clone(),
        grants: approval.grants.clone(),
        narrowed: approval.narrowed.clone(),
        ..document
    }
}

fn describe_request(registry: &Registry, request: &ComponentRequest) -> ComponentDocument {
    let (name, state) = (&request.name, State::Unapproved);
    let bytes = registry.file_bytes(request);
    let document = match bytes.and_then(|bytes| Inspection::of_stranger(bytes).ok()) {
        Some(inspection) => describe(name, state, &inspection, name),
        None => without_bytes(name, kind(request.kind), state, &request.sha256),
    };
    ComponentDocument {
        found: Some(document.sha256.clone()).filter(|found| *found != request.sha256),
        sha256: request.sha256.clone(),
        replaces: request.replaces.clone(),
        scope: "here",
        ..document
    }
}

/// Describes a component whose bytes are in the store. `known_by` is its name in tasks, which is a part of the names of its
/// tools.
fn describe(
    name: &str,
    state: State,
    inspection: &Inspection,
    known_by: &str,
) -> ComponentDocument {
    let manifest = &inspection.manifest;
    // The tools of the file tools have plain names, which no other component can take.
    let tool = |tool: &act_model::ToolSpec| match known_by == builtin::FILE_TOOLS.name {
        true => tool.name.clone(),
        false => format!("{known_by}__{}", tool.name),
    };
    ComponentDocument {
        version: Some(manifest.version.clone()),
        about: Some(manifest.about.clone()),
        world: manifest.world().to_owned(),
        imports: inspection.imports.clone(),
        needs: manifest.needs.clone(),
        tools: manifest.tools.iter().map(tool).collect(),
        ..without_bytes(name, manifest.kind, state, &inspection.sha256)
    }
}

fn without_bytes(name: &str, kind: Kind, state: State, sha256: &str) -> ComponentDocument {
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
        source: None,
        imports: vec![],
        needs: vec![],
        grants: Grant::default(),
        narrowed: Ceiling::default(),
        tools: vec![],
        last_used: None,
        denials: 0,
    }
}

/// The permissions that one component used in a number of tasks, read from their journals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageHistory {
    pub queries: u64,
    pub tasks: u64,
    /// Time of the last use, ISO 8601 in UTC.
    pub last_used: Option<String>,
    pub denials: u64,
    /// Names of the grants that were used.
    pub grants: BTreeSet<String>,
    /// Entries of the repository's root in which files were read; `*` if a journal did not list them.
    pub parts: Option<BTreeSet<String>>,
    pub origins: BTreeSet<String>,
    pub env: BTreeSet<String>,
    /// Maximum number of model calls in one query.
    pub most_calls: u64,
    /// Maximum number of model tokens in one query.
    pub most_tokens: u64,
}

/// The fields of a `component_used` line that count here.
#[derive(Deserialize)]
struct ComponentUsed {
    #[serde(default)]
    time: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    sha256: String,
    #[serde(default)]
    grants: Vec<String>,
    #[serde(default)]
    files: u64,
    #[serde(default)]
    parts: Vec<String>,
    #[serde(default)]
    model_calls: u64,
    #[serde(default)]
    model_tokens: u64,
    #[serde(default)]
    origins: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    denials: u64,
}

/// Adds up the usage of all components, by name and digest. Each journal is that of one task; an unreadable journal
/// adds nothing.
pub fn usage_history(journals: impl IntoIterator<Item = File>) -> History {
    let mut all = BTreeMap::new();
    for journal in journals {
        let mut seen = BTreeSet::new();
        for_each_use(journal, |used| {
            let key = (used.name.clone(), used.sha256.clone());
            let usage: &mut UsageHistory = all.entry(key.clone()).or_default();
            usage.tasks += u64::from(seen.insert(key));
            usage.add(used);
        });
    }
    all
}

impl UsageHistory {
    fn add(&mut self, used: ComponentUsed) {
        let parts = self.parts.get_or_insert_default();
        if used.files > 0 && used.parts.is_empty() {
            // No name of an entry is `*`, so the parts stay unknown from now on.
            parts.insert("*".to_owned());
        }
        parts.extend(used.parts);
        self.queries += 1;
        self.denials += used.denials;
        self.grants.extend(used.grants);
        self.origins.extend(used.origins);
        self.env.extend(used.env);
        self.most_calls = self.most_calls.max(used.model_calls);
        self.most_tokens = self.most_tokens.max(used.model_tokens);
        self.last_used = self.last_used.take().max(Some(used.time));
    }

    /// The entries of the root in which all files were read; `None` if they are not known.
    pub fn known_parts(&self) -> Option<&BTreeSet<String>> {
        self.parts.as_ref().filter(|parts| !parts.contains("*") && !parts.is_empty())
    }
}

fn for_each_use(journal: File, mut each: impl FnMut(ComponentUsed)) {
    const TYPE: &[u8] = b"\"component_used\"";
    let mut reader = BufReader::new(journal.take(MAX_JOURNAL_BYTES));
    let mut bytes = vec![];
    loop {
        bytes.clear();
        match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes) {
            Ok(1..) => {}
            _ => return,
        }
        // Few lines have this type, and to parse the others would take far longer than this search.
        if !bytes.windows(TYPE.len()).any(|window| window == TYPE) {
            continue;
        }
        if let Ok(used) = serde_json::from_slice::<ComponentUsed>(&bytes)
            && used.kind == "component_used"
        {
            each(used);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;
    use act_core::event::schema;

    // CAPABILITY-26
    #[test]
    fn only_the_approved_bytes_are_approved() {
        let changed = StoreError::Unreadable("it is a link".to_owned());
        for (error, revoked, asked, is) in [
            (None, false, &["a", "a"][..], State::Approved),
            (None, false, &[], State::Approved),
            (None, false, &["b"], State::Changed),
            (None, false, &["a", "b"], State::Changed),
            (Some(&changed), false, &["a"], State::Changed),
            (Some(&StoreError::Missing), false, &["a"], State::Missing),
            (None, true, &["a"], State::Revoked),
            (Some(&StoreError::Missing), true, &["b"], State::Revoked),
        ] {
            assert_eq!(State::of_approved("a", revoked, error, asked), is, "{error:?} {asked:?}");
        }
    }

    #[test]
    fn the_schema_of_the_list_is_published() {
        // EVENT-8
        schema::document_holds::<ComponentList>();
    }

    fn journal(lines: &[&str]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(lines.join("\n").as_bytes()).unwrap();
        file.rewind().unwrap();
        file
    }

    // CAPABILITY-30
    #[test]
    fn what_was_used_is_added_up_over_tasks() {
        let used = |time: &str, more: &str| {
            format!(
                r#"{{"time":"{time}","type":"component_used","name":"x","sha256":"aa",{more}}}"#
            )
        };
        let first = used(
            "2026-11-20",
            r#""grants":["repo.read"],"files":2,"parts":["src"],"model_calls":3"#,
        );
        let second = used(
            "2026-11-21",
            r#""grants":["llm"],"files":1,"parts":["docs"],"denials":2,"model_calls":1"#,
        );
        let journals = [
            journal(&[
                &first,
                "not json \"component_used\"",
                &first,
                r#"{"type":"edit","path":"\"component_used\""}"#,
            ]),
            journal(&[&second]),
        ];
        let all = usage_history(journals);
        assert_eq!(all.len(), 1);
        let x = &all[&("x".to_owned(), "aa".to_owned())];
        assert_eq!((x.queries, x.tasks, x.denials, x.most_calls), (3, 2, 2, 3));
        assert_eq!(x.last_used.as_deref(), Some("2026-11-21"));
        assert_eq!(x.grants.iter().collect::<Vec<_>>(), ["llm", "repo.read"]);
        assert_eq!(x.known_parts().unwrap().iter().collect::<Vec<_>>(), ["docs", "src"]);
        let many = used("2026-11-22", r#""files":99,"parts":[]"#);
        assert_eq!(
            usage_history([journal(&[&first, &many])]).values().next().unwrap().known_parts(),
            None
        );
    }
}
