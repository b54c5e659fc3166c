//! `manifest.json` of a run: its digest, and how it is read back.

use std::io;

use act_core::RunId;
use act_core::verification::{CommandExecuted, Manifest};
use act_workspace::digest;
use serde_json::Value;

use super::artifact_dir::ArtifactDir;

/// Maximum size of a manifest in bytes. The longest that `act` writes lists what some hundred steps wrote.
const MAX_BYTES: u64 = 16 << 20;

/// A manifest that was read from the disk. Its digests are those of the JSON as it stands there, including fields that
/// this version of `act` does not know, so that no change of the file goes unnoticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedManifest {
    pub manifest: Manifest,
    /// [`manifest_digest`] of the file.
    pub sha256: String,
    /// [`steps_digest`] of the file.
    pub steps_sha256: String,
}

impl ArtifactDir {
    /// Returns the manifest of a run, or `None` when the run has none yet or was removed. Never follows a link.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be read or is no manifest.
    pub fn read_manifest(&self, run_id: &RunId) -> io::Result<Option<RecordedManifest>> {
        let run = match self.run(run_id) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let Some(text) = run.read_existing("manifest.json", MAX_BYTES)? else { return Ok(None) };
        let json: Value = serde_json::from_slice(&text)?;
        let steps = json.get("commands_executed").map(Value::to_string).unwrap_or_default();
        Ok(Some(RecordedManifest {
            sha256: digest_of_json(json.clone()),
            steps_sha256: digest(steps.as_bytes()),
            manifest: serde_json::from_value(json)?,
        }))
    }
}

/// SHA-256, as hex, of the manifest's JSON without white space and without `audit_head`, which names the record that
/// holds this digest.
pub fn manifest_digest(manifest: &Manifest) -> Option<String> {
    serde_json::to_value(manifest).ok().map(digest_of_json)
}

/// SHA-256, as hex, of the JSON of `commands_executed` without white space.
pub fn steps_digest(steps: &[CommandExecuted]) -> Option<String> {
    serde_json::to_vec(steps).ok().map(|json| digest(&json))
}

fn digest_of_json(mut manifest: Value) -> String {
    if let Some(fields) = manifest.as_object_mut() {
        fields.shift_remove("audit_head");
    }
    digest(manifest.to_string().as_bytes())
}
