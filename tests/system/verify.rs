//! `act verify` and `act cache`: the gate and its caches without a task.

use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Act, containers_of, image, program};

fn repository(steps: &[(&str, &str)]) -> Act {
    Act::new().file("answer.txt", "right\n").pipeline(image(), steps)
}

// CLI-18
#[test]
fn a_green_pipeline_is_exit_code_0_and_the_response_is_one_document() {
    let done = repository(&[("test", "grep right answer.txt")]).act(["verify", "--json"]).status(0);
    let text = done.stdout_text();
    let response: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert_eq!(response["status"], "PASS");
    assert_eq!(response["tail_log"], "right\n");
    assert!(response["manifest"]["task_id"].is_null());
    assert_eq!(response["manifest"]["workspace"], "copy");
    assert!(response.get("error_type").is_none() && response["reason"].is_null());
    assert!(done.agent_files().is_empty(), "{done}");
    assert_eq!(done.runs(), [response["run_id"].as_str().unwrap()]);
}

// CLI-18
#[test]
fn a_red_pipeline_is_exit_code_3_with_the_end_of_the_log() {
    repository(&[("build", "true"), ("test", "echo it is broken; exit 9")])
        .act(["verify"])
        .status(3)
        .stdout_has("it is broken\n")
        .stdout_has(": step_failed in step \"test\"\n");
}

// VERIFIER-25: root may look into every directory, so this is somebody else, who has only the engine's group.
#[test]
fn a_step_that_closes_directories_is_a_failed_step_for_an_ordinary_user() {
    let Ok(socket) = std::fs::metadata("/var/run/docker.sock") else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let group = std::os::unix::fs::MetadataExt::gid(&socket);
    for (command, reason) in [
        ("chmod 444 sub; exit 0", "source_writes"),
        ("chmod 444 sub; exit 1", "step_failed"),
        ("chmod 000 .; exit 0", "source_writes"),
    ] {
        let act = repository(&[("close", command)]).file("sub/file", "x");
        let script = format!(
            "cp \"$0\" act-of-another && chown -R 1234:1234 . && exec setpriv --reuid 1234 --regid 1234 \
             --groups {group} ./act-of-another verify --repo repo"
        );
        let mut other = Command::new("/bin/sh");
        other.args(["-c", &script, program()]).env("HOME", act.repo().parent().unwrap());
        let above = act.repo().parent().unwrap().to_owned();
        let done = act.within(above).start_command(other).wait().status(3);
        done.stdout_has(&format!(": {reason} in step \"close\"\n"));
    }
}

// CLI-18, security line 101: one attempt, and nothing that only a run has.
#[test]
fn an_image_that_cannot_be_had_is_exit_code_4() {
    let done = Act::new()
        .pipeline("127.0.0.1:1/act-test/none:1", &[("test", "true")])
        .act(["verify", "--json"])
        .status(4);
    let response = done.json();
    assert_eq!(response["error_type"], "image_pull");
    for field in ["run_id", "tail_log", "manifest", "reason"] {
        assert!(response[field].is_null(), "{field}");
    }
    assert!(done.runs().is_empty(), "{done}");
}

// CLI-18
#[test]
fn what_is_wrong_beforehand_is_refused_with_exit_code_1() {
    Act::new().act(["verify"]).status(1).stdout("").stderr_has("configuration required");
}

// CLI-18, VERIFIER-19: to verify is to ask the engine, so that there is none is an answer.
#[test]
fn a_verification_without_an_engine_is_exit_code_4() {
    let done = repository(&[("test", "true")]).without_engine().act(["verify", "--json"]).status(4);
    let response = done.json();
    assert_eq!(
        (&response["status"], &response["error_type"], &response["run_id"]),
        (&json!("INFRA_ERROR"), &json!("docker_unavailable"), &Value::Null)
    );
    let said = response["error_message"].as_str().unwrap();
    assert!(said.contains("tried ") && said.contains("; "), "{said}");
    assert!(done.runs().is_empty(), "{done}");
}

// CLI-18
#[test]
fn a_second_verification_of_a_repository_is_refused_and_an_interrupt_ends_the_first() {
    let first = repository(&[("wait", "echo ready; sleep 100")]).start(["verify", "--verbose"]);
    first.until_stderr_has("ready");
    let repo = first.repo().into_os_string();
    Act::new()
        .act(["verify".into(), "--repo".into(), repo])
        .status(1)
        .stdout("")
        .stderr_has("runs in this repository");
    first.signal(Signal::INT);
    let done = first.wait().status(130).stdout("");
    for run in done.runs() {
        assert!(containers_of(&run).is_empty(), "{done}");
    }
}

// VERIFIER-18, security line 111
#[test]
fn a_killed_host_leaves_a_container_that_the_next_start_removes_and_only_that() {
    let steps = [("wait", "echo ready; sleep 300")];
    let killed = repository(&steps).start(["verify", "--verbose"]);
    killed.until_stderr_has("ready");
    let alive = repository(&steps).start(["verify", "--verbose"]);
    alive.until_stderr_has("ready");
    let artifacts = |running: &crate::harness::Running| {
        let runs = running.repo().parent().unwrap().join("artifacts/runs");
        let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap();
        run.file_name().into_string().unwrap()
    };
    let (orphan, living) = (artifacts(&killed), artifacts(&alive));
    // As long as its owner lives nobody removes it; after that whatever starts on this machine does, the next story too.
    assert_eq!(containers_of(&orphan).len(), 1);
    killed.signal(Signal::KILL);
    assert_eq!(killed.wait().killed_by(), Some(9));

    repository(&[("test", "true")]).act(["verify"]).status(0);

    assert!(containers_of(&orphan).is_empty(), "the orphan is gone");
    assert_eq!(containers_of(&living).len(), 1, "the other run goes on");
    alive.signal(Signal::TERM);
    alive.wait().status(130);
}

// CLI-19, VERIFIER-29
#[test]
fn the_cache_is_shown_and_cleared_without_an_engine() {
    let keep = "mkdir -p $npm_config_cache/_cacache && echo 12345 > $npm_config_cache/_cacache/x";
    let done = repository(&[("fetch", keep)]).act(["verify"]).status(0);
    let artifacts = done.repo().parent().unwrap().join("artifacts");
    let cache = |arguments: &[&str]| {
        let done = Act::new()
            .without_engine()
            .env("AGENT_ARTIFACT_DIR", &artifacts)
            .act(["cache"].iter().chain(arguments).copied())
            .status(0);
        serde_json::from_str::<Value>(&done.stdout_text()).unwrap()
    };
    let shown = cache(&["--json"]);
    assert_eq!((&shown["bytes"], &shown["caches"][0]["files"]), (&6.into(), &1.into()));
    assert!(shown["caches"][0]["repo_key"].as_str().unwrap().starts_with("repo-"));
    assert_eq!(shown["on_engine"], Value::Null, "nobody could be asked");
    assert_eq!(cache(&["clear", "--json"])["bytes"], 6);
    assert_eq!(cache(&["show", "--json"])["caches"], Value::Array(vec![]));
}

/// Steps run as whoever started the program, and what root's kernel and root's steps leave goes as well.
// VERIFIER-7, VERIFIER-17, security line 95
#[test]
fn a_caller_who_is_not_root_verifies_in_every_view_and_owns_all_that_stays() {
    const SOMEBODY: u32 = 4321;
    if !rustix::process::geteuid().is_root() {
        act_core::testing::skip("becoming another user needs root");
        return;
    }
    let Some(group) = socket_group() else {
        act_core::testing::skip("the engine's socket belongs to no group that could be lent");
        return;
    };
    let image = image();
    for (workspace, user) in
        [("copy", "caller"), ("overlay", "caller"), ("readonly", "caller"), ("copy", "root")]
    {
        let step = "id -u; mkdir -p $HOME/a; echo x > $HOME/a/b; mkdir -m 700 $TMPDIR/closed; \
                    echo x > $TMPDIR/closed/x; touch /workspace/node_modules 2>/dev/null; true";
        let yaml = format!(
            "verification:\n  container_image: {image}\n  workspace: {workspace}\n  user: {user}\n  \
             source_writes: warn\n  steps: [{{name: test, command: '{step}'}}]\n"
        );
        let story = Act::new().file("code", "x\n").file("agent.yaml", yaml);
        let story = story.config_toml("[verifier]\nuser = \"root\"\n");
        let place = story.repo().parent().unwrap().to_owned();
        let binary = place.join("act");
        std::fs::copy(program(), &binary).unwrap();
        let owner = format!("{SOMEBODY}:{SOMEBODY}");
        let given = Command::new("chown").args(["-R", &owner]).arg(&place).status().unwrap();
        assert!(given.success());
        let mut command = Command::new("setpriv");
        let uid = SOMEBODY.to_string();
        let groups = format!("--groups={group}");
        command.args(["--reuid", &uid, "--regid", &uid, &groups, "--inh-caps=-all"]);
        command.arg(&binary).args(["verify", "--json"]);
        let done = story.start_command(command).wait().status(0);
        let response = done.json();
        let id = if user == "root" { "0" } else { "4321" };
        let tail = response["tail_log"].as_str().unwrap();
        assert!(tail.starts_with(&format!("{id}\n")), "{response:#}");
        assert_eq!(response["manifest"]["workspace"], workspace);
        let codes = response["warnings"].as_array().unwrap().iter().map(|w| &w["code"]);
        assert!(codes.clone().all(|code| code == "source_writes"), "{response:#}");
        let mut find = Command::new("find");
        let foreign = find.arg(place.join("artifacts")).args(["!", "-uid", &uid]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&foreign.stdout), "", "{workspace} {user}");
        let run = place.join("artifacts/runs").join(response["run_id"].as_str().unwrap());
        assert!(run.join("tmp/closed/x").exists() && !run.join("overlay").exists());
    }
}

fn socket_group() -> Option<u32> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let host = std::env::var("DOCKER_HOST").unwrap_or("unix:///var/run/docker.sock".to_owned());
    let meta = std::fs::metadata(host.strip_prefix("unix://")?).ok()?;
    (meta.permissions().mode() & 0o060 == 0o060).then_some(meta.gid())
}

/// Takes the directory of a run away while its container is created, and puts a link to a tree with other tests there.
// VERIFIER-60, security line 125
#[test]
fn a_run_whose_directory_was_replaced_proves_nothing() {
    let act = repository(&[("test", "cat verdict; exit $(cat verdict)")]).file("verdict", "1");
    let yaml = std::fs::read_to_string(act.repo().join("agent.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&yaml).unwrap();
    config["verification"]["workspace"] = "copy".into();
    let act = act.file("agent.yaml", config.to_string());
    act.clone().act(["verify"]).status(3).stdout_has("step_failed");
    let done = {
        let act = act.clone().env("ACT_FAIL_POINT", "stop:run_prepared");
        let before = runs_of(&act);
        let running = act.clone().start(["verify"]);
        let run = wait_for(|| {
            let new = runs_of(&act).into_iter().find(|run| !before.contains(run))?;
            is_stopped(running.pid()).then_some(new)
        });
        let away = run.with_file_name("away");
        std::fs::rename(&run, &away).unwrap();
        let forged = away.with_file_name("forged");
        let copied = Command::new("cp").arg("-a").args([&away, &forged]).status().unwrap();
        assert!(copied.success());
        std::fs::write(forged.join("view/verdict"), "0").unwrap();
        std::os::unix::fs::symlink(&forged, &run).unwrap();
        running.signal(rustix::process::Signal::CONT);
        let done = running.wait();
        let _ = std::fs::remove_file(&run);
        std::fs::remove_dir_all(&forged).unwrap();
        std::fs::remove_dir_all(&away).unwrap();
        done
    };
    done.status(4)
        .stdout_has("was replaced while its container was created")
        .stdout_has("INFRA_ERROR");
}

fn runs_of(act: &Act) -> Vec<std::path::PathBuf> {
    let runs = std::fs::read_dir(act.artifacts().join("runs")).unwrap();
    runs.map(|run| run.unwrap().path()).collect()
}

fn is_stopped(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

/// Returns the first answer, or panics after a minute.
fn wait_for<T>(look: impl Fn() -> Option<T>) -> T {
    let start = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed().as_secs() < 60, "it did not come about");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
