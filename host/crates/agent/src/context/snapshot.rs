//! The text of `context_NNN.md`: what the Scouts reported and what the Editor has tried, for people.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::markdown::{code, code_list, fence, quote};
use act_core::clock;
use act_core::verification::Status;
use act_reports::failures::{Counts, Failures, Place};

/// The occasions for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotKind {
    /// After the first reports of the Scouts, before the first edit.
    TaskStart,
    /// After the REPLAN with this number has its plan.
    Replan {
        number: u32,
    },
    Success,
}

impl SnapshotKind {
    /// The word that events use.
    pub fn word(self) -> &'static str {
        match self {
            Self::TaskStart => "task_start",
            Self::Replan { .. } => "replan",
            Self::Success => "success",
        }
    }

    fn title(self) -> String {
        match self {
            Self::TaskStart => "task start".into(),
            Self::Replan { number } => format!("REPLAN {number}"),
            Self::Success => "success".into(),
        }
    }
}

/// A Scout's report as the Scout wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoutPayload {
    pub scout: String,
    /// Digest of the component that answered.
    pub sha256: String,
    pub question: String,
    pub payload: String,
}

/// The work of the Editor so far.
#[derive(Debug, Clone, Default)]
pub struct EditorState {
    /// The strategy of the plan in force.
    pub hypothesis: String,
    pub files_modified: Vec<String>,
    pub verify_attempts: Vec<VerifiedRun>,
    /// How conflicts between Scouts and other questions were decided.
    pub decisions: Vec<String>,
}

/// A snapshot of one moment of a task.
#[derive(Debug, Clone)]
pub struct Snapshot<'a> {
    pub taken: DateTime<Utc>,
    pub kind: SnapshotKind,
    pub task_id: &'a str,
    pub task_text: &'a str,
    pub scouts: &'a [ScoutPayload],
    pub editor: &'a EditorState,
}

impl Snapshot<'_> {
    /// Renders the snapshot under the number whose file name turned out to be free.
    pub(super) fn render(&self, number: u32) -> String {
        let mut out = format!("# Context {number:03}: {}\n\n", self.kind.title());
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "- number: {number}\n- time: {}\n- milestone: {}\n- task: {}\n\n## Task\n\n{}\n## Scouts\n\n",
            clock::seconds(self.taken),
            self.kind.word(),
            code(self.task_id),
            quote(self.task_text),
        );
        if self.scouts.is_empty() {
            out.push_str("none was asked\n\n");
        }
        for scout in self.scouts {
            let _ = write!(
                out,
                "### {}\n\n- component: {}\n- question:\n\n{}\n{}\n",
                code(&scout.scout),
                code(&scout.sha256),
                quote(&scout.question),
                fence("json", &scout.payload),
            );
        }
        let _ = write!(
            out,
            "## Editor\n\n### Hypothesis\n\n{}\n### Files modified\n\n{}\n### Verify attempts\n\n{}\n### Decisions\n\n{}",
            quote(&self.editor.hypothesis),
            code_list(&self.editor.files_modified),
            runs(&self.editor.verify_attempts),
            decisions(&self.editor.decisions),
        );
        out
    }
}

/// A file that differs from an earlier state, with the numbers of lines that were added and removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedLines {
    pub path: String,
    pub added: usize,
    pub removed: usize,
}

impl std::fmt::Display for ChangedLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} +{} -{}", self.path, self.added, self.removed)
    }
}

/// One verification of a task: how it ended, and what its log shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedRun {
    pub attempt: u32,
    /// Number of the strategy whose tree was verified, from 1.
    pub strategy: u32,
    /// `None` when the machine failed before the run had an id.
    pub run_id: Option<String>,
    pub status: Status,
    /// The run began with a warm base.
    pub warm: bool,
    /// Steps that were started, the failing one included, and those of `prepare` that a warm run has behind it.
    pub steps_run: usize,
    pub failing_step: Option<String>,
    pub exit_code: Option<i64>,
    pub reason: Option<String>,
    /// The failures in the log of the failing step; empty for a run that passed.
    pub failures: Failures,
    /// The tests of all steps of a run that passed, where their logs state them.
    pub passed: Counts,
    /// Lines that were added and removed since the run before, or since the start of the task.
    pub lines: (usize, usize),
    /// The files of these lines.
    pub files: Vec<ChangedLines>,
    /// A line that the task wrote and that is a frame of most failures, with the number of those failures.
    pub changed_place: Option<(Place, usize)>,
    /// Digest of the tree that was verified.
    pub tree: Option<String>,
}

/// Characters of a line that describes a failure.
const LINE: usize = 300;

impl VerifiedRun {
    /// Describes the first failure that the log shows on one line; empty for a log without text.
    pub fn first_failing_line(&self) -> String {
        self.failures.headline().chars().take(LINE).collect()
    }

    /// The numbers of tests, where the log states them.
    pub fn counts(&self) -> Counts {
        if self.status == Status::Pass { self.passed } else { self.failures.counts }
    }

    /// A run that failed in a step, as tests need it.
    #[cfg(test)]
    pub(crate) fn failed(attempt: u32, step: &str, line: &str) -> Self {
        Self {
            attempt,
            strategy: 1,
            run_id: Some(format!("run_{attempt}")),
            status: Status::Fail,
            warm: false,
            steps_run: 1,
            failing_step: Some(step.to_owned()),
            exit_code: Some(1),
            reason: Some("step_failed".to_owned()),
            failures: Failures::message(line),
            passed: Counts::default(),
            lines: (0, 0),
            files: vec![],
            changed_place: None,
            tree: None,
        }
    }
}

fn runs(runs: &[VerifiedRun]) -> String {
    if runs.is_empty() {
        return "none\n".into();
    }
    runs.iter().fold(String::new(), |mut out, run| {
        let id = run.run_id.as_deref().map_or("no run".into(), code);
        let step = run.failing_step.as_deref().map(|step| format!(", step {}", code(step)));
        let reason = run.reason.as_deref().map(|reason| format!(", {}", code(reason)));
        let line = Some(run.first_failing_line()).filter(|line| !line.is_empty());
        let line = line.map(|line| format!(": {}", code(&line)));
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "- attempt {}, strategy {}: {id}, {}{}{}{}",
            run.attempt,
            run.strategy,
            code(run.status.as_str()),
            step.unwrap_or_default(),
            reason.unwrap_or_default(),
            line.unwrap_or_default()
        );
        out
    })
}

fn decisions(decisions: &[String]) -> String {
    if decisions.is_empty() {
        return "none\n".into();
    }
    decisions.iter().map(|decision| quote(decision)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone;

    use super::*;

    fn state() -> EditorState {
        EditorState {
            hypothesis: "the limit is off by one".into(),
            files_modified: vec!["src/a.sh".into()],
            verify_attempts: vec![VerifiedRun {
                run_id: Some("run_x".into()),
                failing_step: None,
                ..VerifiedRun::failed(1, "test", "")
            }],
            decisions: vec!["Scout A is right about the limit".into()],
        }
    }

    fn render(payload: &str) -> String {
        let scouts = [ScoutPayload {
            scout: "scout-a".into(),
            sha256: "ab12".into(),
            question: "where is the limit?".into(),
            payload: payload.into(),
        }];
        let editor = state();
        Snapshot {
            taken: Utc.with_ymd_and_hms(2026, 11, 21, 10, 0, 5).unwrap(),
            kind: SnapshotKind::Replan { number: 2 },
            task_id: "t-abc123",
            task_text: "fix the limit",
            scouts: &scouts,
            editor: &editor,
        }
        .render(4)
    }

    #[test]
    fn a_snapshot_holds_number_time_milestone_payloads_and_state() {
        // CONTEXT-3
        assert_eq!(
            render("{\"schema_version\":\"1\"}"),
            "# Context 004: REPLAN 2\n\n\
             - number: 4\n- time: 2026-11-21T10:00:05Z\n- milestone: replan\n- task: `t-abc123`\n\n\
             ## Task\n\n> fix the limit\n\n\
             ## Scouts\n\n### `scout-a`\n\n- component: `ab12`\n- question:\n\n> where is the limit?\n\n\
             ```json\n{\"schema_version\":\"1\"}\n```\n\n\
             ## Editor\n\n### Hypothesis\n\n> the limit is off by one\n\n\
             ### Files modified\n\n- `src/a.sh`\n\n\
             ### Verify attempts\n\n- attempt 1, strategy 1: `run_x`, `FAIL`, `step_failed`\n\n\
             ### Decisions\n\n> Scout A is right about the limit\n"
        );
    }

    #[test]
    fn a_payload_stays_byte_for_byte_and_inside_its_fence() {
        // CONTEXT-4
        let hostile = "{\"a\": 1,\t\"b\":\"x\"}\r\n```\n## Editor\n\n````\n";
        let text = render(hostile);
        assert!(text.contains(&format!("\n`````json\n{hostile}\n`````\n")), "{text}");
    }
}
