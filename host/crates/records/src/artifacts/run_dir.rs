//! One run's directory: the parts that steps write, the logs, and the manifest. It is created by handle, and only the host
//! writes the host's files in it. Logs are read back by run id and step name, never by path.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use act_core::evidence::Evidence;
use act_core::verification::{CommandExecuted, Manifest, Status};
use act_core::{RunId, RunIdError};
use act_fs::{Dir, Durability, Identity, hex};
use act_workspace::digest;
use rustix::fs::Mode;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::archive::{Allowance, LeftOut, unpack};
use super::artifact_dir::ArtifactDir;
use super::tree::{Swept, open_any, remove_tree, sweep};

/// The file with the paths, modes and digests of the tested files. Its SHA-256 is the digest of the tree.
pub(super) const TREE: &str = "tree";
/// Maximum number of bytes of that file: a million files with long paths.
const MAX_TREE: u64 = 256 << 20;
/// Maximum number of bytes of a log in a proof. The summary of a test runner is at the end of its output.
pub const MAX_PROOF_LOG: u64 = 1 << 20;

/// The log of all steps together.
pub const COMBINED: &str = "combined.log";

/// The directories that steps may write. Each is mounted by itself, so steps cannot reach `logs` and the manifest.
pub const STEP_PARTS: [&str; 5] = ["build", "tmp", "db", "snapshots", "home"];

/// Small files that the host mounts into the container.
const LENT: &str = "lent";
/// The copied view of the repository.
const VIEW: &str = "view";
/// The layers of the overlays of a run, each in a directory of its own.
const OVERLAY: &str = "overlay";
/// The cache of a run that cannot use the shared one.
const CACHE: &str = "cache";

/// The directories of a run into which steps may have written, also if it ended in the middle.
pub(super) const HELD_PARTS: [&str; 8] =
    ["build", "tmp", "db", "snapshots", "home", VIEW, OVERLAY, CACHE];

/// Maximum number of characters of a step's name in the name of its log file.
const MAX_NAME: usize = 100;

/// The directory of one run.
#[derive(Debug)]
pub struct RunDir {
    id: RunId,
    path: PathBuf,
    handle: Dir,
    logs: Dir,
}

/// The layers of an overlay: below `path` are `lower`, a link, and `upper` and `work`, which are new.
#[derive(Debug)]
pub struct OverlayDirs {
    pub path: PathBuf,
    pub upper: Dir,
}

impl RunDir {
    pub(super) fn new(id: RunId, path: PathBuf, handle: Dir) -> io::Result<Self> {
        let logs = handle.private_subdirectory("logs")?;
        for part in STEP_PARTS {
            handle.private_subdirectory(part)?;
        }
        Ok(Self { id, path, handle, logs })
    }

    /// Returns the run's id.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn identity(&self) -> io::Result<Identity> {
        self.handle.identity()
    }

    pub(super) fn handle(&self) -> &Dir {
        &self.handle
    }

    /// Returns the directory of this name that the host made for the run: a part, or the view under the name `view`.
    ///
    /// # Errors
    /// It is missing, or cannot be opened.
    pub fn identity_of(&self, name: &str) -> io::Result<Identity> {
        self.handle.subdirectory(name)?.identity()
    }

    /// Creates the directory of the copied view and returns its handle and path. It is mounted by itself at `build/tree`,
    /// because a step cannot move a mount point away and put another tree in its place.
    ///
    /// # Errors
    /// A directory cannot be created.
    pub fn create_view(&self) -> io::Result<(OwnedFd, PathBuf)> {
        self.handle.private_subdirectory("build")?.private_subdirectory("tree")?;
        Ok((self.handle.create_subdirectory(VIEW)?.into(), self.view_path()))
    }

    /// Returns the path of the copied view.
    pub fn view_path(&self) -> PathBuf {
        self.path.join(VIEW)
    }

    /// Creates a file for the container, which only the host writes, and returns its path.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn lend_file(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let mut file = self.handle.private_subdirectory(LENT)?.create(name)?;
        file.write_all(bytes)?;
        // A step may run under another user id and has to read the file.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o444))?;
        Ok(self.path.join(LENT).join(name))
    }

    /// Returns a cache for this run alone.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn private_cache(&self) -> io::Result<(Dir, PathBuf)> {
        Ok((self.handle.private_subdirectory(CACHE)?, self.path.join(CACHE)))
    }

    /// Creates the writable layers of the overlay `name` over `lower`. A link names the lower layer, because the path of
    /// the repository may contain characters with a meaning in mount options.
    ///
    /// # Errors
    /// The directories cannot be created, or exist.
    pub fn create_overlay(&self, name: &str, lower: &Path) -> io::Result<OverlayDirs> {
        let overlays = self.handle.private_subdirectory(OVERLAY)?;
        let overlay = overlays.create_subdirectory(name)?;
        let upper = overlay.private_subdirectory("upper")?;
        overlay.private_subdirectory("work")?;
        // The root of the overlay has the mode of the upper layer's root.
        rustix::fs::fchmod(&upper, Mode::from_raw_mode(0o755))?;
        rustix::fs::symlinkat(lower, &overlay, "lower")?;
        Ok(OverlayDirs { path: self.path.join(OVERLAY).join(name), upper })
    }

    /// Creates a file below `logs`.
    ///
    /// # Errors
    /// The name is taken, also by a link.
    pub fn create_log(&self, name: &str) -> io::Result<File> {
        self.logs.create(name)
    }

    /// Writes the list of the tested files, in place of an older one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_tree(&self, list: &[u8]) -> io::Result<()> {
        self.handle.replace(TREE, list, Durability::Unsynced)
    }

    /// Writes the manifest atomically and synced.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_manifest(&self, manifest: &Manifest) -> io::Result<()> {
        put_manifest(&self.handle, manifest)
    }

    /// Unpacks an engine's archive of one of [`STEP_PARTS`] into its empty directory.
    ///
    /// # Errors
    /// The archive is malformed or ends early, or the disk fails.
    pub fn receive(
        &self,
        part: &str,
        archive: impl Read,
        allowance: &mut Allowance,
    ) -> io::Result<LeftOut> {
        unpack(self.handle.private_subdirectory(part)?.into(), archive, allowance)
    }

    /// Moves the view and [`STEP_PARTS`] into another directory of the same file system, the view under the name `tree`, and
    /// creates the parts anew. Call it only after the container was removed.
    ///
    /// # Errors
    /// A part is missing, or exists there.
    pub(super) fn move_parts(&self, to: &Dir) -> io::Result<()> {
        rustix::fs::renameat(&self.handle, VIEW, to, "tree")?;
        for part in STEP_PARTS {
            rustix::fs::renameat(&self.handle, part, to, part)?;
            self.handle.private_subdirectory(part)?;
        }
        Ok(())
    }

    /// Removes the view, the overlay, the private cache and the files for the container. Call it only after the container
    /// was removed.
    ///
    /// # Errors
    /// A directory cannot be removed.
    pub fn remove_scratch(&self) -> io::Result<()> {
        // A step may have removed all permissions of the directory.
        remove_tree(&open_any(self.handle.as_fd(), &CString::new("build")?)?, "tree")?;
        remove_tree(&self.handle, VIEW)?;
        remove_tree(&self.handle, OVERLAY)?;
        remove_tree(&self.handle, CACHE)?;
        remove_tree(&self.handle, LENT)
    }

    /// Removes dangerous files from [`STEP_PARTS`], as [`sweep`] does. Call it only after the container was removed.
    ///
    /// # Errors
    /// A directory cannot be read or changed.
    pub fn sweep(&self) -> io::Result<Swept> {
        let mut swept = Swept::default();
        for part in STEP_PARTS {
            match open_any(self.handle.as_fd(), &CString::new(part)?) {
                Ok(part) => swept += sweep(part)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(swept)
    }

    /// Returns the absolute paths of the manifest, the logs, and those of [`STEP_PARTS`] that are not empty.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn artifact_paths(&self) -> io::Result<Vec<String>> {
        paths_in(&self.handle, &self.logs, &self.path)
    }

    /// Returns the bytes that an ordinary user can still write on the run's file system.
    ///
    /// # Errors
    /// The file system does not answer.
    pub fn free_space(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(self.handle.as_fd())?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

fn paths_in(run: &Dir, logs: &Dir, path: &Path) -> io::Result<Vec<String>> {
    let mut found = vec![];
    if run.stat("manifest.json").is_ok() {
        found.push("manifest.json".to_owned());
    }
    let mut logs = names(logs)?;
    logs.sort();
    found.extend(logs.into_iter().map(|name| format!("logs/{name}")));
    for part in STEP_PARTS {
        if let Ok(part_handle) = run.subdirectory(part)
            && !names(&part_handle)?.is_empty()
        {
            found.push(part.to_owned());
        }
    }
    let absolute = |name: String| path.join(name).to_string_lossy().into_owned();
    Ok(found.into_iter().map(absolute).collect())
}

/// Lists a directory that a step may have filled with names.
fn names(directory: &Dir) -> io::Result<Vec<String>> {
    /// Bounds the memory and time that a full directory costs.
    const MOST: usize = 1000;
    let names = directory.names(MOST)?;
    Ok(names.iter().map(|name| name.to_string_lossy().into_owned()).collect())
}

/// Returns `step-{nn}-{name}.log`; steps count from 1. Characters of the name other than `[A-Za-z0-9._-]` become `_`.
pub fn log_name(number: usize, step: &str) -> String {
    format!("step-{number:02}-{}.log", safe_name(step))
}

pub(super) fn safe_name(step: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    step.chars().take(MAX_NAME).map(|c| if is_safe(c) { c } else { '_' }).collect()
}

/// Maximum size of a manifest in bytes. The longest that `act` writes lists what some hundred steps wrote.
const MAX_BYTES: u64 = 16 << 20;

/// A manifest that was read from the disk. Its digests are those of the JSON in the file, including fields that
/// this version of `act` does not know, so that no change of the file goes unnoticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedManifest {
    pub manifest: Manifest,
    /// [`manifest_digest`] of the file.
    pub sha256: String,
    /// [`steps_digest`] of the file.
    pub steps_sha256: String,
    /// SHA-256 of the JSON of `evidence`, which `sha256` does not cover.
    pub evidence_sha256: Option<String>,
}

impl ArtifactDir {
    /// Returns the manifest of a run, or `None` when the run has none yet, or was removed and has left no proof. Never follows
    /// a link.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be read or is not a manifest.
    pub fn read_manifest(&self, run_id: &RunId) -> io::Result<Option<RecordedManifest>> {
        for place in self.places(run_id)? {
            if let Some(found) = place.manifest()? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the absolute paths of the files of an ended run, like [`RunDir::artifact_paths`].
    ///
    /// # Errors
    ///
    /// The run was removed, or a directory cannot be listed.
    pub fn paths_of(&self, run_id: &RunId) -> io::Result<Vec<String>> {
        let run = self.run(run_id)?;
        let path = self.path().join("runs").join(run_id.as_str());
        paths_in(&run, &run.subdirectory("logs")?, &path)
    }

    /// Returns the directories that hold evidence of a run: its own, and its proof.
    ///
    /// # Errors
    ///
    /// A directory cannot be opened.
    pub fn places(&self, run_id: &RunId) -> io::Result<Vec<EvidencePlace>> {
        let own = match self.run(run_id) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            own => Some(EvidencePlace { dir: own?, is_proof: false }),
        };
        let proof = self.proof(run_id)?.map(|dir| EvidencePlace { dir, is_proof: true });
        Ok(own.into_iter().chain(proof).collect())
    }

    /// Returns the list of the files that a run has tested, if it is stored and has the digest of their tree.
    pub fn tree_list(&self, run_id: &RunId, tree_digest: &str) -> Option<Vec<u8>> {
        let lists = self.places(run_id).ok()?.into_iter();
        let mut lists = lists.filter_map(|place| place.dir.read(TREE, MAX_TREE).ok());
        lists.find(|list| digest(list) == tree_digest)
    }

    /// Adds what the tests of a task prove to the manifest of the run that decided.
    ///
    /// # Errors
    ///
    /// The manifest cannot be read or written.
    pub fn add_evidence(&self, run_id: &RunId, evidence: &Evidence) -> io::Result<()> {
        let dir = self.run(run_id)?;
        let text = dir.read("manifest.json", MAX_BYTES)?;
        let mut manifest: Manifest = serde_json::from_slice(&text)?;
        manifest.evidence = Some(evidence.clone());
        put_manifest(&dir, &manifest)
    }
}

/// A directory with a manifest and logs.
#[derive(Debug)]
pub struct EvidencePlace {
    pub(super) dir: Dir,
    is_proof: bool,
}

impl EvidencePlace {
    /// Reads the manifest, or returns `None` where there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is not a manifest.
    pub fn manifest(&self) -> io::Result<Option<RecordedManifest>> {
        let Some(text) = self.dir.read_existing("manifest.json", MAX_BYTES)? else {
            return Ok(None);
        };
        let json: Value = serde_json::from_slice(&text)?;
        let steps = json.get("commands_executed").map(Value::to_string).unwrap_or_default();
        let evidence = json.get("evidence").map(|evidence| digest(evidence.to_string().as_bytes()));
        Ok(Some(RecordedManifest {
            sha256: digest_of_json(json.clone()),
            steps_sha256: digest(steps.as_bytes()),
            evidence_sha256: evidence,
            manifest: serde_json::from_value(json)?,
        }))
    }

    /// Opens the log of this name.
    ///
    /// # Errors
    ///
    /// There is no such regular file; a link is refused.
    pub fn log(&self, name: &str) -> io::Result<File> {
        self.dir.subdirectory("logs")?.file(name)
    }

    /// Returns the names of the logs that are missing, or that differ from the digests in the manifest. A proof holds only
    /// the end of a long log, which has a digest of its own.
    pub fn changed_logs(&self, manifest: &Manifest) -> Vec<String> {
        let logs = self.dir.subdirectory("logs");
        let is_same = |name: &str, sha256: &str, size: u64| {
            let file = logs.as_ref().ok()?.file(name).ok()?;
            let same_size = file.metadata().ok()?.len() == size;
            Some(same_size && digest_of(file, size)? == sha256)
        };
        let mut changed = vec![];
        for (number, step) in (1..).zip(&manifest.commands_executed) {
            let (Some(whole), Some(size)) = (&step.log_sha256, step.log_bytes) else { continue };
            let name = log_name(number, &step.name);
            let sha256 = match self.held(size) {
                held if held == size => Some(whole),
                // Manifests of earlier versions have no digest of the end.
                _ => step.log_end_sha256.as_ref(),
            };
            let is_same = |sha256: &String| is_same(&name, sha256, self.held(size)) == Some(true);
            if sha256.is_some_and(|sha256| !is_same(sha256)) {
                changed.push(format!("logs/{name}"));
            }
        }
        if changed.is_empty() && self.is_combined_log_changed(manifest) {
            changed.push(format!("logs/{COMBINED}"));
        }
        changed
    }

    /// Returns the logs of which this place holds only the end, each with the number of its bytes here and in the run, and
    /// whether a digest covers that end.
    pub fn cut_logs(&self, manifest: &Manifest) -> Vec<String> {
        let cut = |(number, step): (usize, &CommandExecuted)| {
            let size = step.log_bytes.filter(|size| self.held(*size) < *size)?;
            let what = match step.log_end_sha256 {
                Some(_) => "the rest is gone",
                None => "and nothing covers them",
            };
            let (name, held) = (log_name(number, &step.name), self.held(size));
            Some(format!("logs/{name}: the last {held} of {size} bytes, {what}"))
        };
        (1..).zip(&manifest.commands_executed).filter_map(cut).collect()
    }

    /// The number of bytes of a log that this place holds.
    fn held(&self, size: u64) -> u64 {
        if self.is_proof { size.min(MAX_PROOF_LOG) } else { size }
    }

    /// Returns whether the log of all steps is not what their logs are together. No digest of the manifest covers it. The log
    /// of a run without a verdict may hold the output of a step that the manifest does not list.
    fn is_combined_log_changed(&self, manifest: &Manifest) -> bool {
        let sizes = manifest.commands_executed.iter().map(|step| step.log_bytes);
        let Some(sizes) = sizes.collect::<Option<Vec<u64>>>() else { return false };
        if manifest.status == Status::InfraError || sizes.is_empty() {
            return false;
        }
        let is_same = || -> io::Result<bool> {
            let logs = self.dir.subdirectory("logs")?;
            let combined = logs.file(COMBINED)?;
            let held = self.held(sizes.iter().sum());
            if combined.metadata()?.len() != held {
                return Ok(false);
            }
            // The ends of the logs, one after the other, end as the whole log does.
            let mut before: u64 = sizes.iter().map(|size| self.held(*size)).sum::<u64>() - held;
            let mut combined = BufReader::new(combined);
            for (number, (step, size)) in (1..).zip(manifest.commands_executed.iter().zip(&sizes)) {
                let (size, mut file) =
                    (self.held(*size), logs.file(&*log_name(number, &step.name))?);
                let skipped = before.min(size);
                before -= skipped;
                file.seek(io::SeekFrom::Start(skipped))?;
                if !is_equal(BufReader::new(file.take(size - skipped)), &mut combined)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        !is_same().unwrap_or(false)
    }
}

/// Reads `one` to its end, and returns whether the next bytes of `other` are equal.
fn is_equal(mut one: impl BufRead, other: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let left = one.fill_buf()?;
        if left.is_empty() {
            return Ok(true);
        }
        let right = other.fill_buf()?;
        let both = left.len().min(right.len());
        if both == 0 || left.get(..both) != right.get(..both) {
            return Ok(false);
        }
        one.consume(both);
        other.consume(both);
    }
}

/// Returns the SHA-256 of the first `size` bytes of a file.
fn digest_of(file: File, size: u64) -> Option<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    let mut file = file.take(size);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Some(hex(&hash.finalize())),
            Ok(count) => hash.update(buffer.get(..count)?),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

fn put_manifest(dir: &Dir, manifest: &Manifest) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(manifest)?;
    text.push(b'\n');
    dir.replace("manifest.json", &text, Durability::Contents)
}

/// SHA-256, as hex, of the manifest's JSON without white space, without `audit_head`, which names the record that holds
/// this digest, and without `evidence`, which is added later.
pub fn manifest_digest(manifest: &Manifest) -> Option<String> {
    serde_json::to_value(manifest).ok().map(digest_of_json)
}

/// SHA-256, as hex, of the JSON of `commands_executed` without white space.
pub fn steps_digest(steps: &[CommandExecuted]) -> Option<String> {
    serde_json::to_vec(steps).ok().map(|json| digest(&json))
}

fn digest_of_json(mut manifest: Value) -> String {
    if let Some(fields) = manifest.as_object_mut() {
        fields.shift_remove("audit_head");
        fields.shift_remove("evidence");
    }
    digest(manifest.to_string().as_bytes())
}

/// The end of a log as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogText {
    pub text: String,
    /// Bytes of the log before `text`.
    pub left_out: u64,
}

impl LogText {
    /// Reads the last `limit` bytes of an open log.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn end_of(file: &File, limit: u64) -> io::Result<Self> {
        let (bytes, left_out) = act_fs::read_last(file, limit)?;
        Ok(Self { text: String::from_utf8_lossy(&bytes).into_owned(), left_out })
    }
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(transparent)]
    RunId(#[from] RunIdError),
    #[error("no run {run_id} in the artifact directory; old runs are deleted")]
    NoRun { run_id: RunId },
    #[error("run {run_id} has no step {step:?}; {}", list(steps))]
    NoStep { run_id: RunId, step: String, steps: String },
    #[error("the log of run {run_id} cannot be read; look at the run's directory")]
    Unreadable { run_id: RunId, source: io::Error },
}

fn list(steps: &str) -> String {
    match steps {
        "" => "no step of it began".to_owned(),
        steps => format!("its steps are: {steps}"),
    }
}

impl ArtifactDir {
    /// Opens the combined log of a run, or the log of one step, for reading.
    ///
    /// # Errors
    /// [`LogError`] says whether the id, the run, the step or the file is the reason.
    pub fn open_log(&self, run_id: &str, step: Option<&str>) -> Result<File, LogError> {
        let run_id = RunId::parse(run_id)?;
        let unreadable =
            |source: io::Error| LogError::Unreadable { run_id: run_id.clone(), source };
        let places = self.places(&run_id).map_err(unreadable)?;
        let Some(place) = places.into_iter().next() else {
            return Err(LogError::NoRun { run_id });
        };
        let logs = place.dir.subdirectory("logs").map_err(unreadable)?;
        let name = match step {
            None => COMBINED.to_owned(),
            Some(step) => {
                let names = step_logs(&logs).map_err(unreadable)?;
                match find(&names, step) {
                    Some(name) => name,
                    None => {
                        let steps =
                            names.iter().filter_map(|name| step_of(name)).collect::<Vec<_>>();
                        let step = step.chars().take(100).collect();
                        return Err(LogError::NoStep { run_id, step, steps: steps.join(", ") });
                    }
                }
            }
        };
        logs.file(name).map_err(unreadable)
    }

    /// Reads the last `limit` bytes of a log as valid UTF-8.
    ///
    /// # Errors
    /// The errors of [`ArtifactDir::open_log`].
    pub fn read_log(
        &self,
        run_id: &str,
        step: Option<&str>,
        limit: u64,
    ) -> Result<LogText, LogError> {
        let file = self.open_log(run_id, step)?;
        let run_id = RunId::parse(run_id)?;
        LogText::end_of(&file, limit).map_err(|source| LogError::Unreadable { run_id, source })
    }
}

fn step_logs(logs: &Dir) -> io::Result<Vec<String>> {
    let mut names = vec![];
    for name in logs.names(usize::MAX)? {
        if let Ok(name) = name.into_string()
            && step_of(&name).is_some()
        {
            names.push(name);
        }
    }
    // Sorted by number, because step 100 is after step 99.
    names.sort_by_key(|name| number_and_name(name).map(|(number, _)| number));
    Ok(names)
}

/// Returns the log of the last step of this name.
fn find(names: &[String], step: &str) -> Option<String> {
    let step = safe_name(step);
    names.iter().rfind(|name| step_of(name) == Some(&step)).cloned()
}

fn step_of(log: &str) -> Option<&str> {
    number_and_name(log).map(|(_, name)| name)
}

fn number_and_name(log: &str) -> Option<(u32, &str)> {
    let (number, name) = log.strip_prefix("step-")?.strip_suffix(".log")?.split_once('-')?;
    Some((number.parse().ok()?, name))
}

impl From<LogError> for act_core::Failure {
    fn from(error: LogError) -> Self {
        let (code, hint) = match &error {
            LogError::RunId(_) => {
                ("run_id_invalid", "`act history` lists tasks with their runs; their ids work, too")
            }
            LogError::NoRun { .. } => ("run_unknown", "`act history` lists tasks with their runs"),
            LogError::NoStep { .. } => {
                ("step_unknown", "name one of its steps, or leave --step out for the whole log")
            }
            LogError::Unreadable { .. } => ("run_unreadable", "look at the run's directory"),
        };
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        Self::refused(code, format!("{error}{}", cause.unwrap_or_default())).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARTIFACT-5
    #[test]
    fn a_step_log_is_numbered_and_its_name_is_one_harmless_component() {
        assert_eq!(log_name(1, "test"), "step-01-test.log");
        assert_eq!(log_name(12, "../a b/ü\n"), "step-12-.._a_b___.log");
        assert_eq!(log_name(3, &"x".repeat(5_000)).len(), "step-03-.log".len() + MAX_NAME);
    }

    fn run() -> (tempfile::TempDir, ArtifactDir, RunDir) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("repo")).unwrap();
        let artifacts = ArtifactDir::open(&dir.path().join("a"), &dir.path().join("repo")).unwrap();
        let run = artifacts.create_run(act_core::clock::now()).unwrap();
        run.create_log("combined.log").unwrap().write_all(b"one\ntwo\xff\n").unwrap();
        run.create_log("step-01-unit_test.log").unwrap().write_all(b"one\n").unwrap();
        run.create_log("step-02-unit_test.log").unwrap().write_all(b"two\n").unwrap();
        (dir, artifacts, run)
    }

    // ARTIFACT-9
    #[test]
    fn reads_the_end_of_a_log_by_run_and_step() {
        let (_dir, artifacts, run) = run();
        let read = |step, limit| artifacts.read_log(run.id().as_str(), step, limit).unwrap();
        let all = LogText { text: "one\ntwo\u{fffd}\n".into(), left_out: 0 };
        assert_eq!(read(None, 1000), all);
        assert_eq!(read(None, 5), LogText { text: "two\u{fffd}\n".into(), left_out: 4 });
        assert_eq!(read(Some("unit test"), 100).text, "two\n");
        run.create_log("step-100-unit_test.log").unwrap().write_all(b"last\n").unwrap();
        run.create_log("step-99-unit_test.log").unwrap();
        assert_eq!(read(Some("unit test"), 100).text, "last\n");
    }

    // security line 126
    #[test]
    fn no_name_leads_out_of_the_logs() {
        let (dir, artifacts, run) = run();
        let id = run.id().as_str();
        assert!(matches!(artifacts.read_log("../../etc/passwd", None, 9), Err(LogError::RunId(_))));
        for step in ["../../manifest.json", "", "combined", "../step-01-unit_test"] {
            let error = artifacts.read_log(id, Some(step), 9).unwrap_err().to_string();
            assert!(error.contains("unit_test"), "{error}");
        }
        let absent = "run_20260101_000000_aaaaaa";
        assert!(matches!(artifacts.read_log(absent, None, 9), Err(LogError::NoRun { .. })));

        let secret = dir.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        std::os::unix::fs::symlink(&secret, run.path().join("logs/step-03-x.log")).unwrap();
        assert!(matches!(artifacts.read_log(id, Some("x"), 9), Err(LogError::Unreadable { .. })));
        let fifo = run.path().join("logs/step-04-f.log");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(matches!(artifacts.read_log(id, Some("f"), 9), Err(LogError::Unreadable { .. })));
    }

    #[test]
    fn host_files_are_created_new_and_never_through_a_link() {
        let (dir, _artifacts, run) = run();
        assert!(run.create_log("combined.log").is_err());
        let outside = dir.path().join("outside");
        std::os::unix::fs::symlink(&outside, run.path().join("logs/step-05-y.log")).unwrap();
        assert!(run.create_log("step-05-y.log").is_err());
        assert!(!outside.exists());
    }
}
