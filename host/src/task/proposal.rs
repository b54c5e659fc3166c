//! A proposal as it is stored: the files of a dry run and what was thought about them, in a file that is ours
//! because the store knows its digest.

use serde::{Deserialize, Serialize};

use super::owned_task::TaskContext;
use act_agent::editor::Draft;
use act_core::Failure;
use act_records::store::{ProposalRecord, ProposalState};
use act_workspace::{Blob, ProposedFile, digest, is_repo_path};

/// Of this form of the file.
const VERSION: u32 = 2;
/// Files of proposals that are kept; those of older ones go.
const KEPT: u32 = 20;

/// What a dry run thought out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) files: Vec<ProposedFile>,
    pub(super) draft: Draft,
    /// As it was shown.
    pub(super) patch: Vec<u8>,
}

impl Proposal {
    /// Whether it makes, changes or moves the `.gitignore` of the root.
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
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: String,
    from: Option<String>,
    /// What it was made for is known by its digest.
    before: Option<Content>,
    after: Option<Content>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    sha256: String,
    mode: u32,
    /// Of the file after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<StoredBytes>,
}

/// Bytes: as text where they are UTF-8, else in hex.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredBytes {
    Text(String),
    Hex(String),
}

/// Keeps it under the dry run's id, and lets go of those that are too old.
pub(super) fn keep(
    context: &TaskContext,
    task_id: &str,
    proposal: &Proposal,
) -> Result<(), String> {
    let files = proposal.files.iter().map(|file| File {
        path: file.path.clone(),
        from: file.from.clone(),
        before: file.before.as_ref().map(|blob| Content::of(blob, false)),
        after: file.after.as_ref().map(|blob| Content::of(blob, true)),
    });
    let document = Document {
        v: VERSION,
        task_id: task_id.to_owned(),
        repo: context.repo.clone(),
        files: files.collect(),
        draft: proposal.draft.clone(),
        patch: StoredBytes::of(&proposal.patch),
    };
    let bytes = serde_json::to_vec(&document).map_err(|error| error.to_string())?;
    let TaskContext { store, artifacts, repo, .. } = context;
    artifacts.write_proposal(task_id, &bytes).map_err(|error| error.to_string())?;
    store.add_proposal(task_id, repo, &digest(&bytes)).map_err(|error| error.to_string())?;
    for old in store.old_proposals(KEPT).map_err(|error| error.to_string())? {
        artifacts.remove_proposal(&old.task_id).map_err(|error| error.to_string())?;
        let gone = store.set_proposal(&old.task_id, ProposalState::Removed, None);
        gone.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The proposal of this dry run, or the newest of the repository that was not applied. Whose it is and what
/// became of it, not yet whether its file can be trusted.
pub(super) fn find(
    context: &TaskContext,
    task_id: Option<&str>,
) -> Result<ProposalRecord, Failure> {
    let Some(task_id) = task_id else {
        let open = |record: &ProposalRecord| {
            matches!(record.state, ProposalState::Open | ProposalState::Applying)
        };
        let all = context.store.proposals(&context.repo)?;
        return all.into_iter().find(open).ok_or_else(|| {
            Failure::refused("no_proposal", "there is no proposal to apply in this repository")
                .hint("make one with `act run --dry-run \"…\"`; `act history` lists earlier ones")
        });
    };
    let Some(record) = context.store.proposal(task_id)? else {
        return Err(Failure::refused("no_proposal", format!("there is no proposal of {task_id}"))
            .hint("`act history` lists the tasks; those that ended PROPOSED have one"));
    };
    if record.repo != context.repo {
        let message = format!("the proposal of {task_id} was made in another repository");
        return Err(Failure::refused("proposal_foreign", message)
            .hint("go into that repository, or name it with --repo"));
    }
    match record.state {
        ProposalState::Open | ProposalState::Applying => Ok(record),
        ProposalState::Applied => {
            let by = record.applied_by.as_deref().unwrap_or("another task");
            let message = format!("the proposal of {task_id} was applied by {by}");
            Err(Failure::refused("proposal_applied", message)
                .hint("`act verify` looks at the tree as it is"))
        }
        ProposalState::Removed => {
            let message = format!("the proposal of {task_id} is not kept any more");
            Err(Failure::refused("proposal_removed", message).hint(format!(
                "the {KEPT} newest are kept; make it again with `act run --dry-run`"
            )))
        }
    }
}

/// Byte for byte what the dry run left; everything else is refused.
pub(super) fn open(context: &TaskContext, record: &ProposalRecord) -> Result<Proposal, Failure> {
    let altered = |why: String| {
        let message = format!("the proposal of {} cannot be used: {why}", record.task_id);
        Failure::refused("proposal_altered", message).hint("make it again with `act run --dry-run`")
    };
    let read = context.artifacts.read_proposal(&record.task_id);
    let bytes = read.map_err(|error| altered(error.to_string()))?;
    let bytes = bytes.ok_or_else(|| altered("its file is gone".to_owned()))?;
    if digest(&bytes) != record.sha256 {
        return Err(altered("its file is not the one that was written".to_owned()));
    }
    parse(&bytes, record).map_err(altered)
}

fn parse(bytes: &[u8], record: &ProposalRecord) -> Result<Proposal, String> {
    let document: Document = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if document.v != VERSION {
        return Err(format!("it has version {}, this act knows {VERSION}", document.v));
    }
    if document.task_id != record.task_id || document.repo != record.repo {
        return Err("it is of another task or repository".to_owned());
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut files = vec![];
    for file in document.files {
        let before = file.before.map(Content::before);
        let after = file.after.map(Content::after).transpose()?;
        if !is_repo_path(&file.path) || !seen.insert(file.path.clone()) || before == after {
            return Err(format!("{:?} is no file to change, or is there twice", file.path));
        }
        files.push(ProposedFile { path: file.path, from: file.from, before, after });
    }
    let patch = document.patch.bytes().ok_or("its patch cannot be read")?;
    Ok(Proposal { files, draft: document.draft, patch })
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
        let bytes = self.bytes.ok_or("nothing is said about a file")?;
        let bytes = bytes.bytes().ok_or("its bytes cannot be read")?;
        let blob = Blob::new(bytes, self.mode & 0o777);
        if blob.sha256 == self.sha256 { Ok(blob) } else { Err("a digest does not fit".to_owned()) }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
}
