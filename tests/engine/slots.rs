//! Runs that share an engine of `engines.toml`.

use act_config::{EngineKind, EnginePlace, EngineSettings};
use act_core::verification::Verdict;
use act_verifier::Engine;

use crate::place::{Project, cluster, engine};

/// The engine of the tests as `engines.toml` would name it.
async fn shared(
    kind: Option<EngineKind>,
    slots: u32,
) -> Result<Engine, act_verifier::EngineUnavailable> {
    if let Some(settings) = cluster(slots) {
        let settings = EngineSettings { kind: kind.unwrap_or(EngineKind::Kubernetes), ..settings };
        return Engine::connect_to_named(&settings).await;
    }
    let found = engine().await;
    let of = match found.identity().name.as_str() {
        "podman" => EngineKind::Podman,
        _ => EngineKind::Docker,
    };
    let place = EnginePlace::Endpoint { address: found.host().to_owned(), certificates: None };
    let settings = EngineSettings {
        name: "lab".to_owned(),
        kind: kind.unwrap_or(of),
        place,
        id: None,
        labels: [].into(),
        slots,
    };
    Engine::connect_to_named(&settings).await
}

// ENGINE-5
#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_a_slot_and_says_for_whom_and_a_cancelled_one_takes_none() {
    // Slots are names on the one engine, so tests that count them run one after another, in whatever process. The lock is on a
    // directory, so nothing is left.
    let lock = std::fs::File::open(std::env::temp_dir()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let engine = shared(None, 1).await.unwrap();
    let mut first = Project::new().await.step("hold", "echo begun; sleep 600");
    let mut second = Project::new().await.step("quick", "echo done");
    let mut third = Project::new().await.step("never", "true");
    for project in [&mut first, &mut second, &mut third] {
        project.engine = engine.clone();
    }
    let holding = first.begin().await;
    let held = first.printed("begun").await;
    let taken = engine.taken_slots().await.unwrap();
    let owner = format!("slot 1 by process {} of user ", std::process::id());
    assert!(taken.len() == 1 && taken[0].to_string().starts_with(&owner), "{taken:?}");
    assert!(taken[0].is_here);
    assert_eq!(engine.free_slots().await.unwrap(), Some(0));

    let waiting = second.begin().await;
    let told = second.told("waiting for a free slot of the engine lab, which has 1: ").await;
    assert!(told.contains(&owner), "{told}");
    let cancelled = third.begin().await;
    third.told("waiting for a free slot of the engine lab").await;
    third.cancel.cancel();
    assert!(cancelled.await.unwrap().is_none());
    assert_eq!(engine.taken_slots().await.unwrap(), taken, "the slot is still that of the first");
    assert!(!waiting.is_finished());

    first.cancel.cancel();
    assert!(holding.await.unwrap().is_none());
    first.assert_nothing_left(&held).await;
    let run = waiting.await.unwrap().expect("not cancelled");
    assert_eq!(run.verdict, Verdict::Pass, "{run:?}");
    assert_eq!(engine.taken_slots().await.unwrap(), []);
    assert_eq!(engine.free_slots().await.unwrap(), Some(1));
    drop(lock);
}

// ENGINE-4
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_of_another_kind_than_the_file_says_is_refused() {
    let other = match engine().await.identity().name.as_str() {
        "podman" | "kubernetes" => EngineKind::Docker,
        _ => EngineKind::Podman,
    };
    let refused = shared(Some(other), 2).await.unwrap_err().to_string();
    assert!(refused.contains("answers there, and engines.toml says"), "{refused}");
}
