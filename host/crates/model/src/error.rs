//! Classifies an error status, an error in the stream or a broken connection: whether a later attempt may succeed, and what
//! the user can do.

use std::error::Error as _;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::wire::Service;
use super::{ModelError, ModelErrorKind};
use act_core::is_hidden;

/// Maximum number of characters that a message quotes from a server.
const EXCERPT: usize = 300;

/// Types and codes of errors that the same request would get again.
const FINAL: [&str; 10] = [
    "authentication_error",
    "billing_error",
    "bio_policy",
    "data_residency_mismatch",
    "invalid_prompt",
    "invalid_request_error",
    "misalignment_policy_violation",
    "model_not_found",
    "not_found_error",
    "permission_error",
];

const NO_CREDIT: &str = "the account has no credit; look at the provider's billing page";

const LONGER: &str =
    "the conversation is longer than the model takes; a larger context of model or server helps";

impl ModelError {
    pub(super) fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after: None }
    }

    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Malformed, message)
    }

    pub(super) fn misused(message: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Misused, message)
    }
}

/// Returns the error for an answer whose status is not success.
pub(super) fn of_status(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    (service, has_key): (Service, bool),
    now: DateTime<Utc>,
) -> ModelError {
    use ModelErrorKind::{Rejected, TooLong, Unavailable};
    let error = ErrorBody::read(body);
    let number = status.as_u16();
    let kind = match number {
        413 => TooLong,
        _ if error.too_long(Some(number)) => TooLong,
        429 if error.spent() => Rejected,
        408 | 409 | 429 | 500.. => Unavailable,
        _ => Rejected,
    };
    let Service { key_variable, address_variable, .. } = service;
    let hint = match number {
        _ if kind == TooLong => LONGER.to_owned(),
        300..=399 => {
            format!("redirects are not followed; set {address_variable} to the final address")
        }
        401 | 403 if has_key => format!("the key in {key_variable} was refused; check it"),
        401 | 403 => format!("the server requires a key; set {key_variable}"),
        402 => NO_CREDIT.to_owned(),
        400 | 429 if error.no_credit() => NO_CREDIT.to_owned(),
        404 => format!("check {address_variable} and AGENT_LLM_MODEL"),
        429 if kind == Rejected => {
            "a spending limit or quota is used up; raise it with the provider".to_owned()
        }
        _ if kind == Unavailable => "a later attempt may succeed".to_owned(),
        _ => {
            "the server rejects this request; check AGENT_LLM_MODEL and the server's log".to_owned()
        }
    };
    ModelError {
        kind,
        message: format!("the model's server answered {number}{}; {hint}", error.quoted()),
        status: Some(number),
        retry_after: (kind == Unavailable).then(|| retry_after(headers, now)).flatten(),
    }
}

/// Returns the error for an error object inside a stream that began with a success status.
pub(super) fn of_stream_error(error: &str) -> ModelError {
    let error = ErrorBody::read(error.as_bytes());
    let status = error.status.filter(|status| (400..600).contains(status));
    let repeats = error.spent()
        || error.words().any(|word| FINAL.contains(&word))
        || status.is_some_and(|status| status < 500 && !matches!(status, 408 | 409 | 429));
    let (kind, hint) = match (error.too_long(status), repeats) {
        (true, _) => (ModelErrorKind::TooLong, format!("; {LONGER}")),
        (false, true) => (ModelErrorKind::Rejected, String::new()),
        (false, false) => (ModelErrorKind::Unavailable, String::new()),
    };
    let message = format!("the model's server broke off with an error{}{hint}", error.quoted());
    let mut failure = ModelError::new(kind, message);
    failure.status = status;
    failure
}

/// Returns the error for a failure of the connection. `answered` means that the status line has arrived.
pub(super) fn of_connection(error: reqwest::Error, answered: bool, service: Service) -> ModelError {
    let error = error.without_url();
    if let Some(certificate) = untrusted(&error) {
        let message = format!(
            "the certificate of the model's server is not trusted: {certificate}; nothing was sent"
        );
        return ModelError::new(ModelErrorKind::Rejected, message);
    }
    let cause = innermost(&error);
    if error.is_timeout() {
        let message = format!("no connection to the model's server in time: {cause}");
        return ModelError::new(ModelErrorKind::Timeout, message);
    }
    if answered {
        let message = format!("the connection broke before the turn was complete: {cause}");
        return ModelError::new(ModelErrorKind::Cut, message);
    }
    let message = format!(
        "cannot reach the model's server: {cause}; check that it runs and {}",
        service.address_variable
    );
    ModelError::new(ModelErrorKind::Transport, message)
}

fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Returns why the certificate was rejected, which no later attempt changes. The search unwraps `io::Error` by hand, because
/// its `source` skips the error that it wraps.
fn untrusted(error: &reqwest::Error) -> Option<String> {
    let mut cause = error.source();
    while let Some(source) = cause {
        let carried = source.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(rustls::Error::InvalidCertificate(reason)) = source.downcast_ref() {
            return Some(reason.to_string());
        }
        cause = match carried {
            Some(carried) => Some(carried),
            None => source.source(),
        };
    }
    None
}

/// Returns the wait of `retry-after-ms`, or of `retry-after` in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds =
        |text: &str, unit: f64| Duration::try_from_secs_f64(text.parse::<f64>().ok()? * unit).ok();
    if let Some(wait) = text("retry-after-ms").and_then(|text| seconds(text, 0.001)) {
        return Some(wait);
    }
    let text = text("retry-after")?;
    seconds(text, 1.0).or_else(|| {
        let date = DateTime::parse_from_rfc2822(text).ok()?;
        (date.with_timezone(&Utc) - now).to_std().ok()
    })
}

/// Returns one short line of a server's text. Keys are redacted later, so the line is cut between words: a key contains no
/// space and is there whole or not at all.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT) {
        None => line,
        Some((end, _)) => {
            let cut = line[..end].rfind(' ').unwrap_or(0);
            format!("{} …", &line[..cut])
        }
    }
}

/// Escapes hidden characters, so that a message is harmless on any terminal.
pub(super) fn escape_hidden(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Codes for a spent credit or quota. The status is 429 as for a rate limit, but waiting does not help.
const SPENT: [&str; 7] = [
    "billing_hard_limit_reached",
    "credit_balance_exhausted",
    "enforced_spend_limit_reached",
    "insufficient_quota",
    "organization_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "project_spend_limit_exceeded",
];

/// Types and codes for a conversation that is too long for the model or the server.
const TOO_LONG: [&str; 4] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "request_too_large",
];

/// Phrases for a conversation that is too long, because Anthropic and most servers of open models have no code for it.
const TOO_LONG_WORDS: [&str; 6] = [
    "context length",
    "context limit",
    "context size",
    "context window",
    "prompt is too long",
    "maximum prompt length",
];

/// Phrases for an account without credit, for which Anthropic sends an ordinary `invalid_request_error`.
const NO_CREDIT_WORDS: [&str; 3] = ["credit balance", "plans & billing", "purchase credits"];

/// The fields of an error body that has one of the known shapes.
#[derive(Default)]
struct ErrorBody {
    text: String,
    kind: Option<String>,
    codes: Vec<String>,
    status: Option<u16>,
}

impl ErrorBody {
    /// Reads `{"error":{…}}`, the inner object alone, a list of one such object, a bare string, or any text.
    fn read(body: &[u8]) -> Self {
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

    fn words(&self) -> impl Iterator<Item = &str> {
        self.kind.iter().chain(&self.codes).map(String::as_str)
    }

    /// Returns whether a limit is spent for good. The type decides only where there is no code, because one type covers
    /// limits that pass and limits that do not.
    fn spent(&self) -> bool {
        let spent = |word: &str| SPENT.contains(&word);
        match &self.codes[..] {
            [] => self.kind.as_deref().is_some_and(spent),
            codes => codes.iter().any(|code| spent(code)),
        }
    }

    fn no_credit(&self) -> bool {
        let text = self.text.to_lowercase();
        self.words().any(|word| word == "billing_error")
            || NO_CREDIT_WORDS.iter().any(|words| text.contains(words))
    }

    /// Returns whether the conversation is too long. A code is accepted with any status, a phrase only with a status that
    /// blames the request, because rate limits for tokens use similar phrases.
    fn too_long(&self, status: Option<u16>) -> bool {
        let blames_request = status.is_none_or(|status| matches!(status, 400 | 422));
        let text = self.text.to_lowercase();
        self.words().any(|word| TOO_LONG.contains(&word))
            || (blames_request && TOO_LONG_WORDS.iter().any(|words| text.contains(words)))
    }

    fn quoted(&self) -> String {
        match excerpt(&self.text) {
            text if text.is_empty() => String::new(),
            text => format!(": {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> ModelError {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let now = DateTime::parse_from_rfc3339("2026-11-21T10:00:00Z").unwrap().with_timezone(&Utc);
        let service = Service {
            wire: "Responses",
            key_variable: "OPENAI_API_KEY",
            address_variable: "OPENAI_BASE_URL",
            path: &[],
        };
        of_status(
            StatusCode::from_u16(status).unwrap(),
            &map,
            body.as_bytes(),
            (service, true),
            now,
        )
    }

    #[test]
    fn the_status_decides_whether_a_later_try_may_differ() {
        for status in [408, 409, 429, 500, 502, 503, 504, 529] {
            assert!(answer(status, &[], "").is_retryable(), "{status}");
        }
        for status in [301, 302, 307, 400, 401, 402, 403, 404, 413, 422] {
            assert!(!answer(status, &[], "").is_retryable(), "{status}");
        }
    }

    #[test]
    fn a_spent_limit_is_final_although_its_status_is_a_rate_limit() {
        let openai = r#"{"error":{"message":"no money","type":"insufficient_quota","code":"credit_balance_exhausted"}}"#;
        let anthropic = r#"{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
        assert!(!answer(429, &[("retry-after", "2")], openai).is_retryable());
        assert!(!answer(429, &[], anthropic).is_retryable());
        // One type covers limits that pass and limits that do not: the code decides where there is one.
        let type_alone = r#"{"error":{"type":"insufficient_quota","code":null}}"#;
        let passing = r#"{"error":{"type":"insufficient_quota","code":"rate_limit_exceeded"}}"#;
        assert!(
            !answer(429, &[], type_alone).is_retryable()
                && answer(429, &[], passing).is_retryable()
        );
        assert!(
            answer(429, &[], r#"{"error":{"type":"rate_limit_error","code":"slow_down"}}"#)
                .is_retryable()
        );
    }

    #[test]
    fn waits_are_read_in_milliseconds_seconds_or_as_a_date() {
        let wait = |headers: &[_]| answer(429, headers, "").retry_after;
        assert_eq!(wait(&[("retry-after", "2")]), Some(Duration::from_secs(2)));
        assert_eq!(wait(&[("retry-after", "0.5")]), Some(Duration::from_millis(500)));
        assert_eq!(
            wait(&[("retry-after", "9"), ("retry-after-ms", "1500")]),
            Some(Duration::from_millis(1500))
        );
        let date = "Sat, 21 Nov 2026 10:00:05 GMT";
        assert_eq!(wait(&[("retry-after", date)]), Some(Duration::from_secs(5)));
        for nonsense in ["-3", "soon", "1e99", "NaN", "Sat, 21 Nov 2026 09:00:00 GMT"] {
            assert_eq!(wait(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
    }

    // MODEL-35: by code, or in the words of Anthropic, OpenAI, vLLM, llama.cpp, SGLang and LM Studio.
    #[test]
    fn a_conversation_that_is_too_long_is_told_from_a_request_that_is_wrong() {
        use ModelErrorKind::{Rejected, TooLong, Unavailable};
        let said = |message: &str| format!(r#"{{"error":{{"message":"{message}"}}}}"#);
        for (status, body) in [
            (413, String::new()),
            (400, r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#.into()),
            (500, r#"{"error":{"code":500,"type":"exceed_context_size_error"}}"#.into()),
            (400, said("prompt is too long: 200251 tokens > 200000 maximum")),
            (400, said("input length and `max_tokens` exceed context limit: 1 + 2 > 2")),
            (400, said("This model's maximum context length is 4097 tokens.")),
            (400, said("the request exceeds the available context size")),
            (400, said("Your input exceeds the context window of this model.")),
        ] {
            let error = answer(status, &[], &body);
            assert_eq!((error.kind, error.is_retryable()), (TooLong, false), "{body}");
            assert!(error.message.contains("larger context"), "{}", error.message);
        }
        let in_stream = |message: &str| of_stream_error(&said(message)).kind;
        assert_eq!(in_stream("The model is loaded with context length of only 4096"), TooLong);
        assert_eq!(answer(400, &[], &said("unknown field `tools`")).kind, Rejected);
        // A limit that passes may speak of length, too.
        let passing = said("tokens per minute reached for this context length");
        assert_eq!(answer(429, &[], &passing).kind, Unavailable);
    }

    // security line 145
    #[test]
    fn a_refused_key_is_named_by_its_variable() {
        let message = answer(401, &[], r#"{"error":{"message":"Incorrect API key"}}"#).message;
        let expected = "the model's server answered 401: Incorrect API key; the key in OPENAI_API_KEY was refused; check it";
        assert_eq!(message, expected);
    }

    // MODEL-34
    #[test]
    fn a_request_without_credit_is_told_where_to_look() {
        let body = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}"#;
        for error in [
            answer(400, &[], body),
            answer(400, &[], r#"{"error":{"type":"billing_error","message":"m"}}"#),
            answer(402, &[], ""),
        ] {
            assert!(
                !error.is_retryable() && error.message.ends_with(NO_CREDIT),
                "{}",
                error.message
            );
        }
        assert!(answer(400, &[], "unknown field").message.contains("AGENT_LLM_MODEL"));
    }

    // security line 150
    #[test]
    fn what_a_server_says_is_cut_short_and_on_one_line() {
        let message = answer(500, &[], &"<p>\n\tgone ".repeat(200)).message;
        assert!(message.len() < 450 && message.contains("<p> gone"), "{message}");
        assert_eq!(escape_hidden("a\u{1b}]52;\u{202e}b"), "a\\u{1b}]52;\\u{202e}b");
    }

    #[test]
    fn an_error_in_the_stream_heals_unless_it_says_otherwise() {
        assert!(of_stream_error(r#"{"message":"overloaded","code":502}"#).is_retryable());
        assert!(of_stream_error(r#""engine died""#).is_retryable());
        assert!(!of_stream_error(r#"{"message":"m","code":400}"#).is_retryable());
        assert!(
            !of_stream_error(r#"{"message":"m","type":"invalid_request_error"}"#).is_retryable()
        );
        assert!(!of_stream_error(r#"{"code":"insufficient_quota"}"#).is_retryable());
    }
}
