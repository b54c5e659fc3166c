//! The manifest of a component: its kind, its needs and the tools that it offers. It is read without running the component.
//!
//! The digest of a component covers its manifest, so a description that reaches the model cannot change after the approval.
//! Unknown fields are refused instead of ignored.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::admission::{Need, grant_names};
use crate::capability::{Capability, Import};
use crate::foreign::docs::Docs;
use crate::foreign::{self, Function, LeftOut};
use crate::inspect::{NotAComponent, Sections, malformed};
use crate::limits::{MAX_MEMORY, MAX_WALL_MS};
use act_core::{SchemaBoundsError, is_hidden};
use act_model::ToolSpec;

const MAX_BYTES: usize = 256 << 10;
const MAX_NEEDS: usize = 16;
const MAX_LIST: usize = 64;
const MAX_TOOLS: usize = 64;
const MAX_NAME: usize = 40;
const MAX_VERSION: usize = 64;
const MAX_SENTENCE: usize = 1000;

/// The kind of a component is what it exports; its manifest must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Answers questions and can never change a file.
    Scout,
    /// Gives the Editor tools.
    Tool,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Scout => "scout",
            Self::Tool => "tool",
        }
    }

    pub fn world(self) -> &'static str {
        match self {
            Self::Scout => "agentcommand:worlds/scout@1.2.0",
            Self::Tool => "agentcommand:worlds/tool@1.2.0",
        }
    }

    pub(crate) fn export(self) -> &'static str {
        match self {
            Self::Scout => "agentcommand:scout/scout@1.0.0",
            Self::Tool => "agentcommand:tool/tool@1.0.0",
        }
    }
}

/// Limits that the author suggests; they only ever narrow the grant's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SuggestedLimits {
    pub memory_mb: Option<u64>,
    pub wall_ms: Option<u64>,
}

impl SuggestedLimits {
    /// Refuses a limit of 0, and one above the maximum of a grant. Both are mistakes.
    fn check(&self) -> Result<(), ManifestError> {
        for (field, limit, max) in [
            ("limits.memory_mb", self.memory_mb, MAX_MEMORY >> 20),
            ("limits.wall_ms", self.wall_ms, MAX_WALL_MS),
        ] {
            if let Some(limit) = limit.filter(|limit| !(1..=max).contains(limit)) {
                return Err(wrong(field, format!("{limit} is not from 1 to {max}")));
            }
        }
        Ok(())
    }
}

/// The manifest after all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub kind: Kind,
    pub name: String,
    pub version: String,
    pub about: String,
    pub needs: Vec<Need>,
    pub limits: SuggestedLimits,
    /// The tools of a tool component, with their schemas as the author wrote them.
    pub tools: Vec<ToolSpec>,
    /// The names of the tools that change no file. A call of one of them has no way to edit.
    pub read_only: BTreeSet<String>,
    /// The JSON Schema of a Scout's report.
    pub report: Option<String>,
    /// The functions of a foreign component. They are read from its type, and `tools` is made from them.
    pub(crate) functions: Vec<Function>,
    /// Functions of a foreign component that are not offered as tools.
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error(transparent)]
    NotAComponent(#[from] NotAComponent),
    #[error("its manifest is {0} bytes large, over the limit of {MAX_BYTES}")]
    TooLarge(usize),
    #[error("its manifest cannot be read: {0}")]
    Json(String),
    #[error(
        "its manifest holds text that is not shown as it is: {0}; leave control characters out"
    )]
    Hidden(String),
    #[error("its manifest has a wrong `{field}`: {why}")]
    Field { field: &'static str, why: String },
    #[error("it exports no function that could be a tool{}", why_not(.0))]
    NoFunction(Vec<LeftOut>),
}

fn why_not(left_out: &[LeftOut]) -> String {
    let few = left_out.iter().take(3);
    few.map(|one| format!("; `{}`: {}", one.function, one.why)).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestJson {
    kind: Kind,
    name: String,
    version: String,
    about: String,
    needs: Vec<Need>,
    #[serde(default)]
    limits: SuggestedLimits,
    tools: Option<Vec<ToolJson>>,
    report: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolJson {
    name: String,
    description: String,
    /// The tool changes no file.
    #[serde(default)]
    read_only: bool,
    parameters: Box<RawValue>,
}

impl Manifest {
    /// Reads the manifest of a component. Without a manifest, or without tools in it, the exported functions are the tools of
    /// the component, unless it exports an interface of ours.
    pub(crate) fn of(component: &[u8], sections: &Sections<'_>) -> Result<Self, ManifestError> {
        let written = match sections.manifest() {
            Ok(section) => Some(Self::parse(section)?),
            Err(NotAComponent::NoManifest) => None,
            Err(error) => return Err(error.into()),
        };
        match written {
            Some(manifest) if manifest.kind == Kind::Scout || !manifest.tools.is_empty() => {
                Ok(manifest)
            }
            written => Self::of_functions(component, sections, written),
        }
    }

    fn of_functions(
        component: &[u8],
        sections: &Sections<'_>,
        written: Option<Self>,
    ) -> Result<Self, ManifestError> {
        let exports = &sections.exports;
        if exports.iter().any(|export| Import::parse(export).is_ours()) {
            return Err(match written {
                None => NotAComponent::NoManifest.into(),
                Some(_) => wrong("tools", "a tool component has at least one"),
            });
        }
        let found = foreign::read(component, exports, &Docs::read(sections.docs));
        let found = found.map_err(malformed)?;
        if found.functions.is_empty() {
            return Err(match (written, found.left_out.is_empty()) {
                (None, true) => NotAComponent::NoManifest.into(),
                _ => ManifestError::NoFunction(found.left_out),
            });
        }
        let manifest = written.unwrap_or_else(Self::bare);
        let needs_files =
            manifest.needs.iter().any(|need| need.grant == Capability::RepoRead.name());
        let imports_files = |import: &String| import.starts_with("wasi:filesystem/");
        let sees_files = needs_files && sections.imports.iter().any(imports_files);
        Ok(Self {
            tools: foreign::tools(&found.functions, sees_files),
            functions: found.functions,
            left_out: found.left_out,
            ..manifest
        })
    }

    /// The manifest of a component whose author wrote none.
    pub(crate) fn bare() -> Self {
        Self {
            kind: Kind::Tool,
            name: "unnamed".to_owned(),
            version: "0".to_owned(),
            about: "It has no manifest; its functions are its tools.".to_owned(),
            needs: vec![],
            limits: SuggestedLimits::default(),
            tools: vec![],
            read_only: BTreeSet::new(),
            report: None,
            functions: vec![],
            left_out: vec![],
        }
    }

    /// The name that the author gave to a component, for messages about one that is refused. `None` if the manifest cannot
    /// be read.
    pub(crate) fn author(component: &[u8]) -> Option<String> {
        let sections = Sections::of(component).ok()?;
        Some(Self::of(component, &sections).ok()?.name)
    }

    /// Returns whether the component is foreign: its tools are exported functions instead of the interface `tool`.
    pub fn is_foreign(&self) -> bool {
        !self.functions.is_empty()
    }

    pub fn world(&self) -> &'static str {
        if self.is_foreign() { foreign::WORLD } else { self.kind.world() }
    }

    /// Refuses a need for a grant that this program does not have. A component that was packed for a newer version may have
    /// one, so this is no mistake of a manifest that is read, and admission refuses it.
    ///
    /// # Errors
    ///
    /// [`ManifestError::Field`] for the first such need.
    pub(crate) fn check_grants(&self) -> Result<(), ManifestError> {
        let is_known = |need: &&Need| {
            Capability::named(&need.grant).is_some_and(|one| one != Capability::Sockets)
        };
        match self.needs.iter().find(|need| !is_known(need)) {
            None => Ok(()),
            Some(need) => {
                let why = format!(
                    "`{}` is not a grant; the grants are {}",
                    need.grant.escape_debug(),
                    grant_names()
                );
                Err(wrong("needs.grant", why))
            }
        }
    }

    /// Parses the text of a manifest, which need not be part of a component yet.
    ///
    /// # Errors
    ///
    /// A [`ManifestError`] that names the field and the rule that it breaks.
    pub fn parse(section: &[u8]) -> Result<Self, ManifestError> {
        if section.len() > MAX_BYTES {
            return Err(ManifestError::TooLarge(section.len()));
        }
        let json = |error: serde_json::Error| ManifestError::Json(error.to_string());
        let written: ManifestJson = serde_json::from_slice(section).map_err(json)?;
        let manifest = written.check()?;
        // The user approves the text that a terminal shows, and the model reads the text in the file. The two must be equal.
        let value: serde_json::Value = serde_json::from_slice(section).map_err(json)?;
        if let Some(text) = with_hidden_text(&value) {
            return Err(ManifestError::Hidden(text.escape_default().take(80).collect()));
        }
        Ok(manifest)
    }
}

/// Finds a string, or a name of a field, with characters that a terminal does not show as they are.
fn with_hidden_text(value: &serde_json::Value) -> Option<&str> {
    use serde_json::Value;
    let hides = |text: &&str| text.chars().any(|c| is_hidden(c) && !matches!(c, '\n' | '\t'));
    match value {
        Value::String(text) => Some(text.as_str()).filter(hides),
        Value::Array(items) => items.iter().find_map(with_hidden_text),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            Some(name.as_str()).filter(hides).or_else(|| with_hidden_text(value))
        }),
        _ => None,
    }
}

impl ManifestJson {
    fn check(self) -> Result<Manifest, ManifestError> {
        check_name("name", &self.name, '-')?;
        check_length("version", &self.version, MAX_VERSION)?;
        check_length("about", &self.about, MAX_SENTENCE)?;
        if self.needs.len() > MAX_NEEDS {
            return Err(wrong("needs", format!("more than {MAX_NEEDS}")));
        }
        for (i, need) in self.needs.iter().enumerate() {
            check_length("needs.why", &need.why, MAX_SENTENCE)?;
            check_need(need)?;
            if self.needs[..i].iter().any(|other| other.grant == need.grant) {
                return Err(wrong("needs", format!("`{}` occurs twice", need.grant)));
            }
        }
        self.limits.check()?;
        let lists_tools = self.tools.is_some();
        let tools = self.tools.unwrap_or_default();
        match (self.kind, tools.len(), &self.report) {
            (Kind::Scout, 1.., _) => return Err(wrong("tools", "a scout has none")),
            (Kind::Tool, 0, report) if lists_tools || report.is_some() => {
                return Err(wrong("tools", "a tool component has at least one"));
            }
            (Kind::Tool, _, Some(_)) => return Err(wrong("report", "a tool component has none")),
            (_, more, _) if more > MAX_TOOLS => {
                return Err(wrong("tools", format!("more than {MAX_TOOLS}")));
            }
            _ => {}
        }
        let read_only = tools.iter().filter(|tool| tool.read_only);
        let read_only = read_only.map(|tool| tool.name.clone()).collect();
        let tools = tools.into_iter().map(ToolJson::check).collect::<Result<Vec<_>, _>>()?;
        for (i, tool) in tools.iter().enumerate() {
            if tools[..i].iter().any(|other| other.name == tool.name) {
                return Err(wrong("tools", format!("`{}` occurs twice", tool.name)));
            }
        }
        Ok(Manifest {
            kind: self.kind,
            name: self.name,
            version: self.version,
            about: self.about,
            needs: self.needs,
            limits: self.limits,
            tools,
            read_only,
            report: self.report.map(|report| check_schema("report", &report)).transpose()?,
            functions: vec![],
            left_out: vec![],
        })
    }
}

/// Checks that each list belongs to the capability of the need, and that the need has the lists that its capability
/// requires.
fn check_need(need: &Need) -> Result<(), ManifestError> {
    let capability = Capability::named(&need.grant);
    for (field, given, belongs) in [
        ("needs.paths", !need.paths.is_empty(), Capability::RepoRead),
        ("needs.origins", !need.origins.is_empty(), Capability::Http),
        ("needs.methods", !need.methods.is_empty(), Capability::Http),
        ("needs.names", !need.names.is_empty(), Capability::Env),
        ("needs.level", need.level.is_some(), Capability::Clock),
    ] {
        if given && capability != Some(belongs) {
            return Err(wrong(field, format!("belongs to the need `{}`", belongs.name())));
        }
    }
    let lists = [&need.paths.len(), &need.origins.len(), &need.methods.len(), &need.names.len()];
    if lists.into_iter().any(|length| *length > MAX_LIST) {
        return Err(wrong("needs", format!("more than {MAX_LIST} values in a list")));
    }
    let checked = capability.map_or(Ok(()), |capability| capability.check(need));
    checked.map_err(|(field, why)| wrong(field, why))
}

impl ToolJson {
    fn check(self) -> Result<ToolSpec, ManifestError> {
        check_name("tools.name", &self.name, '_')?;
        check_length("tools.description", &self.description, 4 * MAX_SENTENCE)?;
        let parameters = check_schema("tools.parameters", &self.parameters)?;
        Ok(ToolSpec { name: self.name, description: self.description, parameters })
    }
}

/// Names appear in file names, prompts and terminals, so they consist of lower-case letters, digits and one kind of dash.
fn check_name(field: &'static str, name: &str, dash: char) -> Result<(), ManifestError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == dash;
    let fits = name.len() <= MAX_NAME && name.starts_with(|c: char| c.is_ascii_lowercase());
    if fits && name.chars().all(allowed) {
        return Ok(());
    }
    Err(wrong(field, format!("at most {MAX_NAME} of a-z, 0-9 and `{dash}`, a letter first")))
}

fn check_length(field: &'static str, text: &str, max: usize) -> Result<(), ManifestError> {
    if text.trim().is_empty() || text.len() > max {
        return Err(wrong(field, format!("between 1 and {max} bytes of text")));
    }
    Ok(())
}

fn check_schema(field: &'static str, schema: &RawValue) -> Result<String, ManifestError> {
    if !schema.get().starts_with('{') {
        return Err(wrong(field, "a JSON Schema is an object"));
    }
    match act_core::schema_visits(schema.get()) {
        // Nothing is fetched, and a report that such a schema describes is refused where the schema is compiled.
        Ok(_) | Err(SchemaBoundsError::Reference(_)) => {}
        Err(error) => return Err(wrong(field, error.to_string())),
    }
    Ok(schema.get().to_owned())
}

fn wrong(field: &'static str, why: impl Into<String>) -> ManifestError {
    ManifestError::Field { field, why: why.into() }
}

#[cfg(test)]
mod tests;
