//! `repo.read`: listing, reading and searching in batches, through the same view as the preopen.

use std::sync::Arc;

use super::denied;
use crate::admission::Capability;
use crate::bindings::read::{
    self, Chunk, Entries, Entry, Hit, Hits, Host, Pattern, Selection, Slice,
};
use crate::bindings::types;
use crate::bindings::types::Refusal;
use crate::state::{Reading, State};
use act_workspace::{
    self, Kind, MAX_ENTRIES, ReadError, SearchError, SelectionError, Version, ViewError,
};

const GRANT: &str = "repo.read";
/// What a hit costs beside its text, out of the bytes that may be read.
const HIT_BYTES: u64 = 64;

impl State {
    fn reading(&mut self, object: &str) -> Result<&Reading, Refusal> {
        match self.query.read {
            None => self.query.denials.deny(GRANT, object),
            Some(_) => self.query.usage.of(Capability::RepoRead),
        }
        self.query.read.as_ref().ok_or_else(|| denied(GRANT))
    }

    /// The refusal for the guest; what is hidden is as if it were not there, and told to the audit.
    fn refuse_view(&mut self, asked: &str, error: &ViewError) -> Refusal {
        match error {
            ViewError::Excluded { path, .. } => self.query.denials.deny(GRANT, path),
            ViewError::NotPermitted { .. } => self.query.denials.deny(GRANT, asked),
            _ => {}
        }
        match (error, error.word()) {
            (_, Some(word)) => Refusal::Invalid(format!("{word}: {error}")),
            (ViewError::Io(_), None) => Refusal::Failed(error.to_string()),
            _ => Refusal::NotFound,
        }
    }

    fn refuse_selection(&mut self, error: &SelectionError) -> Refusal {
        match error {
            SelectionError::View(error) => {
                // The record of a denial names the path that was refused.
                let asked = match error {
                    ViewError::Excluded { path, .. } | ViewError::NotPermitted { path, .. } => path,
                    _ => "",
                };
                self.refuse_view(asked, error)
            }
            _ => Refusal::Invalid(format!("bad_arguments: {error}")),
        }
    }

    fn read_slice(&mut self, slice: Slice, room: &mut u64) -> Result<Chunk, Refusal> {
        let reading = self.reading(&slice.path)?;
        let left = Arc::clone(&reading.left);
        if slice.offset >= reading.caps.file_bytes || left.bytes() == 0 {
            self.query.denials.deny("repo.read.bytes", &slice.path);
            return Err(spent());
        }
        // What does not fit into this call any more is asked for again: the answer tells the size.
        let allowed = left.bytes().min(reading.caps.file_bytes - slice.offset).min(*room);
        let want = act_workspace::Slice {
            path: slice.path,
            offset: slice.offset,
            length: Some(slice.length.unwrap_or(u64::MAX).min(allowed)),
            with_version: slice.with_version,
        };
        match act_workspace::read(&reading.view, &want, reading.versions.as_ref()) {
            Ok(chunk) => {
                let given = chunk.bytes.len() as u64;
                // A version is the digest of the whole file.
                let read = if want.with_version { chunk.size } else { given };
                left.spend(read);
                *room -= given.min(*room);
                let version = chunk.version.map(version);
                Ok(Chunk { bytes: chunk.bytes, size: chunk.size, version })
            }
            Err(error) => Err(self.refuse_read(&want.path, error)),
        }
    }

    /// As many hits as may still be given; that there were more is a denial.
    fn paid(&mut self, found: act_workspace::Hits) -> Result<Hits, Refusal> {
        let act_workspace::Hits { mut items, mut next, mut truncated } = found;
        let left = self.query.read.as_ref().map(|reading| Arc::clone(&reading.left));
        let there = |hit: &act_workspace::Hit| {
            left.as_ref().is_some_and(|left| left.take(hit.text.len() as u64 + HIT_BYTES))
        };
        let given = items.iter().take_while(|hit| there(hit)).count();
        if let Some(hit) = items.get(given) {
            self.query.denials.deny("repo.read.bytes", &hit.path);
            items.truncate(given);
            (next, truncated) = (None, true);
            if given == 0 {
                return Err(spent());
            }
        }
        Ok(Hits { items: items.into_iter().map(hit).collect(), next, truncated })
    }

    /// The refusal for a file that cannot be read.
    pub(super) fn refuse_read(&mut self, asked: &str, error: ReadError) -> Refusal {
        match error {
            ReadError::View(error) => self.refuse_view(asked, &error),
            ReadError::Binary { path } => {
                self.query.denials.deny(GRANT, &path);
                Refusal::NotFound
            }
            ReadError::NotAFile { .. } => Refusal::Invalid(format!("not_a_file: {error}")),
            ReadError::TooLarge { .. } => Refusal::Limit(format!("too_large: {error}")),
            ReadError::Failed { .. } => Refusal::Failed(error.to_string()),
        }
    }
}

impl Host for State {
    fn list_entries(
        &mut self,
        want: Selection,
        cursor: Option<String>,
    ) -> wasmtime::Result<Result<Entries, Refusal>> {
        let view = match self.reading("list-entries") {
            Ok(reading) => reading.view.clone(),
            Err(refusal) => return Ok(Err(refusal)),
        };
        let listed = act_workspace::list(&view, &selection(want), cursor.as_deref(), MAX_ENTRIES);
        self.query.go_on()?;
        Ok(match listed {
            Ok(entries) => {
                let items = entries.items.into_iter().map(entry).collect();
                Ok(Entries { items, next: entries.next, truncated: entries.truncated })
            }
            Err(error) => Err(self.refuse_selection(&error)),
        })
    }

    fn read_many(&mut self, want: Vec<Slice>) -> wasmtime::Result<Vec<Result<Chunk, Refusal>>> {
        let mut room = self.query.grant.limits.host_call_bytes;
        want.into_iter()
            .map(|slice| {
                self.query.go_on()?;
                Ok(self.read_slice(slice, &mut room))
            })
            .collect()
    }

    fn read_text(&mut self, path: String) -> wasmtime::Result<Result<String, Refusal>> {
        self.query.go_on()?;
        let mut room = self.query.grant.limits.host_call_bytes;
        let whole = Slice { path: path.clone(), offset: 0, length: None, with_version: false };
        Ok(self.read_slice(whole, &mut room).and_then(|Chunk { bytes, size, .. }| {
            if (bytes.len() as u64) < size {
                let told = format!("too_large: {path} has {size} bytes; read it in parts");
                return Err(Refusal::Limit(told));
            }
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }))
    }

    fn search(
        &mut self,
        want: Pattern,
        within: Selection,
        cursor: Option<String>,
    ) -> wasmtime::Result<Result<Hits, Refusal>> {
        let (view, most) = match self.reading("search") {
            Ok(reading) => (reading.view.clone(), reading.caps.file_bytes),
            Err(refusal) => return Ok(Err(refusal)),
        };
        // Yes or no is an answer, too.
        let left = self.query.read.as_ref().map(|reading| Arc::clone(&reading.left));
        if !left.is_some_and(|left| left.take(HIT_BYTES)) {
            self.query.denials.deny("repo.read.bytes", "search");
            return Ok(Err(spent()));
        }
        let pattern = act_workspace::Pattern {
            regex: want.regex,
            ignore_case: want.ignore_case,
            multi_line: want.multi_line,
            file_bytes: Some(most),
        };
        let found = act_workspace::search(&view, &pattern, &selection(within), cursor.as_deref());
        self.query.go_on()?;
        Ok(match found {
            Ok(hits) => self.paid(hits),
            Err(SearchError::Selection(error)) => Err(self.refuse_selection(&error)),
            Err(error @ SearchError::Pattern(_)) => {
                Err(Refusal::Invalid(format!("bad_arguments: {error}")))
            }
        })
    }
}

pub(super) fn spent() -> Refusal {
    Refusal::Limit("repo.read.bytes: no more may be read here".to_owned())
}

fn selection(want: Selection) -> act_workspace::Selection {
    let kind = |kind: read::Kind| match kind {
        read::Kind::File => Kind::File,
        read::Kind::Directory => Kind::Directory,
        read::Kind::Link => Kind::Link,
    };
    act_workspace::Selection {
        under: want.under,
        globs: want.globs,
        kinds: want.kinds.into_iter().map(kind).collect(),
    }
}

fn entry(entry: act_workspace::Entry) -> Entry {
    let kind = match entry.kind {
        Kind::File => read::Kind::File,
        Kind::Directory => read::Kind::Directory,
        Kind::Link => read::Kind::Link,
    };
    Entry { path: entry.path, kind, size: entry.size }
}

fn hit(hit: act_workspace::Hit) -> Hit {
    Hit { path: hit.path, line: hit.line, column: hit.column, text: hit.text }
}

pub(super) fn version(version: Version) -> types::Version {
    types::Version { number: version.number, digest: version.digest }
}
