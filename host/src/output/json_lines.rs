//! Writes events for programs, one line of JSON each: on stdout and into the journal.

use std::io::{Error, Write};

use act_core::event::{Event, Sink};
use act_core::secret::Secrets;
use act_core::terminal_text;

type Trouble = Box<dyn FnOnce(Error) + Send>;

pub(super) struct JsonLines<W> {
    /// `None` after a failed write: part of a line would make the next one unreadable.
    out: Option<W>,
    secrets: Secrets,
    trouble: Option<Trouble>,
}

impl<W> JsonLines<W> {
    /// Ignores failed writes.
    pub(super) fn new(out: W, secrets: Secrets) -> Self {
        Self { out: Some(out), secrets, trouble: None }
    }

    /// Calls `trouble` once when a line cannot be written; nothing more is written then.
    pub(super) fn or_say(mut self, trouble: impl FnOnce(Error) + Send + 'static) -> Self {
        self.trouble = Some(Box::new(trouble));
        self
    }
}

impl<W: Write + Send> Sink for JsonLines<W> {
    fn event(&mut self, event: &Event) {
        let (Some(out), Some(line)) = (&mut self.out, event.to_json()) else { return };
        let line = format!("{}\n", terminal_text::json(&self.secrets.redact(&line)));
        if let Err(error) = out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
            self.out = None;
            if let Some(tell) = self.trouble.take() {
                tell(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use act_core::event::EventKind;
    use act_core::secret::Secret;

    fn said(text: &str) -> Event {
        let kind = EventKind::Diagnosis { text: text.into() };
        Event { seq: 1, time: act_core::clock::now(), task_id: "t-000000".into(), kind }
    }

    #[test]
    fn a_line_is_one_event_whatever_it_says_and_holds_no_key() {
        // EVENT-5, EVENT-7, security line 162
        let secrets = Secrets::new([Secret::new("sk-\"canary")]);
        let mut lines = JsonLines::new(vec![], secrets);
        lines.event(&said("one\ntwo\u{2028}sk-\"canary\u{1b}[2J"));
        let text = String::from_utf8(lines.out.unwrap()).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.contains(['\u{2028}', '\u{1b}']), "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["text"], "one\ntwo\u{2028}[redacted]\u{1b}[2J");
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_once_and_ends_nothing() {
        // EVENT-9
        let told = Arc::new(Mutex::new(0));
        let count = told.clone();
        let mut lines = JsonLines::new(Full, Secrets::default());
        lines = lines.or_say(move |_| *count.lock().unwrap() += 1);
        lines.event(&said("a"));
        lines.event(&said("b"));
        assert_eq!(*told.lock().unwrap(), 1);
    }
}
