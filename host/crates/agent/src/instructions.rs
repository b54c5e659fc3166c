//! The repository's own instructions for agents: `AGENTS.md`, or `CLAUDE.md` in a directory that has no `AGENTS.md`.
//!
//! Such a file is text of the repository that speaks with the voice of the user. So the host reads it through the view of
//! the Scouts, takes only files that git tracks, bounds them, and shows them to the model below words of its own. No other
//! code reads the text, so nothing in it can allow a path, grant a capability, or weaken a boundary or the pipeline.

use std::collections::BTreeSet;

use act_core::terminal_text::is_hidden;
use act_workspace::{ReadError, RepoView, Slice, ViewError, digest, read};

/// Maximum number of bytes that the model gets at the start of a task, and again in the course of it. It is the bound of
/// the agent that defined the files most fully, so authors keep to it.
pub const MAX_BYTES: usize = 32 * 1024;
/// Maximum size in bytes of a file of instructions. The digest is that of the whole file, so the whole file is read.
const MAX_FILE: u64 = 1 << 20;
/// Maximum number of directories that one call of a tool makes the host look into.
const DIRECTORIES_OF_A_CALL: usize = 64;
/// The names, in the order in which they are looked for. Only the first that exists counts.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// A file of instructions, as the model gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionFile {
    /// The real path, which a link may lead to.
    pub path: String,
    /// The digest of the whole file.
    pub sha256: String,
    /// The text, which may be cut at its end. Characters that a reader cannot see are replaced by U+FFFD.
    pub text: String,
    /// The number of bytes at the end that the model does not get.
    pub left_out: usize,
}

/// The files that were found by one search.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// From the root down, so the nearest file is the last.
    pub files: Vec<InstructionFile>,
    /// Messages for the user about files that the model does not get, or gets only in part.
    pub warnings: Vec<String>,
}

/// The instructions of one task. Each file is read once, and the task keeps the text of that moment.
#[derive(Default)]
pub struct Instructions {
    /// `None` when the user, the repository or the administrator turned instructions off.
    view: Option<RepoView>,
    /// Directories in which was looked.
    looked_into: BTreeSet<String>,
    /// Every file that the model got.
    files: Vec<InstructionFile>,
    /// The number of bytes that may still be shown in the course of the task.
    room: usize,
}

impl Instructions {
    /// Returns the instructions of a task that sees the repository through `view`.
    pub fn of(view: Option<RepoView>) -> Self {
        Self { view, room: MAX_BYTES, ..Self::default() }
    }

    /// Returns every file that the model got so far.
    pub fn files(&self) -> &[InstructionFile] {
        &self.files
    }

    /// Reads the files from the root down to `directory`, which is empty for the root itself.
    pub fn down_to(&mut self, directory: &str) -> Found {
        let mut room = MAX_BYTES;
        self.read(around(&format!("{directory}/x")), &mut room)
    }

    /// Reads the files of the directories around `paths` that were not looked into before.
    pub fn around<'p>(&mut self, paths: impl IntoIterator<Item = &'p str>) -> Found {
        let directories = paths.into_iter().flat_map(around);
        let mut fresh: Vec<_> =
            directories.filter(|directory| !self.looked_into.contains(directory)).collect();
        fresh.sort();
        fresh.dedup();
        fresh.truncate(DIRECTORIES_OF_A_CALL);
        let mut room = self.room;
        let found = self.read(fresh, &mut room);
        self.room = room;
        found
    }

    /// Reads the files of `directories`, which are in the order from the root down. When `room` is too small, the nearest
    /// files get it first.
    fn read(&mut self, directories: Vec<String>, room: &mut usize) -> Found {
        let Some(view) = self.view.clone() else { return Found::default() };
        let mut found = Found::default();
        for directory in directories {
            if !self.looked_into.insert(directory.clone()) {
                continue;
            }
            match read_in(&view, &directory, &mut found.warnings) {
                Some(file)
                    if self
                        .files
                        .iter()
                        .chain(&found.files)
                        .any(|known| known.path == file.path) => {}
                Some(file) => found.files.push(file),
                None => {}
            }
        }
        for file in found.files.iter_mut().rev() {
            cut(file, room);
            if file.left_out > 0 {
                let InstructionFile { path, text, left_out, .. } = file;
                found.warnings.push(format!(
                    "{path} is cut: the model gets {} of its {} bytes, because the instructions of a repository have \
                     at most {MAX_BYTES} bytes in all",
                    text.len(),
                    text.len() + *left_out,
                ));
            }
        }
        self.files.extend(found.files.iter().cloned());
        found
    }
}

/// Returns the directories on the way to `path`, from the root down. A path that leaves the repository has none.
fn around(path: &str) -> Vec<String> {
    let mut directories = vec![String::new()];
    let Some((directory, _)) = path.rsplit_once('/') else { return directories };
    let mut so_far = String::new();
    for part in directory.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            return directories;
        }
        if !so_far.is_empty() {
            so_far.push('/');
        }
        so_far.push_str(part);
        directories.push(so_far.clone());
    }
    directories
}

/// Reads the file of instructions of one directory.
fn read_in(
    view: &RepoView,
    directory: &str,
    warnings: &mut Vec<String>,
) -> Option<InstructionFile> {
    for name in NAMES {
        let path =
            if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
        let mut warn = |why: String| warnings.push(format!("the model does not get {path}: {why}"));
        let slice = Slice {
            path: path.clone(),
            with_version: true,
            version_bytes: Some(MAX_FILE),
            ..Slice::default()
        };
        let chunk = match read(view, &slice, None) {
            Ok(chunk) => chunk,
            // Not in the view of the Scouts: git ignores the file, for instance.
            Err(ReadError::View(
                ViewError::NotFound | ViewError::NotDirectory | ViewError::Excluded { .. },
            )) => continue,
            Err(ReadError::TooLarge { size, .. }) => {
                warn(format!(
                    "it has {size} bytes, more than the {MAX_FILE} of a file of instructions"
                ));
                return None;
            }
            Err(error) => {
                warn(error.to_string());
                return None;
            }
        };
        let untracked = |path: &str| view.is_tracked(path) == Some(false);
        if untracked(&path) || untracked(&chunk.path) {
            warn("git does not track it".to_owned());
            continue;
        }
        let text = readable(&String::from_utf8_lossy(&chunk.bytes));
        if text.trim().is_empty() {
            return None;
        }
        let sha256 = digest(&chunk.bytes);
        return Some(InstructionFile { path: chunk.path, sha256, text, left_out: 0 });
    }
    None
}

/// Makes visible what a reader of the file would not see, so that the model obeys nothing that no person could review.
fn readable(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let shown = |c| if is_hidden(c) && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Cuts the text to whole lines that fit into `room`, and takes them from it.
fn cut(file: &mut InstructionFile, room: &mut usize) {
    let whole = file.text.len();
    if whole > *room {
        let most = file.text.floor_char_boundary(*room);
        let line = file.text[..most].rfind('\n').map_or(0, |end| end + 1);
        // A first line that does not fit is cut inside.
        file.text.truncate(if line == 0 { most } else { line });
    }
    file.left_out = whole - file.text.len();
    *room -= file.text.len();
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use act_workspace::Profile;

    /// A repository without git that holds these files.
    fn repo(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        dir
    }

    fn instructions(root: &Path) -> Instructions {
        Instructions::of(Some(RepoView::open(root, Profile::Scout).unwrap()))
    }

    fn texts(found: &Found) -> Vec<(&str, &str)> {
        found.files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect()
    }

    fn git(root: &Path, arguments: &[&str]) {
        let status = Command::new("git").arg("-C").arg(root).args(arguments).status().unwrap();
        assert!(status.success(), "{arguments:?}");
    }

    // EDITOR-70
    #[test]
    fn files_from_the_root_to_the_package_are_read_once_nearest_last() {
        let dir = repo(&[
            ("AGENTS.md", b"root\n"),
            ("CLAUDE.md", b"not read\n"),
            ("packages/CLAUDE.md", b"packages\n@AGENTS.md\n"),
            ("packages/a/AGENTS.md", b"a\n"),
            ("packages/b/AGENTS.md", b"b\n"),
            ("packages/a/src/AGENTS.md", b"src\n"),
        ]);
        let mut all = instructions(dir.path());
        let found = all.down_to("packages/a");
        let expected = [
            ("AGENTS.md", "root\n"),
            ("packages/CLAUDE.md", "packages\n@AGENTS.md\n"),
            ("packages/a/AGENTS.md", "a\n"),
        ];
        assert_eq!((texts(&found).as_slice(), found.warnings.len()), (&expected[..], 0));
        assert_eq!(found.files[0].sha256, digest(b"root\n"));
        let deeper = all.around(["packages/a/src/x.py", "packages/a/src/y.py", "packages/a/z.py"]);
        assert_eq!(texts(&deeper), [("packages/a/src/AGENTS.md", "src\n")]);
        assert_eq!(all.around(["packages/a/src/x.py"]), Found::default());
        assert_eq!(texts(&all.around(["./packages//b/x.py"])), [("packages/b/AGENTS.md", "b\n")]);
        assert_eq!(all.files().len(), 5);
        for path in ["../x", "/etc/x", "packages/../../x", "", "no/such/x"] {
            assert_eq!(all.around([path]), Found::default(), "{path}");
        }
        assert_eq!(Instructions::of(None).down_to(""), Found::default());
    }

    // EDITOR-70
    #[test]
    fn the_nearest_file_keeps_its_text_and_a_cut_is_reported() {
        let line = "0123456789abcde\n";
        let dir = repo(&[
            ("AGENTS.md", line.repeat(2_000).as_bytes()),
            ("a/AGENTS.md", line.repeat(1_000).as_bytes()),
            ("a/b/AGENTS.md", line.repeat(2_049).as_bytes()),
        ]);
        let mut all = instructions(dir.path());
        let found = all.down_to("a");
        let lengths: Vec<_> =
            found.files.iter().map(|file| (file.text.len(), file.left_out)).collect();
        assert_eq!(lengths, [(MAX_BYTES - 16_000, 32_000 - (MAX_BYTES - 16_000)), (16_000, 0)]);
        assert_eq!(found.warnings.len(), 1);
        assert!(
            found.warnings[0].starts_with("AGENTS.md is cut: the model gets 16768 of its 32000"),
            "{found:?}"
        );
        let deeper = all.around(["a/b/x"]);
        assert_eq!((deeper.files[0].text.len(), deeper.files[0].left_out), (MAX_BYTES, 16));
        assert!(deeper.warnings[0].starts_with("a/b/AGENTS.md is cut"));
    }

    // EDITOR-70: only what the repository holds by its history, and nothing that lies outside of it.
    #[test]
    fn untracked_files_and_links_out_of_the_repository_are_not_read() {
        let outside = repo(&[("secret.md", b"outside\n")]);
        let dir = repo(&[
            ("docs/agents.md", b"shared\n"),
            ("untracked/AGENTS.md", b"planted\n"),
            ("untracked/CLAUDE.md", b"tracked\n"),
            ("ignored/AGENTS.md", b"planted\n"),
            (".gitignore", b"ignored/\n"),
        ]);
        let root = dir.path();
        symlink("docs/agents.md", root.join("AGENTS.md")).unwrap();
        fs::create_dir_all(root.join("out")).unwrap();
        symlink(outside.path().join("secret.md"), root.join("out/AGENTS.md")).unwrap();
        fs::create_dir_all(root.join("twice")).unwrap();
        symlink("../AGENTS.md", root.join("twice/CLAUDE.md")).unwrap();
        git(root, &["init", "-q"]);
        git(
            root,
            &["add", "docs", "AGENTS.md", "out", "twice", "untracked/CLAUDE.md", ".gitignore"],
        );
        // `git add -N` only announces a file.
        git(root, &["add", "-N", "untracked/AGENTS.md"]);
        let mut all = instructions(root);
        let found = all.down_to("");
        assert_eq!(
            texts(&found),
            [("docs/agents.md", "shared\n")],
            "a link to a tracked file is followed"
        );
        assert_eq!(all.around(["twice/x"]), Found::default(), "the same file is not shown twice");
        let untracked = all.around(["untracked/x"]);
        assert_eq!(texts(&untracked), [("untracked/CLAUDE.md", "tracked\n")]);
        assert_eq!(
            untracked.warnings,
            ["the model does not get untracked/AGENTS.md: git does not track it"]
        );
        assert_eq!(all.around(["ignored/x"]), Found::default());
        let out = all.around(["out/x"]);
        assert_eq!((out.files.len(), out.warnings.len()), (0, 1), "{out:?}");
    }

    // EDITOR-70: no file makes the host wait, allocate without bound, or fail.
    #[test]
    fn special_large_empty_and_unreadable_files_are_left_out() {
        let large = vec![b'x'; 10 << 20];
        let dir = repo(&[
            ("AGENTS.md", b" \n\n"),
            ("large/AGENTS.md", &large),
            ("binary/AGENTS.md", b"a\0b"),
            ("directory/AGENTS.md/x", b"x"),
            ("fifo/x", b"x"),
        ]);
        let fifo = dir.path().join("fifo/AGENTS.md");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let mut all = instructions(dir.path());
        assert_eq!(all.down_to(""), Found::default());
        for (directory, why) in [
            ("large", "it has 10485760 bytes"),
            ("binary", "is binary"),
            ("directory", "not a regular file"),
            ("fifo", "not a regular file"),
        ] {
            let found = all.around([format!("{directory}/y").as_str()]);
            assert!(found.files.is_empty());
            assert_eq!(found.warnings.len(), 1, "{directory}: {found:?}");
            assert!(found.warnings[0].contains(why), "{found:?}");
        }
        assert!(all.files().is_empty());
    }

    // EDITOR-70: hidden characters and bytes that are no text are made visible.
    #[test]
    fn characters_that_a_reviewer_cannot_see_are_replaced() {
        let text = "\u{feff}one\r\ntwo\u{1b}[31m\u{200b}\u{202e}\t\u{e0041}é\n".as_bytes();
        let dir = repo(&[("AGENTS.md", &[text, b"\xff\xfe\n"].concat())]);
        let found = instructions(dir.path()).down_to("");
        let hidden = "\u{fffd}";
        let expected =
            format!("one\ntwo{hidden}[31m{hidden}{hidden}\t{hidden}é\n{hidden}{hidden}\n");
        assert_eq!(found.files[0].text, expected);
    }

    #[test]
    fn a_line_that_does_not_fit_is_cut_at_a_character() {
        let long = "é".repeat(MAX_BYTES);
        let dir = repo(&[("AGENTS.md", long.as_bytes())]);
        let found = instructions(dir.path()).down_to("");
        assert_eq!((found.files[0].text.len(), found.files[0].left_out), (MAX_BYTES, MAX_BYTES));
    }
}
