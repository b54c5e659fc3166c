//! Questions to the Scouts, conflicts between their reports, and hints that the host derives from the reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::finish::budget_spent;
use super::prompt::{Text, named_excerpts};
use super::tools::{Answer, AskScout, Called};
use super::{OrEnd, Session, TaskResult, prompt};
use crate::context::{ScoutPayload, SnapshotKind, VerifiedRun};
use crate::scout::report_a::{Level, ReportA, SafeSlice};
use crate::scout::report_b::{Framework, ReportB, System};
use crate::scout::{self, QueryEnd, Question, Report, STANDARD, shown};
use act_core::event::Milestone;
use act_core::reason;
use act_model::TokioTimer;

/// Questions to Scouts between two verifications. Each one costs a conversation of its own.
pub(super) const QUESTIONS: u32 = 8;

/// Bytes of the lines that the host pastes below one report: about 300 lines of code.
const EXCERPTS: usize = 12 * 1024;

impl Session<'_> {
    pub(super) fn has_scout(&self, name: &str) -> bool {
        self.editor.scouts.iter().any(|scout| scout.name() == name)
    }

    pub(super) fn scouts(&self) -> String {
        self.editor.scouts.iter().map(|scout| scout.name()).collect::<Vec<_>>().join(", ")
    }

    /// The question for a Scout: the model's words or the task itself, with the log of the last failure.
    pub(super) fn question(&self, text: Option<&String>) -> Question {
        let mut context = vec![];
        if self.last.as_ref().is_some_and(|last| last.failed()) {
            context.push(("tail_log".to_owned(), self.end_of_log.clone()));
            if let Some(step) =
                self.plans.attempts().last().and_then(|run| run.failing_step.clone())
            {
                context.push(("failing_step".to_owned(), step));
            }
            context.push(("changes".to_owned(), self.changes_since_green()));
        }
        if let Some(package) = &self.editor.input.package {
            context.push(("package".to_owned(), package.clone()));
        }
        let text = text.map(String::as_str).filter(|text| !text.trim().is_empty());
        let text = match text {
            // The text of the task contains its sections.
            None => self.editor.input.request.text().to_owned(),
            Some(text) => format!("{text}{}", prompt::sections(&self.editor.input)),
        };
        Question { text, context, facts_only: false }
    }

    /// Asks Scout A and Scout B for a first report each, which they make of facts, without a model. Finds out meanwhile
    /// whether the repository has tests.
    pub(super) async fn first_reports(&mut self) -> OrEnd<()> {
        let workplace = Arc::clone(&self.editor.workplace);
        let tests = tokio::task::spawn_blocking(move || workplace.has_tests());
        let question = Question { facts_only: true, ..self.question(None) };
        let asked = STANDARD.into_iter().filter(|name| self.has_scout(name));
        let asked: Vec<_> = asked.map(|name| (name.to_owned(), question.clone())).collect();
        self.ask(&asked).await?;
        self.has_tests = tests.await.ok();
        Ok(())
    }

    /// Returns a report as the model reads it, with the text of its excerpts as the files are now.
    pub(super) fn shown_report(&self, report: &ScoutPayload) -> String {
        let versions = self.editor.writer.versions();
        let files = |path: &str| Text::read(&self.editor.view, versions, path);
        let lines = |path: &str| files(path).map(|text| text.lines().count());
        let mut text = shown::report(&report.scout, &report.payload, &lines);
        let parsed = serde_json::from_str::<Value>(&report.payload).unwrap_or_default();
        if report.scout == "scout-a" {
            let pieces = named_excerpts(&parsed, EXCERPTS, &files);
            if !pieces.is_empty() {
                let lines: String =
                    pieces.iter().map(|piece| format!("{}\n", piece.trim_end())).collect();
                text.push_str(&format!("\n<excerpts>\n{lines}</excerpts>"));
            }
        }
        text
    }

    /// Asks Scouts concurrently and returns their reports as the model reads them, one for each question. A question that
    /// fails after all attempts ends the task.
    pub(super) async fn ask(&mut self, asked: &[(String, Question)]) -> OrEnd<Vec<String>> {
        for (name, _) in asked {
            match name.as_str() {
                "scout-a" => self.milestone(Milestone::QueryingScoutA),
                "scout-b" => self.milestone(Milestone::QueryingScoutB),
                _ => {}
            }
        }
        let editor = self.editor;
        let scouts: Vec<_> = asked
            .iter()
            .filter_map(|(name, question)| {
                Some((editor.scouts.iter().find(|scout| scout.name() == name)?, question))
            })
            .collect();
        let queries = scouts.iter().map(|(scout, question)| {
            let (check, events, cancel) = (editor.check.as_ref(), &editor.events, &editor.cancel);
            scout::ask(scout.as_ref(), question, check, events, &TokioTimer, cancel)
        });
        let (mut reports, mut warnings) = (vec![], vec![]);
        for ((scout, question), answer) in scouts.iter().zip(join_all(queries).await) {
            match answer {
                Ok(Report { json, warning }) => {
                    warnings.push(warning.map(|warning| format!("\nwarning: {warning}")));
                    reports.push(ScoutPayload {
                        scout: scout.name().to_owned(),
                        sha256: scout.sha256().to_owned(),
                        question: question.text.clone(),
                        payload: json,
                    });
                }
                Err(QueryEnd::Cancelled) => return Err(TaskResult::cancelled().into()),
                Err(QueryEnd::Budget) => {
                    return Err(budget_spent(&self.editor.ledger).into());
                }
                Err(QueryEnd::Failed { message: diagnosis, .. }) => {
                    return Err(TaskResult::infra(reason::SCOUT_FAILED, diagnosis).into());
                }
            }
        }
        let shown: Vec<_> = reports.iter().map(|report| self.shown_report(report)).collect();
        let shown = warnings.into_iter().zip(shown);
        let answers = shown.map(|(warning, shown)| {
            let text = format!("{}\n{shown}", warning.unwrap_or_default());
            self.shown.without_known(&text)
        });
        let answers: Vec<_> = answers.collect();
        let last_run = self.plans.runs().last().and_then(|run| run.run_id.clone());
        for report in reports {
            match &last_run {
                Some(run) => self.asked_after.insert(report.scout.clone(), run.clone()),
                None => self.asked_after.remove(&report.scout),
            };
            match self.reports.iter_mut().find(|known| known.scout == report.scout) {
                Some(known) => *known = report,
                None => self.reports.push(report),
            }
        }
        Ok(answers)
    }

    /// Puts a question to its Scout, and those among the calls after it to theirs, all at once. Returns the answer, and adds
    /// the others by the places of their calls.
    pub(super) async fn ask_scouts(
        &mut self,
        first: AskScout,
        after: &[(usize, Called)],
        answers: &mut BTreeMap<usize, Answer>,
    ) -> OrEnd<Answer> {
        let others = after.iter().filter_map(|(at, called)| match called {
            Called::Question(ask) => Some((Some(*at), ask)),
            _ => None,
        });
        let (mut places, mut asked, mut answer) = (vec![], vec![], None);
        let mut take = |at: Option<usize>, one: Answer| match at {
            Some(at) => drop(answers.insert(at, one)),
            None => answer = Some(one),
        };
        for (at, ask) in std::iter::once((None, &first)).chain(others) {
            match self.refused_question(ask) {
                Some(refusal) => take(at, refusal),
                None => {
                    self.questions += 1;
                    places.push(at);
                    asked.push((ask.scout.clone(), self.question(Some(&ask.question))));
                }
            }
        }
        if !asked.is_empty() {
            self.check_audit()?;
            let mut reports = self.ask(&asked).await?;
            reports.last_mut().into_iter().for_each(|last| self.put_conflicts(last));
            for (at, report) in places.into_iter().zip(reports) {
                take(at, Answer::ok(report.trim_start()));
            }
        }
        Ok(answer.unwrap_or_else(|| Answer::refusal("budget", "the Scout gave no answer")))
    }

    /// Returns the refusal of a question, or `None` when it may be put.
    fn refused_question(&self, ask: &AskScout) -> Option<Answer> {
        if !self.has_scout(&ask.scout) {
            let message = format!("scout: no {}; there are {}", ask.scout, self.scouts());
            return Some(Answer::refusal("bad_arguments", &message));
        }
        (self.questions >= QUESTIONS).then(|| {
            let message = format!(
                "{QUESTIONS} questions are enough for one attempt; act on the answers, or verify"
            );
            Answer::refusal("budget", &message)
        })
    }
}

impl Session<'_> {
    fn report_a(&self) -> Option<ReportA> {
        let report = self.reports.iter().find(|report| report.scout == "scout-a")?;
        ReportA::parse(&report.payload).ok()
    }

    fn report_b(&self) -> Option<ReportB> {
        let report = self.reports.iter().find(|report| report.scout == "scout-b")?;
        ReportB::parse(&report.payload).ok()
    }

    /// Adds hints and conflicts from the newest reports to the answer of a plan. `first`: it is the first plan of the task.
    pub(super) fn annotate(&mut self, answer: &mut String, first: bool) {
        let (Some(a), Some(b)) = (self.report_a(), self.report_b()) else { return };
        if let Some(slice) = first_slice(&a) {
            let files = slice.files.join(", ");
            answer.push_str(&format!("\nbegin with the part {} ({files})", slice.id));
        }
        if first && self.has_tests == Some(false) {
            answer.push_str(&format!("\n{}", tests_owed(&b)));
        }
        self.put_conflicts(answer);
    }

    /// Adds the conflicts between the newest reports that were not shown before.
    pub(super) fn put_conflicts(&mut self, answer: &mut String) {
        let (Some(a), Some(b)) = (self.report_a(), self.report_b()) else { return };
        let fresh = self.decisions.compare(&a, &b);
        if fresh.is_empty() {
            return;
        }
        answer.push_str(
            "\nthe Scouts disagree: decide, and call plan again with `decisions`; they are recorded",
        );
        for Conflict { about, scout_a, scout_b } in &fresh {
            answer
                .push_str(&format!("\n- {about}: scout-a says {scout_a}, scout-b says {scout_b}"));
        }
    }

    /// Writes a snapshot now, or with the Editor's next action when a conflict waits for its decision.
    pub(super) fn snapshot_when_decided(&mut self, kind: SnapshotKind) -> OrEnd<()> {
        if self.decisions.are_open() {
            self.snapshot_due = Some(kind);
            return Ok(());
        }
        self.snapshot(kind)
    }

    pub(super) fn write_due_snapshot(&mut self) -> OrEnd<()> {
        self.snapshot_due.take().map_or(Ok(()), |kind| self.snapshot(kind))
    }
}

/// A field in which the reports of both Scouts differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Conflict {
    pub about: &'static str,
    pub scout_a: String,
    pub scout_b: String,
}

/// The Editor's decision between two statements, as `plan` takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decision {
    pub about: String,
    pub scout_a: String,
    pub scout_b: String,
    pub chosen: String,
    pub reason: String,
}

/// The conflicts that the host has shown to the Editor in one task, and the Editor's decisions.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    conflicts: Vec<Conflict>,
    made: Vec<Decision>,
    /// The lines that a dry run recorded.
    restored: Vec<String>,
}

impl Decisions {
    /// Restores the recorded lines of a dry run.
    pub(super) fn restore(&mut self, lines: Vec<String>) {
        self.restored = lines;
    }

    /// Compares two reports and returns the conflicts that were not shown before.
    pub(super) fn compare(&mut self, a: &ReportA, b: &ReportB) -> Vec<Conflict> {
        let mut fresh = conflicts(a, b);
        fresh.retain(|conflict| !self.conflicts.contains(conflict));
        self.conflicts.extend(fresh.iter().cloned());
        fresh
    }

    /// Adds decisions; a later one about the same thing replaces the earlier one.
    pub(super) fn decide(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            self.made.retain(|earlier| earlier.about != decision.about);
            self.made.push(decision.clone());
        }
    }

    /// Returns whether a conflict was shown that no decision is about.
    pub(super) fn are_open(&self) -> bool {
        self.conflicts.iter().any(|conflict| !self.decided(conflict))
    }

    fn decided(&self, conflict: &Conflict) -> bool {
        self.made.iter().any(|decision| decision.about == conflict.about)
    }

    /// One line for each decision and for each conflict that is not decided.
    pub(super) fn lines(&self) -> Vec<String> {
        let made = self.made.iter().map(|decision| {
            let Decision { about, scout_a, scout_b, chosen, reason } = decision;
            let line =
                format!("{about}: scout-a says {scout_a}, scout-b says {scout_b}; chosen: {chosen}, because {reason}");
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        let open = self.conflicts.iter().filter(|conflict| !self.decided(conflict));
        let open = open.map(|Conflict { about, scout_a, scout_b }| {
            format!("{about}: scout-a says {scout_a}, scout-b says {scout_b}; not decided")
        });
        self.restored.iter().cloned().chain(made).chain(open).collect()
    }
}

/// Paths that one statement lists. A longer list would hide the conflict.
const PATHS: usize = 5;

fn conflicts(a: &ReportA, b: &ReportB) -> Vec<Conflict> {
    let (scout_a, scout_b) = (files_of_a(a), files_of_b(b));
    let differ = !scout_a.is_empty() && !scout_b.is_empty() && scout_a.is_disjoint(&scout_b);
    let conflict = Conflict {
        about: "which files are affected",
        scout_a: listed(&scout_a),
        scout_b: listed(&scout_b),
    };
    if differ { vec![conflict] } else { vec![] }
}

fn listed(paths: &BTreeSet<&str>) -> String {
    let mut shown: Vec<_> = paths.iter().take(PATHS).copied().collect();
    if paths.len() > PATHS {
        shown.push("…");
    }
    shown.join(", ")
}

fn files_of_a(a: &ReportA) -> BTreeSet<&str> {
    let relevant = a.repo_map.relevant_files.iter().map(|file| &file.path);
    let slices = a.change_boundaries.safe_slices.iter().flat_map(|slice| &slice.files);
    let graph = a.repo_map.dependency_graph.iter();
    let graph = graph.flat_map(|(file, others)| std::iter::once(file).chain(others));
    let risky = a.risk_zones.iter().map(|zone| &zone.file);
    relevant.chain(slices).chain(graph).chain(risky).map(String::as_str).collect()
}

fn files_of_b(b: &ReportB) -> BTreeSet<&str> {
    let affected = b.failure_analysis.iter().flat_map(|analysis| &analysis.affected_files);
    affected.map(String::as_str).collect()
}

/// The slice to begin with: the first in Scout A's order, then the simplest, then the smallest. `None` when there is at most
/// one.
pub(super) fn first_slice(a: &ReportA) -> Option<&SafeSlice> {
    let slices = &a.change_boundaries.safe_slices;
    let hard = |slice: &SafeSlice| match slice.complexity {
        Level::Low => 0,
        Level::Medium => 1,
        Level::High => 2,
    };
    let key =
        |slice: &&SafeSlice| (slice.order.is_none(), slice.order, hard(slice), slice.files.len());
    slices.iter().min_by_key(key).filter(|_| slices.len() > 1)
}

/// The request to add tests to a repository without any, with the command that runs them.
pub(super) fn tests_owed(b: &ReportB) -> String {
    let todo = match framework(b) {
        Some(name) => format!(
            "the repository has no tests: add some for what you change, with {name}, where the pipeline or \
             its own command runs them"
        ),
        None => {
            "the repository has no tests and no test framework was found: add a small one that its \
                 language brings along, or say in `done` why not"
                .to_owned()
        }
    };
    let command = Some(&b.test.commands.all).filter(|command| !command.trim().is_empty());
    match command {
        Some(command) => format!("{todo}; the command for tests is `{command}`"),
        None => todo,
    }
}

fn framework(b: &ReportB) -> Option<&str> {
    if let Some(name) = b.test.framework_name.as_deref().filter(|name| !name.trim().is_empty()) {
        return Some(name);
    }
    Some(match (b.test.detected_framework, b.build.detected_system) {
        (Framework::Jest, _) => "jest",
        (Framework::Pytest, _) => "pytest",
        (Framework::GoTest, _) | (_, System::Go) => "go test",
        (Framework::CargoTest, _) | (_, System::Cargo) => "cargo test",
        (Framework::Junit, _) | (_, System::Gradle | System::Maven) => "junit",
        (Framework::Mocha, _) => "mocha",
        (Framework::Custom, _) => return None,
    })
}

/// Words in failing lines that point to the wrong place in the code, which Scout A knows.
const CODE: [&str; 10] = [
    "no such file",
    "cannot find",
    "can't find",
    "unresolved",
    "undefined",
    "not defined",
    "no module named",
    "importerror",
    "has no attribute",
    "unknown import",
];
/// Words in failing lines that point to the build or the environment, which Scout B knows.
const BUILD: [&str; 8] = [
    "command not found",
    ": not found",
    "permission denied",
    "could not resolve",
    "connection refused",
    "read-only file system",
    "no tests ran",
    "no space left",
];

/// The Scouts to ask again after these failures; none for plain errors of logic.
pub(super) fn requery<'a>(
    failures: impl Iterator<Item = &'a VerifiedRun> + Clone,
) -> Vec<&'static str> {
    let says = |signs: &[&str]| {
        failures.clone().any(|failure| {
            let line = failure.first_failing_line().to_lowercase();
            signs.iter().any(|sign| line.contains(sign))
        })
    };
    let environment = failures.clone().any(|failure| {
        failure.reason.as_deref() == Some("timeout") || matches!(failure.exit_code, Some(126 | 127))
    });
    let mut names = vec![];
    if says(&CODE) {
        names.push("scout-a");
    }
    if environment || says(&BUILD) {
        names.push("scout-b");
    }
    names
}

#[cfg(test)]
mod tests {
    mod decisions {
        use super::super::*;
        use serde_json::json;

        fn report_a(files: &[&str], tips: &[&str]) -> ReportA {
            let file = |path: &&str| json!({"path": path, "purpose": "", "relevance": "primary"});
            let files: Vec<Value> = files.iter().map(file).collect();
            let report = json!({
                "schema_version": "1",
                "repo_map": {"relevant_files": files, "entry_points": [], "dependency_graph": {}},
                "risk_zones": [],
                "change_boundaries": {"safe_slices": [], "ordering_constraints": []},
                "conventions": {"naming": "", "patterns": [], "anti_patterns": []},
                "prior_art": [], "verification_tips": tips, "hypotheses": [],
            });
            ReportA::parse(&report.to_string()).unwrap()
        }

        fn report_b(framework: &str, all: &str, affected: &[&str]) -> ReportB {
            let report = json!({
                "schema_version": "1",
                "build": {
                    "detected_system": "custom", "prerequisites": [], "notes": "",
                    "commands": {"install": null, "build": "", "clean": null}},
                "test": {
                    "detected_framework": framework, "coverage_command": null, "notes": "",
                    "commands": {"all": all, "unit": null, "integration": null}},
                "failure_analysis": {
                    "root_cause": "", "affected_files": affected, "suggested_investigation": [],
                    "is_flaky": false, "flaky_reason": null},
                "environment_issues": [],
            });
            ReportB::parse(&report.to_string()).unwrap()
        }

        /// EDITOR-17
        #[test]
        fn a_conflict_is_shown_once_and_recorded_with_its_decision() {
            let a = report_a(&["src/a.py", "src/c.py"], &[]);
            let b = report_b("pytest", "pytest -q", &["src/b.py"]);
            let mut decisions = Decisions::default();
            let shown = decisions.compare(&a, &b);
            assert_eq!(
                (shown[0].scout_a.as_str(), shown[0].scout_b.as_str()),
                ("src/a.py, src/c.py", "src/b.py")
            );
            assert!(decisions.are_open() && decisions.compare(&a, &b).is_empty());
            let states =
                "which files are affected: scout-a says src/a.py, src/c.py, scout-b says src/b.py";
            assert_eq!(decisions.lines(), [format!("{states}; not decided")]);
            let decision = |chosen: &str| Decision {
                about: shown[0].about.to_owned(),
                scout_a: shown[0].scout_a.clone(),
                scout_b: shown[0].scout_b.clone(),
                chosen: chosen.to_owned(),
                reason: "the log\nnames it".to_owned(),
            };
            decisions.decide(&[decision("src/a.py")]);
            decisions.decide(&[decision("src/b.py")]);
            assert!(!decisions.are_open());
            assert_eq!(
                decisions.lines(),
                [format!("{states}; chosen: src/b.py, because the log names it")]
            );
        }

        /// EDITOR-17: words of the reports are for the Editor alone.
        #[test]
        fn prose_agreement_and_an_empty_field_are_no_conflict() {
            let a = report_a(&["src/a.py"], &["`yarn jest` runs everything"]);
            for b in [
                report_b("pytest", "python -m pytest tests/unit", &["src/a.py", "src/c.py"]),
                report_b("pytest", "npm ci && pytest -q", &[]),
            ] {
                assert_eq!(conflicts(&a, &b), []);
            }
            assert_eq!(conflicts(&report_a(&[], &[]), &report_b("jest", "npx jest", &["x"])), []);
        }

        #[test]
        fn long_lists_are_cut() {
            let files: Vec<String> = (0..9).map(|n| format!("src/{n}.py")).collect();
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            let found = conflicts(&report_a(&files, &[]), &report_b("custom", "", &["other.py"]));
            assert!(found[0].scout_a.ends_with("src/4.py, …"), "{found:?}");
        }
    }

    mod first_steps {
        use super::super::*;
        use serde_json::json;

        fn slice(id: &str, files: usize, complexity: &str, order: Option<i64>) -> Value {
            let files: Vec<_> = (0..files).map(|n| format!("{n}.rs")).collect();
            json!({"id": id, "files": files, "description": "", "complexity": complexity, "order": order})
        }

        fn report_a(slices: &[Value]) -> ReportA {
            let report = json!({
                "schema_version": "1",
                "repo_map": {"relevant_files": [], "entry_points": [], "dependency_graph": {}},
                "risk_zones": [],
                "change_boundaries": {"safe_slices": slices, "ordering_constraints": []},
                "conventions": {"naming": "", "patterns": [], "anti_patterns": []},
                "prior_art": [], "verification_tips": [], "hypotheses": [],
            });
            ReportA::parse(&report.to_string()).unwrap()
        }

        /// EDITOR-18
        #[test]
        fn the_first_slice_is_scout_as_else_the_simplest_and_smallest() {
            let first =
                |slices: &[Value]| first_slice(&report_a(slices)).map(|slice| slice.id.clone());
            let ordered = [slice("b", 1, "low", Some(2)), slice("a", 9, "high", Some(1))];
            assert_eq!(first(&ordered).as_deref(), Some("a"));
            let half = [slice("b", 1, "low", None), slice("a", 9, "high", Some(7))];
            assert_eq!(first(&half).as_deref(), Some("a"));
            let free = [
                slice("c", 2, "low", None),
                slice("b", 1, "low", None),
                slice("a", 1, "medium", None),
            ];
            assert_eq!(first(&free).as_deref(), Some("b"));
            assert_eq!(first(&free[..1]), None);
        }

        /// EDITOR-16
        #[test]
        fn owed_tests_name_the_framework_that_was_detected() {
            let report = |framework: &str, system: &str, all: &str| {
                let report = json!({
                    "schema_version": "1",
                    "build": {
                        "detected_system": system, "prerequisites": [], "notes": "",
                        "commands": {"install": null, "build": "", "clean": null}},
                    "test": {
                        "detected_framework": framework, "coverage_command": null, "notes": "",
                        "commands": {"all": all, "unit": null, "integration": null}},
                    "failure_analysis": {
                        "root_cause": "", "affected_files": [], "suggested_investigation": [],
                        "is_flaky": false, "flaky_reason": null},
                    "environment_issues": [],
                });
                tests_owed(&ReportB::parse(&report.to_string()).unwrap())
            };
            let pytest = report("pytest", "custom", "pytest -q");
            assert!(pytest.contains("with pytest"), "{pytest}");
            assert!(pytest.ends_with("the command for tests is `pytest -q`"), "{pytest}");
            assert!(report("custom", "cargo", "").contains("cargo test"));
            let none = report("custom", "make", " ");
            assert!(none.contains("no test framework") && !none.contains("command"), "{none}");
        }
    }

    mod requery_rules {
        use super::super::*;
        fn failure(line: &str, exit_code: i64, reason: &str) -> VerifiedRun {
            VerifiedRun {
                exit_code: Some(exit_code),
                reason: Some(reason.to_owned()),
                ..VerifiedRun::failed(1, "test", line)
            }
        }

        #[test]
        fn asks_again_only_where_the_failures_point() {
            let logic = failure("FAIL: expected 5, got -1", 1, "step_failed");
            let missing = failure("ImportError: cannot import name 'x'", 1, "step_failed");
            let tool = failure("sh: pytest: not found", 127, "step_failed");
            assert!(requery([&logic].into_iter()).is_empty());
            assert_eq!(requery([&logic, &missing].into_iter()), ["scout-a"]);
            assert_eq!(requery([&logic, &tool].into_iter()), ["scout-b"]);
            assert_eq!(
                requery([&logic, &failure("", 137, "timeout"), &missing].into_iter()),
                ["scout-a", "scout-b"]
            );
        }
    }
}
