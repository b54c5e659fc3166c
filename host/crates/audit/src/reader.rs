//! The log from its beginning, one line at a time: what it costs does not grow with it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};
use std::path::Path;

use act_fs::Dir;
use super::chain::{Line, MAX_LINE, judge};
use super::error::AuditError;
use super::file::LogFile;
use super::record::Record;

/// Lines up to the end that the log had when it was opened.
pub struct AuditReader {
    lines: Option<BufReader<Take<File>>>,
    number: u64,
    at: u64,
}

/// What one line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Record(Box<Record>),
    /// The beginning of a record whose writer was stopped; with its line feed if it has one.
    Torn(Vec<u8>),
    Bad(&'static str),
}

impl AuditReader {
    /// Empty when there is no log. Waits for one who appends, so that no half of a line is seen.
    pub fn open(state: &Dir, path: &Path) -> Result<Self, AuditError> {
        let path = path.join(super::file::NAME);
        let Some(found) = LogFile::existing(state, &path)? else {
            return Ok(Self { lines: None, number: 0, at: 0 });
        };
        let size = {
            let _turn = found.lock(&path, true)?;
            found.size(&path)?
        };
        Ok(Self::of(found, size))
    }

    pub(super) fn of(found: LogFile, size: u64) -> Self {
        let lines = BufReader::with_capacity(MAX_LINE, found.file.take(size));
        Self { lines: Some(lines), number: 0, at: 0 }
    }

    /// From 1: of the line that came last.
    pub fn line(&self) -> u64 {
        self.number
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.at
    }

    pub fn next_item(&mut self) -> io::Result<Option<Item>> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        let mut line = vec![];
        let most = MAX_LINE as u64 + 1;
        if lines.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.at += line.len() as u64;
        if line.len() as u64 == most && line.last() != Some(&b'\n') {
            return Ok(Some(Item::Bad("it is longer than any record")));
        }
        Ok(Some(match judge(line.strip_suffix(b"\n").unwrap_or(&line)) {
            Line::Record(record) => Item::Record(record),
            Line::Torn => Item::Torn(line),
            Line::Bad(why) => Item::Bad(why),
        }))
    }
}

/// The greatest number that any readable record of a damaged log has.
pub(super) fn last_seq(state: &Dir, path: &Path) -> u64 {
    let Ok(Some(found)) = LogFile::existing(state, path) else { return 0 };
    let mut reader = AuditReader::of(found, u64::MAX);
    let mut last = 0;
    while let Ok(Some(item)) = reader.next_item() {
        if let Item::Record(record) = item {
            last = last.max(record.seq);
        }
    }
    last
}
