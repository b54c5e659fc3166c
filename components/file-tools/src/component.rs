//! The component's export, and its repository: the host's, through WIT.

use crate::repository::{Change, Chunk, Denial, Entry, Hit, Kind, Page, Repository, Version};
use act_kit::bindings::agentcommand::repo::read;
use act_kit::bindings::agentcommand::types::types;
use act_kit::tool::{NotRun, Outcome, edit};
use act_kit::world::World;

act_kit::tool!(call);

/// What the kit's world has is not enough here: versions are of the essence.
fn call(_: World<'_>, name: &str, arguments: &str) -> Result<Outcome, NotRun> {
    crate::run(&Host, name, arguments)
}

struct Host;

impl Repository for Host {
    fn list(&self, under: &str, cursor: Option<String>) -> Result<Page<Entry>, Denial> {
        let under = if under.is_empty() { vec![] } else { vec![under.to_owned()] };
        let selection = read::Selection { under, globs: vec![], kinds: vec![] };
        let page = read::list_entries(&selection, cursor.as_deref())?;
        let entry = |entry: read::Entry| Entry {
            path: entry.path,
            kind: match entry.kind {
                read::Kind::File => Kind::File,
                read::Kind::Directory => Kind::Directory,
                read::Kind::Link => Kind::Link,
            },
        };
        Ok(Page {
            items: page.items.into_iter().map(entry).collect(),
            next: page.next,
            truncated: page.truncated,
        })
    }

    fn read(&self, path: &str, offset: u64, length: u64) -> Result<Chunk, Denial> {
        let slice =
            read::Slice { path: path.to_owned(), offset, length: Some(length), with_version: true };
        let chunk = read::read_many(&[slice]).pop();
        let chunk = chunk.ok_or_else(|| Denial::Failed("the host gave no answer".to_owned()))??;
        let version =
            chunk.version.ok_or_else(|| Denial::Failed("the host gave no version".to_owned()))?;
        Ok(Chunk { bytes: chunk.bytes, size: chunk.size, version: version.into() })
    }

    fn search(
        &self,
        regex: &str,
        glob: Option<&str>,
        cursor: Option<String>,
    ) -> Result<Page<Hit>, Denial> {
        let pattern =
            read::Pattern { regex: regex.to_owned(), ignore_case: false, multi_line: false };
        let globs = glob.map(str::to_owned).into_iter().collect();
        let selection = read::Selection { under: vec![], globs, kinds: vec![] };
        let page = read::search(&pattern, &selection, cursor.as_deref())?;
        let hit = |hit: read::Hit| Hit { path: hit.path, line: hit.line, text: hit.text };
        let items = page.items.into_iter().map(hit).collect();
        Ok(Page { items, next: page.next, truncated: page.truncated })
    }

    fn apply(&self, change: Change) -> Result<Option<Version>, Denial> {
        let change = match change {
            Change::Create(path, bytes) => edit::Change::Create((path, bytes)),
            Change::Replace(path, version, bytes) => {
                edit::Change::Replace((path, version.into(), bytes))
            }
            Change::Delete(path, version) => edit::Change::Delete((path, version.into())),
            Change::Move(from, version, to) => edit::Change::Move((from, version.into(), to)),
        };
        let versions = edit::apply(&[change])?;
        Ok(versions.into_iter().next().flatten().map(Into::into))
    }
}

impl From<types::Version> for Version {
    fn from(version: types::Version) -> Self {
        Self { number: version.number, digest: version.digest }
    }
}

impl From<Version> for types::Version {
    fn from(version: Version) -> Self {
        Self { number: version.number, digest: version.digest }
    }
}

impl From<types::Refusal> for Denial {
    fn from(refusal: types::Refusal) -> Self {
        match refusal {
            types::Refusal::NotFound => Self::NotFound,
            types::Refusal::Invalid(why) => Self::Invalid(why),
            types::Refusal::Stale => {
                Self::Failed("the repository changed during the call".to_owned())
            }
            types::Refusal::Denied(why) => Self::Denied(why),
            types::Refusal::Limit(why) => Self::Limit(why),
            types::Refusal::Failed(why) => Self::Failed(why),
        }
    }
}

impl From<edit::EditError> for Denial {
    fn from(error: edit::EditError) -> Self {
        match error {
            edit::EditError::Conflict((_, now)) => Self::Conflict(now.map(Into::into)),
            edit::EditError::Exists(path) => Self::Exists(path),
            edit::EditError::Protected((path, rule)) => Self::Protected(path, rule),
            edit::EditError::Refused(refusal) => refusal.into(),
        }
    }
}
