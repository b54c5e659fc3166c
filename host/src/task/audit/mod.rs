//! The audit log as people and programs read it: `act audit`. What is written to it stands where it happens.

pub(super) mod anchoring;
mod attestation;
pub(super) mod evidence;
pub(super) mod explain;
mod grants;
mod records;
pub(super) mod start_end_records;
mod verification;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use attestation::{Outcome, Resource, Statement, TestResult, audit_export};
pub use explain::{ComponentInRun, Explanation, GateInputOfRun, ManifestCheck, audit_explain};
pub use grants::{ComponentAt, GrantsAt, GrantsFile, audit_grants};
pub use records::{AuditFilter, AuditList, audit_list, audit_show};
pub use verification::{AuditRestarted, audit_accept, audit_restart, audit_verify};

use super::preflight;
use act_audit::{AuditReader, Item, Record};
use act_core::Failure;
use act_records::artifacts::ArtifactDir;

/// The log of an ARTIFACT_DIR, which is read again for each question.
struct Logbook {
    artifacts: Arc<ArtifactDir>,
}

impl Logbook {
    /// From anywhere.
    fn open(start: &Path) -> Result<Self, Failure> {
        let root = act_config::find_root(start)?.map(|root| root.path);
        Ok(Self { artifacts: preflight::artifacts_for(root.as_deref())? })
    }

    fn state(&self) -> Result<(act_fs::Dir, PathBuf), Failure> {
        let path = self.artifacts.path().join("state");
        let state = self.artifacts.state().map_err(|error| {
            Failure::refused(
                "store_unusable",
                format!("{} cannot be used: {error}", path.display()),
            )
        })?;
        Ok((state, path))
    }

    fn reader(&self) -> Result<AuditReader, Failure> {
        let (state, path) = self.state()?;
        Ok(AuditReader::open(&state, &path)?)
    }

    /// Every record from the first on, as long as it is wanted. Answers how many lines are none.
    fn each(&self, mut take: impl FnMut(Record) -> bool) -> Result<u64, Failure> {
        let mut reader = self.reader()?;
        let mut unreadable = 0;
        while let Some(item) = reader.next_item().map_err(|error| unread(&error))? {
            match item {
                Item::Record(record) => {
                    if !take(*record) {
                        break;
                    }
                }
                Item::Bad(_) => unreadable += 1,
                Item::Torn(_) => {}
            }
        }
        Ok(unreadable)
    }
}

fn unread(error: &std::io::Error) -> Failure {
    Failure::refused("audit_unusable", format!("the audit log cannot be read: {error}"))
}
