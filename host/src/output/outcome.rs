//! The reader of events that writes a task's result to stdout when it has ended.

use std::io::Write;

use super::line::{Line, Tone};
use super::progress;
use super::terminal_text;
use crate::event::{Event, EventKind, Patch, Sink};
use crate::exit::Exit;
use crate::secret::Secrets;

pub(super) struct Outcome<W> {
    out: W,
    colour: bool,
    /// A patch is for people, not for `git apply`.
    terminal: bool,
    secrets: Secrets,
    /// Of a dry run; printed when nothing moves on the terminal any more.
    patch: Option<bytes::Bytes>,
}

impl<W> Outcome<W> {
    pub(super) fn new(out: W, colour: bool, terminal: bool, secrets: Secrets) -> Self {
        Self { out, colour, terminal, secrets, patch: None }
    }
}

impl<W: Write + Send> Sink for Outcome<W> {
    fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Proposed { diff: Patch(bytes), .. } => self.patch = Some(bytes.clone()),
            EventKind::TaskFinished { .. } => {
                if let Some(bytes) = self.patch.take() {
                    let bytes = patch(&bytes, self.terminal, &self.secrets);
                    // Both may be one terminal.
                    super::outlet::stderr().settle();
                    // A reader that went away changes nothing.
                    let _ = self.out.write_all(&bytes).and_then(|()| self.out.flush());
                }
            }
            _ => {}
        }
        if let Some(text) = text(&event.kind, self.colour) {
            // Both may be one terminal.
            super::outlet::stderr().settle();
            super::put(&mut self.out, &self.secrets.redact(&text));
        }
    }
}

/// Byte for byte for a program, but for keys; on a terminal without effect on it.
fn patch(bytes: &[u8], terminal: bool, secrets: &Secrets) -> Vec<u8> {
    if terminal {
        let text = String::from_utf8_lossy(bytes);
        return secrets.redact(&terminal_text::block(&text)).into_owned().into_bytes();
    }
    secrets.redact_bytes(bytes)
}

/// The summary as it was written, then one line with the state, then where to look.
fn text(kind: &EventKind, colour: bool) -> Option<String> {
    let EventKind::TaskFinished {
        state,
        exit_code,
        run_id,
        reason,
        summary,
        report_path,
        gate_inputs_changed,
        tokens,
        ..
    } = kind
    else {
        return None;
    };
    // The result of a dry run is its patch; how it ended is told beside it. So is a refusal, which has no result.
    if state == "PROPOSED" || state == "REFUSED" {
        return None;
    }
    let mut text = String::new();
    if let Some(summary) =
        summary.as_deref().map(str::trim_end).filter(|summary| !summary.is_empty())
    {
        text.push_str(&terminal_text::block(summary));
        text.push_str("\n\n");
    }
    let good = *exit_code == Exit::Ok as u8;
    let tone = if good { Tone::Good } else { Tone::Bad };
    // A cancelled task has no other reason than that.
    let reason = reason.as_ref().filter(|reason| !reason.eq_ignore_ascii_case(state));
    let why = match (reason, run_id) {
        (_, Some(run_id)) if good => format!(": verified by {run_id}"),
        (Some(reason), Some(run_id)) => format!(": {reason}, last run {run_id}"),
        (Some(reason), None) => format!(": {reason}"),
        (None, Some(run_id)) => format!(": last run {run_id}"),
        (None, None) => String::new(),
    };
    let mut lines = vec![Line::of(tone, state).and(Tone::Plain, why)];
    if !gate_inputs_changed.is_empty() {
        let files = gate_inputs_changed.join(", ");
        lines.push(
            Line::of(Tone::Caution, "Changed, and verification depends on it:")
                .and(Tone::Plain, format!(" {files}")),
        );
    }
    if *exit_code == Exit::Cancelled as u8 {
        lines.push(Line::plain("Changes made so far stay in the working tree."));
    }
    lines.extend(report_path.as_ref().map(|path| Line::plain(format!("Report: {path}"))));
    if !tokens.is_empty() {
        let spent: Vec<_> = tokens
            .iter()
            .map(|(role, usage)| format!("{role} {}", progress::tokens(usage)))
            .collect();
        lines.push(Line::of(Tone::Faint, format!("Tokens: {}", spent.join("; "))));
    }
    text.extend(lines.iter().map(|line| line.render(colour)));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ModelUsage;
    use crate::secret::Secret;

    fn finished(state: &str, exit: Exit) -> EventKind {
        EventKind::TaskFinished {
            state: state.into(),
            exit_code: exit as u8,
            run_id: None,
            reason: None,
            summary: None,
            report_path: None,
            tokens: Default::default(),
            gate_inputs_changed: vec![],
            edits_refused: Default::default(),
        }
    }

    #[test]
    fn a_success_names_the_run_that_proves_it() {
        let mut kind = finished("SUCCESS", Exit::Ok);
        if let EventKind::TaskFinished { run_id, summary, gate_inputs_changed, .. } = &mut kind {
            *run_id = Some("run_20261121_100000_abc123".into());
            *summary = Some("# Summary\n\nFixed \x1b[5mit.\n".into());
            *gate_inputs_changed = vec!["test.sh".into()];
        }
        if let EventKind::TaskFinished { tokens, .. } = &mut kind {
            *tokens =
                [("editor".to_owned(), ModelUsage { input: 12, cached: 4, output: 3 })].into();
        }
        assert_eq!(
            text(&kind, false).unwrap(),
            "# Summary\n\nFixed it.\n\nSUCCESS: verified by run_20261121_100000_abc123\n\
             Changed, and verification depends on it: test.sh\n\
             Tokens: editor 12 in (4 cached), 3 out\n"
        );
    }

    #[test]
    fn a_stuck_task_names_reason_run_and_report() {
        let mut kind = finished("STUCK", Exit::Stuck);
        if let EventKind::TaskFinished { run_id, reason, report_path, .. } = &mut kind {
            *run_id = Some("run_x".into());
            *reason = Some("hard_stop".into());
            *report_path = Some("agent/stuck_report.md".into());
        }
        assert_eq!(
            text(&kind, false).unwrap(),
            "STUCK: hard_stop, last run run_x\nReport: agent/stuck_report.md\n"
        );
    }

    #[test]
    fn a_cancelled_task_says_that_changes_stay() {
        let mut kind = finished("CANCELLED", Exit::Cancelled);
        if let EventKind::TaskFinished { reason, .. } = &mut kind {
            *reason = Some("cancelled".into());
        }
        assert_eq!(
            text(&kind, false).unwrap(),
            "CANCELLED\nChanges made so far stay in the working tree.\n"
        );
    }

    #[test]
    fn a_patch_is_exact_for_programs_and_inert_on_a_terminal() {
        // CLI-50, security line 165
        let secrets = Secrets::new([Secret::new("sk-canary")]);
        let bytes = b"+a\r\n+\x1b[2Jsk-canary \xff\n";
        assert_eq!(patch(bytes, false, &secrets), b"+a\r\n+\x1b[2J[redacted] \xff\n");
        let shown = String::from_utf8(patch(bytes, true, &secrets)).unwrap();
        assert_eq!(shown, "+a\n+[redacted] \u{fffd}\n");
        let kind = finished("PROPOSED", Exit::Ok);
        assert_eq!(text(&kind, false), None);
    }

    #[test]
    fn nothing_else_is_a_result() {
        assert_eq!(text(&EventKind::Diagnosis { text: "x".into() }, false), None);
    }
}
