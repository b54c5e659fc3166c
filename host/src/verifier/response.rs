//! What a run answers: one JSON document, its fields fixed by `specs/verifier.md`.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    Pass,
    Fail,
    InfraError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailReason {
    StepFailed,
    Timeout,
    SourceWrites,
    TreeChanged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    pub code: String,
    pub step: Option<String>,
    pub message: String,
}

/// PASS and FAIL have no error fields, INFRA_ERROR has both.
#[derive(Debug, Clone, Serialize)]
pub struct VerifyResponse {
    pub status: Status,
    pub run_id: Option<String>,
    /// Last 200 lines of the combined log, at most 64 KiB, valid UTF-8.
    pub tail_log: Option<String>,
    pub artifact_paths: Vec<String>,
    /// The run's manifest as it was written.
    pub manifest: Option<serde_json::Value>,
    pub error_type: Option<ErrorType>,
    pub error_message: Option<String>,
    pub reason: Option<FailReason>,
    pub warnings: Vec<Warning>,
}
