//! Writes the patch of a dry run to stdout. Nothing else is written there in a dry run.

use std::io::Write;

use act_core::event::{Event, EventKind, Patch, Sink};
use act_core::secret::Secrets;
use act_core::terminal_text;

pub(super) struct PatchOut<W> {
    out: W,
    /// stdout is a terminal: the patch is for a person, not for `git apply`.
    terminal: bool,
    secrets: Secrets,
    /// Printed at the end, when the live row is gone.
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
    // stdout and stderr may be the same terminal.
    super::queued_writer::stderr().wait_briefly();
    // A reader that has closed the pipe is no error.
    let _ = out.write_all(&bytes).and_then(|()| out.flush());
}

/// Returns the exact bytes for a program, except for keys; for a terminal, escape sequences are removed, and other characters that
/// act on it or cannot be seen are shown by their codes.
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
        let joiner = "+a\u{200d}b\n".as_bytes();
        assert_eq!(shown(joiner, false, &secrets), joiner);
        assert_eq!(shown(joiner, true, &secrets), b"+a\\u{200d}b\n", "security line 167");
        let bytes = b"+a\r\n+\x1b[2Jsk-canary \xff\n";
        assert_eq!(shown(bytes, false, &secrets), b"+a\r\n+\x1b[2J[redacted] \xff\n");
        let text = String::from_utf8(shown(bytes, true, &secrets)).unwrap();
        assert_eq!(text, "+a\n+[redacted] \u{fffd}\n");
    }
}
