//! Sums of US dollars, in whole numbers: a sum of many small costs is exact, and a limit is compared without rounding.

use std::fmt;
use std::ops::AddAssign;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A sum of US dollars in whole nano-dollars (10⁻⁹ dollars): the cheapest models cost about ten of them a token. JSON holds
/// it as a decimal text, such as `"0.0123"`, because programs read JSON numbers as floats.
///
/// ```
/// use act_core::Usd;
///
/// let limit = Usd::parse("2.50").unwrap();
/// assert_eq!((limit.nanos(), limit.to_string()), (2_500_000_000, "2.50".to_owned()));
/// assert_eq!(Usd::from_nanos(1).rounded(), "$0.0001");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(u64);

/// Digits behind the point.
const DIGITS: usize = 9;
const NANOS: u64 = 1_000_000_000;

impl Usd {
    pub const ZERO: Self = Self(0);
    /// The highest limit of a task, and the highest price of a million tokens, that a person may set. Real ones are below a
    /// thousandth of it, so a higher number is a slip.
    pub const MOST: Self = Self(1_000_000 * NANOS);

    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Reads a decimal number such as `2`, `0.5` or `2.50`, without a sign, an exponent or a currency, and with at most nine
    /// digits behind the point. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > DIGITS {
            return None;
        }
        let whole = whole.parse::<u64>().ok()?.checked_mul(NANOS)?;
        let fraction = format!("{fraction:0<DIGITS$}").parse::<u64>().ok()?;
        whole.checked_add(fraction).map(Self)
    }

    /// Returns the sum for people: `$1.25`, and four digits below a dollar. It is rounded up, so that no cost is shown as
    /// nothing.
    pub fn rounded(self) -> String {
        let (unit, digits) = if self.0 < NANOS { (NANOS / 10_000, 4) } else { (NANOS / 100, 2) };
        let units = self.0.div_ceil(unit);
        let per_dollar = NANOS / unit;
        format!("${}.{:0digits$}", units / per_dollar, units % per_dollar)
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, more: Self) {
        self.0 = self.0.saturating_add(more.0);
    }
}

/// The exact decimal number, with at least two digits behind the point.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:0DIGITS$}", self.0 % NANOS);
        let shown = fraction.trim_end_matches('0').len().max(2);
        write!(f, "{}.{}", self.0 / NANOS, &fraction[..shown])
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a decimal number of dollars"))
    }
}

#[cfg(any(test, feature = "testing"))]
impl schemars::JsonSchema for Usd {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^[0-9]+\\.[0-9]{2,9}$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_read_and_shown_exactly() {
        for (text, nanos, shown) in [
            ("0", 0, "0.00"),
            ("2", 2_000_000_000, "2.00"),
            ("0.1", 100_000_000, "0.10"),
            ("0.000000001", 1, "0.000000001"),
            ("12.3456", 12_345_600_000, "12.3456"),
            ("18446744073.709551615", u64::MAX, "18446744073.709551615"),
        ] {
            let sum = Usd::parse(text).unwrap();
            assert_eq!((sum.nanos(), sum.to_string().as_str()), (nanos, shown), "{text}");
            let json = serde_json::to_string(&sum).unwrap();
            assert_eq!(json, format!("\"{shown}\""));
            assert_eq!(serde_json::from_str::<Usd>(&json).unwrap(), sum);
        }
    }

    #[test]
    fn other_texts_are_no_sum() {
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "1e3",
            "inf",
            "NaN",
            "$1",
            "1,5",
            " 1",
            "0x1",
            "1.0000000001",
            "18446744073.709551616",
            "99999999999999999999999",
            "١",
        ] {
            assert_eq!(Usd::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_cost_is_never_shown_as_nothing() {
        let shown = |nanos| Usd::from_nanos(nanos).rounded();
        assert_eq!((shown(0), shown(1)), ("$0.0000".to_owned(), "$0.0001".to_owned()));
        assert_eq!(shown(12_300_001), "$0.0124");
        assert_eq!(shown(999_999_999), "$1.0000");
        assert_eq!(shown(1_000_000_001), "$1.01");
        assert_eq!(shown(1_250_000_000), "$1.25");
    }

    #[test]
    fn sums_do_not_wrap() {
        let mut sum = Usd::from_nanos(u64::MAX);
        sum += Usd::from_nanos(1);
        assert_eq!(sum.nanos(), u64::MAX);
    }
}
