//! The machine's own engine behind a loopback address: what is there has to be tried.

use act_config::Workspace;
use act_core::verification::Status;
use act_verifier::Engine;

use crate::tunnel::Tunnel;
use crate::world::World;

// VERIFIER-33: its files are used where they are, but for Podman, which cannot be asked; there everything
// travels.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_of_this_machine_at_an_address_of_it_is_used_in_the_way_that_works() {
    let mut world = World::new()
        .await
        .file("code", "one\n")
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .step("read", "cat code /workspace/code .git/HEAD; whoami; ! touch /workspace/x .git/x")
        .step("write", "echo made > ../out; mkdir node_modules target; touch target/x");
    let tunnel = Tunnel::start(world.engine.host()).await;
    world.engine = Engine::connect_to(&tunnel.host).await.unwrap();
    let before = world.fingerprint();
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:#?}");
    assert_eq!(World::warned(&response), Vec::<&str>::new(), "{response:#?}");
    let log = response.tail_log.as_deref().unwrap();
    assert!(log.starts_with("one\none\nref: refs/heads/main\nact\n"), "{log}");
    let out = world.run_dir(&response).join("build/out");
    assert_eq!(std::fs::read(out).unwrap(), b"made\n");
    assert_eq!(world.fingerprint(), before);

    world.pipeline.source_writes = act_config::SourceWrites::Warn;
    world.pipeline.steps[1].command = "echo two > code; echo x > new".into();
    let response = world.run().await;
    let message = &response.warnings[0].message;
    assert!(message.ends_with("code (changed), new (new)"), "{response:#?}");

    // A mount shows whether the engine shares files with this machine.
    world.pipeline.workspace = Workspace::Overlay;
    world.pipeline.steps.truncate(1);
    world.pipeline.steps[0].command = "cat code".into();
    let response = world.run().await;
    assert_eq!(response.status == Status::Pass, !world.is_podman(), "{response:#?}");
}
