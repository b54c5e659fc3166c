//! The end of a dry run: its proposal is kept, shown and told.

use std::path::Path;

use super::owned_task::OwnedTask;
use super::proposal::{self, Proposal};
use crate::output::Output;
use act_agent::editor::Draft;
use act_core::event::{EventKind, Events, Patch, ProposedChange};
use act_core::secret::Secrets;
use act_workspace::{Overlay, ProposedFile, patch, prefix_in_git};

/// A proposal that cannot be kept is shown all the same.
pub(super) fn propose(
    owned_task: &OwnedTask,
    root: &Path,
    overlay: &Overlay,
    draft: Draft,
    events: &Events,
    output: &Output,
) {
    // What a model or a Scout said may hold a key; what it wrote into a file is shown before it is applied.
    let draft = without(&draft, output.secrets()).unwrap_or(draft);
    let files = overlay.files();
    // Here and not at the sinks alone: they cannot look into what is no text.
    let patch = output.secrets().redact_bytes(&patch(&files, &prefix_in_git(root)));
    let proposal = Proposal { files, draft, patch };
    let kept = match proposal.files.is_empty() {
        // There is nothing to apply.
        true => Ok(None),
        false => proposal::keep(&owned_task.context, &owned_task.task_id, &proposal).map(|()| {
            Some(output.command(&format!("act apply {}", owned_task.task_id)).into_owned())
        }),
    };
    let apply = kept.unwrap_or_else(|error| {
        output.caution(&format!("the proposal cannot be kept, only shown: {error}"));
        None
    });
    events.emit(EventKind::Proposed {
        files: changes(&proposal.files),
        apply,
        diff: Patch(proposal.patch.into()),
    });
}

fn without(draft: &Draft, secrets: &Secrets) -> Option<Draft> {
    let text = serde_json::to_string(draft).ok()?;
    serde_json::from_str(&secrets.redact(&text)).ok()
}

/// As people see them: a file that was moved is one change.
fn changes(files: &[ProposedFile]) -> Vec<ProposedChange> {
    let moved = |path: &str| files.iter().any(|file| file.from.as_deref() == Some(path));
    let change = |file: &ProposedFile| {
        let op = match (&file.from, &file.before, &file.after) {
            (Some(_), _, _) => "move",
            (None, _, None) => "delete",
            (None, None, Some(_)) => "create",
            (None, Some(_), Some(_)) => "replace",
        };
        ProposedChange { path: file.path.clone(), from: file.from.clone(), op: op.to_owned() }
    };
    files.iter().filter(|file| file.after.is_some() || !moved(&file.path)).map(change).collect()
}
