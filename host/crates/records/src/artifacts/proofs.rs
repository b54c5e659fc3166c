//! `state/proofs/RUN_ID/`: the small part of the evidence of a run that outlives its directory. Each success of a task leaves
//! one: the manifest, the statement about the run, the list of the tested files, and the ends of the logs.
//!
//! A proof is made under another name and renamed when it is whole and on the disk.

use std::collections::BTreeMap;
use std::io;

use act_core::RunId;
use act_fs::lock::{self, Kind};
use act_fs::{Dir, Durability, read_last};
use chrono::{DateTime, TimeDelta, Utc};
use rustix::fs::renameat;

use super::artifact_dir::ArtifactDir;
use super::retention::{Candidate, Limits, changed_at, expired};
use super::run_dir::{MAX_PROOF_LOG, TREE};
use super::tree::remove_tree;

const PROOFS: &str = "proofs";
const NEW: &str = ".new-";
/// A release is often questioned within a quarter of a year.
const AGE: TimeDelta = TimeDelta::days(90);
/// Maximum number of bytes of the list of files, some 50,000 files. A larger one is left out.
const MAX_TREE: u64 = 8 << 20;
/// Maximum number of bytes of the manifest.
const MAX_MANIFEST: u64 = 16 << 20;
/// Maximum number of logs: a pipeline has fewer steps.
const MAX_LOGS: usize = 1000;

impl ArtifactDir {
    /// Copies the evidence of a run, with the statement about it, to where it outlives the run. An existing proof stays.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn keep_proof(&self, run_id: &RunId, statement: &[u8]) -> io::Result<()> {
        let proofs = self.state()?.private_subdirectory(PROOFS)?;
        if proofs.contains(run_id.as_str())? {
            return Ok(());
        }
        let name = format!("{NEW}{run_id}");
        remove_tree(&proofs, &name)?;
        let new = proofs.create_subdirectory(&*name)?;
        lock::try_lock(&new, Kind::Exclusive)?;
        let copied = copy_evidence(&self.run(run_id)?, &new, statement);
        let kept = copied.and_then(|()| {
            new.sync()?;
            renameat(&proofs, &*name, &proofs, run_id.as_str())?;
            proofs.sync()
        });
        if kept.is_err() {
            let _ = remove_tree(&proofs, &name);
        }
        kept
    }

    /// Opens the proof of a run, or returns `None` when it has none.
    pub(super) fn proof(&self, run_id: &RunId) -> io::Result<Option<Dir>> {
        match self.proofs()? {
            Some(proofs) => proofs.existing_subdirectory(run_id.as_str()),
            None => Ok(None),
        }
    }

    /// Returns the runs that have a proof, the oldest first.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn proof_ids(&self) -> io::Result<Vec<RunId>> {
        let Some(proofs) = self.proofs()? else { return Ok(vec![]) };
        let names = proofs.names(usize::MAX)?;
        let ids = names.iter().filter_map(|name| RunId::parse(name.to_str().ok()?).ok());
        let mut ids: Vec<_> = ids.collect();
        ids.sort();
        Ok(ids)
    }

    /// Removes proofs that are older than 90 days, the oldest beyond `count`, and what a killed process left of one.
    /// `order` is the order in which the runs began.
    ///
    /// # Errors
    /// A directory cannot be listed or removed.
    pub fn prune_proofs(
        &self,
        now: DateTime<Utc>,
        count: usize,
        order: impl FnOnce(&[RunId]) -> io::Result<BTreeMap<RunId, i64>>,
    ) -> io::Result<()> {
        let Some(proofs) = self.proofs()? else { return Ok(()) };
        for name in proofs.names(usize::MAX)? {
            let Some(name) = name.to_str().ok().filter(|name| name.starts_with(NEW)) else {
                continue;
            };
            if let Ok(Some(dir)) = proofs.existing_subdirectory(name)
                && lock::try_lock(&dir, Kind::Exclusive)?
            {
                remove_tree(&proofs, name)?;
            }
        }
        let ids = self.proof_ids()?;
        let order = order(&ids)?;
        let mut all = vec![];
        for id in ids {
            let Ok(Some(dir)) = proofs.existing_subdirectory(id.as_str()) else { continue };
            let since = id.time().max(changed_at(&dir)?);
            let order = order.get(&id).copied();
            all.push(Candidate { name: id, since, order, spared: false });
        }
        for Candidate { name, .. } in expired(all, Limits { count, age: AGE }, now) {
            remove_tree(&proofs, name.as_str())?;
        }
        Ok(())
    }

    fn proofs(&self) -> io::Result<Option<Dir>> {
        match self.existing_state()? {
            Some(state) => state.existing_subdirectory(PROOFS),
            None => Ok(None),
        }
    }
}

fn copy_evidence(run: &Dir, new: &Dir, statement: &[u8]) -> io::Result<()> {
    let put = |dir: &Dir, name: &str, bytes: &[u8]| dir.replace(name, bytes, Durability::Contents);
    put(new, "manifest.json", &run.read("manifest.json", MAX_MANIFEST)?)?;
    put(new, "statement.json", statement)?;
    match run.read_existing(TREE, MAX_TREE) {
        Ok(tree) => tree.map_or(Ok(()), |tree| put(new, TREE, &tree))?,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {}
        Err(error) => return Err(error),
    }
    let (from, to) = (run.subdirectory("logs")?, new.create_subdirectory("logs")?);
    for name in from.names(MAX_LOGS)? {
        let Ok(name) = name.into_string() else { continue };
        let (bytes, _) = read_last(&from.file(&*name)?, MAX_PROOF_LOG)?;
        put(&to, &name, &bytes)?;
    }
    to.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::verification::testing::{command, verification};
    use act_core::verification::{Manifest, Verdict};
    use std::io::Write;

    fn artifacts(base: &std::path::Path) -> ArtifactDir {
        std::fs::create_dir(base.join("repo")).unwrap();
        ArtifactDir::open(&base.join("a"), &base.join("repo")).unwrap()
    }

    /// A run with a short and a long log, which have the digests in its manifest.
    fn run(artifacts: &ArtifactDir, at: DateTime<Utc>) -> (RunId, Manifest) {
        let run = artifacts.create_run(at).unwrap();
        let long = "x".repeat(usize::try_from(MAX_PROOF_LOG).unwrap() + 7);
        let logs = [("short", "one\n"), ("long", long.as_str())];
        let whole = logs.map(|(_, text)| text).concat();
        run.create_log("combined.log").unwrap().write_all(whole.as_bytes()).unwrap();
        let commands = (1..).zip(logs).map(|(number, (name, text))| {
            let log = super::super::run_dir::log_name(number, name);
            run.create_log(&log).unwrap().write_all(text.as_bytes()).unwrap();
            let mut step = command(name, Some(0));
            step.log_sha256 = Some(act_workspace::digest(text.as_bytes()));
            step.log_bytes = Some(text.len() as u64);
            let cut = text.len().checked_sub(usize::try_from(MAX_PROOF_LOG).unwrap());
            step.log_end_sha256 = cut.map(|cut| act_workspace::digest(&text.as_bytes()[cut..]));
            step
        });
        let mut manifest = verification(Verdict::Pass, &[], "").manifest.unwrap();
        manifest.commands_executed = commands.collect();
        manifest.run_id = run.id().clone();
        run.write_manifest(&manifest).unwrap();
        (run.id().clone(), manifest)
    }

    // ARTIFACT-24
    #[test]
    fn a_proof_outlives_its_run_and_its_logs_are_checked() {
        let base = tempfile::tempdir().unwrap();
        let artifacts = artifacts(base.path());
        let (id, manifest) = run(&artifacts, act_core::clock::now());
        artifacts.keep_proof(&id, b"{}").unwrap();
        artifacts.keep_proof(&id, b"other").unwrap();
        let proof = base.path().join("a/state/proofs").join(id.as_str());
        assert_eq!(std::fs::read_to_string(proof.join("statement.json")).unwrap(), "{}");
        assert_eq!(artifacts.proof_ids().unwrap(), std::slice::from_ref(&id));
        let own = base.path().join("a/runs").join(id.as_str());
        let changed = || {
            let places = artifacts.places(&id).unwrap();
            places.iter().map(|place| place.changed_logs(&manifest)).collect::<Vec<_>>()
        };
        let none: Vec<String> = vec![];
        assert_eq!(changed(), [none.clone(), none.clone()]);
        // Only the end of a long log is in the proof.
        let kept = std::fs::metadata(proof.join("logs/step-02-long.log")).unwrap().len();
        assert_eq!(kept, MAX_PROOF_LOG);
        let cut: Vec<_> = artifacts.places(&id).unwrap();
        let cut: Vec<_> = cut.iter().map(|place| place.cut_logs(&manifest)).collect();
        let said = "logs/step-02-long.log: the last 1048576 of 1048583 bytes, the rest is gone";
        assert_eq!(cut, [none.clone(), vec![said.to_owned()]]);
        std::fs::write(own.join("logs/step-01-short.log"), "two\n").unwrap();
        std::fs::remove_file(own.join("logs/step-02-long.log")).unwrap();
        std::fs::write(proof.join("logs/step-01-short.log"), "one\nmore").unwrap();
        let (short, long) =
            ("logs/step-01-short.log".to_owned(), "logs/step-02-long.log".to_owned());
        assert_eq!(changed(), [vec![short.clone(), long], vec![short]]);

        std::fs::remove_dir_all(&own).unwrap();
        assert_eq!(artifacts.read_manifest(&id).unwrap().unwrap().manifest, manifest);
        assert_eq!(artifacts.read_log(id.as_str(), Some("short"), 99).unwrap().text, "one\nmore");
        std::fs::remove_dir_all(&proof).unwrap();
        assert_eq!(artifacts.read_manifest(&id).unwrap(), None);
    }

    // ARTIFACT-24, AUDIT-31
    #[test]
    fn the_end_of_a_long_log_in_a_proof_and_the_log_of_all_steps_are_compared() {
        let base = tempfile::tempdir().unwrap();
        let artifacts = artifacts(base.path());
        let (id, mut manifest) = run(&artifacts, act_core::clock::now());
        artifacts.keep_proof(&id, b"{}").unwrap();
        std::fs::remove_dir_all(base.path().join("a/runs").join(id.as_str())).unwrap();
        let logs = base.path().join("a/state/proofs").join(id.as_str()).join("logs");
        let changed = |manifest: &Manifest| {
            let places = artifacts.places(&id).unwrap();
            places.iter().flat_map(|place| place.changed_logs(manifest)).collect::<Vec<_>>()
        };
        assert!(changed(&manifest).is_empty());
        for name in ["combined.log", "step-02-long.log"] {
            let whole = std::fs::read(logs.join(name)).unwrap();
            let mut other = whole.clone();
            other[77] = b'y';
            std::fs::write(logs.join(name), &other).unwrap();
            assert_eq!(changed(&manifest), [format!("logs/{name}")]);
            std::fs::write(logs.join(name), &whole[1..]).unwrap();
            assert_eq!(changed(&manifest), [format!("logs/{name}")]);
            std::fs::remove_file(logs.join(name)).unwrap();
            assert_eq!(changed(&manifest), [format!("logs/{name}")]);
            std::fs::write(logs.join(name), &whole).unwrap();
        }
        // An earlier version stored no digest of the end, and says that nothing covers it.
        manifest.commands_executed[1].log_end_sha256 = None;
        assert!(changed(&manifest).is_empty());
        let places = artifacts.places(&id).unwrap();
        assert!(places[0].cut_logs(&manifest)[0].ends_with("bytes, and nothing covers them"));
    }

    // ARTIFACT-24
    #[test]
    fn the_newest_proofs_stay_for_90_days() {
        let base = tempfile::tempdir().unwrap();
        let artifacts = artifacts(base.path());
        let now = act_core::clock::now();
        let proofs = base.path().join("a/state/proofs");
        let proof = |days: i64| {
            let (id, _) = run(&artifacts, now - TimeDelta::days(days));
            artifacts.keep_proof(&id, b"{}").unwrap();
            let time = std::time::SystemTime::now()
                - std::time::Duration::from_hours(24 * days.unsigned_abs());
            std::fs::File::open(proofs.join(id.as_str())).unwrap().set_modified(time).unwrap();
            id
        };
        let [old, second, third, newest] = [91, 80, 70, 1].map(proof);
        // The clock was set back before the last one.
        let clock = proof(200);
        std::fs::create_dir(proofs.join(".new-run_20200101_000000_aaaaaa")).unwrap();
        let order = |ids: &[RunId]| {
            assert_eq!(ids.len(), 5);
            let all = [&old, &second, &third, &newest, &clock];
            Ok((0..).zip(all).map(|(place, id)| (id.clone(), place)).collect())
        };
        artifacts.prune_proofs(now, 3, order).unwrap();
        let mut left = artifacts.proof_ids().unwrap();
        left.sort_by_key(|id| [&third, &newest, &clock].iter().position(|known| *known == id));
        assert_eq!(left, [third, newest, clock]);
        assert_eq!(proofs.read_dir().unwrap().count(), 3, "and nothing unfinished");
        artifacts.prune_proofs(now, 0, |_| Ok(BTreeMap::new())).unwrap();
        assert!(artifacts.proof_ids().unwrap().is_empty());
    }
}
