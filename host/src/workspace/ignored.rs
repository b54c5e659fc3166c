//! What git ignores: `.git/info/exclude`, then one `.gitignore` per directory, the innermost first.
//!
//! The files are opened by handle and never through a link, as git does. Rules are read once per view: a
//! new view sees a changed `.gitignore`. Patterns are matched with case, as git does where the file system
//! tells cases apart. Nothing outside the repository is asked.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::git_dir::{self, GitDir};
use super::handle::{self, DIRECTORY, Root};
use super::tracked::Tracked;

/// Bytes and patterns of one file; what is larger is read as empty.
const MAX_FILE: u64 = 128 << 10;
const MAX_PATTERNS: usize = 4096;
/// Patterns of all files of a view; later files are read as empty.
const MAX_PATTERNS_IN_ALL: usize = 64 << 10;
/// Directories whose rules are remembered.
const MAX_REMEMBERED: usize = 100_000;

/// What git thinks of something in one directory.
#[derive(Debug)]
pub(super) struct DirRules {
    /// The directory itself is ignored, and so is all in it that is not tracked.
    ignored: bool,
    /// Where each set of patterns starts to look in a path, outermost first.
    sets: Vec<(usize, Arc<Gitignore>)>,
}

#[derive(Debug)]
pub(super) struct IgnoreRules {
    root: Root,
    git: Option<GitDir>,
    outermost: Arc<DirRules>,
    tracked: OnceLock<Tracked>,
    patterns: AtomicUsize,
    remembered: Mutex<HashMap<Vec<u8>, Arc<DirRules>>>,
}

impl IgnoreRules {
    pub(super) fn new(root: &Root) -> Self {
        let mut rules = Self {
            root: root.clone(),
            git: GitDir::of(root),
            outermost: Arc::new(DirRules { ignored: false, sets: vec![] }),
            tracked: OnceLock::new(),
            patterns: AtomicUsize::new(0),
            remembered: Mutex::default(),
        };
        let exclude = rules
            .git
            .as_ref()
            .and_then(|git| git_dir::bytes(&git.common, b"info/exclude", MAX_FILE));
        let files = [exclude, read(root.as_fd())];
        let sets = files
            .iter()
            .flatten()
            .filter_map(|bytes| rules.parse(bytes))
            .map(|set| (0, set))
            .collect();
        rules.outermost = Arc::new(DirRules { ignored: false, sets });
        rules
    }

    pub(super) fn outermost(&self) -> Arc<DirRules> {
        self.outermost.clone()
    }

    /// The rules inside the directory `path`, which stands in a directory with the rules `around`.
    pub(super) fn inside(
        &self,
        around: &Arc<DirRules>,
        path: &[u8],
        dir: Option<BorrowedFd<'_>>,
    ) -> Arc<DirRules> {
        if around.ignored || matched(around, path, true) {
            return Arc::new(DirRules { ignored: true, sets: vec![] });
        }
        match dir.and_then(read).and_then(|bytes| self.parse(&bytes)) {
            None => around.clone(),
            Some(own) => {
                let mut sets = around.sets.clone();
                sets.push((path.len() + 1, own));
                Arc::new(DirRules { ignored: false, sets })
            }
        }
    }

    /// Whether git ignores `path`, which stands in a directory with the rules `around`. A directory with
    /// something tracked in it is not ignored as such; the rest of it is.
    pub(super) fn ignores(&self, around: &DirRules, path: &[u8], is_dir: bool) -> bool {
        (around.ignored || matched(around, path, is_dir)) && !self.is_tracked(path, is_dir)
    }

    /// The same for a path on its own.
    pub(super) fn ignores_path(&self, path: &[u8], is_dir: bool) -> bool {
        let dir =
            path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |slash| &path[..slash]);
        self.ignores(&self.of_dir(dir), path, is_dir)
    }

    pub(super) fn of_dir(&self, dir: &[u8]) -> Arc<DirRules> {
        let known = |path: &[u8]| self.remembered().get(path).cloned();
        if dir.is_empty() {
            return self.outermost();
        }
        if let Some(rules) = known(dir) {
            return rules;
        }
        let mut rules = self.outermost();
        for end in ends(dir) {
            let path = &dir[..end];
            rules = known(path).unwrap_or_else(|| {
                let fd =
                    if rules.ignored { None } else { self.root.open_real(path, DIRECTORY).ok() };
                let inside = self.inside(&rules, path, fd.as_ref().map(AsFd::as_fd));
                let mut remembered = self.remembered();
                if remembered.len() >= MAX_REMEMBERED {
                    remembered.clear();
                }
                remembered.insert(path.to_vec(), inside.clone());
                inside
            });
        }
        rules
    }

    fn is_tracked(&self, path: &[u8], is_dir: bool) -> bool {
        let Some(git) = &self.git else { return false };
        let tracked = self.tracked.get_or_init(|| Tracked::read(git));
        if is_dir { tracked.has(path) || tracked.has_below(path) } else { tracked.has(path) }
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<u8>, Arc<DirRules>>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parse(&self, bytes: &[u8]) -> Option<Arc<Gitignore>> {
        let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
        let lines = text.lines().count();
        let before = self.patterns.fetch_add(lines, Ordering::Relaxed);
        if lines > MAX_PATTERNS || before + lines > MAX_PATTERNS_IN_ALL {
            return None;
        }
        let mut builder = GitignoreBuilder::new("");
        for line in text.lines() {
            // A pattern that is none is passed over, as git does.
            let _ = builder.add_line(None, line);
        }
        let set = builder.build().ok()?;
        (!set.is_empty()).then(|| Arc::new(set))
    }
}

/// The last pattern of the innermost set that says anything decides.
fn matched(around: &DirRules, path: &[u8], is_dir: bool) -> bool {
    for (start, set) in around.sets.iter().rev() {
        let Some(relative) = path.get(*start..) else { continue };
        match set.matched(Path::new(OsStr::from_bytes(relative)), is_dir) {
            Match::None => {}
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
        }
    }
    false
}

fn read(dir: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let (fd, _) = handle::open_regular(dir, b".gitignore").ok()??;
    handle::read_whole(fd, MAX_FILE).ok()?
}

/// Where each directory on a path ends.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    slashes.chain([path.len()])
}
