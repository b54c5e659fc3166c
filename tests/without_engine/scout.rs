//! `act scout`: a Scout alone, without agent.yaml and without an engine.

use std::fs;

use serde_json::{Value, json};

use crate::harness::script::{asking, script};
use crate::harness::{Act, Done};

/// The facts of both Scouts about the repository of these tests.
fn reports() -> Vec<Value> {
    asking("").into_iter().skip(1).collect()
}

fn repository() -> Act {
    Act::new().file("answer.txt", "none\n").without_engine()
}

/// Nothing but the record that somebody asked (AUDIT-5).
#[track_caller]
fn untouched(done: &Done) {
    assert!(done.agent_files().is_empty() && !done.repo().join(".gitignore").exists(), "{done}");
    let log = done.repo().parent().unwrap().join("artifacts/state/audit.jsonl");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(
        log.contains(r#""event":"component_loaded""#) && log.contains(r#""event":"query""#),
        "{log}"
    );
    assert!(done.runs().is_empty(), "{done}");
}

#[test]
fn a_scout_answers_without_agent_yaml_and_without_an_engine() {
    // CLI-16
    let told = repository().script(&script(reports())).act(["scout", "a", "where is the answer"]);
    let told = told.status(0).stderr_has("Querying Scout A...").stdout_has("answer.txt").inert();
    assert!(told.stdout_text().starts_with("Scout A: "), "{told}");
    assert!(told.requests()[0].body.to_string().contains("where is the answer"), "{told}");
    untouched(&told);
}

#[test]
fn json_is_one_document_after_the_schema() {
    // CLI-16, EVENT-8
    let told = repository().script(&script(reports())).act(["scout", "b", "--json"]).status(0);
    let document = told.document("scout");
    assert_eq!(document["scout"], "b");
    assert_eq!(document["report"]["test"]["detected_framework"], "custom");
    assert_eq!(told.stdout_text().lines().count(), 1);
    assert!(document["tokens"]["scout-b"]["input"].is_u64(), "{told}");
}

#[test]
fn a_log_is_handed_on_from_a_file_and_from_standard_input() {
    // CLI-17
    let noise = "noise\n".repeat(40_000);
    let log = format!("start of the log\n{noise}error: the answer is 41\n");
    for from in ["ci.log", "-"] {
        let act = repository().file("ci.log", &log).stdin(log.clone()).script(&script(reports()));
        let told = act.act(["scout", "b", "why", "--log", from]).status(0);
        let asked = told.requests()[0].body.to_string();
        assert!(asked.contains("the answer is 41"), "{told}");
        assert!(!asked.contains("start of the log"), "{told}");
    }
    let missing = repository().script("turns: []").act(["scout", "b", "--log", "none", "--json"]);
    let missing = missing.status(1);
    let refusal = missing.json();
    assert_eq!((&refusal["type"], &refusal["code"]), (&json!("refused"), &json!("log_unreadable")));
}

/// CLI-16, SCOUT-11: a report that still does not hold after its correction gives way to one of facts.
#[test]
fn a_report_that_does_not_hold_becomes_one_of_facts() {
    let mut bad = reports().remove(0);
    bad["call"]["arguments"]["repo_map"]["relevant_files"][0]["path"] = json!("invented.txt");
    let told = repository().script(&script(vec![json!({"repeat": 9, "turns": [bad]})]));
    let told = told
        .act(["scout", "a", "--json"])
        .status(0)
        .stderr_has("there is no file \"invented.txt\"")
        .stderr_has("scout_facts_only");
    let document = told.document("scout");
    let warning = document["warning"].as_str().unwrap();
    assert!(warning.starts_with("scout_facts_only: "), "{warning}");
    let report = document["report"].to_string();
    assert!(report.contains("answer.txt") && !report.contains("invented.txt"), "{report}");
}

/// SCOUT-A-7, WORKSPACE-6, security line 326
#[cfg(target_os = "linux")]
#[test]
fn facts_count_the_names_that_are_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let odd = |act: Act| {
        for name in [&b"odd-\xff.py"[..], b"\xfe"] {
            fs::write(act.repo().join(std::ffi::OsStr::from_bytes(name)), "x = 1\n").unwrap();
        }
        act
    };
    let facts = |act: Act| {
        let told = act.act(["scout", "a", "--facts", "--json"]).status(0);
        told.document("scout-a-facts")
    };
    let (without, with) = (facts(repository()), facts(odd(repository())));
    let (before, after) = (&without["inventory"], &with["inventory"]);
    assert_eq!((&before["not_utf8"], &after["not_utf8"]), (&Value::Null, &json!(2)));
    assert_eq!(before["files"], after["files"], "{with}");
    assert_eq!((&without["truncated"], &with["truncated"]), (&json!(false), &json!(true)));
    let shown = odd(repository()).act(["scout", "a", "--facts"]).status(0);
    shown.stdout_has("2 names are not UTF-8, so they are in no list.");
}

#[test]
fn without_a_model_it_is_refused_with_the_variables() {
    repository().act(["scout", "a"]).status(1).stdout("").stderr_has("AGENT_LLM_BASE_URL");
    repository().act(["scout"]).status(2).stdout("");
    repository().act(["scout", "z"]).status(1).stdout("").stderr_has("no Scout `z` is approved");
    repository().act(["scout", "../z"]).status(2).stdout("");
}

#[test]
fn a_directory_without_any_repository_is_one() {
    // CLI-16
    let act = repository().script(&script(reports()));
    let plain = act.repo().parent().unwrap().join("plain");
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("answer.txt"), "x\n").unwrap();
    act.act(["scout".into(), "a".into(), "--repo".into(), plain.into_os_string()]).status(0);
}

/// A repository with two files that hang together.
fn shop() -> Act {
    let act = Act::new()
        .without_engine()
        .file("src/price.py", "def total(items):\n    return sum(items)\n");
    act.file(
        "tests/test_price.py",
        "from price import total\n\n\ndef test_total():\n    assert total([1]) == 1\n",
    )
}

#[test]
fn facts_need_no_model_no_configuration_and_no_engine() {
    // SCOUT-10, EVENT-8
    let told = shop().act(["scout", "a", "--facts", "price", "--json"]).status(0);
    let facts = told.document("scout-a-facts");
    assert_eq!((&facts["scout"], &facts["question"]), (&json!("a"), &json!("price")));
    assert_eq!(facts["imports"], json!([{"from": "tests/test_price.py", "to": "src/price.py"}]));
    assert_eq!(told.stdout_text().lines().count(), 1);
    untouched(&told);
    let again = shop().act(["scout", "a", "--facts", "price", "--json"]).status(0);
    assert_eq!(told.stdout_text(), again.stdout_text());
}

/// A log of pytest with a failing test.
const LOG: &str = "=== FAILURES ===\nE   assert 1 == 2\nsrc/price.py:2: in total\n\
                   === short test summary info ===\nFAILED tests/test_price.py::test_total\n1 failed in 0.1s\n";

// SCOUT-B-8, SCOUT-B-12
#[test]
fn facts_of_build_and_tests_name_their_places_and_a_log_is_analysed() {
    let shop = || shop().file("requirements.txt", "flask\npytest\n").stdin(LOG);
    let facts = |args: &[&str]| {
        let told = shop().act(args).status(0);
        let facts = told.document("scout-b-facts");
        untouched(&told);
        (told.stdout_text(), facts)
    };
    let (raw, told) = facts(&["scout", "b", "--facts", "--json"]);
    assert_eq!((&told["scout"], &told["failure"]), (&json!("b"), &Value::Null));
    assert_eq!(
        told["projects"][0]["commands"]["test"],
        json!({"command": "pytest", "source": {"path": "requirements.txt", "line": 2}})
    );
    assert_eq!(raw, facts(&["scout", "b", "--facts", "--json"]).0, "byte for byte");
    let (_, told) = facts(&["scout", "b", "--facts", "--log", "-", "--json"]);
    let failure = &told["failure"];
    assert_eq!(failure["tool"], "pytest");
    assert_eq!(failure["failing_tests"], json!(["tests/test_price.py::test_total"]));
    assert_eq!(failure["locations"], json!([{"path": "src/price.py", "line": 2}]));

    let told = shop().act(["scout", "b", "--facts", "--log", "-"]).status(0).inert();
    let told = told.stdout_has("requirements.txt:2").stdout_has("error        assert 1 == 2");
    assert!(
        told.stdout_text().starts_with("Scout B, facts: pip project, tested by `pytest`"),
        "{told}"
    );
}

/// SCOUT-10: the map comes first, then the lines that match, tests and conventions in words.
#[test]
fn facts_are_shown_to_people_in_the_order_in_which_they_help() {
    // A convention needs some cases.
    let shop = || {
        let text = "def check(item):\n    return item\n";
        (0..12).fold(shop(), |shop, n| shop.file(&format!("src/check_{n}.py"), text))
    };
    let told = shop().act(["scout", "a", "--facts", "total of a price"]).status(0).inert();
    let text = told.stdout_text();
    let parts = [
        "Scout A, facts: ",
        "\nmap, best file first\n  src/price.py  total\n",
        "\nlines that match\n  src/price.py:1-2\n  1  def total(items):\n  2      return sum(items)\n",
        "\ntests\n  tests/test_price.py exercises src/price.py\n",
        "\nconventions\n  ",
        " in Python: ",
        "`--json` prints all of it, with 14 definitions, 1 imports",
    ];
    let places: Vec<_> = parts.iter().map(|part| text.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{told}");
    assert!(!text.contains(['{', '\u{1b}']), "{told}");
    untouched(&told);
    let json = shop().act(["scout", "a", "--facts", "total of a price", "--json"]).status(0);
    let facts = json.document("scout-a-facts");
    assert_eq!(
        facts["excerpts"],
        json!([{"file": "src/price.py", "start_line": 1, "end_line": 2}])
    );
}

/// The index of outlines in a cache of its own.
struct IndexOf {
    cache: tempfile::TempDir,
}

impl IndexOf {
    /// Returns a cache with the compiled components, so that no process waits for a compiler, and without an index.
    fn new() -> Self {
        let cache = tempfile::tempdir().unwrap();
        let act = repository().env("XDG_CACHE_HOME", cache.path());
        act.act(["scout", "a", "--facts", "--json"]).status(0);
        let index = Self { cache };
        for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
            let _ = fs::remove_file(index.directory().join(name));
        }
        index
    }

    fn directory(&self) -> std::path::PathBuf {
        self.cache.path().join("agent-command-tool/components")
    }

    fn connection(&self) -> rusqlite::Result<rusqlite::Connection> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
        let index =
            rusqlite::Connection::open_with_flags(self.directory().join("index.sqlite"), flags)?;
        index.busy_timeout(std::time::Duration::from_secs(10))?;
        Ok(index)
    }

    /// The number of files in it; 0 before it was made.
    fn files(&self) -> u64 {
        let count = |index: rusqlite::Connection| {
            index.query_row("SELECT count(*) FROM file", [], |row| row.get::<_, i64>(0))
        };
        self.connection().and_then(count).map_or(0, |count| u64::try_from(count).unwrap())
    }
}

/// SYMBOLS-5, security line 471
#[test]
fn processes_share_an_index_though_one_is_killed_while_it_writes_it() {
    const FILES: usize = 1_500;
    let act = repository();
    for n in 0..FILES {
        let body: String =
            (0..40).map(|m| format!("def part_{n}_{m}(x):\n    return x + {m}\n\n")).collect();
        let path = act.repo().join(format!("src/d{}/file_{n}.py", n % 30));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body).unwrap();
    }
    let question = ["scout", "a", "--facts", "where is part_77_3", "--json"];
    let with = |index: &IndexOf| act.clone().env("XDG_CACHE_HOME", index.cache.path());
    let alone = IndexOf::new();
    let expected = with(&alone).act(question).status(0).stdout_text();
    let document: Value = serde_json::from_str(&expected).unwrap();
    assert_eq!(document["map"][0]["path"], "src/d17/file_77.py", "{document:#}");
    assert!(document["left_out"].get("not_looked_at").is_none(), "{document:#}");

    let shared = IndexOf::new();
    let killed = with(&shared).start(question);
    let others = [with(&shared).start(question), with(&shared).start(question)];
    let began = std::time::Instant::now();
    while shared.files() < 100 {
        assert!(!killed.has_ended() && began.elapsed().as_secs() < 120, "nothing is written");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    killed.signal(rustix::process::Signal::KILL);
    assert_eq!(killed.wait().killed_by(), Some(9));
    for other in others {
        let told = other.wait().status(0).stderr_lacks("warning");
        assert_eq!(told.stdout_text(), expected, "the same bytes as of a process of its own");
    }
    let told = with(&shared).act(question).status(0);
    assert_eq!(told.stdout_text(), expected);
    let check = |index: rusqlite::Connection| {
        index.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
    };
    assert_eq!(shared.connection().and_then(check).unwrap(), "ok");
    assert!(shared.files() >= FILES as u64, "{} files are known", shared.files());
}

/// SCOUT-A-13, security line 470
#[test]
fn a_hundred_thousand_files_in_one_directory_are_counted_and_hide_no_source() {
    let act =
        repository().file("one/zz_parser.py", "def parse_price(text):\n    return int(text)\n");
    let one = act.repo().join("one");
    // Two more files than a Scout lists, so that it says that there are more.
    for n in 0..99_999 {
        fs::File::create(one.join(format!("record_{n:06}.txt"))).unwrap();
    }
    let question = ["scout", "a", "--facts", "where does parse_price fail", "--json"];
    let facts = act.clone().act(question).status(0).document("scout-a-facts");
    // `answer.txt`, the parser, and what `record_` begins as far as 100,000 names reach.
    assert_eq!(facts["inventory"]["files"], 100_000, "{:#}", facts["inventory"]);
    assert_eq!(facts["truncated"], true);
    fs::remove_file(one.join("record_000000.txt")).unwrap();
    let facts = act.act(question).status(0).document("scout-a-facts");
    assert_eq!(facts["inventory"]["files"], 100_000, "{:#}", facts["inventory"]);
    assert_eq!(facts["truncated"], false, "{:#}", facts["left_out"]);
    assert_eq!(facts["map"][0]["path"], "one/zz_parser.py", "{:#}", facts["map"]);
}
