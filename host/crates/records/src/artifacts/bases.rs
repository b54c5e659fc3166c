//! Warm bases: `cache/bases/KEY` holds what the steps of `prepare` left of one commit, and is never changed.
//!
//! A base is made in `cache/bases/.new-KEY` and renamed once it is whole and on the disk, so that a process that is killed
//! leaves nothing that another one would use. The locks are those of the directories: exclusive while a base is made or
//! removed, shared while a run has it as a lower layer. A container engine may hold an image for a base; who removes a base
//! removes its image.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use act_fs::lock::{self, Kind};
use act_fs::{Dir, Identity};
use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_NOW, renameat, statat, utimensat};
use serde::{Deserialize, Serialize};

use super::artifact_dir::ArtifactDir;
use super::cache::{add_below, directories, size_of};
use super::run_dir::RunDir;
use super::tree::{remove_tree, sweep};

/// The directory of the bases below `cache`. No image has this name.
pub(super) const BASES: &str = "bases";
const RECORD: &str = "base.json";
const NEW: &str = ".new-";
const REMOVING: &str = ".removing-";
/// Maximum number of bytes of a record. A commit with 200,000 files has some 30 MiB.
const MAX_RECORD: u64 = 256 << 20;

/// Bytes that all bases together may have: a few of a large project, or many of small ones.
const MOST_BYTES: u64 = 20 << 30;
/// Time after its last use at which a base is removed: two weeks without work on the project.
const MOST_IDLE: Duration = Duration::from_hours(14 * 24);

/// A file of the commit that a base was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseFile {
    /// `100644`, `100755` or `120000`.
    pub mode: String,
    pub sha256: String,
}

/// The record of a base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseRecord {
    /// The digest of everything that decides what the base holds.
    pub key: String,
    /// The path of the repository.
    pub repo: String,
    /// The image of the pipeline, by its name.
    pub image: String,
    /// The address of the engine that ran `prepare`.
    pub engine: String,
    /// The id of the engine's image that holds the container's own changes; `None` if there are none.
    pub container_image: Option<String>,
    /// Bytes of that image beyond the image of the pipeline.
    pub image_bytes: u64,
    /// The run of `prepare`, whose logs are in its directory while it exists.
    pub run_id: String,
    /// The end of `prepare` in seconds since 1970, rounded up: every file of the base is older.
    pub ended: i64,
    /// Bytes of the files.
    pub bytes: u64,
    /// The files of the commit by their paths.
    pub files: BTreeMap<String, BaseFile>,
}

/// A base in use. No process removes it while this value exists.
#[derive(Debug)]
pub struct Base {
    pub record: BaseRecord,
    path: PathBuf,
    handle: Dir,
}

/// A base that is being made. No other process makes it while the value exists.
#[derive(Debug)]
pub struct NewBase {
    key: String,
    handle: Dir,
}

/// A base as `act cache` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseSize {
    pub key: String,
    pub repo: String,
    pub image: String,
    pub engine: String,
    pub container_image: Option<String>,
    /// Bytes of the files and of the image.
    pub bytes: u64,
}

impl From<&BaseRecord> for BaseSize {
    fn from(record: &BaseRecord) -> Self {
        Self {
            key: record.key.clone(),
            repo: record.repo.clone(),
            image: record.image.clone(),
            engine: record.engine.clone(),
            container_image: record.container_image.clone(),
            bytes: record.bytes.saturating_add(record.image_bytes),
        }
    }
}

impl Base {
    /// Returns the path of a part: `tree`, `cache` or one of [`STEP_PARTS`](super::STEP_PARTS).
    pub fn part(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns whether a part holds anything.
    ///
    /// # Errors
    /// The part cannot be listed.
    pub fn holds(&self, part: &str) -> io::Result<bool> {
        match self.handle.existing_subdirectory(part)? {
            Some(part) => Ok(!part.names(1)?.is_empty()),
            None => Ok(false),
        }
    }

    /// Reads a file of the commit from the tree, at most `most` bytes.
    ///
    /// # Errors
    /// The file cannot be read, or is larger.
    pub fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let (directory, name) = self.parent(path)?;
        directory.read(name, most)
    }

    /// Returns the number of bytes of a file of the commit in the tree.
    ///
    /// # Errors
    /// The file is not there.
    pub fn size(&self, path: &Path) -> io::Result<u64> {
        let (directory, name) = self.parent(path)?;
        Ok(u64::try_from(directory.stat(name)?.st_size).unwrap_or_default())
    }

    /// Opens the directory of a file in the tree.
    fn parent<'p>(&self, path: &'p Path) -> io::Result<(Dir, &'p OsStr)> {
        let mut at = self.handle.subdirectory("tree")?;
        let mut names: Vec<_> = path.iter().collect();
        let name = names.pop().ok_or(io::ErrorKind::InvalidFilename)?;
        for directory in names {
            at = at.subdirectory(directory)?;
        }
        Ok((at, name))
    }

    /// Opens a part for reading its names, or returns `None` if there is none.
    ///
    /// # Errors
    /// The part cannot be opened.
    pub fn open(&self, part: &str) -> io::Result<Option<Dir>> {
        self.handle.existing_subdirectory(part)
    }
}

impl NewBase {
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Gives the files of a directory a second name in the part `name`. Files that were hard links of each other stay so.
    ///
    /// # Errors
    /// A file cannot be linked.
    pub fn link(&self, name: &str, from: &Dir) -> io::Result<()> {
        add_below(from, &self.handle.create_subdirectory(name)?)
    }

    /// Takes what the steps of a run wrote, and makes it harmless as [`sweep`] does. Call it only after the container was
    /// removed.
    ///
    /// # Errors
    /// A part cannot be moved or swept.
    pub fn take(&self, run: &RunDir) -> io::Result<()> {
        run.move_parts(&self.handle)?;
        for part in directories(&self.handle)? {
            sweep(self.handle.subdirectory(&*part)?.into())?;
        }
        Ok(())
    }
}

fn is_key(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl ArtifactDir {
    fn bases_dir(&self) -> io::Result<Dir> {
        self.cache.private_subdirectory(BASES)
    }

    /// Opens the base of a key for use, or returns `None` if there is none.
    ///
    /// # Errors
    /// A directory cannot be opened.
    pub fn base(&self, key: &str) -> io::Result<Option<Base>> {
        let bases = self.bases_dir()?;
        let Some(handle) = bases.existing_subdirectory(key)? else { return Ok(None) };
        // Who removes it holds the lock.
        if !lock::try_lock(&handle, Kind::Shared)? || !is_named(&bases, key, &handle) {
            return Ok(None);
        }
        let Some(record) = read_record(&handle).filter(|record| record.key == key) else {
            return Ok(None);
        };
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        utimensat(&handle, RECORD, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Some(Base { record, path: self.bases_path().join(key), handle }))
    }

    fn bases_path(&self) -> PathBuf {
        self.path().join("cache").join(BASES)
    }

    /// Begins to make the base of a key, and waits while another process makes it. Returns `None` when `wanted` returns
    /// false, and when another process has published it meanwhile.
    ///
    /// # Errors
    /// A directory cannot be created or cleared.
    pub fn begin_base(
        &self,
        key: &str,
        mut wanted: impl FnMut() -> bool,
    ) -> io::Result<Option<NewBase>> {
        let bases = self.bases_dir()?;
        let name = format!("{NEW}{key}");
        let handle = bases.private_subdirectory(&*name)?;
        // The process that made it uses it under the same lock, so waiting ends when the base has its name.
        let wanted = || wanted() && is_named(&bases, &name, &handle);
        if !lock::wait_while(&handle, Kind::Exclusive, Duration::MAX, wanted)?
            || !is_named(&bases, &name, &handle)
        {
            return Ok(None);
        }
        if bases.contains(key)? {
            // It was published before the directory above was created.
            remove_tree(&bases, &name)?;
            return Ok(None);
        }
        // A process that was killed left a part.
        for inside in handle.names(usize::MAX)? {
            remove_tree(&handle, &inside.to_string_lossy())?;
        }
        Ok(Some(NewBase { key: key.to_owned(), handle }))
    }

    /// Returns whether a process is making the base of a key.
    ///
    /// # Errors
    /// A directory cannot be opened.
    pub fn is_base_begun(&self, key: &str) -> io::Result<bool> {
        if !is_key(key) {
            return Ok(false);
        }
        let begun = self.bases_dir()?.existing_subdirectory(&*format!("{NEW}{key}"))?;
        begun.map_or(Ok(false), |begun| lock::try_lock(&begun, Kind::Shared).map(|free| !free))
    }

    /// Publishes a base that is whole, and opens it for use.
    ///
    /// # Errors
    /// It cannot be written to the disk.
    pub fn publish_base(&self, new: NewBase, mut record: BaseRecord) -> io::Result<Base> {
        let NewBase { key, handle } = new;
        record.key.clone_from(&key);
        record.bytes = size_of(&handle)?.0;
        let mut file = handle.create(RECORD)?;
        file.write_all(&serde_json::to_vec(&record)?)?;
        // One call for hundreds of thousands of files.
        rustix::fs::syncfs(handle.as_fd())?;
        let bases = self.bases_dir()?;
        renameat(&bases, format!("{NEW}{key}"), &bases, key.as_str())?;
        bases.sync()?;
        lock::try_lock(&handle, Kind::Shared)?;
        Ok(Base { path: self.bases_path().join(&key), record, handle })
    }

    /// Removes a base that was begun and will not be published.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn drop_base(&self, new: NewBase) -> io::Result<()> {
        remove_tree(self.bases_dir()?, &format!("{NEW}{}", new.key))
    }

    /// Lists the bases, sorted by repository and key.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn bases(&self) -> io::Result<Vec<BaseSize>> {
        let mut found: Vec<_> = self.found()?.into_iter().map(|(base, _)| base).collect();
        found.sort_by(|a, b| (&a.repo, &a.key).cmp(&(&b.repo, &b.key)));
        Ok(found)
    }

    /// Returns each base with the time of its last use.
    fn found(&self) -> io::Result<Vec<(BaseSize, SystemTime)>> {
        let bases = self.bases_dir()?;
        let mut found = vec![];
        for key in directories(&bases)?.into_iter().filter(|name| is_key(name)) {
            let Some(handle) = bases.existing_subdirectory(&*key)? else { continue };
            let (Some(record), Ok(stat)) =
                (read_record(&handle), statat(&handle, RECORD, AtFlags::SYMLINK_NOFOLLOW))
            else {
                // No run can use a base without a readable record, so it is removed first.
                let empty = BaseSize {
                    key,
                    repo: String::new(),
                    image: String::new(),
                    engine: String::new(),
                    container_image: None,
                    bytes: 0,
                };
                found.push((empty, SystemTime::UNIX_EPOCH));
                continue;
            };
            let used = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
            found
                .push((BaseSize { key, ..BaseSize::from(&record) }, SystemTime::UNIX_EPOCH + used));
        }
        Ok(found)
    }

    /// Removes the bases that were not used for 14 days and, the least recently used first, those beyond 20 GiB. Bases in
    /// use stay. Returns the removed ones.
    ///
    /// # Errors
    /// A directory cannot be read or removed.
    pub fn prune_bases(&self) -> io::Result<Vec<BaseSize>> {
        self.prune_bases_to(SystemTime::now(), MOST_BYTES)
    }

    fn prune_bases_to(&self, now: SystemTime, most: u64) -> io::Result<Vec<BaseSize>> {
        let mut found = self.found()?;
        found.sort_by_key(|(_, used)| *used);
        let mut bytes: u64 = found.iter().map(|(base, _)| base.bytes).sum();
        let mut removed = vec![];
        for (base, used) in found {
            let idle = now.duration_since(used).unwrap_or_default();
            if (idle > MOST_IDLE || bytes > most) && self.remove_base(&base.key)? {
                bytes -= base.bytes;
                removed.push(base);
            }
        }
        self.clear_unfinished()?;
        Ok(removed)
    }

    /// Removes all bases that no run uses. Returns the removed ones and the number of those in use.
    ///
    /// # Errors
    /// A directory cannot be read or removed.
    pub fn clear_bases(&self) -> io::Result<(Vec<BaseSize>, usize)> {
        let (mut cleared, mut in_use) = (vec![], 0);
        for base in self.bases()? {
            if self.remove_base(&base.key)? {
                cleared.push(base);
            } else {
                in_use += 1;
            }
        }
        self.clear_unfinished()?;
        Ok((cleared, in_use))
    }

    /// Removes a base unless a run uses it. Returns whether it is gone.
    ///
    /// # Errors
    /// A directory cannot be removed.
    pub fn remove_base(&self, key: &str) -> io::Result<bool> {
        let bases = self.bases_dir()?;
        let Some(handle) = bases.existing_subdirectory(key)? else { return Ok(true) };
        if !lock::try_lock(&handle, Kind::Exclusive)? {
            return Ok(false);
        }
        self.discard(&bases, key)?;
        Ok(true)
    }

    /// Removes a base that its only user found to be wrong, so that no process opens it any more. Processes that use
    /// it already keep its layers.
    ///
    /// # Errors
    /// A directory cannot be removed.
    pub fn destroy_base(&self, base: Base) -> io::Result<()> {
        let bases = self.bases_dir()?;
        let key = base.record.key.clone();
        // The name is removed first: from then on no run begins with the base.
        let hidden = format!("{REMOVING}{key}");
        if is_named(&bases, &key, &base.handle) {
            remove_tree(&bases, &hidden)?;
            renameat(&bases, key.as_str(), &bases, hidden.as_str())?;
        }
        if lock::try_lock(&base.handle, Kind::Exclusive)? {
            remove_tree(&bases, &hidden)?;
        }
        Ok(())
    }

    fn discard(&self, bases: &Dir, key: &str) -> io::Result<()> {
        let hidden = format!("{REMOVING}{key}");
        remove_tree(bases, &hidden)?;
        renameat(bases, key, bases, hidden.as_str())?;
        remove_tree(bases, &hidden)
    }

    /// Removes what killed processes left: bases that were never published, and those whose removal had begun.
    fn clear_unfinished(&self) -> io::Result<()> {
        let bases = self.bases_dir()?;
        for name in directories(&bases)? {
            if !name.starts_with(NEW) && !name.starts_with(REMOVING) {
                continue;
            }
            let Some(handle) = bases.existing_subdirectory(&*name)? else { continue };
            if lock::try_lock(&handle, Kind::Exclusive)? && is_named(&bases, &name, &handle) {
                remove_tree(&bases, &name)?;
            }
        }
        Ok(())
    }
}

fn is_named(parent: &Dir, name: &str, handle: &Dir) -> bool {
    let named = parent.stat(name).map(|stat| Identity::of_stat(&stat));
    matches!((named, handle.identity()), (Ok(named), Ok(held)) if named == held)
}

fn read_record(base: &Dir) -> Option<BaseRecord> {
    let text = base.read(RECORD, MAX_RECORD).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn artifacts() -> (tempfile::TempDir, ArtifactDir) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("repo")).unwrap();
        let artifacts = ArtifactDir::open(&dir.path().join("a"), &dir.path().join("repo")).unwrap();
        (dir, artifacts)
    }

    fn record(repo: &str) -> BaseRecord {
        BaseRecord {
            key: String::new(),
            repo: repo.into(),
            image: "i".into(),
            engine: "e".into(),
            container_image: None,
            image_bytes: 0,
            run_id: "r".into(),
            ended: 1,
            bytes: 0,
            files: BTreeMap::new(),
        }
    }

    fn make(artifacts: &ArtifactDir, key: &str) -> Base {
        let run = artifacts.create_run(act_core::clock::now()).unwrap();
        let (_, view) = run.create_view().unwrap();
        std::fs::write(view.join("file"), "12345").unwrap();
        std::fs::write(run.path().join("home/x"), "y").unwrap();
        let new = artifacts.begin_base(key, || true).unwrap().unwrap();
        new.take(&run).unwrap();
        artifacts.publish_base(new, record("/x")).unwrap()
    }

    // ARTIFACT-22
    #[test]
    fn a_base_has_what_a_run_wrote_and_is_found_by_its_key() {
        let (_dir, artifacts) = artifacts();
        assert!(artifacts.base(KEY).unwrap().is_none());
        let made = make(&artifacts, KEY);
        assert_eq!(made.read(Path::new("file"), 9).unwrap(), b"12345");
        assert!(made.holds("home").unwrap());
        assert!(!made.holds("db").unwrap());
        drop(made);
        let found = artifacts.base(KEY).unwrap().unwrap();
        assert_eq!(std::fs::read(found.part("home").join("x")).unwrap(), b"y");
        assert!(artifacts.base(OTHER).unwrap().is_none());
        assert!(artifacts.cache_sizes().unwrap().is_empty(), "no download cache");
        let listed = artifacts.bases().unwrap();
        assert_eq!((listed.len(), listed[0].key.as_str()), (1, KEY));
        assert!(listed[0].bytes >= 6, "{listed:?}");
    }

    // ARTIFACT-22
    #[test]
    fn a_base_that_was_not_finished_is_never_used_and_is_made_anew() {
        let (_dir, artifacts) = artifacts();
        let half = artifacts.begin_base(KEY, || true).unwrap().unwrap();
        std::fs::write(artifacts.bases_path().join(format!("{NEW}{KEY}")).join("base.json"), "{}")
            .unwrap();
        assert!(artifacts.base(KEY).unwrap().is_none());
        assert!(artifacts.bases().unwrap().is_empty());
        assert!(artifacts.begin_base(KEY, || false).unwrap().is_none(), "another makes it");
        assert!(artifacts.is_base_begun(KEY).unwrap() && !artifacts.is_base_begun(OTHER).unwrap());
        artifacts.prune_bases().unwrap();
        assert!(artifacts.bases_path().join(format!("{NEW}{KEY}")).exists(), "it is being made");
        // As when its process is killed.
        drop(half);
        assert!(!artifacts.is_base_begun(KEY).unwrap());
        let again = artifacts.begin_base(KEY, || true).unwrap().unwrap();
        assert!(again.handle.names(9).unwrap().is_empty(), "nothing of the first");
        drop(again);
        artifacts.prune_bases().unwrap();
        assert!(!artifacts.bases_path().join(format!("{NEW}{KEY}")).exists());
    }

    // ARTIFACT-22
    #[test]
    fn who_waits_for_a_base_that_another_makes_finds_it() {
        let (_dir, artifacts) = artifacts();
        let run = artifacts.create_run(act_core::clock::now()).unwrap();
        run.create_view().unwrap();
        let new = artifacts.begin_base(KEY, || true).unwrap().unwrap();
        let artifacts = &artifacts;
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| artifacts.begin_base(KEY, || true).unwrap().is_none());
            std::thread::sleep(Duration::from_millis(50));
            new.take(&run).unwrap();
            let made = artifacts.publish_base(new, record("/x")).unwrap();
            assert!(waiting.join().unwrap(), "although the base is in use");
            assert!(artifacts.base(KEY).unwrap().is_some());
            drop(made);
        });
    }

    // ARTIFACT-22
    #[test]
    fn the_least_recently_used_go_first_and_never_one_in_use() {
        let (_dir, artifacts) = artifacts();
        let day = Duration::from_hours(24);
        drop(make(&artifacts, KEY));
        let other = make(&artifacts, OTHER);
        let age = |key: &str, days: u32| {
            let file = std::fs::File::open(artifacts.bases_path().join(key).join(RECORD)).unwrap();
            file.set_modified(SystemTime::now() - days * day).unwrap();
        };
        let keys = |removed: Vec<BaseSize>| -> Vec<String> {
            removed.into_iter().map(|base| base.key).collect()
        };
        age(OTHER, 9);
        age(KEY, 3);
        let now = SystemTime::now();
        assert_eq!(keys(artifacts.prune_bases_to(now, u64::MAX).unwrap()), [""; 0]);
        let one = other.record.bytes;
        // The older base is in use, so the newer one is removed.
        assert_eq!(keys(artifacts.prune_bases_to(now, one).unwrap()), [KEY]);
        assert_eq!(keys(artifacts.prune_bases_to(now + 20 * day, 0).unwrap()), [""; 0]);
        assert_eq!(artifacts.clear_bases().unwrap().1, 1);
        drop(other);
        assert_eq!(keys(artifacts.prune_bases_to(now + 4 * day, u64::MAX).unwrap()), [""; 0]);
        assert_eq!(keys(artifacts.prune_bases_to(now + 6 * day, u64::MAX).unwrap()), [OTHER]);
        drop(make(&artifacts, KEY));
        assert_eq!(artifacts.clear_bases().unwrap().0.len(), 1);
    }

    // ARTIFACT-22
    #[test]
    fn a_base_that_was_disproved_is_found_by_nobody_while_others_still_use_it() {
        let (_dir, artifacts) = artifacts();
        let made = make(&artifacts, KEY);
        let user = artifacts.base(KEY).unwrap().unwrap();
        artifacts.destroy_base(made).unwrap();
        assert!(artifacts.base(KEY).unwrap().is_none());
        assert!(user.read(Path::new("file"), 9).is_err() || user.holds("home").is_ok());
        drop(user);
        artifacts.prune_bases().unwrap();
        assert!(!artifacts.bases_path().join(format!("{REMOVING}{KEY}")).exists());
    }
}
