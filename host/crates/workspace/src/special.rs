//! What in a repository is neither file, directory nor link, and what is mounted below it: a read-only mount
//! stops neither a connection to a socket nor a write into a FIFO.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, fstat, statat};
use rustix::io::Errno;

use super::handle::{DIRECTORY, MAX_DEPTH, Root};
use act_fs::{Entry, Walk};

/// Of either kind that are named; more are only counted as more.
const MOST: usize = 256;
/// Names that are looked at.
const MAX_NAMES: usize = 10_000_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Special {
    /// Sockets and FIFOs, relative to the root, `.git` included.
    pub channels: Vec<PathBuf>,
    /// Directories on which another file system is mounted; not looked into.
    pub mounts: Vec<PathBuf>,
    /// There was more than is looked at.
    pub cut: bool,
}

/// Looks at every name below the root, ignored ones as well. Directories that cannot be read are passed over:
/// the steps run as the same user.
pub fn special(root: &Path) -> Result<Special, Errno> {
    let root = Root::open(root)?;
    let start = root.open_real(b"", DIRECTORY)?;
    let here_is = mounted(&start)?;
    let mut found = Special::default();
    let mut names = Walk::new(start)?;
    let mut looked_at = 0;
    while let Some(Entry { name, kind }) = names.next_entry()? {
        looked_at += 1;
        if looked_at > MAX_NAMES {
            found.cut = true;
            break;
        }
        let kind = match kind {
            FileType::Unknown => match statat(names.here(), &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(_) => continue,
            },
            known => known,
        };
        let path = || PathBuf::from(std::ffi::OsString::from_vec(names.path(&name)));
        match kind {
            FileType::Fifo | FileType::Socket => push(&mut found.channels, path(), &mut found.cut),
            FileType::Directory => {
                let Ok(inside) = names.open(&name) else { continue };
                if mounted(&inside)? != here_is {
                    push(&mut found.mounts, path(), &mut found.cut);
                } else if names.depth() >= MAX_DEPTH {
                    found.cut = true;
                } else {
                    names.enter(&name, inside)?;
                }
            }
            _ => {}
        }
    }
    found.channels.sort();
    found.mounts.sort();
    Ok(found)
}

/// The mount that a directory lies in: the device alone would not tell of one part of a file system that is bound
/// over another.
#[cfg(target_os = "linux")]
fn mounted(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    use rustix::fs::{StatxFlags, statx};
    let device = fstat(directory)?.st_dev;
    let flags = AtFlags::EMPTY_PATH;
    // Not told before Linux 5.8.
    let mount =
        statx(directory, c"", flags, StatxFlags::MNT_ID).map_or(0, |about| about.stx_mnt_id);
    Ok((device, mount))
}

#[cfg(not(target_os = "linux"))]
fn mounted(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    Ok((fstat(directory)?.st_dev as u64, 0))
}

fn push(list: &mut Vec<PathBuf>, path: PathBuf, cut: &mut bool) {
    if list.len() < MOST {
        list.push(path);
    } else {
        *cut = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_sockets_and_fifos_at_any_depth_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join(".git/x")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        let fifo = dir.path().join(".git/x/fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("a.sock")).unwrap();
        let found = special(dir.path()).unwrap();
        assert_eq!(found.channels, [PathBuf::from(".git/x/fifo"), PathBuf::from("a.sock")]);
        assert!(found.mounts.is_empty() && !found.cut);
    }
}
