//! Events as lines of JSON: what `--json` prints, and the journal of a task.

use std::io;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use act_core::event::{Event, Sink};
use act_core::secret::Secrets;
use act_core::terminal_text;

/// Writes each event as one line of JSON. A failed write ends the stream, because part of a line would make the next one
/// unreadable.
pub struct JsonLines<W> {
    /// `None` after a failed write.
    out: Option<W>,
    secrets: Secrets,
}

impl<W: Write> JsonLines<W> {
    pub fn new(out: W, secrets: Secrets) -> Self {
        Self { out: Some(out), secrets }
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let (Some(out), Some(line)) = (&mut self.out, event.to_json()) else { return Ok(()) };
        let line = format!("{}\n", terminal_text::json(&self.secrets.redact(&line)));
        let written = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        if written.is_err() {
            self.out = None;
        }
        written
    }
}

impl<W: Write + Send> Sink for JsonLines<W> {
    fn event(&mut self, event: &Event) {
        // Nobody reads any more; the task continues.
        let _ = self.write(event);
    }
}

/// Writes the journal of a task. If the file cannot be written, the task continues and the user is warned once.
pub(super) struct JournalSink<W> {
    lines: Option<JsonLines<W>>,
    /// Shared with the owner of the task: every event so far is in the journal.
    complete: Arc<AtomicBool>,
    warning: Option<String>,
}

impl<W: Write> JournalSink<W> {
    pub(super) fn new(file: io::Result<W>, secrets: Secrets, complete: Arc<AtomicBool>) -> Self {
        let mut journal = Self { lines: None, complete, warning: None };
        match file {
            Ok(file) => journal.lines = Some(JsonLines::new(file, secrets)),
            Err(error) => journal.fail(&error),
        }
        journal
    }

    fn fail(&mut self, error: &io::Error) {
        self.complete.store(false, Ordering::SeqCst);
        self.warning = Some(format!("cannot write the journal of this task: {error}"));
    }
}

impl<W: Write + Send> Sink for JournalSink<W> {
    fn event(&mut self, event: &Event) {
        if let Some(Err(error)) = self.lines.as_mut().map(|lines| lines.write(event)) {
            self.fail(&error);
        }
    }

    fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::EventKind;
    use act_core::secret::Secret;

    fn diagnosis(text: &str) -> Event {
        let kind = EventKind::Diagnosis { text: text.into() };
        Event { seq: 1, time: act_core::clock::now(), task_id: "t-000000".into(), kind }
    }

    #[test]
    fn a_line_is_one_event_whatever_it_says_and_holds_no_key() {
        // EVENT-5, EVENT-7, security line 162
        let secrets = Secrets::new([Secret::new("sk-\"canary")]);
        let mut lines = JsonLines::new(vec![], secrets);
        lines.event(&diagnosis("one\ntwo\u{2028}sk-\"canary\u{1b}[2J"));
        let text = String::from_utf8(lines.out.unwrap()).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.contains(['\u{2028}', '\u{1b}']), "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["text"], "one\ntwo\u{2028}[redacted]\u{1b}[2J");
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_reported_once_and_ends_nothing() {
        // EVENT-9
        let complete = Arc::new(AtomicBool::new(true));
        let mut journal = JournalSink::new(Ok(Full), Secrets::default(), Arc::clone(&complete));
        let warnings = ["a", "b"].map(|text| {
            journal.event(&diagnosis(text));
            journal.take_warning()
        });
        assert!(warnings[0].as_ref().is_some_and(|text| text.contains("journal")));
        assert_eq!(warnings[1], None);
        assert!(!complete.load(Ordering::SeqCst));
    }
}
