//! A verdict that is asked for a second time.

use std::fs;

use serde_json::{Value, json};

use super::{claim, fields, notes, refused, repository, run_id, verified};
use crate::harness::{Tag, image};

/// AUDIT-25: the same gate over the same tree in the same image, again.
#[test]
fn a_claim_is_run_again_and_holds_or_not() {
    let act = repository(&[("test", "cat answer.txt")]);
    let response = verified(&act, 0);
    let run = run_id(&response).to_owned();
    let check = claim(&act, &run, 0);
    assert_eq!((&check["holds"], &check["differences"]), (&json!(true), &json!([])), "{check:#}");
    assert_eq!(check["claimed"]["run_id"], run.as_str());
    let again = check["found"]["run_id"].as_str().unwrap();
    assert_ne!(again, run);
    assert_eq!(check["response"]["manifest"]["run_id"], again);
    for field in ["status", "tree_digest", "image_digest", "pipeline_sha256"] {
        assert_eq!(check["claimed"][field], check["found"][field], "{field}");
        assert!(check["claimed"][field].is_string());
    }
    let told = act.clone().act(["audit", "list", "--json"]).status(0);
    let log = told.json();
    let last = log["records"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["event"], &last["object"], &last["reason"], &last["names"]),
        (&json!("claim_checked"), &json!(run), &json!("holds"), &json!([again]))
    );
    act.clone().act(["audit", "verify"]).status(0);
    act.clone().act(["verify-claim", &run]).status(0).stdout_has("Holds: ").inert();

    // A failure is a claim as well.
    let red = repository(&[("test", "cat answer.txt; exit 3")]);
    let response = verified(&red, 3);
    let check = claim(&red, run_id(&response), 0);
    assert_eq!(check["claimed"]["reason"], "step_failed");

    // Green once and never again: the git directory is not in the tree's own digest, and steps may read it.
    let flaky =
        repository(&[("test", "[ ! -e .git/seen ]")]).file(".git/HEAD", "ref: refs/heads/x\n");
    let response = verified(&flaky, 0);
    let flaky = flaky.file(".git/seen", "");
    let check = claim(&flaky, run_id(&response), 1);
    assert_eq!(check["holds"], false);
    assert_eq!(fields(&check), ["status", "reason", "commands_executed[0]"], "{check:#}");
    let told = flaky.clone().act(["verify-claim", run_id(&response)]).status(1);
    told.stdout_has("Does not hold: ").stdout_has("test: exit code 0, network on; now test: ");
}

/// AUDIT-25: another tree or gate is another claim.
#[test]
fn a_claim_about_something_else_is_refused_and_says_what_has_changed() {
    let steps = [("test", "grep -qx right answer.txt")];
    let act = repository(&steps);
    let response = verified(&act, 0);
    let run = run_id(&response).to_owned();
    fs::write(act.repo().join("answer.txt"), "right \n").unwrap();
    assert_eq!(refused(&act, &run), "claim_tree_changed");
    let told = act.clone().act(["verify-claim", &run]).status(1);
    told.stderr_has(response["manifest"]["tree_digest"].as_str().unwrap());
    fs::write(act.repo().join("answer.txt"), "right\n").unwrap();
    // Ignored files and `agent/` are not part of the tree.
    let act = act.file("agent/summary.md", "x\n");

    let weaker = act.clone().pipeline(image(), &[("test", "true")]);
    assert_eq!(refused(&weaker, &run), "claim_gate_changed");
    let act = weaker.pipeline(image(), &steps);

    assert_eq!(claim(&act, &run, 0)["holds"], true);
    act.clone().act(["verify-claim", "../x"]).status(1).stderr_has("not a run id");
    let told = act.clone().without_engine().act(["verify-claim", &run]).status(4);
    told.stdout_has("No verdict").stdout_has("docker_unavailable: Docker unavailable");
    // Without a second verdict there is nothing to compare.
    let told = act.clone().without_engine().act(["verify-claim", &run, "--json"]).status(4);
    let check = told.document("verify-claim");
    assert_eq!((&check["holds"], fields(&check)), (&json!(false), vec![]), "{check:#}");
}

/// AUDIT-25: the image is the recorded one, whatever its name means by now; without it there is no second word.
#[test]
fn a_claim_is_about_the_recorded_image_and_not_about_its_tag() {
    let (tag, id) = Tag::of_its_own();
    let act = repository(&[("test", "grep -qx right answer.txt")]);
    let act = act.pipeline(&tag.name(), &[("test", "grep -qx right answer.txt")]);
    let response = verified(&act, 0);
    let run = run_id(&response).to_owned();
    let held = |check: &Value| {
        assert_eq!((&check["holds"], fields(check)), (&json!(true), vec![]), "{check:#}");
        assert_eq!(check["found"]["image_digest"], check["claimed"]["image_digest"]);
        let reference = &check["response"]["manifest"]["platform"]["container_image"];
        assert_eq!(reference, &json!(tag.name()));
    };
    let check = claim(&act, &run, 0);
    held(&check);
    assert_eq!(notes(&check), Vec::<&str>::new());

    // The name now leads to an image in which nothing runs.
    let kept = Tag::for_image(&id);
    tag.move_to_empty();
    let check = claim(&act, &run, 0);
    held(&check);
    assert_eq!(notes(&check), ["image_name_moved"]);
    let told = act.clone().act(["verify-claim", &run]).status(0);
    told.stdout_has("Holds: ").stdout_has(" now means ");
    tag.remove();
    let check = claim(&act, &run, 0);
    held(&check);
    assert_eq!(notes(&check), ["image_name_moved"]);

    // The image itself is gone, and its registry does not answer.
    kept.remove();
    assert_eq!(refused(&act, &run), "claim_image_gone");
    let told = act.clone().act(["verify-claim", &run]).status(1);
    told.stderr_has(&id).stderr_has(&tag.name()).stderr_has("docker load");
}
