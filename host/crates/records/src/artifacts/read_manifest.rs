//! What a run once wrote down about itself, read back by its id.

use std::io::{self, Read};

use super::layout::ArtifactDir;
use super::run_id::RunId;

/// Bytes of a manifest at most; the longest of ours lists what some hundred steps wrote.
const MOST: u64 = 16 << 20;

impl ArtifactDir {
    /// None while it has none, and for a run that is gone. Never through a link.
    pub fn read_manifest(&self, run_id: &RunId) -> io::Result<Option<serde_json::Value>> {
        let run = match self.run(run_id) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let file = match act_fs::file(&run, "manifest.json") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut text = vec![];
        file.take(MOST).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }
}
