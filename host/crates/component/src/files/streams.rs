//! Bytes of a file and names of a directory, which a component reads or writes in pieces. The grant bounds how many
//! bytes are read, the scratch copy how many are written, and `limits.listings` how many names are held.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use wasmtime::component::Resource;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DirectoryEntry, DirectoryEntryStream, ErrorCode, HostDirectoryEntryStream,
};
use wasmtime_wasi::p2::{
    FsError, FsResult, InputStream, OutputStream, Pollable, StreamError, StreamResult,
};

use super::{Files, error_code, type_of};
use crate::call::CallContext;
use crate::capability::Meters;
use act_workspace::{DirMark, OpenEntry, Overlay};

/// Most bytes of one read or one write.
pub(super) const MAX_PIECE: usize = 1 << 20;
/// Bytes that a name in a listing costs beside its own.
const NAME_COST: u64 = 64;

/// Reads one file from an offset on.
pub(super) struct Reader {
    pub(super) file: Arc<OpenEntry>,
    /// The file has no content but the one in the scratch copy.
    pub(super) in_scratch: bool,
    /// The scratch copy, in which another handle may change the file at any time.
    pub(super) scratch: Option<Overlay>,
    pub(super) offset: u64,
    /// The offset at which the grant ends.
    pub(super) end: u64,
    pub(super) meters: Arc<Meters>,
}

/// The grant allows no more bytes.
#[derive(Debug, thiserror::Error)]
#[error("{path}: over the bytes that may be read")]
pub(super) struct BytesUsedUp {
    pub(super) path: String,
}

pub(super) enum ReaderError {
    UsedUp(BytesUsedUp),
    Io(std::io::Error),
}

impl Reader {
    /// Returns the next bytes; none at the end of the file. Bytes of a file that was changed in the scratch copy were
    /// counted when the file was copied up.
    pub(super) fn read(&mut self, size: usize) -> Result<Bytes, ReaderError> {
        let size = size.min(MAX_PIECE);
        if size == 0 {
            return Ok(Bytes::new());
        }
        let changed = self.scratch.as_ref();
        if let Some(bytes) = changed.and_then(|it| it.read_at(&self.file.path, self.offset, size)) {
            self.offset += bytes.len() as u64;
            return Ok(bytes.into());
        }
        if self.in_scratch {
            // The component has removed or renamed it since.
            return Err(ReaderError::Io(std::io::ErrorKind::NotFound.into()));
        }
        let bytes_left = &self.meters.repo_read.bytes;
        let allowed = bytes_left.left().min(self.end.saturating_sub(self.offset));
        let size = size.min(usize::try_from(allowed).unwrap_or(usize::MAX));
        if size == 0 {
            // A read at the end of the file is no denial.
            let path = self.file.path.clone();
            return match self.read_into(&mut [0])? {
                0 => Ok(Bytes::new()),
                _ => Err(ReaderError::UsedUp(BytesUsedUp { path })),
            };
        }
        let mut buffer = BytesMut::zeroed(size);
        let count = self.read_into(&mut buffer)?;
        buffer.truncate(count);
        self.offset += count as u64;
        bytes_left.spend(count as u64);
        Ok(buffer.freeze())
    }

    fn read_into(&self, buffer: &mut [u8]) -> Result<usize, ReaderError> {
        self.file.handle.read_at(buffer, self.offset).map_err(ReaderError::Io)
    }
}

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {}
}

impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        match Reader::read(self, size) {
            Ok(bytes) if bytes.is_empty() && size > 0 => Err(StreamError::Closed),
            Ok(bytes) => Ok(bytes),
            Err(ReaderError::UsedUp(error)) => Err(StreamError::LastOperationFailed(error.into())),
            Err(ReaderError::Io(error)) => Err(StreamError::LastOperationFailed(error.into())),
        }
    }
}

/// Writes to a file of the scratch copy, from an offset on or always at its end.
pub(super) struct Writer {
    pub(super) scratch: Overlay,
    pub(super) path: String,
    pub(super) offset: Option<u64>,
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {}
}

impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let end = self.scratch.write_at(&self.path, self.offset, &bytes);
        let end = end.map_err(|full| StreamError::LastOperationFailed(full.into()))?;
        self.offset = self.offset.map(|_| end);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_PIECE)
    }
}

/// An open listing of a directory: some of its names, and where the next ones begin. Names are held in the host,
/// whether the component reads them or not, so the meter counts them until the listing is closed.
pub(super) struct Listing {
    dir: Arc<OpenEntry>,
    names: std::vec::IntoIter<DirectoryEntry>,
    after: Option<DirMark>,
    /// The amount that the names take from the meter of listings.
    cost: u64,
}

impl Listing {
    /// Opens a listing with the first names of a directory.
    pub(super) fn open(dir: Arc<OpenEntry>, call: &CallContext) -> FsResult<Self> {
        let mut listing = Self { dir, names: vec![].into_iter(), after: None, cost: 0 };
        listing.fill(call)?;
        Ok(listing)
    }

    /// Replaces the names with those that follow.
    fn fill(&mut self, call: &CallContext) -> FsResult<()> {
        let view = &call.read.as_ref().ok_or(ErrorCode::NotPermitted)?.view;
        let part = view.read_dir(&self.dir, self.after.as_ref());
        let part = part.map_err(|error| error_code(&error))?;
        call.meters.listings.give_back(std::mem::take(&mut self.cost));
        let cost = part.entries.iter().map(|entry| entry.name.len() as u64 + NAME_COST).sum();
        if !call.meters.listings.take(cost) {
            call.used_up(&call.meters.listings, &self.dir.path);
            return Err(ErrorCode::Quota.into());
        }
        let named = |entry: act_workspace::DirEntry| DirectoryEntry {
            type_: type_of(entry.kind),
            name: entry.name,
        };
        let names: Vec<_> = part.entries.into_iter().map(named).collect();
        (self.names, self.after, self.cost) = (names.into_iter(), part.next, cost);
        Ok(())
    }
}

impl HostDirectoryEntryStream for Files<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = Resource::<Listing>::new_borrow(stream.rep());
        let listing = self.table.get_mut(&listing).map_err(FsError::trap)?;
        loop {
            match listing.names.next() {
                None if listing.after.is_some() => listing.fill(self.call)?,
                entry => return Ok(entry),
            }
        }
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let listing = self.table.delete(Resource::<Listing>::new_own(stream.rep()))?;
        self.call.meters.listings.give_back(listing.cost);
        Ok(())
    }
}
