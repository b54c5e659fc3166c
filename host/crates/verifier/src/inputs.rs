//! What the verdict of a cold run depends on, as two digests: the tree, and everything else. A later command that finds
//! both unchanged may answer with the run instead of repeating it.
//!
//! The second digest covers the pipeline as it is in force, the image by its id, the engine, the user, the environment and
//! the version of act. Two things beside the tree count where the steps can reach them by their names: the ignored files,
//! which lie in a view that is no copy and below `/workspace` in a copy, and the state of git. Services in the network,
//! downloads and the clock are not covered, so a caller bounds the age of what it repeats.

use crate::ca_bundle::certificates;
use crate::docker_verifier::{DockerVerifier, blocking};
use crate::pipeline::VerificationConfig;
use crate::request::step_environment;
use crate::workspace::{MAX_COPIED_BYTES, MAX_COPIED_FILES, WORKSPACE};
use act_config::Workspace as ConfiguredWorkspace;
use act_workspace::{CopyEntry, CopyError, CopySet, PathGlobs, digest, git_state};
use memchr::memmem;
use std::io;
use std::path::{Path, PathBuf};

/// Part of every digest. It rises when the meaning of a run changes although the version of act does not.
const FORMAT: u32 = 1;

/// The inputs of a run of the pipeline. Two runs with equal inputs judge the same tree in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inputs {
    /// Digest of the tree.
    pub tree: String,
    /// Digest of everything else.
    pub others: String,
}

/// What the steps may see of the repository beside its tree; `None` where it cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beside {
    git: Option<String>,
    ignored: Option<String>,
}

impl Beside {
    pub(crate) fn of(repo: &Path, include: &PathGlobs) -> Result<Self, CopyError> {
        Ok(Self::of_set(repo, &CopySet::of(repo, include)?))
    }

    fn of_set(repo: &Path, set: &CopySet) -> Self {
        Self { git: git_state(repo), ignored: set.beside() }
    }
}

/// The tree and what lies beside it, as they were read at one moment.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) tree: String,
    beside: Beside,
    /// The digest of the inputs depends on the ignored files.
    counts_ignored: bool,
    /// The digest of the inputs depends on the state of git.
    counts_git: bool,
}

impl Reading {
    /// Reads every file of the tree once.
    ///
    /// # Errors
    /// The errors of [`CopySet::of`] and [`CopySet::open`].
    pub(crate) fn of(
        repo: &Path,
        include: &PathGlobs,
        config: &VerificationConfig,
    ) -> Result<Self, CopyError> {
        let set = CopySet::of(repo, include)?;
        let mut words = Words::of(config);
        let tree = set.tree_seen(&mut |entry, piece| words.see(entry, piece))?;
        let large = set.entries.len() > MAX_COPIED_FILES || set.bytes() > MAX_COPIED_BYTES;
        let in_view = match config.pipeline.workspace {
            ConfiguredWorkspace::Copy => false,
            ConfiguredWorkspace::Auto => large,
            ConfiguredWorkspace::Overlay | ConfiguredWorkspace::Readonly => true,
        };
        Ok(Self {
            tree: tree.digest,
            beside: Beside::of_set(repo, &set),
            counts_ignored: in_view || words.repository,
            counts_git: words.git,
        })
    }

    /// Returns the inputs of a run by `verifier`, or `None` if something that counts cannot be compared.
    fn inputs(&self, verifier: &DockerVerifier) -> Option<Inputs> {
        let counted = |counts: bool, value: &Option<String>| match counts {
            false => Some(None),
            true => value.clone().map(Some),
        };
        let DockerVerifier { engine, image, config, .. } = verifier;
        let ca_bundle = match &config.pipeline.ca_bundle {
            None => None,
            Some(path) => Some(digest(certificates(path).ok()?.as_bytes())),
        };
        let environment = step_environment(image.path.as_deref(), false, ca_bundle.is_some());
        let others = serde_json::json!([
            FORMAT,
            env!("CARGO_PKG_VERSION"),
            config.sha256,
            // Every setting in force, those of the user and the administrator included.
            format!("{config:?}"),
            image.id,
            [&image.os, &image.arch, std::env::consts::ARCH],
            engine.fingerprint(),
            verifier.user().ids(),
            environment,
            ca_bundle,
            counted(self.counts_ignored, &self.beside.ignored)?,
            counted(self.counts_git, &self.beside.git)?,
        ]);
        Some(Inputs { tree: self.tree.clone(), others: digest(others.to_string().as_bytes()) })
    }

    /// Returns the inputs of a run that began with `before` and ended with this reading, or `None` if what counts was not
    /// the same all the time.
    pub(crate) fn inputs_since(
        &self,
        before: &Beside,
        verifier: &DockerVerifier,
    ) -> Option<Inputs> {
        let same = (!self.counts_ignored || self.beside.ignored == before.ignored)
            && (!self.counts_git || self.beside.git == before.git);
        self.inputs(verifier).filter(|_| same)
    }
}

impl DockerVerifier {
    /// Reads the inputs that a cold run of the working tree would have now. Returns `None` if they cannot be compared with
    /// those of another run.
    ///
    /// # Errors
    /// The tree cannot be read.
    pub async fn inputs(&self) -> io::Result<Option<Inputs>> {
        let verifier = self.clone();
        blocking(move || {
            let include =
                PathGlobs::new(&verifier.config.pipeline.include).map_err(io::Error::other)?;
            let reading = Reading::of(verifier.repo.path(), &include, &verifier.config);
            Ok(reading.map_err(io::Error::other)?.inputs(&verifier))
        })
        .await
    }
}

/// Files that tools of a pipeline run without being named by a command.
const RUN_BY_TOOLS: [&str; 12] = [
    "GNUmakefile",
    "Justfile",
    "Makefile",
    "Rakefile",
    "Taskfile.yml",
    "build.rs",
    "conftest.py",
    "justfile",
    "makefile",
    "noxfile.py",
    "package.json",
    "setup.py",
];

/// Bytes of the last piece of a file that are searched again with the next one.
const OVERLAP: usize = WORKSPACE.len();

/// Searches commands and files for words that lead beside the tree.
struct Words {
    commands: String,
    /// The path of the repository in the container was found.
    repository: bool,
    /// The word `git` was found in a command, or in a file that a command runs.
    git: bool,
    /// The file that was seen last, and the end of its last piece.
    last: (PathBuf, Vec<u8>),
    finder: memmem::Finder<'static>,
}

impl Words {
    fn of(config: &VerificationConfig) -> Self {
        let commands: Vec<_> =
            config.pipeline.all_steps().map(|step| step.command.as_str()).collect();
        let commands = commands.join("\n");
        Self {
            repository: commands.contains(WORKSPACE),
            git: names_git(commands.as_bytes()),
            commands,
            last: (PathBuf::new(), vec![]),
            finder: memmem::Finder::new(WORKSPACE),
        }
    }

    fn see(&mut self, entry: &CopyEntry, piece: &[u8]) {
        if self.repository && self.git {
            return;
        }
        // The first piece of another file does not continue the last one.
        let (path, end) = std::mem::take(&mut self.last);
        let mut text = if path == entry.path { end } else { vec![] };
        text.extend(piece);
        self.repository |= self.finder.find(&text).is_some();
        self.git |= self.is_run(&entry.path) && names_git(&text);
        let end = text.split_off(text.len().saturating_sub(OVERLAP));
        self.last = (entry.path.clone(), end);
    }

    /// Returns whether a command names the file, or a tool runs it without.
    fn is_run(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        RUN_BY_TOOLS.contains(&name) || (name.len() > 2 && self.commands.contains(name))
    }
}

fn names_git(text: &[u8]) -> bool {
    let part_of_word = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    memmem::find_iter(text, b"git").any(|at| {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        !part_of_word(before) && !part_of_word(text.get(at + 3))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_config::{Limits, Pipeline, SourceWrites, Step, User};
    use std::fs;
    use std::time::Duration;

    fn config(command: &str) -> VerificationConfig {
        let step = Step { name: "test".into(), command: command.into(), network: false };
        VerificationConfig {
            pipeline: Pipeline {
                image: "image".into(),
                prepare: vec![],
                prepare_inputs: vec![],
                warm: None,
                steps: vec![step],
                workspace: ConfiguredWorkspace::Auto,
                include: vec![],
                source_writes: SourceWrites::Fail,
                user: User::Caller,
                ca_bundle: None,
                limits: Limits::default(),
                engine: [].into(),
                private_network: true,
                cut_off: vec![],
            },
            step_timeout: Duration::from_secs(1),
            package: None,
            sha256: String::new(),
            downloads_of: None,
        }
    }

    struct Place {
        dir: tempfile::TempDir,
        config: VerificationConfig,
    }

    impl Place {
        fn new(command: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let place = Self { dir, config: config(command) };
            fs::create_dir_all(place.dir.path().join(".git/refs/heads")).unwrap();
            place.write(".git/HEAD", "ref: refs/heads/main\n");
            place.write(".gitignore", "*.log\n");
            place.write("a.txt", "a");
            place.write("b.log", "b");
            place
        }

        fn write(&self, path: &str, text: &str) {
            fs::write(self.dir.path().join(path), text).unwrap();
        }

        fn reading(&self) -> Reading {
            let include = PathGlobs::new(&self.config.pipeline.include).unwrap();
            Reading::of(self.dir.path(), &include, &self.config).unwrap()
        }
    }

    #[test]
    fn ignored_files_count_where_a_step_can_name_them() {
        let counts = |place: &Place| place.reading().counts_ignored;
        let mut place = Place::new("true");
        assert!(!counts(&place), "a copy holds no ignored file");
        assert!(counts(&Place::new("cat /workspace/b.log")), "a command names them");
        place.write("x.sh", "cat /workspace/b.log");
        assert!(counts(&place), "a file of the tree names them");
        place.write("x.sh", &format!("{}/workspace/", " ".repeat((64 << 10) - 3)));
        assert!(counts(&place), "the name is on both sides of the end of a piece");
        place.write("x.sh", "");
        assert!(!counts(&place));
        for view in [ConfiguredWorkspace::Overlay, ConfiguredWorkspace::Readonly] {
            place.config.pipeline.workspace = view;
            assert!(counts(&place), "they lie in the view");
        }
    }

    #[test]
    fn git_counts_where_a_command_or_a_file_that_it_runs_names_it() {
        let counts = |place: &Place| place.reading().counts_git;
        assert!(!counts(&Place::new("cargo test --digits legit gitless")));
        assert!(counts(&Place::new("test -z \"$(git status)\"")));
        let place = Place::new("sh check.sh");
        place.write("README", "git clone");
        assert!(!counts(&place), "no command runs the file");
        place.write("check.sh", "git diff --exit-code");
        assert!(counts(&place));
        let place = Place::new("make");
        place.write("Makefile", "all:\n\tgit describe\n");
        assert!(counts(&place));
    }

    #[test]
    fn the_state_of_git_changes_with_head_references_and_index() {
        let place = Place::new("git log");
        let state = || place.reading().beside.git;
        let mut before = state();
        assert!(before.is_some());
        let id = "1".repeat(40);
        for (path, text) in [
            (".git/refs/heads/main", id.as_str()),
            (".git/HEAD", "ref: refs/heads/other\n"),
            (".git/packed-refs", "# pack-refs\n"),
            (".git/index", "DIRC"),
        ] {
            place.write(path, text);
            let after = state();
            assert_ne!(before, after, "{path}");
            before = after;
        }
    }

    #[test]
    fn an_ignored_file_cannot_change_unnoticed_behind_its_old_time_and_size() {
        let place = Place::new("true");
        let beside = || place.reading().beside.ignored;
        assert_eq!(beside(), None, "a file that changed just now may change again");
        std::thread::sleep(Duration::from_millis(2_100));
        let before = beside();
        assert!(before.is_some());
        assert_eq!(beside(), before);
        let path = place.dir.path().join("b.log");
        let times = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "c").unwrap();
        fs::File::options().append(true).open(&path).unwrap().set_modified(times).unwrap();
        std::thread::sleep(Duration::from_millis(2_100));
        let after = beside();
        assert!(after.is_some());
        assert_ne!(after, before);
    }
}
