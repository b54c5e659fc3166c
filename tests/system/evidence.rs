//! Evidence that travels: `act audit export --in-toto` and `act verify-claim`.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::json::schema;
use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, Done, Tag, UNTIL_TOLD, image};

fn repository(steps: &[(&str, &str)]) -> Act {
    Act::new().file("answer.txt", "right\n").pipeline(image(), steps)
}

fn verified(act: &Act, exit: i32) -> Value {
    let told = act.clone().act(["verify", "--json"]).status(exit);
    serde_json::from_str(&told.stdout_text()).unwrap()
}

/// The document of a command, checked against its schema.
fn document(told: &Done, name: &str) -> Value {
    let document: Value = serde_json::from_str(&told.stdout_text()).unwrap();
    schema(name).validate(&document).unwrap_or_else(|error| panic!("{error}\n{told}"));
    document
}

fn claim(act: &Act, run: &str, exit: i32) -> Value {
    document(&act.clone().act(["verify-claim", run, "--json"]).status(exit), "verify-claim")
}

/// The code with which a claim is refused; nothing ran and nothing was recorded.
fn refused(act: &Act, run: &str) -> String {
    let before = (runs(act), fs::read(log(act)).unwrap());
    let told = act.clone().act(["verify-claim", run, "--json"]).status(1);
    let refusal: Value = serde_json::from_str(&told.stdout_text()).unwrap();
    assert_eq!(refusal["type"], "refused", "{told}");
    assert!(before == (runs(act), fs::read(log(act)).unwrap()), "{told}");
    refusal["code"].as_str().unwrap().to_owned()
}

fn runs(act: &Act) -> usize {
    fs::read_dir(act.artifacts().join("runs")).unwrap().count()
}

fn log(act: &Act) -> PathBuf {
    act.artifacts().join("state/audit.jsonl")
}

fn manifest(act: &Act, run: &str) -> PathBuf {
    act.artifacts().join("runs").join(run).join("manifest.json")
}

fn export(act: &Act, run: &str, exit: i32) -> Done {
    act.clone().act(["audit", "export", "--in-toto", run, "--json"]).status(exit)
}

/// The code with which an export is refused.
fn unproved(act: &Act, run: &str) -> String {
    let refusal: Value = serde_json::from_str(&export(act, run, 1).stdout_text()).unwrap();
    refusal["code"].as_str().unwrap().to_owned()
}

fn proved(act: &Act, run: &str) -> Value {
    document(&export(act, run, 0), "audit-export")
}

/// `text` in which one value was put in place of another, as JSON.
fn with(text: &str, at: &str, value: Value) -> String {
    let mut document: Value = serde_json::from_str(text).unwrap();
    *document.pointer_mut(at).unwrap() = value;
    document.to_string()
}

fn fields(check: &Value) -> Vec<&str> {
    let all = check["differences"].as_array().unwrap();
    all.iter().map(|one| one["field"].as_str().unwrap()).collect()
}

fn notes(check: &Value) -> Vec<&str> {
    let all = check["notes"].as_array().unwrap();
    all.iter().map(|one| one["code"].as_str().unwrap()).collect()
}

fn run_id(response: &Value) -> &str {
    response["run_id"].as_str().unwrap()
}

fn resource<'a>(statement: &'a Value, name: &str) -> &'a Value {
    let all = statement["predicate"]["configuration"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {statement:#}"))
}

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
    let statement = document(&told, "audit-export");
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

    // What cannot be compared with the log is no evidence.
    let kept = self::manifest(&act, &run);
    let whole = fs::read_to_string(&kept).unwrap();
    fs::write(&kept, "{\"status\": \"PA").unwrap();
    assert_eq!(unproved(&act, &run), "evidence_disputed");
    let told = act.clone().act(["audit", "verify"]).status(1);
    told.stdout_has(&format!("the manifest of {run} cannot be read"));
    // What the log holds no field of, it holds by the digest of all.
    for (at, value) in [
        ("/platform/container_image", json!("registry.example/prod:1")),
        ("/commit_sha", json!("f".repeat(40))),
        ("/components", json!([])),
    ] {
        fs::write(&kept, with(&whole, at, value)).unwrap();
        export(&act, &run, 1).stdout_has("do not say the same: the rest of it");
        assert_eq!(unproved(&act, &run), "evidence_disputed", "{at}");
        let told = act.clone().act(["audit", "verify"]).status(1);
        told.stdout_has(&format!("the manifest of {run} is not what was written"));
        act.clone().act(["audit", "explain", &run]).status(1).stdout_has("the rest of it");
    }
    fs::remove_file(&kept).unwrap();
    assert_eq!(unproved(&act, &run), "evidence_incomplete");
    fs::write(&kept, &whole).unwrap();
    act.clone().act(["audit", "verify"]).status(0);
    assert_eq!(proved(&act, &run), statement);

    // Or without it, wherever its directory is then; a new log is no cure.
    fs::write(&kept, "{}").unwrap();
    let told = act.clone().act(["audit", "verify"]).status(1);
    told.stdout_has("bring back its manifest.json as it was, or take runs/run_");
    act.clone()
        .act(["audit", "explain", &run])
        .status(1)
        .stdout_has("bring back its manifest.json");
    self::export(&act, &run, 1).stdout_has("bring back its manifest.json");
    act.clone().act(["audit", "restart"]).status(0);
    act.clone().act(["audit", "verify"]).status(1).stdout_has("take runs/run_");
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
        .stderr_has("no record tells of");

    // A manifest that was made greener afterwards, in what its digests do not cover.
    let path = manifest(&act, &run);
    let whole = fs::read_to_string(&path).unwrap();
    let mut greener: Value = serde_json::from_str(&whole).unwrap();
    greener["commands_executed"][1]["exit_code"] = json!(0);
    fs::write(&path, greener.to_string()).unwrap();
    export(&act).status(1).stderr_has("do not say the same: commands_executed");
    greener["status"] = json!("PASS");
    fs::write(&path, greener.to_string()).unwrap();
    export(&act).status(1).stderr_has("do not say the same: status, commands_executed");
    assert_eq!(refused(&act, &run), "evidence_disputed");
    fs::write(&path, &whole).unwrap();
    export(&act).status(0);

    // Without the manifest nobody knows what its steps said.
    fs::rename(&path, path.with_extension("aside")).unwrap();
    export(&act).status(1).stderr_has("is gone");
    fs::rename(path.with_extension("aside"), &path).unwrap();

    // A log that was touched proves nothing.
    let log = log(&act);
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replace("\"reason\":\"step_failed\"", "\"reason\":\"pass\"")).unwrap();
    export(&act).status(1).stderr_has("from a log that was touched");
    assert_eq!(refused(&act, &run), "evidence_disputed");
}

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
    let log: Value = serde_json::from_str(&told.stdout_text()).unwrap();
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

    // Green once and never again: what git ignores is not in the tree's own digest, and steps may read it.
    let flaky = repository(&[("test", "[ ! -e /workspace/seen ]")]).file(".gitignore", "seen\n");
    let response = verified(&flaky, 0);
    let flaky = flaky.file("seen", "");
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
    // What git ignores is no part of it, nor is `agent/`.
    let act = act.file("agent/summary.md", "x\n");

    let weaker = act.clone().pipeline(image(), &[("test", "true")]);
    assert_eq!(refused(&weaker, &run), "claim_gate_changed");
    let act = weaker.pipeline(image(), &steps);

    assert_eq!(claim(&act, &run, 0)["holds"], true);
    act.clone().act(["verify-claim", "../x"]).status(1).stderr_has("not a run id");
    let told = act.clone().without_engine().act(["verify-claim", &run]).status(4);
    told.stdout_has("No second word").stdout_has("docker_unavailable: Docker unavailable");
    // Where there is no second verdict there is nothing to hold against the first.
    let told = act.clone().without_engine().act(["verify-claim", &run, "--json"]).status(4);
    let check = document(&told, "verify-claim");
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

    // The same name, an image behind it in which nothing runs.
    let kept = Tag::for_image(&id);
    tag.moves();
    let check = claim(&act, &run, 0);
    held(&check);
    assert_eq!(notes(&check), ["image_name_moved"]);
    let told = act.clone().act(["verify-claim", &run]).status(0);
    told.stdout_has("Holds: ").stdout_has(" by now; the claim's image was taken, sha256:");
    tag.goes();
    let check = claim(&act, &run, 0);
    held(&check);
    assert_eq!(notes(&check), ["image_name_moved"]);

    // The image itself is gone, and its registry does not answer.
    kept.goes();
    assert_eq!(refused(&act, &run), "claim_image_gone");
    let told = act.clone().act(["verify-claim", &run]).status(1);
    told.stderr_has(&id).stderr_has(&tag.name()).stderr_has("docker load");
}

/// AUDIT-24, AUDIT-25: what takes something from a green run is kept with its verdict, and compared.
#[test]
fn a_run_that_is_to_be_doubted_is_no_passed_one() {
    let quiet = "[ -e /workspace/seen ] || echo 'Ran 0 tests in 0.000s'";
    let act = repository(&[("build", "true"), ("unit", quiet)]).file(".gitignore", "seen\n");
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
    let act = act.file("seen", "");
    // The second run does not say so, with the manifest of the first one and without.
    let check = claim(&act, &run, 1);
    assert_eq!(fields(&check), ["warnings"], "{check:#}");
    assert_eq!(check["claimed"]["warnings"], json!(["no_tests_ran 2"]));
    fs::remove_file(manifest(&act, &run)).unwrap();
    let check = claim(&act, &run, 1);
    assert_eq!((fields(&check), notes(&check)), (vec!["warnings"], vec!["steps_unknown"]));
    let told = act.clone().act(["verify-claim", &run]).status(1);
    told.stdout_has(&format!("{run} says PASS, but no_tests_ran 2; again"));
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
    let response: Value = serde_json::from_str(&told.stdout_text()).unwrap();
    assert_eq!(response["reason"], "tree_changed");
    let predicate = &proved(&act, run_id(&response))["predicate"];
    assert_eq!((&predicate["result"], &predicate["failedTests"]), (&json!("FAILED"), &json!([])));
    assert_eq!(predicate["passedTests"], json!(["same (step 1)", "same (step 2)"]));
}

/// Two records that look as those of `of`, chained onto the log's end: the same run as a green one under the name `run`.
fn forge(act: &Act, of: &str, run: &str) -> String {
    let text = fs::read_to_string(log(act)).unwrap();
    let aside = fs::read_to_string(act.artifacts().join("state/audit.1.jsonl")).unwrap_or_default();
    let lines = aside.lines().chain(text.lines());
    let records: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = records.last().unwrap();
    let (mut seq, mut prev) = (last["seq"].as_u64().unwrap(), last["hash"].clone());
    let mut forged = text.clone();
    for event in ["gate_started", "gate_finished"] {
        let is = |record: &&Value| record["event"] == event && record["object"] == of;
        let mut record = records.iter().find(is).unwrap().clone();
        seq += 1;
        record["seq"] = json!(seq);
        record["object"] = json!(run);
        record["prev"] = prev;
        if event == "gate_finished" {
            (record["reason"], record["decision"]) = (json!("pass"), json!("allow"));
            record["digests"].as_object_mut().unwrap().shift_remove("manifest");
            record["digests"].as_object_mut().unwrap().shift_remove("steps");
        }
        record.as_object_mut().unwrap().shift_remove("hash");
        let body = record.to_string();
        let sealed = format!("act-audit-v1{}{body}", record["prev"].as_str().unwrap());
        let hash: String =
            Sha256::digest(sealed.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        forged += &format!("{},\"hash\":\"{hash}\"}}\n", body.strip_suffix('}').unwrap());
        prev = json!(hash);
    }
    fs::write(log(act), forged).unwrap();
    prev.as_str().unwrap().to_owned()
}

/// AUDIT-12, AUDIT-15, security line 186: whoever knows the rules can go on with the chain, and that proves nothing.
#[test]
fn an_end_that_was_added_to_the_log_is_no_evidence() {
    let act = repository(&[("test", "exit 9")]);
    let response = verified(&act, 3);
    let (real, forged) = (run_id(&response).to_owned(), "run_20261121_233000_aaaaaa");
    let hash = forge(&act, &real, forged);
    // With a manifest that goes with it.
    let whole = fs::read_to_string(manifest(&act, &real)).unwrap();
    let whole = with(&whole, "/run_id", json!(forged));
    let whole = with(&whole, "/audit_head", json!(hash));
    let whole = with(&whole, "/reason", Value::Null);
    let whole = with(&whole, "/commands_executed/0/exit_code", json!(0));
    let path = manifest(&act, forged);
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, with(&whole, "/status", json!("PASS"))).unwrap();
    // The chain itself is in order.
    act.clone().act(["audit", "verify"]).status(0);
    export(&act, forged, 1).stdout_has("the last edge that the store remembers");
    assert_eq!(unproved(&act, forged), "evidence_disputed");
    assert_eq!(refused(&act, forged), "evidence_disputed");
    act.clone().act(["audit", "explain", forged]).status(1).stdout_has("not believed");
    // Nor does it become true when somebody honest goes on after it.
    verified(&act, 3);
    act.clone().act(["audit", "verify"]).status(0);
    export(&act, forged, 1).stdout_has("the store knows no such run");
    assert_eq!(unproved(&act, forged), "evidence_disputed");
    assert_eq!(refused(&act, forged), "evidence_disputed");
    assert_eq!(proved(&act, &real)["predicate"]["result"], "FAILED");
    // Of two ends of a run the first one counts.
    forge(&act, &real, &real);
    assert_eq!(proved(&act, &real)["predicate"]["result"], "FAILED");
}

/// AUDIT-15, security line 186: a run ends once, also where the log with its end was set aside.
#[test]
fn a_second_end_in_the_next_log_is_no_evidence() {
    let act = repository(&[("test", "cat answer.txt")]);
    let response = verified(&act, 0);
    let run = run_id(&response).to_owned();
    let whole = fs::read_to_string(log(&act)).unwrap();
    fs::write(log(&act), whole + "{}\n").unwrap();
    act.clone().act(["audit", "restart"]).status(0);
    act.clone().act(["audit", "verify"]).status(0);

    // The same verdict in the log after it, with a manifest to match, and somebody honest goes on.
    let hash = forge(&act, &run, &run);
    let path = manifest(&act, &run);
    let first = fs::read_to_string(&path).unwrap();
    let second = with(&first, "/audit_head", json!(hash));
    fs::write(&path, with(&second, "/commit_sha", json!("f".repeat(40)))).unwrap();
    verified(&act, 0);
    let another = format!("the store remembers another end of {run}");
    act.clone().act(["audit", "verify"]).status(1).stdout_has(&another);
    let told = act.clone().act(["audit", "explain", &run]).status(1);
    told.stdout_has("the store remembers another record as its end");
    assert_eq!(unproved(&act, &run), "evidence_disputed");
    assert_eq!(refused(&act, &run), "evidence_disputed");

    // The true manifest does not make the record true; the next log knows it for what it is.
    fs::write(&path, first).unwrap();
    act.clone().act(["audit", "verify"]).status(1).stdout_has(&another);
    act.clone().act(["audit", "restart"]).status(0);
    let verify = |exit: i32, more: &[&str]| {
        let words = ["audit", "verify", "--json"].iter().chain(more).copied();
        document(&act.clone().act(words).status(exit), "audit-verify")
    };
    let found = verify(1, &[]);
    assert_eq!((&found["history"], &found["bad"]), (&json!("missing"), &Value::Null), "{found:#}");
    let begun = found["restarted_at"].to_string();
    let found = verify(0, &["--accept-restart", &begun]);
    assert_eq!(found["runs_unknown"].as_array().unwrap().len(), 1, "the honest one: {found:#}");
}

/// AUDIT-24: a log of a time when it held less is verified as before, and proves what it holds.
#[test]
fn a_log_that_holds_less_proves_less() {
    let act = repository(&[("test", "cat answer.txt")]);
    let response = verified(&act, 0);
    let run = run_id(&response).to_owned();
    let older = |digests: &[&str]| {
        let text = fs::read_to_string(log(&act)).unwrap();
        let (mut prev, mut lines, mut head) = ("0".repeat(64), String::new(), (0, 0));
        for line in text.lines() {
            let mut record: Value = serde_json::from_str(line).unwrap();
            for digest in digests {
                record["digests"].as_object_mut().unwrap().shift_remove(*digest);
            }
            record["counts"].as_object_mut().unwrap().shift_remove("warnings");
            record["prev"] = json!(prev);
            record.as_object_mut().unwrap().shift_remove("hash");
            let body = record.to_string();
            let sealed = Sha256::digest(format!("act-audit-v1{prev}{body}").as_bytes());
            prev = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
            lines += &format!("{},\"hash\":\"{prev}\"}}\n", body.strip_suffix('}').unwrap());
            head = (record["seq"].as_i64().unwrap(), lines.len() as i64);
        }
        fs::write(log(&act), lines).unwrap();
        let db = rusqlite::Connection::open(act.artifacts().join("state/act.db")).unwrap();
        let kept = "UPDATE audit_head SET seq = ?1, hash = ?2, log_end = ?3";
        db.execute(kept, rusqlite::params![head.0, prev, head.1]).unwrap();
        db.execute("UPDATE runs SET end_hash = NULL", []).unwrap();
        let path = manifest(&act, &run);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, with(&whole, "/audit_head", json!(prev))).unwrap();
    };
    older(&["manifest", "image_id"]);
    act.clone().act(["audit", "verify"]).status(0);
    let statement = proved(&act, &run);
    assert_eq!(statement["predicate"]["result"], "PASSED");
    assert!(resource(&statement, "container_image")["annotations"]["image_id"].is_null());
    older(&["steps"]);
    export(&act, &run, 1).stdout_has("the log is older than digests of steps");
    assert_eq!(unproved(&act, &run), "evidence_incomplete");
    let check = claim(&act, &run, 0);
    assert_eq!(
        (&check["holds"], notes(&check)),
        (&json!(true), vec!["steps_unknown", "warnings_unknown"])
    );
}
