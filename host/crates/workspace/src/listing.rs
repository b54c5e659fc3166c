//! What is there: a page of entries and where the next one starts.

use std::collections::HashSet;

use super::selection::{Selection, SelectionError, Step, Sweep};
use super::view::{Kind, RepoView};

/// Entries in one answer at most.
pub const MAX_ENTRIES: usize = 5_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: String,
    pub kind: Kind,
    /// Of a file; 0 for everything else.
    pub size: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    pub items: Vec<Entry>,
    /// Ask again with this to go on; none at the end.
    pub next: Option<String>,
    /// Something is too deep or too large ever to be listed.
    pub truncated: bool,
}

/// In path order, component by component. A cursor is good for as long as the caller likes: what came and
/// went before it is not told.
pub fn list(
    view: &RepoView,
    want: &Selection,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Entries, SelectionError> {
    let mut sweep = Sweep::new(view, want, cursor)?;
    let mut answer = Entries::default();
    let limit = limit.clamp(1, MAX_ENTRIES);
    let mut last_given: Option<String> = None;
    loop {
        match sweep.step()? {
            Step::End => break,
            Step::Pause => {
                answer.next = sweep.at.clone();
                break;
            }
            Step::Item(item) => {
                if answer.items.len() >= limit {
                    answer.next = last_given;
                    break;
                }
                // Gone since it was seen: not there.
                let Ok(stat) = sweep.stat(&item) else { continue };
                let size = if item.kind == Kind::File {
                    u64::try_from(stat.st_size).unwrap_or(0)
                } else {
                    0
                };
                last_given = Some(item.path.clone());
                answer.items.push(Entry { path: item.path, kind: item.kind, size });
            }
        }
    }
    answer.truncated = sweep.cut;
    Ok(answer)
}

/// The paths of all files in view, without a look at any of them.
pub fn files(view: &RepoView) -> Result<HashSet<String>, SelectionError> {
    let want = Selection { kinds: vec![Kind::File], ..Selection::default() };
    let (mut found, mut cursor) = (HashSet::new(), None);
    loop {
        let mut sweep = Sweep::new(view, &want, cursor.as_deref())?;
        loop {
            match sweep.step()? {
                Step::End => return Ok(found),
                Step::Pause => break,
                Step::Item(item) => found.insert(item.path),
            };
        }
        cursor = sweep.at;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests;
