//! What the audit log hears of a task from the Editor's side, and that nothing is done without it.

use super::ending::Ending;
use super::session::{End, Session};
use act_audit::{Decision, Entry, Event, Head};

/// Changed files of one run that are recorded one by one.
const MOST_INPUTS: usize = 200;

impl Session<'_> {
    /// Before each action of the model.
    pub(super) fn recordable(&self) -> Result<(), End> {
        self.editor.audit.ready().map_err(|error| {
            End::Stuck(Ending::infra(error.code(), format!("{error}; {}", error.hint())))
        })
    }

    /// What the run judged that this task had changed, and that may have made it easier. What cannot be written
    /// now is written before the next action.
    pub(super) fn record_gate_inputs(&self, run_id: Option<&str>) {
        let files = self.editor.hands.changed();
        for input in self.gate_inputs().iter().take(MOST_INPUTS) {
            let file = files.iter().find(|file| file.path == input.path);
            let digest = |of: Option<&String>| of.map(String::as_str).map(str::to_owned);
            let before = digest(file.and_then(|file| file.sha256_before.as_ref()));
            let after = digest(file.and_then(|file| file.sha256_now.as_ref()));
            let entry = Entry::new(Event::GateInputChanged)
                .object(&input.path)
                .decision(Decision::Allow)
                .reason(input.why)
                .digest("before", before.as_deref())
                .digest("after", after.as_deref())
                .names(run_id);
            let _ = self.editor.audit.append(entry);
        }
    }

    /// How far the log is when the task says how it ended.
    pub(super) fn audit_head(&self) -> Option<Head> {
        self.editor.audit.head()
    }
}
