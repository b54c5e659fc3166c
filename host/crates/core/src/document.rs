//! The JSON documents that commands print, as `specs/documents.md` describes them.
//!
//! - [`Document`]: a type that is printed whole, with the name of its schema.
//! - [`Repo`]: the repository of a document or of a task in it, in one shape everywhere.
//! - [`Schema`]: the version of the documents that the caller wants. [`Schema::to_json`] writes a document in that version,
//!   and is the only place that knows how the older one looked.

use std::ffi::OsStr;

use serde::Serialize;
use serde_json::{Value, json};

use crate::Failure;

/// A JSON document that a command prints.
pub trait Document: Serialize {
    /// Name of its schema, which is `specs/schemas/NAME.json`.
    const NAME: &'static str;
}

/// A repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Repo {
    /// Path of its root; null where only its identity is recorded.
    pub path: Option<String>,
    /// Identity of the root directory, equal for every path that leads to it; null where only the path is recorded.
    pub identity: Option<String>,
    /// The commit of `HEAD`: now, or for a task and a run the one at its start. Null before the first commit, without git, and
    /// where it is not recorded, as for a task that has not started.
    pub head: Option<String>,
    /// True if files differed from that commit: changed, deleted, or not committed yet, without ignored ones. Null without a
    /// commit, where it is not recorded, and where the comparison is not possible or takes too long.
    pub dirty: Option<bool>,
}

impl Repo {
    /// Returns the path of its root, which is empty where it is not known.
    pub fn root(&self) -> &str {
        self.path.as_deref().unwrap_or_default()
    }
}

/// The version of the documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Schema {
    /// The documents of 0.1.0 and of the versions of 0.2.0 before its release. They do not name their version.
    First,
    #[default]
    Second,
}

impl Schema {
    /// The environment variable with the number of the version.
    pub const VARIABLE: &'static str = "ACT_JSON_SCHEMA";
    /// The number in every document of the second version.
    pub const NUMBER: u32 = 2;

    /// Returns the version that the value of [`Schema::VARIABLE`] asks for. An empty value counts as none.
    ///
    /// # Errors
    ///
    /// The value is no version; exit code 2.
    pub fn asked_for(value: Option<&OsStr>) -> Result<Self, Failure> {
        match value.map(OsStr::as_encoded_bytes) {
            None | Some(b"" | b"2") => Ok(Self::Second),
            Some(b"1") => Ok(Self::First),
            Some(other) => {
                let (name, value) = (Self::VARIABLE, String::from_utf8_lossy(other));
                Err(Failure::usage(format!("{name} is {value:?}, which is no version of the JSON"))
                    .hint("unset it for version 2, or set it to 1 for the shapes before 0.2.0"))
            }
        }
    }

    /// Writes a document in this version, on one line.
    pub fn to_json<T: Document>(self, document: &T) -> String {
        // Serialisation fails only for maps whose keys are not text.
        match self {
            Self::Second => serde_json::to_string(&Versioned::of(document)),
            Self::First => serde_json::to_value(document).map(|mut value| {
                FIRST
                    .iter()
                    .filter(|(name, ..)| *name == T::NAME)
                    .for_each(|(_, field, was)| change(&mut value, field, *was));
                value.to_string()
            }),
        }
        .unwrap_or_default()
    }
}

/// A document of the second version, with the number before its fields.
#[derive(Debug, Serialize)]
pub struct Versioned<'a, T> {
    schema: u32,
    #[serde(flatten)]
    document: &'a T,
}

impl<'a, T: Serialize> Versioned<'a, T> {
    /// Returns the document, which is an object, with its version.
    pub fn of(document: &'a T) -> Self {
        Self { schema: Schema::NUMBER, document }
    }
}

/// What a field of the second version was in the first one.
#[derive(Debug, Clone, Copy)]
enum Was {
    Absent,
    /// The number of its items.
    Count,
    /// A field of another name.
    Named(&'static str),
    /// The path of the repository.
    Path,
    /// The repository with its path as `root`, and its identity.
    RootAndIdentity,
    /// The repository with its identity and its commit, as in the audit log.
    IdentityAndHead,
}

/// The differences between the versions: the name of a document, a field in it (`*` is every item of a list), and what the
/// field was. Every other field is equal in both.
const FIRST: &[(&str, &str, Was)] = &[
    ("status", "repo", Was::RootAndIdentity),
    ("status", "running.repo", Was::Path),
    ("status", "last.repo", Was::Path),
    ("status", "queued", Was::Count),
    ("status", "queued_count", Was::Absent),
    ("queue", "repo", Was::RootAndIdentity),
    ("queue", "running.repo", Was::Path),
    ("queue", "queued.*.repo", Was::Path),
    ("queue", "queued_count", Was::Absent),
    ("history", "tasks.*.repo", Was::Path),
    ("hook", "repo", Was::Path),
    ("cache", "caches.*.repo_key", Was::Named("repo")),
    ("cache", "cleared.*.repo_key", Was::Named("repo")),
    ("cache", "bases.*.repo", Was::Path),
    ("cache", "cleared_bases.*.repo", Was::Path),
    ("cache", "on_engine.*.repo_key", Was::Named("repo")),
    ("cache", "cleared_on_engine.*.repo_key", Was::Named("repo")),
    ("audit-explain", "repo", Was::IdentityAndHead),
];

/// Changes a field to what it was. A field that is missing or null stays so.
fn change(value: &mut Value, field: &str, was: Was) {
    match (field.split_once('.'), value) {
        (Some(("*", rest)), Value::Array(items)) => {
            items.iter_mut().for_each(|item| change(item, rest, was));
        }
        (Some((name, rest)), Value::Object(fields)) => {
            if let Some(inside) = fields.get_mut(name) {
                change(inside, rest, was);
            }
        }
        (None, Value::Object(fields)) => {
            // The other fields keep their order.
            let before = std::mem::take(fields);
            fields.extend(before.into_iter().filter_map(|(name, value)| match name == field {
                true => was.of(name, value),
                false => Some((name, value)),
            }));
        }
        _ => {}
    }
}

impl Was {
    fn of(self, name: String, value: Value) -> Option<(String, Value)> {
        let part = |of: &Value, name: &str| of.get(name).cloned().unwrap_or_default();
        let value = match self {
            Self::Absent => return None,
            Self::Named(name) => return Some((name.to_owned(), value)),
            _ if value.is_null() => value,
            Self::Count => json!(value.as_array().map(Vec::len)),
            Self::Path => part(&value, "path"),
            Self::RootAndIdentity => {
                json!({"root": part(&value, "path"), "identity": part(&value, "identity")})
            }
            Self::IdentityAndHead => {
                json!({"identity": part(&value, "identity"), "head": part(&value, "head")})
            }
        };
        Some((name, value))
    }
}

/// Adds the version to the JSON Schema of a document, as [`Schema::to_json`] adds it to the document.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn with_version(schema: &mut serde_json::Map<String, Value>) {
    let version = json!({
        "description": "Version of the documents; `specs/documents.md` describes it.",
        "type": "integer",
        "const": Schema::NUMBER,
    });
    schema.entry("type").or_insert_with(|| json!("object"));
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.shift_insert(0, "schema".to_owned(), version);
    }
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        required.insert(0, json!("schema"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[derive(Serialize)]
    struct Status {
        repo: Repo,
        running: Option<Task>,
        queued: Vec<Task>,
        queued_count: usize,
        last: Option<Task>,
    }

    #[derive(Serialize)]
    struct Task {
        repo: Repo,
        text: &'static str,
    }

    impl Document for Status {
        const NAME: &'static str = "status";
    }

    fn repo() -> Repo {
        let (path, identity) = (Some("/r".into()), Some("1:2".into()));
        Repo { path, identity, head: Some("c0ffee".into()), dirty: Some(true) }
    }

    fn task() -> Task {
        Task { repo: repo(), text: "fix" }
    }

    // JSON-1, JSON-2, JSON-3
    #[test]
    fn a_document_begins_with_its_version_and_names_its_repository_in_one_shape() {
        let status = Status {
            repo: repo(),
            running: None,
            queued: vec![task()],
            queued_count: 1,
            last: None,
        };
        let repo = r#"{"path":"/r","identity":"1:2","head":"c0ffee","dirty":true}"#;
        assert_eq!(
            Schema::Second.to_json(&status),
            format!(
                r#"{{"schema":2,"repo":{repo},"running":null,"queued":[{{"repo":{repo},"text":"fix"}}],"queued_count":1,"last":null}}"#
            )
        );
    }

    // JSON-5
    #[test]
    fn the_first_version_has_its_old_fields_in_their_old_order() {
        let status = Status {
            repo: repo(),
            running: None,
            queued: vec![task(), task()],
            queued_count: 2,
            last: Some(task()),
        };
        assert_eq!(
            Schema::First.to_json(&status),
            r#"{"repo":{"root":"/r","identity":"1:2"},"running":null,"queued":2,"last":{"repo":"/r","text":"fix"}}"#
        );
    }

    // JSON-5
    #[test]
    fn a_field_of_another_name_keeps_its_place_and_a_missing_one_stays_missing() {
        let mut value =
            json!({"caches": [{"image": "i", "repo_key": "r-1", "bytes": 1}], "bytes": 1});
        for (_, field, was) in FIRST.iter().filter(|(name, ..)| *name == "cache") {
            change(&mut value, field, *was);
        }
        let expected = r#"{"caches":[{"image":"i","repo":"r-1","bytes":1}],"bytes":1}"#;
        assert_eq!(value.to_string(), expected);
        let mut null = json!({"repo": null});
        change(&mut null, "repo", Was::IdentityAndHead);
        assert_eq!(null, json!({"repo": null}));
    }

    // JSON-6
    #[test]
    fn a_value_that_is_no_version_is_a_usage_error_that_names_the_ways_out() {
        let asked = |value: &str| Schema::asked_for(Some(OsStr::new(value)));
        assert_eq!(Schema::asked_for(None), Ok(Schema::Second));
        assert_eq!((asked(""), asked("2")), (Ok(Schema::Second), Ok(Schema::Second)));
        assert_eq!(asked("1"), Ok(Schema::First));
        for wrong in ["0", "3", "01", " 1", "one", "1\n"] {
            let failure = asked(wrong).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{wrong:?}");
            assert!(failure.message.starts_with("ACT_JSON_SCHEMA is "), "{failure}");
            assert!(failure.hint.unwrap().contains("unset it"), "{wrong:?}");
        }
    }
}
