//! What a step did to the source. Every view leaves the repository itself alone; this finds the step that
//! would have changed it: a test that rewrites its snapshots, an installer that edits a lock file.
//!
//! The view is read from the host while its container lives, so everything goes by handle, through no link,
//! and nothing is changed, not even a mode.

mod archived;
mod found;
mod source;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Stat, fgetxattr};

use self::found::Found;
use self::source::Source;
use self::walk::{MAX_PATH, Met, is_too_deep};
use crate::build_product::{is_product_directory, is_product_file};
use act_core::verification::SourceWrite;
use act_workspace::{CopySet, Tree};

/// Writes of one step that are told; more are counted.
const MOST: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Change {
    Changed,
    Deleted,
    New,
}

impl Change {
    fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::New => "new",
        }
    }
}

/// Where the steps' writes end up.
pub(crate) enum Backing {
    /// Nowhere: the view is read-only.
    ReadOnly,
    /// In the copy.
    Copy(OwnedFd),
    /// In the upper layer of an overlay, which holds nothing else.
    OverlayUpper(OwnedFd),
    /// In a copy on an engine that does not see our files: it is read as an archive.
    Remote,
}

/// The writes of one step, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    pub(crate) told: Vec<SourceWrite>,
    /// Beyond those.
    pub(crate) more: usize,
}

pub(crate) struct TreeDiff {
    set: CopySet,
    sources: BTreeMap<Vec<u8>, Source>,
    /// Files of the copy as they were made: one that looks the same was not touched.
    stamps: HashMap<Vec<u8>, Stamp>,
    place: Backing,
    /// A later step is not blamed for an earlier one's.
    known: BTreeSet<(Vec<u8>, Change)>,
    /// The same of files whose names were not kept.
    known_beyond: usize,
}

/// The change time cannot be set back.
type Stamp = (u64, i64, i64, i64);

impl TreeDiff {
    /// `tree` is the set's. A copy must be complete, and no step may have begun.
    pub(crate) fn new(set: CopySet, tree: Tree, place: Backing) -> io::Result<Self> {
        let mut sources = BTreeMap::new();
        for file in tree.files {
            // Asked for by `include`, and no less ignored: a step may make it anew.
            if set.ignores(&file.path, false) {
                continue;
            }
            let source = Source { mode: file.mode, sha256: file.sha256, size: file.size };
            sources.insert(file.path.into_os_string().into_encoded_bytes(), source);
        }
        let mut watch = Self {
            set,
            sources,
            stamps: HashMap::new(),
            place,
            known: BTreeSet::new(),
            known_beyond: 0,
        };
        if let Backing::Copy(view) = &watch.place {
            let mut stamps = HashMap::new();
            watch.walk(view.as_fd(), &mut |met| {
                if let Met::File { path, stat, .. } = met {
                    stamps.insert(path.to_vec(), stamp(stat));
                }
                Ok(())
            })?;
            watch.stamps = stamps;
        }
        Ok(watch)
    }

    /// What was written since the last look.
    pub(crate) fn look(&mut self) -> io::Result<Writes> {
        let found = match &self.place {
            Backing::ReadOnly => return Ok(Writes::default()),
            Backing::Copy(view) => self.differences(view.as_fd(), false)?,
            Backing::OverlayUpper(upper) => self.differences(upper.as_fd(), true)?,
            Backing::Remote => return Err(io::Error::other("the copy is not on this machine")),
        };
        Ok(self.fresh(found))
    }

    /// Whether the copy has to be fetched for a look.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.place, Backing::Remote)
    }

    /// What was written since the last look, in a copy that was archived with the name of its directory.
    pub(crate) fn look_into(&mut self, archive: impl Read) -> io::Result<Writes> {
        let found = archived::differences(self, archive)?;
        Ok(self.fresh(found))
    }

    fn fresh(&mut self, found: Found) -> Writes {
        let fresh: Vec<_> = found.writes.difference(&self.known).cloned().collect();
        let beyond = found.beyond.saturating_sub(self.known_beyond);
        let more = fresh.len().saturating_sub(MOST) + beyond;
        let told = fresh.iter().take(MOST).map(|(path, change)| SourceWrite {
            path: String::from_utf8_lossy(path).into_owned(),
            change: change.as_str().to_owned(),
        });
        let writes = Writes { told: told.collect(), more };
        self.known.extend(fresh);
        self.known_beyond = self.known_beyond.max(found.beyond);
        writes
    }

    fn differences(&self, root: BorrowedFd<'_>, layered: bool) -> io::Result<Found> {
        let mut found = Found::default();
        let mut met_sources: HashSet<Vec<u8>> = HashSet::new();
        // Below these nothing of the lower layer shows through.
        let mut covered: Vec<Vec<u8>> = vec![];
        self.walk(root, &mut |met| {
            match met {
                Met::File { parent, name, path, stat } => {
                    if layered && is_whiteout(stat) {
                        covered.push(path.to_vec());
                        return Ok(());
                    }
                    if layered && self.has_below(path) {
                        covered.push(path.to_vec());
                    }
                    if let Some(source) = self.sources.get(path) {
                        met_sources.insert(path.to_vec());
                        let untouched = self.stamps.get(path) == Some(&stamp(stat));
                        if !untouched && !source.is(parent, name, stat)? {
                            found.source(path.to_vec(), Change::Changed);
                        }
                    } else if is_content(stat) && self.is_new_source(path) {
                        found.new_file(path);
                    }
                }
                Met::Directory { path, handle, stat } => {
                    if layered && (is_opaque(handle) || self.sources.contains_key(path)) {
                        covered.push(path.to_vec());
                    }
                    if handle.is_none() {
                        // Closed by the step, or too deep: what was in it cannot be vouched for.
                        let below: Vec<_> = self.below(path).cloned().collect();
                        if below.is_empty() && is_too_deep(path) && stat.is_some() {
                            found.new_file(path);
                        }
                        for source in below {
                            met_sources.insert(source.clone());
                            found.source(source, Change::Changed);
                        }
                    }
                }
            }
            Ok(())
        })?;
        let gone = |path: &Vec<u8>| !met_sources.contains(path);
        if layered {
            for path in &covered {
                let itself = self.sources.get_key_value(path).map(|(path, _)| path);
                for source in itself.into_iter().chain(self.below(path)).filter(|path| gone(path)) {
                    found.source(source.clone(), Change::Deleted);
                }
            }
        } else {
            for source in self.sources.keys().filter(|path| gone(path)) {
                found.source(source.clone(), Change::Deleted);
            }
        }
        Ok(found)
    }

    fn is_new_source(&self, path: &[u8]) -> bool {
        let mut upwards = path.rsplit(|byte| *byte == b'/');
        !upwards.next().is_some_and(is_product_file)
            && !upwards.any(is_product_directory)
            && !self.set.ignores(as_path(path), false)
    }

    fn has_below(&self, directory: &[u8]) -> bool {
        self.below(directory).next().is_some()
    }

    fn below<'a>(&'a self, directory: &[u8]) -> impl Iterator<Item = &'a Vec<u8>> + use<'a> {
        let prefix = if directory.is_empty() { vec![] } else { [directory, b"/"].concat() };
        let from = (Bound::Included(prefix.clone()), Bound::Unbounded);
        self.sources
            .range::<Vec<u8>, _>(from)
            .map(|(path, _)| path)
            .take_while(move |path| path.starts_with(&prefix))
    }
}

/// A deleted name in an upper layer.
fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// A directory of an upper layer that hides the one below.
fn is_opaque(handle: Option<&OwnedFd>) -> bool {
    let mut value = [0u8; 1];
    handle.is_some_and(|handle| {
        fgetxattr(handle, "user.overlay.opaque", &mut value[..]).is_ok() && value == *b"y"
    })
}

/// What git could hold.
fn is_content(stat: &Stat) -> bool {
    matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Symlink)
}

fn stamp(stat: &Stat) -> Stamp {
    #[expect(clippy::unnecessary_cast, reason = "the width of these fields differs")]
    let (inode, seconds, nanoseconds) =
        (stat.st_ino as u64, stat.st_ctime as i64, stat.st_ctime_nsec as i64);
    (inode, seconds, nanoseconds, stat.st_size)
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// `tests/a.snap (new), b.rs (changed)` and so on, for people.
pub(crate) fn listed(writes: &Writes) -> String {
    const SHOWN: usize = 10;
    const NAME: usize = 200;
    // One line, whatever a step called its files.
    let name = |path: &str| -> String {
        let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        path.chars().take(NAME).map(plain).collect()
    };
    let shown: Vec<_> = writes
        .told
        .iter()
        .take(SHOWN)
        .map(|w| format!("{} ({})", name(&w.path), w.change))
        .collect();
    match writes.told.len() + writes.more - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
