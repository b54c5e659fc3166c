//! What the tests of a task prove: whole tasks in four languages, whose changed tests run on the code of the start and whose
//! old tests run on the changed code.

use serde_json::{Value, json};

use crate::harness::script::{call, opening, script};
use crate::harness::{Act, Done, containers_of, image, image_of};

fn replace(path: &str, old: &str, new: &str) -> Value {
    call("replace", json!({"path": path, "old": old, "new": new}))
}

fn done_because(tests: &str) -> Value {
    call("done", json!({"what": "Halved it.", "why": "It was whole.", "tests": tests}))
}

/// The project of one language: its function `half` returns its argument, and a test demands that half of 0 is 0.
struct Project {
    language: &'static str,
    command: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// The file, the wrong line and the right one.
    source: (&'static str, &'static str, &'static str),
    /// The file of tests, its last line, and a further test behind it.
    tests: (&'static str, &'static str, &'static str),
    /// The name of that test in a log.
    name: &'static str,
    /// A test of a function that the start lacks, and that function.
    newer: (&'static str, &'static str),
    /// The right line of a function that grows, its test of 0 at the start and then, and the name of that test.
    grown: (&'static str, &'static str, &'static str, &'static str),
    /// A comment that the first step does not let pass.
    fixme: &'static str,
}

const PROJECTS: [Project; 4] = [
    Project {
        language: "python",
        command: "python3 -m pytest -q -p no:cacheprovider tests",
        files: &[
            ("shop.py", "def half(n):\n    return n\n"),
            ("conftest.py", ""),
            (
                "tests/test_shop.py",
                "import shop\n\n\ndef test_zero():\n    assert shop.half(0) == 0\n",
            ),
        ],
        source: ("shop.py", "    return n\n", "    return n // 2\n"),
        tests: (
            "tests/test_shop.py",
            "    assert shop.half(0) == 0\n",
            "\n\ndef test_four():\n    assert shop.half(4) == 2\n",
        ),
        name: "tests/test_shop.py::test_four",
        newer: (
            "\n\nfrom shop import third\n\n\ndef test_third():\n    assert third(9) == 3\n",
            "    return n // 2\n\n\ndef third(n):\n    return n // 3\n",
        ),
        grown: (
            "    return n + 1\n",
            "half(0) == 0",
            "half(0) == 1",
            "tests/test_shop.py::test_zero",
        ),
        fixme: "# FIXME\n",
    },
    Project {
        language: "node",
        command: "node --test tests",
        files: &[
            ("shop.js", "exports.half = (n) => n;\n"),
            (
                "tests/shop.test.js",
                "const test = require('node:test');\nconst assert = require('node:assert');\nconst shop = require('../shop');\n\n\
                 test('zero', () => {\n  assert.strictEqual(shop.half(0), 0);\n});\n",
            ),
        ],
        source: ("shop.js", "(n) => n;\n", "(n) => n / 2;\n"),
        tests: (
            "tests/shop.test.js",
            "  assert.strictEqual(shop.half(0), 0);\n});\n",
            "\ntest('four', () => {\n  assert.strictEqual(shop.half(4), 2);\n});\n",
        ),
        name: "four",
        newer: (
            "\nconst third = require('../third');\ntest('third', () => {\n  assert.strictEqual(third(9), 3);\n});\n",
            "(n) => n / 2;\n",
        ),
        grown: ("(n) => n + 1;\n", "half(0), 0", "half(0), 1", "zero"),
        fixme: "// FIXME\n",
    },
    Project {
        language: "go",
        command: "go test ./...",
        files: &[
            ("go.mod", "module example.com/shop\n\ngo 1.19\n"),
            ("shop.go", "package shop\n\nfunc Half(n int) int {\n\treturn n\n}\n"),
            (
                "shop_test.go",
                "package shop\n\nimport \"testing\"\n\nfunc TestZero(t *testing.T) {\n\tif Half(0) != 0 {\n\t\tt.Error(\"not zero\")\n\t}\n}\n",
            ),
        ],
        source: ("shop.go", "\treturn n\n}\n", "\treturn n / 2\n}\n"),
        tests: (
            "shop_test.go",
            "\t\tt.Error(\"not zero\")\n\t}\n}\n",
            "\nfunc TestFour(t *testing.T) {\n\tif Half(4) != 2 {\n\t\tt.Error(\"not two\")\n\t}\n}\n",
        ),
        name: "TestFour",
        newer: (
            "\nfunc TestThird(t *testing.T) {\n\tif Third(9) != 3 {\n\t\tt.Error(\"not three\")\n\t}\n}\n",
            "\treturn n / 2\n}\n\nfunc Third(n int) int {\n\treturn n / 3\n}\n",
        ),
        grown: ("\treturn n + 1\n}\n", "Half(0) != 0", "Half(0) != 1", "TestZero"),
        fixme: "// FIXME\n",
    },
    Project {
        language: "rust",
        command: "cargo test --offline",
        files: &[
            ("Cargo.toml", "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            (
                "Cargo.lock",
                "# This file is automatically @generated by Cargo.\n# It is not intended for manual editing.\nversion = 3\n\n\
                 [[package]]\nname = \"shop\"\nversion = \"0.1.0\"\n",
            ),
            ("src/lib.rs", "pub fn half(n: u32) -> u32 {\n    n\n}\n"),
            ("tests/shop.rs", "#[test]\nfn zero() {\n    assert_eq!(shop::half(0), 0);\n}\n"),
        ],
        source: ("src/lib.rs", "    n\n}\n", "    n / 2\n}\n"),
        tests: (
            "tests/shop.rs",
            "    assert_eq!(shop::half(0), 0);\n}\n",
            "\n#[test]\nfn four() {\n    assert_eq!(shop::half(4), 2);\n}\n",
        ),
        name: "four",
        newer: (
            "\n#[test]\nfn third() {\n    assert_eq!(shop::third(9), 3);\n}\n",
            "    n / 2\n}\n\npub fn third(n: u32) -> u32 {\n    n / 3\n}\n",
        ),
        grown: ("    n + 1\n}\n", "half(0), 0", "half(0), 1", "zero"),
        fixme: "// FIXME\n",
    },
];

impl Project {
    fn repository(&self, image: &str) -> Act {
        Act::new().files(self.files).pipeline(image, &[("test", self.command)])
    }

    /// Runs a task with these edits in a repository, and returns the lines of its summary.
    fn summary(&self, act: Act, edits: Vec<Value>, done: &[Value]) -> (Done, String) {
        let turns = opening("halve it").into_iter().chain(edits).chain(done.iter().cloned());
        let told = act.script(&script(turns)).act(["run", "--verbose", "halve it"]);
        let told = told.script_used_up().status(0);
        for run in told.runs() {
            assert!(containers_of(&run).is_empty(), "{run}");
        }
        // Neither originals nor trees outlive the task.
        let tasks = told.repo().parent().unwrap().join("artifacts/tasks");
        assert_eq!(std::fs::read_dir(tasks).unwrap().count(), 0);
        let summary = told.read("agent/summary.md");
        (told, summary)
    }

    fn fix(&self) -> Value {
        let (path, wrong, right) = self.source;
        replace(path, wrong, right)
    }

    fn add_test(&self, test: &str) -> Value {
        let (path, last, _) = self.tests;
        replace(path, last, &format!("{last}{test}"))
    }

    /// Every result of a comparison, each through a whole task.
    fn tells_each_result(&self) {
        let Some(image) = image_of(self.language) else { return };
        let repository = || self.repository(&image);
        let (path, _, four) = self.tests;
        let (source, wrong, _) = self.source;

        // A new test that fails without the change.
        let edits = vec![self.fix(), self.add_test(four)];
        let (told, summary) = self.summary(repository(), edits, &[done_because("Four is halved.")]);
        assert!(summary.contains("- `red first: ") && summary.contains(self.name), "{summary}");
        assert!(summary.contains("- `old tests: pass"), "{summary}");
        assert_eq!(told.runs().len(), 3, "the deciding run and two that compare");

        // A test that the code of the start passes as well.
        let again = four.replace(['4', '2'], "0").replace("our", "ull");
        let edits = vec![self.fix(), self.add_test(&again)];
        let (_, summary) = self.summary(repository(), edits, &[done_because("Zero once more.")]);
        assert!(summary.contains("- `not shown: "), "{summary}");

        // A test of code that the start lacks.
        let (test, code) = self.newer;
        let mut edits = vec![replace(source, wrong, code), self.add_test(test)];
        if self.language == "node" {
            let content = "module.exports = (n) => n / 3;\n";
            edits.push(call("create", json!({"path": "third.js", "content": content})));
        }
        let (_, summary) = self.summary(repository(), edits, &[done_because("A third.")]);
        assert!(
            line(&summary, "red for another reason").contains("(does_not_compile)"),
            "{summary}"
        );

        // A start that fails before its tests run.
        let text = self.files.iter().find(|(path, _)| *path == source).unwrap().1;
        let lint = format!("! grep -q FIXME {source}");
        let act = repository().file(source, format!("{}{text}", self.fixme));
        let act = act.pipeline(&image, &[("lint", &lint), ("test", self.command)]);
        let edits = vec![replace(source, self.fixme, ""), self.fix(), self.add_test(four)];
        let (_, summary) = self.summary(act, edits, &[done_because("Four is halved.")]);
        assert!(line(&summary, "red for another reason").contains("(step lint"), "{summary}");

        // Steps that see the repository itself, so that no other tree can be shown to them.
        let yaml = json!({"verification": {
            "container_image": image, "workspace": "readonly",
            "steps": [{"name": "test", "command": self.command}],
        }});
        let act = repository().file("agent.yaml", yaml.to_string());
        let edits = vec![self.fix(), self.add_test(four)];
        let (told, summary) = self.summary(act, edits, &[done_because("Four is halved.")]);
        assert!(line(&summary, "unavailable").contains("workspace: readonly"), "{summary}");
        assert!(line(&summary, "old tests: unavailable").contains("readonly"), "{summary}");
        assert_eq!(told.runs().len(), 1);

        // No file of tests.
        let (_, summary) = self.summary(repository(), vec![self.fix()], &[done_because("None.")]);
        assert!(summary.contains("- `none: "), "{summary}");

        // EDITOR-80: an old test that fails on the changed code. The person reads which, beside the weaker test.
        let (grown, zero, one, name) = self.grown;
        let edits = vec![replace(source, wrong, grown), replace(path, zero, one)];
        let dones = [done_because("It grows now."), done_because("The task lets it grow.")];
        let (told, summary) = self.summary(repository(), edits, &dones);
        assert!(summary.contains("(assertion_changed)"), "{summary}");
        assert!(line(&summary, "old tests: fail").contains(name), "{summary}");
        assert!(summary.contains("> The task lets it grow.\n"), "{summary}");
        // The first run decided; the manifest, the log and the history say what its tests are worth.
        let weakened = told.manifest(&told.runs()[0])["tests_weakened"].to_string();
        assert!(weakened.contains(path) && weakened.contains("(assertion_changed)"), "{weakened}");
    }
}

/// The line of a summary that tells this result.
fn line<'a>(summary: &'a str, result: &str) -> &'a str {
    let begins = format!("- `{result}");
    let found = summary.lines().find(|line| line.starts_with(&begins));
    found.unwrap_or_else(|| panic!("no {result:?} in {summary}"))
}

/// EDITOR-81
#[test]
fn each_result_of_a_comparison_is_told_in_python() {
    PROJECTS[0].tells_each_result();
}

/// EDITOR-81
#[test]
fn each_result_of_a_comparison_is_told_in_javascript() {
    PROJECTS[1].tells_each_result();
}

/// EDITOR-81
#[test]
fn each_result_of_a_comparison_is_told_in_go() {
    PROJECTS[2].tells_each_result();
}

/// EDITOR-81
#[test]
fn each_result_of_a_comparison_is_told_in_rust() {
    PROJECTS[3].tells_each_result();
}

/// EDITOR-82, CLI: `require` refuses a success without evidence, and the user may allow the change of a test.
#[test]
fn required_evidence_decides_the_end_of_a_task() {
    let yaml = |evidence: &str| {
        json!({"verification": {
            "container_image": image(), "evidence": evidence,
            "steps": [{"name": "test", "command": "sh tests/answer.sh"}],
        }})
        .to_string()
    };
    let act = |evidence: &str, turns: Vec<Value>| {
        let turns = opening("write it").into_iter().chain(turns);
        Act::new()
            .file("answer.sh", "echo none\n")
            .file("tests/answer.sh", "sh answer.sh | grep -qx none\n")
            .file("agent.yaml", yaml(evidence))
            .script(&script(turns))
    };
    let edits = || {
        vec![
            replace("answer.sh", "none", "right"),
            replace("tests/answer.sh", "none", "right"),
            done_because("It is right now."),
            done_because("It is right now."),
        ]
    };
    let first = act("report", edits());
    let told = first.clone().run("write it").status(0);
    let (first_runs, run_id) = (told.runs(), told.runs()[0].clone());
    told.stdout_has("red first: ").stdout_has("old tests: fail");
    // AUDIT-20, AUDIT-24: the runs that compare are known for what they are, and are no verdict about the working tree.
    for (run, purpose) in first_runs.iter().skip(1).zip(["red_first", "old_tests"]) {
        let explained = first.clone().act(["audit", "explain", run]).status(0);
        explained.stdout_has(&format!("compares       {purpose}")).stdout_lacks("disputed");
        let export = first.clone().act(["audit", "export", "--in-toto", run, "--json"]).status(1);
        assert_eq!(export.json()["code"], "no_verdict", "{export}");
    }
    // STORE, AUDIT-24: what outlives the task.
    let history = first.clone().act(["history", "--json"]).status(0).json();
    assert_eq!(history["tasks"][0]["evidence"], "red_first, old_tests fail");
    let export = ["audit", "export", "--in-toto", &run_id];
    let statement = first.act(export).status(0).json();
    let record = statement["predicate"]["configuration"].as_array().unwrap().last().unwrap();
    let evidence = record["annotations"]["evidence"].as_str().unwrap();
    assert!(evidence.starts_with("red_first red_first; old_tests fail; run_"), "{evidence}");
    let inputs = record["annotations"]["gate_inputs_changed"].as_str().unwrap();
    assert!(inputs.contains("tests/answer.sh (assertion_changed)"), "{inputs}");
    // The old test fails, and nobody asked for that.
    let idle = (0..3).map(|_| json!({"role": "editor", "text": "I am done."}));
    let told = act("require", edits().into_iter().chain(idle).collect()).run("write it");
    let told = told.status(3).stdout_has("STUCK: model_idle");
    let heard = told.requests().last().unwrap().body.to_string();
    assert!(heard.contains("evidence_missing: the steps pass"), "{heard}");
    let told = act("require", edits()).run("write it, and let tests/answer.sh want it").status(0);
    told.stdout_has("old tests: fail");
    let mut once = edits();
    once.pop();
    let told = act("require", once).act(["run", "--allow-test-change", "tests/**", "write it"]);
    told.status(0).stdout_has("old tests: fail");
    // Evidence that the machine cannot make is its trouble, and none of the model's.
    let mut yaml: Value = serde_json::from_str(&yaml("require")).unwrap();
    yaml["verification"]["workspace"] = json!("readonly");
    let told = act("require", edits()).file("agent.yaml", yaml.to_string()).run("write it");
    told.status(4).stdout_has("INFRA_ERROR: evidence_unavailable");
}

/// A change that makes a test demand less, the name under which it is told, and the files before.
struct Weaker {
    files: &'static [(&'static str, &'static str)],
    /// The file, and what becomes of which text.
    edit: (&'static str, &'static str, &'static str),
    told: &'static str,
}

const PYTEST: (&str, &str) = (
    "tests/test_shop.py",
    "import pytest\nfrom shop import half\n\n\ndef test_half():\n    assert half(4) == pytest.approx(2, abs=0.01)\n    \
     assert half(0) == 0\n",
);
const JEST: (&str, &str) = (
    "shop.test.js",
    "const { half } = require('./shop');\n\ntest('halves', () => {\n  expect(half(4)).toBeCloseTo(2, 5);\n});\n\
     test('keeps zero', () => {\n  expect(half(0)).toBe(0);\n});\n",
);
const CARGO: (&str, &str) = (
    "src/lib.rs",
    "pub fn half(n: u32) -> u32 {\n    n / 2\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    \
     fn halves() -> Result<(), String> {\n        assert_eq!(half(4), 2);\n        assert_eq!(half(0), 0);\n        Ok(())\n    }\n}\n",
);
const GO: (&str, &str) = (
    "shop_test.go",
    "package shop\n\nimport \"testing\"\n\nfunc TestHalf(t *testing.T) {\n\tif Half(4) != 2 {\n\t\tt.Errorf(\"not two\")\n\t}\n}\n",
);

const WEAKER: [Weaker; 15] = [
    Weaker {
        files: &[PYTEST],
        edit: (PYTEST.0, "def test_half", "@pytest.mark.skip\ndef test_half"),
        told: "tests/test_shop.py:5 test_half (test_skipped)",
    },
    Weaker {
        files: &[PYTEST],
        edit: (PYTEST.0, "abs=0.01", "abs=100"),
        told: "tests/test_shop.py:6 test_half (assertion_changed)",
    },
    Weaker {
        files: &[PYTEST],
        edit: (PYTEST.0, "def test_half", "def check_half"),
        told: "tests/test_shop.py test_half (tests_removed)",
    },
    Weaker {
        files: &[PYTEST, ("pytest.ini", "[pytest]\n")],
        edit: ("pytest.ini", "[pytest]\n", "[pytest]\naddopts = --ignore=tests/test_shop.py\n"),
        told: "pytest.ini:2 (tests_excluded)",
    },
    Weaker {
        files: &[PYTEST, ("tests/data/prices.json", "{\"a\": 1}\n")],
        edit: ("tests/data/prices.json", "1", "2"),
        told: "tests/data/prices.json (fixture_changed)",
    },
    Weaker {
        files: &[JEST],
        edit: (JEST.0, "test('halves'", "test.only('halves'"),
        told: "shop.test.js:3 halves (test_skipped)",
    },
    Weaker {
        files: &[JEST],
        edit: (JEST.0, "test('keeps zero'", "test.skip('keeps zero'"),
        told: "shop.test.js:6 keeps zero (test_skipped)",
    },
    Weaker {
        files: &[JEST],
        edit: (JEST.0, "(2, 5)", "(2, 0)"),
        told: "shop.test.js:4 halves (assertion_changed)",
    },
    Weaker {
        files: &[JEST, ("jest.config.js", "module.exports = {\n};\n")],
        edit: ("jest.config.js", "{\n", "{\n  testPathIgnorePatterns: ['shop'],\n"),
        told: "jest.config.js:2 (tests_excluded)",
    },
    Weaker {
        files: &[CARGO],
        edit: (
            CARGO.0,
            "        assert_eq!(half(4)",
            "        return Ok(());\n        assert_eq!(half(4)",
        ),
        told: "src/lib.rs:11 tests > halves (early_return)",
    },
    Weaker {
        files: &[CARGO],
        edit: (CARGO.0, "        assert_eq!(half(0), 0);\n", ""),
        told: "src/lib.rs:9 tests > halves (assertion_removed)",
    },
    Weaker {
        files: &[CARGO],
        edit: (CARGO.0, "    #[test]\n", "    #[test]\n    #[ignore]\n"),
        told: "src/lib.rs:10 tests > halves (test_skipped)",
    },
    Weaker {
        files: &[GO],
        edit: (GO.0, "\tif Half", "\tt.Skip()\n\tif Half"),
        told: "shop_test.go:6 TestHalf (test_skipped)",
    },
    Weaker {
        files: &[GO],
        edit: (GO.0, "\tif Half", "\treturn\n\tif Half"),
        told: "shop_test.go:6 TestHalf (early_return)",
    },
    Weaker {
        files: &[GO],
        edit: (GO.0, "TestHalf", "testHalf"),
        told: "shop_test.go TestHalf (tests_removed)",
    },
];

/// EDITOR-80, VERIFIER-40: named with the edit, with the run, by the first `done`, in the manifest and in the summary.
#[test]
fn every_way_to_weaken_a_test_is_named_before_success() {
    for Weaker { files, edit: (path, old, new), told: wanted } in WEAKER {
        let turns = [
            replace("answer.txt", "none", "right"),
            replace(path, old, new),
            call("verify", json!({})),
            done_because("The task wants it."),
            done_because("The task wants it."),
        ];
        let act = Act::new().files(files).file("answer.txt", "none\n");
        let act = act.pipeline(image(), &[("test", "grep -qx right answer.txt")]);
        let turns = opening("do it").into_iter().chain(turns);
        let told = act.script(&script(turns)).run("do it").script_used_up().status(0);
        // The last message of each request is the answer to the turn before: the plan, two edits, the run, the first `done`.
        let heard: Vec<_> =
            told.requests_of("editor").iter().map(|one| one.body.to_string()).collect();
        let times = |at: usize| heard[at].matches(wanted).count();
        assert_eq!((times(2), times(3), times(4)), (0, 1, 2), "{wanted}: {}", heard[4]);
        assert_eq!(times(5), 3, "{wanted}: {}", heard[5]);
        assert!(heard[5].contains("tests_weakened: existing tests no longer demand"), "{wanted}");
        let summary = told.read("agent/summary.md");
        assert!(summary.contains(wanted), "{wanted}: {summary}");
        let places = told.manifest(&told.runs()[0])["tests_weakened"].clone();
        assert!(places.as_array().unwrap().contains(&json!(wanted)), "{wanted}: {places}");
    }
}
