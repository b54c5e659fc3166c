//! The copy as an engine archives it, compared with the source. Nothing of it is kept but digests.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::found::Found;
use super::{Change, MAX_PATH, Source, TreeDiff};
use act_fs::hex;
use act_records::artifacts::{ArchiveEntry, ArchiveReader};
use act_workspace::digest;

/// Names in one view at most; no tree that could be copied has more.
const MAX_ENTRIES: usize = 4_000_000;
/// Bytes of names that hard links may refer to; a link to another is told as a change.
const MAX_NAMES: usize = 64 << 20;

/// As git knows a file: its mode and the digest of its content or target.
#[derive(Clone, PartialEq, Eq)]
struct Content {
    mode: &'static str,
    sha256: String,
}

impl Source {
    fn is_content(&self, found: Option<&Content>) -> bool {
        found.is_some_and(|found| found.mode == self.mode && found.sha256 == self.sha256)
    }
}

pub(crate) fn differences(watch: &TreeDiff, archive: impl Read) -> io::Result<Found> {
    let sizes: HashSet<u64> = watch.sources.values().map(|source| source.size).collect();
    let mut archive = ArchiveReader::new(archive);
    let mut found = Found::default();
    let mut met: HashSet<Vec<u8>> = HashSet::new();
    // For hard links, whose content stands where the archive met it first.
    let mut contents: HashMap<Vec<u8>, Content> = HashMap::new();
    let (mut entries, mut names) = (0, 0);
    while let Some(entry) = archive.next_entry()? {
        entries += 1;
        if entries > MAX_ENTRIES {
            return Err(io::Error::other(format!("the view holds more than {MAX_ENTRIES} names")));
        }
        let Some(path) = within(&entry.path).filter(|path| counts(watch, path)) else { continue };
        if entry.kind.is_dir() {
            continue;
        }
        let content = content(&entry, &sizes, &contents, &mut archive)?;
        if let Some(source) = watch.sources.get(path) {
            met.insert(path.to_vec());
            if !source.is_content(content.as_ref()) {
                found.source(path.to_vec(), Change::Changed);
            }
        } else if is_content(&entry) && watch.is_new_source(shortened(path)) {
            found.new_file(path);
        }
        names += path.len();
        if let Some(content) = content.filter(|_| names <= MAX_NAMES) {
            contents.insert(path.to_vec(), content);
        }
    }
    for path in watch.sources.keys().filter(|path| !met.contains(*path)) {
        found.source(path.clone(), Change::Deleted);
    }
    Ok(found)
}

/// None for what no source can be, by its kind or its size alone.
fn content(
    entry: &ArchiveEntry,
    sizes: &HashSet<u64>,
    known: &HashMap<Vec<u8>, Content>,
    bytes: &mut impl Read,
) -> io::Result<Option<Content>> {
    if entry.kind.is_symlink() {
        return Ok(Some(Content { mode: "120000", sha256: digest(&entry.link) }));
    }
    if entry.kind.is_hard_link() {
        return Ok(within(&entry.link).and_then(|path| known.get(path)).cloned());
    }
    if !entry.kind.is_file() || !sizes.contains(&entry.size) {
        return Ok(None);
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match bytes.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    let mode = if entry.mode & 0o100 != 0 { "100755" } else { "100644" };
    Ok(Some(Content { mode, sha256: hex(&hash.finalize()) }))
}

/// Below the archived directory itself, whatever that is called.
fn within(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().position(|byte| *byte == b'/')?;
    let path = &path[slash + 1..];
    Some(path.strip_suffix(b"/").unwrap_or(path)).filter(|path| !path.is_empty())
}

/// The directory that is not entered where the view is walked, of a path that is longer than any source's.
fn shortened(path: &[u8]) -> &[u8] {
    let Some(known) = path.get(..MAX_PATH) else { return path };
    known.iter().rposition(|byte| *byte == b'/').map_or(known, |at| &known[..at])
}

/// Git's own directories and the directory of act's notes are no source.
fn counts(watch: &TreeDiff, path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/');
    !path.split(|byte| *byte == b'/').any(|part| part.eq_ignore_ascii_case(b".git"))
        && parts.next().is_none_or(|first| !watch.is_notes_dir(first))
}

fn is_content(entry: &ArchiveEntry) -> bool {
    entry.kind.is_file() || entry.kind.is_symlink() || entry.kind.is_hard_link()
}
