//! From a path to what stands there: the scratch layer first, the filtered view where that shows through.

use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::join;
use super::scratch::{Look, Scratch};
use super::words::code;
use crate::call::CallContext;
use crate::capability::Capability;
use act_workspace::{Kind, Last, RepoView, Seen, ViewError};

/// Of a real name, as file systems have them: what the layer holds would otherwise grow with every directory that
/// is made in the one before.
const MAX_PATH: usize = 4096;
const MAX_PARTS: usize = 128;
const MAX_NAME: usize = 255;

/// What was found, by its real name.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) path: String,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// Held in the layer.
    Held(Kind, u64),
    /// Of the repository.
    Seen(Seen),
    /// A name in a directory that is there.
    Nothing,
}

impl Spot {
    pub(super) fn kind(&self) -> Option<Kind> {
        match &self.what {
            What::Held(kind, _) => Some(*kind),
            What::Seen(seen) => Some(seen.kind),
            What::Nothing => None,
        }
    }

    pub(super) fn existing(self) -> FsResult<Self> {
        if matches!(self.what, What::Nothing) { Err(ErrorCode::NoEntry.into()) } else { Ok(self) }
    }
}

/// `path` as seen from the directory `base`, a real name.
pub(super) fn walk(query: &mut CallContext, base: &str, path: &str, last: Last) -> FsResult<Spot> {
    match query.scratch.clone() {
        Some(scratch) => walk_over(query, &scratch, base, path, last),
        None => through(query, base, path, last),
    }
}

/// What the view shows. What is hidden is as if it were not there, and told to the audit.
fn through(query: &mut CallContext, base: &str, path: &str, last: Last) -> FsResult<Spot> {
    let view = &query.read.as_ref().ok_or(ErrorCode::NotPermitted)?.view;
    let error = match view.resolve(base, path, last) {
        Ok(seen) => return Ok(Spot { path: seen.path.clone(), what: What::Seen(seen) }),
        Err(error) => error,
    };
    match &error {
        ViewError::Excluded { path, .. } => query.deny(Capability::RepoRead, path),
        ViewError::NotPermitted { .. } => query.deny(Capability::RepoRead, &join(base, path)),
        _ => {}
    }
    Err(code(&error).into())
}

/// The same where a layer lies over the view.
fn walk_over(
    query: &mut CallContext,
    scratch: &Scratch,
    base: &str,
    path: &str,
    last: Last,
) -> FsResult<Spot> {
    if path.is_empty() || path.contains('\0') {
        return Err(ErrorCode::Invalid.into());
    }
    if path.starts_with('/') {
        query.deny(Capability::RepoRead, path);
        return Err(ErrorCode::NotPermitted.into());
    }
    let as_directory = path.ends_with('/') || path.ends_with("/.");
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if path.len() > MAX_PATH || parts.len() > MAX_PARTS {
        return Err(ErrorCode::NameTooLong.into());
    }
    let mut at = spot(query, scratch, base, Last::Follow)?;
    for (i, part) in parts.iter().enumerate() {
        if at.kind() != Some(Kind::Directory) {
            let there = at.existing().map(|_| ErrorCode::NotDirectory.into());
            return Err(there.unwrap_or_else(|error| error));
        }
        let next = match (*part, at.path.rsplit_once('/')) {
            ("..", _) if at.path.is_empty() => {
                query.deny(Capability::RepoRead, path);
                return Err(ErrorCode::NotPermitted.into());
            }
            ("..", above) => above.map_or_else(String::new, |(above, _)| above.to_owned()),
            (name, _) if at.path.is_empty() => name.to_owned(),
            (name, _) => format!("{}/{name}", at.path),
        };
        if part.len() > MAX_NAME || next.len() > MAX_PATH || next.split('/').count() > MAX_PARTS {
            return Err(ErrorCode::NameTooLong.into());
        }
        let is_last = i + 1 == parts.len();
        at = spot(
            query,
            scratch,
            &next,
            if is_last && !as_directory { last } else { Last::Follow },
        )?;
    }
    match at.kind() {
        Some(kind) if as_directory && kind != Kind::Directory => {
            Err(ErrorCode::NotDirectory.into())
        }
        _ => Ok(at),
    }
}

/// One real name, or a link of the repository that leads to one.
fn spot(query: &mut CallContext, scratch: &Scratch, path: &str, last: Last) -> FsResult<Spot> {
    if let Some(held) = held(scratch, path) {
        return Ok(held);
    }
    let view = &query.read.as_ref().ok_or(ErrorCode::NotPermitted)?.view;
    match resolve(view, path, last) {
        // A link may lead to what the layer holds.
        Ok(seen) => Ok(held(scratch, &seen.path)
            .unwrap_or_else(|| Spot { path: seen.path.clone(), what: What::Seen(seen) })),
        Err(ViewError::NotFound) => Ok(Spot { path: path.to_owned(), what: What::Nothing }),
        Err(error) => {
            if let ViewError::Excluded { path, .. } | ViewError::NotPermitted { path, .. } = &error
            {
                query.deny(Capability::RepoRead, path);
            }
            Err(code(&error).into())
        }
    }
}

fn resolve(view: &RepoView, path: &str, last: Last) -> Result<Seen, ViewError> {
    if path.is_empty() { view.resolve("", ".", Last::Follow) } else { view.resolve("", path, last) }
}

fn held(scratch: &Scratch, path: &str) -> Option<Spot> {
    let what = match scratch.look(path) {
        Look::Through => return None,
        Look::File(size) => What::Held(Kind::File, size),
        Look::Directory => What::Held(Kind::Directory, 0),
        Look::Nothing => What::Nothing,
    };
    Some(Spot { path: path.to_owned(), what })
}
