//! `act verify-claim`: what a run said, said again by a run of the same gate over the same tree in the same image.

use std::path::Path;

use serde::Serialize;

use super::audit::evidence::{Evidence, StepClaim, steps};
use super::verify::run_gate;
use crate::audit::{Audit, AuditError, Decision, Entry, Event};
use crate::config::Config;
use crate::output::{Failure, Output};
use crate::verifier::{ResolvedImage, Status, VerifyResponse};
use crate::workspace::{PathGlobs, tree_digest};

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
    /// Empty when it holds.
    pub differences: Vec<Difference>,
    /// Of the second run, as `act verify --json` answers it.
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    pub response: VerifyResponse,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Said {
    pub run_id: Option<String>,
    /// `PASS`, `FAIL` or, of the second one, `INFRA_ERROR`.
    pub status: String,
    /// Of a failure.
    pub reason: Option<String>,
    pub pipeline_sha256: Option<String>,
    pub image_digest: Option<String>,
    pub tree_digest: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference {
    /// A field of the manifest.
    pub field: String,
    pub claimed: Option<String>,
    pub found: Option<String>,
}

/// None when cancelled. Refused, before anything runs, where gate, tree or image are not what they were.
pub async fn verify_claim(
    repo: &Path,
    run_id: &str,
    output: &Output,
) -> Result<Option<ClaimCheck>, Failure> {
    let claim = Claim { evidence: Evidence::of(repo, run_id)? };
    let response = run_gate(repo, Some(&claim), output).await?;
    Ok(response.map(|response| claim.check(response)))
}

pub(super) struct Claim {
    evidence: Evidence,
}

fn changed(code: &'static str, what: &str, was: Option<&str>, is: &str) -> Failure {
    let was = was.unwrap_or("unknown");
    let message = format!("{what} is not the one of the claim: it was {was}, it is {is}");
    Failure::refused(code, message)
}

impl Claim {
    /// Whether gate and tree are what they were; reads the whole tree.
    pub(super) async fn is_about(&self, config: &Config) -> Result<(), Failure> {
        let run = &self.evidence.run;
        if run.pipeline_sha256.as_deref() != Some(config.sha256.as_str()) {
            let was = run.pipeline_sha256.as_deref();
            return Err(changed("claim_gate_changed", "agent.yaml", was, &config.sha256)
                .hint("put back the agent.yaml of that run"));
        }
        let (root, include) = (config.root.clone(), config.pipeline.include.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let include = PathGlobs::new(&include).map_err(|error| error.to_string())?;
            tree_digest(&root, &include).map_err(|error| error.to_string())
        });
        let digest = reading.await.unwrap_or_else(|stopped| Err(stopped.to_string()));
        let digest = digest.map_err(|why| {
            Failure::refused("repository_unusable", format!("the tree cannot be read: {why}"))
        })?;
        if run.tree_digest.as_deref() == Some(digest.as_str()) {
            return Ok(());
        }
        let base = self.evidence.commit.as_deref();
        let base = base.map_or_else(String::new, |commit| format!(", above commit {commit}"));
        Err(changed("claim_tree_changed", "the tree", run.tree_digest.as_deref(), &digest)
            .hint(format!("bring back the files of that run{base}; ignored files do not count")))
    }

    pub(super) fn is_in(&self, image: &ResolvedImage) -> Result<(), Failure> {
        let was = self.evidence.run.image_digest.as_deref();
        if was == Some(prefixed(&image.digest).as_str()) {
            return Ok(());
        }
        let what = format!("image {}", image.reference);
        Err(changed("claim_image_changed", &what, was, &image.digest)
            .hint("have the engine name that image so again; NAME@sha256:DIGEST never moves"))
    }

    /// On the disk when this returns.
    pub(super) fn record(
        &self,
        audit: &Audit,
        response: &VerifyResponse,
    ) -> Result<(), AuditError> {
        let differences = self.differences(response);
        let (decision, word) = match (response.status, differences.is_empty()) {
            (Status::InfraError, _) => (None, "no_verdict"),
            (_, true) => (Some(Decision::Allow), "holds"),
            (_, false) => (Some(Decision::Deny), "differs"),
        };
        let entry = Entry::new(Event::ClaimChecked)
            .object(&self.evidence.run.run_id)
            .reason(word)
            .names(response.run_id.clone());
        audit.append(decision.map_or(entry.clone(), |decision| entry.decision(decision)))?;
        audit.settle()
    }

    fn check(&self, response: VerifyResponse) -> ClaimCheck {
        let differences = self.differences(&response);
        ClaimCheck {
            run_id: self.evidence.run.run_id.clone(),
            holds: differences.is_empty() && response.status != Status::InfraError,
            claimed: self.claimed(),
            found: found(&response),
            differences,
            response,
        }
    }

    fn claimed(&self) -> Said {
        let run = &self.evidence.run;
        let passed = self.evidence.passed;
        Said {
            run_id: Some(run.run_id.clone()),
            status: if passed { "PASS" } else { "FAIL" }.to_owned(),
            reason: run.outcome.clone().filter(|_| !passed),
            pipeline_sha256: run.pipeline_sha256.clone(),
            image_digest: run.image_digest.clone(),
            tree_digest: run.tree_digest.clone(),
        }
    }

    fn differences(&self, response: &VerifyResponse) -> Vec<Difference> {
        let (claimed, found) = (self.claimed(), found(response));
        let again = response.manifest.as_ref().map(steps).unwrap_or_default();
        differences((&claimed, self.evidence.steps.as_deref()), (&found, &again))
    }
}

fn prefixed(digest: &str) -> String {
    format!("sha256:{}", digest.strip_prefix("sha256:").unwrap_or(digest))
}

fn found(response: &VerifyResponse) -> Said {
    let text = |name: &str| response.manifest.as_ref()?.get(name)?.as_str().map(str::to_owned);
    Said {
        run_id: response.run_id.clone(),
        status: response.status.as_str().to_owned(),
        reason: response.reason.map(|reason| reason.as_str().to_owned()),
        pipeline_sha256: text("pipeline_sha256"),
        image_digest: text("image_digest").as_deref().map(prefixed),
        tree_digest: text("tree_digest"),
    }
}

/// Verdict, digests, and of each step its exit code, time and network (pure). How long anything took is no part of
/// a claim.
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
    use crate::event::schema;

    fn run(status: &str) -> Said {
        Said {
            run_id: None,
            status: status.to_owned(),
            reason: None,
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
    }

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::holds::<ClaimCheck>("verify-claim");
    }
}
