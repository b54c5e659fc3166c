//! The one place where a decision about a component takes effect: approve, narrow, revoke. It is recorded before
//! the file of grants changes, and without a record nothing changes.

use std::io;
use std::path::Path;

use super::grants::{Approval, Writing};
use super::refused::components_command;
use super::shelf::{Shelf, Taken};
use super::toml_file::FileError;
use crate::{Ceiling, ComponentName, Grant, Inspection, Kind, Sha256};
use act_audit::{Audit, AuditError};
use act_fs::Dir;
use act_workspace::digest;

/// What the user decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Approve {
        name: ComponentName,
        kind: Kind,
        sha256: Sha256,
        bytes: Vec<u8>,
        grant: Grant,
        narrowed: Box<Ceiling>,
        /// What had the name when the user was shown what would change.
        seen: Option<Box<Approval>>,
        /// For this repository alone.
        repo: Option<String>,
        replaces: Option<ComponentName>,
    },
    /// Other grants for the same bytes.
    Narrow {
        name: ComponentName,
        sha256: Sha256,
        grant: Grant,
    },
    Revoke {
        name: ComponentName,
    },
}

/// What stands in the file now.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    pub before: Option<Approval>,
    pub after: Approval,
}

#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the store of components cannot be written: {0}")]
    Store(#[from] io::Error),
    #[error("no component `{0}` was approved")]
    Unknown(ComponentName),
    #[error("`{0}` has that place already; `{1}` would be the second one there")]
    Rival(ComponentName, ComponentName),
    #[error("`{0}` was revoked already")]
    AlreadyRevoked(ComponentName),
    #[error("`{0}` was changed by somebody else meanwhile")]
    Overtaken(ComponentName),
    #[error("nothing is decided without a record: {0}")]
    Unrecorded(#[from] AuditError),
}

/// Carries it out, and is on the disk when it returns. `state` is ARTIFACT_DIR's, `repo` the repository in use.
pub fn change(
    change: Change,
    state: &Dir,
    repo: Option<&Path>,
    audit: &Audit,
) -> Result<Changed, ChangeError> {
    let mut file = Writing::begin(repo)?;
    // What stands there already was decided by somebody: it does not become ours unseen.
    let found = file.grants.clone();
    found.seen(file.file.as_ref(), |seen| audit.grants_seen(&seen))?;
    let how = if matches!(change, Change::Narrow { .. }) { "narrowed" } else { "approved" };
    let now = act_core::clock::now().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let known = |file: &Writing, name: &ComponentName| file.grants.of(name.as_str()).cloned();
    let changed = match change {
        Change::Approve { name, kind, sha256, bytes, grant, narrowed, seen, repo, replaces } => {
            let before = known(&file, &name);
            if before.as_ref() != seen.as_deref() {
                // The answer was to another question.
                return Err(ChangeError::Overtaken(name));
            }
            // Before the approval, so that there is none without its bytes.
            Shelf::create(state)?.put(&bytes, &sha256)?;
            let earlier = before.as_ref().map(|before| before.sha256.clone());
            let after = Approval {
                name,
                kind,
                approved_at: now,
                revoked_at: None,
                repo,
                replaces,
                before: earlier.filter(|earlier| *earlier != sha256),
                sha256,
                grants: grant,
                narrowed: *narrowed,
            };
            Changed { before, after }
        }
        Change::Narrow { name, sha256, grant } => {
            let before = known(&file, &name).ok_or_else(|| ChangeError::Unknown(name.clone()))?;
            if before.sha256 != sha256 {
                return Err(ChangeError::Overtaken(name));
            }
            // Whatever was asked for: no narrowing widens.
            let withheld = before.grants.withheld.union(&grant.withheld).cloned().collect();
            let grants = Grant { withheld, ..before.grants.meet(&grant) };
            let narrowed = before.narrowed.clone().and(&grants, Some(&before.grants));
            let after = Approval { grants, narrowed, ..before.clone() };
            Changed { before: Some(before), after }
        }
        Change::Revoke { name } => {
            let before = known(&file, &name).ok_or_else(|| ChangeError::Unknown(name.clone()))?;
            if before.revoked_at.is_some() {
                return Err(ChangeError::AlreadyRevoked(name));
            }
            let after = Approval { revoked_at: Some(now), ..before.clone() };
            Changed { before: Some(before), after }
        }
    };
    if let Some(rival) = file.grants.rival(&changed.after) {
        return Err(ChangeError::Rival(rival.name.clone(), changed.after.name));
    }
    file.grants.put(changed.after.clone());
    let text = file.text()?;
    let world = world(&changed.after, state);
    record(&changed, (how, world), &digest(text.as_bytes()), audit)?;
    if let Err(error) = file.finish(&text) {
        // Not decided after all, and nobody may believe so.
        found.seen(file.file.as_ref(), |seen| audit.grants_not_written(&seen))?;
        return Err(error.into());
    }
    Ok(changed)
}

/// Of the bytes themselves; where they are gone, of their kind.
fn world(approval: &Approval, state: &Dir) -> &'static str {
    let taken = Shelf::create(state).map(|shelf| shelf.take(&approval.sha256));
    let inspection = match taken {
        Ok(Taken::Bytes(bytes)) => Inspection::of(bytes).ok(),
        _ => None,
    };
    inspection.map_or(approval.kind.world(), |inspection| inspection.manifest.world())
}

fn record(
    changed: &Changed,
    (how, world): (&str, &str),
    file: &str,
    audit: &Audit,
) -> Result<(), AuditError> {
    let approval = changed.after.told(Some(world));
    match changed.after.revoked_at {
        Some(_) => audit.revoked(&approval.subject, file),
        None => audit.approved(&approval, how, file),
    }
    .map(|_| ())
}

impl From<ChangeError> for act_core::Failure {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::File(error) => error.into(),
            ChangeError::Store(error) => Self::refused(
                "store_unusable",
                format!("the store of components cannot be written: {error}"),
            )
            .hint("make the artifact directory one that you can write"),
            ChangeError::Unknown(name) => {
                Self::refused("component_unknown", format!("there is no component `{name}` here"))
                    .hint(format!("`{}` lists what there is", components_command(&[])))
            }
            ChangeError::Rival(ref rival, _) => {
                let revoke = components_command(&["revoke", rival.as_str()]);
                let hint = format!("`{revoke}` frees the place");
                Self::refused("component_conflict", error.to_string()).hint(hint)
            }
            ChangeError::AlreadyRevoked(_) => Self::refused("nothing_to_revoke", error.to_string())
                .hint("nothing of it is loaded any more"),
            ChangeError::Unrecorded(error) => error.into(),
            ChangeError::Overtaken(_) => Self::refused("component_changed", error.to_string())
                .hint(format!("look again with `{}`", components_command(&["show", "NAME"]))),
        }
    }
}
