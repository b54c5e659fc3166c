//! Where the Scouts contradict each other, and how the Editor settled it. The host finds the contradiction in
//! what both reports say in words that can be compared; who is right is the Editor's to say. Pure.

use std::collections::BTreeSet;

use crate::scout::report_a::ReportA;
use crate::scout::report_b::{Framework, ReportB, System};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conflict {
    pub about: &'static str,
    pub scout_a: String,
    pub scout_b: String,
}

impl Conflict {
    /// As a snapshot records it.
    pub(super) fn settled(&self, words: &str) -> String {
        format!("{}; the Editor: {words}", self.stated())
    }

    pub(super) fn stated(&self) -> String {
        format!("{}: scout-a says {}, scout-b says {}", self.about, self.scout_a, self.scout_b)
    }
}

/// Those of a task, and how the Editor settled them.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    found: Vec<Conflict>,
    open: Vec<Conflict>,
    settled: Vec<String>,
}

impl Conflicts {
    /// How those of a dry run were settled.
    pub(super) fn take_up(&mut self, settled: Vec<String>) {
        self.settled = settled;
    }

    /// Those between two reports that were not there before; they are open.
    pub(super) fn add(&mut self, a: &ReportA, b: &ReportB) -> Vec<Conflict> {
        let mut fresh = conflicts(a, b);
        fresh.retain(|conflict| !self.found.contains(conflict));
        self.found.extend(fresh.iter().cloned());
        self.open.extend(fresh.iter().cloned());
        fresh
    }

    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Settles all that are open; how, one by one.
    pub(super) fn settle(&mut self, words: &str) -> Vec<String> {
        let settled: Vec<_> =
            std::mem::take(&mut self.open).iter().map(|conflict| conflict.settled(words)).collect();
        self.settled.extend(settled.iter().cloned());
        settled
    }

    /// For the record: what was settled, and what nobody said anything about.
    pub(super) fn told(&self) -> Vec<String> {
        let open = self.open.iter().map(|conflict| conflict.settled("(not said)"));
        self.settled.iter().cloned().chain(open).collect()
    }
}

/// Names in one conflict at most.
const NAMES: usize = 5;

fn conflicts(a: &ReportA, b: &ReportB) -> Vec<Conflict> {
    let tips = a.verification_tips.join("\n");
    let commands = commands(b);
    let runners_b: BTreeSet<_> =
        runners(&commands).into_iter().chain(framework(b.test.detected_framework)).collect();
    let managers_b: BTreeSet<_> =
        managers(&commands).into_iter().chain(manager(b.build.detected_system)).collect();
    [
        apart("how tests are run", &runners(&tips), &runners_b),
        apart("package manager", &managers(&tips), &managers_b),
        tests_elsewhere(a, &commands),
        apart("where the cause is", &known_files(a), &affected(b)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Both say something, and nothing of it is the same.
fn apart(about: &'static str, a: &BTreeSet<&str>, b: &BTreeSet<&str>) -> Option<Conflict> {
    let differ = !a.is_empty() && !b.is_empty() && a.is_disjoint(b);
    differ.then(|| Conflict { about, scout_a: names(a), scout_b: names(b) })
}

fn names(names: &BTreeSet<&str>) -> String {
    let mut shown: Vec<_> = names.iter().take(NAMES).copied().collect();
    if names.len() > NAMES {
        shown.push("…");
    }
    shown.join(", ")
}

fn commands(b: &ReportB) -> String {
    let test = &b.test.commands;
    let optional = [&test.unit, &test.integration, &b.build.commands.install];
    let more = optional.into_iter().flatten();
    [&test.all, &b.build.commands.build]
        .into_iter()
        .chain(more)
        .fold(String::new(), |all, one| all + one + "\n")
}

fn words(text: &str) -> Vec<&str> {
    let between = |c: char| c.is_whitespace() || "`'\"(),;&|".contains(c);
    text.split(between)
        .map(|word| word.trim_end_matches(['.', ':']))
        .filter(|word| !word.is_empty())
        .collect()
}

/// Programs that run tests. Names that are ordinary words count with the word behind them.
fn runners(text: &str) -> BTreeSet<&'static str> {
    const ALONE: [(&str, &str); 13] = [
        ("pytest", "pytest"),
        ("py.test", "pytest"),
        ("unittest", "unittest"),
        ("tox", "tox"),
        ("nox", "nox"),
        ("jest", "jest"),
        ("vitest", "vitest"),
        ("mocha", "mocha"),
        ("mvn", "maven"),
        ("./mvnw", "maven"),
        ("gradle", "gradle"),
        ("./gradlew", "gradle"),
        ("ctest", "ctest"),
    ];
    const PAIRS: [(&str, &str, &str); 5] = [
        ("cargo", "test", "cargo test"),
        ("cargo", "nextest", "cargo test"),
        ("go", "test", "go test"),
        ("make", "test", "make test"),
        ("make", "check", "make check"),
    ];
    let words = words(text);
    let alone = words.iter().flat_map(|word| ALONE.iter().filter(move |(name, _)| name == word));
    let pairs = words
        .windows(2)
        .flat_map(|pair| PAIRS.iter().filter(move |(first, second, _)| pair == [*first, *second]));
    alone.map(|(_, runner)| *runner).chain(pairs.map(|(_, _, runner)| *runner)).collect()
}

fn framework(detected: Framework) -> Option<&'static str> {
    match detected {
        Framework::Jest => Some("jest"),
        Framework::Pytest => Some("pytest"),
        Framework::GoTest => Some("go test"),
        Framework::CargoTest => Some("cargo test"),
        Framework::Mocha => Some("mocha"),
        // Run by one of several programs, or not known.
        Framework::Junit | Framework::Custom => None,
    }
}

fn managers(text: &str) -> BTreeSet<&'static str> {
    const NAMES: [&str; 4] = ["npm", "yarn", "pnpm", "bun"];
    let words = words(text);
    NAMES.into_iter().filter(|name| words.contains(name)).collect()
}

fn manager(detected: System) -> Option<&'static str> {
    match detected {
        System::Npm => Some("npm"),
        System::Yarn => Some("yarn"),
        System::Pnpm => Some("pnpm"),
        _ => None,
    }
}

/// Scout B's commands name directories, and none of the tests that Scout A knows lies there.
fn tests_elsewhere(a: &ReportA, commands: &str) -> Option<Conflict> {
    let tests: BTreeSet<_> =
        known_files(a).into_iter().filter(|path| act_verifier::is_test(path)).collect();
    let places: BTreeSet<_> = commands.lines().flat_map(test_places).collect();
    let lies_in = |test: &str, place: &str| {
        test.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let together = tests.iter().any(|test| places.iter().any(|place| lies_in(test, place)));
    let differ = !tests.is_empty() && !places.is_empty() && !together;
    let about = "where the tests are";
    differ.then(|| Conflict { about, scout_a: names(&tests), scout_b: names(&places) })
}

/// Arguments of a command that are directories of tests.
fn test_places(command: &str) -> Vec<&str> {
    const NAMES: [&str; 5] = ["test", "tests", "__tests__", "spec", "e2e"];
    words(command)
        .into_iter()
        .skip(1)
        .map(|word| word.trim_start_matches("./").trim_end_matches('/'))
        .filter(|word| word.contains('/') && word.split('/').any(|part| NAMES.contains(&part)))
        .filter(|word| !word.starts_with(['-', '/']) && !word.contains(['*', '=', '$']))
        .collect()
}

fn known_files(a: &ReportA) -> BTreeSet<&str> {
    let relevant = a.repo_map.relevant_files.iter().map(|file| &file.path);
    let slices = a.change_boundaries.safe_slices.iter().flat_map(|slice| &slice.files);
    let graph = a.repo_map.dependency_graph.iter();
    let graph = graph.flat_map(|(file, others)| std::iter::once(file).chain(others));
    let risky = a.risk_zones.iter().map(|zone| &zone.file);
    relevant.chain(slices).chain(graph).chain(risky).map(String::as_str).collect()
}

fn affected(b: &ReportB) -> BTreeSet<&str> {
    b.failure_analysis.affected_files.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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

    fn found(a: &ReportA, b: &ReportB) -> Vec<String> {
        conflicts(a, b).iter().map(Conflict::stated).collect()
    }

    /// EDITOR-17
    #[test]
    fn contradictions_are_found_in_what_both_say() {
        let a = report_a(&["src/a.py", "test/test_a.py"], &["Run `yarn jest` first."]);
        let b = report_b("pytest", "npm ci && pytest -q tests/unit", &["src/b.py"]);
        assert_eq!(
            found(&a, &b),
            [
                "how tests are run: scout-a says jest, scout-b says pytest",
                "package manager: scout-a says yarn, scout-b says npm",
                "where the tests are: scout-a says test/test_a.py, scout-b says tests/unit",
                "where the cause is: scout-a says src/a.py, test/test_a.py, scout-b says src/b.py",
            ]
        );
        let settled = conflicts(&a, &b)[0].settled("pytest, its file is there");
        assert!(settled.ends_with("scout-b says pytest; the Editor: pytest, its file is there"));
    }

    /// EDITOR-17
    #[test]
    fn agreement_and_silence_are_no_conflict() {
        let tips = ["make sure that it still goes", "pytest -q is fast"];
        let a = report_a(&["src/a.py", "tests/unit/test_a.py"], &tips);
        for b in [
            report_b("pytest", "python -m pytest tests/unit", &["src/a.py", "src/c.py"]),
            report_b("custom", "", &[]),
            report_b("pytest", "pytest", &[]),
            report_b("custom", "sh ./scripts/test.sh", &["src/a.py"]),
        ] {
            assert_eq!(found(&a, &b), Vec::<String>::new());
        }
        assert!(
            found(&report_a(&[], &[]), &report_b("jest", "npx jest src/tests/", &["x"])).is_empty()
        );
    }

    #[test]
    fn long_lists_are_cut() {
        let files: Vec<String> = (0..9).map(|n| format!("src/{n}.py")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let told = found(&report_a(&files, &[]), &report_b("custom", "", &["other.py"]));
        assert!(told[0].contains("src/4.py, …, scout-b"), "{told:?}");
    }
}
