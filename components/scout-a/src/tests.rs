//! Scout A against a world in memory.

use super::*;
use act_kit::testing::{FakeHost, Files};
use act_kit::world::{Import, Outline, Symbol};
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

fn asked(host: &FakeHost, text: &str) -> Value {
    serde_json::from_str(&ask(host.world(), &question(text)).unwrap()).unwrap()
}

// SCOUT-A-1
#[test]
fn every_field_of_the_schema_is_there_however_little_the_model_says() {
    let report = json!({"repo_map": {"relevant_files": [{"path": "src/price.py"}]}}).to_string();
    let host = FakeHost::new(shop()).calls(&[("report", &report)]);
    assert_eq!(
        asked(&host, "Fix total()"),
        json!({
            "schema_version": "1",
            "repo_map": {
                "relevant_files": [{"path": "src/price.py", "purpose": "", "relevance": "primary"}],
                "entry_points": [], "dependency_graph": {}},
            "risk_zones": [],
            "change_boundaries": {"safe_slices": [], "ordering_constraints": []},
            "conventions": {"naming": "", "patterns": [], "anti_patterns": []},
            "prior_art": [],
            "verification_tips": ["tests of these files: tests/test_price.py"],
            "hypotheses": []
        })
    );
}

// SCOUT-A-2
#[test]
fn the_first_message_holds_question_outline_hits_and_small_files_as_data() {
    let host = FakeHost::new(shop()).calls(&[("report", r#"{"hypotheses":["x"]}"#)]);
    asked(&host, "Why does total() lose cents in price.py?");
    let sent = host.sent();
    assert!(sent[0].contains("schema version 1"));
    let opening = &sent[1];
    assert!(opening.starts_with("say: Question: Why does total() lose cents"));
    assert!(opening.contains("<repository>\n| 4 files; Python 3\n"));
    assert!(opening.contains("| src/price.py\n"));
    assert!(opening.contains("| other files: README.md\n</repository>\n"));
    assert!(opening.contains("<file path=\"src/price.py\">\n1| def total(items):\n"));
}

#[test]
fn a_first_prompt_for_a_small_repository_stays_below_ten_kilobytes() {
    let many = (0..60).map(|n| (format!("src/module_{n}.py"), "x = total(1)\n".repeat(100)));
    let many = many.collect::<Vec<_>>();
    let files = many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>();
    let host = FakeHost::new(Files::of(&files)).calls(&[("report", r#"{"hypotheses":["x"]}"#)]);
    asked(&host, "Why is `total` slow in module_7?");
    let sent = host.sent().iter().map(String::len).sum::<usize>()
        + act_kit::report::schema(MANIFEST).unwrap().len();
    assert!(sent < 10_000, "{sent}");
}

/// A report with what does not exist, and what is only written oddly.
fn invented() -> Value {
    json!({
        "schema_version": "1",
        "repo_map": {
            "relevant_files": [
                {"path": "./src/price.py", "purpose": "sums", "relevance": "primary"},
                {"path": "price.py", "purpose": "again", "relevance": "context"},
                {"path": "lib/cart.py", "purpose": "none", "relevance": "primary"}],
            "entry_points": ["src/cart.py:no_such", "src/cart.py", "main"],
            "dependency_graph": {"src/cart.py": ["src/price.py", "numpy"], "ghost": []}},
        "risk_zones": [
            {"file": "src/price.py", "start_line": 1, "end_line": 99, "risk_level": "high"},
            {"file": "src/price.py", "start_line": 7, "end_line": 9}],
        "change_boundaries": {"safe_slices": [
            {"files": ["src/price.py", "new.py"], "description": "rounding"}]},
        "prior_art": [{"file": "ghost.py"}]
    })
}

// SCOUT-9, SCOUT-A-3
#[test]
fn what_is_not_there_is_told_once_and_what_is_meant_is_put_right() {
    let mut healed = invented();
    healed["repo_map"]["relevant_files"].as_array_mut().unwrap().pop();
    healed["risk_zones"].as_array_mut().unwrap().pop();
    healed["change_boundaries"]["safe_slices"][0]["files"].as_array_mut().unwrap().pop();
    healed["prior_art"] = json!([]);
    let host = FakeHost::new(shop())
        .calls(&[("report", &invented().to_string())])
        .calls(&[("report", &healed.to_string())]);
    let report = asked(&host, "Fix rounding");
    let told = &host.sent()[2];
    for fault in [
        "repo_map.relevant_files[2].path: there is no file \"lib/cart.py\", but src/cart.py",
        "risk_zones[1]: lines 7-9 are not in \"src/price.py\"",
        "change_boundaries.safe_slices[0].files: there is no file \"new.py\"",
        "prior_art[0].file: there is no file \"ghost.py\"",
    ] {
        assert!(told.contains(fault), "{fault}: {told}");
    }
    assert!(!told.contains("numpy") && !told.contains("no_such"), "{told}");
    assert_eq!(
        report["repo_map"],
        json!({
            "relevant_files": [
                {"path": "src/price.py", "purpose": "sums", "relevance": "primary"},
                {"path": "src/price.py", "purpose": "again", "relevance": "context"}],
            "entry_points": ["src/cart.py"],
            "dependency_graph": {"src/cart.py": ["src/price.py"]}})
    );
    assert_eq!(report["risk_zones"][0]["end_line"], 2);
    assert_eq!(
        report["change_boundaries"]["safe_slices"],
        json!([{"id": "slice-1", "files": ["src/price.py"], "description": "rounding",
                "complexity": "low", "order": null}])
    );
}

// SCOUT-9
#[test]
fn what_stays_invented_fails_the_attempt() {
    let report = invented().to_string();
    let host = FakeHost::new(shop()).calls(&[("report", &report)]).calls(&[("report", &report)]);
    let Err(Failure::Model(said)) = ask(host.world(), &question("Fix it")) else { panic!() };
    assert!(said.contains("wrong twice") && said.contains("lib/cart.py"), "{said}");
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
        (
            r#"{"repo_map":{"relevant_files":[{"path":"ghost"}]}}"#,
            "repo_map.relevant_files[0].path: there is no file \"ghost\"",
        ),
    ] {
        let host = FakeHost::new(shop()).calls(&[("report", report)]).says(report);
        let failure = ask(host.world(), &question("Fix it")).unwrap_err();
        let Failure::Model(said) = failure else { panic!("{failure:?}") };
        assert!(said.contains(why), "{said}");
    }
}

// SCOUT-A-1: no judgement is made up; facts give it, or the entry is dropped
#[test]
fn a_missing_judgement_comes_from_facts_or_the_entry_is_dropped() {
    let zone = |file: &str| json!({"file": file, "start_line": 1, "end_line": 1});
    let report = json!({
        "repo_map": {"relevant_files": [{"path": "src/price.py"}, {"path": "README.md"}]},
        "risk_zones": [zone("src/price.py"), zone("README.md")],
        "prior_art": [{"file": "src/cart.py"}, {"file": "src/cart.py", "description": "sums"}],
        "excerpts": [{"file": "price.py", "start_line": 1, "end_line": 99}]
    });
    let host = FakeHost::new(parsed_shop()).calls(&[("report", &report.to_string())]);
    let report = asked(&host, "Fix `total`");
    let relevance = report["repo_map"]["relevant_files"].as_array().unwrap();
    let relevance = relevance.iter().map(|file| &file["relevance"]).collect::<Vec<_>>();
    assert_eq!(relevance, ["primary", "context"]);
    let zones = report["risk_zones"].as_array().unwrap();
    assert_eq!(zones.len(), 1, "no fact rates the risk of a document: {zones:?}");
    assert_eq!((&zones[0]["risk_level"], &zones[0]["complexity"]), (&json!("low"), &json!("low")));
    assert_eq!(
        zones[0]["rationale"],
        "2 files import it, 2 lines, 1 names for others, a test exercises it"
    );
    assert_eq!(report["prior_art"].as_array().unwrap().len(), 1);
    assert_eq!(
        report["excerpts"],
        json!([{"file": "src/price.py", "start_line": 1, "end_line": 2}])
    );
}

// SCOUT-A-5
#[test]
fn a_report_of_facts_needs_no_model_and_has_every_field() {
    let host = FakeHost::new(parsed_shop());
    let context = vec![("form".to_owned(), "report".to_owned())];
    let question = Question { facts_only: true, context, ..question("Fix `total`") };
    let report: Value = serde_json::from_str(&ask(host.world(), &question).unwrap()).unwrap();
    assert_eq!(host.sent(), [""; 0]);
    assert_eq!(report["schema_version"], "1");
    assert_eq!(
        report["repo_map"]["relevant_files"][0],
        json!({"path": "src/price.py", "relevance": "primary",
               "purpose": "2 importers; tests: tests/test_price.py; defines total"})
    );
    assert_eq!(
        report["excerpts"][0],
        json!({"file": "src/price.py", "start_line": 1, "end_line": 2}),
        "source before tests"
    );
    assert_eq!(report["change_boundaries"]["safe_slices"], json!([]));
}

/// The shop as a parser sees it.
fn parsed_shop() -> Files {
    let import = Import { line: 1, target: "price".to_owned(), names: vec!["total".to_owned()] };
    let symbol = |name: &str, kind: &str, last_line| Symbol {
        name: name.to_owned(),
        kind: kind.to_owned(),
        first_line: 1,
        last_line,
        exported: kind != "test",
        ..Symbol::default()
    };
    let outline = |symbols: Vec<Symbol>, imports: Vec<Import>| Outline {
        language: "python".to_owned(),
        symbols,
        imports,
        ..Outline::default()
    };
    shop()
        .outlined("src/price.py", outline(vec![symbol("total", "function", 2)], vec![]))
        .outlined("src/cart.py", outline(vec![], vec![import.clone()]))
        .outlined("tests/test_price.py", outline(vec![symbol("test_it", "test", 1)], vec![import]))
}

fn facts(text: &str) -> Value {
    let host = FakeHost::new(parsed_shop());
    let question = Question { facts_only: true, ..question(text) };
    let facts = serde_json::from_str(&ask(host.world(), &question).unwrap()).unwrap();
    assert_eq!(host.sent(), [""; 0]);
    facts
}

// SCOUT-A-5, SCOUT-A-7
#[test]
fn facts_need_no_model_and_say_what_there_is() {
    let facts = facts("round the price");
    assert_eq!(
        facts["inventory"],
        json!({"files": 4, "bytes": 7 + 40 + 24 + 24,
               "languages": [{"name": "Python", "files": 3, "lines": 4, "bytes": 40 + 24 + 24}]})
    );
    assert_eq!(
        facts["symbols"],
        json!([
            {"path": "src/price.py", "name": "total", "kind": "function", "container": null,
             "start_line": 1, "end_line": 2, "exported": true},
            {"path": "tests/test_price.py", "name": "test_it", "kind": "test", "container": null,
             "start_line": 1, "end_line": 1, "exported": false}])
    );
    assert_eq!(
        facts["imports"],
        json!([{"from": "src/cart.py", "to": "src/price.py"},
               {"from": "tests/test_price.py", "to": "src/price.py"}])
    );
    assert_eq!(
        facts["tests"],
        json!([{"path": "tests/test_price.py", "exercises": ["src/price.py"]}])
    );
    assert_eq!(
        facts["risk"],
        json!([
            {"path": "src/price.py", "fan_in": 2, "lines": 2, "tested": true, "public_symbols": 1, "level": "low"},
            {"path": "src/cart.py", "fan_in": 0, "lines": 1, "tested": false, "public_symbols": 0, "level": "low"}])
    );
    assert_eq!((&facts["truncated"], &facts["left_out"]), (&json!(false), &json!({})));
    assert_eq!((&facts["question"], &facts["scout"]), (&json!("round the price"), &json!("a")));
}

// SCOUT-A-14
#[test]
fn facts_have_the_lines_that_match_best_match_first() {
    let lines = |file: &str, last: u32| json!({"file": file, "start_line": 1, "end_line": last});
    assert_eq!(
        facts("Fix `total`")["excerpts"],
        json!([lines("src/price.py", 2), lines("src/cart.py", 1)])
    );
    assert_eq!(facts("round the price")["excerpts"], json!([lines("src/cart.py", 1)]));
    assert_eq!(facts("no such word").get("excerpts"), None);
}

// SCOUT-A-8
#[test]
fn the_map_follows_the_question_and_what_the_answer_leans_on() {
    let paths = |facts: &Value| {
        let map = facts["map"].as_array().unwrap().clone();
        map.into_iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let about_cart = facts("empty cart");
    assert_eq!(paths(&about_cart), ["src/cart.py", "src/price.py", "tests/test_price.py"]);
    assert_eq!(about_cart["map"][1]["symbols"], json!(["total"]));
    // Without a question, what most lean on.
    let everything = facts("");
    assert_eq!(paths(&everything)[0], "src/price.py");
    assert_eq!(
        (&everything["map"][0]["score"], &everything["question"]),
        (&json!(1.0), &Value::Null)
    );
}

// SCOUT-A-7
#[test]
fn long_lists_are_cut_and_the_missing_are_counted() {
    let paths =
        (0..9_000).map(|n| format!("src/{}/module_{n}.py", "long".repeat(20))).collect::<Vec<_>>();
    let mut files = Files::of(&paths.iter().map(|path| (path.as_str(), "x\n")).collect::<Vec<_>>());
    let symbols = vec![Symbol {
        name: "f".to_owned(),
        kind: "function".to_owned(),
        first_line: 1,
        last_line: 1,
        ..Symbol::default()
    }];
    for path in &paths {
        let outline = Outline {
            language: "python".to_owned(),
            symbols: symbols.clone(),
            ..Outline::default()
        };
        files = files.outlined(path, outline);
    }
    let host = FakeHost::new(files);
    let wanted = Question { facts_only: true, ..Question::default() };
    let text = ask(host.world(), &wanted).unwrap();
    assert!(text.len() < 4 << 20, "{}", text.len());
    let facts: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(facts["truncated"], true);
    let listed = |name: &str| facts[name].as_array().unwrap().len() as u64;
    for name in ["symbols", "risk"] {
        assert_eq!(listed(name) + facts["left_out"][name].as_u64().unwrap(), 9_000, "{name}");
    }
    let map = facts["map"].to_string().len();
    assert!((10_000..24_000).contains(&map), "{map}");
}

// SCOUT-A-7
#[test]
fn what_no_parser_saw_as_a_whole_is_counted() {
    let large = "x\n".repeat(600_000);
    let facts = |files: Files| {
        let wanted = Question { facts_only: true, ..Question::default() };
        let text = ask(FakeHost::new(files).world(), &wanted).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let whole = facts(shop().outlined("src/price.py", Outline::default()));
    assert_eq!((&whole["truncated"], &whole["left_out"]), (&json!(false), &json!({})));
    let files = Files::of(&[("big.py", &large), ("cut.py", "x\n"), ("notes.md", &large)]);
    let cut = facts(files.incomplete("cut.py"));
    assert_eq!(cut["truncated"], true);
    assert_eq!(cut["left_out"], json!({"files_too_large": 1, "files_incomplete": 1}));
}

// SCOUT-A-9
#[test]
fn a_survey_ends_in_time_and_counts_the_files_that_it_did_not_look_at() {
    // One request has 512 files, so there is a second one.
    let paths = (0..700).map(|n| format!("src/m{n}.py")).collect::<Vec<_>>();
    let texts = paths.iter().map(|path| (path.as_str(), "x\n")).collect::<Vec<_>>();
    let asked = |pace, context| {
        let host = FakeHost::new(Files::of(&texts)).slowed_by(pace);
        let wanted = Question { facts_only: true, context, ..Question::default() };
        serde_json::from_str::<Value>(&ask(host.world(), &wanted).unwrap()).unwrap()
    };
    let whole = asked(0, vec![]);
    assert_eq!((&whole["truncated"], &whole["left_out"]), (&json!(false), &json!({})));
    // The second part of the files would begin after 18 seconds.
    let cut = asked(9_000, vec![]);
    assert_eq!(cut["truncated"], true);
    assert_eq!(cut["left_out"]["not_looked_at"], 700 - 512);
    assert_eq!(cut["inventory"]["files"], 700);
    let report = asked(9_000, vec![("form".to_owned(), "report".to_owned())]);
    let tips = report["verification_tips"].to_string();
    assert!(tips.contains("not_looked_at: 188 source files"), "{tips}");
}

// SCOUT-A-7
#[test]
fn a_script_that_asks_for_main_is_an_entry_point() {
    let main = "def go():\n    pass\n\nif __name__ == \"__main__\":\n    go()\n";
    let files = Files::of(&[
        ("scripts/run_it.py", main),
        ("scripts/lib.py", "# if __name__ == \"__main__\":\n"),
        ("tests/test_x.py", main),
    ]);
    let wanted = Question { facts_only: true, ..Question::default() };
    let text = ask(FakeHost::new(files).world(), &wanted).unwrap();
    let facts = serde_json::from_str::<Value>(&text).unwrap();
    assert_eq!(facts["entry_points"], json!(["scripts/run_it.py"]));
}

// SCOUT-A-6
#[test]
fn a_rejection_and_a_failing_run_reach_the_model() {
    let host = FakeHost::new(shop()).calls(&[("report", r#"{"hypotheses":["x"]}"#)]);
    let context = [
        ("tail_log", "E assert 1 == 2\n"),
        ("rejection", "src/x.py does not exist"),
        ("package", "src"),
    ];
    let context = context.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    ask(host.world(), &Question { context, ..question("Why?") }).unwrap();
    let opening = &host.sent()[1];
    assert!(opening.contains("Your last report was rejected: src/x.py does not exist\n"));
    assert!(opening.contains("<tail_log>\n| E assert 1 == 2\n</tail_log>\n"));
    assert!(opening.contains("limited to the directory src.\n"));
}

#[test]
fn the_manifest_declares_what_the_report_has() {
    let schema: Value = serde_json::from_str(&act_kit::report::schema(MANIFEST).unwrap()).unwrap();
    let declared = schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let excerpts = vec![act_kit::reports::report_a::Excerpt {
        file: String::new(),
        start_line: 1,
        end_line: 1,
    }];
    let report = serde_json::to_value(ReportA { excerpts, ..ReportA::default() }).unwrap();
    assert_eq!(declared, report.as_object().unwrap().keys().cloned().collect::<Vec<_>>());
}
