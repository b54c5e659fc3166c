//! Types and rules that the host and the components share.
//!
//! - [`report_a`] and [`report_b`]: the reports of Scout A and Scout B, schema version 1.
//! - [`facts_a`] and [`facts_b`]: what they compute without a model (`act scout a --facts`).
//! - [`commands`]: what a command line does: test, build, install, run a part, or do harm.
//! - [`failures`]: the failures that a step's log shows.
//! - [`source`]: which language a path names, and whether it names a test.
//!
//! The host reads strictly: a report comes from an untrusted component, so every field must be present and no field may
//! be unknown ([`version::checked`] is the entry point). A Scout reads what its model wrote with the
//! feature `lenient`: fields may be missing, and unknown ones are still refused. Lists and texts that are missing are
//! empty; a missing judgement ([`Judged`]) stays open until the Scout computes it. Both write the same JSON. This crate
//! does no input or output, and all its input may be hostile.

/// Declares an enum whose values are words of a report, each with its spelling.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $( $(#[$note:meta])* $variant:ident = $word:literal, )* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name { $( $(#[$note])* #[serde(rename = $word)] $variant, )* }

        impl $name {
            /// Returns the spelling of the value in a report.
            pub fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }
        }
    };
}

pub mod commands;
pub mod facts_a;
pub mod facts_b;
pub mod failures;
pub mod report_a;
pub mod report_b;
pub mod source;
pub mod version;

pub use facts_a::FactsA;
pub use facts_b::FactsB;
pub use report_a::ReportA;
pub use report_b::ReportB;

/// A judgement in an entry of a report, such as a level of risk. The model may leave it out. The Scout then computes it
/// from facts or drops the entry, so that no report holds a judgement that nobody made.
#[cfg(not(feature = "lenient"))]
pub type Judged<T> = T;
/// A judgement in an entry of a report, such as a level of risk. The model may leave it out. The Scout then computes it
/// from facts or drops the entry, so that no report holds a judgement that nobody made.
#[cfg(feature = "lenient")]
pub type Judged<T> = Option<T>;

/// Replaces control characters and cuts the text, so that it fits on one line of output.
fn one_line(text: &str, most: usize) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
}
