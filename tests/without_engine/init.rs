//! `act init`: once, new, and never over anything. `tests/system/init.rs` runs what it wrote.

use std::fs;
use std::os::unix::fs::symlink;

use crate::harness::Act;

#[test]
fn it_writes_what_fits_the_project_and_says_what_to_check() {
    // CLI-21, CLI-22
    let act = Act::new().file("Cargo.toml", "[package]\n").file("Cargo.lock", "version = 4\n");
    let told =
        act.act(["init"]).status(0).stdout_has("Check the image version").stdout_has("act doctor");
    let told = told.stdout_has("Nothing was tried yet: `act init --check`");
    let yaml = told.read("agent.yaml");
    assert!(yaml.starts_with("# written by act init\n"), "{yaml}");
    assert!(yaml.contains("rust:1") && yaml.contains("\"cargo test"), "{yaml}");
    assert!(told.agent_files().is_empty(), "{told}");
}

#[test]
fn a_program_reads_what_was_written_and_scripts_with_tests_are_a_project() {
    // CLI-21, SCOUT-B-2
    let tests = "import app\n\ndef test_add():\n    assert app.add(1, 2) == 3\n";
    let act = Act::new().file("app.py", "def add(a, b): return a + b\n").file("test_app.py", tests);
    let told = act.act(["init", "--json"]).status(0);
    let document = told.json();
    assert_eq!(document["image"], "python:3.12-slim", "{told}");
    assert!(document["steps"][0]["command"].as_str().unwrap().contains("pytest"), "{told}");
    assert!(document["steps"][0]["why"].as_str().unwrap().contains("test_app.py:3"), "{told}");
    assert!(told.read("agent.yaml").contains("pytest"), "{told}");
}

#[test]
fn what_it_wrote_is_enough_for_a_task() {
    // CLI-22
    let first = Act::new().file("go.mod", "module x\n");
    let repo = first.repo();
    let told = first.start(["init"]);
    let _kept = told.wait().status(0);
    let second = Act::new().script("turns: []").without_engine();
    let told = second.act(["run".into(), "x".into(), "--repo".into(), repo.into_os_string()]);
    told.status(1).stderr_has("Docker unavailable");
}

#[test]
fn what_is_told_to_type_works_where_it_is_read() {
    // CLI-54
    let act = Act::new().file("go.mod", "module x\n");
    let away = act.clone().within(act.artifacts().parent().unwrap().to_owned());
    let repo = act.repo().to_str().unwrap().to_owned();
    let init = format!("act init --repo {repo}");
    let told = away.clone().act(["verify", "--repo", "repo", "--json"]).status(1);
    let told = told.stderr_has(&format!("`{init}`"));
    let refusal = told.json();
    assert!(refusal["hint"].as_str().unwrap().contains(&format!("`{init}`")), "{told}");
    let doctor = away.clone().without_engine().act(["doctor", "--repo", "repo"]).status(1);
    doctor.stdout_has(&format!("`{init}`"));
    let told = away.clone().act(init.split(' ').skip(1)).status(0);
    let told = told.stdout_has(&format!("Then: act doctor --repo {repo}\n"));
    assert!(told.read("agent.yaml").contains("go test"), "{told}");
    assert!(!act.artifacts().parent().unwrap().join("agent.yaml").exists());
    // Inside the repository the command needs no `--repo`.
    Act::new().act(["verify"]).status(1).stderr_has("`act init`");
}

/// CLI-21: changes that nothing takes back are worth a word before the first task.
#[test]
fn a_directory_without_git_is_told_what_that_means() {
    let act = Act::new().file("go.mod", "module x\n");
    fs::remove_dir_all(act.repo().join(".git")).unwrap();
    let told = act.act(["init"]).status(0).stdout_has("\nThen: act doctor\n");
    told.stderr_has("is not in a git repository").stderr_has("`git init`").read("agent.yaml");
    let told = Act::new().file("go.mod", "module x\n").act(["init"]).status(0);
    told.stdout_has("\nThen: act doctor\n").stderr_lacks("git");
}

/// CLI-58: without an engine nothing is known about the steps, and the new file stays.
#[test]
fn a_check_without_an_engine_is_exit_code_4_and_keeps_the_new_file() {
    let act = Act::new().file("go.mod", "module x\n").without_engine();
    let told = act.clone().act(["init", "--check"]).status(4).stdout_has("Wrote ");
    let told = told.stdout_has("docker_unavailable").stdout_has("Not checked: the machine failed");
    let first = told.read("agent.yaml");
    let told = act.act(["init", "--check", "--json"]).status(4);
    let tried = &told.json()["tried"];
    assert_eq!((&tried["status"], &tried["tests_seen"]), (&"INFRA_ERROR".into(), &false.into()));
    assert!(tried["run_id"].is_null(), "{told}");
    assert_eq!(told.read("agent.yaml"), first);
}

/// CLI-58: a check of a file that cannot be loaded is refused like any other command, and changes nothing.
#[test]
fn a_check_of_a_broken_file_is_refused_and_the_file_stays() {
    let told = Act::new().file("agent.yaml", "mine").act(["init", "--check"]).status(1);
    assert_eq!(told.read("agent.yaml"), "mine");
}

#[test]
fn an_agent_yaml_that_is_there_is_never_touched() {
    // CLI-21
    let told = Act::new().file("agent.yaml", "mine").act(["init"]).status(1).stdout("");
    let told = told.stderr_has("agent.yaml exists").stderr_has("hint: ");
    assert_eq!(told.read("agent.yaml"), "mine");
}

#[test]
fn a_link_is_never_followed() {
    // CLI-21
    let act = Act::new();
    let (repo, outside) = (act.repo(), act.repo().parent().unwrap().join("outside.yaml"));
    symlink(&outside, repo.join("agent.yaml")).unwrap();
    act.act(["init"]).status(1).stderr_has("exists");
    assert!(fs::symlink_metadata(&outside).is_err());
}

#[test]
fn a_directory_that_is_not_there_is_refused() {
    Act::new().act(["init", "--repo", "none"]).status(1).stderr_has("none").stdout("");
}
