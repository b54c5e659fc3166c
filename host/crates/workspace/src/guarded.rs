//! Names of files that other programs of the user obey or execute without asking: hooks, settings of editors, instructions of
//! agents, files that a shell or a build tool reads. Who can write them can run code as the user, outside of every container.
//!
//! [`GUARDED`] is the only list of them; `act doctor --guarded` prints it.

use super::write_rules::normalised;

/// One name, or the last names of a path, that is guarded at any depth, with everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarded {
    /// A name, or names separated by `/`. A `*` at an end of a name stands for any text. Lower case, since names are
    /// compared with case folded.
    pub name: &'static str,
    /// Who obeys the file, and how.
    pub why: &'static str,
}

const GIT_FILES: &str = "git clones, filters, merges or runs what it names";
const HOOKS: &str = "git or Jujutsu runs its commands at every commit, merge or checkout";
const SHELL: &str = "a shell of the user runs it when it starts";
const KEYS: &str = "ssh takes keys, hosts and commands from it";
const ON_ENTRY: &str = "a tool of the shell runs it when the directory is entered";
const EDITOR: &str = "an editor runs its tasks and takes programs from its settings";
const CONTAINER: &str =
    "an editor builds and starts the container that it describes, with commands on this machine";
const AGENT: &str =
    "an agent of the user obeys its instructions, or starts the servers that it names";
const CI: &str = "the project's CI runs it, with the secrets of the project";
const BUILD: &str =
    "a build tool or package manager takes programs, registries or credentials from it";
const CONSOLE: &str = "a debugger or a console runs it when it starts in that directory";
const GATE: &str = "it is the gate of another run of act, whose root is that directory";
const ACT: &str =
    "act obeys it: a home directory may be the repository, or a link or mount may lead into it";

const fn row(name: &'static str, why: &'static str) -> Guarded {
    Guarded { name, why }
}

/// The guarded names, by the kind of program that obeys them.
pub const GUARDED: &[Guarded] = &[
    row(".gitmodules", GIT_FILES),
    row(".gitattributes", GIT_FILES),
    row(".gitconfig", GIT_FILES),
    row(".config/git", GIT_FILES),
    row(".githooks", HOOKS),
    row(".husky", HOOKS),
    row(".jj", HOOKS),
    row("lefthook.yml", HOOKS),
    row("lefthook.yaml", HOOKS),
    row(".lefthook.yml", HOOKS),
    row(".lefthook.yaml", HOOKS),
    row("lefthook-local.yml", HOOKS),
    row("lefthook.toml", HOOKS),
    row("lefthook.json", HOOKS),
    row(".lefthook.toml", HOOKS),
    row(".lefthook.json", HOOKS),
    row(".pre-commit-config.yaml", HOOKS),
    row(".ssh", KEYS),
    row(".bashrc", SHELL),
    row(".bash_profile", SHELL),
    row(".bash_login", SHELL),
    row(".bash_logout", SHELL),
    row(".profile", SHELL),
    row(".zshrc", SHELL),
    row(".zprofile", SHELL),
    row(".zshenv", SHELL),
    row(".zlogin", SHELL),
    row(".zlogout", SHELL),
    row(".kshrc", SHELL),
    row(".cshrc", SHELL),
    row(".tcshrc", SHELL),
    row(".config/fish", SHELL),
    row(".login", SHELL),
    row(".xinitrc", SHELL),
    row(".xprofile", SHELL),
    row(".xsession", SHELL),
    row(".config/autostart", SHELL),
    row(".config/systemd", SHELL),
    row(".envrc", ON_ENTRY),
    row(".mise.toml", ON_ENTRY),
    row("mise.toml", ON_ENTRY),
    row(".mise.local.toml", ON_ENTRY),
    row("mise.local.toml", ON_ENTRY),
    row(".mise", ON_ENTRY),
    row(".config/mise", ON_ENTRY),
    row(".vscode", EDITOR),
    row(".idea", EDITOR),
    row(".zed", EDITOR),
    row(".fleet", EDITOR),
    row("*.code-workspace", EDITOR),
    row("*.sublime-project", EDITOR),
    row(".dir-locals.el", EDITOR),
    row(".exrc", EDITOR),
    row(".nvim.lua", EDITOR),
    row(".nvimrc", EDITOR),
    row(".vimrc", EDITOR),
    row(".vim", EDITOR),
    row(".config/nvim", EDITOR),
    row(".emacs", EDITOR),
    row(".emacs.d", EDITOR),
    row(".devcontainer", CONTAINER),
    row(".devcontainer.json", CONTAINER),
    row(".gdbinit", CONSOLE),
    row(".lldbinit", CONSOLE),
    row(".pdbrc", CONSOLE),
    row(".pdbrc.py", CONSOLE),
    row(".irbrc", CONSOLE),
    row(".pryrc", CONSOLE),
    row(".rprofile", CONSOLE),
    row(".psqlrc", CONSOLE),
    row(".sqliterc", CONSOLE),
    row("agents.md", AGENT),
    row("agents.override.md", AGENT),
    row("claude.md", AGENT),
    row("claude.local.md", AGENT),
    row("gemini.md", AGENT),
    row(".agents", AGENT),
    row(".aider.conf.yml", AGENT),
    row("agent.md", AGENT),
    row(".augment*", AGENT),
    row(".continue*", AGENT),
    row(".crush*", AGENT),
    row("crush.md", AGENT),
    row(".factory", AGENT),
    row(".github/agents", AGENT),
    row(".github/chatmodes", AGENT),
    row(".github/hooks", AGENT),
    row(".github/mcp.json", AGENT),
    row(".github/prompts", AGENT),
    row(".github/skills", AGENT),
    row(".goosehints", AGENT),
    row(".kilocode*", AGENT),
    row(".openhands", AGENT),
    row(".qwen", AGENT),
    row("qwen.md", AGENT),
    row(".trae", AGENT),
    row("warp.md", AGENT),
    row(".amazonq", AGENT),
    row(".claude", AGENT),
    row(".clinerules", AGENT),
    row(".codex", AGENT),
    row(".cursor*", AGENT),
    row(".devin", AGENT),
    row(".gemini", AGENT),
    row(".github/copilot-instructions.md", AGENT),
    row(".github/instructions", AGENT),
    row(".junie", AGENT),
    row(".kiro", AGENT),
    row(".mcp.json", AGENT),
    row(".opencode", AGENT),
    row(".roo", AGENT),
    row(".rules", AGENT),
    row(".windsurf*", AGENT),
    row("opencode.json", AGENT),
    row("opencode.jsonc", AGENT),
    row(".github/workflows", CI),
    row(".github/actions", CI),
    row(".gitea/workflows", CI),
    row(".forgejo/workflows", CI),
    row(".gitlab-ci.yml", CI),
    row(".circleci", CI),
    row(".buildkite", CI),
    row(".travis.yml", CI),
    row("azure-pipelines.yml", CI),
    row("bitbucket-pipelines.yml", CI),
    row("jenkinsfile", CI),
    row(".bazelrc", BUILD),
    row(".npmrc", BUILD),
    row(".yarnrc*", BUILD),
    row("pip.conf", BUILD),
    row(".pypirc", BUILD),
    row(".cargo/config", BUILD),
    row(".cargo/config.toml", BUILD),
    row(".cargo/credentials*", BUILD),
    row(".pnpmfile.cjs", BUILD),
    row(".yarn/plugins", BUILD),
    row(".yarn/releases", BUILD),
    row(".mvn", BUILD),
    row(".condarc", BUILD),
    row("bunfig.toml", BUILD),
    row("act/anchor", ACT),
    row("agent.yaml", GATE),
    row("act/config.toml", ACT),
    row("act/grants.toml", ACT),
    row("act/policy.toml", ACT),
];

/// Returns whether `path` has a guarded name, or lies below one, in a spelling that some file system takes for it.
pub fn is_guarded(path: &str) -> bool {
    let path = normalised(path);
    let parts: Vec<_> = path.split('/').collect();
    GUARDED.iter().any(|guarded| guarded.matches(&parts)) || parts.iter().any(|part| is_short(part))
}

impl Guarded {
    fn matches(&self, parts: &[&str]) -> bool {
        let names: Vec<_> = self.name.split('/').collect();
        let is =
            |(part, name): (&&str, &&str)| match (name.strip_prefix('*'), name.strip_suffix('*')) {
                (Some(end), _) => part.ends_with(end),
                (_, Some(start)) => part.starts_with(start),
                _ => part == name,
            };
        parts.windows(names.len()).any(|window| window.iter().zip(&names).all(is))
    }
}

/// Returns whether a normalised name is a short name that NTFS gives one of git's files.
fn is_short(part: &str) -> bool {
    is_short_for(part, "gitmodules", "gi7eba") || is_short_for(part, "gitattributes", "gi7d29")
}

/// Returns whether a plain name is an NTFS short name of `.long`: its first six characters and a small number or, when those
/// are taken, the beginning of a hash of the name (`hashed`, the value that git checks as well) and any number.
fn is_short_for(plain: &str, long: &str, hashed: &str) -> bool {
    let Some((head, number)) = plain.split_once('~') else { return false };
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let counted = digits && !number.is_empty() && !number.starts_with('0');
    let first = long.get(..6) == Some(head) && matches!(number, "1" | "2" | "3" | "4");
    first || (counted && plain.len() == 8 && hashed.starts_with(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    // WORKSPACE-20
    #[test]
    fn every_row_guards_its_name_and_what_lies_below_it_and_has_a_reason() {
        for guarded in GUARDED {
            let name = guarded.name.replace('*', "rules");
            for path in [name.clone(), format!("sub/{name}"), format!("{}/x", name.to_uppercase())]
            {
                assert!(is_guarded(&path), "{path}");
            }
            let longer = !guarded.name.starts_with('*') && is_guarded(&format!("x{name}"));
            assert!(!longer && !guarded.why.is_empty(), "{name}");
            assert_eq!(guarded.name, guarded.name.to_lowercase());
        }
        let mut names: Vec<_> = GUARDED.iter().map(|guarded| guarded.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), GUARDED.len(), "a name stands twice");
    }

    // WORKSPACE-20
    #[test]
    fn short_names_of_ntfs_are_known() {
        let modules = |name: &str| is_short_for(name, "gitmodules", "gi7eba");
        for name in ["gitmod~1", "gitmod~4", "gi7eba~1", "gi7eb~10", "gi7e~999"] {
            assert!(modules(name), "{name}");
        }
        for name in ["gitmod~5", "gitmod", "gi7eba~0", "gi7eba~10", "gi7ebx~1", "git~1"] {
            assert!(!modules(name), "{name}");
        }
    }
}
