//! Selects the model, from the environment of the process or from the user's `config.toml`.
//!
//! Either of them is used as a whole: a key of one is never sent to an address of the other. The functions take a lookup,
//! so that no file of the repository can influence them and tests need no environment. An empty variable counts as unset.

use reqwest::Url;

use super::ModelAccessError;
use super::user::{KeySetting, ModelTable, UserSettings};
use act_core::secret::{Secret, Secrets};
use act_model::{
    ANTHROPIC_BASE_URL, ANTHROPIC_MODEL, DeadlineSettings, Deadlines, Key, ModelAccess,
    ModelServer, OPENAI_BASE_URL, OPENAI_MODEL, Origin, ToolMode, WireName, is_loopback,
};

const FILE: &str = "config.toml";
const BY_DEFAULT: &str = "default";

/// The selected model, with the source of each of its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    pub server: ModelServer,
    pub sources: Sources,
}

/// The variable or file that set each value, or `default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    pub endpoint: &'static str,
    pub model: &'static str,
    pub wire: &'static str,
    /// `None` without a key.
    pub key: Option<&'static str>,
    pub tools: &'static str,
}

/// Selects the model. A provider that the environment names comes first: a server of the user's own before Anthropic,
/// Anthropic before OpenAI. If `AGENT_LLM_BASE_URL` is set, no other variable is considered, even if the settings beside it
/// are incomplete. Without a provider in the environment the table `[model]` of `config.toml` counts.
///
/// # Errors
///
/// Fails when no model is configured, or when an address, a key or the way to call tools cannot be used.
pub fn model_access(
    user: &UserSettings,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Selected, ModelAccessError> {
    let set = |name: &str| {
        lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let mut selected = match of_environment(&set)? {
        Some(selected) => selected,
        None => of_file(user.model.as_ref().ok_or(ModelAccessError::NoModelAccess)?, &set)?,
    };
    const TOOLS: &str = "AGENT_LLM_TOOLS";
    if let Some(word) = set(TOOLS) {
        selected.server.tools = match word.as_str() {
            "native" => ToolMode::Native,
            "schema" => ToolMode::Schema,
            _ => return Err(ModelAccessError::Tools),
        };
        selected.sources.tools = TOOLS;
    }
    if selected.server.tools == ToolMode::Schema
        && selected.server.wire != WireName::ChatCompletions
    {
        return Err(ModelAccessError::ToolsOfAnotherWire { by: selected.sources.tools });
    }
    Ok(selected)
}

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

fn of_environment(set: Lookup<'_>) -> Result<Option<Selected>, ModelAccessError> {
    let (url_variable, model_variable) = ("AGENT_LLM_BASE_URL", "AGENT_LLM_MODEL");
    if let Some(base_url) = set(url_variable) {
        let url = check_url(url_variable, &base_url)?;
        let model = set(model_variable).ok_or(ModelAccessError::NoModelName)?;
        let variable = "OPENAI_API_KEY";
        let key = set(variable).map(|key| check_key(variable, key, &url)).transpose()?;
        let sources = Sources {
            endpoint: url_variable,
            model: model_variable,
            wire: url_variable,
            key: key.as_ref().map(|_| variable),
            tools: BY_DEFAULT,
        };
        let server = ModelServer::new(WireName::ChatCompletions, base_url, model);
        return Ok(Some(Selected {
            server: ModelServer { key: key.map(Key::Value), ..server },
            sources,
        }));
    }
    let vendors = [
        (WireName::Messages, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        (WireName::Responses, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ];
    for (wire, key_variable, url_variable) in vendors {
        let Some(key) = set(key_variable) else { continue };
        let (default_url, default_model) = defaults(wire);
        let (set_url, set_model) = (set(url_variable), set(model_variable));
        let sources = Sources {
            endpoint: if set_url.is_some() { url_variable } else { BY_DEFAULT },
            model: if set_model.is_some() { model_variable } else { BY_DEFAULT },
            wire: key_variable,
            key: Some(key_variable),
            tools: BY_DEFAULT,
        };
        let base_url = set_url.unwrap_or_else(|| default_url.to_owned());
        let url = check_url(url_variable, &base_url)?;
        let key = check_key(key_variable, key, &url)?;
        let model = set_model.unwrap_or_else(|| default_model.to_owned());
        let server = ModelServer::new(wire, base_url, model).with_key(key);
        return Ok(Some(Selected { server, sources }));
    }
    Ok(None)
}

/// Returns the address and the model of a vendor when the user names none. A server of Chat Completions has neither.
fn defaults(wire: WireName) -> (&'static str, &'static str) {
    match wire {
        WireName::ChatCompletions => ("", ""),
        WireName::Messages => (ANTHROPIC_BASE_URL, ANTHROPIC_MODEL),
        WireName::Responses => (OPENAI_BASE_URL, OPENAI_MODEL),
    }
}

fn of_file(table: &ModelTable, set: Lookup<'_>) -> Result<Selected, ModelAccessError> {
    const ENDPOINT: &str = "`endpoint` in config.toml";
    let (default_url, default_model) = defaults(table.wire);
    let base_url = table.endpoint.clone().unwrap_or_else(|| default_url.to_owned());
    let url = check_url(ENDPOINT, &base_url)?;
    let key = match &table.key {
        None => None,
        Some(KeySetting::Value(key)) => {
            let what = "`key` in config.toml";
            check_key(what, key.expose().to_owned(), &url)?;
            Some((Key::Value(key.clone()), "`key` in config.toml"))
        }
        Some(KeySetting::Variable(name)) => {
            let key = set(name).ok_or_else(|| ModelAccessError::KeyUnset { name: name.clone() })?;
            let what = "the variable of `key_env` in config.toml";
            check_key(what, key.clone(), &url)?;
            Some((Key::Value(Secret::learned(key)), what))
        }
        Some(KeySetting::Command(command)) => {
            let what = "`key_command` in config.toml";
            check_origin(what, &url)?;
            Some((Key::Command(command.clone()), what))
        }
    };
    let model_variable = "AGENT_LLM_MODEL";
    let (model, model_source) = match (set(model_variable), &table.name) {
        (Some(model), _) => (model, model_variable),
        (None, Some(name)) => (name.clone(), FILE),
        (None, None) if default_model.is_empty() => return Err(ModelAccessError::NoNameInFile),
        (None, None) => (default_model.to_owned(), BY_DEFAULT),
    };
    let sources = Sources {
        endpoint: if table.endpoint.is_some() { FILE } else { BY_DEFAULT },
        model: model_source,
        wire: FILE,
        key: key.as_ref().map(|(_, source)| *source),
        tools: if table.tools.is_some() { FILE } else { BY_DEFAULT },
    };
    let server = ModelServer {
        key: key.map(|(key, _)| key),
        tools: table.tools.unwrap_or_default(),
        origin: Origin::File,
        ..ModelServer::new(table.wire, base_url, model)
    };
    Ok(Selected { server, sources })
}

impl UserSettings {
    /// Returns the time limits of requests to this model: those for its kind of address, in their place those of
    /// `config.toml`, and where `agent_yaml` sets shorter ones, those.
    pub fn deadlines(&self, access: &ModelAccess, agent_yaml: DeadlineSettings) -> Deadlines {
        let usual = match access {
            ModelAccess::Server(server) if server.is_loopback() => Deadlines::on_loopback(),
            _ => Deadlines::default(),
        };
        usual.replaced(self.deadlines).shortened(agent_yaml)
    }
}

/// Collects every key of the environment, used or not, for redaction.
pub fn secrets(lookup: impl Fn(&str) -> Option<String>) -> Secrets {
    Secrets::of(lookup)
}

/// Checks that a key can be sent in a header and may be sent to this address.
fn check_key(variable: &'static str, key: String, url: &Url) -> Result<Secret, ModelAccessError> {
    if !key.chars().all(|c| c.is_ascii_graphic()) {
        return Err(ModelAccessError::KeyUnusable { variable });
    }
    check_origin(variable, url)?;
    Ok(Secret::new(key))
}

/// Checks that a key may be sent to this address.
fn check_origin(variable: &'static str, url: &Url) -> Result<(), ModelAccessError> {
    if url.scheme() == "http" && !is_loopback(url) {
        let origin = url.origin().ascii_serialization();
        return Err(ModelAccessError::KeyOverPlainHttp { variable, origin });
    }
    Ok(())
}

/// Checks that an address can be used for requests.
fn check_url(variable: &'static str, text: &str) -> Result<Url, ModelAccessError> {
    let unusable = |reason| ModelAccessError::BaseUrl { variable, reason };
    let url = Url::parse(text).map_err(|_| unusable("it is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unusable("only http and https are supported"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable(
            "it contains a user or password; a key belongs in the setting for it",
        ));
    }
    if url.fragment().is_some() {
        return Err(unusable("it has a fragment (`#`)"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(file: &str, variables: &[(&str, &str)]) -> Result<Selected, ModelAccessError> {
        let user = UserSettings::parse(file, std::path::Path::new("config.toml"), None).unwrap();
        model_access(&user, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn access(variables: &[(&str, &str)]) -> Result<ModelServer, ModelAccessError> {
        select("", variables).map(|selected| selected.server)
    }

    const URL: (&str, &str) = ("AGENT_LLM_BASE_URL", "https://llm.example.com/v1");
    const MODEL: (&str, &str) = ("AGENT_LLM_MODEL", "m-1");
    const OPENAI: (&str, &str) = ("OPENAI_API_KEY", "sk-canary");
    const ANTHROPIC: (&str, &str) = ("ANTHROPIC_API_KEY", "ak-canary");

    #[test]
    fn a_custom_server_wins_over_vendor_keys() {
        let custom = |key: Option<&str>| ModelServer {
            key: key.map(|key| Key::Value(Secret::new(key))),
            ..ModelServer::new(WireName::ChatCompletions, URL.1, "m-1")
        };
        assert_eq!(access(&[URL, MODEL, OPENAI, ANTHROPIC]), Ok(custom(Some("sk-canary"))));
        assert_eq!(access(&[URL, MODEL, ANTHROPIC]), Ok(custom(None)));
    }

    #[test]
    fn an_address_without_a_model_never_falls_through() {
        assert_eq!(access(&[URL, ANTHROPIC, OPENAI]), Err(ModelAccessError::NoModelName));
        assert_eq!(access(&[URL, ("AGENT_LLM_MODEL", " ")]), Err(ModelAccessError::NoModelName));
    }

    #[test]
    fn anthropic_wins_over_openai_and_both_have_a_default() {
        let with = |wire, base_url: &str, model: &str, key: &str| {
            ModelServer::new(wire, base_url, model).with_key(Secret::new(key))
        };
        let anthropic =
            |base_url: &str, model: &str| with(WireName::Messages, base_url, model, "ak-canary");
        let openai =
            |base_url: &str, model: &str| with(WireName::Responses, base_url, model, "sk-canary");
        let (own, sdk) =
            (("ANTHROPIC_BASE_URL", "http://[::1]:8"), ("OPENAI_BASE_URL", "https://o/v1"));
        let (a, o) = ("https://api.anthropic.com", "https://api.openai.com/v1");
        assert_eq!(access(&[OPENAI, ANTHROPIC, sdk]), Ok(anthropic(a, "claude-opus-5-5")));
        assert_eq!(access(&[ANTHROPIC, MODEL, own]), Ok(anthropic("http://[::1]:8", "m-1")));
        assert_eq!(access(&[OPENAI, own]), Ok(openai(o, "gpt-6.1-sol")));
        assert_eq!(access(&[OPENAI, MODEL, sdk]), Ok(openai("https://o/v1", "m-1")));
    }

    #[test]
    fn a_vendors_address_is_judged_like_any_other() {
        let plain = ("ANTHROPIC_BASE_URL", "http://llm.example.com");
        let error = access(&[ANTHROPIC, OPENAI, plain]).unwrap_err();
        assert_eq!(error.code(), "key_over_plain_http");
        assert!(
            error.to_string().contains("ANTHROPIC_API_KEY")
                && !error.to_string().contains("canary")
        );
        let error = access(&[OPENAI, ("OPENAI_BASE_URL", "ftp://h")]).unwrap_err();
        assert!(error.to_string().contains("OPENAI_BASE_URL"), "{error}");
        assert_eq!(access(&[("ANTHROPIC_API_KEY", "a b")]).unwrap_err().code(), "key_unusable");
    }

    #[test]
    fn nothing_at_all_names_the_variables() {
        let message = access(&[MODEL, ("OPENAI_API_KEY", "")]).unwrap_err().to_string();
        assert!(message.starts_with("cannot proceed without model access"));
        for name in ["AGENT_LLM_BASE_URL", "AGENT_LLM_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"]
        {
            assert!(message.contains(name), "{message}");
        }
    }

    #[test]
    fn a_key_goes_over_plain_http_to_loopback_only() {
        let with =
            |url, keys: &[_]| access(&[&[("AGENT_LLM_BASE_URL", url), MODEL], keys].concat());
        for url in [
            "http://127.0.0.1:1/v1",
            "http://127.9.9.9/v1",
            "http://[::1]:8/v1",
            "http://localhost:11434/v1",
        ] {
            assert!(with(url, &[OPENAI]).is_ok(), "{url}");
        }
        for url in [
            "http://10.0.0.1/v1",
            "http://localhost.example.com/v1",
            "http://127.0.0.1.example.com/v1",
            "http://0.0.0.0/v1",
        ] {
            let error = with(url, &[OPENAI]).unwrap_err();
            assert_eq!(error.code(), "key_over_plain_http", "{url}");
            assert!(with(url, &[]).is_ok());
        }
    }

    #[test]
    fn addresses_and_keys_that_cannot_work_are_refused() {
        for url in ["llm", "ftp://h/v1", "https://user:sk-canary@h/v1", "https://h/v1#x", "http://"]
        {
            let error = access(&[("AGENT_LLM_BASE_URL", url), MODEL]).unwrap_err();
            assert_eq!(error.code(), "base_url_unusable", "{url}");
            assert!(!error.to_string().contains("canary"));
        }
        let error = access(&[URL, MODEL, ("OPENAI_API_KEY", "sk\ncanary")]).unwrap_err();
        assert_eq!(error.code(), "key_unusable");
    }

    #[test]
    fn unused_keys_are_redacted_too() {
        let secrets = secrets(|name| (name == ANTHROPIC.0).then(|| "ak-canary\n".into()));
        assert_eq!(secrets.redact("x ak-canary y"), "x [redacted] y");
    }

    const LOCAL: &str = "[model]\nendpoint = \"http://127.0.0.1:8080/v1\"\nname = \"qwen\"\n";

    // CONFIG-43
    #[test]
    fn the_file_selects_the_model_when_the_environment_names_no_provider() {
        let Selected { server, sources } = select(LOCAL, &[]).unwrap();
        let wire = WireName::ChatCompletions;
        let expected = ModelServer::new(wire, "http://127.0.0.1:8080/v1", "qwen");
        assert_eq!(server, ModelServer { origin: Origin::File, ..expected });
        assert_eq!((sources.endpoint, sources.model, sources.key), (FILE, FILE, None));
        let vendors = [
            ("messages", WireName::Messages, ANTHROPIC_BASE_URL, ANTHROPIC_MODEL),
            ("responses", WireName::Responses, OPENAI_BASE_URL, OPENAI_MODEL),
        ];
        for (word, wire, base_url, model) in vendors {
            let file = format!("[model]\nwire = \"{word}\"\nkey = \"sk-in-the-file\"\n");
            let Selected { server, sources } = select(&file, &[]).unwrap();
            assert_eq!((server.wire, server.base_url.as_str()), (wire, base_url));
            assert_eq!((server.model.as_str(), sources.model), (model, BY_DEFAULT));
            assert_eq!(server.key, Some(Key::Value(Secret::new("sk-in-the-file"))));
            assert_eq!(sources.key, Some("`key` in config.toml"));
        }
    }

    // CONFIG-43
    #[test]
    fn environment_or_file_each_is_used_as_a_whole() {
        let file = format!("{LOCAL}key = \"sk-in-the-file\"\ntools = \"schema\"\n");
        let selected = select(&file, &[OPENAI]).unwrap();
        assert_eq!(
            selected,
            select("", &[OPENAI]).unwrap(),
            "no key, address or tools of the file"
        );
        assert_eq!(select(&file, &[URL]), Err(ModelAccessError::NoModelName));
        let custom = select(&file, &[URL, MODEL]).unwrap();
        assert_eq!((custom.server.key, custom.server.tools), (None, ToolMode::Native));
        // The name alone replaces the model and nothing else.
        let Selected { server, sources } = select(&file, &[MODEL]).unwrap();
        assert_eq!((server.model.as_str(), sources.model), ("m-1", "AGENT_LLM_MODEL"));
        assert_eq!(server.base_url, "http://127.0.0.1:8080/v1");
        assert_eq!((server.tools, sources.tools), (ToolMode::Schema, FILE));
        assert_eq!(select("[limits]\n", &[MODEL]), Err(ModelAccessError::NoModelAccess));
    }

    // CONFIG-44
    #[test]
    fn a_key_of_the_file_goes_nowhere_in_plain_text() {
        let keys = ["key = \"sk-canary-1\"", "key_env = \"MY_KEY\"", "key_command = [\"pass\"]"];
        for key in keys {
            let file =
                format!("[model]\nendpoint = \"http://llm.example.com\"\nname = \"m\"\n{key}\n");
            let error = select(&file, &[("MY_KEY", "sk-canary-2")]).unwrap_err();
            assert_eq!(error.code(), "key_over_plain_http", "{key}");
            assert!(error.to_string().contains("config.toml"), "{error}");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }

    // CONFIG-44
    #[test]
    fn the_variable_of_the_file_has_to_be_set() {
        let file = format!("{LOCAL}key_env = \"MY_KEY\"\n");
        let error = select(&file, &[]).unwrap_err();
        assert_eq!(error.code(), "key_unset");
        assert!(error.to_string().contains("MY_KEY"), "{error}");
        let server = select(&file, &[("MY_KEY", " sk-of-a-variable\n")]).unwrap().server;
        assert_eq!(server.key, Some(Key::Value(Secret::new("sk-of-a-variable"))));
        assert_eq!(Secrets::default().redact("x sk-of-a-variable"), "x [redacted]");
        let error = select(&file, &[("MY_KEY", "a b")]).unwrap_err();
        assert_eq!(error.code(), "key_unusable");
    }

    // CONFIG-45
    #[test]
    fn tools_by_schema_are_of_chat_completions_alone() {
        let tools = |word| ("AGENT_LLM_TOOLS", word);
        let mode = |file, set: &[_]| select(file, set).map(|selected| selected.server.tools);
        assert_eq!(mode("", &[URL, MODEL]), Ok(ToolMode::Native));
        assert_eq!(mode("", &[URL, MODEL, tools("schema")]), Ok(ToolMode::Schema));
        assert_eq!(mode(LOCAL, &[tools("schema")]), Ok(ToolMode::Schema));
        let in_file = format!("{LOCAL}tools = \"schema\"\n");
        assert_eq!(mode(&in_file, &[tools("native")]), Ok(ToolMode::Native));
        assert_eq!(mode("", &[URL, MODEL, tools("json")]), Err(ModelAccessError::Tools));
        for vendor in [OPENAI, ANTHROPIC] {
            let error = mode("", &[vendor, tools("schema")]).unwrap_err();
            assert_eq!(error.code(), "tools_unusable");
            assert!(error.to_string().contains("AGENT_LLM_TOOLS"), "{error}");
        }
        let wire = "[model]\nwire = \"messages\"\nkey = \"sk-12345\"\ntools = \"schema\"\n";
        assert!(mode(wire, &[]).unwrap_err().to_string().contains("config.toml"));
    }

    // MODEL-21
    #[test]
    fn time_limits_follow_the_address_the_user_and_the_repository() {
        use std::time::Duration;
        let millis = |deadlines: Deadlines| {
            [deadlines.first, deadlines.idle, deadlines.total].map(|limit| limit.as_millis())
        };
        let of = |file: &str, url: &str, agent_yaml: DeadlineSettings| {
            let user =
                UserSettings::parse(file, std::path::Path::new("config.toml"), None).unwrap();
            let server = ModelServer::new(WireName::ChatCompletions, url, "m");
            millis(user.deadlines(&ModelAccess::Server(server), agent_yaml))
        };
        let none = DeadlineSettings::default();
        let (far, near) = ("https://llm.example.com/v1", "http://localhost:1/v1");
        assert_eq!(of("", far, none), [300_000, 90_000, 600_000]);
        for near in [near, "http://127.0.0.1:1/v1", "http://[::1]:1/v1"] {
            assert_eq!(of("", near, none), [1_800_000, 300_000, 3_600_000], "{near}");
        }
        let file = "[timeouts]\nmodel_first_byte = 400000\nmodel_silence = 5\n";
        assert_eq!(of(file, far, none), [400_000, 5, 600_000], "the user raises and lowers");
        let yaml = |ms| {
            let limit = Some(Duration::from_millis(ms));
            DeadlineSettings { first: limit, idle: limit, total: limit }
        };
        assert_eq!(of(file, far, yaml(7)), [7, 5, 7], "a repository shortens");
        assert_eq!(of(file, far, yaml(3_600_000)), [400_000, 5, 600_000], "and never lengthens");
    }
}
