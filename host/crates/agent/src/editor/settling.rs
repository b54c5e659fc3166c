//! Conflicts between the Scouts are shown to the Editor with the reports; its decisions are recorded in the next
//! snapshot, which waits for the Editor's next turn.

use serde_json::{Value, json};

use super::first_steps;
use super::session::{End, Session};
use crate::context::Moment;
use crate::scout::report_a::ReportA;
use crate::scout::report_b::ReportB;

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

    /// Adds the conflicts between the newest reports that were not shown before.
    pub(super) fn put_conflicts(&mut self, answer: &mut Value) {
        let (Some(a), Some(b)) = (self.report_a(), self.report_b()) else { return };
        let fresh = self.decided.compare(&a, &b);
        if fresh.is_empty() {
            return;
        }
        answer["conflicts"] = json!({
            "found": fresh,
            "todo": "the Scouts disagree: decide, and call plan again with `decisions`; they are recorded",
        });
    }

    /// Writes the snapshot now, or after the Editor's next turn where a conflict is not decided.
    pub(super) fn snapshot_when_decided(&mut self, moment: Moment) -> Result<(), End> {
        if self.decided.are_open() {
            self.snapshot_due = Some(moment);
            return Ok(());
        }
        self.snapshot(moment)
    }

    pub(super) fn write_due_snapshot(&mut self) -> Result<(), End> {
        self.snapshot_due.take().map_or(Ok(()), |moment| self.snapshot(moment))
    }
}
