//! The logs that were set aside, back to the first one: whether they still tell what was before.

use std::collections::BTreeMap;
use std::path::Path;

use act_fs::Dir;
use super::accepted::Accepted;
use super::error::AuditError;
use super::file::{LogFile, NAME};
use super::reader::AuditReader;
use super::verification::{Bad, EarlierLog, History, UnknownRun, Verification};
use super::verify::{Before, OfManifest, Rest, Verifier};

/// As many as can be set aside.
const MOST: usize = 1000;

/// The log in the directory `state`, which `path` names, and all those before it.
pub fn verify_all(
    state: &Dir,
    path: &Path,
    mut verifier: Verifier,
) -> Result<Verification, AuditError> {
    let log = path.join(NAME);
    read(&mut verifier, AuditReader::open(state, path)?, &log, None)?;
    let Some((mut before, mut rest)) = verifier.before() else { return Ok(verifier.finish()) };
    let mut accepted = verifier.accepted();
    let mut found = verifier.finish();
    for _ in 0..MOST {
        let restart = before.restart;
        let looked = look(state, path, before, rest)?;
        rest = looked.rest;
        accepted.after(looked.accepted);
        // Whatever is accepted of a log, no manifest may say something else than what is there.
        found.bad = found.bad.or_else(|| looked.disputes.into_iter().next());
        found.runs_compared += looked.runs_compared;
        found.asked_seq = found.asked_seq.or(looked.asked_seq);
        // Where that log says nothing of what was before it, the store does.
        let next = match (looked.before, &looked.log.missing) {
            (None, Some(_)) => rest.before(restart),
            (before, _) => before,
        };
        found.earlier.push(looked.log);
        match next {
            Some(next) => before = next,
            None => break,
        }
    }
    Ok(found.weigh(rest, &accepted))
}

impl Verification {
    /// With what nobody found: beside a gap it is unknown, else it is gone or was never there.
    fn weigh(mut self, rest: Rest, accepted: &Accepted) -> Self {
        for log in &mut self.earlier {
            log.accepted_seq = accepted.log(log);
        }
        let gap = self.earlier.iter().any(|log| log.missing.is_some());
        let (headless, runs): (BTreeMap<_, _>, _) =
            rest.runs.into_iter().partition(|(_, manifest)| manifest.head.is_none());
        let runs: BTreeMap<String, OfManifest> = runs;
        self.runs_without_head = headless.into_keys().collect();
        match runs.keys().next() {
            Some(run) if !gap => {
                let seq = self.earlier.last().map_or(1, |log| log.seq + 1);
                let why = format!("no log has the record that the manifest of {run} names");
                self.bad.get_or_insert(Bad { seq, line: None, why });
            }
            _ => {
                let unknown = runs.into_iter().map(|(run_id, manifest)| {
                    let OfManifest { head, sha256, stored: _ } = manifest;
                    let (head, accepted_seq) = (head.unwrap_or_default(), None);
                    let run = UnknownRun { run_id, head, sha256, accepted_seq };
                    UnknownRun { accepted_seq: accepted.run(&run), ..run }
                });
                self.runs_unknown = unknown.collect();
            }
        }
        let open = self.earlier.iter().any(EarlierLog::is_open)
            || self.runs_unknown.iter().any(|run| run.accepted_seq.is_none());
        self.history = match (gap, open) {
            (false, _) => History::Whole,
            (true, false) => History::Accepted,
            (true, true) => History::Missing,
        };
        self.conclude(rest.asked.is_none())
    }
}

/// To its end, or to record `last`.
fn read(
    verifier: &mut Verifier,
    mut reader: AuditReader,
    path: &Path,
    last: Option<u64>,
) -> Result<(), AuditError> {
    while let Some(item) = reader.next_item().map_err(|error| AuditError::io(path, error))? {
        let go_on = verifier.take(item, reader.line(), reader.offset());
        if !go_on || last.is_some_and(|last| verifier.at() >= last) {
            break;
        }
    }
    Ok(())
}

/// What one of them told.
struct Looked {
    log: EarlierLog,
    before: Option<Before>,
    /// What is still to be found.
    rest: Rest,
    accepted: Accepted,
    /// Manifests that say something else than it.
    disputes: Vec<Bad>,
    runs_compared: u64,
    asked_seq: Option<u64>,
}

/// Why one of them does not tell what was before: a stable word, and more for people.
type Missing = (&'static str, String);

/// One of them: the very file that was set aside, sound in itself up to what the store remembered then.
fn look(state: &Dir, path: &Path, before: Before, rest: Rest) -> Result<Looked, AuditError> {
    let seq = before.head.as_ref().map_or(0, |head| head.seq);
    let mut log = EarlierLog {
        name: before.name.clone(),
        restart: before.restart,
        seq,
        records: 0,
        head: None,
        sha256: None,
        missing: None,
        reason: None,
        accepted_seq: None,
    };
    let path = path.join(&before.name);
    let file = match open(state, &path, &before, &mut log)? {
        Ok(file) => file,
        Err((reason, why)) => {
            (log.reason, log.missing) = (Some(reason.to_owned()), Some(why));
            let accepted = Accepted::default();
            let (before, runs_compared, asked_seq) = (None, 0, None);
            let disputes = vec![];
            return Ok(Looked { log, before, rest, accepted, disputes, runs_compared, asked_seq });
        }
    };
    // What stands behind that head may be the very reason why it was set aside.
    let last = before.head.as_ref().map(|head| head.seq);
    let mut verifier =
        Verifier::new(before.head, rest.runs, rest.asked).restarted(rest.restarts).aside();
    read(&mut verifier, AuditReader::of(file, u64::MAX), &path, last)?;
    let (mut accepted, next, rest) = (verifier.accepted(), verifier.begun(), verifier.rest());
    let disputes = verifier.disputes();
    let told = verifier.finish();
    if let Some(bad) = &told.bad {
        log.reason = Some("broken".to_owned());
        log.missing = Some(format!("its record {} is not what it was: {}", bad.seq, bad.why));
        // Whoever changed it would have accepted much.
        accepted = Accepted::default();
    }
    (log.records, log.head) = (told.records, told.head);
    let (runs_compared, asked_seq) = (told.runs_compared, told.asked_seq);
    Ok(Looked { log, before: next, rest, accepted, disputes, runs_compared, asked_seq })
}

fn open(
    state: &Dir,
    path: &Path,
    before: &Before,
    log: &mut EarlierLog,
) -> Result<Result<LogFile, Missing>, AuditError> {
    let missing = |reason: &'static str, why: &str| Ok(Err((reason, why.to_owned())));
    if before.gone {
        return missing("gone", "there was no log any more");
    }
    let Some(sha256) = &before.sha256 else {
        return missing("no_log", "what was set aside was no log");
    };
    if !is_ours(&before.name) {
        return missing("no_name", "it is no name of ours");
    }
    let file = match LogFile::aside(state, &before.name, path) {
        Ok(Some(file)) => file,
        Ok(None) => return missing("absent", "it is not there"),
        Err(error) => return missing("foreign", &error.to_string()),
    };
    let found = file.sha256(path)?;
    let same = found == *sha256;
    log.sha256 = Some(found);
    if same { Ok(Ok(file)) } else { missing("changed", "it is not what was set aside") }
}

/// `audit.N.jsonl`, and no way out of the directory.
fn is_ours(name: &str) -> bool {
    let number = name.strip_prefix("audit.").and_then(|rest| rest.strip_suffix(".jsonl"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}
