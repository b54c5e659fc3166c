//! Text of others on its way into a record: short, and nothing in it that a terminal acts on, because people
//! read the file itself, too.

use act_core::is_hidden;
use act_fs::Sha256;

/// At most about `most` bytes. What is cut ends with the beginning of the whole's digest.
pub(super) fn inert(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most));
    for c in text.chars() {
        if out.len() + 12 > most {
            let digest = Sha256::of(text.as_bytes()).to_string();
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

}
