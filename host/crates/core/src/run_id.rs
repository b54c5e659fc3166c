//! Run ids: `run_{YYYYMMDD}_{HHMMSS}_{6 of [a-z0-9]}`, in UTC.

use std::fmt;

use chrono::{DateTime, NaiveDateTime, Utc};
use rand::RngExt;
use serde::{Deserialize, Serialize};

const FORMAT: &str = "%Y%m%d_%H%M%S";
const SUFFIX: usize = 6;
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// The id of a run, which is always one harmless path component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// The text is not a run id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a run id: {shown:?}; run ids look like run_20260131_235959_a1b2c3")]
pub struct RunIdError {
    shown: String,
}

impl RunId {
    /// Returns a new id. The caller creates the run's directory and generates another id when the name is taken.
    pub fn generate(at: DateTime<Utc>) -> Self {
        let mut rng = rand::rng();
        let suffix: String = (0..SUFFIX)
            .filter_map(|_| ALPHABET.get(rng.random_range(0..ALPHABET.len())))
            .map(|byte| char::from(*byte))
            .collect();
        Self(format!("run_{}_{suffix}", at.format(FORMAT)))
    }

    /// Parses a run id.
    ///
    /// # Errors
    ///
    /// Fails when the text has another form; the error shows the beginning of the text.
    pub fn parse(text: &str) -> Result<Self, RunIdError> {
        let refused = || RunIdError { shown: text.chars().take(64).collect() };
        let rest = text.strip_prefix("run_").ok_or_else(refused)?;
        let (time, suffix) = rest.rsplit_once('_').ok_or_else(refused)?;
        // chrono alone would accept signs, blanks and missing zeros.
        let digits = time.len() == 15
            && time.bytes().enumerate().all(|(at, byte)| match at {
                8 => byte == b'_',
                _ => byte.is_ascii_digit(),
            });
        let named = suffix.len() == SUFFIX && suffix.bytes().all(|byte| ALPHABET.contains(&byte));
        if digits && named && NaiveDateTime::parse_from_str(time, FORMAT).is_ok() {
            Ok(Self(text.to_owned()))
        } else {
            Err(refused())
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The time at which the run began, to the second.
    pub fn time(&self) -> DateTime<Utc> {
        let digits = self.0.get(4..19).unwrap_or_default();
        let time = NaiveDateTime::parse_from_str(digits, FORMAT);
        // `parse` and `generate` make no other ids.
        time.map(|time| time.and_utc()).unwrap_or_default()
    }
}

impl TryFrom<String> for RunId {
    type Error = RunIdError;

    fn try_from(text: String) -> Result<Self, RunIdError> {
        Self::parse(&text)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone;

    use super::*;

    // ARTIFACT-2
    #[test]
    fn a_generated_id_has_the_documented_form_and_parses_back() {
        let at = Utc.with_ymd_and_hms(2026, 1, 31, 23, 59, 58).unwrap();
        let ids: std::collections::BTreeSet<_> = (0..200).map(|_| RunId::generate(at)).collect();
        assert_eq!(ids.len(), 200, "the suffix tells runs of one second apart");
        for id in ids {
            assert!(id.as_str().starts_with("run_20260131_235958_"), "{id}");
            assert_eq!(id.time(), at);
            assert_eq!(RunId::parse(id.as_str()), Ok(id));
        }
    }

    // security line 126
    #[test]
    fn nothing_but_a_run_id_parses() {
        let long = "r".repeat(10_000);
        for text in [
            "",
            "run_",
            "../../etc/passwd",
            "run_x/../../y",
            "run_20260131_235959_a1b2c3/..",
            "run_20260131_235959_A1B2C3",
            "run_20260131_235959_a1b2c",
            "run_20260131_235959_a1b2c34",
            "run_20261331_235959_a1b2c3",
            "run_20260131_246060_a1b2c3",
            "run_+2260131_235959_a1b2c3",
            "run_20260131_235959_a1b2c\n",
            "run_20260131_235959_a1b2é",
            "run_evil",
            &long,
        ] {
            let error = RunId::parse(text).expect_err(text);
            assert!(error.to_string().len() < 600, "the message is bounded");
        }
    }
}
