//! Cases in which a passed run would prove less than it seems.

use std::io::Read;

use act_config::Workspace;
use act_core::verification::{ErrorType, Status, Verifier};

use crate::world::{SmallDisk, VerifyResponse, World};

// VERIFIER-30, security line 88
#[tokio::test(flavor = "multi_thread")]
async fn sockets_and_fifos_in_the_repository_lead_nowhere() {
    for view in [Workspace::Copy, Workspace::Overlay, Workspace::Readonly] {
        let world = World::new().await.view(view).file(".git/HEAD", "x").step(
            "talk",
            "for f in /workspace/fifo /workspace/.git/fifo .git/fifo; do \
             (echo word | timeout 2 dd of=$f conv=notrunc) 2>/dev/null; done; \
             for s in /workspace/a.sock; do echo word | timeout 2 nc local:$s 2>/dev/null; done; true",
        );
        let fifos = ["fifo", ".git/fifo"].map(|name| world.repo().join(name));
        for fifo in &fifos {
            assert!(std::process::Command::new("mkfifo").arg(fifo).status().unwrap().success());
        }
        let socket = std::os::unix::net::UnixListener::bind(world.repo().join("a.sock")).unwrap();
        socket.set_nonblocking(true).unwrap();
        // Open for reading and writing, so that neither end waits for the other.
        let mut open: Vec<_> = fifos
            .iter()
            .map(|fifo| {
                let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK;
                let opened = rustix::fs::open(fifo, flags, rustix::fs::Mode::empty()).unwrap();
                std::fs::File::from(opened)
            })
            .collect();
        let response = world.run().await;
        assert_eq!(response.status, Status::Pass, "{view:?} {response:?}");
        for fifo in &mut open {
            let read = fifo.read(&mut [0; 16]);
            assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{view:?}");
        }
        assert!(socket.accept().is_err(), "nobody connected");
    }
}

// VERIFIER-30, security line 88
#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_below_the_repository_is_hidden_in_every_view_and_told() {
    for view in [Workspace::Copy, Workspace::Overlay, Workspace::Readonly] {
        let world = World::new()
            .await
            .view(view)
            .file("code", "one")
            .file(".gitignore", "disk/\n")
            .step("write", "ls /workspace/disk; touch /workspace/disk/new 2>/dev/null; true");
        let Some(_mounted) = SmallDisk::mount(&world.repo().join("disk")) else { return };
        std::fs::write(world.repo().join("disk/inside"), "x").unwrap();
        let response = world.run().await;
        assert!(!world.repo().join("disk/new").exists(), "{view:?}");
        assert!(!response.tail_log.as_ref().unwrap().contains("inside"), "{view:?}");
        let told = World::warned(&response).contains(&"mount_hidden");
        assert_eq!(told, view != Workspace::Copy, "{view:?} {response:?}");

        // The digest would cover sources that no step has seen; a copy has them.
        std::fs::write(world.repo().join(".gitignore"), "").unwrap();
        let response = world.run().await;
        let error = response.error_type;
        match view {
            Workspace::Copy => assert_eq!(response.status, Status::Pass, "{response:?}"),
            _ => assert_eq!(error, Some(ErrorType::ContainerCreation), "{view:?} {response:?}"),
        }
    }
}

// VERIFIER-27
#[tokio::test(flavor = "multi_thread")]
async fn a_green_step_in_which_no_test_ran_is_told() {
    let world = World::new().await.step("test", "echo; echo 'running 0 tests'");
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass);
    assert_eq!(World::warned(&response), ["no_tests_ran"]);
    assert_eq!(response.warnings[0].step.as_deref(), Some("test"));
}

// VERIFIER-5, VERIFIER-30, security line 324
#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_the_host_makes_during_a_run_is_out_of_reach() {
    for view in [Workspace::Copy, Workspace::Overlay] {
        let mut world = World::new().await.view(view).file("code", "one").step(
            "talk",
            "echo ready; for i in $(seq 20); do sleep 0.2; \
             for s in /workspace/late.sock /artifacts/build/tree/late.sock; do \
             echo word | timeout 2 nc local:$s 2>/dev/null; done; done; true",
        );
        let gate = world.gate().await;
        let cancel = world.cancel.clone();
        let run = tokio::spawn(async move { gate.run(1, &cancel).await });
        world.printed("ready").await;
        let socket = std::os::unix::net::UnixListener::bind(world.repo().join("late.sock"));
        let socket = socket.unwrap();
        let response = VerifyResponse::from(run.await.unwrap().unwrap());
        assert_eq!(response.status, Status::Pass, "{view:?} {response:?}");
        socket.set_nonblocking(true).unwrap();
        assert!(socket.accept().is_err(), "{view:?}: a step connected");
    }
}

// VERIFIER-5
#[tokio::test(flavor = "multi_thread")]
async fn the_copied_tree_is_also_read_only_at_workspace_and_shows_nothing_else() {
    let world = World::new()
        .await
        .file("code", "one\n")
        .file(".gitignore", "private\n")
        .file("private", "do not show")
        .view(Workspace::Copy)
        .step("look", "cat /workspace/code; ls /workspace; touch /workspace/x; echo two > code")
        .step("again", "cat /workspace/code; ! cat /workspace/private");
    let mut world = world;
    world.pipeline.source_writes = act_config::SourceWrites::Warn;
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    let log = response.tail_log.as_deref().unwrap();
    assert!(log.starts_with("one\ncode\n") && log.contains("two\n"), "{log}");
    assert!(log.contains("Read-only file system") && !log.contains("do not show"), "{log}");
}
