//! INFRA_ERROR: failures of the machine, distinguished from failures of the code.

use std::time::{Duration, Instant};

use act_core::event::Events;
use act_core::verification::{ErrorType, FailReason, Status, Verifier};
use act_verifier::Engine;
use bollard::query_parameters::RemoveContainerOptions;

use crate::image;
use crate::proxy::{Proxy, Refusal};
use crate::world::{SmallDisk, VerifyResponse, World};

// VERIFIER-21, security line 99
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_a_resource_and_a_kill_of_its_own_is_a_failure() {
    let mut world = World::new().await.step("eat", "tail /dev/zero");
    world.pipeline.limits.memory_mb = 24;
    let response = world.run().await;
    assert_eq!(response.status, Status::InfraError, "{response:?}");
    assert_eq!(response.error_type, Some(ErrorType::ResourceExhaustion));
    assert!(response.error_message.unwrap().contains("24 MiB"));
    assert_eq!(response.manifest.unwrap()["commands_executed"][0]["oom"], true);

    world.pipeline.steps[0].command = "kill -9 $$".into();
    let response = world.run().await;
    assert_eq!((response.status, response.reason), (Status::Fail, Some(FailReason::StepFailed)));
    assert_eq!(response.manifest.unwrap()["commands_executed"][0]["exit_code"], 137);
}

// VERIFIER-21, security line 100
#[tokio::test(flavor = "multi_thread")]
async fn an_oom_of_a_child_is_a_warning_beside_the_steps_own_verdict() {
    for (end, status) in [("exit 0", Status::Pass), ("exit 1", Status::Fail)] {
        let mut world = World::new().await.step("eat", &format!("tail /dev/zero; {end}"));
        world.pipeline.limits.memory_mb = 24;
        let response = world.run().await;
        assert_eq!(response.status, status, "{response:?}");
        assert_eq!(response.warnings.len(), 1, "{response:?}");
        assert_eq!(response.warnings[0].code.as_str(), "oom");
        assert_eq!(response.manifest.unwrap()["commands_executed"][0]["oom"], true);
    }
}

// VERIFIER-13
#[tokio::test(flavor = "multi_thread")]
async fn what_a_test_script_does_to_others_processes_does_not_end_the_container() {
    for command in ["sleep 9 & killall sleep", "kill -TERM 1; kill -HUP 1", "kill -TERM -1"] {
        let response = World::new().await.step("kill", &format!("{command}; exit 0")).run().await;
        assert_eq!(response.status, Status::Pass, "{command} {response:?}");
    }
}

/// Busybox that wants a volume of its own.
async fn with_volume(docker: &bollard::Docker, name: &str, volume: &str) -> String {
    let image = format!("docker.io/library/act-test-volume-{name}:1");
    if docker.inspect_image(&image).await.is_err() {
        image::import_changed(docker, &image, image::busybox(), vec![format!("VOLUME {volume}")])
            .await;
    }
    image
}

// VERIFIER-2, VERIFIER-21
#[tokio::test(flavor = "multi_thread")]
async fn an_image_whose_own_volume_would_hide_the_sources_is_refused() {
    let mut world = World::new().await.file("src/a", "a").step("look", "cat src/a");
    for (name, volume, hides) in [
        ("beside", "/data", false),
        ("at", "/artifacts/build/tree", false),
        ("in", "/artifacts/build/tree/src", true),
        ("below", "/workspace/src", true),
        ("new", "/artifacts/odd", true),
    ] {
        world.pipeline.image = with_volume(&world.docker, name, volume).await;
        let response = world.run().await;
        if hides {
            assert_eq!(response.error_type, Some(ErrorType::ContainerCreation), "{response:?}");
            assert!(response.error_message.unwrap().contains(volume));
        } else {
            assert_eq!(response.status, Status::Pass, "{volume} {response:?}");
        }
    }
}

// VERIFIER-3, security line 101
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_had_is_image_pull_with_nothing_else() {
    let world = World::new().await;
    // Nothing listens there, so no registry is asked.
    let image = "127.0.0.1:1/act-test/none:1";
    let error =
        world.engine.ensure_image(image, &Events::silent(), &world.cancel).await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::ImagePull);
    assert!(error.message.contains(image), "{error}");
    assert_eq!(std::fs::read_dir(world.artifacts().path().join("runs")).unwrap().count(), 0);
}

// VERIFIER-3
#[tokio::test(flavor = "multi_thread")]
async fn a_local_image_is_resolved_to_its_id_without_a_pull() {
    let mut world = World::new().await;
    let gate = world.gate().await;
    assert_eq!(gate.image.reference, image::BUSYBOX);
    // Podman gives every image a digest of its own making.
    assert!(gate.image.digest == gate.image.id || world.is_podman(), "{:?}", gate.image);
    assert!(world.events_so_far().is_empty(), "nothing was pulled");
}

// VERIFIER-22, security line 102
#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_a_shell_is_named_as_such() {
    let mut world = World::new().await.step("test", "true");
    world.pipeline.image = image::EMPTY.into();
    let response = world.run().await;
    assert_eq!(response.error_type, Some(ErrorType::ContainerCreation), "{response:?}");
    let message = response.error_message.as_ref().unwrap();
    assert!(message.contains("/bin/sh") && message.contains(image::EMPTY), "{message}");
    assert_eq!(response.tail_log, None);
    let manifest = response.manifest.as_ref().unwrap();
    assert_eq!(manifest["status"], "INFRA_ERROR");
    assert_eq!(manifest["commands_executed"], serde_json::json!([]));
    assert!(!world.run_dir(&response).join("build/tree").exists());
    assert_eq!(world.containers_of(response.run_id.as_ref().unwrap()).await, 0);
}

// VERIFIER-19, security line 103
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_in_mid_step_is_docker_unavailable_at_once() {
    let mut world = World::new().await.step("wait", "echo ready; sleep 600").step("later", "true");
    let proxy = Proxy::start(world.outside(), world.engine.host());
    let engine = Engine::connect_to(&proxy.host()).await.unwrap();
    let gate = world.gate_with(engine, world.gate().await.image);
    let cancel = world.cancel.clone();
    let run = tokio::spawn(async move { gate.run(1, &cancel).await });
    let run_id = world.run_id().await;
    world.printed("ready").await;
    let cut = Instant::now();
    proxy.cut();
    let response = VerifyResponse::from(run.await.unwrap().unwrap());
    // Some 30 ms; in any case before a call of the engine would be given up by itself (20 s).
    assert!(cut.elapsed() < Duration::from_secs(10), "{:?}", cut.elapsed());
    // The engine behind the proxy still runs, so its container is removed here.
    let options = RemoveContainerOptions { force: true, v: true, link: false };
    world.docker.remove_container(&format!("act-{run_id}"), Some(options)).await.unwrap();

    assert_eq!(response.status, Status::InfraError);
    assert_eq!(response.error_type, Some(ErrorType::DockerUnavailable), "{response:?}");
    assert_eq!(response.tail_log.as_deref(), Some("ready\n"));
    let manifest = response.manifest.unwrap();
    assert_eq!(manifest["commands_executed"].as_array().unwrap().len(), 1);
    assert!(manifest["commands_executed"][0]["exit_code"].is_null());
    assert_eq!(response.warnings[0].code.as_str(), "container_left");
}

// VERIFIER-19
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_gone_before_the_run_leaves_no_run() {
    let world = World::new().await.step("test", "true");
    let proxy = Proxy::start(world.outside(), world.engine.host());
    let engine = Engine::connect_to(&proxy.host()).await.unwrap();
    let gate = world.gate_with(engine, world.gate().await.image);
    proxy.cut();
    let response = VerifyResponse::from(gate.run(1, &world.cancel).await.unwrap());
    assert_eq!(response.error_type, Some(ErrorType::DockerUnavailable));
    assert_eq!((response.run_id, response.tail_log, response.manifest), (None, None, None));
    assert_eq!(std::fs::read_dir(world.artifacts().path().join("runs")).unwrap().count(), 0);
}

// VERIFIER-13
#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_somebody_removes_is_no_failure_of_the_code() {
    let mut world = World::new().await.step("wait", "echo ready; sleep 600");
    let gate = world.gate().await;
    let cancel = world.cancel.clone();
    let run = tokio::spawn(async move { gate.run(1, &cancel).await });
    let run_id = world.run_id().await;
    world.printed("ready").await;
    let options = RemoveContainerOptions { force: true, v: true, link: false };
    world.docker.remove_container(&format!("act-{run_id}"), Some(options)).await.unwrap();
    let response = VerifyResponse::from(run.await.unwrap().unwrap());
    assert_eq!(
        (response.status, response.error_type),
        (Status::InfraError, Some(ErrorType::Unknown))
    );
}

// VERIFIER-21, security line 109
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_a_resource_and_leaves_no_half_manifest() {
    let world = World::new()
        .await
        .step("fill", "dd if=/dev/zero of=../big bs=64k count=100 2>/dev/null; exit 1");
    let Some(mounted) = SmallDisk::mount(&world.outside().join("artifacts")) else { return };
    let response = world.run().await;
    let manifest = world.run_dir(&response).join("manifest.json");
    let text = std::fs::read(&manifest).ok();
    drop(mounted);
    assert_eq!(response.error_type, Some(ErrorType::ResourceExhaustion), "{response:?}");
    assert_eq!(text.is_some(), response.manifest.is_some());
    if let Some(text) = text {
        assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok());
    }
}

/// Runs `world` over an engine that refuses some requests, and returns its answer with the requests.
async fn over_refusing(
    world: &mut World,
    refusal: Refusal,
    refuses: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> (VerifyResponse, Vec<String>) {
    let host = world.engine.host().to_owned();
    let (proxy, asked) = Proxy::refusing(world.outside(), &host, refusal, refuses);
    let engine = Engine::connect_to(&proxy.host()).await.unwrap();
    let gate = world.gate_with(engine, world.gate().await.image);
    let response = VerifyResponse::from(gate.run(1, &world.cancel).await.unwrap());
    let asked = asked.lock().unwrap().clone();
    proxy.cut();
    (response, asked)
}

// VERIFIER-81
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_needs_what_the_engine_lacks_is_refused_before_a_container_exists() {
    let world = World::new().await.step("test", "true");
    let host = world.engine.host().to_owned();
    let body = r#"{"Name":"box","MemoryLimit":true,"CpuCfsQuota":true,"PidsLimit":false}"#;
    let (proxy, asked) = Proxy::answering(world.outside(), &host, "/info", body);
    let engine = Engine::connect_to(&proxy.host()).await.unwrap();
    let gate = world.gate_with(engine, world.gate().await.image);
    let response = VerifyResponse::from(gate.run(1, &world.cancel).await.unwrap());
    let asked = asked.lock().unwrap().clone();
    proxy.cut();
    assert_eq!(response.error_type, Some(ErrorType::ContainerCreation), "{response:?}");
    let message = response.error_message.unwrap();
    for part in ["limit the number of processes", "cgroup", "use another engine"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!((response.run_id, response.manifest), (None, None));
    assert!(
        asked.iter().all(|line| line.starts_with("GET") || line.starts_with("HEAD")),
        "{asked:#?}"
    );
}

// VERIFIER-20, security line 104
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_answers_with_errors_is_asked_again_and_is_no_failure_of_the_code() {
    let start = Refusal { path: "/exec/", end: "/start", status: 500 };
    let inspect = Refusal { path: "/exec/", end: "/json", status: 404 };
    for refusal in [
        start,
        inspect,
        Refusal { status: 500, ..inspect },
        Refusal { status: 409, ..inspect },
        Refusal { path: "/containers/act-run", end: "/json", status: 500 },
    ] {
        let mut world = World::new().await.step("test", "true");
        let (response, asked) = over_refusing(&mut world, refusal, |_| true).await;
        let what = format!("{} {} {}: {response:?}", refusal.path, refusal.end, refusal.status);
        assert_eq!(response.status, Status::InfraError, "{what}");
        let message = response.error_message.as_ref().unwrap();
        assert!(message.contains("the engine is not well"), "{what}");
        let starts =
            asked.iter().filter(|line| line.starts_with("POST") && line.contains("/start"));
        let execs = starts.filter(|line| line.contains("/exec/")).count();
        assert!(execs <= 1, "{asked:#?}");
    }
    // Trouble that passes changes nothing.
    let mut world = World::new().await.step("test", "true");
    let passes = |count| count <= 4;
    let (response, _) = over_refusing(&mut world, Refusal { status: 500, ..inspect }, passes).await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
}

// VERIFIER-20, security line 321
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_output_is_no_failure_of_the_code_and_starts_nothing_again() {
    for (command, passes) in [
        // Some engines end a step whose output nobody takes by a signal.
        ("trap '' TERM; echo ready; sleep 2; exit 0", true),
        ("trap '' TERM; echo ready; sleep 2; exit 1", false),
    ] {
        let world = World::new().await.step("cut", command);
        let host = world.engine.host().to_owned();
        let (proxy, asked) = Proxy::cutting_output(world.outside(), &host, "ready");
        let engine = Engine::connect_to(&proxy.host()).await.unwrap();
        let gate = world.gate_with(engine, world.gate().await.image);
        let response = VerifyResponse::from(gate.run(1, &world.cancel).await.unwrap());
        let asked = asked.lock().unwrap().clone();
        proxy.cut();
        let of = |end: &str| {
            let starts = |line: &&String| line.starts_with("POST") && line.contains(end);
            asked.iter().filter(starts).filter(|line| line.contains("/exec")).count()
        };
        assert_eq!((of("/start"), of("/exec HTTP")), (1, 1), "{command}: {asked:#?}");
        assert!(World::warned(&response).contains(&"log_incomplete"), "{command}: {response:?}");
        if passes {
            assert_eq!(response.status, Status::Pass, "{command}: {response:?}");
        } else {
            assert_eq!(response.error_type, Some(ErrorType::Unknown), "{command}: {response:?}");
            let message = response.error_message.as_ref().unwrap();
            assert!(message.contains("output"), "{command}: {message}");
        }
        assert_eq!(world.containers_of(response.run_id.as_ref().unwrap()).await, 0);
    }
}
