//! The repository of the demo: a shell function with a real bug, a test that finds it, and the part of `.git` that makes
//! it a repository, so that git does not have to be installed.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file with the bug.
pub(super) const SOURCE: &str = "leap.sh";

pub(super) const BEFORE: &str = "\
# leap YEAR: succeeds if YEAR is a leap year.
leap() {
    [ $(($1 % 4)) -eq 0 ]
}
";

const TEST: &str = r#"# Run by `sh test.sh`; fails if leap.sh is wrong about a year.
. ./leap.sh
failed=0

expect() {
    if leap "$1"; then answer=yes; else answer=no; fi
    if [ "$answer" = "$2" ]; then
        echo "ok: leap $1 is $2"
    else
        echo "FAIL: leap $1 is $answer, expected $2"
        failed=1
    fi
}

expect 2024 yes
expect 2023 no
expect 1900 no
expect 2000 yes
exit $failed
"#;

const GIT_CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
";

pub(super) const TASK: &str = "\
leap.sh calls 1900 a leap year, so test.sh fails. Fix it.

Constraints:
- do not change test.sh
- plain POSIX shell
";

/// The directory of one demo. It stays, so that the user can look at it.
pub(super) struct Place {
    root: PathBuf,
}

impl Place {
    /// Creates a directory below `parent` that no other user can read.
    pub(super) fn create(parent: &Path, id: &str) -> io::Result<Self> {
        let root = parent.join(format!("act-demo-{}", id.trim_start_matches("t-")));
        DirBuilder::new().mode(0o700).create(&root)?;
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.root.join("repository")
    }

    pub(super) fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.root.join("config")
    }

    pub(super) fn fill(&self, image: &str) -> io::Result<()> {
        let repository = self.repository();
        let git = repository.join(".git");
        for directory in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
            std::fs::create_dir_all(git.join(directory))?;
        }
        let files = [
            (git.join("HEAD"), "ref: refs/heads/main\n"),
            (git.join("config"), GIT_CONFIG),
            (repository.join("agent.yaml"), &configuration(image)),
            (repository.join(SOURCE), BEFORE),
            (repository.join("test.sh"), TEST),
        ];
        files.into_iter().try_for_each(|(path, text)| std::fs::write(path, text))
    }
}

fn configuration(image: &str) -> String {
    format!(
        "verification:\n  container_image: {image}\n  steps:\n    - {{name: test, command: sh test.sh}}\n"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    fn test_passes(source: &str) -> (bool, String) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(SOURCE), source).unwrap();
        std::fs::write(directory.path().join("test.sh"), TEST).unwrap();
        let run = Command::new("/bin/sh").arg("test.sh").current_dir(&directory).output().unwrap();
        (run.status.success(), String::from_utf8(run.stdout).unwrap())
    }

    #[test]
    fn the_bug_is_real_and_the_test_finds_it() {
        let (passes, output) = test_passes(BEFORE);
        assert!(!passes && output.contains("FAIL: leap 1900 is yes, expected no"), "{output}");
    }

    #[test]
    fn the_first_idea_of_the_script_fails_and_the_second_is_green() {
        let script: serde_json::Value = serde_yaml::from_str(include_str!("demo.yaml")).unwrap();
        let edits = script["turns"].as_array().unwrap().iter().filter_map(|turn| {
            let call = &turn["call"];
            (call["name"] == "edit_line").then(|| &call["arguments"])
        });
        let mut lines: Vec<String> = BEFORE.lines().map(str::to_owned).collect();
        let outcomes: Vec<bool> = edits
            .zip(1..)
            .map(|(edit, version)| {
                assert_eq!(
                    (edit["path"].as_str(), edit["expect_version"].as_u64()),
                    (Some(SOURCE), Some(version))
                );
                let index = usize::try_from(edit["index"].as_u64().unwrap()).unwrap();
                lines[index] = edit["new"].as_str().unwrap().to_owned();
                test_passes(&format!("{}\n", lines.join("\n"))).0
            })
            .collect();
        assert_eq!(outcomes, [false, true]);
    }

    #[test]
    fn the_repository_is_private_and_one_for_git_too() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place::create(parent.path(), "abc").unwrap();
        place.fill("x:1").unwrap();
        let mode = std::fs::metadata(place.root()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(Place::create(parent.path(), "abc").is_err());
        let git = |arguments: &[&str]| {
            Command::new("git").args(arguments).current_dir(place.repository()).output()
        };
        // Where git is installed it must agree.
        if let Ok(status) = git(&["status", "--porcelain", "--untracked-files=all"]) {
            let text = String::from_utf8(status.stdout).unwrap();
            assert_eq!(text, "?? agent.yaml\n?? leap.sh\n?? test.sh\n");
        }
    }
}
