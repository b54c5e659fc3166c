//! Whole tasks on a real cluster of two nodes. `scripts/test-kubernetes` makes the cluster and runs this; nothing else does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

mod engine;
#[path = "../harness/mod.rs"]
mod harness;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use engine::{cluster, engines_toml, image, kubeconfig, namespace, objects, processes};
use harness::script::{attempt, done, opening, plan, script};
use harness::{Act, Done, Running};

/// How long a test waits for something that happens in the cluster by itself.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a process of a run may live on after the command has ended.
const NO_PROCESS: Duration = Duration::from_secs(2);

fn project() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .engines_toml(&engines_toml(&namespace(), ""))
        .env("KUBECONFIG", kubeconfig())
}

/// A repository whose pipeline is green when `answer.txt` says `right`.
fn repository() -> Act {
    project()
        .pipeline(image(), &[("test", "grep -qx right answer.txt || { cat answer.txt; exit 1; }")])
}

/// A repository with one step.
fn with_step(command: &str, more: Value) -> Act {
    let mut verification =
        json!({"container_image": image(), "steps": [{"name": "test", "command": command}]});
    for (name, value) in more.as_object().into_iter().flatten() {
        verification[name] = value.clone();
    }
    project().file("agent.yaml", json!({"verification": verification}).to_string())
}

/// A task with one attempt.
fn one_attempt() -> String {
    script(opening("write it").into_iter().chain(attempt("right\n")).chain([done()]))
}

fn statuses(done: &Done) -> Vec<String> {
    let status = |run_id: &String| done.manifest(run_id)["status"].as_str().unwrap().to_owned();
    done.runs().iter().map(status).collect()
}

/// The records of a command's audit log.
fn audited(done: &Done) -> Vec<Value> {
    let log = done.repo().with_file_name("artifacts").join("state/audit.jsonl");
    let text = std::fs::read_to_string(log).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn nothing_left(done: &Done) {
    for run in done.runs() {
        assert_eq!(objects(&run), Vec::<String>::new(), "{done}");
    }
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < limit, "{what} is not so after {limit:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[track_caller]
fn no_process(words: &str) {
    until("no process is left on a node", NO_PROCESS, || {
        ["n1", "n2"].iter().all(|node| processes(node, words) == 0)
    });
}

/// The error of the only run.
#[track_caller]
fn error_of(done: &Done) -> (String, String) {
    let run = done.json();
    let text = |name: &str| run[name].as_str().unwrap_or_default().to_owned();
    (text("error_type"), text("error_message"))
}

// ENGINE-13: `scripts/test-kubernetes` runs this before the policies of the cluster are enforced.
#[test]
#[ignore = "needs a cluster that enforces no NetworkPolicy"]
fn a_run_is_refused_where_no_policy_is_enforced() {
    let told = with_step("true", json!({})).act(["verify", "--json"]).status(4);
    let (kind, why) = error_of(&told);
    assert_eq!(kind, "container_creation", "{told}");
    assert!(why.contains("does not enforce the NetworkPolicy act-network-off"), "{why}");
    nothing_left(&told);
}

// ENGINE-6, ENGINE-11
#[test]
fn a_right_first_idea_is_success_and_the_manifest_names_cluster_namespace_and_node() {
    let told = repository().script(&one_attempt()).run("write the answer").status(0);
    let told = told.script_used_up();
    assert_eq!(told.read("answer.txt"), "right\n");
    assert_eq!(statuses(&told), ["PASS"]);
    let manifest = told.manifest(&told.runs()[0]);
    let engine = &manifest["engine"];
    assert_eq!(engine["name"], "kubernetes");
    assert_eq!(engine["namespace"], namespace().as_str());
    assert!(engine["cluster"].as_str().unwrap().starts_with("https://"), "{engine}");
    assert!(engine["version"].as_str().unwrap().starts_with('v'), "{engine}");
    assert!(["n1", "n2"].contains(&manifest["node"].as_str().unwrap()), "{manifest}");
    nothing_left(&told);
}

#[test]
fn failures_are_fixed_forward_and_three_of_them_lead_to_a_new_plan() {
    let turns = opening("write it")
        .into_iter()
        .chain(attempt("one\n"))
        .chain(attempt("two\n"))
        .chain(attempt("three\n"))
        .chain([plan("another way")])
        .chain(attempt("right\n"))
        .chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up().stderr_lines(&["Replanning..."]);
    assert_eq!(statuses(&told), ["FAIL", "FAIL", "FAIL", "PASS"]);
    nothing_left(&told);
}

// VERIFIER-14
#[test]
fn a_step_whose_time_is_up_is_killed_on_its_node() {
    let act = with_step("trap '' HUP INT TERM; sleep 86411; sleep 86411", json!({}));
    let told = act
        .config_toml("[timeouts]\nverification_step = 3000\n")
        .act(["verify", "--json"])
        .status(3);
    assert_eq!(told.json()["reason"], "timeout", "{told}");
    no_process("sleep 86411");
    nothing_left(&told);
}

// VERIFIER-21
#[test]
fn a_kill_for_memory_is_named() {
    let act = with_step("exec tail -n 1 /dev/zero", json!({"limits": {"memory_mb": 64}}));
    let told = act.act(["verify", "--json"]).status(4);
    let (kind, why) = error_of(&told);
    assert_eq!(kind, "resource_exhaustion", "{told}");
    assert!(why.contains("memory_mb"), "{why}");
    nothing_left(&told);
}

// ENGINE-15
#[test]
fn a_quota_that_is_used_up_and_an_image_that_no_node_has_are_named() {
    let full = "act-test-full";
    cluster(&["kubectl", "create", "namespace", full]);
    let user = format!("--serviceaccount={}:user", namespace());
    let resources =
        "--resource=pods,namespaces,leases.coordination.k8s.io,networkpolicies.networking.k8s.io";
    cluster(&["kubectl", "-n", full, "create", "quota", "none", "--hard=pods=0"]);
    cluster(&[
        "kubectl",
        "-n",
        full,
        "create",
        "role",
        "act",
        "--verb=get,list,create,delete",
        resources,
    ]);
    cluster(&["kubectl", "-n", full, "create", "rolebinding", "user", "--role=act", &user]);
    let act = with_step("true", json!({})).engines_toml(&engines_toml(full, ""));
    let told = act.act(["verify", "--json"]).status(4);
    cluster(&["kubectl", "delete", "namespace", full, "--wait=false"]);
    told.stdout_has("the quota of the namespace is used up");

    let missing = json!({"container_image": "127.0.0.1:9/act-test-missing:1"});
    let told = with_step("true", missing).act(["verify", "--json"]).status(4);
    assert_eq!(error_of(&told).0, "image_pull", "{told}");
    nothing_left(&told);
}

// VERIFIER-23
#[test]
fn a_cancelled_step_has_no_process_on_its_node_two_seconds_later() {
    let running =
        with_step("trap '' HUP INT TERM; echo it has begun; sleep 86422; sleep 86422", json!({}))
            .start(["verify"]);
    until("the step runs", PATIENCE, || {
        ["n1", "n2"].iter().any(|node| processes(node, "sleep 86422") > 0)
    });
    running.signal(rustix::process::Signal::INT);
    let told = running.wait().status(130);
    no_process("sleep 86422");
    nothing_left(&told);
}

// VERIFIER-13
#[test]
fn a_step_cannot_forge_its_result() {
    for (trick, code) in [
        ("echo '{\"status\":\"PASS\"}' > /artifacts/manifest.json; exit 3", 3),
        ("kill -9 1; kill -TERM 1; kill -TERM -1; exit 4", 4),
        ("yes 0123456789abcde | head -c 80000000; exit 5", 5),
        ("rm -rf /artifacts/* /workspace/* /.act/* 2>/dev/null; exit 6", 6),
        ("touch /.act/control/end-steps /.act/control/end; exit 7", 7),
    ] {
        let told = with_step(trick, json!({})).act(["verify", "--json"]).status(3);
        let run = told.runs()[0].clone();
        let manifest = told.manifest(&run);
        assert_eq!(manifest["status"], "FAIL", "{trick}: {manifest}");
        assert_eq!(manifest["commands_executed"][0]["exit_code"], code, "{trick}: {manifest}");
        nothing_left(&told);
    }
}

/// The Pods of runs in the namespace.
fn pods() -> Vec<String> {
    let listed = cluster(&[
        "kubectl",
        "-n",
        &namespace(),
        "get",
        "pods",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ]);
    listed.split_whitespace().map(str::to_owned).collect()
}

/// Waits until a command has stopped itself at its fail point, and lets it go on.
#[track_caller]
fn go_on(running: &Running, meanwhile: impl FnOnce()) {
    until("the command waits", PATIENCE, || {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", running.pid().as_raw_nonzero()));
        stat.unwrap_or_default().rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    });
    meanwhile();
    running.signal(rustix::process::Signal::CONT);
}

// ENGINE-16
#[test]
fn a_run_whose_pod_is_taken_away_before_a_step_begins_anew_once() {
    let begin = |times: u32| {
        let act = with_step("echo it ran; test $(cat answer.txt) = none", json!({}));
        let running =
            act.env("ACT_FAIL_POINT", "stop:container_created").start(["verify", "--json"]);
        for time in 1..=2 {
            let mut ours = vec![];
            go_on(&running, || {
                if time <= times {
                    let run = run_of(&running);
                    ours = pods().into_iter().filter(|pod| pod.contains(&run)).collect();
                    let delete = ["kubectl", "-n", &namespace(), "delete", "pod", "--wait=false"];
                    let ours = ours.iter().map(String::as_str);
                    cluster(&delete.into_iter().chain(ours).collect::<Vec<_>>());
                }
            });
        }
        running.wait()
    };
    let told = begin(1).status(0);
    let run = told.runs()[0].clone();
    let manifest = told.manifest(&run);
    assert_eq!(manifest["status"], "PASS");
    let why = manifest["begun_anew"].as_str().unwrap();
    assert!(why.contains("was evicted or deleted"), "{why}");
    let records = audited(&told);
    let of = |event: &str| records.iter().filter(|record| record["event"] == event).count();
    assert_eq!((of("gate_started"), of("gate_begun_anew"), of("gate_finished")), (1, 1, 1));
    assert_eq!(of("container_inspected"), 1);
    nothing_left(&told);

    let told = begin(2).status(4);
    let (_, why) = error_of(&told);
    assert!(why.contains("was evicted or deleted"), "{why}");
    nothing_left(&told);
}

/// The id of the only run of a command that still runs, as the name of its Pod has it.
fn run_of(running: &Running) -> String {
    let runs = running.repo().with_file_name("artifacts").join("runs");
    let mut names = std::fs::read_dir(runs).unwrap();
    names.next().unwrap().unwrap().file_name().to_str().unwrap().replace('_', "-")
}

/// The command in a PID namespace of its own, so that no other host can look up its process.
fn on_a_host_of_its_own(act: &Act, arguments: &[&str]) -> Running {
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child=KILL", "--mount-proc"]);
    command.arg(harness::program()).args(arguments);
    act.clone().start_command(command)
}

// ENGINE-5, ENGINE-15
#[test]
fn sixty_runs_of_three_hosts_are_neither_lost_nor_made_twice() {
    const RUNS: usize = 20;
    let hosts: Vec<_> = (0..3)
        .map(|host| {
            std::thread::spawn(move || {
                let act = with_step(&format!("echo host {host}"), json!({}));
                let mut ended = vec![];
                for _ in 0..RUNS {
                    let told = on_a_host_of_its_own(&act, &["verify", "--fresh", "--json"]).wait();
                    assert_eq!(told.exit_code(), 0, "{told}");
                    ended.push(told);
                }
                let last = ended.pop().unwrap();
                let runs = last.runs();
                assert_eq!(runs.len(), RUNS, "{runs:?}");
                for run in &runs {
                    assert_eq!(last.manifest(run)["status"], "PASS");
                    let log = last.repo().with_file_name("artifacts/runs").join(run).join("logs");
                    let log = std::fs::read_to_string(log.join("step-01-test.log")).unwrap();
                    assert_eq!(log, format!("host {host}\n"), "once");
                }
                let records = audited(&last);
                for event in ["gate_started", "container_requested", "gate_finished"] {
                    let of = records.iter().filter(|record| record["event"] == event);
                    assert!(of.count() >= RUNS, "{event}");
                }
                nothing_left(&last);
                let node = |run: &String| last.manifest(run)["node"].as_str().unwrap().to_owned();
                runs.iter().map(node).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut nodes: Vec<_> = hosts.into_iter().flat_map(|host| host.join().unwrap()).collect();
    nodes.sort();
    nodes.dedup();
    assert_eq!(nodes, ["n1", "n2"]);
}

// VERIFIER-18, ENGINE-5
#[test]
fn what_a_killed_host_left_is_removed_at_its_next_start_and_nothing_of_others() {
    let act = with_step("echo it has begun; sleep 86444", json!({}));
    let killed = act.clone().start(["verify"]);
    let other = with_step("echo it has begun; sleep 40; echo done", json!({})).start(["verify"]);
    until("both steps run", PATIENCE, || {
        let on = |node| processes(node, "sleep 86444") > 0 || processes(node, "sleep 40") > 0;
        ["n1", "n2"].iter().map(|node| usize::from(on(node))).sum::<usize>() > 0
            && ["n1", "n2"].iter().any(|node| processes(node, "sleep 86444") > 0)
            && ["n1", "n2"].iter().any(|node| processes(node, "sleep 40") > 0)
    });
    let (of_killed, of_other) = (run_of(&killed), run_of(&other));
    killed.kill();
    killed.wait();
    assert!(pods().iter().any(|pod| pod.contains(&of_killed)));
    act.clone()
        .file("agent.yaml", json!({"verification": {"container_image": image(), "steps": [{"name": "test", "command": "true"}]}}).to_string())
        .act(["verify"])
        .status(0);
    let left = pods();
    assert!(!left.iter().any(|pod| pod.contains(&of_killed)), "{left:?}");
    assert!(left.iter().any(|pod| pod.contains(&of_other)), "{left:?}");
    no_process("sleep 86444");
    nothing_left(&other.wait().status(0));
}

// ENGINE-19
#[test]
fn a_base_volume_has_what_was_sent_and_heals_what_was_changed_there() {
    let claim = "act-test-base";
    let place = "/run/act-test-base";
    for node in ["n1", "n2"] {
        cluster(&["node", node, "sh", "-c", &format!("rm -rf {place}; mkdir -m 755 {place}")]);
    }
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": claim}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "",
            "claimRef": {"name": claim, "namespace": namespace()},
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": place},
        }},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": namespace()}, "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": claim,
            "resources": {"requests": {"storage": "1Gi"}},
        }},
    ]});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), objects.to_string()).unwrap();
    cluster(&["kubectl", "apply", "-f", file.path().to_str().unwrap()]);

    let step = "wc -c large.txt; ls; cat small.txt";
    let step = json!([{"name": "test", "command": step, "network": "off"}]);
    let act = with_step("", json!({"workspace": "readonly", "steps": step}))
        .engines_toml(&engines_toml(&namespace(), &format!("base_volume = \"{claim}\"")))
        .file("large.txt", "x".repeat(3000))
        .file("small.txt", "first\n");
    let told = act.clone().act(["verify", "--json"]).status(4);
    let (_, why) = error_of(&told);
    assert!(why.contains("cannot write to the base volume act-test-base"), "{why}");
    let on_nodes = |script: &str| -> String {
        ["n1", "n2"].map(|node| cluster(&["node", node, "sh", "-c", script])).concat()
    };
    // A kubelet makes the directory that the program could not make.
    let made_by_kubelet = on_nodes(&format!("ls {place}"));
    for node in ["n1", "n2"] {
        cluster(&["node", node, "chmod", "777", place]);
    }
    // The large files on the nodes, with the times at which they were written.
    let written =
        || on_nodes(&format!("find {place} -name large.txt -exec stat -c '%i %Z' {{}} +"));
    let verify = |content: &str| {
        let act = act.clone().file("small.txt", content);
        let told = act.act(["verify", "--fresh", "--json"]).status(0);
        let run = told.runs().into_iter().max().unwrap();
        assert_eq!(told.manifest(&run)["status"], "PASS");
        let log =
            told.repo().with_file_name("artifacts/runs").join(run).join("logs/step-01-test.log");
        let text = std::fs::read_to_string(log).unwrap();
        let names = "agent.yaml\nanswer.txt\nlarge.txt\nsmall.txt";
        assert_eq!(text, format!("3000 large.txt\n{names}\n{content}"));
    };
    // Each node has a directory of its own in this cluster.
    let number = std::cell::Cell::new(1);
    let verify_next = || {
        number.set(number.get() + 1);
        verify(&format!("{}\n", number.get()));
    };
    let until_both = |what: &str, is_true: &dyn Fn(&str) -> bool| {
        for _ in 0..20 {
            verify_next();
            if ["n1", "n2"].iter().all(|node| is_true(node)) {
                return;
            }
        }
        panic!("{what}");
    };
    let there = |node: &str, path: &str| {
        let script = format!("ls -d {place}/{path} 2>/dev/null || true");
        !cluster(&["node", node, "sh", "-c", &script]).is_empty()
    };
    until_both("the nodes have the tree", &|node| there(node, "*.free-*/tree/large.txt"));
    let before = written();
    assert!(!before.is_empty());
    for _ in 0..2 {
        verify_next();
    }
    assert_eq!(written(), before, "the file was written again");
    // Somebody with access to the volume changes what is stored, and leaves something there.
    on_nodes(&format!(
        "for f in $(find {place} -name large.txt); do printf y | dd of=$f conv=notrunc; touch $(dirname $f)/more; done"
    ));
    until_both("the trees heal", &|node| !there(node, "*/tree/more"));
    let names = on_nodes(&format!("ls {place}"));
    assert!(names.lines().all(|name| name.contains(".free-") || made_by_kubelet.contains(name)));
    // Steps that can write to the tree get one of their own.
    let trees = || on_nodes(&format!("find {place} -exec stat -c '%n %i %Z' {{}} +"));
    let before = trees();
    with_step("true", json!({"workspace": "copy"}))
        .engines_toml(&engines_toml(&namespace(), &format!("base_volume = \"{claim}\"")))
        .act(["verify", "--fresh", "--json"])
        .status(0);
    assert_eq!(trees(), before);
    let told = act.act(["verify", "--fresh", "--json"]).status(0);
    nothing_left(&told);
    cluster(&["kubectl", "-n", &namespace(), "delete", "pvc", claim, "--wait=false"]);
    cluster(&["kubectl", "delete", "pv", claim, "--wait=false"]);
}

/// Tests that break the cluster for everybody; each runs alone.
mod disruption {
    use super::*;

    // ENGINE-17
    #[test]
    fn an_api_server_that_is_away_between_two_steps_ends_no_run() {
        let steps = json!([
            {"name": "one", "command": "echo one"}, {"name": "two", "command": "echo two"},
        ]);
        let verification = json!({"container_image": image(), "steps": steps});
        let act = project().file("agent.yaml", json!({"verification": verification}).to_string());
        let running = act.env("ACT_FAIL_POINT", "stop:step_passed").start(["verify", "--json"]);
        go_on(&running, || {
            cluster(&["kill-apiserver"]);
        });
        std::thread::sleep(Duration::from_secs(20));
        cluster(&["start-apiserver"]);
        go_on(&running, || ());
        let told = running.wait().status(0);
        assert_eq!(statuses(&told), ["PASS"]);
        nothing_left(&told);
    }

    // ENGINE-17
    #[test]
    fn an_api_server_that_dies_in_a_step_leaves_the_run_without_a_result() {
        let running =
            with_step("echo it has begun; sleep 86455", json!({})).start(["verify", "--json"]);
        until("the step runs", PATIENCE, || {
            ["n1", "n2"].iter().any(|node| processes(node, "sleep 86455") > 0)
        });
        cluster(&["kill-apiserver"]);
        std::thread::sleep(Duration::from_secs(5));
        cluster(&["start-apiserver"]);
        let told = running.wait().status(4);
        assert_eq!(told.json()["status"], "INFRA_ERROR", "{told}");
        no_process("sleep 86455");
        nothing_left(&told);
    }

    // ENGINE-15
    #[test]
    fn a_step_whose_kubelet_is_killed_has_no_result_and_what_is_left_is_reported() {
        let running =
            with_step("echo it has begun; sleep 86433", json!({})).start(["verify", "--json"]);
        let mut node = "";
        until("the step runs", PATIENCE, || {
            node = ["n1", "n2"]
                .into_iter()
                .find(|node| processes(node, "sleep 86433") > 0)
                .unwrap_or("");
            !node.is_empty()
        });
        cluster(&["kill-kubelet", node]);
        let told = running.wait().status(4);
        cluster(&["start-kubelet", node]);
        assert_eq!(told.json()["status"], "INFRA_ERROR", "{told}");
        until("the step is gone", PATIENCE * 2, || processes(node, "sleep 86433") == 0);
    }
}
