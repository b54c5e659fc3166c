//! Single values of grants and approvals, checked where they are read, so that a value which breaks a rule never
//! exists.

/// A text is not a value of its type. The message says what the user should write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(pub(crate) String);

/// Declares a text type whose values pass a check.
macro_rules! value {
    ($(#[$doc:meta])* $name:ident, $check:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::values::ValueError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                $check(&text).map_err($crate::values::ValueError)?;
                Ok(Self(text))
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::values::ValueError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.to_owned().try_into()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

pub(crate) use value;

value!(
    /// Name under which a component is approved. It appears in prompts, file names and on terminals.
    ComponentName,
    is_component_name
);
value!(
    /// SHA-256 of a component's bytes, 64 lower-case hexadecimal digits.
    Sha256,
    is_sha256
);

impl Sha256 {
    /// Returns the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(act_fs::Sha256::of(bytes).to_string())
    }
}

fn is_component_name(text: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.len() <= 40
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(fits)
    {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a name: at most 40 of a-z, 0-9 and `-`, a letter first",
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

#[cfg(test)]
mod tests {
    use crate::{EnvName, Origin, RepoPart};

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
