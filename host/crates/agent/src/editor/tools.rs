//! The host's own tools of the Editor's conversation: what the model is offered and what it asked for.
//!
//! File tools come from the tool component; these five (and `hypotheses` at a hard stop) are answered by
//! the session itself. Descriptions reach the model with every request: short on purpose.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::decisions::Decision;
use crate::context::Hypothesis;
use act_model::{ToolCall, ToolSpec};

/// What the model wants to do, as it wrote it down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    pub criteria: Vec<String>,
    pub acceptance: Vec<String>,
    #[serde(default)]
    pub non_goals: Vec<String>,
    pub strategy: String,
    #[serde(default)]
    pub questions: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
}

/// What the plans of a task want to be measured by. A later plan adds to it and takes nothing away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Goals {
    pub criteria: Vec<String>,
    pub acceptance: Vec<String>,
    pub non_goals: Vec<String>,
}

impl Goals {
    pub(super) fn keep(&mut self, plan: &Plan) {
        for (kept, new) in [
            (&mut self.criteria, &plan.criteria),
            (&mut self.acceptance, &plan.acceptance),
            (&mut self.non_goals, &plan.non_goals),
        ] {
            let fresh: Vec<_> = new.iter().filter(|item| !kept.contains(item)).cloned().collect();
            kept.extend(fresh);
        }
    }
}

/// The model's own account of a finished task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    pub what: String,
    pub why: String,
    #[serde(default)]
    pub tests: Option<String>,
}

impl Done {
    fn is_empty(&self) -> bool {
        self.what.trim().is_empty() || self.why.trim().is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskScout {
    pub scout: String,
    pub question: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadLog {
    pub run_id: String,
    #[serde(default)]
    pub step: Option<String>,
}

/// One call of the model, sorted by who answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    Plan(Plan),
    AskScout(AskScout),
    Verify,
    ReadLog(ReadLog),
    Done(Done),
    /// A tool of a component, arguments unread.
    Component,
    /// Arguments that do not fit; says where.
    BadArguments(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

pub(super) fn read_call(call: &ToolCall) -> Call {
    match call.name.as_str() {
        "plan" => read(call, Call::Plan),
        "ask_scout" => read(call, Call::AskScout),
        "verify" => read(call, |Nothing {}| Call::Verify),
        "read_log" => read(call, Call::ReadLog),
        "done" => read(call, |done: Done| match done.is_empty() {
            true => Call::BadArguments("what and why must not be empty".to_owned()),
            false => Call::Done(done),
        }),
        _ => Call::Component,
    }
}

fn read<'a, T: Deserialize<'a>>(call: &'a ToolCall, as_call: impl Fn(T) -> Call) -> Call {
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    match serde_json::from_str(text) {
        Ok(arguments) => as_call(arguments),
        Err(error) => Call::BadArguments(error.to_string()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hypotheses {
    items: Vec<Hypothesis>,
}

pub(super) fn read_hypotheses(call: &ToolCall) -> Result<Vec<Hypothesis>, String> {
    if call.name != "hypotheses" {
        return Err(format!("{} is no tool here", call.name));
    }
    serde_json::from_str::<Hypotheses>(&call.arguments)
        .map(|all| all.items)
        .map_err(|error| error.to_string())
}

/// The schema of arguments; a field that is not listed is refused, as the parser refuses it.
fn object(required: &[&str], properties: serde_json::Value) -> serde_json::Value {
    let mut schema =
        json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn spec(name: &str, description: &str, parameters: serde_json::Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: parameters.to_string(),
    }
}

/// Of what a Scout says about itself, in the description of a tool.
const ABOUT: usize = 200;

/// The Scouts beside A and B, each with what it is good for.
fn others(scouts: &[(&str, &str)]) -> String {
    let one = |(name, about): &(&str, &str)| {
        let about: String =
            about.chars().map(|c| if c.is_control() { ' ' } else { c }).take(ABOUT).collect();
        format!(" Also {name}: {about}")
    };
    scouts.iter().map(one).collect()
}

/// The host's tools, always in this order. `scouts` are those that the Editor does not know by itself.
pub(super) fn host_tools(scouts: &[(&str, &str)]) -> Vec<ToolSpec> {
    let others = others(scouts);
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let text = json!({"type": "string"});
    let decision = ["about", "scout_a", "scout_b", "chosen", "reason"];
    vec![
        spec(
            "plan",
            &format!(
                "First call. `questions` maps scout-a (code map) or scout-b (build, tests) to a question. \
                 `decisions` settles what the Scouts disagree about.{others}"
            ),
            object(
                &["criteria", "acceptance", "strategy"],
                json!({
                    "criteria": texts, "acceptance": texts, "non_goals": texts, "strategy": text,
                    "questions": {"type": "object", "additionalProperties": text},
                    "decisions": {"type": "array", "items": object(&decision, json!({
                        "about": text, "scout_a": text, "scout_b": text, "chosen": text, "reason": text}))},
                }),
            ),
        ),
        spec(
            "ask_scout",
            &format!("Ask a Scout about the code or a failure.{others}"),
            object(&["scout", "question"], json!({"scout": text, "question": text})),
        ),
        spec("verify", "Run the whole pipeline.", object(&[], json!({}))),
        spec(
            "read_log",
            "Log of a run or of one step.",
            object(&["run_id"], json!({"run_id": text, "step": text})),
        ),
        spec(
            "done",
            "After a green verify: what changed, why, tests added or why none. Plain sentences; no commit message, \
             no text for a pull request.",
            object(&["what", "why"], json!({"what": text, "why": text, "tests": text})),
        ),
    ]
}

/// The only tool at a hard stop.
pub(super) fn hypotheses_tool() -> ToolSpec {
    let text = json!({"type": "string"});
    spec(
        "hypotheses",
        "At least three theories why every attempt failed, each with a run_id of the list and the step, \
         file or line that speaks for it.",
        json!({"type": "object", "required": ["items"], "properties": {"items": {"type": "array",
            "minItems": 3, "items": {"type": "object", "required": ["text", "run_id", "evidence"],
            "properties": {"text": text, "run_id": text, "evidence": text}}}}}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() }
    }

    /// Security line 151: arguments that are no JSON, of the wrong type, missing or too many are refused.
    #[test]
    fn arguments_that_do_not_fit_are_refused_with_their_place() {
        for (name, arguments) in [
            ("plan", "not json"),
            ("plan", r#"{"criteria":["a"],"acceptance":[]}"#),
            ("ask_scout", r#"{"scout":1,"question":"x"}"#),
            ("verify", r#"{"step":"test"}"#),
            ("done", "[]"),
        ] {
            let Call::BadArguments(why) = read_call(&call(name, arguments)) else {
                panic!("{name} {arguments} was taken")
            };
            assert!(why.contains("line 1"), "{why}");
        }
    }

    /// EDITOR-12
    #[test]
    fn goals_of_an_earlier_plan_are_kept() {
        let plan = |criteria: &[&str], non_goals: &[&str]| Plan {
            criteria: criteria.iter().map(|text| (*text).to_owned()).collect(),
            acceptance: vec![],
            non_goals: non_goals.iter().map(|text| (*text).to_owned()).collect(),
            strategy: "x".to_owned(),
            questions: BTreeMap::new(),
            decisions: vec![],
        };
        let mut goals = Goals::default();
        goals.keep(&plan(&["adds", "fast"], &["speed"]));
        goals.keep(&plan(&["fast", "small"], &[]));
        assert_eq!(goals.criteria, ["adds", "fast", "small"]);
        assert_eq!(goals.non_goals, ["speed"]);
    }

    #[test]
    fn a_call_without_arguments_is_an_empty_object() {
        assert_eq!(read_call(&call("verify", "")), Call::Verify);
        assert_eq!(read_call(&call("verify", "{}")), Call::Verify);
    }

    #[test]
    fn other_names_belong_to_components() {
        assert_eq!(read_call(&call("edit_line", "whatever")), Call::Component);
    }

    /// CAPABILITY-28
    #[test]
    fn a_scout_that_was_added_is_named_where_scouts_are_asked() {
        let tools = host_tools(&[("license", "Finds\nlicences.")]);
        for name in ["plan", "ask_scout"] {
            let tool = tools.iter().find(|tool| tool.name == name).unwrap();
            assert!(tool.description.ends_with(" Also license: Finds licences."), "{tool:?}");
        }
    }
}
