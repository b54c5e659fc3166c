//! `wasi:filesystem` over the filtered view: every function that takes a path is ours.
//!
//! The view resolves, judges the real name and opens; what a component gets is the handle that was judged.
//! Nothing here can change a file, and without the grant `repo.read` there is no directory to start from. What a foreign component
//! that may write does write goes into a scratch copy, a layer over the view, and nothing leaves that.
//!
//! `descriptor` answers the interface's functions, `walk` finds what stands at a path, `listing` is directories, `reader` and
//! `streams` are bytes of the repository and of the copy, `writing` changes the copy, `scratch` is the copy itself, and
//! `words` are those of WASI.

mod descriptor;
mod listing;
mod reader;
mod scratch;
mod streams;
mod walk;
mod words;
mod writing;

pub(super) use scratch::Scratch;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use wasmtime::component::{HasData, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{self, Descriptor, ErrorCode, PathFlags};
use wasmtime_wasi::p2::{FsError, FsResult};

use super::call::{CallContext, State};
use super::capability::{Capability, ReadAccess};
use act_workspace::{Kind, Last, Profile, Seen};
use reader::{Reader, Spent};
use scratch::{Full, Look};
use walk::{Spot, What, walk};

/// Where a component finds the repository.
const MOUNT: &str = "/repo";
const FULL: &str = "limits.scratch";

/// An open file or directory, by its real name: in a scratch copy another handle may have written meanwhile. The resources of
/// the generated bindings are indices into the store's table, so ours stand where the library's would.
struct Open {
    path: String,
    kind: Kind,
    writable: bool,
    /// As it was in the repository when it was opened; none of what only the scratch copy has.
    seen: Option<Seen>,
    /// The same handle, for reading.
    file: Option<Arc<File>>,
}

pub(super) struct Files<'a> {
    table: &'a mut ResourceTable,
    query: &'a mut CallContext,
}

pub(super) struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = Files<'a>;
}

pub(super) fn of(state: &mut State) -> Files<'_> {
    Files { table: &mut state.table, query: &mut state.call }
}

type Handle = Resource<Descriptor>;

fn last(flags: PathFlags) -> Last {
    if flags.contains(PathFlags::SYMLINK_FOLLOW) { Last::Follow } else { Last::Link }
}

impl Files<'_> {
    fn reading(&self) -> FsResult<&ReadAccess> {
        Ok(self.query.read.as_ref().ok_or(ErrorCode::NotPermitted)?)
    }

    fn get(&self, handle: &Handle) -> FsResult<&Open> {
        self.table.get(&Resource::<Open>::new_borrow(handle.rep())).map_err(FsError::trap)
    }

    fn look(&self, path: &str) -> Look {
        self.query.scratch.as_ref().map_or(Look::Through, |scratch| scratch.look(path))
    }

    fn find(&mut self, handle: &Handle, path: &str, last: Last) -> FsResult<Spot> {
        let open = self.get(handle)?;
        if open.kind != Kind::Directory {
            return Err(ErrorCode::NotDirectory.into());
        }
        let base = open.path.clone();
        walk(self.query, &base, path, last)
    }

    /// The last look before a handle is given away: what is binary by content is not in a Scout's view.
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
        if let Some(file) = file.as_ref().filter(|_| is_scout(self.query)) {
            let mut head = [0; act_workspace::BINARY_PROBE];
            let count = file.read_at(&mut head, 0).map_err(|_| ErrorCode::Io)?;
            if act_workspace::is_binary(&head[..count]) {
                self.query.deny(Capability::RepoRead, &spot.path);
                return Err(ErrorCode::NoEntry.into());
            }
        }
        self.query.meters.repo_read.opened.add(1);
        let open = Open { path: spot.path, kind, writable, seen, file };
        let pushed = self.table.push(open).map_err(FsError::trap)?;
        Ok(Resource::new_own(pushed.rep()))
    }

    fn reader(&self, open: &Open, offset: u64) -> FsResult<Reader> {
        let file = open.file.clone().ok_or(ErrorCode::IsDirectory)?;
        let ReadAccess { caps, view, .. } = self.reading()?;
        view.record_read(&open.path);
        let meters = Arc::clone(&self.query.meters);
        Ok(Reader::new(file, &open.path, offset, caps.file_bytes, meters))
    }

    fn write_refused<T>(&mut self, handle: &Handle, path: &str) -> FsResult<T> {
        let base = self.get(handle).map(|open| open.path.clone()).unwrap_or_default();
        self.query.deny(Capability::RepoWrite, &join(&base, path));
        Err(ErrorCode::NotPermitted.into())
    }
}

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Handle, String)>> {
        if self.query.read.is_none() {
            return Ok(vec![]);
        }
        let writable = self.query.scratch.is_some();
        let root =
            walk(self.query, "", ".", Last::Follow).and_then(|spot| self.push(spot, writable));
        match root {
            Ok(handle) => Ok(vec![(handle, MOUNT.to_owned())]),
            // A root that cannot be opened any more leaves nothing to see.
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
        if let Some(Spent { path }) = error.downcast_ref() {
            self.query.used_up(&self.query.meters.repo_read.bytes, path);
            return Ok(Some(ErrorCode::Quota));
        }
        if error.downcast_ref::<Full>().is_some() {
            self.query.denials.limit(FULL, "a write");
            return Ok(Some(ErrorCode::InsufficientSpace));
        }
        Ok(error.downcast_ref::<std::io::Error>().map(|_| ErrorCode::Io))
    }
}

fn is_scout(query: &CallContext) -> bool {
    query.read.as_ref().is_some_and(|read| read.view.profile() == Profile::Scout)
}

fn join(base: &str, path: &str) -> String {
    if base.is_empty() || path.is_empty() {
        format!("{base}{path}")
    } else {
        format!("{base}/{path}")
    }
}
