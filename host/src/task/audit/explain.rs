//! What a run was made of: `act audit explain`. Everything is from the log; where the manifest is still there,
//! both are compared.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::Logbook;
use crate::task::preflight;
use act_audit::{CheckpointStore, Decision, Event, Record, RepoIdentity, Subject};
use act_core::Failure;
use act_core::RunId;
use act_core::verification::Status;
use act_records::artifacts::RecordedManifest;
use act_records::store::Store;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Explanation {
    pub run_id: String,
    /// `pass`, the reason of a failure, the kind of trouble, `cancelled`, or null while it runs or when its process
    /// died.
    pub outcome: Option<String>,
    /// Null of `act verify`.
    pub task_id: Option<String>,
    pub repo: Option<RepoIdentity>,
    pub started_at: String,
    pub finished_at: Option<String>,
    /// The attempt of its task.
    pub attempt: u64,
    /// Digest of the `agent.yaml` that was the gate.
    pub pipeline_sha256: Option<String>,
    pub image_digest: Option<String>,
    /// The engine's own; null of a log of a time when it was not recorded, like the next two.
    pub image_id: Option<String>,
    /// Of the manifest without `audit_head`.
    pub manifest_sha256: Option<String>,
    /// Codes of warnings, each with the numbers of its steps, or alone where it is about the whole run.
    pub warnings: Option<Vec<String>>,
    /// Of the tree before the steps and after them.
    pub tree_digest: Option<String>,
    pub tree_digest_after: Option<String>,
    /// Of the JSON of what the manifest says of the steps.
    pub steps_sha256: Option<String>,
    /// Of what the engine was asked for and of what it said was in force.
    pub container_request_sha256: Option<String>,
    pub container_inspect_sha256: Option<String>,
    /// What stood between the steps and the machine, as the engine said.
    pub container: Vec<String>,
    pub components: Vec<ComponentInRun>,
    /// Files that the task had changed and that could make the gate easier.
    pub gate_inputs_changed: Vec<GateInputOfRun>,
    /// Of the task up to the end of this run.
    pub edits: u64,
    pub edits_refused: u64,
    pub denials: u64,
    pub manifest: ManifestCheck,
    /// Why its end is not believed although the chain holds: the store, which hears of each run and each edge, does
    /// not know it. Null when it does, and before the end.
    pub disputed: Option<String>,
    /// Numbers of the records of its beginning and its end.
    pub started_seq: u64,
    pub finished_seq: Option<u64>,
    /// The hash of the latter.
    pub finished_hash: Option<String>,
}

/// A component of the task, up to the end of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComponentInRun {
    #[serde(flatten)]
    pub subject: Subject,
    pub capabilities: Vec<String>,
    pub effective_sha256: Option<String>,
    pub queries: u64,
    /// What its queries used, added up: files, bytes, model calls, tokens, edits, denials.
    pub used: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GateInputOfRun {
    pub path: String,
    /// A stable word.
    pub why: String,
    /// Null where there was no file, like `sha256_after`.
    pub sha256_before: Option<String>,
    pub sha256_after: Option<String>,
}

/// Whether the manifest says the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case", tag = "state", content = "fields")]
pub enum ManifestCheck {
    Agrees,
    /// In these fields.
    Differs(Vec<String>),
    /// The run has no end yet, or was removed.
    Gone,
}

pub fn audit_explain(start: &Path, run_id: &str) -> Result<Explanation, Failure> {
    let run = RunId::parse(run_id).map_err(|error| {
        Failure::refused("run_id_invalid", error.to_string()).hint("`act history` lists runs")
    })?;
    let book = Logbook::open(start)?;
    let mut of_run = vec![];
    book.each(|record| {
        let about = is(&record, Event::GateStarted) || is(&record, Event::GateFinished);
        if about && record.object.as_deref() == Some(run_id) {
            of_run.push(record);
        }
        of_run.len() < MOST_OF_RUN
    })?;
    let Some(mut found) = Explanation::of(run_id, &of_run) else {
        return Err(Failure::refused("run_unknown", format!("no record tells of {run_id}"))
            .hint("`act audit list` shows the last records; `act history` lists runs"));
    };
    let until = found.finished_seq.unwrap_or(u64::MAX);
    let mut components = BTreeMap::new();
    book.each(|record| {
        found.take(&mut components, &record, until);
        true
    })?;
    found.components = components.into_values().collect();
    found.disputed = found.dispute(&*preflight::store(&book.artifacts)?)?;
    found.manifest = match book.artifacts.read_manifest(&run) {
        Ok(Some(manifest)) => found.compare(&manifest),
        Ok(None) => ManifestCheck::Gone,
        Err(_) => ManifestCheck::Differs(vec!["all of it, which cannot be read".to_owned()]),
    };
    Ok(found)
}

/// Its beginning and its end.
const MOST_OF_RUN: usize = 2;

fn is(record: &Record, event: Event) -> bool {
    record.event == event.as_str()
}

impl Explanation {
    /// By the records that are about the run itself.
    fn of(run_id: &str, records: &[Record]) -> Option<Self> {
        let started = records.iter().find(|record| is(record, Event::GateStarted))?;
        let ended = records.iter().find(|record| is(record, Event::GateFinished));
        let digest = |name: &str| ended.or(Some(started))?.digests.get(name).cloned();
        Some(Self {
            run_id: run_id.to_owned(),
            outcome: ended.and_then(|ended| ended.reason.clone()),
            task_id: started.task.clone(),
            repo: started.repo.clone(),
            started_at: started.time.clone(),
            finished_at: ended.map(|ended| ended.time.clone()),
            attempt: started.counts.get("attempt").copied().unwrap_or_default(),
            pipeline_sha256: digest("pipeline"),
            image_digest: digest("image").map(|image| format!("sha256:{image}")),
            image_id: digest("image_id").map(|image| format!("sha256:{image}")),
            manifest_sha256: digest("manifest"),
            warnings: ended
                .filter(|ended| ended.counts.contains_key("warnings"))
                .map(|ended| ended.names.clone()),
            tree_digest: digest("tree"),
            tree_digest_after: digest("tree_after"),
            steps_sha256: digest("steps"),
            container_request_sha256: None,
            container_inspect_sha256: None,
            container: vec![],
            components: vec![],
            gate_inputs_changed: vec![],
            edits: 0,
            edits_refused: 0,
            denials: 0,
            manifest: ManifestCheck::Gone,
            disputed: None,
            started_seq: started.seq,
            finished_seq: ended.map(|ended| ended.seq),
            finished_hash: ended.map(|ended| ended.hash.clone()),
        })
    }

    /// Whether it passed; none without a verdict.
    pub(super) fn verdict(&self) -> Option<bool> {
        match self.outcome.as_deref()? {
            "pass" => Some(true),
            "fail" | "step_failed" | "timeout" | "source_writes" | "tree_changed" => Some(false),
            _ => None,
        }
    }

    fn status(&self) -> Status {
        match self.verdict() {
            Some(true) => Status::Pass,
            Some(false) => Status::Fail,
            None => Status::InfraError,
        }
    }

    /// A chain goes on for whoever knows its rules; the store is told of each run by the process that made it, and of
    /// the log's end at each run's end.
    fn dispute(&self, store: &Store) -> Result<Option<String>, Failure> {
        let Some(end) = self.finished_seq.filter(|_| self.verdict().is_some()) else {
            return Ok(None);
        };
        let kept = store.head()?;
        let edge = kept.map_or(0, |head| head.seq);
        let why = match store.run(&self.run_id)? {
            _ if edge < end => format!(
                "its end, record {end}, stands behind record {edge}, the last edge that the store remembers"
            ),
            None => "the store knows no such run".to_owned(),
            Some(known) if known.status.as_deref() != Some(self.status().as_str()) => format!(
                "of its end the log says {}, the store {}",
                self.status().as_str(),
                known.status.as_deref().unwrap_or("nothing")
            ),
            Some(known) if known.task_id != self.task_id => {
                "the store knows it of another task".to_owned()
            }
            Some(known) if known.end_hash.is_some() && known.end_hash != self.finished_hash => {
                "the store remembers another record as its end".to_owned()
            }
            Some(_) => return Ok(None),
        };
        Ok(Some(why))
    }

    /// One record of the log, about this run or its task; `until` is the run's last one.
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
        // Written when the run has ended, so after its last record.
        if is(record, Event::GateInputChanged) && record.names.contains(&self.run_id) {
            self.gate_inputs_changed.push(GateInputOfRun {
                path: record.object.clone().unwrap_or_default(),
                why: record.reason.clone().unwrap_or_default(),
                sha256_before: digest("before"),
                sha256_after: digest("after"),
            });
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

    /// Compares what the log and the manifest say of the run, field by field.
    pub(super) fn compare(&self, recorded: &RecordedManifest) -> ManifestCheck {
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
        ];
        let differ = fields.into_iter().filter(|(_, agrees)| !agrees);
        let mut differ: Vec<_> = differ.map(|(name, _)| name.to_owned()).collect();
        let whole = self.manifest_sha256.as_ref();
        if differ.is_empty() && whole.is_some_and(|whole| *whole != recorded.sha256) {
            // The log holds only a digest of the other fields.
            differ.push("the rest of it".to_owned());
        }
        if differ.is_empty() { ManifestCheck::Agrees } else { ManifestCheck::Differs(differ) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::holds::<Explanation>("audit-explain");
    }
}
