//! The files of the repository that a task changes, as they were before: whole, each stored right before its first change.
//!
//! A file that cannot be stored (the disk is full, the limit is reached) does not stop the task; [`Originals::open`] then
//! returns `None`, and whatever needs the file says that it is missing.
//!
//! Beside the files is `changes`, to which a line is added for each change. [`patch_of_task`] makes a patch of both, also
//! after the task was killed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use act_fs::{DIRECTORY, Dir, READ, Root, hex, read_bounded, regular};
use rustix::fs::{Mode, fstat, openat};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::exclusion::is_secret;
use super::git::{head_commit, prefix_in_git};
use super::paths::RepoPath;
use super::proposal::{Blob, ObjectNames, ProposedFile, patch_naming};
use super::reading::digest;
use super::transaction::{FileState, state_of};

/// Maximum number of bytes of all originals of one task: as many as the task may write.
const MAX_BYTES: u64 = 1 << 30;
/// Number of bytes that are copied at a time.
const AT_ONCE: usize = 64 << 10;

/// The name of the file with the changes.
const CHANGES: &str = "changes";
/// Maximum number of bytes of that file: some 200,000 changes. A task that makes more has no patch.
const MAX_CHANGES: u64 = 64 << 20;
/// Maximum number of bytes of all files of a patch together, which are in memory while it is made.
const MAX_PATCHED: u64 = 256 << 20;

/// The originals of one task, in a directory of its own.
#[derive(Debug)]
pub struct Originals {
    dir: Dir,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// By path. The files of the directory have their numbers as names.
    files: BTreeMap<String, Original>,
    bytes: u64,
    next: u64,
    /// The file with the changes; `None` once a line could not be written.
    changes: Option<File>,
    /// Bytes of that file.
    written: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Original {
    name: String,
    sha256: String,
    executable: bool,
}

/// A line of the file with the changes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    /// A file was stored, and is about to be changed.
    Stored { path: String, original: Original },
    /// A file was changed. `before` is its digest at the start of the task; the rest is its present state.
    Changed { path: String, before: Option<String>, now: Option<String>, executable: bool },
}

impl Originals {
    /// Stores originals in `dir`, which must be empty and belong to the host alone.
    pub fn new(dir: Dir) -> Self {
        let kept = Kept { changes: dir.create(CHANGES).ok(), ..Kept::default() };
        Self { dir, kept: Mutex::new(kept) }
    }

    /// Adds a line to the file with the changes. A file that would lack a change is removed.
    fn add(&self, kept: &mut Kept, line: &Line) {
        let Some(file) = &mut kept.changes else { return };
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        kept.written += text.len() as u64;
        if kept.written > MAX_CHANGES || file.write_all(&text).is_err() {
            kept.changes = None;
            let _ = self.dir.remove_file(CHANGES);
        }
    }

    /// Records a change that was made.
    pub(super) fn record(
        &self,
        path: &str,
        before: Option<&str>,
        now: Option<&str>,
        executable: bool,
    ) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, now) = (before.map(str::to_owned), now.map(str::to_owned));
        self.add(&mut kept, &Line::Changed { path: path.to_owned(), before, now, executable });
    }

    /// Stores the file `name` of a directory of the repository, if it has this digest.
    pub(super) fn keep(&self, path: &str, from: impl AsFd, name: &str, sha256: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.files.get(path).is_some_and(|known| known.sha256 == sha256) {
            return;
        }
        let room = MAX_BYTES.saturating_sub(kept.bytes);
        kept.next += 1;
        let stored = kept.next.to_string();
        match self.copy(from, name, &stored, room) {
            Ok(Some((size, digest, executable))) if digest == sha256 => {
                kept.bytes += size;
                let sha256 = sha256.to_owned();
                let original = Original { name: stored, sha256, executable };
                let (path, line) = (path.to_owned(), original.clone());
                self.add(&mut kept, &Line::Stored { path: path.clone(), original: line });
                kept.files.insert(path, original);
            }
            // The file is too large, cannot be read, or is another one by now.
            _ => {
                let _ = self.dir.remove_file(&*stored);
            }
        }
    }

    /// Copies a file; returns its size, its digest and whether its owner may execute it, or `None` when it is too large.
    fn copy(
        &self,
        from: impl AsFd,
        name: &str,
        to: &str,
        room: u64,
    ) -> io::Result<Option<(u64, String, bool)>> {
        let file = regular(File::from(openat(from, name, READ, Mode::empty())?))?;
        let executable = fstat(&file)?.st_mode & 0o100 != 0;
        let mut file = file.take(room.saturating_add(1));
        let mut into = self.dir.create(to)?;
        let (mut hash, mut size, mut buffer) = (Sha256::new(), 0, vec![0; AT_ONCE]);
        loop {
            let bytes = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            size += bytes.len() as u64;
            hash.update(bytes);
            into.write_all(bytes)?;
        }
        Ok((size <= room).then(|| (size, hex(&hash.finalize()), executable)))
    }

    /// Opens the original of a file, and tells whether its owner may execute it. Returns `None` when no original with this
    /// digest is stored.
    pub fn open(&self, path: &str, sha256: &str) -> Option<(File, bool)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let original = kept.files.get(path).filter(|known| known.sha256 == sha256)?;
        Some((self.dir.file(&*original.name).ok()?, original.executable))
    }
}

impl Drop for Originals {
    fn drop(&mut self) {
        // The patch leaves out what files of secrets hold, so nothing needs them after the task.
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, original) in kept.files.iter().filter(|(path, _)| is_secret(path)) {
            let _ = self.dir.remove_file(&*original.name);
        }
    }
}

/// The changes of one task as a patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskPatch {
    /// The patch, which `git apply` accepts.
    pub patch: Vec<u8>,
    /// The files in the patch, with the words `create`, `replace`, `delete` and `move`; a moved file with its old path.
    pub files: Vec<(String, &'static str, Option<String>)>,
    /// The changed files whose names are those of secrets. The patch does not hold them.
    pub secrets: Vec<String>,
    /// All files that the list of changes names, those that are as they were before among them.
    pub listed: Vec<String>,
}

/// Why there is no patch of a task.
#[derive(Debug, thiserror::Error)]
pub enum NoPatch {
    /// The originals of these files are not stored, or not whole. The list is empty where it is unknown what changed.
    #[error("originals are missing")]
    Missing(Vec<String>),
    /// These files are no longer as the task left them.
    #[error("files have changed since")]
    Changed(Vec<String>),
    #[error("the changed files have more than {MAX_PATCHED} bytes together")]
    TooLarge,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The state of a file before and after a task.
#[derive(Debug, Default)]
struct BothStates {
    before: Option<String>,
    now: Option<String>,
    executable: bool,
    /// The stored versions; the one with the digest `before` is the file of the task's start.
    stored: Vec<Original>,
    /// A change was recorded, so `before` and `now` are known.
    known: bool,
}

/// The files that one task changed, as they were before it and as it left them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFiles {
    pub files: Vec<ProposedFile>,
    /// The changed files whose names are those of secrets, which are not among `files`.
    pub secrets: Vec<String>,
    /// All files that the list of changes names, those that are as they were before among them.
    pub listed: Vec<String>,
}

/// Makes a patch of what a task changed in the repository at `root`. `dir` is the directory of its [`Originals`].
///
/// # Errors
/// An original is missing, a file is no longer as the task left it, or the files are too large.
pub fn patch_of_task(root: &Path, dir: &Dir) -> Result<TaskPatch, NoPatch> {
    let TaskFiles { files, secrets, listed: named } = files_of_task(root, dir)?;
    let is_sha256 = head_commit(root).is_some_and(|head| head.len() == 64);
    let names = if is_sha256 { ObjectNames::Sha256 } else { ObjectNames::Sha1 };
    let patch = patch_naming(&files, &prefix_in_git(root), names);
    let moved = |path: &str| files.iter().any(|file| file.from.as_deref() == Some(path));
    let listed = files.iter().filter(|file| file.after.is_some() || !moved(&file.path));
    let listed = listed.map(|file| {
        let op = match (&file.from, &file.before, &file.after) {
            (Some(_), _, _) => "move",
            (None, _, None) => "delete",
            (None, None, Some(_)) => "create",
            (None, Some(_), Some(_)) => "replace",
        };
        (file.path.clone(), op, file.from.clone())
    });
    Ok(TaskPatch { files: listed.collect(), patch, secrets, listed: named })
}

/// Returns the files that a task changed in the repository at `root`. `dir` is the directory of its [`Originals`].
///
/// # Errors
/// An original is missing, a file is no longer as the task left it, or the files are too large.
pub fn files_of_task(root: &Path, dir: &Dir) -> Result<TaskFiles, NoPatch> {
    let tree = Root::open(root).map_err(io::Error::from)?;
    let (mut missing, mut changed, mut secrets) = (vec![], vec![], vec![]);
    let (mut files, mut room) = (vec![], MAX_PATCHED);
    let changes = read_changes(dir)?;
    let named = changes.keys().cloned().collect();
    for (path, states) in changes {
        let found = state_in(&tree, &path)?;
        if !states.known {
            // The task was killed while it changed this file.
            let is_original = |digest: &String| states.stored.iter().any(|o| o.sha256 == *digest);
            match found {
                FileState::File { digest, .. } if is_original(&digest) => {}
                _ => changed.push(path),
            }
            continue;
        }
        if states.before == states.now {
            continue;
        }
        if is_secret(&path) {
            secrets.push(path);
            continue;
        }
        let after = match (found, &states.now) {
            (FileState::Nothing, None) => None,
            (FileState::File { digest, stat, file }, Some(now))
                if digest == *now && (stat.st_mode & 0o100 != 0) == states.executable =>
            {
                Some((file, stat.st_mode & 0o777, now.as_str()))
            }
            _ => {
                changed.push(path);
                continue;
            }
        };
        let original = states.before.as_ref().map(|before| {
            let stored = states.stored.iter().find(|original| original.sha256 == *before)?;
            let mode = if stored.executable { 0o755 } else { 0o644 };
            Some((dir.file(&*stored.name).ok()?, mode, before.as_str()))
        });
        let before = match original {
            None => None,
            Some(Some(original)) => Some(original),
            Some(None) => {
                missing.push(path);
                continue;
            }
        };
        let before = before.map(|side| whole(side, &mut room)).transpose()?;
        let after = after.map(|side| whole(side, &mut room)).transpose()?;
        match (before, after) {
            (Some(None), _) => missing.push(path),
            (_, Some(None)) => changed.push(path),
            (before, after) => {
                let (before, after) = (before.flatten(), after.flatten());
                files.push(ProposedFile { path, from: None, before, after });
            }
        }
    }
    if !missing.is_empty() {
        return Err(NoPatch::Missing(missing));
    }
    if !changed.is_empty() {
        return Err(NoPatch::Changed(changed));
    }
    find_moves(&mut files);
    Ok(TaskFiles { files, secrets, listed: named })
}

/// Looks at a path of the repository. A file that is too large to be one that a task left counts as `TooLarge`.
fn state_in(root: &Root, path: &str) -> io::Result<FileState> {
    let Ok(path) = RepoPath::parse(path) else { return Ok(FileState::Other) };
    let (dir, name) = path.split();
    let dir = match root.open_real(dir.as_bytes(), DIRECTORY) {
        Ok(dir) => dir,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(FileState::Nothing),
        Err(_) => return Ok(FileState::Other),
    };
    state_of(&dir, name, MAX_BYTES)
}

/// Reads a whole file. Returns `None` when it does not have the digest.
fn whole(
    (mut file, mode, sha256): (File, u32, &str),
    room: &mut u64,
) -> Result<Option<Blob>, NoPatch> {
    use std::io::Seek;
    file.rewind()?;
    let bytes = read_bounded(&file, *room).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => NoPatch::TooLarge,
        _ => NoPatch::Io(error),
    })?;
    *room -= bytes.len() as u64;
    Ok((digest(&bytes) == sha256).then(|| Blob::new(bytes, mode)))
}

/// Reads the changes of a task, by path.
fn read_changes(dir: &Dir) -> Result<BTreeMap<String, BothStates>, NoPatch> {
    let file = match dir.file(CHANGES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(NoPatch::Missing(vec![]));
        }
        file => file?,
    };
    let mut files: BTreeMap<String, BothStates> = BTreeMap::new();
    let mut lines = BufReader::new(file.take(MAX_CHANGES));
    let mut line = vec![];
    loop {
        line.clear();
        lines.read_until(b'\n', &mut line)?;
        // A last line without an end is that of a process that was killed before it made the change known.
        if !line.ends_with(b"\n") {
            return Ok(files);
        }
        match serde_json::from_slice(&line).map_err(io::Error::from)? {
            Line::Stored { path, original } => {
                files.entry(path).or_default().stored.push(original);
            }
            Line::Changed { path, before, now, executable } => {
                let states = files.entry(path).or_default();
                if !states.known {
                    states.before = before;
                }
                (states.now, states.executable, states.known) = (now, executable, true);
            }
        }
    }
}

/// Finds files that were created with the content of a deleted one: they were moved.
fn find_moves(files: &mut [ProposedFile]) {
    let mut deleted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.after.is_none()) {
        if let Some(before) = file.before.as_ref().filter(|blob| !blob.bytes.is_empty()) {
            deleted.entry(before.sha256.clone()).or_default().push(file.path.clone());
        }
    }
    for file in files.iter_mut().filter(|file| file.before.is_none()) {
        let sha256 = file.after.as_ref().map(|blob| blob.sha256.as_str()).unwrap_or_default();
        file.from = deleted.get_mut(sha256).and_then(Vec::pop);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use super::*;
    use crate::testing::Fixture;
    use crate::{Change, RepoWriter, WriteRules};

    fn text(originals: &Originals, path: &str, sha256: Option<&String>) -> Option<(String, bool)> {
        let (mut file, executable) = originals.open(path, sha256?)?;
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        Some((text, executable))
    }

    // WORKSPACE-45
    #[test]
    fn each_file_is_stored_as_it_was_before_its_first_change() {
        let base = tempfile::tempdir().unwrap();
        let (repo, kept) = (base.path().join("repo"), base.path().join("kept"));
        std::fs::create_dir_all(&repo).unwrap();
        std::fs::create_dir_all(&kept).unwrap();
        let large = "x\0".repeat(1 << 20);
        for (name, text) in [("a.sh", "one\n"), ("b.bin", large.as_str()), ("c.txt", "three\n")] {
            std::fs::write(repo.join(name), text).unwrap();
        }
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(repo.join("a.sh"), mode).unwrap();
        let originals = Arc::new(Originals::new(Dir::open(&kept).unwrap()));
        let writer = RepoWriter::open(&repo, WriteRules::default()).unwrap();
        let writer = writer.with_originals(Arc::clone(&originals));
        let at = |path: &str| writer.version(path).unwrap().unwrap();
        let apply = |change| writer.apply(&[change], &|| false).unwrap();
        for bytes in [b"two\n", b"six\n"] {
            let (path, expect) = ("a.sh".to_owned(), at("a.sh"));
            apply(Change::Replace { path, expect, bytes: bytes.to_vec() });
        }
        apply(Change::Delete { path: "b.bin".into(), expect: at("b.bin") });
        let (from, to) = ("c.txt".to_owned(), "d.txt".to_owned());
        apply(Change::Move { from, expect: at("c.txt"), to });
        apply(Change::Create { path: "c.txt".into(), bytes: b"new\n".to_vec() });

        let was = |path: &str| {
            let changed = writer.changed();
            let file = changed.iter().find(|file| file.path == path).unwrap();
            text(&originals, path, file.sha256_before.as_ref())
        };
        assert_eq!(was("a.sh"), Some(("one\n".to_owned(), true)));
        assert_eq!(was("b.bin"), Some((large, false)));
        assert_eq!(was("c.txt"), Some(("three\n".to_owned(), false)));
        assert_eq!(was("d.txt"), None);
        assert!(originals.open("a.sh", "another digest").is_none());
        // One file for each original, and the list of changes.
        assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 4);
    }

    fn git(root: &Path, arguments: &[&str]) {
        let done = std::process::Command::new("git").args(arguments).current_dir(root).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// A repository whose writer stores originals.
    fn recorded(format: &str) -> (Fixture, std::path::PathBuf, RepoWriter) {
        let fixture = Fixture::new(&[
            ("text", "one\ntwo\nthree"),
            ("same", "as before\n"),
            ("moved", "this is moved\n"),
            ("deleted", "x\n"),
            (".env", "KEY=secret\n"),
        ]);
        git(&fixture.root, &["init", "-q", &format!("--object-format={format}")]);
        let noise: Vec<u8> =
            (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fixture.write("bin", [&noise[..], b"\0"].concat());
        fixture.write("old.bin", [b"\0", &noise[..77]].concat());
        fixture.write("run.sh", "#!/bin/sh\n");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(fixture.root.join("run.sh"), mode).unwrap();
        git(&fixture.root, &["add", "-A"]);
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"];
        git(&fixture.root, &identity);
        let kept = fixture.outside.join("originals");
        std::fs::create_dir(&kept).unwrap();
        let rules = WriteRules::allowing(&[".env".to_owned()]).unwrap();
        let writer = RepoWriter::open(&fixture.root, rules).unwrap();
        let originals = Arc::new(Originals::new(Dir::open(&kept).unwrap()));
        (fixture, kept, writer.with_originals(originals))
    }

    fn make(writer: &RepoWriter, change: impl FnOnce(&dyn Fn(&str) -> crate::Version) -> Change) {
        let change = change(&|path| writer.version(path).unwrap().unwrap());
        writer.apply(&[change], &|| false).unwrap();
    }

    fn replace(writer: &RepoWriter, path: &str, bytes: &[u8]) {
        let (path, bytes) = (path.to_owned(), bytes.to_vec());
        make(writer, |at| Change::Replace { expect: at(&path), path, bytes });
    }

    fn change_everything(writer: &RepoWriter) {
        replace(writer, "text", b"one\n2\nthree\n\xff");
        replace(writer, "same", b"something else\n");
        replace(writer, "same", b"as before\n");
        replace(writer, "bin", b"small\0");
        replace(writer, "run.sh", b"#!/bin/sh\nexit 1\n");
        replace(writer, ".env", b"KEY=other\n");
        for path in ["deleted", "old.bin"] {
            make(writer, |at| Change::Delete { path: path.into(), expect: at(path) });
        }
        make(writer, |at| Change::Move {
            from: "moved".into(),
            expect: at("moved"),
            to: "dir/a \"b\"".into(),
        });
        for (path, bytes) in [("new.bin", &b"\0new"[..]), ("new", b"text\n"), ("empty", b"")] {
            make(writer, |_| Change::Create { path: path.into(), bytes: bytes.to_vec() });
        }
    }

    // CLI-59
    #[test]
    fn the_patch_of_a_task_undoes_it_and_makes_it_again() {
        for format in ["sha1", "sha256"] {
            let (fixture, kept, writer) = recorded(format);
            let before = Fixture::picture(&fixture.root);
            change_everything(&writer);
            // Also while the task runs, and also after it was killed.
            let made = || patch_of_task(&fixture.root, &Dir::open(&kept).unwrap()).unwrap();
            let TaskPatch { patch, files, secrets, .. } = made();
            drop(writer);
            assert_eq!(made().patch, patch);
            assert_eq!(secrets, [".env"]);
            let is_secret = |text: &[u8]| text.windows(4).any(|at| at == b"KEY=");
            assert!(!is_secret(&patch), "{}", String::from_utf8_lossy(&patch));
            let original = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path();
            let left = kept.read_dir().unwrap().map(original);
            assert!(left.into_iter().all(|path| !is_secret(&std::fs::read(path).unwrap())));
            let listed: Vec<_> = files.iter().map(|(path, op, _)| format!("{op} {path}")).collect();
            let expected = [
                "replace bin",
                "delete deleted",
                "move dir/a \"b\"",
                "create empty",
                "create new",
                "create new.bin",
                "delete old.bin",
                "replace run.sh",
                "replace text",
            ];
            assert_eq!(listed, expected);
            let after = Fixture::picture(&fixture.root);
            let file = fixture.outside.join("patch");
            std::fs::write(&file, &patch).unwrap();
            let file = file.to_str().unwrap();
            git(&fixture.root, &["apply", "-R", file]);
            std::fs::write(fixture.root.join(".env"), "KEY=secret\n").unwrap();
            assert_eq!(Fixture::picture(&fixture.root), before, "{format}");
            let mode = fixture.root.join("run.sh").metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
            git(&fixture.root, &["apply", file]);
            std::fs::write(fixture.root.join(".env"), "KEY=other\n").unwrap();
            assert_eq!(Fixture::picture(&fixture.root), after, "{format}");
        }
    }

    // CLI-59
    #[test]
    fn no_patch_mixes_the_changes_of_a_task_with_others_or_lacks_one() {
        let names = |result: Result<TaskPatch, NoPatch>| match result.unwrap_err() {
            NoPatch::Missing(names) => ("missing", names),
            NoPatch::Changed(names) => ("changed", names),
            other => panic!("{other}"),
        };
        let (fixture, kept, writer) = recorded("sha1");
        change_everything(&writer);
        drop(writer);
        let made = || patch_of_task(&fixture.root, &Dir::open(&kept).unwrap());
        fixture.write("text", "later");
        fixture.write("deleted", "created again");
        std::fs::remove_file(fixture.root.join("new")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(fixture.root.join("bin"), mode).unwrap();
        let changed = ["bin", "deleted", "new", "text"].map(str::to_owned).to_vec();
        assert_eq!(names(made()), ("changed", changed));

        let (fixture, kept, writer) = recorded("sha1");
        change_everything(&writer);
        let made = || patch_of_task(&fixture.root, &Dir::open(&kept).unwrap());
        // A file that another program changed, or that could not be stored.
        let stored = std::fs::read(kept.join("1")).unwrap();
        std::fs::write(kept.join("1"), "other").unwrap();
        assert_eq!(names(made()), ("missing", vec!["text".to_owned()]));
        std::fs::remove_file(kept.join("1")).unwrap();
        assert_eq!(names(made()), ("missing", vec!["text".to_owned()]));
        std::fs::write(kept.join("1"), stored).unwrap();
        // The last line of a killed process is no change; its file may have been changed nevertheless.
        let list = std::fs::read_to_string(kept.join("changes")).unwrap();
        let at_start = list.find("\n").unwrap() + 1;
        std::fs::write(kept.join("changes"), format!("{}{{\"chan", &list[..at_start])).unwrap();
        assert_eq!(names(made()), ("changed", vec!["text".to_owned()]));
        std::fs::remove_file(kept.join("changes")).unwrap();
        assert_eq!(names(made()), ("missing", vec![]));
    }
}
