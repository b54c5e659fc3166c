//! The functions of an open file or directory, in the order of the interface: first reading, then writing.

use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntryStream, ErrorCode,
    Filesize, HostDescriptor, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::streams::{BytesUsedUp, Listing, ReaderError, Writer};
use super::{Files, Handle, OpenFile, descriptor_stat, follow, metadata_hash, type_of};
use act_workspace::{FollowLinks, Kind, OpenEntry};

impl HostDescriptor for Files<'_> {
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
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        match self.reader(&handle, offset)?.read(size) {
            Ok(bytes) => Ok((bytes.to_vec(), bytes.is_empty() && length > 0)),
            Err(ReaderError::UsedUp(BytesUsedUp { path })) => {
                self.call.used_up(&self.call.meters.repo_read.bytes, &path);
                Err(ErrorCode::Quota.into())
            }
            Err(ReaderError::Io(_)) => Err(ErrorCode::Io.into()),
        }
    }

    async fn open_at(
        &mut self,
        handle: Handle,
        flags: PathFlags,
        path: String,
        how: OpenFlags,
        rights: DescriptorFlags,
    ) -> FsResult<Handle> {
        let changes = OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE;
        let mutates = DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY;
        if self.call.scratch.is_none() && (how.intersects(changes) || rights.intersects(mutates)) {
            return self.refuse_write(&handle, &path);
        }
        let writes = rights.contains(DescriptorFlags::WRITE) || how.contains(OpenFlags::TRUNCATE);
        let Some(mut seen) = self.find_if_any(&handle, &path, follow(flags))? else {
            if !how.contains(OpenFlags::CREATE) {
                return Err(ErrorCode::NoEntry.into());
            }
            if how.contains(OpenFlags::DIRECTORY) {
                return Err(ErrorCode::Invalid.into());
            }
            let new = self.new_name(&handle, &path, Kind::File)?;
            let created = self.scratch()?.create_file(&new);
            self.check_room(created, &new)?;
            let seen = self.resolve("", &new, FollowLinks::No)?.ok_or(ErrorCode::NoEntry)?;
            return self.push(seen, true);
        };
        match seen.kind {
            _ if how.contains(OpenFlags::EXCLUSIVE) => return Err(ErrorCode::Exist.into()),
            Kind::Link => return Err(ErrorCode::Loop.into()),
            Kind::Directory if writes => return Err(ErrorCode::IsDirectory.into()),
            Kind::File if how.contains(OpenFlags::DIRECTORY) => {
                return Err(ErrorCode::NotDirectory.into());
            }
            Kind::File if writes => {
                let scratch = self.copy_up(&seen)?;
                if how.contains(OpenFlags::TRUNCATE) {
                    let emptied = scratch.set_size(&seen.path, 0);
                    self.check_room(emptied, &seen.path)?;
                }
                seen = self.resolve("", &seen.path, FollowLinks::No)?.ok_or(ErrorCode::NoEntry)?;
            }
            Kind::File | Kind::Directory => {}
        }
        self.push(seen, writes || how.contains(OpenFlags::CREATE))
    }

    async fn stat(&mut self, handle: Handle) -> FsResult<DescriptorStat> {
        let OpenFile { seen, .. } = self.get(&handle)?;
        let stat = match &seen.handle {
            act_workspace::Handle::Overlay(_) => seen.stat,
            act_workspace::Handle::Real(fd) => rustix::fs::fstat(fd).map_err(|_| ErrorCode::Io)?,
        };
        let scratch = self.call.scratch.as_ref();
        let changed = scratch.and_then(|scratch| scratch.changed_file_size(&seen.path));
        let stat = descriptor_stat(seen.kind, &stat);
        Ok(DescriptorStat { size: changed.unwrap_or(stat.size), ..stat })
    }

    async fn stat_at(
        &mut self,
        handle: Handle,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        let seen = self.find(&handle, &path, follow(flags))?;
        Ok(descriptor_stat(seen.kind, &seen.stat))
    }

    async fn metadata_hash(&mut self, handle: Handle) -> FsResult<MetadataHashValue> {
        Ok(metadata_hash(&self.get(&handle)?.seen.stat))
    }

    async fn metadata_hash_at(
        &mut self,
        handle: Handle,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        Ok(metadata_hash(&self.find(&handle, &path, follow(flags))?.stat))
    }

    async fn is_same_object(&mut self, a: Handle, b: Handle) -> wasmtime::Result<bool> {
        let open =
            |handle: &Handle| self.table.get(&Resource::<OpenFile>::new_borrow(handle.rep()));
        let (a, b) = (&open(&a)?.seen, &open(&b)?.seen);
        // A file that was copied up has another inode than before, but the same path.
        let is_same_inode = (a.stat.st_dev, a.stat.st_ino) == (b.stat.st_dev, b.stat.st_ino);
        Ok(is_same_inode || a.path == b.path)
    }

    async fn readlink_at(&mut self, handle: Handle, path: String) -> FsResult<String> {
        let seen = self.find(&handle, &path, FollowLinks::No)?;
        if seen.kind != Kind::Link {
            return Err(ErrorCode::Invalid.into());
        }
        let target = seen.handle.link_target().map_err(|_| ErrorCode::Invalid)?.into_string();
        Ok(target.map_err(|_| ErrorCode::IllegalByteSequence)?)
    }

    async fn read_directory(&mut self, handle: Handle) -> FsResult<Resource<DirectoryEntryStream>> {
        let directory = Arc::clone(&self.get(&handle)?.seen);
        let listing = Listing::open(directory, self.call)?;
        let pushed = self.table.push(listing).map_err(FsError::trap)?;
        Ok(Resource::new_own(pushed.rep()))
    }

    async fn get_flags(&mut self, handle: Handle) -> FsResult<DescriptorFlags> {
        let open = self.get(&handle)?;
        let more = match open.seen.kind {
            Kind::Directory if self.call.scratch.is_some() => DescriptorFlags::MUTATE_DIRECTORY,
            Kind::File if open.is_writable => DescriptorFlags::WRITE,
            _ => DescriptorFlags::empty(),
        };
        Ok(DescriptorFlags::READ | more)
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
        self.table.delete(Resource::<OpenFile>::new_own(handle.rep()))?;
        Ok(())
    }

    fn write_via_stream(
        &mut self,
        handle: Handle,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(self.writer(&handle, Some(offset))?);
        self.table.push(stream).map_err(FsError::trap)
    }

    fn append_via_stream(&mut self, handle: Handle) -> FsResult<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(self.writer(&handle, None)?);
        self.table.push(stream).map_err(FsError::trap)
    }

    async fn write(
        &mut self,
        handle: Handle,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        let Writer { scratch, path, offset } = self.writer(&handle, Some(offset))?;
        self.check_room(scratch.write_at(&path, offset, &bytes), &path)?;
        Ok(bytes.len() as u64)
    }

    async fn set_size(&mut self, handle: Handle, size: Filesize) -> FsResult<()> {
        let Writer { scratch, path, .. } = self.writer(&handle, None)?;
        self.check_room(scratch.set_size(&path, size), &path)
    }

    /// Accepts the times and ignores them: a change of the repository carries no time.
    async fn set_times(
        &mut self,
        handle: Handle,
        _: NewTimestamp,
        _: NewTimestamp,
    ) -> FsResult<()> {
        if self.call.scratch.is_some() { Ok(()) } else { self.refuse_write(&handle, "") }
    }

    async fn set_times_at(
        &mut self,
        handle: Handle,
        flags: PathFlags,
        path: String,
        _: NewTimestamp,
        _: NewTimestamp,
    ) -> FsResult<()> {
        if self.call.scratch.is_none() {
            return self.refuse_write(&handle, &path);
        }
        self.find(&handle, &path, follow(flags)).map(|_| ())
    }

    async fn create_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        let path = path.trim_end_matches('/');
        if self.find_to_change(&handle, path)?.is_some() {
            return Err(ErrorCode::Exist.into());
        }
        let new = self.new_name(&handle, path, Kind::Directory)?;
        let created = self.scratch()?.create_directory(&new);
        self.check_room(created, &new)
    }

    async fn remove_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        let directory = self.find_to_change(&handle, &path)?.ok_or(ErrorCode::NoEntry)?;
        if directory.kind != Kind::Directory {
            return Err(ErrorCode::NotDirectory.into());
        }
        if !self.is_empty(&directory)? {
            return Err(ErrorCode::NotEmpty.into());
        }
        let removed = self.scratch()?.remove(&directory.path);
        self.check_room(removed, &directory.path)
    }

    async fn unlink_file_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        let file = self.find_to_change(&handle, &path)?.ok_or(ErrorCode::NoEntry)?;
        if file.kind != Kind::File {
            return Err(ErrorCode::IsDirectory.into());
        }
        self.remove_file(&file)
    }

    async fn rename_at(
        &mut self,
        handle: Handle,
        path: String,
        to_handle: Handle,
        to_path: String,
    ) -> FsResult<()> {
        let from = self.find_to_change(&handle, &path)?.ok_or(ErrorCode::NoEntry)?;
        let to = self.find_to_change(&to_handle, &to_path)?;
        if from.kind == Kind::Directory {
            return Err(ErrorCode::Unsupported.into());
        }
        let to = match to {
            Some(to) if to.path == from.path => return Ok(()),
            Some(to) if to.kind == Kind::Directory => return Err(ErrorCode::IsDirectory.into()),
            Some(to) => {
                self.copy_up(&from)?;
                self.remove_file(&to)?;
                to.path
            }
            None => self.new_name(&to_handle, &to_path, Kind::File)?,
        };
        // The file under its new name is created by the change that the writer gets, so its content is needed.
        let renamed = self.copy_up(&from)?.rename(&from.path, &to);
        self.check_room(renamed, &to)
    }

    async fn link_at(
        &mut self,
        handle: Handle,
        _: PathFlags,
        path: String,
        _: Handle,
        _: String,
    ) -> FsResult<()> {
        self.refuse_write(&handle, &path)
    }

    async fn symlink_at(&mut self, handle: Handle, _: String, path: String) -> FsResult<()> {
        self.refuse_write(&handle, &path)
    }
}

impl Files<'_> {
    /// A writer for an open file, from an offset on or always at its end.
    fn writer(&mut self, handle: &Handle, offset: Option<u64>) -> FsResult<Writer> {
        if self.call.scratch.is_none() {
            return self.refuse_write(handle, "");
        }
        let OpenFile { seen, is_writable, .. } = self.get(handle)?;
        if seen.kind != Kind::File {
            return Err(ErrorCode::IsDirectory.into());
        }
        if !is_writable {
            return Err(ErrorCode::NotPermitted.into());
        }
        let (path, scratch) = (seen.path.clone(), self.scratch()?);
        if scratch.changed_file_size(&path).is_none() {
            // The file was removed after it was opened, so the written bytes cannot become a change of a file.
            return Err(ErrorCode::NoEntry.into());
        }
        Ok(Writer { scratch, path, offset })
    }

    fn is_empty(&self, directory: &OpenEntry) -> FsResult<bool> {
        let view = &self.access()?.view;
        let mut after = None;
        loop {
            let part = view.read_dir(directory, after.as_ref());
            let part = part.map_err(|error| super::error_code(&error))?;
            match (part.entries.is_empty(), part.next) {
                (true, Some(next)) => after = Some(next),
                (is_empty, _) => return Ok(is_empty),
            }
        }
    }
}
