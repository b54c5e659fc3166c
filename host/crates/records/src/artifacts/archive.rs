//! A tar archive, read with a bound on everything in it: an engine sends what steps have made, so names, links
//! and sizes are theirs. What to do with an entry is the caller's business; nothing is written here.

use std::io::{self, Read};

use tar::{EntryType, Header};

const BLOCK: usize = 512;
/// Of one long name, or of the records before one entry.
const MAX_EXTRA: u64 = 1 << 20;

/// One thing in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// As it stands there: relative or not, text or not.
    pub path: Vec<u8>,
    /// What a link of either kind says; else empty.
    pub link: Vec<u8>,
    pub kind: EntryType,
    /// Permission bits, setuid and the like included.
    pub mode: u32,
    /// Bytes of content that follow.
    pub size: u64,
}

/// Between two entries it reads the content of the first.
pub struct ArchiveReader<R> {
    from: R,
    left: u64,
    padding: u64,
}

impl<R: Read> ArchiveReader<R> {
    pub fn new(from: R) -> Self {
        Self { from, left: 0, padding: 0 }
    }

    /// None at the end that the archive itself marks. One that stops before it is an error: an engine that
    /// dies closes its stream like one that is done.
    pub fn next_entry(&mut self) -> io::Result<Option<ArchiveEntry>> {
        let (mut path, mut link, mut size) = (None, None, None);
        loop {
            self.skip()?;
            let mut block = [0; BLOCK];
            self.from.read_exact(&mut block)?;
            if block.iter().all(|byte| *byte == 0) {
                return Ok(None);
            }
            let header = Header::from_byte_slice(&block);
            if header.cksum()? != checksum(&block) {
                return Err(malformed("a header"));
            }
            let kind = header.entry_type();
            self.expect(size.take().unwrap_or(header.entry_size()?), kind);
            match kind {
                EntryType::XHeader => {
                    for (key, value) in records(&self.extra()?)? {
                        match key.as_slice() {
                            b"path" => path = Some(value),
                            b"linkpath" => link = Some(value),
                            b"size" => size = Some(number(&value)?),
                            _ => {}
                        }
                    }
                }
                EntryType::XGlobalHeader => {}
                EntryType::GNULongName => path = Some(until_nul(self.extra()?)),
                EntryType::GNULongLink => link = Some(until_nul(self.extra()?)),
                kind => {
                    let short_link = || header.link_name_bytes().unwrap_or_default().into_owned();
                    return Ok(Some(ArchiveEntry {
                        path: path.unwrap_or_else(|| header.path_bytes().into_owned()),
                        link: link.unwrap_or_else(short_link),
                        kind,
                        mode: header.mode()?,
                        size: self.left,
                    }));
                }
            }
        }
    }

    /// These kinds have no content, whatever their header says.
    fn expect(&mut self, size: u64, kind: EntryType) {
        let bare = kind.is_dir()
            || kind.is_symlink()
            || kind.is_hard_link()
            || kind.is_character_special()
            || kind.is_block_special()
            || kind.is_fifo();
        self.left = if bare { 0 } else { size };
        self.padding = (BLOCK as u64 - self.left % BLOCK as u64) % BLOCK as u64;
    }

    fn extra(&mut self) -> io::Result<Vec<u8>> {
        if self.left > MAX_EXTRA {
            return Err(malformed("a name that is too long"));
        }
        let mut bytes = vec![];
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn skip(&mut self) -> io::Result<()> {
        io::copy(self, &mut io::sink())?;
        let padding = io::copy(&mut self.from.by_ref().take(self.padding), &mut io::sink())?;
        if padding < self.padding {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.padding = 0;
        Ok(())
    }
}

impl<R: Read> Read for ArchiveReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let Some(into) = into.get_mut(..most).filter(|into| !into.is_empty()) else { return Ok(0) };
        let count = self.from.read(into)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the engine's archive has {what}"))
}

/// Over the header, its own field taken as blanks.
fn checksum(block: &[u8; BLOCK]) -> u32 {
    let own = 148..156;
    let byte = |(at, byte): (usize, &u8)| u32::from(if own.contains(&at) { b' ' } else { *byte });
    block.iter().enumerate().map(byte).sum()
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

/// `LENGTH KEY=VALUE\n`, again and again. A value may hold anything, newlines included.
fn records(mut bytes: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let wrong = || malformed("records that make no sense");
    let mut found = vec![];
    while !bytes.is_empty() {
        let blank = bytes.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
        let length = usize::try_from(number(&bytes[..blank])?).map_err(|_| wrong())?;
        let record = bytes.get(blank + 1..length).and_then(|record| record.strip_suffix(b"\n"));
        let record = record.ok_or_else(wrong)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
        found.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
        bytes = &bytes[length..];
    }
    Ok(found)
}

fn number(digits: &[u8]) -> io::Result<u64> {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| malformed("a number that is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(with: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(vec![]);
        with(&mut builder);
        builder.into_inner().unwrap()
    }

    fn file(builder: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, content).unwrap();
    }

    #[test]
    fn entries_come_with_their_content_and_names_of_any_length() {
        let (long, odd) = ("d/".repeat(200), "line\nbreak=1");
        let archive = archive(|builder| {
            file(builder, "a", &[7; 700]);
            file(builder, &format!("{long}b"), b"");
            let path = odd.as_bytes();
            builder.append_pax_extensions([("path", path), ("comment", b"x\ny")]).unwrap();
            file(builder, "short", b"word");
        });
        let mut reader = ArchiveReader::new(&archive[..]);
        let first = reader.next_entry().unwrap().unwrap();
        assert_eq!((first.path.as_slice(), first.size, first.mode), (&b"a"[..], 700, 0o644));
        let mut content = vec![];
        reader.read_to_end(&mut content).unwrap();
        assert_eq!(content, [7; 700]);
        assert_eq!(reader.next_entry().unwrap().unwrap().path, format!("{long}b").into_bytes());
        // Unread content is passed over.
        assert_eq!(reader.next_entry().unwrap().unwrap().path, odd.as_bytes());
        assert_eq!(reader.next_entry().unwrap(), None);
    }

    #[test]
    fn an_archive_that_stops_anywhere_before_its_end_is_an_error() {
        let whole = archive(|builder| file(builder, "a", &[7; 700]));
        let read = |bytes: &[u8]| {
            let mut reader = ArchiveReader::new(bytes);
            while reader.next_entry()?.is_some() {}
            io::Result::Ok(())
        };
        read(&whole).unwrap();
        for length in [0, 100, 512, 1000, 512 + 700, 512 + 1024] {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
        let mut forged = whole.clone();
        forged[0] ^= 1;
        assert!(read(&forged).is_err(), "the checksum is wrong");
    }

    #[test]
    fn names_and_records_without_end_are_refused_unread() {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::XHeader);
        header.set_size(MAX_EXTRA + 1);
        header.set_cksum();
        let archive = header.as_bytes().to_vec();
        let error = ArchiveReader::new(archive.chain(io::repeat(b'x'))).next_entry().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        for records_ in [&b"9 path=x\n9"[..], b"x path=a\n", b"99 path=a\n", b"5 a\n\n", b"0 a=b\n"]
        {
            assert!(records(records_).is_err(), "{records_:?}");
        }
    }
}
