//! The tree as an archive, for an engine that does not see our files. It is made as it is sent: nothing of it is
//! kept, here or on the disk.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, fstat, openat};
use rustix::io::Errno;
use tar::{EntryType, Header};

use crate::copy_view::Destination;
use act_fs::{Entry, READ, Walk};
use act_workspace::CopyEntry;

const BLOCK: u64 = 512;
/// Git nests its directories by six or so.
const MAX_DEPTH: usize = 64;

/// Writes an archive in which everything belongs to `ids`.
pub(crate) struct Packer<W> {
    to: W,
    ids: (u32, u32),
    /// Of the entry before; its directories are in the archive already.
    parents: Vec<Vec<u8>>,
    padding: u64,
}

struct About {
    kind: EntryType,
    mode: u32,
    size: u64,
    modified: u64,
}

impl About {
    const DIRECTORY: Self = Self { kind: EntryType::Directory, mode: 0o755, size: 0, modified: 0 };
}

impl<W: Write> Packer<W> {
    pub(crate) fn new(to: W, ids: (u32, u32)) -> Self {
        Self { to, ids, parents: vec![], padding: 0 }
    }

    /// The directory that the archive is unpacked in. Some engines give it our owner, others leave it alone.
    pub(crate) fn top(&mut self) -> io::Result<()> {
        self.header(b"./", b"", &About::DIRECTORY)
    }

    /// The directory and all above it.
    pub(crate) fn directory(&mut self, path: &Path) -> io::Result<()> {
        self.enter(path.as_os_str().as_bytes())
    }

    pub(crate) fn text(&mut self, path: &str, text: &[u8]) -> io::Result<()> {
        self.enter(parent(path.as_bytes()))?;
        let size = text.len() as u64;
        let about = About { kind: EntryType::Regular, mode: 0o444, size, modified: 0 };
        self.header(path.as_bytes(), b"", &about)?;
        self.to.write_all(text)?;
        self.padding = padding(size);
        self.pad()
    }

    /// Everything in a directory that is a directory or a regular file.
    pub(crate) fn all_of(&mut self, directory: OwnedFd) -> io::Result<()> {
        each_file(directory, &mut |path, mut file| {
            let about = file.metadata()?;
            self.begin(path, &about, about.mode() & 0o100 != 0)?;
            let sent = io::copy(&mut (&mut file).take(about.len()), &mut self.to)?;
            if sent < about.len() {
                return Err(io::Error::other("a file of .git was cut while it was read"));
            }
            self.pad()
        })
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.to.write_all(&[0; 2 * BLOCK as usize])?;
        self.to.flush()
    }

    /// Names the directories of `path` that the entry before did not have.
    fn enter(&mut self, path: &[u8]) -> io::Result<()> {
        let parts: Vec<_> =
            path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let common = self.parents.iter().zip(&parts).take_while(|(at, to)| at == *to).count();
        self.parents.truncate(common);
        for part in parts.into_iter().skip(common) {
            self.parents.push(part.to_vec());
            let path = self.parents.join(&b'/');
            self.header(&[path.as_slice(), b"/"].concat(), b"", &About::DIRECTORY)?;
        }
        Ok(())
    }

    fn begin(&mut self, path: &[u8], about: &Metadata, executable: bool) -> io::Result<()> {
        self.enter(parent(path))?;
        let about = About {
            kind: EntryType::Regular,
            mode: if executable { 0o755 } else { 0o644 },
            size: about.len(),
            modified: u64::try_from(about.mtime()).unwrap_or(0),
        };
        self.padding = padding(about.size);
        self.header(path, b"", &about)
    }

    fn pad(&mut self) -> io::Result<()> {
        io::copy(&mut io::repeat(0).take(std::mem::take(&mut self.padding)), &mut self.to)?;
        Ok(())
    }

    /// The names go byte for byte, in an entry of their own where they are too long for the header.
    fn header(&mut self, path: &[u8], link: &[u8], about: &About) -> io::Result<()> {
        let mut header = Header::new_gnu();
        for (name, kind) in [(path, EntryType::GNULongName), (link, EntryType::GNULongLink)] {
            let field = match kind {
                EntryType::GNULongName => &mut header.as_old_mut().name,
                _ => &mut header.as_old_mut().linkname,
            };
            let short = name.len().min(field.len());
            field[..short].copy_from_slice(&name[..short]);
            if name.len() > short {
                let mut long = Header::new_gnu();
                long.as_old_mut().name[..13].copy_from_slice(b"././@LongLink");
                long.set_entry_type(kind);
                let size = name.len() as u64 + 1;
                long.set_size(size);
                long.set_cksum();
                self.to.write_all(long.as_bytes())?;
                self.to.write_all(name)?;
                let zeros = 1 + padding(size);
                io::copy(&mut io::repeat(0).take(zeros), &mut self.to)?;
            }
        }
        header.set_entry_type(about.kind);
        header.set_mode(about.mode);
        header.set_size(about.size);
        header.set_mtime(about.modified);
        header.set_uid(u64::from(self.ids.0));
        header.set_gid(u64::from(self.ids.1));
        header.set_cksum();
        self.to.write_all(header.as_bytes())
    }
}

impl<W: Write> Destination for Packer<W> {
    fn link(&mut self, path: &Path, target: &OsStr) -> io::Result<()> {
        let path = path.as_os_str().as_bytes();
        self.enter(parent(path))?;
        let about = About { kind: EntryType::Symlink, mode: 0o777, size: 0, modified: 0 };
        self.header(path, target.as_bytes(), &about)
    }

    fn file(&mut self, entry: &CopyEntry, about: &Metadata) -> io::Result<()> {
        self.begin(entry.path.as_os_str().as_bytes(), about, entry.is_executable())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    fn end_file(&mut self, _: &Metadata) -> io::Result<()> {
        self.pad()
    }
}

/// Bytes of all regular files in a directory; None as soon as there are more than `most`.
pub(crate) fn bytes_within(directory: OwnedFd, most: u64) -> io::Result<Option<u64>> {
    let mut bytes = 0;
    let counted = each_file(directory, &mut |_, file| {
        bytes += file.metadata()?.len();
        if bytes > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    });
    match counted {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(None),
        counted => counted.map(|()| Some(bytes)),
    }
}

/// By handle, through no link. What goes away meanwhile, as git's temporary files do, is passed over.
fn each_file(
    directory: OwnedFd,
    with: &mut dyn FnMut(&[u8], File) -> io::Result<()>,
) -> io::Result<()> {
    let mut names = Walk::new(directory)?;
    while let Some(Entry { name, .. }) = names.next_entry()? {
        let found = match openat(names.here(), &name, READ, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ACCESS) => continue,
            Err(error) => return Err(error.into()),
        };
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            FileType::RegularFile => with(&names.path(&name), found.into())?,
            FileType::Directory if names.depth() < MAX_DEPTH => names.enter(&name, found)?,
            _ => {}
        }
    }
    Ok(())
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |slash| &path[..slash])
}

fn padding(size: u64) -> u64 {
    (BLOCK - size % BLOCK) % BLOCK
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::copy_view;
    use act_workspace::{CopySet, PathGlobs};

    // VERIFIER-33
    #[test]
    fn the_archive_holds_the_copy_and_its_digest_is_that_of_the_bytes_sent() {
        let repo = tempfile::tempdir().unwrap();
        let long = "d".repeat(90);
        let deep = repo.path().join(&long).join(&long);
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "deep").unwrap();
        fs::write(repo.path().join("run"), vec![7; 1000]).unwrap();
        fs::set_permissions(repo.path().join("run"), fs::Permissions::from_mode(0o4711)).unwrap();
        symlink(format!("./x//{}", "y".repeat(120)), repo.path().join("link")).unwrap();
        let set = CopySet::of(repo.path(), &PathGlobs::new(&[]).unwrap()).unwrap();

        let mut bytes = vec![];
        let mut packer = Packer::new(&mut bytes, (7, 8));
        let tree = copy_view::copy(&set, &mut packer, &CancellationToken::new()).unwrap();
        packer.finish().unwrap();

        assert_eq!(tree, set.tree().unwrap());
        let into = tempfile::tempdir().unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut owners = archive.entries().unwrap().map(|entry| {
            let header = entry.unwrap().header().clone();
            (header.uid().unwrap(), header.gid().unwrap())
        });
        assert!(owners.all(|owner| owner == (7, 8)));
        tar::Archive::new(&bytes[..]).unpack(into.path()).unwrap();
        let unpacked = CopySet::of(into.path(), &PathGlobs::new(&[]).unwrap()).unwrap();
        assert_eq!(unpacked.tree().unwrap(), tree);
        let mode = fs::metadata(into.path().join("run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
    }

    // VERIFIER-33
    #[test]
    fn of_a_git_directory_only_files_travel_and_only_as_many_bytes_as_allowed() {
        let git = tempfile::tempdir().unwrap();
        fs::create_dir(git.path().join("objects")).unwrap();
        fs::write(git.path().join("objects/x"), [0; 600]).unwrap();
        fs::write(git.path().join("HEAD"), "ref").unwrap();
        symlink("/etc/passwd", git.path().join("link")).unwrap();
        let fifo = git.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let handle = || OwnedFd::from(File::open(git.path()).unwrap());
        assert_eq!(bytes_within(handle(), 603).unwrap(), Some(603));
        assert_eq!(bytes_within(handle(), 602).unwrap(), None);
        let mut bytes = vec![];
        let mut packer = Packer::new(&mut bytes, (0, 0));
        packer.all_of(handle()).unwrap();
        packer.finish().unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let names = archive.entries().unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect();
        names.sort();
        assert_eq!(names, ["HEAD", "objects/", "objects/x"]);
    }
}
