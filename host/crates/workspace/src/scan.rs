//! One directory's names in order, however many there are, in bounded memory.

use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use super::stop::StopCheck;
use super::view::Kind;

/// What is laid over the names of a directory; where a name is gone, nothing.
pub(super) type Over = BTreeMap<Vec<u8>, Option<Kind>>;

/// Names that are kept of one directory at a time; the rest is found by scanning again.
const WINDOW: usize = 20_000;
/// Names that are looked at in one directory; what the system says after them is left out.
const MAX_NAMES: usize = 2_000_000;
/// Names between two looks at whether the answer is still wanted.
const BETWEEN_CHECKS: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Files, directories and links, sorted by name.
    pub(super) names: Vec<(Vec<u8>, Kind)>,
    /// There are names after the last one.
    pub(super) more: bool,
    /// The directory was too large to be seen whole.
    pub(super) cut: bool,
}

pub(super) fn scan(dir: impl AsFd, from: Bound<&[u8]>, stop: &StopCheck) -> Result<Scan, Errno> {
    scan_window(Some(dir), &Over::new(), from, WINDOW, stop)
}

/// The same with what is laid over it, which may be all there is.
pub(super) fn scan_over(
    dir: Option<impl AsFd>,
    over: &Over,
    from: Bound<&[u8]>,
    stop: &StopCheck,
) -> Result<Scan, Errno> {
    scan_window(dir, over, from, WINDOW, stop)
}

/// The same with at most `window` names.
pub(super) fn scan_window(
    dir: Option<impl AsFd>,
    over: &Over,
    from: Bound<&[u8]>,
    window: usize,
    stop: &StopCheck,
) -> Result<Scan, Errno> {
    let mut found = Window { kept: BinaryHeap::new(), size: window, scan: Scan::default() };
    let wanted = |name: &[u8]| match from {
        Bound::Unbounded => true,
        Bound::Included(first) => name >= first,
        Bound::Excluded(last) => name > last,
    };
    for (name, kind) in over.iter().filter(|(name, _)| wanted(name)) {
        found.offer(name, || *kind);
    }
    let Some(dir) = dir else { return Ok(found.seen()) };
    for (looked_at, entry) in Dir::read_from(&dir)?.enumerate() {
        if looked_at % BETWEEN_CHECKS == 0 {
            stop.go_on()?;
        }
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || !wanted(name) || over.contains_key(name) {
            continue;
        }
        if looked_at >= MAX_NAMES {
            found.scan.cut = true;
            break;
        }
        found.offer(name, || kind_of(&dir, name, entry.file_type()));
    }
    Ok(found.seen())
}

/// The first names of all that are offered.
struct Window {
    kept: BinaryHeap<(Vec<u8>, Kind)>,
    size: usize,
    scan: Scan,
}

impl Window {
    fn offer(&mut self, name: &[u8], kind: impl FnOnce() -> Option<Kind>) {
        let Self { kept, size, scan } = self;
        if kept.len() >= *size && kept.peek().is_some_and(|(last, _)| last.as_slice() < name) {
            scan.more = true;
            return;
        }
        let Some(kind) = kind() else { return };
        kept.push((name.to_vec(), kind));
        if kept.len() > *size {
            kept.pop();
            scan.more = true;
        }
    }

    fn seen(self) -> Scan {
        Scan { names: self.kept.into_sorted_vec(), ..self.scan }
    }
}

/// Some file systems do not say in a listing what an entry is.
fn kind_of(dir: impl AsFd, name: &[u8], said: FileType) -> Option<Kind> {
    let known = match said {
        FileType::Unknown => {
            let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            FileType::from_raw_mode(stat.st_mode)
        }
        known => known,
    };
    Kind::of(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_moves_over_a_directory_of_any_size_without_losing_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut expected = vec![];
        for number in 0..57 {
            let name = format!("{:03}", (number * 31) % 57);
            std::fs::write(dir.path().join(&name), "").unwrap();
            expected.push(name.into_bytes());
        }
        expected.sort();
        let handle = std::fs::File::open(dir.path()).unwrap();
        let mut seen: Vec<Vec<u8>> = vec![];
        loop {
            let from =
                seen.last().map_or(Bound::Unbounded, |last| Bound::Excluded(last.as_slice()));
            let part =
                scan_window(Some(&handle), &Over::new(), from, 10, &StopCheck::default()).unwrap();
            assert!(part.names.len() <= 10 && !part.cut);
            seen.extend(part.names.into_iter().map(|(name, _)| name));
            if !part.more {
                break;
            }
        }
        assert_eq!(seen, expected);
    }
}
