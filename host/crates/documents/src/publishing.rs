//! Finished documents in `state/publishing` of ARTIFACT_DIR: `queue` holds those that passed, `review` those that are
//! held. Each finish creates one file with a copy of the document. The files are numbered from 1 in the order of
//! finishing.

use std::io;
use std::path::Path;

use edit_protocol::{Decision, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::document_file::LONGEST_WAIT;
use super::{MAX_BYTES, Refused};
use act_core::{Document, clock};
use act_fs::lock::{self, Kind};
use act_fs::{Dir, Durability};

/// The name of an entry before it has its number. Entries are written under a lock, so there is one at a time.
const TEMPORARY: &str = ".new";

/// The directory with the queue and the list for review.
#[derive(Debug)]
pub struct Publishing(Dir);

/// The content of an entry's file.
#[derive(Debug, Serialize, Deserialize)]
struct StoredEntry {
    doc_id: String,
    version: u64,
    decision: String,
    notes: String,
    file: String,
    finished_at: String,
    document: Box<RawValue>,
}

/// One finish as it is listed, without the document's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Entry {
    pub number: u64,
    pub doc_id: String,
    pub version: u64,
    pub decision: String,
    pub notes: String,
    /// The document's path when it was finished.
    pub file: String,
    pub finished_at: String,
    /// The file below `state/publishing` that holds the copy of the document.
    pub entry: String,
}

/// The entries of one queue, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// Files that another program created or changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}

impl Document for Listing {
    const NAME: &'static str = "edit-queue";
}

fn list_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Pass => "queue",
        Decision::Hold => "review",
    }
}

impl Publishing {
    /// Opens the directory `publishing` in the directory `state` of ARTIFACT_DIR, and creates it when it is missing.
    ///
    /// # Errors
    /// `NoPlace` when it cannot be used.
    pub fn open(state: &Dir) -> Result<Self, Refused> {
        Ok(Self(directory(state, "publishing")?))
    }

    pub(super) fn add(
        &self,
        decision: Decision,
        document: &Snapshot,
        file: &Path,
        notes: &str,
    ) -> Result<(), Refused> {
        let unwritten = "the entry cannot be written";
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let filed = StoredEntry {
            doc_id: document.doc_id().to_owned(),
            version: document.version(),
            decision: decision.word().to_owned(),
            notes: notes.to_owned(),
            file: file.display().to_string(),
            finished_at: clock::seconds(clock::now()),
            document: RawValue::from_string(document.print())
                .map_err(Refused::failed(unwritten))?,
        };
        let mut text = serde_json::to_vec(&filed).map_err(Refused::failed(unwritten))?;
        text.push(b'\n');
        let dir = directory(&self.0, list_name(decision))?;
        let locked = lock::wait(&dir, Kind::Exclusive, LONGEST_WAIT);
        if !locked.map_err(Refused::failed("the file cannot be locked"))? {
            return Err(Refused::Busy);
        }
        store(&dir, &text).map_err(Refused::failed(unwritten))
    }

    /// Lists the entries, oldest first.
    ///
    /// # Errors
    /// The directory cannot be used or listed.
    pub fn list(&self, decision: Decision) -> Result<Listing, Refused> {
        let dir = directory(&self.0, list_name(decision))?;
        let mut listing = Listing::default();
        for number in numbers(&dir).map_err(Refused::failed("the entries cannot be listed"))? {
            let name = name(number);
            match read(&dir, &name) {
                Ok(filed) => listing.entries.push(Entry {
                    number,
                    doc_id: filed.doc_id,
                    version: filed.version,
                    decision: filed.decision,
                    notes: filed.notes,
                    file: filed.file,
                    finished_at: filed.finished_at,
                    entry: format!("{}/{name}", list_name(decision)),
                }),
                // Another program has removed the entry since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => listing.unreadable.push(format!("{}/{name}", list_name(decision))),
            }
        }
        Ok(listing)
    }
}

fn name(number: u64) -> String {
    format!("{number:06}.json")
}

/// Returns the numbers of the entries in ascending order. Files with other names are ignored.
fn numbers(dir: &Dir) -> io::Result<Vec<u64>> {
    let mut numbers = vec![];
    for found in dir.names(usize::MAX)? {
        let number = found.to_str().ok().and_then(|found| {
            let number = found.strip_suffix(".json")?.parse().ok()?;
            (name(number) == found).then_some(number)
        });
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Stores an entry under the next number. The caller holds the lock, so the number is free.
fn store(dir: &Dir, text: &[u8]) -> io::Result<()> {
    let next = numbers(dir)?.last().copied().unwrap_or(0).saturating_add(1);
    let mut staged = dir.stage_as(TEMPORARY.to_owned())?;
    staged.write(text)?;
    staged.publish(name(next), Durability::ContentsAndName)
}

fn read(dir: &Dir, name: &str) -> io::Result<StoredEntry> {
    // An entry holds a document and the author's notes, which are shorter than another document.
    Ok(serde_json::from_slice(&dir.read(name, 2 * MAX_BYTES)?)?)
}

/// Opens a directory, and creates it with mode 0700 when it is missing. A link is refused.
fn directory(parent: &Dir, name: &str) -> Result<Dir, Refused> {
    parent.private_subdirectory(name).map_err(|error| {
        Refused::NoPlace(format!("{name} in the artifact directory cannot be used: {error}"))
    })
}
