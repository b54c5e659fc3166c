//! The base volume of a cluster, on which trees outlive their Pods: an archive that is sent to such a tree carries only what has
//! changed there.
//!
//! The archive is a stream of tar, as [`Packer`](crate::copy::Packer) writes it. It is taken apart into entries, in batches. For
//! each batch the host describes its files, the program in the Pod says which of them the tree has, and the host sends the others.
//! The host acts on that answer without proof: the digest of the tree is computed in the container of the steps, and another one
//! makes the run fail. The words and bounds of the stream stand in `sandbox/src/kept.rs` as well, because that program is a
//! workspace of its own.

use sha2::{Digest, Sha256};
use std::io;
use tar::EntryType;

/// Bytes of the contents of one batch, which the host holds in memory.
const BATCH: usize = 16 << 20;
/// Files of one batch.
const FILES: usize = 8192;
/// The largest file that is described, in bytes. A larger one is sent as it is, because a batch holds it whole.
const LARGEST: u64 = 4 << 20;
/// The longest path or target of a link, in bytes. The kernel takes 4,096.
const LONGEST: u64 = 64 << 10;
/// Bytes of a block of tar.
const BLOCK: usize = 512;

/// The words of the stream. Numbers are of four bytes and times of eight, the highest first.
const QUESTION: u8 = b'Q';
const DIRECTORY: u8 = b'D';
const LINK: u8 = b'L';
const FILE: u8 = b'F';
const LARGE: u8 = b'W';
const BYTES: u8 = b'B';

#[derive(Debug, PartialEq, Eq)]
struct File {
    path: Vec<u8>,
    mode: u32,
    modified: u64,
    content: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Directory {
        path: Vec<u8>,
        mode: u32,
    },
    Link {
        path: Vec<u8>,
        target: Vec<u8>,
    },
    File(File),
    /// A file whose content follows in pieces.
    Large {
        path: Vec<u8>,
        mode: u32,
        modified: u64,
        size: u64,
    },
    Bytes(Vec<u8>),
}

/// An archive on its way, cut into batches.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    entries: Vec<Entry>,
    files: usize,
    bytes: usize,
    at: At,
    /// The path and the target of the next entry, where its header has no room for them.
    long_path: Option<Vec<u8>>,
    long_target: Option<Vec<u8>>,
}

/// The place of the next byte in the archive.
#[derive(Debug)]
enum At {
    /// In a header, of which these bytes have arrived.
    Header(Vec<u8>),
    /// In a content. So many bytes of it and of its padding are left.
    Content {
        of: Of,
        left: u64,
        padding: usize,
    },
    Padding(usize),
}

/// The part of an entry that a content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Path,
    Target,
    File,
    Large,
}

impl Default for At {
    fn default() -> Self {
        Self::Header(vec![])
    }
}

impl Batches {
    /// Takes the next bytes of the archive.
    ///
    /// # Errors
    /// `InvalidData` for an entry that no archive of a tree has.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let wanted = match &self.at {
                At::Header(begun) => BLOCK - begun.len(),
                At::Content { left, .. } => usize::try_from(*left).unwrap_or(usize::MAX),
                At::Padding(left) => *left,
            };
            let (now, later) = bytes.split_at(wanted.min(bytes.len()));
            bytes = later;
            match &mut self.at {
                At::Header(begun) => {
                    begun.extend_from_slice(now);
                    if let Ok(header) = <[u8; BLOCK]>::try_from(begun.as_slice()) {
                        self.at = self.after(&header)?;
                    }
                }
                At::Content { of, left, padding } => {
                    *left -= now.len() as u64;
                    let of = *of;
                    if *left == 0 {
                        self.at = if *padding == 0 { At::default() } else { At::Padding(*padding) };
                    }
                    self.content(of, now);
                }
                At::Padding(left) => {
                    *left -= now.len();
                    if *left == 0 {
                        self.at = At::default();
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes a header, and returns what follows it.
    fn after(&mut self, header: &[u8; BLOCK]) -> io::Result<At> {
        // Two empty blocks are the end.
        if header.iter().all(|byte| *byte == 0) {
            return Ok(At::default());
        }
        let header = tar::Header::from_byte_slice(header);
        let (kind, size) = (header.entry_type(), header.entry_size()?);
        let padding = usize::try_from(size.next_multiple_of(BLOCK as u64) - size);
        let padding = padding.unwrap_or_default();
        if matches!(kind, EntryType::GNULongName | EntryType::GNULongLink) {
            let (of, to) = match kind {
                EntryType::GNULongName => (Of::Path, &mut self.long_path),
                _ => (Of::Target, &mut self.long_target),
            };
            if size == 0 || size > LONGEST {
                return Err(io::ErrorKind::InvalidData.into());
            }
            *to = Some(vec![]);
            return Ok(At::Content { of, left: size, padding });
        }
        let whole = |long: Option<Vec<u8>>, short: &[u8]| match long {
            Some(mut long) => {
                long.pop_if(|last| *last == 0);
                long
            }
            None => short.to_vec(),
        };
        let path = whole(self.long_path.take(), &header.path_bytes());
        let mode = header.mode()? & 0o7777;
        let modified = header.mtime()?;
        let (entry, of) = match kind {
            EntryType::Directory => (Entry::Directory { path, mode }, None),
            EntryType::Symlink => {
                let target = header.link_name_bytes().unwrap_or_default();
                (Entry::Link { path, target: whole(self.long_target.take(), &target) }, None)
            }
            EntryType::Regular if size <= LARGEST => {
                self.files += 1;
                let content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
                (Entry::File(File { path, mode, modified, content }), Some(Of::File))
            }
            EntryType::Regular => (Entry::Large { path, mode, modified, size }, Some(Of::Large)),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        self.bytes += BLOCK;
        self.entries.push(entry);
        match of {
            Some(of) if size > 0 => Ok(At::Content { of, left: size, padding }),
            None if size > 0 => Err(io::ErrorKind::InvalidData.into()),
            _ => Ok(At::default()),
        }
    }

    fn content(&mut self, of: Of, bytes: &[u8]) {
        self.bytes += bytes.len();
        let to = match of {
            Of::Path => self.long_path.as_mut(),
            Of::Target => self.long_target.as_mut(),
            Of::File => match self.entries.last_mut() {
                Some(Entry::File(file)) => Some(&mut file.content),
                _ => None,
            },
            Of::Large => {
                if !matches!(self.entries.last(), Some(Entry::Bytes(_))) {
                    self.entries.push(Entry::Bytes(vec![]));
                }
                match self.entries.last_mut() {
                    Some(Entry::Bytes(pieces)) => Some(pieces),
                    _ => None,
                }
            }
        };
        if let Some(to) = to {
            to.extend_from_slice(bytes);
        }
    }

    /// Returns whether the batch is large enough to be sent.
    pub(crate) fn is_full(&self) -> bool {
        self.files >= FILES || self.bytes >= BATCH
    }

    /// Returns the batch, and begins another one with the file that is not there whole.
    pub(crate) fn take(&mut self) -> Batch {
        let is_cut = matches!(self.at, At::Content { of: Of::File, .. });
        let cut = if is_cut { self.entries.pop() } else { None };
        self.files = usize::from(is_cut);
        self.bytes = match &cut {
            Some(Entry::File(file)) => BLOCK + file.content.len(),
            _ => 0,
        };
        Batch { entries: std::mem::replace(&mut self.entries, cut.into_iter().collect()) }
    }
}

/// Some entries of an archive.
#[derive(Debug)]
pub(crate) struct Batch {
    entries: Vec<Entry>,
}

impl Batch {
    fn described(&self) -> impl Iterator<Item = &File> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::File(file) => Some(file),
            _ => None,
        })
    }

    /// Returns the number of files that are asked about, which is the length of the answer.
    pub(crate) fn files(&self) -> usize {
        self.described().count()
    }

    /// Returns the question which of the files the tree has.
    pub(crate) fn question(&self) -> Vec<u8> {
        let mut question = vec![QUESTION];
        question.extend_from_slice(&number(self.files()));
        for file in self.described() {
            put(&mut question, &file.path);
            question.extend_from_slice(&Sha256::digest(&file.content));
            question.extend_from_slice(&number(file.content.len()));
            question.extend_from_slice(&file.mode.to_be_bytes());
            question.extend_from_slice(&file.modified.to_be_bytes());
        }
        question
    }

    /// Returns the batch without the contents that the tree has. `answer` has a `1` for each of these.
    pub(crate) fn message(&self, answer: &[u8]) -> Vec<u8> {
        let (mut message, mut known) = (vec![], answer.iter());
        for entry in &self.entries {
            match entry {
                Entry::Directory { path, mode } => {
                    message.push(DIRECTORY);
                    put(&mut message, path);
                    message.extend_from_slice(&mode.to_be_bytes());
                }
                Entry::Link { path, target } => {
                    message.push(LINK);
                    put(&mut message, path);
                    put(&mut message, target);
                }
                Entry::File(file) => {
                    message.push(FILE);
                    if known.next() != Some(&b'1') {
                        message.extend_from_slice(&file.content);
                    }
                }
                Entry::Large { path, mode, modified, size } => {
                    message.push(LARGE);
                    put(&mut message, path);
                    message.extend_from_slice(&mode.to_be_bytes());
                    message.extend_from_slice(&modified.to_be_bytes());
                    message.extend_from_slice(&size.to_be_bytes());
                }
                Entry::Bytes(bytes) => {
                    message.push(BYTES);
                    put(&mut message, bytes);
                }
            }
        }
        message
    }
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&number(bytes.len()));
    to.extend_from_slice(bytes);
}

/// A number of a batch, which is at most some megabytes.
fn number(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(vec![]);
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(7);
            archive.append_data(&mut header, path, &content[..]).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn batch(archive: &[u8], piece: usize) -> Batch {
        let mut batches = Batches::default();
        archive.chunks(piece).for_each(|bytes| batches.push(bytes).unwrap());
        assert!(matches!(&batches.at, At::Header(begun) if begun.is_empty()));
        batches.take()
    }

    // ENGINE-19
    #[test]
    fn an_archive_is_taken_apart_wherever_its_pieces_end() {
        let deep = "long/".repeat(60);
        let large = vec![7; LARGEST as usize + 1];
        let files = [
            ("empty", vec![]),
            ("a", b"one".to_vec()),
            ("b", vec![1; BLOCK]),
            ("c", vec![2; BLOCK + 1]),
            ("large", large.clone()),
            (deep.trim_end_matches('/'), b"deep".to_vec()),
        ];
        let archive = archive(&files);
        for piece in [1, 511, 512, 4096, archive.len()] {
            let mut entries = batch(&archive, piece).entries.into_iter();
            for (path, content) in files.clone() {
                let path = path.as_bytes().to_vec();
                let expected = if path == b"large" {
                    Entry::Large { path, mode: 0o644, modified: 7, size: large.len() as u64 }
                } else {
                    Entry::File(File { path, mode: 0o644, modified: 7, content })
                };
                let found = entries.next().unwrap();
                assert!(found == expected, "pieces of {piece}");
                if matches!(found, Entry::Large { .. }) {
                    assert!(entries.next().unwrap() == Entry::Bytes(large.clone()));
                }
            }
            assert!(entries.next().is_none());
        }
    }

    // ENGINE-19
    #[test]
    fn directories_and_links_are_entries_and_other_kinds_are_refused() {
        let far = "far/".repeat(100);
        let mut archive = vec![];
        let mut packer = crate::copy::Packer::new(&mut archive, (1, 1));
        packer.top().unwrap();
        crate::copy::Destination::link(&mut packer, "d/near".as_ref(), "a".as_ref()).unwrap();
        crate::copy::Destination::link(&mut packer, "d/far".as_ref(), far.as_ref()).unwrap();
        packer.finish().unwrap();
        let link =
            |path: &str, target: &str| Entry::Link { path: path.into(), target: target.into() };
        let directory = |path: &str| Entry::Directory { path: path.into(), mode: 0o755 };
        let expected = [directory("./"), directory("d/"), link("d/near", "a"), link("d/far", &far)];
        assert_eq!(batch(&archive, 100).entries, expected);

        let mut pipe = tar::Header::new_gnu();
        pipe.set_entry_type(EntryType::Fifo);
        pipe.set_size(0);
        pipe.set_mode(0o644);
        pipe.set_mtime(0);
        pipe.set_cksum();
        let refused = Batches::default().push(pipe.as_bytes());
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    // ENGINE-19
    #[test]
    fn a_message_has_the_contents_that_the_tree_lacks() {
        let archive = archive(&[("a", b"first".to_vec()), ("b", b"second".to_vec())]);
        let batch = batch(&archive, archive.len());
        let question = batch.question();
        assert_eq!(question.len(), 5 + 2 * (4 + 1 + 32 + 4 + 4 + 8));
        assert_eq!(question[10..42], Sha256::digest(b"first")[..]);
        assert_eq!(batch.message(b"10"), b"FFsecond");
        assert_eq!(batch.message(b"01"), b"FfirstF");
        assert_eq!(batch.message(b""), b"FfirstFsecond", "an answer that is too short");
    }

    // ENGINE-19
    #[test]
    fn a_batch_is_bounded_wherever_the_pieces_end_and_has_whole_files() {
        let small: Vec<_> = (0..20_000).map(|number| (format!("{number}"), vec![1])).collect();
        let large =
            (0..40).map(|number| (format!("large-{number}"), vec![2; LARGEST as usize / 4]));
        let files: Vec<_> = small.into_iter().chain(large).collect();
        let named: Vec<_> =
            files.iter().map(|(path, content)| (&**path, content.clone())).collect();
        let archive = archive(&named);
        // With an odd number of blocks before the files each piece ends behind a header.
        for before in [0, BLOCK] {
            let (mut batches, mut found) = (Batches::default(), vec![]);
            let mut check = |batch: Batch| {
                assert!(batch.files() <= FILES + 64 * 1024 / BLOCK);
                let bytes: usize = batch.described().map(|file| file.content.len()).sum();
                assert!(bytes <= BATCH + 64 * 1024, "{bytes}");
                found.extend(batch.entries);
            };
            let (first, rest) = archive.split_at(before);
            for piece in [first].into_iter().chain(rest.chunks(64 * 1024)) {
                batches.push(piece).unwrap();
                if batches.is_full() {
                    check(batches.take());
                }
            }
            check(batches.take());
            let found = found.into_iter().map(|entry| match entry {
                Entry::File(file) => (String::from_utf8(file.path).unwrap(), file.content),
                other => panic!("{other:?}"),
            });
            assert!(found.eq(files.iter().cloned()));
        }
    }
}
