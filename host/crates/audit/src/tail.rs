//! The end of the log, read from behind: the last record, and what a stopped writer left after it. Costs the
//! same however long the log is.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::chain::{GENESIS, Line, MAX_LINE, judge};
use act_fs::Sha256;

/// Bytes behind which there must be a record; more is nothing that a stopped writer could have left.
const WINDOW: u64 = 4 * MAX_LINE as u64;

/// Where the next record goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tail {
    /// Of the last record; 0 before the first.
    pub(super) seq: u64,
    pub(super) hash: String,
    /// Bytes of the whole file.
    pub(super) size: u64,
    /// Its last line has no line feed yet.
    pub(super) open_line: bool,
    pub(super) torn: Option<Torn>,
}

/// What stands between two records and is none: a line whose writer was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Torn {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Torn {
    /// Line feeds at its end do not count: one of them is added by whoever goes on.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().rposition(|byte| *byte != b'\n')?;
        let bytes = bytes.get(..=end)?;
        Some(Self { bytes: bytes.len() as u64, sha256: Sha256::of(bytes).to_string() })
    }
}

#[derive(Debug)]
pub(super) enum TailError {
    Io(io::Error),
    /// The last record is not what it was.
    Bad(String),
}

pub(super) fn tail(file: &File, size: u64) -> Result<Tail, TailError> {
    let from = size.saturating_sub(WINDOW);
    let mut bytes = vec![0; usize::try_from(size - from).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from).map_err(TailError::Io)?;
    let open_line = bytes.last().is_some_and(|byte| *byte != b'\n');
    // The end of the line that is looked at, without its line feed.
    let mut end = bytes.len() - usize::from(!bytes.is_empty() && !open_line);
    loop {
        let before = bytes.get(..end).unwrap_or_default();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if start == 0 && from > 0 {
            return Err(TailError::Bad(format!("there is no record in its last {WINDOW} bytes")));
        }
        let after = |from: usize| Torn::of(bytes.get(from..).unwrap_or_default());
        match judge(before.get(start..).unwrap_or_default()) {
            Line::Record(record) => {
                let (seq, hash) = (record.seq, record.hash);
                return Ok(Tail { seq, hash, size, open_line, torn: after(end + 1) });
            }
            Line::Bad(why) => return Err(TailError::Bad(format!("of its last record, {why}"))),
            Line::Torn if start == 0 => {
                return Ok(Tail {
                    seq: 0,
                    hash: GENESIS.to_owned(),
                    size,
                    open_line,
                    torn: after(0),
                });
            }
            Line::Torn => end = start - 1,
        }
    }
}
