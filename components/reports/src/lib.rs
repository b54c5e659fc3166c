//! What the host and the components agree on, defined once for both.
//!
//! - [`report_a`] and [`report_b`]: the reports of Scout A and Scout B, schema version 1.
//! - [`facts_a`] and [`facts_b`]: what they compute without a model (`act scout a --facts`).
//! - [`source`]: which language a path names, and whether it names a test.
//!
//! The host reads strictly: a report comes from a component that nobody has to trust, so every field must be there and
//! no field may be unknown ([`version::checked`] is the entry point). A Scout reads what its model wrote with the
//! feature `lenient`: fields may be missing, and unknown ones are still refused. Both write the same JSON. This crate does
//! no input or output, and whatever it is given may be hostile.

pub mod facts_a;
pub mod facts_b;
pub mod report_a;
pub mod report_b;
pub mod source;
pub mod version;

pub use facts_a::FactsA;
pub use facts_b::FactsB;
pub use report_a::ReportA;
pub use report_b::ReportB;

/// Replaces control characters and cuts the text, so that it fits on one line of output.
fn one_line(text: &str, most: usize) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
}
