//! Directories that are listed. What a listing holds in the host is paid for out of the query's bytes for names, read or
//! not, and given back when it is closed.

use std::collections::BTreeMap;

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DirectoryEntry, DirectoryEntryStream, ErrorCode, HostDirectoryEntryStream,
};
use wasmtime_wasi::p2::{FsError, FsResult};

use super::walk::{What, walk};
use super::words::{code, type_of};
use super::{Files, Handle};
use crate::call::CallContext;
use act_workspace::{DirMark, Kind, Last, Seen};

/// What a name takes beside its own bytes.
const NAME_BYTES: u64 = 64;
/// Names of one directory of a scratch copy that are listed.
const MAX_LISTED: usize = 20_000;

/// A part of a directory's names, and where the next part begins. Of a scratch copy all names are there at once.
pub(super) struct Listing {
    names: std::vec::IntoIter<DirectoryEntry>,
    rest: Option<Rest>,
    /// What the part took out of the query's bytes for names.
    held: u64,
}

struct Rest {
    dir: Seen,
    after: Option<DirMark>,
}

impl Listing {
    /// The next name. Parts are read when they are needed, and given back before another one is taken.
    fn next(&mut self, query: &mut CallContext) -> FsResult<Option<DirectoryEntry>> {
        loop {
            if let Some(entry) = self.names.next() {
                return Ok(Some(entry));
            }
            let Some(Rest { dir, after }) = &mut self.rest else { return Ok(None) };
            let view = &query.read.as_ref().ok_or(ErrorCode::NotPermitted)?.view;
            let part = view.read_dir(dir, after.as_ref()).map_err(|error| code(&error))?;
            query.meters.listings.give_back(std::mem::take(&mut self.held));
            let entries = part.entries.into_iter();
            let names = entries.map(|entry| named(entry.name, entry.kind)).collect::<Vec<_>>();
            self.held = pay(query, &dir.path, &names)?;
            self.names = names.into_iter();
            match part.next {
                None => self.rest = None,
                mark => *after = mark,
            }
        }
    }
}

fn named(name: String, kind: Kind) -> DirectoryEntry {
    DirectoryEntry { type_: type_of(kind), name }
}

fn pay(query: &mut CallContext, dir: &str, names: &[DirectoryEntry]) -> FsResult<u64> {
    let price = names.iter().map(|entry| entry.name.len() as u64 + NAME_BYTES).sum();
    if query.meters.listings.take(price) {
        return Ok(price);
    }
    query.used_up(&query.meters.listings, dir);
    Err(ErrorCode::Quota.into())
}

impl Files<'_> {
    pub(super) fn listing(&mut self, handle: &Handle) -> FsResult<Resource<DirectoryEntryStream>> {
        let open = self.get(handle)?;
        if open.kind != Kind::Directory {
            return Err(ErrorCode::NotDirectory.into());
        }
        let listing = match (&self.query.scratch, &open.seen) {
            (None, Some(Seen { fd, path, kind, stat })) => {
                let fd = fd.try_clone().map_err(|_| ErrorCode::Io)?;
                let dir = Seen { fd, path: path.clone(), kind: *kind, stat: *stat };
                let rest = Some(Rest { dir, after: None });
                Listing { names: vec![].into_iter(), rest, held: 0 }
            }
            _ => {
                // Its own handle may be of a directory that was made anew since.
                let path = open.path.clone();
                let spot = walk(self.query, &path, ".", Last::Follow)?.existing()?;
                let names = self.names(&path, &spot.what)?;
                let held = pay(self.query, &path, &names)?;
                Listing { names: names.into_iter(), rest: None, held }
            }
        };
        let pushed = self.table.push(listing).map_err(FsError::trap)?;
        Ok(Resource::new_own(pushed.rep()))
    }

    /// All names in a directory of the scratch copy: those of the repository with what is laid over them.
    pub(super) fn names(&mut self, path: &str, what: &What) -> FsResult<Vec<DirectoryEntry>> {
        let mut names = BTreeMap::new();
        if let (What::Seen(seen), Some(reading)) = (what, self.query.read.as_ref()) {
            let mut after = None;
            loop {
                let part = reading.view.read_dir(seen, after.as_ref());
                let part = part.map_err(|error| code(&error))?;
                names.extend(part.entries.into_iter().map(|entry| (entry.name, entry.kind)));
                if names.len() > MAX_LISTED {
                    self.query.used_up(&self.query.meters.listings, path);
                    return Err(ErrorCode::Quota.into());
                }
                let Some(next) = part.next else { break };
                after = Some(next);
            }
        }
        for (name, laid) in self.scratch()?.names(path) {
            match laid {
                Some(kind) => names.insert(name, kind),
                None => names.remove(&name),
            };
        }
        Ok(names.into_iter().map(|(name, kind)| named(name, kind)).collect())
    }
}

impl HostDirectoryEntryStream for Files<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = Resource::<Listing>::new_borrow(stream.rep());
        self.table.get_mut(&listing).map_err(FsError::trap)?.next(self.query)
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let listing = self.table.delete(Resource::<Listing>::new_own(stream.rep()))?;
        self.query.meters.listings.give_back(listing.held);
        Ok(())
    }
}
