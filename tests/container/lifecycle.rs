//! No container is left: not by a cancelled run, not by a dropped or panicking one, not by a dead owner.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use act_core::process::Process;
use act_core::verification::Verifier;
use act_verifier::ResolvedImage;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, RemoveContainerOptions, StartContainerOptions,
};
use futures_util::FutureExt;

use crate::world::{World, until_gone};

// VERIFIER-23
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_answers_nothing_and_its_container_is_gone() {
    let mut world = World::new().await.step("wait", "trap '' TERM; echo ready; sleep 600");
    let gate = world.gate().await;
    let cancel = world.cancel.clone();
    let run = tokio::spawn(async move { gate.run(1, &cancel).await });
    let run_id = world.run_id().await;
    world.printed("ready").await;
    world.cancel.cancel();
    assert!(run.await.unwrap().is_none());
    assert_eq!(world.containers_of(&run_id).await, 0);
    let run_dir = world.outside().join("artifacts/runs").join(run_id);
    assert!(!run_dir.join("manifest.json").exists(), "a cancelled run has no result");
    until_gone(&run_dir.join("build/tree")).await;
}

// VERIFIER-23
#[tokio::test(flavor = "multi_thread")]
async fn a_run_cancelled_at_any_moment_leaves_no_container() {
    for percent in [0, 10, 25, 40, 60, 80] {
        let mut world = World::new().await.step("wait", "sleep 600");
        let gate = world.gate().await;
        let cancel = world.cancel.clone();
        let run = tokio::spawn(async move { gate.run(1, &cancel).await });
        let run_id = world.run_id().await;
        // Spread over create and start; which moment it hits does not matter for what must hold.
        tokio::time::sleep(std::time::Duration::from_millis(percent * 4)).await;
        world.cancel.cancel();
        assert!(run.await.unwrap().is_none());
        assert_eq!(world.containers_of(&run_id).await, 0, "cancelled after {percent}");
    }
}

// VERIFIER-23
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_dropped_or_panics_leaves_no_container() {
    for panics in [false, true] {
        let mut world = World::new().await.step("wait", "echo ready; sleep 600");
        let gate = world.gate().await;
        let cancel = world.cancel.clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let run = tokio::spawn(async move {
            let unwinding = AssertUnwindSafe(async {
                tokio::select! {
                    _ = gate.run(1, &cancel) => {}
                    _ = stopped => assert!(!panics, "a bug in the host"),
                }
            });
            unwinding.catch_unwind().await
        });
        let run_id = world.run_id().await;
        world.printed("ready").await;
        assert_eq!(world.containers_of(&run_id).await, 1);
        stop.send(()).unwrap();
        assert_eq!(run.await.unwrap().is_err(), panics);
        assert_eq!(world.containers_of(&run_id).await, 0);
    }
}

// VERIFIER-18, security line 111
#[tokio::test(flavor = "multi_thread")]
async fn only_containers_of_dead_owners_are_reaped() {
    let mut world = World::new().await.step("wait", "echo ready; sleep 600");
    let gate: act_verifier::DockerVerifier = world.gate().await;
    let image: ResolvedImage = gate.image.clone();
    let cancel = world.cancel.clone();
    let run = tokio::spawn(async move { gate.run(1, &cancel).await });
    let run_id = world.run_id().await;
    world.printed("ready").await;
    let ours = format!("act-{run_id}");
    let found =
        world.docker.inspect_container(&ours, None::<InspectContainerOptions>).await.unwrap();
    let labels = found.config.unwrap().labels.unwrap();

    // A process with this number but another start time means that the owner is dead.
    let create = async |suffix: &str, change: &[(&str, &str)]| {
        let mut labels: HashMap<String, String> = labels.clone();
        labels.insert("act.run_id".into(), format!("{run_id}-{suffix}"));
        labels.extend(change.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        let body = ContainerCreateBody {
            image: Some(image.id.clone()),
            cmd: Some(vec!["/bin/true".into()]),
            labels: Some(labels),
            ..Default::default()
        };
        let name = format!("{ours}-{suffix}");
        let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        world.docker.create_container(Some(options), body).await.unwrap();
        name
    };
    let dead = create("dead", &[("act.start_time", "1")]).await;
    let elsewhere = create("elsewhere", &[("act.boot_id", "another machine")]).await;
    // Others reap as well: who removes it does not matter, only that it is gone when this returns.
    world.engine.reap_orphans().await.unwrap();

    let exists = async |name: &str| {
        world.docker.inspect_container(name, None::<InspectContainerOptions>).await.is_ok()
    };
    let left = (exists(&ours).await, exists(&dead).await, exists(&elsewhere).await);
    let options = RemoveContainerOptions { force: true, v: true, link: false };
    world.docker.remove_container(&elsewhere, Some(options)).await.unwrap();
    world.cancel.cancel();
    assert!(run.await.unwrap().is_none());
    assert_eq!(left, (true, false, true));
}

// VERIFIER-18: several acts that start at the same time find the same orphans.
#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_that_somebody_else_removes_is_gone_when_reaping_ends() {
    let world = World::new().await.step("noop", "true");
    let image = world.gate().await.image.id.clone();
    for round in 0..8 {
        let run_id = format!("reaped-together-{}-{round}", std::process::id());
        // Everybody who reaps on this machine leaves it alone until its owner is dead.
        let mut owner = std::process::Command::new("sleep").arg("3600").spawn().unwrap();
        let body = ContainerCreateBody {
            image: Some(image.clone()),
            cmd: Some(vec!["/bin/sleep".into(), "600".into()]),
            labels: Some(labels_of(owner.id(), &run_id)),
            ..Default::default()
        };
        let options = CreateContainerOptions { name: Some(run_id.clone()), ..Default::default() };
        world.docker.create_container(Some(options), body).await.unwrap();
        world.docker.start_container(&run_id, None::<StartContainerOptions>).await.unwrap();
        owner.kill().unwrap();
        owner.wait().unwrap();
        let reap = async || {
            let began = Instant::now();
            match world.engine.reap_orphans().await {
                Ok(()) => assert_eq!(world.containers_of(&run_id).await, 0, "round {round}"),
                // A removal that another process has begun delays nobody for longer, even if the engine is busy.
                Err(error) => {
                    assert!(error.message.contains("in progress"), "{error}");
                    assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
                }
            }
        };
        tokio::join!(reap(), reap(), reap());
        let began = Instant::now();
        while world.containers_of(&run_id).await > 0 {
            assert!(began.elapsed() < Duration::from_secs(110), "round {round}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Labels a container as that process would have done.
fn labels_of(pid: u32, run_id: &str) -> HashMap<String, String> {
    let this = Process::this();
    let seen = act_core::process::look_up(pid).unwrap().unwrap();
    let labels = [
        ("act.run_id", run_id.to_owned()),
        ("act.pid", pid.to_string()),
        ("act.start_time", seen.start_time),
        ("act.boot_id", this.boot_id),
        ("act.pid_namespace", this.pid_namespace),
        ("act.uid", rustix::process::geteuid().as_raw().to_string()),
    ];
    labels.map(|(name, value)| (name.to_owned(), value)).into()
}
