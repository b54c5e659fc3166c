//! The content of an export, and runs that cannot be exported.

use std::fs;

use serde_json::{Value, json};

use super::{
    claim, export, fields, manifest, notes, proved, refused, repository, resource, run_id,
    unproved, verified, with,
};
use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, UNTIL_TOLD};

/// AUDIT-24: a task's run as other tools read it, digest for digest what its manifest says.
#[test]
fn a_run_is_exported_with_gate_image_tree_and_components() {
    let act = repository(&[("build", "true"), ("test", "grep -qx right answer.txt")])
        .file("answer.txt", "none\n");
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let told = act.clone().script(&script(turns)).run("write the answer").status(0);
    let run = told.runs().remove(0);
    let manifest = told.manifest(&run);
    let told = act.clone().act(["audit", "export", "--in-toto", &run]).status(0);
    let statement = told.document("audit-export");
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://in-toto.io/attestation/test-result/v0.1");
    assert_eq!(statement["subject"].as_array().unwrap().len(), 1);
    // Made in a way of our own, so it is no `sha256` of anything.
    assert_eq!(statement["subject"][0]["digest"], json!({"actTree": manifest["tree_digest"]}));
    let predicate = &statement["predicate"];
    assert_eq!(predicate["result"], "PASSED");
    assert_eq!(predicate["passedTests"], json!(["build", "test"]));
    assert_eq!((&predicate["warnedTests"], &predicate["failedTests"]), (&json!([]), &json!([])));
    assert_eq!(resource(&statement, "agent.yaml")["digest"]["sha256"], manifest["pipeline_sha256"]);
    let of_image = resource(&statement, manifest["platform"]["container_image"].as_str().unwrap());
    let digest = manifest["image_digest"].as_str().unwrap().trim_start_matches("sha256:");
    assert_eq!(of_image["digest"]["sha256"], digest);
    assert!(of_image["annotations"]["image_id"].as_str().unwrap().starts_with("sha256:"));
    for component in manifest["components"].as_array().unwrap() {
        let exported = resource(&statement, component["name"].as_str().unwrap());
        assert_eq!(exported["digest"]["sha256"], component["sha256"]);
        let said = exported["annotations"]["capabilities"].as_str().unwrap();
        assert!(said.contains("repo.read"), "{exported}");
    }
    let record = resource(&statement, "audit-record");
    assert_eq!(record["digest"], json!({"actRecord": manifest["audit_head"]}));
    let all = predicate["configuration"].as_array().unwrap();
    let roles: Vec<_> = all.iter().map(|one| one["annotations"]["role"].clone()).collect();
    assert_eq!(roles, ["gate", "image", "component", "component", "component", "record"]);
    assert_eq!(record["annotations"]["run_id"], run.as_str());

    // The tree's digest can be made by anybody who reads how.
    let script = "for f in .gitignore agent.yaml answer.txt; do printf '%s\\0%s\\0%s\\0' $f 100644 \
                  $(sha256sum < $f | cut -c-64); done | sha256sum | cut -c-64";
    let mut shell = std::process::Command::new("sh");
    let made = shell.args(["-c", script]).current_dir(act.repo()).output().unwrap();
    assert_eq!(String::from_utf8(made.stdout).unwrap().trim(), manifest["tree_digest"]);
    act.clone().act(["audit", "export", &run]).status(2);

    // Fields that cannot be compared with the log are not exported.
    let kept = self::manifest(&act, &run);
    let whole = fs::read_to_string(&kept).unwrap();
    fs::write(&kept, "{\"status\": \"PA").unwrap();
    assert_eq!(unproved(&act, &run), "evidence_disputed");
    let told = act.clone().act(["audit", "verify"]).status(1);
    told.stdout_has(&format!("the manifest of {run} cannot be read"));
    // The digest of the manifest covers fields that the log does not hold.
    for (at, value) in [
        ("/platform/container_image", json!("registry.example/prod:1")),
        ("/commit_sha", json!("f".repeat(40))),
        ("/components", json!([])),
    ] {
        fs::write(&kept, with(&whole, at, value)).unwrap();
        export(&act, &run, 1).stdout_has("differ in: other fields");
        assert_eq!(unproved(&act, &run), "evidence_disputed", "{at}");
        let told = act.clone().act(["audit", "verify"]).status(1);
        told.stdout_has(&format!("the manifest of {run} was changed"));
        act.clone().act(["audit", "explain", &run]).status(1).stdout_has("other fields");
    }
    fs::remove_file(&kept).unwrap();
    // The proof of the success outlives the run, and is a copy of it.
    assert_eq!(proved(&act, &run), statement);
    let proof = act.artifacts().join("state/proofs").join(&run);
    let stored: Value =
        serde_json::from_slice(&fs::read(proof.join("statement.json")).unwrap()).unwrap();
    assert_eq!(stored, statement);
    let log = proof.join("logs/step-02-test.log");
    let text = fs::read(&log).unwrap();
    fs::write(&log, "another output\n").unwrap();
    export(&act, &run, 1).stdout_has("logs/step-02-test.log");
    let told = act.clone().act(["audit", "verify"]).status(1);
    told.stdout_has(&format!("logs/step-02-test.log of {run} was changed or is missing"));
    act.clone().act(["audit", "explain", &run]).status(1).stdout_has("logs/step-02-test.log");
    fs::write(&log, text).unwrap();
    act.clone().act(["audit", "verify"]).status(0);
    let apart = act.artifacts().join("proof");
    fs::rename(&proof, &apart).unwrap();
    assert_eq!(unproved(&act, &run), "evidence_incomplete");
    fs::rename(&apart, &proof).unwrap();
    fs::write(&kept, &whole).unwrap();
    act.clone().act(["audit", "verify"]).status(0);
    assert_eq!(proved(&act, &run), statement);

    // Or without it, wherever its directory is then; a new log is no cure.
    fs::write(&kept, "{}").unwrap();
    let told = act.clone().act(["audit", "verify"]).status(1);
    told.stdout_has("restore its manifest.json and its logs as they were, or move runs/run_");
    act.clone().act(["audit", "explain", &run]).status(1).stdout_has("restore its manifest.json");
    self::export(&act, &run, 1).stdout_has("restore its manifest.json");
    act.clone().act(["audit", "restart"]).status(0);
    act.clone().act(["audit", "verify"]).status(1).stdout_has("move runs/run_");
    let dir = kept.parent().unwrap();
    fs::rename(dir, act.artifacts().join("apart")).unwrap();
    act.clone().act(["audit", "verify"]).status(0);
}

/// AUDIT-24: without a verdict, or where log and manifest do not go together, nothing is claimed.
#[test]
fn nothing_is_exported_that_is_not_proved() {
    let act = repository(&[("build", "true"), ("test", "exit 9")]);
    let response = verified(&act, 3);
    let run = run_id(&response).to_owned();
    let export = |act: &Act| act.clone().act(["audit", "export", "--in-toto", &run]);
    let statement = proved(&act, &run);
    assert_eq!(statement["predicate"]["result"], "FAILED");
    assert_eq!(statement["predicate"]["passedTests"], json!(["build"]));
    assert_eq!(statement["predicate"]["failedTests"], json!(["test"]));
    act.clone()
        .act(["audit", "export", "--in-toto", "run_20260101_000000_aaaaaa"])
        .status(1)
        .stderr_has("the audit log has no record of");

    // A manifest that was made greener afterwards, in what its digests do not cover.
    let path = manifest(&act, &run);
    let whole = fs::read_to_string(&path).unwrap();
    let mut greener: Value = serde_json::from_str(&whole).unwrap();
    greener["commands_executed"][1]["exit_code"] = json!(0);
    fs::write(&path, greener.to_string()).unwrap();
    export(&act).status(1).stderr_has("differ in: commands_executed");
    greener["status"] = json!("PASS");
    fs::write(&path, greener.to_string()).unwrap();
    export(&act).status(1).stderr_has("differ in: status, commands_executed");
    assert_eq!(refused(&act, &run), "evidence_disputed");
    fs::write(&path, &whole).unwrap();
    export(&act).status(0);

    // Without the manifest the results of the steps are unknown.
    fs::rename(&path, path.with_extension("aside")).unwrap();
    export(&act).status(1).stderr_has("is missing");
    fs::rename(path.with_extension("aside"), &path).unwrap();

    // A log that was touched proves nothing.
    let text = fs::read_to_string(act.audit_log()).unwrap();
    fs::write(act.audit_log(), text.replace("\"reason\":\"step_failed\"", "\"reason\":\"pass\""))
        .unwrap();
    export(&act).status(1).stderr_has("the log was changed, so it proves nothing");
    assert_eq!(refused(&act, &run), "evidence_disputed");
}

/// AUDIT-24, AUDIT-25: warnings that weaken a passed run are recorded with its verdict, and compared.
#[test]
fn a_run_that_is_to_be_doubted_is_no_passed_one() {
    let quiet = "[ -e .git/seen ] || echo 'Ran 0 tests in 0.000s'";
    let act =
        repository(&[("build", "true"), ("unit", quiet)]).file(".git/HEAD", "ref: refs/heads/x\n");
    let response = verified(&act, 0);
    assert_eq!(response["warnings"][0]["code"], "no_tests_ran");
    let run = run_id(&response).to_owned();
    let statement = proved(&act, &run);
    let predicate = &statement["predicate"];
    assert_eq!(predicate["result"], "WARNED");
    assert_eq!(predicate["passedTests"], json!(["build"]));
    assert_eq!(predicate["warnedTests"], json!(["unit"]));
    let record = resource(&statement, "audit-record");
    assert_eq!(record["annotations"]["warnings"], "no_tests_ran 2");
    act.clone().act(["audit", "explain", &run]).status(0).stdout_has("no_tests_ran 2");
    let act = act.file(".git/seen", "");
    // The second run does not say so, with the manifest of the first one and without.
    let check = claim(&act, &run, 1);
    assert_eq!(fields(&check), ["warnings"], "{check:#}");
    assert_eq!(check["claimed"]["warnings"], json!(["no_tests_ran 2"]));
    fs::remove_file(manifest(&act, &run)).unwrap();
    let check = claim(&act, &run, 1);
    assert_eq!((fields(&check), notes(&check)), (vec!["warnings"], vec!["steps_unknown"]));
    let told = act.clone().act(["verify-claim", &run]).status(1);
    told.stdout_has(&format!("{run}: PASS, but no_tests_ran 2; again"));
    assert_eq!(unproved(&act, &run), "evidence_incomplete");
}

/// AUDIT-24: all steps were green over a tree that changed, and none of them is the one that failed.
#[test]
fn a_tree_that_changed_has_no_failed_test() {
    let act = repository(&[("same", UNTIL_TOLD), ("same", "true")]);
    let running = act.clone().start(["verify", "--json", "--verbose"]);
    running.until_stderr_has("it has begun");
    fs::write(act.repo().join("answer.txt"), "changed\n").unwrap();
    act.tell_step();
    let told = running.wait().status(3);
    let response = told.json();
    assert_eq!(response["reason"], "tree_changed");
    let predicate = &proved(&act, run_id(&response))["predicate"];
    assert_eq!((&predicate["result"], &predicate["failedTests"]), (&json!("FAILED"), &json!([])));
    assert_eq!(predicate["passedTests"], json!(["same (step 1)", "same (step 2)"]));
}
