//! Single values of a grant, checked where they are read: what cannot be written down cannot be granted.

use std::fmt;

use reqwest::Url;
use serde::{Deserialize, Serialize};

const MAX_PATH: usize = 1024;
const MAX_NAME: usize = 128;

/// Why a value cannot stand in a grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAWord(String);

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $check:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NotAWord;

            fn try_from(text: String) -> Result<Self, NotAWord> {
                $check(&text).map_err(NotAWord)?;
                Ok(Self(text))
            }
        }

        impl std::str::FromStr for $name {
            type Err = NotAWord;

            fn from_str(text: &str) -> Result<Self, NotAWord> {
                text.to_owned().try_into()
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                word.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

word!(
    /// `scheme://host[:port]` in the one form that is compared: lower case, no default port, no path.
    Origin,
    is_origin
);
word!(
    /// Of a request, in capitals.
    Method,
    is_method
);
word!(
    /// Of an environment variable that may be granted.
    EnvName,
    is_env_name
);
word!(
    /// A file or directory of the repository, everything below it included.
    RepoPart,
    is_repo_part
);

word!(
    /// Under which a component is approved: it reaches prompts, file names and terminals.
    ComponentName,
    is_component_name
);
word!(
    /// Of a component's bytes, 64 lower-case hexadecimal digits.
    Sha256,
    is_sha256
);

fn is_component_name(text: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.len() <= 40
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(fits)
    {
        return Ok(());
    }
    Err(format!(
        "`{}` is no name: at most 40 of a-z, 0-9 and `-`, a letter first",
        text.escape_debug()
    ))
}

fn is_sha256(text: &str) -> Result<(), String> {
    let hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    if text.len() == 64 && text.chars().all(hex) {
        return Ok(());
    }
    Err("a SHA-256 has 64 hexadecimal digits, letters in lower case".to_owned())
}

fn is_origin(text: &str) -> Result<(), String> {
    let refused = |why: &str| Err(format!("`{}` is no origin: {why}", text.escape_debug()));
    let Ok(url) = Url::parse(text) else {
        return refused("write `https://HOST` or `https://HOST:PORT`");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refused("only http and https are spoken");
    }
    if text.contains(['*', '%']) {
        return refused("it must name one host");
    }
    if url.host_str().is_none_or(|host| host.ends_with('.')) {
        return refused("a host does not end with a dot");
    }
    let exact = url.origin().ascii_serialization();
    if exact != text {
        return refused(&format!("write `{exact}`"));
    }
    Ok(())
}

fn is_method(text: &str) -> Result<(), String> {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    if KNOWN.contains(&text) {
        return Ok(());
    }
    Err(format!("`{}` is no method; there are {}", text.escape_debug(), KNOWN.join(", ")))
}

/// Also says that keys and our own settings are never granted, in whatever case.
fn is_env_name(text: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.is_empty()
        || text.len() > MAX_NAME
        || text.starts_with(|c: char| c.is_ascii_digit())
        || !text.chars().all(fits)
    {
        return Err(format!("`{}` is no name of a variable", text.escape_debug()));
    }
    let upper = text.to_ascii_uppercase();
    if ["AGENT_", "ANTHROPIC_", "OPENAI_"].iter().any(|start| upper.starts_with(start)) {
        return Err(format!(
            "`{text}` is never granted: keys and settings of the model stay with the host"
        ));
    }
    Ok(())
}

fn is_repo_part(text: &str) -> Result<(), String> {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    if text.len() > MAX_PATH
        || text.chars().any(char::is_control)
        || text.contains('\\')
        || !text.split('/').all(plain)
    {
        return Err(format!(
            "`{}` is no path in the repository; write it like `src/lib`",
            text.escape_debug()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // security line 29
    #[test]
    fn an_origin_is_written_in_one_way_only() {
        for good in
            ["https://api.example.com", "http://127.0.0.1:8080", "https://[2606:4700::1]:8443"]
        {
            assert_eq!(good.parse::<Origin>().unwrap().as_str(), good);
        }
        for bad in [
            "api.example.com",
            "https://API.example.com",
            "https://api.example.com/",
            "https://api.example.com:443",
            "https://api.example.com.",
            "https://user@api.example.com",
            "https://*.example.com",
            "https://api.example.com/path",
            "ftp://api.example.com",
            "https://api.example.com\0.evil.test",
            "",
        ] {
            assert!(bad.parse::<Origin>().is_err(), "{bad:?}");
        }
    }

    // security line 33
    #[test]
    fn keys_and_settings_of_the_model_are_never_granted() {
        for name in
            ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AGENT_LLM_MODEL", "agent_x", "OpenAI_Base_URL"]
        {
            let refused = name.parse::<EnvName>().unwrap_err().to_string();
            assert!(refused.contains("never granted"), "{refused}");
        }
        for name in ["", "1A", "A-B", "A=B", "A\0"] {
            assert!(name.parse::<EnvName>().is_err(), "{name:?}");
        }
        assert!("FOO_1".parse::<EnvName>().is_ok());
    }

    #[test]
    fn a_part_of_the_repository_stays_inside_and_has_one_spelling() {
        for bad in ["", "/etc", "../x", "a/../b", "a//b", "a/", "./a", "a\\b", "a\0"] {
            assert!(bad.parse::<RepoPart>().is_err(), "{bad:?}");
        }
        assert!("src/lib.rs".parse::<RepoPart>().is_ok());
    }
}
