//! The three components that are built in, on the real host and a real repository.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use act_agent::scout::facts_b::FactsB;
use act_agent::scout::report_a::ReportA;
use act_agent::scout::{ground_a, ground_facts_b};
use act_component::builtin::{ALL, Builtin, FILE_TOOLS, SCOUT_A, SCOUT_B};
use act_component::{Grant, Kind, Loaded, ScoutQuestion, Services, ToolComponent, ToolOutcome};
use act_core::event::{EventKind, Events};
use act_model::{Model, ModelUsage};
use act_workspace::{Profile, RepoView, RepoWriter, WriteRules};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::hostile::{Heard, PLENTY, Reply, Scripted, Told, host, nothing};

fn load(builtin: Builtin, grant: Grant) -> Loaded {
    host().load(builtin.bytes, grant, &Events::silent()).unwrap()
}

/// A small Python project with a gate and a key lying about.
fn shop() -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = temp.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("src/price.py", "def total(items):\r\n    return sum(items)\r\n");
    write("tests/test_price.py", "from price import total\n");
    write("requirements.txt", "pytest\n");
    write("agent.yaml", "verification:\n");
    write(".env", "KEY=secret\n");
    temp
}

fn lines_in(root: &Path) -> impl FnMut(&str) -> Option<u32> {
    // A Scout does not see binary files.
    move |path| {
        let bytes = fs::read(root.join(path)).ok().filter(|bytes| !bytes.contains(&0))?;
        Some(bytes.split_inclusive(|byte| *byte == b'\n').count() as u32)
    }
}

/// A task's hands.
struct Hands {
    component: ToolComponent,
    writer: Arc<RepoWriter>,
    heard: Heard,
}

impl Hands {
    fn on(root: &Path) -> Self {
        let writer = RepoWriter::open(root, WriteRules::default()).unwrap();
        let component = load(FILE_TOOLS, Grant::builtin_tool()).into_tool().unwrap();
        Self { component, writer: Arc::new(writer), heard: Heard::default() }
    }

    /// Calls a tool and returns its text.
    async fn call(&self, tool: &str, arguments: Value) -> String {
        self.outcome(tool, arguments).await.text
    }

    async fn outcome(&self, tool: &str, arguments: Value) -> ToolOutcome {
        let services = Services {
            view: Some(self.writer.view().clone()),
            versions: Some(self.writer.versions().clone()),
            writer: Some(Arc::clone(&self.writer)),
            events: self.heard.events(),
            ..nothing()
        };
        let never = CancellationToken::new();
        let arguments = arguments.to_string();
        self.component.call(tool, &arguments, services, PLENTY, &never).await.unwrap()
    }
}

#[test]
fn every_built_in_component_fits_the_grant_of_its_kind() {
    for builtin in ALL {
        let grant =
            if builtin == FILE_TOOLS { Grant::builtin_tool() } else { Grant::builtin_scout() };
        let loaded = load(builtin, grant);
        assert_eq!(
            (loaded.manifest.name.as_str(), &*loaded.sha256),
            (builtin.name, builtin.sha256)
        );
        let kind = if builtin == FILE_TOOLS { Kind::Tool } else { Kind::Scout };
        assert_eq!(loaded.manifest.kind, kind);
    }
}

// TOOLS-9, EDIT-11
#[tokio::test]
async fn file_tools_edit_under_a_version_and_keep_the_line_endings() {
    let shop = shop();
    let hands = Hands::on(shop.path());
    let read = hands.call("read", json!({"path": "src/price.py"})).await;
    assert_eq!(
        read,
        "src/price.py · version 1 · lines 1-2 of 2 · CRLF\n1| def total(items):\n2|     return sum(items)"
    );
    let new = "    items = list(items)\n    return round(sum(items), 2)";
    let edits = json!([{"start": 2, "end": 2, "new": new}]);
    let edit = json!({"path": "src/price.py", "expect_version": 1, "edits": edits});
    let edited = hands.call("edit_lines", edit.clone()).await;
    assert_eq!(edited, "edited src/price.py · version 2 · 3 lines");
    assert_eq!(
        fs::read_to_string(shop.path().join("src/price.py")).unwrap(),
        "def total(items):\r\n    items = list(items)\r\n    return round(sum(items), 2)\r\n"
    );
    let stale = hands.call("edit_lines", edit).await;
    assert!(stale.starts_with("version_mismatch: src/price.py is at version 2 now; "), "{stale}");
    assert!(stale.contains("\n2|     items = list(items)\n"), "{stale}");

    fs::write(shop.path().join("src/price.py"), "theirs\n").unwrap();
    let edit = json!({"path": "src/price.py", "expect_version": 2, "old": "items", "new": "mine"});
    let raced = hands.call("replace", edit).await;
    let expected = "version_mismatch: src/price.py is at version 3 now; base the edit on what it has now\n\
                    src/price.py · version 3 · lines 1-1 of 1\n1| theirs";
    assert_eq!(raced, expected);

    let edits =
        hands.heard.kinds().into_iter().filter(|kind| matches!(kind, EventKind::Edit { .. }));
    assert_eq!(edits.count(), 1);
}

#[tokio::test]
async fn file_tools_create_move_delete_list_and_search() {
    let shop = shop();
    let hands = Hands::on(shop.path());
    let created = hands.call("create", json!({"path": "docs/new.md", "content": "# New\n"})).await;
    assert_eq!(created, "created docs/new.md · version 1 · 1 lines");
    let taken = hands.call("create", json!({"path": "src/price.py", "content": ""})).await;
    assert!(taken.starts_with("exists: "), "{taken}");
    let moved = json!({"from": "docs/new.md", "to": "docs/old.md", "expect_version": 1});
    let moved = hands.call("move", moved).await;
    assert_eq!(moved, "moved docs/new.md to docs/old.md · version 1");
    let listed = hands.call("list", json!({})).await;
    assert_eq!(
        listed,
        "agent.yaml\ndocs/old.md\nrequirements.txt\nsrc/price.py\ntests/test_price.py"
    );
    let deleted = hands.call("delete", json!({"path": "docs/old.md", "expect_version": 1})).await;
    assert_eq!(deleted, "deleted docs/old.md");
    assert!(!shop.path().join("docs/old.md").exists());
    let found = hands.call("search", json!({"pattern": "tot.l", "glob": "*.py"})).await;
    assert_eq!(
        found,
        "src/price.py · version 1\n1| def total(items):\nin 1-2 total\ntests/test_price.py · version 1\n1| from price import total"
    );
    let literal =
        json!({"pattern": "RETURN SUM(", "literal": true, "ignore_case": true, "context": 1});
    assert_eq!(
        hands.call("search", literal).await,
        "src/price.py · version 1\n1- def total(items):\n2|     return sum(items)\nin 1-2 total"
    );
}

// CAPABILITY-48
#[tokio::test]
async fn a_tool_that_is_declared_as_reading_only_cannot_edit() {
    // `list` reads and `move` edits: their manifests change places.
    let (list, edit) = (br#"{"name": "list""#, br#"{"name": "move""#);
    let mut bytes = FILE_TOOLS.bytes.to_vec();
    let place =
        |bytes: &[u8], name: &[u8]| bytes.windows(name.len()).position(|at| at == name).unwrap();
    let (from, to) = (place(&bytes, list), place(&bytes, edit));
    bytes[from..from + edit.len()].copy_from_slice(edit);
    bytes[to..to + list.len()].copy_from_slice(list);
    let shop = shop();
    let loaded = host().load(&bytes, Grant::builtin_tool(), &Events::silent()).unwrap();
    let hands = Hands { component: loaded.into_tool().unwrap(), ..Hands::on(shop.path()) };
    let arguments = json!({"from": "src/price.py", "to": "src/x.py", "expect_version": 1});
    let moved = hands.outcome("move", arguments).await;
    assert!(moved.is_error && moved.text.contains("repo.write"), "{moved:?}");
    assert!(shop.path().join("src/price.py").exists() && !shop.path().join("src/x.py").exists());
    assert!(hands.heard.denials().contains(&("repo.write".into(), "repo.edit".into())));
    let deleted = json!({"path": "src/price.py", "expect_version": 1});
    assert!(!hands.outcome("delete", deleted).await.is_error);
}

// TOOLS-3, TOOLS-4
#[tokio::test]
async fn file_tools_hand_on_why_the_host_refuses() {
    let shop = shop();
    let hands = Hands::on(shop.path());
    let create = |path: &str| json!({"path": path, "content": "x"});
    for (tool, arguments, reason) in [
        ("create", create("agent/x"), "protected"),
        ("create", create(".git/hooks/x"), "protected"),
        ("create", create(".vscode/tasks.json"), "guarded"),
        ("create", create("../x"), "outside_repo"),
        ("create", create("src/.env"), "excluded"),
        ("read", json!({"path": ".env"}), "not_found"),
        ("read", json!({"path": "src"}), "not_a_file"),
        ("read", json!({"path": "no.py"}), "not_found"),
        ("search", json!({"pattern": "("}), "bad_arguments"),
    ] {
        let answer = hands.call(tool, arguments.clone()).await;
        assert!(answer.starts_with(&format!("{reason}: ")), "{tool} {arguments}: {answer}");
    }
    let agent_yaml = json!({"path": "agent.yaml", "expect_version": 1, "content": "steps: []\n"});
    assert!(hands.call("full_rewrite", agent_yaml).await.starts_with("protected: "));
    assert_eq!(fs::read_to_string(shop.path().join("agent.yaml")).unwrap(), "verification:\n");
}

// SCOUT-B-1, SCOUT-B-2
#[tokio::test]
async fn scout_b_reports_on_facts_alone_without_a_model() {
    let shop = shop();
    let view = RepoView::open(shop.path(), Profile::Scout).unwrap();
    let question = ScoutQuestion { facts_only: true, ..ScoutQuestion::default() };
    let services = Services { view: Some(view), ..nothing() };
    let never = CancellationToken::new();
    let scout = load(SCOUT_B, Grant::builtin_scout()).into_scout().unwrap();
    let raw = scout.ask(question.clone(), services.clone(), PLENTY, &never).await.unwrap();
    let facts = FactsB::parse(&raw).unwrap();
    assert_eq!(ground_facts_b(&facts, lines_in(shop.path())), []);
    assert_eq!(facts.summary(), "pip project, tested by `pytest`");
    let install = facts.projects[0].commands.install.as_ref().unwrap();
    assert_eq!(install.command, "pip install -r requirements.txt");
    assert_eq!((install.source.path.as_str(), install.source.line), ("requirements.txt", 1));
    let again = scout.ask(question, services, PLENTY, &never).await.unwrap();
    assert_eq!(raw, again, "byte for byte");
}

/// Everything that may go wrong with a file, under a name that Scout B reads.
fn hostile_manifests(root: &Path) {
    let deep = 100_000;
    let texts: [(&str, Vec<u8>); 14] = [
        ("package.json", "{\"a\":".repeat(deep).into_bytes()),
        ("a/package.json", "[".repeat(200_000).into_bytes()),
        ("pyproject.toml", format!("a = {}", "[".repeat(deep)).into_bytes()),
        ("b/Cargo.toml", "[a.".repeat(40_000).into_bytes()),
        (".github/workflows/ci.yml", "- ".repeat(deep).into_bytes()),
        (".github/workflows/more.yml", format!("a: {}", "{b: [".repeat(20_000)).into_bytes()),
        (".gitlab-ci.yml", "a: &a [x]\nb: [*a, *a]\r\r\r\rscript: pytest\n".as_bytes().to_vec()),
        ("pom.xml", format!("<project>{}", "<a>".repeat(80_000)).into_bytes()),
        (
            "c/pom.xml",
            b"<!DOCTYPE p [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]><p>&b;</p>".to_vec(),
        ),
        ("Makefile", "test:".repeat(50_000).into_bytes()),
        ("setup.cfg", vec![0, 159, 146, 150]),
        ("go.mod", vec![0xff, 0xfe, b'm', 0]),
        ("README.md", format!("```\n{}", "cd a && ".repeat(30_000)).into_bytes()),
        ("requirements.txt", vec![b'x'; 3 << 20]),
    ];
    for (path, bytes) in texts {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

// SCOUT-B-10
#[tokio::test]
async fn scout_b_survives_every_manifest_and_says_which_it_cannot_read() {
    let temp = tempfile::tempdir().unwrap();
    hostile_manifests(temp.path());
    let view = RepoView::open(temp.path(), Profile::Scout).unwrap();
    let log = "\u{1b}[".repeat(20_000) + &"a:1:".repeat(20_000) + "\n1 failed in 0.1s";
    let question = ScoutQuestion {
        context: vec![("tail_log".to_owned(), log)],
        facts_only: true,
        ..ScoutQuestion::default()
    };
    let services = Services { view: Some(view), ..nothing() };
    let scout = load(SCOUT_B, Grant::builtin_scout()).into_scout().unwrap();
    let never = CancellationToken::new();
    let raw = scout.ask(question, services, PLENTY, &never).await.unwrap();
    let facts = FactsB::parse(&raw).unwrap();
    assert_eq!(ground_facts_b(&facts, lines_in(temp.path())), []);
    let said = |path: &str| facts.problems.iter().any(|problem| problem.path == path);
    for path in ["package.json", "pyproject.toml", "pom.xml", "requirements.txt"] {
        assert!(said(path), "{path}: {:?}", facts.problems);
    }
    assert_eq!(facts.failure.unwrap().tool, "pytest");
}

// SCOUT-4, SCOUT-5, SCOUT-9
#[tokio::test]
async fn scout_a_turns_the_models_judgement_into_a_grounded_report() {
    let shop = shop();
    let view = RepoView::open(shop.path(), Profile::Scout).unwrap();
    let report = r#"{"repo_map":{"relevant_files":[
        {"path":"price.py","purpose":"adds prices","relevance":"primary"}]},
        "risk_zones":[{"file":"src/price.py","start_line":1,"end_line":9,"risk_level":"high","rationale":"money"}]}"#;
    let say = |text: &'static str| Reply::Text(text, ModelUsage::default());
    let (model, mut told) = Scripted::new(vec![say("I would start with price.py."), say(report)]);
    let lent: Arc<dyn Model> = model;
    let services =
        Services { view: Some(view), model: Some((lent, "scout-a".to_owned())), ..nothing() };
    let question = ScoutQuestion { text: "Round total()".to_owned(), ..ScoutQuestion::default() };
    let never = CancellationToken::new();
    let scout = load(SCOUT_A, Grant::builtin_scout()).into_scout().unwrap();
    let report = scout.ask(question, services, PLENTY, &never).await.unwrap();
    let report = ReportA::parse(&report).unwrap();
    assert_eq!(ground_a(&report, &mut lines_in(shop.path())), []);
    assert_eq!(
        report.summary(),
        "1 relevant files (1 primary), 1 risk zones (1 high), 0 safe slices"
    );
    assert_eq!(report.risk_zones[0].end_line, 2);
    assert_eq!(report.repo_map.relevant_files[0].path, "src/price.py");
    assert_eq!(report.verification_tips, ["tests of these files: tests/test_price.py"]);
    let Some(Told::Opened { role, system }) = told.recv().await else {
        panic!("nothing was opened")
    };
    assert_eq!(role, "scout-a");
    assert!(system.contains("schema version 1"));
}
