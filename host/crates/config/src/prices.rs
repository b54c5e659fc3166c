//! Prices of models: the table in the source, and the user's `[prices."PATTERN"]`, which wins over it.

use std::collections::BTreeMap;

use globset::{Glob, GlobBuilder};
use reqwest::Url;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::ceiling::{COST_LIMIT, is_cost_limit};
use super::user::UserSettings;
use act_core::Usd;
use act_model::{LongPrompt, ModelAccess, ModelServer, Price, Rates};

const TABLE: &str = include_str!("../prices.toml");
/// Maximum number of rows of the user. Each is compared with the name of one model, once in a command.
const MAX_ROWS: usize = 1000;
/// Maximum number of bytes of a pattern. Names of models have at most some dozens.
const MAX_PATTERN: usize = 200;

/// A price, and where it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priced {
    pub price: Price,
    pub source: PriceSource,
}

/// Where a price was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriceSource {
    /// `[prices."PATTERN"]` in `config.toml`
    User { pattern: String },
    /// The table in the source: the day of the price, and where it was read.
    Table { date: String, address: String },
    /// A script in place of a model.
    Script,
}

/// The prices of the user, by pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UserPrices(BTreeMap<String, Price>);

/// The prices of a row, in the source and in `config.toml`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(deserialize_with = "price")]
    input: Usd,
    #[serde(default, deserialize_with = "maybe_price")]
    cached_input: Option<Usd>,
    #[serde(default, deserialize_with = "maybe_price")]
    cache_write: Option<Usd>,
    #[serde(deserialize_with = "price")]
    output: Usd,
    long_prompt: Option<LongRow>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongRow {
    above: u64,
    #[serde(deserialize_with = "price")]
    input: Usd,
    #[serde(default, deserialize_with = "maybe_price")]
    cached_input: Option<Usd>,
    #[serde(default, deserialize_with = "maybe_price")]
    cache_write: Option<Usd>,
    #[serde(deserialize_with = "price")]
    output: Usd,
}

/// A row of the table in the source.
#[derive(Debug, Deserialize)]
struct TableRow {
    provider: String,
    model: String,
    date: String,
    address: String,
    #[serde(flatten)]
    prices: toml::Table,
}

#[derive(Debug, Deserialize)]
struct Table {
    price: Vec<TableRow>,
}

fn price<'de, D: Deserializer<'de>>(from: D) -> Result<Usd, D::Error> {
    let value = toml::Value::deserialize(from)?;
    usd(&value).filter(|price| *price <= Usd::MOST).ok_or_else(|| {
        D::Error::custom(
            "a price is a number of dollars for a million tokens from 0 to 1000000, with at most nine digits behind the point",
        )
    })
}

fn maybe_price<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Usd>, D::Error> {
    price(from).map(Some)
}

/// Returns a number of a TOML file as a sum. The shortest decimal text of a float is the number that was written, so no digit is
/// lost.
pub(super) fn usd(value: &toml::Value) -> Option<Usd> {
    match value {
        toml::Value::Integer(number) => Usd::parse(&number.to_string()),
        toml::Value::Float(number) => Usd::parse(&number.to_string()),
        _ => None,
    }
}

/// Reads a limit of the cost of a task from a TOML file.
///
/// # Errors
///
/// The value is not a number, or outside of the range of [`is_cost_limit`].
pub fn toml_cost_limit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Usd>, D::Error> {
    let limit = usd(&toml::Value::deserialize(from)?).filter(|limit| is_cost_limit(*limit));
    limit.map(Some).ok_or_else(|| D::Error::custom(format!("`max_cost` is {COST_LIMIT}")))
}

/// Returns a limit of the cost of a task, from a decimal number that a person typed.
pub fn cost_limit(text: &str) -> Option<Usd> {
    Usd::parse(text).filter(|sum| is_cost_limit(*sum))
}

impl From<Row> for Price {
    fn from(row: Row) -> Self {
        let Row { input, cached_input, cache_write, output, long_prompt } = row;
        let long_prompt = long_prompt.map(|row| {
            let LongRow { above, input, cached_input, cache_write, output } = row;
            LongPrompt { above, rates: rates(input, cached_input, cache_write, output) }
        });
        Self { rates: rates(input, cached_input, cache_write, output), long_prompt }
    }
}

/// A kind of input without a price of its own costs what other input costs.
fn rates(input: Usd, cached_input: Option<Usd>, cache_write: Option<Usd>, output: Usd) -> Rates {
    let (cached_input, cache_write) = (cached_input.unwrap_or(input), cache_write.unwrap_or(input));
    Rates { input, cached_input, cache_write, output }
}

fn glob(pattern: &str) -> Option<Glob> {
    GlobBuilder::new(pattern).empty_alternates(true).build().ok()
}

fn matches(pattern: &str, model: &str) -> bool {
    pattern == model || glob(pattern).is_some_and(|glob| glob.compile_matcher().is_match(model))
}

impl<'de> Deserialize<'de> for UserPrices {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = BTreeMap::<String, Row>::deserialize(from)?;
        if written.len() > MAX_ROWS {
            return Err(D::Error::custom(format!("there are more than {MAX_ROWS} prices")));
        }
        let fits = |pattern: &str| {
            (1..=MAX_PATTERN).contains(&pattern.len())
                && !pattern.chars().any(act_core::is_hidden)
                && glob(pattern).is_some()
        };
        if !written.keys().all(|pattern| fits(pattern)) {
            return Err(D::Error::custom(format!(
                "the name of a table of prices is the name of a model or a glob for such names, of at most {MAX_PATTERN} \
                 visible characters"
            )));
        }
        Ok(Self(written.into_iter().map(|(pattern, row)| (pattern, row.into())).collect()))
    }
}

impl UserPrices {
    /// Returns the row for a model: that of its name, else that of the longest pattern, which says most about it.
    fn of(&self, model: &str) -> Option<(&str, Price)> {
        let exact = self.0.get_key_value(model);
        let fitting = || {
            let rows = self.0.iter().filter(|(pattern, _)| matches(pattern, model));
            // The last of equals in the order of the map, so that the order in the file does not matter.
            rows.max_by_key(|(pattern, _)| pattern.len())
        };
        exact.or_else(fitting).map(|(pattern, price)| (pattern.as_str(), *price))
    }
}

/// Returns the row of the table in the source for a model at its provider's own address. A gateway or a local server may charge
/// anything for a model of the same name.
fn in_table(server: &ModelServer) -> Option<Priced> {
    let url = Url::parse(&server.base_url).ok()?;
    if url.scheme() != "https" || url.port().is_some() {
        return None;
    }
    let table: Table = toml::from_str(TABLE).ok()?;
    let mut rows = table.price.into_iter();
    let row = rows
        .find(|row| url.host_str() == Some(&row.provider) && matches(&row.model, &server.model))?;
    let TableRow { date, address, prices, .. } = row;
    let prices: Row = prices.try_into().ok()?;
    Some(Priced { price: prices.into(), source: PriceSource::Table { date, address } })
}

impl UserSettings {
    /// Returns the price of a model: that of `config.toml`, else that of the table in the source. `None` if neither has one: then
    /// the cost is unknown.
    pub fn price(&self, access: &ModelAccess) -> Option<Priced> {
        let server = match access {
            ModelAccess::Server(server) => server,
            ModelAccess::Scripted(_) => {
                return Some(Priced { price: Price::NOTHING, source: PriceSource::Script });
            }
        };
        match self.prices.of(&server.model) {
            Some((pattern, price)) => {
                let source = PriceSource::User { pattern: pattern.to_owned() };
                Some(Priced { price, source })
            }
            None => in_table(server),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use act_model::WireName;

    fn settings(text: &str) -> UserSettings {
        UserSettings::parse(text, Path::new("config.toml"), None).unwrap()
    }

    fn at(base_url: &str, model: &str) -> ModelAccess {
        ModelAccess::Server(ModelServer::new(WireName::Messages, base_url, model))
    }

    /// Returns the price of a million tokens of input.
    fn input(settings: &UserSettings, base_url: &str, model: &str) -> Option<String> {
        settings.price(&at(base_url, model)).map(|priced| priced.price.rates.input.to_string())
    }

    const ANTHROPIC: &str = "https://api.anthropic.com";

    // CONFIG-64
    #[test]
    fn every_row_of_the_table_is_whole_and_says_where_it_was_read() {
        let table: Table = toml::from_str(TABLE).unwrap();
        assert!(!table.price.is_empty());
        for row in table.price {
            let TableRow { provider, model, date, address, prices } = row;
            assert!(glob(&model).is_some(), "{model}");
            assert!(
                ["api.anthropic.com", "api.openai.com"].contains(&provider.as_str()),
                "{provider}"
            );
            assert!(address.starts_with("https://"), "{address}");
            let parts: Vec<_> = date.split('-').map(str::len).collect();
            assert_eq!(parts, [4, 2, 2], "{date}");
            let row: Row = prices.try_into().unwrap();
            assert!(row.cached_input.is_some() && row.cache_write.is_some(), "{model}");
            assert!(row.input > Usd::ZERO && row.output > row.input, "{model}");
            if let Some(long) = row.long_prompt {
                assert!(long.input > row.input && long.above > 0, "{model}");
            }
        }
    }

    // CONFIG-64
    #[test]
    fn the_models_that_are_used_by_default_have_a_price() {
        let none = UserSettings::default();
        for (base_url, model) in [
            (act_model::ANTHROPIC_BASE_URL, act_model::ANTHROPIC_MODEL),
            (act_model::OPENAI_BASE_URL, act_model::OPENAI_MODEL),
        ] {
            let priced = none.price(&at(base_url, model)).unwrap();
            assert!(matches!(priced.source, PriceSource::Table { .. }), "{model}");
        }
        assert_eq!(input(&none, ANTHROPIC, "claude-opus-4-5-20251101").as_deref(), Some("5.00"));
        let openai = "https://api.openai.com/v1";
        assert_eq!(input(&none, openai, "gpt-6.1-sol-2026-09-29").as_deref(), Some("2.00"));
    }

    // CONFIG-64, attack line 404
    #[test]
    fn a_name_that_only_looks_like_a_known_one_has_no_price() {
        let none = UserSettings::default();
        assert_eq!(input(&none, ANTHROPIC, "claude-opus-5-5").as_deref(), Some("4.00"));
        for name in [
            "claude-opus-5-5-turbo",
            "claude-opus-5-55",
            "my-claude-opus-5-5",
            "Claude-Opus-5-5",
            "claude-opus-5-5 ",
            "\u{441}laude-opus-5-5",
            "claude-opus-5\u{2011}5",
            "claude-opus-4-5-20251101-x",
            "claude-opus-4-5-2025110",
            "claude-opus-4-{8,7,6,5}",
        ] {
            assert_eq!(input(&none, ANTHROPIC, name), None, "{name}");
        }
    }

    // CONFIG-64, attack line 405
    #[test]
    fn a_known_name_at_another_address_has_no_price() {
        let none = UserSettings::default();
        for base_url in [
            "https://api.anthropic.com.example.com",
            "https://example.com/api.anthropic.com",
            "https://anthropic.com",
            "https://api.openai.com/v1",
            "http://api.anthropic.com",
            "https://api.anthropic.com:8443",
            "http://127.0.0.1:8080/v1",
        ] {
            assert_eq!(input(&none, base_url, "claude-opus-5-5"), None, "{base_url}");
        }
    }

    // CONFIG-64
    #[test]
    fn the_users_price_wins_and_the_name_wins_over_patterns() {
        let own = settings(
            "[prices.\"claude-*\"]\ninput = 1\noutput = 2\n[prices.\"claude-opus-*\"]\ninput = 2\noutput = 3\n\
             [prices.\"claude-opus-5-5\"]\ninput = 3.25\noutput = 4\n[prices.\"x[1m]\"]\ninput = 7\noutput = 8\n",
        );
        for (model, expected) in [
            ("claude-opus-5-5", "3.25"),
            ("claude-opus-5", "2.00"),
            ("claude-sonnet-5", "1.00"),
            ("x[1m]", "7.00"),
        ] {
            for base_url in [ANTHROPIC, "http://127.0.0.1:1/v1"] {
                assert_eq!(input(&own, base_url, model).as_deref(), Some(expected), "{model}");
            }
        }
        let priced = own.price(&at(ANTHROPIC, "claude-opus-5")).unwrap();
        let pattern = "claude-opus-*".to_owned();
        assert_eq!(priced.source, PriceSource::User { pattern });
        let rates = priced.price.rates;
        assert_eq!((rates.cached_input, rates.cache_write), (rates.input, rates.input));
    }

    // CONFIG-64, attack line 403
    #[test]
    fn what_is_no_price_is_refused() {
        let parse = |text: &str| UserSettings::parse(text, Path::new("config.toml"), None);
        for (row, says) in [
            ("input = -1\noutput = 1", "a price is a number of dollars"),
            ("input = 1000000.1\noutput = 1", "a price is a number of dollars"),
            ("input = inf\noutput = 1", "a price is a number of dollars"),
            ("input = \"1\"\noutput = 1", "a price is a number of dollars"),
            ("input = 0.0000000001\noutput = 1", "a price is a number of dollars"),
            ("output = 1", "missing field `input`"),
            ("input = 1", "missing field `output`"),
            ("input = 1\noutput = 1\ncached = 1", "unknown field `cached`"),
        ] {
            let error = parse(&format!("[prices.m]\n{row}\n")).unwrap_err().to_string();
            assert!(error.contains(says), "{row}: {error}");
        }
        let long = "x".repeat(MAX_PATTERN + 1);
        for pattern in ["", "a[", "a\\u001b", "a\\u202e", &long] {
            let error = parse(&format!("[prices.\"{pattern}\"]\ninput = 1\noutput = 1\n"));
            assert!(error.is_err(), "{pattern}");
        }
        assert!(parse("[prices.m]\ninput = 0\noutput = 0\n").is_ok(), "the word of a person");
        assert!(parse("[prices.m]\ninput = 1000000\noutput = 0.000000001\n").is_ok());
    }
}
