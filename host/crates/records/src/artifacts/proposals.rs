//! `state/proposals/`: what dry runs thought out, one file for each, for the owner alone.

use std::io;

use super::ArtifactDir;
use act_fs::{Dir, Durability};

/// Bytes of a proposal at most, far above what a dry run may hold.
const MOST: u64 = 256 << 20;

impl ArtifactDir {
    /// Whole and durable when this returns; takes the place of one of the same name.
    pub fn write_proposal(&self, task_id: &str, bytes: &[u8]) -> io::Result<()> {
        let dir = self.proposals()?;
        let mut staged = dir.stage_as(format!(".new-{task_id}"))?;
        staged.write(bytes)?;
        staged.publish(name(task_id), Durability::ContentsAndName)
    }

    /// None when it is not there. A link, a pipe or a file beyond all bounds is refused.
    pub fn read_proposal(&self, task_id: &str) -> io::Result<Option<Vec<u8>>> {
        self.proposals()?.read_existing(name(task_id), MOST)
    }

    /// Also when it is gone already.
    pub fn remove_proposal(&self, task_id: &str) -> io::Result<()> {
        self.proposals()?.remove_file(name(task_id))
    }

    fn proposals(&self) -> io::Result<Dir> {
        self.state()?.private_subdirectory("proposals")
    }
}

fn name(task_id: &str) -> String {
    format!("{task_id}.json")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_proposal_is_for_its_owner_and_never_reached_through_a_link() {
        // ARTIFACT-20
        let dir = tempfile::tempdir().unwrap();
        let artifacts = ArtifactDir::open_for(&dir.path().join("artifacts"), None).unwrap();
        assert_eq!(artifacts.read_proposal("t-aaaaaa").unwrap(), None);
        artifacts.write_proposal("t-aaaaaa", b"one").unwrap();
        artifacts.write_proposal("t-aaaaaa", b"two").unwrap();
        assert_eq!(artifacts.read_proposal("t-aaaaaa").unwrap().unwrap(), b"two");
        let path = artifacts.path().join("state/proposals/t-aaaaaa.json");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        artifacts.remove_proposal("t-aaaaaa").unwrap();
        artifacts.remove_proposal("t-aaaaaa").unwrap();
        symlink("/etc/passwd", &path).unwrap();
        assert!(artifacts.read_proposal("t-aaaaaa").is_err());
    }
}
