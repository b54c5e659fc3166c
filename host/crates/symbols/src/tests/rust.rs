//! Rust.

use super::*;

#[test]
fn rust() {
    let outline = parsed(
        "src/a.rs",
        &r#"//! A file.
mod inner;
#[path = "odd/place.rs"]
mod odd;
use std::{fs, io::{self, Read as _}};
use CRATE::price::*;

pub const LIMIT: usize = 3;
static HIDDEN: u8 = 1;

#[derive(Debug)]
pub struct Cart<T> {
    items: Vec<T>,
}

impl<T> Cart<T> {
    pub(crate) fn total(&self) -> u64 {
        fn inside() {}
        CRATE::tax::rate() + super::shipping::cost()
    }
    fn quiet(&self) {}
}

impl std::fmt::Display for Cart<u8> {
    fn fmt(&self) {}
}

pub trait Priced {
    fn price(&self) -> u64;
}

macro_rules! cart { () => {} }

pub mod nested {
    pub(self) fn mine() {}
    pub fn theirs() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn adds_up() {}
}
"#
        .replace("CRATE", "crate"),
    );
    assert_eq!(
        symbols(&outline),
        [
            "8 constant +LIMIT",
            "9 constant HIDDEN",
            "12-14 type +Cart",
            "17-20 method +Cart.total",
            "21 method Cart.quiet",
            "25 method +Cart.fmt",
            "28-30 type +Priced",
            "29 method +Priced.price",
            "32 macro cart",
            "34-37 module +nested",
            "35 function nested.mine",
            "36 function +nested.theirs",
            "40-45 module tests",
            "44 test tests.adds_up",
        ]
    );
    assert_eq!(
        imports(&outline),
        [
            "2 self::inner",
            "4 odd/place.rs",
            "5 std::fs",
            "5 std::io",
            "5 std::io::Read",
            concat!("6 crate", "::price::*"),
            concat!("19 crate", "::tax::rate"),
            "19 super::shipping::cost",
            "41 self::*",
        ]
    );
    assert!(outline.complete);
    assert_eq!((outline.lines, outline.language), (45, Language::Rust));
}
