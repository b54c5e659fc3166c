//! Sanitises foreign text for a terminal, so that it can only be read.
//!
//! Repository, model, engine and steps choose names, log lines and prose. A control sequence in them could recolour,
//! overwrite or erase messages of act, set the clipboard or plant a link, and a bidirectional override could show a path
//! as another one. Complete sequences are dropped, because they only carry styling; every other character that controls
//! a terminal or is invisible is shown by its code. A sequence without an end is not dropped, so that the text after it
//! does not vanish.

use std::borrow::Cow;

/// Returns whether a reader cannot see a character for what it is: a control (of ASCII and Latin-1, including tab and line
/// feed), a separator, a bidirectional mark or an invisible one. This is the only list, so that no output shows what another
/// one hides.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            // Joiners and fillers: letters that look like nothing, or like a blank.
            | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}'
            | '\u{16fe4}'
            // Variation selectors and tags can carry a hidden text of any length. Unicode keeps their whole plane for
            // characters that are not drawn.
            | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}')
}

/// A control string (OSC, DCS, …) longer than this is shown instead of dropped.
const MAX_CONTROL_STRING: usize = 4096;

/// Sanitises one line: line breaks are shown by their code as well.
pub fn line(text: &str) -> Cow<'_, str> {
    clean(text, false)
}

/// Sanitises several lines: `\n` and `\r\n` stay line breaks.
pub fn block(text: &str) -> Cow<'_, str> {
    clean(text, true)
}

/// Escapes characters in JSON that control a terminal or are invisible, without changing its meaning. They can only appear in strings, except a
/// carriage return, which can only appear between values.
pub fn json(text: &str) -> Cow<'_, str> {
    let inert = |c: char| !acts_or_hides(c) || c == '\n';
    // Most of a document is plain ASCII, which needs no look at tables.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n');
    if text.bytes().all(is_plain) || text.chars().all(inert) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if inert(c) {
            clean.push(c);
            continue;
        }
        if c == '\r' {
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            clean.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(clean)
}

fn clean(text: &str, breaks: bool) -> Cow<'_, str> {
    let harmless = |c: char| !acts_or_hides(c) || (breaks && c == '\n');
    let Some(first) = text.find(|c| !harmless(c)) else { return Cow::Borrowed(text) };
    let (mut out, mut rest) = text.split_at(first);
    let mut clean = String::with_capacity(text.len());
    loop {
        clean.push_str(out);
        let mut chars = rest.chars();
        let Some(c) = chars.next() else { return Cow::Owned(clean) };
        let after = chars.as_str();
        rest = match c {
            '\x1b' => match sequence_length(after) {
                Some(length) => after.get(length..).unwrap_or_default(),
                None => shown(&mut clean, c, after),
            },
            // The next round prints the line feed.
            '\r' if breaks && after.starts_with('\n') => after,
            _ => shown(&mut clean, c, after),
        };
        (out, rest) = rest.split_at(rest.find(|c| !harmless(c)).unwrap_or(rest.len()));
    }
}

fn shown<'a>(clean: &mut String, c: char, after: &'a str) -> &'a str {
    clean.extend(c.escape_default());
    after
}

/// Joiners are shown by their code as well. Some scripts and emoji need them, and two names that differ in a joiner alone would
/// look the same.
fn acts_or_hides(c: char) -> bool {
    is_hidden(c) && c != '\t'
}

/// Returns the length of the sequence after ESC; `None` when it has no end.
fn sequence_length(after: &str) -> Option<usize> {
    let bytes = after.as_bytes();
    match bytes.first()? {
        b'[' => {
            let body = bytes.get(1..)?;
            let parameters = body.iter().take_while(|b| matches!(b, 0x20..=0x3f)).count();
            matches!(body.get(parameters)?, 0x40..=0x7e).then_some(parameters + 2)
        }
        b']' | b'P' | b'X' | b'^' | b'_' => control_string_length(bytes),
        0x20..=0x2f => {
            let intermediates = bytes.iter().take_while(|b| matches!(b, 0x20..=0x2f)).count();
            matches!(bytes.get(intermediates)?, 0x30..=0x7e).then_some(intermediates + 1)
        }
        0x30..=0x7e => Some(1),
        _ => None,
    }
}

/// Finds the end of a control string: BEL or ESC `\` on the same line.
fn control_string_length(bytes: &[u8]) -> Option<usize> {
    for (at, byte) in bytes.iter().enumerate().take(MAX_CONTROL_STRING) {
        match byte {
            0x07 => return Some(at + 1),
            0x1b => return (bytes.get(at + 1) == Some(&b'\\')).then_some(at + 2),
            b'\n' => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_keeps_its_meaning_and_does_nothing() {
        let text = "c1 \u{9b}31m, bidi \u{202e}, tag \u{e0041}, del \u{7f}, line\nfeed, é";
        let raw = serde_json::Value::from(text).to_string();
        let clean = json(&raw);
        assert!(!clean.chars().any(acts_or_hides), "{clean}");
        assert!(clean.contains("\\u202e") && clean.contains("\\udb40\\udc41"), "{clean}");
        assert_eq!(serde_json::from_str::<String>(&clean).unwrap(), text);
    }

    #[test]
    fn whole_sequences_are_dropped_and_their_text_stays() {
        // security line 165
        assert_eq!(block("\x1b[31mred\x1b[0m \x1b[2J\x1b[1;1Hend"), "red end");
        assert_eq!(block("\x1b]52;c;ZXZpbA==\x07after"), "after");
        assert_eq!(block("\x1b]8;;http://x.invalid\x1b\\link\x1b]8;;\x1b\\"), "link");
        assert_eq!(block("\x1bPq#0\x1b\\dcs \x1b(Bcharset \x1bcreset"), "dcs charset reset");
    }

    #[test]
    fn what_follows_an_unfinished_sequence_stays_visible() {
        // security line 166
        assert_eq!(block("\x1b]0;title without end\nnext"), "\\u{1b}]0;title without end\nnext");
        assert_eq!(line("\x1b[31"), "\\u{1b}[31");
        assert_eq!(line("end\x1b"), "end\\u{1b}");
        let long = format!("\x1b]{}\x07", "x".repeat(MAX_CONTROL_STRING));
        assert!(line(&long).starts_with("\\u{1b}]xxx"));
    }

    #[test]
    fn lone_controls_and_invisible_characters_are_shown_by_their_code() {
        // security line 166
        assert_eq!(line("a\u{9b}31mb"), "a\\u{9b}31mb");
        assert_eq!(line("a\x07\x08\x7fb"), "a\\u{7}\\u{8}\\u{7f}b");
        assert_eq!(line("safe\rEVIL"), "safe\\rEVIL");
        assert_eq!(line("a\u{2028}b\u{202e}c\u{2066}d"), "a\\u{2028}b\\u{202e}c\\u{2066}d");
        assert_eq!(line("tag\u{e0041}"), "tag\\u{e0041}");
        // security line 167: what looks like nothing, or like a blank.
        for invisible in
            "\u{200c}\u{200d}\u{34f}\u{115f}\u{1160}\u{2800}\u{3164}\u{ffa0}\u{fe0f}\u{e0100}\u{e01f0}\u{fff0}\u{16fe4}"
                .chars()
        {
            let shown = format!("a\\u{{{:x}}}b", u32::from(invisible));
            assert_eq!(line(&format!("a{invisible}b")), shown);
            assert_eq!(block(&format!("a{invisible}b")), shown);
        }
    }

    #[test]
    fn a_line_keeps_no_break_and_a_block_keeps_only_line_feeds() {
        assert_eq!(line("a\nb\tc"), "a\\nb\tc");
        assert_eq!(block("a\r\nb\rc\n"), "a\nb\\rc\n");
    }

    #[test]
    fn json_means_the_same_and_is_inert() {
        // security line 166
        let hostile = "a\u{9b}31m\u{7f}\u{2028}\u{202e}\u{e0041}\u{1b}[2J ü";
        let text = serde_json::to_string(hostile).unwrap();
        let safe = json(&text);
        assert!(!safe.contains(acts_or_hides), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), hostile);
    }

    #[test]
    fn ordinary_text_is_not_copied() {
        assert!(matches!(block("Grüße, 你好, 👧\n\ttab"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_acts_on_comes_through(text in "(\\PC|[\u{0}-\u{9f}]|\u{1b}[\\[\\]P(]|[\u{2028}-\u{202e}]){0,40}") {
            prop_assert!(!line(&text).chars().any(acts_or_hides));
            prop_assert!(!block(&text).chars().any(|c| c != '\n' && acts_or_hides(c)));
        }

        #[test]
        fn visible_text_without_escapes_is_kept(text in "[ -~äöü\n]{0,80}") {
            prop_assert_eq!(&block(&text), &text);
        }
    }
}
