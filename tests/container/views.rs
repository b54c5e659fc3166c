//! The three views, and the guard over the source in each of them.

use crate::world::VerifyResponse;
use act_config::{SourceWrites, Workspace};
use act_core::verification::{ErrorType, FailReason, Status};
use bollard::query_parameters::InspectContainerOptions;

use crate::world::{Layers, World, until_gone};

fn ledger(response: &VerifyResponse, step: usize) -> Vec<String> {
    let manifest = response.manifest.as_ref().unwrap();
    let writes = manifest["commands_executed"][step]["source_writes"].as_array().unwrap();
    writes
        .iter()
        .map(|write| {
            format!("{} {}", write["change"].as_str().unwrap(), write["path"].as_str().unwrap())
        })
        .collect()
}

// VERIFIER-4, VERIFIER-5: whatever the repository is called.
#[tokio::test(flavor = "multi_thread")]
async fn an_overlay_is_writable_at_workspace_and_leaves_the_repository_untouched() {
    for name in ["plain", "com,ma co:lon sp ace"] {
        let mut world = World::new()
            .await
            .named(name, "artifacts")
            .view(Workspace::Overlay)
            .file("pkg/code", "one\n")
            .file(".gitignore", "*.out\n")
            .file("pkg/left.out", "of an earlier build\n")
            .step("where", "pwd; cat left.out")
            .step(
                "build",
                "mkdir -p node_modules/x && touch node_modules/x/y ../made.out && touch code",
            );
        world.package = Some("pkg".into());
        let before = world.fingerprint();
        let response = world.run().await;
        assert_eq!(response.status, Status::Pass, "{response:?}");
        assert_eq!(response.tail_log.as_deref(), Some("pkg\nof an earlier build\n"));
        assert_eq!(world.fingerprint(), before);
        assert_eq!(response.manifest.as_ref().unwrap()["workspace"], "overlay");
        assert!(World::warned(&response).is_empty(), "{response:?}");
        let run = world.run_dir(&response);
        assert!(!run.join("overlay").exists() && !run.join("lent").exists());
        let volume = format!("act-{}", response.run_id.unwrap());
        assert!(world.docker.inspect_volume(&volume).await.is_err(), "the volume is gone");
    }
}

/// `V` is the view; what could be moved away to put another tree in its place.
pub(crate) const MOVED: [&str; 4] = ["$V", "${V%/*}", "/artifacts", "/workspace"];

/// A step that tries; it never fails itself.
pub(crate) fn put_another_tree(moved: &str) -> String {
    format!(
        "V=$PWD; cd /; test -n \"{moved}\" || exit 0; cp -r $V /tmp/t; echo true > /tmp/t/test.sh; \
         mv {moved} /aside && mkdir -p $V && cp -r /tmp/t/. $V; exit 0"
    )
}

// VERIFIER-6, VERIFIER-25, security line 87: neither the view nor what it is in can be moved away for a weaker tree.
#[tokio::test(flavor = "multi_thread")]
async fn no_tree_is_put_in_the_place_of_the_view() {
    for view in [Workspace::Copy, Workspace::Overlay] {
        for moved in MOVED {
            let world = World::new()
                .await
                .view(view)
                .file("test.sh", "false\n")
                .step("put", &put_another_tree(moved))
                .step("test", "sh test.sh");
            let response = world.run().await;
            assert_eq!(response.status, Status::Fail, "{view:?} {moved} {response:?}");
        }
    }
}

// VERIFIER-25, security line 87
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_writes_to_the_source_fails_in_every_writable_view() {
    for view in [Workspace::Copy, Workspace::Overlay] {
        let world = World::new()
            .await
            .view(view)
            .file("src/code", "one\n")
            .file("src/touched", "same\n")
            .file("src/old/a", "a\n")
            .file("gone", "x\n")
            .file("dir/inner", "x\n")
            .file("moved", "x\n")
            .file(".gitignore", "*.log\n")
            .step(
                "test",
                "echo two > src/code; touch src/touched; rm gone; rm -r src/old; mkdir src/old; \
                 echo b > src/old/b; rm -r dir; echo file > dir; mv moved there; echo x > a.log; \
                 mkdir target; echo x > target/x; echo x > Cargo.lock; mkdir empty",
            )
            .step("later", "true");
        let before = world.fingerprint();
        let response = world.run().await;
        assert_eq!(
            (response.status, response.reason),
            (Status::Fail, Some(FailReason::SourceWrites)),
            "{response:?}"
        );
        assert_eq!(
            ledger(&response, 0),
            [
                "new dir",
                "deleted dir/inner",
                "deleted gone",
                "deleted moved",
                "changed src/code",
                "deleted src/old/a",
                "new src/old/b",
                "new there",
            ],
            "{view:?}"
        );
        let manifest = response.manifest.as_ref().unwrap();
        assert_eq!(manifest["commands_executed"].as_array().unwrap().len(), 1);
        assert_eq!(manifest["commands_executed"][0]["exit_code"], 0);
        assert_eq!(World::warned(&response), ["source_writes"]);
        assert!(response.warnings[0].message.contains("src/code (changed)"));
        assert_eq!(world.fingerprint(), before);
    }
}

// VERIFIER-25
#[tokio::test(flavor = "multi_thread")]
async fn writes_to_the_source_can_be_warnings_and_each_belongs_to_one_step() {
    let mut world = World::new()
        .await
        .file("code", "one\n")
        .step("first", "echo two > code")
        .step("second", "echo x > new");
    world.pipeline.source_writes = SourceWrites::Warn;
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    assert_eq!(ledger(&response, 0), ["changed code"]);
    assert_eq!(ledger(&response, 1), ["new new"]);
    assert_eq!(World::warned(&response), ["source_writes", "source_writes"]);
}

// VERIFIER-28, security line 87
#[tokio::test(flavor = "multi_thread")]
async fn a_readonly_view_is_the_repository_itself_and_explains_a_refused_write() {
    let world = World::new()
        .await
        .view(Workspace::Readonly)
        .file("code", "one\n")
        .step("read", "pwd; cat code; echo $CARGO_TARGET_DIR")
        .step("write", "mkdir node_modules");
    let before = world.fingerprint();
    let response = world.run().await;
    assert_eq!((response.status, response.reason), (Status::Fail, Some(FailReason::StepFailed)));
    assert!(response.tail_log.as_ref().unwrap().starts_with(".\none\n/artifacts/build/target\n"));
    assert_eq!(World::warned(&response), ["needs_writable_view"]);
    assert_eq!(response.manifest.as_ref().unwrap()["workspace"], "readonly");
    assert_eq!(world.fingerprint(), before);
}

// VERIFIER-4
#[tokio::test(flavor = "multi_thread")]
async fn auto_takes_an_overlay_for_a_large_tree_and_a_copy_where_there_can_be_none() {
    for (artifacts, view) in [("artifacts", "overlay"), ("arti:facts", "copy")] {
        let world = World::new().await.named("repo", artifacts).step("test", "test -s big");
        let big = std::fs::File::create(world.repo().join("big")).unwrap();
        big.set_len(257 << 20).unwrap();
        let response = world.run().await;
        assert_eq!(response.status, Status::Pass, "{response:?}");
        assert_eq!(response.manifest.unwrap()["workspace"], view);
    }
}

// VERIFIER-4, VERIFIER-32: no overlay can have its upper layer in another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_tree_is_copied_after_all_where_the_engine_cannot_mount_an_overlay() {
    let mut world = World::new().await.step("test", "test -s big; echo made > ../out");
    let Some(_mounted) = Layers::mount(&world.outside().join("artifacts")) else { return };
    let big = std::fs::File::create(world.repo().join("big")).unwrap();
    big.set_len(257 << 20).unwrap();
    let before = world.fingerprint();
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    assert_eq!(World::warned(&response), ["overlay_unavailable"], "{response:?}");
    assert_eq!(std::fs::read(world.run_dir(&response).join("build/out")).unwrap(), b"made\n");
    assert_eq!(world.fingerprint(), before);
    let run = world.run_dir(&response);
    assert!(!run.join("overlay").exists() && !run.join("build/tree").exists());
    let volume = format!("act-{}", response.run_id.unwrap());
    assert!(world.docker.inspect_volume(&volume).await.is_err(), "the volume is gone");
    assert_eq!(response.manifest.unwrap()["workspace"], "copy");

    // Asked for by name it is an error.
    world.pipeline.workspace = Workspace::Overlay;
    let response = world.run().await;
    assert_eq!(response.error_type, Some(ErrorType::ContainerCreation), "{response:?}");
}

// VERIFIER-22
#[tokio::test(flavor = "multi_thread")]
async fn an_overlay_that_was_asked_for_and_cannot_be_is_an_error_that_says_why() {
    let world = World::new().await.named("repo", "arti,facts").view(Workspace::Overlay);
    let response = world.step("test", "true").run().await;
    assert_eq!(response.error_type, Some(ErrorType::ContainerCreation));
    let message = response.error_message.unwrap();
    assert!(message.contains("arti,facts") && message.contains("verification.workspace"));
}

// VERIFIER-16
#[tokio::test(flavor = "multi_thread")]
async fn the_tail_speaks_of_files_as_the_repository_does_and_the_log_is_exact() {
    let world = World::new().await.file("src/a", "x").step("talk", "echo $PWD/src/a:1: broken");
    let response = world.run().await;
    assert_eq!(response.tail_log.as_deref(), Some("src/a:1: broken\n"));
    let log = world.log(&response, "step-01-talk.log");
    assert_eq!(log, b"/artifacts/build/tree/src/a:1: broken\n");
}

// VERIFIER-18, VERIFIER-23: a cancelled overlay leaves neither container nor volume.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_overlay_leaves_nothing() {
    let mut world =
        World::new().await.view(Workspace::Overlay).step("wait", "echo > x; echo ready; sleep 600");
    let gate = world.gate().await;
    let cancel = world.cancel.clone();
    let run =
        tokio::spawn(async move { act_core::verification::Verifier::run(&gate, 1, &cancel).await });
    let run_id = world.run_id().await;
    world.printed("ready").await;
    world.cancel.cancel();
    assert!(run.await.unwrap().is_none());
    let name = format!("act-{run_id}");
    let container = world.docker.inspect_container(&name, None::<InspectContainerOptions>).await;
    assert!(container.is_err() && world.docker.inspect_volume(&name).await.is_err());
    until_gone(&world.outside().join("artifacts/runs").join(run_id).join("overlay")).await;
}
