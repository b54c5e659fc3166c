//! The isolation of a step: files that it cannot reach, change or leave behind.

use std::os::unix::fs::PermissionsExt;

use act_core::verification::{Status, Verifier};
use bollard::query_parameters::InspectContainerOptions;

use crate::world::{SmallDisk, World};

// VERIFIER-6, VERIFIER-8, security line 85
#[tokio::test(flavor = "multi_thread")]
async fn the_inspected_container_is_closed() {
    for network in [false, true] {
        let mut world = World::new()
            .await
            .file(".git/HEAD", "x")
            .step("wait", "grep -E 'Cap|NoNew' /proc/self/status; echo ready; sleep 600");
        if network {
            world = world.with_network();
        }
        let gate = world.gate().await;
        let cancel = world.cancel.clone();
        let run = tokio::spawn(async move { gate.run(1, &cancel).await });
        let run_id = world.run_id().await;
        let status = world.printed("ready").await;
        for held in ["CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(status.contains(&format!("{held}:\t0000000000000000\n")), "{status}");
        }
        assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
        let name = format!("act-{run_id}");
        let found = world.docker.inspect_container(&name, None::<InspectContainerOptions>).await;
        world.cancel.cancel();
        assert!(run.await.unwrap().is_none());

        let found = found.unwrap();
        let host = found.host_config.unwrap();
        let dropped = host.cap_drop.unwrap();
        // Podman names each one that it would have given.
        assert!(dropped == ["ALL"] || world.is_podman() && dropped.len() > 10, "{dropped:?}");
        assert_eq!(host.cap_add.unwrap_or_default(), Vec::<String>::new());
        assert_eq!(host.security_opt, Some(vec!["no-new-privileges".into()]));
        assert_eq!((host.privileged, host.init), (Some(false), Some(true)));
        assert_eq!((host.pids_limit, host.memory), (Some(256), Some(256 << 20)));
        assert_eq!(host.memory_swap, host.memory);
        assert_eq!((host.cpu_period, host.cpu_quota), (Some(100_000), Some(400_000)));
        // Podman has other words for a namespace of its own, and lists its mounts twice.
        let own = |mode: &Option<String>, words: &[&str]| {
            let mode = mode.as_deref().unwrap_or_default();
            assert!(words.contains(&mode) && (mode == words[0] || world.is_podman()), "{mode:?}");
        };
        own(&host.ipc_mode, &["private", "shareable"]);
        own(&host.pid_mode, &["", "private"]);
        own(&host.uts_mode, &["", "private"]);
        assert!(host.devices.unwrap_or_default().is_empty());
        assert!(host.binds.is_none() || world.is_podman());
        assert_eq!(host.log_config.unwrap().typ.as_deref(), Some("none"));
        own(&host.network_mode, if network { &["default", "bridge"] } else { &["none"] });
        let config = found.config.unwrap();
        let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        assert_eq!(config.user, Some(format!("{}:{}", ids.0, ids.1)));
        let labels = config.labels.unwrap();
        assert_eq!(labels["act.run_id"], run_id);
        assert_eq!(labels["act.pid"], std::process::id().to_string());
        for label in ["act.start_time", "act.boot_id", "act.pid_namespace", "act.deadline"] {
            assert!(!labels[label].is_empty(), "{label}");
        }
        let mut mounts: Vec<_> = found
            .mounts
            .unwrap()
            .into_iter()
            .filter(|mount| mount.typ != Some("tmpfs".into()))
            .map(|mount| {
                // The cache is the lower layer of an overlay, so that no step writes into it.
                let cache = mount.destination.as_deref() == Some("/artifacts/cache");
                let expected = if cache { "volume" } else { "bind" };
                assert_eq!(mount.typ.as_deref(), Some(expected));
                assert!(!mount.source.unwrap().ends_with(".sock"));
                format!("{} {}", mount.destination.unwrap(), mount.rw.unwrap())
            })
            .collect();
        mounts.sort();
        assert_eq!(
            mounts,
            [
                "/artifacts/build true",
                "/artifacts/build/tree true",
                "/artifacts/build/tree/.git false",
                "/artifacts/cache true",
                "/artifacts/db true",
                "/artifacts/home true",
                "/artifacts/snapshots true",
                "/artifacts/tmp true",
                "/etc/passwd false",
                "/workspace false",
            ]
        );
    }
}

// VERIFIER-5, security line 87
#[tokio::test(flavor = "multi_thread")]
async fn the_repository_is_read_only_for_every_kind_of_write() {
    let world = World::new().await.file("code", "one").file("dir/x", "x").step(
        "write",
        "cd /workspace && for attempt in 'touch new' 'rm code' 'chmod 777 code' 'mv code b' \
         'mkdir d' 'ln code l' 'rm -r dir' 'truncate -s 0 code'; do \
         if $attempt; then echo \"$attempt WORKED\"; fi; done; (echo two > code) || true; cat code",
    );
    let response = world.run().await;
    let log = response.tail_log.unwrap();
    assert!(!log.contains("WORKED") && log.contains("Read-only file system"), "{log}");
    assert!(log.ends_with("one"), "{log}");
    assert_eq!(std::fs::read(world.repo().join("code")).unwrap(), b"one");
    let manifest = response.manifest.unwrap();
    assert_eq!(manifest["tree_digest"], manifest["tree_digest_after"]);
}

// VERIFIER-5, security line 88
#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_mounted_below_the_repository_is_out_of_reach() {
    let world = World::new()
        .await
        .file("code", "one")
        .file(".gitignore", "disk/\n")
        .step("write", "ls /workspace/disk; touch /workspace/disk/new && echo WORKED; true");
    let Some(_mounted) = SmallDisk::mount(&world.repo().join("disk")) else { return };
    std::fs::write(world.repo().join("disk/inside"), "x").unwrap();
    let response = world.run().await;
    let log = response.tail_log.unwrap();
    assert!(!log.contains("WORKED") && !log.contains("inside"), "{log}");
    assert!(!world.repo().join("disk/new").exists());
}

// VERIFIER-9, security line 90
#[tokio::test(flavor = "multi_thread")]
async fn a_step_sees_the_documented_variables_and_none_of_the_hosts() {
    let world = World::new().await.step("env", "env | cut -d= -f1 | sort; echo $HOME $TMPDIR");
    let response = world.run().await;
    let log = response.tail_log.unwrap();
    let mut lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.pop(), Some("/artifacts/home /artifacts/tmp"));
    let documented = include_str!("../../specs/verifier.md");
    for name in &lines {
        assert!(
            documented.contains(&format!("`{name}`")) || *name == "_",
            "{name} is not documented"
        );
    }
    for name in ["CI", "HOME", "TMPDIR", "TEST_DB_PATH", "SNAPSHOT_DIR", "INSTA_UPDATE", "PATH"] {
        assert!(lines.contains(&name), "{name} is missing");
    }
    // Variables of this process, such as those of cargo.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!lines.contains(&"CARGO_MANIFEST_DIR"));
}

// VERIFIER-7
#[tokio::test(flavor = "multi_thread")]
async fn the_steps_run_as_the_caller_under_a_name() {
    let world = World::new().await.step("who", "whoami; id -u; touch $HOME/made");
    let response = world.run().await;
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(response.tail_log, Some(format!("act\n{uid}\n")));
}

// VERIFIER-6, security line 92
#[tokio::test(flavor = "multi_thread")]
async fn a_step_cannot_redirect_what_the_host_writes() {
    let world = World::new().await;
    let target = world.outside().join("target");
    std::fs::create_dir(&target).unwrap();
    let trick = format!(
        "ls /artifacts; rm -rf /artifacts/logs; ln -s {0} /artifacts/logs; echo {{}} > \
         /artifacts/manifest.json; rm -rf /artifacts/tmp /artifacts/home; ln -s {0} /artifacts/build/x",
        target.display()
    );
    let world = world.step("trick", &trick).step("after", "echo still here");
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    let log = world.log(&response, "step-01-trick.log");
    assert!(log.starts_with(b"build\ncache\ndb\nhome\nsnapshots\ntmp\n"), "no logs, no manifest");
    assert_eq!(world.log(&response, "step-02-after.log"), b"still here\n");
    let manifest = std::fs::read(world.run_dir(&response).join("manifest.json")).unwrap();
    assert!(manifest.len() > 100);
}

// VERIFIER-17, security line 95
#[tokio::test(flavor = "multi_thread")]
async fn nothing_dangerous_survives_in_the_runs_directory() {
    let world = World::new().await.step(
        "leave",
        "cp /bin/busybox ../su; chmod 6755 ../su; mkdir -p ../a/b; touch \"../a/b/new\nline\"; \
         chmod 000 ../a; chmod 000 .; true",
    );
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    assert_eq!(response.warnings.len(), 1);
    assert_eq!(response.warnings[0].code.as_str(), "artifacts_changed");
    let build = world.run_dir(&response).join("build");
    assert_eq!(std::fs::metadata(build.join("su")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert!(build.join("a/b/new\nline").exists());
    assert!(!build.join("tree").exists());
}
