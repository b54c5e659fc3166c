//! `act audit explain`: the inputs of a verification, and whether its evidence is complete.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::audit::Logbook;
use crate::audit::verify::verify_but;
use crate::prepare;
use act_audit::{CheckpointStore, Decision, Event, Record, Subject, cure};
use act_core::verification::{CommandExecuted, DEV_COMPONENT, Status, lessens};
use act_core::{Document, Failure, Repo, RunId};
use act_records::artifacts::{ArtifactDir, RecordedManifest};
use act_records::store::Store;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Explanation {
    pub run_id: String,
    /// Why the audit log is not as it was written, so that nothing here may be true; null when it is.
    pub log_damaged: Option<String>,
    /// `pass`, the reason of a failure, the type of an error of the machine, or `cancelled`; null while the run lasts, and
    /// when its process died.
    pub outcome: Option<String>,
    /// The task of the run; null for a run of `act verify`.
    pub task_id: Option<String>,
    /// The repository, with its commit when the run began; `tree_digest` says what was verified.
    pub repo: Option<Repo>,
    /// Identity of the worktree of that repository which the run tested; omitted for a run of the repository itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_identity: Option<String>,
    pub started_at: String,
    pub finished_at: Option<String>,
    /// Number of the attempt in its task.
    pub attempt: u64,
    /// Digest of the `agent.yaml` whose pipeline was run.
    pub pipeline_sha256: Option<String>,
    pub image_digest: Option<String>,
    /// The engine's id of the image. Null if an earlier version of act wrote the log, like `manifest_sha256` and `warnings`.
    pub image_id: Option<String>,
    /// The container engine: name, version, id and name in `engines.toml`, as far as it has them. Null if an earlier version of
    /// act wrote the log.
    pub engine: Option<String>,
    /// SHA-256 of the manifest without `audit_head`.
    pub manifest_sha256: Option<String>,
    /// Codes of warnings, each with the numbers of its steps, or alone when the warning is about the whole run.
    pub warnings: Option<Vec<String>>,
    /// Key of the warm base that the run began with; null for a cold run.
    pub base: Option<String>,
    /// `red_first` or `old_tests` for a run that compared tests. It judged another tree than the working tree, so it proves
    /// nothing about that; null otherwise.
    pub compares: Option<String>,
    /// Digest of the tree before the steps; the next field is the digest after them.
    pub tree_digest: Option<String>,
    pub tree_digest_after: Option<String>,
    /// SHA-256 of the JSON of the steps in the manifest.
    pub steps_sha256: Option<String>,
    /// SHA-256 of the container that was requested; the next field is that of the container as the engine reports it.
    pub container_request_sha256: Option<String>,
    pub container_inspect_sha256: Option<String>,
    /// The settings that isolated the container from the machine, as the engine reports them.
    pub container: Vec<String>,
    pub components: Vec<ComponentInRun>,
    /// Name and digest of each component that `act components watch --dev` let in, whose bytes nobody approved one by one.
    /// Absent where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dev_components: Vec<String>,
    /// Files that the task had changed and that can change how the pipeline judges.
    pub gate_inputs_changed: Vec<GateInputOfRun>,
    /// What the tests of the task prove, if this run ended it: `red_first RESULT`, `old_tests RESULT`, the reason of another
    /// red, and the runs that compared.
    pub evidence: Vec<String>,
    /// SHA-256 of the JSON of `evidence` in the manifest.
    pub evidence_sha256: Option<String>,
    /// Number of edits of the task up to the end of this run.
    pub edits: u64,
    pub edits_refused: u64,
    pub denials: u64,
    pub manifest: ManifestCheck,
    /// Logs of which only the end could be compared, because the rest was removed with the run, with how many bytes of how many.
    pub logs_cut: Vec<String>,
    /// Why the recorded end is not trusted although the chain is intact: the store has no such end of the run. Null when
    /// the store agrees, and before the end.
    pub disputed: Option<String>,
    /// Numbers of the records of its start and its end.
    pub started_seq: u64,
    pub finished_seq: Option<u64>,
    /// Hash of the record of its end.
    pub finished_hash: Option<String>,
}

impl Document for Explanation {
    const NAME: &'static str = "audit-explain";
}

/// A component of the task, up to the end of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ComponentInRun {
    #[serde(flatten)]
    pub subject: Subject,
    pub capabilities: Vec<String>,
    pub effective_sha256: Option<String>,
    pub queries: u64,
    /// The resources that its queries used together: files, bytes, model calls, tokens, edits, denials.
    pub used: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct GateInputOfRun {
    pub path: String,
    /// Why the file counts, as a stable word.
    pub why: String,
    /// Null when there was no file. The same holds for `sha256_after`.
    pub sha256_before: Option<String>,
    pub sha256_after: Option<String>,
}

/// The result of comparing the log with the manifest of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case", tag = "state", content = "fields")]
pub enum ManifestCheck {
    Agrees,
    /// The manifest differs from the log in these fields, or these logs differ from the manifest.
    Differs(Vec<String>),
    /// The run has not ended, or its directory was removed.
    Gone,
}

/// Returns the inputs and the result of a run, from the audit log.
///
/// # Errors
///
/// The log does not know the run, or the log or the store cannot be read.
pub fn audit_explain(start: &Path, run_id: &str) -> Result<Explanation, Failure> {
    let bad = verify_but(start, Some(run_id), None).map(|log| log.bad);
    let damage = match bad {
        Ok(None) => None,
        Ok(Some(bad)) => Some(format!("record {} was changed or is missing: {}", bad.seq, bad.why)),
        Err(error) => Some(error.message),
    };
    match (explained(start, run_id), damage) {
        (Ok(found), log_damaged) => Ok(Explanation { log_damaged, ..found }),
        (Err(failure), None) => Err(failure),
        (Err(failure), Some(damage)) => {
            let message = format!("the audit log is damaged ({damage}); {}", failure.message);
            Err(Failure { message, ..failure })
        }
    }
}

/// Explains a run from a log that is not verified.
fn explained(start: &Path, run_id: &str) -> Result<Explanation, Failure> {
    explained_in(&Logbook::open(start)?, run_id)
}

/// Explains a run from a log that is open and not verified.
pub(crate) fn explained_in(book: &Logbook, run_id: &str) -> Result<Explanation, Failure> {
    let run = RunId::parse(run_id).map_err(|error| {
        Failure::refused("run_id_invalid", error.to_string()).hint("`act history` lists runs")
    })?;
    let mut of_run = vec![];
    book.each(|record| {
        let about = is(&record, Event::GateStarted) || is(&record, Event::GateFinished);
        if about && record.object.as_deref() == Some(run_id) {
            of_run.push(record);
        }
        of_run.len() < MOST_OF_RUN
    })?;
    let Some(mut found) = Explanation::of(run_id, &of_run) else {
        return Err(Failure::refused(
            "run_unknown",
            format!("the audit log has no record of {run_id}"),
        )
        .hint("`act audit list` shows the last records; `act history` lists runs"));
    };
    let until = found.finished_seq.unwrap_or(u64::MAX);
    let mut components = BTreeMap::new();
    book.each(|record| {
        found.take(&mut components, &record, until);
        true
    })?;
    found.components = components.into_values().collect();
    let store = prepare::store(&book.artifacts)?;
    if let Some(repo) = &mut found.repo {
        repo.path = repo.identity.as_deref().map_or(Ok(None), |of| store.last_root(of))?;
    }
    found.disputed = found.dispute(&store)?;
    found.compare_all(&book.artifacts, &run);
    Ok(found)
}

/// The fields in which a manifest differs that cannot be read.
const UNREADABLE: &str = "all fields, because it cannot be read";

/// Number of records about a run itself: its start and its end.
const MOST_OF_RUN: usize = 2;

pub(crate) fn is(record: &Record, event: Event) -> bool {
    record.event == event.as_str()
}

/// Returns the verdict that the record of a run's end states, or `None` where the run had none.
pub(super) fn verdict_of(outcome: Option<&str>) -> Option<Status> {
    match outcome? {
        "pass" => Some(Status::Pass),
        "fail" | "step_failed" | "timeout" | "source_writes" | "tree_changed" => Some(Status::Fail),
        _ => None,
    }
}

impl Explanation {
    /// Reads the explanation from the records about the run itself.
    fn of(run_id: &str, records: &[Record]) -> Option<Self> {
        let started = records.iter().find(|record| is(record, Event::GateStarted))?;
        let ended = records.iter().find(|record| is(record, Event::GateFinished));
        let digest = |name: &str| ended.or(Some(started))?.digests.get(name).cloned();
        Some(Self {
            run_id: run_id.to_owned(),
            log_damaged: None,
            outcome: ended.and_then(|ended| ended.reason.clone()),
            task_id: started.task.clone(),
            repo: started.repo.clone().map(|of| Repo {
                path: None,
                identity: Some(of.home().to_owned()),
                head: of.head,
                dirty: None,
            }),
            worktree_identity: started
                .repo
                .as_ref()
                .and_then(|of| of.worktree_of.is_some().then(|| of.identity.clone())),
            started_at: started.time.clone(),
            finished_at: ended.map(|ended| ended.time.clone()),
            attempt: started.counts.get("attempt").copied().unwrap_or_default(),
            pipeline_sha256: digest("pipeline"),
            image_digest: digest("image").map(|image| format!("sha256:{image}")),
            image_id: digest("image_id").map(|image| format!("sha256:{image}")),
            // The names of components hold no `=`.
            engine: started
                .names
                .iter()
                .find_map(|name| name.strip_prefix("engine="))
                .map(str::to_owned),
            manifest_sha256: digest("manifest"),
            warnings: ended
                .filter(|ended| ended.counts.contains_key("warnings"))
                .map(|ended| ended.names.clone()),
            base: digest("base"),
            compares: started.reason.clone(),
            tree_digest: digest("tree"),
            tree_digest_after: digest("tree_after"),
            steps_sha256: digest("steps"),
            container_request_sha256: None,
            container_inspect_sha256: None,
            container: vec![],
            components: vec![],
            dev_components: started
                .names
                .iter()
                .filter_map(|name| name.strip_prefix(DEV_COMPONENT))
                .map(str::to_owned)
                .collect(),
            gate_inputs_changed: vec![],
            evidence: vec![],
            evidence_sha256: None,
            edits: 0,
            edits_refused: 0,
            denials: 0,
            manifest: ManifestCheck::Gone,
            logs_cut: vec![],
            disputed: None,
            started_seq: started.seq,
            finished_seq: ended.map(|ended| ended.seq),
            finished_hash: ended.map(|ended| ended.hash.clone()),
        })
    }

    /// Returns whether the run passed, or `None` without a verdict.
    pub(super) fn verdict(&self) -> Option<bool> {
        Some(verdict_of(self.outcome.as_deref())? == Status::Pass)
    }

    fn status(&self) -> Status {
        verdict_of(self.outcome.as_deref()).unwrap_or(Status::InfraError)
    }

    /// Returns why the end of the run is not trusted. A program that knows the format can append to the log, but the store
    /// was updated by the process that made the run.
    fn dispute(&self, store: &Store) -> Result<Option<String>, Failure> {
        let Some(end) = self.finished_seq.filter(|_| self.verdict().is_some()) else {
            return Ok(None);
        };
        let kept = store.head()?;
        let edge = kept.map_or(0, |head| head.seq);
        let why = match store.run(&self.run_id)? {
            _ if edge < end => format!(
                "the record of its end, {end}, comes after record {edge}, the last one that the store knows"
            ),
            // The store lists runs of the working tree alone.
            None if self.compares.is_some() => return Ok(None),
            None => "the store has no such run".to_owned(),
            Some(known) if known.status.as_deref() != Some(self.status().as_str()) => format!(
                "it ended as {} in the log and as {} in the store",
                self.status().as_str(),
                known.status.as_deref().unwrap_or("nothing")
            ),
            Some(known) if known.task_id != self.task_id => {
                "the store has it as a run of another task".to_owned()
            }
            Some(known) if known.end_hash.is_some() && known.end_hash != self.finished_hash => {
                "the store has another record as its end".to_owned()
            }
            Some(_) => return Ok(None),
        };
        Ok(Some(why))
    }

    /// Adds one record of the log, about this run or its task. `until` is the last record of the run.
    fn take(
        &mut self,
        components: &mut BTreeMap<Subject, ComponentInRun>,
        record: &Record,
        until: u64,
    ) {
        let digest = |name: &str| record.digests.get(name).cloned();
        let container = format!("act-{}", self.run_id);
        if record.object.as_deref() == Some(container.as_str()) {
            if is(record, Event::ContainerRequested) {
                self.container_request_sha256 = digest("request");
            } else if is(record, Event::ContainerInspected) {
                self.container_inspect_sha256 = digest("inspect");
                self.container.clone_from(&record.names);
            }
        }
        // This record is written when the run has ended, so it is after the last one.
        if is(record, Event::GateInputChanged) && record.names.contains(&self.run_id) {
            self.gate_inputs_changed.push(GateInputOfRun {
                path: record.object.clone().unwrap_or_default(),
                why: record.reason.clone().unwrap_or_default(),
                sha256_before: digest("before"),
                sha256_after: digest("after"),
            });
        }
        if is(record, Event::TestsCompared)
            && record.task == self.task_id
            && record.object.as_deref() == Some(&self.run_id)
        {
            let result = record.reason.as_deref().unwrap_or_default();
            self.evidence = vec![format!("red_first {result}")];
            self.evidence.extend(record.names.iter().cloned());
            self.evidence_sha256 = digest("evidence");
        }
        if self.task_id.is_none() || record.task != self.task_id || record.seq > until {
            return;
        }
        self.edits += u64::from(is(record, Event::Edit));
        self.edits_refused += u64::from(is(record, Event::EditRefused));
        let denied = matches!(record.decision, Some(Decision::Deny | Decision::Limit));
        self.denials += u64::from(is(record, Event::Denied) && denied);
        let Some(subject) = &record.subject else { return };
        if is(record, Event::ComponentLoaded) {
            components.entry(subject.clone()).or_insert_with(|| ComponentInRun {
                subject: subject.clone(),
                capabilities: record.names.clone(),
                effective_sha256: record.effective_sha256.clone(),
                queries: 0,
                used: BTreeMap::new(),
            });
        } else if let Some(known) = components.get_mut(subject).filter(|_| is(record, Event::Query))
        {
            known.queries += 1;
            for (what, count) in &record.counts {
                let sum = known.used.entry(what.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
    }

    /// Compares the log with the manifests and logs in the directory of the run and in its proof.
    fn compare_all(&mut self, artifacts: &ArtifactDir, run: &RunId) {
        self.manifest = ManifestCheck::Differs(vec![UNREADABLE.to_owned()]);
        let Ok(places) = artifacts.places(run) else { return };
        let mut found = ManifestCheck::Gone;
        for place in places {
            let recorded = match place.manifest() {
                Ok(Some(recorded)) => recorded,
                Ok(None) => continue,
                Err(_) => return,
            };
            if found == ManifestCheck::Gone {
                // The directory of the run is first, and has the whole logs.
                self.logs_cut = place.cut_logs(&recorded.manifest);
            }
            found = self.compare(&recorded);
            if found == ManifestCheck::Agrees {
                let logs = place.changed_logs(&recorded.manifest);
                if !logs.is_empty() {
                    found = ManifestCheck::Differs(logs);
                }
            }
            if found != ManifestCheck::Agrees {
                break;
            }
        }
        self.manifest = found;
    }

    /// Compares the fields of the log with those of the manifest.
    pub(crate) fn compare(&self, recorded: &RecordedManifest) -> ManifestCheck {
        let manifest = &recorded.manifest;
        let fields = [
            ("status", manifest.status == self.status()),
            ("task_id", manifest.task_id == self.task_id),
            ("tree_digest", manifest.tree_digest == self.tree_digest),
            ("tree_digest_after", manifest.tree_digest_after == self.tree_digest_after),
            ("pipeline_sha256", self.pipeline_sha256.as_ref() == Some(&manifest.pipeline_sha256)),
            ("image_digest", self.image_digest.as_ref() == Some(&manifest.image_digest)),
            ("audit_head", manifest.audit_head == self.finished_hash),
            (
                "commands_executed",
                self.steps_sha256.as_ref().is_none_or(|steps| *steps == recorded.steps_sha256),
            ),
            (
                "evidence",
                recorded.evidence_sha256.is_none()
                    || recorded.evidence_sha256 == self.evidence_sha256,
            ),
        ];
        let differ = fields.into_iter().filter(|(_, agrees)| !agrees);
        let mut differ: Vec<_> = differ.map(|(name, _)| name.to_owned()).collect();
        let whole = self.manifest_sha256.as_ref();
        if differ.is_empty() && whole.is_some_and(|whole| *whole != recorded.sha256) {
            // The log holds only one digest for the other fields.
            differ.push("other fields".to_owned());
        }
        if differ.is_empty() { ManifestCheck::Agrees } else { ManifestCheck::Differs(differ) }
    }
}

/// The evidence of a run with a verdict, from a log that is as it was written.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    pub(crate) run: Explanation,
    pub(crate) passed: bool,
    /// The steps; `None` if the manifest is gone, or if the log is so old that it does not hold their digest.
    pub(crate) steps: Option<Vec<StepClaim>>,
    /// The name of the image in the pipeline; `None` if the log does not cover it.
    pub(crate) image: Option<String>,
    /// The name of the tree in git; `None` if the manifest has none, or if the log does not cover it.
    pub(crate) git_tree: Option<String>,
}

/// The recorded result of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepClaim {
    pub(crate) name: String,
    pub(crate) exit_code: Option<i64>,
    pub(crate) timed_out: bool,
    pub(crate) network: String,
    /// The step passed with a warning: a kill for memory, or writes to the source.
    pub(crate) warned: bool,
}

impl StepClaim {
    pub(crate) fn of(step: &CommandExecuted) -> Self {
        Self {
            name: step.name.clone(),
            exit_code: step.exit_code,
            timed_out: step.timed_out,
            network: step.network.clone(),
            warned: step.oom || !step.source_writes.is_empty(),
        }
    }
}

impl Evidence {
    pub(crate) fn of(start: &Path, run_id: &str) -> Result<Self, Failure> {
        let log = verify_but(start, Some(run_id), None)?;
        if let Some(bad) = log.bad {
            // A run that is unknown is refused as such also where the log was changed.
            explained(start, run_id)?;
            let message = format!(
                "the log was changed, so it proves nothing: record {}: {}",
                bad.seq, bad.why
            );
            return Err(disputed(message).hint("`act audit verify` shows what is wrong"));
        }
        Self::unverified(start, run_id)
    }

    /// Reads the evidence from a log whose chain is not checked.
    ///
    /// # Errors
    ///
    /// The errors of [`Evidence::of`], but for a log that was changed.
    pub(crate) fn unverified(start: &Path, run_id: &str) -> Result<Self, Failure> {
        let run = explained(start, run_id)?;
        if let Some(why) = &run.disputed {
            let message = format!("act did not write what the log holds about {run_id}: {why}");
            return Err(disputed(message).hint(
                "run `act verify` and use the run that it prints; `act audit list` shows the log",
            ));
        }
        if let ManifestCheck::Differs(fields) = &run.manifest {
            return Err(differs(run_id, fields));
        }
        if let Some(purpose) = &run.compares {
            let message = format!(
                "{run_id} compared tests ({purpose}) on another tree than the working tree, so it is no verdict about that"
            );
            return Err(Failure::refused("no_verdict", message)
                .hint("use the run that ended the task; `act history` lists it"));
        }
        let Some(passed) = run.verdict() else {
            let outcome = run.outcome.as_deref().unwrap_or("no end");
            let message = format!("{run_id} has no verdict: {outcome}");
            return Err(Failure::refused("no_verdict", message)
                .hint("run `act verify` and use the run that it prints"));
        };
        let mut evidence = Self { passed, run, steps: None, image: None, git_tree: None };
        if evidence.run.manifest == ManifestCheck::Agrees {
            evidence.take_manifest(start, run_id)?;
        }
        Ok(evidence)
    }

    /// Reads the manifest again, and therefore compares it again.
    fn take_manifest(&mut self, start: &Path, run_id: &str) -> Result<(), Failure> {
        let id = RunId::parse(run_id)
            .map_err(|error| Failure::refused("run_id_invalid", error.to_string()))?;
        let Ok(manifest) = Logbook::open(start)?.artifacts.read_manifest(&id) else {
            return Err(differs(run_id, &[UNREADABLE.to_owned()]));
        };
        // The run was removed in this moment.
        let Some(recorded) = manifest else {
            self.run.manifest = ManifestCheck::Gone;
            return Ok(());
        };
        if let ManifestCheck::Differs(fields) = self.run.compare(&recorded) {
            return Err(differs(run_id, &fields));
        }
        if self.run.steps_sha256.is_some() {
            let steps = recorded.manifest.commands_executed.iter();
            self.steps = Some(steps.map(StepClaim::of).collect());
        }
        if self.run.manifest_sha256.is_some() {
            self.image = Some(recorded.manifest.platform.container_image);
            self.git_tree = recorded.manifest.git_tree;
        }
        Ok(())
    }

    /// Returns the warnings that weaken the verdict, or `None` if the log does not hold them.
    pub(crate) fn warnings(&self) -> Option<Vec<String>> {
        let marks = self.run.warnings.as_ref()?;
        Some(marks.iter().filter(|mark| lessens(mark).is_some()).cloned().collect())
    }
}

fn disputed(message: String) -> Failure {
    Failure::refused("evidence_disputed", message)
}

fn differs(run_id: &str, fields: &[String]) -> Failure {
    let fields = fields.join(", ");
    disputed(format!("log and manifest of {run_id} differ in: {fields}"))
        .hint(format!("{}; `act audit explain` shows what the log holds", cure(run_id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::document_holds::<Explanation>();
    }
}
