//! `act doctor`: checks everything that a task needs, and says how to fix what is missing. Nothing is changed, created or
//! repaired.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::init::agents::installed;
use super::{CommonOptions, block_on};
use crate::output::{Line, Output, Tone};
use act_component::{CacheState, cache_dir, cache_state};
use act_config::{
    CheckMode, Config, ConfigCeiling, DeadlineSettings, EvidenceRule, ModelAccess,
    ModelAccessError, Pipeline, PriceSource, Priced, Root, Selected, SettingsError, UserSettings,
    Workspace,
};
use act_core::event::Events;
use act_core::exit::Exit;
use act_core::{Document, Failure, Usd};
use act_model::{
    Ask, Deadlines, Key, ModelError, ModelErrorKind, ModelServer, Origin, Rates, Service, Stop,
    TokenLedger, ToolMode, ToolSpec, Turn, WireName,
};
use act_records::artifacts::ArtifactDir;
use act_records::store::Store;
use act_reports::commands::{Kind as CommandKind, parse_line};
use act_task::{self as task, HookAgent};
use act_verifier::{Engine, Machine, Orphan, unreachable_addresses};
use act_workspace::{
    GUARDED, GitPlace, Guarded, NOTES_DIRS, NotesDir, git_place, head_commit,
    hidden_by_unanchored_line, hidden_files,
};

const AFTER_HELP: &str = "\
Examples:
  act doctor
  act doctor --model       also send one request to the model (a few tokens)
  act doctor --excluded    also list the tracked files that Scouts cannot see
  act doctor --guarded     also list the names that only --allow-path opens to a task";

/// Check everything that a task needs
///
/// Nothing is changed. Each red line says how to fix the problem; the exit code is 1 if there is one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Doctor {
    /// Also send one real request to the model, with a tool to call
    #[arg(long)]
    model: bool,
    /// Also list the tracked files that Scouts cannot see, and why
    #[arg(long)]
    excluded: bool,
    /// Also list the names of files that other programs obey or execute; a task writes them only with --allow-path
    #[arg(long)]
    guarded: bool,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    /// The check passed, with something that the user should know.
    Note,
    /// A task could not start, or could not finish.
    Red,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Check {
    /// `program`, `repository`, `git`, `agent_dir`, `settings`, `grants`, `ca_bundle`, `engine`, `image`, `limits`, `network`,
    /// `workspace`, `leftovers`, `components`, `model`, `price`, `timeouts`, `artifacts`, `store`, `hooks`, `excluded` or
    /// `model_call`.
    name: &'static str,
    level: Level,
    message: String,
    /// How to fix the problem; present on every red line.
    fix: Option<String>,
}

impl Check {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, message: message.into(), fix: None }
    }

    fn note(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, level: Level::Note, message: message.into(), fix: Some(fix.into()) }
    }

    fn red(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, level: Level::Red, message: message.into(), fix: Some(fix.into()) }
    }
}

/// A tracked file that no Scout can see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Excluded {
    path: String,
    /// `secret`, `binary`, `build_directory`, `version_control`, `temporary`, `ignored` or `not_utf8`.
    rule: &'static str,
}

/// The document of `act doctor --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Report {
    /// No line is red.
    healthy: bool,
    checks: Vec<Check>,
    /// The tracked files that Scouts cannot see; only with `--excluded`.
    excluded: Option<Vec<Excluded>>,
    /// The names that a task may write only with `--allow-path`; only with `--guarded`.
    guarded: Option<Vec<GuardedName>>,
}

impl Document for Report {
    const NAME: &'static str = "doctor";
}

/// A name of files that other programs obey or execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GuardedName {
    /// One name or several, separated by `/`; a `*` at the end stands for any end. Case does not matter.
    name: &'static str,
    why: &'static str,
}

impl Doctor {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let report = block_on(self.examine(output))?;
        if output.is_json() {
            output.document(&report);
        } else {
            let lists = [excluded_lines(&report), guarded_lines(&report)].concat();
            lists.iter().for_each(|line| output.result_line(line));
        }
        Ok(if report.healthy { Exit::Ok } else { Exit::Refused })
    }

    /// Runs all checks. Without `--json` each check is printed as soon as it is done.
    async fn examine(&self, output: &Output) -> Report {
        let mut checks: Vec<Check> = vec![];
        let mut add = |found: Vec<Check>| {
            for mut check in found {
                // Commands in a fix work in the current directory.
                check.fix = check.fix.map(|fix| output.with_repo(&fix).into_owned());
                if !output.is_json() {
                    check_lines(&check).iter().for_each(|line| output.result_line(line));
                }
                checks.push(check);
            }
        };
        let (root, config, found) = repository(&self.common.repo);
        if let (Some(path), Ok(own)) = (std::env::var_os("PATH"), std::env::current_exe()) {
            add(another_act(&path, &own, root.as_deref()).into_iter().collect());
        }
        add(found);
        let user = UserSettings::read(root.as_deref());
        add(vec![settings(&user)]);
        let (limits, found) = in_force(config.as_ref(), &user);
        add(found);
        let max_cost = limits.as_ref().and_then(task::InForce::max_cost);
        add(containers(config.as_ref(), limits).await);
        // A broken file selects no model, and its own line says so.
        let usable = user.clone().unwrap_or_default();
        let selected = act_config::model_access(&usable, |name: &str| std::env::var(name).ok());
        add(vec![components(), model(&selected)]);
        let access = selected.map(|selected| ModelAccess::Server(selected.server));
        let of_repository = config.as_ref().map(|config| config.model_timeouts);
        let of_repository = of_repository.unwrap_or_default();
        if let Ok(access) = &access {
            add(vec![price(&usable, access, max_cost), timeouts(&usable, access, of_repository)]);
        }
        add(artifacts(root.as_deref()));
        add(hooks(root.as_deref()));
        let excluded =
            self.excluded.then(|| match root.as_deref().map_or(Ok(vec![]), hidden_files) {
                Ok(hidden) => {
                    let row = |path, rule| Excluded { path, rule };
                    hidden.into_iter().map(|file| row(file.path, file.rule.word())).collect()
                }
                Err(error) => {
                    let why = format!("cannot list the files of the repository: {error}");
                    add(vec![Check::red("excluded", why, "check that it may be read")]);
                    vec![]
                }
            });
        // Last, because a server may take long to load its model.
        match (self.model, &access) {
            (false, _) => {}
            (true, Ok(access)) => {
                let waiting = format!("Asking the model (at most {} s)...", LONGEST.as_secs());
                output.progress(&Line::of(Tone::Faint, waiting));
                let deadlines = usable.deadlines(access, of_repository);
                add(vec![model_call(access, deadlines).await]);
            }
            (true, Err(_)) => {
                let why = "not tried: no model is set up";
                add(vec![Check::red(MODEL_CALL, why, "see the line about the model")]);
            }
        }
        let healthy = checks.iter().all(|check| check.level != Level::Red);
        let row = |guarded: &Guarded| GuardedName { name: guarded.name, why: guarded.why };
        let guarded = self.guarded.then(|| GUARDED.iter().map(row).collect());
        Report { healthy, checks, excluded, guarded }
    }
}

/// Returns the list of excluded files, which is printed below the checks.
fn excluded_lines(report: &Report) -> Vec<Line> {
    let mut lines = vec![];
    if let Some(excluded) = &report.excluded {
        lines.push(Line::plain(""));
        lines.push(match excluded.is_empty() {
            true => Line::plain("Scouts can see every tracked file."),
            false => Line::of(Tone::Strong, "Tracked files that Scouts cannot see:"),
        });
        lines.extend(excluded.iter().map(|file| {
            let rule = file.rule.replace('_', " ");
            Line::plain(format!("  {} ", file.path)).and(Tone::Faint, format!("({rule})"))
        }));
    }
    lines
}

/// Returns the list of guarded names, below the reason that several of them share.
fn guarded_lines(report: &Report) -> Vec<Line> {
    let mut lines = vec![];
    let mut reason = "";
    for guarded in report.guarded.iter().flatten() {
        if lines.is_empty() {
            lines.push(Line::plain(""));
            let title =
                "A task writes these names, anywhere in the repository, only with --allow-path:";
            lines.push(Line::of(Tone::Strong, title));
        }
        if guarded.why != reason {
            reason = guarded.why;
            lines.push(Line::of(Tone::Faint, format!("  {reason}:")));
        }
        lines.push(Line::plain(format!("    {}", guarded.name)));
    }
    lines
}

fn check_lines(check: &Check) -> Vec<Line> {
    let (tone, word) = match check.level {
        Level::Ok => (Tone::Good, "ok   "),
        Level::Note => (Tone::Caution, "note "),
        Level::Red => (Tone::Bad, "RED  "),
    };
    let name = check.name.replace('_', " ");
    let line = Line::of(tone, word)
        .and(Tone::Strong, format!("{name:<11}"))
        .and(Tone::Plain, format!(" {}", check.message));
    let fix = check.fix.as_ref().map(|fix| Line::of(tone, "     fix: ").and(Tone::Plain, fix));
    std::iter::once(line).chain(fix).collect()
}

/// Checks the repository and its `agent.yaml`.
fn repository(start: &Path) -> (Option<PathBuf>, Option<Config>, Vec<Check>) {
    const NAME: &str = "repository";
    let root = match act_config::find_root(start) {
        Ok(root) => root.map(|Root { path, .. }| path),
        Err(error) => {
            return (None, None, vec![Check::red(NAME, error.to_string(), error.hint())]);
        }
    };
    match act_config::load(start) {
        Ok(config) => {
            let steps: Vec<_> =
                config.pipeline.steps.iter().map(|step| step.name.as_str()).collect();
            let message = format!("{}: {}", config.root.display(), steps.join(", "));
            let mut checks = vec![Check::ok(NAME, message), git(&config.root)];
            checks.extend(notes(&config));
            checks.extend(preparation(&config));
            checks.extend(refused("ca_bundle", task::ca_bundle(&config)));
            (root, Some(config), checks)
        }
        Err(error) => (root, None, vec![Check::red(NAME, error.to_string(), error.hint())]),
    }
}

/// Reports the git directory, which decides what is ignored, what a warm base is made of and what history the steps have.
/// `act` reads it itself and runs no `git`.
fn git(root: &Path) -> Check {
    const NAME: &str = "git";
    let head = head_commit(root);
    let commit = |head: Option<String>| match head {
        Some(head) => format!("HEAD is {}", head.get(..12).unwrap_or(&head)),
        None => "there is no commit yet, so attempts begin without a warm base".to_owned(),
    };
    match (git_place(root), head) {
        (Ok(GitPlace::Directory), head) => {
            Check::ok(NAME, format!("{}; act reads .git and runs no git", commit(head)))
        }
        (Ok(GitPlace::Linked { .. }), head) => {
            Check::ok(NAME, format!("a linked worktree; {}", commit(head)))
        }
        (Ok(GitPlace::None), Some(head)) => {
            let head = commit(Some(head));
            Check::ok(NAME, format!("the repository is a directory of a working tree; {head}"))
        }
        (Ok(GitPlace::None), None) => Check::note(
            NAME,
            "there is no git repository: every file is copied for each run, and attempts begin without a warm base",
            "run `git init` and commit, if that was not meant",
        ),
        (Ok(GitPlace::Elsewhere), _) => Check::note(
            NAME,
            ".git is a link, or a file that points to a directory which does not point back (a submodule?): steps have \
             no git history",
            "work in the repository that the directory belongs to, if steps need the history",
        ),
        (Err(error), _) => {
            Check::note(NAME, format!("cannot read .git: {error}"), "check that it may be read")
        }
    }
}

/// Suggests `prepare` where the first steps install or build and test nothing: as steps they run with every attempt.
fn preparation(config: &Config) -> Option<Check> {
    let pipeline = &config.pipeline;
    let kinds = |command: &str| -> Vec<CommandKind> {
        let lines = command.replace("\\\n", " ");
        lines.lines().flat_map(parse_line).filter_map(|parsed| parsed.kind).collect()
    };
    let prepares = |command: &str| {
        let kinds = kinds(command);
        !kinds.is_empty()
            && kinds.iter().all(|kind| matches!(kind, CommandKind::Install | CommandKind::Build))
    };
    // The last step stays: a pipeline without steps proves nothing.
    let before_last = pipeline.steps.split_last().map_or(&[][..], |(_, before)| before);
    let first = before_last.iter().take_while(|step| prepares(&step.command));
    let names: Vec<_> = first.map(|step| format!("{:?}", step.name)).collect();
    if !pipeline.prepare.is_empty() || names.is_empty() {
        return None;
    }
    let names = names.join(", ");
    Some(Check::note(
        "repository",
        format!(
            "{names} of verification.steps in agent.yaml install or build, again with every attempt"
        ),
        "move them to verification.prepare: attempts then begin with what they made once, and SUCCESS still needs a run \
         of everything",
    ))
}

/// Returns a red line in the words of a refusal, if there is one.
fn refused(name: &'static str, looked: Result<(), Failure>) -> Option<Check> {
    let refused = looked.err()?;
    Some(Check::red(name, refused.message, refused.hint.unwrap_or_default()))
}

/// Reports the user's `config.toml`.
fn settings(user: &Result<UserSettings, SettingsError>) -> Check {
    const NAME: &str = "settings";
    match user {
        Ok(UserSettings { file: Some(file), .. }) => {
            Check::ok(NAME, format!("{} is in use", file.display()))
        }
        Ok(UserSettings { file: None, .. }) => {
            Check::ok(NAME, "there is no config.toml, so each setting has its default")
        }
        Err(error) => Check::red(NAME, error.to_string(), error.hint()),
    }
}

/// Returns the limits that hold in the repository, if user, policy and grants allow a task.
fn in_force(
    config: Option<&Config>,
    user: &Result<UserSettings, SettingsError>,
) -> (Option<task::InForce>, Vec<Check>) {
    let Some(config) = config else { return (None, vec![]) };
    let found = refused("grants", task::granted(config)).into_iter().collect();
    // Without the user's limits it is not known which hold.
    (user.as_ref().ok().and_then(|_| task::in_force(config.clone()).ok()), found)
}

/// Reports the directory of act's notes if it is not the usual one or cannot be used, and the files that the line
/// `agent/` of act 0.1.0 hides from git and from the tested tree.
fn notes(config: &Config) -> Vec<Check> {
    const NAME: &str = "agent_dir";
    let usual = NOTES_DIRS[0];
    let mut checks = match NotesDir::check(&config.root) {
        Ok(name) if name == usual => vec![],
        Ok(name) => vec![Check::note(
            NAME,
            format!("{usual}/ is yours, so act keeps its notes in {name}/"),
            format!("to have them in {usual}/, rename your directory"),
        )],
        Err(error) => vec![Check::red(NAME, error.to_string(), error.hint())],
    };
    let hidden = hidden_by_unanchored_line(&config.root);
    if let Some(first) = hidden.first() {
        let more = hidden.len() - 1;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        checks.push(Check::note(
            NAME,
            format!(
                "the line `{usual}/` in .gitignore hides {first}/{more} from git and from the tested tree"
            ),
            format!("write `/{usual}/` instead: act writes notes only at the root"),
        ));
    }
    checks
}

/// Reports the agents that call the gate. Nothing is printed where none does.
fn hooks(root: Option<&Path>) -> Vec<Check> {
    const NAME: &str = "hooks";
    let installed = installed(root);
    let mut checks: Vec<_> = installed
        .iter()
        .map(|(agent, scope, file)| {
            let what = format!("{} ({scope}): {}", agent.title(), file.display());
            match agent {
                HookAgent::Codex => Check::note(
                    NAME,
                    format!("{what}; trust: not known"),
                    "start `codex`, type `/hooks` and trust the hooks of act; Codex skips them until then",
                ),
                _ => Check::ok(NAME, what),
            }
        })
        .collect();
    let off = root.filter(|_| !checks.is_empty()).map(task::hooks_are_off);
    match off {
        Some(Ok(true)) => checks.push(Check::note(
            NAME,
            "they are off in this repository",
            "`act hook on` turns them on",
        )),
        Some(Err(failure)) => {
            checks.push(Check::red(NAME, failure.message, failure.hint.unwrap_or_default()));
        }
        Some(Ok(false)) | None => {}
    }
    checks
}

const MIB: u64 = 1 << 20;

/// Checks every container engine that a run could use.
async fn containers(config: Option<&Config>, in_force: Option<task::InForce>) -> Vec<Check> {
    let root = config.map(|config| config.root.as_path());
    let engines = match task::every_engine(root).await {
        Ok(engines) => engines,
        Err(failure) => {
            return vec![Check::red("engine", failure.message, failure.hint.unwrap_or_default())];
        }
    };
    let mut checks = vec![];
    for engine in engines {
        match engine {
            Ok(engine) => checks.extend(container_engine(&engine, config, in_force.as_ref()).await),
            Err(error) => {
                let message = format!("Docker unavailable: tried {}: {}", error.host, error.why);
                checks.push(Check::red("engine", message, error.hint));
            }
        }
    }
    checks
}

/// Checks one container engine: its image, its limits and containers of dead runs.
async fn container_engine(
    engine: &Engine,
    config: Option<&Config>,
    in_force: Option<&task::InForce>,
) -> Vec<Check> {
    let identity = engine.identity();
    let found = match (&identity.entry, std::env::var("DOCKER_HOST")) {
        (Some(entry), _) => format!("{entry} in engines.toml"),
        (None, Ok(host)) if !host.is_empty() => "from DOCKER_HOST".to_owned(),
        (None, _) => "the default socket".to_owned(),
    };
    let what = format!("{} {} at {} ({found})", identity.name, identity.version, engine.host());
    let mut checks = vec![Check::ok("engine", what)];
    match engine.concerns().await {
        Ok(concerns) => {
            let fix = "give the account the rights that `act engines rbac` prints, in a namespace for runs alone";
            checks.extend(concerns.into_iter().map(|concern| Check::note("engine", concern, fix)));
        }
        Err(error) => {
            checks.push(Check::note("engine", error.to_string(), "look at the log of the engine"));
        }
    }
    if let Some(config) = config {
        let (line, architecture) = image(engine, &config.pipeline.image).await;
        checks.push(line);
        let held = in_force.map_or(config, |it| &it.config);
        checks.extend(network(&held.pipeline, architecture.as_deref()));
        checks.extend(workspace(&held.pipeline));
        checks.push(match engine.machine().await {
            Ok(machine) => limits(config, in_force, machine),
            Err(error) => Check::note("limits", error.to_string(), "look at the log of the engine"),
        });
    }
    checks.push(left_over(engine).await);
    checks
}

/// Checks the image, and returns its architecture too.
async fn image(engine: &Engine, image: &str) -> (Check, Option<String>) {
    match engine.find_image(image).await {
        Ok(Some(found)) => {
            let message =
                format!("{image} is present ({}/{}, {})", found.os, found.arch, found.digest);
            (Check::ok("image", message), Some(found.arch))
        }
        Ok(None) => {
            let (message, fix) = match engine.looks_at_images_in_containers() {
                true => (
                    format!("act has not looked at {image} on this engine within the last hour"),
                    "the next task pulls it and looks at it".to_owned(),
                ),
                false => (
                    format!("{image} is not present yet"),
                    format!("the first task pulls it; or run `docker pull {image}` now"),
                ),
            };
            (Check::note("image", message, fix), None)
        }
        Err(error) => {
            let fix = "correct verification.container_image in agent.yaml";
            (Check::red("image", error.to_string(), fix), None)
        }
    }
}

/// Says which addresses the steps with a network do not reach. `None` if no step has a network, or the image is not there.
fn network(pipeline: &Pipeline, architecture: Option<&str>) -> Option<Check> {
    const NAME: &str = "network";
    let architecture = architecture.filter(|_| pipeline.all_steps().any(|step| step.network))?;
    let private = match pipeline.private_network {
        true => {
            "private addresses are reachable (`network_private = \"off\"` in [verifier] of config.toml closes them)"
        }
        false => "private addresses are closed (network_private)",
    };
    let fix = "run the steps in an image for amd64 or arm64, or without network";
    match (unreachable_addresses(architecture, pipeline.private_network), pipeline.private_network)
    {
        (Some(closed), _) => Some(Check::ok(
            NAME,
            format!(
                "steps with a network cannot reach {}; {private}; the manifest of a run says whether the engine could \
                 close them",
                closed.join(", ")
            ),
        )),
        (None, true) => Some(Check::note(
            NAME,
            format!(
                "steps with a network can reach link-local addresses, and with them the metadata service of a cloud: act \
                 has no helper for {architecture}"
            ),
            fix,
        )),
        (None, false) => Some(Check::red(
            NAME,
            format!(
                "network_private closes private addresses to the steps, and act has no helper for {architecture}"
            ),
            fix,
        )),
    }
}

/// Says what a read-only view leaves open.
fn workspace(pipeline: &Pipeline) -> Option<Check> {
    (pipeline.workspace == Workspace::Readonly).then(|| {
        Check::note(
            "workspace",
            "steps work in the repository itself (workspace: readonly): sockets and FIFOs that are there at the start are \
             covered, and one that a program of yours makes during a run is open to them",
            "set verification.workspace to copy or overlay",
        )
    })
}

/// Reports the limits of a step and of a task as they hold, each with the file that sets it.
fn limits(config: &Config, in_force: Option<&task::InForce>, machine: Machine) -> Check {
    let memory = machine.memory_bytes / MIB;
    // Without limits in force another line is red, and the values of agent.yaml are the best that is known.
    let none = ConfigCeiling::default();
    let (held, user, policy) =
        in_force.map_or((config, &none, &none), |it| (&it.config, &it.user, &it.policy));
    let (written, now) = (config.pipeline.limits, held.pipeline.limits);
    let usual = act_config::Limits::default();
    let cpus = source(now.cpus, written.cpus, usual.cpus, policy.cpus);
    let of_memory = source(now.memory_mb, written.memory_mb, usual.memory_mb, policy.memory_mb);
    let pids = source(now.pids, written.pids, usual.pids, policy.pids);
    let step = held.step_timeout;
    let of_step = source(step, config.step_timeout, act_config::STEP_TIMEOUT, policy.step_timeout);
    let tokens = in_force.and_then(task::InForce::max_tokens);
    let of_tokens = match tokens {
        None => "no source",
        tokens if tokens == policy.max_tokens => POLICY,
        tokens if tokens == user.max_tokens && tokens == Some(act_config::DEFAULT_MAX_TOKENS) => {
            BY_DEFAULT
        }
        tokens if tokens == user.max_tokens => USERS_FILE,
        _ => AGENT_YAML,
    };
    let tokens = tokens.map_or("any number of".to_owned(), |tokens| tokens.to_string());
    let cost = in_force.and_then(task::InForce::max_cost);
    let of_cost = match cost {
        cost if cost == policy.max_cost => POLICY,
        cost if cost == user.max_cost => USERS_FILE,
        _ => AGENT_YAML,
    };
    let cost = cost.map(|cost| format!(", may cost ${cost} ({of_cost})")).unwrap_or_default();
    // A cluster does not say how large it is.
    let size = match machine.cpus {
        0 => String::new(),
        cpus => format!("; the engine has {cpus} CPUs and {memory} MiB of memory"),
    };
    let message = format!(
        "a step may use {} CPUs ({cpus}), {} MiB of memory ({of_memory}) and {} processes ({pids}), and may run for {} s \
         ({of_step}); a task may spend {tokens} tokens ({of_tokens}){cost} and {}{size}",
        now.cpus,
        now.memory_mb,
        now.pids,
        step.as_secs_f64(),
        freedom(config, held, policy)
    );
    if memory > 0 && now.memory_mb > memory {
        let fix = format!(
            "set verification.limits.memory_mb below {memory}, so that a step that uses too much memory is stopped \
             before the machine runs out of it"
        );
        return Check::note("limits", message, fix);
    }
    Check::ok("limits", message)
}

/// Says which single commands the model may run, and what the tests of a task must prove.
fn freedom(written: &Config, now: &Config, policy: &ConfigCeiling) -> String {
    let usual = match written.checks.templates.is_empty() {
        true => CheckMode::Any,
        false => CheckMode::Declared,
    };
    let of_checks = source(now.checks.mode, written.checks.mode, usual, policy.checks);
    let checks = match now.checks.mode {
        CheckMode::Off => "runs no single command of the model",
        CheckMode::Declared => "runs the single commands that agent.yaml lists",
        CheckMode::Any => "runs any single command of the model, in a closed container",
    };
    let usual = EvidenceRule::default();
    let of_evidence = source(now.evidence, written.evidence, usual, policy.evidence);
    let evidence = match now.evidence {
        EvidenceRule::Report => "reports",
        EvidenceRule::Require => "requires",
    };
    format!("{checks} ({of_checks}); it {evidence} evidence ({of_evidence})")
}

const AGENT_YAML: &str = "agent.yaml";
const USERS_FILE: &str = "config.toml";
const POLICY: &str = "policy.toml";
const BY_DEFAULT: &str = "default";

/// Returns the file that sets a value: the file that lowered it, or else the file in which it is written.
fn source<T: PartialEq>(now: T, written: T, usual: T, policy: Option<T>) -> &'static str {
    match () {
        () if now == written && now == usual => BY_DEFAULT,
        () if now == written => AGENT_YAML,
        () if policy == Some(now) => POLICY,
        () => USERS_FILE,
    }
}

async fn left_over(engine: &Engine) -> Check {
    match engine.orphaned_containers().await {
        Ok(orphans) => left_over_of(&orphans),
        Err(error) => Check::note("leftovers", error.to_string(), "look at the log of the engine"),
    }
}

/// Reports the containers that the next task removes.
fn left_over_of(orphans: &[Orphan]) -> Check {
    match orphans {
        [] => Check::ok("leftovers", "no container of a dead run"),
        orphans => {
            let owned: Vec<_> = orphans.iter().map(owned).collect();
            let names: Vec<_> = orphans.iter().map(|orphan| orphan.name.as_str()).collect();
            let count = match names.len() {
                1 => "1 container of a dead run".to_owned(),
                count => format!("{count} containers of dead runs"),
            };
            Check::note(
                "leftovers",
                format!("{count}: {}", owned.join(", ")),
                format!(
                    "the next task removes what is listed; or run `docker rm -f {}` now",
                    names.join(" ")
                ),
            )
        }
    }
}

/// Returns the name of a container with the process that it belonged to.
fn owned(Orphan { name, pid, uid, ended }: &Orphan) -> String {
    let process = pid.map_or("an unknown process".to_owned(), |pid| format!("process {pid}"));
    let user = uid.map(|uid| format!(" of user {uid}")).unwrap_or_default();
    let why = if *ended { "which has ended" } else { "unknown here, past the deadline" };
    format!("{name} ({process}{user}, {why})")
}

const GIB: u64 = 1 << 30;
/// Free memory and disk below this may not suffice for a run of a medium project.
const TOO_LITTLE: u64 = GIB;
const LITTLE: u64 = 5 * GIB;

/// The variables that select a model, in the order of their precedence, and whether they hold a key, which is never shown.
const VARIABLES: [(&str, bool); 7] = [
    ("AGENT_LLM_BASE_URL", false),
    ("AGENT_LLM_MODEL", false),
    ("AGENT_LLM_TOOLS", false),
    ("ANTHROPIC_API_KEY", true),
    ("ANTHROPIC_BASE_URL", false),
    ("OPENAI_API_KEY", true),
    ("OPENAI_BASE_URL", false),
];

fn model(selected: &Result<Selected, ModelAccessError>) -> Check {
    match selected {
        Ok(selected) => Check::ok("model", endpoint(selected) + &set()),
        Err(error) => Check::red("model", format!("{error}{}", set()), error.hint()),
    }
}

/// Returns the model and its server, and the source of each value.
fn endpoint(Selected { server, sources }: &Selected) -> String {
    let ModelServer { base_url, model, key, tools, .. } = server;
    let with_key = match key {
        None => "without a key".to_owned(),
        // The arguments may be private.
        Some(Key::Command(command)) => format!("with a key that `{}` prints", command.program()),
        Some(Key::Value(_)) => "with a key".to_owned(),
    };
    let tools = match tools {
        ToolMode::Native => "native tools",
        ToolMode::Schema => "tools by schema",
    };
    let wire = ModelAccess::Server(server.clone()).service().wire;
    let of_key = sources.key.map(|source| format!(", key: {source}")).unwrap_or_default();
    format!(
        "{model} at {base_url}, {wire}, {tools}, {with_key}; endpoint: {}, model: {}, wire: {}{of_key}, tools: {}",
        sources.endpoint, sources.model, sources.wire, sources.tools
    )
}

/// Reports the time limits of the model, each with the file that sets it.
fn timeouts(user: &UserSettings, access: &ModelAccess, of_repository: DeadlineSettings) -> Check {
    let now = user.deadlines(access, of_repository);
    let without = user.deadlines(access, DeadlineSettings::default());
    let own = user.deadlines;
    let limit = |name: &str, now: Duration, without: Duration, own: Option<Duration>| {
        let source = match own {
            _ if now != without => AGENT_YAML,
            Some(_) => USERS_FILE,
            None => BY_DEFAULT,
        };
        format!("{name} {} s ({source})", now.as_secs_f64())
    };
    let message = [
        limit("no first byte for", now.first, without.first, own.first),
        limit("silence of", now.idle, without.idle, own.idle),
        limit("in all", now.total, without.total, own.total),
    ];
    Check::ok("timeouts", format!("a request to the model ends after: {}", message.join(", ")))
}

/// Reports the price of the model and where it was set. An unknown price is red where the cost of a task is limited,
/// because no task begins then.
fn price(user: &UserSettings, access: &ModelAccess, max_cost: Option<Usd>) -> Check {
    const NAME: &str = "price";
    let Some(Priced { price, source }) = user.price(access) else {
        return match max_cost {
            Some(limit) => {
                let refusal = task::price_unknown(limit, access);
                Check::red(NAME, refusal.message, refusal.hint.unwrap_or_default())
            }
            None => Check::ok(
                NAME,
                "the price of the model is not known, so costs are `unknown`; [prices.\"MODEL\"] in config.toml sets it",
            ),
        };
    };
    let rates = |rates: &Rates| {
        let Rates { input, cached_input, cache_write, output } = rates;
        format!(
            "${input} input, ${cached_input} cached, ${cache_write} written to a cache, ${output} output"
        )
    };
    let long = price.long_prompt.map(|long| {
        format!("; prompts of more than {} tokens: {}", long.above, rates(&long.rates))
    });
    let source = match source {
        PriceSource::User { pattern } => format!("{USERS_FILE}, \"{pattern}\""),
        PriceSource::Table { date, address } => format!("{address}, {date}"),
        PriceSource::Script => "a script".to_owned(),
    };
    let message = format!(
        "for a million tokens: {}{} ({source})",
        rates(&price.rates),
        long.unwrap_or_default()
    );
    Check::ok(NAME, message)
}

/// Returns the variables that are set, in parentheses, or nothing.
fn set() -> String {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let names: Vec<_> = VARIABLES
        .iter()
        .filter(|(name, _)| is_set(name))
        .map(|(name, key)| if *key { format!("{name} holds a key") } else { (*name).to_owned() })
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" (set: {})", names.join(", ")),
    }
}

/// Returns a note if the first `act` on `path` is not this program, whose file is `own`: hooks, editors and scripts that name
/// `act` would start the other one. The other file is not executed.
fn another_act(path: &OsStr, own: &Path, root: Option<&Path>) -> Option<Check> {
    const NAME: &str = "program";
    let id = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let runs = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok();
        file.is_some_and(|file| file.is_file() && file.mode() & 0o111 != 0)
    };
    // An empty entry is the current directory, as for a shell.
    let first = std::env::split_paths(path)
        .map(|directory| Path::new(".").join(directory).join("act"))
        .find(runs)?;
    if id(&first) == id(own) {
        return None;
    }
    let first = first.canonicalize().unwrap_or(first);
    let message = |what: &str| {
        format!(
            "`act` is {} on PATH{what}, and not this program, {}",
            first.display(),
            own.display()
        )
    };
    let inside = root.and_then(|root| root.canonicalize().ok());
    Some(if inside.is_some_and(|root| first.starts_with(root)) {
        let fix = "remove the directories of the repository and relative ones from PATH, because whoever wrote the \
                   repository decides what runs there";
        Check::note(NAME, message(", in the repository"), fix)
    } else {
        let directory = own.parent().unwrap_or(own).display();
        let fix = format!(
            "put {directory} first in PATH, or type `agent-command-tool`, which starts the `act` beside it"
        );
        Check::note(NAME, message(""), fix)
    })
}

fn components() -> Check {
    const NAME: &str = "components";
    let Some(dir) = cache_dir() else {
        let message = "compiled components are not cached: there is no home directory";
        return Check::note(NAME, message, "set HOME or XDG_CACHE_HOME to an absolute path");
    };
    let at = dir.display();
    match cache_state(&dir) {
        CacheState::Absent => Check::ok(NAME, format!("{at} is created when it is needed")),
        CacheState::Usable { entries, mode } => {
            Check::ok(NAME, format!("{at}: {entries} compiled, mode {mode:04o}"))
        }
        CacheState::Unusable => Check::note(
            NAME,
            format!(
                "{at} is not used, so every task compiles its components again: other users can read or write \
                 it, or it cannot be opened"
            ),
            format!("run `chmod 700 {at}`, or remove it"),
        ),
    }
}

/// Reports problems in the words of the task that would be refused.
fn artifacts(root: Option<&Path>) -> Vec<Check> {
    const NAME: &str = "artifacts";
    let place = std::env::var_os("AGENT_ARTIFACT_DIR");
    let place = ArtifactDir::locate(place, std::env::var_os("HOME"));
    let looked = place.and_then(|place| Ok((ArtifactDir::inspect(&place, root)?, place)));
    let (state, place) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            let fix = error.hint();
            return vec![Check::red(NAME, Failure::from(error).message, fix)];
        }
    };
    let looked = state.map_or(Ok(()), |state| Store::inspect(&state, &place.join("state")));
    let broken = looked.err().map(|error| Check::red("store", error.to_string(), error.hint()));
    std::iter::once(room(&place)).chain(broken).collect()
}

fn room(place: &Path) -> Check {
    const NAME: &str = "artifacts";
    let at = place.display();
    match free(place) {
        Err(error) => Check::red(
            NAME,
            format!("cannot use {at}: {error}"),
            "make it writable, or set AGENT_ARTIFACT_DIR to another absolute path",
        ),
        Ok(bytes) => {
            let message = format!("{at}: {}.{} GiB free", bytes / GIB, bytes % GIB * 10 / GIB);
            let fix = "make room, or set AGENT_ARTIFACT_DIR to a larger disk";
            match bytes {
                0..TOO_LITTLE => Check::red(NAME, message, fix),
                TOO_LITTLE..LITTLE => Check::note(NAME, message, fix),
                _ => Check::ok(NAME, message),
            }
        }
    }
}

/// Returns the bytes that this user can write to the disk of the nearest directory that exists.
fn free(place: &Path) -> std::io::Result<u64> {
    let existing: PathBuf = place
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())
        .unwrap_or(Path::new("/"))
        .to_owned();
    let disk = rustix::fs::statvfs(&existing)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

const MODEL_CALL: &str = "model_call";
const TOOL: &str = "answer";
const WORD: &str = "ready";
/// Time limit: a server may have to load its model first. A task waits longer.
const LONGEST: Duration = Duration::from_secs(60);

/// Sends one real request with one tool, and draws conclusions about the server from the answer.
async fn model_call(access: &ModelAccess, deadlines: Deadlines) -> Check {
    let ledger = TokenLedger::default();
    let model = match task::connect_model(access, deadlines, &ledger, &Events::silent()) {
        Ok(model) => model,
        Err(error) => {
            let Service { address_variable, key_variable, .. } = access.service();
            let fix = format!("check {address_variable} and {key_variable}");
            return Check::red(MODEL_CALL, error.to_string(), fix);
        }
    };
    let tool = ToolSpec {
        name: TOOL.to_owned(),
        description: "Takes the answer.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
            "additionalProperties": false,
        })
        .to_string(),
    };
    let system = "You test whether tools can be called. Call the tool and write no text.";
    let mut conversation = model.open("doctor", system, &[tool]);
    conversation.say(&format!("Call the tool {TOOL} with the word \"{WORD}\"."));
    // No limit of tokens: models that think first would hit it before they call.
    let never = CancellationToken::new();
    let answer = conversation.next(Ask { attempt: 1, ..Ask::default() }, &never);
    let answer = in_time(answer, LONGEST).await;
    check_of_answer(answer, access)
}

async fn in_time(
    answer: impl Future<Output = Result<Turn, ModelError>>,
    longest: Duration,
) -> Result<Turn, ModelError> {
    tokio::time::timeout(longest, answer).await.unwrap_or_else(|_| {
        Err(ModelError {
            kind: ModelErrorKind::Timeout,
            message: format!("no answer within {} s", longest.as_secs()),
            status: None,
            retry_after: None,
        })
    })
}

/// Turns the answer into a check.
fn check_of_answer(answer: Result<Turn, ModelError>, access: &ModelAccess) -> Check {
    let service = access.service();
    let turn = match answer {
        Err(error) => {
            let fix = fix(&error, service, access.has_key());
            return Check::red(MODEL_CALL, error.message, fix);
        }
        Ok(turn) => turn,
    };
    let spent = format!("{} tokens in, {} out", turn.usage.input, turn.usage.output);
    let Some(call) = turn.calls.first() else {
        let (message, fix) = without_call(&turn, access);
        return Check::red(MODEL_CALL, message, fix);
    };
    let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
    let word = arguments.as_ref().and_then(|arguments| arguments.get("word"));
    if call.name != TOOL || word.is_none() {
        return Check::red(
            MODEL_CALL,
            format!("the model called {} with {}", call.name, cut(&call.arguments)),
            format!("the call does not fit the schema of the tool; {ANOTHER}"),
        );
    }
    let wire = service.wire;
    Check::ok(MODEL_CALL, format!("the model called the tool as requested, over {wire} ({spent})"))
}

const ANOTHER: &str = "set AGENT_LLM_MODEL to a model that supports tools";

/// Returns how to let the host read calls that the model writes as text, if the wire has that and it is not in use.
fn by_schema(access: &ModelAccess) -> Option<&'static str> {
    match access {
        ModelAccess::Server(server)
            if server.wire == WireName::ChatCompletions && server.tools == ToolMode::Native =>
        {
            Some(match server.origin {
                Origin::Environment => "set AGENT_LLM_TOOLS=schema, or ",
                Origin::File => "set `tools = \"schema\"` under [model] in config.toml, or ",
            })
        }
        _ => None,
    }
}

fn without_call(turn: &Turn, access: &ModelAccess) -> (String, String) {
    let text = turn.text.trim();
    let Service { wire, address_variable, .. } = access.service();
    let by_schema = by_schema(access).unwrap_or_default();
    match turn.stop {
        Stop::Refused => (
            format!("the model refused: {}", cut(text)),
            "set AGENT_LLM_MODEL to another model".to_owned(),
        ),
        Stop::Length => (
            "the answer was cut off before a tool was called".to_owned(),
            "give the server a larger context or output limit".to_owned(),
        ),
        _ if text.contains(TOOL) && text.contains(['{', '<']) => (
            format!("the model wrote the tool call as text: {}", cut(text)),
            format!(
                "{by_schema}enable tool calls in the server (its chat template or tool parser), or {ANOTHER}"
            ),
        ),
        _ if text.is_empty() => (
            "the answer contains neither text nor a tool call".to_owned(),
            format!("check that {address_variable} is a server of {wire}, or {ANOTHER}"),
        ),
        _ => (
            format!("the model answered with text instead of a tool call: {}", cut(text)),
            format!("{by_schema}{ANOTHER}, or switch tools on in the server"),
        ),
    }
}

/// Returns where to look; the message has the cause.
fn fix(error: &ModelError, service: Service, has_key: bool) -> String {
    let Service { wire, key_variable, address_variable, .. } = service;
    match (error.kind, error.status) {
        (ModelErrorKind::TooLong, _) => {
            "a task needs a far larger context: raise the context size of the server".to_owned()
        }
        (_, Some(401 | 403)) if has_key => format!("check the key in {key_variable}"),
        (_, Some(401 | 403)) => format!("set {key_variable}"),
        (_, Some(402)) => "look at the provider's billing page".to_owned(),
        (_, Some(404 | 405)) => format!(
            "the path is wrong or the model unknown: check {address_variable}, and that AGENT_LLM_MODEL \
             is a name that the server lists"
        ),
        (_, Some(400 | 422)) => format!(
            "the server rejects this request of {wire}: it may not support tools, or not know the model in \
             AGENT_LLM_MODEL"
        ),
        (ModelErrorKind::Rejected, Some(429)) => "raise the limit with the provider".to_owned(),
        (_, Some(429)) => "wait, or raise the limit with the provider".to_owned(),
        (_, Some(500..)) => "look at the server's log; a later try may succeed".to_owned(),
        (ModelErrorKind::Timeout | ModelErrorKind::Cut, Some(_)) => {
            format!(
                "the server or a proxy broke off the connection; look at the log of the server in {address_variable}"
            )
        }
        (_, Some(_)) => format!("the answer is not {wire}; check {address_variable}"),
        (_, None) => format!("check {address_variable} and that the server runs"),
    }
}

fn cut(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut cut: String = text.chars().take(LONGEST).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;
    use act_model::{ModelUsage, ToolCall};

    #[test]
    fn a_red_line_is_followed_by_its_fix() {
        // DOCTOR-2
        let red = Check {
            name: "model_call",
            level: Level::Red,
            message: "no answer\x1b[2J".into(),
            fix: Some("start it".into()),
        };
        let mut lines = check_lines(&red);
        let guarded = Some(vec![GuardedName { name: ".envrc", why: "a shell runs it" }]);
        let report = Report { healthy: false, checks: vec![red], excluded: Some(vec![]), guarded };
        lines.extend(excluded_lines(&report));
        lines.extend(guarded_lines(&report));
        let text: String = lines.iter().map(|line| line.render(false)).collect();
        assert_eq!(
            text,
            "RED  model call  no answer\n     fix: start it\n\nScouts can see every tracked file.\n\n\
             A task writes these names, anywhere in the repository, only with --allow-path:\n  a shell runs it:\n    \
             .envrc\n"
        );
    }

    #[test]
    fn the_schema_of_a_report_is_published() {
        // EVENT-8
        schema::document_holds::<Report>();
    }

    #[test]
    fn a_left_over_container_is_named_with_its_owner() {
        // DOCTOR-21
        let orphan = |name: &str, pid, uid, ended| Orphan { name: name.into(), pid, uid, ended };
        assert_eq!(left_over_of(&[]).level, Level::Ok);
        let one = left_over_of(&[orphan("act-run_a", Some(7), Some(1000), true)]);
        assert_eq!(
            one.message,
            "1 container of a dead run: act-run_a (process 7 of user 1000, which has ended)"
        );
        let unknown = orphan("act-run_b", None, None, false);
        let two = left_over_of(&[orphan("act-run_a", Some(7), None, true), unknown]);
        assert_eq!(
            two.message,
            "2 containers of dead runs: act-run_a (process 7, which has ended), act-run_b (an unknown process, unknown \
             here, past the deadline)"
        );
        assert!(two.fix.unwrap().ends_with("`docker rm -f act-run_a act-run_b` now"));
    }

    fn pipeline(text: &str) -> Pipeline {
        let temp = tempfile::tempdir().unwrap();
        let yaml = format!(
            "verification:\n  container_image: x\n{text}  steps: [{{name: a, command: b}}]\n"
        );
        std::fs::write(temp.path().join("agent.yaml"), yaml).unwrap();
        act_config::load(temp.path()).unwrap().pipeline
    }

    #[test]
    fn the_addresses_that_steps_do_not_reach_are_named() {
        // DOCTOR-20
        let usual = network(&pipeline(""), Some("amd64")).unwrap();
        assert_eq!(usual.level, Level::Ok);
        assert!(usual.message.contains("169.254.0.0/16, fe80::/10, fd00:ec2::254; private"));
        assert_eq!(network(&pipeline("  network: off\n"), Some("amd64")), None);
        assert_eq!(network(&pipeline(""), Some("s390x")).unwrap().level, Level::Note);
        let closed = Pipeline { private_network: false, ..pipeline("") };
        let said = network(&closed, Some("arm64")).unwrap();
        assert!(said.level == Level::Ok && said.message.contains("192.168.0.0/16"), "{said:?}");
        assert_eq!(network(&closed, Some("s390x")).unwrap().level, Level::Red);
    }

    #[test]
    fn a_read_only_view_is_noted_with_what_it_leaves_open() {
        // DOCTOR-22
        let noted = workspace(&pipeline("  workspace: readonly\n")).unwrap();
        assert!(noted.level == Level::Note && noted.message.contains("sockets"), "{noted:?}");
        assert_eq!(workspace(&pipeline("  workspace: copy\n")), None);
    }

    #[test]
    fn git_has_a_line_of_its_own() {
        // DOCTOR-22
        let temp = tempfile::tempdir().unwrap();
        let none = git(temp.path());
        assert!(none.level == Level::Note && none.fix.unwrap().contains("git init"));
        std::fs::create_dir_all(temp.path().join(".git/refs/heads")).unwrap();
        std::fs::create_dir_all(temp.path().join(".git/objects")).unwrap();
        std::fs::write(temp.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let unborn = git(temp.path());
        assert!(unborn.level == Level::Ok && unborn.message.contains("no commit"), "{unborn:?}");
        let commit = "0123456789abcdef0123456789abcdef01234567";
        std::fs::write(temp.path().join(".git/refs/heads/main"), commit).unwrap();
        assert!(git(temp.path()).message.starts_with("HEAD is 0123456789ab; "));
    }

    #[test]
    fn limits_beyond_the_machine_are_noted_with_a_number_that_fits() {
        // DOCTOR-4
        let temp = tempfile::tempdir().unwrap();
        let yaml = "verification:\n  container_image: x\n  steps: [{name: a, command: b}]\n";
        std::fs::write(temp.path().join("agent.yaml"), yaml).unwrap();
        let config = act_config::load(temp.path()).unwrap();
        let of = |mib: u64| limits(&config, None, Machine { cpus: 2, memory_bytes: mib * MIB });
        assert_eq!(of(16_000).level, Level::Ok);
        let small = of(4_000);
        assert_eq!(small.level, Level::Note);
        assert!(small.fix.unwrap().contains("below 4000"));
    }

    #[test]
    fn limits_are_those_in_force_and_name_the_file_that_sets_them() {
        // DOCTOR-10
        let temp = tempfile::tempdir().unwrap();
        let yaml = "verification:\n  container_image: x\n  steps: [{name: a, command: b}]\n  \
                    limits: {cpus: 3, memory_mb: 9000}\n";
        std::fs::write(temp.path().join("agent.yaml"), yaml).unwrap();
        let written = act_config::load(temp.path()).unwrap();
        let user = ConfigCeiling {
            memory_mb: Some(512),
            max_tokens: Some(70),
            evidence: Some(EvidenceRule::Require),
            ..ConfigCeiling::default()
        };
        let policy = ConfigCeiling {
            memory_mb: Some(600),
            step_timeout: Some(Duration::from_millis(1500)),
            checks: Some(CheckMode::Off),
            ..ConfigCeiling::default()
        };
        let mut config = written.clone();
        config.lower(&user, &policy);
        let in_force = task::InForce { config, user, policy };
        let machine = Machine { cpus: 2, memory_bytes: 4000 * MIB };
        let check = limits(&written, Some(&in_force), machine);
        assert_eq!(check.level, Level::Ok, "9000 MiB are not in force: {check:?}");
        assert!(
            check.message.starts_with(
                "a step may use 3 CPUs (agent.yaml), 512 MiB of memory (config.toml) and 2048 processes (default), and \
                 may run for 1.5 s (policy.toml); a task may spend 70 tokens (config.toml) and runs no single command of the \
                 model (policy.toml); it requires evidence (config.toml); "
            ),
            "{check:?}"
        );
    }

    #[test]
    fn a_call_that_was_written_as_text_leads_to_tools_by_schema() {
        // DOCTOR-7
        let written = || Ok(turn("{\"name\": \"answer\"}", None));
        let server = ModelServer::new(WireName::ChatCompletions, "http://127.0.0.1:1/v1", "m");
        let fix = |server: ModelServer| {
            check_of_answer(written(), &ModelAccess::Server(server)).fix.unwrap()
        };
        assert!(fix(server.clone()).starts_with("set AGENT_LLM_TOOLS=schema, or"));
        let in_file = ModelServer { origin: Origin::File, ..server.clone() };
        assert!(fix(in_file).starts_with("set `tools = \"schema\"` under [model] in config.toml"));
        let in_use = ModelServer { tools: ToolMode::Schema, ..server.clone() };
        assert!(!fix(in_use).contains("schema"));
        assert!(!fix(ModelServer { wire: WireName::Responses, ..server }).contains("schema"));
    }

    fn turn(text: &str, call: Option<(&str, &str)>) -> Turn {
        let call = call.map(|(name, arguments)| ToolCall {
            id: "c1".into(),
            name: name.into(),
            arguments: arguments.into(),
        });
        let calls: Vec<_> = call.into_iter().collect();
        let stop = if calls.is_empty() { Stop::Done } else { Stop::Tools };
        Turn { text: text.into(), calls, stop, usage: ModelUsage::default() }
    }

    fn accesses() -> [ModelAccess; 3] {
        [WireName::ChatCompletions, WireName::Messages, WireName::Responses].map(|wire| {
            let server = ModelServer::new(wire, "http://127.0.0.1:1", "m");
            ModelAccess::Server(server.with_key(act_core::secret::Secret::new("k")))
        })
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_not_waited_for_long() {
        // DOCTOR-9
        let silent = std::future::pending();
        let answer = in_time(silent, Duration::from_millis(1)).await;
        let check = check_of_answer(answer, &accesses()[0]);
        assert_eq!(check.level, Level::Red);
        assert!(check.message.contains("no answer within"), "{check:?}");
        assert!(check.fix.unwrap().contains("AGENT_LLM_BASE_URL"));
    }

    #[test]
    fn a_call_as_it_was_asked_for_is_fine() {
        // DOCTOR-7
        for access in accesses() {
            let check =
                check_of_answer(Ok(turn("", Some(("answer", r#"{"word":"ready"}"#)))), &access);
            assert_eq!(check.level, Level::Ok, "{check:?}");
            assert!(check.message.contains(access.service().wire), "{check:?}");
        }
    }

    #[test]
    fn everything_else_is_red_and_explained_in_the_words_of_the_wire() {
        // DOCTOR-7
        use ModelErrorKind::{Cut, Malformed, Rejected, TooLong, Transport};
        let failed = |kind, status| ModelError {
            kind,
            message: "the model's server answered".into(),
            status,
            retry_after: None,
        };
        let mut refused = turn("I will not", None);
        refused.stop = Stop::Refused;
        for access in accesses() {
            let service = access.service();
            let (address, key) = (service.address_variable, service.key_variable);
            let cases = [
                (Ok(turn("{\"name\": \"answer\"}", None)), "as text", "tool parser"),
                (Ok(turn("Hello!", None)), "instead of a tool call", "AGENT_LLM_MODEL"),
                (Ok(turn("", None)), "neither", service.wire),
                (Ok(turn("", Some(("answer", "no json")))), "no json", "AGENT_LLM_MODEL"),
                (Ok(turn("", Some(("shell", "{}")))), "called shell", "schema"),
                (Ok(refused.clone()), "I will not", "AGENT_LLM_MODEL"),
                (Err(failed(Rejected, Some(404))), "answered", address),
                (Err(failed(Rejected, Some(401))), "answered", key),
                (Err(failed(Rejected, Some(400))), "answered", service.wire),
                (Err(failed(TooLong, Some(400))), "answered", "larger context"),
                (Err(failed(Malformed, Some(200))), "answered", service.wire),
                (Err(failed(Cut, Some(200))), "answered", "broke off"),
                (Err(failed(Transport, None)), "answered", address),
            ];
            for (answer, message, fix) in cases {
                let check = check_of_answer(answer, &access);
                assert_eq!(check.level, Level::Red, "{check:?}");
                assert!(check.message.contains(message), "{check:?}");
                assert!(check.fix.as_deref().unwrap().contains(fix), "{fix}: {check:?}");
            }
            // The hint names no variable of another wire.
            let ModelAccess::Server(server) = access else { unreachable!() };
            let keyless = ModelAccess::Server(ModelServer { key: None, ..server });
            let text = check_of_answer(Err(failed(Rejected, Some(401))), &keyless).fix.unwrap();
            assert_eq!(text, format!("set {key}"));
        }
    }
}
