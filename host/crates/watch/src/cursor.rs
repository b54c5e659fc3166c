//! The cursor of the stream: how much of every journal a reader has got.
//!
//! A cursor names the journals that have not ended, each with the place behind the last line that was sent, and the place of the
//! newest task that was known. Journals that ended and were sent whole are not in it, so its length does not grow with the
//! history. It is text that the reader hands back, so it holds across restarts of the server, and nothing in it is trusted.

use std::collections::BTreeMap;

use act_task::TaskId;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

/// Version of the format, its first byte.
const VERSION: u8 = 1;
/// Maximum number of open journals in a cursor. With at most 26 bytes each, a cursor fits into the header of a request.
pub(crate) const MAX_OPEN: usize = 400;
/// Characters of an id behind `t-`.
const ID: usize = 6;

/// A place in a journal, behind a whole line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Bytes of the journal before this place.
    pub(crate) offset: u64,
    /// The number of the last event before this place; 0 at the beginning.
    pub(crate) seq: u64,
}

/// The places of a reader in all journals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The order of the newest task that the reader knows. Journals of older tasks that are not in `open` have been sent.
    pub(crate) seen: u64,
    pub(crate) open: BTreeMap<String, Mark>,
}

impl Position {
    pub(crate) fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        put(&mut bytes, self.seen);
        for (task_id, mark) in &self.open {
            bytes.extend(task_id.bytes().skip("t-".len()));
            put(&mut bytes, mark.offset);
            put(&mut bytes, mark.seq);
        }
        BASE64.encode(bytes)
    }

    /// Returns the position that a reader handed back, or `None` where the text is no cursor.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64.decode(text).ok()?;
        let mut rest = bytes.strip_prefix(&[VERSION])?;
        let mut position = Self { seen: take(&mut rest)?, open: BTreeMap::new() };
        while !rest.is_empty() {
            let (id, behind) = rest.split_at_checked(ID)?;
            rest = behind;
            let task_id = format!("t-{}", std::str::from_utf8(id).ok()?);
            let mark = Mark { offset: take(&mut rest)?, seq: take(&mut rest)? };
            if !TaskId::is_one(&task_id) || position.open.insert(task_id, mark).is_some() {
                return None;
            }
        }
        (position.open.len() <= MAX_OPEN).then_some(position)
    }
}

/// Appends a number, seven bits a byte, the lowest first.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        // More than 64 bits are no number of ours.
        number |= part.checked_shl(shift).filter(|shifted| shifted >> shift == part)?;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    // WATCH-21
    #[test]
    fn a_cursor_comes_back_as_it_was_given() {
        let mut position = Position { seen: 300, open: BTreeMap::new() };
        assert_eq!(Position::parse(&position.encode()), Some(position.clone()));
        position.open.insert("t-abc123".into(), Mark { offset: u64::MAX, seq: 0 });
        position.open.insert("t-zzz999".into(), Mark { offset: 128, seq: 127 });
        assert_eq!(Position::parse(&position.encode()), Some(position));
    }

    // attack 605
    #[test]
    fn an_invented_cursor_is_refused_and_never_read_beyond_its_end() {
        let good = Position {
            seen: 1,
            open: BTreeMap::from([("t-abc123".to_owned(), Mark { offset: 700, seq: 9 })]),
        };
        let bytes = BASE64.decode(good.encode()).unwrap();
        for cut in 0..bytes.len() {
            let read = Position::parse(&BASE64.encode(&bytes[..cut]));
            assert!(read.is_none_or(|read| read.open.is_empty()), "{cut}");
        }
        for text in ["", "0", "!", "AQ", "Av8", "AQFhYmM", &BASE64.encode([VERSION; 5000])] {
            assert_eq!(Position::parse(text), None, "{text}");
        }
        let endless = [&[VERSION][..], &[0xff; 40]].concat();
        assert_eq!(Position::parse(&BASE64.encode(endless)), None);
        let escape = [&[VERSION, 1][..], b"../../", &[0, 0]].concat();
        assert_eq!(Position::parse(&BASE64.encode(escape)), None, "no path is an id");
        let twice = [&[VERSION, 1][..], b"abc123", &[0, 0], b"abc123", &[0, 0]].concat();
        assert_eq!(Position::parse(&BASE64.encode(twice)), None);
    }
}
