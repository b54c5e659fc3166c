//! What no tool may write, by any route; plain functions over a path.
//!
//! Names are protected, not files: what does not exist yet is refused as well. Case is folded everywhere,
//! because the next clone may lie on a file system that ignores it.

use std::path::{Path, PathBuf};

use super::exclusion::fold;
use super::globs::{GlobError, PathGlobs, is_at_or_below};
use super::notes_dir::notes_dir;
use super::{own_places, spelling};
use edit_protocol::Reason;

/// Why a path may not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRule {
    /// git's own, this program's own, and the gate. Nothing lifts it.
    Protected,
    /// Runs by itself or steers a tool; the user may allow it for one task.
    Guarded,
    /// Outside what the task said it may touch.
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

/// What the user said for one task.
#[derive(Debug, Clone, Default)]
pub struct WriteRules {
    allowed: PathGlobs,
    /// Where not empty, the only paths that the task may touch.
    within: PathGlobs,
    without: PathGlobs,
    /// The only directory that the task may touch, beside what the user allowed by name.
    scope: Option<String>,
    /// What the tree of a verification holds although git ignores it.
    include: PathGlobs,
    /// Directories that this program believes, by their names in the repository as they are compared.
    own: Vec<String>,
    /// The name of the directory of act's notes; `None` is `agent`, as long as no repository is known.
    notes: Option<&'static str>,
}

impl WriteRules {
    /// `allowed` are the user's `--allow-path` globs.
    pub fn allowing(allowed: &[String]) -> Result<Self, GlobError> {
        Ok(Self { allowed: PathGlobs::new(allowed)?, ..Self::default() })
    }

    /// With the task's boundaries: what it has to stay in, if anything, and what it leaves alone.
    pub fn within(mut self, only: &[String], never: &[String]) -> Result<Self, GlobError> {
        (self.within, self.without) = (PathGlobs::new(only)?, PathGlobs::new(never)?);
        Ok(self)
    }

    /// The same in the repository at `root`, where these directories of the user's own are kept from every tool.
    #[must_use]
    pub fn keeping(mut self, root: &Path, places: &[PathBuf]) -> Self {
        let names = places.iter().flat_map(|place| own_places::names_in(root, place));
        self.own = names.map(|name| compared(&name)).collect();
        self.notes = notes_dir(root).ok().flatten();
        self
    }

    /// The same within the package of a monorepo.
    #[must_use]
    pub fn scoped(mut self, package: Option<&str>) -> Self {
        self.scope = package.map(str::to_owned);
        self
    }

    /// With the ignored files that a verification sees.
    pub fn including(mut self, include: &[String]) -> Result<Self, GlobError> {
        self.include = PathGlobs::new(include)?;
        Ok(self)
    }

    pub(super) fn include(&self) -> &PathGlobs {
        &self.include
    }

    pub fn allowed(&self) -> &PathGlobs {
        &self.allowed
    }

    /// The rule that forbids writing `path`, if one does.
    pub fn judge(&self, path: &str) -> Option<WriteRule> {
        if is_protected(path, self.notes.unwrap_or("agent")) || self.is_own(path) {
            return Some(WriteRule::Protected);
        }
        let allowed = self.allowed.matches(path);
        let in_scope = |package: &String| is_at_or_below(path.as_bytes(), package.as_bytes());
        let outside =
            (!self.within.is_empty() && !self.within.matches(path)) || self.without.matches(path);
        if outside || !(allowed || self.scope.as_ref().is_none_or(in_scope)) {
            return Some(WriteRule::Boundary);
        }
        (is_guarded(path) && !allowed).then_some(WriteRule::Guarded)
    }

    fn is_own(&self, path: &str) -> bool {
        let path = compared(path);
        self.own.iter().any(|own| is_at_or_below(path.as_bytes(), own.as_bytes()))
    }
}

/// As the file system may take it that knows the fewest differences.
fn compared(path: &str) -> String {
    let path = fold(path);
    let parts: Vec<_> = path.split('/').map(spelling::plain).collect();
    parts.join("/")
}

/// Whether no tool may write `path`: `.git` at any depth, the directory `notes` of act's notes and `agent.yaml` at the
/// root, in every spelling that a file system takes for them.
pub fn is_protected(path: &str, notes: &str) -> bool {
    let path = fold(path);
    let parts: Vec<_> = path.split('/').map(spelling::plain).collect();
    parts.first().is_some_and(|first| *first == notes)
        || parts.as_slice() == ["agent.yaml"]
        || parts.iter().any(|part| spelling::is_dot_git(part))
}

/// Settings that editors, agents, shells and hooks obey without being asked.
pub fn is_guarded(path: &str) -> bool {
    const ANYWHERE: [&str; 26] = [
        ".vscode",
        ".idea",
        ".envrc",
        ".husky",
        ".mcp.json",
        ".claude",
        ".cursor",
        ".codex",
        ".gemini",
        ".devcontainer",
        ".devcontainer.json",
        ".gitmodules",
        ".gitattributes",
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".profile",
        ".zshrc",
        ".zprofile",
        ".zshenv",
        ".zlogin",
        ".zlogout",
        ".kshrc",
        ".cshrc",
        ".tcshrc",
    ];
    // This program's own rules lie outside of a repository, unless somebody keeps his home directory in one, or a link
    // or a mount leads into it: then by these names.
    const BELOW: [[&str; 2]; 5] = [
        [".github", "workflows"],
        [".config", "fish"],
        ["act", "anchor"],
        ["act", "grants.toml"],
        ["act", "policy.toml"],
    ];
    let path = fold(path);
    let parts: Vec<_> = path.split('/').map(spelling::plain).collect();
    let is_short = |part: &&str| {
        spelling::is_short_for(part, "gitmodules", "gi7eba")
            || spelling::is_short_for(part, "gitattributes", "gi7d29")
    };
    parts.iter().any(|part| ANYWHERE.contains(part) || is_short(part))
        || parts.windows(2).any(|pair| BELOW.iter().any(|below| below.as_slice() == pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allowed: &[&str], within: &[&str]) -> WriteRules {
        let own = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>();
        WriteRules::allowing(&own(allowed))
            .unwrap()
            .within(&own(within), &own(&["src/old"]))
            .unwrap()
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
            assert_eq!(everything.judge(path), Some(WriteRule::Protected), "{path}");
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
            assert_eq!(everything.judge(path), None, "{path}");
        }
    }

    // WORKSPACE-57
    #[test]
    fn only_the_directory_of_the_notes_in_use_is_protected() {
        let temp = tempfile::tempdir().unwrap();
        let rules = || rules(&["**"], &[]).keeping(temp.path(), &[]);
        assert_eq!(rules().judge("agent/x"), Some(WriteRule::Protected));
        assert_eq!(rules().judge(".act/x"), None);
        std::fs::create_dir(temp.path().join("agent")).unwrap();
        std::fs::write(temp.path().join("agent/main.py"), "x").unwrap();
        assert_eq!(rules().judge("agent/x"), None);
        for path in [".act/x", ".ACT/x", ".act", ".act. /x", ".act::$DATA"] {
            assert_eq!(rules().judge(path), Some(WriteRule::Protected), "{path}");
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
        ] {
            assert_eq!(nothing.judge(path), Some(WriteRule::Guarded), "{path}");
        }
        assert_eq!(nothing.judge(".github/CODEOWNERS"), None);
        let one = rules(&[".vscode/settings.json"], &[]);
        assert_eq!(one.judge(".vscode/settings.json"), None);
        assert_eq!(one.judge(".vscode/tasks.json"), Some(WriteRule::Guarded));
    }

    #[test]
    fn a_boundary_only_narrows() {
        let narrow = rules(&[".envrc"], &["src/"]);
        assert_eq!(narrow.judge("src/a.rs"), None);
        assert_eq!(narrow.judge("docs/a.md"), Some(WriteRule::Boundary));
        assert_eq!(narrow.judge("src/old/a.rs"), Some(WriteRule::Boundary));
        assert_eq!(rules(&["**"], &[]).judge("src/old/a.rs"), Some(WriteRule::Boundary));
        assert_eq!(rules(&[], &[]).judge("docs/a.md"), None);
        assert_eq!(narrow.judge(".envrc"), Some(WriteRule::Boundary));
        assert_eq!(narrow.judge("src/.git/config"), Some(WriteRule::Protected));
        assert_eq!(narrow.judge("src/.vscode/x"), Some(WriteRule::Guarded));
    }

    // WORKSPACE-54, security line 52
    #[test]
    fn what_this_program_believes_is_protected_where_it_would_lie() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("Home");
        std::fs::create_dir(&root).unwrap();
        let places = [root.join(".Config/act"), root.join(".cache/act"), temp.path().join("act")];
        let rules = rules(&["**"], &[]).keeping(&root, &places);
        for path in [
            ".Config/act/anchor",
            ".config/ACT",
            ".config/act/grants.toml",
            ".cache/act/components/x.cwasm",
        ] {
            assert_eq!(rules.judge(path), Some(WriteRule::Protected), "{path}");
        }
        for path in [".config/actor/x", ".config/x", "act/anchor", ".cache/x"] {
            assert_eq!(rules.judge(path), None, "{path}");
        }
        let itself = self::rules(&["**"], &[]).keeping(&root, std::slice::from_ref(&root));
        assert_eq!(itself.judge("anchor"), Some(WriteRule::Protected));
    }

    // WORKSPACE-37
    #[test]
    fn a_package_is_left_only_where_the_user_named_the_path() {
        let package = rules(&["/Cargo.lock"], &[]).scoped(Some("packages/core"));
        assert_eq!(package.judge("packages/core/src/a.rs"), None);
        assert_eq!(package.judge("Cargo.lock"), None);
        for path in ["packages/core2/a.rs", "packages/other/a.rs", "README.md", "packages"] {
            assert_eq!(package.judge(path), Some(WriteRule::Boundary), "{path}");
        }
        assert_eq!(package.judge("packages/core/.git/x"), Some(WriteRule::Protected));
        assert_eq!(package.judge("packages/core/.envrc"), Some(WriteRule::Guarded));
        let narrower =
            rules(&["/Cargo.lock"], &["packages/core/src"]).scoped(Some("packages/core"));
        assert_eq!(narrower.judge("Cargo.lock"), Some(WriteRule::Boundary));
        assert_eq!(narrower.judge("packages/core/b.rs"), Some(WriteRule::Boundary));
    }
}
