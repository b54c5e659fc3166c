//! Where the file system puts runs. ext4 gives the number of a removed file away again only minutes later, and for
//! each new file looks at all such numbers of its block group first: ten thousand files that are made where ten
//! thousand were just removed take seconds, else a fifth of one. Each run removes its view and the next one makes
//! it again, so runs should lie apart.

use act_fs::Dir;

/// Gives each directory that is made in `parent` from now on a block group of its own. It is a wish: other file
/// systems do not know it, and a run does as well without.
#[cfg(target_os = "linux")]
pub(super) fn spread(parent: &Dir) {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    if let Ok(flags) = ioctl_getflags(parent)
        && !flags.contains(IFlags::TOPDIR)
    {
        let _ = ioctl_setflags(parent, flags | IFlags::TOPDIR);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn spread(_: &Dir) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::fs::{IFlags, fstatfs, ioctl_getflags};

    const EXT4: u64 = 0xef53;

    #[test]
    fn a_directory_is_marked_where_the_file_system_knows_the_mark() {
        // ARTIFACT-3
        let place = tempfile::tempdir().unwrap();
        let handle = Dir::open(place.path()).unwrap();
        spread(&handle);
        spread(&handle);
        if u64::try_from(fstatfs(&handle).unwrap().f_type) == Ok(EXT4) {
            assert!(ioctl_getflags(&handle).unwrap().contains(IFlags::TOPDIR));
        }
    }
}
