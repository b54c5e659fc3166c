//! What the tests of a task prove: whole tasks in three languages, whose changed tests run on the code of the start and whose
//! old tests run on the changed code.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::script::{call, opening, script};
use crate::harness::{Act, Done, containers_of, image};

/// The image of one language, or `None`, after a report that the test is skipped, when it cannot be had.
fn image_of(language: &str) -> Option<String> {
    let root = act_core::testing::checkout();
    let made = Command::new(root.join("scripts/test-images")).arg(language).output().unwrap();
    let listed = String::from_utf8(made.stdout).unwrap();
    let line = listed.lines().find_map(|line| line.split_once('='));
    if line.is_none() {
        let why = String::from_utf8_lossy(&made.stderr);
        act_core::testing::skip(format_args!("no image for {language}: {}", why.trim()));
    }
    line.map(|(_, image)| image.to_owned())
}

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
}

const PROJECTS: [Project; 3] = [
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
    },
];

impl Project {
    /// Runs a task with these edits.
    fn task(&self, image: &str, edits: Vec<Value>, done: Value) -> Done {
        let turns = opening("halve it").into_iter().chain(edits).chain([done]);
        let act = Act::new().files(self.files).pipeline(image, &[("test", self.command)]);
        let told =
            act.script(&script(turns)).act(["run", "--verbose", "halve it"]).script_used_up();
        for run in told.runs() {
            assert!(containers_of(&run).is_empty(), "{run}");
        }
        // Neither originals nor trees outlive the task.
        let tasks = told.repo().parent().unwrap().join("artifacts/tasks");
        assert_eq!(std::fs::read_dir(tasks).unwrap().count(), 0);
        told
    }

    fn fix(&self) -> Value {
        let (path, wrong, right) = self.source;
        replace(path, wrong, right)
    }

    fn add_test(&self, test: &str) -> Value {
        let (path, last, _) = self.tests;
        replace(path, last, &format!("{last}{test}"))
    }
}

/// EDITOR-81
#[test]
fn each_result_of_a_comparison_is_told_in_three_languages() {
    for project in PROJECTS {
        let Some(image) = image_of(project.language) else { continue };
        let language = project.language;
        let (_, _, four) = project.tests;

        // A new test that fails without the change.
        let told = project.task(
            &image,
            vec![project.fix(), project.add_test(four)],
            done_because("Four is halved."),
        );
        let told = told.status(0);
        let summary = told.read("agent/summary.md");
        assert!(summary.contains("- `red first: "), "{language}: {told}");
        assert!(summary.contains(project.name), "{language}: {summary}");
        assert!(summary.contains("- `old tests: pass"), "{language}: {summary}");
        assert_eq!(told.runs().len(), 3, "{language}: the deciding run and two that compare");

        // A test that the code of the start passes as well.
        let again = four.replace("4", "0").replace("2", "0").replace("our", "ull");
        let told = project.task(
            &image,
            vec![project.fix(), project.add_test(&again)],
            done_because("Zero once more."),
        );
        let summary = told.status(0).read("agent/summary.md");
        assert!(summary.contains("- `not shown: "), "{language}: {summary}");

        // A test of code that the start lacks.
        let (test, code) = project.newer;
        let (source, wrong, _) = project.source;
        let mut edits = vec![replace(source, wrong, code), project.add_test(test)];
        if language == "node" {
            let content = "module.exports = (n) => n / 3;\n";
            edits.push(call("create", json!({"path": "third.js", "content": content})));
        }
        let told = project.task(&image, edits, done_because("A third."));
        let summary = told.status(0).read("agent/summary.md");
        let red = summary.lines().find(|line| line.starts_with("- `red for another reason"));
        let red = red.unwrap_or_else(|| panic!("{language}: {summary}"));
        assert!(red.contains("(does_not_compile)"), "{language}: {red}");

        // No file of tests.
        let told = project.task(&image, vec![project.fix()], done_because("None."));
        let summary = told.status(0).read("agent/summary.md");
        assert!(summary.contains("- `none: "), "{language}: {summary}");
    }
}

/// EDITOR-80, EDITOR-81: the old test fails on the changed code; the person reads which, beside the weaker test.
#[test]
fn an_old_test_that_fails_on_the_changed_code_is_named() {
    let [project, ..] = PROJECTS;
    let Some(image) = image_of(project.language) else { return };
    let edits = vec![
        replace("shop.py", "    return n\n", "    return n + 1\n"),
        replace("tests/test_shop.py", "half(0) == 0", "half(0) == 1"),
        done_because("It grows now."),
    ];
    let told = project.task(&image, edits, done_because("The task lets it grow.")).status(0);
    let summary = told.read("agent/summary.md");
    assert!(summary.contains("(assertion_changed)"), "{summary}");
    let old = summary.lines().find(|line| line.starts_with("- `old tests: fail")).unwrap();
    assert!(old.contains("tests/test_shop.py::test_zero"), "{old}");
    assert!(summary.contains("> The task lets it grow.\n"), "{summary}");
    // The first run decided; the manifest, the log and the history say what its tests are worth.
    let run = told.runs()[0].clone();
    let weakened = told.manifest(&run)["tests_weakened"].clone();
    assert_eq!(weakened, json!(["tests/test_shop.py:5 test_zero (assertion_changed)"]));
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
    let run_id = told.runs()[0].clone();
    told.stdout_has("red first: ").stdout_has("old tests: fail");
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
}
