//! The reader of events that writes the patch of a dry run to stdout, where nothing else goes then.

use std::io::Write;

use act_core::event::{Event, EventKind, Patch, Sink};
use act_core::secret::Secrets;
use act_core::terminal_text;

pub(super) struct PatchOut<W> {
    out: W,
    /// It is for people, not for `git apply`.
    terminal: bool,
    secrets: Secrets,
    /// Printed when nothing moves on the terminal any more.
    patch: Option<bytes::Bytes>,
}

impl<W> PatchOut<W> {
    pub(super) fn new(out: W, terminal: bool, secrets: Secrets) -> Self {
        Self { out, terminal, secrets, patch: None }
    }
}

impl<W: Write + Send> Sink for PatchOut<W> {
    fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Proposed { diff: Patch(bytes), .. } => self.patch = Some(bytes.clone()),
            EventKind::TaskFinished { .. } => {
                let Some(bytes) = self.patch.take() else { return };
                write(&mut self.out, &bytes, self.terminal, &self.secrets);
            }
            _ => {}
        }
    }
}

pub(super) fn write(out: &mut impl Write, bytes: &[u8], terminal: bool, secrets: &Secrets) {
    let bytes = shown(bytes, terminal, secrets);
    // Both may be one terminal.
    super::outlet::stderr().settle();
    // A reader that went away changes nothing.
    let _ = out.write_all(&bytes).and_then(|()| out.flush());
}

/// Byte for byte for a program, but for keys; on a terminal without effect on it.
fn shown(bytes: &[u8], terminal: bool, secrets: &Secrets) -> Vec<u8> {
    if terminal {
        let text = String::from_utf8_lossy(bytes);
        return secrets.redact(&terminal_text::block(&text)).into_owned().into_bytes();
    }
    secrets.redact_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::secret::Secret;

    #[test]
    fn a_patch_is_exact_for_programs_and_inert_on_a_terminal() {
        // CLI-50, security line 165
        let secrets = Secrets::new([Secret::new("sk-canary")]);
        let bytes = b"+a\r\n+\x1b[2Jsk-canary \xff\n";
        assert_eq!(shown(bytes, false, &secrets), b"+a\r\n+\x1b[2J[redacted] \xff\n");
        let text = String::from_utf8(shown(bytes, true, &secrets)).unwrap();
        assert_eq!(text, "+a\n+[redacted] \u{fffd}\n");
    }
}
