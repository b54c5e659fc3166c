//! The tools that the model may call: the host's own and those of components, in one list.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::plan::Plan;
use super::{AfterConversation, Aim, Editor, LastCall, Phase, Place, Session, phase_refusal};
use crate::context::Hypothesis;
use act_model::{ToolCall, ToolSpec};
use act_reports::failures::Log;

/// A tool that the model may call.
pub trait Tool: Send + Sync {
    /// The name, description and JSON Schema that the model gets.
    fn spec(&self) -> ToolSpec;

    /// Performs one call. `arguments` is JSON text as the model wrote it, not checked. A trap or a limit is an answer that
    /// the model can act on. The session is only read, so that several calls of tools that edit nothing run at once.
    fn call<'a>(&'a self, arguments: &'a str, session: &'a Session<'_>) -> BoxFuture<'a, Called>;

    /// Returns whether a call may change the repository. Such a call runs alone, needs a plan, and is answered with the
    /// difference that it made.
    fn may_edit(&self) -> bool {
        true
    }

    /// Returns whether answers fill the conversation with material. A full conversation refuses such calls.
    fn adds_material(&self) -> bool {
        true
    }
}

/// The result of a call of a tool.
#[derive(Debug)]
pub enum Called {
    Answer(Answer),
    /// A question to a Scout, which the loop puts together with the others of the turn.
    Question(AskScout),
    /// The call asks for something that changes the state of the task, which is for the loop to do.
    Request(Request),
}

impl From<Answer> for Called {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl From<Result<Request, Answer>> for Called {
    fn from(request: Result<Request, Answer>) -> Self {
        request.map_or_else(Self::Answer, Self::Request)
    }
}

/// A call of one of the host's tools, with arguments that were parsed.
#[derive(Debug)]
pub enum Request {
    Plan(Plan),
    ReadLog(ReadLog),
    Check(CheckCall),
    Verify,
    Done(Account),
}

impl Request {
    /// Returns whether the answer depends on the tree being as the model means it.
    pub(super) fn judges_the_tree(&self) -> bool {
        match self {
            Self::Plan(_) | Self::ReadLog(_) => false,
            Self::Check(_) | Self::Verify => true,
            Self::Done(account) => account.outcome != DoneOutcome::Impossible,
        }
    }
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum ToolOutput {
    Answer(Answer),
    /// The conversation ends.
    End(AfterConversation),
}

impl From<Answer> for ToolOutput {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// The answer of a tool, as text for the model. An error begins with a stable word of `specs/` and `: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub is_error: bool,
}

/// Maximum number of bytes of a stable word at the beginning of an error.
const WORD: usize = 40;

impl Answer {
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    /// The answer of a component. Its text reaches the model unchanged, except that an error without a stable word of its own
    /// gets `tool_failed`.
    pub fn from_component(text: String, is_error: bool) -> Self {
        match is_error && stable_word(&text).is_none() {
            true => Self::refusal("tool_failed", &text),
            false => Self { text, is_error },
        }
    }

    /// A refusal that the model can act on. `reason` is one of the stable words of `specs/`.
    pub fn refusal(reason: &str, message: &str) -> Self {
        Self { text: format!("{reason}: {message}"), is_error: true }
    }
}

/// Returns the stable word at the beginning of an error, or `None` when the text begins otherwise.
fn stable_word(text: &str) -> Option<&str> {
    let (word, _) = text.split_once(": ")?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (!word.is_empty() && word.len() <= WORD && word.chars().all(fits)).then_some(word)
}

/// The tools of a conversation, always in the same order: the host's, then those of components.
pub(super) struct Tools(Vec<Arc<dyn Tool>>);

impl Tools {
    pub(super) fn of(editor: &Editor) -> Self {
        let scouts: Vec<_> = editor.scouts.iter().map(|one| (one.name(), one.about())).collect();
        let mut tools = host_tools(&scouts);
        tools.extend(editor.tools.iter().cloned());
        Self(tools)
    }

    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        self.0.iter().map(|tool| tool.spec()).collect()
    }

    /// Returns the place of a call of this tool among the calls of its turn.
    pub(super) fn place(&self, name: &str) -> Place {
        let tool = self.0.iter().find(|tool| tool.spec().name == name);
        match (LastCall::of(name), tool) {
            (Some(last), Some(_)) => Place::Last(last),
            (_, Some(tool)) if !tool.may_edit() => Place::Beside,
            _ => Place::Alone,
        }
    }

    /// Returns the tool of this name, or the refusal of a call that is not possible in this phase.
    pub(super) fn find(&self, aim: Aim, phase: Phase, name: &str) -> Result<&dyn Tool, Answer> {
        let Some(tool) = self.0.iter().find(|tool| tool.spec().name == name) else {
            return Err(Answer::refusal("unknown_tool", &format!("there is no tool {name}")));
        };
        match phase_refusal(aim, phase, name, tool.may_edit()) {
            None => Ok(tool.as_ref()),
            Some(refusal) => Err(Answer::refusal(refusal.reason(), refusal.hint())),
        }
    }
}

/// The names of the Scouts, each with its author's description unless it is Scout A or B.
type ScoutNames<'a> = [(&'a str, Option<&'a str>)];

/// The tools of the host. To add one, add it to this list; the phases in which it may be called are in `phase_refusal`,
/// and the calls that run at the end of a turn in `place`.
fn host_tools(scouts: &ScoutNames<'_>) -> Vec<Arc<dyn Tool>> {
    let others = others(scouts);
    vec![
        Arc::new(HostTool {
            spec: plan_spec(scouts, &others),
            adds_material: false,
            call: |arguments, _| Called::from(parse(arguments).map(Request::Plan)),
        }),
        Arc::new(HostTool {
            spec: ask_scout_spec(scouts, &others),
            adds_material: true,
            call: |arguments, _| parse(arguments).map_or_else(Called::Answer, Called::Question),
        }),
        Arc::new(HostTool {
            spec: spec(
                "check",
                "Run one command, such as one test, in a container without network, at most 60 s.",
                object(&["command"], json!({"command": described("for `/bin/sh -c`")})),
            ),
            adds_material: true,
            call: |arguments, _| Called::from(parse(arguments).map(Request::Check)),
        }),
        Arc::new(HostTool {
            spec: spec(
                "verify",
                "Run the steps on the tree. If changes were too long to be shown with their edits, the first call shows \
                 the rest and runs nothing.",
                object(&[], json!({})),
            ),
            adds_material: false,
            call: |arguments, _| {
                Called::from(parse(arguments).map(|NoArguments {}| Request::Verify))
            },
        }),
        Arc::new(HostTool {
            spec: read_log_spec(),
            adds_material: true,
            call: |arguments, _| Called::from(parse(arguments).map(Request::ReadLog)),
        }),
        Arc::new(HostTool {
            spec: done_spec(),
            adds_material: false,
            call: |arguments, _| Called::from(parse(arguments).map(Request::Done)),
        }),
    ]
}

/// A tool of the host. None of them edits the repository.
struct HostTool {
    spec: ToolSpec,
    adds_material: bool,
    call: for<'a> fn(&'a str, &'a Session<'_>) -> Called,
}

impl Tool for HostTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call<'a>(&'a self, arguments: &'a str, session: &'a Session<'_>) -> BoxFuture<'a, Called> {
        async move { (self.call)(arguments, session) }.boxed()
    }

    fn may_edit(&self) -> bool {
        false
    }

    fn adds_material(&self) -> bool {
        self.adds_material
    }
}

/// Characters of a Scout's description of itself that are shown.
const ABOUT: usize = 200;

/// A sentence for each Scout beside A and B, from its description.
fn others(scouts: &ScoutNames<'_>) -> String {
    let one = |(name, about): &(&str, Option<&str>)| {
        Some(format!(" Also {name}: {}", one_line((*about)?)))
    };
    scouts.iter().filter_map(one).collect()
}

fn one_line(about: &str) -> String {
    about.chars().map(|c| if c.is_control() { ' ' } else { c }).take(ABOUT).collect()
}

fn spec(name: &str, description: &str, parameters: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: parameters.to_string(),
    }
}

/// A JSON Schema of arguments. It does not forbid unknown fields, which the parser refuses by name, because each request
/// carries every schema.
fn object(required: &[&str], properties: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn text() -> Value {
    json!({"type": "string"})
}

fn described(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn texts(description: &str) -> Value {
    json!({"type": "array", "items": text(), "description": description})
}

/// Parses arguments; a model may leave out those of a tool without any.
fn parse<T: DeserializeOwned>(arguments: &str) -> Result<T, Answer> {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    serde_json::from_str(arguments)
        .map_err(|error| Answer::refusal("bad_arguments", &error.to_string()))
}

/// The paths of the repository that the arguments of a call name, at most 64.
pub(super) fn paths_of(arguments: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Named {
        path: Option<String>,
        from: Option<String>,
        to: Option<String>,
        #[serde(default)]
        files: Vec<OneFile>,
    }
    #[derive(Deserialize)]
    struct OneFile {
        path: String,
    }
    let Ok(named) = serde_json::from_str::<Named>(arguments) else { return vec![] };
    let files = named.files.into_iter().map(|file| file.path);
    [named.path, named.from, named.to].into_iter().flatten().chain(files).take(64).collect()
}

fn plan_spec(scouts: &ScoutNames<'_>, others: &str) -> ToolSpec {
    let questions: serde_json::Map<String, Value> = scouts
        .iter()
        .map(|(name, about)| {
            let about = match (*name, about) {
                ("scout-a", _) => "about the code".to_owned(),
                ("scout-b", _) => "about build, tests and failures".to_owned(),
                (_, Some(about)) => one_line(about),
                (name, None) => format!("A question for {name}."),
            };
            ((*name).to_owned(), described(&about))
        })
        .collect();
    let mut questions = object(&[], questions.into());
    questions["description"] = "Each costs a conversation.".into();
    let description = format!(
        "State goal and way, before the first edit. A later plan adds to the earlier ones.{others}"
    );
    // The fields of nested items are named in one sentence; the parser names a missing one.
    let items = |description: &str| json!({"type": "array", "items": {"type": "object"}, "description": description});
    let properties = json!({
        "criteria": texts("What must hold at the end, each to be checked."),
        "acceptance": texts("Tests and steps that show it."),
        "non_goals": texts("What stays as it is."),
        "strategy": described("Cause or design, files, tests. The same words keep it."),
        "learned": described("What failed attempts have shown."),
        "assumptions": texts("What you take for granted; the user reads it."),
        "drop": items("Items of earlier plans that no longer hold: {criterion, reason}."),
        "questions": questions,
        "decisions": items("Where Scouts disagree: {about, scout_a, scout_b, chosen, reason}."),
    });
    spec("plan", &description, object(&["criteria", "acceptance", "strategy"], properties))
}

/// A question to one Scout.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskScout {
    pub(super) scout: String,
    pub(super) question: String,
}

fn ask_scout_spec(scouts: &ScoutNames<'_>, others: &str) -> ToolSpec {
    let names: Vec<_> = scouts.iter().map(|(name, _)| name).collect();
    let scout = json!({
        "type": "string", "enum": names,
        "description": "a: the code; b: build, tests, failures",
    });
    let question = described("A failed run's log goes along.");
    spec(
        "ask_scout",
        &format!("Ask a read-only helper where you would otherwise read a lot.{others}"),
        object(&["scout", "question"], json!({"scout": scout, "question": question})),
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// A part of the log of a run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadLog {
    pub(super) run_id: String,
    #[serde(default)]
    pub(super) step: Option<String>,
    #[serde(default)]
    pub(super) pattern: Option<String>,
    #[serde(default)]
    pub(super) start: Option<usize>,
    #[serde(default)]
    pub(super) lines: Option<usize>,
}

fn read_log_spec() -> ToolSpec {
    let number = |description: &str| json!({"type": "integer", "description": description});
    spec(
        "read_log",
        "Show lines of a run's log: the last, those from `start`, or those that match.",
        object(
            &["run_id"],
            json!({
                "run_id": described("a run of this task"),
                "step": described("one step; none: all steps"),
                "pattern": described("regular expression"),
                "start": number("first line"),
                "lines": number("150 if not given, up to 1000"),
            }),
        ),
    )
}

/// The arguments of `check`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckCall {
    pub(super) command: String,
}

/// The model's account of a task that it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    #[serde(default)]
    pub(super) what: String,
    /// `reason` is the word of the specification for the account of an impossible task.
    #[serde(default, alias = "reason")]
    pub(super) why: String,
    #[serde(default)]
    pub(super) tests: Option<String>,
    /// Accounts of version 0.1.0 have no outcome: each ended a task with changes.
    #[serde(default)]
    pub(super) outcome: DoneOutcome,
}

impl Account {
    /// Returns the account with what it leaves out as an earlier one said it. Why a task is impossible is a reason of its own.
    pub(super) fn completed(self, earlier: Option<&Self>) -> Self {
        let is_possible = |account: &&Self| account.outcome != DoneOutcome::Impossible;
        let Some(earlier) = earlier.filter(is_possible).filter(|_| is_possible(&&self)) else {
            return self;
        };
        let or = |text: String, earlier: &String| match text.trim().is_empty() {
            true => earlier.clone(),
            false => text,
        };
        Self {
            what: or(self.what, &earlier.what),
            why: or(self.why, &earlier.why),
            tests: self.tests.or_else(|| earlier.tests.clone()),
            outcome: self.outcome,
        }
    }

    /// Returns why the account says too little, or `None` when it can be used. An impossible task has changed nothing that
    /// `what` could name.
    pub(super) fn refusal(&self) -> Option<Answer> {
        let message = match self.outcome {
            DoneOutcome::Impossible if self.why.trim().is_empty() => {
                "why must say what makes the task impossible"
            }
            DoneOutcome::Impossible => return None,
            _ if self.what.trim().is_empty() || self.why.trim().is_empty() => {
                "what and why must not be empty"
            }
            _ => return None,
        };
        Some(Answer::refusal("bad_arguments", message))
    }
}

/// How the model ends a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DoneOutcome {
    /// The changes of the task are green.
    #[default]
    Changed,
    /// The tree needed no change.
    NothingToDo,
    /// The task cannot be done.
    Impossible,
}

fn done_spec() -> ToolSpec {
    let outcome = json!({
        "type": "string", "enum": ["changed", "nothing_to_do", "impossible"],
        "description": "nothing_to_do: it is done already, and no file is changed. impossible: it cannot be done as \
            asked; look first.",
    });
    let properties = json!({
        "what": described("What you changed or found."),
        "why": described("Why that solves the task; else the facts, with files and lines."),
        "tests": described("Tests added, or why none; changed ones, and why."),
        "outcome": outcome,
    });
    spec(
        "done",
        "End the task. Runs `verify` first; only green ends it. Later calls may leave fields out.",
        object(&[], properties),
    )
}

impl Session<'_> {
    /// Runs that the model may name: this task's, and those of the report that it began with.
    pub(super) fn known_runs(&self) -> Vec<&str> {
        let earlier = self.editor.input.stuck_report.iter().flat_map(|report| &report.run_ids);
        let own = self.plans.runs().iter().filter_map(|run| run.run_id.as_deref());
        let baseline = self.baseline.iter().filter_map(|baseline| baseline.run_id());
        own.chain(baseline).chain(earlier.map(String::as_str)).collect()
    }

    /// Answers `read_log`. A log may be long, so that it is read beside the loop.
    pub(super) async fn read_log(&self, wanted: ReadLog) -> Answer {
        if !self.known_runs().contains(&wanted.run_id.as_str()) {
            return Answer::refusal("not_found", "no run of this task has that run_id");
        }
        let pattern = match wanted.pattern.as_deref().map(log_pattern).transpose() {
            Ok(pattern) => pattern,
            Err(error) => return Answer::refusal("bad_arguments", &format!("pattern: {error}")),
        };
        let workplace = Arc::clone(&self.editor.workplace);
        let read = tokio::task::spawn_blocking(move || {
            let log =
                workplace.log(&wanted.run_id, wanted.step.as_deref(), wanted.start.unwrap_or(1));
            log.map(|log| part_of_log(&log, &wanted, pattern.as_ref()))
        });
        match read.await.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped))) {
            Ok(part) => Answer::ok(part),
            Err(error) => Answer::refusal("not_found", &error.to_string()),
        }
    }
}

/// Bytes of an answer of `read_log`, about 3,000 tokens.
const PART: usize = 12 * 1024;
/// Bytes of one line in it.
const LOG_LINE: usize = 600;
/// Lines of an answer unless the model asks for more or fewer, and the most that it may ask for.
const LOG_LINES: usize = 150;
const MOST_LOG_LINES: usize = 1000;

/// Compiles a pattern of the model within bounds of memory.
fn log_pattern(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(256 * 1024).dfa_size_limit(1024 * 1024).build()
}

/// Returns a part of a log under a line that says which. The log begins at the line that was asked for.
fn part_of_log(log: &Log, wanted: &ReadLog, pattern: Option<&Regex>) -> String {
    let most = wanted.lines.unwrap_or(LOG_LINES).clamp(1, MOST_LOG_LINES);
    let readable = log.contiguous();
    let from = match (wanted.start, pattern) {
        // Without a place, the end.
        (None, None) => log.len().saturating_sub(most),
        _ => 0,
    };
    let until = if wanted.start.is_some() || pattern.is_some() { readable } else { log.len() };
    let fits = |line: &str| pattern.is_none_or(|pattern| pattern.is_match(line));
    let mut rows: Vec<String> = vec![];
    let (mut size, mut next) = (0, None);
    let mut shown: Option<(usize, usize)> = None;
    for at in from..until {
        let line = log.line(at);
        if !fits(line) {
            continue;
        }
        let cut = line.floor_char_boundary(LOG_LINE.min(line.len()));
        let more = if cut < line.len() { "…" } else { "" };
        let row = format!("{}| {}{more}", log.number(at), &line[..cut]);
        size += row.len() + 1;
        if rows.len() == most || (size > PART && !rows.is_empty()) {
            next = Some(log.number(at));
            break;
        }
        shown = Some((shown.map_or(log.number(at), |(first, _)| first), log.number(at)));
        rows.push(row);
    }
    if next.is_none() && until < log.len() {
        next = Some(log.number(until - 1) + 1);
    }
    let step = wanted.step.iter().map(|step| format!(" · step {step}")).collect::<String>();
    let total = log.total();
    let what = match (shown, pattern) {
        (None, Some(_)) => "no line matches".to_owned(),
        (None, None) if total == 0 => "the log is empty".to_owned(),
        (None, None) => format!("the log has {total} lines"),
        (Some((first, last)), Some(_)) => {
            format!("{} matching lines between {first} and {last} of {total}", rows.len())
        }
        (Some((first, last)), None) => format!("lines {first}-{last} of {total}"),
    };
    let mut text = format!("{}{step} · {what}\n{}", wanted.run_id, rows.join("\n"));
    if let Some(next) = next {
        text.push_str(&format!("\n… go on with start {next}"));
    } else if from > 0 {
        text.push_str("\n… earlier lines: take start, or a pattern");
    }
    text.trim_end().to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hypotheses {
    items: Vec<Hypothesis>,
}

/// Parses a call of the only tool at a hard stop.
pub(super) fn read_hypotheses(call: &ToolCall) -> Result<Vec<Hypothesis>, String> {
    if call.name != "hypotheses" {
        return Err(format!("{} is no tool here", call.name));
    }
    serde_json::from_str::<Hypotheses>(&call.arguments)
        .map(|all| all.items)
        .map_err(|error| error.to_string())
}

/// The only tool at a hard stop.
pub(super) fn hypotheses_tool() -> ToolSpec {
    spec(
        "hypotheses",
        "At least three theories why every attempt failed, each with a run_id of the list and the step, \
         file or line that speaks for it.",
        json!({"type": "object", "required": ["items"], "properties": {"items": {"type": "array",
            "minItems": 3, "items": {"type": "object", "required": ["text", "run_id", "evidence"],
            "properties": {"text": text(), "run_id": text(), "evidence": text()}}}}}),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SCOUTS: [(&str, Option<&str>); 3] =
        [("scout-a", None), ("scout-b", None), ("license", Some("Finds\nlicences."))];

    /// Security line 151: arguments that are no JSON, of the wrong type, missing or too many are refused.
    #[test]
    fn arguments_that_do_not_fit_are_refused_with_their_place() {
        let refusals = [
            parse::<Plan>("not json").unwrap_err(),
            parse::<Plan>(r#"{"criteria":["a"],"acceptance":[]}"#).unwrap_err(),
            parse::<Plan>(r#"{"criteria":[],"acceptance":[],"strategy":"x","questions":["a"]}"#)
                .unwrap_err(),
            parse::<AskScout>(r#"{"scout":1,"question":"x"}"#).unwrap_err(),
            parse::<ReadLog>(r#"{"run_id":"x","steps":"test"}"#).unwrap_err(),
            parse::<ReadLog>(r#"{"run_id":"x","start":-1}"#).unwrap_err(),
            parse::<Account>("7").unwrap_err(),
        ];
        for refusal in refusals {
            assert!(refusal.is_error && refusal.text.starts_with("bad_arguments: "), "{refusal:?}");
            assert!(refusal.text.contains("line 1"), "{refusal:?}");
        }
    }

    /// EDITOR-25
    #[test]
    fn any_part_of_a_log_is_within_reach() {
        let text: String = (1..=400).map(|n| format!("line {n}\n")).collect();
        let part = |arguments: &str| {
            let wanted: ReadLog = parse(arguments).unwrap();
            let pattern = wanted.pattern.as_deref().map(|pattern| log_pattern(pattern).unwrap());
            let mut reader =
                act_reports::failures::LogReader::starting_at(wanted.start.unwrap_or(1));
            reader.push(text.as_bytes());
            part_of_log(&reader.finish(), &wanted, pattern.as_ref())
        };
        let end = part(r#"{"run_id":"r"}"#);
        assert!(end.starts_with("r · lines 251-400 of 400\n251| line 251\n"), "{end}");
        assert!(end.ends_with("400| line 400\n… earlier lines: take start, or a pattern"), "{end}");
        let some = part(r#"{"run_id":"r","step":"test","start":10,"lines":2}"#);
        assert_eq!(
            some,
            "r · step test · lines 10-11 of 400\n10| line 10\n11| line 11\n… go on with start 12"
        );
        let found = part(r#"{"run_id":"r","pattern":"9{2}$","lines":3}"#);
        assert_eq!(
            found,
            "r · 3 matching lines between 99 and 299 of 400\n99| line 99\n199| line 199\n299| line 299\n… go on with start 399"
        );
        assert_eq!(part(r#"{"run_id":"r","pattern":"x"}"#), "r · no line matches");
        assert_eq!(part(r#"{"run_id":"r","start":500}"#), "r · the log has 400 lines");
        assert!(log_pattern("(").is_err() && log_pattern("\\w{500}{500}").is_err());
    }

    #[test]
    fn a_call_without_arguments_is_an_empty_object() {
        assert!(parse::<BTreeMap<String, String>>("").unwrap().is_empty());
        assert!(parse::<BTreeMap<String, String>>(" {} ").unwrap().is_empty());
    }

    /// CAPABILITY-28
    #[test]
    fn a_scout_that_was_added_is_named_where_scouts_are_asked() {
        let specs: Vec<_> = host_tools(&SCOUTS).iter().map(|tool| tool.spec()).collect();
        for name in ["plan", "ask_scout"] {
            let tool = specs.iter().find(|tool| tool.name == name).unwrap();
            assert!(tool.description.ends_with(" Also license: Finds licences."), "{tool:?}");
            assert!(tool.parameters.contains(r#""license""#), "{tool:?}");
        }
    }

    /// EDITOR-74: schemas are sent with each request, so they are short, and nothing in them is missing.
    #[test]
    fn the_hosts_tools_are_described_in_few_bytes() {
        fn assert_described(tool: &str, schema: &Value) {
            for (name, parameter) in schema["properties"].as_object().unwrap() {
                assert!(parameter["description"].is_string(), "{tool}: {name}");
                for inner in [parameter, &parameter["items"]] {
                    if inner["properties"].is_object() {
                        assert_described(tool, inner);
                    }
                }
            }
        }
        let mut bytes = 0;
        for tool in host_tools(&SCOUTS[..2]) {
            let ToolSpec { name, description, parameters } = tool.spec();
            bytes += name.len() + description.len() + parameters.len();
            assert_described(&name, &serde_json::from_str(&parameters).unwrap());
        }
        assert!(bytes <= 3_000, "{bytes} bytes of every request");
    }

    /// The schema that the model gets and the parser agree.
    #[test]
    fn a_plan_that_fits_its_schema_is_parsed() {
        let tool = &host_tools(&SCOUTS)[0];
        let schema: Value = serde_json::from_str(&tool.spec().parameters).unwrap();
        let valid = jsonschema::validator_for(&schema).unwrap();
        let decision =
            json!({"about": "a", "scout_a": "b", "scout_b": "c", "chosen": "d", "reason": "e"});
        let plan = json!({"criteria": ["a"], "acceptance": [], "non_goals": [], "strategy": "x",
            "questions": {"scout-a": "q"}, "decisions": [decision]});
        assert!(valid.is_valid(&plan));
        parse::<Plan>(&plan.to_string()).unwrap();
        let mut unknown = plan.clone();
        unknown["more"] = json!(1);
        let mut short = plan.clone();
        short["decisions"] = json!([{"about": "a"}]);
        for wrong in [unknown, short] {
            assert!(parse::<Plan>(&wrong.to_string()).is_err(), "{wrong}");
        }
        for (field, value) in [
            ("questions", json!({"scout-a": 1})),
            ("questions", json!(["q"])),
            ("decisions", json!(["a"])),
            ("drop", json!("a")),
        ] {
            let mut wrong = plan.clone();
            wrong[field] = value;
            assert!(!valid.is_valid(&wrong), "{wrong}");
            assert!(parse::<Plan>(&wrong.to_string()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_component_says_reaches_the_model_as_it_is() {
        // CAPABILITY-29
        let answer = |text: &str, is_error| Answer::from_component(text.to_owned(), is_error).text;
        for text in ["no notes", "", "a: b", r#"{ "ok": true, "x": [1] }"#] {
            assert_eq!(answer(text, false), text);
        }
        assert_eq!(answer("not_found: no such issue", true), "not_found: no such issue");
        let long = format!("{}: x", "a".repeat(WORD + 1));
        for text in ["no such file", "", ": x", "Error: x", "two words: x", "word:x", &long] {
            assert_eq!(answer(text, true), format!("tool_failed: {text}"));
        }
    }
}
