//! Artifacts from an engine that does not write to our disk. The archive holds what steps have made: every name
//! is judged, everything is made new by handle, and nothing beyond the bounds is taken.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Mode, fchmod, linkat, symlinkat};

use super::archive::{ArchiveEntry, ArchiveReader};
use super::descent::Descent;
use super::sweep::MAX_DEPTH;

const MAX_NAME: usize = 255;
const MAX_TARGET: usize = 4095;

/// What may still be taken of one run.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    pub bytes: u64,
    pub entries: u64,
}

/// For the artifacts of one run.
pub const ARTIFACTS: Allowance = Allowance { bytes: 4 << 30, entries: 200_000 };

/// What was not taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Devices, FIFOs, names that lead elsewhere, names that are taken.
    pub entries: u64,
    /// The allowance was used up; the rest was not looked at.
    pub cut: bool,
}

/// Writes the content of the archived directory below `into`. It is called as its first entry is: an engine may name a
/// volume after the place where it keeps that. Setuid bits and owners do not travel.
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
        let taken = match below(&entry.path, top) {
            Some(parts) => take(&mut at, &parts, &entry, top, &mut archive)?,
            None => false,
        };
        left_out.entries += u64::from(!taken);
    }
    Ok(left_out)
}

/// The plain names below the archived directory; None for a path that is not there.
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

/// Whether the entry is there now.
fn take(
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
        // Of what was taken before: a link to anything else finds nothing, and none is followed.
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

/// What a name of the archive's choice can run into is left out; other trouble is the machine's.
fn made(result: io::Result<()>) -> io::Result<bool> {
    use io::ErrorKind::{
        AlreadyExists, InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied,
    };
    match result {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            AlreadyExists | InvalidFilename | IsADirectory | NotADirectory | NotFound
            | PermissionDenied => Ok(false),
            // A link in the way.
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Ok(false),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
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
