//! Decodes server-sent events from bytes that arrive in any pieces.
//!
//! Only `data` is read; every provider repeats the name of an event in its data. Some servers send one line end between
//! events where the format requires two, so a `data` line that is a complete JSON object is returned at once; any other
//! waits for the empty line that ends its event. An event without an end is dropped.
//!
//! Not `eventsource-stream`: it returns an event only after two line ends, does not report single lines as signs of life,
//! and does not bound the size of a line or an event.

/// Maximum number of bytes of a line. A server that does not cut tool calls into pieces sends a whole file in one line.
const MAX_LINE: usize = 4 << 20;
/// Maximum number of bytes of an event.
const MAX_EVENT: usize = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SseError {
    #[error("a line of the stream is longer than 4 MiB")]
    LineTooLong,
    #[error("an event of the stream is larger than 4 MiB")]
    EventTooLong,
    #[error("the stream is not UTF-8")]
    NotUtf8,
}

#[derive(Default)]
pub(super) struct Decoder {
    line: Vec<u8>,
    /// `data` lines of an event that has not ended yet.
    data: Option<String>,
    /// The last byte was CR, so an LF right after it belongs to the same line end.
    after_cr: bool,
    started: bool,
}

impl Decoder {
    /// Decodes the next bytes and appends complete payloads. Returns whether at least one line ended: only whole lines
    /// prove that the server is alive.
    ///
    /// # Errors
    ///
    /// Fails on a line or event that is too large, and on bytes that are not UTF-8.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        payloads: &mut Vec<String>,
    ) -> Result<bool, SseError> {
        let mut alive = false;
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let end = rest[at];
            let continues_cr = end == b'\n' && at == 0 && self.after_cr;
            if !continues_cr {
                self.extend_line(&rest[..at])?;
                self.end_line(payloads)?;
                alive = true;
            }
            self.after_cr = end == b'\r';
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() {
            self.after_cr = false;
            self.extend_line(rest)?;
        }
        Ok(alive)
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > MAX_LINE {
            return Err(SseError::LineTooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, payloads: &mut Vec<String>) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&line).map_err(|_| SseError::NotUtf8)?;
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            payloads.extend(self.data.take());
            return Ok(());
        }
        let value = match line.split_once(':') {
            Some(("data", value)) => value.strip_prefix(' ').unwrap_or(value),
            None if line == "data" => "",
            _ => return Ok(()),
        };
        match &mut self.data {
            None if is_whole(value) => payloads.push(value.to_owned()),
            None => self.data = Some(value.to_owned()),
            Some(data) if data.len() + value.len() >= MAX_EVENT => {
                return Err(SseError::EventTooLong);
            }
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
        }
        Ok(())
    }
}

/// Returns whether a line is a complete payload: a JSON object that closes on its line cannot continue on the next one.
fn is_whole(value: &str) -> bool {
    value == "[DONE]"
        || (value.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(value).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = Decoder::default();
        let mut out = vec![];
        for piece in pieces {
            decoder.push(piece, &mut out).unwrap();
        }
        out
    }

    #[test]
    fn reads_every_kind_of_line_end_comments_and_names() {
        let text = "\u{feff}: hello\nevent: x\ndata: {\"a\":1}\n\ndata:two\r\ndata: lines\r\n\r\ndata\rid: 7\r\r";
        assert_eq!(decode(&[text.as_bytes()]), ["{\"a\":1}", "two\nlines", ""]);
    }

    #[test]
    fn one_line_end_between_events_is_enough() {
        assert_eq!(
            decode(&[b"data: {\"a\":1}\ndata: {\"b\":2}\ndata: [DONE]\n"]),
            ["{\"a\":1}", "{\"b\":2}", "[DONE]"]
        );
    }

    #[test]
    fn a_payload_over_several_lines_is_one() {
        assert_eq!(decode(&[b"data: {\ndata: \"a\":1}\n\n"]), ["{\n\"a\":1}"]);
    }

    #[test]
    fn an_event_without_its_end_is_dropped() {
        assert!(decode(&[b"data: {\"a\":1}"]).is_empty());
        assert!(decode(&[b"data: {\"a\":\n"]).is_empty());
    }

    #[test]
    fn lines_and_events_are_bounded() {
        let mut decoder = Decoder::default();
        let chunk = vec![b'x'; MAX_LINE];
        decoder.push(b"data: ", &mut vec![]).unwrap();
        assert_eq!(decoder.push(&chunk, &mut vec![]), Err(SseError::LineTooLong));

        let mut decoder = Decoder::default();
        let line = [b"data: ".as_slice(), &vec![b'x'; 1 << 20], b"\n"].concat();
        let result = (0..5).try_for_each(|_| decoder.push(&line, &mut vec![]).map(|_| ()));
        assert_eq!(result, Err(SseError::EventTooLong));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        assert_eq!(Decoder::default().push(b"data: \xff\n", &mut vec![]), Err(SseError::NotUtf8));
    }

    proptest! {
        // Wherever the network cuts, the payloads are the same.
        #[test]
        fn cuts_do_not_matter(
            lines in prop::collection::vec("(data: ?|:|event: )?[a-z{}\"é:]{0,6}", 0..12),
            ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n", "\r\n\r\n"]), 12),
            cuts in prop::collection::vec(1usize..5, 1..80),
        ) {
            let text: String = lines.iter().zip(&ends).map(|(line, end)| format!("{line}{end}")).collect();
            let whole = decode(&[text.as_bytes()]);
            let mut rest = text.as_bytes();
            let mut pieces = vec![];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (piece, tail) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            prop_assert_eq!(whole, decode(&pieces));
        }
    }
}
