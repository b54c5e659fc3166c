//! The tools that the model may call: the host's own and those of components, in one list.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::plan::Plan;
use super::{AfterConversation, Aim, Editor, OrEnd, Phase, Session, phase_refusal};
use crate::context::Hypothesis;
use act_model::{ToolCall, ToolSpec};

/// A tool that the model may call.
pub trait Tool: Send + Sync {
    /// The name, description and JSON Schema that the model gets.
    fn spec(&self) -> ToolSpec;

    /// Performs one call. `arguments` is JSON text as the model wrote it, not checked. A trap or a limit is an answer that
    /// the model can act on.
    ///
    /// # Errors
    ///
    /// The result of the task, when the call ends the whole task.
    fn call<'a>(
        &'a self,
        arguments: &'a str,
        session: &'a mut Session<'_>,
    ) -> BoxFuture<'a, OrEnd<ToolOutput>>;

    /// Returns whether a call may change the repository, so that the model gets the difference.
    fn may_edit(&self) -> bool {
        true
    }

    /// Returns whether answers fill the conversation with material. A full conversation refuses such calls.
    fn adds_material(&self) -> bool {
        true
    }
}

/// The result of a call.
#[derive(Debug)]
pub enum ToolOutput {
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

    /// Returns the tool of this name, or the refusal of a call that is not possible in this phase.
    pub(super) fn find(&self, aim: Aim, phase: Phase, name: &str) -> Result<&dyn Tool, Answer> {
        let Some(tool) = self.0.iter().find(|tool| tool.spec().name == name) else {
            return Err(Answer::refusal("unknown_tool", &format!("there is no tool {name}")));
        };
        match phase_refusal(aim, phase, name) {
            None => Ok(tool.as_ref()),
            Some(refusal) => Err(Answer::refusal(refusal.reason(), refusal.hint())),
        }
    }
}

/// The names of the Scouts, each with its author's description unless it is Scout A or B.
type ScoutNames<'a> = [(&'a str, Option<&'a str>)];

/// The tools of the host. To add one, add it to this list; the phases in which it may be called are in `phase_refusal`.
fn host_tools(scouts: &ScoutNames<'_>) -> Vec<Arc<dyn Tool>> {
    let others = others(scouts);
    vec![
        Arc::new(HostTool {
            spec: plan_spec(scouts, &others),
            adds_material: false,
            call: |arguments, session| plan(arguments, session).boxed(),
        }),
        Arc::new(HostTool {
            spec: ask_scout_spec(scouts, &others),
            adds_material: true,
            call: |arguments, session| ask_scout(arguments, session).boxed(),
        }),
        Arc::new(HostTool {
            spec: spec("verify", "Run the whole pipeline.", object(&[], json!({}))),
            adds_material: false,
            call: |arguments, session| verify(arguments, session).boxed(),
        }),
        Arc::new(HostTool {
            spec: spec(
                "read_log",
                "Log of a run or of one step.",
                object(&["run_id"], json!({"run_id": text(), "step": text()})),
            ),
            adds_material: true,
            call: |arguments, session| read_log(arguments, session).boxed(),
        }),
        Arc::new(HostTool {
            spec: spec(
                "done",
                "After a green verify: what changed, why, tests added or why none. Plain sentences; no commit \
                 message, no text for a pull request.",
                object(&["what", "why"], json!({"what": text(), "why": text(), "tests": text()})),
            ),
            adds_material: false,
            call: |arguments, session| done(arguments, session).boxed(),
        }),
    ]
}

/// A tool of the host. None of them edits the repository.
struct HostTool {
    spec: ToolSpec,
    adds_material: bool,
    call: for<'a> fn(&'a str, &'a mut Session<'_>) -> BoxFuture<'a, OrEnd<ToolOutput>>,
}

impl Tool for HostTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call<'a>(
        &'a self,
        arguments: &'a str,
        session: &'a mut Session<'_>,
    ) -> BoxFuture<'a, OrEnd<ToolOutput>> {
        (self.call)(arguments, session)
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
        let about: String =
            (*about)?.chars().map(|c| if c.is_control() { ' ' } else { c }).take(ABOUT).collect();
        Some(format!(" Also {name}: {about}"))
    };
    scouts.iter().filter_map(one).collect()
}

fn spec(name: &str, description: &str, parameters: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: parameters.to_string(),
    }
}

/// A JSON Schema of arguments. Unknown fields are refused, as by the parser.
fn object(required: &[&str], properties: Value) -> Value {
    let mut schema =
        json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn text() -> Value {
    json!({"type": "string"})
}

/// Parses arguments; a model may leave out those of a tool without any.
fn parse<T: DeserializeOwned>(arguments: &str) -> Result<T, Answer> {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    serde_json::from_str(arguments)
        .map_err(|error| Answer::refusal("bad_arguments", &error.to_string()))
}

fn plan_spec(scouts: &ScoutNames<'_>, others: &str) -> ToolSpec {
    let texts = json!({"type": "array", "items": text()});
    let questions: serde_json::Map<String, Value> =
        scouts.iter().map(|(name, _)| ((*name).to_owned(), text())).collect();
    let decision = object(
        &["about", "scout_a", "scout_b", "chosen", "reason"],
        json!({"about": text(), "scout_a": text(), "scout_b": text(), "chosen": text(), "reason": text()}),
    );
    let description = format!(
        "First call. `questions` maps scout-a (code map) or scout-b (build, tests) to a question. `decisions` \
         settles what the Scouts disagree about.{others}"
    );
    let properties = json!({
        "criteria": texts, "acceptance": texts, "non_goals": texts, "strategy": text(),
        "questions": object(&[], questions.into()),
        "decisions": {"type": "array", "items": decision},
    });
    spec("plan", &description, object(&["criteria", "acceptance", "strategy"], properties))
}

async fn plan(arguments: &str, session: &mut Session<'_>) -> OrEnd<ToolOutput> {
    match parse::<Plan>(arguments) {
        Ok(plan) => session.adopt(plan).await.map(ToolOutput::Answer),
        Err(refusal) => Ok(refusal.into()),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskScout {
    pub scout: String,
    pub question: String,
}

fn ask_scout_spec(scouts: &ScoutNames<'_>, others: &str) -> ToolSpec {
    let names: Vec<_> = scouts.iter().map(|(name, _)| name).collect();
    let scout = json!({"type": "string", "enum": names});
    spec(
        "ask_scout",
        &format!("Ask a Scout about the code or a failure.{others}"),
        object(&["scout", "question"], json!({"scout": scout, "question": text()})),
    )
}

async fn ask_scout(arguments: &str, session: &mut Session<'_>) -> OrEnd<ToolOutput> {
    match parse::<AskScout>(arguments) {
        Ok(ask) => session.ask_scout(ask).await.map(ToolOutput::Answer),
        Err(refusal) => Ok(refusal.into()),
    }
}

async fn verify(arguments: &str, session: &mut Session<'_>) -> OrEnd<ToolOutput> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoArguments {}
    match parse::<NoArguments>(arguments) {
        Ok(NoArguments {}) => session.verify().await,
        Err(refusal) => Ok(refusal.into()),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadLog {
    run_id: String,
    #[serde(default)]
    step: Option<String>,
}

async fn read_log(arguments: &str, session: &mut Session<'_>) -> OrEnd<ToolOutput> {
    let answer = match parse::<ReadLog>(arguments) {
        Ok(wanted) => session.log(&wanted.run_id, wanted.step.as_deref()),
        Err(refusal) => refusal,
    };
    Ok(answer.into())
}

/// The model's account of a finished task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    pub(super) what: String,
    pub(super) why: String,
    #[serde(default)]
    pub(super) tests: Option<String>,
}

async fn done(arguments: &str, session: &mut Session<'_>) -> OrEnd<ToolOutput> {
    let done = match parse::<Account>(arguments) {
        Ok(done) => done,
        Err(refusal) => return Ok(refusal.into()),
    };
    if done.what.trim().is_empty() || done.why.trim().is_empty() {
        let message = "what and why must not be empty";
        return Ok(Answer::refusal("bad_arguments", message).into());
    }
    match session.names_foreign_run(&done) {
        Some(refusal) => Ok(refusal.into()),
        None => session.done(done).await,
    }
}

impl Session<'_> {
    /// Runs that the model may name: this task's, and those of the report that it began with.
    pub(super) fn known_runs(&self) -> Vec<&str> {
        let earlier = self.editor.input.stuck_report.iter().flat_map(|report| &report.run_ids);
        let own = self.verified.iter().filter_map(|run| run.run_id.as_deref());
        let baseline = self.baseline.iter().filter_map(|baseline| baseline.run_id());
        own.chain(baseline).chain(earlier.map(String::as_str)).collect()
    }

    fn log(&self, run_id: &str, step: Option<&str>) -> Answer {
        if !self.known_runs().contains(&run_id) {
            return Answer::refusal("not_found", "no run of this task has that run_id");
        }
        match self.editor.workplace.read_log(run_id, step) {
            Ok(log) => Answer::ok(format!("log of {run_id}\n{log}")),
            Err(error) => Answer::refusal("not_found", &error.to_string()),
        }
    }
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
            parse::<Account>("7").unwrap_err(),
        ];
        for refusal in refusals {
            assert!(refusal.is_error && refusal.text.starts_with("bad_arguments: "), "{refusal:?}");
            assert!(refusal.text.contains("line 1"), "{refusal:?}");
        }
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
        for (field, value) in [
            ("more", json!(1)),
            ("questions", json!({"scout-a": 1})),
            ("questions", json!(["q"])),
            ("decisions", json!([{"about": "a"}])),
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
