//! What is new at an approval, in comparison with what had the name before: the code, every word of the manifest,
//! and what the user had decided (pure).

use std::collections::BTreeMap;

use serde::Serialize;

use act_component::{Grant, Inspection, Manifest, Need, code_sha256};

/// What is new in comparison with the approval that had the name before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference {
    pub before: String,
    pub version_before: Option<String>,
    /// What is not the manifest has other bytes.
    pub code_changed: bool,
    pub imports_added: Vec<String>,
    pub imports_removed: Vec<String>,
    pub needs_added: Vec<Need>,
    pub needs_removed: Vec<Need>,
    /// Every other word of the manifest: `about`, `tools.NAME.description`, `report`.
    pub manifest: Vec<FieldChange>,
    /// Grants, limits, what is withheld, where it holds.
    pub approval: Vec<FieldChange>,
    /// The bytes that were approved before are not there any more, so that only digests and approvals can be
    /// compared.
    pub unknown: bool,
}

/// Null is what is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldChange {
    pub field: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// An approval, as far as it can differ from another one.
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
    /// Neither other bytes nor other terms.
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
            .map_or("every repository".to_owned(), |repo| format!("repository {repo} alone"));
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
