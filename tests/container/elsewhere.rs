//! An engine that does not see our files: everything travels, and every rule holds as it does here.

use std::collections::HashMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use act_config::{SourceWrites, User, Workspace};
use act_core::verification::{ErrorType, FailReason, Status, Verifier};
use act_verifier::Engine;
use bollard::Docker;
use bollard::query_parameters::{
    InspectContainerOptions, ListContainersOptions, ListVolumesOptions,
};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};

use crate::own_engine::{Elsewhere, OwnEngine};
use crate::tunnel::Tunnel;
use crate::views::{MOVED, put_another_tree};
use crate::world::World;

/// An engine for which the directory of all our files is empty.
fn blind(certificates: Option<&Path>) -> Option<OwnEngine> {
    let hidden = vec![std::env::temp_dir()];
    OwnEngine::start(Elsewhere { hidden, certificates: certificates.map(Path::to_owned) })
}

/// An engine behind a tunnel that does not see our files: one of our own, or Podman, which there is never taken
/// for one that does.
pub(crate) struct Far {
    pub(crate) engine: Engine,
    pub(crate) docker: Docker,
    _tunnel: Tunnel,
    _own: Option<OwnEngine>,
}

impl Far {
    pub(crate) async fn start() -> Option<Self> {
        let here = World::new().await;
        let (host, docker, own) = if here.is_podman() {
            (here.engine.host().to_owned(), here.docker, None)
        } else {
            let own = blind(None)?;
            (own.host(), own.docker().await, Some(own))
        };
        let tunnel = Tunnel::start(&host).await;
        let engine = Engine::connect_to(&tunnel.host).await.unwrap();
        Some(Self { engine, docker, _tunnel: tunnel, _own: own })
    }

    async fn world(&self) -> World {
        world(&self.engine, &self.docker).await
    }

    /// Fails if the engine has a container or a volume of this run.
    pub(crate) async fn nothing_is_left(&self, run_id: &str) {
        nothing_is_left(&self.docker, run_id).await;
    }
}

/// Returns this world with another engine.
async fn world(engine: &Engine, docker: &Docker) -> World {
    let mut world = World::new().await;
    (world.engine, world.docker) = (engine.clone(), docker.clone());
    world
}

/// Lists the containers of one run, because others may be running.
async fn nothing_is_left(docker: &Docker, run_id: &str) {
    let label = || HashMap::from([("label".to_owned(), vec![format!("act.run_id={run_id}")])]);
    let all = ListContainersOptions { all: true, filters: Some(label()), ..Default::default() };
    assert_eq!(docker.list_containers(Some(all)).await.unwrap().len(), 0);
    let volumes = ListVolumesOptions { filters: Some(label()) };
    let volumes = docker.list_volumes(Some(volumes)).await.unwrap().volumes;
    assert_eq!(volumes.unwrap_or_default().len(), 0);
}

/// An authority, a server at `address` and a client, in one directory as Docker's client has them.
fn certificates(into: &Path, address: &str) {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&key).unwrap();
    let issuer = Issuer::new(authority, key);
    std::fs::write(into.join("ca.pem"), certificate.pem()).unwrap();
    let own = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::IpAddress(address.parse().unwrap())];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&own, &issuer).unwrap();
    std::fs::write(into.join("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(into.join("key.pem"), own.serialize_pem()).unwrap();
}

// VERIFIER-33, VERIFIER-34, VERIFIER-35
#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_an_engine_at_another_address_is_as_good_as_one_here() {
    if World::new().await.is_podman() {
        act_core::testing::skip("Podman's service speaks no TLS of its own here");
        return;
    }
    let pem = tempfile::tempdir_in("/var/tmp").unwrap();
    certificates(pem.path(), &OwnEngine::tls_address());
    let Some(own) = blind(Some(pem.path())) else { return };
    let docker = own.docker().await;
    let refused = Engine::connect_to(&own.address()).await.unwrap_err();
    assert_eq!(refused.host, own.address(), "not without certificates");
    let set = HashMap::from([
        ("DOCKER_HOST", own.address()),
        ("DOCKER_TLS_VERIFY", "1".to_owned()),
        ("DOCKER_CERT_PATH", pem.path().display().to_string()),
    ]);
    let engine = Engine::connect_with(|name| set.get(name).cloned()).await.unwrap();
    for view in [Workspace::Copy, Workspace::Readonly] {
        let mut world = world(&engine, &docker)
            .await
            .view(view)
            .file("pkg/code", "one\n")
            .file("pkg/run", "#!/bin/sh\necho ran as $(whoami)\n")
            .file(".gitignore", "ignored\n")
            .file("ignored", "secret\n")
            .file("pkg/gen/ignored", "generated\n")
            .file(".git/HEAD", "ref: refs/heads/main\n")
            .step("see", "pwd; cat code gen/ignored link; ./run; cat ../.git/HEAD; ! cat ../ignored")
            .step("kept out", "cd /workspace && cat pkg/code .git/HEAD && ! touch new && ! rm pkg/code && ! touch .git/x")
            .step("write", "cp /bin/busybox $HOME/su && chmod 6755 $HOME/su && ln -s /etc $SNAPSHOT_DIR/link && \
                            mkdir -p $TMPDIR/a $npm_config_cache && echo made > $TMPDIR/a/b && ln $TMPDIR/a/b $TMPDIR/c && \
                            mkfifo $TMPDIR/fifo && echo kept > /artifacts/build/out");
        world.package = Some("pkg".into());
        world.pipeline.include = vec!["pkg/gen/ignored".into()];
        let run_sh = world.repo().join("pkg/run");
        std::fs::set_permissions(run_sh, std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink("code", world.repo().join("pkg/link")).unwrap();
        let before = world.fingerprint();
        let response = world.run().await;
        assert_eq!(response.status, Status::Pass, "{view:?} {response:#?}");
        let log = response.tail_log.as_deref().unwrap();
        assert!(
            log.starts_with("pkg\none\ngenerated\none\nran as act\nref: refs/heads/main\n"),
            "{log}"
        );
        assert!(log.contains("Read-only file system"), "{log}");
        assert_eq!(world.fingerprint(), before);
        let run = world.run_dir(&response);
        assert_eq!(std::fs::read(run.join("build/out")).unwrap(), b"kept\n");
        assert_eq!(std::fs::read(run.join("tmp/c")).unwrap(), b"made\n");
        assert!(std::fs::symlink_metadata(run.join("snapshots/link")).unwrap().is_symlink());
        let su = std::fs::metadata(run.join("home/su")).unwrap();
        assert_eq!(su.permissions().mode() & 0o7777, 0o755);
        assert!(!run.join("build/tree").exists() && !run.join("tmp/fifo").exists());
        assert_eq!(World::warned(&response), ["artifacts_incomplete"], "the FIFO: {response:#?}");
        let manifest = response.manifest.unwrap();
        assert_eq!(manifest["tree_digest"], manifest["tree_digest_after"]);
        assert_eq!(
            manifest["workspace"],
            if view == Workspace::Copy { "copy" } else { "readonly" }
        );
        nothing_is_left(&docker, manifest["run_id"].as_str().unwrap()).await;
    }
}

// VERIFIER-33, VERIFIER-25
#[tokio::test(flavor = "multi_thread")]
async fn behind_a_tunnel_there_may_be_another_machine_and_the_guard_stands_there_too() {
    let Some(far) = Far::start().await else { return };
    let mut told = far
        .world()
        .await
        .file("src/code", "one\n")
        .file("src/old", "x\n")
        .file("src/touched", "same\n")
        .file(".gitignore", "*.log\n")
        .step(
            "first",
            "echo two > src/code; rm src/old; touch src/touched a.log; mkdir -p target && ln src/code target/x; \
             echo x > new",
        )
        .step("second", "echo y > src/newer")
        .step("third", "true");
    told.pipeline.source_writes = SourceWrites::Warn;
    let response = told.run().await;
    assert_eq!(response.status, Status::Pass, "{response:#?}");
    let manifest = response.manifest.unwrap();
    nothing_is_left(&far.docker, manifest["run_id"].as_str().unwrap()).await;
    let ledger = |step: usize| {
        let writes = manifest["commands_executed"][step]["source_writes"].as_array().unwrap();
        let told = writes.iter().map(|write| format!("{} {}", write["change"], write["path"]));
        told.collect::<Vec<_>>().join(" ").replace('"', "")
    };
    assert_eq!(ledger(0), "new new changed src/code deleted src/old");
    assert_eq!((ledger(1), ledger(2)), ("new src/newer".to_owned(), String::new()));

    told.pipeline.source_writes = SourceWrites::Fail;
    let response = told.run().await;
    assert_eq!(response.reason, Some(FailReason::SourceWrites), "{response:#?}");

    let overlay = far.world().await.view(Workspace::Overlay).step("test", "true");
    let response = overlay.run().await;
    assert_eq!(response.error_type, Some(ErrorType::ContainerCreation), "{response:#?}");
    assert!(response.error_message.unwrap().contains("verification.workspace"));
}

// VERIFIER-33, VERIFIER-6, security line 87
#[tokio::test(flavor = "multi_thread")]
async fn no_tree_is_put_in_the_place_of_the_view_there_either() {
    let Some(far) = Far::start().await else { return };
    for user in [User::Caller, User::Root] {
        for moved in MOVED {
            let mut world = far
                .world()
                .await
                .file("test.sh", "false\n")
                .step("put", &put_another_tree(moved))
                .step("test", "sh test.sh");
            world.pipeline.user = user;
            let response = world.run().await;
            assert_eq!(response.status, Status::Fail, "{user:?} {moved} {response:?}");
        }
    }
}

// VERIFIER-33: a socket may be the end of a tunnel. Only a failed mount shows it.
#[tokio::test(flavor = "multi_thread")]
async fn behind_a_socket_there_may_be_another_machine() {
    if World::new().await.is_podman() {
        act_core::testing::skip("Podman makes what it cannot find, so its machine's name decides");
        return;
    }
    let Some(own) = blind(None) else { return };
    let docker = own.docker().await;
    let engine = Engine::connect_to(&own.host()).await.unwrap();
    for view in [Workspace::Auto, Workspace::Readonly] {
        let world = world(&engine, &docker)
            .await
            .view(view)
            .file("code", "one\n")
            .step("read", "cat code; echo made > $TMPDIR/out");
        let before = world.fingerprint();
        let response = world.run().await;
        assert_eq!(response.status, Status::Pass, "{response:#?}");
        assert_eq!(World::warned(&response), Vec::<&str>::new(), "{response:#?}");
        assert_eq!(response.tail_log.as_deref(), Some("one\n"));
        assert_eq!(std::fs::read(world.run_dir(&response).join("tmp/out")).unwrap(), b"made\n");
        assert_eq!(world.fingerprint(), before);
        nothing_is_left(&docker, &response.run_id.unwrap()).await;
    }
    // One that was asked for by name is refused for what it is.
    let overlay = world(&engine, &docker).await.view(Workspace::Overlay).step("test", "true");
    let response = overlay.run().await;
    assert_eq!(response.error_type, Some(ErrorType::ContainerCreation), "{response:#?}");
    assert!(response.error_message.unwrap().contains("verification.workspace"));
}

// VERIFIER-36, VERIFIER-29
#[tokio::test(flavor = "multi_thread")]
async fn downloads_stay_on_the_engine_until_they_are_cleared_and_builds_do_not() {
    let Some(far) = Far::start().await else { return };
    let mut world = far.world().await.named("downloads", "artifacts").file("code", "x").step(
        "fill",
        "mkdir -p $npm_config_cache/_cacache $GOCACHE && echo got > $npm_config_cache/_cacache/x && \
         echo built > $GOCACHE/x",
    );
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:#?}");
    nothing_is_left(&far.docker, &response.run_id.unwrap()).await;
    let kept = async || {
        let mut kept = far.engine.cache_volumes().await.unwrap();
        kept.retain(|cache| cache.repo.starts_with("downloads-"));
        kept
    };
    let cache = kept().await;
    assert_eq!(cache.len(), 1, "{cache:?}");

    world.pipeline.steps[0].command =
        "cat $npm_config_cache/_cacache/x; test ! -e $GOCACHE/x; echo ready; sleep 600".into();
    let gate = world.gate().await;
    let cancel = world.cancel.clone();
    let run = tokio::spawn(async move { gate.run(1, &cancel).await });
    let printed = world.printed("ready").await;
    assert!(printed.ends_with("got\nready\n"), "{printed}");
    let (_, in_use) = far.engine.clear_cache_volumes().await.unwrap();
    assert!(in_use > 0);
    assert_eq!(kept().await, cache, "in use");
    // A second run of the repository meanwhile has a cache of its own.
    world.pipeline.steps[0].command = "ls -A /artifacts/cache".into();
    let response = world.run().await;
    assert_eq!((response.status, response.tail_log.as_deref()), (Status::Pass, Some("")));
    world.cancel.cancel();
    assert!(run.await.unwrap().is_none());

    let (cleared, _) = far.engine.clear_cache_volumes().await.unwrap();
    assert!(cleared.contains(&cache[0]), "{cleared:?}");
    assert_eq!(kept().await, []);
}

// VERIFIER-33, VERIFIER-23, VERIFIER-26
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_this_machine_is_mounted_there_and_a_cancelled_run_leaves_nothing() {
    let Some(far) = Far::start().await else { return };
    let mut world = far
        .world()
        .await
        .file("code", "x")
        .step("wait", "cat $SSL_CERT_FILE $(sed 's/gitdir: //' .git)/HEAD; echo ready; sleep 600");
    let block = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n";
    let bundle = world.outside().join("ca.pem");
    std::fs::write(&bundle, block).unwrap();
    world.pipeline.ca_bundle = Some(bundle);
    let own_part = world.outside().join("main/.git/worktrees/w");
    std::fs::create_dir_all(&own_part).unwrap();
    std::fs::write(own_part.join("HEAD"), "own\n").unwrap();
    std::fs::write(own_part.join("commondir"), "../..\n").unwrap();
    let pointer = world.repo().join(".git");
    std::fs::write(own_part.join("gitdir"), format!("{}\n", pointer.display())).unwrap();
    std::fs::write(&pointer, format!("gitdir: {}\n", own_part.display())).unwrap();

    let gate = world.gate().await;
    let cancel = world.cancel.clone();
    let run = tokio::spawn(async move { gate.run(1, &cancel).await });
    let run_id = world.run_id().await;
    world.printed(&format!("{block}own\nready")).await;
    let name = format!("act-{run_id}");
    let found = far.docker.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap();
    let mounts = found.mounts.unwrap();
    assert!(mounts.len() >= 4, "{mounts:?}");
    for mount in mounts {
        let scaffold = mount.destination.as_deref() == Some("/artifacts");
        let kind = if scaffold { "tmpfs" } else { "volume" };
        assert_eq!(mount.typ, Some(kind.into()), "{mount:?}");
    }
    world.cancel.cancel();
    assert!(run.await.unwrap().is_none());
    nothing_is_left(&far.docker, &run_id).await;
    let left = world.outside().join("artifacts/runs").join(run_id);
    assert!(!left.join("manifest.json").exists());
}
