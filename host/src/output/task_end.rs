//! Writes the end of a task: its result on stdout, or in a dry run on stderr beside the patch.

use std::io::Write;
use std::path::PathBuf;

use super::hints::from_here;
use super::line;
use super::line::{Line, Tone};
use super::progress;
use act_core::TaskState;
use act_core::event::{Event, EventKind, Sink};
use act_core::exit::Exit;
use act_core::secret::Secrets;
use act_core::terminal_text;

pub(super) struct TaskEnd<W> {
    out: W,
    colour: bool,
    secrets: Secrets,
    columns: fn() -> usize,
    /// Root of the repository; `None` before the task has started.
    root: Option<PathBuf>,
    /// The task is a dry run: its edits are in memory only.
    dry_run: bool,
    /// The task has changed the working tree.
    edited: bool,
    /// The last run that began with a warm base.
    warm: Option<String>,
}

impl<W> TaskEnd<W> {
    pub(super) fn new(out: W, colour: bool, secrets: Secrets) -> Self {
        let columns = || usize::MAX;
        let (root, warm) = (None, None);
        Self { out, colour, secrets, columns, root, dry_run: false, edited: false, warm }
    }

    pub(super) fn of_dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    pub(super) fn in_columns(mut self, columns: fn() -> usize) -> Self {
        self.columns = columns;
        self
    }

    /// Returns the path of a file of the repository, relative to the current directory.
    fn named(&self, path: &str) -> String {
        self.root.as_ref().map_or_else(|| path.to_owned(), |root| from_here(root, path))
    }
}

impl<W: Write + Send> Sink for TaskEnd<W> {
    fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::TaskStarted { repo, worktree, .. } => {
                self.root = Some(worktree.as_ref().map_or(repo, |worktree| &worktree.path).into());
            }
            EventKind::Edit { .. } => self.edited = !self.dry_run,
            EventKind::VerifyFinished { run_id, warm: true, .. } => {
                self.warm = Some(run_id.clone())
            }
            _ => {}
        }
        let (edited, warm) = (self.edited, self.warm.as_deref());
        let lines = lines(&event.kind, (edited, warm), &|path| self.named(path));
        if !lines.is_empty() {
            let columns = (self.columns)();
            let rendered = lines.iter().map(|line| line::rendered(line, columns, self.colour));
            let text: String = rendered.collect();
            // stdout and stderr may be the same terminal.
            super::queued_writer::stderr().wait_briefly();
            super::put(&mut self.out, &self.secrets.redact(&text));
        }
    }
}

/// Returns the model's summary, one line with the state, and the files to look at. `edited` is whether the task has changed
/// the working tree, `warm` its last warm run; `named` turns a path in the repository into the path that is printed.
fn lines(
    kind: &EventKind,
    (edited, warm): (bool, Option<&str>),
    named: &dyn Fn(&str) -> String,
) -> Vec<Line> {
    let EventKind::TaskFinished {
        state,
        exit_code,
        run_id,
        reason,
        summary,
        report_path,
        gate_inputs_changed,
        tokens,
        cost_usd,
        ..
    } = kind
    else {
        return vec![];
    };
    // The progress lines have reported the refusal; there is no result to print.
    if *state == TaskState::Refused {
        return vec![];
    }
    let mut lines = vec![];
    if let Some(summary) =
        summary.as_deref().map(str::trim_end).filter(|summary| !summary.is_empty())
    {
        lines.extend(terminal_text::block(summary).lines().map(Line::plain));
        lines.push(Line::default());
    }
    let good = *exit_code == Exit::Ok as u8;
    let tone = if good { Tone::Good } else { Tone::Bad };
    // `cancelled` as a reason repeats the state.
    let reason = reason.as_ref().filter(|reason| !reason.eq_ignore_ascii_case(state.as_str()));
    let last = |run_id: &String| match warm == Some(run_id) {
        true => format!("last run {run_id} (warm)"),
        false => format!("last run {run_id}"),
    };
    let why = match (reason, run_id) {
        (_, Some(run_id)) if good && warm == Some(run_id) => {
            format!(": verified by the warm run {run_id}")
        }
        (_, Some(run_id)) if good => format!(": verified by {run_id}"),
        (_, None) if good => ": nothing was verified".to_owned(),
        (Some(reason), Some(run_id)) => format!(": {reason}, {}", last(run_id)),
        (Some(reason), None) => format!(": {reason}"),
        (None, Some(run_id)) => format!(": {}", last(run_id)),
        (None, None) => String::new(),
    };
    lines.push(Line::of(tone, state.as_str()).and(Tone::Plain, why));
    if !gate_inputs_changed.is_empty() {
        let files = gate_inputs_changed.join(", ");
        let what = match state {
            TaskState::Proposed => "Changed by it, and verification depends on it:",
            _ => "Changed, and verification depends on it:",
        };
        lines.push(Line::of(Tone::Caution, what).and(Tone::Plain, format!(" {files}")));
    }
    if edited && *exit_code == Exit::Cancelled as u8 {
        lines.push(Line::plain("Changes made so far stay in the working tree."));
    }
    let report = report_path.as_ref().map(|path| format!("Report: {}", named(path)));
    lines.extend(report.map(Line::plain));
    if !tokens.is_empty() {
        let spent: Vec<_> = tokens
            .iter()
            .map(|(role, usage)| format!("{role} {}", progress::tokens(usage)))
            .collect();
        lines.push(Line::of(Tone::Faint, format!("Tokens: {}", spent.join("; "))));
        lines.push(Line::of(Tone::Faint, format!("Cost: {}", progress::cost(*cost_usd))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::ModelUsage;
    use act_core::testing::task_finished as finished;
    use act_core::verification::Status;

    fn text(kind: &EventKind) -> String {
        lines(kind, (false, None), &str::to_owned).iter().map(|line| line.render(false)).collect()
    }

    /// Returns the text of the lines on a stream of the given width.
    fn shown(kinds: impl IntoIterator<Item = EventKind>, columns: fn() -> usize) -> String {
        let mut end = TaskEnd::new(vec![], false, Secrets::default()).in_columns(columns);
        for kind in kinds {
            let (time, task_id) = (act_core::clock::now(), "t-000000".into());
            end.event(&Event { seq: 1, time, task_id, kind });
        }
        String::from_utf8(end.out).unwrap()
    }

    #[test]
    fn on_a_narrow_terminal_no_line_breaks_inside_a_word() {
        // CLI-55
        let story = || {
            let mut kind = finished(TaskState::InfraError, Exit::Infra);
            if let EventKind::TaskFinished { summary, reason, tokens, .. } = &mut kind {
                *reason = Some("model_unavailable".into());
                *summary = Some("the model's server answered 503 three times\n\n- wait".into());
                *tokens = [(
                    "editor".to_owned(),
                    ModelUsage { input: 12, cached: 4, cache_write: 0, output: 3 },
                )]
                .into();
            }
            kind
        };
        assert_eq!(
            shown([story()], || 24),
            "the model's server\n  answered 503 three\n  times\n\n- wait\n\n\
             INFRA_ERROR:\n           model_unavailable\nTokens: editor 12 in (4\n  cached), 3 out\nCost: unknown\n"
        );
        let whole = shown([story()], || usize::MAX);
        assert!(whole.starts_with("the model's server answered 503 three times\n\n- wait\n\n"));
        assert!(
            whole.ends_with("Tokens: editor 12 in (4 cached), 3 out\nCost: unknown\n"),
            "{whole}"
        );
    }

    #[test]
    fn a_report_is_named_as_it_opens_from_here() {
        // CLI-56
        let mut end = finished(TaskState::Stuck, Exit::Stuck);
        if let EventKind::TaskFinished { report_path, .. } = &mut end {
            *report_path = Some("agent/stuck_report.md".into());
        }
        let repo = "/none/of/ours".to_owned();
        let start = EventKind::TaskStarted {
            repo,
            pipeline_sha256: String::new(),
            notes_dir: None,
            uncommitted: None,
            worktree: None,
        };
        let whole = shown([start, end.clone()], || usize::MAX);
        assert_eq!(whole, "STUCK\nReport: /none/of/ours/agent/stuck_report.md\n");
        assert!(shown([end], || usize::MAX).ends_with("Report: agent/stuck_report.md\n"));
    }

    #[test]
    fn a_success_names_the_run_that_proves_it() {
        let mut kind = finished(TaskState::Success, Exit::Ok);
        if let EventKind::TaskFinished { run_id, summary, gate_inputs_changed, .. } = &mut kind {
            *run_id = Some("run_20261121_100000_abc123".into());
            *summary = Some("# Summary\n\nFixed \x1b[5mit.\n".into());
            *gate_inputs_changed = vec!["test.sh".into()];
        }
        if let EventKind::TaskFinished { tokens, .. } = &mut kind {
            *tokens = [(
                "editor".to_owned(),
                ModelUsage { input: 12, cached: 4, cache_write: 0, output: 3 },
            )]
            .into();
        }
        assert_eq!(
            text(&kind),
            "# Summary\n\nFixed it.\n\nSUCCESS: verified by run_20261121_100000_abc123\n\
             Changed, and verification depends on it: test.sh\n\
             Tokens: editor 12 in (4 cached), 3 out\nCost: unknown\n"
        );
        if let EventKind::TaskFinished { cost_usd, .. } = &mut kind {
            *cost_usd = Some(act_core::Usd::from_nanos(12_340_001));
        }
        assert!(text(&kind).ends_with("3 out\nCost: $0.0124\n"), "{}", text(&kind));
    }

    // VERIFIER-52
    #[test]
    fn a_success_that_a_warm_run_proves_says_so() {
        let ran = |run: &str, warm| EventKind::VerifyFinished {
            run_id: run.to_owned(),
            status: Status::Pass,
            error_type: None,
            reason: None,
            audit_head: None,
            duration_ms: 1,
            warm,
        };
        let end = || {
            let mut kind = finished(TaskState::Success, Exit::Ok);
            if let EventKind::TaskFinished { run_id, .. } = &mut kind {
                *run_id = Some("run_b".into());
            }
            kind
        };
        let warm = shown([ran("run_b", true), end()], || usize::MAX);
        assert_eq!(warm, "SUCCESS: verified by the warm run run_b\n");
        let cold = shown([ran("run_a", true), ran("run_b", false), end()], || usize::MAX);
        assert_eq!(cold, "SUCCESS: verified by run_b\n");
    }

    #[test]
    fn a_stuck_task_names_reason_run_and_report() {
        let mut kind = finished(TaskState::Stuck, Exit::Stuck);
        if let EventKind::TaskFinished { run_id, reason, report_path, .. } = &mut kind {
            *run_id = Some("run_x".into());
            *reason = Some("hard_stop".into());
            *report_path = Some("agent/stuck_report.md".into());
        }
        assert_eq!(
            text(&kind),
            "STUCK: hard_stop, last run run_x\nReport: agent/stuck_report.md\n"
        );
    }

    #[test]
    fn a_cancelled_task_says_that_changes_stay_where_there_are_any() {
        let cancelled = || finished(TaskState::Cancelled, Exit::Cancelled);
        let (path, op) = ("a".to_owned(), "replace".to_owned());
        let (sha256_before, sha256_after) = (None, None);
        let edit = EventKind::Edit { path, op, version: 2, sha256_before, sha256_after };
        let stay = "CANCELLED\nChanges made so far stay in the working tree.\n";
        assert_eq!(shown([edit.clone(), cancelled()], || usize::MAX), stay);
        assert_eq!(shown([cancelled()], || usize::MAX), "CANCELLED\n");
        let mut dry = TaskEnd::new(vec![], false, Secrets::default()).of_dry_run();
        for kind in [edit, cancelled()] {
            let (time, task_id) = (act_core::clock::now(), "t-000000".into());
            dry.event(&Event { seq: 1, time, task_id, kind });
        }
        assert_eq!(String::from_utf8(dry.out).unwrap(), "CANCELLED\n");
    }

    #[test]
    fn a_proposal_says_that_nothing_was_verified_and_what_it_cost() {
        // CLI-34
        let mut kind = finished(TaskState::Proposed, Exit::Ok);
        if let EventKind::TaskFinished { tokens, summary, gate_inputs_changed, .. } = &mut kind {
            *summary = Some("Leap years are told.".into());
            *gate_inputs_changed = vec!["test.sh".into()];
            *tokens = [(
                "editor".to_owned(),
                ModelUsage { input: 12, cached: 4, cache_write: 0, output: 3 },
            )]
            .into();
        }
        assert_eq!(
            text(&kind),
            "Leap years are told.\n\nPROPOSED: nothing was verified\n\
             Changed by it, and verification depends on it: test.sh\nTokens: editor 12 in (4 cached), 3 out\n\
             Cost: unknown\n"
        );
    }

    #[test]
    fn nothing_else_is_a_result() {
        assert_eq!(text(&EventKind::Diagnosis { text: "x".into() }), "");
    }
}
