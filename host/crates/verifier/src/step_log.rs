//! What the steps print: exact bytes per step and combined, up to a bound, and the end of it all as text.

use std::fs::File;
use std::io::{self, Write};

use super::view::relative_to_repo;
use act_records::artifacts::{RunDir, log_name};

/// Exact up to here, per step.
const HEAD: u64 = 64 * 1024 * 1024;
/// Kept of what comes after.
const TAIL: usize = 1024 * 1024;

/// As much of a step's output is looked at for what it says about tests.
const HEARD: usize = 256 * 1024;

const TAIL_LINES: usize = 200;
const TAIL_BYTES: usize = 64 * 1024;

/// The logs of one run; steps follow one another.
pub(super) struct RunLog {
    combined: File,
    recent: Recent,
    step: Option<StepLog>,
    printed: bool,
}

struct StepLog {
    file: File,
    written: u64,
    /// What did not fit the head.
    after: Recent,
    heard: Recent,
}

impl RunLog {
    pub(super) fn create(run: &RunDir) -> io::Result<Self> {
        let combined = run.create_log("combined.log")?;
        Ok(Self { combined, recent: Recent::new(TAIL_BYTES), step: None, printed: false })
    }

    pub(super) fn begin(&mut self, run: &RunDir, number: usize, name: &str) -> io::Result<()> {
        let file = run.create_log(&log_name(number, name))?;
        self.step =
            Some(StepLog { file, written: 0, after: Recent::new(TAIL), heard: Recent::new(HEARD) });
        Ok(())
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(step) = &mut self.step else { return Ok(()) };
        self.printed |= !bytes.is_empty();
        self.recent.push(bytes);
        let room = usize::try_from(HEAD - step.written).unwrap_or(usize::MAX);
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        step.after.push(rest);
        step.heard.push(bytes);
        step.written += head.len() as u64;
        step.file.write_all(head)?;
        self.combined.write_all(head)
    }

    /// What the current step has printed, as text; none if it was too much to tell.
    pub(super) fn heard(&self) -> Option<String> {
        let heard = &self.step.as_ref()?.heard;
        (heard.dropped() == 0).then(|| String::from_utf8_lossy(heard.bytes()).into_owned())
    }

    /// Closes the step's log: marker and tail, if it printed more than is kept.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let Some(mut step) = self.step.take() else { return Ok(()) };
        let left_out = step.after.dropped();
        let mut rest = vec![];
        if left_out > 0 {
            rest.extend_from_slice(
                format!("\n[act: {left_out} bytes left out here, the end follows]\n").as_bytes(),
            );
        }
        rest.extend_from_slice(step.after.bytes());
        step.file.write_all(&rest)?;
        self.combined.write_all(&rest)
    }

    pub(super) fn printed(&self) -> bool {
        self.printed
    }

    pub(super) fn tail(&self) -> String {
        tail_text(self.recent.bytes())
    }
}

/// The last bytes of a stream.
struct Recent {
    limit: usize,
    buffer: Vec<u8>,
    seen: u64,
}

impl Recent {
    fn new(limit: usize) -> Self {
        Self { limit, buffer: vec![], seen: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        self.buffer.extend_from_slice(&bytes[bytes.len().saturating_sub(self.limit)..]);
        // Cut at twice the limit, so that each byte moves once and not with every push.
        if self.buffer.len() > 2 * self.limit {
            self.buffer.drain(..self.buffer.len() - self.limit);
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.buffer.len().saturating_sub(self.limit)..]
    }

    fn dropped(&self) -> u64 {
        self.seen - self.bytes().len() as u64
    }
}

fn tail_text(bytes: &[u8]) -> String {
    let text = relative_to_repo(&String::from_utf8_lossy(bytes));
    // A replaced byte takes three, so the bound is drawn again.
    let mut start = text.len().saturating_sub(TAIL_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let text = &text[start..];
    let body = text.strip_suffix('\n').unwrap_or(text);
    match body.rmatch_indices('\n').nth(TAIL_LINES - 1) {
        Some((at, _)) => text[at + 1..].to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-16
    #[test]
    fn the_tail_is_the_last_200_lines() {
        let lines = |from, to| (from..=to).map(|n| format!("{n}\n")).collect::<String>();
        assert_eq!(tail_text(lines(1, 500).as_bytes()), lines(301, 500));
        assert_eq!(tail_text(lines(1, 50).as_bytes()), lines(1, 50));
        assert_eq!(tail_text(lines(1, 201).trim_end().as_bytes()), lines(2, 201).trim_end());
        assert_eq!(tail_text(b""), "");
    }

    // VERIFIER-16, security line 108
    #[test]
    fn the_tail_is_bounded_and_valid_text_whatever_was_printed() {
        let wild = tail_text(&vec![0xff; 200_000]);
        assert!(wild.len() <= TAIL_BYTES && wild.ends_with('\u{fffd}'));
        let cut = tail_text("é".repeat(TAIL_BYTES).as_bytes());
        assert!(cut.len() <= TAIL_BYTES && cut.ends_with('é'));
    }

    // VERIFIER-15
    #[test]
    fn the_last_bytes_are_kept_whatever_the_pieces() {
        for piece in [1, 3, 7, 100] {
            let mut recent = Recent::new(10);
            let all: Vec<u8> = (0..100).collect();
            for part in all.chunks(piece) {
                recent.push(part);
            }
            assert_eq!(recent.bytes(), &all[90..], "pieces of {piece}");
            assert_eq!(recent.dropped(), 90);
        }
    }
}
