//! The errors of `agent.yaml`, of `config.toml` and of the environment: a message with the facts, a stable code, and a hint.

use std::fmt;
use std::path::PathBuf;

/// A position in `agent.yaml`; line and column count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub line: u64,
    pub column: u64,
}

impl From<serde_yaml::Location> for Position {
    fn from(at: serde_yaml::Location) -> Self {
        Self { line: at.line().max(1), column: at.column().max(1) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent.yaml:{}:{}", self.line, self.column)
    }
}

/// Why `agent.yaml` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("configuration required: no agent.yaml in {} or above it", searched.display())]
    Missing { searched: PathBuf },
    #[error("cannot use {} as a directory: {reason}", path.display())]
    Directory { path: PathBuf, reason: String },
    #[error("the path of the repository is not UTF-8: {}", path.display())]
    NotText { path: PathBuf },
    #[error("agent.yaml is {what}, not a regular file")]
    NotAFile { what: &'static str },
    #[error("cannot read agent.yaml: {reason}")]
    Unreadable { reason: String },
    #[error("agent.yaml is larger than 1 MiB")]
    TooLarge,
    #[error("{position}: {reason}")]
    Malformed { position: Position, reason: String },
    #[error("{position}: unknown key `{key}`{}", meant(nearest.as_deref()))]
    UnknownKey { position: Position, key: String, nearest: Option<String> },
    #[error("{position}: the key `{key}` appears twice")]
    DuplicateKey { position: Position, key: String },
    #[error("{position}: merge keys (`<<`) are not accepted")]
    MergeKey { position: Position },
    #[error("{position}: anchors and aliases are not accepted")]
    Alias { position: Position },
    #[error("{position}: custom tags are not accepted")]
    CustomTag { position: Position },
    #[error("{position}: a second document begins here")]
    SecondDocument { position: Position },
    #[error("{position}: too many or too deeply nested values")]
    TooComplex { position: Position },
    #[error("{position}: {key} must be {expected}, not {found}")]
    WrongValue { position: Position, key: String, expected: String, found: String },
    #[error("container image required: verification.container_image is not set in agent.yaml")]
    NoImage,
    #[error("at least one verification step required: verification.steps is empty in agent.yaml")]
    NoSteps,
    #[error("{position}: verification step {number}{} has no {field}", named(name.as_deref()))]
    IncompleteStep { position: Position, number: usize, name: Option<String>, field: &'static str },
    #[error("{position}: check {number}{} has no {field}", named(name.as_deref()))]
    IncompleteCheck { position: Position, number: usize, name: Option<String>, field: &'static str },
    #[error("{position}: component request {number}{} has no {field}", named(name.as_deref()))]
    IncompleteComponent {
        position: Position,
        number: usize,
        name: Option<String>,
        field: &'static str,
    },
    #[error("{position}: monorepo.package `{package}` {reason}")]
    Package { position: Position, package: String, reason: &'static str },
}

impl ConfigError {
    /// Returns a stable word for programs. Messages may change, codes do not.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "config_missing",
            Self::Directory { .. } => "directory_unusable",
            Self::NotText { .. } => "path_not_utf8",
            Self::NotAFile { .. } => "config_not_a_file",
            Self::Unreadable { .. } => "config_unreadable",
            Self::TooLarge => "config_too_large",
            Self::Malformed { .. } => "config_malformed",
            Self::UnknownKey { .. } => "unknown_key",
            Self::DuplicateKey { .. } => "duplicate_key",
            Self::MergeKey { .. } => "merge_key",
            Self::Alias { .. } => "alias",
            Self::CustomTag { .. } => "custom_tag",
            Self::SecondDocument { .. } => "second_document",
            Self::TooComplex { .. } => "config_too_complex",
            Self::WrongValue { .. } => "wrong_value",
            Self::NoImage => "container_image_required",
            Self::NoSteps => "steps_required",
            Self::IncompleteStep { .. } => "step_incomplete",
            Self::IncompleteCheck { .. } => "check_incomplete",
            Self::IncompleteComponent { .. } => "component_incomplete",
            Self::Package { .. } => "package_invalid",
        }
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } => {
                "run `act init`, or write an agent.yaml with an image and a step"
            }
            Self::Directory { .. } => "start in the repository, or name it with `--repo DIR`",
            Self::NotText { .. } => {
                "rename the directory; container engines cannot mount such a path"
            }
            Self::NotAFile { .. } => "replace it by a regular file",
            Self::Unreadable { .. } => "check its permissions, and that it is UTF-8 text",
            Self::TooLarge => "remove everything but the settings of act",
            Self::Malformed { .. } => "correct the YAML at this position",
            Self::UnknownKey { .. } => "correct or remove the key",
            Self::DuplicateKey { .. } => "keep one of them",
            Self::MergeKey { .. } | Self::Alias { .. } => "write the values where they are used",
            Self::CustomTag { .. } => "remove the tag",
            Self::SecondDocument { .. } => "keep one document in the file",
            Self::TooComplex { .. } => "remove everything but the settings of act",
            Self::WrongValue { .. } => "correct the value",
            Self::NoImage => {
                "set it to the image in which the steps run, such as `container_image: python:3.12-slim`"
            }
            Self::NoSteps => "add one, such as `- {name: test, command: pytest -q}`",
            Self::IncompleteStep { .. } => "a step needs a name and a command",
            Self::IncompleteCheck { .. } => {
                "a check needs a name and a command, such as `pytest -q {path}`"
            }
            Self::IncompleteComponent { .. } => "a request needs name, path, sha256 and kind",
            Self::Package { .. } => {
                "name a directory inside the repository, such as `packages/core`"
            }
        }
    }
}

/// Why neither the environment nor `config.toml` selects a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelAccessError {
    #[error(
        "cannot proceed without model access: none of AGENT_LLM_BASE_URL with AGENT_LLM_MODEL, \
         ANTHROPIC_API_KEY and OPENAI_API_KEY is set, and config.toml has no [model]"
    )]
    NoModelAccess,
    #[error("AGENT_LLM_BASE_URL is set, but AGENT_LLM_MODEL is not")]
    NoModelName,
    #[error("{variable} cannot be used: {reason}")]
    BaseUrl { variable: &'static str, reason: &'static str },
    #[error("{variable} would be sent unencrypted to {origin}")]
    KeyOverPlainHttp { variable: &'static str, origin: String },
    #[error("{variable} contains characters that a key cannot have")]
    KeyUnusable { variable: &'static str },
    #[error(
        "[model] in config.toml has no name, and a server of Chat Completions has no default model"
    )]
    NoNameInFile,
    #[error("`key_env` in config.toml names {name}, which is not set")]
    KeyUnset { name: String },
    #[error("AGENT_LLM_TOOLS is neither native nor schema")]
    Tools,
    #[error(
        "tools by schema, set by {by}, exist for Chat Completions only, and the model has another wire"
    )]
    ToolsOfAnotherWire { by: &'static str },
}

impl ModelAccessError {
    /// Returns a stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoModelAccess => "model_access_required",
            Self::NoModelName => "model_name_required",
            Self::BaseUrl { .. } => "base_url_unusable",
            Self::KeyOverPlainHttp { .. } => "key_over_plain_http",
            Self::KeyUnusable { .. } => "key_unusable",
            Self::NoNameInFile => "model_name_required",
            Self::KeyUnset { .. } => "key_unset",
            Self::Tools | Self::ToolsOfAnotherWire { .. } => "tools_unusable",
        }
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoModelAccess => {
                "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or for another server AGENT_LLM_BASE_URL (it includes /v1) and AGENT_LLM_MODEL, or write [model] into config.toml"
            }
            Self::NoModelName => "set AGENT_LLM_MODEL to a name that the server knows",
            Self::BaseUrl { variable: "ANTHROPIC_BASE_URL", .. } => {
                "set it to an address such as https://api.anthropic.com, or unset it"
            }
            Self::BaseUrl { variable: "OPENAI_BASE_URL", .. } => {
                "set it to an address such as https://api.openai.com/v1, or unset it"
            }
            Self::BaseUrl { .. } => "set it to an address such as http://127.0.0.1:11434/v1",
            Self::KeyOverPlainHttp { .. } => "use https or a loopback address, or unset the key",
            Self::KeyUnusable { .. } => "set it again without spaces and line ends",
            Self::NoNameInFile => {
                "add `name`, or set AGENT_LLM_MODEL, to a name that the server knows"
            }
            Self::KeyUnset { .. } => "set the variable, or use `key_command`",
            Self::Tools => "set it to native or schema, or unset it",
            Self::ToolsOfAnotherWire { .. } => {
                "set it to native: Anthropic and OpenAI call tools by themselves"
            }
        }
    }
}

/// Names the nearest valid key.
fn meant(nearest: Option<&str>) -> String {
    nearest.map(|key| format!("; the nearest valid key is `{key}`")).unwrap_or_default()
}

fn named(name: Option<&str>) -> String {
    name.map(|name| format!(" (`{name}`)")).unwrap_or_default()
}

/// Returns text of the repository for a message: shortened, with control characters escaped.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut out: String = text.chars().take(LONGEST).flat_map(visible).collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

/// Escapes a character on which a terminal would act. Quotes and letters stay.
fn visible(c: char) -> impl Iterator<Item = char> {
    let plain = matches!(c, '"' | '\'' | '\\');
    let escaped = (!plain).then(|| c.escape_debug());
    plain.then_some(c).into_iter().chain(escaped.into_iter().flatten())
}

/// Why the user's `config.toml` or `engines.toml` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{} {why}", path.display())]
    Untrusted { path: PathBuf, why: String },
    #[error("{}:{line}:{column}: {why}", path.display())]
    Malformed { path: PathBuf, line: usize, column: usize, why: String },
}

impl SettingsError {
    /// Returns a stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Untrusted { .. } => "settings_untrusted",
            Self::Malformed { .. } => "settings_malformed",
        }
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Untrusted { .. } => {
                "make it a regular file of yours with mode 0600, outside of the repository, or remove it"
            }
            Self::Malformed { .. } => "correct or remove the key at this place",
        }
    }
}

impl From<SettingsError> for act_core::Failure {
    fn from(error: SettingsError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<ConfigError> for act_core::Failure {
    fn from(error: ConfigError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<ModelAccessError> for act_core::Failure {
    fn from(error: ModelAccessError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}
