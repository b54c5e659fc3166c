//! Proposals: what a dry run stores, and `act apply`, the task that begins with the files of a proposal and then
//! continues like any other.
//!
//! A proposal is a file that act trusts because the store holds its digest.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::prepare::Ready;
use crate::queue::{OwnedTask, TaskContext};
use crate::run::{Mode, Place, RunArgs};
use crate::status::Lookup;
use crate::{prepare, worktree};
use act_agent::editor::{Draft, TaskResult};
use act_audit::Entry;
use act_core::event::{EventKind, Events, Patch, ProposedChange};
use act_core::secret::Secrets;
use act_core::{Failure, Outcome, Usd, fail_point};
use act_records::store::{ProposalRecord, ProposalState, TaskRecord, TaskState};
use act_workspace::{
    Blob, EditError, NotRolledBack, Overlay, ProposedFile, ProposedFileState, RepoWriter, digest,
    is_repo_path, patch, prefix_in_git,
};

/// The arguments of `act apply`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyArgs {
    /// The id of the dry run; `None` for the newest proposal of the repository.
    pub task: Option<String>,
    pub repo: PathBuf,
    pub max_tokens: Option<u64>,
    pub max_cost: Option<Usd>,
}

/// Returns the arguments of the task that applies a proposal. Text and permissions are those of the dry run.
///
/// # Errors
///
/// There is no proposal to apply, or its dry run is unknown.
pub fn run_args(args: ApplyArgs) -> Result<RunArgs, Failure> {
    let lookup = Lookup::open(&args.repo)?;
    let (context, root) = lookup.context()?;
    let record = find(&context, args.task.as_deref())?;
    let Some(task) = context.store.task(&record.task_id)? else {
        let message = format!("the dry run {} is no longer known", record.task_id);
        return Err(Failure::refused("no_proposal", message));
    };
    if task.flags.worktree.is_some() && task.state != TaskState::Success {
        return Err(not_green(&task));
    }
    Ok(RunArgs {
        text: task.text,
        repo: root.to_owned(),
        allow_paths: task.flags.allow_paths,
        allow_test_changes: task.flags.allow_test_changes,
        max_tokens: args.max_tokens,
        max_cost: args.max_cost,
        no_agents_md: task.flags.no_agents_md,
        engine: None,
        mode: Mode::Apply { dry_run: record.task_id },
        place: Place::Here,
        script: None,
    })
}

/// Refuses a proposal that cannot be applied to the repository as it is. Nothing is written.
pub(super) fn check(
    context: &TaskContext,
    writer: &RepoWriter,
    dry_run: &str,
) -> Result<(ProposalRecord, Proposal), Failure> {
    let record = find(context, Some(dry_run))?;
    let proposal = open(context, &record)?;
    count_applied(&proposal, writer, record.state == ProposalState::Applying)?;
    Ok((record, proposal))
}

/// Writes the files of the proposal into the repository: all of them or none.
///
/// # Errors
///
/// The tree has changed, a file cannot be written, the store cannot be written, or `stopped` returned true.
pub(super) fn carry_out(
    owned_task: &OwnedTask,
    writer: &RepoWriter,
    (record, proposal): (&ProposalRecord, &Proposal),
    events: &Events,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let OwnedTask { context, task_id, .. } = owned_task;
    let dry_run = record.task_id.as_str();
    let begun = record.state == ProposalState::Applying;
    let done = count_applied(proposal, writer, begun)?;
    if begun {
        let all = proposal.files.len();
        let text = format!(
            "an earlier `act apply` of this proposal was killed after {done} of {all} files; it is finished now"
        );
        events.warn(text.as_str());
        events.emit(EventKind::Diagnosis { text });
    }
    // The record was read when the turn came; dry runs of other repositories may have removed the proposal since.
    if !context.store.begin_applying(dry_run, task_id)? {
        return Err(find(context, Some(dry_run)).err().unwrap_or_else(|| removed(dry_run)));
    }
    // If the process dies from here on, the store shows the next one that the proposal is written in part.
    fail_point::reach("applying");
    match writer.apply_proposal(&proposal.files, stopped) {
        Ok(applied) => {
            fail_point::reach("adopted_files");
            let stored = context.store.set_proposal(dry_run, ProposalState::Applied, Some(task_id));
            if let Err(error) = stored {
                events.warn(format!("cannot record that the proposal was applied: {error}"));
            }
            for (entry, event) in applied.iter().flat_map(act_component::edits) {
                record_edit(owned_task, entry);
                events.emit(event);
            }
            Ok(())
        }
        Err(error) => {
            let before = if begun { ProposalState::Applying } else { ProposalState::Open };
            context.store.set_proposal(dry_run, before, record.applied_by.as_deref())?;
            let refusal = refusal(&error, proposal.worktree);
            if let EditError::RollbackFailed { left, .. } = &error {
                act_component::not_taken_back(left)
                    .for_each(|entry| record_edit(owned_task, entry));
                events.emit(EventKind::Diagnosis { text: refusal.message.clone() });
                // A cancelled task shows no refusal, so this is the only message.
                if stopped() {
                    events.warn(refusal.message.as_str());
                }
            }
            Err(refusal)
        }
    }
}

/// Returns the warning about a proposal that was written in part.
pub(super) fn half_applied_text(dry_run: &str) -> String {
    format!(
        "an `act apply` was killed while it wrote the proposal of {dry_run}, so some of its files may be written and \
         others not; `act apply {dry_run}` finishes it"
    )
}

/// Warns of proposals that were written in part, unless this task finishes them.
pub(super) fn warn_of_half_applied(ready: &Ready, context: &TaskContext, events: &Events) {
    for ProposalRecord { task_id, .. } in
        context.store.half_applied(&context.repo).unwrap_or_default()
    {
        if ready.mode != (Mode::Apply { dry_run: task_id.clone() }) {
            events.warn(half_applied_text(&task_id));
        }
    }
}

/// Checks that every file is as the dry run saw it, and returns the number of files that are as proposed already.
/// Those exist only if an earlier `act apply` died while it wrote (`begun`).
fn count_applied(
    Proposal { files, worktree, .. }: &Proposal,
    writer: &RepoWriter,
    begun: bool,
) -> Result<usize, Failure> {
    let mut done = 0;
    let mut stale = vec![];
    let states = writer.proposal_states(files).map_err(|error| refusal(&error, *worktree))?;
    for (file, state) in files.iter().zip(states) {
        match state {
            ProposedFileState::AsBefore => {}
            ProposedFileState::AsProposed if begun => done += 1,
            ProposedFileState::AsProposed | ProposedFileState::Changed => {
                stale.push(file.path.as_str());
            }
        }
    }
    match stale.as_slice() {
        [] => Ok(done),
        paths => Err(stale_paths(paths, *worktree)),
    }
}

fn stale_paths(paths: &[&str], worktree: bool) -> Failure {
    let shown = paths.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    let more = paths.len().saturating_sub(5);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (since, hint) = match worktree {
        false => {
            let hint = "make the proposal again with `act run --dry-run`, or undo these changes";
            ("the dry run", hint)
        }
        true => {
            let hint = "undo these changes, or run the task again with `act run --again`; `act worktrees` names the \
                        directory with its files";
            ("the worktree was made", hint)
        }
    };
    let message = format!("the repository has changed since {since}: {shown}{more}");
    Failure::refused("proposal_stale", message).hint(hint)
}

fn refusal(error: &EditError, worktree: bool) -> Failure {
    match error {
        EditError::Conflict { path, .. } => stale_paths(&[path], worktree),
        EditError::Stopped => {
            Failure::refused("cancelled", "cancelled before everything was written")
        }
        EditError::RollbackFailed { why, left } => {
            let (why, left) = (refusal(why, worktree).message, NotRolledBack::list(left));
            let message = format!("{why}; everything else was undone, but {left}");
            Failure::refused("proposal_torn", message).hint(
                "check and correct these files first; then make the proposal again with `act run --dry-run`",
            )
        }
        EditError::Failed { .. } => Failure::refused("proposal_refused", error.to_string())
            .hint("everything was undone; `act apply` applies the proposal as soon as the file can be written"),
        error => Failure::refused("proposal_refused", error.to_string())
            .hint("nothing was changed; `act run --dry-run` makes a proposal by today's rules"),
    }
}

/// Records one edit. A record that cannot be written now is written before the next action.
fn record_edit(owned_task: &OwnedTask, entry: Entry) {
    if let Some(audit) = owned_task.audit() {
        let _ = audit.append(entry);
    }
}

/// The word for the end of a dry run that changes nothing.
const NOTHING_TO_DO: &str = "nothing_to_do";

/// Returns the end of a dry run that would change no file. A proposal without a change could not be applied, and a script that
/// goes on after exit code 0 would take it for one.
pub(super) fn nothing_to_do(finished: TaskResult) -> TaskResult {
    let account = finished.summary.map(|account| format!("\n\n{account}")).unwrap_or_default();
    TaskResult {
        summary: Some(format!("no file would be changed, so there is no proposal{account}")),
        outcome: Outcome::Refused { reason: NOTHING_TO_DO.to_owned() },
        ..finished
    }
}

/// Stores the proposal of a dry run and emits it. A proposal that cannot be stored is emitted nevertheless.
pub(super) fn propose(
    owned_task: &OwnedTask,
    root: &Path,
    overlay: &Overlay,
    draft: Draft,
    events: &Events,
) {
    let secrets = prepare::secrets();
    // Texts of a model or a Scout may contain a key. The files may not be changed; the user sees them before they
    // are applied.
    let draft = without(&draft, &secrets).unwrap_or(draft);
    let files = overlay.files();
    // The sinks redact text only, and the patch may contain other bytes.
    let patch = secrets.redact_bytes(&patch(&files, &prefix_in_git(root)));
    let proposal = Proposal { files, draft, patch, worktree: false };
    let stored = store(&owned_task.context, &owned_task.task_id, &proposal)
        .map(|()| Some(format!("act apply {}", owned_task.task_id)));
    let apply = stored.unwrap_or_else(|error| {
        events.warn(format!("cannot save the proposal, so it is only shown: {error}"));
        None
    });
    events.emit(EventKind::Proposed {
        files: changes(&proposal.files),
        apply,
        diff: Patch(proposal.patch.into()),
    });
}

pub(super) fn without(draft: &Draft, secrets: &Secrets) -> Option<Draft> {
    let text = serde_json::to_string(draft).ok()?;
    serde_json::from_str(&secrets.redact(&text)).ok()
}

/// Returns the changes as people see them: a file that was moved is one change.
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

/// Version of the stored form.
const VERSION: u32 = 2;
/// Number of proposals that are stored; older ones are removed.
const MAX_PROPOSALS: u32 = 20;

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) files: Vec<ProposedFile>,
    pub(super) draft: Draft,
    /// The patch, byte for byte as it was shown.
    pub(super) patch: Vec<u8>,
    /// The changes were made and verified in a worktree of the repository, and not by a dry run.
    pub(super) worktree: bool,
}

impl Proposal {
    /// Returns whether the proposal creates, changes or moves the `.gitignore` of the root.
    pub(super) fn holds_ignore_rules(&self) -> bool {
        let is = |path: &str| path.eq_ignore_ascii_case(".gitignore");
        self.files.iter().any(|file| is(&file.path) || file.from.as_deref().is_some_and(is))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    v: u32,
    task_id: String,
    repo: String,
    files: Vec<File>,
    draft: Draft,
    patch: StoredBytes,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    worktree: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: String,
    from: Option<String>,
    /// The file that the dry run saw, identified by its digest.
    before: Option<Content>,
    after: Option<Content>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    sha256: String,
    mode: u32,
    /// The content of the proposed file; not stored for the file before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<StoredBytes>,
}

/// Bytes as text if they are UTF-8, else as hex.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredBytes {
    Text(String),
    Hex(String),
}

/// Stores a proposal under the id of its dry run and removes the oldest ones.
pub(super) fn store(
    context: &TaskContext,
    task_id: &str,
    proposal: &Proposal,
) -> Result<(), String> {
    // What was done in a worktree is meant for its repository; a dry run there, for the worktree.
    let repo = if proposal.worktree { context.home() } else { context.repo.as_str() };
    let files = proposal.files.iter().map(|file| File {
        path: file.path.clone(),
        from: file.from.clone(),
        before: file.before.as_ref().map(|blob| Content::of(blob, false)),
        after: file.after.as_ref().map(|blob| Content::of(blob, true)),
    });
    let document = Document {
        v: VERSION,
        task_id: task_id.to_owned(),
        repo: repo.to_owned(),
        files: files.collect(),
        worktree: proposal.worktree,
        draft: proposal.draft.clone(),
        patch: StoredBytes::of(&proposal.patch),
    };
    let bytes = serde_json::to_vec(&document).map_err(|error| error.to_string())?;
    let TaskContext { store, artifacts, .. } = context;
    artifacts.write_proposal(task_id, &bytes).map_err(|error| error.to_string())?;
    store.add_proposal(task_id, repo, &digest(&bytes)).map_err(|error| error.to_string())?;
    for old in store.old_proposals(MAX_PROPOSALS).map_err(|error| error.to_string())? {
        // What was done in a worktree can be applied as long as the worktree is there.
        if worktree::is_there(artifacts, &old.task_id) {
            continue;
        }
        artifacts.remove_proposal(&old.task_id).map_err(|error| error.to_string())?;
        let gone = store.set_proposal(&old.task_id, ProposalState::Removed, None);
        gone.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns the record of the proposal of this dry run, or of the newest one that was not applied. Its file was not
/// read yet.
///
/// # Errors
///
/// There is no such proposal, it belongs to another repository, was applied, or is no longer stored.
pub(super) fn find(
    context: &TaskContext,
    task_id: Option<&str>,
) -> Result<ProposalRecord, Failure> {
    let Some(task_id) = task_id else {
        let open = |record: &ProposalRecord| {
            matches!(record.state, ProposalState::Open | ProposalState::Applying)
        };
        let all = context.store.proposals(&context.repo)?;
        if let Some(record) = all.iter().find(|record| open(record)) {
            return Ok(record.clone());
        }
        return Err(match all.first() {
            Some(newest) if newest.state == ProposalState::Applied => {
                already_applied(context, newest)?
            }
            _ => {
                Failure::refused("no_proposal", "there is no proposal to apply in this repository")
                    .hint(
                        "make one with `act run --dry-run \"…\"`; `act history` lists earlier ones",
                    )
            }
        });
    };
    let Some(record) = context.store.proposal(task_id)? else {
        let task = context.store.task(task_id)?.filter(|task| task.flags.worktree.is_some());
        if let Some(task) = task {
            return Err(not_green(&task));
        }
        return Err(Failure::refused("no_proposal", format!("there is no proposal of {task_id}"))
            .hint("`act history` lists the tasks; those that ended PROPOSED have one"));
    };
    if record.repo != context.repo {
        let message = format!("the proposal of {task_id} was made in another repository");
        return Err(Failure::refused("proposal_foreign", message)
            .hint("change into that repository, or name it with --repo"));
    }
    match record.state {
        ProposalState::Open | ProposalState::Applying => Ok(record),
        ProposalState::Applied => Err(already_applied(context, &record)?),
        ProposalState::Removed => Err(removed(task_id)),
    }
}

/// Returns the refusal of a task in a worktree that has nothing to apply.
fn not_green(task: &TaskRecord) -> Failure {
    let TaskRecord { task_id, state, root, .. } = task;
    let why = match state {
        TaskState::Success => "has stored no changes to apply".to_owned(),
        state => format!("is {}, and only a success is applied", state.as_str()),
    };
    Failure::refused("no_proposal", format!("{task_id} {why}"))
        .hint(format!("its files are in {root}; `act diff {task_id}` shows what it changed"))
}

/// Returns the refusal of a proposal that was applied, with the task and the run that verified it.
fn already_applied(context: &TaskContext, record: &ProposalRecord) -> Result<Failure, Failure> {
    let by = record.applied_by.as_deref();
    let runs = by.map(|by| context.store.runs_of(by)).transpose()?.unwrap_or_default();
    let verified = match runs.last() {
        None => String::new(),
        Some(run) => {
            let status = run.status.as_deref().unwrap_or("which did not end");
            format!(", whose last run is {} ({status})", run.run_id)
        }
    };
    let by = by.unwrap_or("another task");
    let message = format!("the proposal of {} was applied by {by}{verified}", record.task_id);
    Ok(Failure::refused("already_applied", message).hint("`act verify` checks the tree as it is"))
}

fn removed(dry_run: &str) -> Failure {
    let message = format!("the proposal of {dry_run} is no longer stored");
    Failure::refused("proposal_removed", message).hint(format!(
        "the {MAX_PROPOSALS} newest are stored; make it again with `act run --dry-run`"
    ))
}

/// Reads the stored proposal.
///
/// # Errors
///
/// The file is missing, differs from what the dry run wrote, or has another version (`proposal_altered`).
pub(super) fn open(context: &TaskContext, record: &ProposalRecord) -> Result<Proposal, Failure> {
    let altered = |why: String| {
        let message = format!("the proposal of {} cannot be used: {why}", record.task_id);
        Failure::refused("proposal_altered", message).hint("make it again with `act run --dry-run`")
    };
    let read = context.artifacts.read_proposal(&record.task_id);
    let bytes = read.map_err(|error| altered(error.to_string()))?;
    let bytes = bytes.ok_or_else(|| altered("its file is missing".to_owned()))?;
    if digest(&bytes) != record.sha256 {
        return Err(altered("its file was changed".to_owned()));
    }
    parse(&bytes, record).map_err(altered)
}

fn parse(bytes: &[u8], record: &ProposalRecord) -> Result<Proposal, String> {
    let document: Document = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if document.v != VERSION {
        return Err(format!("it has version {}, this act knows {VERSION}", document.v));
    }
    if document.task_id != record.task_id || document.repo != record.repo {
        return Err("it belongs to another task or repository".to_owned());
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut files = vec![];
    for file in document.files {
        let before = file.before.map(Content::before);
        let after = file.after.map(Content::after).transpose()?;
        if !is_repo_path(&file.path) || !seen.insert(file.path.clone()) || before == after {
            return Err(format!("{:?} cannot be changed, or occurs twice", file.path));
        }
        files.push(ProposedFile { path: file.path, from: file.from, before, after });
    }
    let patch = document.patch.bytes().ok_or("its patch cannot be read")?;
    Ok(Proposal { files, draft: document.draft, patch, worktree: document.worktree })
}

impl Content {
    fn of(blob: &Blob, with_bytes: bool) -> Self {
        let bytes = with_bytes.then(|| StoredBytes::of(&blob.bytes));
        Self { sha256: blob.sha256.clone(), mode: blob.mode, bytes }
    }

    fn before(self) -> Blob {
        Blob { bytes: [].into(), mode: self.mode & 0o777, sha256: self.sha256 }
    }

    fn after(self) -> Result<Blob, String> {
        let bytes = self.bytes.ok_or("the content of a file is missing")?;
        let bytes = bytes.bytes().ok_or("its bytes cannot be read")?;
        let blob = Blob::new(bytes, self.mode & 0o777);
        if blob.sha256 == self.sha256 { Ok(blob) } else { Err("a digest is wrong".to_owned()) }
    }
}

impl StoredBytes {
    fn of(bytes: &[u8]) -> Self {
        let hex = || bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        std::str::from_utf8(bytes).map_or_else(|_| Self::Hex(hex()), |text| Self::Text(text.into()))
    }

    fn bytes(self) -> Option<Vec<u8>> {
        let hex = match self {
            Self::Text(text) => return Some(text.into_bytes()),
            Self::Hex(hex) => hex,
        };
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        };
        hex.as_bytes().chunks(2).map(byte).collect()
    }
}

/// The patch of a dry run, as the dry run printed it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Proposed {
    /// Id of the dry run.
    pub task_id: String,
    #[serde(flatten)]
    pub patch: Patch,
}

impl act_core::Document for Proposed {
    const NAME: &'static str = "proposed";
}

/// Returns the patch of this dry run, or of the one that `act apply` would take without an id.
///
/// # Errors
///
/// There is no such proposal, or its file was changed.
pub fn proposed(start: &Path, task: Option<&str>) -> Result<Proposed, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, _) = lookup.context()?;
    let record = find(&context, task)?;
    let patch = open(&context, &record)?.patch;
    Ok(Proposed { task_id: record.task_id, patch: Patch(patch.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;
    use serde_json::Value;
    use serde_json::json;

    fn record() -> ProposalRecord {
        ProposalRecord {
            task_id: "t-aaaaaa".into(),
            repo: "r".into(),
            sha256: String::new(),
            state: ProposalState::Open,
            written_at: String::new(),
            applied_by: None,
        }
    }

    fn document() -> Value {
        let plan = json!({"criteria": [], "acceptance": [], "non_goals": [], "strategy": "s", "questions": {}});
        json!({
            "v": 2, "task_id": "t-aaaaaa", "repo": "r", "patch": {"text": "p"},
            "files": [{"path": "a", "from": null, "before": null,
                "after": {"sha256": digest(b"x\xff"), "mode": 0o644, "bytes": {"hex": "78ff"}}}],
            "draft": {"plan": plan, "goals": {"criteria": [], "acceptance": [], "non_goals": []},
                "reports": [], "decisions": [], "had_tests": null, "account": null},
        })
    }

    /// TASK-42
    #[test]
    fn a_proposal_that_others_removed_since_it_was_read_is_refused_before_a_byte_is_written() {
        use act_workspace::WriteRules;
        let task = crate::finish::testing::accepted(true);
        let OwnedTask { context, task_id, .. } = &*task.owned_task;
        let root = task.dir.path().join("repo");
        context.store.add_proposal("t-aaaaaa", &context.repo, "ab").unwrap();
        let record = find(context, Some("t-aaaaaa")).unwrap();
        let new = |path: &str| ProposedFile {
            path: path.to_owned(),
            from: None,
            before: None,
            after: Some(Blob::new(b"new".as_slice(), 0o644)),
        };
        let draft = serde_json::from_value(document()["draft"].clone()).unwrap();
        let proposal =
            Proposal { files: vec![new("a.txt")], draft, patch: vec![], worktree: false };
        let writer = RepoWriter::open(&root, WriteRules::default()).unwrap();
        let apply = || {
            let events = Events::silent();
            carry_out(&task.owned_task, &writer, (&record, &proposal), &events, &|| false)
        };
        context.store.set_proposal("t-aaaaaa", ProposalState::Removed, None).unwrap();
        assert_eq!(apply().unwrap_err().code, "proposal_removed");
        assert!(!root.join("a.txt").exists());
        let state = |id: &str| context.store.proposal(id).unwrap().unwrap().state;
        assert_eq!(state("t-aaaaaa"), ProposalState::Removed);

        context.store.set_proposal("t-aaaaaa", ProposalState::Open, None).unwrap();
        apply().unwrap();
        assert!(root.join("a.txt").exists());
        let stored = context.store.proposal("t-aaaaaa").unwrap().unwrap();
        assert_eq!(stored.applied_by.as_deref(), Some(task_id.as_str()));
    }

    fn parsed(change: impl Fn(&mut Value)) -> Result<Proposal, String> {
        let mut document = document();
        change(&mut document);
        parse(document.to_string().as_bytes(), &record())
    }

    #[test]
    fn bytes_come_back_as_they_went() {
        let proposal = parsed(|_| {}).unwrap();
        let after = proposal.files[0].after.as_ref().unwrap();
        assert_eq!(&*after.bytes, b"x\xff");
        assert_eq!(proposal.patch, b"p");
        let stored = Content::of(after, true);
        assert!(matches!(&stored.bytes, Some(StoredBytes::Hex(hex)) if hex == "78ff"));
        assert_eq!(stored.after().unwrap(), *after);
        let text = Content::of(&Blob::new("é\r\n".as_bytes(), 0o755), true);
        assert!(matches!(&text.bytes, Some(StoredBytes::Text(text)) if text == "é\r\n"));
        assert_eq!(text.mode, 0o755);
    }

    // TASK-42
    #[test]
    fn what_is_not_whole_and_plain_is_refused() {
        let file = |document: &mut Value, name: &str, value: Value| {
            document["files"][0][name] = value;
        };
        for (name, value) in [
            ("path", json!("../a")),
            ("path", json!("/a")),
            ("path", json!("./a")),
            ("after", json!({"sha256": digest(b"y"), "mode": 420, "bytes": {"text": "x"}})),
            ("after", json!({"sha256": digest(b""), "mode": 420})),
            ("after", json!({"sha256": digest(b"x"), "mode": 420, "bytes": {"hex": "7"}})),
            ("after", json!(null)),
            ("more", json!(1)),
        ] {
            assert!(
                parsed(|document| file(document, name, value.clone())).is_err(),
                "{name} {value}"
            );
        }
        for (name, value) in [("v", json!(1)), ("repo", json!("s")), ("task_id", json!("t-bbbbbb"))]
        {
            assert!(parsed(|document| document[name] = value.clone()).is_err(), "{name}");
        }
        let twice = |document: &mut Value| {
            let files = document["files"].as_array_mut().unwrap();
            files.push(files[0].clone());
        };
        assert!(parsed(twice).is_err());
    }

    #[test]
    fn the_schema_of_a_proposal_is_published() {
        // EVENT-8
        schema::document_holds::<Proposed>();
    }
}
