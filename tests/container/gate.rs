//! PASS and FAIL: what a run's steps amount to.

use std::time::Duration;

use act_config::SourceWrites;
use act_core::event::EventKind;
use act_core::verification::{FailReason, Status};
use serde_json::json;

use crate::world::{VerifyResponse, World};

const COMMIT: &str = "c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff";

// VERIFIER-1, VERIFIER-11, ARTIFACT-6
#[tokio::test(flavor = "multi_thread")]
async fn a_green_run_passes_with_manifest_logs_and_events() {
    let mut world = World::new()
        .await
        .file("src/a.txt", "hello\n")
        .file(".git/HEAD", COMMIT)
        .step("build", "cat src/a.txt; echo made > ../out")
        .step("test", "grep -q hello src/a.txt");
    let response = world.run().await;

    assert_eq!((response.status, response.reason), (Status::Pass, None), "{response:?}");
    assert_eq!(response.tail_log.as_deref(), Some("hello\n"));
    assert_eq!(response.warnings, []);
    let run = world.run_dir(&response);
    let path = |name: &str| run.join(name).display().to_string();
    assert_eq!(
        response.artifact_paths,
        [
            path("manifest.json"),
            path("logs/combined.log"),
            path("logs/step-01-build.log"),
            path("logs/step-02-test.log"),
            path("build"),
        ]
    );
    assert_eq!(std::fs::read(run.join("build/out")).unwrap(), b"made\n");
    assert!(!run.join("build/tree").exists() && !run.join("cache").exists(), "scratch is gone");

    let written = std::fs::read(run.join("manifest.json")).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(Some(&manifest), response.manifest.as_ref());
    let order: Vec<_> = manifest.as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        order,
        [
            "run_id",
            "task_id",
            "timestamp_start",
            "timestamp_end",
            "commit_sha",
            "status",
            "reason",
            "commands_executed",
            "platform",
            "image_digest",
            "tree_digest",
            "tree_digest_after",
            "git_tree",
            "pipeline_sha256",
            "workspace",
            "base",
            "engine",
            "components",
            "audit_head",
            "act_version",
        ]
    );
    let duration = manifest["commands_executed"][0]["duration_ms"].take();
    assert!(duration.is_u64());
    assert_eq!(
        manifest["commands_executed"][0],
        json!({"name": "build", "command": "cat src/a.txt; echo made > ../out", "exit_code": 0,
               "duration_ms": null, "timed_out": false, "oom": false, "network": "off",
               "source_writes": [], "log_bytes": 6,
               "log_sha256": "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"})
    );
    assert_eq!(manifest["status"], "PASS");
    assert_eq!(manifest["task_id"], "t-abc123");
    assert_eq!(manifest["commit_sha"], COMMIT);
    assert_eq!(manifest["workspace"], "copy");
    assert_eq!(manifest["pipeline_sha256"], "feed");
    assert_eq!(manifest["tree_digest"], manifest["tree_digest_after"]);
    assert_eq!(manifest["platform"]["container_image"], crate::image::BUSYBOX);
    assert_eq!(manifest["platform"]["os"], "linux");
    assert!(manifest["image_digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(manifest["components"], json!([{"name": "scout-a", "sha256": "aa"}]));
    // AUDIT-12
    assert_eq!(manifest["audit_head"], world.audited().last().unwrap()["hash"]);
    let start = manifest["timestamp_start"].as_str().unwrap();
    assert!(start.len() == 20 && start.ends_with('Z'), "{start}");

    let run_id = response.run_id.unwrap();
    let told: Vec<_> = world
        .events_so_far()
        .into_iter()
        .filter_map(|kind| match kind {
            EventKind::VerifyStarted { run_id, attempt, .. } => {
                Some(format!("start {run_id} {attempt}"))
            }
            EventKind::StepFinished { name, exit_code, .. } => {
                Some(format!("step {name} {exit_code:?}"))
            }
            EventKind::VerifyFinished { run_id, status, .. } => {
                Some(format!("end {run_id} {}", status.as_str()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [
            format!("start {run_id} 1"),
            "step build Some(0)".into(),
            "step test Some(0)".into(),
            format!("end {run_id} PASS"),
        ]
    );
}

// VERIFIER-11
#[tokio::test(flavor = "multi_thread")]
async fn the_first_failing_step_fails_the_run_and_is_the_last() {
    let world = World::new()
        .await
        .step("one", "echo first")
        .step("two", "echo broken >&2; exit 3")
        .step("three", "echo never");
    let response = world.run().await;
    assert_eq!((response.status, response.reason), (Status::Fail, Some(FailReason::StepFailed)));
    assert_eq!(response.tail_log.as_deref(), Some("first\nbroken\n"));
    let manifest = response.manifest.as_ref().unwrap();
    assert_eq!(manifest["commands_executed"].as_array().unwrap().len(), 2);
    assert_eq!(manifest["commands_executed"][1]["exit_code"], 3);
    assert_eq!(manifest["reason"], "step_failed");
    assert!(!world.run_dir(&response).join("logs/step-03-three.log").exists());
}

// VERIFIER-14, security line 96
#[tokio::test(flavor = "multi_thread")]
async fn a_step_past_its_time_is_killed_even_when_it_ignores_signals() {
    let mut world = World::new()
        .await
        .step("stubborn", "trap '' TERM INT HUP; echo begun; (setsid sleep 600 &) ; sleep 600")
        .step("later", "echo never");
    // Long enough for the first word of a step, on a busy machine as well.
    world.step_timeout = Duration::from_secs(8);
    let response = world.run().await;
    assert_eq!((response.status, response.reason), (Status::Fail, Some(FailReason::Timeout)));
    assert_eq!(response.tail_log.as_deref(), Some("begun\n"));
    let commands = response.manifest.unwrap()["commands_executed"].clone();
    assert_eq!(commands.as_array().unwrap().len(), 1);
    assert_eq!(commands[0]["timed_out"], true);
    assert!(commands[0]["exit_code"].is_null());
}

// VERIFIER-14: reading to the end of the output counts as time of the step, and so does everything after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_closes_its_output_is_still_waited_for() {
    let mut world = World::new().await.step("quiet", "exec >/dev/null 2>&1; sleep 2; exit 5");
    let response = world.run().await;
    assert_eq!(response.manifest.unwrap()["commands_executed"][0]["exit_code"], 5);

    world.pipeline.steps[0].command = "exec >/dev/null 2>&1; sleep 600".into();
    world.step_timeout = Duration::from_secs(1);
    let response = world.run().await;
    assert_eq!(response.reason, Some(FailReason::Timeout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_reads_gets_the_end_of_its_input() {
    let world = World::new().await.step("read", "cat; echo $0");
    assert_eq!(world.run().await.tail_log.as_deref(), Some("/bin/sh\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_process_that_holds_the_output_does_not_hold_the_run() {
    let world = World::new().await.step("spawn", "sleep 600 & echo done").step("next", "true");
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    assert_eq!(response.tail_log.as_deref(), Some("done\n"));
}

// VERIFIER-12, security line 115
#[tokio::test(flavor = "multi_thread")]
async fn a_green_run_of_a_tree_that_changed_meanwhile_fails() {
    let mut world = World::new()
        .await
        .file("code", "one")
        .step("test", "echo ready; while [ ! -e ../go ]; do sleep 0.05; done; cat code");
    let gate = world.gate().await;
    let cancel = world.cancel.clone();
    let run =
        tokio::spawn(async move { act_core::verification::Verifier::run(&gate, 1, &cancel).await });
    let run_id = world.run_id().await;
    world.printed("ready").await;
    std::fs::write(world.repo().join("code"), "two").unwrap();
    let go = world.outside().join("artifacts/runs").join(run_id).join("build/go");
    std::fs::write(go, "").unwrap();
    let response = VerifyResponse::from(run.await.unwrap().unwrap());
    assert_eq!((response.status, response.reason), (Status::Fail, Some(FailReason::TreeChanged)));
    assert_eq!(response.tail_log.as_deref(), Some("ready\none"), "the steps saw one tree");
    let manifest = response.manifest.unwrap();
    assert_ne!(manifest["tree_digest"], manifest["tree_digest_after"]);
}

// VERIFIER-4
#[tokio::test(flavor = "multi_thread")]
async fn steps_work_in_a_writable_copy_of_what_git_would_know() {
    let mut world = World::new()
        .await
        .file("pkg/code", "one\n")
        .file(".gitignore", "ignored\n")
        .file("ignored", "secret\n")
        .file("pkg/gen/ignored", "generated\n")
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .step("where", "pwd; ls -a ..; cat gen/ignored")
        .step("write", "echo two > code; mkdir node_modules; cat code")
        .step("git", "cat ../.git/HEAD; ! touch ../.git/x");
    world.package = Some("pkg".into());
    world.pipeline.source_writes = SourceWrites::Warn;
    world.pipeline.include = vec!["pkg/gen/ignored".into()];
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    let log = response.tail_log.unwrap();
    let expected = "pkg\n.\n..\n.git\n.gitignore\npkg\ngenerated\ntwo\nref: refs/heads/main\n";
    assert!(log.starts_with(expected), "{log}");
    assert_eq!(std::fs::read(world.repo().join("pkg/code")).unwrap(), b"one\n");
    assert!(!world.repo().join("pkg/node_modules").exists());
}

// VERIFIER-10
#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_network_has_no_interface_and_the_next_one_has_it_back() {
    let interfaces = "ls /sys/class/net | grep -v -e tunl -e sit -e gre -e erspan -e ip | sed s/[0-9]*$// | tr '\\n' ' '";
    let world =
        World::new().await.step("on", interfaces).step("off", interfaces).step("again", interfaces);
    let mut world = world.with_network();
    world.pipeline.steps[1].network = false;
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    assert_eq!(world.log(&response, "step-01-on.log"), b"eth lo ");
    assert_eq!(world.log(&response, "step-02-off.log"), b"lo ");
    assert_eq!(world.log(&response, "step-03-again.log"), b"eth lo ");
    let networks: Vec<_> = response.manifest.unwrap()["commands_executed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command["network"].clone())
        .collect();
    assert_eq!(networks, ["on", "off", "on"]);
}
