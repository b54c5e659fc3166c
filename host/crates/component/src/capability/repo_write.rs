//! The capability `repo.write`: changes of the repository through `repo.edit`. No component ever holds a writable
//! handle: the host's writer makes its changes. A foreign component, which imports no interface of ours, writes to a
//! scratch copy (`files`), and the writer gets the differences when the call ends.

use std::collections::BTreeMap;

use wasmtime::component::{HasSelf, Linker};

use super::{Access, Capability, Grant, Import, Metered, NoCeiling, version};
use crate::audit::{self, ComponentAudit};
use crate::bindings::edit::{self, EditError, Host, Operation};
use crate::bindings::refusal_text;
use crate::bindings::types::{self, Refusal};
use crate::call::{CallContext, State};
use crate::failure::Ended;
use crate::limits::Limits;
use crate::meter::{Count, Meter};
use act_audit::{Decision, Entry, Event};
use act_core::consent::Answer;
use act_core::event::{EditedText, EventKind};
use act_workspace::{Applied, Change, Content, ContentChange, RepoWriter, Version};
use edit_protocol::Reason;

/// Most refusals that one call may report. A tool call is one edit, so a tool needs few.
const REPORTED_REFUSALS: u64 = 8;
/// Longest path in a report, in bytes.
const REPORTED_PATH: usize = 200;

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = bool;
    type Ceiling = NoCeiling;
    type Meters = WriteMeters;
    const MEANING: &'static str = "changes files through act, except protected ones";
    const IN_BASE_WORLD: bool = false;

    fn meters(_granted: &bool, _limits: &Limits) -> WriteMeters {
        let reports = Meter::new("repo.write.reports", REPORTED_REFUSALS);
        WriteMeters { edits: Count::default(), used: Count::default(), reports }
    }

    fn is_behind(import: &Import<'_>) -> bool {
        import.interface == "agentcommand:repo/edit"
    }

    fn covers(grant: &Grant, access: &Access) -> bool {
        let may_reach = match access {
            Access::Write(path) => grant.repo_read.as_ref().is_none_or(|read| read.covers(path)),
            _ => true,
        };
        grant.repo_write && may_reach
    }

    fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
        edit::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
    }
}

#[derive(Debug)]
pub(crate) struct WriteMeters {
    edits: Count,
    used: Count,
    /// Edits that the component reports as refused by itself.
    reports: Meter,
}

impl WriteMeters {
    fn add(&self, edits: usize) {
        self.used.add(1);
        self.edits.add(edits as u64);
    }

    pub(crate) fn edits(&self) -> u64 {
        self.edits.get()
    }
}

impl Metered for WriteMeters {
    fn is_used(&self) -> bool {
        self.used.get() > 0
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("edits", self.edits())]
    }
}

impl Host for State {
    fn apply(
        &mut self,
        changes: Vec<edit::Change>,
    ) -> wasmtime::Result<Result<Vec<Option<types::Version>>, EditError>> {
        let changes: Vec<_> = changes.into_iter().map(change).collect();
        Ok(match self.call.edit(&changes)? {
            None => Err(EditError::Refused(super::denied(Capability::RepoWrite))),
            Some(Ok(applied)) => {
                Ok(applied.into_iter().map(|applied| applied.version.map(version)).collect())
            }
            Some(Err(error)) => Err(refusal(error)),
        })
    }

    fn report_refusal(
        &mut self,
        operation: Operation,
        path: String,
        reason: types::Reason,
    ) -> wasmtime::Result<()> {
        let op = match operation {
            Operation::Create => "create",
            Operation::Replace => "replace",
            Operation::Delete => "delete",
            Operation::Move => "move",
        };
        Ok(self.call.record_refusal(op, &path, from_wit(reason))?)
    }
}

fn from_wit(reason: types::Reason) -> Reason {
    macro_rules! convert {
        ($($case:ident $word:literal,)*) => {
            match reason {
                $(types::Reason::$case => Reason::$case,)*
            }
        };
    }
    edit_protocol::for_each_reason!(convert)
}

impl CallContext {
    /// Has the writer make changes, and records and emits the outcome. Returns `None` if the component may not write.
    ///
    /// # Errors
    ///
    /// [`Ended::Stopped`] if the call is over for its caller.
    pub(crate) fn edit(
        &mut self,
        changes: &[Change],
    ) -> Result<Option<Result<Vec<Applied>, act_workspace::EditError>>, Ended> {
        // A stopped call must not write any more, because another process may already work in the repository.
        self.go_on()?;
        let Some(writer) = self.writer.clone() else {
            self.deny(Capability::RepoWrite, "repo.edit");
            return Ok(None);
        };
        self.ask_about_guarded(&writer, changes)?;
        let known = writer.texts(changes);
        // The writer checks again immediately before it changes a file.
        let stop = self.stop.clone();
        let audit = self.audit.as_deref();
        let outcome = apply(&self.grant, audit, &writer, changes, &|| stop.is_cancelled());
        match &outcome {
            Err(act_workspace::EditError::Stopped) => return Err(Ended::Stopped),
            Ok(applied) => {
                self.meters.repo_write.add(applied.len());
                self.emit_texts(&writer, changes, &known);
                applied.iter().flat_map(audit::edits).for_each(|(entry, event)| {
                    if let Some(audit) = &self.audit {
                        audit.record_entry(entry);
                    }
                    self.emit(event);
                });
            }
            Err(error) => self.record_refused(changes, error),
        }
        Ok(Some(outcome))
    }

    /// Asks the person about guarded paths that only a person can open, and records each answer before it has an effect.
    /// No question is asked if the grant of the component does not cover all paths.
    ///
    /// # Errors
    ///
    /// [`Ended::Stopped`] if the call is over before an answer comes.
    fn ask_about_guarded(&self, writer: &RepoWriter, changes: &[Change]) -> Result<(), Ended> {
        let mut named = changes.iter().flat_map(Change::names);
        if !named.all(|path| self.grant.may_write(&plain(path))) {
            return Ok(());
        }
        for (path, op) in writer.questions(changes) {
            self.emit(EventKind::ConsentAsked { path: path.clone(), op: op.to_owned() });
            let answer = self.ask_person(&path, op)?;
            let decision = if answer == Answer::Allowed { Decision::Allow } else { Decision::Deny };
            let entry = Entry::new(Event::ConsentAsked).object(&path).decision(decision);
            let entry = entry.reason(answer.as_str()).names([op]);
            // A permission that is not on record opens nothing.
            let recorded =
                self.audit.as_ref().is_none_or(|audit| audit.append_entry(entry).is_ok());
            writer.answer(&path, answer == Answer::Allowed && recorded);
            let (op, answer) = (op.to_owned(), answer.as_str().to_owned());
            self.emit(EventKind::Consent { path, op, answer });
        }
        Ok(())
    }

    /// Emits the texts of the changed files before and after the change. `known` holds what the writer knew before it.
    fn emit_texts(
        &self,
        writer: &RepoWriter,
        changes: &[Change],
        known: &BTreeMap<String, ContentChange>,
    ) {
        for (path, change) in writer.texts(changes) {
            let before = known.get(&path).map_or(change.before, |known| known.now.clone());
            let text = |content: Content| match content {
                Content::Nothing => Some(None),
                Content::Text(text) => Some(Some(text)),
                Content::Unknown => None,
            };
            if let (Some(before), Some(now)) = (text(before), text(change.now)) {
                self.emit(EventKind::EditedText(EditedText { path, before, now }));
            }
        }
    }

    /// Counts and records an edit that the component refused by itself. The component decides what it reports, so the
    /// number of reports and the length of a path are bounded.
    fn record_refusal(&mut self, op: &str, path: &str, reason: Reason) -> Result<(), Ended> {
        self.go_on()?;
        let Some(writer) = self.writer.clone() else { return Ok(()) };
        if !self.meters.repo_write.reports.take(1) {
            return Ok(());
        }
        writer.refuse(reason);
        let path = &path[..path.floor_char_boundary(REPORTED_PATH.min(path.len()))];
        if let Some(audit) = &self.audit {
            audit.edit_refused(path, op, reason.word(), &[]);
        }
        self.emit(EventKind::EditRefused {
            path: path.to_owned(),
            op: op.to_owned(),
            reason: reason.word().to_owned(),
        });
        Ok(())
    }

    fn record_refused(&mut self, changes: &[Change], error: &act_workspace::EditError) {
        let named = path_of(error).or(changes.first().map(Change::path)).unwrap_or_default();
        let change = changes.iter().find(|change| change.path() == named).or(changes.first());
        let reason = error.word().unwrap_or("failed");
        let op = change.map_or("none", Change::op);
        if let Some(audit) = &self.audit {
            let left = match error {
                act_workspace::EditError::RollbackFailed { left, .. } => left.as_slice(),
                _ => &[],
            };
            audit.edit_refused(named, op, reason, left);
        }
        if matches!(
            reason,
            "protected" | "guarded" | "boundary" | "read_only" | "excluded" | "outside_repo"
        ) {
            self.denials.deny_edit(named);
        }
        self.emit(EventKind::EditRefused {
            path: named.to_owned(),
            op: op.to_owned(),
            reason: reason.to_owned(),
        });
    }
}

/// Makes changes if the grant covers every path and the audit log can record them. The paths are checked before the file
/// system is touched, so that the answer does not reveal whether a file exists.
fn apply(
    grant: &Grant,
    audit: Option<&ComponentAudit>,
    writer: &RepoWriter,
    changes: &[Change],
    stopped: &dyn Fn() -> bool,
) -> Result<Vec<Applied>, act_workspace::EditError> {
    let mut named = changes.iter().flat_map(Change::names);
    if let Some(path) = named.find(|path| !grant.may_write(&plain(path))) {
        let reason = Reason::Boundary;
        writer.refuse(reason);
        return Err(act_workspace::EditError::Forbidden { path: path.to_owned(), reason });
    }
    if let (Some(audit), Some(change)) = (audit, changes.first()) {
        audit.ready().map_err(|error| act_workspace::EditError::Failed {
            path: change.path().to_owned(),
            why: error.to_string(),
        })?;
    }
    writer.apply(changes, stopped)
}

fn plain(path: &str) -> String {
    path.strip_prefix("./").unwrap_or(path).to_owned()
}

fn path_of(error: &act_workspace::EditError) -> Option<&str> {
    use act_workspace::EditError::{
        Arguments, Budget, Conflict, Exists, Failed, Forbidden, NotAFile, NotFound, Path, ReadOnly,
        RollbackFailed, Stopped, TooLarge, Untested,
    };
    match error {
        Conflict { path, .. }
        | Exists { path }
        | NotFound { path }
        | Forbidden { path, .. }
        | ReadOnly { path }
        | Untested { path }
        | NotAFile { path }
        | Path { path, .. }
        | TooLarge { path, .. }
        | Failed { path, .. } => Some(path),
        RollbackFailed { why, .. } => path_of(why),
        Arguments(_) | Budget(_) | Stopped => None,
    }
}

fn change(change: edit::Change) -> Change {
    match change {
        edit::Change::Create((path, bytes)) => Change::Create { path, bytes },
        edit::Change::Replace((path, expect, bytes)) => {
            Change::Replace { path, expect: expected(expect), bytes }
        }
        edit::Change::Delete((path, expect)) => Change::Delete { path, expect: expected(expect) },
        edit::Change::Move((from, expect, to)) => {
            Change::Move { from, expect: expected(expect), to }
        }
    }
}

fn expected(version: types::Version) -> Version {
    Version { number: version.number, digest: version.digest }
}

fn refusal(error: act_workspace::EditError) -> EditError {
    use act_workspace::EditError as Error;
    let text = refusal_text(error.word().unwrap_or("failed"), &error);
    match error {
        Error::Conflict { path, current } => EditError::Conflict((path, current.map(version))),
        Error::Exists { path } => EditError::Exists(path),
        Error::NotFound { .. } => EditError::Refused(Refusal::NotFound),
        Error::Forbidden { reason: Reason::Excluded, .. } => {
            EditError::Refused(Refusal::Denied(text))
        }
        Error::Untested { .. } => EditError::Refused(Refusal::Denied(text)),
        Error::Forbidden { path, .. } | Error::ReadOnly { path } => {
            EditError::Protected((path, text))
        }
        Error::NotAFile { .. } | Error::Path { .. } | Error::Arguments(_) => {
            EditError::Refused(Refusal::Invalid(text))
        }
        Error::TooLarge { .. } | Error::Budget(_) => EditError::Refused(Refusal::Limit(text)),
        Error::RollbackFailed { .. } | Error::Stopped | Error::Failed { .. } => {
            EditError::Refused(Refusal::Failed(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::capability::RepoRead;
    use act_audit::{
        Audit, AuditReader, CheckpointError, CheckpointStore, Entry, Event, Head, LogLine, NAME,
        Record, Restart, Subject,
    };
    use act_workspace::{LeftState, NotRolledBack, WriteRules};

    /// A checkpoint store that stores nothing.
    struct Forgetful;

    impl CheckpointStore for Forgetful {
        fn head(&self) -> Result<Option<Head>, CheckpointError> {
            Ok(None)
        }

        fn store_head(&self, _: &Head) -> Result<(), CheckpointError> {
            Ok(())
        }

        fn restarted(&self, _: &Head, _: &str) -> Result<(), CheckpointError> {
            Ok(())
        }

        fn restarts(&self) -> Result<BTreeMap<u64, Restart>, CheckpointError> {
            Ok(BTreeMap::new())
        }

        fn grants(&self) -> Result<Option<String>, CheckpointError> {
            Ok(None)
        }

        fn store_grants(&self, _: &str) -> Result<(), CheckpointError> {
            Ok(())
        }
    }

    fn audit(state: &Path) -> Arc<ComponentAudit> {
        let dir = act_fs::Dir::open(state).unwrap();
        let audit = Audit::new(dir, state, Arc::new(Forgetful), Default::default());
        let subject = Subject { name: "guest".into(), sha256: "aa".into(), world: None };
        ComponentAudit::loaded(&audit, subject, &Grant::builtin_tool()).unwrap()
    }

    fn records(state: &Path) -> Vec<Record> {
        let dir = act_fs::Dir::open(state).unwrap();
        let mut reader = AuditReader::open(&dir, state).unwrap();
        let mut records = vec![];
        while let Some(item) = reader.next_line().unwrap() {
            let LogLine::Record(record) = item else { panic!() };
            records.push(*record);
        }
        records
    }

    fn create(path: &str) -> Change {
        Change::Create { path: path.to_owned(), bytes: b"x".to_vec() }
    }

    // EDITOR-14
    #[test]
    fn an_edit_beyond_the_grant_is_counted_as_refused() {
        let repository = tempfile::tempdir().unwrap();
        let writer = RepoWriter::open(repository.path(), WriteRules::default()).unwrap();
        let paths = ["src".parse().unwrap()].into_iter().collect();
        let read = Some(RepoRead { paths, ..RepoRead::default() });
        let grant = Grant { repo_read: read, ..Grant::builtin_tool() };
        let edit = |path| apply(&grant, None, &writer, &[create(path)], &|| false);
        assert_eq!(edit("docs/a").unwrap_err().word(), Some("boundary"));
        assert_eq!(writer.refused().into_iter().collect::<Vec<_>>(), [("boundary", 1)]);
        assert!(edit("src/a").is_ok());
        assert_eq!(writer.refused().len(), 1);
    }

    // AUDIT-5
    #[test]
    fn nothing_is_edited_while_records_cannot_be_written() {
        let (repository, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let writer = RepoWriter::open(repository.path(), WriteRules::default()).unwrap();
        let audit = audit(state.path());
        let edit =
            |path| apply(&Grant::builtin_tool(), Some(&audit), &writer, &[create(path)], &|| false);
        assert!(edit("a").is_ok());
        std::fs::remove_file(state.path().join(NAME)).unwrap();
        std::fs::create_dir(state.path().join(NAME)).unwrap();
        audit.record_entry(Entry::new(Event::Edit));
        let refused = edit("b").unwrap_err();
        assert!(matches!(&refused, act_workspace::EditError::Failed { path, .. } if path == "b"));
        assert!(!repository.path().join("b").exists());
    }

    // WORKSPACE-56
    #[test]
    fn a_file_that_a_failed_edit_left_changed_has_a_record() {
        let state = tempfile::tempdir().unwrap();
        let left = |path: &str, state| NotRolledBack { path: path.to_owned(), state };
        let left = [left("a", LeftState::Changed), left("gone", LeftState::Nothing)];
        audit(state.path()).edit_refused("z", "replace", "version_mismatch", &left);
        let said: Vec<_> = records(state.path())
            .into_iter()
            .map(|one| (one.event, one.object.unwrap_or_default(), one.reason.unwrap_or_default()))
            .collect();
        let expected = [
            ("component_loaded", "", ""),
            ("edit_refused", "z", "version_mismatch"),
            ("edit", "a", "not_taken_back"),
        ];
        assert_eq!(said, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    }
}
