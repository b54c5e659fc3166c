//! The examples in `components/examples`, built by their own languages' tools and queried through the real program: a
//! Scout in the place of Scout B, and one that adds a role. Neither changes a file of the host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use act_component::{ComponentHost, Grant};
use act_core::event::Events;
use serde_json::{Value, json};

use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, image, program};

/// Returns the directory of the built and packed examples, which are compiled here so that no test waits for it.
pub(crate) fn examples() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let built = scratch.join("examples");
        let root = act_core::testing::checkout();
        let outcome = Command::new(root.join("scripts/examples"))
            .arg(&built)
            .env("ACT", program())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success(), "{said}");
        let host = ComponentHost::new(Some(&scratch.join("cache/agent-command-tool/components")));
        for name in ["scout-b-python", "licences-js"] {
            let bytes = fs::read(built.join(name).with_extension("wasm")).unwrap();
            host.load(&bytes, Grant::builtin_scout(), &Events::silent()).unwrap();
        }
        built
    })
}

fn approve(act: &Act, example: &str, more: &[&str]) -> String {
    let path = examples().join(example).with_extension("wasm");
    let sha256 = act_workspace::digest(&fs::read(&path).unwrap());
    let words = ["components", "approve", path.to_str().unwrap(), "--sha256", &sha256];
    act.clone().act(words.iter().chain(more).copied()).status(0);
    sha256
}

/// Digest of what answered as Scout B, newest first, as the audit log has it.
fn answered_as_b(act: &Act) -> Vec<String> {
    let told = act.clone().act(["audit", "list", "--json"]).status(0);
    let log = told.json();
    let is_b =
        |record: &&Value| record["event"] == "query" && record["subject"]["name"] == "scout-b";
    let records = log["records"].as_array().unwrap().iter().filter(is_b);
    let mut digests: Vec<_> =
        records.map(|record| record["subject"]["sha256"].as_str().unwrap().to_owned()).collect();
    digests.reverse();
    digests
}

// COMPONENT-6: what is meant to be copied conforms, and commands that need facts have them.
#[test]
fn the_examples_conform_and_the_one_for_scout_b_gives_facts() {
    for example in ["scout-b-python", "licences-js"] {
        let path = examples().join(example).with_extension("wasm");
        Act::new().act(["components", "test", path.to_str().unwrap()]).status(0);
    }
    let manifest = r#"{"scripts": {"test": "jest"}, "devDependencies": {"jest": "29"}}"#;
    let act = Act::new().file("package.json", manifest).file("yarn.lock", "");
    approve(&act, "scout-b-python", &["--name", "in-python", "--replaces", "scout-b"]);
    let facts = act.clone().act(["scout", "b", "--facts", "--json"]).status(0).json();
    let test = &facts["projects"][0]["commands"]["test"];
    assert_eq!(
        test,
        &json!({"command": "yarn test", "source": {"path": "package.json", "line": 1}})
    );
    let told = act.clone().act(["init"]).status(0);
    assert!(told.read("agent.yaml").contains("yarn test"), "{told}");
}

/// Builds a component in Python from a world of its own, which names nothing of this host.
fn greeter_in_python() -> PathBuf {
    let root = act_core::testing::checkout();
    let sources = root.join("tests/fixtures/python-component");
    let text = ["app.py", "wit/greeter.wit"].map(|name| fs::read(sources.join(name)).unwrap());
    let digest = act_workspace::digest(&text.concat());
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("greeter-{digest}.wasm"));
    if !built.exists() {
        // The toolchain writes beside the sources, so it works in a copy.
        let work = tempfile::tempdir().unwrap();
        fs::create_dir(work.path().join("wit")).unwrap();
        for (name, text) in ["app.py", "wit/greeter.wit"].into_iter().zip(text) {
            fs::write(work.path().join(name), text).unwrap();
        }
        let build = r#"eval "$("$1/scripts/guest-tools")" && "$ACT_COMPONENTIZE_PY" -d wit -w greeter \
            componentize app --stub-wasi -o built.wasm"#;
        let outcome = Command::new("bash")
            .args(["-c", build, "bash"])
            .arg(&root)
            .current_dir(work.path())
            .output()
            .unwrap();
        assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
        // Complete under its name, for other tests that look for it meanwhile.
        let whole = built.with_extension(format!("{}.new", std::process::id()));
        fs::copy(work.path().join("built.wasm"), &whole).unwrap();
        fs::rename(whole, &built).unwrap();
    }
    built
}

// FOREIGN-3
#[test]
fn the_init_that_python_exports_for_itself_is_no_tool() {
    let act = Act::new().without_engine();
    let path = greeter_in_python();
    let file = path.to_str().unwrap();
    let inspected = act.clone().act(["components", "inspect", file, "--json"]).status(0);
    let document = inspected.document("components-inspect");
    assert_eq!(document["tools"], json!(["greet"]), "{document:#}");
    assert_eq!(document["left_out"][0]["function"], "exports#init", "{document:#}");
    let sha256 = act_workspace::digest(&fs::read(&path).unwrap());
    let approval = ["components", "approve", file, "--sha256", &sha256, "--name", "greeter"];
    act.clone().act(approval).status(0);
    let call = |tool: &str, arguments: &str| {
        act.clone().act(["components", "call", "greeter", tool, arguments, "--json"])
    };
    let greeted = call("greet", r#"{"name": "Ada"}"#).status(0).json();
    assert_eq!(greeted["answer"], "hello Ada", "{greeted:#}");
    for tool in ["exports_init", "init", "cabi_realloc", "_initialize"] {
        assert_eq!(call(tool, "{}").status(1).json()["code"], "unknown_tool", "{tool}");
    }
}

// FOREIGN-11, AUDIT-9
#[test]
fn scout_b_in_python_takes_the_place_of_ours_and_the_audit_log_shows_whose_digest_answered() {
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file(
            "package.json",
            r#"{"name": "shop", "scripts": {"test": "jest"}, "devDependencies": {"jest": "29"}}"#,
        )
        .file("yarn.lock", "")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let host = act_workspace::digest(&fs::read(program()).unwrap());
    let ours = act_component::builtin::SCOUT_B.sha256;
    let run = |act: &Act, turns: Vec<Value>, answer: &str| {
        let turns = turns.into_iter().chain(attempt(answer)).chain([done()]);
        let told = act.clone().script(&script(turns)).act(["run", "write the answer"]).status(0);
        let told = told.script_used_up();
        // Not the last by name: two runs may begin in the same second.
        let out = told.stdout_text();
        let newest = out.rsplit("verified by ").next().unwrap().split_whitespace().next().unwrap();
        let parts = told.manifest(newest)["components"].clone();
        let part = parts.as_array().unwrap().iter().find(|one| one["name"] == "scout-b").cloned();
        (told, part.unwrap()["sha256"].as_str().unwrap().to_owned())
    };
    let (_, digest) = run(&act, opening("write it"), "right\n");
    assert_eq!((digest.as_str(), answered_as_b(&act)[0].as_str()), (ours, ours));

    // Approving is all that it takes.
    let python = approve(&act, "scout-b-python", &["--name", "py-b", "--replaces", "scout-b"]);
    fs::write(act.repo().join("answer.txt"), "none\n").unwrap();
    let (told, digest) = run(&act, opening("write it"), "right\n");
    assert_eq!((&digest, &answered_as_b(&act)[0]), (&python, &python), "{told}");
    let listed = format!("scout-b {}", &python[..12]);
    act.clone().act(["audit", "list"]).status(0).stdout_has(&listed);
    assert!(told.requests_of("scout-b").is_empty(), "{told}");
    let planned = told.requests_of("editor")[0].body.to_string();
    assert!(planned.contains("yarn test") && planned.contains("seen: package.json"), "{planned}");
    assert_eq!(act_workspace::digest(&fs::read(program()).unwrap()), host);

    // And back.
    act.clone().act(["components", "revoke", "py-b"]).status(0);
    fs::write(act.repo().join("answer.txt"), "none\n").unwrap();
    let (_, digest) = run(&act, opening("write it"), "right\n");
    assert_eq!((digest.as_str(), answered_as_b(&act)[0].as_str()), (ours, ours));
    act.act(["audit", "verify"]).status(0);
}

// FOREIGN-11
#[test]
fn scout_b_in_python_asks_the_model_why_a_run_failed_and_its_report_is_held_to_the_repository() {
    let act =
        Act::new().without_engine().file("Cargo.toml", "[package]\n").file("src/lib.rs", "x\n");
    approve(&act, "scout-b-python", &["--name", "py-b", "--replaces", "scout-b"]);
    let log = "error[E0425]: cannot find value `x`\n --> src/lib.rs:1:1\n --> src/gone.rs:1:1\n";
    let act = act.file("ci.log", log);
    let cause = json!({"root_cause": "x is not defined", "suggested_investigation": ["src/lib.rs"],
        "flaky_reason": null});
    let turn = json!({"role": "scout-b", "text": cause.to_string()});
    let told = act.script(&script([turn])).act(["scout", "b", "why", "--log", "ci.log", "--json"]);
    let told = told.status(0).script_used_up();
    let asked = told.requests()[0].body.to_string();
    assert!(asked.contains("act role: scout-b") && asked.contains("E0425"), "{asked}");
    let report = told.json()["report"].clone();
    assert_eq!(report["build"]["detected_system"], "cargo");
    assert_eq!(report["test"]["commands"]["all"], "cargo test");
    assert_eq!(report["failure_analysis"]["root_cause"], "x is not defined");
    assert_eq!(report["failure_analysis"]["affected_files"], json!(["src/lib.rs"]));
}

// FOREIGN-12
#[test]
fn licences_in_javascript_is_a_role_of_its_own_and_needs_no_model() {
    let lock = json!({"lockfileVersion": 3, "packages": {
        "": {"name": "shop", "version": "1.0.0"},
        "node_modules/left-pad": {"version": "1.3.0", "license": "WTFPL"},
        "node_modules/a/node_modules/@s/b": {"version": "2.0.0", "license": "AGPL-3.0-only"},
        "node_modules/nameless": {"version": "0.1.0"},
    }});
    let cargo = "[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\n\
                 source = \"registry+https://example.com\"\n";
    let act = Act::new()
        .without_engine()
        .script("turns: []")
        .file("package.json", r#"{"name": "shop", "license": "MIT"}"#)
        .file("package-lock.json", lock.to_string())
        .file(
            "native/Cargo.toml",
            "[package]\nname = \"own\"\nlicense = \"Apache-2.0\"\n[dependencies]\nserde = \"1\"\n",
        )
        .file("native/Cargo.lock", cargo)
        .file("broken/package.json", "{");
    approve(&act, "licences-js", &["--name", "licences"]);
    let told = act.clone().act(["scout", "licences", "what do we ship?", "--json"]).status(0);
    assert!(told.requests().is_empty(), "{told}");
    let report = &told.json()["report"];
    let summary = "4 dependencies: 1 under copyleft licences, 2 without a named licence";
    assert_eq!(report["summary"], summary, "{report:#}");
    let project = |path: &str| {
        let projects = report["projects"].as_array().unwrap();
        projects
            .iter()
            .find(|one| one["path"] == path)
            .unwrap_or_else(|| panic!("{report:#}"))
            .clone()
    };
    assert_eq!(project("package.json")["licence"], "MIT");
    assert_eq!(project("native/Cargo.toml")["licence"], "Apache-2.0");
    let dependencies = report["dependencies"].as_array().unwrap();
    let copyleft: Vec<_> = dependencies.iter().filter(|one| one["copyleft"] == true).collect();
    assert_eq!(
        copyleft,
        [&json!({"name": "@s/b", "version": "2.0.0", "licence": "AGPL-3.0-only",
        "copyleft": true, "source": "package-lock.json"})]
    );
    assert!(dependencies.iter().any(|one| one["name"] == "serde" && one["licence"].is_null()));
    assert!(
        report["problems"][0].as_str().unwrap().starts_with("broken/package.json"),
        "{report:#}"
    );
    // It used exactly what it was granted.
    let shown = act.act(["components", "show", "licences", "--json"]).status(0).json();
    assert_eq!(shown["component"]["grants"].get("llm"), None, "{shown:#}");
}
