//! `act verify --hook NAME` is called by an agent at the end of its turn; `act hook` turns that off and on in a repository,
//! and adds a hook to git.

use std::io::{IsTerminal, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use act_core::exit::Exit;
use act_core::{Failure, Repo, shell_word};
use act_fs::{Dir, Durability, read_bounded};
use act_task::{HookAgent, HookAnswer, HookArgs, HookState, MAX_EVENT};
use clap::Subcommand;
use rustix::fs::{Mode, fchmod};
use serde::Serialize;
use serde_json::json;

use super::init::agents::settings_files;
use super::{CommonOptions, answer, block_on};
use crate::output::{Line, Output, Tone};

/// The variable that turns every hook of act off while it is `off`.
const SWITCH: &str = "ACT_HOOK";
/// Longest wait for an event. Agents write it before they do anything else.
const EVENT_WAIT: Duration = Duration::from_secs(5);
/// Maximum number of bytes of an event that is too large and therefore thrown away. An agent that writes more gets an error.
const MAX_THROWN_AWAY: u64 = 1 << 30;

/// The options of `act verify --hook`.
pub(super) struct Called {
    pub(super) agent: HookAgent,
    pub(super) repo: PathBuf,
    pub(super) max_blocks: u32,
    pub(super) timeout: Option<u64>,
}

/// Answers an agent. The exit code is always 0: others mean something else to each agent, and 2 holds Claude Code.
pub(super) fn called(by: Called, output: &Output) -> Exit {
    let agent = by.agent;
    let answer = match is_off() {
        true => HookAnswer::Go,
        // The report of a panic is on stderr; the agent must not be held by a mistake of act.
        false => catch_unwind(AssertUnwindSafe(|| asked(by, output))).unwrap_or_else(|_| {
            HookAnswer::Tell("act: not verified: internal error; see `act doctor`".to_owned())
        }),
    };
    if let Some(text) = answer.on_stderr(agent) {
        output.notice(&format!("{text}\n"));
    }
    output.verbatim(&answer.document(agent));
    Exit::Ok
}

/// Answers an agent that called with unknown arguments. An older or newer version of act may have written them.
pub(super) fn called_wrongly(error: &str, output: &Output) -> Exit {
    let first = error.lines().next().unwrap_or_default();
    output.notice(&format!("act: {first}\n"));
    let text = format!("act: not verified: {first}; `act init --for` writes the hook again");
    output.verbatim(&json!({"systemMessage": text}));
    Exit::Ok
}

/// Returns whether these are the arguments of `act verify --hook`.
pub(super) fn is_call(arguments: &[std::ffi::OsString]) -> bool {
    let words = || arguments.iter().filter_map(|word| word.to_str());
    words().nth(1) == Some("verify")
        && words().any(|word| word == "--hook" || word.starts_with("--hook="))
}

fn is_off() -> bool {
    std::env::var_os(SWITCH).is_some_and(|value| value == "off")
}

fn asked(by: Called, output: &Output) -> HookAnswer {
    let started = Instant::now();
    let Called { agent, repo, max_blocks, timeout } = by;
    let repo = match output.names_repo() {
        true => repo,
        false => project(agent).unwrap_or(repo),
    };
    let limit = timeout.map_or_else(|| agent.usual_limit(), Duration::from_secs);
    let settings = settings_files(agent);
    let args = HookArgs { agent, repo, max_blocks, limit, started, event: event(), settings };
    match block_on(act_task::hook(args)) {
        Ok(answer) => answer,
        Err(failure) => HookAnswer::Tell(format!("act: not verified: {}", failure.message)),
    }
}

/// Returns the project that the agent names in its environment. The path in the event does not count: an agent that has
/// changed its directory names that one.
fn project(agent: HookAgent) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(agent.project_variable()?)?);
    (path.is_absolute() && path.is_dir()).then_some(path)
}

/// Reads the event on standard input, of a bounded size and for a bounded time.
fn event() -> Option<Vec<u8>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return None;
    }
    let (send, receive) = mpsc::channel();
    // If the stream is never closed, the thread waits until the process ends.
    std::thread::spawn(move || {
        let mut stdin = stdin.lock();
        let read = read_bounded(&mut stdin, MAX_EVENT).ok();
        if read.is_none() {
            // An agent that waits until everything is read would wait for the whole pipeline.
            std::io::copy(&mut stdin.take(MAX_THROWN_AWAY), &mut std::io::sink()).ok();
        }
        send.send(read).ok();
    });
    receive.recv_timeout(EVENT_WAIT).ok().flatten()
}

const AFTER_HELP: &str = "\
Examples:
  act hook off                     let agents go in this repository
  act hook on
  act hook git install             `git push` waits for act verify
  ACT_HOOK=off claude              one session without the gate

Exit codes:
  0 done, also if it was so before, 1 refused";

/// Turn hooks of agents off, add one to git
///
/// `act init --for` adds the hooks of agents. The choice is stored in the artifact directory, not in the repository.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Hook {
    #[command(flatten)]
    common: CommonOptions,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Let agents go in this repository without a verification
    #[command(after_long_help = OFF_HELP)]
    Off,
    /// Hold agents in this repository again
    #[command(after_long_help = ON_HELP)]
    On,
    /// Add a pre-push hook to git, or remove it
    #[command(after_long_help = GIT_HELP)]
    Git {
        #[command(subcommand)]
        what: Git,
    },
}

const OFF_HELP: &str = "\
Examples:
  act hook off
  act hook off --repo ../other

Exit codes:
  0 the hooks are off, 1 refused";

const ON_HELP: &str = "\
Examples:
  act hook on

Exit codes:
  0 the hooks are on, 1 refused";

const INSTALL_HELP: &str = "\
Examples:
  act hook git install

Exit codes:
  0 the hook is there, 1 refused: another hook is there, or it cannot be written";

const REMOVE_HELP: &str = "\
Examples:
  act hook git remove

Exit codes:
  0 the hook is not there, 1 refused: the hook is not the one of act";

const GIT_HELP: &str = "\
Examples:
  act hook git install
  act hook git remove

Exit codes:
  0 done, also if it was so before, 1 refused

`git push --no-verify` and `ACT_HOOK=off git push` push without it. The working
tree is verified, not the commit that is pushed.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
enum Git {
    /// Let `git push` wait for `act verify`; another hook of that name is never replaced
    #[command(after_long_help = INSTALL_HELP)]
    Install,
    /// Remove the hook, if it is the one of act
    #[command(after_long_help = REMOVE_HELP)]
    Remove,
}

/// The document of `act hook --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Switched {
    repo: Repo,
    /// Agents are held in this repository.
    on: bool,
    /// The command changed that.
    changed: bool,
}

impl act_core::Document for Switched {
    const NAME: &'static str = "hook";
}

/// The document of `act hook git --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InGit {
    /// The file of the hook.
    path: String,
    /// The hook is there.
    installed: bool,
    /// The command changed that.
    changed: bool,
}

impl act_core::Document for InGit {
    const NAME: &'static str = "hook";
}

#[cfg(test)]
#[derive(Serialize, schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema of the documents is needed")]
enum Document {
    Switched(Switched),
    InGit(InGit),
}

#[cfg(test)]
impl act_core::Document for Document {
    const NAME: &'static str = <Switched as act_core::Document>::NAME;
}

impl Hook {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let root = act_config::find_root(&self.common.repo)?.ok_or_else(|| {
            Failure::refused("no_repository", "this directory is not in a repository")
                .hint("`--repo DIR` names one")
        })?;
        match self.what {
            What::Off => switch(&root.path, true, output),
            What::On => switch(&root.path, false, output),
            What::Git { what } => in_git(&root.path, what, output),
        }
    }
}

fn switch(root: &Path, off: bool, output: &Output) -> Result<Exit, Failure> {
    let changed = HookState::of_user(Some(root))?.set_off(root, off)?;
    let document = Switched { repo: act_task::repository(root), on: !off, changed };
    answer(output, &document, || {
        let state = if off { "off" } else { "on" };
        let so = if changed { "now" } else { "already" };
        vec![Line::plain(format!("The hooks of agents are {so} {state} in {}.", root.display()))]
    });
    Ok(Exit::Ok)
}

const HOOK: &str = "pre-push";
/// Maximum number of bytes of a hook that is compared with ours.
const MAX_HOOK: u64 = 64 << 10;
const BEFORE: &str = "\
#!/bin/sh
# Written by `act hook git install`; `act hook git remove` removes it as long as it is unchanged.
# A push waits until the project's checks pass on the working tree.
[ \"${ACT_HOOK:-}\" = off ] && exit 0
# git starts it at the top of the working tree.
[ -e agent.yaml ] || exit 0
";
const AFTER: &str = " verify </dev/null && exit 0
echo 'act: not pushed; git push --no-verify pushes anyway' >&2
exit 1
";

/// Returns whether some version of act wrote the hook, with any path to act.
fn is_ours(text: &str) -> bool {
    let act = text.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER));
    act.is_some_and(|act| !act.is_empty() && !act.contains('\n'))
}

fn in_git(root: &Path, what: Git, output: &Output) -> Result<Exit, Failure> {
    let place = act_workspace::hooks_directory(root).ok_or_else(|| {
        let message = format!("{} has no git directory of its own", root.display());
        Failure::refused("hook_unusable", message)
            .hint("the hook needs an agent.yaml at the top of the repository of git")
    })?;
    let path = place.join(HOOK);
    let failed = |error: std::io::Error| {
        Failure::refused("hook_unusable", format!("{} cannot be changed: {error}", path.display()))
    };
    let foreign = |why: &str| {
        let line = "`act verify || exit 1`";
        Failure::refused("hook_foreign", format!("{} {why}", path.display()))
            .hint(format!("it was not changed; the line {line} in it does the same"))
    };
    let dir = match Dir::open_following(&place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && what == Git::Install => {
            std::fs::create_dir_all(&place).map_err(failed)?;
            Some(Dir::open_following(&place).map_err(failed)?)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        opened => Some(opened.map_err(failed)?),
    };
    let found = match &dir {
        Some(dir) if dir.contains(HOOK).map_err(failed)? => {
            let bytes = dir.read(HOOK, MAX_HOOK).map_err(|_| foreign("is not a hook of act"))?;
            let text = String::from_utf8(bytes).map_err(|_| foreign("is not a hook of act"))?;
            is_ours(&text).then_some(Some(text)).ok_or_else(|| foreign("is not a hook of act"))?
        }
        _ => None,
    };
    let installed = what == Git::Install;
    let text = format!("{BEFORE}{}{AFTER}", program(&place, root));
    let changed = match (&dir, what) {
        (Some(dir), Git::Install) => {
            if found.as_ref() != Some(&text) {
                let mut staged = dir.stage(HOOK).map_err(failed)?;
                staged.write(text.as_bytes()).map_err(failed)?;
                fchmod(staged.file(), Mode::from_raw_mode(0o755))
                    .map_err(|errno| failed(errno.into()))?;
                staged.publish(HOOK, Durability::Contents).map_err(failed)?;
            }
            found.as_ref() != Some(&text)
        }
        (Some(dir), Git::Remove) if found.is_some() => {
            dir.remove_file(HOOK).map_err(failed)?;
            true
        }
        _ => false,
    };
    let document = InGit { path: path.display().to_string(), installed, changed };
    answer(output, &document, || {
        let done = match (installed, changed) {
            (true, true) => "Wrote",
            (true, false) => "Unchanged:",
            (false, true) => "Removed",
            (false, false) => "Not there:",
        };
        vec![Line::of(Tone::Good, done).and(Tone::Plain, format!(" {}", path.display()))]
    });
    Ok(Exit::Ok)
}

/// Returns how the hook starts act: by its path, unless the hook lies among the files of the repository, which other machines
/// get as well.
fn program(place: &Path, root: &Path) -> String {
    let real = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    let shared = real.starts_with(root) && !real.starts_with(root.join(".git"));
    let own = std::env::current_exe().ok().filter(|_| !shared);
    let own = own.and_then(|path| path.to_str().map(shell_word));
    own.unwrap_or_else(|| "act".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::document_holds::<Document>();
    }

    // HOOK-31
    #[test]
    fn a_hook_is_ours_only_as_it_was_written() {
        let ours = format!("{BEFORE}'/opt/a ct/act'{AFTER}");
        assert!(is_ours(&ours));
        assert!(!is_ours(&format!("{ours}echo more\n")));
        assert!(!is_ours(&format!("{BEFORE}act verify\nrm -rf /; act{AFTER}")));
        assert!(!is_ours("#!/bin/sh\nexit 0\n"));
    }

    #[test]
    fn a_call_of_an_agent_is_known_even_if_its_arguments_are_wrong() {
        let words = |line: &str| line.split(' ').map(Into::into).collect::<Vec<_>>();
        assert!(is_call(&words("act verify --hook nobody")));
        assert!(is_call(&words("act verify --new 3 --hook=claude")));
        assert!(!is_call(&words("act verify")));
        assert!(!is_call(&words("act run --hook")));
    }
}
