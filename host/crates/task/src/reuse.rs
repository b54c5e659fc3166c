//! Finds the run that already says what a verification of the unchanged tree would say.
//!
//! The audit log decides: it holds the digests of the inputs of each cold run of the working tree, and a record that was
//! changed breaks its chain. The store and the manifest have to agree with it. A red run is not repeated to anyone but to
//! those who waited for it, because a person who verifies a red tree again expects another try.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::audit::Logbook;
use crate::audit::explain::{Evidence, Explanation, ManifestCheck, is};
use crate::queue::TaskContext;
use act_audit::{Decision, Entry, Event, Record};
use act_core::verification::{FailReason, Reused, Verdict, Verification, of_marks};
use act_core::{Failure, RunId};
use act_verifier::{DockerVerifier, Inputs};
use act_workspace::bare_digest;

/// Age in seconds after which a run is not the answer any more. Tests may depend on the day, and services and downloads
/// change.
const MAX_AGE: u64 = 24 * 60 * 60;
/// Lines and bytes of the log that the answer holds, as those of a run.
const TAIL_LINES: usize = 200;
const TAIL_BYTES: u64 = 64 * 1024;

/// Returns the newest run of this tree in this gate, if it passed, or if it is one of `joined`. Records that it is the answer.
/// Whatever speaks against the run only leads to a new one.
///
/// # Errors
///
/// The reuse cannot be recorded.
pub(super) async fn earlier_run(
    verifier: &DockerVerifier,
    context: &TaskContext,
    joined: &[String],
) -> Result<Option<Verification>, Failure> {
    let Ok(Some(inputs)) = verifier.inputs().await else { return Ok(None) };
    let (owned, context_of_search) = (verifier.clone(), context.clone());
    let (wanted, waited) = (inputs.clone(), joined.to_vec());
    let search = move || search(&owned, &context_of_search, &wanted, &waited);
    let Ok(Some(found)) = tokio::task::spawn_blocking(search).await else { return Ok(None) };
    // Files that changed while they were read could together have a digest that no tree ever had.
    if !matches!(verifier.inputs().await, Ok(Some(again)) if again == inputs)
        || verifier.repo.check_not_moved().is_err()
    {
        return Ok(None);
    }
    let Some(reused) = found.reused else { return Ok(None) };
    let run_id = found.run_id.as_ref().map(RunId::as_str).unwrap_or_default();
    let entry = Entry::new(Event::GateReused)
        .object(run_id)
        .reason(if reused.joined { "joined" } else { "unchanged" })
        .decision(if found.passed() { Decision::Allow } else { Decision::Deny })
        .digest("tree", Some(&inputs.tree))
        .digest("inputs", Some(&inputs.others))
        .count("age_s", reused.age_s);
    verifier.audit.append(entry)?;
    verifier.audit.settle()?;
    Ok(Some(found))
}

fn search(
    verifier: &DockerVerifier,
    context: &TaskContext,
    inputs: &Inputs,
    joined: &[String],
) -> Option<Verification> {
    let root = verifier.repo.path();
    let run_id = newest(&Logbook::open(root).ok()?, &context.repo, inputs)?;
    let evidence = Evidence::of(root, &run_id).ok()?;
    let joined = joined.contains(&run_id);
    if !evidence.passed && !joined || !is_sound(&evidence.run, verifier, context, inputs) {
        return None;
    }
    let age_s = age(evidence.run.finished_at.as_deref()?)?;
    let id = RunId::parse(&run_id).ok()?;
    let recorded = context.artifacts.read_manifest(&id).ok()??;
    // This is the file that was compared.
    if evidence.run.compare(&recorded) != ManifestCheck::Agrees {
        return None;
    }
    let manifest = recorded.manifest;
    let verdict = match (evidence.passed, manifest.reason) {
        (true, _) => Verdict::Pass,
        (false, reason) => Verdict::Fail(reason.unwrap_or(FailReason::StepFailed)),
    };
    let names: Vec<_> = manifest.commands_executed.iter().map(|step| step.name.as_str()).collect();
    let marks = evidence.run.warnings.clone().unwrap_or_default();
    let message = format!("a warning of {run_id}; `act verify --fresh` shows its whole message");
    let tail = context.artifacts.read_log(&run_id, None, TAIL_BYTES).ok()?.text;
    Some(Verification {
        verdict,
        tail: Some(last_lines(&tail).to_owned()),
        artifact_paths: context.artifacts.paths_of(&id).unwrap_or_default(),
        warnings: of_marks(&marks, &names, &message),
        run_id: Some(id),
        manifest: Some(manifest),
        reused: Some(Reused { age_s, joined }),
    })
}

/// Returns the id of the newest run with a verdict about these inputs.
fn newest(book: &Logbook, repo: &str, inputs: &Inputs) -> Option<String> {
    let mut found = None;
    let is_wanted = |digests: &BTreeMap<String, String>| {
        digests.get("tree") == Some(&inputs.tree) && digests.get("inputs") == Some(&inputs.others)
    };
    book.each(|record: Record| {
        let here = record.repo.as_ref().is_some_and(|of| of.identity == repo);
        if here
            && is(&record, Event::GateFinished)
            && record.decision.is_some()
            && is_wanted(&record.digests)
        {
            found = record.object;
        }
        true
    })
    .ok()?;
    found
}

/// Returns whether log, store and manifest agree that the run was a cold one of this very tree.
fn is_sound(
    run: &Explanation,
    verifier: &DockerVerifier,
    context: &TaskContext,
    inputs: &Inputs,
) -> bool {
    let tree = Some(inputs.tree.as_str());
    let image_id = run.image_id.as_deref().map(bare_digest);
    let stored = match context.store.run(&run.run_id) {
        Ok(Some(stored)) => stored,
        _ => return false,
    };
    run.manifest == ManifestCheck::Agrees
        && run.base.is_none()
        && run.compares.is_none()
        && run.tree_digest.as_deref() == tree
        && run.tree_digest_after.as_deref() == tree
        && run.pipeline_sha256.as_ref() == Some(&verifier.config.sha256)
        && image_id == Some(bare_digest(&verifier.image.id))
        && stored.repo == context.repo
        && stored.end_hash.is_some()
        && stored.end_hash == run.finished_hash
}

/// Returns the seconds since the end of a run, or `None` if it is too old or ended in the future of this clock.
fn age(finished_at: &str) -> Option<u64> {
    let finished: DateTime<Utc> = finished_at.parse().ok()?;
    let age = (act_core::clock::now() - finished).num_milliseconds();
    u64::try_from(age).ok().map(|age| age / 1000).filter(|age| *age <= MAX_AGE)
}

fn last_lines(text: &str) -> &str {
    let lines = text.rmatch_indices('\n').map(|(at, _)| at).filter(|at| at + 1 < text.len());
    match lines.take(TAIL_LINES).last() {
        Some(at) if text.lines().count() > TAIL_LINES => text.get(at + 1..).unwrap_or(text),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_no_answer_when_it_is_a_day_old_or_the_clock_was_set_back() {
        let ago = |seconds| {
            let then = act_core::clock::now() - chrono::Duration::seconds(seconds);
            age(&act_core::clock::milliseconds(then))
        };
        assert!(ago(5).is_some_and(|age| (5..9).contains(&age)));
        assert!(ago(60 * 60 * 23).is_some());
        assert_eq!(ago(60 * 60 * 25), None);
        assert_eq!(ago(-60), None);
        assert_eq!(age("yesterday"), None);
    }

    #[test]
    fn the_end_of_the_log_has_as_many_lines_as_that_of_a_run() {
        assert_eq!(last_lines("a\nb\n"), "a\nb\n");
        let many: String = (0..300).map(|number| format!("{number}\n")).collect();
        assert_eq!(last_lines(&many).lines().count(), TAIL_LINES);
        assert!(last_lines(&many).starts_with("100\n") && last_lines(&many).ends_with("299\n"));
    }
}
