//! The results of tools: what a command printed, in at most 64 kB and without characters that act on a terminal.

use std::path::Path;

use act_core::terminal_text;
use act_core::{Document, Failure, Schema, Usd, Versioned};
use act_reports::failures::{Failures, Log};
use act_workspace::is_repo_path;
use rmcp::model::CallToolResult;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::jobs::{Ended, Job};

/// Maximum number of bytes of a result, as a client gets it: larger ones fill the context of a model.
pub(super) const MAX_RESULT: usize = 64_000;
/// Places of failures that a result names.
const PLACES: usize = 20;

/// The result of the tool `verify`, when the verification has ended.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Verified {
    /// `done`, or `cancelled`.
    state: &'static str,
    /// `PASS`, `FAIL` or `INFRA_ERROR`; null when cancelled.
    verdict: Value,
    run_id: Value,
    /// True when an earlier run of the unchanged tree is the answer; `age_s` is its age in seconds then.
    reused: bool,
    age_s: Value,
    /// Why a run failed: `step_failed`, `timeout`, `source_writes` or `tree_changed`.
    reason: Value,
    error_type: Value,
    error_message: Value,
    failing_step: Option<FailingStep>,
    /// The failures in the log, with the lines of the repository that they name; empty where the log was not understood.
    places: Vec<FailedAt>,
    /// The end of the log, of a run that did not pass.
    tail: Value,
    evidence: Evidence,
    /// Warnings with `code`, `step` and `message`.
    warnings: Value,
}

impl Document for Verified {
    const NAME: &'static str = "mcp-verify";
}

/// The step that ended a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FailingStep {
    name: Value,
    command: Value,
    exit_code: Value,
    timed_out: Value,
}

/// One failure in the log.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FailedAt {
    path: Option<String>,
    line: Option<u32>,
    /// The test and its message, or the message of a compiler.
    what: String,
}

/// The digests that the audit log holds about a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Evidence {
    tree_digest: Value,
    pipeline_sha256: Value,
    image_digest: Value,
    audit_head: Value,
    /// The proof by the tests of the task, for the run that ended a task.
    tests: Value,
}

/// The result of a tool that began something which has not ended.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Running {
    /// Always `running`.
    state: &'static str,
    /// The id that `status` and `cancel` take.
    id: String,
    tool: String,
    task_id: Option<String>,
    /// The cost of the requests of a task so far: a decimal text, or null where it is not known. A verification sends none.
    cost_usd: Option<Usd>,
    /// The last message of the command.
    message: String,
    next: String,
}

impl Document for Running {
    const NAME: &'static str = "mcp-running";
}

impl Running {
    pub(super) fn of(job: &Job) -> Self {
        let progress = job.progress.borrow();
        Self {
            state: "running",
            id: job.id.clone(),
            tool: job.tool.to_owned(),
            task_id: progress.task_id.clone(),
            cost_usd: progress.cost,
            message: progress.message.clone(),
            next: format!(
                "call `status` with id {:?} until it has ended; `cancel` ends it",
                job.id
            ),
        }
    }
}

/// Returns the result of a command that has ended.
pub(super) fn of(job: &Job, ended: &Ended) -> CallToolResult {
    match job.tool {
        "verify" => of_verification(&job.repo, ended),
        _ => of_task(ended),
    }
}

fn of_verification(repo: &Path, ended: &Ended) -> CallToolResult {
    let Some(document) =
        ended.document.as_ref().filter(|document| document.get("status").is_some())
    else {
        return without_document(ended);
    };
    let get = |pointer: &str| document.pointer(pointer).cloned().unwrap_or_default();
    let passed = get("/status") == "PASS";
    let steps = get("/manifest/commands_executed");
    let last = steps.as_array().and_then(|steps| steps.last()).filter(|_| !passed);
    let step = |step: &Value| {
        let get = |field: &str| step.get(field).cloned().unwrap_or_default();
        FailingStep {
            name: get("name"),
            command: get("command"),
            exit_code: get("exit_code"),
            timed_out: get("timed_out"),
        }
    };
    let tail = get("/tail_log");
    let places = match tail.as_str() {
        Some(tail) if get("/status") == "FAIL" => places(repo, tail),
        _ => vec![],
    };
    own(
        &Verified {
            state: "done",
            verdict: get("/status"),
            run_id: get("/run_id"),
            reused: get("/reused") == true,
            age_s: get("/age_s"),
            reason: get("/reason"),
            error_type: get("/error_type"),
            error_message: get("/error_message"),
            failing_step: last.filter(|_| get("/reason") != "tree_changed").map(step),
            places,
            tail: if passed { Value::Null } else { tail },
            evidence: Evidence {
                tree_digest: get("/manifest/tree_digest"),
                pipeline_sha256: get("/manifest/pipeline_sha256"),
                image_digest: get("/manifest/image_digest"),
                audit_head: get("/manifest/audit_head"),
                tests: get("/manifest/evidence"),
            },
            warnings: get("/warnings"),
        },
        false,
    )
}

/// Returns what failed by the end of a log.
fn places(repo: &Path, tail: &str) -> Vec<FailedAt> {
    let Ok(root) = act_fs::Root::open(repo) else { return vec![] };
    let own = |path: &str| {
        let path = path.trim_start_matches("file://").trim_start_matches("./");
        // A path through a link of the repository says nothing about what lies outside.
        let there = is_repo_path(path) && root.open_real(path.as_bytes(), act_fs::READ).is_ok();
        there.then(|| path.to_owned())
    };
    let found = Failures::of(&Log::of(tail), &own).failures.into_iter().take(PLACES);
    let at = |failure: act_reports::failures::Failure| FailedAt {
        what: failure.headline(),
        line: failure.place.as_ref().map(|place| place.line),
        path: failure.place.map(|place| place.path),
    };
    found.map(at).collect()
}

/// Returns the result of a task, a dry run or an apply: its last event, and the proposal of a dry run.
fn of_task(ended: &Ended) -> CallToolResult {
    let Some(Value::Object(event)) =
        ended.document.as_ref().filter(|event| event["type"] == "task_finished")
    else {
        return without_document(ended);
    };
    let mut result = Map::new();
    result.insert("state".into(), if ended.is_cancelled() { "cancelled" } else { "done" }.into());
    result.insert("task_id".into(), ended.task_id.clone().into());
    let kept =
        event.iter().filter(|(name, _)| !matches!(name.as_str(), "v" | "seq" | "time" | "type"));
    for (name, value) in kept {
        let name = if name == "state" { "outcome" } else { name };
        result.insert(name.to_owned(), value.clone());
    }
    if let Some(proposed) = &ended.proposed {
        for field in ["files", "diff"] {
            result.insert(field.to_owned(), proposed.get(field).cloned().unwrap_or_default());
        }
        result.insert(
            "next".into(),
            "`apply` with this task_id makes these changes and verifies them".into(),
        );
    }
    own(&result, false)
}

/// Returns the result of a command that looks something up: its document.
pub(super) fn of_document(ended: &Ended) -> CallToolResult {
    let is_refusal = |document: &Value| {
        document.get("exit_code").is_some() && document.get("code").is_some_and(Value::is_string)
    };
    match &ended.document {
        Some(document) if ended.exit_code == Some(0) && !is_refusal(document) => {
            fitted(document, false)
        }
        _ => without_document(ended),
    }
}

/// Returns the result of a command that was refused, cancelled, or printed nothing.
fn without_document(ended: &Ended) -> CallToolResult {
    match &ended.document {
        _ if ended.is_cancelled() => own(&json!({"state": "cancelled"}), false),
        Some(refusal) if refusal.get("code").is_some() => {
            let get = |field: &str| refusal.get(field).cloned().unwrap_or_default();
            let (code, message) = (get("code"), get("message"));
            let (hint, exit_code) = (get("hint"), get("exit_code"));
            own(
                &json!({"code": code, "message": message, "hint": hint, "exit_code": exit_code}),
                true,
            )
        }
        _ => own(
            &json!({
                "code": "no_result",
                "message": format!("act ended without a result: {}", ended.stderr.trim()),
                "hint": "run the command in a terminal; `act doctor` checks the set-up",
                "exit_code": ended.exit_code,
            }),
            true,
        ),
    }
}

/// Returns the result of a call that is refused.
pub(super) fn refused(failure: &Failure) -> CallToolResult {
    let (code, message) = (failure.code, &failure.message);
    let (hint, exit_code) = (&failure.hint, failure.exit as u8);
    own(&json!({"code": code, "message": message, "hint": hint, "exit_code": exit_code}), true)
}

/// Returns a result of the server's own, which is a document of the second version as those of commands are.
pub(super) fn own(result: &impl Serialize, is_error: bool) -> CallToolResult {
    fitted(Versioned::of(result), is_error)
}

/// Returns a result of at most [`MAX_RESULT`] bytes. Of texts that are too long the end of a log stays, and the beginning of
/// others; `cut` names them.
fn fitted(result: impl Serialize, is_error: bool) -> CallToolResult {
    let mut value = serde_json::to_value(result).unwrap_or_default();
    inert(&mut value);
    if !value.is_object() {
        value = json!({ "result": value });
    }
    let size = |value: &Value| {
        // The text holds the value a second time, with its quotes escaped.
        let once = value.to_string();
        once.len() + Value::String(once.clone()).to_string().len() + 256
    };
    let mut cut = Vec::<String>::new();
    while size(&value) > MAX_RESULT {
        let Some(name) = halve_longest(&mut value) else {
            let message = "the result has more than 64 kB";
            value =
                json!({"schema": Schema::NUMBER, "code": "result_too_large", "message": message});
            break;
        };
        if !cut.contains(&name) {
            cut.push(name);
        }
        if let Some(object) = value.as_object_mut() {
            object.insert("cut".into(), cut.clone().into());
        }
    }
    match is_error {
        true => CallToolResult::structured_error(value),
        false => CallToolResult::structured(value),
    }
}

/// Replaces sequences that act on a terminal, and characters that nobody sees.
fn inert(value: &mut Value) {
    match value {
        Value::String(text) => {
            let clean = terminal_text::block(text).into_owned();
            *text = clean;
        }
        Value::Array(all) => all.iter_mut().for_each(inert),
        Value::Object(all) => {
            let fields = std::mem::take(all).into_iter();
            *all = fields
                .map(|(name, mut value)| {
                    inert(&mut value);
                    (terminal_text::line(&name).into_owned(), value)
                })
                .collect();
        }
        _ => {}
    }
}

/// A text or list in a result.
struct Longest {
    /// JSON pointer.
    at: String,
    size: usize,
}

/// Halves the text or the list that takes the most room, and returns its name. Returns `None` if none is left.
fn halve_longest(value: &mut Value) -> Option<String> {
    let mut longest = None;
    find_longest(value, String::new(), &mut longest);
    let Longest { at, .. } = longest?;
    let name = at.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap_or_default();
    let name = name.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(&at)? {
        Value::String(text) => {
            let middle = text.floor_char_boundary(text.len() / 2);
            *text = match &*name {
                "tail" | "log" => text.get(middle..).unwrap_or_default().to_owned(),
                _ => text.get(..middle).unwrap_or_default().to_owned(),
            };
        }
        Value::Array(all) => all.truncate(all.len() / 2),
        _ => return None,
    }
    Some(name)
}

fn find_longest(value: &Value, at: String, longest: &mut Option<Longest>) {
    let mut consider = |size: usize, at: &str| {
        if size > longest.as_ref().map_or(64, |longest| longest.size) {
            *longest = Some(Longest { at: at.to_owned(), size });
        }
    };
    match value {
        Value::String(text) => consider(text.len(), &at),
        Value::Array(all) => {
            // A list of many short things; one of few long ones is shortened inside.
            if all.len() > 8 {
                consider(value.to_string().len() / 4, &at);
            }
            for (number, one) in all.iter().enumerate() {
                find_longest(one, format!("{at}/{number}"), longest);
            }
        }
        Value::Object(all) => {
            for (name, one) in all.iter().filter(|(name, _)| *name != "cut") {
                let name = name.replace('~', "~0").replace('/', "~1");
                find_longest(one, format!("{at}/{name}"), longest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    fn size(result: &CallToolResult) -> usize {
        serde_json::to_string(result).unwrap().len()
    }

    #[test]
    fn the_schemas_of_results_are_published() {
        // EVENT-8
        schema::document_holds::<Verified>();
        schema::document_holds::<Running>();
    }

    #[test]
    fn a_result_of_any_form_has_at_most_64_kb() {
        let long = "line \"of\" a log\n".repeat(100_000);
        let result = fitted(json!({"tail": long, "name": long, "run_id": "r"}), false);
        assert!(size(&result) <= MAX_RESULT, "{}", size(&result));
        let value = result.structured_content.unwrap();
        assert!(value["tail"].as_str().unwrap().ends_with("a log\n"), "the end of a log stays");
        assert!(value["name"].as_str().unwrap().starts_with("line "));
        assert_eq!((&value["run_id"], value["cut"].as_array().unwrap().len()), (&json!("r"), 2));
        for many in [json!(vec!["a task"; 100_000]), json!({"a": vec![json!({"b": 1}); 50_000]})] {
            assert!(size(&fitted(many, false)) <= MAX_RESULT);
        }
        let names: Map<_, _> = (0..20_000).map(|n| (n.to_string(), json!(n))).collect();
        assert!(size(&fitted(Value::Object(names), true)) <= MAX_RESULT);
    }

    #[test]
    fn nothing_in_a_result_acts_on_a_terminal() {
        let value = json!({"a\u{1b}[2J": ["\u{1b}]0;owned\u{7}x\n", "\u{202e}"]});
        let value = fitted(value, false).structured_content.unwrap().to_string();
        assert!(
            !value.contains("u001b") && !value.contains("u0007") && !value.contains('\u{202e}')
        );
        assert!(value.contains("x\\n"), "a line stays a line: {value}");
    }

    #[test]
    fn a_red_verification_names_step_and_places() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("tests")).unwrap();
        std::fs::write(dir.path().join("tests/test_a.py"), "").unwrap();
        let tail = "=== FAILURES ===\n___ test_a ___\n\n    def test_a():\n>       assert 1 == 2\nE       assert 1 == 2\n\ntests/test_a.py:2: AssertionError\n=== short test summary info ===\nFAILED tests/test_a.py::test_a - assert 1 == 2\n=== 1 failed in 0.01s ===\n";
        let document = json!({"status": "FAIL", "run_id": "run_x", "tail_log": tail, "reason": "step_failed",
            "warnings": [], "manifest": {"tree_digest": "t", "commands_executed": [
                {"name": "test", "command": "pytest", "exit_code": 1, "timed_out": false}]}});
        let ended = Ended { document: Some(document), exit_code: Some(3), ..Ended::default() };
        let value = of_verification(dir.path(), &ended).structured_content.unwrap();
        assert_eq!(
            (&value["verdict"], &value["failing_step"]["name"]),
            (&json!("FAIL"), &json!("test"))
        );
        assert_eq!(value["places"][0]["path"], "tests/test_a.py", "{value:#}");
        assert_eq!((&value["places"][0]["line"], &value["reused"]), (&json!(2), &json!(false)));
    }
}
