//! What a run once wrote down about itself, read back by its id.

use std::fs::File;
use std::io::{self, Read};

use rustix::fs::{FileType, Mode, fstat, openat};

use super::layout::ArtifactDir;
use super::run_id::RunId;
use crate::no_follow::READ;

/// Bytes of a manifest at most; the longest of ours lists what some hundred steps wrote.
const MOST: u64 = 16 << 20;

impl ArtifactDir {
    /// None while it has none, and for a run that is gone. Never through a link.
    pub fn read_manifest(&self, run_id: &RunId) -> io::Result<Option<serde_json::Value>> {
        let run = match self.run(run_id) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let handle = match openat(&run, "manifest.json", READ, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            other => other?,
        };
        if FileType::from_raw_mode(fstat(&handle)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut text = vec![];
        File::from(handle).take(MOST).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }
}
