//! `config.toml`, the settings of the user: the model with its key, time limits, and limits for every `agent.yaml`.
//!
//! The file holds a key or the command that prints one, so it counts under the same conditions as the file of the grants.
//! Every key of the file is checked when it is read. No message contains the value of a key.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::ceiling::{COST_LIMIT, ConfigCeiling, VerifierTable, is_cost_limit};
use super::error::{SettingsError, shown};
use super::prices::{UserPrices, usd};
use super::scalar::LONGEST_TIMEOUT;
use act_core::Usd;
use act_core::secret::Secret;
use act_core::user_command::UserCommand;
use act_fs::trusted::{Owner, open_directory, read_text, user_directory};
use act_model::{DeadlineSettings, ToolMode, WireName};

const NAME: &str = "config.toml";
/// Maximum number of bytes of the file. All keys together have some hundred.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum of the time limits of the model: an hour, after which no provider and no local server still works on a turn.
pub(super) const LONGEST_MODEL_TIMEOUT: u64 = 3_600_000;

/// The settings of the user.
#[derive(Debug, Clone, PartialEq)]
pub struct UserSettings {
    /// The path of the file; `None` if there is no file.
    pub file: Option<PathBuf>,
    /// The limits for every `agent.yaml`.
    pub ceiling: ConfigCeiling,
    /// The time limits of the model.
    pub deadlines: DeadlineSettings,
    /// The number of proofs that outlive their runs.
    pub keep_proofs: usize,
    /// The limits within which a component is read and compiled.
    pub check: CheckLimits,
    /// The command that learns when a task ends or begins to need a person.
    pub notify: Option<UserCommand>,
    /// Settings of registries, by their hosts as references name them.
    pub registries: BTreeMap<String, RegistrySettings>,
    pub(super) prices: UserPrices,
    pub(super) model: Option<ModelTable>,
}

impl Default for UserSettings {
    fn default() -> Self {
        Self {
            file: None,
            ceiling: ConfigCeiling::of_user(),
            deadlines: DeadlineSettings::default(),
            keep_proofs: DEFAULT_PROOFS,
            check: CheckLimits::default(),
            notify: None,
            registries: BTreeMap::new(),
            prices: UserPrices::default(),
            model: None,
        }
    }
}

/// The settings of one registry of components.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistrySettings {
    /// A file with the certificate authorities of the registry, in PEM.
    pub ca: Option<PathBuf>,
    /// The address of the token service that may get the credentials of the registry.
    pub realm: Option<String>,
}

/// The limits of the process that reads and compiles a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckLimits {
    /// Address space, in MiB.
    pub memory_mb: u64,
    /// Seconds from the start of the process.
    pub seconds: u64,
}

impl Default for CheckLimits {
    fn default() -> Self {
        Self { memory_mb: DEFAULT_CHECK_MEMORY, seconds: DEFAULT_CHECK_SECONDS }
    }
}

/// MiB for the check of a component. A Python interpreter with its libraries needs 600 MiB.
const DEFAULT_CHECK_MEMORY: u64 = 2048;
/// Seconds for the check of a component. A Python interpreter takes some twenty on a slow machine.
const DEFAULT_CHECK_SECONDS: u64 = 120;
/// Bounds of the two settings: the program itself needs some MiB, and no component needs more than 64 GiB or an hour.
const CHECK_MEMORY: std::ops::RangeInclusive<i64> = 256..=65_536;
const CHECK_SECONDS: std::ops::RangeInclusive<i64> = 1..=3_600;

/// The table `[model]`, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelTable {
    pub(super) endpoint: Option<String>,
    pub(super) name: Option<String>,
    pub(super) wire: WireName,
    pub(super) key: Option<KeySetting>,
    pub(super) tools: Option<ToolMode>,
}

/// How the file sets a key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum KeySetting {
    Value(Secret),
    /// The name of a variable of the environment.
    Variable(String),
    Command(UserCommand),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    model: Option<Spanned<RawModel>>,
    limits: Limits,
    timeouts: Timeouts,
    verifier: VerifierTable,
    artifacts: Artifacts,
    components: Components,
    prices: UserPrices,
    notify: Option<Spanned<toml::Value>>,
    registries: BTreeMap<String, RawRegistry>,
    gitignore: Option<bool>,
    agents_md: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawModel {
    endpoint: Option<Spanned<String>>,
    name: Option<Spanned<String>>,
    wire: Option<RawWire>,
    tools: Option<RawTools>,
    // Values, so that no message of the parser quotes a key.
    key: Option<Spanned<toml::Value>>,
    key_env: Option<Spanned<toml::Value>>,
    key_command: Option<Spanned<toml::Value>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawRegistry {
    ca: Option<Spanned<String>>,
    realm: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawWire {
    ChatCompletions,
    Messages,
    Responses,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawTools {
    Native,
    Schema,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    #[serde(deserialize_with = "tokens")]
    max_tokens: Option<Limit<u64>>,
    #[serde(deserialize_with = "cost")]
    max_cost: Option<Limit<Usd>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Artifacts {
    #[serde(deserialize_with = "proofs")]
    keep_proofs: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Components {
    #[serde(deserialize_with = "check_memory")]
    check_memory_mb: Option<u64>,
    #[serde(deserialize_with = "check_seconds")]
    check_seconds: Option<u64>,
}

fn check_memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    within(from, "check_memory_mb", CHECK_MEMORY)
}

fn check_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    within(from, "check_seconds", CHECK_SECONDS)
}

fn within<'de, D: Deserializer<'de>>(
    from: D,
    key: &str,
    bounds: std::ops::RangeInclusive<i64>,
) -> Result<Option<u64>, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::Integer(number) if bounds.contains(&number) => Ok(u64::try_from(number).ok()),
        _ => {
            let (least, most) = bounds.into_inner();
            Err(D::Error::custom(format!("`{key}` is a whole number from {least} to {most}")))
        }
    }
}

/// Number of proofs by default: the successes of some weeks, with at most some MiB each.
const DEFAULT_PROOFS: usize = 100;
/// Maximum number of proofs, whose manifests `act audit verify` reads.
const MAX_PROOFS: usize = 10_000;

fn proofs<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::Integer(number) if (0..=MAX_PROOFS as i64).contains(&number) => {
            Ok(usize::try_from(number).ok())
        }
        _ => {
            let why = format!("`keep_proofs` is a whole number from 0 to {MAX_PROOFS}");
            Err(D::Error::custom(why))
        }
    }
}

/// A limit of a task. `"none"` removes the default limit of the user.
#[derive(Clone, Copy)]
enum Limit<T> {
    None,
    Most(T),
}

impl<T> Limit<T> {
    fn most(self) -> Option<T> {
        match self {
            Self::None => None,
            Self::Most(limit) => Some(limit),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Timeouts {
    #[serde(deserialize_with = "milliseconds::<_, LONGEST_TIMEOUT>")]
    verification_step: Option<Duration>,
    #[serde(deserialize_with = "milliseconds::<_, LONGEST_TIMEOUT>")]
    scout_query: Option<Duration>,
    #[serde(deserialize_with = "milliseconds::<_, LONGEST_MODEL_TIMEOUT>")]
    model_first_byte: Option<Duration>,
    #[serde(deserialize_with = "milliseconds::<_, LONGEST_MODEL_TIMEOUT>")]
    model_silence: Option<Duration>,
    #[serde(deserialize_with = "milliseconds::<_, LONGEST_MODEL_TIMEOUT>")]
    model_total: Option<Duration>,
}

fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Limit<u64>>, D::Error> {
    match toml::Value::deserialize(from)? {
        toml::Value::Integer(number @ 1..) => Ok(Some(Limit::Most(number.unsigned_abs()))),
        toml::Value::String(word) if word == "none" => Ok(Some(Limit::None)),
        _ => Err(D::Error::custom("`max_tokens` is a whole number from 1, or \"none\"")),
    }
}

fn cost<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Limit<Usd>>, D::Error> {
    let value = toml::Value::deserialize(from)?;
    if value.as_str() == Some("none") {
        return Ok(Some(Limit::None));
    }
    let limit = usd(&value).filter(|limit| is_cost_limit(*limit));
    let wrong = || D::Error::custom(format!("`max_cost` is {COST_LIMIT}, or \"none\""));
    limit.map(|limit| Some(Limit::Most(limit))).ok_or_else(wrong)
}

fn milliseconds<'de, D: Deserializer<'de>, const LONGEST: u64>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    let wrong = || {
        D::Error::custom(format!(
            "a time limit is a whole number of milliseconds from 1 to {LONGEST}"
        ))
    };
    match toml::Value::deserialize(from)? {
        toml::Value::Integer(number @ 1..) if number.unsigned_abs() <= LONGEST => {
            Ok(Some(Duration::from_millis(number.unsigned_abs())))
        }
        _ => Err(wrong()),
    }
}

impl UserSettings {
    /// Reads `config.toml` from the user's directory; without a file every setting has its default. `repo` is the
    /// repository in use, in which the file must not lie. Keys in the file are redacted from then on.
    ///
    /// # Errors
    ///
    /// The file is not trusted or malformed.
    pub fn read(repo: Option<&Path>) -> Result<Self, SettingsError> {
        let Some(directory) = user_directory() else { return Ok(Self::default()) };
        Self::read_in(&directory, repo)
    }

    fn read_in(directory: &Path, repo: Option<&Path>) -> Result<Self, SettingsError> {
        let path = directory.join(NAME);
        let untrusted = |why| SettingsError::Untrusted { path: path.clone(), why };
        let Some(dir) = open_directory(directory, repo, Owner::Caller).map_err(untrusted)? else {
            return Ok(Self::default());
        };
        match read_text(&dir, NAME, MAX_BYTES, Owner::Caller).map_err(untrusted)? {
            Some(text) => Self::parse(&text, &path, repo),
            None => Ok(Self::default()),
        }
    }

    pub(super) fn parse(
        text: &str,
        path: &Path,
        repo: Option<&Path>,
    ) -> Result<Self, SettingsError> {
        let source = Source { text, path, repo };
        let file: File = source.parse()?;
        let Timeouts { verification_step, scout_query, .. } = file.timeouts;
        let mut ceiling = ConfigCeiling {
            step_timeout: verification_step,
            scout_timeout: scout_query,
            gitignore: file.gitignore,
            agents_md: file.agents_md,
            ..ConfigCeiling::of_user()
        };
        if let Some(tokens) = file.limits.max_tokens {
            ceiling.max_tokens = tokens.most();
        }
        ceiling.max_cost = file.limits.max_cost.and_then(Limit::most);
        file.verifier.lower(&mut ceiling);
        Ok(Self {
            file: Some(path.to_owned()),
            ceiling,
            deadlines: DeadlineSettings {
                first: file.timeouts.model_first_byte,
                idle: file.timeouts.model_silence,
                total: file.timeouts.model_total,
            },
            keep_proofs: file.artifacts.keep_proofs.unwrap_or(DEFAULT_PROOFS),
            check: CheckLimits {
                memory_mb: file.components.check_memory_mb.unwrap_or(DEFAULT_CHECK_MEMORY),
                seconds: file.components.check_seconds.unwrap_or(DEFAULT_CHECK_SECONDS),
            },
            notify: file
                .notify
                .map(|value| source.command("notify", value, "[\"/home/me/bin/act-notify\"]"))
                .transpose()?,
            registries: file
                .registries
                .into_iter()
                .map(|(host, registry)| Ok((host, source.registry(registry)?)))
                .collect::<Result<_, SettingsError>>()?,
            prices: file.prices,
            model: file.model.map(|table| source.model(table)).transpose()?,
        })
    }
}

/// The text of a file of the user, for errors with a place.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) path: &'a Path,
    /// The repository in use.
    pub(super) repo: Option<&'a Path>,
}

impl Source<'_> {
    pub(super) fn parse<T: DeserializeOwned>(self) -> Result<T, SettingsError> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.malformed(at, &without_values(&error.message().replace('\n', " ")))
        })
    }

    /// Returns the error for what is wrong at byte `at`.
    pub(super) fn malformed(self, at: usize, why: &str) -> SettingsError {
        let before = self.text.get(..at).unwrap_or_default();
        SettingsError::Malformed {
            path: self.path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
            why: shown(why),
        }
    }

    fn model(self, table: Spanned<RawModel>) -> Result<ModelTable, SettingsError> {
        let start = table.span().start;
        let raw = table.into_inner();
        let wire = match raw.wire {
            None | Some(RawWire::ChatCompletions) => WireName::ChatCompletions,
            Some(RawWire::Messages) => WireName::Messages,
            Some(RawWire::Responses) => WireName::Responses,
        };
        let endpoint = self.line("endpoint", raw.endpoint)?;
        let given: Vec<_> = [
            raw.key.map(|value| (value.span().start, self.key(value))),
            raw.key_env.map(|value| (value.span().start, self.variable(value))),
            raw.key_command.map(|value| {
                let at = value.span().start;
                let example = "[\"pass\", \"show\", \"llm\"]";
                (at, self.command("key_command", value, example).map(KeySetting::Command))
            }),
        ]
        .into_iter()
        .flatten()
        .collect();
        if let [_, (at, _), ..] = given.as_slice() {
            let why = "a second key: keep one of `key`, `key_env` and `key_command`";
            return Err(self.malformed(*at, why));
        }
        let key = given.into_iter().next().map(|(_, key)| key).transpose()?;
        if wire == WireName::ChatCompletions && endpoint.is_none() {
            let why = "[model] has no `endpoint`, which a server of chat_completions needs; it includes /v1";
            return Err(self.malformed(start, why));
        }
        if endpoint.is_none() && key.is_none() {
            let why = "[model] has no key, which its provider needs; add `key_command`, `key_env` or `key`";
            return Err(self.malformed(start, why));
        }
        let tools = raw.tools.map(|tools| match tools {
            RawTools::Native => ToolMode::Native,
            RawTools::Schema => ToolMode::Schema,
        });
        Ok(ModelTable { endpoint, name: self.line("name", raw.name)?, wire, key, tools })
    }

    fn registry(self, raw: RawRegistry) -> Result<RegistrySettings, SettingsError> {
        let ca = raw.ca.map(|value| {
            let path = PathBuf::from(value.get_ref());
            let fits =
                path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
            let why = "`ca` is the absolute path of a file with certificates in PEM";
            if fits { Ok(path) } else { Err(self.malformed(value.span().start, why)) }
        });
        let realm = raw.realm.map(|value| {
            let start = value.span().start;
            let text = value.into_inner();
            // Whether the address of plain http is one of this machine is tested before it is used.
            let fits = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
            let why =
                "`realm` is the address of a token service, such as https://auth.example/token";
            if fits { Ok(text) } else { Err(self.malformed(start, why)) }
        });
        Ok(RegistrySettings { ca: ca.transpose()?, realm: realm.transpose()? })
    }

    /// Returns a text on one line.
    pub(super) fn line(
        self,
        key: &str,
        value: Option<Spanned<String>>,
    ) -> Result<Option<String>, SettingsError> {
        let Some(value) = value else { return Ok(None) };
        let text = value.get_ref().trim();
        if text.is_empty() || text.chars().any(char::is_control) {
            let why = format!("`{key}` is a text on one line, without control characters");
            return Err(self.malformed(value.span().start, &why));
        }
        Ok(Some(text.to_owned()))
    }

    fn key(self, value: Spanned<toml::Value>) -> Result<KeySetting, SettingsError> {
        let at = value.span().start;
        match value.into_inner() {
            toml::Value::String(key) if is_key(key.trim()) => {
                Ok(KeySetting::Value(Secret::learned(key.trim())))
            }
            _ => {
                let why = "`key` is a text in quotes without spaces, line ends or letters outside of ASCII";
                Err(self.malformed(at, why))
            }
        }
    }

    fn variable(self, value: Spanned<toml::Value>) -> Result<KeySetting, SettingsError> {
        let at = value.span().start;
        let name = match value.into_inner() {
            toml::Value::String(name) if is_variable(&name) => name,
            // A key in the wrong place must not be shown.
            _ => {
                let why = "`key_env` is the name of a variable, of the characters A-Z, 0-9 and `_`";
                return Err(self.malformed(at, why));
            }
        };
        if matches!(name.as_str(), "ANTHROPIC_API_KEY" | "OPENAI_API_KEY") {
            let why = format!(
                "{name} selects its own provider, so this table would never be used; give the key a variable of another name"
            );
            return Err(self.malformed(at, &why));
        }
        Ok(KeySetting::Variable(name))
    }

    /// Returns the command that a key of the file names, with its program as `example` has it.
    fn command(
        self,
        key: &str,
        value: Spanned<toml::Value>,
        example: &str,
    ) -> Result<UserCommand, SettingsError> {
        let at = value.span().start;
        let words: Option<Vec<String>> = match value.into_inner() {
            toml::Value::Array(words) => {
                words.into_iter().map(|word| word.as_str().map(str::to_owned)).collect()
            }
            _ => None,
        };
        let command = words.and_then(UserCommand::new).ok_or_else(|| {
            let why = format!(
                "`{key}` is a list of texts: a program, by a name that PATH finds or an absolute path, and \
                 its arguments, such as {example}"
            );
            self.malformed(at, &why)
        })?;
        let path = std::env::var_os("PATH");
        command
            .found_outside_of(self.repo, path.as_deref())
            .map_err(|unfit| self.malformed(at, &format!("`{key}` {unfit}; name another program")))
    }
}

/// Returns a message of the parser without what the user wrote, which may be a key in a wrong place. The name of an unknown
/// field stays if it consists of letters and `_`, as a mistyped name does and a key does not.
fn without_values(message: &str) -> String {
    let wrong = ["unknown field ", "unknown variant ", "invalid type: ", "invalid value: "];
    let Some(what) = wrong.into_iter().find(|start| message.starts_with(start)) else {
        return message.to_owned();
    };
    // Behind the last `, expected` the parser lists names of ours.
    let (written, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let quotes = |c: char| c == '`' || c == '"';
    let name = match (written.find(quotes), written.rfind(quotes)) {
        (Some(begin), Some(end)) if begin < end => &written[begin + 1..end],
        _ => "",
    };
    let is_name = what == "unknown field "
        && name.len() <= LONGEST_NAME
        && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let shown = match written.find(quotes) {
        Some(_) if is_name => written,
        Some(begin) => written[..begin].trim_end(),
        None => written,
    };
    match expected {
        "" => shown.to_owned(),
        expected => format!("{shown}, expected {expected}"),
    }
}

/// Maximum number of letters of an unknown field that is shown; the longest of ours has 17.
const LONGEST_NAME: usize = 24;

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())
}

fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_uppercase() || c == '_')
        && chars.all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::{CheckMode, DEFAULT_MAX_TOKENS, EvidenceRule, User, Warm};

    fn parse(text: &str) -> Result<UserSettings, String> {
        UserSettings::parse(text, Path::new("config.toml"), None).map_err(|error| error.to_string())
    }

    // CONFIG-66
    #[test]
    fn a_registry_has_an_authority_and_a_token_service() {
        let registries = |text: &str| parse(text).map(|settings| settings.registries);
        let found = registries(
            "[registries.\"a.example:5000\"]\nca = \"/etc/ca.pem\"\nrealm = \"https://auth.example/t\"\n\
             [registries.\"b.example\"]\n",
        );
        let both = RegistrySettings {
            ca: Some("/etc/ca.pem".into()),
            realm: Some("https://auth.example/t".to_owned()),
        };
        let expected = [
            ("a.example:5000".to_owned(), both),
            ("b.example".to_owned(), RegistrySettings::default()),
        ];
        assert_eq!(found, Ok(BTreeMap::from(expected)));
        assert_eq!(registries(""), Ok(BTreeMap::new()));
        for (line, why) in [
            ("ca = \"ca.pem\"", "config.toml:2:6: `ca` is the absolute path"),
            ("ca = \"/a/../b\"", "config.toml:2:6: `ca` is the absolute path"),
            ("realm = \"auth.example\"", "config.toml:2:9: `realm` is the address"),
            ("password = \"x\"", "config.toml:2:1: unknown field `password`"),
        ] {
            let error = registries(&format!("[registries.\"a.example\"]\n{line}")).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    // CONFIG-42
    #[test]
    fn every_limit_of_the_file_is_the_users_own() {
        let settings = parse(
            "gitignore = false\nagents_md = false\n[limits]\nmax_tokens = 70\nmax_cost = 2.5\n\
             [timeouts]\nverification_step = 9000\nscout_query = 8000\nmodel_total = 3600000\n\
             [verifier]\nnetwork = \"off\"\nnetwork_private = \"off\"\nuser = \"caller\"\nwarm = \"final\"\nchecks = \"off\"\nevidence = \"require\"\n[verifier.limits]\ncpus = 2\nmemory_mb = 512\npids = 64\n",
        )
        .unwrap();
        let ceiling = ConfigCeiling {
            max_tokens: Some(70),
            max_cost: Usd::parse("2.5"),
            step_timeout: Some(Duration::from_secs(9)),
            scout_timeout: Some(Duration::from_secs(8)),
            cpus: Some(2.0),
            memory_mb: Some(512),
            pids: Some(64),
            step_network: Some(false),
            private_network: Some(false),
            step_user: Some(User::Caller),
            warm: Some(Warm::Final),
            checks: Some(CheckMode::Off),
            evidence: Some(EvidenceRule::Require),
            gitignore: Some(false),
            agents_md: Some(false),
        };
        assert_eq!(settings.ceiling, ceiling);
        assert_eq!((settings.keep_proofs, parse("").unwrap().keep_proofs), (100, 100));
        assert_eq!(parse("[artifacts]\nkeep_proofs = 0").unwrap().keep_proofs, 0);
        let wrong = parse("[artifacts]\nkeep_proofs = -1").unwrap_err();
        assert!(wrong.contains("from 0 to 10000"), "{wrong}");
        assert_eq!(settings.deadlines.total, Some(Duration::from_secs(3600)));
        assert_eq!(parse("").unwrap().ceiling.max_tokens, Some(DEFAULT_MAX_TOKENS));
        let lifted = parse("[limits]\nmax_tokens = \"none\"").unwrap().ceiling;
        assert_eq!(lifted, ConfigCeiling::default());
        let raised = parse("[limits]\nmax_tokens = 90000000").unwrap().ceiling.max_tokens;
        assert_eq!(raised, Some(90_000_000));
    }

    // CONFIG-41
    #[test]
    fn what_is_wrong_is_named_with_its_place_and_what_fits() {
        let model = "[model]\nendpoint = \"http://localhost/v1\"\n";
        for (text, says) in [
            (
                "modle = 1".to_owned(),
                "config.toml:1:1: unknown field `modle`, expected one of `model`",
            ),
            (format!("{model}nmae = \"x\""), "config.toml:3:1: unknown field `nmae`"),
            (
                format!("{model}wire = \"http\""),
                "config.toml:3:8: unknown variant, expected one of `chat_completions`",
            ),
            (format!("{model}tools = \"text\""), "config.toml:3:9: unknown variant, expected"),
            (
                format!("{model}name = 5"),
                "config.toml:3:8: invalid type: integer, expected a string",
            ),
            (
                format!("{model}name = \"a\\u001b[2J\""),
                "config.toml:3:8: `name` is a text on one line",
            ),
            (format!("{model}name = \"x\"\nname = \"y\""), "config.toml:4:1: duplicate key"),
            ("[model]\nname = \"x\"".to_owned(), "config.toml:1:1: [model] has no `endpoint`"),
            ("[model]\nwire = \"messages\"".to_owned(), "config.toml:1:1: [model] has no key"),
            (
                "[limits]\nmax_tokens = 0".to_owned(),
                "config.toml:2:14: `max_tokens` is a whole number from 1",
            ),
            ("[limits]\nmax_tokens = -1".to_owned(), "a whole number from 1"),
            ("[limits]\nmax_tokens = \"all\"".to_owned(), "a whole number from 1, or \"none\""),
            (
                "[limits]\nmax_cost = 0".to_owned(),
                "config.toml:2:12: `max_cost` is a number of dollars",
            ),
            ("[limits]\nmax_cost = -2.5".to_owned(), "`max_cost` is a number of dollars"),
            ("[limits]\nmax_cost = inf".to_owned(), "`max_cost` is a number of dollars"),
            ("[limits]\nmax_cost = nan".to_owned(), "`max_cost` is a number of dollars"),
            ("[limits]\nmax_cost = 1e9".to_owned(), "at most 1000000"),
            ("[limits]\nmax_cost = \"$5\"".to_owned(), "or \"none\""),
            ("[limits]\nmax_tokens = 99999999999999999999".to_owned(), "config.toml:2:"),
            (
                "[timeouts]\nmodel_total = 3600001".to_owned(),
                "config.toml:2:15: a time limit is a whole number of milliseconds from 1 to 3600000",
            ),
            ("[timeouts]\nmodel_silence = 0".to_owned(), "milliseconds from 1 to 3600000"),
            ("[timeouts]\nmodel_first_byte = 1.5".to_owned(), "milliseconds from 1 to 3600000"),
            ("[timeouts]\nscout_query = 604800001".to_owned(), "milliseconds from 1 to 604800000"),
            (
                "[timeouts]\nmodel_connect = 1".to_owned(),
                "config.toml:2:1: unknown field `model_connect`",
            ),
            ("[verifier.limits]\npids = 7".to_owned(), "7 is not a number from 8"),
            ("gitignore = \"no\"".to_owned(), "config.toml:1:13: invalid type"),
            ("[model".to_owned(), "config.toml:1:"),
            ("\u{1b}[2J = 1".to_owned(), "config.toml:1:"),
        ] {
            let refused = parse(&text).unwrap_err();
            assert!(refused.contains(says), "{says}\n{refused}");
            assert!(!refused.contains('\u{1b}'), "{refused:?}");
        }
        let error = UserSettings::parse("x = 1", Path::new("config.toml"), None).unwrap_err();
        assert_eq!(error.code(), "settings_malformed");
    }

    // CONFIG-44
    #[test]
    fn no_message_shows_a_key_that_was_written_wrongly() {
        let model = "[model]\nendpoint = \"http://localhost/v1\"\n";
        for line in [
            "key = [\"sk-canary\"]",
            "key = \"sk canary\"",
            "key = \"\"",
            "key = 4711471147114711",
            "key_env = \"sk-canary\"",
            "key_env = [\"sk-canary\"]",
            "key_command = \"echo sk-canary\"",
            "key_command = [\"./sk-canary\"]",
            "key_command = [\"echo\", 4711471147114711]",
            "key_command = []",
            "key_env = \"OPENAI_API_KEY\"",
            "key = \"sk-canary\nname = \"x\"",
        ] {
            let refused = parse(&format!("{model}{line}\n")).unwrap_err();
            assert!(refused.starts_with("config.toml:3:"), "{line}: {refused}");
            assert!(!refused.contains("canary") && !refused.contains("4711"), "{refused}");
        }
        // A key in the place of another value, or of the name of a key.
        for text in [
            "sk-canary = 1",
            "\"sk canary, expected `x`\" = 1",
            "model = \"sk-canary\"",
            "limits = \"sk-canary\"",
            "gitignore = \"sk-canary, expected a boolean\"",
            "agents_md = 4711471147114711",
            "[model]\nwire = \"sk-canary\"",
            "[model]\ntools = \"sk-canary\"",
            "[model]\nendpoint = 4711471147114711",
            "[model]\nname = [\"sk-canary\"]",
            "[model]\nsk_canary1 = \"sk-canary\"",
            "[limits]\nmax_tokens = \"sk-canary\"",
            "[limits]\nmax_cost = \"sk-canary\"",
            "prices = \"sk-canary\"",
            "[prices]\nsk-canary = 1",
            "[prices.sk-canary]\ninput = \"sk-canary\"",
            "[prices.sk-canary]\ninput = 1",
            "[prices.\"sk-canary[\"]\ninput = 1\noutput = 1",
            "[timeouts]\nmodel_total = \"sk-canary\"",
            "[timeouts]\nmodel_total = sk-canary",
            "[artifacts]\nkeep_proofs = \"sk-canary\"",
            "notify = \"sk-canary\"",
            "notify = [\"./sk-canary\"]",
            "notify = [\"echo\", 4711471147114711]",
            "[verifier]\nnetwork = \"sk-canary\"",
            "[verifier]\nsk-canary = 1",
            "[verifier]\nchecks = \"sk-canary\"",
            "[verifier.limits]\npids = \"sk-canary\"",
            "[sk-canary]",
            "sk-canary",
        ] {
            let refused = parse(text).unwrap_err();
            assert!(!refused.contains("canary") && !refused.contains("4711"), "{text}: {refused}");
        }
        let both =
            parse(&format!("{model}key = \"sk-12345\"\nkey_env = \"MY_KEY\"\n")).unwrap_err();
        assert!(both.starts_with("config.toml:4:11: a second key"), "{both}");
        let settings = parse(&format!("{model}key = \"sk-canary-in-a-file\"\n")).unwrap();
        assert!(!format!("{settings:?}").contains("canary"), "{settings:?}");
        let redacted =
            act_core::secret::Secrets::default().redact("sk-canary-in-a-file").into_owned();
        assert_eq!(redacted, "[redacted]");
    }

    // NOTIFY-2
    #[test]
    fn notify_is_a_program_with_arguments_and_never_a_text_for_a_shell() {
        assert_eq!(parse("").unwrap().notify, None);
        let notify = parse("notify = [\"/bin/sh\", \"-c\", \"cat > /dev/null\"]").unwrap().notify;
        assert_eq!(notify.unwrap().program(), "/bin/sh");
        for wrong in
            ["\"echo hello\"", "[]", "[\"\"]", "[\"./x\"]", "[\"bin/x\"]", "[\"a\", 1]", "true"]
        {
            let refused = parse(&format!("notify = {wrong}")).unwrap_err();
            assert!(refused.contains("config.toml:1:10: `notify` is a list of texts"), "{refused}");
        }
        let temp = tempfile::tempdir().unwrap();
        let script = temp.path().join("tell");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let text = format!("notify = [{:?}]", script.display().to_string());
        let parse = |repo| UserSettings::parse(&text, Path::new("config.toml"), repo);
        assert!(parse(None).is_ok());
        let inside = parse(Some(temp.path())).unwrap_err().to_string();
        assert!(inside.contains("`notify` would use a file of the repository"), "{inside}");
    }

    // CONFIG-40
    #[test]
    fn only_a_file_that_nobody_else_could_have_written_counts() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, repo) = (temp.path().join("config/act"), temp.path().join("repo"));
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir_all(&repo).unwrap();
        let file = dir.join(NAME);
        let read = || UserSettings::read_in(&dir, Some(&repo));
        assert_eq!(read(), Ok(UserSettings::default()), "no file");
        let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(&file, "[limits]\nmax_tokens = 7\n").unwrap();
        mode(0o600);
        let settings = read().unwrap();
        assert_eq!((settings.file, settings.ceiling.max_tokens), (Some(file.clone()), Some(7)));
        let refused = |why: &str| {
            let error = read().unwrap_err();
            assert_eq!(error.code(), "settings_untrusted");
            let message = error.to_string();
            assert!(message.starts_with(&file.display().to_string()), "{message}");
            assert!(message.contains(why), "{why}: {message}");
        };
        for wrong in [0o644, 0o640, 0o604, 0o666] {
            mode(wrong);
            refused(&format!("has mode {wrong:04o}"));
        }
        mode(0o600);
        fs::write(&file, b"\xff\xfe").unwrap();
        refused("UTF-8");
        // 100 MB that take no room.
        fs::File::options().write(true).open(&file).unwrap().set_len(100 << 20).unwrap();
        refused("is larger than");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        refused("is not a regular file");
        fs::remove_dir(&file).unwrap();
        fs::write(dir.join("real"), "").unwrap();
        symlink("real", &file).unwrap();
        refused("symbolic link");
        fs::remove_file(&file).unwrap();
        let private = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, private, 0)
            .unwrap();
        refused("is not a regular file");
        fs::remove_file(&file).unwrap();
        fs::write(&file, "").unwrap();
        mode(0o600);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
            refused("owner 12345");
            std::os::unix::fs::chown(&file, Some(0), None).unwrap();
        }
        let inside = UserSettings::read_in(&dir, Some(&temp.path().join("config"))).unwrap_err();
        assert!(inside.to_string().contains("inside of the repository"), "{inside}");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        refused("others can write");
    }
}
