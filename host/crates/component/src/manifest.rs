//! What a component says about itself, read without running it.
//!
//! The section is covered by the component's digest, so a tool description that reaches the model cannot
//! change after the bytes were approved. Unknown fields are refused: what is not understood is not ignored.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::admission::Need;
use crate::capability::Capability;
use crate::foreign::{self, Function, LeftOut};
use crate::inspect::{NotAComponent, Sections, malformed};
use crate::limits::{MAX_MEMORY, MAX_WALL_MS};
use act_core::is_hidden;
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
            Self::Scout => "agentcommand:worlds/scout@1.1.0",
            Self::Tool => "agentcommand:worlds/tool@1.1.0",
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
    /// Refuses limits that would limit nothing, or everything: nobody means those.
    fn check(&self) -> Result<(), ManifestError> {
        for (field, said, most) in [
            ("limits.memory_mb", self.memory_mb, MAX_MEMORY >> 20),
            ("limits.wall_ms", self.wall_ms, MAX_WALL_MS),
        ] {
            if let Some(said) = said.filter(|said| !(1..=most).contains(said)) {
                return Err(wrong(field, format!("{said} is not from 1 to {most}")));
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub kind: Kind,
    pub name: String,
    pub version: String,
    pub about: String,
    pub needs: Vec<Need>,
    pub limits: SuggestedLimits,
    /// Of a tool component; a schema is the text that stands in the section.
    pub tools: Vec<ToolSpec>,
    /// Of a Scout: the JSON Schema of its report.
    pub report: Option<String>,
    /// Functions that the tools of a plain component call. They are read from its type, and so are `tools`.
    pub(crate) functions: Vec<Function>,
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
struct Written {
    kind: Kind,
    name: String,
    version: String,
    about: String,
    needs: Vec<Need>,
    #[serde(default)]
    limits: SuggestedLimits,
    tools: Option<Vec<WrittenTool>>,
    report: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTool {
    name: String,
    description: String,
    parameters: Box<RawValue>,
}

impl Manifest {
    /// Reads the manifest of a whole component. If it names no tools, or there is none, and the component exports no
    /// interface of ours, the exported functions are its tools.
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
            written => Self::of_functions(component, &sections.exports, written),
        }
    }

    fn of_functions(
        component: &[u8],
        exports: &[String],
        written: Option<Self>,
    ) -> Result<Self, ManifestError> {
        if exports.iter().any(|export| export.starts_with("agentcommand:")) {
            return Err(match written {
                None => NotAComponent::NoManifest.into(),
                Some(_) => wrong("tools", "a tool component has at least one"),
            });
        }
        let found = foreign::read(component, exports).map_err(malformed)?;
        if found.functions.is_empty() {
            return Err(match (written, found.left_out.is_empty()) {
                (None, true) => NotAComponent::NoManifest.into(),
                _ => ManifestError::NoFunction(found.left_out),
            });
        }
        Ok(Self {
            tools: foreign::tools(&found.functions),
            functions: found.functions,
            left_out: found.left_out,
            ..written.unwrap_or_else(Self::bare)
        })
    }

    /// The manifest of a component that has none.
    pub(crate) fn bare() -> Self {
        Self {
            kind: Kind::Tool,
            name: "unnamed".to_owned(),
            version: "0".to_owned(),
            about: "It has no manifest; its functions are its tools.".to_owned(),
            needs: vec![],
            limits: SuggestedLimits::default(),
            tools: vec![],
            report: None,
            functions: vec![],
            left_out: vec![],
        }
    }

    /// The name that the author gave to a component which may be refused for other reasons.
    pub(crate) fn author(component: &[u8]) -> Option<String> {
        let sections = Sections::of(component).ok()?;
        Some(Self::of(component, &sections).ok()?.name)
    }

    /// Whether its tools are functions of its own instead of our interface.
    pub fn is_plain(&self) -> bool {
        !self.functions.is_empty()
    }

    pub fn world(&self) -> &'static str {
        if self.is_plain() { foreign::WORLD } else { self.kind.world() }
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
        let written: Written = serde_json::from_slice(section).map_err(json)?;
        let manifest = written.check()?;
        // A person approves the text that a terminal shows and the model reads the text as written, so the two must be equal.
        let value: serde_json::Value = serde_json::from_slice(section).map_err(json)?;
        if let Some(text) = with_hidden_text(&value) {
            return Err(ManifestError::Hidden(text.escape_default().take(80).collect()));
        }
        Ok(manifest)
    }
}

/// A text, or a name of a field, with characters that a terminal acts on or does not show.
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

impl Written {
    fn check(self) -> Result<Manifest, ManifestError> {
        is_name("name", &self.name, '-')?;
        is_short("version", &self.version, MAX_VERSION)?;
        is_short("about", &self.about, MAX_SENTENCE)?;
        if self.needs.len() > MAX_NEEDS {
            return Err(wrong("needs", format!("more than {MAX_NEEDS}")));
        }
        for (i, need) in self.needs.iter().enumerate() {
            is_short("needs.why", &need.why, MAX_SENTENCE)?;
            check_need(need)?;
            if self.needs[..i].iter().any(|other| other.grant == need.grant) {
                return Err(wrong("needs", format!("`{}` stands there twice", need.grant)));
            }
        }
        self.limits.check()?;
        let none_written = self.tools.is_none();
        let tools = self.tools.unwrap_or_default();
        match (self.kind, tools.len(), &self.report) {
            (Kind::Scout, 1.., _) => return Err(wrong("tools", "a scout has none")),
            (Kind::Tool, 0, report) if !none_written || report.is_some() => {
                return Err(wrong("tools", "a tool component has at least one"));
            }
            (Kind::Tool, _, Some(_)) => return Err(wrong("report", "a tool component has none")),
            (_, more, _) if more > MAX_TOOLS => {
                return Err(wrong("tools", format!("more than {MAX_TOOLS}")));
            }
            _ => {}
        }
        let tools = tools.into_iter().map(WrittenTool::check).collect::<Result<Vec<_>, _>>()?;
        if let Some(twice) = tools
            .iter()
            .enumerate()
            .find(|(i, tool)| tools[..*i].iter().any(|other| other.name == tool.name))
        {
            return Err(wrong("tools", format!("`{}` stands there twice", twice.1.name)));
        }
        Ok(Manifest {
            kind: self.kind,
            name: self.name,
            version: self.version,
            about: self.about,
            needs: self.needs,
            limits: self.limits,
            tools,
            report: self.report.map(|report| is_schema("report", &report)).transpose()?,
            functions: vec![],
            left_out: vec![],
        })
    }
}

/// Checks that a list belongs to the capability of its need, and that a capability has what it cannot be without.
fn check_need(need: &Need) -> Result<(), ManifestError> {
    let of = Capability::named(&need.grant);
    for (field, given, belongs) in [
        ("needs.paths", !need.paths.is_empty(), Capability::RepoRead),
        ("needs.origins", !need.origins.is_empty(), Capability::Http),
        ("needs.methods", !need.methods.is_empty(), Capability::Http),
        ("needs.names", !need.names.is_empty(), Capability::Env),
        ("needs.level", need.level.is_some(), Capability::Clock),
    ] {
        if given && of != Some(belongs) {
            return Err(wrong(field, format!("belongs to the need `{}`", belongs.name())));
        }
    }
    let lists = [&need.paths.len(), &need.origins.len(), &need.methods.len(), &need.names.len()];
    if lists.into_iter().any(|length| *length > MAX_LIST) {
        return Err(wrong("needs", format!("more than {MAX_LIST} values in a list")));
    }
    of.map_or(Ok(()), |capability| capability.check(need)).map_err(|(field, why)| wrong(field, why))
}

impl WrittenTool {
    fn check(self) -> Result<ToolSpec, ManifestError> {
        is_name("tools.name", &self.name, '_')?;
        is_short("tools.description", &self.description, 4 * MAX_SENTENCE)?;
        let parameters = is_schema("tools.parameters", &self.parameters)?;
        Ok(ToolSpec { name: self.name, description: self.description, parameters })
    }
}

/// Names reach file names, prompts and terminals: lower-case letters, digits and one kind of dash.
fn is_name(field: &'static str, name: &str, dash: char) -> Result<(), ManifestError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == dash;
    let fits = name.len() <= MAX_NAME && name.starts_with(|c: char| c.is_ascii_lowercase());
    if fits && name.chars().all(allowed) {
        return Ok(());
    }
    Err(wrong(field, format!("at most {MAX_NAME} of a-z, 0-9 and `{dash}`, a letter first")))
}

fn is_short(field: &'static str, text: &str, most: usize) -> Result<(), ManifestError> {
    if text.trim().is_empty() || text.len() > most {
        return Err(wrong(field, format!("between 1 and {most} bytes of text")));
    }
    Ok(())
}

fn is_schema(field: &'static str, schema: &RawValue) -> Result<String, ManifestError> {
    if !schema.get().starts_with('{') {
        return Err(wrong(field, "a JSON Schema is an object"));
    }
    Ok(schema.get().to_owned())
}

fn wrong(field: &'static str, why: impl Into<String>) -> ManifestError {
    ManifestError::Field { field, why: why.into() }
}

#[cfg(test)]
mod tests;
