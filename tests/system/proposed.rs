//! The patch of a dry run outside of the run itself: what git makes of it, and how it is looked at again.

use std::fs;

use serde_json::{Value, json};

use crate::harness::proposals::{named, proposal, repository};
use crate::harness::script::{call, done, opening, script};
use crate::harness::tree::git;
use crate::harness::{Act, image};

/// WORKSPACE-53: below the top of git's working tree names are told from the top, so that git finds the files from
/// there and from the package, and `act apply` finds them as ever.
#[test]
fn a_patch_from_below_the_top_of_git_applies_from_both() {
    let config = format!(
        "verification: {{container_image: \"{}\", steps: [{{name: test, command: \"grep -qx right answer.txt\"}}]}}",
        image()
    );
    let act = Act::new().file("package/agent.yaml", config).file("package/answer.txt", "none\n");
    let (top, package) = (act.repo(), act.repo().join("package"));
    let act = act.within(package.clone());
    let turns = opening("write it").into_iter().chain([
        call("read", json!({"path": "answer.txt"})),
        call(
            "full_rewrite",
            json!({"path": "answer.txt", "expect_version": "{{last_version}}", "content": "right\n"}),
        ),
        call("create", json!({"path": "b.txt", "content": "new\n"})),
        done(),
    ]);
    let told = act.clone().script(&script(turns)).act(["run", "--dry-run", "x"]).status(0);
    let patch = told.stdout_text();
    for from in [&top, &package] {
        git(from, &["apply", "-"], &patch);
        assert_eq!(fs::read_to_string(package.join("answer.txt")).unwrap(), "right\n", "{patch}");
        assert_eq!(fs::read_to_string(package.join("b.txt")).unwrap(), "new\n", "{patch}");
        git(from, &["apply", "-R", "-"], &patch);
        assert!(!package.join("b.txt").exists());
    }
    act.script("turns: []").act(["apply"]).status(0);
    assert_eq!(fs::read_to_string(package.join("answer.txt")).unwrap(), "right\n");
}

/// CLI-51: a proposal can be looked at for as long as it can be applied, also one of a dry run without a terminal.
#[test]
fn a_proposal_is_shown_again_byte_for_byte() {
    let act = repository();
    act.clone().act(["apply", "--show"]).status(1).stderr_has("no proposal to apply");
    let told = act.clone().script(&script(proposal())).act(["run", "--dry-run", "x"]).status(0);
    let (task, patch) = (named(&told), told.stdout_text());
    let before = fs::read(act.repo().join("answer.txt")).unwrap();
    for arguments in [&["apply", "--show"][..], &["apply", "--show", &task]] {
        act.clone().act(arguments).status(0).stdout(&patch).stderr("");
    }
    let json = act.clone().act(["apply", "--show", "--json"]).status(0).stdout_text();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json, json!({"schema": 2, "task_id": task, "diff": patch, "diff_base64": null}));
    assert_eq!(fs::read(act.repo().join("answer.txt")).unwrap(), before);

    let told = act.clone().act(["apply", "--show", "--max-tokens", "1"]);
    told.status(2).stderr_has("cannot be used with");
    act.clone().script("turns: []").act(["apply"]).status(0);
    act.act(["apply", "--show", &task]).status(1).stderr_has("was applied by");
}
