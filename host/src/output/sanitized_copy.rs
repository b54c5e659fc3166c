//! Sanitises a text of any length on its way to a stream, in pieces that end with a line.

use std::io::{self, Read};

use act_core::terminal_text;

/// Bytes of one read.
const BLOCK: usize = 64 * 1024;
/// Longest line in bytes. Longer lines are cut, so that memory stays bounded.
const LINE: usize = 1024 * 1024;

/// Passes each piece to `to`, until `to` returns false because the stream is closed.
///
/// # Errors
///
/// Returns the first error of reading.
pub(super) fn copy(mut from: impl Read, mut to: impl FnMut(&str) -> bool) -> io::Result<()> {
    let mut held: Vec<u8> = vec![];
    let mut block = vec![0; BLOCK];
    loop {
        let length = match from.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        held.extend_from_slice(block.get(..length).unwrap_or_default());
        let whole = match held.iter().rposition(|byte| *byte == b'\n') {
            _ if length == 0 => held.len(),
            Some(at) => at + 1,
            None if held.len() > LINE => character_end(&held),
            None => 0,
        };
        if whole > 0 {
            let rest = held.split_off(whole);
            if !to(&terminal_text::block(&String::from_utf8_lossy(&held))) {
                return Ok(());
            }
            held = rest;
        }
        if length == 0 {
            return Ok(());
        }
    }
}

/// Returns the length without a UTF-8 character that is cut off at the end.
fn character_end(bytes: &[u8]) -> usize {
    let begins = |byte: &u8| !(0x80..0xc0).contains(byte);
    let last = bytes.iter().rposition(begins).unwrap_or(0);
    if bytes.len() - last <= 4 && last > 0 { last } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(text: &[u8]) -> (String, usize) {
        let (mut out, mut pieces) = (String::new(), 0);
        copy(text, |piece| {
            out.push_str(piece);
            pieces += 1;
            true
        })
        .unwrap();
        (out, pieces)
    }

    #[test]
    fn a_long_text_comes_in_lines_and_does_nothing_to_the_terminal() {
        // security line 165
        let line = "\x1b[2Jline ü\x1b]0;owned\x07 of text\u{9b}31m\n";
        let (out, pieces) = copied(line.repeat(20_000).as_bytes());
        assert_eq!(out, "line ü of text\\u{9b}31m\n".repeat(20_000));
        assert!(pieces > 5);
        assert_eq!(copied(b"no end"), ("no end".into(), 1));
        assert_eq!(copied(b""), (String::new(), 0));
    }

    #[test]
    fn one_endless_line_is_cut_between_characters() {
        let (out, pieces) = copied("é".repeat(3 * LINE / 2).as_bytes());
        assert!(pieces > 1 && !out.contains('\u{fffd}'));
        assert_eq!(out.chars().count(), 3 * LINE / 2);
        let (out, _) = copied(&vec![0xff; 2 * LINE]);
        assert_eq!(out.chars().count(), 2 * LINE);
    }

    #[test]
    fn a_reader_that_went_away_ends_it() {
        let mut seen = 0;
        let endless = io::repeat(b'\n');
        copy(endless, |_| {
            seen += 1;
            seen < 3
        })
        .unwrap();
        assert_eq!(seen, 3);
    }
}
