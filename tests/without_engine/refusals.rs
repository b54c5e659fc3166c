//! Conditions before a task starts. Each refusal has exit code 1, and nothing was changed.

use crate::harness::{Act, Done};

const STEPS: &[(&str, &str)] = &[("test", "true")];

/// Refused, with these words, before anything was written or asked.
#[track_caller]
fn refused(done: Done, words: &[&str]) {
    let done = words.iter().fold(done.status(1).stdout(""), |done, word| done.stderr_has(word));
    let done = done.stderr_lacks("Analyzing codebase...").stderr_has("act: ");
    assert!(done.agent_files().is_empty(), "{done}");
    assert!(!done.repo().join(".gitignore").exists(), "{done}");
    assert!(done.runs().is_empty(), "{done}");
    assert!(done.requests().is_empty(), "{done}");
}

/// A model that must not be asked.
fn with_model() -> Act {
    Act::new().script("turns: []")
}

#[test]
fn without_agent_yaml() {
    // TASK-10
    refused(with_model().run("fix it"), &["configuration required", "act init"]);
}

#[test]
fn without_container_image() {
    let act = with_model().file("agent.yaml", "verification:\n  steps: [{name: a, command: b}]\n");
    refused(act.run("fix it"), &["container image required"]);
}

#[test]
fn without_steps() {
    for steps in ["", "  steps: []\n"] {
        let act = with_model()
            .file("agent.yaml", format!("verification:\n  container_image: x\n{steps}"));
        refused(act.run("fix it"), &["at least one verification step required"]);
    }
}

/// TASK-10, VERIFIER-26: found before a token is spent.
#[test]
fn without_the_certificates_that_steps_are_to_have() {
    let yaml = "verification:\n  container_image: x\n  ca_bundle: /none.pem\n  steps: [{name: a, command: b}]\n";
    let act = with_model().file("agent.yaml", yaml);
    refused(act.run("fix it"), &["/none.pem cannot be opened", "a file of PEM certificates"]);
}

#[test]
fn a_step_without_name_or_command() {
    let yaml = |steps: &str| format!("verification:\n  container_image: x\n  steps: {steps}\n");
    let act = with_model().file("agent.yaml", yaml("[{name: one, command: a}, {name: two}]"));
    refused(act.run("fix it"), &["two", "command"]);
    let act = with_model().file("agent.yaml", yaml("[{name: one, command: a}, {command: b}]"));
    refused(act.run("fix it"), &["2", "name"]);
}

/// Security line 166: an image and a step by names that a terminal would act on.
#[test]
fn names_with_control_characters_are_shown_by_their_codes() {
    let image = "verification:\n  container_image: \"a\\e[31m\\u009b2J\"\n  steps: [{name: a, command: b}]\n";
    let step = "verification:\n  container_image: a\n  steps: [{name: \"a\\e[31m\\u009b2J\", command: b}]\n";
    for yaml in [image, step] {
        let told = with_model().file("agent.yaml", yaml).run("fix it").inert();
        refused(told, &["without control characters", "a\\u{1b}[31m\\u{9b}2J"]);
    }
}

#[test]
fn malformed_yaml_is_named_with_its_place() {
    let act = with_model().file("agent.yaml", "verification:\n  steps: [\n  x: }\n");
    refused(act.run("fix it"), &["agent.yaml:3:"]);
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest_valid_one() {
    let yaml = "verification:\n  container_imege: x\n  steps: [{name: a, command: b}]\n";
    let act = with_model().file("agent.yaml", yaml);
    refused(act.run("fix it"), &["container_imege", "agent.yaml:2:3", "container_image"]);
}

#[test]
fn without_model_access() {
    let done = Act::new().pipeline("x", STEPS).run("fix it");
    refused(
        done,
        &["cannot proceed without model access", "AGENT_LLM_BASE_URL", "AGENT_LLM_MODEL"],
    );
    let done = Act::new()
        .pipeline("x", STEPS)
        .env("AGENT_LLM_BASE_URL", "http://127.0.0.1:9/v1")
        .run("fix it");
    refused(done, &["AGENT_LLM_MODEL"]);
}

#[test]
fn without_an_engine() {
    let done = with_model().pipeline("x", STEPS).without_engine().run("fix it");
    refused(done, &["Docker unavailable", "/nonexistent/docker.sock", "start"]);
}

#[test]
fn an_empty_task_is_refused_before_anything_else_is_looked_at() {
    // TASK-6
    refused(Act::new().without_engine().run("  "), &["task is empty"]);
}

#[test]
fn a_repository_whose_path_is_no_text_is_refused_before_tokens_are_spent() {
    // CONFIG-24
    use std::os::unix::ffi::OsStrExt;
    let act = with_model();
    let odd = act.artifacts().parent().unwrap().join(std::ffi::OsStr::from_bytes(b"r\xff"));
    std::fs::create_dir_all(odd.join(".git")).unwrap();
    std::fs::copy(
        act.clone().pipeline("x", STEPS).repo().join("agent.yaml"),
        odd.join("agent.yaml"),
    )
    .unwrap();
    let there = act.within(odd);
    there.clone().act(["doctor"]).status(1).stdout_has("the path of the repository is not UTF-8");
    refused(there.run("fix it"), &["the path of the repository is not UTF-8", "r\u{fffd}"]);
}

/// CONFIG-61: a clone does not make its steps root; a person does.
#[test]
fn root_without_the_word_of_a_person() {
    let yaml =
        "verification:\n  container_image: x\n  user: root\n  steps: [{name: a, command: b}]\n";
    let act = with_model().file("agent.yaml", yaml).without_engine();
    let words = ["`verification.user: root`", "write `user = \"root\"` under [verifier]"];
    refused(act.clone().run("fix it"), &words);
    refused(act.clone().act(["verify"]), &words);
    for word in ["root", "caller"] {
        let act = act.clone().config_toml(&format!("[verifier]\nuser = \"{word}\"\n"));
        act.run("fix it").status(1).stderr_has("Docker unavailable");
    }
}

/// CONFIG-60
#[test]
fn limits_above_the_usual_ones_are_held_and_that_is_said_once() {
    let yaml = "verification:\n  container_image: x\n  limits: {cpus: 64}\n  steps: [{name: a, command: b}]\n";
    let act = Act::new().file("agent.yaml", yaml).without_engine();
    let said = "agent.yaml asks for verification.limits.cpus 64, and the steps get 4";
    let held = act.clone().act(["verify"]).status(4);
    assert_eq!(held.stderr_text().matches(said).count(), 1, "{held}");
    let act = act.config_toml("[verifier.limits]\ncpus = 64\n");
    act.act(["verify"]).status(4).stderr_lacks("verification.limits.cpus");
}
