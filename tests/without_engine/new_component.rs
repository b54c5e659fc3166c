//! A component of one's own: begun, and tried on the command line.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Act, Done};

fn components(act: &Act, arguments: &[&str]) -> Done {
    let words = std::iter::once("components").chain(arguments.iter().copied());
    act.clone().act(words.map(OsString::from))
}

#[test]
fn a_project_is_begun_once_and_says_how_to_go_on() {
    // COMPONENT-4
    let act = Act::new().without_engine();
    for (kind, lang, source) in [
        ("scout", "rust", "src/lib.rs"),
        ("scout", "python", "app.py"),
        ("scout", "js", "component.js"),
        ("tool", "rust", "src/lib.rs"),
        ("tool", "python", "app.py"),
        ("tool", "js", "component.js"),
    ] {
        let name = format!("my-{kind}-{lang}");
        let arguments = ["new", &name, "--kind", kind, "--lang", lang, "--json"];
        let begun = components(&act, &arguments).status(0).document("components-new");
        let root = act.repo().join(&name);
        for file in begun["files"].as_array().unwrap() {
            assert!(root.join(file.as_str().unwrap()).is_file(), "{file}");
        }
        for file in [source, "manifest.json", "README.md", "wit/worlds.wit"] {
            assert!(root.join(file).is_file(), "{name}: {file}");
        }
        assert_eq!(root.join("vendor/act-kit/Cargo.toml").is_file(), lang == "rust");
        let commands = begun["commands"].as_array().unwrap();
        let last = format!("act components approve {name}.wasm --name {name}");
        assert_eq!(commands.last().unwrap(), &last);

        fs::write(root.join(source), "mine").unwrap();
        let again = components(&act, &arguments).status(1).json();
        assert_eq!(again["code"], "project_exists");
        assert_eq!(fs::read_to_string(root.join(source)).unwrap(), "mine");
    }
    for (name, status) in [("../out", 2), ("Big", 2), ("a b", 2), ("scout-a", 1), ("editor", 1)] {
        let told =
            components(&act, &["new", name, "--kind", "tool", "--lang", "js"]).status(status);
        assert!(told.stdout_text().is_empty(), "{told}");
    }
}

#[test]
fn a_component_is_tried_without_anything_real() {
    // COMPONENT-5
    let act = Act::new().without_engine().script("turns: []");
    let there = Path::new(act_component::builtin::TEST_COMPONENTS);
    let outline = there.join("outline.wasm");
    components(&act, &["test", outline.to_str().unwrap()])
        .status(0)
        .stdout_has("pass  confined")
        .stdout_has("Conforms: 12 of 12 checks passed")
        .stdout_has("MiB of memory");

    let (bare, packed) = (there.join("hostile.wasm"), act.repo().join("x.wasm"));
    let manifest = json!({"kind": "scout", "name": "x", "version": "1", "about": "X.", "report": {},
        "needs": [{"grant": "repo.read", "why": "x"}, {"grant": "llm", "why": "x"}]});
    let act = act.file("m.json", manifest.to_string());
    let (bare, to) = (bare.to_str().unwrap(), packed.to_str().unwrap());
    components(&act, &["pack", bare, "--manifest", "m.json", "--output", to]).status(0);
    let arguments = ["test", to, "--question", "read", "--context", "x=.env", "--json"];
    let told = components(&act, &arguments).status(1);
    let found = told.document("components-test");
    let checks = found["checks"].as_array().unwrap();
    let confined = checks.iter().find(|check| check["name"] == "confined").unwrap();
    assert_eq!(confined["verdict"], "fail", "{found:#}");
    assert_eq!(
        confined["reason"],
        "it tried to access something that is not granted: repo.read: .env"
    );
    assert!(told.requests().is_empty(), "the user's model was asked: {told}");
    assert!(!act.artifacts().exists(), "nothing of it is kept: {told}");
    components(&act, &["test", to, "--script", "m.json"]).status(1).stderr_has("m.json");
    components(&act, &["test", "nowhere.wasm"]).status(1);
}

/// COMPONENT-5: the generated repository is removed, also when a signal ends the test.
#[test]
fn a_trial_that_is_ended_leaves_no_repository() {
    let act = Act::new().without_engine();
    let (bare, packed) = (
        Path::new(act_component::builtin::TEST_COMPONENTS).join("hostile.wasm"),
        act.repo().join("x.wasm"),
    );
    let manifest = json!({"kind": "scout", "name": "x", "version": "1", "about": "X.", "report": {},
        "needs": [{"grant": "repo.read", "why": "x"}, {"grant": "llm", "why": "x"}]});
    let act = act.file("m.json", manifest.to_string());
    let (bare, to) = (bare.to_str().unwrap(), packed.to_str().unwrap());
    components(&act, &["pack", bare, "--manifest", "m.json", "--output", to]).status(0);
    let tmp = act.repo().parent().unwrap().join("tmp");
    let left = || fs::read_dir(&tmp).unwrap().count();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let trial =
            act.clone().start(["components", "test", to, "--question", "loop", "--timeout", "600"]);
        while left() == 0 {
            assert!(!trial.has_ended(), "it ended by itself");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        trial.signal(signal);
        trial.wait().status(130);
        assert_eq!(left(), 0, "{signal:?}");
    }
}
