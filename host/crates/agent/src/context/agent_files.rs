//! What this module needs of the directory of act's notes, `agent/` or `.act/`.

use std::io;

use act_workspace::{NotesDir, NotesError};

/// Access to the files of `agent/`. Names are plain file names. An implementation holds the directory by
/// handle and follows no link, whatever a repository has put there.
pub trait AgentFiles {
    /// The name of the directory, relative to the repository's root.
    fn dir(&self) -> &str;
    /// Refused with `AlreadyExists` when the name is taken by anything, also by a dangling link.
    fn create_new(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// A reader sees the old bytes or the new ones. A link under that name is replaced, not followed.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Makes `context_latest.md` a link to `target`, in place of what stood there.
    fn link_latest(&self, target: &str) -> io::Result<()>;
    /// All names, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
}

impl AgentFiles for NotesDir {
    fn dir(&self) -> &str {
        self.name()
    }

    fn create_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.create_new(name, bytes).map_err(io_error)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.replace(name, bytes).map_err(io_error)
    }

    fn link_latest(&self, target: &str) -> io::Result<()> {
        self.replace_with_link("context_latest.md", target).map_err(io_error)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names().map_err(io_error)?.into_iter().map(|(name, _)| name).collect())
    }
}

fn io_error(error: NotesError) -> io::Error {
    let kind = match error {
        NotesError::Exists { .. } => io::ErrorKind::AlreadyExists,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::context::{EditorState, NotesWriter, Snapshot, SnapshotKind, Written};

    fn write(root: &std::path::Path) -> Written {
        let editor = EditorState::default();
        let notebook = NotesWriter::new(NotesDir::open(root).unwrap());
        let snapshot = Snapshot {
            taken: act_core::clock::now(),
            kind: SnapshotKind::TaskStart,
            task_id: "t-abc123",
            task_text: "x",
            scouts: &[],
            editor: &editor,
        };
        notebook.snapshot(&snapshot).unwrap()
    }

    #[test]
    fn names_prepared_by_a_repository_are_neither_followed_nor_overwritten() {
        // CONTEXT-2, CONTEXT-5, security line 65
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("repo"), place.path().join("outside.md"));
        let agent = root.join("agent");
        fs::create_dir_all(&agent).unwrap();
        fs::write(&outside, "outside").unwrap();
        fs::write(agent.join("context_001.md"), "shipped").unwrap();
        symlink(&outside, agent.join("context_002.md")).unwrap();
        symlink(place.path().join("nowhere"), agent.join("context_003.md")).unwrap();
        symlink(&outside, agent.join("context_latest.md")).unwrap();

        assert_eq!(write(&root), Written { path: "agent/context_004.md".into(), not_linked: None });
        assert_eq!(
            fs::read_link(agent.join("context_latest.md")).unwrap().to_str(),
            Some("context_004.md")
        );
        assert_eq!(fs::read_to_string(agent.join("context_001.md")).unwrap(), "shipped");
        assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
        assert!(!place.path().join("nowhere").exists());

        fs::remove_file(agent.join("context_latest.md")).unwrap();
        fs::create_dir(agent.join("context_latest.md")).unwrap();
        fs::write(agent.join("context_latest.md/x"), "").unwrap();
        let written = write(&root);
        assert_eq!(written.path, "agent/context_005.md");
        let why = written.not_linked.unwrap();
        assert!(why.contains("is a directory"), "{why}");
    }
}
