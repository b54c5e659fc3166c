//! A scratch copy of the repository, for a component that insists on a directory that it can write.
//!
//! It is a layer in memory over the filtered view, made for one call and gone with it: nothing is copied that is not
//! changed, nothing lies on a disk, and nothing is left by a host that is killed. What differs in the end are changes
//! for `repo.edit`, with the versions that were read, so that every rule for writing holds for them as well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use act_workspace::{Change, Kind, Version, digest};

/// Bytes that are held in all.
const MAX_BYTES: usize = 64 << 20;
/// Files, directories and names that are gone.
const MAX_NODES: usize = 10_000;

/// Clones share everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch(Arc<Mutex<Layer>>);

#[derive(Debug, Default)]
struct Layer {
    nodes: BTreeMap<String, Node>,
    /// What the repository had where something was changed.
    before: BTreeMap<String, Version>,
    bytes: usize,
}

#[derive(Debug)]
enum Node {
    File(Vec<u8>),
    /// That the repository does not have.
    Directory,
    Gone,
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Whatever the view shows there.
    Through,
    File(u64),
    Directory,
    Nothing,
}

/// No room is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the scratch copy is full")]
pub(super) struct Full;

impl Scratch {
    fn layer(&self) -> MutexGuard<'_, Layer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn look(&self, path: &str) -> Look {
        let layer = self.layer();
        match layer.nodes.get(path) {
            Some(Node::File(bytes)) => return Look::File(bytes.len() as u64),
            Some(Node::Directory) => return Look::Directory,
            Some(Node::Gone) => return Look::Nothing,
            None => {}
        }
        let mut above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        if above.any(|above| layer.nodes.contains_key(above)) {
            Look::Nothing
        } else {
            Look::Through
        }
    }

    /// What is laid over the names in one directory: where a name is gone, nothing.
    pub(super) fn names(&self, dir: &str) -> BTreeMap<String, Option<Kind>> {
        let layer = self.layer();
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let below =
            layer.nodes.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let direct = below.filter_map(|(path, node)| {
            let name = path.get(prefix.len()..).filter(|name| !name.contains('/'))?;
            let kind = match node {
                Node::File(_) => Some(Kind::File),
                Node::Directory => Some(Kind::Directory),
                Node::Gone => None,
            };
            Some((name.to_owned(), kind))
        });
        direct.collect()
    }

    /// Bytes of a file that is held here.
    pub(super) fn read(&self, path: &str, offset: u64, most: usize) -> Option<Vec<u8>> {
        match self.layer().nodes.get(path) {
            Some(Node::File(bytes)) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let to = from.saturating_add(most).min(bytes.len());
                Some(bytes.get(from..to).unwrap_or_default().to_vec())
            }
            _ => None,
        }
    }

    /// A file of that content. `before` is its version in the repository, where it has one.
    pub(super) fn put(
        &self,
        path: &str,
        bytes: Vec<u8>,
        before: Option<Version>,
    ) -> Result<(), Full> {
        let mut layer = self.layer();
        layer.room(path, bytes.len())?;
        if let Some(before) = before {
            layer.before.entry(path.to_owned()).or_insert(before);
        }
        layer.bytes += bytes.len();
        layer.set(path, Node::File(bytes));
        Ok(())
    }

    /// Into a file that is held here; `None` as offset is its end. How many bytes it has then.
    pub(super) fn write(&self, path: &str, offset: Option<u64>, new: &[u8]) -> Result<u64, Full> {
        let mut layer = self.layer();
        let layer = &mut *layer;
        let Some(Node::File(bytes)) = layer.nodes.get_mut(path) else { return Err(Full) };
        let from = offset.map_or(Ok(bytes.len()), usize::try_from).map_err(|_| Full)?;
        let to = from.checked_add(new.len()).ok_or(Full)?;
        grow(bytes, &mut layer.bytes, to)?;
        bytes[from..to].copy_from_slice(new);
        Ok(to as u64)
    }

    pub(super) fn resize(&self, path: &str, size: u64) -> Result<(), Full> {
        let mut layer = self.layer();
        let layer = &mut *layer;
        let Some(Node::File(bytes)) = layer.nodes.get_mut(path) else { return Err(Full) };
        let size = usize::try_from(size).map_err(|_| Full)?;
        grow(bytes, &mut layer.bytes, size)?;
        layer.bytes -= bytes.len() - size;
        bytes.truncate(size);
        Ok(())
    }

    pub(super) fn make_directory(&self, path: &str) -> Result<(), Full> {
        let mut layer = self.layer();
        layer.room(path, 0)?;
        layer.set(path, Node::Directory);
        Ok(())
    }

    pub(super) fn remove(&self, path: &str, before: Option<Version>) -> Result<(), Full> {
        let mut layer = self.layer();
        layer.room(path, 0)?;
        if let Some(before) = before {
            layer.before.entry(path.to_owned()).or_insert(before);
        }
        layer.set(path, Node::Gone);
        Ok(())
    }

    /// Of a file that is held here, with `before` as in [`Self::put`] of its new name: done as a whole, or nothing is.
    pub(super) fn rename(&self, from: &str, to: &str, before: Option<Version>) -> Result<(), Full> {
        let mut layer = self.layer();
        layer.room(to, 0)?;
        let Some(node @ Node::File(_)) = layer.nodes.get_mut(from) else { return Err(Full) };
        let file = std::mem::replace(node, Node::Gone);
        if let Some(before) = before {
            layer.before.entry(to.to_owned()).or_insert(before);
        }
        layer.set(to, file);
        Ok(())
    }

    /// What is different. What is removed comes first: its name may be a directory by now.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let layer = self.layer();
        let (mut gone, mut made) = (vec![], vec![]);
        for (path, node) in &layer.nodes {
            match (node, layer.before.get(path)) {
                (Node::Gone, Some(expect)) => {
                    gone.push(Change::Delete { path: path.clone(), expect: expect.clone() });
                }
                (Node::File(bytes), Some(expect)) if digest(bytes) != expect.digest => {
                    let (path, expect, bytes) = (path.clone(), expect.clone(), bytes.clone());
                    made.push(Change::Replace { path, expect, bytes });
                }
                (Node::File(bytes), None) => {
                    made.push(Change::Create { path: path.clone(), bytes: bytes.clone() });
                }
                _ => {}
            }
        }
        gone.append(&mut made);
        gone
    }
}

impl Layer {
    fn room(&self, path: &str, bytes: usize) -> Result<(), Full> {
        let fits = self.nodes.len() < MAX_NODES || self.nodes.contains_key(path);
        if fits && self.bytes.saturating_add(bytes) <= MAX_BYTES { Ok(()) } else { Err(Full) }
    }

    fn set(&mut self, path: &str, node: Node) {
        if let Some(Node::File(old)) = self.nodes.insert(path.to_owned(), node) {
            self.bytes -= old.len();
        }
    }
}

/// With zeros up to `to`, as a file system does it; never smaller.
fn grow(bytes: &mut Vec<u8>, all: &mut usize, to: usize) -> Result<(), Full> {
    let more = to.saturating_sub(bytes.len());
    if all.saturating_add(more) > MAX_BYTES {
        return Err(Full);
    }
    *all += more;
    if more > 0 {
        bytes.resize(to, 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> Version {
        Version { number: 1, digest: digest(b"old") }
    }

    // FOREIGN-9
    #[test]
    fn only_what_differs_in_the_end_is_a_change_and_it_expects_what_was_read() {
        let scratch = Scratch::default();
        scratch.put("same", b"old".to_vec(), Some(version())).unwrap();
        scratch.put("other", b"old".to_vec(), Some(version())).unwrap();
        scratch.write("other", Some(1), b"LD!").unwrap();
        scratch.put("new", vec![], None).unwrap();
        scratch.write("new", None, b"x").unwrap();
        scratch.put("brief", b"x".to_vec(), None).unwrap();
        scratch.remove("brief", None).unwrap();
        scratch.remove("away", Some(version())).unwrap();
        scratch.make_directory("empty").unwrap();
        let changes = scratch.changes();
        let (path, expect) = ("other".to_owned(), version());
        assert_eq!(
            changes,
            [
                Change::Delete { path: "away".to_owned(), expect: version() },
                Change::Create { path: "new".to_owned(), bytes: b"x".to_vec() },
                Change::Replace { path, expect, bytes: b"oLD!".to_vec() },
            ]
        );
    }

    // FOREIGN-9: what was taken away and made again is a change of the file that was there
    #[test]
    fn a_file_that_is_written_anew_replaces_the_one_that_was_there() {
        let scratch = Scratch::default();
        scratch.remove("a", Some(version())).unwrap();
        scratch.put("a", b"new".to_vec(), None).unwrap();
        let expect = version();
        let bytes = b"new".to_vec();
        assert_eq!(scratch.changes(), [Change::Replace { path: "a".to_owned(), expect, bytes }]);
    }

    // FOREIGN-10
    #[test]
    fn it_is_bounded_in_bytes_and_names_and_gives_back_what_is_let_go() {
        let scratch = Scratch::default();
        scratch.put("a", vec![0; MAX_BYTES - 10], None).unwrap();
        assert_eq!(scratch.put("b", vec![0; 11], None), Err(Full));
        scratch.put("b", vec![0; 10], None).unwrap();
        assert_eq!(scratch.write("b", None, b"x"), Err(Full));
        assert_eq!(scratch.write("b", Some(u64::MAX), b"x"), Err(Full));
        assert_eq!(scratch.resize("b", u64::MAX), Err(Full));
        scratch.resize("a", 0).unwrap();
        scratch.write("b", Some(100), b"x").unwrap();
        assert_eq!(scratch.read("b", 99, 10).unwrap(), b"\0x");
        scratch.remove("b", None).unwrap();
        assert_eq!(scratch.layer().bytes, 0);
        let held = scratch.layer().nodes.len();
        for i in held..MAX_NODES {
            scratch.put(&format!("n{i}"), vec![], None).unwrap();
        }
        // A move that finds no room has not begun.
        scratch.put("n20", b"x".to_vec(), None).unwrap();
        assert_eq!(scratch.rename("n20", "more", None), Err(Full));
        assert_eq!(scratch.read("n20", 0, 9).unwrap(), b"x");
        scratch.rename("n20", "n21", None).unwrap();
        assert_eq!(
            (scratch.look("n20"), scratch.read("n21", 0, 9).unwrap()),
            (Look::Nothing, b"x".to_vec())
        );
        assert_eq!(scratch.layer().bytes, 1);
        assert_eq!(scratch.put("more", vec![], None), Err(Full));
        assert_eq!(scratch.make_directory("more"), Err(Full));
    }

    #[test]
    fn below_what_is_gone_or_new_nothing_shows_through() {
        let scratch = Scratch::default();
        scratch.remove("d", None).unwrap();
        assert_eq!(scratch.look("d/x"), Look::Nothing);
        scratch.make_directory("d").unwrap();
        assert_eq!((scratch.look("d"), scratch.look("d/x")), (Look::Directory, Look::Nothing));
        assert_eq!(scratch.look("dx"), Look::Through);
        scratch.put("d/y", vec![1], None).unwrap();
        assert_eq!(scratch.names("d"), BTreeMap::from([("y".to_owned(), Some(Kind::File))]));
    }
}
