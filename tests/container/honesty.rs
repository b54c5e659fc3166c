//! Cases in which a passed run would prove less than it seems.

use std::io::Read;

use act_config::Workspace;
use act_core::verification::{ErrorType, Status};

use crate::world::{SmallDisk, World};

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
