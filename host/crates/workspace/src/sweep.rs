//! Clears what a killed write left: files under the temporary names, and nothing else.
//!
//! Shallow directories first and only so many, so that a large tree costs little; a directory that is
//! written to is cleared in any case.

use std::collections::VecDeque;
use std::ops::Bound;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::AtFlags;

use super::exclusion::{by_name, is_in_build_directory, is_temporary};
use super::handle::{DIRECTORY, Root};
use super::scan::scan;
use super::stop::StopCheck;
use super::view::{Kind, Profile, join};

/// Names that are looked at in all.
const MAX_NAMES: usize = 20_000;
const MAX_WAITING: usize = 4_000;

pub(super) fn sweep_tree(root: &Root) {
    let mut waiting = VecDeque::from([String::new()]);
    let mut looked_at = 0;
    while let Some(dir) = waiting.pop_front() {
        let Ok(fd) = root.open_real(dir.as_bytes(), DIRECTORY) else { continue };
        for (name, kind) in clear(&fd) {
            looked_at += 1;
            let Ok(name) = std::str::from_utf8(&name) else { continue };
            let path = join(&dir, name);
            let skip = by_name(Profile::Tool, &path, Some(kind)).is_some()
                || is_in_build_directory(&path, Some(kind));
            if kind == Kind::Directory && !skip && waiting.len() < MAX_WAITING {
                waiting.push_back(path);
            }
        }
        if looked_at >= MAX_NAMES {
            return;
        }
    }
}

pub(super) fn sweep_directory(root: &Root, dir: &str) {
    if let Ok(fd) = root.open_real(dir.as_bytes(), DIRECTORY) {
        clear(&fd);
    }
}

/// Removes what was left over; answers the names that were seen.
pub(super) fn clear(dir: &OwnedFd) -> Vec<(Vec<u8>, Kind)> {
    let Ok(seen) = scan(dir.as_fd(), Bound::Unbounded, &StopCheck::default()) else {
        return vec![];
    };
    for (name, kind) in &seen.names {
        if *kind != Kind::Directory && std::str::from_utf8(name).is_ok_and(is_temporary) {
            let _ = rustix::fs::unlinkat(dir, name.as_slice(), AtFlags::empty());
        }
    }
    seen.names
}
