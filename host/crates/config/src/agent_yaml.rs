//! Parses the text of `agent.yaml` into settings, or returns the first problem (pure).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use act_core::Usd;
use act_core::evidence::EvidenceRule;
use serde::Deserialize;
use serde_yaml::{Error, MessageFormatter, Spanned};

use super::checks::{self, CheckMode, CheckTemplate, Checks};
use super::engines::{LABELS, Labels, are_labels};
use super::error::{ConfigError, Position, shown};
use super::scalar::{self, Value};
use super::user::LONGEST_MODEL_TIMEOUT;
use super::{
    ComponentKind, ComponentRequest, Config, DeadlineSettings, Limits, Pipeline, SourceWrites,
    Step, User, Warm, Workspace,
};

/// The time limit of a step when `agent.yaml` sets none.
pub const STEP_TIMEOUT: Duration = Duration::from_millis(300_000);
const SCOUT_TIMEOUT: Duration = Duration::from_millis(60_000);

/// The settings of the file. The package is not yet checked on disk.
#[derive(Debug)]
pub(super) struct AgentYaml {
    pub(super) pipeline: Pipeline,
    pub(super) package: Option<Spanned<String>>,
    pub(super) step_timeout: Duration,
    pub(super) scout_timeout: Duration,
    pub(super) model_timeouts: DeadlineSettings,
    pub(super) components: Vec<ComponentRequest>,
    pub(super) max_tokens: Option<u64>,
    pub(super) max_cost: Option<Usd>,
    pub(super) gitignore: bool,
    pub(super) agents_md: bool,
    pub(super) evidence: EvidenceRule,
    pub(super) checks: Checks,
}

impl AgentYaml {
    /// Returns the configuration of the repository at `root` whose file has this digest.
    pub(super) fn into_config(self, root: PathBuf, sha256: String) -> Config {
        Config {
            root,
            pipeline: self.pipeline,
            monorepo_package: self.package.map(|package| package.value),
            step_timeout: self.step_timeout,
            scout_timeout: self.scout_timeout,
            model_timeouts: self.model_timeouts,
            components: self.components,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            gitignore: self.gitignore,
            agents_md: self.agents_md,
            evidence: self.evidence,
            checks: self.checks,
            sha256,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct File {
    verification: Option<Verification>,
    monorepo: Option<Monorepo>,
    timeouts: Option<Timeouts>,
    components: Option<Vec<Spanned<Component>>>,
    checks: Option<Vec<Spanned<RawCheck>>>,
    limits: Option<TaskLimits>,
    gitignore: Option<Value>,
    agents_md: Option<Value>,
}

/// The limits of one task.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct TaskLimits {
    max_tokens: Option<Value>,
    max_cost: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verification {
    container_image: Option<Value>,
    prepare: Option<Vec<Spanned<RawStep>>>,
    prepare_inputs: Option<Vec<Value>>,
    warm: Option<Value>,
    steps: Option<Vec<Spanned<RawStep>>>,
    workspace: Option<Value>,
    include: Option<Vec<Value>>,
    source_writes: Option<Value>,
    network: Option<Value>,
    user: Option<Value>,
    ca_bundle: Option<Value>,
    evidence: Option<Value>,
    checks: Option<Value>,
    limits: Option<RawLimits>,
    engine: Option<Spanned<BTreeMap<String, Value>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    name: Option<Value>,
    command: Option<Value>,
    network: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCheck {
    name: Option<Value>,
    command: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    cpus: Option<Value>,
    memory_mb: Option<Value>,
    pids: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Monorepo {
    package: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Timeouts {
    verification_step: Option<Value>,
    scout_query: Option<Value>,
    model_first_byte: Option<Value>,
    model_silence: Option<Value>,
    model_total: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Component {
    name: Option<Value>,
    path: Option<Value>,
    sha256: Option<Value>,
    kind: Option<Value>,
    replaces: Option<Value>,
}

/// Parses the file.
///
/// # Errors
///
/// Names the first problem with its line and column.
pub(super) fn parse(text: &str) -> Result<AgentYaml, ConfigError> {
    let options = serde_yaml::options! {
        budget: serde_yaml::budget! {
            // Without anchors a value has one position, so a person sees what is read.
            max_anchors: 0,
            max_aliases: 0,
            max_nodes: 20_000,
            max_depth: 16,
        },
        merge_keys: serde_yaml::MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let file: Option<File> =
        serde_yaml::from_str_with_options(text, options).map_err(|error| from_yaml(&error))?;
    let file = file.unwrap_or_default();
    let timeouts = file.timeouts.unwrap_or_default();
    let duration = |value: &Option<Value>, key| {
        scalar::milliseconds(value.as_ref(), key, scalar::LONGEST_TIMEOUT)
    };
    let of_model = |value: &Option<Value>, key| {
        scalar::milliseconds(value.as_ref(), key, LONGEST_MODEL_TIMEOUT)
    };
    let step_timeout = duration(&timeouts.verification_step, "timeouts.verification_step")?;
    let scout_timeout = duration(&timeouts.scout_query, "timeouts.scout_query")?;
    let model_timeouts = DeadlineSettings {
        first: of_model(&timeouts.model_first_byte, "timeouts.model_first_byte")?,
        idle: of_model(&timeouts.model_silence, "timeouts.model_silence")?,
        total: of_model(&timeouts.model_total, "timeouts.model_total")?,
    };
    let components = file.components.unwrap_or_default();
    let verification = file.verification.ok_or(ConfigError::NoImage)?;
    let rules = [("report", EvidenceRule::Report), ("require", EvidenceRule::Require)];
    let evidence = scalar::word(verification.evidence.as_ref(), "verification.evidence", &rules)?;
    let limits = file.limits.unwrap_or_default();
    let templates = file.checks.unwrap_or_default();
    let templates = templates.iter().enumerate().map(check).collect::<Result<Vec<_>, _>>()?;
    let mode =
        scalar::word(verification.checks.as_ref(), "verification.checks", &CheckMode::WORDS)?;
    // Who lists commands means these and no others.
    let default = if templates.is_empty() { CheckMode::Any } else { CheckMode::Declared };
    Ok(AgentYaml {
        checks: Checks { mode: mode.unwrap_or(default), templates },
        evidence: evidence.unwrap_or_default(),
        pipeline: pipeline(verification)?,
        package: package(file.monorepo)?,
        step_timeout: step_timeout.unwrap_or(STEP_TIMEOUT),
        scout_timeout: scout_timeout.unwrap_or(SCOUT_TIMEOUT),
        model_timeouts,
        components: components.iter().enumerate().map(component).collect::<Result<_, _>>()?,
        max_tokens: scalar::whole_or_none(limits.max_tokens.as_ref(), "limits.max_tokens")?,
        max_cost: scalar::cost_or_none(limits.max_cost.as_ref(), "limits.max_cost")?,
        gitignore: scalar::boolean(file.gitignore.as_ref(), "gitignore")?.unwrap_or(true),
        agents_md: scalar::boolean(file.agents_md.as_ref(), "agents_md")?.unwrap_or(true),
    })
}

fn pipeline(raw: Verification) -> Result<Pipeline, ConfigError> {
    const ON_OFF: [(&str, bool); 2] = [("on", true), ("off", false)];
    let key = "verification.container_image";
    let image = scalar::text(raw.container_image.as_ref(), key)?.ok_or(ConfigError::NoImage)?;
    if let Some(value) = raw.container_image.filter(|_| image.contains(char::is_whitespace)) {
        return Err(scalar::wrong(&value, key, "the name of an image"));
    }
    let network =
        scalar::word(raw.network.as_ref(), "verification.network", &ON_OFF)?.unwrap_or(true);
    let step = |(index, at): (usize, &Spanned<RawStep>)| {
        let step = &at.value;
        let name = scalar::text(step.name.as_ref(), "name")?;
        let command = scalar::script(step.command.as_ref(), "command")?;
        let missing = |field| ConfigError::IncompleteStep {
            position: Position::from(at.referenced),
            number: index + 1,
            name: name.as_deref().map(shown),
            field,
        };
        Ok(Step {
            command: command
                .ok_or_else(|| missing(if name.is_none() { "name" } else { "command" }))?,
            network: scalar::word(step.network.as_ref(), "network", &ON_OFF)?.unwrap_or(network),
            name: name.clone().ok_or_else(|| missing("name"))?,
        })
    };
    let listed = |raw: Option<Vec<Spanned<RawStep>>>| {
        raw.unwrap_or_default().iter().enumerate().map(step).collect::<Result<Vec<_>, _>>()
    };
    let (prepare, steps) = (listed(raw.prepare)?, listed(raw.steps)?);
    if steps.is_empty() {
        return Err(ConfigError::NoSteps);
    }
    let globs = |raw: Option<Vec<Value>>, key: &str| {
        raw.unwrap_or_default().iter().map(|value| glob(value, key)).collect::<Result<_, _>>()
    };
    // A warm run that ends a task is the choice of a person, so `final` is no word of this file.
    let warm = [("off", Warm::Off), ("attempts", Warm::Attempts)];
    let workspaces = [
        ("auto", Workspace::Auto),
        ("copy", Workspace::Copy),
        ("overlay", Workspace::Overlay),
        ("readonly", Workspace::Readonly),
    ];
    let writes = [("fail", SourceWrites::Fail), ("warn", SourceWrites::Warn)];
    let users = [("caller", User::Caller), ("root", User::Root)];
    Ok(Pipeline {
        image,
        prepare,
        prepare_inputs: globs(raw.prepare_inputs, "verification.prepare_inputs")?,
        warm: scalar::word(raw.warm.as_ref(), "verification.warm", &warm)?,
        steps,
        workspace: scalar::word(raw.workspace.as_ref(), "verification.workspace", &workspaces)?
            .unwrap_or(Workspace::Auto),
        include: globs(raw.include, "verification.include")?,
        source_writes: scalar::word(
            raw.source_writes.as_ref(),
            "verification.source_writes",
            &writes,
        )?
        .unwrap_or(SourceWrites::Fail),
        user: scalar::word(raw.user.as_ref(), "verification.user", &users)?.unwrap_or(User::Caller),
        ca_bundle: ca_bundle(raw.ca_bundle)?,
        limits: limits(&raw.limits.unwrap_or_default())?,
        engine: labels(raw.engine)?,
        private_network: true,
        cut_off: vec![],
    })
}

fn glob(value: &Value, key: &str) -> Result<String, ConfigError> {
    let glob = scalar::text(Some(value), key)?
        .filter(|glob| stays_inside(glob) && globset::Glob::new(glob).is_ok());
    glob.ok_or_else(|| scalar::wrong(value, key, "a glob relative to the repository"))
}

fn ca_bundle(value: Option<Value>) -> Result<Option<PathBuf>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let key = "verification.ca_bundle";
    let path = scalar::text(Some(&value), key)?
        .filter(|path| path.starts_with('/') && !path.split('/').any(|part| part == ".."));
    path.map(|path| Some(path.into()))
        .ok_or_else(|| scalar::wrong(&value, key, "an absolute path on the host"))
}

fn limits(raw: &RawLimits) -> Result<Limits, ConfigError> {
    let default = Limits::default();
    Ok(Limits {
        cpus: scalar::cpus(raw.cpus.as_ref(), "limits.cpus")?.unwrap_or(default.cpus),
        // Engines refuse less than 6 MiB, and init, keepalive and step are processes as well. The upper limits are
        // 16 TiB, and the kernel's own limit of processes.
        memory_mb: scalar::whole(raw.memory_mb.as_ref(), "limits.memory_mb", 6..=1 << 24)?
            .unwrap_or(default.memory_mb),
        pids: scalar::whole(raw.pids.as_ref(), "limits.pids", 8..=1 << 22)?.unwrap_or(default.pids),
    })
}

/// Returns the labels that an engine must have.
fn labels(raw: Option<Spanned<BTreeMap<String, Value>>>) -> Result<Labels, ConfigError> {
    let Some(raw) = raw else { return Ok(Labels::new()) };
    let key = "verification.engine";
    let text = |(name, value): (&String, &Value)| {
        let text = scalar::text(Some(value), key)?;
        Ok((name.clone(), text.unwrap_or_default()))
    };
    let labels = raw.value.iter().map(text).collect::<Result<Labels, ConfigError>>()?;
    match are_labels(&labels) {
        true => Ok(labels),
        false => Err(ConfigError::Malformed {
            position: Position::from(raw.referenced),
            reason: format!("{key}: {LABELS}"),
        }),
    }
}

/// Returns the package without `.` parts and doubled or final slashes.
fn package(raw: Option<Monorepo>) -> Result<Option<Spanned<String>>, ConfigError> {
    let Some(value) = raw.and_then(|monorepo| monorepo.package) else { return Ok(None) };
    let written = scalar::text(Some(&value), "monorepo.package")?.unwrap_or_default();
    let refused = |reason| ConfigError::Package {
        position: value.referenced.into(),
        package: shown(&written),
        reason,
    };
    if written.starts_with('/') {
        return Err(refused("is an absolute path"));
    }
    let parts: Vec<&str> = written.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err(refused("leaves the repository"));
    }
    if parts.is_empty() {
        return Err(refused("is the repository itself"));
    }
    if parts.iter().any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err(refused("is git's own"));
    }
    Ok(Some(Spanned::new(parts.join("/"), value.referenced, value.defined)))
}

fn check((index, at): (usize, &Spanned<RawCheck>)) -> Result<CheckTemplate, ConfigError> {
    let raw = &at.value;
    let name = scalar::text(raw.name.as_ref(), "name")?;
    let command = scalar::script(raw.command.as_ref(), "command")?;
    let missing = |field| ConfigError::IncompleteCheck {
        position: Position::from(at.referenced),
        number: index + 1,
        name: name.as_deref().map(shown),
        field,
    };
    let named = name.clone().ok_or_else(|| missing("name"))?;
    let command = command.ok_or_else(|| missing("command"))?;
    match (CheckTemplate::parse(named, command), &raw.command) {
        (None, Some(value)) => Err(scalar::wrong(value, "command", checks::EXPECTED)),
        (template, _) => template.ok_or_else(|| missing("command")),
    }
}

fn component((index, at): (usize, &Spanned<Component>)) -> Result<ComponentRequest, ConfigError> {
    let raw = &at.value;
    let name = scalar::text(raw.name.as_ref(), "name")?;
    let missing = |field| ConfigError::IncompleteComponent {
        position: Position::from(at.referenced),
        number: index + 1,
        name: name.as_deref().map(shown),
        field,
    };
    // A value that does not fit is reported with its position, a missing one with that of the request.
    let checked = |value: &Option<Value>, key, expected: &str, fits: fn(&str) -> bool| {
        let text = scalar::text(value.as_ref(), key)?;
        match (value, &text) {
            (Some(value), Some(text)) if !fits(text) => Err(scalar::wrong(value, key, expected)),
            _ => Ok(text),
        }
    };
    let word = "letters a-z, digits and `-`, at most 64, first a letter";
    let kinds = [("scout", ComponentKind::Scout), ("tool", ComponentKind::Tool)];
    Ok(ComponentRequest {
        name: checked(&raw.name, "name", word, is_name)?.ok_or_else(|| missing("name"))?,
        path: checked(&raw.path, "path", "a path inside the repository", stays_inside)?
            .ok_or_else(|| missing("path"))?,
        sha256: checked(&raw.sha256, "sha256", "64 hexadecimal digits", is_sha256)?
            .ok_or_else(|| missing("sha256"))?
            .to_lowercase(),
        kind: scalar::word(raw.kind.as_ref(), "kind", &kinds)?.ok_or_else(|| missing("kind"))?,
        replaces: checked(&raw.replaces, "replaces", word, is_name)?,
    })
}

fn stays_inside(path: &str) -> bool {
    !path.starts_with('/') && path.split('/').all(|part| part != "..")
}

fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn from_yaml(error: &Error) -> ConfigError {
    use serde_yaml::budget::BudgetBreach;
    let error = error.without_snippet();
    let position = Position::from(error.location().unwrap_or(serde_yaml::Location::UNKNOWN));
    match error {
        Error::SerdeUnknownField { field, expected, .. } => ConfigError::UnknownKey {
            position,
            key: shown(field),
            nearest: nearest(field, expected).map(str::to_owned),
        },
        Error::DuplicateMappingKey { key, .. } => {
            ConfigError::DuplicateKey { position, key: shown(key.as_deref().unwrap_or("?")) }
        }
        Error::MergeKeyNotAllowed { .. } | Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            ConfigError::MergeKey { position }
        }
        Error::Budget {
            breach: BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. },
            ..
        }
        | Error::AliasError { .. }
        | Error::UnknownAnchor { .. } => ConfigError::Alias { position },
        Error::Budget { .. } => ConfigError::TooComplex { position },
        Error::UnsupportedTag { .. } => ConfigError::CustomTag { position },
        Error::MultipleDocuments { .. } => ConfigError::SecondDocument { position },
        other => {
            // The position is printed first, so only the bare message is needed.
            let text = serde_yaml::UserMessageFormatter.format_message(other);
            let reason = match text.as_ref() {
                "expected mapping start" => "keys with values belong here, as in `name: test`",
                "expected sequence start" => "a list belongs here, as in `- name: test`",
                other => other,
            };
            ConfigError::Malformed { position, reason: shown(reason) }
        }
    }
}

/// Maximum number of characters that are compared, which bounds the work for a hostile key.
const MAX_KEY: usize = 64;

/// Returns the closest valid key, or `None` when there are no valid keys. A key that contains the other has the
/// distance 1; otherwise the edit distance counts. The first of equals wins.
fn nearest<'a>(key: &str, valid: &[&'a str]) -> Option<&'a str> {
    let key: String = key.to_lowercase().chars().take(MAX_KEY).collect();
    valid.iter().copied().min_by_key(|candidate| {
        let part = !key.is_empty() && (candidate.contains(&key) || key.contains(candidate));
        if part { 1 } else { strsim::levenshtein(&key, candidate) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_parts_and_other_case() {
        let keys = ["container_image", "steps", "include", "network"];
        for (key, meant) in [
            ("setps", "steps"),
            ("image", "container_image"),
            ("Steps", "steps"),
            ("netwrok", "network"),
        ] {
            assert_eq!(nearest(key, &keys), Some(meant));
        }
        assert_eq!(nearest("x", &[]), None);
    }
}
