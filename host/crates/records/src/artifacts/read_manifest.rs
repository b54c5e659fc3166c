//! What a run once wrote down about itself, read back by its id.

use std::io;

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
        let text = run.read_existing("manifest.json", MOST)?;
        Ok(text.map(|text| serde_json::from_slice(&text)).transpose()?)
    }
}
