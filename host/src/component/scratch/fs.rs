//! `wasi:filesystem` over a scratch copy: what is written goes into the layer, and nothing leaves it.
//!
//! Links are neither made nor followed out of the view, and a directory is not renamed; what else a program does with
//! files works.

use std::fs::File;
use std::sync::Arc;

use wasmtime::component::{HasData, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, ErrorCode, Filesize, HostDescriptor, HostDirectoryEntryStream,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::streams::{Reading, Writing};
use super::walk::{Spot, What, walk};
use super::{Full, Look, Scratch};
use crate::component::fs_reader::{Reader, ReaderError, Spent};
use crate::component::fs_view::{LISTINGS, MOUNT, NAME_BYTES, READ_BYTES, WRITE};
use crate::component::fs_words::{identity, stat, type_of};
use crate::component::state::{Query, State};
use crate::workspace::{self, Kind, Last, Seen, Slice, Version};

const FULL: &str = "limits.scratch";
/// Names of one directory that are listed.
const MAX_LISTED: usize = 20_000;

/// An open file or directory, by its real name: another handle may have written meanwhile.
struct Open {
    path: String,
    kind: Kind,
    writable: bool,
    /// As it was in the repository when it was opened.
    seen: Option<Seen>,
    file: Option<Arc<File>>,
}

struct Listing {
    names: std::vec::IntoIter<DirectoryEntry>,
    /// What they took out of the query's bytes for names.
    held: u64,
}

pub(in crate::component) struct ScratchFs<'a> {
    table: &'a mut ResourceTable,
    query: &'a mut Query,
}

pub(in crate::component) struct HasScratch;

impl HasData for HasScratch {
    type Data<'a> = ScratchFs<'a>;
}

pub(in crate::component) fn of(state: &mut State) -> ScratchFs<'_> {
    ScratchFs { table: &mut state.table, query: &mut state.query }
}

type Handle = Resource<Descriptor>;

fn last(flags: PathFlags) -> Last {
    if flags.contains(PathFlags::SYMLINK_FOLLOW) { Last::Follow } else { Last::Link }
}

impl ScratchFs<'_> {
    fn get(&self, handle: &Handle) -> FsResult<&Open> {
        self.table.get(&Resource::<Open>::new_borrow(handle.rep())).map_err(FsError::trap)
    }

    fn scratch(&self) -> FsResult<Scratch> {
        Ok(self.query.scratch.clone().ok_or(ErrorCode::NotPermitted)?)
    }

    fn full(&mut self, path: &str) -> FsError {
        self.query.denials.deny(FULL, path);
        ErrorCode::InsufficientSpace.into()
    }

    fn find(&mut self, handle: &Handle, path: &str, last: Last) -> FsResult<Spot> {
        let open = self.get(handle)?;
        if open.kind != Kind::Directory {
            return Err(ErrorCode::NotDirectory.into());
        }
        let base = open.path.clone();
        walk(self.query, &base, path, last)
    }

    /// The same for a name that is about to change; the root has none.
    fn find_to_change(&mut self, handle: &Handle, path: &str) -> FsResult<Spot> {
        let spot = self.find(handle, path, Last::Link)?;
        match spot.kind() {
            _ if spot.path.is_empty() => Err(ErrorCode::NotPermitted.into()),
            // What a link leads to has a name of its own.
            Some(Kind::Link) => {
                self.query.denials.deny(WRITE, &spot.path);
                Err(ErrorCode::NotPermitted.into())
            }
            _ => Ok(spot),
        }
    }

    fn push(&mut self, spot: Spot, writable: bool) -> FsResult<Handle> {
        let kind = spot.kind().ok_or(ErrorCode::NoEntry)?;
        let seen = match spot.what {
            What::Seen(seen) => Some(seen),
            What::Held(..) | What::Nothing => None,
        };
        let file = match &seen {
            Some(seen) if kind == Kind::File => {
                Some(Arc::new(File::from(seen.fd.try_clone().map_err(|_| ErrorCode::Io)?)))
            }
            _ => None,
        };
        let open = Open { path: spot.path, kind, writable, seen, file };
        let pushed = self.table.push(open).map_err(FsError::trap)?;
        Ok(Resource::new_own(pushed.rep()))
    }

    /// A file of the repository with the version that a change of it has to expect.
    fn content(&mut self, path: &str) -> FsResult<(Vec<u8>, Version)> {
        let reading = self.query.read.as_ref().ok_or(ErrorCode::NotPermitted)?;
        let want = Slice { path: path.to_owned(), with_version: true, ..Slice::default() };
        let chunk = workspace::read(&reading.view, &want, reading.versions.as_ref());
        let chunk = chunk.map_err(|error| match error {
            workspace::ReadError::TooLarge { .. } => ErrorCode::FileTooLarge,
            _ => ErrorCode::Io,
        })?;
        if reading.left.bytes() < chunk.size || chunk.size > reading.caps.file_bytes {
            self.query.denials.deny(READ_BYTES, path);
            return Err(ErrorCode::Quota.into());
        }
        reading.left.spend(chunk.size);
        let version = chunk.version.ok_or(ErrorCode::Io)?;
        Ok((chunk.bytes, version))
    }

    /// The file is held in the layer from here on.
    fn hold(&mut self, path: &str) -> FsResult<Scratch> {
        let scratch = self.scratch()?;
        if scratch.look(path) == Look::Through {
            let (bytes, version) = self.content(path)?;
            scratch.put(path, bytes, Some(version)).map_err(|Full| self.full(path))?;
        }
        Ok(scratch)
    }

    /// For writing through an open handle.
    fn writing(&mut self, handle: &Handle) -> FsResult<(Scratch, String)> {
        let open = self.get(handle)?;
        if open.kind != Kind::File {
            return Err(ErrorCode::IsDirectory.into());
        }
        if !open.writable {
            return Err(ErrorCode::NotPermitted.into());
        }
        let path = open.path.clone();
        let scratch = self.scratch()?;
        // Removed meanwhile: there is nothing left that a change could be made of.
        if !matches!(scratch.look(&path), Look::File(_)) {
            return Err(ErrorCode::NoEntry.into());
        }
        Ok((scratch, path))
    }

    fn remove(&mut self, spot: &Spot) -> FsResult<()> {
        let before = match &spot.what {
            What::Seen(seen) if seen.kind == Kind::File => Some(self.content(&spot.path)?.1),
            _ => None,
        };
        let scratch = self.scratch()?;
        scratch.remove(&spot.path, before).map_err(|Full| self.full(&spot.path))
    }

    fn list(&mut self, path: &str, seen: Option<&Seen>) -> FsResult<Vec<DirectoryEntry>> {
        let mut names = std::collections::BTreeMap::new();
        if let (Some(seen), Some(reading)) = (seen, self.query.read.as_ref()) {
            let mut after = None;
            loop {
                let part = reading.view.read_dir(seen, after.as_ref());
                let part = part.map_err(|error| crate::component::fs_words::code(&error))?;
                names.extend(part.entries.into_iter().map(|entry| (entry.name, entry.kind)));
                if names.len() > MAX_LISTED {
                    self.query.denials.deny(LISTINGS, path);
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
        let entry = |(name, kind)| DirectoryEntry { type_: type_of(kind), name };
        Ok(names.into_iter().map(entry).collect())
    }

    fn stat_of(&self, spot: &Spot) -> FsResult<DescriptorStat> {
        match &spot.what {
            What::Seen(seen) => Ok(stat(seen.kind, &seen.stat)),
            What::Held(kind, size) => Ok(held_stat(*kind, *size)),
            What::Nothing => Err(ErrorCode::NoEntry.into()),
        }
    }

    fn linked<T>(&mut self, handle: &Handle, path: &str) -> FsResult<T> {
        let base = self.get(handle).map(|open| open.path.clone()).unwrap_or_default();
        self.query.denials.deny(WRITE, &format!("{base}/{path}"));
        Err(ErrorCode::NotPermitted.into())
    }
}

fn held_stat(kind: Kind, size: u64) -> DescriptorStat {
    DescriptorStat {
        type_: type_of(kind),
        link_count: 1,
        size,
        data_access_timestamp: None,
        data_modification_timestamp: Some(Datetime { seconds: 0, nanoseconds: 0 }),
        status_change_timestamp: None,
    }
}

/// Held files have no inode, so that their name stands for it.
fn name_hash(path: &str) -> MetadataHashValue {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    MetadataHashValue { lower: hasher.finish(), upper: u64::MAX }
}

impl preopens::Host for ScratchFs<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Handle, String)>> {
        let root = walk(self.query, "", ".", Last::Follow).and_then(|spot| self.push(spot, true));
        match root {
            Ok(handle) => Ok(vec![(handle, MOUNT.to_owned())]),
            Err(error) => error.downcast().map(|_| vec![]),
        }
    }
}

impl types::Host for ScratchFs<'_> {
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
        if error.downcast_ref::<Full>().is_some() {
            self.query.denials.deny(FULL, "a write");
            return Ok(Some(ErrorCode::InsufficientSpace));
        }
        Ok(error.downcast_ref::<std::io::Error>().map(|_| ErrorCode::Io))
    }
}

impl HostDescriptor for ScratchFs<'_> {
    fn read_via_stream(
        &mut self,
        handle: Handle,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let open = self.get(&handle)?;
        let scratch = self.scratch()?;
        let stream: DynInputStream = match (scratch.look(&open.path), &open.file) {
            (Look::Through, Some(file)) => {
                let reading = self.query.read.as_ref().ok_or(ErrorCode::NotPermitted)?;
                reading.view.note(&open.path);
                let most = reading.caps.file_bytes;
                Box::new(Reader::new(file.clone(), &open.path, offset, most, &reading.left))
            }
            (Look::Through, None) | (Look::Directory, _) => {
                return Err(ErrorCode::IsDirectory.into());
            }
            _ => Box::new(Reading { scratch, path: open.path.clone(), offset }),
        };
        self.table.push(stream).map_err(FsError::trap)
    }

    async fn read(
        &mut self,
        handle: Handle,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let open = self.get(&handle)?;
        let path = open.path.clone();
        let most = usize::try_from(length).unwrap_or(usize::MAX).min(1 << 20);
        if let Some(bytes) = self.scratch()?.read(&path, offset, most) {
            let end = bytes.is_empty() && length > 0;
            return Ok((bytes, end));
        }
        let file = open.file.clone().ok_or(ErrorCode::IsDirectory)?;
        let reading = self.query.read.as_ref().ok_or(ErrorCode::NotPermitted)?;
        reading.view.note(&path);
        let mut reader = Reader::new(file, &path, offset, reading.caps.file_bytes, &reading.left);
        match reader.read(most) {
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
        let writes = rights.contains(DescriptorFlags::WRITE) || how.contains(OpenFlags::TRUNCATE);
        let mut spot = self.find(&handle, &path, last(follow))?;
        match spot.kind() {
            None if !how.contains(OpenFlags::CREATE) => return Err(ErrorCode::NoEntry.into()),
            None if how.contains(OpenFlags::DIRECTORY) => return Err(ErrorCode::Invalid.into()),
            None => {
                let made = self.scratch()?.put(&spot.path, vec![], None);
                made.map_err(|Full| self.full(&spot.path))?;
                spot.what = What::Held(Kind::File, 0);
            }
            Some(_) if how.contains(OpenFlags::EXCLUSIVE) => return Err(ErrorCode::Exist.into()),
            Some(Kind::Link) => return Err(ErrorCode::Loop.into()),
            Some(Kind::Directory) if writes => return Err(ErrorCode::IsDirectory.into()),
            Some(Kind::File) if how.contains(OpenFlags::DIRECTORY) => {
                return Err(ErrorCode::NotDirectory.into());
            }
            Some(Kind::File) if writes => {
                let scratch = self.hold(&spot.path)?;
                if how.contains(OpenFlags::TRUNCATE) {
                    scratch.resize(&spot.path, 0).map_err(|Full| self.full(&spot.path))?;
                }
                spot.what = What::Held(Kind::File, 0);
            }
            Some(_) => {}
        }
        self.push(spot, writes || how.contains(OpenFlags::CREATE))
    }

    async fn stat(&mut self, handle: Handle) -> FsResult<DescriptorStat> {
        let open = self.get(&handle)?;
        match (self.scratch()?.look(&open.path), &open.seen) {
            (Look::File(size), _) => Ok(held_stat(Kind::File, size)),
            (_, Some(seen)) => Ok(stat(seen.kind, &seen.stat)),
            (_, None) => Ok(held_stat(open.kind, 0)),
        }
    }

    async fn stat_at(
        &mut self,
        handle: Handle,
        follow: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        let spot = self.find(&handle, &path, last(follow))?;
        self.stat_of(&spot)
    }

    async fn metadata_hash(&mut self, handle: Handle) -> FsResult<MetadataHashValue> {
        let open = self.get(&handle)?;
        Ok(open.seen.as_ref().map_or_else(|| name_hash(&open.path), |seen| identity(&seen.stat)))
    }

    async fn metadata_hash_at(
        &mut self,
        handle: Handle,
        follow: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        let spot = self.find(&handle, &path, last(follow))?.existing()?;
        Ok(match &spot.what {
            What::Seen(seen) => identity(&seen.stat),
            _ => name_hash(&spot.path),
        })
    }

    async fn is_same_object(&mut self, a: Handle, b: Handle) -> wasmtime::Result<bool> {
        let path = |handle: &Handle| {
            self.table.get(&Resource::<Open>::new_borrow(handle.rep())).map(|open| &open.path)
        };
        Ok(path(&a)? == path(&b)?)
    }

    async fn readlink_at(&mut self, handle: Handle, path: String) -> FsResult<String> {
        match self.find(&handle, &path, Last::Link)?.what {
            What::Seen(seen) if seen.kind == Kind::Link => {
                let target = rustix::fs::readlinkat(&seen.fd, "", vec![]);
                let target = target.map_err(|_| ErrorCode::Invalid)?.into_string();
                Ok(target.map_err(|_| ErrorCode::IllegalByteSequence)?)
            }
            What::Nothing => Err(ErrorCode::NoEntry.into()),
            _ => Err(ErrorCode::Invalid.into()),
        }
    }

    async fn read_directory(&mut self, handle: Handle) -> FsResult<Resource<DirectoryEntryStream>> {
        let open = self.get(&handle)?;
        if open.kind != Kind::Directory {
            return Err(ErrorCode::NotDirectory.into());
        }
        let path = open.path.clone();
        // Its own handle may be of a directory that was made anew since.
        let spot = walk(self.query, &path, ".", Last::Follow)?.existing()?;
        let seen = if let What::Seen(seen) = &spot.what { Some(seen) } else { None };
        let entries = self.list(&path, seen)?;
        let held = entries.iter().map(|entry| entry.name.len() as u64 + NAME_BYTES).sum();
        let Some(left) = self.query.names_left.checked_sub(held) else {
            self.query.denials.deny(LISTINGS, &path);
            return Err(ErrorCode::Quota.into());
        };
        let listing = Listing { names: entries.into_iter(), held };
        let pushed = self.table.push(listing).map_err(FsError::trap)?;
        self.query.names_left = left;
        Ok(Resource::new_own(pushed.rep()))
    }

    async fn get_flags(&mut self, handle: Handle) -> FsResult<DescriptorFlags> {
        let open = self.get(&handle)?;
        Ok(match (open.kind, open.writable) {
            (Kind::Directory, _) => DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY,
            (_, true) => DescriptorFlags::READ | DescriptorFlags::WRITE,
            (_, false) => DescriptorFlags::READ,
        })
    }

    async fn get_type(&mut self, handle: Handle) -> FsResult<DescriptorType> {
        Ok(type_of(self.get(&handle)?.kind))
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
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        let (scratch, path) = self.writing(&handle)?;
        let stream: DynOutputStream = Box::new(Writing { scratch, path, offset: Some(offset) });
        self.table.push(stream).map_err(FsError::trap)
    }

    fn append_via_stream(&mut self, handle: Handle) -> FsResult<Resource<DynOutputStream>> {
        let (scratch, path) = self.writing(&handle)?;
        let stream: DynOutputStream = Box::new(Writing { scratch, path, offset: None });
        self.table.push(stream).map_err(FsError::trap)
    }

    async fn write(
        &mut self,
        handle: Handle,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        let (scratch, path) = self.writing(&handle)?;
        scratch.write(&path, Some(offset), &bytes).map_err(|Full| self.full(&path))?;
        Ok(bytes.len() as u64)
    }

    async fn set_size(&mut self, handle: Handle, size: Filesize) -> FsResult<()> {
        let (scratch, path) = self.writing(&handle)?;
        scratch.resize(&path, size).map_err(|Full| self.full(&path))
    }

    /// No change of ours carries a time.
    async fn set_times(&mut self, _: Handle, _: NewTimestamp, _: NewTimestamp) -> FsResult<()> {
        Ok(())
    }

    async fn set_times_at(
        &mut self,
        handle: Handle,
        follow: PathFlags,
        path: String,
        _: NewTimestamp,
        _: NewTimestamp,
    ) -> FsResult<()> {
        self.find(&handle, &path, last(follow))?.existing().map(|_| ())
    }

    async fn create_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        let spot = self.find_to_change(&handle, path.trim_end_matches('/'))?;
        if spot.kind().is_some() {
            return Err(ErrorCode::Exist.into());
        }
        self.scratch()?.make_directory(&spot.path).map_err(|Full| self.full(&spot.path))
    }

    async fn remove_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        let spot = self.find_to_change(&handle, &path)?.existing()?;
        if spot.kind() != Some(Kind::Directory) {
            return Err(ErrorCode::NotDirectory.into());
        }
        let seen = if let What::Seen(seen) = &spot.what { Some(seen) } else { None };
        if !self.list(&spot.path, seen)?.is_empty() {
            return Err(ErrorCode::NotEmpty.into());
        }
        self.remove(&spot)
    }

    async fn unlink_file_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        let spot = self.find_to_change(&handle, &path)?.existing()?;
        if spot.kind() != Some(Kind::File) {
            return Err(ErrorCode::IsDirectory.into());
        }
        self.remove(&spot)
    }

    async fn rename_at(
        &mut self,
        handle: Handle,
        path: String,
        to_handle: Handle,
        to_path: String,
    ) -> FsResult<()> {
        let from = self.find_to_change(&handle, &path)?.existing()?;
        let to = self.find_to_change(&to_handle, &to_path)?;
        if from.path == to.path {
            return Ok(());
        }
        match (from.kind(), to.kind()) {
            (Some(Kind::File), None | Some(Kind::File)) => {}
            (Some(Kind::File), _) => return Err(ErrorCode::IsDirectory.into()),
            _ => return Err(ErrorCode::Unsupported.into()),
        }
        let scratch = self.hold(&from.path)?;
        let before = match &to.what {
            What::Seen(_) => Some(self.content(&to.path)?.1),
            _ => None,
        };
        scratch.rename(&from.path, &to.path, before).map_err(|Full| self.full(&to.path))
    }

    async fn link_at(
        &mut self,
        handle: Handle,
        _: PathFlags,
        path: String,
        _: Handle,
        _: String,
    ) -> FsResult<()> {
        self.linked(&handle, &path)
    }

    async fn symlink_at(&mut self, handle: Handle, _: String, path: String) -> FsResult<()> {
        self.linked(&handle, &path)
    }
}

impl HostDirectoryEntryStream for ScratchFs<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = Resource::<Listing>::new_borrow(stream.rep());
        Ok(self.table.get_mut(&listing).map_err(FsError::trap)?.names.next())
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let listing = self.table.delete(Resource::<Listing>::new_own(stream.rep()))?;
        self.query.names_left += listing.held;
        Ok(())
    }
}
