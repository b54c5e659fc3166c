//! Lone halves of surrogate pairs in JSON text: `\ud83d` without its `\ude00`.
//!
//! Servers that cut a text anywhere send the two halves in two pieces, and a model may write a half alone. A Rust `String`
//! holds neither, and a whole turn should not fail because of one. serde_json reads a lone surrogate only into bytes, one
//! field at a time, so whole payloads are repaired here before they are parsed.

use std::borrow::Cow;
use std::ops::Range;

/// The escape that replaces a lone half: U+FFFD.
const LOST: &str = "\\ufffd";

/// Returns the JSON with every lone half replaced.
pub(super) fn replace_lone(json: &str) -> Cow<'_, str> {
    let lone = lone(json);
    if lone.is_empty() {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    let mut from = 0;
    for at in lone {
        out.push_str(&json[from..at.start]);
        out.push_str(LOST);
        from = at.end;
    }
    out.push_str(&json[from..]);
    Cow::Owned(out)
}

/// Joins the pieces of one text. It holds the first half of a pair that ended the last piece.
#[derive(Debug, Default)]
pub(super) struct SplitSurrogate(Option<String>);

impl SplitSurrogate {
    /// Returns the next piece, a JSON string, with the half from the piece before it. A half at its own end is stored.
    pub(super) fn join<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        let Some(text) = piece.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
            return replace_lone(piece);
        };
        let joined = match self.0.take() {
            Some(half) => Cow::Owned(format!("\"{half}{text}\"")),
            None => Cow::Borrowed(piece),
        };
        let end = joined.len() - 1;
        let first = |at: &Range<usize>| {
            at.end == end
                && matches!(
                    joined.as_bytes()[at.start + 3],
                    b'8' | b'9' | b'a' | b'A' | b'b' | b'B'
                )
        };
        let Some(last) = lone(&joined).pop().filter(first) else {
            return Cow::Owned(replace_lone(&joined).into_owned());
        };
        self.0 = Some(joined[last.clone()].to_owned());
        Cow::Owned(replace_lone(&format!("{}\"", &joined[..last.start])).into_owned())
    }

    /// Returns the replacement of a half that is still stored at the end of the text.
    pub(super) fn rest(&mut self) -> &'static str {
        if self.0.take().is_some() { "\u{fffd}" } else { "" }
    }
}

/// Returns the positions of the escapes of lone halves.
fn lone(json: &str) -> Vec<Range<usize>> {
    let bytes = json.as_bytes();
    let unit = |at: usize| {
        let digits = json.get(at + 2..at + 6).filter(|_| bytes[at..].starts_with(b"\\u"))?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut found, mut at) = (vec![], 0);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                found.push(at..at + 6);
                at += 6;
            }
            // Any other escape, including an escaped backslash.
            _ => at += 2,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[&str]) -> String {
        let mut half = SplitSurrogate::default();
        let mut text: String = pieces
            .iter()
            .map(|piece| serde_json::from_str::<String>(&half.join(piece)).unwrap())
            .collect();
        text.push_str(half.rest());
        text
    }

    /// MODEL-36
    #[test]
    fn halves_in_two_pieces_are_joined_and_lone_ones_replaced() {
        assert_eq!(joined(&[r#""hi \ud83d""#, r#""\ude00!""#]), "hi 😀!");
        assert_eq!(joined(&[r#""\uD83D\uDE00""#, r#""\\ud83d""#]), "😀\\ud83d");
        assert_eq!(joined(&[r#""a\ud83d""#, r#""b""#]), "a\u{fffd}b");
        assert_eq!(joined(&[r#""a\ud83d""#]), "a\u{fffd}");
        assert_eq!(joined(&[r#""\ude00\ud83dx""#]), "\u{fffd}\u{fffd}x");
        assert_eq!(joined(&[r#""\ud83d""#, r#""""#, r#""\ude00""#]), "😀");
        assert_eq!(joined(&[r#""end\\""#, r#""\"""#]), "end\\\"");
    }

    #[test]
    fn nothing_else_is_touched() {
        for json in
            ["", "null", "\"", "\"\\", "\"\\u12", "{\"a\":\"\\ud83d\\ude00\"}", "\"é\\u00e9\""]
        {
            assert!(matches!(replace_lone(json), Cow::Borrowed(same) if same == json), "{json}");
        }
    }
}
