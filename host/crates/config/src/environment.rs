//! Selects the model from the environment of the process.
//!
//! The functions take a lookup, so that no file of the repository can influence them and tests need no environment. An
//! empty variable counts as unset.

use std::net::IpAddr;

use reqwest::Url;

use super::EnvironmentError;
use act_core::secret::{Secret, Secrets};
use act_model::{ANTHROPIC_BASE_URL, ANTHROPIC_MODEL, ModelAccess, OPENAI_BASE_URL, OPENAI_MODEL};

/// Selects the model: a server of the user's own before Anthropic, Anthropic before OpenAI. If `AGENT_LLM_BASE_URL` is set,
/// no other variable is considered, even if the settings beside it are incomplete.
///
/// # Errors
///
/// Fails when no model is configured, or when an address or key cannot be used.
pub fn model_access(
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<ModelAccess, EnvironmentError> {
    let set = |name: &str| {
        lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    if let Some(base_url) = set("AGENT_LLM_BASE_URL") {
        let url = check_url("AGENT_LLM_BASE_URL", &base_url)?;
        let model = set("AGENT_LLM_MODEL").ok_or(EnvironmentError::NoModelName)?;
        let key = set("OPENAI_API_KEY").map(|key| check_key("OPENAI_API_KEY", key, &url));
        return Ok(ModelAccess::Custom { base_url, model, key: key.transpose()? });
    }
    let vendor = |key_variable, url_variable, default_url: &str, default_model: &str| {
        let Some(key) = set(key_variable) else { return Ok(None) };
        let base_url = set(url_variable).unwrap_or_else(|| default_url.to_owned());
        let url = check_url(url_variable, &base_url)?;
        let key = check_key(key_variable, key, &url)?;
        let model = set("AGENT_LLM_MODEL").unwrap_or_else(|| default_model.to_owned());
        Ok(Some((base_url, model, key)))
    };
    let anthropic =
        vendor("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ANTHROPIC_BASE_URL, ANTHROPIC_MODEL)?;
    if let Some((base_url, model, key)) = anthropic {
        return Ok(ModelAccess::Anthropic { base_url, model, key });
    }
    let openai = vendor("OPENAI_API_KEY", "OPENAI_BASE_URL", OPENAI_BASE_URL, OPENAI_MODEL)?;
    let (base_url, model, key) = openai.ok_or(EnvironmentError::NoModelAccess)?;
    Ok(ModelAccess::OpenAi { base_url, model, key })
}

/// Collects every key of the environment, used or not, for redaction.
pub fn secrets(lookup: impl Fn(&str) -> Option<String>) -> Secrets {
    Secrets::of(lookup)
}

/// Checks that a key can be sent in a header and may be sent to this address.
fn check_key(variable: &'static str, key: String, url: &Url) -> Result<Secret, EnvironmentError> {
    if !key.chars().all(|c| c.is_ascii_graphic()) {
        return Err(EnvironmentError::KeyUnusable { variable });
    }
    if url.scheme() == "http" && !is_loopback(url) {
        let origin = url.origin().ascii_serialization();
        return Err(EnvironmentError::KeyOverPlainHttp { variable, origin });
    }
    Ok(Secret::new(key))
}

/// Checks that an address can be used for requests.
fn check_url(variable: &'static str, text: &str) -> Result<Url, EnvironmentError> {
    let unusable = |reason| EnvironmentError::BaseUrl { variable, reason };
    let url = Url::parse(text).map_err(|_| unusable("it is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unusable("only http and https are supported"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable(
            "it contains a user or password; a key belongs in the variable for it",
        ));
    }
    if url.fragment().is_some() {
        return Err(unusable("it has a fragment (`#`)"));
    }
    Ok(url)
}

/// Returns whether an address is on this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(variables: &[(&str, &str)]) -> Result<ModelAccess, EnvironmentError> {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        model_access(|name| {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        })
    }

    const URL: (&str, &str) = ("AGENT_LLM_BASE_URL", "https://llm.example.com/v1");
    const MODEL: (&str, &str) = ("AGENT_LLM_MODEL", "m-1");
    const OPENAI: (&str, &str) = ("OPENAI_API_KEY", "sk-canary");
    const ANTHROPIC: (&str, &str) = ("ANTHROPIC_API_KEY", "ak-canary");

    #[test]
    fn a_custom_server_wins_over_vendor_keys() {
        let custom = |key: Option<&str>| ModelAccess::Custom {
            base_url: URL.1.into(),
            model: "m-1".into(),
            key: key.map(Secret::new),
        };
        assert_eq!(access(&[URL, MODEL, OPENAI, ANTHROPIC]), Ok(custom(Some("sk-canary"))));
        assert_eq!(access(&[URL, MODEL, ANTHROPIC]), Ok(custom(None)));
    }

    #[test]
    fn an_address_without_a_model_never_falls_through() {
        assert_eq!(access(&[URL, ANTHROPIC, OPENAI]), Err(EnvironmentError::NoModelName));
        assert_eq!(access(&[URL, ("AGENT_LLM_MODEL", " ")]), Err(EnvironmentError::NoModelName));
    }

    #[test]
    fn anthropic_wins_over_openai_and_both_have_a_default() {
        let anthropic = |base_url: &str, model: &str| ModelAccess::Anthropic {
            base_url: base_url.into(),
            model: model.into(),
            key: Secret::new("ak-canary"),
        };
        let openai = |base_url: &str, model: &str| ModelAccess::OpenAi {
            base_url: base_url.into(),
            model: model.into(),
            key: Secret::new("sk-canary"),
        };
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
}
