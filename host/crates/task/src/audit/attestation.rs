//! A run as an in-toto statement, for tools that read such statements: `act audit export --in-toto`, signed with `--sign`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::audit::explain::{Evidence, ManifestCheck, StepClaim};
use crate::audit::signature::{self, Envelope};
use crate::queue::TaskContext;
use act_core::verification::lessens;
use act_core::{Failure, RunId};
use act_workspace::bare_digest;

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// Names of our own digest algorithms, so that these digests are not mistaken for the `sha256` of a file.
const TREE: &str = "actTree";
const RECORD: &str = "actRecord";
/// The name of in-toto for a tree of git.
const GIT_TREE: &str = "gitTree";
/// How the digest of a tree is made, as in `specs/audit.md`.
const TREE_MADE: &str =
    "sha256 over path, NUL, mode, NUL, sha256 of the content, NUL of each file, by path";
const RECORD_MADE: &str =
    "sha256 over act-audit-v1, the hash before and the record without its own";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Statement {
    #[serde(rename = "_type")]
    pub kind: &'static str,
    /// The tree that was tested.
    pub subject: Vec<Resource>,
    #[serde(rename = "predicateType")]
    pub predicate_type: &'static str,
    pub predicate: TestResult,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    pub result: TestOutcome,
    /// The pipeline, the image, the components of the task, and the record of the run's end in the audit log.
    pub configuration: Vec<Resource>,
    /// Names of the steps that passed. Steps with equal names also have their numbers.
    pub passed_tests: Vec<String>,
    pub warned_tests: Vec<String>,
    pub failed_tests: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "Outcome")
)]
#[serde(rename_all = "UPPERCASE")]
pub enum TestOutcome {
    Passed,
    Warned,
    Failed,
}

/// A resource descriptor of in-toto. Fields without a value are omitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Resource {
    pub name: String,
    /// The digests, by the name of the algorithm.
    pub digest: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<&'static str, String>,
}

impl Resource {
    /// The annotation `role` says what the resource is, because others chose its name.
    fn new(role: &'static str, name: impl Into<String>, sha256: &str) -> Self {
        Self::by("sha256", role, name, sha256)
    }

    fn by(algorithm: &'static str, role: &'static str, name: impl Into<String>, hex: &str) -> Self {
        let digest = BTreeMap::from([(algorithm, bare_digest(hex).to_owned())]);
        Self { name: name.into(), digest, annotations: BTreeMap::new() }.note("role", role)
    }

    fn note(mut self, what: &'static str, text: impl Into<String>) -> Self {
        self.annotations.insert(what, text.into());
        self
    }
}

/// Returns a run as an in-toto statement, and the logs of which only the end could be compared with the manifest.
///
/// # Errors
///
/// The run is unknown, has no verdict, or the log or the manifest was changed or is incomplete.
pub fn audit_export(start: &Path, run_id: &str) -> Result<(Statement, Vec<String>), Failure> {
    let evidence = Evidence::of(start, run_id)?;
    Ok((exported(&evidence, run_id)?, evidence.run.logs_cut))
}

/// Returns what [`audit_export`] does, with the statement in a DSSE envelope, signed with the private key in the file `key`.
///
/// # Errors
///
/// The errors of [`audit_export`], or the key cannot be used.
pub fn audit_export_signed(
    start: &Path,
    run_id: &str,
    key: &Path,
) -> Result<(Envelope, Vec<String>), Failure> {
    let evidence = Evidence::of(start, run_id)?;
    let statement = exported(&evidence, run_id)?;
    let text = serde_json::to_vec(&statement)
        .map_err(|error| Failure::refused("evidence_incomplete", error.to_string()))?;
    let root = act_config::find_root(start)?.map(|root| root.path);
    let of_run = evidence.run.repo.as_ref().and_then(|repo| repo.identity.as_deref());
    let repositories = signature::Repositories { here: root.as_deref(), of_run };
    Ok((signature::sign(&text, key, repositories)?, evidence.run.logs_cut))
}

/// Stores the small part of the evidence of a task's success where it outlives the run. The log is not verified for that:
/// this process has just written what it says about the run.
///
/// # Errors
///
/// The log, the manifest or the store cannot be read, or the proof cannot be written.
pub(crate) fn keep_proof(context: &TaskContext, root: &Path, run_id: &str) -> Result<(), Failure> {
    let statement = exported(&Evidence::unverified(root, run_id)?, run_id)?;
    let not_kept = |why: String| Failure::refused("proof_not_kept", why);
    let id = RunId::parse(run_id).map_err(|error| not_kept(error.to_string()))?;
    let mut text = serde_json::to_vec(&statement).map_err(|error| not_kept(error.to_string()))?;
    text.push(b'\n');
    context.artifacts.keep_proof(&id, &text).map_err(|error| not_kept(error.to_string()))
}

pub(crate) fn exported(evidence: &Evidence, run_id: &str) -> Result<Statement, Failure> {
    let Some(steps) = &evidence.steps else {
        // Without the steps it is unknown whether one of them had a warning.
        let message = match evidence.run.manifest {
            ManifestCheck::Gone => {
                format!("the manifest of {run_id} is missing, and with it the results of the steps")
            }
            _ => format!(
                "the log was written before digests of steps were recorded, so the results of the steps of {run_id} cannot be checked"
            ),
        };
        return Err(Failure::refused("evidence_incomplete", message)
            .hint("old runs are removed; `act verify` makes a new one"));
    };
    statement(evidence, steps).ok_or_else(|| {
        let message =
            format!("the log lacks the digest of the tree, the pipeline or the image of {run_id}");
        Failure::refused("no_verdict", message).hint("`act audit explain` shows what the log holds")
    })
}

/// Returns the statement, or `None` if the log lacks a digest (pure).
fn statement(evidence: &Evidence, steps: &[StepClaim]) -> Option<Statement> {
    let run = &evidence.run;
    let mut tree = Resource::by(TREE, "tree", "tree", run.tree_digest.as_deref()?)
        .note("serialization", TREE_MADE);
    if let Some(git_tree) = &evidence.git_tree {
        tree.digest.insert(GIT_TREE, git_tree.clone());
    }
    if let Some(commit) = run.repo.as_ref().and_then(|repo| repo.head.as_ref()) {
        // The tree may contain changes that are not in this commit.
        tree = tree.note("base_commit", commit);
    }
    let of = run.repo.as_ref().and_then(|repo| repo.identity.as_ref());
    if let Some(repository) = of.filter(|_| run.worktree_identity.is_some()) {
        tree = tree.note("worktree_of", repository);
    }
    let gate = Resource::new("gate", "agent.yaml", run.pipeline_sha256.as_deref()?);
    let image = evidence.image.as_deref().unwrap_or("container_image");
    let mut image = Resource::new("image", image, run.image_digest.as_deref()?);
    if let Some(id) = &run.image_id {
        image = image.note("image_id", id);
    }
    let components = run.components.iter().map(|component| {
        let subject = &component.subject;
        let effective = component.effective_sha256.clone().unwrap_or_default();
        let resource = Resource::new("component", &subject.name, &subject.sha256)
            .note("capabilities", component.capabilities.join("; "))
            .note("effective_sha256", effective);
        match run.dev_components.contains(&format!("{} {}", subject.name, subject.sha256)) {
            true => resource.note("dev_component", "true"),
            false => resource,
        }
    });
    let hash = run.finished_hash.as_deref()?;
    let mut record = Resource::by(RECORD, "record", "audit-record", hash)
        .note("serialization", RECORD_MADE)
        .note("run_id", &run.run_id)
        .note("seq", run.finished_seq.unwrap_or_default().to_string())
        .note("started_at", &run.started_at);
    if let Some(finished) = &run.finished_at {
        record = record.note("finished_at", finished);
    }
    if let Some(engine) = &run.engine {
        record = record.note("engine", engine);
    }
    if !run.dev_components.is_empty() {
        record = record.note("dev_component", run.dev_components.join("; "));
    }
    if let Some(base) = &run.base {
        record = record.note("warm_base", base);
    }
    let warnings = evidence.warnings().unwrap_or_default();
    if !warnings.is_empty() {
        record = record.note("warnings", warnings.join("; "));
    }
    if !run.gate_inputs_changed.is_empty() {
        let inputs =
            run.gate_inputs_changed.iter().map(|input| format!("{} ({})", input.path, input.why));
        record = record.note("gate_inputs_changed", inputs.collect::<Vec<_>>().join("; "));
    }
    if !run.evidence.is_empty() {
        record = record.note("evidence", run.evidence.join("; "));
    }
    // If the tree changed during the run, all steps passed and the run counts for nothing.
    let last_failed = !evidence.passed && run.outcome.as_deref() != Some("tree_changed");
    let [passed, warned, failed] = by_result(steps, &warnings, last_failed);
    let result = match (evidence.passed, warnings.is_empty() && warned.is_empty()) {
        (false, _) => TestOutcome::Failed,
        (true, false) => TestOutcome::Warned,
        (true, true) => TestOutcome::Passed,
    };
    let configuration = [gate, image].into_iter().chain(components).chain([record]).collect();
    Some(Statement {
        kind: STATEMENT,
        subject: vec![tree],
        predicate_type: TEST_RESULT,
        predicate: TestResult {
            result,
            configuration,
            passed_tests: passed,
            warned_tests: warned,
            failed_tests: failed,
        },
    })
}

/// Returns the names of the steps that passed, that passed with a warning, and that failed (pure).
fn by_result(steps: &[StepClaim], warnings: &[String], last_failed: bool) -> [Vec<String>; 3] {
    let about: Vec<_> = warnings.iter().filter_map(|mark| lessens(mark)).collect();
    let [mut passed, mut warned, mut failed] = [const { vec![] }; 3];
    for (number, step) in (1..).zip(steps) {
        let doubted = step.warned || about.iter().any(|of| of.is_empty() || of.contains(&number));
        let into = match (last_failed && number == steps.len(), doubted) {
            (true, _) => &mut failed,
            (false, true) => &mut warned,
            (false, false) => &mut passed,
        };
        let alone = steps.iter().filter(|other| other.name == step.name).count() == 1;
        let name = &step.name;
        into.push(if alone { name.clone() } else { format!("{name} (step {number})") });
    }
    [passed, warned, failed]
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    fn step(name: &str, warned: bool) -> StepClaim {
        let network = "on".to_owned();
        StepClaim { name: name.to_owned(), exit_code: Some(0), timed_out: false, network, warned }
    }

    // AUDIT-24
    #[test]
    fn a_step_is_told_once_and_by_a_name_that_is_its_own() {
        let steps = [step("same", false), step("unit", true), step("same", false)];
        let none: [&str; 0] = [];
        let [passed, warned, failed] = by_result(&steps, &[], true);
        assert_eq!((passed, failed), (vec!["same (step 1)".into()], vec!["same (step 3)".into()]));
        assert_eq!(warned, ["unit"]);
        let [passed, warned, failed] = by_result(&steps, &["no_tests_ran 3".into()], false);
        assert_eq!(passed, ["same (step 1)"]);
        assert_eq!(warned, ["unit", "same (step 3)"]);
        assert_eq!(failed, none);
        // About the whole run: no step of it is as good as it seems.
        let [passed, warned, _] = by_result(&steps, &["mount_hidden".into()], false);
        assert_eq!((passed.len(), warned.len()), (0, 3));
        let [_, warned, _] = by_result(&steps, &["cleanup_failed".into()], false);
        assert_eq!(warned, ["unit"]);
    }

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::holds::<Statement>("audit-export");
    }
}
