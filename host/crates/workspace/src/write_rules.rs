//! Paths that no tool may write, by any route.
//!
//! Names are protected, not files, so a file that does not exist yet is refused as well. Names are compared in every
//! spelling that a file system takes for them, because the next clone may lie on a file system with other rules than
//! this one: case is folded and the invisible code points of HFS+ are removed ([`fold`]), and so are the streams,
//! trailing dots and blanks of NTFS ([`plain_name`]).

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use edit_protocol::Reason;

use super::exclusion::fold;
use super::git::{git_directories, hooks_path};
use super::guarded::is_guarded;
use super::listing::{MAX_ENTRIES, Selection, list};
use super::notes::notes_dir;
use super::paths::{GlobError, PathGlobs, is_at_or_below};
use super::view::{Kind, RepoView};

/// Maximum number of links that are followed on the way to a directory of the user's configuration.
const MAX_LINKS: usize = 40;

/// Why a path may not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRule {
    /// The path belongs to git, to act, or to the verification. The user cannot allow it.
    Protected,
    /// The file runs by itself or configures a tool. The user may allow it for one task.
    Guarded,
    /// The path lies outside the boundaries of the task.
    Boundary,
}

impl WriteRule {
    /// Returns the reason with which a tool answers.
    pub fn reason(self) -> Reason {
        match self {
            Self::Protected => Reason::Protected,
            Self::Guarded => Reason::Guarded,
            Self::Boundary => Reason::Boundary,
        }
    }
}

/// The rules for the writes of one task.
#[derive(Debug, Clone, Default)]
pub struct WriteRules {
    allowed: PathGlobs,
    /// The only paths that the task may touch, unless the list is empty.
    within: PathGlobs,
    without: PathGlobs,
    /// The only directory that the task may touch, except for paths in `allowed`.
    scope: Option<String>,
    /// Ignored files that the tree of a verification holds nevertheless.
    include: PathGlobs,
    /// The names in the repository of directories whose files act trusts, normalised.
    trusted: Vec<String>,
    /// Files and directories to which links of guarded names lead, normalised.
    targets: Vec<String>,
    /// The name of the directory of act's notes; `None` is `agent`, as long as no repository is known.
    notes: Option<&'static str>,
}

impl WriteRules {
    /// Returns rules that allow guarded paths which match the user's `--allow-path` globs.
    ///
    /// # Errors
    /// A glob cannot be parsed.
    pub fn allowing(allowed: &[String]) -> Result<Self, GlobError> {
        Ok(Self { allowed: PathGlobs::new(allowed)?, ..Self::default() })
    }

    /// Adds the boundaries of the task: the globs that it has to stay in, unless there are none, and the globs that it
    /// must not touch.
    ///
    /// # Errors
    /// A glob cannot be parsed.
    pub fn within(mut self, only: &[String], never: &[String]) -> Result<Self, GlobError> {
        (self.within, self.without) = (PathGlobs::new(only)?, PathGlobs::new(never)?);
        Ok(self)
    }

    /// Protects the directories of the user's configuration and cache that lie in the repository at `root`, or would lie
    /// there if they existed: a home directory may be a repository, and act would trust files that a model wrote there. So
    /// are git's own directories that have another name than `.git`; the hooks that git's configuration names are guarded.
    #[must_use]
    pub fn protecting(mut self, root: &Path, directories: &[PathBuf]) -> Self {
        let named = |directories: Vec<PathBuf>| {
            let names = directories.into_iter().flat_map(|place| names_in_repository(root, &place));
            names.map(|name| normalised(&name)).collect::<Vec<_>>()
        };
        // A `.git` that is a file or a link may name a git directory in the repository, as a `commondir` may.
        self.trusted = named([directories, &git_directories(root)].concat());
        self.targets.extend(named(hooks_path(root).into_iter().collect()));
        self.notes = notes_dir(root).ok().flatten();
        self
    }

    /// Guards the files and directories in the repository at `root` to which links of guarded names lead: who writes
    /// `docs/agents.md` behind a link `AGENTS.md` writes the instructions of agents.
    #[must_use]
    pub fn guarding_targets(mut self, root: &Path, view: &RepoView) -> Self {
        let Ok(real_root) = root.canonicalize() else { return self };
        let want = Selection { kinds: vec![Kind::Link], ..Selection::default() };
        let mut cursor = None;
        while let Ok(page) = list(view, &want, cursor.as_deref(), MAX_ENTRIES) {
            for link in page.items.iter().filter(|link| is_guarded(&link.path)) {
                let real = root.join(&link.path).canonicalize().ok();
                let name = real.as_deref().and_then(|real| real.strip_prefix(&real_root).ok());
                let name = name.and_then(Path::to_str).filter(|name| !name.is_empty());
                self.targets.extend(name.map(normalised));
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        self
    }

    /// Restricts the task to a package of a monorepo.
    #[must_use]
    pub fn scoped(mut self, package: Option<&str>) -> Self {
        self.scope = package.map(str::to_owned);
        self
    }

    /// Adds the globs of ignored files that a verification sees.
    ///
    /// # Errors
    /// A glob cannot be parsed.
    pub fn including(mut self, include: &[String]) -> Result<Self, GlobError> {
        self.include = PathGlobs::new(include)?;
        Ok(self)
    }

    pub(super) fn include(&self) -> &PathGlobs {
        &self.include
    }

    /// Returns the guarded and secret paths that the user allowed.
    pub fn allowed(&self) -> &PathGlobs {
        &self.allowed
    }

    /// Returns the rule that forbids writing `path`, if there is one.
    pub fn forbidden_by(&self, path: &str) -> Option<WriteRule> {
        if is_protected(path, self.notes.unwrap_or("agent")) || self.is_trusted(path) {
            return Some(WriteRule::Protected);
        }
        let allowed = self.allowed.matches(path);
        let in_scope = |package: &String| is_at_or_below(path.as_bytes(), package.as_bytes());
        let outside =
            (!self.within.is_empty() && !self.within.matches(path)) || self.without.matches(path);
        if outside || !(allowed || self.scope.as_ref().is_none_or(in_scope)) {
            return Some(WriteRule::Boundary);
        }
        let guarded = is_guarded(path) || is_one_of(&self.targets, path);
        (guarded && !allowed).then_some(WriteRule::Guarded)
    }

    fn is_trusted(&self, path: &str) -> bool {
        is_one_of(&self.trusted, path)
    }
}

/// Returns whether a path is one of these normalised names, or lies below one.
fn is_one_of(names: &[String], path: &str) -> bool {
    let path = normalised(path);
    names.iter().any(|name| is_at_or_below(path.as_bytes(), name.as_bytes()))
}

/// Normalises a path as the least strict file systems do.
pub(super) fn normalised(path: &str) -> String {
    let path = fold(path);
    let parts: Vec<_> = path.split('/').map(plain_name).collect();
    parts.join("/")
}

/// Returns whether no tool may write `path`: `.git` at any depth, the directory `notes` of act's notes and `agent.yaml` at the
/// root, in every spelling that a file system takes for them.
pub fn is_protected(path: &str, notes: &str) -> bool {
    let path = normalised(path);
    let mut parts = path.split('/');
    path == "agent.yaml"
        || parts.clone().next().is_some_and(|first| first == notes)
        || parts.any(is_dot_git)
}

/// Returns a name as NTFS stores it: without a stream after a colon, and without dots and blanks at the end.
fn plain_name(name: &str) -> &str {
    let name = name.split(':').next().unwrap_or_default();
    name.trim_end_matches(['.', ' '])
}

/// Returns whether a plain name means `.git`, also by the short name that NTFS gives it.
fn is_dot_git(plain: &str) -> bool {
    matches!(plain, ".git" | "git~1")
}

/// Returns every name at which `directory` lies in the repository, or would lie if it existed. The name is empty when
/// it is the root itself.
fn names_in_repository(root: &Path, directory: &Path) -> BTreeSet<String> {
    let Ok(root) = root.metadata() else { return BTreeSet::new() };
    let is_root = |path: &Path| {
        path.metadata().is_ok_and(|found| (found.dev(), found.ino()) == (root.dev(), root.ino()))
    };
    let mut names = BTreeSet::new();
    for spelling in spellings(directory) {
        for above in spelling.ancestors().filter(|above| is_root(above)) {
            let name = spelling.strip_prefix(above).ok().and_then(Path::to_str);
            names.extend(name.map(str::to_owned));
        }
    }
    names
}

/// Returns the path as written, and again with each link on it replaced by its target, which may be missing.
fn spellings(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![without_dots(path)];
    while let Some(next) = all.last().and_then(|last| with_topmost_link_replaced(last)) {
        if all.len() > MAX_LINKS {
            break;
        }
        all.push(next);
    }
    all
}

fn with_topmost_link_replaced(path: &Path) -> Option<PathBuf> {
    let above: Vec<_> = path.ancestors().collect();
    let link = above.into_iter().rev().find(|above| above.is_symlink())?;
    let target = link.parent()?.join(link.read_link().ok()?);
    Some(without_dots(&target.join(path.strip_prefix(link).ok()?)))
}

/// Removes `.` and `..`. The names before a `..` are no links here, because links are replaced from the top.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn rules(allowed: &[&str], within: &[&str]) -> WriteRules {
        let own = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>();
        WriteRules::allowing(&own(allowed))
            .unwrap()
            .within(&own(within), &own(&["src/old"]))
            .unwrap()
    }

    // WORKSPACE-20
    #[test]
    fn the_target_of_a_guarded_link_is_guarded() {
        let temp = tempfile::tempdir().unwrap();
        let (root, outside) = (temp.path().join("repo"), temp.path().join("other"));
        std::fs::create_dir_all(root.join("docs/rules")).unwrap();
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("docs/agents-guide.md"), "x").unwrap();
        std::fs::write(&outside, "x").unwrap();
        for (target, link) in [
            ("docs/agents-guide.md", "AGENTS.md"),
            ("../docs/rules", "sub/CLAUDE.md"),
            ("docs", "plain"),
            (outside.to_str().unwrap(), "GEMINI.md"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let view = RepoView::open(&root, crate::Profile::Scout).unwrap();
        let rules = WriteRules::allowing(&["docs/rules/open.md".to_owned()]).unwrap();
        let rules = rules.guarding_targets(&root, &view);
        for path in ["docs/agents-guide.md", "docs/AGENTS-guide.md", "docs/rules/a.md"] {
            assert_eq!(rules.forbidden_by(path), Some(WriteRule::Guarded), "{path}");
        }
        for path in ["docs/other.md", "docs/rules/open.md", "docs/rules.md"] {
            assert_eq!(rules.forbidden_by(path), None, "{path}");
        }
    }

    // security lines 51 and 52
    #[test]
    fn git_agent_and_the_gate_are_protected_in_every_spelling() {
        let everything = rules(&["**"], &[]);
        for path in [
            ".git",
            ".git/config",
            ".git/hooks/pre-commit",
            "sub/.git/hooks/x",
            ".GIT/HEAD",
            "a/.Git",
            "agent",
            "agent/x",
            "AGENT/x",
            "Agent/deep/x",
            "agent.yaml",
            "AGENT.YAML",
            ".g\u{200c}it/config",
            ".git\u{feff}/config",
            ".git./hooks/x",
            ".git /hooks/x",
            ".GIT . ./x",
            "sub/git~1/hooks/x",
            "GIT~1",
            ".git::$INDEX_ALLOCATION/x",
            ".git:x",
            "agent.yaml ",
            "agent.yaml.",
            "agent.yaml::$DATA",
            "agent./x",
            "agent:x",
        ] {
            assert_eq!(everything.forbidden_by(path), Some(WriteRule::Protected), "{path}");
        }
        for path in [
            ".gitignore",
            "src/agent/mod.rs",
            "src/agent.yaml",
            "agents/x",
            "agent.yaml.bak",
            "git/x",
            "git~2/x",
            "x.git/config",
            ".git.x",
            "sub/agent/x",
        ] {
            assert_eq!(everything.forbidden_by(path), None, "{path}");
        }
    }

    // WORKSPACE-57
    #[test]
    fn only_the_directory_of_the_notes_in_use_is_protected() {
        let temp = tempfile::tempdir().unwrap();
        let rules = || rules(&["**"], &[]).protecting(temp.path(), &[]);
        assert_eq!(rules().forbidden_by("agent/x"), Some(WriteRule::Protected));
        assert_eq!(rules().forbidden_by(".act/x"), None);
        std::fs::create_dir(temp.path().join("agent")).unwrap();
        std::fs::write(temp.path().join("agent/main.py"), "x").unwrap();
        assert_eq!(rules().forbidden_by("agent/x"), None);
        for path in [".act/x", ".ACT/x", ".act", ".act. /x", ".act::$DATA"] {
            assert_eq!(rules().forbidden_by(path), Some(WriteRule::Protected), "{path}");
        }
    }

    // security line 55
    #[test]
    fn guarded_names_are_refused_until_the_user_allows_that_path() {
        let nothing = rules(&[], &[]);
        for path in [
            ".vscode/settings.json",
            "conf/act/anchor",
            ".config/ACT/grants.toml",
            "act/policy.toml",
            ".vscode/tasks.json",
            ".idea/x",
            ".envrc",
            "sub/.envrc",
            ".husky/pre-commit",
            ".mcp.json",
            ".claude/settings.json",
            ".cUrSoR/mcp.json",
            ".codex/x",
            ".gemini/x",
            ".devcontainer/x",
            ".gitmodules",
            ".gitattributes",
            ".github/workflows/ci.yml",
            ".GitHub/Workflows/ci.yml",
            ".bashrc",
            ".zſhrc",
            ".profile",
            ".vscode./settings.json",
            ".envrc ",
            ".gitmodules::$DATA",
            "GITMOD~1",
            "gi7eba~1",
            "GITATT~2",
            ".github /workflows./ci.yml",
            "AGENTS.md",
            "packages/a/agents.MD",
            "AGENTS.override.md",
            "CLAUDE.md",
            "CLAUDE.local.md",
            "sub/GEMINI.md",
            ".agents/skills/x/SKILL.md",
            ".github/copilot-instructions.md",
            ".github/instructions/python.instructions.md",
            ".rules",
            ".cursorrules",
            ".clinerules/x.md",
            ".windsurfrules",
            ".windsurf/rules/x.md",
            ".devin/x",
            ".junie/guidelines.md",
            ".kiro/steering/x.md",
            ".roo/rules/x.md",
            ".opencode/agent/x.md",
            "opencode.json",
            "opencode.jsonc",
            ".aider.conf.yml",
            "AGENTS.md.",
            "CLAUDE.md::$DATA",
            // security line 59
            "packages/a/agent.yaml",
            "packages/a/Agent.YAML ",
            "act.code-workspace",
            "sub/.Rprofile",
        ] {
            assert_eq!(nothing.forbidden_by(path), Some(WriteRule::Guarded), "{path}");
        }
        for path in [
            ".github/CODEOWNERS",
            "docs/agents.md.txt",
            "src/agents/mod.rs",
            "claude.py",
            "instructions/a.md",
            "rules",
        ] {
            assert_eq!(nothing.forbidden_by(path), None, "{path}");
        }
        let one = rules(&[".vscode/settings.json"], &[]);
        assert_eq!(one.forbidden_by(".vscode/settings.json"), None);
        assert_eq!(one.forbidden_by(".vscode/tasks.json"), Some(WriteRule::Guarded));
    }

    // WORKSPACE-19, WORKSPACE-20
    #[test]
    fn what_the_git_file_and_gits_configuration_name_is_not_open() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        fs::create_dir_all(root.join("data/own")).unwrap();
        fs::create_dir_all(root.join("data/common")).unwrap();
        fs::write(root.join(".git"), "gitdir: data/own\n").unwrap();
        fs::write(root.join("data/own/commondir"), "../common\n").unwrap();
        fs::write(root.join("data/common/config"), "[core]\n\thooksPath = tools/hooks\n").unwrap();
        let rules = rules(&[], &[]).protecting(root, &[]);
        for path in ["data/own/x", "data/common/config", "DATA/common/hooks/x"] {
            assert_eq!(rules.forbidden_by(path), Some(WriteRule::Protected), "{path}");
        }
        assert_eq!(rules.forbidden_by("tools/hooks/pre-push"), Some(WriteRule::Guarded));
        assert_eq!(rules.forbidden_by("tools/x"), None);
    }

    #[test]
    fn a_boundary_only_narrows() {
        let narrow = rules(&[".envrc"], &["src/"]);
        assert_eq!(narrow.forbidden_by("src/a.rs"), None);
        assert_eq!(narrow.forbidden_by("docs/a.md"), Some(WriteRule::Boundary));
        assert_eq!(narrow.forbidden_by("src/old/a.rs"), Some(WriteRule::Boundary));
        assert_eq!(rules(&["**"], &[]).forbidden_by("src/old/a.rs"), Some(WriteRule::Boundary));
        assert_eq!(rules(&[], &[]).forbidden_by("docs/a.md"), None);
        assert_eq!(narrow.forbidden_by(".envrc"), Some(WriteRule::Boundary));
        assert_eq!(narrow.forbidden_by("src/.git/config"), Some(WriteRule::Protected));
        assert_eq!(narrow.forbidden_by("src/.vscode/x"), Some(WriteRule::Guarded));
    }

    // WORKSPACE-54, security line 52
    #[test]
    fn what_this_program_believes_is_protected_where_it_would_lie() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("Home");
        std::fs::create_dir(&root).unwrap();
        let places = [root.join(".Config/act"), root.join(".cache/act"), temp.path().join("act")];
        let rules = rules(&["**"], &[]).protecting(&root, &places);
        for path in [
            ".Config/act/anchor",
            ".config/ACT",
            ".config/act/grants.toml",
            ".cache/act/components/x.cwasm",
        ] {
            assert_eq!(rules.forbidden_by(path), Some(WriteRule::Protected), "{path}");
        }
        for path in [".config/actor/x", ".config/x", "act/anchor", ".cache/x"] {
            assert_eq!(rules.forbidden_by(path), None, "{path}");
        }
        let itself = self::rules(&["**"], &[]).protecting(&root, std::slice::from_ref(&root));
        assert_eq!(itself.forbidden_by("anchor"), Some(WriteRule::Protected));
    }

    // WORKSPACE-37
    #[test]
    fn a_package_is_left_only_where_the_user_named_the_path() {
        let package = rules(&["/Cargo.lock"], &[]).scoped(Some("packages/core"));
        assert_eq!(package.forbidden_by("packages/core/src/a.rs"), None);
        assert_eq!(package.forbidden_by("Cargo.lock"), None);
        for path in ["packages/core2/a.rs", "packages/other/a.rs", "README.md", "packages"] {
            assert_eq!(package.forbidden_by(path), Some(WriteRule::Boundary), "{path}");
        }
        assert_eq!(package.forbidden_by("packages/core/.git/x"), Some(WriteRule::Protected));
        assert_eq!(package.forbidden_by("packages/core/.envrc"), Some(WriteRule::Guarded));
        let narrower =
            rules(&["/Cargo.lock"], &["packages/core/src"]).scoped(Some("packages/core"));
        assert_eq!(narrower.forbidden_by("Cargo.lock"), Some(WriteRule::Boundary));
        assert_eq!(narrower.forbidden_by("packages/core/b.rs"), Some(WriteRule::Boundary));
    }

    // WORKSPACE-19, WORKSPACE-20
    #[test]
    fn names_are_known_in_the_spellings_of_other_file_systems() {
        for name in
            [".git", ".git.", ".git ", ".git . .", ".git::$index_allocation", "git~1", "git~1."]
        {
            assert!(is_dot_git(plain_name(name)), "{name}");
        }
        for name in [".gitx", "git", "git~2", "x.git", "..git", ".git~1", ""] {
            assert!(!is_dot_git(plain_name(name)), "{name}");
        }
    }

    fn names(root: &Path, place: &Path) -> Vec<String> {
        names_in_repository(root, place).into_iter().collect()
    }

    // WORKSPACE-54, security line 52
    #[test]
    fn a_directory_that_would_lie_in_the_repository_has_a_name_there() {
        let temp = tempfile::tempdir().unwrap();
        let temp = temp.path().canonicalize().unwrap();
        let repo = temp.join("repo");
        fs::create_dir_all(repo.join("conf/act")).unwrap();
        fs::create_dir_all(temp.join("home")).unwrap();
        symlink(&repo, temp.join("alias")).unwrap();
        symlink("../repo/conf", temp.join("home/.config")).unwrap();
        symlink("../repo/not/there", temp.join("home/.cache")).unwrap();
        symlink(temp.join("home"), repo.join("out")).unwrap();
        for (place, are) in [
            (repo.join(".config/act"), vec![".config/act"]),
            (repo.join("conf/act"), vec!["conf/act"]),
            (temp.join("alias/.config/act"), vec![".config/act"]),
            (temp.join("home/.config/act"), vec!["conf/act"]),
            (temp.join("home/.cache/act"), vec!["not/there/act"]),
            (temp.join("home/../repo/x"), vec!["x"]),
            (repo.join("out/.config/act"), vec!["conf/act", "out/.config/act"]),
            (repo.clone(), vec![""]),
            (temp.join("home/other"), vec![]),
            (temp.join("repo2/act"), vec![]),
        ] {
            assert_eq!(names(&repo, &place), are, "{}", place.display());
        }
        symlink("loop", temp.join("loop")).unwrap();
        assert!(names(&repo, &temp.join("loop/act")).is_empty());
    }
}
