//! The logs that were set aside, back to the first one: whether they still tell what was before.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::error::AuditError;
use super::file::{LogFile, NAME};
use super::reader::AuditReader;
use super::verify::{Before, EarlierLog, Verification, Verifier};

/// As many as can be set aside.
const MOST: usize = 1000;

/// The log in the directory `state`, which `path` names, and all those before it. `accept` is the number of the record
/// with which it begins anew, from one who knows that what was before is missing.
pub fn verify_all(
    state: &OwnedFd,
    path: &Path,
    mut verifier: Verifier,
    accept: Option<u64>,
) -> Result<Verification, AuditError> {
    let log = path.join(NAME);
    read(&mut verifier, AuditReader::open(state, path)?, &log, None)?;
    let (mut before, mut earlier) = (verifier.before(), vec![]);
    let mut found = verifier.finish();
    while let Some(one) = before.take().filter(|_| earlier.len() < MOST) {
        let asked = one.asked.is_some();
        let (log, next, told) = look(state, path, one)?;
        if let Some(told) = told {
            found.runs_compared += told.runs_compared;
            found.asked_seq = found.asked_seq.or(told.asked_seq);
            // Asked for is what stands anywhere.
            found.ok |= asked && told.asked_seq.is_some() && found.bad.is_none();
        }
        earlier.push(log);
        before = next;
    }
    Ok(found.after(earlier, accept))
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

type Looked = (EarlierLog, Option<Before>, Option<Verification>);

/// One of them: the very file that was set aside, sound in itself up to what the store remembered then.
fn look(state: &OwnedFd, path: &Path, before: Before) -> Result<Looked, AuditError> {
    let Before { name, gone, sha256, head, runs, asked, restarts } = before;
    let seq = head.as_ref().map_or(0, |head| head.seq);
    let missing = |name: String, why: &str| {
        let missing = Some(why.to_owned());
        Ok((EarlierLog { name, seq, records: 0, missing }, None, None))
    };
    if gone {
        return missing(name, "there was no log any more");
    }
    let Some(sha256) = sha256 else { return missing(name, "what was set aside was no log") };
    if !is_ours(&name) {
        return missing(name, "it is no name of ours");
    }
    let path = path.join(&name);
    let file = match LogFile::aside(state, &name, &path) {
        Ok(Some(file)) => file,
        Ok(None) => return missing(name, "it is not there"),
        Err(error) => return missing(name, &error.to_string()),
    };
    if file.sha256(&path)? != sha256 {
        return missing(name, "it is not what was set aside");
    }
    // What stands behind that head may be the very reason why it was set aside.
    let last = head.as_ref().map(|head| head.seq);
    let mut verifier = Verifier::new(head, runs, asked).restarted(restarts);
    read(&mut verifier, AuditReader::of(file, u64::MAX), &path, last)?;
    let next = verifier.before();
    let told = verifier.finish();
    let missing = told
        .bad
        .as_ref()
        .map(|bad| format!("its record {} is not what it was: {}", bad.seq, bad.why));
    Ok((EarlierLog { name, seq, records: told.records, missing }, next, Some(told)))
}

/// `audit.N.jsonl`, and no way out of the directory.
fn is_ours(name: &str) -> bool {
    let number = name.strip_prefix("audit.").and_then(|rest| rest.strip_suffix(".jsonl"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}
