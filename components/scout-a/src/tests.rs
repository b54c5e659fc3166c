//! Scout A against a world in memory.

use super::*;
use scouting::rehearsal::{Files, Rehearsal};
use serde_json::{Value, json};

fn shop() -> Files {
    Files::of(&[
        ("README.md", "# Shop\n"),
        ("src/price.py", "def total(items):\n    return sum(items)\n"),
        ("src/cart.py", "from price import total\n"),
        ("tests/test_price.py", "from price import total\n"),
    ])
}

fn question(text: &str) -> Question {
    Question { text: text.to_owned(), ..Question::default() }
}

fn asked(rehearsal: &Rehearsal, text: &str) -> Value {
    serde_json::from_str(&ask(rehearsal.world(), &question(text)).unwrap()).unwrap()
}

// SCOUT-A-1
#[test]
fn every_field_of_the_schema_is_there_however_little_the_model_says() {
    let report = json!({"repo_map": {"relevant_files": [{"path": "src/price.py"}]}}).to_string();
    let rehearsal = Rehearsal::new(shop()).calls(&[("report", &report)]);
    assert_eq!(
        asked(&rehearsal, "Fix total()"),
        json!({
            "schema_version": "1",
            "repo_map": {
                "relevant_files": [{"path": "src/price.py", "purpose": "", "relevance": "context"}],
                "entry_points": [], "dependency_graph": {}},
            "risk_zones": [],
            "change_boundaries": {"safe_slices": [], "ordering_constraints": []},
            "conventions": {"naming": "snake_case file names", "patterns": [], "anti_patterns": []},
            "prior_art": [],
            "verification_tips": ["tests: tests/test_price.py"],
            "hypotheses": []
        })
    );
}

// SCOUT-A-2
#[test]
fn the_first_message_holds_question_outline_hits_and_small_files_as_data() {
    let rehearsal = Rehearsal::new(shop()).calls(&[("report", r#"{"hypotheses":["x"]}"#)]);
    asked(&rehearsal, "Why does total() lose cents in price.py?");
    let heard = rehearsal.heard();
    assert!(heard[0].contains("schema version 1"));
    let opening = &heard[1];
    assert!(opening.starts_with("say: Question: Why does total() lose cents"));
    assert!(opening.contains("4 files; Python 3\n"));
    assert!(opening.contains("<hits>\nsrc/cart.py:1| from price import total\n"));
    assert!(opening.contains("<file path=\"src/price.py\">\n1| def total(items):\n"));
}

#[test]
fn a_first_prompt_for_a_small_repository_stays_near_six_kilobytes() {
    let many = (0..60).map(|n| (format!("src/module_{n}.py"), "x = total(1)\n".repeat(100)));
    let many = many.collect::<Vec<_>>();
    let files = many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>();
    let rehearsal =
        Rehearsal::new(Files::of(&files)).calls(&[("report", r#"{"hypotheses":["x"]}"#)]);
    asked(&rehearsal, "Why is `total` slow in module_7?");
    let sent =
        rehearsal.heard().iter().map(String::len).sum::<usize>() + report_schema().unwrap().len();
    assert!(sent < 6_500, "{sent}");
}

// SCOUT-A-3
#[test]
fn files_and_lines_that_do_not_exist_are_dropped_or_cut() {
    let report = json!({
        "schema_version": "1",
        "repo_map": {
            "relevant_files": [
                {"path": "./src/price.py", "purpose": "sums", "relevance": "primary"},
                {"path": "src/ghost.py", "purpose": "none", "relevance": "primary"}],
            "entry_points": ["src/cart.py", "src/cart.py", "main"],
            "dependency_graph": {"src/cart.py": ["src/price.py", "ghost"], "ghost": []}},
        "risk_zones": [
            {"file": "src/price.py", "start_line": 1, "end_line": 99, "risk_level": "high"},
            {"file": "src/price.py", "start_line": 7, "end_line": 9}],
        "change_boundaries": {"safe_slices": [
            {"files": ["src/price.py", "new.py"], "description": "rounding"}, {"id": "b", "files": ["new.py"]}]},
        "prior_art": [{"file": "ghost.py"}]
    });
    let rehearsal = Rehearsal::new(shop()).calls(&[("report", &report.to_string())]);
    let report = asked(&rehearsal, "Fix rounding");
    assert_eq!(
        report["repo_map"],
        json!({
            "relevant_files": [{"path": "src/price.py", "purpose": "sums", "relevance": "primary"}],
            "entry_points": ["src/cart.py"],
            "dependency_graph": {"src/cart.py": ["src/price.py"]}})
    );
    assert_eq!(report["risk_zones"].as_array().unwrap().len(), 1);
    assert_eq!(report["risk_zones"][0]["end_line"], 2);
    assert_eq!(
        report["change_boundaries"]["safe_slices"],
        json!([{"id": "slice-1", "files": ["src/price.py"], "description": "rounding",
                "complexity": "medium", "order": null}])
    );
    assert_eq!(report["prior_art"], json!([]));
    assert!(rehearsal.warned().iter().any(|line| line.contains("src/ghost.py")));
}

// SCOUT-A-4
#[test]
fn what_does_not_fit_the_schema_is_refused_with_its_place() {
    for (report, why) in [
        (
            r#"{"repo_map":{"relevant_files":[{"path":"README.md","relevance":"top"}]}}"#,
            "repo_map.relevant_files[0].relevance: unknown variant `top`",
        ),
        (r#"{"summary":"fine"}"#, "unknown field `summary`"),
        (r#"{"schema_version":"2","hypotheses":["x"]}"#, "schema_version is \"2\", not \"1\""),
        ("{}", "it is empty"),
        (r#"{"repo_map":{"relevant_files":[{"path":"ghost"}]}}"#, "none of these files exists"),
    ] {
        let rehearsal = Rehearsal::new(shop()).calls(&[("report", report)]).says(report);
        let failure = ask(rehearsal.world(), &question("Fix it")).unwrap_err();
        let Failure::Model(said) = failure else { panic!("{failure:?}") };
        assert!(said.contains(why), "{said}");
    }
}

// SCOUT-A-5
#[test]
fn facts_alone_answer_without_the_model() {
    let rehearsal = Rehearsal::new(shop());
    let question = Question { facts_only: true, ..question("round the price") };
    let report: Value = serde_json::from_str(&ask(rehearsal.world(), &question).unwrap()).unwrap();
    let paths = report["repo_map"]["relevant_files"].as_array().unwrap();
    assert_eq!(
        (&paths[0]["path"], &paths[0]["relevance"]),
        (&json!("src/price.py"), &json!("primary"))
    );
    assert_eq!(rehearsal.heard(), [""; 0]);
}

// SCOUT-A-6
#[test]
fn a_rejection_and_a_failing_run_reach_the_model() {
    let rehearsal = Rehearsal::new(shop()).calls(&[("report", r#"{"hypotheses":["x"]}"#)]);
    let context = [
        ("tail_log", "E assert 1 == 2\n"),
        ("rejection", "src/x.py does not exist"),
        ("package", "src"),
    ];
    let context = context.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    ask(rehearsal.world(), &Question { context, ..question("Why?") }).unwrap();
    let opening = &rehearsal.heard()[1];
    assert!(opening.contains("Your last report was rejected: src/x.py does not exist\n"));
    assert!(opening.contains("<tail_log>\n| E assert 1 == 2\n</tail_log>\n"));
    assert!(opening.contains("limited to the directory src.\n"));
}

#[test]
fn the_manifest_declares_what_the_report_has() {
    let schema: Value = serde_json::from_str(&report_schema().unwrap()).unwrap();
    let declared = schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let report = serde_json::to_value(Report::default()).unwrap();
    assert_eq!(declared, report.as_object().unwrap().keys().cloned().collect::<Vec<_>>());
}
