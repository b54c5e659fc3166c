//! What a run answers: one JSON document, its fields fixed by `specs/verifier.md`.

use serde::de::IntoDeserializer;
use serde::de::value::{Error as NoCode, StrDeserializer};
use serde::{Deserialize, Serialize};

use super::docker_error::InfraError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
    /// The word of the response, as it stands in events and reports.
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

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    ArtifactsChanged,
    ArtifactsIncomplete,
    CleanupFailed,
    ContainerLeft,
    GitUnavailable,
    LogIncomplete,
    MountHidden,
    NeedsWritableView,
    NetworkCutOff,
    NoTestsRan,
    Oom,
    OverlayUnavailable,
    ProposalUnfinished,
    SourceWrites,
}

impl WarningCode {
    /// None of a word that is no code.
    pub(super) fn of(word: &str) -> Option<Self> {
        let word: StrDeserializer<'_, NoCode> = word.into_deserializer();
        Self::deserialize(word).ok()
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ArtifactsChanged => "artifacts_changed",
            Self::ArtifactsIncomplete => "artifacts_incomplete",
            Self::CleanupFailed => "cleanup_failed",
            Self::ContainerLeft => "container_left",
            Self::GitUnavailable => "git_unavailable",
            Self::LogIncomplete => "log_incomplete",
            Self::MountHidden => "mount_hidden",
            Self::NeedsWritableView => "needs_writable_view",
            Self::NetworkCutOff => "network_cut_off",
            Self::NoTestsRan => "no_tests_ran",
            Self::Oom => "oom",
            Self::OverlayUnavailable => "overlay_unavailable",
            Self::ProposalUnfinished => "proposal_unfinished",
            Self::SourceWrites => "source_writes",
        }
    }

    /// Whether a verdict is worth less than it seems: not all was tested, not as configured, or not to its end.
    /// The others are about cleaning up and about how the tree came to the steps.
    pub fn lessens_verdict(self) -> bool {
        match self {
            Self::LogIncomplete
            | Self::MountHidden
            | Self::NetworkCutOff
            | Self::NoTestsRan
            | Self::Oom
            | Self::SourceWrites => true,
            Self::ArtifactsChanged
            | Self::ArtifactsIncomplete
            | Self::CleanupFailed
            | Self::ContainerLeft
            | Self::GitUnavailable
            | Self::NeedsWritableView
            | Self::OverlayUnavailable
            | Self::ProposalUnfinished => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Warning {
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub code: WarningCode,
    pub step: Option<String>,
    pub message: String,
}

/// PASS and FAIL have no error fields, INFRA_ERROR has both.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct VerifyResponse {
    pub status: Status,
    pub run_id: Option<String>,
    /// Last 200 lines of the combined log, at most 64 KiB, valid UTF-8.
    pub tail_log: Option<String>,
    pub artifact_paths: Vec<String>,
    /// The run's manifest as it was written.
    #[cfg_attr(
        any(test, feature = "testing"),
        schemars(with = "Option<act_records::artifacts::Manifest>")
    )]
    pub manifest: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    pub reason: Option<FailReason>,
    pub warnings: Vec<Warning>,
}

/// Trouble before there was a run: everything that only a run has is null.
impl From<InfraError> for VerifyResponse {
    fn from(error: InfraError) -> Self {
        Self {
            status: Status::InfraError,
            run_id: None,
            tail_log: None,
            artifact_paths: vec![],
            manifest: None,
            error_type: Some(error.error_type),
            error_message: Some(error.message),
            reason: None,
            warnings: vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_written_down() {
        act_core::event::schema::holds::<VerifyResponse>("verify");
    }

    // VERIFIER-2
    #[test]
    fn only_an_infra_error_has_error_fields_and_the_rest_is_null() {
        let mut response = VerifyResponse::from(InfraError {
            error_type: ErrorType::ImagePull,
            message: "no such image".into(),
        });
        assert_eq!(
            serde_json::to_string(&response).unwrap(),
            r#"{"status":"INFRA_ERROR","run_id":null,"tail_log":null,"artifact_paths":[],"manifest":null,"error_type":"image_pull","error_message":"no such image","reason":null,"warnings":[]}"#
        );
        (response.status, response.error_type, response.error_message) = (Status::Pass, None, None);
        let passed = serde_json::to_value(&response).unwrap();
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
    // VERIFIER-32
    #[test]
    fn the_codes_of_warnings_are_those_of_the_specification() {
        let rules = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../specs/verifier.md"
        ))
        .unwrap();
        let rule = rules.split("**VERIFIER-32**").nth(1).unwrap().split("\n\n").next().unwrap();
        let listed: Vec<_> = rule.split('`').skip(1).step_by(2).collect();
        assert_eq!(listed.len(), WarningCode::SourceWrites as usize + 1, "{listed:?}");
        for word in listed {
            let code = WarningCode::of(word).expect(word);
            assert_eq!(code.as_str(), word);
            assert_eq!(serde_json::to_value(code).unwrap(), word);
        }
        assert_eq!(WarningCode::of("Oom"), None);
    }
}
