//! How one run of the pipeline ended. A [`Verification`] is the only representation of that, from the [`Verifier`]
//! that made it to the last line printed; it becomes text only where it is serialised.

mod manifest;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod warning;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use serde::{Deserialize, Serialize, Serializer};
use tokio_util::sync::CancellationToken;

pub use manifest::{
    CommandExecuted, ComponentDigest, EngineIdentity, Manifest, Platform, SourceWrite,
};
pub use warning::{Warning, WarningCode, lessens, marks};

use crate::RunId;

/// Runs the whole pipeline once.
pub trait Verifier: Send + Sync {
    /// Verifies the tree as attempt number `attempt` of its task.
    ///
    /// The call itself never fails: trouble with the machine is a [`Verdict::Infra`]. Returns `None` when the run was
    /// cancelled; nothing is left running then.
    fn run<'a>(
        &'a self,
        attempt: u32,
        cancel: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Option<Verification>> + Send + 'a>>;
}

/// The verifier of a dry run, which verifies nothing.
pub struct NoVerifier;

impl Verifier for NoVerifier {
    fn run<'a>(
        &'a self,
        _attempt: u32,
        _cancel: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Option<Verification>> + Send + 'a>> {
        Box::pin(std::future::ready(None))
    }
}

/// The result of one run of the pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// `None` when the trouble came before the run had an id.
    pub run_id: Option<RunId>,
    pub verdict: Verdict,
    /// Last 200 lines of the combined log, at most 64 KiB, valid UTF-8.
    pub tail: Option<String>,
    /// Paths of the files of the run, absolute.
    pub artifact_paths: Vec<String>,
    /// The manifest as it was written; `None` when it could not be written.
    pub manifest: Option<Manifest>,
    pub warnings: Vec<Warning>,
}

impl Verification {
    /// A verification that never became a run.
    pub fn not_started(error: InfraError) -> Self {
        Self {
            run_id: None,
            verdict: Verdict::Infra(error),
            tail: None,
            artifact_paths: vec![],
            manifest: None,
            warnings: vec![],
        }
    }

    pub fn passed(&self) -> bool {
        self.verdict == Verdict::Pass
    }

    pub fn failed(&self) -> bool {
        matches!(self.verdict, Verdict::Fail(_))
    }

    /// The steps that were started, in order. The pipeline stops at the first failure, so only the last one can have
    /// failed.
    pub fn steps(&self) -> &[CommandExecuted] {
        self.manifest.as_ref().map(|manifest| &*manifest.commands_executed).unwrap_or_default()
    }

    /// The step that ended the run. No step is to blame when the tree changed during the run.
    pub fn failing_step(&self) -> Option<&CommandExecuted> {
        match self.verdict {
            Verdict::Pass | Verdict::Fail(FailReason::TreeChanged) => None,
            _ => self.steps().last(),
        }
    }

    /// Digest of the tree that was verified.
    pub fn tree_digest(&self) -> Option<&str> {
        self.manifest.as_ref()?.tree_digest.as_deref()
    }
}

/// The JSON of `act verify --json`; its fields are those of VERIFIER-2.
impl Serialize for Verification {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let error = self.verdict.infra();
        VerifyResponse {
            status: self.verdict.status(),
            run_id: self.run_id.as_ref().map(RunId::as_str),
            tail_log: self.tail.as_deref(),
            artifact_paths: &self.artifact_paths,
            manifest: self.manifest.as_ref(),
            error_type: error.map(|error| error.error_type),
            error_message: error.map(|error| error.message.as_str()),
            reason: self.verdict.fail_reason(),
            warnings: &self.warnings,
        }
        .serialize(serializer)
    }
}

/// PASS and FAIL have no error fields, INFRA_ERROR has both.
#[derive(Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
struct VerifyResponse<'a> {
    status: Status,
    run_id: Option<&'a str>,
    /// Last 200 lines of the combined log, at most 64 KiB, valid UTF-8.
    tail_log: Option<&'a str>,
    artifact_paths: &'a [String],
    /// The run's manifest as it was written.
    manifest: Option<&'a Manifest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<ErrorType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<&'a str>,
    reason: Option<FailReason>,
    warnings: &'a [Warning],
}

/// What one run of the pipeline says about the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every step succeeded on an unchanged tree.
    Pass,
    Fail(FailReason),
    /// The machine failed, so nothing is said about the tree.
    Infra(InfraError),
}

impl Verdict {
    pub fn status(&self) -> Status {
        match self {
            Self::Pass => Status::Pass,
            Self::Fail(_) => Status::Fail,
            Self::Infra(_) => Status::InfraError,
        }
    }

    pub fn fail_reason(&self) -> Option<FailReason> {
        match self {
            Self::Fail(reason) => Some(*reason),
            Self::Pass | Self::Infra(_) => None,
        }
    }

    pub fn infra(&self) -> Option<&InfraError> {
        match self {
            Self::Infra(error) => Some(error),
            Self::Pass | Self::Fail(_) => None,
        }
    }

    /// The reason of a failure or the kind of trouble as one word; `None` for a pass.
    pub fn reason_word(&self) -> Option<&'static str> {
        match self {
            Self::Pass => None,
            Self::Fail(reason) => Some(reason.as_str()),
            Self::Infra(error) => Some(error.error_type.as_str()),
        }
    }
}

// The kind of a `Verdict`, as one word of JSON. A doc comment would become part of the published schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    Pass,
    Fail,
    InfraError,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::InfraError => "INFRA_ERROR",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailReason {
    StepFailed,
    Timeout,
    SourceWrites,
    TreeChanged,
}

impl FailReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StepFailed => "step_failed",
            Self::Timeout => "timeout",
            Self::SourceWrites => "source_writes",
            Self::TreeChanged => "tree_changed",
        }
    }
}

/// Trouble with the machine during a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfraError {
    pub error_type: ErrorType,
    pub message: String,
}

impl InfraError {
    pub fn new(error_type: ErrorType, message: impl Into<String>) -> Self {
        Self { error_type, message: message.into() }
    }

    /// Trouble with the run's own files: a full disk is an exhausted resource, anything else is unknown.
    pub fn from_io(doing: &str, error: &io::Error) -> Self {
        let full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        let (error_type, hint) = if full {
            (ErrorType::ResourceExhaustion, "; make room in the artifact directory")
        } else {
            (ErrorType::Unknown, "")
        };
        Self::new(error_type, format!("failed to {doing}: {error}{hint}"))
    }
}

impl fmt::Display for InfraError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error_type.as_str(), self.message)
    }
}

impl std::error::Error for InfraError {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    DockerUnavailable,
    ContainerCreation,
    ImagePull,
    ResourceExhaustion,
    Unknown,
}

impl ErrorType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DockerUnavailable => "docker_unavailable",
            Self::ContainerCreation => "container_creation",
            Self::ImagePull => "image_pull",
            Self::ResourceExhaustion => "resource_exhaustion",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_written_down() {
        crate::event::schema::holds::<VerifyResponse<'_>>("verify");
    }

    // VERIFIER-2
    #[test]
    fn only_an_infra_error_has_error_fields_and_the_rest_is_null() {
        let mut verification = Verification::not_started(InfraError {
            error_type: ErrorType::ImagePull,
            message: "no such image".into(),
        });
        assert_eq!(
            serde_json::to_string(&verification).unwrap(),
            r#"{"status":"INFRA_ERROR","run_id":null,"tail_log":null,"artifact_paths":[],"manifest":null,"error_type":"image_pull","error_message":"no such image","reason":null,"warnings":[]}"#
        );
        verification.verdict = Verdict::Pass;
        let passed = serde_json::to_value(&verification).unwrap();
        assert!(passed.get("error_type").is_none() && passed.get("error_message").is_none());
    }

    #[test]
    fn words_and_serialised_forms_agree() {
        fn word(value: impl Serialize) -> String {
            serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
        }
        for status in [Status::Pass, Status::Fail, Status::InfraError] {
            assert_eq!(word(status), status.as_str());
        }
        for reason in [
            FailReason::StepFailed,
            FailReason::Timeout,
            FailReason::SourceWrites,
            FailReason::TreeChanged,
        ] {
            assert_eq!(word(reason), reason.as_str());
        }
        for error in [
            ErrorType::DockerUnavailable,
            ErrorType::ContainerCreation,
            ErrorType::ImagePull,
            ErrorType::ResourceExhaustion,
            ErrorType::Unknown,
        ] {
            assert_eq!(word(error), error.as_str());
        }
    }

    #[test]
    fn a_full_disk_is_a_resource_and_other_file_trouble_is_unknown() {
        let of = |kind: io::ErrorKind| InfraError::from_io("write", &kind.into()).error_type;
        assert_eq!(of(io::ErrorKind::StorageFull), ErrorType::ResourceExhaustion);
        assert_eq!(of(io::ErrorKind::PermissionDenied), ErrorType::Unknown);
    }
}
