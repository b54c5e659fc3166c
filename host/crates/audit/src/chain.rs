//! A record as a link of the chain: its number, the hash of the record before it, and its own hash over every byte of its
//! line. The log is read from its beginning by [`AuditReader`] and from its end by [`tail`], which costs the same however
//! long the log is.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};
use std::os::unix::fs::FileExt;
use std::path::Path;

use act_fs::{Dir, Sha256};
use sha2::Digest;

use super::error::AuditError;
use super::log::LogFile;
use super::record::Record;

const DOMAIN: &[u8] = b"act-audit-v1";
/// The hash before the first record.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Maximum number of bytes of a line, its line feed included. The longest record has far fewer.
pub(super) const MAX_LINE: usize = 64 << 10;

/// The text around the hash at the end of a line.
const SEAL: &str = r#","hash":""#;
const END: &str = r#""}"#;
const HASH: usize = 64;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogLine {
    Record(Box<Record>),
    /// The beginning of a record whose writer was stopped, so it has no seal. It includes the line feed if there is one.
    Torn(Vec<u8>),
    /// A sealed line that differs from what was sealed, and why.
    Bad(&'static str),
}

/// Numbers and seals a record, and returns it with its line, line feed included. Returns `None` only if the record could not
/// be written as JSON, which plain data always can.
pub(super) fn seal(mut record: Record, seq: u64, prev: &str) -> Option<(Record, String)> {
    (record.seq, record.prev) = (seq, prev.to_owned());
    record.hash.clear();
    let mut line = serde_json::to_string(&record).ok()?;
    record.hash = hash(prev, line.as_bytes());
    line.pop();
    line.extend([SEAL, &record.hash, END, "\n"]);
    Some((record, line))
}

/// Parses a line without its line feed, and checks its seal.
pub(super) fn parse_line(line: &[u8]) -> LogLine {
    let Some((body, stated)) = unsealed(line) else { return LogLine::Torn(line.to_vec()) };
    let Ok(record) = serde_json::from_slice::<Record>(line) else {
        return LogLine::Bad("it is not a record of act");
    };
    let mut canonical = body.to_vec();
    canonical.push(b'}');
    if record.hash.as_bytes() != stated || hash(&record.prev, &canonical) != record.hash {
        return LogLine::Bad("it does not have the hash that it states");
    }
    LogLine::Record(Box::new(record))
}

/// Splits a sealed line into the text before the seal and the hash in the seal.
fn unsealed(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(END.as_bytes())?;
    let (body, hash) = line.split_at_checked(line.len().checked_sub(HASH)?)?;
    let body = body.strip_suffix(SEAL.as_bytes())?;
    hash.iter().all(u8::is_ascii_hexdigit).then_some((body, hash))
}

fn hash(prev: &str, canonical: &[u8]) -> String {
    let mut hasher = sha2::Sha256::new();
    hasher.update(DOMAIN);
    hasher.update(prev.as_bytes());
    hasher.update(canonical);
    act_fs::Sha256::from(hasher).to_string()
}

/// Reads the lines of the log up to the end that it had when it was opened.
pub struct AuditReader {
    lines: Option<BufReader<Take<File>>>,
    number: u64,
    at: u64,
}

impl AuditReader {
    /// Opens the log in the directory `state`, which `path` names. A missing log has no lines. The call waits for a process
    /// that appends, so that no half of a line is read.
    ///
    /// # Errors
    /// The file is not a log of this version, or another process holds its lock for too long.
    pub fn open(state: &Dir, path: &Path) -> Result<Self, AuditError> {
        let path = path.join(super::log::NAME);
        let Some(found) = LogFile::existing(state, &path)? else {
            return Ok(Self { lines: None, number: 0, at: 0 });
        };
        let size = {
            let _lock = found.lock(&path, true)?;
            found.size(&path)?
        };
        Ok(Self::of(found, size))
    }

    pub(super) fn of(found: LogFile, size: u64) -> Self {
        let lines = BufReader::with_capacity(MAX_LINE, found.file.take(size));
        Self { lines: Some(lines), number: 0, at: 0 }
    }

    /// Returns the number of the last line that was read, from 1.
    pub fn line(&self) -> u64 {
        self.number
    }

    /// Returns the number of bytes read so far.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// Returns the next line, or `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_line(&mut self) -> io::Result<Option<LogLine>> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        let mut line = vec![];
        let most = MAX_LINE as u64 + 1;
        if lines.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.at += line.len() as u64;
        if line.len() as u64 == most && line.last() != Some(&b'\n') {
            return Ok(Some(LogLine::Bad("it is longer than any record")));
        }
        Ok(Some(match parse_line(line.strip_suffix(b"\n").unwrap_or(&line)) {
            LogLine::Torn(_) => LogLine::Torn(line),
            item => item,
        }))
    }
}

/// Returns the greatest number of any readable record of a damaged log.
pub(super) fn last_seq(state: &Dir, path: &Path) -> u64 {
    let Ok(Some(found)) = LogFile::existing(state, path) else { return 0 };
    let mut reader = AuditReader::of(found, u64::MAX);
    let mut last = 0;
    while let Ok(Some(item)) = reader.next_line() {
        if let LogLine::Record(record) = item {
            last = last.max(record.seq);
        }
    }
    last
}

/// Number of bytes at the end of a log that contain a record. A stopped writer leaves fewer bytes without one.
const WINDOW: u64 = 4 * MAX_LINE as u64;

/// The end of the log, where the next record is appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tail {
    /// Number of the last record; 0 before the first.
    pub(super) seq: u64,
    pub(super) hash: String,
    /// Number of bytes of the file.
    pub(super) size: u64,
    /// The last line has no line feed yet.
    pub(super) open_line: bool,
    pub(super) torn: Option<Torn>,
}

/// Bytes between two records: a line whose writer was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Torn {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Torn {
    /// Returns the torn bytes without line feeds at their end, because the next writer adds one.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().rposition(|byte| *byte != b'\n')?;
        let bytes = bytes.get(..=end)?;
        Some(Self { bytes: bytes.len() as u64, sha256: Sha256::of(bytes).to_string() })
    }
}

#[derive(Debug)]
pub(super) enum TailError {
    Io(io::Error),
    /// The last record was changed.
    Bad(String),
}

/// Finds the end of the log.
pub(super) fn tail(file: &File, size: u64) -> Result<Tail, TailError> {
    let from = size.saturating_sub(WINDOW);
    let mut bytes = vec![0; usize::try_from(size - from).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from).map_err(TailError::Io)?;
    let open_line = bytes.last().is_some_and(|byte| *byte != b'\n');
    // The end of the current line, without its line feed.
    let mut end = bytes.len() - usize::from(!bytes.is_empty() && !open_line);
    loop {
        let before = bytes.get(..end).unwrap_or_default();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if start == 0 && from > 0 {
            return Err(TailError::Bad(format!("there is no record in its last {WINDOW} bytes")));
        }
        let after = |from: usize| Torn::of(bytes.get(from..).unwrap_or_default());
        match parse_line(before.get(start..).unwrap_or_default()) {
            LogLine::Record(record) => {
                let (seq, hash) = (record.seq, record.hash);
                return Ok(Tail { seq, hash, size, open_line, torn: after(end + 1) });
            }
            LogLine::Bad(why) => {
                return Err(TailError::Bad(format!("its last record is bad: {why}")));
            }
            LogLine::Torn(_) if start == 0 => {
                return Ok(Tail {
                    seq: 0,
                    hash: GENESIS.to_owned(),
                    size,
                    open_line,
                    torn: after(0),
                });
            }
            LogLine::Torn(_) => end = start - 1,
        }
    }
}
