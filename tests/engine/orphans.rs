//! What dead processes leave on an engine.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use act_core::process::Process;
use act_verifier::driver::{ContainerRequest, NewVolume};

use crate::place::{PATIENCE, Sandbox, engine, unique};

/// Labels that name a process of this machine as the owner.
fn labels(owner: &std::process::Child, run: &str) -> HashMap<String, String> {
    let this = Process::this();
    let state = act_core::process::look_up(owner.id()).unwrap().unwrap();
    HashMap::from(
        [
            ("act.run_id", run.to_owned()),
            ("act.pid", owner.id().to_string()),
            ("act.start_time", state.start_time),
            ("act.boot_id", this.boot_id),
            ("act.pid_namespace", this.pid_namespace),
            ("act.uid", rustix::process::geteuid().as_raw().to_string()),
            ("act.deadline", "4000000000".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    )
}

// VERIFIER-18
#[tokio::test(flavor = "multi_thread")]
async fn containers_and_volumes_of_dead_owners_are_removed_and_no_others() {
    let engine = engine().await;
    let run = unique("orphan");
    let mut owner = std::process::Command::new("sleep").arg("3600").spawn().unwrap();
    let owned = labels(&owner, &run);
    let mut elsewhere = owned.clone();
    elsewhere.insert("act.boot_id".to_owned(), "another machine".to_owned());
    let request = Sandbox::request(&engine).await;
    let of = |labels: &HashMap<String, String>, name: &str| ContainerRequest {
        labels: labels.clone(),
        volumes: vec![NewVolume {
            name: name.to_owned(),
            labels: labels.clone(),
            layers: None,
            content: None,
        }],
        ..request.clone()
    };
    let names = [unique("dead"), unique("elsewhere")];
    let dead = Sandbox::start(&engine, of(&owned, &names[0])).await;
    let other = Sandbox::start(&engine, of(&elsewhere, &names[1])).await;
    let stranger = Sandbox::start(&engine, request.clone()).await;

    let left = async || {
        let label = format!("act.run_id={run}");
        let volumes = engine.driver().volumes(label.clone()).await.unwrap();
        let containers = engine.driver().containers(&label).await.unwrap();
        let mut left: Vec<_> = containers.into_iter().filter_map(|found| found.name).collect();
        left.extend(volumes.into_iter().map(|volume| volume.id));
        left.sort();
        left
    };
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let [volume, volume_elsewhere] = names;
    let all = sorted(vec![dead.name.clone(), other.name.clone(), volume, volume_elsewhere.clone()]);
    engine.reap_orphans().await.unwrap();
    assert_eq!(left().await, all, "the owner lives");

    owner.kill().unwrap();
    owner.wait().unwrap();
    let rest = sorted(vec![other.name.clone(), volume_elsewhere]);
    let began = Instant::now();
    // Another process may be reaping as well, and a busy engine may need a second attempt.
    while left().await != rest {
        assert!(began.elapsed() < PATIENCE, "{:?}", left().await);
        let _ = engine.reap_orphans().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(engine.driver().inspect(&stranger.name).await.unwrap().running);
}
