//! `state/publishing` of ARTIFACT_DIR: finished documents as they stood, `queue` for those that passed and
//! `review` for those that are held. One file per finish, numbered from 1 in the order of finishing.

use std::io;
use std::path::Path;

use edit_protocol::{Decision, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::document_file::LONGEST_WAIT;
use super::{MAX_BYTES, Refused};
use act_core::clock;
use act_fs::lock::{self, Kind};
use act_fs::{Dir, Durability};

/// An entry before it has its number. There is one at most: it is only written under the lock.
const BESIDE: &str = ".new";

/// Both lists.
#[derive(Debug)]
pub struct Shelves {
    publishing: Dir,
}

/// What stands in the file of one finish.
#[derive(Debug, Serialize, Deserialize)]
struct Filed {
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
    /// The file below `state/publishing` with the document as it stood.
    pub entry: String,
}

/// Oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// Files that somebody else put there or changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}

fn shelf(decision: Decision) -> &'static str {
    match decision {
        Decision::Pass => "queue",
        Decision::Hold => "review",
    }
}

impl Shelves {
    /// `state` is ARTIFACT_DIR's own directory of that name.
    pub fn open(state: &Dir) -> Result<Self, Refused> {
        Ok(Self { publishing: directory(state, "publishing")? })
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
        let filed = Filed {
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
        let dir = directory(&self.publishing, shelf(decision))?;
        let locked = lock::wait(&dir, Kind::Exclusive, LONGEST_WAIT);
        if !locked.map_err(Refused::failed("the file cannot be locked"))? {
            return Err(Refused::Busy);
        }
        file_away(&dir, &text).map_err(Refused::failed(unwritten))
    }

    pub fn list(&self, decision: Decision) -> Result<Listing, Refused> {
        let dir = directory(&self.publishing, shelf(decision))?;
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
                    entry: format!("{}/{name}", shelf(decision)),
                }),
                // Taken away since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => listing.unreadable.push(format!("{}/{name}", shelf(decision))),
            }
        }
        Ok(listing)
    }
}

fn name(number: u64) -> String {
    format!("{number:06}.json")
}

/// Numbers of the entries, ascending; other names are nobody's entries.
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

fn file_away(dir: &Dir, text: &[u8]) -> io::Result<()> {
    let next = numbers(dir)?.last().copied().unwrap_or(0).saturating_add(1);
    let mut staged = dir.stage_as(BESIDE.to_owned())?;
    staged.write(text)?;
    // This process holds the lock, so the number is free.
    staged.publish(name(next), Durability::ContentsAndName)
}

fn read(dir: &Dir, name: &str) -> io::Result<Filed> {
    // A document, and what a finish says about it.
    Ok(serde_json::from_slice(&dir.read(name, 2 * MAX_BYTES)?)?)
}

/// Mode 0700, made when missing; a link in its place is refused.
fn directory(parent: &Dir, name: &str) -> Result<Dir, Refused> {
    parent.private_subdirectory(name).map_err(|error| {
        Refused::NoPlace(format!("{name} in the artifact directory cannot be used: {error}"))
    })
}
