//! Errors of the engine and their `error_type`. The phase and the kind of answer decide, never the wording of a
//! message, which engines change and images can choose.

use crate::driver::{DriverError, Fault};
use act_core::verification::{ErrorType, InfraError};

/// No engine answers at `host`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("Docker unavailable: tried {host}: {why}; {hint}")]
pub struct EngineUnavailable {
    pub host: String,
    pub why: String,
    pub hint: String,
}

impl From<EngineUnavailable> for InfraError {
    fn from(error: EngineUnavailable) -> Self {
        Self::new(ErrorType::DockerUnavailable, error.to_string())
    }
}

/// The request that the engine failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Connect,
    Pull,
    Create,
    /// Reading and writing files of a container that is not started.
    Prepare,
    Start,
    Network,
    Exec,
    Inspect,
    /// Reading files from a remote engine.
    Fetch,
    Remove,
}

impl Phase {
    fn verb(self) -> &'static str {
        match self {
            Self::Connect => "reach the engine",
            Self::Pull => "get the image",
            Self::Create => "create the container",
            Self::Prepare => "prepare the container",
            Self::Start => "start the container",
            Self::Network => "switch the container's network",
            Self::Exec => "run a step",
            Self::Inspect => "ask how a step ended",
            Self::Fetch => "fetch what the steps wrote",
            Self::Remove => "remove the container",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngineError {
    pub(crate) phase: Phase,
    pub(crate) fault: Fault,
    pub(crate) message: String,
}

impl EngineError {
    pub(crate) fn new(phase: Phase, error: DriverError) -> Self {
        Self { phase, fault: error.fault, message: error.message }
    }

    pub(crate) fn silent(phase: Phase) -> Self {
        Self {
            phase,
            fault: Fault::Unreachable,
            message: "the engine gave no answer in time".into(),
        }
    }

    pub(crate) fn unreachable(&self) -> bool {
        self.fault == Fault::Unreachable
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match self.fault {
            Fault::Status(status) => Some(status),
            _ => None,
        }
    }
}

impl From<EngineError> for InfraError {
    fn from(error: EngineError) -> Self {
        let mut message = format!("failed to {}: {}", error.phase.verb(), error.message);
        if error.unreachable() {
            message
                .push_str("; the container engine does not answer: start it, or see `act doctor`");
        }
        let lost = error.status() == Some(410);
        Self { lost, ..Self::new(classify(error.phase, error.fault), message) }
    }
}

fn classify(phase: Phase, fault: Fault) -> ErrorType {
    match (phase, fault) {
        (_, Fault::Unreachable) | (Phase::Connect, _) => ErrorType::DockerUnavailable,
        // 404 means a missing image when a container is created; when it is started, a missing network as well.
        (Phase::Pull, Fault::Status(_)) | (Phase::Create, Fault::Status(404)) => {
            ErrorType::ImagePull
        }
        (Phase::Create | Phase::Prepare | Phase::Start | Phase::Network, Fault::Status(_)) => {
            ErrorType::ContainerCreation
        }
        _ => ErrorType::Unknown,
    }
}

impl From<EngineUnavailable> for act_core::Failure {
    fn from(error: EngineUnavailable) -> Self {
        let message = format!("Docker unavailable: tried {}: {}", error.host, error.why);
        Self::refused("docker_unavailable", message).hint(error.hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-20
    #[test]
    fn classes_follow_the_phase_and_the_kind_of_answer() {
        use ErrorType::{ContainerCreation, DockerUnavailable, ImagePull, Unknown};
        for (phase, fault, expected) in [
            (Phase::Connect, Fault::Unreachable, DockerUnavailable),
            (Phase::Connect, Fault::Status(500), DockerUnavailable),
            (Phase::Pull, Fault::Status(404), ImagePull),
            (Phase::Pull, Fault::Status(500), ImagePull),
            (Phase::Pull, Fault::Unreachable, DockerUnavailable),
            (Phase::Create, Fault::Status(404), ImagePull),
            (Phase::Create, Fault::Status(400), ContainerCreation),
            (Phase::Create, Fault::Status(500), ContainerCreation),
            (Phase::Create, Fault::Unreachable, DockerUnavailable),
            (Phase::Prepare, Fault::Status(404), ContainerCreation),
            (Phase::Start, Fault::Status(404), ContainerCreation),
            (Phase::Start, Fault::Status(400), ContainerCreation),
            (Phase::Start, Fault::Unreachable, DockerUnavailable),
            (Phase::Network, Fault::Status(500), ContainerCreation),
            (Phase::Exec, Fault::Status(409), Unknown),
            (Phase::Exec, Fault::Unreachable, DockerUnavailable),
            (Phase::Inspect, Fault::Status(404), Unknown),
            (Phase::Inspect, Fault::Unreachable, DockerUnavailable),
            (Phase::Inspect, Fault::Garbled, Unknown),
            (Phase::Remove, Fault::Unreachable, DockerUnavailable),
        ] {
            assert_eq!(classify(phase, fault), expected, "{phase:?} {fault:?}");
        }
    }
}
