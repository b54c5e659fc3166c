//! Text of others on its way into a record: short, and nothing in it that a terminal acts on, because people
//! read the file itself, too.

use sha2::{Digest, Sha256};

use act_core::is_hidden;

/// At most about `most` bytes. What is cut ends with the beginning of the whole's digest.
pub(super) fn inert(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most));
    for c in text.chars() {
        if out.len() + 12 > most {
            let digest = hex(&Sha256::digest(text.as_bytes()));
            out.push_str("…#");
            out.push_str(digest.get(..12).unwrap_or_default());
            break;
        }
        match is_hidden(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    out
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0'));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // AUDIT-6
    #[test]
    fn a_name_is_short_and_nothing_in_it_acts_on_a_terminal() {
        assert_eq!(inert("src/ä.rs", 100), "src/ä.rs");
        assert_eq!(inert("a\u{1b}[2J\n\u{202e}", 100), r"a\u{1b}[2J\u{a}\u{202e}");
        let long = inert(&"x".repeat(5000), 1000);
        assert!(long.len() < 1020 && long.contains("…#"), "{long}");
        assert_ne!(long, inert(&"x".repeat(5001), 1000), "told apart");
    }

    #[test]
    fn digests_are_written_in_hex() {
        assert_eq!(hex(&[0, 0x1f, 0xff]), "001fff");
    }
}
