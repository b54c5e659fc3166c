//! A run as an in-toto statement, for whoever has tools for those: `act audit export --in-toto`. Nobody has signed it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::evidence::Evidence;
use super::explain::ManifestCheck;
use crate::output::Failure;

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// How `tree_digest` is made, in the words of `specs/audit.md`.
const TREE: &str =
    "sha256 over path, NUL, mode, NUL, sha256 of the content, NUL of each file, by path";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    pub result: Outcome,
    /// Gate, image, the components of the task, and the record of the run's end in the audit log.
    pub configuration: Vec<Resource>,
    /// Names of steps; empty where the run's manifest is not kept any more.
    pub passed_tests: Vec<String>,
    pub warned_tests: Vec<String>,
    pub failed_tests: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    Passed,
    Warned,
    Failed,
}

/// A resource descriptor of in-toto, as far as there is something to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Resource {
    pub name: String,
    /// By the name of the algorithm.
    pub digest: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<&'static str, String>,
}

impl Resource {
    fn new(name: impl Into<String>, sha256: &str) -> Self {
        let sha256 = sha256.strip_prefix("sha256:").unwrap_or(sha256).to_owned();
        let digest = BTreeMap::from([("sha256", sha256)]);
        Self { name: name.into(), digest, annotations: BTreeMap::new() }
    }

    fn note(mut self, what: &'static str, text: impl Into<String>) -> Self {
        self.annotations.insert(what, text.into());
        self
    }
}

pub fn audit_export(start: &Path, run_id: &str) -> Result<Statement, Failure> {
    let evidence = Evidence::of(start, run_id)?;
    if evidence.run.manifest != ManifestCheck::Agrees {
        // Without its steps nobody knows whether something was to be said of one.
        let message = format!("the manifest of {run_id} is gone, and with it what its steps said");
        return Err(Failure::refused("evidence_incomplete", message)
            .hint("runs are kept for a while only; `act verify` makes a new one"));
    }
    statement(&evidence).ok_or_else(|| {
        let message = format!("the log does not say which tree, gate and image {run_id} was about");
        Failure::refused("no_verdict", message).hint("`act audit explain` shows what it says")
    })
}

/// None where a digest is missing (pure).
fn statement(evidence: &Evidence) -> Option<Statement> {
    let run = &evidence.run;
    let mut tree = Resource::new("tree", run.tree_digest.as_deref()?).note("serialization", TREE);
    if let Some(commit) = &evidence.commit {
        // The tree may hold more than that commit.
        tree = tree.note("base_commit", commit);
    }
    let gate = Resource::new("agent.yaml", run.pipeline_sha256.as_deref()?);
    let image = evidence.image.as_deref().unwrap_or("container_image");
    let image = Resource::new(image, run.image_digest.as_deref()?);
    let components = run.components.iter().map(|component| {
        let of = Resource::new(&component.subject.name, &component.subject.sha256);
        let effective = component.effective_sha256.clone().unwrap_or_default();
        of.note("capabilities", component.capabilities.join("; "))
            .note("effective_sha256", effective)
    });
    let mut record = Resource::new("audit-record", run.finished_hash.as_deref()?)
        .note("run_id", &run.run_id)
        .note("seq", run.finished_seq.unwrap_or_default().to_string())
        .note("started_at", &run.started_at);
    if let Some(finished) = &run.finished_at {
        record = record.note("finished_at", finished);
    }
    let (mut passed, mut warned, mut failed) = (vec![], vec![], vec![]);
    let steps = evidence.steps.as_deref().unwrap_or_default();
    for (number, step) in (1..).zip(steps) {
        let into = match (evidence.passed || number < steps.len(), step.warned) {
            (false, _) => &mut failed,
            (true, true) => &mut warned,
            (true, false) => &mut passed,
        };
        into.push(step.name.clone());
    }
    let result = match (evidence.passed, warned.is_empty()) {
        (false, _) => Outcome::Failed,
        (true, false) => Outcome::Warned,
        (true, true) => Outcome::Passed,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::holds::<Statement>("audit-export");
    }
}
