//! `wasi:filesystem` over the filtered view.
//!
//! [`act_workspace::RepoView`] resolves every path, judges the real name and opens the file, and the component gets the
//! handle that was judged. Without the grant `repo.read` there is no directory to start from.
//!
//! A foreign component that may write gets a scratch copy: an [`Overlay`] for one call, which its view shows. A file is
//! copied up into the overlay when it is opened for writing. No other write leaves the component, and what differs when
//! the call ends are changes for `repo.edit` (`foreign`). Without a scratch copy, every write is refused.
//!
//! This file resolves paths and prepares writes, `descriptor` implements the functions of an open file or directory,
//! and `streams` are bytes and names that are read or written in pieces.

mod descriptor;
mod streams;

use std::sync::Arc;

use rustix::fs::Stat;
use wasmtime::component::{HasData, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Descriptor, DescriptorStat, DescriptorType, ErrorCode, MetadataHashValue, PathFlags,
};
use wasmtime_wasi::p2::{FsError, FsResult};

use crate::call::{CallContext, State};
use crate::capability::{Capability, ReadAccess};
use act_workspace::{
    FollowLinks, Kind, OpenEntry, Overlay, OverlayFull, Profile, ReadError, Slice, ViewError,
};
use streams::{BytesUsedUp, Reader};

/// The directory at which a component finds the repository.
const MOUNT: &str = "/repo";
/// The word for a full scratch copy in records.
const SCRATCH_FULL: &str = "limits.scratch";

/// Longest path and name of a new entry, in bytes, and most parts of its path. File systems have the first two bounds.
/// All three keep the overlay small when each directory is created in the one before.
const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;
const MAX_PARTS: usize = 128;

/// An open file or directory. The resources of the generated bindings are indices into the table of the store, so this
/// type takes the place of the library's.
struct OpenFile {
    seen: Arc<OpenEntry>,
    /// The file was in the scratch copy when it was opened. It is read there, and `seen` has no content.
    in_scratch: bool,
    is_writable: bool,
}

/// The host functions of `wasi:filesystem` for one store.
pub(super) struct Files<'a> {
    table: &'a mut ResourceTable,
    call: &'a mut CallContext,
}

pub(super) struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = Files<'a>;
}

pub(super) fn of(state: &mut State) -> Files<'_> {
    Files { table: &mut state.table, call: &mut state.call }
}

type Handle = Resource<Descriptor>;

impl Files<'_> {
    fn get(&self, handle: &Handle) -> FsResult<&OpenFile> {
        self.table.get(&Resource::<OpenFile>::new_borrow(handle.rep())).map_err(FsError::trap)
    }

    fn access(&self) -> FsResult<&ReadAccess> {
        Ok(self.call.read.as_ref().ok_or(ErrorCode::NotPermitted)?)
    }

    fn scratch(&self) -> FsResult<Overlay> {
        Ok(self.call.scratch.clone().ok_or(ErrorCode::NotPermitted)?)
    }

    /// Resolves a path below an open directory.
    fn find(&mut self, handle: &Handle, path: &str, follow: FollowLinks) -> FsResult<OpenEntry> {
        Ok(self.find_if_any(handle, path, follow)?.ok_or(ErrorCode::NoEntry)?)
    }

    /// Resolves a path below an open directory; `None` if it has no entry.
    fn find_if_any(
        &mut self,
        handle: &Handle,
        path: &str,
        follow: FollowLinks,
    ) -> FsResult<Option<OpenEntry>> {
        let directory = Arc::clone(&self.get(handle)?.seen);
        if directory.kind != Kind::Directory {
            return Err(ErrorCode::NotDirectory.into());
        }
        self.resolve(&directory.path, path, follow)
    }

    /// Resolves a path. An excluded path looks as if it had no entry, and the attempt is recorded as a denial.
    fn resolve(
        &mut self,
        base: &str,
        path: &str,
        follow: FollowLinks,
    ) -> FsResult<Option<OpenEntry>> {
        let error = match self.access()?.view.resolve(base, path, follow) {
            Ok(seen) => return Ok(Some(seen)),
            Err(ViewError::NotFound) => return Ok(None),
            Err(error) => error,
        };
        match &error {
            ViewError::Excluded { path, .. } => self.call.deny(Capability::RepoRead, path),
            ViewError::NotPermitted { .. } => {
                self.call.deny(Capability::RepoRead, &join(base, path));
            }
            _ => {}
        }
        Err(error_code(&error).into())
    }

    /// Gives the component a handle. A Scout gets none for a file that is binary by content.
    fn push(&mut self, mut seen: OpenEntry, is_writable: bool) -> FsResult<Handle> {
        if seen.kind == Kind::File && self.access()?.view.profile() == Profile::Scout {
            let mut head = [0; act_workspace::BINARY_PROBE];
            let count = seen.handle.read_at(&mut head, 0).map_err(|_| ErrorCode::Io)?;
            if act_workspace::is_binary(&head[..count]) {
                self.call.deny(Capability::RepoRead, &seen.path);
                return Err(ErrorCode::NoEntry.into());
            }
        }
        let changed = self.call.scratch.as_ref().and_then(|it| it.changed_file_size(&seen.path));
        let in_scratch = seen.kind == Kind::File && changed.is_some();
        if in_scratch {
            // Each write after an open handle makes another content, so a component that opens and writes in turn could
            // fill the memory of the host with handles of one large file.
            seen.handle = act_workspace::Handle::Overlay(Arc::default());
        }
        self.call.meters.repo_read.opened.add(1);
        let open = OpenFile { seen: Arc::new(seen), in_scratch, is_writable };
        let pushed = self.table.push(open).map_err(FsError::trap)?;
        Ok(Resource::new_own(pushed.rep()))
    }

    fn reader(&self, handle: &Handle, offset: u64) -> FsResult<Reader> {
        let OpenFile { seen: file, in_scratch, .. } = self.get(handle)?;
        let (file, in_scratch) = (Arc::clone(file), *in_scratch);
        if file.kind != Kind::File {
            return Err(ErrorCode::IsDirectory.into());
        }
        let ReadAccess { caps, view, .. } = self.access()?;
        view.record_read(&file.path);
        let (scratch, meters) = (self.call.scratch.clone(), Arc::clone(&self.call.meters));
        Ok(Reader { file, in_scratch, scratch, offset, end: caps.file_bytes, meters })
    }

    fn refuse_write<T>(&mut self, handle: &Handle, path: &str) -> FsResult<T> {
        let base = self.get(handle).map(|open| open.seen.path.clone()).unwrap_or_default();
        self.call.deny(Capability::RepoWrite, &join(&base, path));
        Err(ErrorCode::NotPermitted.into())
    }

    /// Finds an entry that is about to be changed. The root is never changed, and neither is a link, because its target has a
    /// name of its own.
    fn find_to_change(&mut self, handle: &Handle, path: &str) -> FsResult<Option<OpenEntry>> {
        if self.call.scratch.is_none() {
            return self.refuse_write(handle, path);
        }
        let seen = self.find_if_any(handle, path, FollowLinks::No)?;
        match &seen {
            Some(seen) if seen.path.is_empty() => Err(ErrorCode::NotPermitted.into()),
            Some(seen) if seen.kind == Kind::Link => {
                self.call.deny(Capability::RepoWrite, &seen.path);
                Err(ErrorCode::NotPermitted.into())
            }
            _ => Ok(seen),
        }
    }

    /// Returns the real name for a new entry at a path that has none.
    fn new_name(&mut self, handle: &Handle, path: &str, kind: Kind) -> FsResult<String> {
        let (dir, name) = path.rsplit_once('/').unwrap_or((".", path));
        if matches!(name, "" | "." | "..") {
            return Err(ErrorCode::NoEntry.into());
        }
        let parent = self.find(handle, dir, FollowLinks::Yes)?;
        if parent.kind != Kind::Directory {
            return Err(ErrorCode::NotDirectory.into());
        }
        let new = join(&parent.path, name);
        if name.len() > MAX_NAME || new.len() > MAX_PATH || new.split('/').count() > MAX_PARTS {
            return Err(ErrorCode::NameTooLong.into());
        }
        if self.resolve("", &new, FollowLinks::No)?.is_some() {
            // A link that leads to no entry.
            return Err(ErrorCode::Loop.into());
        }
        if self.access()?.view.rule(&new, kind).is_some() {
            self.call.deny(Capability::RepoRead, &new);
            return Err(ErrorCode::NoEntry.into());
        }
        Ok(new)
    }

    /// Copies a file up into the scratch copy unless it is there. Reading it counts like any other reading.
    fn copy_up(&mut self, file: &OpenEntry) -> FsResult<Overlay> {
        let scratch = self.scratch()?;
        if scratch.changed_file_size(&file.path).is_some() {
            return Ok(scratch);
        }
        let access = self.access()?;
        let bytes_left = &self.call.meters.repo_read.bytes;
        let most = bytes_left.left().min(access.caps.file_bytes);
        if u64::try_from(file.stat.st_size).unwrap_or_default() > most {
            self.call.used_up(bytes_left, &file.path);
            return Err(ErrorCode::Quota.into());
        }
        let want = Slice { path: file.path.clone(), with_version: true, ..Slice::default() };
        let read = act_workspace::read(&access.view, &want, access.versions.as_ref());
        let chunk = read.map_err(|error| read_error_code(&error))?;
        if chunk.size > most {
            // Another program has written more to the file since it was found.
            self.call.used_up(bytes_left, &file.path);
            return Err(ErrorCode::Quota.into());
        }
        bytes_left.spend(chunk.size);
        let (mode, version) = (file.stat.st_mode & 0o777, chunk.version.ok_or(ErrorCode::Io)?);
        let copied = scratch.copy_up(&file.path, chunk.bytes, mode, version);
        self.check_room(copied, &file.path)?;
        Ok(scratch)
    }

    /// Removes a file from the scratch copy. Its content is not copied: the deletion needs its version alone.
    fn remove_file(&mut self, file: &OpenEntry) -> FsResult<()> {
        let scratch = self.scratch()?;
        if scratch.changed_file_size(&file.path).is_some() {
            return self.check_room(scratch.remove(&file.path), &file.path);
        }
        let access = self.access()?;
        let version = act_workspace::version(&access.view, &file.path, access.versions.as_ref());
        let version = version.map_err(|error| read_error_code(&error))?;
        self.check_room(scratch.remove_unchanged(&file.path, version), &file.path)
    }

    /// Records that the scratch copy is full.
    fn check_room<T>(&mut self, written: Result<T, OverlayFull>, path: &str) -> FsResult<T> {
        written.map_err(|OverlayFull| {
            self.call.denials.limit(SCRATCH_FULL, path);
            ErrorCode::InsufficientSpace.into()
        })
    }
}

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Handle, String)>> {
        if self.call.read.is_none() {
            return Ok(vec![]);
        }
        let root = self.resolve("", ".", FollowLinks::Yes).and_then(|root| match root {
            Some(root) => self.push(root, false),
            None => Err(ErrorCode::NoEntry.into()),
        });
        match root {
            Ok(handle) => Ok(vec![(handle, MOUNT.to_owned())]),
            // A root that cannot be opened any more has no entries.
            Err(error) => error.downcast().map(|_| vec![]),
        }
    }
}

impl types::Host for Files<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        let error = self.table.get(&error)?;
        if let Some(BytesUsedUp { path }) = error.downcast_ref() {
            self.call.used_up(&self.call.meters.repo_read.bytes, path);
            return Ok(Some(ErrorCode::Quota));
        }
        if error.downcast_ref::<OverlayFull>().is_some() {
            self.call.denials.limit(SCRATCH_FULL, "a write");
            return Ok(Some(ErrorCode::InsufficientSpace));
        }
        Ok(error.downcast_ref::<std::io::Error>().map(|_| ErrorCode::Io))
    }
}

fn join(base: &str, path: &str) -> String {
    if base.is_empty() || path.is_empty() {
        format!("{base}{path}")
    } else {
        format!("{base}/{path}")
    }
}

fn follow(flags: PathFlags) -> FollowLinks {
    if flags.contains(PathFlags::SYMLINK_FOLLOW) { FollowLinks::Yes } else { FollowLinks::No }
}

fn error_code(error: &ViewError) -> ErrorCode {
    match error {
        ViewError::NotFound | ViewError::Excluded { .. } => ErrorCode::NoEntry,
        ViewError::NotPermitted { .. } => ErrorCode::NotPermitted,
        ViewError::NotDirectory => ErrorCode::NotDirectory,
        ViewError::Loop => ErrorCode::Loop,
        ViewError::Invalid(_) => ErrorCode::Invalid,
        ViewError::TooLong => ErrorCode::NameTooLong,
        ViewError::Io(_) => ErrorCode::Io,
    }
}

fn read_error_code(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::TooLarge { .. } => ErrorCode::FileTooLarge,
        _ => ErrorCode::Io,
    }
}

fn type_of(kind: Kind) -> DescriptorType {
    match kind {
        Kind::File => DescriptorType::RegularFile,
        Kind::Directory => DescriptorType::Directory,
        Kind::Link => DescriptorType::SymbolicLink,
    }
}

fn descriptor_stat(kind: Kind, stat: &Stat) -> DescriptorStat {
    let modified = Datetime {
        seconds: u64::try_from(stat.st_mtime).unwrap_or_default(),
        nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
    };
    DescriptorStat {
        type_: type_of(kind),
        link_count: 1,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        data_access_timestamp: None,
        data_modification_timestamp: Some(modified),
        status_change_timestamp: None,
    }
}

fn metadata_hash(stat: &Stat) -> MetadataHashValue {
    MetadataHashValue { lower: stat.st_ino, upper: stat.st_dev }
}
