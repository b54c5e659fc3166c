//! Reads versions and numbers of lines as callers write them. A whole number that no file can have, such as -1 or 2^64, becomes the
//! maximum, so that the refusal shows the lines of the file.

use serde::Deserializer;
use serde::de::{Error, Visitor};
use std::fmt;

/// Reads any whole number.
///
/// # Errors
///
/// When the value is no whole number.
pub fn version<'de, D: Deserializer<'de>>(text: D) -> Result<u64, D::Error> {
    text.deserialize_u64(Whole)
}

struct Whole;

/// From 2^63 on, the parser reads whole numbers as floating point numbers.
const BEYOND: f64 = 9_223_372_036_854_775_808.0;

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        Ok(u64::try_from(number).unwrap_or(u64::MAX))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        match number.abs() >= BEYOND {
            true => Ok(u64::MAX),
            false => Err(E::invalid_type(serde::de::Unexpected::Float(number), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    fn read(text: &str) -> Option<u64> {
        super::version(&mut serde_json::Deserializer::from_str(text)).ok()
    }

    // TOOLS-13
    #[test]
    fn what_no_file_can_have_is_a_number_that_none_has() {
        assert_eq!((read("0"), read("7")), (Some(0), Some(7)));
        for none in ["-1", "18446744073709551616", "-18446744073709551616", &"9".repeat(60)] {
            assert_eq!(read(none), Some(u64::MAX), "{none}");
        }
        for no_number in ["1.0", "1.5", "-0.5", "1e3", "\"1\"", "null", "[1]", ""] {
            assert_eq!(read(no_number), None, "{no_number}");
        }
    }
}
