//! The functions of an open file or directory, in the order of the interface: reading, then writing.

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntryStream, ErrorCode,
    Filesize, HostDescriptor, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::reader::{MAX_READ, ReaderError, Spent};
use super::scratch::Look;
use super::streams::Reading;
use super::walk::What;
use super::words::{held_stat, identity, name_hash, stat, type_of};
use super::{Files, Handle, Open, last};
use act_workspace::{Kind, Last};

impl HostDescriptor for Files<'_> {
    fn read_via_stream(
        &mut self,
        handle: Handle,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let open = self.get(&handle)?;
        let stream: DynInputStream = match self.look(&open.path) {
            Look::Through => Box::new(self.reader(open, offset)?),
            Look::Directory => return Err(ErrorCode::IsDirectory.into()),
            Look::File(_) | Look::Nothing => {
                Box::new(Reading { scratch: self.scratch()?, path: open.path.clone(), offset })
            }
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
        let most = usize::try_from(length).unwrap_or(usize::MAX).min(MAX_READ);
        let scratch = self.query.scratch.as_ref();
        if let Some(bytes) = scratch.and_then(|scratch| scratch.read(&open.path, offset, most)) {
            let end = bytes.is_empty() && length > 0;
            return Ok((bytes, end));
        }
        match self.reader(open, offset)?.read(most) {
            Ok(bytes) => Ok((bytes.to_vec(), bytes.is_empty() && length > 0)),
            Err(ReaderError::Spent(Spent { path })) => {
                self.query.used_up(&self.query.meters.repo_read.bytes, &path);
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
        let changes = OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE;
        let mutates = DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY;
        if self.query.scratch.is_none() && (how.intersects(changes) || rights.intersects(mutates)) {
            return self.write_refused(&handle, &path);
        }
        let writes = rights.contains(DescriptorFlags::WRITE) || how.contains(OpenFlags::TRUNCATE);
        let mut spot = self.find(&handle, &path, last(follow))?;
        match spot.kind() {
            None if !how.contains(OpenFlags::CREATE) => return Err(ErrorCode::NoEntry.into()),
            None if how.contains(OpenFlags::DIRECTORY) => return Err(ErrorCode::Invalid.into()),
            Some(_) if how.contains(OpenFlags::EXCLUSIVE) => return Err(ErrorCode::Exist.into()),
            Some(Kind::Link) => return Err(ErrorCode::Loop.into()),
            Some(Kind::Directory) if writes => return Err(ErrorCode::IsDirectory.into()),
            Some(Kind::File) if how.contains(OpenFlags::DIRECTORY) => {
                return Err(ErrorCode::NotDirectory.into());
            }
            None => self.prepare(&mut spot, how)?,
            Some(Kind::File) if writes => self.prepare(&mut spot, how)?,
            Some(_) => {}
        }
        self.push(spot, writes || how.contains(OpenFlags::CREATE))
    }

    async fn stat(&mut self, handle: Handle) -> FsResult<DescriptorStat> {
        let open = self.get(&handle)?;
        match (self.look(&open.path), &open.seen) {
            (Look::File(size), _) => Ok(held_stat(Kind::File, size)),
            (_, Some(seen)) => {
                let now = rustix::fs::fstat(&seen.fd).map_err(|_| ErrorCode::Io)?;
                Ok(stat(seen.kind, &now))
            }
            (_, None) => Ok(held_stat(open.kind, 0)),
        }
    }

    async fn stat_at(
        &mut self,
        handle: Handle,
        follow: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        match self.find(&handle, &path, last(follow))?.what {
            What::Seen(seen) => Ok(stat(seen.kind, &seen.stat)),
            What::Held(kind, size) => Ok(held_stat(kind, size)),
            What::Nothing => Err(ErrorCode::NoEntry.into()),
        }
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
        let open = |handle: &Handle| self.table.get(&Resource::<Open>::new_borrow(handle.rep()));
        let (a, b) = (open(&a)?, open(&b)?);
        Ok(match (&a.seen, &b.seen) {
            (Some(a), Some(b)) => (a.stat.st_dev, a.stat.st_ino) == (b.stat.st_dev, b.stat.st_ino),
            _ => a.path == b.path,
        })
    }

    async fn readlink_at(&mut self, handle: Handle, path: String) -> FsResult<String> {
        match self.find(&handle, &path, Last::Link)?.existing()?.what {
            What::Seen(seen) if seen.kind == Kind::Link => {
                let target = rustix::fs::readlinkat(&seen.fd, "", vec![]);
                let target = target.map_err(|_| ErrorCode::Invalid)?.into_string();
                Ok(target.map_err(|_| ErrorCode::IllegalByteSequence)?)
            }
            _ => Err(ErrorCode::Invalid.into()),
        }
    }

    async fn read_directory(&mut self, handle: Handle) -> FsResult<Resource<DirectoryEntryStream>> {
        self.listing(&handle)
    }

    async fn get_flags(&mut self, handle: Handle) -> FsResult<DescriptorFlags> {
        let open = self.get(&handle)?;
        let more = match open.kind {
            Kind::Directory if self.query.scratch.is_some() => DescriptorFlags::MUTATE_DIRECTORY,
            Kind::File if open.writable => DescriptorFlags::WRITE,
            _ => DescriptorFlags::empty(),
        };
        Ok(DescriptorFlags::READ | more)
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
        let stream = self.output(&handle, Some(offset))?;
        self.table.push(stream).map_err(FsError::trap)
    }

    fn append_via_stream(&mut self, handle: Handle) -> FsResult<Resource<DynOutputStream>> {
        let stream = self.output(&handle, None)?;
        self.table.push(stream).map_err(FsError::trap)
    }

    async fn write(
        &mut self,
        handle: Handle,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        self.put(&handle, offset, &bytes)
    }

    async fn set_size(&mut self, handle: Handle, size: Filesize) -> FsResult<()> {
        self.resize(&handle, size)
    }

    /// No change of ours carries a time.
    async fn set_times(
        &mut self,
        handle: Handle,
        _: NewTimestamp,
        _: NewTimestamp,
    ) -> FsResult<()> {
        if self.query.scratch.is_some() { Ok(()) } else { self.write_refused(&handle, "") }
    }

    async fn set_times_at(
        &mut self,
        handle: Handle,
        follow: PathFlags,
        path: String,
        _: NewTimestamp,
        _: NewTimestamp,
    ) -> FsResult<()> {
        if self.query.scratch.is_none() {
            return self.write_refused(&handle, &path);
        }
        self.find(&handle, &path, last(follow))?.existing().map(|_| ())
    }

    async fn create_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.make_directory(&handle, &path)
    }

    async fn remove_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.remove(&handle, &path, Kind::Directory)
    }

    async fn unlink_file_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.remove(&handle, &path, Kind::File)
    }

    async fn rename_at(
        &mut self,
        handle: Handle,
        path: String,
        to_handle: Handle,
        to_path: String,
    ) -> FsResult<()> {
        self.rename(&handle, &path, &to_handle, &to_path)
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
