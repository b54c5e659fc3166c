//! Whole terminal sessions: command lines and all output, compared with `tests/golden`.
//!
//! `ACT_BLESS=1` writes the files anew; what changed in them is then to be read and judged.

use std::collections::BTreeMap;

use regex::{Captures, Regex};
use serde_json::json;

use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, image};

const TEXT: &str = "write the right answer into answer.txt and say in the summary why \
                    nobody found it earlier";

/// A session at a prompt, with everything in it that differs from day to day named by its place.
struct Session {
    act: Act,
    text: String,
    known: BTreeMap<String, String>,
}

impl Session {
    fn new(act: &Act) -> Self {
        Self { act: act.clone(), text: String::new(), known: BTreeMap::new() }
    }

    fn with(&mut self, act: &Act) -> &mut Self {
        self.act = act.clone();
        self
    }

    fn remark(&mut self, what: &str) -> &mut Self {
        self.text.push_str(&format!("# {what}\n\n"));
        self
    }

    /// One command; errors are marked with `!`.
    fn types(&mut self, line: &str) -> &mut Self {
        self.types_at(line, None)
    }

    /// The width of the terminal in columns; `None` is the usual size.
    fn types_in_both(&mut self, line: &str) -> &mut Self {
        self.types_at(line, None).types_at(line, Some(40))
    }

    fn types_at(&mut self, line: &str, columns: Option<u32>) -> &mut Self {
        let mut act = self.act.clone();
        if let Some(columns) = columns {
            act = act.env("COLUMNS", columns.to_string());
        }
        let typed = self.given(line);
        let told = act.act(typed.split(' '));
        let narrow = columns.map(|columns| format!("    [{columns} columns]")).unwrap_or_default();
        self.text.push_str(&format!("$ act {line}{narrow}\n"));
        let errors: String = told.stderr_text().lines().map(|line| format!("! {line}\n")).collect();
        let said = self.named(&format!("{}{errors}", told.stdout_text()));
        let code = told.exit_code();
        self.text.push_str(&format!("{said}= {code}\n\n"));
        self
    }

    /// `TASK-1` and `RUN-1` in a typed line are the first ones that were shown.
    fn given(&self, line: &str) -> String {
        let known = self.known.iter().find(|(_, name)| line.split(' ').any(|word| word == **name));
        known.map_or_else(|| line.to_owned(), |(id, name)| line.replace(name, id))
    }

    fn named(&mut self, text: &str) -> String {
        let place = self.act.repo().parent().unwrap().display().to_string();
        let text = text.replace(&format!("/private{place}"), "PLACE").replace(&place, "PLACE");
        let id = Regex::new(r"\bt-[a-z0-9]{6}\b|\brun_\d{8}_\d{6}_[a-z0-9]{6}\b").unwrap();
        let known = &mut self.known;
        let text = id.replace_all(&text, |found: &Captures<'_>| {
            let kind = if found[0].starts_with("t-") { "TASK" } else { "RUN" };
            let number = known.values().filter(|name| name.starts_with(kind)).count() + 1;
            known.entry(found[0].to_owned()).or_insert_with(|| format!("{kind}-{number}")).clone()
        });
        let time = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z").unwrap();
        let text = time.replace_all(&text, "TIME");
        let process = Regex::new(r"process \d+").unwrap();
        let text = process.replace_all(&text, "process NUMBER");
        let digest = Regex::new(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b").unwrap();
        let text = digest.replace_all(&text, "DIGEST");
        let lasted = Regex::new(r"\b\d+(\.\d+)? ?m?s\b").unwrap();
        lasted.replace_all(&text, "DURATION").into_owned()
    }

    #[track_caller]
    fn is(&self, name: &str) {
        let path = act_core::testing::checkout().join("tests/golden").join(name);
        if std::env::var_os("ACT_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            return std::fs::write(&path, &self.text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            self.text == golden,
            "not as in tests/golden/{name} (ACT_BLESS=1 writes it anew):\n{}",
            self.text
        );
    }
}

fn repository() -> Act {
    Act::new().file("answer.txt", "none\n").pipeline(
        image(),
        &[
            ("build", "echo built"),
            ("test", "grep -qx right answer.txt || { echo FAIL: $(cat answer.txt); exit 1; }"),
        ],
    )
}

/// CLI-23, CLI-24, CLI-30, CLI-31, CLI-32: nothing was ever done here, and mistakes.
#[test]
fn an_empty_repository_and_what_is_typed_wrongly() {
    let act = repository();
    let mut session = Session::new(&act);
    for line in ["status", "queue", "history", "logs", "report", "report --resolve", "cancel"] {
        session.types(line);
    }
    for line in [
        "cancel --id 3",
        "cancel --id t-abc123",
        "cancel --id three",
        "logs run_20261121_100000_abc123",
        "logs t-abc123",
        "logs ../../etc/passwd",
        "history --limit none",
        "status --repo nowhere",
        "queue --json --repo nowhere",
        "report --repo nowhere --json",
    ] {
        session.types(line);
    }
    let outside = act.clone().within("/".into());
    session.remark("outside of every repository").with(&outside);
    for line in ["status", "queue", "history", "cancel", "report", "logs"] {
        session.types(line);
    }
    session.is("nothing.txt");
}

/// CLI-23, CLI-30, CLI-31, CLI-32: a task that got stuck, its report, and a success after it.
#[test]
fn a_stuck_task_its_report_and_a_success() {
    let silent = json!({"role": "editor", "text": "hm"});
    let turns = opening("guess").into_iter().chain(attempt("wrong\n"));
    let turns = turns.chain([silent.clone(), silent.clone(), silent]);
    let success = opening("think").into_iter().chain(attempt("right\n")).chain([done()]);
    let act = repository().script(&script(turns.chain(success)));
    act.clone().run(TEXT).status(3);
    let mut session = Session::new(&act);
    session.types_in_both("status").types_in_both("history").types("queue");
    session.types("logs").types("logs --step test").types("logs --step tset").types("logs TASK-1");
    session.types("report").types("report --resolve").types("report --resolve").types("status");
    act.clone().run("and once more").status(0);
    session.remark("after a success").types("status").types("history").types("report");
    let foreign = act.clone().file("agent/stuck_report.md", "# Stuck report\n\nall is well\n");
    session.remark("somebody else's file").with(&foreign);
    session.types("report").types("report --resolve").types("status");
    session.is("past.txt");
}

/// CLI-23, CLI-24, CLI-30, TASK-20: a line, one that is stopped in it, an orphan, and cancels.
#[test]
fn a_line_and_cancels_in_it() {
    let turn = json!({"role": "editor", "text": "thinking", "stall_after_bytes": 40});
    let act = repository().script(&script(vec![turn; 3]));
    let first = act.clone().start(["run", TEXT]);
    first.until_stderr_has("Analyzing codebase...");
    let second = act.clone().start(["run", "the second\nof them"]);
    second.until_stderr_has("Waiting: ");
    act.clone().env("ACT_FAIL_POINT", "accepted").act(["run", "an orphan"]);
    let mut session = Session::new(&act);
    session.types_in_both("queue").types_in_both("status").types_in_both("history");
    first.stop();
    second.until_stderr_has("is stopped");
    session.remark("the first one is stopped").types("status").types("queue");
    session.types("cancel --id 7").types("cancel --id 2").types("cancel --id TASK-2");
    second.wait().status(130);
    session.types("cancel").types("cancel --id TASK-1").types("queue").types("history");
    first.wait().status(130);
    session.is("line.txt");
}
