//! A base volume of a cluster: a store of file contents by their digests, which only our own program mounts. An archive that is
//! sent through it carries the contents that the store lacks, and names the others.
//!
//! The archive is a stream of tar. It is cut into the contents of files and everything else, in batches. For each batch the host
//! asks which contents the store has, and then sends the batch without them; the program writes the archive as it was and
//! stores what was new. It checks the digest of each content that it takes from the store, and the digest of the tree is
//! computed in the container of the steps, so a store that lies makes a run fail and nothing else.

use sha2::{Digest, Sha256};

/// Bytes of the contents of one batch, which both sides hold in memory.
const BATCH: usize = 8 << 20;
/// Files of one batch.
const FILES: usize = 4096;
/// The largest file that goes through the store, in bytes. A larger one is sent as it is, because a batch holds it whole.
const LARGEST: u64 = 4 << 20;
/// Bytes of a block of tar.
const BLOCK: usize = 512;

/// The words of the stream. Numbers are of four bytes, the highest first.
const QUESTION: u8 = b'Q';
const AS_IT_IS: u8 = b'R';
const FILE: u8 = b'F';

/// A stretch of an archive.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Headers, padding, and files that are too large for the store.
    AsItIs(Vec<u8>),
    Content(Vec<u8>),
}

/// An archive on its way, cut into batches.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    parts: Vec<Part>,
    files: usize,
    bytes: usize,
    at: At,
}

/// The place of the next byte in the archive.
#[derive(Debug)]
enum At {
    /// In a header, of which these bytes have arrived.
    Header(Vec<u8>),
    /// In the content of a file. So many bytes of it and of its padding are left.
    Content { left: usize, padding: u64 },
    /// In something that is sent as it is, with so many bytes left.
    Rest(u64),
}

impl Default for At {
    fn default() -> Self {
        Self::Header(vec![])
    }
}

impl Batches {
    /// Takes the next bytes of the archive.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let wanted = match &self.at {
                At::Header(begun) => BLOCK - begun.len(),
                At::Content { left, .. } => *left,
                At::Rest(left) => usize::try_from(*left).unwrap_or(usize::MAX),
            };
            let (now, later) = bytes.split_at(wanted.min(bytes.len()));
            bytes = later;
            match &mut self.at {
                At::Header(begun) => {
                    begun.extend_from_slice(now);
                    if begun.len() == BLOCK {
                        let header = std::mem::take(begun);
                        self.at = after(&header);
                        self.as_it_is(&header);
                        if let At::Content { left, .. } = self.at {
                            self.parts.push(Part::Content(Vec::with_capacity(left)));
                            self.files += 1;
                        }
                    }
                }
                At::Content { left, padding } => {
                    *left -= now.len();
                    if *left == 0 {
                        self.at = if *padding == 0 { At::default() } else { At::Rest(*padding) };
                    }
                    self.bytes += now.len();
                    if let Some(Part::Content(content)) = self.parts.last_mut() {
                        content.extend_from_slice(now);
                    }
                }
                At::Rest(left) => {
                    *left -= now.len() as u64;
                    if *left == 0 {
                        self.at = At::default();
                    }
                    self.as_it_is(now);
                }
            }
        }
    }

    fn as_it_is(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        match self.parts.last_mut() {
            Some(Part::AsItIs(whole)) => whole.extend_from_slice(bytes),
            _ => self.parts.push(Part::AsItIs(bytes.to_vec())),
        }
    }

    /// Returns whether the batch is large enough, and no file is cut.
    pub(crate) fn is_full(&self) -> bool {
        (self.files >= FILES || self.bytes >= BATCH) && !matches!(self.at, At::Content { .. })
    }

    /// Returns the batch, and begins another one.
    pub(crate) fn take(&mut self) -> Batch {
        (self.files, self.bytes) = (0, 0);
        Batch { parts: std::mem::take(&mut self.parts) }
    }
}

/// Returns what follows a header.
fn after(header: &[u8]) -> At {
    let mut block = [0; BLOCK];
    block.copy_from_slice(header);
    let header = tar::Header::from_byte_slice(&block);
    let size = header.entry_size().unwrap_or(0);
    let padded = size.next_multiple_of(BLOCK as u64);
    match usize::try_from(size) {
        _ if padded == 0 => At::default(),
        Ok(left) if size <= LARGEST && header.entry_type().is_file() => {
            At::Content { left, padding: padded - size }
        }
        _ => At::Rest(padded),
    }
}

/// Some parts of an archive.
#[derive(Debug)]
pub(crate) struct Batch {
    parts: Vec<Part>,
}

impl Batch {
    fn contents(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Content(content) => Some(content),
            Part::AsItIs(_) => None,
        })
    }

    /// Returns the number of contents, which is the length of the answer.
    pub(crate) fn files(&self) -> usize {
        self.contents().count()
    }

    /// Returns the question about the contents.
    pub(crate) fn question(&self) -> Vec<u8> {
        let mut question = vec![QUESTION];
        question.extend_from_slice(&number(self.files()));
        for content in self.contents() {
            question.extend_from_slice(&Sha256::digest(content));
            question.extend_from_slice(&number(content.len()));
        }
        question
    }

    /// Returns the batch without the contents that the store has. `answer` has a `1` for each of these.
    pub(crate) fn message(&self, answer: &[u8]) -> Vec<u8> {
        let (mut message, mut known) = (vec![], answer.iter());
        for part in &self.parts {
            match part {
                Part::AsItIs(bytes) => {
                    message.push(AS_IT_IS);
                    message.extend_from_slice(&number(bytes.len()));
                    message.extend_from_slice(bytes);
                }
                Part::Content(content) => {
                    message.push(FILE);
                    if known.next() != Some(&b'1') {
                        message.extend_from_slice(content);
                    }
                }
            }
        }
        message
    }
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
            archive.append_data(&mut header, path, &content[..]).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn whole(parts: &[Part]) -> Vec<u8> {
        let bytes = |part: &Part| match part {
            Part::AsItIs(bytes) | Part::Content(bytes) => bytes.clone(),
        };
        parts.iter().flat_map(bytes).collect()
    }

    // ENGINE-19
    #[test]
    fn an_archive_is_cut_into_contents_and_the_rest_wherever_its_pieces_end() {
        let large = vec![7; LARGEST as usize + 1];
        let files = [
            ("empty", vec![]),
            ("a", b"one".to_vec()),
            ("b", vec![1; BLOCK]),
            ("c", vec![2; BLOCK + 1]),
            ("large", large),
            (&"long/".repeat(60), b"deep".to_vec()),
        ];
        let files = files.map(|(path, content)| (path.trim_end_matches('/'), content));
        let archive = archive(&files);
        for piece in [1, 511, 512, 4096, archive.len()] {
            let mut batches = Batches::default();
            archive.chunks(piece).for_each(|bytes| batches.push(bytes));
            assert!(!matches!(batches.at, At::Content { .. }));
            let batch = batches.take();
            assert_eq!(whole(&batch.parts), archive, "pieces of {piece}");
            let contents: Vec<_> = batch.contents().cloned().collect();
            let small = [1, 2, 3, 5].map(|file: usize| files[file].1.clone());
            assert_eq!(contents, small);
        }
    }

    // ENGINE-19
    #[test]
    fn a_message_has_the_contents_that_the_store_lacks() {
        let mut batches = Batches::default();
        batches.push(&archive(&[("a", b"first".to_vec()), ("b", b"second".to_vec())]));
        let batch = batches.take();
        let question = batch.question();
        assert_eq!(question.len(), 5 + 2 * 36);
        assert_eq!(question[5..37], Sha256::digest(b"first")[..]);
        let has = |message: &[u8], text: &[u8]| message.windows(text.len()).any(|at| at == text);
        let message = batch.message(b"10");
        assert!(!has(&message, b"first") && has(&message, b"second"));
        assert!(has(&batch.message(b""), b"first"), "an answer that is too short");
        let all = batch.message(b"00").len();
        assert_eq!(batch.message(b"11").len(), all - "firstsecond".len());
    }

    #[test]
    fn a_batch_ends_when_it_is_large_and_never_within_a_file() {
        let mut batches = Batches::default();
        let archive =
            archive(&[("a", vec![1; LARGEST as usize]), ("b", vec![2; LARGEST as usize])]);
        let (before, last) = archive.split_at(archive.len() - 2048);
        batches.push(before);
        assert!(!batches.is_full());
        batches.push(last);
        assert!(batches.is_full());
        batches.take();
        assert!(!batches.is_full());
    }
}
