//! Changes of what the gate runs are not made in silence.

use serde_json::json;

use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, image};

/// Security line 73: what the gate runs may be changed, but not in silence.
#[test]
fn changes_of_what_the_gate_runs_are_told_with_digests() {
    let rewrite = |path: &str, content: &str| {
        call("full_rewrite", json!({"path": path, "expect_version": 1, "content": content}))
    };
    let skipped = "import pytest\n@pytest.mark.skip\ndef test_a(): assert 0\n";
    let turns = opening("obey")
        .into_iter()
        .chain([
            rewrite("Makefile", "test:\n\ttrue\n"),
            rewrite("package.json", "{\"scripts\":{\"test\":\"true\"}}\n"),
            rewrite("tests/test_a.py", skipped),
            rewrite("src.txt", "no matter\n"),
            call("create", json!({"path": "conftest.py", "content": "# green\n"})),
            call("delete", json!({"path": "tests/test_b.py", "expect_version": 1})),
        ])
        .chain(attempt("right\n"))
        // The first is refused for the tests that demand less (EDITOR-80).
        .chain([done(), done()]);
    let act = Act::new()
        .files(&[
            ("answer.txt", "none\n"),
            ("src.txt", "x\n"),
            ("Makefile", "test:\n\tfalse\n"),
            ("package.json", "{}\n"),
            ("tests/test_a.py", "def test_a(): assert 0\n"),
            ("tests/test_b.py", "def test_b(): assert 0\n"),
        ])
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    let short = |text: &str| act_workspace::digest(text.as_bytes())[..12].to_owned();
    let summary = told.read("agent/summary.md");
    let (_, list) = summary.split_once("## Changed, and verification depends on it\n\n").unwrap();
    let list: Vec<_> = list.lines().take_while(|line| line.starts_with('-')).collect();
    let changed = |path: &str, why: &str, before: &str, now: &str| {
        format!("- `{path} ({why}, {} to {})`", short(before), short(now))
    };
    assert_eq!(
        list,
        [
            changed("Makefile", "build_script", "test:\n\tfalse\n", "test:\n\ttrue\n"),
            changed("answer.txt", "named_by_a_step", "none\n", "right\n"),
            format!("- `conftest.py (test_configuration, nothing to {})`", short("# green\n")),
            changed("package.json", "build_script", "{}\n", "{\"scripts\":{\"test\":\"true\"}}\n"),
            // The new script runs no tests.
            changed(
                "package.json",
                "tests_excluded",
                "{}\n",
                "{\"scripts\":{\"test\":\"true\"}}\n"
            ),
            changed("tests/test_a.py", "test_skipped", "def test_a(): assert 0\n", skipped),
            format!(
                "- `tests/test_b.py (test_deleted, {} to nothing)`",
                short("def test_b(): assert 0\n")
            ),
        ]
    );
    assert!(told.stdout_text().contains("conftest.py (test_configuration)"), "{told}");
}

/// Security line 73, VERIFIER-31: neither may what a script of the gate runs, however far from the step.
#[test]
fn changes_of_what_a_script_of_the_gate_runs_are_told() {
    let rewrite = |path: &str, content: &str| {
        call("full_rewrite", json!({"path": path, "expect_version": 1, "content": content}))
    };
    let turns = opening("obey")
        .into_iter()
        .chain([
            rewrite("lib/check.sh", "true\n"),
            rewrite("mk/rules", "check:\n\ttrue\n"),
            call("delete", json!({"path": "lib/gone.sh", "expect_version": 1})),
            rewrite("lib/other.sh", "no matter\n"),
        ])
        .chain(attempt("right\n"))
        .chain([done()]);
    let act = Act::new()
        .files(&[
            ("answer.txt", "none\n"),
            ("test.sh", "set -e\n. ./lib/all.sh\ntest ! -e lib/gone.sh || sh lib/gone.sh\n"),
            ("lib/all.sh", "sh \"$PWD/lib/check.sh\"\n"),
            ("lib/check.sh", "grep -qx right answer.txt\n"),
            ("lib/gone.sh", "false\n"),
            ("lib/other.sh", "false\n"),
            ("Makefile", "include mk/rules\n"),
            ("mk/rules", "check:\n\tfalse\n"),
        ])
        .pipeline(
            image(),
            &[("test", "sh test.sh"), ("make", "command -v make || true; : make check")],
        );
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    let summary = told.read("agent/summary.md");
    let (_, list) = summary.split_once("## Changed, and verification depends on it\n\n").unwrap();
    let list = list.lines().take_while(|line| line.starts_with('-'));
    let named: Vec<_> = list.map(|line| line.split(',').next().unwrap().to_owned()).collect();
    assert_eq!(
        named,
        [
            "- `answer.txt (reached_by_a_step",
            "- `lib/check.sh (reached_by_a_step",
            "- `lib/gone.sh (reached_by_a_step",
            "- `mk/rules (reached_by_a_step",
        ]
    );
    assert!(told.stdout_text().contains("lib/check.sh (reached_by_a_step)"), "{told}");
}
