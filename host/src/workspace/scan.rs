//! One directory's names in order, however many there are, in bounded memory.

use std::collections::BinaryHeap;
use std::ops::Bound;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use super::stop::StopCheck;
use super::view::Kind;

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
    scan_window(dir, from, WINDOW, stop)
}

/// The same with at most `window` names.
pub(super) fn scan_window(
    dir: impl AsFd,
    from: Bound<&[u8]>,
    window: usize,
    stop: &StopCheck,
) -> Result<Scan, Errno> {
    let mut kept: BinaryHeap<(Vec<u8>, Kind)> = BinaryHeap::new();
    let mut scan = Scan::default();
    for (looked_at, entry) in Dir::read_from(&dir)?.enumerate() {
        if looked_at % BETWEEN_CHECKS == 0 {
            stop.go_on()?;
        }
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let wanted = match from {
            Bound::Unbounded => true,
            Bound::Included(first) => name >= first,
            Bound::Excluded(last) => name > last,
        };
        if matches!(name, b"." | b"..") || !wanted {
            continue;
        }
        if looked_at >= MAX_NAMES {
            scan.cut = true;
            break;
        }
        if kept.len() >= window && kept.peek().is_some_and(|(last, _)| last.as_slice() < name) {
            scan.more = true;
            continue;
        }
        let Some(kind) = kind_of(&dir, name, entry.file_type()) else { continue };
        kept.push((name.to_vec(), kind));
        if kept.len() > window {
            kept.pop();
            scan.more = true;
        }
    }
    scan.names = kept.into_sorted_vec();
    Ok(scan)
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
            let part = scan_window(&handle, from, 10, &StopCheck::default()).unwrap();
            assert!(part.names.len() <= 10 && !part.cut);
            seen.extend(part.names.into_iter().map(|(name, _)| name));
            if !part.more {
                break;
            }
        }
        assert_eq!(seen, expected);
    }
}
