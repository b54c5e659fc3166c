//! Reads files of the repository for `act init`: bounded, beneath its root, and never through a link.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use act_fs::{DIRECTORY, Dir, LINK, READ, Root, read_bounded, regular};

/// Maximum size of a manifest or script in bytes. Scout B reads no larger ones either.
const MOST: u64 = 1024 * 1024;
/// Maximum number of names of one directory.
const NAMES: usize = 2_000;

/// The files below one directory of the repository.
pub(super) struct Files {
    root: Root,
    /// The directory, relative to the root; empty for the root itself.
    below: String,
}

impl Files {
    /// Opens the repository at `root`.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { root: Root::open(root)?, below: String::new() })
    }

    /// Returns the files below a directory of this one; `.` is this one.
    pub(super) fn below(&self, directory: &str) -> Self {
        let directory = directory.trim_start_matches("./").trim_end_matches('/');
        let below = match directory {
            "" | "." => self.below.clone(),
            directory => self.path(directory),
        };
        Self { root: self.root.clone(), below }
    }

    fn path(&self, name: &str) -> String {
        let name = name.trim_start_matches("./");
        match self.below.as_str() {
            "" => name.to_owned(),
            below => format!("{below}/{name}"),
        }
    }

    /// Returns the text of a regular file. Bytes that are not UTF-8 are replaced.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let path = self.path(name);
        let file = File::from(self.root.open_real(path.as_bytes(), READ).ok()?);
        let bytes = read_bounded(regular(file).ok()?, MOST).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the text of a regular file, or an empty text if there is none.
    pub(super) fn text_or_empty(&self, name: &str) -> String {
        self.text(name).unwrap_or_default()
    }

    /// Returns whether a file or directory has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.root.open_real(self.path(name).as_bytes(), LINK).is_ok()
    }

    /// Returns the first of the names that exists.
    pub(super) fn first<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.has(name))
    }

    /// Returns the names in a directory that are UTF-8, in order; `.` is this one.
    pub(super) fn names(&self, directory: &str) -> Vec<String> {
        let below = self.below(directory).below;
        let opened = self.root.open_real(below.as_bytes(), DIRECTORY);
        let names = opened.ok().and_then(|fd| Dir::from(fd).names(NAMES).ok()).unwrap_or_default();
        let text = |name: &std::ffi::CString| {
            OsStr::from_bytes(name.as_bytes()).to_str().map(str::to_owned)
        };
        let mut names = names.iter().filter_map(text).collect::<Vec<_>>();
        names.sort();
        names
    }

    /// Returns a TOML file as a table; an empty one if it is missing or malformed.
    pub(super) fn toml(&self, name: &str) -> toml::Table {
        self.text(name).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Returns a JSON file; null if it is missing or malformed.
    pub(super) fn json(&self, name: &str) -> serde_json::Value {
        let text = self.text(name).unwrap_or_default();
        serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_default()
    }
}
