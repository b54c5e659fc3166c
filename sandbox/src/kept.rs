//! Trees on the base volume, which outlive their Pods, so that a run gets only what has changed since an earlier one.
//!
//! A tree is a directory with the files of one repository. The steps of one run at a time mount it, and read-only. A run takes a
//! tree by renaming its directory, which can succeed only once, and gives it back by renaming it again. A list beside the files has
//! the digest of each of them, and what the file system says of the file since it was written: a file whose inode, size or times
//! are others was changed by somebody, and is asked for again. The digest that a process of the steps computes over all files
//! (VERIFIER-12) decides in the end; a tree that it does not confirm is removed.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::{PIECE, Pieces};

/// The states in the name of a directory, between the repository and the run: a tree that no run has, one that a run has, and one
/// that is being removed. After `.used-` follows the second since 1970 at which the run is over for certain. All directories lie side
/// by side, because a kubelet that finds no directory makes it and those above it, which then belong to root.
const FREE: &str = ".free-";
const USED: &str = ".used-";
const REMOVED: &str = ".removed-";
/// Characters of the name of a repository.
const REPOSITORY: usize = 32;
/// Maximum number of trees of one repository that wait for a run. A run beyond them removes its tree.
const MOST_FREE: usize = 8;
/// How long a tree stays that no run has used.
const UNUSED: Duration = Duration::from_secs(14 * 24 * 3600);
/// How far the clocks of the host and of the nodes may be apart, in seconds.
const SKEW: u64 = 3600;
/// The words of what the host sends. The bounds are no lower than those of the host.
const QUESTION: u8 = b'Q';
const DIRECTORY: u8 = b'D';
const LINK: u8 = b'L';
const FILE: u8 = b'F';
const LARGE: u8 = b'W';
const BYTES: u8 = b'B';
const MOST_FILES: usize = 16_384;
const LONGEST: usize = 64 << 10;
const LARGEST: usize = 8 << 20;
/// Maximum number of files in a list, which takes 400 bytes of memory for each. Those beyond it are asked for in each run.
const LISTED: usize = 300_000;

/// The user of the steps cannot write to the base volume.
#[derive(Debug)]
pub(crate) struct NoBase;

impl std::fmt::Display for NoBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the base volume cannot be written to")
    }
}

impl std::error::Error for NoBase {}

/// Takes a free tree for a run, or makes an empty one. `root` is the directory that it has then, in which the directories are
/// made: that of the files, and the mount points among them.
pub(crate) fn take(root: &Path, directories: &[PathBuf]) -> io::Result<()> {
    let taken = || {
        let tree = Name::of(root).filter(|name| name.state == USED);
        let Name { place, repository, .. } = tree.ok_or(io::ErrorKind::InvalidInput)?;
        let prepare = || -> io::Result<()> {
            // A tree that is used is not removed as an old one. To rename a directory does not change its time.
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let times = Timestamps { last_access: now, last_modification: now };
            rustix::fs::utimensat(CWD, root, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            directories.iter().try_for_each(|directory| make_directory(root, directory))
        };
        for free in trees(place, repository, FREE)? {
            if fs::rename(&free, root).is_err() {
                continue;
            }
            if is_directory(root) && prepare().is_ok() {
                return Ok(());
            }
            // The directory belongs to another user, or it is no directory.
            fs::rename(root, Name::of(&free).ok_or(io::ErrorKind::InvalidInput)?.with(REMOVED))?;
        }
        fs::create_dir(root)?;
        prepare()
    };
    taken().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            io::Error::other(NoBase)
        }
        _ => error,
    })
}

/// The name of a tree: the directory of all trees, its repository, its state, and what follows.
struct Name<'a> {
    place: &'a Path,
    repository: &'a str,
    state: &'static str,
    rest: &'a str,
}

impl<'a> Name<'a> {
    /// Returns the name of a tree; `None` for what is none.
    fn of(root: &'a Path) -> Option<Self> {
        let (place, name) = (root.parent()?, root.file_name()?.to_str()?);
        let (repository, after) = name.split_at_checked(REPOSITORY)?;
        let state = [FREE, USED, REMOVED].into_iter().find(|state| after.starts_with(state))?;
        let is_one = repository.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_one.then(|| Self { place, repository, state, rest: &after[state.len()..] })
    }

    fn with(&self, state: &str) -> PathBuf {
        self.place.join(format!("{}{state}{}", self.repository, self.rest))
    }

    /// Returns whether the run that has the tree is over for certain.
    fn is_over(&self) -> bool {
        let until = self.rest.split('-').next().and_then(|until| until.parse::<u64>().ok());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        until.is_some_and(|until| until.saturating_add(SKEW) < now.as_secs())
    }
}

/// Returns the trees of a repository in a state.
fn trees(place: &Path, repository: &str, state: &str) -> io::Result<Vec<PathBuf>> {
    let found = fs::read_dir(place)?.flatten().map(|one| one.path());
    let is = |path: &PathBuf| {
        Name::of(path).is_some_and(|name| name.repository == repository && name.state == state)
    };
    Ok(found.filter(is).collect())
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Makes a directory below a tree, in place of whatever else is there.
fn make_directory(root: &Path, directory: &Path) -> io::Result<()> {
    let below = directory.strip_prefix(root).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut path = root.to_owned();
    for name in below {
        path.push(name);
        if !is_directory(&path) {
            clear(&path)?;
            fs::create_dir(&path)?;
        }
    }
    Ok(())
}

/// Lets other runs have the tree of this one, or sets it aside for the next Pod to remove, because that may take long and the host
/// waits: a tree of which nobody has seen that it is what it should be, or one more than are needed.
pub(crate) fn give_back(root: &Path, sound: bool) -> io::Result<()> {
    let name = Name::of(root).ok_or(io::ErrorKind::InvalidInput)?;
    let is_needed = sound && trees(name.place, name.repository, FREE)?.len() < MOST_FREE;
    fs::rename(root, name.with(if is_needed { FREE } else { REMOVED }))
}

/// Removes the trees of runs that were killed, those that no run has used for a long time, and those that were set aside. Another
/// Pod may be doing the same.
pub(crate) fn tidy(place: &Path) {
    for found in fs::read_dir(place).into_iter().flatten().flatten() {
        let root = found.path();
        let Some(name) = Name::of(&root) else { continue };
        let changed = found.metadata().and_then(|found| found.modified());
        let age = changed.ok().and_then(|changed| changed.elapsed().ok());
        let is_over = match name.state {
            USED => name.is_over(),
            FREE => age.is_some_and(|age| age > UNUSED),
            _ => true,
        };
        let aside = name.with(REMOVED);
        // No run can take a tree that has this name.
        if is_over && (name.state == REMOVED || fs::rename(&root, &aside).is_ok()) {
            let _ = clear(&aside);
        }
    }
}

/// Makes a tree what the host describes. `spared` are directories in it at which something else is mounted.
pub(crate) fn refresh(
    top: &Path,
    spared: &[PathBuf],
    input: &mut impl Read,
    output: &mut impl Write,
) -> io::Result<()> {
    let pieces = Pieces { input, left: 0, ended: false };
    // The words are short. No byte of the next request arrives before the answer to this one.
    let mut input = BufReader::with_capacity(PIECE, pieces);
    let mut tree = Tree::open(top)?;
    while tree.next(&mut input, output)? {}
    if !input.get_ref().ended {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    tree.remove_others(Path::new(""), spared)?;
    tree.store_list()
}

/// The inode, size and times of a file. Only the kernel sets the time of the last change.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp([u64; 6]);

impl Stamp {
    fn of(found: &fs::Metadata) -> Self {
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        let [modified, modified_nanos, changed, changed_nanos] = times.map(i64::cast_unsigned);
        Self([found.ino(), found.size(), modified, modified_nanos, changed, changed_nanos])
    }
}

/// A file as the host describes it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Description {
    digest: [u8; 32],
    size: u32,
    mode: u32,
    modified: u64,
}

struct Tree {
    top: PathBuf,
    /// The files that were written, as the list has them.
    known: HashMap<PathBuf, (Description, Stamp)>,
    /// The files and links of this run, and the directories.
    seen: HashSet<PathBuf>,
    /// The files of this run for the list.
    list: Vec<(PathBuf, Description, Stamp)>,
    /// The files that were asked about and not named yet. False for one whose content the host sends.
    asked: VecDeque<(PathBuf, Description, bool)>,
    large: Option<Large>,
    /// The directory that was looked at last.
    real: Option<PathBuf>,
}

/// The large file that is being written.
struct Large {
    file: File,
    mode: u32,
    modified: u64,
    /// The number of bytes that are missing.
    left: u64,
}

impl Tree {
    fn open(top: &Path) -> io::Result<Self> {
        if !is_directory(top) {
            clear(top)?;
            fs::create_dir(top)?;
        }
        // Somebody may have left a pipe there, for which an open would wait.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let list = rustix::fs::open(top.with_extension("list"), flags, Mode::empty());
        let list = list
            .ok()
            .map(File::from)
            .filter(|list| list.metadata().is_ok_and(|found| found.is_file()));
        let known = list.map(|list| read_list(&mut BufReader::new(list))).unwrap_or_default();
        Ok(Self {
            top: top.to_owned(),
            known,
            seen: HashSet::new(),
            list: vec![],
            asked: VecDeque::new(),
            large: None,
            real: None,
        })
    }

    /// Carries out the next word of the host. False is the end.
    fn next(&mut self, input: &mut impl Read, output: &mut impl Write) -> io::Result<bool> {
        let mut word = [0];
        if input.read(&mut word)? == 0 {
            return match (&self.large, self.asked.is_empty()) {
                (None, true) => Ok(false),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        if self.large.is_some() && word != [BYTES] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match word {
            [QUESTION] => {
                let mut answer = vec![];
                for _ in 0..number(input, MOST_FILES)? {
                    let path = path(input)?;
                    let described = Description::read(input)?;
                    let has = self.has(&path, described)?;
                    answer.push(if has { b'1' } else { b'0' });
                    self.asked.push_back((path, described, has));
                }
                output.write_all(&answer)?;
                output.flush()?;
            }
            [DIRECTORY] => {
                let (path, mode) = (path(input)?, number(input, 0o7777)?);
                self.directory(path, mode as u32)?;
            }
            [LINK] => {
                let (path, target) = (path(input)?, bytes(input)?);
                let full = self.top.join(&path);
                let target = PathBuf::from(std::ffi::OsString::from_vec(target));
                if fs::read_link(&full).ok().as_ref() != Some(&target) {
                    clear(&full)?;
                    symlink(target, full)?;
                }
                self.seen.insert(path);
            }
            [FILE] => {
                let (path, described, has) =
                    self.asked.pop_front().ok_or(io::ErrorKind::InvalidData)?;
                if !has {
                    self.write(&path, described, input)?;
                }
                self.seen.insert(path);
            }
            [LARGE] => {
                let path = path(input)?;
                let (mode, modified) = (number(input, 0o7777)? as u32, long(input)?);
                let (left, file) = (long(input)?, self.create(&path)?);
                self.large = Some(Large { file, mode, modified, left });
                self.seen.insert(path);
            }
            [BYTES] => {
                let count = number(input, usize::MAX)? as u64;
                let mut large = self.large.take().ok_or(io::ErrorKind::InvalidData)?;
                large.left = large.left.checked_sub(count).ok_or(io::ErrorKind::InvalidData)?;
                if io::copy(&mut input.take(count), &mut large.file)? < count {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                match large.left {
                    0 => finish(&large.file, large.mode, large.modified)?,
                    _ => self.large = Some(large),
                }
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(true)
    }

    /// Returns whether the tree has a file of this content, and gives it its mode and time then.
    fn has(&mut self, path: &Path, described: Description) -> io::Result<bool> {
        if !self.is_below_directories(path) {
            return Ok(false);
        }
        let Some((known, stamp)) = self.known.get(path) else { return Ok(false) };
        if (known.digest, known.size) != (described.digest, described.size) {
            return Ok(false);
        }
        let full = self.top.join(path);
        let Ok(mut found) = fs::symlink_metadata(&full) else { return Ok(false) };
        if !found.is_file() || Stamp::of(&found) != *stamp {
            return Ok(false);
        }
        if *known != described {
            finish(&File::open(&full)?, described.mode, described.modified)?;
            found = fs::symlink_metadata(&full)?;
        }
        self.listed(path, described, &found);
        Ok(true)
    }

    /// Returns whether everything above a path is a directory. A link would lead to another file.
    fn is_below_directories(&mut self, path: &Path) -> bool {
        let parent = path.parent().unwrap_or(Path::new(""));
        if self.real.as_deref() == Some(parent) {
            return true;
        }
        let mut at = self.top.clone();
        let is_real = parent.iter().all(|name| {
            at.push(name);
            is_directory(&at)
        });
        self.real = is_real.then(|| parent.to_owned());
        is_real
    }

    fn listed(&mut self, path: &Path, described: Description, found: &fs::Metadata) {
        self.known.remove(path);
        if self.list.len() < LISTED {
            self.list.push((path.to_owned(), described, Stamp::of(found)));
        }
    }

    /// Writes a file whose content arrives now.
    fn write(
        &mut self,
        path: &Path,
        described: Description,
        input: &mut impl Read,
    ) -> io::Result<()> {
        let mut content = vec![0; described.size as usize];
        input.read_exact(&mut content)?;
        if Sha256::digest(&content)[..] != described.digest[..] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut file = self.create(path)?;
        file.write_all(&content)?;
        finish(&file, described.mode, described.modified)?;
        self.listed(path, described, &file.metadata()?);
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        let full = self.top.join(path);
        clear(&full)?;
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(full)
    }

    fn directory(&mut self, path: PathBuf, mode: u32) -> io::Result<()> {
        let full = self.top.join(&path);
        make_directory(&self.top, &full)?;
        if fs::symlink_metadata(&full)?.mode() & 0o7777 != mode {
            fs::set_permissions(&full, fs::Permissions::from_mode(mode))?;
        }
        self.seen.insert(path);
        Ok(())
    }

    /// Removes what the host has not named.
    fn remove_others(&self, below: &Path, spared: &[PathBuf]) -> io::Result<()> {
        for entry in fs::read_dir(self.top.join(below))? {
            let entry = entry?;
            let (path, is_dir) = (below.join(entry.file_name()), entry.file_type()?.is_dir());
            let is_spared = || spared.iter().any(|one| one.starts_with(&path));
            if !(self.seen.contains(&path) || is_dir && is_spared()) {
                clear(&entry.path())?;
            } else if is_dir {
                self.remove_others(&path, spared)?;
            }
        }
        Ok(())
    }

    fn store_list(&self) -> io::Result<()> {
        let place = self.top.with_extension("list");
        let begun = self.top.with_extension("begun");
        clear(&begun)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&begun)?;
        let mut list = BufWriter::with_capacity(PIECE, file);
        for (path, described, Stamp(stamp)) in &self.list {
            let path = path.as_os_str().as_bytes();
            list.write_all(&u32::try_from(path.len()).unwrap_or_default().to_be_bytes())?;
            list.write_all(path)?;
            described.write(&mut list)?;
            stamp.iter().try_for_each(|part| list.write_all(&part.to_be_bytes()))?;
        }
        list.flush()?;
        fs::rename(begun, place)
    }
}

impl Description {
    fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut digest = [0; 32];
        input.read_exact(&mut digest)?;
        let size = number(input, LARGEST)? as u32;
        let mode = number(input, 0o7777)? as u32;
        Ok(Self { digest, size, mode, modified: long(input)? })
    }

    fn write(&self, output: &mut impl Write) -> io::Result<()> {
        output.write_all(&self.digest)?;
        output.write_all(&self.size.to_be_bytes())?;
        output.write_all(&self.mode.to_be_bytes())?;
        output.write_all(&self.modified.to_be_bytes())
    }
}

/// Reads a list up to its end, or to where it is damaged: a file that is not in it is asked for.
fn read_list(list: &mut impl Read) -> HashMap<PathBuf, (Description, Stamp)> {
    let mut known = HashMap::new();
    while known.len() < LISTED
        && let Ok(path) = path(list)
    {
        let mut entry = || -> io::Result<(Description, Stamp)> {
            let described = Description::read(list)?;
            let mut stamp = [0; 6];
            for part in &mut stamp {
                *part = long(list)?;
            }
            Ok((described, Stamp(stamp)))
        };
        let Ok(entry) = entry() else { break };
        known.insert(path, entry);
    }
    known
}

/// Sets the mode and the time of a file. Its list entry is made after that.
fn finish(file: &File, mode: u32, modified: u64) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    let time = Timespec { tv_sec: modified.cast_signed(), tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::futimens(file, &times)?;
    Ok(())
}

/// Removes whatever is at a path.
fn clear(path: &Path) -> io::Result<()> {
    match rustix::fs::unlinkat(CWD, path, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(rustix::io::Errno::ISDIR | rustix::io::Errno::PERM) => fs::remove_dir_all(path),
        Err(error) => Err(error.into()),
    }
}

fn number(input: &mut impl Read, most: usize) -> io::Result<usize> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    let number = u32::from_be_bytes(bytes) as usize;
    if number > most { Err(io::ErrorKind::InvalidData.into()) } else { Ok(number) }
}

fn long(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

fn bytes(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; number(input, LONGEST)?];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a path below the top of a tree.
fn path(input: &mut impl Read) -> io::Result<PathBuf> {
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes(input)?));
    let mut names = path.components().filter(|one| *one != Component::CurDir);
    if names.clone().all(|one| matches!(one, Component::Normal(_))) {
        Ok(names.by_ref().collect())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory that is removed in the end.
    struct Place(PathBuf);

    impl Place {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("act-kept-{}-{number}", std::process::id());
            let place = std::env::temp_dir().join(name);
            fs::create_dir_all(&place).unwrap();
            Self(place)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn put(to: &mut Vec<u8>, bytes: &[u8]) {
        to.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
        to.extend_from_slice(bytes);
    }

    /// Sends these files with the directory `d`, and returns which of them the tree had.
    fn send(top: &Path, files: &[(&str, &[u8])]) -> io::Result<String> {
        // The answer decides what is sent, so the question is asked alone first. It changes nothing.
        let mut question = vec![QUESTION];
        question.extend_from_slice(&u32::try_from(files.len()).unwrap().to_be_bytes());
        for (path, content) in files {
            put(&mut question, path.as_bytes());
            question.extend_from_slice(&Sha256::digest(content));
            question.extend_from_slice(&u32::try_from(content.len()).unwrap().to_be_bytes());
            question.extend_from_slice(&0o644_u32.to_be_bytes());
            question.extend_from_slice(&7_u64.to_be_bytes());
        }
        let mut answer = vec![];
        Tree::open(top)?.next(&mut question.as_slice(), &mut answer)?;
        let mut stream = vec![DIRECTORY];
        put(&mut stream, b"d/");
        stream.extend_from_slice(&0o755_u32.to_be_bytes());
        stream.extend_from_slice(&question);
        for ((_, content), has) in files.iter().zip(&answer) {
            stream.push(FILE);
            if *has == b'0' {
                stream.extend_from_slice(content);
            }
        }
        let mut framed = vec![];
        put(&mut framed, &stream);
        put(&mut framed, b"");
        refresh(top, &[PathBuf::from(".git")], &mut framed.as_slice(), &mut io::sink())?;
        Ok(String::from_utf8(answer).unwrap())
    }

    // ENGINE-19
    #[test]
    fn a_file_is_asked_for_again_unless_nobody_has_changed_it() {
        let place = Place::new();
        let top = place.0.join("tree");
        let files: [(&str, &[u8]); 2] = [("a", b"first"), ("d/b", b"second")];
        assert_eq!(send(&top, &files).unwrap(), "00");
        assert_eq!(send(&top, &files).unwrap(), "11");
        // The content changes, but neither the size nor the time of modification.
        fs::write(top.join("a"), b"FIRST").unwrap();
        finish(&File::open(top.join("a")).unwrap(), 0o644, 7).unwrap();
        assert_eq!(send(&top, &files).unwrap(), "01");
        assert_eq!(fs::read(top.join("a")).unwrap(), b"first");
        fs::rename(top.join("a"), top.join("moved")).unwrap();
        symlink("moved", top.join("a")).unwrap();
        assert_eq!(send(&top, &files).unwrap(), "01");
        assert!(fs::symlink_metadata(top.join("a")).unwrap().is_file());
        assert!(!top.join("moved").exists());
        fs::rename(top.join("d"), top.join("e")).unwrap();
        symlink("e", top.join("d")).unwrap();
        assert_eq!(send(&top, &files).unwrap(), "10");
        assert!(is_directory(&top.join("d")) && !top.join("e").exists());
        assert_eq!(send(&top, &files).unwrap(), "11");
        // A damaged list only means that more is sent.
        let list = fs::read(top.with_extension("list")).unwrap();
        fs::write(top.with_extension("list"), &list[..list.len() - 1]).unwrap();
        assert_ne!(send(&top, &files).unwrap(), "11");
    }

    // ENGINE-19
    #[test]
    fn what_is_not_in_the_tree_any_more_is_removed_and_mount_points_stay() {
        let place = Place::new();
        let top = place.0.join("tree");
        send(&top, &[("a", b"1"), ("d/b", b"2")]).unwrap();
        for directory in [".git", "d/other/deep"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        fs::write(top.join("d/other/deep/file"), b"").unwrap();
        assert_eq!(send(&top, &[("a", b"1")]).unwrap(), "1");
        assert!(top.join(".git").is_dir() && top.join("d").is_dir());
        assert_eq!(fs::read_dir(top.join("d")).unwrap().count(), 0);
    }

    // ENGINE-19
    #[test]
    fn a_path_that_leaves_the_tree_and_a_content_with_another_digest_are_refused() {
        let place = Place::new();
        let top = place.0.join("tree");
        for path in ["../out", "/out", "d/../../out"] {
            let refused = send(&top, &[(path, b"1")]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{path}");
        }
        let mut tree = Tree::open(&top).unwrap();
        let described = Description { digest: [0; 32], size: 1, mode: 0o644, modified: 0 };
        let refused = tree.write(Path::new("a"), described, &mut b"1".as_slice()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        assert!(!top.join("a").exists());
    }

    // ENGINE-19
    #[test]
    fn a_large_file_has_its_time_and_nothing_comes_between_its_pieces() {
        let place = Place::new();
        let top = place.0.join("tree");
        let mut stream = vec![LARGE];
        put(&mut stream, b"large");
        stream.extend_from_slice(&0o755_u32.to_be_bytes());
        stream.extend_from_slice(&7_u64.to_be_bytes());
        stream.extend_from_slice(&4_u64.to_be_bytes());
        for bytes in [b"ab", b"cd"] {
            stream.push(BYTES);
            put(&mut stream, bytes);
        }
        let sent = |stream: &[u8]| {
            let mut framed = vec![];
            put(&mut framed, stream);
            put(&mut framed, b"");
            refresh(&top, &[], &mut framed.as_slice(), &mut io::sink())
        };
        sent(&stream).unwrap();
        let found = fs::metadata(top.join("large")).unwrap();
        assert_eq!((found.mode() & 0o777, found.mtime()), (0o755, 7));
        assert_eq!(fs::read(top.join("large")).unwrap(), b"abcd");
        let cut = &stream[..stream.len() - 7];
        assert_eq!(sent(cut).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(sent(&[cut, &[FILE]].concat()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    // ENGINE-19
    #[test]
    fn a_pipe_and_a_link_on_the_volume_are_neither_opened_nor_followed() {
        let place = Place::new();
        let (top, other) = (place.0.join("tree"), place.0.join("other"));
        let list = top.with_extension("list");
        for pipe in [&list, &top.with_extension("begun")] {
            rustix::fs::mknodat(CWD, pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        }
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), b"").unwrap();
        symlink(&other, &top).unwrap();
        assert_eq!(send(&top, &[("a", b"1")]).unwrap(), "0");
        assert!(is_directory(&top) && other.join("file").exists());
        assert_eq!(send(&top, &[("a", b"1")]).unwrap(), "1");
    }

    const NAME: &str = "0123456789abcdef0123456789abcdef";
    const LATER: &str = "99999999999";

    // ENGINE-19
    #[test]
    fn one_run_has_a_tree_and_the_next_one_gets_it_unless_it_was_doubted() {
        let place = Place::new();
        let of = |name: &str| place.0.join(format!("{NAME}.{name}"));
        let used = |run: &str| of(&format!("used-{LATER}-{run}"));
        let taken = |run: &str| take(&used(run), &[used(run).join("tree/.git")]).unwrap();
        taken("one");
        assert!(used("one").join("tree/.git").is_dir());
        // In a tree of a worktree this is a file.
        fs::remove_dir(used("one").join("tree/.git")).unwrap();
        fs::write(used("one").join("tree/.git"), b"gitdir: x").unwrap();
        fs::write(used("one").join("mark"), b"").unwrap();
        taken("two");
        assert!(!used("two").join("mark").exists());
        give_back(&used("one"), true).unwrap();
        taken("three");
        assert!(used("three").join("mark").exists() && used("three").join("tree/.git").is_dir());
        give_back(&used("three"), false).unwrap();
        taken("four");
        assert!(!used("four").join("mark").exists());
        fs::remove_dir_all(used("four")).unwrap();
        tidy(&place.0);
        let left: Vec<_> = fs::read_dir(&place.0).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(take(&place.0.join("other"), &[]).is_err());
    }

    // ENGINE-19
    #[test]
    fn trees_of_killed_runs_and_unused_ones_are_removed_and_no_other_directories() {
        let place = Place::new();
        let of = |name: &str| place.0.join(format!("{NAME}.{name}"));
        let make = |name: PathBuf, days: u64| {
            fs::create_dir(&name).unwrap();
            let changed = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
            File::open(name).unwrap().set_modified(changed).unwrap();
        };
        make(of("used-1000-killed"), 15);
        make(of(&format!("used-{LATER}-runs")), 15);
        make(of("free-old"), 15);
        make(of("free-new"), 13);
        make(of("removed-half"), 0);
        make(place.0.join("packages"), 100);
        tidy(&place.0);
        let found = fs::read_dir(&place.0).unwrap().flatten();
        let mut names: Vec<_> = found.map(|one| one.file_name().into_string().unwrap()).collect();
        names.sort();
        let of_trees = ["free-new", &format!("used-{LATER}-runs")];
        let expected = of_trees.map(|name| format!("{NAME}.{name}"));
        assert_eq!(names[..2], expected);
        assert_eq!(names[2..], ["packages"]);
        // A tree that is taken is no old one.
        take(&of(&format!("used-{LATER}-again")), &[]).unwrap();
        tidy(&place.0);
        assert!(of(&format!("used-{LATER}-again")).is_dir());
    }

    // ENGINE-19
    #[test]
    fn no_more_trees_are_stored_than_are_needed() {
        let place = Place::new();
        let used = |run: usize| place.0.join(format!("{NAME}.used-{LATER}-{run}"));
        for run in 0..MOST_FREE + 2 {
            take(&used(run), &[]).unwrap();
        }
        for run in 0..MOST_FREE + 2 {
            give_back(&used(run), true).unwrap();
        }
        tidy(&place.0);
        assert_eq!(fs::read_dir(&place.0).unwrap().count(), MOST_FREE);
    }
}
