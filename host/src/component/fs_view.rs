//! `wasi:filesystem` over the filtered view: every function that takes a path is ours.
//!
//! The view resolves, judges the real name and opens; what a component gets is the handle that was judged.
//! Nothing here can change a file. Without the grant `repo.read` there is no directory to start from.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use wasmtime::component::{HasData, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, ErrorCode, Filesize, HostDescriptor, HostDirectoryEntryStream,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::admission::Capability;
use super::fs_reader::{Reader, ReaderError, Spent};
use super::fs_words::{code, identity, stat, type_of};
use super::state::{Query, Reading, State};
use crate::workspace::{self, DirEntry, DirMark, Kind, Last, Profile, Seen, ViewError};

/// Where a component finds the repository.
pub(super) const MOUNT: &str = "/repo";
pub(super) const LISTINGS: &str = "limits.listings";
/// What a name takes beside its own bytes.
pub(super) const NAME_BYTES: u64 = 64;
const READ: &str = "repo.read";
pub(super) const READ_BYTES: &str = "repo.read.bytes";
pub(super) const WRITE: &str = "repo.write";

/// An open file or directory. The resources of the generated bindings are indices into the store's table,
/// so ours stand where the library's would.
struct Open {
    seen: Seen,
    /// The same handle, for reading.
    file: Option<Arc<File>>,
}

/// A directory that is being listed: a part of its names, and where the next part begins.
struct Listing {
    dir: Seen,
    names: std::vec::IntoIter<DirEntry>,
    next: Next,
    /// What the part took out of the query's bytes for names.
    held: u64,
}

enum Next {
    First,
    After(DirMark),
    End,
}

impl Listing {
    /// The next name. Parts are read when they are needed, and given back before another one is taken.
    fn next(&mut self, query: &mut Query) -> FsResult<Option<DirEntry>> {
        loop {
            if let Some(entry) = self.names.next() {
                return Ok(Some(entry));
            }
            let after = match &self.next {
                Next::First => None,
                Next::After(mark) => Some(mark),
                Next::End => return Ok(None),
            };
            let view = &query.read.as_ref().ok_or(ErrorCode::NotPermitted)?.view;
            let part = view.read_dir(&self.dir, after).map_err(|error| code(&error))?;
            query.names_left += std::mem::take(&mut self.held);
            let size = |entry: &DirEntry| entry.name.len() as u64 + NAME_BYTES;
            let taken = part.entries.iter().map(size).sum();
            let Some(left) = query.names_left.checked_sub(taken) else {
                query.denials.deny(LISTINGS, &self.dir.path);
                return Err(ErrorCode::Quota.into());
            };
            (query.names_left, self.held) = (left, taken);
            self.names = part.entries.into_iter();
            self.next = part.next.map_or(Next::End, Next::After);
        }
    }
}

pub(super) struct FsView<'a> {
    table: &'a mut ResourceTable,
    query: &'a mut Query,
}

pub(super) struct HasFsView;

impl HasData for HasFsView {
    type Data<'a> = FsView<'a>;
}

pub(super) fn of(state: &mut State) -> FsView<'_> {
    FsView { table: &mut state.table, query: &mut state.query }
}

type Handle = Resource<Descriptor>;

impl FsView<'_> {
    fn reading(&self) -> FsResult<&Reading> {
        Ok(self.query.read.as_ref().ok_or(ErrorCode::NotPermitted)?)
    }

    fn get(&self, handle: &Handle) -> FsResult<&Open> {
        self.table.get(&Resource::<Open>::new_borrow(handle.rep())).map_err(FsError::trap)
    }

    fn find(&mut self, base: &str, path: &str, flags: PathFlags) -> FsResult<Seen> {
        let last =
            if flags.contains(PathFlags::SYMLINK_FOLLOW) { Last::Follow } else { Last::Link };
        let found = self.reading()?.view.resolve(base, path, last);
        Ok(found.map_err(|error| self.refused(base, path, error))?)
    }

    fn find_at(&mut self, handle: &Handle, path: &str, flags: PathFlags) -> FsResult<Seen> {
        let dir = &self.get(handle)?.seen;
        if dir.kind != Kind::Directory {
            return Err(ErrorCode::NotDirectory.into());
        }
        let base = dir.path.clone();
        self.find(&base, path, flags)
    }

    /// The word for the guest; what is hidden is as if it were not there, and told to the audit.
    fn refused(&mut self, base: &str, asked: &str, error: ViewError) -> ErrorCode {
        let denied = match &error {
            ViewError::Excluded { path, .. } => Some(path.clone()),
            ViewError::NotPermitted { .. } => Some(join(base, asked)),
            _ => None,
        };
        if let Some(object) = denied {
            self.query.denials.deny(READ, &object);
        }
        code(&error)
    }

    /// The last look before a handle is given away: what is binary by content is not in a Scout's view.
    fn push(&mut self, seen: Seen) -> FsResult<Handle> {
        let file = match seen.kind {
            Kind::File => {
                Some(Arc::new(File::from(seen.fd.try_clone().map_err(|_| ErrorCode::Io)?)))
            }
            Kind::Directory | Kind::Link => None,
        };
        if let Some(file) = file.as_ref().filter(|_| is_scout(self.query)) {
            let mut head = [0; workspace::BINARY_PROBE];
            let count = file.read_at(&mut head, 0).map_err(|_| ErrorCode::Io)?;
            if workspace::is_binary(&head[..count]) {
                self.query.denials.deny(READ, &seen.path);
                return Err(ErrorCode::NoEntry.into());
            }
        }
        self.query.usage.of(Capability::RepoRead);
        let pushed = self.table.push(Open { seen, file }).map_err(FsError::trap)?;
        Ok(Resource::new_own(pushed.rep()))
    }

    fn write_refused<T>(&mut self, handle: &Handle, path: &str) -> FsResult<T> {
        let base = self.get(handle).map(|open| open.seen.path.clone()).unwrap_or_default();
        self.query.denials.deny(WRITE, &join(&base, path));
        Err(ErrorCode::NotPermitted.into())
    }

    fn reader(&self, handle: &Handle, offset: u64) -> FsResult<Reader> {
        let Open { seen, file } = self.get(handle)?;
        let file = file.clone().ok_or(ErrorCode::IsDirectory)?;
        let Reading { left, caps, view, .. } = self.reading()?;
        view.note(&seen.path);
        Ok(Reader::new(file, &seen.path, offset, caps.file_bytes, left))
    }
}

impl preopens::Host for FsView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Handle, String)>> {
        if self.query.read.is_none() {
            return Ok(vec![]);
        }
        let root = self.find("", ".", PathFlags::SYMLINK_FOLLOW).and_then(|root| self.push(root));
        match root {
            Ok(handle) => Ok(vec![(handle, MOUNT.to_owned())]),
            // A root that cannot be opened any more leaves nothing to see.
            Err(error) => error.downcast().map(|_| vec![]),
        }
    }
}

impl types::Host for FsView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        let error = self.table.get(&error)?;
        if let Some(Spent { path }) = error.downcast_ref() {
            self.query.denials.deny(READ_BYTES, path);
            return Ok(Some(ErrorCode::Quota));
        }
        Ok(error.downcast_ref::<std::io::Error>().map(|_| ErrorCode::Io))
    }
}

impl HostDescriptor for FsView<'_> {
    fn read_via_stream(
        &mut self,
        handle: Handle,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let stream: DynInputStream = Box::new(self.reader(&handle, offset)?);
        self.table.push(stream).map_err(FsError::trap)
    }

    async fn read(
        &mut self,
        handle: Handle,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let mut reader = self.reader(&handle, offset)?;
        match reader.read(usize::try_from(length).unwrap_or(usize::MAX)) {
            Ok(bytes) => Ok((bytes.to_vec(), bytes.is_empty() && length > 0)),
            Err(ReaderError::Spent(Spent { path })) => {
                self.query.denials.deny(READ_BYTES, &path);
                Err(ErrorCode::Quota.into())
            }
            Err(ReaderError::Io(_)) => Err(ErrorCode::Io.into()),
        }
    }

    async fn open_at(
        &mut self,
        handle: Handle,
        follow: PathFlags,
        path: String,
        how: OpenFlags,
        rights: DescriptorFlags,
    ) -> FsResult<Handle> {
        if how.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE)
            || rights.intersects(DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY)
        {
            return self.write_refused(&handle, &path);
        }
        let seen = self.find_at(&handle, &path, follow)?;
        match seen.kind {
            Kind::Link => Err(ErrorCode::Loop.into()),
            Kind::File if how.contains(OpenFlags::DIRECTORY) => Err(ErrorCode::NotDirectory.into()),
            Kind::File | Kind::Directory => self.push(seen),
        }
    }

    async fn stat(&mut self, handle: Handle) -> FsResult<DescriptorStat> {
        let open = self.get(&handle)?;
        let now = rustix::fs::fstat(&open.seen.fd).map_err(|_| ErrorCode::Io)?;
        Ok(stat(open.seen.kind, &now))
    }

    async fn stat_at(
        &mut self,
        handle: Handle,
        follow: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        let seen = self.find_at(&handle, &path, follow)?;
        Ok(stat(seen.kind, &seen.stat))
    }

    async fn metadata_hash(&mut self, handle: Handle) -> FsResult<MetadataHashValue> {
        Ok(identity(&self.get(&handle)?.seen.stat))
    }

    async fn metadata_hash_at(
        &mut self,
        handle: Handle,
        follow: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        Ok(identity(&self.find_at(&handle, &path, follow)?.stat))
    }

    async fn is_same_object(&mut self, a: Handle, b: Handle) -> wasmtime::Result<bool> {
        let stat = |handle: &Handle| {
            self.table.get(&Resource::<Open>::new_borrow(handle.rep())).map(|open| &open.seen.stat)
        };
        let (a, b) = (stat(&a)?, stat(&b)?);
        Ok((a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
    }

    async fn readlink_at(&mut self, handle: Handle, path: String) -> FsResult<String> {
        let seen = self.find_at(&handle, &path, PathFlags::empty())?;
        if seen.kind != Kind::Link {
            return Err(ErrorCode::Invalid.into());
        }
        let target =
            rustix::fs::readlinkat(&seen.fd, "", vec![]).map_err(|_| ErrorCode::Invalid)?;
        Ok(target.into_string().map_err(|_| ErrorCode::IllegalByteSequence)?)
    }

    async fn read_directory(&mut self, handle: Handle) -> FsResult<Resource<DirectoryEntryStream>> {
        let Seen { fd, path, kind, stat } = &self.get(&handle)?.seen;
        if *kind != Kind::Directory {
            return Err(ErrorCode::NotDirectory.into());
        }
        let fd = fd.try_clone().map_err(|_| ErrorCode::Io)?;
        let dir = Seen { fd, path: path.clone(), kind: *kind, stat: *stat };
        let listing = Listing { dir, names: vec![].into_iter(), next: Next::First, held: 0 };
        let listing = self.table.push(listing).map_err(FsError::trap)?;
        Ok(Resource::new_own(listing.rep()))
    }

    async fn get_flags(&mut self, handle: Handle) -> FsResult<DescriptorFlags> {
        self.get(&handle).map(|_| DescriptorFlags::READ)
    }

    async fn get_type(&mut self, handle: Handle) -> FsResult<DescriptorType> {
        Ok(type_of(self.get(&handle)?.seen.kind))
    }

    async fn advise(&mut self, _: Handle, _: Filesize, _: Filesize, _: Advice) -> FsResult<()> {
        Ok(())
    }

    async fn sync_data(&mut self, _: Handle) -> FsResult<()> {
        Ok(())
    }

    async fn sync(&mut self, _: Handle) -> FsResult<()> {
        Ok(())
    }

    fn drop(&mut self, handle: Handle) -> wasmtime::Result<()> {
        self.table.delete(Resource::<Open>::new_own(handle.rep()))?;
        Ok(())
    }

    fn write_via_stream(
        &mut self,
        handle: Handle,
        _: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.write_refused(&handle, "")
    }

    fn append_via_stream(&mut self, handle: Handle) -> FsResult<Resource<DynOutputStream>> {
        self.write_refused(&handle, "")
    }

    async fn write(&mut self, handle: Handle, _: Vec<u8>, _: Filesize) -> FsResult<Filesize> {
        self.write_refused(&handle, "")
    }

    async fn set_size(&mut self, handle: Handle, _: Filesize) -> FsResult<()> {
        self.write_refused(&handle, "")
    }

    async fn set_times(
        &mut self,
        handle: Handle,
        _: NewTimestamp,
        _: NewTimestamp,
    ) -> FsResult<()> {
        self.write_refused(&handle, "")
    }

    async fn set_times_at(
        &mut self,
        handle: Handle,
        _: PathFlags,
        path: String,
        _: NewTimestamp,
        _: NewTimestamp,
    ) -> FsResult<()> {
        self.write_refused(&handle, &path)
    }

    async fn create_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.write_refused(&handle, &path)
    }

    async fn remove_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.write_refused(&handle, &path)
    }

    async fn unlink_file_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.write_refused(&handle, &path)
    }

    async fn rename_at(
        &mut self,
        handle: Handle,
        path: String,
        _: Handle,
        _: String,
    ) -> FsResult<()> {
        self.write_refused(&handle, &path)
    }

    async fn link_at(
        &mut self,
        handle: Handle,
        _: PathFlags,
        path: String,
        _: Handle,
        _: String,
    ) -> FsResult<()> {
        self.write_refused(&handle, &path)
    }

    async fn symlink_at(&mut self, handle: Handle, _: String, path: String) -> FsResult<()> {
        self.write_refused(&handle, &path)
    }
}

impl HostDirectoryEntryStream for FsView<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = Resource::<Listing>::new_borrow(stream.rep());
        let listing = self.table.get_mut(&listing).map_err(FsError::trap)?;
        let entry = listing.next(self.query)?;
        Ok(entry.map(|entry| DirectoryEntry { type_: type_of(entry.kind), name: entry.name }))
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let listing = self.table.delete(Resource::<Listing>::new_own(stream.rep()))?;
        self.query.names_left += listing.held;
        Ok(())
    }
}

fn is_scout(query: &Query) -> bool {
    query.read.as_ref().is_some_and(|read| read.view.profile() == Profile::Scout)
}

fn join(base: &str, path: &str) -> String {
    if base.is_empty() || path.is_empty() {
        format!("{base}{path}")
    } else {
        format!("{base}/{path}")
    }
}
