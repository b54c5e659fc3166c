//! What a server says in the body of a refusal, whoever's server it is.

use serde_json::Value;

use super::excerpt;

/// Codes with which providers say that money or quota is gone: 429 like a rate limit, but waiting is no help.
const SPENT: [&str; 7] = [
    "billing_hard_limit_reached",
    "credit_balance_exhausted",
    "enforced_spend_limit_reached",
    "insufficient_quota",
    "organization_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "project_spend_limit_exceeded",
];

/// Types and codes with which servers say that a conversation is longer than the model or they can take.
const TOO_LONG: [&str; 4] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "request_too_large",
];

/// The same in words: Anthropic has no code for it, and most servers of other people's models have none.
const TOO_LONG_WORDS: [&str; 6] = [
    "context length",
    "context limit",
    "context size",
    "context window",
    "prompt is too long",
    "maximum prompt length",
];

/// In words where no code says it: Anthropic's 400 is an `invalid_request_error` like any other.
const NO_CREDIT_WORDS: [&str; 3] = ["credit balance", "plans & billing", "purchase credits"];

/// What an error body says, as far as it is one of the known shapes.
#[derive(Default)]
pub(super) struct Said {
    text: String,
    kind: Option<String>,
    codes: Vec<String>,
    pub(super) status: Option<u16>,
}

impl Said {
    /// `{"error":{…}}`, the inner object alone, a list of one such object, a bare string, or any text.
    pub(super) fn read(body: &[u8]) -> Self {
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            return Self { text: String::from_utf8_lossy(body).into_owned(), ..Self::default() };
        };
        let outer = json.get(0).unwrap_or(&json);
        let error = outer.get("error").unwrap_or(outer);
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let text = ["message", "detail"].iter().find_map(|name| word(&error[*name]));
        Self {
            text: text.or_else(|| word(error)).unwrap_or_else(|| error.to_string()),
            kind: word(&error["type"]),
            codes: [&error["code"], &error["details"]["error_code"]]
                .into_iter()
                .filter_map(word)
                .collect(),
            status: [&error["code"], &error["status"]]
                .iter()
                .find_map(|value| u16::try_from(value.as_u64()?).ok()),
        }
    }

    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.kind.iter().chain(&self.codes).map(String::as_str)
    }

    /// The code decides. The type only does where there is no code, since one type covers limits that pass
    /// and limits that do not.
    pub(super) fn spent(&self) -> bool {
        let spent = |word: &str| SPENT.contains(&word);
        match &self.codes[..] {
            [] => self.kind.as_deref().is_some_and(spent),
            codes => codes.iter().any(|code| spent(code)),
        }
    }

    pub(super) fn no_credit(&self) -> bool {
        let text = self.text.to_lowercase();
        self.words().any(|word| word == "billing_error")
            || NO_CREDIT_WORDS.iter().any(|words| text.contains(words))
    }

    /// A code says it wherever it stands; words only where nothing else is wrong than the request itself,
    /// as limits for tokens in a minute are told in similar ones.
    pub(super) fn too_long(&self, status: Option<u16>) -> bool {
        let blames_request = status.is_none_or(|status| matches!(status, 400 | 422));
        let text = self.text.to_lowercase();
        self.words().any(|word| TOO_LONG.contains(&word))
            || (blames_request && TOO_LONG_WORDS.iter().any(|words| text.contains(words)))
    }

    pub(super) fn quoted(&self) -> String {
        match excerpt(&self.text) {
            text if text.is_empty() => String::new(),
            text => format!(": {text}"),
        }
    }
}
