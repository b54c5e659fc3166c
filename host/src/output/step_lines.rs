//! From the bytes that a step prints, in any pieces, to lines that can be shown.

/// A longer line is shown in pieces of this size, so memory stays bounded.
const MAX_LINE: usize = 8 * 1024;

#[derive(Debug, Default)]
pub(super) struct StepLines {
    pending: Vec<u8>,
}

impl StepLines {
    /// The lines that these bytes complete. A carriage return ends a line, too: progress bars use it.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = vec![];
        for &byte in bytes {
            match byte {
                b'\n' | b'\r' => lines.extend(self.take()),
                _ => self.pending.push(byte),
            }
            if self.pending.len() >= MAX_LINE {
                lines.extend(self.take());
            }
        }
        lines
    }

    /// What is left when the step has ended.
    pub(super) fn take(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.pending);
        (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_lines_and_the_rest_comes_at_the_end() {
        let mut lines = StepLines::default();
        assert_eq!(lines.push("Gr\u{fc}".as_bytes().get(..3).unwrap()), Vec::<String>::new());
        assert_eq!(lines.push(b"\xbc\xc3\x9fe\r\n10%\r20%\r"), ["Grüße", "10%", "20%"]);
        assert_eq!(lines.push(b"no end"), Vec::<String>::new());
        assert_eq!(lines.take().as_deref(), Some("no end"));
        assert_eq!(lines.take(), None);
    }

    #[test]
    fn a_line_without_end_is_shown_in_pieces() {
        let mut lines = StepLines::default();
        let shown = lines.push(&vec![b'x'; MAX_LINE * 2 + 1]);
        assert_eq!(shown.len(), 2);
        assert_eq!(lines.take().as_deref(), Some("x"));
    }
}
