//! What steps leave behind must not be dangerous on the host: no setuid or setgid file, no file of another
//! owner, no directory that its owner cannot delete.

use std::ffi::CString;
use std::io;
use std::ops::AddAssign;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, chmodat, statat};
use rustix::process::geteuid;

use super::remove::{open_any, remove_tree};
use act_fs::{Entry, Walk};

/// Deeper trees are removed: a build does not need them, and each level costs a handle.
pub(super) const MAX_DEPTH: usize = 100;

/// What was found and put right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files that lost a setuid or setgid bit.
    pub privileged: u64,
    /// Files of another owner, removed.
    pub foreign: u64,
    /// Directories nested too deep, removed.
    pub too_deep: u64,
}

impl AddAssign for Swept {
    fn add_assign(&mut self, more: Self) {
        self.privileged += more.privileged;
        self.foreign += more.foreign;
        self.too_deep += more.too_deep;
    }
}

/// Walks a directory that nothing writes any more. Names are judged without following links.
pub fn sweep(directory: OwnedFd) -> io::Result<Swept> {
    let own = geteuid().as_raw();
    let mut swept = Swept::default();
    let mut names = Walk::new(directory)?;
    while let Some(Entry { name, .. }) = names.next()? {
        let stat = statat(names.here(), &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        let kind = FileType::from_raw_mode(stat.st_mode);
        if stat.st_uid != own {
            remove_named(names.here(), &name)?;
            swept.foreign += 1;
            continue;
        }
        if kind != FileType::Symlink && mode.intersects(Mode::SUID | Mode::SGID) {
            chmodat(names.here(), &name, mode - Mode::SUID - Mode::SGID, AtFlags::empty())?;
            swept.privileged += u64::from(kind != FileType::Directory);
        }
        if kind == FileType::Directory {
            if names.depth() >= MAX_DEPTH {
                remove_named(names.here(), &name)?;
                swept.too_deep += 1;
            } else {
                let deeper = open_any(names.here(), &name)?;
                names.enter(&name, deeper)?;
            }
        }
    }
    Ok(swept)
}

pub(super) fn remove_named(parent: impl AsFd, name: &CString) -> io::Result<()> {
    let parent = parent.as_fd();
    // A name that is not UTF-8 is renamed first; `remove_tree` takes text.
    match name.to_str() {
        Ok(text) => remove_tree(parent, text),
        Err(_) => {
            let fresh = format!(".removing-{}", act_core::RunId::generate(act_core::clock::now()));
            rustix::fs::renameat(parent, name, parent, fresh.as_str())?;
            remove_tree(parent, &fresh)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    // security line 95
    #[test]
    fn takes_setuid_bits_away_opens_closed_directories_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, part) = (dir.path().join("outside"), dir.path().join("part"));
        fs::create_dir_all(part.join("closed/inner")).unwrap();
        fs::create_dir(&outside).unwrap();
        for file in [outside.join("su"), part.join("su"), part.join("closed/inner/su\n2")] {
            fs::write(&file, "x").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).unwrap();
        }
        symlink(outside.join("su"), part.join("link")).unwrap();
        symlink(&outside, part.join("dir-link")).unwrap();
        fs::set_permissions(part.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();

        let swept = sweep(fs::File::open(&part).unwrap().into()).unwrap();

        assert_eq!(swept, Swept { privileged: 2, ..Swept::default() });
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&part.join("su")), 0o755);
        assert_eq!(mode(&part.join("closed/inner/su\n2")), 0o755);
        assert_eq!(
            mode(&outside.join("su")),
            0o6755,
            "what a link points to is not ours to change"
        );
        assert_eq!(mode(&part.join("closed")), 0o700);
    }

    #[test]
    fn removes_what_is_nested_too_deep() {
        let dir = tempfile::tempdir().unwrap();
        let deep: std::path::PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 50).collect();
        fs::create_dir_all(dir.path().join(&deep)).unwrap();
        let swept = sweep(fs::File::open(dir.path()).unwrap().into()).unwrap();
        assert_eq!(swept.too_deep, 1);
        assert!(!dir.path().join(&deep).exists());
    }
}
