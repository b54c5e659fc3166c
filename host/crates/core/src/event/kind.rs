//! The kinds of events, one variant for each fact; names and fields are those of `specs/events.md`.

use base64::Engine as _;
use serde::{Deserialize, Serialize};

use crate::TaskState;
use crate::verification::{ErrorType, FailReason, Status};

/// Tokens of one model call or of a sum of them. `input` includes what came from a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ModelUsage {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
}

impl std::ops::AddAssign for ModelUsage {
    fn add_assign(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.cached = self.cached.saturating_add(more.cached);
        self.output = self.output.saturating_add(more.output);
    }
}

/// A file of a proposal. `op` is `create`, `replace`, `delete` or `move`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ProposedChange {
    pub path: String,
    pub from: Option<String>,
    pub op: String,
}

/// Byte for byte as the files are.
#[derive(Debug, Clone)]
pub struct Patch(pub bytes::Bytes);

#[derive(Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
struct PatchText<'a> {
    /// A patch in git's format, with a replacement for each byte that is no UTF-8.
    diff: std::borrow::Cow<'a, str>,
    /// The same byte for byte, where text cannot say it.
    diff_base64: Option<String>,
}

impl Serialize for Patch {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let diff = String::from_utf8_lossy(&self.0);
        let lossy = matches!(diff, std::borrow::Cow::Owned(_));
        let diff_base64 = lossy.then(|| base64::engine::general_purpose::STANDARD.encode(&self.0));
        PatchText { diff, diff_base64 }.serialize(to)
    }
}

#[cfg(any(test, feature = "testing"))]
impl schemars::JsonSchema for Patch {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Patch".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        PatchText::json_schema(generator)
    }
}

/// Bytes that a step printed, for `--verbose`; never part of the JSON stream.
#[derive(Debug, Clone)]
pub struct StepOutput(pub bytes::Bytes);

/// A message of act for the person at the terminal; never part of the JSON stream and of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub level: NoticeLevel,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeLevel {
    /// Says what happens next.
    Info,
    /// Something does not work or needs attention, and the command continues.
    Warning,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The task was accepted; `position` counts those that wait in the repository, from 1.
    TaskQueued {
        text: String,
        position: Option<u32>,
    },
    /// Its turn has not come; told again when that changes. `holder` is the task that works, or the first that
    /// waits, null when it is not one of this ARTIFACT_DIR; `stalled`: its process has been stopped; `works`: it has
    /// begun.
    Waiting {
        repo: String,
        holder: Option<String>,
        position: u32,
        stalled: bool,
        works: bool,
    },
    /// `notes_dir` is the directory of act's notes, from the repository's root; null for a dry run, which writes none.
    TaskStarted {
        repo: String,
        pipeline_sha256: String,
        // Journals of 0.1.0 lack the field, so the schema does not require it.
        #[cfg_attr(
            any(test, feature = "testing"),
            schemars(skip_serializing_if = "Option::is_none")
        )]
        notes_dir: Option<String>,
    },
    /// `enforced` are those of the boundaries that name paths: no tool writes anywhere else.
    Constraints {
        constraints: Vec<String>,
        non_goals: Vec<String>,
        boundaries: Vec<String>,
        enforced: Vec<String>,
    },
    /// A milestone text of the specification, word for word.
    Milestone {
        text: String,
        attempt: Option<u32>,
    },
    /// Bytes so far and in all, as far as the engine says.
    ImagePull {
        image: String,
        status: String,
        current: Option<u64>,
        total: Option<u64>,
    },
    /// A component is being compiled because the cache does not hold it.
    ComponentCompiled {
        name: String,
        sha256: String,
        duration_ms: u64,
    },
    /// A component was let in, with what is in force for it.
    ComponentLoaded {
        name: String,
        sha256: String,
        world: String,
        /// Of the effective grant.
        effective_sha256: String,
    },
    /// A component was not let in; nothing of it has run.
    ComponentRefused {
        name: String,
        sha256: String,
        /// A stable word.
        reason: String,
        message: String,
    },
    /// What one query has used of its grants, however it ended.
    ComponentUsed {
        name: String,
        sha256: String,
        /// Names of the grants.
        grants: Vec<String>,
        files: u64,
        /// Of the sorted list of files that were read, one a line.
        files_sha256: String,
        bytes: u64,
        /// Entries of the root that those files lie in; none where there are more than 32.
        parts: Vec<String>,
        edits: u64,
        model_calls: u64,
        model_tokens: u64,
        origins: Vec<String>,
        env: Vec<String>,
        /// Refused, all of them.
        denials: u64,
        /// The most that it held.
        memory_bytes: u64,
    },
    ScoutStarted {
        scout: String,
        sha256: String,
        attempt: u32,
    },
    ScoutFinished {
        scout: String,
        /// `ok`, `rejected` (the report does not hold) or `failed`.
        outcome: String,
        duration_ms: u64,
        summary: String,
        error: Option<String>,
    },
    /// A line that a component says about its progress.
    ComponentStep {
        name: String,
        message: String,
    },
    /// A line that a component wrote to its log; `level` is `debug`, `info` or `warn`.
    ComponentLog {
        name: String,
        level: String,
        message: String,
    },
    ComponentDenied {
        name: String,
        grant: String,
        object: String,
    },
    ModelRequest {
        role: String,
        request_id: Option<String>,
        /// HTTP status, none when no answer came.
        status: Option<u16>,
        attempt: u32,
        usage: ModelUsage,
        duration_ms: u64,
        /// Why it gave no turn.
        error: Option<String>,
    },
    /// What the Editor thinks is wrong or decided; shown with `--verbose`.
    Diagnosis {
        text: String,
    },
    Edit {
        path: String,
        op: String,
        version: u64,
        sha256_before: Option<String>,
        sha256_after: Option<String>,
    },
    EditRefused {
        path: String,
        op: String,
        reason: String,
    },
    VerifyStarted {
        run_id: String,
        attempt: u32,
    },
    #[serde(skip)]
    StepOutput(StepOutput),
    #[serde(skip)]
    Notice(Notice),
    StepFinished {
        run_id: String,
        name: String,
        exit_code: Option<i64>,
        duration_ms: u64,
    },
    VerifyFinished {
        run_id: String,
        /// `PASS`, `FAIL` or `INFRA_ERROR`.
        #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
        status: Status,
        #[cfg_attr(any(test, feature = "testing"), schemars(with = "Option<String>"))]
        error_type: Option<ErrorType>,
        #[cfg_attr(any(test, feature = "testing"), schemars(with = "Option<String>"))]
        reason: Option<FailReason>,
        /// Hash of the record of its end in the audit log; none where that could not be written.
        audit_head: Option<String>,
        duration_ms: u64,
    },
    /// What the pipeline said before the first edit; this run is no attempt.
    Baseline {
        run_id: Option<String>,
        /// `PASS` or `FAIL`.
        status: String,
        /// The step that failed.
        step: Option<String>,
        /// Lines of its log that look like failures, the first ones.
        failures: Vec<String>,
    },
    /// A dry run's proposal.
    Proposed {
        files: Vec<ProposedChange>,
        /// The command that makes these changes; none when the proposal could not be kept.
        apply: Option<String>,
        #[serde(flatten)]
        diff: Patch,
    },
    Replan {
        number: u32,
        attempt: u32,
        strategy: String,
        requery: Vec<String>,
    },
    Snapshot {
        path: String,
        milestone: String,
    },
    /// A stuck report was written; its bytes are known by their digest.
    ReportWritten {
        path: String,
        sha256: String,
    },
    /// Always the last event of a task.
    TaskFinished {
        #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
        state: TaskState,
        exit_code: u8,
        run_id: Option<String>,
        reason: Option<String>,
        summary: Option<String>,
        report_path: Option<String>,
        tokens: std::collections::BTreeMap<String, ModelUsage>,
        gate_inputs_changed: Vec<String>,
        /// How many edits each rule refused, by its word.
        edits_refused: std::collections::BTreeMap<String, u64>,
    },
}

impl EventKind {
    /// Returns whether programs do not get the event: neither `--json` nor the journal has a line for it.
    pub fn is_for_people(&self) -> bool {
        matches!(self, Self::StepOutput(_) | Self::Notice(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CLI-50
    #[test]
    fn a_patch_that_is_no_text_is_there_byte_for_byte_as_well() {
        let json = |bytes: &'static [u8]| serde_json::to_value(Patch(bytes.into())).unwrap();
        assert_eq!(json(b"+a\n"), serde_json::json!({"diff": "+a\n", "diff_base64": null}));
        let latin = serde_json::json!({"diff": "+\u{fffd}\n", "diff_base64": "K+kK"});
        assert_eq!(json(b"+\xE9\n"), latin);
    }
}
