//! Evidence that travels: `act audit export --in-toto` and `act verify-claim`.

use std::fs;

use serde_json::{Value, json};

use super::json::schema;
use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, Done, Tag, image};

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

/// The code with which a claim is refused; nothing ran.
fn refused(act: &Act, run: &str) -> String {
    let told = act.clone().act(["verify-claim", run, "--json"]).status(1);
    let runs = told.runs().len();
    let refusal: Value = serde_json::from_str(&told.stdout_text()).unwrap();
    assert_eq!(refusal["type"], "refused", "{told}");
    assert_eq!(runs, 1, "{told}");
    refusal["code"].as_str().unwrap().to_owned()
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
    assert_eq!(statement["subject"][0]["digest"]["sha256"], manifest["tree_digest"]);
    let predicate = &statement["predicate"];
    assert_eq!(predicate["result"], "PASSED");
    assert_eq!(predicate["passedTests"], json!(["build", "test"]));
    assert_eq!((&predicate["warnedTests"], &predicate["failedTests"]), (&json!([]), &json!([])));
    assert_eq!(resource(&statement, "agent.yaml")["digest"]["sha256"], manifest["pipeline_sha256"]);
    let of_image = resource(&statement, manifest["platform"]["container_image"].as_str().unwrap());
    let digest = manifest["image_digest"].as_str().unwrap().trim_start_matches("sha256:");
    assert_eq!(of_image["digest"]["sha256"], digest);
    for component in manifest["components"].as_array().unwrap() {
        let exported = resource(&statement, component["name"].as_str().unwrap());
        assert_eq!(exported["digest"]["sha256"], component["sha256"]);
        let said = exported["annotations"]["capabilities"].as_str().unwrap();
        assert!(said.contains("repo.read"), "{exported}");
    }
    let record = resource(&statement, "audit-record");
    assert_eq!(record["digest"]["sha256"], manifest["audit_head"]);
    assert_eq!(record["annotations"]["run_id"], run.as_str());

    // The tree's digest can be made by anybody who reads how.
    let script = "for f in .gitignore agent.yaml answer.txt; do printf '%s\\0%s\\0%s\\0' $f 100644 \
                  $(sha256sum < $f | cut -c-64); done | sha256sum | cut -c-64";
    let mut shell = std::process::Command::new("sh");
    let made = shell.args(["-c", script]).current_dir(act.repo()).output().unwrap();
    assert_eq!(String::from_utf8(made.stdout).unwrap().trim(), manifest["tree_digest"]);
    act.clone().act(["audit", "export", &run]).status(2);

    // What cannot be compared with the log is no evidence.
    let kept = act.artifacts().join("runs").join(&run).join("manifest.json");
    let export = || {
        let told = act.clone().act(["audit", "export", "--in-toto", &run, "--json"]).status(1);
        let refusal: Value = serde_json::from_str(&told.stdout_text()).unwrap();
        refusal["code"].as_str().unwrap().to_owned()
    };
    fs::write(&kept, "{\"status\": \"PA").unwrap();
    assert_eq!(export(), "evidence_disputed");
    fs::remove_file(&kept).unwrap();
    assert_eq!(export(), "evidence_incomplete");
}

/// AUDIT-24: without a verdict, or where log and manifest do not go together, nothing is claimed.
#[test]
fn nothing_is_exported_that_is_not_proved() {
    let act = repository(&[("build", "true"), ("test", "exit 9")]);
    let response = verified(&act, 3);
    let run = run_id(&response).to_owned();
    let export = |act: &Act| act.clone().act(["audit", "export", "--in-toto", &run]);
    let statement = document(&export(&act).status(0), "audit-export");
    assert_eq!(statement["predicate"]["result"], "FAILED");
    assert_eq!(statement["predicate"]["passedTests"], json!(["build"]));
    assert_eq!(statement["predicate"]["failedTests"], json!(["test"]));
    act.clone()
        .act(["audit", "export", "--in-toto", "run_20260101_000000_aaaaaa"])
        .status(1)
        .stderr_has("no record tells of");

    // A manifest that was made greener afterwards, in what its digests do not cover.
    let path = act.artifacts().join("runs").join(&run).join("manifest.json");
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
    let log = act.artifacts().join("state/audit.jsonl");
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

    // Green once and never again: what the tree's own digest does not show.
    let marks = "d=$npm_config_cache/_cacache; [ ! -e $d/seen ] && mkdir -p $d && touch $d/seen";
    let flaky = repository(&[("test", marks)]);
    let response = verified(&flaky, 0);
    let check = claim(&flaky, run_id(&response), 1);
    assert_eq!(check["holds"], false);
    let fields: Vec<_> = check["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["status", "reason", "commands_executed[0]"], "{check:#}");
    let told = flaky.clone().act(["verify-claim", run_id(&response)]).status(1);
    told.stdout_has("Does not hold: ").stdout_has("test: exit code 0, network on; now test: ");
}

/// AUDIT-25: another tree, gate or image is another claim.
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

    // The same name, another image behind it.
    let other = Tag::new();
    let moved = Act::new().file("answer.txt", "right\n").pipeline(&other.name(), &steps);
    let response = verified(&moved, 0);
    other.moves();
    assert_eq!(refused(&moved, run_id(&response)), "claim_image_changed");

    assert_eq!(claim(&act, &run, 0)["holds"], true);
    act.clone().act(["verify-claim", "../x"]).status(1).stderr_has("not a run id");
    let told = act.clone().without_engine().act(["verify-claim", &run]).status(1);
    told.stderr_has("Docker unavailable");
}
