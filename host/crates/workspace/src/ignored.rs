//! What git ignores: `.git/info/exclude`, then one `.gitignore` per directory, the innermost first.
//!
//! The files are opened by handle and never through a link, as git does. Rules are read once per view: a
//! new view sees a changed `.gitignore`. Patterns are matched with case, as git does where the file system
//! tells cases apart. Outside the repository only a working tree around it is asked, which `work_tree` finds.
//!
//! What cannot be understood hides: where rules are too large or cannot be read, everything that they would
//! be about counts as ignored.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::Mode;

use super::git::{self, Tracked, Unreadable, WorkTree, trusted};
use super::handle::{self, DIRECTORY, Root};

/// Bytes and lines of one file; with more, all in its directory is ignored.
const MAX_FILE: u64 = 128 << 10;
const MAX_PATTERNS: usize = 4096;
/// Lines of the files from the root to a directory; with more, all in that directory is ignored.
const MAX_PATTERNS_ON_PATH: usize = 4 * MAX_PATTERNS;
/// Directories whose rules are remembered, and lines of their files; then they are read anew.
const MAX_REMEMBERED: usize = 100_000;
const MAX_PATTERNS_REMEMBERED: usize = 16 * MAX_PATTERNS;

/// What git thinks of something in one directory.
#[derive(Debug)]
pub(super) struct DirRules {
    /// The directory itself is ignored, and so is all in it that is not tracked.
    ignored: bool,
    /// Lines behind `sets`.
    patterns: usize,
    /// Where each set of patterns starts to look in a path, outermost first.
    sets: Vec<(usize, Arc<Gitignore>)>,
}

#[derive(Debug)]
pub(super) struct IgnoreRules {
    root: Root,
    tree: Option<WorkTree>,
    /// What stands before each path when a pattern looks at it: the root's own path in its working tree.
    prefix: Vec<u8>,
    outermost: Arc<DirRules>,
    tracked: OnceLock<Tracked>,
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    rules: HashMap<Vec<u8>, Arc<DirRules>>,
    patterns: usize,
}

/// What a file with rules holds.
enum Rules {
    None,
    Some {
        set: Arc<Gitignore>,
        patterns: usize,
    },
    /// They are there and not known.
    Unknown,
}

impl IgnoreRules {
    pub(super) fn new(root: &Root) -> Self {
        let (tree, around) = speaks_for(root);
        let prefix = tree.as_ref().map(|tree| tree.prefix.clone()).unwrap_or_default();
        Self {
            root: root.clone(),
            tree,
            outermost: around.with(prefix.len(), parse(read(root.as_fd()))),
            prefix,
            tracked: OnceLock::new(),
            remembered: Mutex::default(),
        }
    }

    /// Whether git tracks a file in the directory `path`, or `path` itself.
    pub(super) fn tracks_below(&self, path: &[u8]) -> bool {
        self.is_tracked(path, true)
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
        if let Some(known) = self.known(path) {
            return known;
        }
        let rules = if around.ignored || self.matched(around, path, true) {
            DirRules::all_ignored()
        } else {
            around.with(
                self.prefix.len() + path.len() + 1,
                dir.map_or(Rules::None, |dir| parse(read(dir))),
            )
        };
        self.remember(path, around, &rules);
        rules
    }

    /// Whether git ignores `path`, which stands in a directory with the rules `around`. A directory with
    /// something tracked in it is not ignored as such; the rest of it is.
    pub(super) fn ignores(&self, around: &DirRules, path: &[u8], is_dir: bool) -> bool {
        (around.ignored || self.matched(around, path, is_dir)) && !self.is_tracked(path, is_dir)
    }

    /// The same for a path on its own.
    pub(super) fn ignores_path(&self, path: &[u8], is_dir: bool) -> bool {
        let dir =
            path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |slash| &path[..slash]);
        self.ignores(&self.of_dir(dir), path, is_dir)
    }

    pub(super) fn of_dir(&self, dir: &[u8]) -> Arc<DirRules> {
        let mut rules = self.outermost();
        if dir.is_empty() {
            return rules;
        }
        if let Some(known) = self.known(dir) {
            return known;
        }
        for end in ends(dir) {
            let path = &dir[..end];
            rules = match self.known(path) {
                Some(known) => known,
                None => {
                    let fd = (!rules.ignored).then(|| self.root.open_real(path, DIRECTORY).ok());
                    self.inside(&rules, path, fd.flatten().as_ref().map(AsFd::as_fd))
                }
            };
        }
        rules
    }

    fn known(&self, path: &[u8]) -> Option<Arc<DirRules>> {
        self.remembered().rules.get(path).cloned()
    }

    fn remember(&self, path: &[u8], around: &DirRules, rules: &Arc<DirRules>) {
        let mut remembered = self.remembered();
        remembered.patterns += rules.patterns.saturating_sub(around.patterns);
        if remembered.rules.len() >= MAX_REMEMBERED || remembered.patterns > MAX_PATTERNS_REMEMBERED
        {
            *remembered = Remembered::default();
        }
        remembered.rules.insert(path.to_vec(), rules.clone());
    }

    fn is_tracked(&self, path: &[u8], is_dir: bool) -> bool {
        let Some(tree) = &self.tree else { return false };
        let tracked = self.tracked.get_or_init(|| tree.tracked());
        if is_dir { tracked.has(path) || tracked.has_below(path) } else { tracked.has(path) }
    }

    fn matched(&self, around: &DirRules, path: &[u8], is_dir: bool) -> bool {
        if self.prefix.is_empty() || around.sets.is_empty() {
            return matched(around, path, is_dir);
        }
        matched(around, &[&self.prefix, path].concat(), is_dir)
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The working tree that the root belongs to, and what it says about it. One around the root that ignores the whole of
/// it, as a home directory may that is a repository of its own, has nothing to say about what is in it.
pub(super) fn speaks_for(root: &Root) -> (Option<WorkTree>, Arc<DirRules>) {
    let Some(tree) = WorkTree::of(root) else { return (None, DirRules::none()) };
    let owner = rustix::fs::fstat(root).map_or(0, |stat| stat.st_uid);
    let rules = rules_around(&tree, owner);
    if !tree.prefix.is_empty() && rules.ignored && tree.tracked().is_empty() {
        return (None, DirRules::none());
    }
    (Some(tree), rules)
}

/// `info/exclude`, and the directories above the root.
fn rules_around(tree: &WorkTree, owner: u32) -> Arc<DirRules> {
    let exclude = tree.git.common.open_real(b"info/exclude", handle::READ);
    let mut rules = DirRules::none().with(0, parse(git::rules(exclude, MAX_FILE)));
    for (path, dir) in &tree.above {
        if rules.ignored || (!path.is_empty() && matched(&rules, without_slash(path), true)) {
            return DirRules::all_ignored();
        }
        let opened = rustix::fs::openat(dir, ".gitignore", handle::READ, Mode::empty());
        let of = |fd: &OwnedFd| Some(rustix::fs::fstat(fd).ok()?.st_uid);
        if opened.as_ref().ok().and_then(of).is_some_and(|uid| trusted(uid, owner)) {
            rules = rules.with(path.len(), parse(git::rules(opened, MAX_FILE)));
        }
    }
    let ignored = !tree.prefix.is_empty() && matched(&rules, without_slash(&tree.prefix), true);
    if ignored { DirRules::all_ignored() } else { rules }
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

impl DirRules {
    fn none() -> Arc<Self> {
        Arc::new(Self { ignored: false, patterns: 0, sets: vec![] })
    }

    fn all_ignored() -> Arc<Self> {
        Arc::new(Self { ignored: true, patterns: 0, sets: vec![] })
    }

    /// With the rules of one more file, which look at paths from the byte `start` on.
    fn with(self: &Arc<Self>, start: usize, own: Rules) -> Arc<Self> {
        match own {
            Rules::None => self.clone(),
            Rules::Some { set, patterns } if self.patterns + patterns <= MAX_PATTERNS_ON_PATH => {
                let mut sets = self.sets.clone();
                sets.push((start, set));
                let patterns = self.patterns + patterns;
                Arc::new(Self { ignored: self.ignored, patterns, sets })
            }
            Rules::Some { .. } | Rules::Unknown => Self::all_ignored(),
        }
    }
}

fn parse(read: Result<Option<Vec<u8>>, Unreadable>) -> Rules {
    let bytes = match read {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Rules::None,
        Err(Unreadable) => return Rules::Unknown,
    };
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
    let patterns = text.lines().count();
    if patterns > MAX_PATTERNS {
        return Rules::Unknown;
    }
    let mut builder = GitignoreBuilder::new("");
    for line in text.lines() {
        // A pattern that is none is passed over, as git does.
        let _ = builder.add_line(None, line);
    }
    match builder.build() {
        Ok(set) if set.is_empty() => Rules::None,
        Ok(set) => Rules::Some { set: Arc::new(set), patterns },
        Err(_) => Rules::Unknown,
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

/// A `.gitignore`; none where git has none either: nothing there, a link, a directory.
fn read(dir: BorrowedFd<'_>) -> Result<Option<Vec<u8>>, Unreadable> {
    git::rules(rustix::fs::openat(dir, ".gitignore", handle::READ, Mode::empty()), MAX_FILE)
}

/// Where each directory on a path ends.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    slashes.chain([path.len()])
}

#[cfg(test)]
mod tests;
