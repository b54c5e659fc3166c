//! `act init --check`: one run of the pipeline, and whether it shows a test.

use crate::harness::{Act, image};

const SEEN: &str = "echo '100% tests passed, 0 tests failed out of 12'";

// CLI-58
#[test]
fn a_pass_with_tests_a_pass_without_and_a_failure_have_exit_codes_of_their_own() {
    for (step, status, verdict, seen) in [
        (SEEN, 0, "PASS", true),
        ("echo all is well", 1, "PASS", false),
        ("echo '12 tests passed'; exit 9", 3, "FAIL", true),
    ] {
        let done =
            Act::new().pipeline(image(), &[("test", step)]).act(["init", "--check", "--json"]);
        let done = done.status(status);
        let tried = &done.json()["tried"];
        assert_eq!(
            (&tried["status"], &tried["tests_seen"]),
            (&verdict.into(), &seen.into()),
            "{done}"
        );
        assert_eq!(done.runs(), [tried["run_id"].as_str().unwrap()]);
    }
}

// CLI-58
#[test]
fn an_image_that_cannot_be_had_is_exit_code_4_and_an_existing_file_is_never_changed() {
    let missing = Act::new().pipeline("registry.invalid/none:1", &[("test", SEEN)]);
    let before = std::fs::read_to_string(missing.repo().join("agent.yaml")).unwrap();
    let done =
        missing.act(["init", "--check"]).status(4).stdout_has("existed before and was not changed");
    let done = done.stdout_has("INFRA_ERROR").stdout_has("Not checked: ");
    assert_eq!(done.read("agent.yaml"), before);
    let done = Act::new().pipeline(image(), &[("test", SEEN)]).act(["init", "--check"]).status(0);
    done.stdout_has("PASS run_").stdout_has("Checked: the steps pass, and 12 tests ran.");
}

/// The image is that of the Dockerfile, which no registry has.
// CLI-58
#[test]
fn a_new_file_is_run_as_well_and_stays_however_the_check_ends() {
    let act = Act::new()
        .file("go.mod", "module x\n")
        .file("Dockerfile", "FROM registry.invalid/golang:1\n");
    let done = act.act(["init", "--check", "--json"]).status(4);
    let document = done.json();
    assert_eq!(document["tried"]["status"], "INFRA_ERROR", "{done}");
    assert_eq!(document["image"], "registry.invalid/golang:1", "{done}");
    assert!(done.read("agent.yaml").starts_with("# written by act init\n"));
}
