//! Contradictions between the Scouts are put to the Editor with the reports; what he goes by is recorded with
//! the next snapshot, which waits for his next turn.

use serde_json::{Value, json};

use super::decisions::Conflict;
use super::first_steps;
use super::session::{End, Session};
use crate::context::Moment;
use crate::scout::report_a::ReportA;
use crate::scout::report_b::ReportB;
use act_core::event::EventKind;
use act_model::Turn;

/// Characters of a decision that are kept.
const WORDS: usize = 600;

impl Session<'_> {
    fn report_a(&self) -> Option<ReportA> {
        let report = self.reports.iter().find(|report| report.scout == "scout-a")?;
        ReportA::parse(&report.payload).ok()
    }

    fn report_b(&self) -> Option<ReportB> {
        let report = self.reports.iter().find(|report| report.scout == "scout-b")?;
        ReportB::parse(&report.payload).ok()
    }

    /// What the host adds to reports that have just come.
    pub(super) fn annotate(&mut self, answer: &mut Value) {
        let (Some(a), Some(b)) = (self.report_a(), self.report_b()) else { return };
        if let Some(slice) = first_steps::first_slice(&a) {
            answer["start_with"] = json!({"slice": slice.id, "files": slice.files});
        }
        if self.has_tests == Some(false) {
            answer["tests"] = first_steps::tests_owed(&b);
        }
        self.put_conflicts(answer);
    }

    /// New contradictions between the reports as they stand.
    pub(super) fn put_conflicts(&mut self, answer: &mut Value) {
        let (Some(a), Some(b)) = (self.report_a(), self.report_b()) else { return };
        let fresh = self.conflicts.add(&a, &b);
        if fresh.is_empty() {
            return;
        }
        answer["conflicts"] = json!({
            "found": fresh.iter().map(Conflict::stated).collect::<Vec<_>>(),
            "todo": "the Scouts disagree: say in your next message what you go by and why; it is recorded",
        });
    }

    /// Writes the snapshot now, or after the Editor's next turn where that settles something.
    pub(super) fn snapshot_when_settled(&mut self, moment: Moment) -> Result<(), End> {
        if self.conflicts.are_open() {
            self.snapshot_due = Some(moment);
            return Ok(());
        }
        self.snapshot(moment)
    }

    /// Looks at a turn before anything in it is performed.
    pub(super) fn settle(&mut self, turn: &Turn) -> Result<(), End> {
        if self.conflicts.are_open()
            && let Some(words) = words(turn)
        {
            for text in self.conflicts.settle(&words) {
                self.editor.events.emit(EventKind::Diagnosis { text });
            }
        }
        self.write_due_snapshot()
    }

    pub(super) fn write_due_snapshot(&mut self) -> Result<(), End> {
        self.snapshot_due.take().map_or(Ok(()), |moment| self.snapshot(moment))
    }
}

/// What a turn says in words, or by a new plan.
fn words(turn: &Turn) -> Option<String> {
    let said = Some(turn.text.trim().to_owned()).filter(|text| !text.is_empty());
    let planned = || {
        let plan = turn.calls.iter().find(|call| call.name == "plan")?;
        let plan: Value = serde_json::from_str(&plan.arguments).ok()?;
        Some(plan.get("strategy")?.as_str()?.trim().to_owned())
    };
    let words = said.or_else(planned)?;
    Some(words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(WORDS).collect())
}
