use proptest::prelude::*;

use super::*;
use crate::{Entry, Event};
use act_core::secret::Secrets;

fn record(object: &str) -> Record {
    Entry::new(Event::Edit).object(object).into_record("boot", &Secrets::default())
}

fn sealed(object: &str) -> (Record, Vec<u8>) {
    let (record, line) = seal(record(object), 7, &"ab".repeat(32)).unwrap();
    (record, line.trim_end().as_bytes().to_vec())
}

// AUDIT-3
#[test]
fn anybody_can_compute_the_hash_of_a_line() {
    let (record, line) = sealed("src/a.rs");
    let line = String::from_utf8(line).unwrap();
    let (body, seal) = line.rsplit_once(r#","hash":""#).unwrap();
    let mut hasher = sha2::Sha256::new();
    hasher.update(format!("act-audit-v1{}{body}}}", "ab".repeat(32)));
    let computed: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(seal, format!("{computed}\"}}"));
    assert_eq!(record.hash, computed);
    assert!(line.starts_with(r#"{"v":1,"seq":7,"time":""#), "{line}");
}

#[test]
fn a_line_that_is_read_is_the_record_that_was_written() {
    let (record, line) = sealed("a\u{1b}\"\\ä");
    assert_eq!(parse_line(&line), LogLine::Record(Box::new(record)));
}

// AUDIT-8
#[test]
fn what_a_stopped_writer_leaves_is_told_from_what_was_changed() {
    let (_, line) = sealed("src/a.rs");
    for cut in 0..line.len() {
        assert_eq!(
            parse_line(&line[..cut]),
            LogLine::Torn(line[..cut].to_vec()),
            "{cut} of {}",
            line.len()
        );
    }
}

proptest! {
    /// Security line 185: no byte of a sealed line can be another one.
    #[test]
    fn a_changed_byte_is_found(at in any::<prop::sample::Index>(), flip in 1u8..) {
        let (_, mut line) = sealed("src/a.rs");
        let at = at.index(line.len());
        line[at] ^= flip;
        prop_assert!(!matches!(parse_line(&line), LogLine::Record(_)), "{}", String::from_utf8_lossy(&line));
    }

    #[test]
    fn nothing_read_from_a_file_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(!matches!(parse_line(&bytes), LogLine::Record(_)));
    }
}

// AUDIT-6
#[test]
fn no_record_is_longer_than_a_line_may_be_whatever_it_is_about() {
    let nasty = "\"\\\u{202e}".repeat(5_000);
    let subject =
        crate::Subject { name: nasty.clone(), sha256: nasty.clone(), world: Some(nasty.clone()) };
    let entry = Entry::new(Event::Edit).object(&nasty).reason(&nasty).subject(&subject);
    let entry = entry.names(std::iter::repeat_n(nasty.as_str(), 1_000));
    let (_, line) = seal(entry.into_record("boot", &Secrets::default()), 1, GENESIS).unwrap();
    assert!(line.len() < MAX_LINE, "{}", line.len());
}
