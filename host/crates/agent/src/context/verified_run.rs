//! One verification as snapshots and reports show it: a row of the failure matrix.

use std::fmt::Write as _;

use super::markdown::code;
use act_core::verification::Status;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedRun {
    pub attempt: u32,
    /// Number of the strategy that it judged, from 1.
    pub strategy: u32,
    /// None when the trouble came before a run had its id.
    pub run_id: Option<String>,
    pub status: Status,
    /// Steps that were started, the failing one included.
    pub steps_run: usize,
    pub failing_step: Option<String>,
    pub reason: Option<String>,
    /// The first line of the log that looks like the failure itself.
    pub first_failing_line: Option<String>,
}

pub(super) fn runs(runs: &[VerifiedRun]) -> String {
    if runs.is_empty() {
        return "none\n".into();
    }
    runs.iter().fold(String::new(), |mut out, run| {
        let id = run.run_id.as_deref().map_or("no run".into(), code);
        let step = run.failing_step.as_deref().map(|step| format!(", step {}", code(step)));
        let reason = run.reason.as_deref().map(|reason| format!(", {}", code(reason)));
        let line = run.first_failing_line.as_deref().filter(|line| !line.is_empty());
        let line = line.map(|line| format!(": {}", code(line)));
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
