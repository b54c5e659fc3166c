//! Edits are verified: no edit is made where the Verifier does not look.

use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, image};
use serde_json::json;

use crate::harness::tool_answers::{answers, refused};

/// Green when the answer is right and `x.local` is not there.
fn repository() -> Act {
    Act::new()
        .files(&[("answer.txt", "none\n"), (".gitignore", "agent/\n*.local\nout/\n")])
        .file("mine.local", "the user's\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt && ! test -e x.local")])
}

/// Security line 73, WORKSPACE-40: a file that git ignores would break the gate and never be seen by it.
#[test]
fn files_that_the_gate_would_not_see_are_refused_before_and_after_a_green_run() {
    let create = |path: &str| call("create", json!({"path": path, "content": "hidden\n"}));
    let rewrite = json!({"path": "mine.local", "expect_version": 1, "content": "owned\n"});
    let turns = opening("write it")
        .into_iter()
        .chain([create("x.local"), create("out/x.py"), call("full_rewrite", rewrite)])
        .chain(attempt("right\n"))
        .chain([create("x.local"), done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    assert_eq!(told.read("mine.local"), "the user's\n");
    assert!(!told.repo().join("x.local").exists() && !told.repo().join("out").exists());
    assert_eq!(refused(&told), json!({"excluded": 4}));
    let first = &answers(&told)[1];
    let message = "excluded: git ignores x.local, so the Verifier would not see it; put it";
    assert!(first.starts_with(message), "{first}");
    assert!(!told.read("agent/summary.md").contains("not in the tree"));
}

/// WORKSPACE-40, EDITOR-38: a path that the user allowed is written, and reported as not verified.
#[test]
fn an_ignored_file_that_the_user_allowed_is_told_as_unverified() {
    let turns = opening("write it")
        .into_iter()
        .chain([call("create", json!({"path": "y.local", "content": "x\n"}))])
        .chain(attempt("right\n"))
        .chain([done()]);
    let act = repository().script(&script(turns));
    let told = act.act(["run", "write the answer", "--allow-path", "y.local"]).status(0);
    let summary = told.script_used_up().read("agent/summary.md");
    let named = "## Changed, and not in the tree that was verified\n\n- `y.local`\n";
    assert!(summary.contains(named), "{summary}");
}

/// EDITOR-38: rules of git that hide what was edited keep it from being verified, until they are taken back.
#[test]
fn an_edit_that_is_hidden_afterwards_is_not_verified() {
    let rules = |version: u32, content: &str| {
        let arguments =
            json!({"path": ".gitignore", "expect_version": version, "content": content});
        call("full_rewrite", arguments)
    };
    let turns = opening("write it").into_iter().chain([
        call("create", json!({"path": "src/x.py", "content": "x\n"})),
        rules(1, "agent/\nsrc/\n"),
        call("verify", json!({})),
        rules(2, "agent/\n"),
    ]);
    let turns = turns.chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    let answer = &answers(&told)[3];
    assert!(answer.starts_with("not_verified: ") && answer.ends_with("\nsrc/x.py"), "{answer}");
    assert_eq!(told.runs().len(), 1);
    assert!(!told.read("agent/summary.md").contains("not in the tree"));
}

/// EDITOR-38: a model that says nothing does not get around the rule; the task ends without a verification.
#[test]
fn silence_does_not_verify_what_is_hidden() {
    let rules = json!({"path": ".gitignore", "expect_version": 1, "content": "agent/\nsrc/\n"});
    let write = json!({"path": "answer.txt", "expect_version": 1, "content": "right\n"});
    let silent = json!({"role": "editor", "text": "I am done."});
    let turns = opening("write it").into_iter().chain([
        call("create", json!({"path": "src/x.py", "content": "x\n"})),
        call("full_rewrite", write),
        call("full_rewrite", rules),
        silent.clone(),
        silent.clone(),
        silent,
    ]);
    let told = repository().script(&script(turns)).run("write the answer").status(3);
    let told = told.script_used_up().stdout_has("STUCK: model_idle");
    assert_eq!(told.runs().len(), 0, "{told}");
}
