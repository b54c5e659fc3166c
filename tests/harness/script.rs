//! Pieces of scripts that most tests need: the model's replies, turn by turn.
//!
//! A script is JSON here, which is YAML. The tasks of these tests change `answer.txt`.

use serde_json::{Value, json};

/// Returns one turn of the Editor that calls one tool.
pub(crate) fn call(name: &str, arguments: Value) -> Value {
    json!({"role": "editor", "call": {"name": name, "arguments": arguments}})
}

pub(crate) fn plan(strategy: &str) -> Value {
    let arguments = json!({
        "criteria": ["answer.txt holds the answer"],
        "acceptance": ["the pipeline is green"],
        "non_goals": [],
        "strategy": strategy,
    });
    call("plan", arguments)
}

/// Returns the turns before the first attempt: a plan that asks no Scout.
pub(crate) fn opening(strategy: &str) -> Vec<Value> {
    vec![plan(strategy)]
}

/// Returns the turns of a plan with a question to each Scout, and of both Scouts' reports.
pub(crate) fn asking(strategy: &str) -> Vec<Value> {
    let mut asks = plan(strategy);
    asks["call"]["arguments"]["questions"] =
        json!({"scout-a": "Where is the answer?", "scout-b": "Why does it fail?"});
    vec![asks, report("scout-a", scout_a()), report("scout-b", scout_b())]
}

/// Returns the turns of one attempt: read, edit, verify.
pub(crate) fn attempt(content: &str) -> Vec<Value> {
    vec![
        call("read", json!({"path": "answer.txt"})),
        call(
            "full_rewrite",
            json!({"path": "answer.txt", "expect_version": "{{last_version}}", "content": content}),
        ),
        call("verify", json!({})),
    ]
}

pub(crate) fn done() -> Value {
    call(
        "done",
        json!({"what": "Wrote the answer.", "why": "It was missing.", "tests": "None needed."}),
    )
}

/// Returns three hypotheses that cite the last run.
pub(crate) fn hypotheses() -> Value {
    let item =
        |text: &str| json!({"text": text, "run_id": "{{last_run_id}}", "evidence": "step test"});
    call("hypotheses", json!({"items": [item("stale"), item("misread"), item("wrong file")]}))
}

pub(crate) fn script(turns: impl IntoIterator<Item = Value>) -> String {
    let turns: Vec<_> = turns.into_iter().collect();
    let json = json!({ "turns": turns }).to_string();
    // YAML does not allow raw control characters; JSON allows those above ASCII.
    let escaped = |c: char| match c {
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    };
    json.chars().map(escaped).collect()
}

fn report(role: &str, arguments: Value) -> Value {
    json!({"role": role, "call": {"name": "report", "arguments": arguments}})
}

fn scout_a() -> Value {
    json!({
        "schema_version": "1",
        "repo_map": {
            "relevant_files": [{"path": "answer.txt", "purpose": "holds the answer", "relevance": "primary"}],
            "entry_points": [],
            "dependency_graph": {},
        },
        "risk_zones": [],
        "change_boundaries": {"safe_slices": [], "ordering_constraints": []},
        "conventions": {"naming": "plain", "patterns": [], "anti_patterns": []},
        "prior_art": [],
        "verification_tips": [],
        "hypotheses": [],
    })
}

fn scout_b() -> Value {
    json!({
        "schema_version": "1",
        "build": {
            "detected_system": "custom",
            "commands": {"install": null, "build": "true", "clean": null},
            "prerequisites": [],
            "notes": "",
        },
        "test": {
            "detected_framework": "custom",
            "commands": {"all": "sh test.sh", "unit": null, "integration": null},
            "coverage_command": null,
            "notes": "",
        },
        "failure_analysis": {
            "root_cause": "the answer is missing",
            "affected_files": ["answer.txt"],
            "suggested_investigation": [],
            "is_flaky": false,
            "flaky_reason": null,
        },
        "environment_issues": [],
    })
}
