//! What makes a record a link of the chain (pure): its place, the hash of the one before, and its own over
//! every byte of its line.

use sha2::{Digest, Sha256};

use super::record::Record;

const DOMAIN: &[u8] = b"act-audit-v1";
/// Before the first record.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Bytes of a line, its line feed included; none of ours comes near.
pub(super) const MAX_LINE: usize = 64 << 10;

const SEAL: &str = r#","hash":""#;
const END: &str = r#""}"#;
const HASH: usize = 64;

/// One line of the log, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Record(Box<Record>),
    /// The beginning of a line whose writer was stopped: it has no seal.
    Torn,
    /// Sealed, and not what was sealed.
    Bad(&'static str),
}

/// The record in its place, and its line with a line feed. None only where it could not be written as JSON,
/// which plain data always can.
pub(super) fn seal(mut record: Record, seq: u64, prev: &str) -> Option<(Record, String)> {
    (record.seq, record.prev) = (seq, prev.to_owned());
    record.hash.clear();
    let mut line = serde_json::to_string(&record).ok()?;
    record.hash = hash(prev, line.as_bytes());
    line.pop();
    line.extend([SEAL, &record.hash, END, "\n"]);
    Some((record, line))
}

/// `line` is without its line feed.
pub(super) fn judge(line: &[u8]) -> Line {
    let Some((body, hash_said)) = unsealed(line) else { return Line::Torn };
    let Ok(record) = serde_json::from_slice::<Record>(line) else {
        return Line::Bad("it is no record of ours");
    };
    let mut canonical = body.to_vec();
    canonical.push(b'}');
    if record.hash.as_bytes() != hash_said || hash(&record.prev, &canonical) != record.hash {
        return Line::Bad("it does not have the hash that it says");
    }
    Line::Record(Box::new(record))
}

/// What stands before the seal, and the hash in it.
fn unsealed(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(END.as_bytes())?;
    let (body, hash) = line.split_at_checked(line.len().checked_sub(HASH)?)?;
    let body = body.strip_suffix(SEAL.as_bytes())?;
    hash.iter().all(u8::is_ascii_hexdigit).then_some((body, hash))
}

fn hash(prev: &str, canonical: &[u8]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(DOMAIN);
    hasher.update(prev.as_bytes());
    hasher.update(canonical);
    act_fs::Sha256::from(hasher).to_string()
}

#[cfg(test)]
mod tests;
