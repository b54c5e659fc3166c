//! Tar archives of engines that do not write to the disk of the host. A step chose their content, so every name is judged,
//! every file is created by handle, and the bytes and entries are bounded.
//!
//! Not `tar::Archive`: it accepts an archive that ends early, and it bounds neither long names nor PAX records.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Mode, fchmod, linkat, symlinkat};
use tar::{EntryType, Header};

use super::tree::{Descent, MAX_DEPTH};

const BLOCK: usize = 512;
/// Maximum number of bytes of a long name or of the PAX records of one entry.
const MAX_EXTRA: u64 = 1 << 20;

/// The header of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// The name as the archive has it: relative or absolute, UTF-8 or not.
    pub path: Vec<u8>,
    /// The target of a symbolic or hard link; empty for other kinds.
    pub link: Vec<u8>,
    pub kind: EntryType,
    /// Permission bits, setuid and the like included.
    pub mode: u32,
    /// Number of bytes of the content.
    pub size: u64,
}

/// Reads an archive entry by entry. As a [`Read`], it returns the content of the current entry.
pub struct ArchiveReader<R> {
    from: R,
    left: u64,
    padding: u64,
}

impl<R: Read> ArchiveReader<R> {
    /// Starts at the beginning of an archive.
    pub fn new(from: R) -> Self {
        Self { from, left: 0, padding: 0 }
    }

    /// Returns the next entry, or `None` at the end mark of the archive.
    ///
    /// # Errors
    /// The archive is malformed, or ends without an end mark: an engine that dies closes its stream like one that is done.
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

    /// Sets the number of bytes to read. Directories, links and devices have no content, whatever their header says.
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

/// Returns the checksum of a header, in which the field of the checksum counts as blanks.
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

/// Parses PAX records: `LENGTH KEY=VALUE\n`, repeated. A value may contain any bytes, newlines included.
fn records(mut bytes: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let wrong = || malformed("malformed PAX records");
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
    number.ok_or_else(|| malformed("a malformed number"))
}

const MAX_NAME: usize = 255;
const MAX_TARGET: usize = 4095;

/// The number of bytes and entries that may still be unpacked for one run.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    pub bytes: u64,
    pub entries: u64,
}

/// The allowance for the artifacts of one run.
pub const ARTIFACTS: Allowance = Allowance { bytes: 4 << 30, entries: 200_000 };

/// The entries that were not unpacked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of devices, FIFOs, names that lead outside and names that are taken.
    pub entries: u64,
    /// The allowance was used up, so the rest was not read.
    pub cut: bool,
}

/// Unpacks the archived directory into `into`. Its name is that of the first entry, because an engine may name a volume after
/// its own storage. Setuid bits and owners are not restored.
pub(super) fn unpack(
    into: OwnedFd,
    archive: impl Read,
    allowance: &mut Allowance,
) -> io::Result<LeftOut> {
    let mut archive = ArchiveReader::new(archive);
    let mut at = Descent::new(into);
    let mut left_out = LeftOut::default();
    let mut top: Option<Vec<u8>> = None;
    while let Some(entry) = archive.next_entry()? {
        if allowance.entries == 0 || allowance.bytes < entry.size {
            left_out.cut = true;
            break;
        }
        allowance.entries -= 1;
        allowance.bytes -= entry.size;
        let first = || entry.path.split(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let top = top.get_or_insert_with(first);
        let created = match below(&entry.path, top) {
            Some(parts) => create(&mut at, &parts, &entry, top, &mut archive)?,
            None => false,
        };
        left_out.entries += u64::from(!created);
    }
    Ok(left_out)
}

/// Returns the names of a path below the archived directory, or `None` for a path that leads outside.
fn below<'a>(path: &'a [u8], top: &[u8]) -> Option<Vec<&'a OsStr>> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let mut parts = path.split(|byte| *byte == b'/');
    if parts.next() != Some(top) {
        return None;
    }
    let plain = |name: &[u8]| {
        !matches!(name, b"" | b"." | b"..") && name.len() <= MAX_NAME && !name.contains(&0)
    };
    let parts: Option<Vec<_>> =
        parts.map(|name| plain(name).then(|| OsStr::from_bytes(name))).collect();
    parts.filter(|parts| parts.len() <= MAX_DEPTH)
}

/// Creates one entry. Returns false when it was left out.
fn create(
    at: &mut Descent,
    parts: &[&OsStr],
    entry: &ArchiveEntry,
    top: &[u8],
    content: &mut impl Read,
) -> io::Result<bool> {
    let Some((name, parents)) = parts.split_last() else { return Ok(true) };
    if entry.kind.is_dir() {
        return made(at.move_to(parts));
    }
    if !made(at.move_to(parents))? {
        return Ok(false);
    }
    if entry.kind.is_symlink() {
        let target = OsStr::from_bytes(&entry.link);
        let sound = !target.is_empty() && target.len() <= MAX_TARGET && !entry.link.contains(&0);
        return Ok(sound && made(symlinkat(target, at.here(), *name).map_err(io::Error::from))?);
    }
    if entry.kind.is_hard_link() {
        let Some(parts) = below(&entry.link, top) else { return Ok(false) };
        let Some((original, parents)) = parts.split_last() else { return Ok(false) };
        let here = at.here().try_clone()?;
        // Only an entry that was unpacked before can be linked to, and no link is followed on the way.
        if !made(at.move_to(parents))? {
            return Ok(false);
        }
        let linked = linkat(at.here(), *original, here, *name, AtFlags::empty());
        return made(linked.map_err(io::Error::from));
    }
    if !entry.kind.is_file() {
        return Ok(false);
    }
    let file = act_fs::create(at.here(), *name);
    let Ok(mut file) = file else { return made(file.map(drop)) };
    let mode = Mode::from_raw_mode((entry.mode & 0o777) as rustix::fs::RawMode);
    fchmod(&file, mode | Mode::RUSR | Mode::WUSR)?;
    io::copy(content, &mut file)?;
    file.flush()?;
    Ok(true)
}

/// Turns errors that a name in the archive can cause into false. Other errors come from the machine.
fn made(result: io::Result<()>) -> io::Result<bool> {
    use io::ErrorKind::{
        AlreadyExists, InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied,
    };
    match result {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            AlreadyExists | InvalidFilename | IsADirectory | NotADirectory | NotFound
            | PermissionDenied => Ok(false),
            // A link is in the way.
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Ok(false),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod archive_tests {
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

#[cfg(test)]
mod unpack_tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    use tar::{Builder, EntryType, Header};

    use super::*;

    const PLENTY: Allowance = Allowance { bytes: 1 << 20, entries: 100 };

    /// Header fields as they are given, whatever a decent archiver would think of them.
    fn entry(builder: &mut Builder<Vec<u8>>, path: &str, kind: EntryType, link: &str, text: &str) {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o6755);
        header.set_size(text.len() as u64);
        header.set_link_name_literal(link).unwrap();
        header.set_cksum();
        builder.append(&header, text.as_bytes()).unwrap();
    }

    fn unpacked(
        into: &Path,
        allowance: Allowance,
        with: impl FnOnce(&mut Builder<Vec<u8>>),
    ) -> io::Result<LeftOut> {
        let mut builder = Builder::new(vec![]);
        with(&mut builder);
        let archive = builder.into_inner().unwrap();
        let handle = fs::File::open(into).unwrap().into();
        unpack(handle, &archive[..], &mut allowance.clone())
    }

    #[test]
    fn files_links_and_directories_arrive_without_setuid() {
        let dir = tempfile::tempdir().unwrap();
        let left = unpacked(dir.path(), PLENTY, |builder| {
            // Podman's name for the root of a volume.
            entry(builder, "_data/", EntryType::Directory, "", "");
            entry(builder, "_data/a/b/", EntryType::Directory, "", "");
            entry(builder, "_data/a/run", EntryType::Regular, "", "text");
            entry(builder, "_data/same", EntryType::Link, "_data/a/run", "");
            entry(builder, "_data/link", EntryType::Symlink, "/anywhere", "");
        });
        assert_eq!(left.unwrap(), LeftOut::default());
        let run = fs::metadata(dir.path().join("a/run")).unwrap();
        assert_eq!((run.permissions().mode() & 0o7777, run.nlink()), (0o755, 2));
        assert_eq!(fs::read(dir.path().join("same")).unwrap(), b"text");
        assert_eq!(fs::read_link(dir.path().join("link")).unwrap(), Path::new("/anywhere"));
        assert!(dir.path().join("a/b").is_dir());
    }

    // ARTIFACT-16, security line 92
    #[test]
    fn nothing_is_written_outside_or_over_or_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, into) = (dir.path().join("outside"), dir.path().join("into"));
        fs::create_dir(&outside).unwrap();
        fs::create_dir(&into).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        let target = outside.display().to_string();
        let left = unpacked(&into, PLENTY, |builder| {
            entry(builder, "build/", EntryType::Directory, "", "");
            for path in [
                "../outside/a",
                "build/../../outside/a",
                "/etc/a",
                "tmp/a",
                "build//a",
                "build/./a",
            ] {
                entry(builder, path, EntryType::Regular, "", "x");
            }
            entry(builder, "build/way", EntryType::Symlink, &target, "");
            entry(builder, "build/way/a", EntryType::Regular, "", "x");
            entry(builder, "build/way/", EntryType::Directory, "", "");
            entry(builder, "build/stolen", EntryType::Link, &format!("{target}/secret"), "");
            entry(builder, "build/stolen", EntryType::Link, "build/way/secret", "");
            entry(builder, "build/device", EntryType::Char, "", "");
            entry(builder, "build/fifo", EntryType::Fifo, "", "");
            entry(builder, "build/twice", EntryType::Regular, "", "first");
            entry(builder, "build/twice", EntryType::Regular, "", "second");
        });
        assert_eq!(left.unwrap(), LeftOut { entries: 13, cut: false });
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        let mut names: Vec<_> =
            fs::read_dir(&into).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["twice", "way"]);
        assert_eq!(fs::read(into.join("twice")).unwrap(), b"first");
    }

    // ARTIFACT-16
    #[test]
    fn no_more_is_taken_than_allowed() {
        let of = |allowance| {
            let dir = tempfile::tempdir().unwrap();
            let left = unpacked(dir.path(), allowance, |builder| {
                entry(builder, "build/one", EntryType::Regular, "", "four");
                entry(builder, "build/two", EntryType::Regular, "", "four");
            });
            (left.unwrap().cut, fs::read_dir(dir.path()).unwrap().count())
        };
        assert_eq!(of(PLENTY), (false, 2));
        assert_eq!(of(Allowance { bytes: 7, ..PLENTY }), (true, 1));
        assert_eq!(of(Allowance { entries: 1, ..PLENTY }), (true, 1));
        // A size that is a lie is not believed.
        let dir = tempfile::tempdir().unwrap();
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..9].copy_from_slice(b"build/big");
        header.set_mode(0o644);
        header.set_size(1 << 40);
        header.set_cksum();
        let handle = fs::File::open(dir.path()).unwrap().into();
        let left = unpack(handle, &header.as_bytes()[..], &mut PLENTY.clone());
        assert!(left.unwrap().cut && fs::read_dir(dir.path()).unwrap().count() == 0);
        let deep = format!("build/{}x", "d/".repeat(MAX_DEPTH));
        assert!(below(deep.as_bytes(), b"build").is_none());
    }
}
