//! What is written in a scratch copy. Links are never made and never written through, and a directory is not renamed. Without a copy
//! all of it is refused.

use wasmtime_wasi::p2::bindings::filesystem::types::{ErrorCode, OpenFlags};
use wasmtime_wasi::p2::{DynOutputStream, FsError, FsResult};

use super::scratch::{Full, Look, Scratch};
use super::streams::Writing;
use super::walk::{Spot, What};
use super::{FULL, Files, Handle};
use crate::capability::Capability;
use act_workspace::{Kind, Last, Slice, Version};

impl Files<'_> {
    pub(super) fn scratch(&self) -> FsResult<Scratch> {
        Ok(self.query.scratch.clone().ok_or(ErrorCode::NotPermitted)?)
    }

    fn full(&mut self, path: &str) -> FsError {
        self.query.denials.limit(FULL, path);
        ErrorCode::InsufficientSpace.into()
    }

    /// A name that is about to change; the root has none.
    fn find_to_change(&mut self, handle: &Handle, path: &str) -> FsResult<Spot> {
        if self.query.scratch.is_none() {
            return self.write_refused(handle, path);
        }
        let spot = self.find(handle, path, Last::Link)?;
        match spot.kind() {
            _ if spot.path.is_empty() => Err(ErrorCode::NotPermitted.into()),
            // What a link leads to has a name of its own.
            Some(Kind::Link) => {
                self.query.deny(Capability::RepoWrite, &spot.path);
                Err(ErrorCode::NotPermitted.into())
            }
            _ => Ok(spot),
        }
    }

    /// A file of the repository with the version that a change of it has to expect.
    fn content(&mut self, path: &str) -> FsResult<(Vec<u8>, Version)> {
        let reading = self.query.read.as_ref().ok_or(ErrorCode::NotPermitted)?;
        let want = Slice { path: path.to_owned(), with_version: true, ..Slice::default() };
        let chunk = act_workspace::read(&reading.view, &want, reading.versions.as_ref());
        let chunk = chunk.map_err(|error| match error {
            act_workspace::ReadError::TooLarge { .. } => ErrorCode::FileTooLarge,
            _ => ErrorCode::Io,
        })?;
        let left = &self.query.meters.repo_read.bytes;
        if left.left() < chunk.size || chunk.size > reading.caps.file_bytes {
            self.query.used_up(left, path);
            return Err(ErrorCode::Quota.into());
        }
        left.spend(chunk.size);
        let version = chunk.version.ok_or(ErrorCode::Io)?;
        Ok((chunk.bytes, version))
    }

    /// The version of the repository's file that goes when this spot is written over.
    fn before(&mut self, spot: &Spot) -> FsResult<Option<Version>> {
        match &spot.what {
            What::Seen(seen) if seen.kind == Kind::File => Ok(Some(self.content(&spot.path)?.1)),
            _ => Ok(None),
        }
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

    /// Opening makes the file, or empties it, or gets it ready to be written.
    pub(super) fn prepare(&mut self, spot: &mut Spot, how: OpenFlags) -> FsResult<()> {
        if spot.kind().is_none() {
            let made = self.scratch()?.put(&spot.path, vec![], None);
            made.map_err(|Full| self.full(&spot.path))?;
        } else {
            let scratch = self.hold(&spot.path)?;
            if how.contains(OpenFlags::TRUNCATE) {
                scratch.resize(&spot.path, 0).map_err(|Full| self.full(&spot.path))?;
            }
        }
        spot.what = What::Held(Kind::File, 0);
        Ok(())
    }

    /// For writing through an open handle.
    fn writing(&mut self, handle: &Handle) -> FsResult<(Scratch, String)> {
        if self.query.scratch.is_none() {
            return self.write_refused(handle, "");
        }
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

    /// `None` as offset is always the end.
    pub(super) fn output(
        &mut self,
        handle: &Handle,
        offset: Option<u64>,
    ) -> FsResult<DynOutputStream> {
        let (scratch, path) = self.writing(handle)?;
        Ok(Box::new(Writing { scratch, path, offset }))
    }

    pub(super) fn put(&mut self, handle: &Handle, offset: u64, bytes: &[u8]) -> FsResult<u64> {
        let (scratch, path) = self.writing(handle)?;
        scratch.write(&path, Some(offset), bytes).map_err(|Full| self.full(&path))?;
        Ok(bytes.len() as u64)
    }

    pub(super) fn resize(&mut self, handle: &Handle, size: u64) -> FsResult<()> {
        let (scratch, path) = self.writing(handle)?;
        scratch.resize(&path, size).map_err(|Full| self.full(&path))
    }

    pub(super) fn make_directory(&mut self, handle: &Handle, path: &str) -> FsResult<()> {
        let spot = self.find_to_change(handle, path.trim_end_matches('/'))?;
        if spot.kind().is_some() {
            return Err(ErrorCode::Exist.into());
        }
        self.scratch()?.make_directory(&spot.path).map_err(|Full| self.full(&spot.path))
    }

    /// A file, or a directory that is empty.
    pub(super) fn remove(&mut self, handle: &Handle, path: &str, kind: Kind) -> FsResult<()> {
        let spot = self.find_to_change(handle, path)?.existing()?;
        if spot.kind() != Some(kind) {
            let is_file = kind == Kind::File;
            let other = if is_file { ErrorCode::IsDirectory } else { ErrorCode::NotDirectory };
            return Err(other.into());
        }
        if kind == Kind::Directory && !self.names(&spot.path, &spot.what)?.is_empty() {
            return Err(ErrorCode::NotEmpty.into());
        }
        let before = self.before(&spot)?;
        self.scratch()?.remove(&spot.path, before).map_err(|Full| self.full(&spot.path))
    }

    pub(super) fn rename(
        &mut self,
        handle: &Handle,
        path: &str,
        to_handle: &Handle,
        to_path: &str,
    ) -> FsResult<()> {
        let from = self.find_to_change(handle, path)?.existing()?;
        let to = self.find_to_change(to_handle, to_path)?;
        if from.path == to.path {
            return Ok(());
        }
        match (from.kind(), to.kind()) {
            (Some(Kind::File), None | Some(Kind::File)) => {}
            (Some(Kind::File), _) => return Err(ErrorCode::IsDirectory.into()),
            _ => return Err(ErrorCode::Unsupported.into()),
        }
        let scratch = self.hold(&from.path)?;
        let before = self.before(&to)?;
        scratch.rename(&from.path, &to.path, before).map_err(|Full| self.full(&to.path))
    }
}
