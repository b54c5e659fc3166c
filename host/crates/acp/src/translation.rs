//! Turns what happens in a task into updates of the protocol.
//!
//! The input is an event as programs and journals have it, so that a task which runs and one that is loaded look alike. The output of
//! steps and the texts of edits, which journals do not have, come on ways of their own. Every text is bounded, because
//! model and repository choose most of them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use act_core::event::EditedText;
use act_core::{Usd, terminal_text};
use serde_json::{Value, json};

/// Bytes of a title, which is one line.
const TITLE: usize = 200;
/// Bytes of one entry of the plan.
const ENTRY: usize = 500;
/// Entries of a plan that are criteria.
const CRITERIA: usize = 40;
/// Bytes of a message or a thought.
const MESSAGE: usize = 32 * 1024;
/// Bytes at the end of the output of a verification that are shown. The log of the run has all of it.
const OUTPUT: usize = 16 * 1024;
/// Bytes of the text of a file, before or after an edit, beyond which the edit is shown without its difference.
const DIFF: usize = 256 * 1024;
/// Files of a proposal whose differences are shown.
const PROPOSED: usize = 100;
/// Bytes of the differences of a proposal.
const PROPOSED_BYTES: usize = 1024 * 1024;
/// Shortest time between two updates with the output of a step.
const PACE: Duration = Duration::from_millis(300);

/// The proposal of a dry run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Proposed {
    /// Paths of the files, from the root.
    pub(crate) paths: Vec<String>,
    /// The proposal is stored and can be applied.
    pub(crate) is_stored: bool,
    /// The differences, as content of a tool call.
    pub(crate) content: Vec<Value>,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
}

/// Makes the updates of one task after the other. Ids of tool calls are unique in the session.
#[derive(Debug)]
pub(crate) struct Translation {
    root: PathBuf,
    calls: u64,
    /// Tokens that a task may spend.
    budget: Option<u64>,
    /// The cost of all tasks of the session; `None` once the cost of a request is not known.
    cost: Option<Usd>,
    task: TaskSoFar,
}

/// The facts about the task in progress.
#[derive(Debug, Default)]
struct TaskSoFar {
    plan: Plan,
    /// The plan as it was sent last.
    sent: Vec<Value>,
    /// The tool calls that have not ended, by what they are.
    open: BTreeMap<String, String>,
    /// The run in progress: its tool call and the end of its output.
    run: Option<Run>,
    tokens: u64,
    /// The texts of the edit whose event comes next.
    texts: Option<EditedText>,
    /// The first and the last text of each file that was edited.
    edited: BTreeMap<String, (Text, Text)>,
    proposed: Option<Proposed>,
    ended: Option<Ended>,
}

/// The text of a file, or `None` where there is no file.
type Text = Option<Arc<str>>;

#[derive(Debug)]
struct Run {
    call: String,
    output: String,
    sent: Option<Instant>,
}

#[derive(Debug, Default)]
struct Plan {
    strategy: Option<String>,
    criteria: Vec<String>,
    attempt: Option<String>,
    phase: Phase,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Analysis,
    Work,
    Verification,
    Green,
}

impl Translation {
    pub(crate) fn new(root: &Path, budget: Option<u64>) -> Self {
        let cost = Some(Usd::ZERO);
        Self { root: root.to_owned(), calls: 0, budget, cost, task: TaskSoFar::default() }
    }

    /// Begins the next task.
    pub(crate) fn begin(&mut self) {
        self.task = TaskSoFar::default();
    }

    /// Has no later update name a cost, because a part of the sum is missing.
    pub(crate) fn cost_is_unknown(&mut self) {
        self.cost = None;
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.task.ended.clone()
    }

    pub(crate) fn proposed(&self) -> Option<Proposed> {
        self.task.proposed.clone()
    }

    /// Returns the id of a new tool call.
    pub(crate) fn new_call(&mut self) -> String {
        self.calls += 1;
        format!("call-{}", self.calls)
    }

    /// Stores the texts of the edit whose event comes next.
    pub(crate) fn edited(&mut self, texts: &EditedText) {
        let small = |text: &Option<Arc<str>>| text.as_ref().is_none_or(|text| text.len() <= DIFF);
        if small(&texts.before) && small(&texts.now) {
            if self.task.edited.len() < PROPOSED || self.task.edited.contains_key(&texts.path) {
                let first = || (texts.before.clone(), None);
                self.task.edited.entry(texts.path.clone()).or_insert_with(first).1 =
                    texts.now.clone();
            }
            self.task.texts = Some(texts.clone());
        } else {
            self.task.edited.remove(&texts.path);
        }
    }

    /// Adds to the output of the run in progress.
    pub(crate) fn output(&mut self, bytes: &[u8]) -> Vec<Value> {
        let Some(run) = &mut self.task.run else { return vec![] };
        run.add(&String::from_utf8_lossy(bytes));
        match run.sent.is_none_or(|sent| sent.elapsed() >= PACE) {
            true => vec![run.update()],
            false => vec![],
        }
    }

    /// Returns the updates for one event, as it is in `act run --json` and in journals. An event of an unknown type has none.
    pub(crate) fn event(&mut self, event: &Value) -> Vec<Value> {
        let text =
            |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |key: &str| event.get(key).and_then(Value::as_u64);
        let texts = |key: &str| {
            let items = event.get(key).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        match text("type").as_str() {
            "waiting" => {
                let behind = event.get("holder").and_then(Value::as_str).unwrap_or("another task");
                let place = number("position").unwrap_or(1);
                vec![thought(&format!("Waiting for {behind}, at position {place} of the queue."))]
            }
            "task_started" => self.started(event),
            "constraints" => self.constraints(&texts("boundaries"), &texts("enforced")),
            "milestone" => self.milestone(&text("text")),
            "image_pull" => {
                let key = format!("image {}", text("image"));
                match self.task.open.contains_key(&key) {
                    true => vec![],
                    false => {
                        vec![self.start(&key, "fetch", &format!("Get the image {}", text("image")))]
                    }
                }
            }
            "scout_started" => {
                let scout = text("scout");
                let title = format!("{scout} looks at the repository");
                vec![self.start(&format!("scout {scout}"), "search", &title)]
            }
            "scout_finished" => {
                let error = event.get("error").and_then(Value::as_str);
                let said = error.map_or_else(|| text("summary"), str::to_owned);
                let good = text("outcome") == "ok";
                let key = format!("scout {}", text("scout"));
                self.finish(&key, good, None, vec![block(&said)]).into_iter().collect()
            }
            "component_denied" => {
                let (name, object) = (text("name"), text("object"));
                let grant = text("grant");
                vec![thought(&format!("{name} was denied {grant}: {object}"))]
            }
            "component_refused" => {
                vec![thought(&format!("{} was not loaded: {}", text("name"), text("message")))]
            }
            "model_request" => self.model_request(event),
            "instructions_read" => {
                let (call, path) = (self.new_call(), text("path"));
                let title = line(&format!("Read {path}"), TITLE);
                let locations = self.location(&path, None);
                vec![json!({"sessionUpdate": "tool_call", "toolCallId": call, "title": title,
                    "kind": "read", "status": "completed", "locations": locations})]
            }
            "diagnosis" => vec![thought(&text("text"))],
            "plan" => {
                self.task.plan.strategy = Some(text("strategy"));
                self.task.plan.criteria = texts("criteria");
                self.plan()
            }
            "replan" => vec![thought(&format!("A new strategy: {}", text("strategy")))],
            "edit" => vec![self.edit(&text("path"), &text("op"))],
            "edit_refused" => {
                let (call, path) = (self.new_call(), text("path"));
                let title = line(&format!("{} {path}: refused", text("op")), TITLE);
                let why = block(&format!("The rule `{}` refused the change.", text("reason")));
                vec![json!({"sessionUpdate": "tool_call", "toolCallId": call, "title": title,
                    "kind": "edit", "status": "failed", "content": [why]})]
            }
            "consent" => {
                let (path, answer) = (line(&text("path"), TITLE), text("answer"));
                let said = match answer.as_str() {
                    "allowed" => format!("You allowed this task to change `{path}`."),
                    "refused" => format!("You did not allow this task to change `{path}`."),
                    _ => format!(
                        "There was no answer whether this task may change `{path}`; it may not."
                    ),
                };
                vec![message(&said)]
            }
            "verify_started" => {
                let warm = event.get("warm") == Some(&Value::Bool(true));
                let kind = if warm { "warm run" } else { "run" };
                let title = format!("Verify: {kind} {}", text("run_id"));
                let start = self.start(&format!("run {}", text("run_id")), "execute", &title);
                let call = start.get("toolCallId").and_then(Value::as_str).unwrap_or_default();
                let call = call.to_owned();
                self.task.run = Some(Run { call, output: String::new(), sent: None });
                vec![start]
            }
            "step_started" => self.run_line(&format!("== {}\n", line(&text("name"), TITLE))),
            "step_finished" => {
                let code = event.get("exit_code").and_then(Value::as_i64);
                let code = code
                    .map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
                let name = line(&text("name"), TITLE);
                let seconds = number("duration_ms").unwrap_or(0) as f64 / 1000.0;
                self.run_line(&format!("== {name}: {code}, {seconds:.1} s\n"))
            }
            "verify_finished" => self.verified(&text("run_id"), &text("status"), event),
            "check_started" => {
                let command = text("command");
                vec![self.start(
                    &format!("check {command}"),
                    "execute",
                    &format!("Try `{command}`"),
                )]
            }
            "check_finished" => {
                let code = event.get("exit_code").and_then(Value::as_i64);
                let said = match code {
                    Some(code) => format!("exit code {code}"),
                    None => text("outcome"),
                };
                let key = format!("check {}", text("command"));
                self.finish(&key, code == Some(0), None, vec![block(&said)]).into_iter().collect()
            }
            "baseline" => {
                let step = event.get("step").and_then(Value::as_str);
                let at = step.map_or_else(String::new, |step| format!(" in step {step:?}"));
                vec![thought(&format!("Before the first edit: {}{at}.", text("status")))]
            }
            "proposed" => self.proposal(event),
            "task_finished" => self.finished(event),
            _ => vec![],
        }
    }

    fn started(&mut self, event: &Value) -> Vec<Value> {
        let uncommitted = event.get("uncommitted").filter(|files| !files.is_null());
        let mut updates = self.plan();
        if let Some(count) =
            uncommitted.and_then(|files| files.get("count")).and_then(Value::as_u64)
        {
            let said = format!("The working tree differs from the last commit in {count} files.");
            updates.push(thought(&said));
        }
        updates
    }

    fn constraints(&mut self, boundaries: &[String], enforced: &[String]) -> Vec<Value> {
        let open: Vec<_> = boundaries.iter().filter(|item| !enforced.contains(item)).collect();
        let mut said = String::new();
        if !enforced.is_empty() {
            said.push_str(&format!("Boundaries that are enforced: {}.", enforced.join("; ")));
        }
        if !open.is_empty() {
            let open: Vec<_> = open.iter().map(|item| item.as_str()).collect();
            said.push_str(&format!(" Boundaries for the model alone: {}.", open.join("; ")));
        }
        if said.is_empty() { vec![] } else { vec![thought(said.trim())] }
    }

    fn milestone(&mut self, text: &str) -> Vec<Value> {
        let plan = &mut self.task.plan;
        match text {
            "Implementing changes..." => plan.phase = plan.phase.max(Phase::Work),
            "Running verification..." => plan.phase = Phase::Verification,
            "Verification failed, debugging..." | "Replanning..." => plan.phase = Phase::Work,
            _ => {}
        }
        if let Some(attempt) = text.strip_prefix("Attempt ") {
            plan.attempt = Some(attempt.trim_end_matches('.').replace('/', " of "));
        }
        self.plan()
    }

    /// Returns the plan if it has changed: one list of entries that replaces the one before.
    fn plan(&mut self) -> Vec<Value> {
        let Plan { strategy, criteria, attempt, phase } = &self.task.plan;
        let status = |own: Phase| match phase.cmp(&own) {
            std::cmp::Ordering::Less => "pending",
            std::cmp::Ordering::Equal => "in_progress",
            std::cmp::Ordering::Greater => "completed",
        };
        let entry = |content: &str, priority: &str, status: &str| json!({"content": line(content, ENTRY), "priority": priority, "status": status});
        let mut entries =
            vec![entry("Understand the task and the code", "medium", status(Phase::Analysis))];
        let strategy = strategy.as_deref().unwrap_or("Change the files");
        entries.push(entry(strategy, "high", status(Phase::Work)));
        for criterion in criteria.iter().take(CRITERIA) {
            let done = if *phase == Phase::Green { "completed" } else { "pending" };
            entries.push(entry(criterion, "medium", done));
        }
        let attempt =
            attempt.as_ref().map_or_else(String::new, |attempt| format!(" (attempt {attempt})"));
        let pipeline = format!("The pipeline passes{attempt}");
        entries.push(entry(&pipeline, "high", status(Phase::Verification)));
        if entries == self.task.sent {
            return vec![];
        }
        self.task.sent.clone_from(&entries);
        vec![json!({"sessionUpdate": "plan", "entries": entries})]
    }

    fn model_request(&mut self, event: &Value) -> Vec<Value> {
        let usage = event.get("usage");
        let tokens =
            |key: &str| usage.and_then(|usage| usage.get(key)).and_then(Value::as_u64).unwrap_or(0);
        let more = tokens("input").saturating_add(tokens("output"));
        let cost = event.get("cost_usd").and_then(Value::as_str).and_then(Usd::parse);
        self.cost = self.cost.zip(cost).map(|(mut sum, cost)| {
            sum += cost;
            sum
        });
        let mut updates = vec![];
        if let Some(error) =
            event.get("error").and_then(Value::as_str).filter(|why| *why != "cancelled")
        {
            updates.push(thought(&format!("A request to the model failed: {error}")));
        }
        if more > 0 {
            self.task.tokens = self.task.tokens.saturating_add(more);
            let used = self.task.tokens;
            let size = self.budget.unwrap_or(used);
            let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": size});
            // The protocol has a number here; the sum itself is exact.
            let amount = self.cost.and_then(|cost| cost.to_string().parse::<f64>().ok());
            if let (Some(amount), Some(update)) = (amount, update.as_object_mut()) {
                update.insert("cost".to_owned(), json!({"amount": amount, "currency": "USD"}));
            }
            updates.push(update);
        }
        updates
    }

    fn edit(&mut self, path: &str, op: &str) -> Value {
        let call = self.new_call();
        let texts = self.task.texts.take().filter(|texts| texts.path == path);
        let kind = if op == "delete" { "delete" } else { "edit" };
        let first = texts.as_ref().map(first_difference);
        let mut update = json!({"sessionUpdate": "tool_call", "toolCallId": call,
            "title": line(&format!("{op} {path}"), TITLE), "kind": kind, "status": "completed",
            "locations": self.location(path, first)});
        if let (Some(texts), Some(update)) = (texts, update.as_object_mut()) {
            let content = self.difference(path, texts.before.as_deref(), texts.now.as_deref());
            update.insert("content".to_owned(), json!(content.into_iter().collect::<Vec<_>>()));
        }
        update
    }

    /// Returns the difference of a file as content of a tool call.
    fn difference(&self, path: &str, before: Option<&str>, now: Option<&str>) -> Option<Value> {
        let path = self.absolute(path)?;
        Some(
            json!({"type": "diff", "path": path, "oldText": before, "newText": now.unwrap_or_default()}),
        )
    }

    fn location(&self, path: &str, line: Option<u32>) -> Vec<Value> {
        let location = |path| match line {
            Some(line) => json!({"path": path, "line": line}),
            None => json!({"path": path}),
        };
        self.absolute(path).map(location).into_iter().collect()
    }

    /// Returns the absolute path of a file of the repository; `None` for a path that leads elsewhere.
    fn absolute(&self, path: &str) -> Option<String> {
        let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        let whole = self.root.join(path);
        whole.to_str().filter(|_| plain && !path.is_empty()).map(str::to_owned)
    }

    /// Starts a tool call that ends later.
    fn start(&mut self, key: &str, kind: &str, title: &str) -> Value {
        let call = self.new_call();
        self.task.open.insert(key.to_owned(), call.clone());
        json!({"sessionUpdate": "tool_call", "toolCallId": call, "title": line(title, TITLE),
            "kind": kind, "status": "in_progress"})
    }

    fn finish(
        &mut self,
        key: &str,
        good: bool,
        title: Option<&str>,
        content: Vec<Value>,
    ) -> Option<Value> {
        let call = self.task.open.remove(key)?;
        let status = if good { "completed" } else { "failed" };
        let mut update =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status});
        if let Some(update) = update.as_object_mut() {
            if let Some(title) = title {
                update.insert("title".to_owned(), json!(line(title, TITLE)));
            }
            if !content.is_empty() {
                update.insert("content".to_owned(), json!(content));
            }
        }
        Some(update)
    }

    fn run_line(&mut self, text: &str) -> Vec<Value> {
        let mut updates = self.close("image ");
        if let Some(run) = &mut self.task.run {
            run.add(text);
            updates.push(run.update());
        }
        updates
    }

    fn verified(&mut self, run_id: &str, status: &str, event: &Value) -> Vec<Value> {
        let why = ["reason", "error_type"]
            .into_iter()
            .find_map(|key| event.get(key).and_then(Value::as_str));
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let output = self.task.run.take().map(|run| run.content()).into_iter().collect();
        let title = format!("Verify: {status}{why}, {run_id}");
        let update = self.finish(&format!("run {run_id}"), status == "PASS", Some(&title), output);
        update.into_iter().collect()
    }

    fn proposal(&mut self, event: &Value) -> Vec<Value> {
        let files = event.get("files").and_then(Value::as_array).into_iter().flatten();
        let paths: Vec<String> = files
            .filter_map(|file| file.get("path").and_then(Value::as_str).map(str::to_owned))
            .collect();
        let mut content: Vec<Value> = vec![];
        let mut bytes = 0;
        for (path, (before, now)) in &self.task.edited {
            bytes += [before, now]
                .iter()
                .filter_map(|text| text.as_ref())
                .map(|text| text.len())
                .sum::<usize>();
            if bytes <= PROPOSED_BYTES && paths.contains(path) {
                content.extend(self.difference(path, before.as_deref(), now.as_deref()));
            }
        }
        if content.len() < paths.len() {
            let diff = event.get("diff").and_then(Value::as_str).unwrap_or_default();
            content = vec![block(&fenced(head(diff, OUTPUT), "diff"))];
        }
        let is_stored = event.get("apply").is_some_and(Value::is_string);
        let call = self.new_call();
        let title = format!("Proposed changes of {} files", paths.len());
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": call, "title": title,
            "kind": "think", "status": "completed", "content": content});
        self.task.proposed = Some(Proposed { paths, is_stored, content });
        vec![update]
    }

    fn finished(&mut self, event: &Value) -> Vec<Value> {
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let state = text("state").unwrap_or_default();
        let mut updates = self.close("");
        if state == "SUCCESS" {
            self.task.plan.phase = Phase::Green;
            updates.extend(self.plan());
        }
        let mut said = String::new();
        if let Some(summary) = text("summary").map(str::trim).filter(|summary| !summary.is_empty())
        {
            said.push_str(&format!("{summary}\n\n"));
        }
        let reason = text("reason").filter(|reason| !reason.eq_ignore_ascii_case(state));
        let run = text("run_id");
        said.push_str(&format!("**{state}**"));
        said.push_str(&match (state, reason, run) {
            ("SUCCESS", _, Some(run)) => format!(": verified by `{run}`"),
            ("PROPOSED", ..) => ": nothing was verified".to_owned(),
            (_, Some(reason), Some(run)) => format!(": {reason}, last run `{run}`"),
            (_, Some(reason), None) => format!(": {reason}"),
            (_, None, Some(run)) => format!(": last run `{run}`"),
            (_, None, None) => String::new(),
        });
        let gate = event.get("gate_inputs_changed").and_then(Value::as_array).into_iter().flatten();
        let gate: Vec<_> = gate.filter_map(Value::as_str).map(|path| format!("`{path}`")).collect();
        if !gate.is_empty() {
            said.push_str(&format!(
                "\n\nChanged, and verification depends on it: {}",
                gate.join(", ")
            ));
        }
        if let Some(report) = text("report_path") {
            said.push_str(&format!("\n\nReport: `{report}`"));
        }
        self.task.ended =
            Some(Ended { state: state.to_owned(), reason: text("reason").map(str::to_owned) });
        updates.push(message(&said));
        updates
    }

    /// Ends every open tool call whose key begins like this. A run that has not ended by then has failed; the image of a run that
    /// begins was found.
    fn close(&mut self, prefix: &str) -> Vec<Value> {
        let keys = self.task.open.keys().filter(|key| key.starts_with(prefix));
        let keys: Vec<_> = keys.cloned().collect();
        let finished =
            keys.iter().filter_map(|key| self.finish(key, key.starts_with("image "), None, vec![]));
        finished.collect()
    }
}

impl Run {
    fn add(&mut self, text: &str) {
        self.output.push_str(text);
        // The text is cut when it is twice as long as what is shown, so that not every piece moves it.
        if self.output.len() > 2 * OUTPUT {
            self.output = tail(&self.output, OUTPUT).to_owned();
        }
    }

    fn content(&self) -> Value {
        block(&fenced(&terminal_text::block(tail(&self.output, OUTPUT)), ""))
    }

    fn update(&mut self) -> Value {
        self.sent = Some(Instant::now());
        json!({"sessionUpdate": "tool_call_update", "toolCallId": self.call, "content": [self.content()]})
    }
}

/// Returns the number of the first line that differs, from 1.
fn first_difference(texts: &EditedText) -> u32 {
    let lines = |text: &Option<Arc<str>>| text.clone().unwrap_or_default();
    let (before, now) = (lines(&texts.before), lines(&texts.now));
    let same = before.lines().zip(now.lines()).take_while(|(before, now)| before == now).count();
    u32::try_from(same).unwrap_or(u32::MAX).saturating_add(1)
}

fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most.min(text.len()))]
}

fn tail(text: &str, most: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(most))..]
}

/// Returns a text on one line of at most `most` bytes, with control characters as their codes. Editors read titles as Markdown,
/// too, so no image in it is an image.
pub(crate) fn line(text: &str, most: usize) -> String {
    let text = terminal_text::line(head(text, 2 * most)).replace("![", "!\\[");
    match text.len() > most {
        true => format!("{}…", head(&text, most)),
        false => text,
    }
}

/// Returns a text as a block of code that the text cannot end.
pub(crate) fn fenced(text: &str, language: &str) -> String {
    let mut longest = 0;
    let mut here = 0;
    for c in text.chars() {
        here = if c == '`' { here + 1 } else { 0 };
        longest = longest.max(here);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// Returns a text of Markdown within its bound, in which no image is an image: an editor would load it from an address that the
/// model chose.
fn markdown(text: &str) -> String {
    let text = terminal_text::block(text);
    let cut = if text.len() > MESSAGE { "\n\n(cut)" } else { "" };
    format!("{}{cut}", head(&text, MESSAGE)).replace("![", "!\\[")
}

/// Returns a text as content of a tool call.
pub(crate) fn block(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": markdown(text)}})
}

/// Returns a text as a message of the agent.
pub(crate) fn message(text: &str) -> Value {
    chunk("agent_message_chunk", &format!("{}\n\n", markdown(text)))
}

pub(crate) fn thought(text: &str) -> Value {
    chunk("agent_thought_chunk", &format!("{}\n\n", markdown(text)))
}

/// Returns the text of a task as the message of the person who gave it.
pub(crate) fn user_message(text: &str) -> Value {
    chunk("user_message_chunk", &markdown(text))
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}
