//! `act init --for AGENT`: adds the MCP server and the gate of act to the settings of another agent, and removes them again.
//!
//! [`targets`] is the only place that knows the files and the shapes of each agent; `specs/hooks.md` says where they were
//! read. [`settings`](super::settings) changes the files.

use std::io::{self, BufRead, IsTerminal, Read};
use std::path::{Component, Path, PathBuf};

use act_config::Root;
use act_core::exit::Exit;
use act_core::{Failure, shell_word};
use act_fs::owner::Holder;
use act_fs::{Dir, Durability, read_bounded};
use act_task::{HookAgent, HookState};
use rustix::fs::{Mode, fchmod, fstat};
use rustix::termios::{QueueSelector, tcflush};
use serde::Serialize;
use serde_json::{Value, json};
use similar::TextDiff;

use super::settings::{Format, Piece, Put, Settings};
use crate::output::{Line, Output, Tone};

/// Maximum number of bytes of a settings file. `~/.claude.json` grows to some megabytes.
const MAX_FILE: u64 = 32 << 20;
/// Seconds that a hook needs beside its steps: to pull an image, to copy the tree, to remove the container.
const BESIDE_STEPS: u64 = 300;
/// Shortest limit of a hook, and the one of hooks for every project, in seconds.
const SHORTEST: u64 = 600;
const EVERY_PROJECT: u64 = 3600;
/// Longest limit of a hook. A pipeline of more than a day is no gate at the end of a turn.
const LONGEST: u64 = 24 * 3600;
/// Seconds in which the beginning of a session is stored, which takes milliseconds.
const BEGIN: u64 = 30;

/// Where the settings are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum Scope {
    /// In the repository, for everybody who works on it
    #[default]
    Project,
    /// In your home directory, for every project
    User,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) agent: HookAgent,
    pub(super) scope: Scope,
    pub(super) yes: bool,
    pub(super) undo: bool,
}

/// The document of `act init --for --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document {
    agent: HookAgent,
    scope: Scope,
    /// The files were changed. False if the user did not agree, and if there was nothing to change.
    written: bool,
    files: Vec<FileDocument>,
    /// What to do next, and what act left alone.
    notes: Vec<String>,
}

impl act_core::Document for Document {
    const NAME: &'static str = "init-for";
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileDocument {
    path: String,
    /// `create`, `change`, `remove` or `nothing`.
    action: &'static str,
    /// The difference, as a unified diff; empty for `nothing`.
    diff: String,
}

/// A file of an agent and what belongs into it.
struct Target {
    /// Below the root of the repository or the home of the settings.
    path: PathBuf,
    format: Format,
    pieces: Vec<Piece>,
    /// What a new file needs beside; a file that holds nothing else is empty.
    skeleton: Vec<Piece>,
}

/// Returns the settings files of an agent that a session may change to get rid of its gate: those in the project, relative
/// to its root, then those of the user.
pub(in crate::cli) fn settings_files(agent: HookAgent) -> Vec<PathBuf> {
    let place = |scope| home(agent, scope).map(|home| (scope, home));
    let mut files = vec![];
    for (scope, home) in [Scope::Project, Scope::User].into_iter().filter_map(place) {
        let command = Command { act: String::new(), seconds: 0 };
        let targets = targets(agent, scope, &command, &|_| false);
        files.extend(targets.into_iter().map(|target| home.join(target.path)));
    }
    match agent {
        HookAgent::Claude => files.push(".claude/settings.local.json".into()),
        HookAgent::Codex => files.push(".codex/hooks.json".into()),
        _ => {}
    }
    files
}

/// Returns the settings files with a hook of act, for each agent and scope that has one.
pub(in crate::cli) fn installed(root: Option<&Path>) -> Vec<(HookAgent, &'static str, PathBuf)> {
    let mut found = vec![];
    for agent in HookAgent::ALL {
        for (scope, word) in [(Scope::Project, "project"), (Scope::User, "user")] {
            let place = match scope {
                Scope::Project => root.map(Path::to_owned),
                Scope::User => home(agent, scope),
            };
            let Some(place) = place else { continue };
            let Ok(top) = Place::open(&place, scope) else { continue };
            let command = Command { act: String::new(), seconds: 0 };
            let exists = |name: &str| top.read(Path::new(name)).is_ok_and(|found| found.is_some());
            let hooked = |target: &Target| {
                let text = top.read(&target.path).ok().flatten().map(|found| found.text);
                text.is_some_and(|text| text.contains("--hook") && text.contains(agent.word()))
            };
            let files = targets(agent, scope, &command, &exists);
            let files = files.into_iter().filter(hooked);
            found.extend(files.map(|target| (agent, word, place.join(target.path))));
        }
    }
    found
}

/// Returns the directory below which the files of a scope are; empty for the root of the repository.
fn home(agent: HookAgent, scope: Scope) -> Option<PathBuf> {
    if scope == Scope::Project {
        return Some(PathBuf::new());
    }
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let below = |name: &str| set("HOME").map(|home| home.join(name));
    match agent {
        HookAgent::Claude => set("CLAUDE_CONFIG_DIR").or_else(|| set("HOME")),
        HookAgent::Codex => set("CODEX_HOME").or_else(|| below(".codex")),
        HookAgent::Copilot => set("COPILOT_HOME").or_else(|| below(".copilot")),
        HookAgent::Gemini => below(".gemini"),
        HookAgent::Cursor => below(".cursor"),
        HookAgent::Opencode => {
            let base = set("XDG_CONFIG_HOME").or_else(|| below(".config"));
            base.map(|base| base.join("opencode"))
        }
    }
}

/// How the agent starts act.
struct Command {
    /// The program.
    act: String,
    /// The agent's limit for the hook.
    seconds: u64,
}

impl Command {
    fn words(&self, agent: HookAgent, seconds: u64) -> Vec<String> {
        let seconds = seconds.to_string();
        let words = [&*self.act, "verify", "--hook", agent.word(), "--hook-timeout", &seconds];
        words.map(str::to_owned).to_vec()
    }

    /// The command for a shell. Only the path of act may need quotes.
    fn line(&self, agent: HookAgent, seconds: u64) -> String {
        let (act, agent) = (shell_word(&self.act), agent.word());
        format!("{act} verify --hook {agent} --hook-timeout {seconds}")
    }
}

/// Returns the files of an agent. `exists` says whether a file is there already, where an agent knows two names for one.
fn targets(
    agent: HookAgent,
    scope: Scope,
    command: &Command,
    exists: &dyn Fn(&str) -> bool,
) -> Vec<Target> {
    let target =
        |path: &str, format, pieces| Target { path: path.into(), format, pieces, skeleton: vec![] };
    let pick = |project: &'static str, user: &'static str| match scope {
        Scope::Project => project,
        Scope::User => user,
    };
    let server = json!({"command": command.act, "args": ["mcp"]});
    let (stop, begin) = (command.seconds, BEGIN);
    // The shape that Claude Code introduced and others took over.
    let group = |seconds: u64, unit: u64| {
        let line = command.line(agent, seconds);
        json!({"hooks": [{"type": "command", "command": line, "timeout": seconds * unit}]})
    };
    let both = |stop_event: &str, begin_event: &str, unit: u64| {
        vec![
            Piece::element(&["hooks", begin_event], group(begin, unit)),
            Piece::element(&["hooks", stop_event], group(stop, unit)),
        ]
    };
    match agent {
        HookAgent::Claude => {
            // With CLAUDE_CONFIG_DIR both files are in that directory.
            let moved = scope == Scope::User && std::env::var_os("CLAUDE_CONFIG_DIR").is_some();
            let settings = if moved { "settings.json" } else { ".claude/settings.json" };
            let mcp = Piece::member(&["mcpServers"], "act", server);
            vec![
                target(pick(".mcp.json", ".claude.json"), Format::Json, vec![mcp]),
                target(settings, Format::Json, both("Stop", "SessionStart", 1)),
            ]
        }
        HookAgent::Codex => {
            let server = json!({"command": command.act, "args": ["mcp"], "tool_timeout_sec": stop});
            let mcp = Piece::member(&["mcp_servers"], "act", server);
            let (config, hooks) = (
                pick(".codex/config.toml", "config.toml"),
                pick(".codex/hooks.json", "hooks.json"),
            );
            // Codex warns about a layer with hooks in both files.
            if exists(hooks) {
                return vec![
                    target(config, Format::Toml, vec![mcp]),
                    target(hooks, Format::Json, both("Stop", "SessionStart", 1)),
                ];
            }
            let pieces = [vec![mcp], both("Stop", "SessionStart", 1)].concat();
            vec![target(config, Format::Toml, pieces)]
        }
        HookAgent::Copilot => {
            let hook = |seconds: u64| {
                let line = command.line(agent, seconds);
                json!({"type": "command", "bash": line, "timeoutSec": seconds})
            };
            let pieces = vec![
                Piece::element(&["hooks", "sessionStart"], hook(begin)),
                Piece::element(&["hooks", "agentStop"], hook(stop)),
            ];
            let server =
                json!({"type": "local", "command": command.act, "args": ["mcp"], "tools": ["*"]});
            let mcp = Piece::member(&["mcpServers"], "act", server);
            let mut hooks =
                target(pick(".github/hooks/act.json", "hooks/act.json"), Format::Json, pieces);
            hooks.skeleton = vec![Piece::member(&[], "version", json!(1))];
            vec![
                target(pick(".github/mcp.json", "mcp-config.json"), Format::Json, vec![mcp]),
                hooks,
            ]
        }
        HookAgent::Gemini => {
            let server = json!({"command": command.act, "args": ["mcp"], "timeout": stop * 1000});
            let mcp = Piece::member(&["mcpServers"], "act", server);
            // Its limits are in milliseconds.
            let pieces = [vec![mcp], both("AfterAgent", "SessionStart", 1000)].concat();
            vec![target(pick(".gemini/settings.json", "settings.json"), Format::Json, pieces)]
        }
        HookAgent::Cursor => {
            let hook =
                |seconds: u64| json!({"command": command.line(agent, seconds), "timeout": seconds});
            let pieces = vec![
                Piece::element(&["hooks", "sessionStart"], hook(begin)),
                Piece::element(&["hooks", "stop"], hook(stop)),
            ];
            let mcp = Piece::member(&["mcpServers"], "act", server);
            let mut hooks = target(pick(".cursor/hooks.json", "hooks.json"), Format::Json, pieces);
            hooks.skeleton = vec![Piece::member(&[], "version", json!(1))];
            vec![target(pick(".cursor/mcp.json", "mcp.json"), Format::Json, vec![mcp]), hooks]
        }
        HookAgent::Opencode => {
            let server = json!({"type": "local", "command": [command.act, "mcp"], "enabled": true});
            let mcp = Piece::member(&["mcp"], "act", server);
            let config = if exists("opencode.jsonc") { "opencode.jsonc" } else { "opencode.json" };
            let plugin = Piece::member(&[], "", plugin(&command.words(agent, stop)).into());
            vec![
                target(config, Format::Json, vec![mcp]),
                target(
                    pick(".opencode/plugins/act.js", "plugins/act.js"),
                    Format::Whole,
                    vec![plugin],
                ),
            ]
        }
    }
}

/// Returns the plugin of opencode, which has no hook that could hold an agent.
fn plugin(words: &[String]) -> String {
    let words = serde_json::to_string(words).unwrap_or_default();
    include_str!("opencode.js").replace("\"COMMAND\"", &words)
}

/// What happens to one file.
struct Plan {
    target: Target,
    before: Option<Existing>,
    /// `None` removes the file.
    after: Option<String>,
    /// What act has in the file afterwards.
    written: Vec<Piece>,
}

struct Existing {
    text: String,
    mode: u32,
}

impl Plan {
    fn changes(&self) -> bool {
        self.before.as_ref().map(|before| before.text.as_str()) != self.after.as_deref()
    }

    fn action(&self) -> &'static str {
        match (&self.before, &self.after) {
            _ if !self.changes() => "nothing",
            (None, _) => "create",
            (_, None) => "remove",
            _ => "change",
        }
    }

    fn diff(&self, path: &Path) -> String {
        if !self.changes() {
            return String::new();
        }
        let before = self.before.as_ref().map_or("", |before| &before.text);
        let after = self.after.as_deref().unwrap_or_default();
        let name = path.display();
        let diff = TextDiff::from_lines(before, after);
        diff.unified_diff().header(&format!("{name} (now)"), &format!("{name} (then)")).to_string()
    }
}

/// What act wrote earlier, as it is stored. `created`: the file was not there before.
fn stored(file: &Path, piece: &Piece, created: bool) -> Value {
    let Piece { path, key, value } = piece;
    let file = file.display().to_string();
    json!({"file": file, "path": path, "key": key, "value": value, "created": created})
}

/// Returns whether act made the file.
fn was_created(installed: &[Value], file: &Path) -> bool {
    let is_of = |entry: &&Value| entry.get("file").and_then(Value::as_str) == file.to_str();
    installed.iter().filter(is_of).any(|entry| entry.get("created") == Some(&Value::Bool(true)))
}

fn of_stored(file: &Path, entry: &Value) -> Option<Piece> {
    (entry.get("file")?.as_str()? == file.to_str()?).then_some(())?;
    let path = entry.get("path")?.as_array()?.iter();
    let path = path.map(|key| key.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    let key = entry.get("key")?.as_str().map(str::to_owned);
    Some(Piece { path, key, value: entry.get("value")?.clone() })
}

pub(super) fn run(wish: Wish, root: Option<Root>, output: &Output) -> Result<Exit, Failure> {
    let Wish { agent, scope, yes, undo } = wish;
    let place = match (scope, &root) {
        (Scope::Project, Some(root)) => root.path.clone(),
        (Scope::Project, None) => {
            return Err(Failure::refused("no_repository", "this directory is not in a repository")
                .hint("`--repo DIR` names one; `--scope user` is for every project"));
        }
        (Scope::User, _) => home(agent, scope).ok_or_else(|| {
            Failure::refused("settings_unusable", "there is no home directory").hint("set HOME")
        })?,
    };
    let top = Place::open(&place, scope)?;
    let command = command(scope, root.as_ref())?;
    let exists = |name: &str| top.read(Path::new(name)).is_ok_and(|found| found.is_some());
    let targets = targets(agent, scope, &command, &exists);
    let state = HookState::of_user(root.as_ref().map(|root| root.path.as_path()))?;
    // One `act init --for` at a time: no other process changes these files through act while the question is open.
    state.with_installed(|installed| {
        let mut notes = vec![];
        let plans = targets
            .into_iter()
            .map(|target| {
                let file = place.join(&target.path);
                let ours: Vec<_> =
                    installed.iter().filter_map(|entry| of_stored(&file, entry)).collect();
                let before = top.read(&target.path)?;
                match undo {
                    true => {
                        let created = was_created(installed, &file);
                        without((target, created), &file, before, ours, &mut notes)
                    }
                    false => with(target, &file, before, &ours),
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        let changes = plans.iter().any(Plan::changes);
        show(&plans, &place, output);
        let agreed = changes && (yes || asked(output)?);
        if agreed {
            for plan in &plans {
                let file = place.join(&plan.target.path);
                if plan.changes() {
                    top.write(plan)?;
                }
                let name = file.display().to_string();
                let created = plan.before.is_none() || was_created(installed, &file);
                installed.retain(|entry| entry.get("file").and_then(Value::as_str) != Some(&name));
                installed.extend(plan.written.iter().map(|piece| stored(&file, piece, created)));
            }
        }
        if !undo {
            notes.extend(advice(agent, scope, root.as_ref()));
        }
        report(wish, &plans, &place, (agreed, changes), notes, output)
    })
}

/// Returns how the agent is to start act. In a repository it is a name, because a path means nothing on other machines.
fn command(scope: Scope, root: Option<&Root>) -> Result<Command, Failure> {
    let act = match scope {
        Scope::Project => "act".to_owned(),
        Scope::User => {
            let own =
                std::env::current_exe().ok().and_then(|path| path.to_str().map(str::to_owned));
            own.unwrap_or_else(|| "act".to_owned())
        }
    };
    let seconds = match (scope, root) {
        (Scope::Project, Some(Root { path, has_config: true })) => {
            let config = act_config::load(path)?;
            let steps = u64::try_from(config.pipeline.all_steps().count()).unwrap_or(u64::MAX);
            let steps = steps.saturating_mul(config.step_timeout.as_secs());
            steps.saturating_add(BESIDE_STEPS).clamp(SHORTEST, LONGEST)
        }
        _ => EVERY_PROJECT,
    };
    Ok(Command { act, seconds })
}

fn unusable(file: &Path, why: &str) -> Failure {
    let message = format!("{} cannot be changed: {why}", file.display());
    Failure::refused("settings_unusable", message)
}

const BY_HAND: &str = "nothing was changed; `specs/hooks.md` shows what to write there by hand";

/// Adds the values of act to a file. What act wrote earlier and is still there is replaced.
fn with(
    target: Target,
    file: &Path,
    before: Option<Existing>,
    ours: &[Piece],
) -> Result<Plan, Failure> {
    let text = before.as_ref().map(|before| before.text.clone());
    if target.format == Format::Whole {
        let [piece] = &*target.pieces else { return Err(unusable(file, "it has no content")) };
        let content = piece.value.as_str().unwrap_or_default().to_owned();
        let same = |piece: &Piece| piece.value.as_str() == text.as_deref();
        if text.is_some() && text.as_ref() != Some(&content) && !ours.iter().any(same) {
            return Err(unusable(file, "a file of this name is not from act").hint(BY_HAND));
        }
        let written = target.pieces.clone();
        return Ok(Plan { target, before, after: Some(content), written });
    }
    let refused = |why: String| unusable(file, &why).hint(BY_HAND);
    let mut settings =
        Settings::read(target.format, text.as_deref().unwrap_or_default()).map_err(refused)?;
    for piece in &target.skeleton {
        // Another version is the user's choice.
        settings.put(piece).map_err(refused)?;
    }
    let (mut written, mut changes) = (vec![], false);
    for piece in &target.pieces {
        for old in ours.iter().filter(|old| old.is_beside(piece) && old.value != piece.value) {
            changes |= settings.take(old);
        }
        match settings.put(piece).map_err(refused)? {
            Put::Added => {
                changes = true;
                written.push(piece.clone());
            }
            // What was there before act came is not removed later.
            Put::There => written.extend(ours.contains(piece).then(|| piece.clone())),
            Put::Taken => {
                let why = format!("`{}` is there and is not from act", piece.place());
                return Err(refused(why));
            }
        }
    }
    let after = match text {
        // The skeleton alone is no reason to touch a file.
        Some(text) if !changes => Some(text),
        _ => Some(settings.text()),
    };
    Ok(Plan { target, before, after, written })
}

/// Removes from a file what is still as act wrote it.
fn without(
    (target, created): (Target, bool),
    file: &Path,
    before: Option<Existing>,
    ours: Vec<Piece>,
    notes: &mut Vec<String>,
) -> Result<Plan, Failure> {
    // Another machine wrote the file of the repository; there the values are those of this version.
    let ours = if ours.is_empty() { target.pieces.clone() } else { ours };
    let name = file.display();
    let Some(found) = &before else {
        return Ok(Plan { target, before, after: None, written: vec![] });
    };
    let text = found.text.clone();
    if target.format == Format::Whole {
        let same = ours.iter().any(|piece| piece.value.as_str() == Some(&*text));
        if !same {
            notes.push(format!("{name} was changed, so it stays"));
        }
        return Ok(Plan { target, before, after: (!same).then_some(text), written: vec![] });
    }
    let refused = |why: String| unusable(file, &why).hint("remove the entries of act by hand");
    let mut settings = Settings::read(target.format, &text).map_err(refused)?;
    let mut any = false;
    for piece in &ours {
        match settings.take(piece) {
            true => any = true,
            false => notes
                .push(format!("`{}` in {name} is gone or was changed, so it stays", piece.place())),
        }
    }
    let empty = |value: &Value| {
        let members = value.as_object().into_iter().flatten();
        members.into_iter().all(|(key, value)| {
            target.skeleton.iter().any(|one| one.key.as_ref() == Some(key) && one.value == *value)
        })
    };
    let after = match any {
        false => Some(text),
        true if created && empty(&settings.value()) => None,
        true => Some(settings.text()),
    };
    Ok(Plan { target, before, after, written: vec![] })
}

/// Shows the difference on stderr where somebody answers a question, and otherwise on stdout.
fn show(plans: &[Plan], place: &Path, output: &Output) {
    if output.is_json() {
        return;
    }
    for plan in plans {
        let path = place.join(&plan.target.path);
        for line in plan.diff(&path).lines() {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                Some(b'@') => Tone::Faint,
                _ => Tone::Plain,
            };
            output.result_line(&Line::of(tone, line));
        }
    }
}

/// Asks at the terminal. Without a terminal the answer is no.
fn asked(output: &Output) -> Result<bool, Failure> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Ok(false);
    }
    // Discards input that was typed before the question.
    tcflush(std::io::stdin(), QueueSelector::IFlush).map_err(|errno| {
        Failure::refused("not_agreed", format!("the terminal cannot be asked: {errno}"))
    })?;
    output.progress(&Line::of(Tone::Strong, "Type `yes` to make these changes:"));
    let mut answer = String::new();
    let mut terminal = std::io::stdin().lock();
    // 100 bytes are more than any answer has.
    let read = (&mut terminal).take(100).read_line(&mut answer);
    Ok(read.is_ok() && answer.trim() == "yes")
}

fn advice(agent: HookAgent, scope: Scope, root: Option<&Root>) -> Vec<String> {
    let mut notes = vec![];
    if !root.is_some_and(|root| root.has_config) {
        notes.push(
            "a project without an agent.yaml has no gate: `act init` writes one, and the hook does nothing until then"
                .to_owned(),
        );
    }
    match agent {
        HookAgent::Codex => {
            if scope == Scope::Project {
                notes.push("Codex reads .codex/ only in a project that you trust; it asks when you start it there".to_owned());
            }
            notes.push(
                "Codex runs no new or changed hook before you trust it: start `codex`, type `/hooks`, read the two hooks of \
                 act and trust them; act cannot do or see that"
                    .to_owned(),
            );
        }
        HookAgent::Claude if scope == Scope::Project => {
            notes.push(
                "Claude Code asks once whether it may start the server `act` of .mcp.json"
                    .to_owned(),
            );
        }
        HookAgent::Cursor | HookAgent::Opencode => {
            notes.push(format!(
                "{} cannot be held at the end of its turn: a red result becomes its next message",
                agent.title()
            ));
        }
        _ => {}
    }
    notes
}

fn report(
    wish: Wish,
    plans: &[Plan],
    place: &Path,
    (agreed, changes): (bool, bool),
    notes: Vec<String>,
    output: &Output,
) -> Result<Exit, Failure> {
    let files = || plans.iter().map(move |plan| (plan, place.join(&plan.target.path)));
    let declined = changes && !agreed;
    if output.is_json() {
        let files = files().map(|(plan, path)| FileDocument {
            path: path.display().to_string(),
            action: plan.action(),
            diff: plan.diff(&path),
        });
        let Wish { agent, scope, .. } = wish;
        let files = files.collect();
        output.document(&Document { agent, scope, written: agreed, files, notes });
        return Ok(if declined { Exit::Refused } else { Exit::Ok });
    }
    if declined {
        return Err(Failure::refused("not_agreed", "nothing was written")
            .hint("type `yes` at a terminal, or add `--yes`"));
    }
    if !changes {
        output.result_line(&Line::plain("Nothing to change."));
    }
    for (plan, path) in files().filter(|(plan, _)| plan.changes()) {
        let done = if plan.after.is_some() { "Wrote" } else { "Removed" };
        let line = Line::of(Tone::Good, done).and(Tone::Plain, format!(" {}", path.display()));
        output.result_line(&line);
    }
    notes.iter().for_each(|note| output.result_line(&Line::plain(note.as_str())));
    Ok(Exit::Ok)
}

/// The directory of a scope. Nothing below it is reached through a link, and nothing of another user is written.
struct Place {
    path: PathBuf,
    top: Option<Dir>,
}

impl Place {
    /// Opens the directory. That of the user's settings may be missing until something is written.
    fn open(path: &Path, scope: Scope) -> Result<Self, Failure> {
        let opened = match scope {
            Scope::Project => Dir::open_following(path).map(Some),
            // The home directory itself may be a link; a directory of settings in it may not.
            Scope::User if std::env::var_os("HOME").is_some_and(|home| home == path) => {
                Dir::open_following(path).map(Some)
            }
            Scope::User => match Dir::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                opened => opened.map(Some),
            },
        };
        let top = opened.map_err(|error| unusable(path, &in_words(&error)).hint(BY_HAND))?;
        if let Some(top) = &top {
            own(top, path)?;
        }
        Ok(Self { path: path.to_owned(), top })
    }

    /// Reads a file below the directory; `None` if it, or a directory on the way, is missing.
    fn read(&self, path: &Path) -> Result<Option<Existing>, Failure> {
        let whole = self.path.join(path);
        let failed = |error: &io::Error| unusable(&whole, &in_words(error)).hint(BY_HAND);
        let Some(top) = &self.top else { return Ok(None) };
        let mut dir = top.try_clone().map_err(|error| failed(&error))?;
        let (above, name) = split(path);
        for part in above {
            match dir.existing_subdirectory(part).map_err(|error| failed(&error))? {
                Some(next) => dir = next,
                None => return Ok(None),
            }
            own(&dir, &whole)?;
        }
        let file = match dir.file(name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        own(&file, &whole)?;
        let mode = fstat(&file).map_err(|errno| failed(&errno.into()))?.st_mode;
        let bytes = read_bounded(file, MAX_FILE).map_err(|error| failed(&error))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| unusable(&whole, "it is not UTF-8 text").hint(BY_HAND))?;
        Ok(Some(Existing { text, mode: Mode::from_raw_mode(mode).bits() }))
    }

    /// Writes or removes the file of a plan, if it still is as it was when the plan was made.
    fn write(&self, plan: &Plan) -> Result<(), Failure> {
        let path = &plan.target.path;
        let whole = self.path.join(path);
        let failed = |error: io::Error| unusable(&whole, &in_words(&error)).hint(BY_HAND);
        let now = self.read(path)?.map(|found| found.text);
        if now.as_ref() != plan.before.as_ref().map(|before| &before.text) {
            return Err(unusable(&whole, "it changed meanwhile").hint("run the command again"));
        }
        let mut dir = match &self.top {
            Some(top) => top.try_clone().map_err(failed)?,
            None => {
                std::fs::create_dir_all(&self.path).map_err(failed)?;
                let top = Dir::open_following(&self.path).map_err(failed)?;
                own(&top, &self.path)?;
                top
            }
        };
        let (above, name) = split(path);
        for part in above {
            // The mode of a directory that the user makes: the umask takes from it.
            match rustix::fs::mkdirat(&dir, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
            dir = dir.subdirectory(part).map_err(failed)?;
            own(&dir, &whole)?;
        }
        let Some(text) = &plan.after else { return dir.remove_file(name).map_err(failed) };
        let mut staged = match &plan.before {
            Some(before) => {
                let staged = dir.stage(name).map_err(failed)?;
                fchmod(staged.file(), Mode::from_raw_mode(before.mode))
                    .map_err(|errno| failed(errno.into()))?;
                staged
            }
            None => dir.stage_readable(name).map_err(failed)?,
        };
        staged.write(text.as_bytes()).map_err(failed)?;
        staged.publish(name, Durability::ContentsAndName).map_err(failed)
    }
}

/// Returns the names of the directories on the way, and the name of the file.
fn split(path: &Path) -> (Vec<&str>, &str) {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let mut parts: Vec<_> = parts.collect();
    let name = parts.pop().unwrap_or_default();
    (parts, name)
}

/// Refuses what belongs to another user.
fn own(handle: impl std::os::fd::AsFd, path: &Path) -> Result<(), Failure> {
    let stat = fstat(handle).map_err(|errno| unusable(path, &errno.to_string()))?;
    let holder = Holder::of_stat(&stat);
    match holder.is_caller_or_root() {
        true => Ok(()),
        false => {
            let why = format!("it belongs to another user ({})", holder.uid);
            Err(unusable(path, &why).hint(BY_HAND))
        }
    }
}

fn in_words(error: &io::Error) -> String {
    match rustix::io::Errno::from_io_error(error) {
        Some(rustix::io::Errno::LOOP) => "it is a symbolic link".to_owned(),
        Some(rustix::io::Errno::NOTDIR) => {
            "a directory on the way is a symbolic link or no directory".to_owned()
        }
        _ => error.to_string(),
    }
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

    // HOOK-20
    #[test]
    fn each_agent_has_a_hook_with_a_limit_above_that_of_the_pipeline() {
        let command = Command { act: "/opt/a ct/act".to_owned(), seconds: 1500 };
        for agent in HookAgent::ALL {
            for scope in [Scope::Project, Scope::User] {
                let targets = targets(agent, scope, &command, &|_| false);
                let pieces: Vec<_> = targets.iter().flat_map(|target| &target.pieces).collect();
                let text = pieces.iter().map(|piece| piece.value.to_string()).collect::<String>();
                assert!(
                    text.contains("--hook-timeout 1500") || text.contains("\\\"1500\\\""),
                    "{text}"
                );
                let limits = ["\"timeout\":1500", "\"timeoutSec\":1500", "\"timeout\":1500000"];
                let has = limits.iter().any(|limit| text.contains(limit));
                assert!(has || agent == HookAgent::Opencode, "{text}");
                assert!(
                    text.contains("'/opt/a ct/act' verify") || agent == HookAgent::Opencode,
                    "{text}"
                );
                for target in &targets {
                    assert!(target.path.is_relative());
                }
            }
        }
    }
}
