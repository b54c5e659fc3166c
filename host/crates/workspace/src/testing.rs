//! Small repositories for the tests of this crate.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};

use super::view::{Profile, RepoView};

/// A repository beside a directory that must not be reached from it.
pub(super) struct Fixture {
    _dir: tempfile::TempDir,
    pub(super) root: PathBuf,
    pub(super) outside: PathBuf,
}

impl Fixture {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("repo"), dir.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "outside").unwrap();
        let fixture = Self { _dir: dir, root, outside };
        for (path, text) in files {
            fixture.write(path, text);
        }
        fixture
    }

    /// Returns a directory of this repository as another repository.
    pub(super) fn part(&self, path: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { _dir: dir, root: self.root.join(path), outside: self.outside.clone() }
    }

    pub(super) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    pub(super) fn link(&self, target: impl AsRef<Path>, path: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    pub(super) fn fifo(&self, path: &str) {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, self.root.join(path), FileType::Fifo, mode, 0).unwrap();
    }

    /// Writes an index in which these paths are tracked.
    pub(super) fn track(&self, paths: &[&str]) {
        self.write(".git/index", index(paths));
    }

    pub(super) fn view(&self, profile: Profile) -> RepoView {
        RepoView::open(&self.root, profile).unwrap()
    }

    /// Returns the view with `openat2` and the view without.
    pub(super) fn views(&self, profile: Profile) -> [RepoView; 2] {
        [self.view(profile), self.view(profile).without_openat2()]
    }

    /// Returns every path below a directory with its content, to compare the state before and after.
    pub(super) fn picture(dir: &Path) -> Vec<(PathBuf, String)> {
        let mut seen = vec![];
        let mut todo = vec![dir.to_owned()];
        while let Some(at) = todo.pop() {
            for entry in fs::read_dir(&at).unwrap() {
                let path = entry.unwrap().path();
                let kind = fs::symlink_metadata(&path).unwrap().file_type();
                let holds = if kind.is_symlink() {
                    format!("-> {}", fs::read_link(&path).unwrap().display())
                } else if kind.is_dir() {
                    todo.push(path.clone());
                    "/".into()
                } else if kind.is_file() {
                    String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
                } else {
                    "special".into()
                };
                seen.push((path, holds));
            }
        }
        seen.sort();
        seen
    }
}

/// Returns an index in version 2 of git's format, without a checksum.
pub(super) fn index<P: AsRef<[u8]>>(paths: &[P]) -> Vec<u8> {
    let mut sorted: Vec<&[u8]> = paths.iter().map(AsRef::as_ref).collect();
    sorted.sort_unstable();
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(sorted.len()).unwrap().to_be_bytes());
    for path in sorted {
        let start = bytes.len();
        bytes.extend([0; 24]);
        bytes.extend(0o100_644_u32.to_be_bytes());
        bytes.extend([0; 12 + 20]);
        bytes.extend(u16::try_from(path.len()).unwrap().to_be_bytes());
        bytes.extend(path);
        let padded = (bytes.len() - start) / 8 * 8 + 8;
        bytes.resize(start + padded, 0);
    }
    bytes.extend([0; 20]);
    bytes
}
