//! How one run of the pipeline ended. A [`Verification`] is the only representation of that, from the [`Verifier`]
//! that made it to the last line printed; it becomes text only where it is serialised.
//!
//! - [`Verification`] and its [`Verdict`]: the result, as `act verify --json` prints it.
//! - [`Manifest`]: the content of `manifest.json`, in the order of `specs/artifacts.md`.
//! - [`Warning`]: a fact that the user should know, and [`marks`], the short form of warnings in the audit log.

#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use serde::de::IntoDeserializer;
use serde::de::value::{Error as NoCode, StrDeserializer};
use serde::{Deserialize, Serialize, Serializer};
use tokio_util::sync::CancellationToken;

use crate::{Document, RunId};

/// Runs the whole pipeline once.
pub trait Verifier: Send + Sync {
    /// Verifies the tree as attempt number `attempt` of its task; 0 is a run that is no attempt, and therefore ends no task.
    ///
    /// The call itself never fails: a failure of the machine is a [`Verdict::Infra`]. Returns `None` when the run was
    /// cancelled; nothing is left running then.
    fn run<'a>(
        &'a self,
        attempt: u32,
        cancel: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Option<Verification>> + Send + 'a>>;

    /// Sets the places where the tests of the task demand less than at its start, for the manifests of later runs.
    fn tests_weakened(&self, _places: Vec<String>) {}
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
    /// `None` when the machine failed before the run had an id.
    pub run_id: Option<RunId>,
    pub verdict: Verdict,
    /// Last 200 lines of the combined log, at most 64 KiB, valid UTF-8.
    pub tail: Option<String>,
    /// Paths of the files of the run, absolute.
    pub artifact_paths: Vec<String>,
    /// The manifest as it was written; `None` when it could not be written.
    pub manifest: Option<Manifest>,
    pub warnings: Vec<Warning>,
    /// Set when an earlier run of the unchanged tree is the answer, so that nothing was run.
    pub reused: Option<Reused>,
}

/// How a verification was answered with a run that another command made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reused {
    /// Seconds since the end of the run.
    pub age_s: u64,
    /// The run had not ended when this verification began, and was waited for.
    pub joined: bool,
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
            reused: None,
        }
    }

    /// Returns whether every step passed.
    pub fn passed(&self) -> bool {
        self.verdict == Verdict::Pass
    }

    /// Returns whether the tree failed; a failure of the machine is neither a pass nor a fail.
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

    /// Returns whether the run began with a warm base.
    pub fn is_warm(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.base.is_some())
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
            reused: self.reused.map(|_| true),
            age_s: self.reused.map(|reused| reused.age_s),
            joined: self.reused.map(|reused| reused.joined),
        }
        .serialize(serializer)
    }
}

impl Document for Verification {
    const NAME: &'static str = VerifyResponse::NAME;
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
    /// True when an earlier run of the unchanged tree is the answer, and absent when the pipeline was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    reused: Option<bool>,
    /// Seconds since the end of a reused run.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_s: Option<u64>,
    /// True when the reused run had not ended when the command began, and was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    joined: Option<bool>,
}

impl Document for VerifyResponse<'_> {
    const NAME: &'static str = "verify";
}

/// The judgement of one run of the pipeline about the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every step succeeded on an unchanged tree.
    Pass,
    Fail(FailReason),
    /// The machine failed, so the run says nothing about the tree.
    Infra(InfraError),
}

impl Verdict {
    /// The kind of the verdict.
    pub fn status(&self) -> Status {
        match self {
            Self::Pass => Status::Pass,
            Self::Fail(_) => Status::Fail,
            Self::Infra(_) => Status::InfraError,
        }
    }

    /// The reason of a failure.
    pub fn fail_reason(&self) -> Option<FailReason> {
        match self {
            Self::Fail(reason) => Some(*reason),
            Self::Pass | Self::Infra(_) => None,
        }
    }

    /// The error of the machine.
    pub fn infra(&self) -> Option<&InfraError> {
        match self {
            Self::Infra(error) => Some(error),
            Self::Pass | Self::Fail(_) => None,
        }
    }

    /// The stable word of the reason or of the error; `None` for a pass.
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
    /// The stable word.
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
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StepFailed => "step_failed",
            Self::Timeout => "timeout",
            Self::SourceWrites => "source_writes",
            Self::TreeChanged => "tree_changed",
        }
    }
}

/// A failure of the machine during a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfraError {
    pub error_type: ErrorType,
    pub message: String,
    /// The engine has taken the container away, so the same run may succeed in another one.
    pub lost: bool,
}

impl InfraError {
    /// An error of this type.
    pub fn new(error_type: ErrorType, message: impl Into<String>) -> Self {
        Self { error_type, message: message.into(), lost: false }
    }

    /// An error with the run's own files: a full disk is an exhausted resource, any other error is unknown.
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
    // The run ended, and its end could not be stored.
    EndNotKept,
    Unknown,
}

impl ErrorType {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DockerUnavailable => "docker_unavailable",
            Self::ContainerCreation => "container_creation",
            Self::ImagePull => "image_pull",
            Self::ResourceExhaustion => "resource_exhaustion",
            Self::EndNotKept => crate::reason::END_NOT_KEPT,
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Manifest {
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub run_id: RunId,
    pub task_id: Option<String>,
    pub timestamp_start: String,
    pub timestamp_end: String,
    pub commit_sha: Option<String>,
    /// `PASS`, `FAIL` or `INFRA_ERROR`.
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub status: Status,
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "Option<String>"))]
    pub reason: Option<FailReason>,
    pub commands_executed: Vec<CommandExecuted>,
    pub platform: Platform,
    /// Digest of the image in its registry, or the id of the image when no registry has it.
    pub image_digest: String,
    /// Digest of the tree; null when the tree could not be read.
    pub tree_digest: Option<String>,
    pub tree_digest_after: Option<String>,
    /// Name of the tree in git, as `git write-tree` returns it for the tested files; absent where git would store other
    /// bytes, or names its objects by SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_tree: Option<String>,
    pub pipeline_sha256: String,
    pub workspace: String,
    /// The key of the warm base that the run began with; null for a cold run.
    #[serde(default)]
    pub base: Option<String>,
    /// The addresses that steps with a network could not reach; empty if the engine could not close them, and absent if no
    /// step had a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_closed: Option<Vec<String>>,
    pub engine: EngineIdentity,
    /// The node of the cluster on which the steps ran; absent for an engine that is no cluster, and where none ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Why the run began anew: what became of its first container before a step had started. Absent for a run that began once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_anew: Option<String>,
    pub components: Vec<ComponentDigest>,
    /// Places where the tests of the task demand less than at its start, or something else; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests_weakened: Vec<String>,
    /// What the tests of the task prove, in the run that decided a success. It is added after the run has ended, so
    /// [`Manifest::audit_head`] does not cover it; a record of its own does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<crate::evidence::Evidence>,
    pub audit_head: Option<String>,
    pub act_version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct CommandExecuted {
    pub name: String,
    pub command: String,
    /// Exit code of the command; null when the command did not end by itself.
    pub exit_code: Option<i64>,
    pub duration_ms: u64,
    pub timed_out: bool,
    pub oom: bool,
    /// `on` or `off`, as in `agent.yaml`.
    pub network: String,
    pub source_writes: Vec<SourceWrite>,
    /// SHA-256 of the log of the step; absent in manifests of earlier versions, like the next field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_sha256: Option<String>,
    /// Size of the log of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// SHA-256 of the last 1 MiB of a log that is longer, because a proof that outlives the run holds no more of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_end_sha256: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SourceWrite {
    pub path: String,
    pub change: String,
}

/// The platform of the image in which the commands ran, not that of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Platform {
    pub os: String,
    pub arch: String,
    pub container_image: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct EngineIdentity {
    pub name: String,
    pub version: String,
    /// The id of the engine, as it reports it; absent where it has none that lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The address of the API server, of an engine that is a namespace of a Kubernetes cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the engine in the user's `engines.toml`; absent for an engine that was found without that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

impl std::fmt::Display for EngineIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, version, id, cluster, namespace, entry } = self;
        write!(f, "{name} {version}")?;
        if let (Some(cluster), Some(namespace)) = (cluster, namespace) {
            write!(f, ", namespace {namespace} at {cluster}")?;
        }
        if let Some(id) = id {
            write!(f, ", id {id}")?;
        }
        match entry {
            Some(entry) => write!(f, ", {entry} in engines.toml"),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ComponentDigest {
    pub name: String,
    pub sha256: String,
    /// True for a component of `act components watch --dev`, whose bytes nobody approved one by one; absent for all others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dev_component: bool,
}

/// Begins a name in the audit record of a run's start: the name and the digest of a component of `act components watch --dev`
/// follow. Names of components hold no `=`.
pub const DEV_COMPONENT: &str = "dev_component=";

/// The kind of a [`Warning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    ArtifactsChanged,
    ArtifactsIncomplete,
    BaseDisproved,
    CleanupFailed,
    ContainerLeft,
    DevComponent,
    FewerTestsRan,
    GitUnavailable,
    LinkLocalReachable,
    LogIncomplete,
    MountHidden,
    NeedsWritableView,
    NetworkCutOff,
    NoTestsRan,
    Oom,
    OverlayUnavailable,
    ProposalUnfinished,
    SourceWrites,
    TestsWeakened,
}

impl WarningCode {
    /// Returns the code that `word` names, if it names one.
    fn of(word: &str) -> Option<Self> {
        let word: StrDeserializer<'_, NoCode> = word.into_deserializer();
        Self::deserialize(word).ok()
    }

    /// The stable word of the code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ArtifactsChanged => "artifacts_changed",
            Self::ArtifactsIncomplete => "artifacts_incomplete",
            Self::BaseDisproved => "base_disproved",
            Self::CleanupFailed => "cleanup_failed",
            Self::ContainerLeft => "container_left",
            Self::DevComponent => "dev_component",
            Self::FewerTestsRan => "fewer_tests_ran",
            Self::GitUnavailable => "git_unavailable",
            Self::LinkLocalReachable => "link_local_reachable",
            Self::LogIncomplete => "log_incomplete",
            Self::MountHidden => "mount_hidden",
            Self::NeedsWritableView => "needs_writable_view",
            Self::NetworkCutOff => "network_cut_off",
            Self::NoTestsRan => "no_tests_ran",
            Self::Oom => "oom",
            Self::OverlayUnavailable => "overlay_unavailable",
            Self::ProposalUnfinished => "proposal_unfinished",
            Self::SourceWrites => "source_writes",
            Self::TestsWeakened => "tests_weakened",
        }
    }

    /// Returns whether a verdict with this warning is worth less than it seems: something was not tested, not tested as
    /// configured, or not tested to its end. The other codes are about cleaning up and about how the tree was provided, or
    /// compare the tree with the start of its task, which a run that repeats this one cannot do.
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
            | Self::BaseDisproved
            | Self::CleanupFailed
            | Self::ContainerLeft
            | Self::DevComponent
            | Self::FewerTestsRan
            | Self::GitUnavailable
            | Self::LinkLocalReachable
            | Self::NeedsWritableView
            | Self::OverlayUnavailable
            | Self::ProposalUnfinished
            | Self::TestsWeakened => false,
        }
    }
}

// A fact about a run that its user should know although it does not decide the verdict. A doc comment would become part
// of the published schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Warning {
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub code: WarningCode,
    pub step: Option<String>,
    pub message: String,
}

/// Maximum length of a mark in bytes; a longer one names no steps.
const LONGEST: usize = 320;

/// The warnings as the audit log records them: one mark for each code, in the order of the codes, such as
/// `no_tests_ran 2 3` with the numbers of its steps, or the code alone when a warning is about the whole run. `steps` holds
/// the names of the steps that ran; steps of equal names are all numbered.
pub fn marks(warnings: &[Warning], steps: &[&str]) -> Vec<String> {
    let mut by_code = BTreeMap::<&str, Option<BTreeSet<usize>>>::new();
    for warning in warnings {
        let about = by_code.entry(warning.code.as_str()).or_insert_with(|| Some(BTreeSet::new()));
        let named = |name: &String| {
            let numbers = (1..).zip(steps).filter(|(_, step)| *step == name);
            numbers.map(|(number, _)| number).collect::<Vec<usize>>()
        };
        match (about.as_mut(), warning.step.as_ref().map(named)) {
            (Some(about), Some(numbers)) if !numbers.is_empty() => about.extend(numbers),
            _ => *about = None,
        }
    }
    let mark = |(code, about): (&str, Option<BTreeSet<usize>>)| {
        let numbers: String =
            about.into_iter().flatten().map(|number| format!(" {number}")).collect();
        let numbers = Some(numbers).filter(|numbers| numbers.len() < LONGEST);
        format!("{code}{}", numbers.unwrap_or_default())
    };
    by_code.into_iter().map(mark).collect()
}

/// Returns the warnings of [`marks`], without their messages, which the audit log does not hold: `message` is the message of each.
pub fn of_marks(marks: &[String], steps: &[&str], message: &str) -> Vec<Warning> {
    let mut warnings = vec![];
    for mark in marks {
        let mut words = mark.split(' ');
        let Some(code) = words.next().and_then(WarningCode::of) else { continue };
        let numbers = words.filter_map(|number| number.parse::<usize>().ok());
        let names: Vec<_> =
            numbers.filter_map(|number| steps.get(number.checked_sub(1)?)).collect();
        let warning = |step: Option<&str>| Warning {
            code,
            step: step.map(str::to_owned),
            message: format!("{}: {message}", code.as_str()),
        };
        match names.is_empty() {
            true => warnings.push(warning(None)),
            false => warnings.extend(names.into_iter().map(|name| warning(Some(name)))),
        }
    }
    warnings
}

/// Returns the steps of a mark whose code [lessens the verdict](WarningCode::lessens_verdict), and `None` for other marks.
/// An empty list means all steps.
pub fn lessens(mark: &str) -> Option<Vec<usize>> {
    let mut words = mark.split(' ');
    let code = WarningCode::of(words.next()?)?;
    code.lessens_verdict().then(|| words.filter_map(|number| number.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_written_down() {
        crate::event::schema::document_holds::<VerifyResponse<'_>>();
    }

    // VERIFIER-2
    #[test]
    fn only_an_infra_error_has_error_fields_and_the_rest_is_null() {
        let mut verification =
            Verification::not_started(InfraError::new(ErrorType::ImagePull, "no such image"));
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

    fn warning(code: WarningCode, step: Option<&str>) -> Warning {
        Warning { code, step: step.map(str::to_owned), message: "x".to_owned() }
    }

    // AUDIT-24
    #[test]
    fn a_mark_names_the_steps_or_is_about_all_of_them() {
        let told = [
            warning(WarningCode::NoTestsRan, Some("unit")),
            warning(WarningCode::MountHidden, None),
            warning(WarningCode::NoTestsRan, Some("slow")),
            warning(WarningCode::Oom, Some("unit")),
            warning(WarningCode::Oom, None),
            warning(WarningCode::CleanupFailed, None),
        ];
        let all = marks(&told, &["build", "unit", "slow"]);
        assert_eq!(all, ["cleanup_failed", "mount_hidden", "no_tests_ran 2 3", "oom"]);
        let lessening: Vec<_> = all.iter().map(|mark| lessens(mark)).collect();
        assert_eq!(lessening, [None, Some(vec![]), Some(vec![2, 3]), Some(vec![])]);
        assert_eq!(
            marks(&[warning(WarningCode::Oom, Some("same"))], &["same", "x", "same"]),
            ["oom 1 3"]
        );
        // An unknown step names no step.
        assert_eq!(marks(&[warning(WarningCode::Oom, Some("other"))], &["x"]), ["oom"]);
        let steps = vec!["same"; 500];
        assert_eq!(marks(&[warning(WarningCode::Oom, Some("same"))], &steps), ["oom"]);
    }

    // VERIFIER-32
    #[test]
    fn the_codes_of_warnings_are_those_of_the_specification() {
        let rules =
            std::fs::read_to_string(crate::testing::checkout().join("specs/verifier.md")).unwrap();
        let rule = rules.split("**VERIFIER-32**").nth(1).unwrap().split("\n\n").next().unwrap();
        let listed: Vec<_> = rule.split('`').skip(1).step_by(2).collect();
        assert_eq!(listed.len(), WarningCode::TestsWeakened as usize + 1, "{listed:?}");
        for word in listed {
            let code = WarningCode::of(word).expect(word);
            assert_eq!(code.as_str(), word);
            assert_eq!(serde_json::to_value(code).unwrap(), word);
        }
        assert_eq!(WarningCode::of("Oom"), None);
    }
}
