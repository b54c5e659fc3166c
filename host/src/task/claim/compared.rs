//! Two runs side by side (pure): what each said, and where they differ.

use serde::Serialize;

use crate::task::audit::evidence::{Evidence, StepClaim};
use act_core::verification::{Verdict, Verification, lessens, marks};
use act_workspace::bare_digest;

/// What came of it; `act verify-claim --json` prints it as it is.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClaimCheck {
    /// The run whose word was doubted.
    pub run_id: String,
    /// Both runs say the same of the same things. Never when the second one has no verdict.
    pub holds: bool,
    pub claimed: Said,
    pub found: Said,
    /// Empty when it holds, and when the second one has no verdict.
    pub differences: Vec<Difference>,
    /// What is no difference and worth knowing.
    pub notes: Vec<Note>,
    /// Of the second run, as `act verify --json` answers it.
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    pub response: Verification,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ClaimSaid"))]
pub struct Said {
    pub run_id: Option<String>,
    /// `PASS`, `FAIL` or, of the second one, `INFRA_ERROR`.
    pub status: String,
    /// Of a failure.
    pub reason: Option<String>,
    /// Codes of warnings that take something from the verdict, each with the numbers of its steps; null where the log
    /// does not hold them.
    pub warnings: Option<Vec<String>>,
    pub pipeline_sha256: Option<String>,
    pub image_digest: Option<String>,
    pub tree_digest: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ClaimDifference"))]
pub struct Difference {
    /// A field of the manifest, or `warnings`.
    pub field: String,
    pub claimed: Option<String>,
    pub found: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ClaimNote"))]
pub struct Note {
    /// A stable word.
    pub code: String,
    pub message: String,
}

impl Note {
    pub(super) fn new(code: &str, message: String) -> Self {
        Self { code: code.to_owned(), message }
    }
}

impl ClaimCheck {
    pub(super) fn of(evidence: &Evidence, notes: Vec<Note>, response: Verification) -> Self {
        Self {
            run_id: evidence.run.run_id.clone(),
            holds: holds(evidence, &response) == Some(true),
            claimed: claimed(evidence),
            found: found(&response),
            differences: compared(evidence, &response).unwrap_or_default(),
            notes,
            response,
        }
    }
}

/// None where the second run has no verdict.
pub(super) fn holds(evidence: &Evidence, response: &Verification) -> Option<bool> {
    compared(evidence, response).map(|differences| differences.is_empty())
}

fn compared(evidence: &Evidence, response: &Verification) -> Option<Vec<Difference>> {
    if let Verdict::Infra(_) = response.verdict {
        return None;
    }
    let (claimed, found) = (claimed(evidence), found(response));
    let again: Vec<_> = response.steps().iter().map(StepClaim::of).collect();
    Some(differences((&claimed, evidence.steps.as_deref()), (&found, &again)))
}

fn claimed(evidence: &Evidence) -> Said {
    let (run, passed) = (&evidence.run, evidence.passed);
    Said {
        run_id: Some(run.run_id.clone()),
        status: if passed { "PASS" } else { "FAIL" }.to_owned(),
        reason: run.outcome.clone().filter(|_| !passed),
        warnings: evidence.warnings(),
        pipeline_sha256: run.pipeline_sha256.clone(),
        image_digest: run.image_digest.clone(),
        tree_digest: run.tree_digest.clone(),
    }
}

fn found(response: &Verification) -> Said {
    let manifest = response.manifest.as_ref();
    let names: Vec<_> = response.steps().iter().map(|step| step.name.as_str()).collect();
    let warnings = marks(&response.warnings, &names).into_iter();
    Said {
        run_id: response.run_id.as_ref().map(ToString::to_string),
        status: response.verdict.status().as_str().to_owned(),
        reason: response.verdict.fail_reason().map(|reason| reason.as_str().to_owned()),
        warnings: Some(warnings.filter(|mark| lessens(mark).is_some()).collect()),
        pipeline_sha256: manifest.map(|manifest| manifest.pipeline_sha256.clone()),
        image_digest: manifest
            .map(|manifest| format!("sha256:{}", bare_digest(&manifest.image_digest))),
        tree_digest: response.tree_digest().map(str::to_owned),
    }
}

/// Verdict, digests, warnings, and of each step its exit code, time and network. How long anything took is no part
/// of a claim, and what the first run does not tell is not compared.
fn differences(
    (claimed, claimed_steps): (&Said, Option<&[StepClaim]>),
    (found, found_steps): (&Said, &[StepClaim]),
) -> Vec<Difference> {
    let mut all = vec![];
    let mut compare = |field: String, claimed: Option<String>, found: Option<String>| {
        if claimed != found {
            all.push(Difference { field, claimed, found });
        }
    };
    compare("status".into(), Some(claimed.status.clone()), Some(found.status.clone()));
    compare("reason".into(), claimed.reason.clone(), found.reason.clone());
    for (name, one, other) in [
        ("pipeline_sha256", &claimed.pipeline_sha256, &found.pipeline_sha256),
        ("image_digest", &claimed.image_digest, &found.image_digest),
        ("tree_digest", &claimed.tree_digest, &found.tree_digest),
    ] {
        compare(name.to_owned(), one.clone(), other.clone());
    }
    if claimed.warnings.is_some() {
        let listed = |said: &Said| {
            said.warnings.as_ref().map(|all| all.join("; ")).filter(|text| !text.is_empty())
        };
        compare("warnings".to_owned(), listed(claimed), listed(found));
    }
    let claimed_steps = claimed_steps.unwrap_or(found_steps);
    for at in 0..claimed_steps.len().max(found_steps.len()) {
        let said = |steps: &[StepClaim]| steps.get(at).map(said);
        compare(format!("commands_executed[{at}]"), said(claimed_steps), said(found_steps));
    }
    all
}

fn said(step: &StepClaim) -> String {
    let end = match (step.timed_out, step.exit_code) {
        (true, _) => "timed out".to_owned(),
        (false, Some(code)) => format!("exit code {code}"),
        (false, None) => "no exit code".to_owned(),
    };
    let warned = if step.warned { ", with a warning" } else { "" };
    format!("{}: {end}, network {}{warned}", step.name, step.network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    fn run(status: &str) -> Said {
        Said {
            run_id: None,
            status: status.to_owned(),
            reason: None,
            warnings: Some(vec![]),
            pipeline_sha256: Some("p".into()),
            image_digest: Some("sha256:i".into()),
            tree_digest: Some("t".into()),
        }
    }

    fn step(exit_code: i64) -> StepClaim {
        StepClaim {
            name: "test".into(),
            exit_code: Some(exit_code),
            timed_out: false,
            network: "on".into(),
            warned: false,
        }
    }

    // AUDIT-25
    #[test]
    fn a_claim_holds_when_verdict_digests_and_steps_are_the_same() {
        let pass = run("PASS");
        let green = [step(0)];
        assert_eq!(differences((&pass, Some(&green)), (&pass, &green)), []);
        // Without the steps of the first run there is nothing to compare them with.
        assert_eq!(differences((&pass, None), (&pass, &green)), []);
        let fields = |said: &Said, steps: &[StepClaim]| {
            let all = differences((&pass, Some(&green)), (said, steps));
            all.into_iter().map(|one| one.field).collect::<Vec<_>>()
        };
        assert_eq!(fields(&run("FAIL"), &[step(1)]), ["status", "commands_executed[0]"]);
        assert_eq!(fields(&pass, &[step(0), step(0)]), ["commands_executed[1]"]);
        let offline = StepClaim { network: "off".into(), ..step(0) };
        assert_eq!(fields(&pass, &[offline]), ["commands_executed[0]"]);
        let elsewhere = Said { tree_digest: Some("u".into()), ..run("PASS") };
        assert_eq!(fields(&elsewhere, &green), ["tree_digest"]);
        let doubted = Said { warnings: Some(vec!["no_tests_ran 1".into()]), ..run("PASS") };
        assert_eq!(fields(&doubted, &green), ["warnings"]);
        let older = Said { warnings: None, ..run("PASS") };
        assert_eq!(differences((&older, Some(&green)), (&doubted, &green)), []);
    }

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::holds::<ClaimCheck>("verify-claim");
    }
}
