//! The walls of a container, as its own processes see them.

use act_verifier::driver::{Ability, ContainerRequest, Mount, MountSource, Network, StepUser};

use crate::place::{Sandbox, can, engine, look_for_network, mounted, new_volume, outside, unique};

// VERIFIER-7, VERIFIER-8
#[tokio::test(flavor = "multi_thread")]
async fn a_process_has_the_user_that_was_asked_for_and_no_capability() {
    let sandbox = Sandbox::new().await;
    let seen =
        sandbox.run("id -u; id -g; grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status").await.text();
    assert!(seen.starts_with("4242\n4343\n"), "{seen}");
    for held in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(seen.contains(&format!("{held}:\t0000000000000000\n")), "{seen}");
    }
    assert!(seen.contains("NoNewPrivs:\t1\n") && seen.contains("Seccomp:\t2\n"), "{seen}");
}

// VERIFIER-7
#[tokio::test(flavor = "multi_thread")]
async fn root_has_five_capabilities_and_gains_none() {
    if !can(Ability::Root).await {
        return;
    }
    let engine = engine().await;
    let request = ContainerRequest { user: StepUser::Root, ..Sandbox::request(&engine).await };
    let sandbox = Sandbox::start(&engine, request).await;
    let seen =
        sandbox.run("id -u; grep -E '^(CapEff|CapBnd|NoNew)' /proc/self/status").await.text();
    // CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, SETGID 6, SETUID 7.
    assert_eq!(seen, "0\nCapEff:\t00000000000000cb\nCapBnd:\t00000000000000cb\nNoNewPrivs:\t1\n");
    assert_ne!(sandbox.run("mount -t tmpfs none /tmp").await.code, 0);
    assert_ne!(sandbox.run("mknod /tmp/disk b 8 0").await.code, 0);
}

// VERIFIER-8
#[tokio::test(flavor = "multi_thread")]
async fn a_container_sees_its_own_processes_its_own_name_and_no_socket_of_the_engine() {
    let sandbox = Sandbox::new().await;
    assert_eq!(sandbox.run("hostname").await.text(), "act\n");
    let processes = sandbox.run("ls /proc | grep -c '^[0-9]'").await.text();
    assert!(processes.trim().parse::<u32>().unwrap() < 12, "{processes}");
    assert_eq!(sandbox.run("find / -xdev -type s 2>/dev/null").await.text(), "");
    // The usual devices, and no disk.
    assert_eq!(sandbox.run("find /dev -type b").await.text(), "");
}

// VERIFIER-8
#[tokio::test(flavor = "multi_thread")]
async fn orphans_among_the_processes_are_reaped() {
    let sandbox = Sandbox::new().await;
    assert_eq!(
        sandbox.run("for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 &) ; done; sleep 1").await.code,
        0
    );
    let zombies = sandbox.run("grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l").await;
    assert_eq!(zombies.text().trim(), "0");
}

// VERIFIER-8
#[tokio::test(flavor = "multi_thread")]
async fn processes_beyond_the_limit_are_refused() {
    let sandbox = Sandbox::new().await;
    let script = "i=0; while [ $i -lt 200 ]; do sleep 20 & i=$((i+1)); done; echo all";
    let ended = sandbox.run(script).await;
    assert!(!ended.text().contains("all\n"), "{}", ended.text());
}

// VERIFIER-8, VERIFIER-21
#[tokio::test(flavor = "multi_thread")]
async fn memory_beyond_the_limit_kills_a_process_and_swap_adds_none() {
    let sandbox = Sandbox::new().await;
    // A line without an end is held in memory. The kernel chooses the process that it kills; on a busy machine it may be PID 1.
    let ended = sandbox.run("head -c 300000000 /dev/zero | tail -n 1 | wc -c").await;
    assert!(!ended.text().contains("300000000"), "{}", ended.text());
}

// VERIFIER-10
#[tokio::test(flavor = "multi_thread")]
async fn a_container_without_network_has_loopback_alone() {
    let sandbox = Sandbox::new().await;
    if let Some(outside) = outside() {
        // The engine closes the interface with walls. The kubelet of the node answers at the gateway.
        assert_eq!(sandbox.run(&look_for_network(Some(outside))).await.text(), "0\n");
        let gateway = "$(route -n | awk '$1 == \"0.0.0.0\" { print $2 }')";
        let kubelet = format!("nc -w 2 {gateway} 10250 </dev/null && echo reached");
        assert!(!sandbox.run(&kubelet).await.text().contains("reached\n"));
        return;
    }
    assert_eq!(sandbox.run("ls /sys/class/net").await.text(), "lo\n");
    // Docker names the network that a container without one is in.
    let routes = sandbox.run("tail -n +2 /proc/net/route | wc -l").await;
    assert_eq!(routes.text().trim(), "0");
}

// VERIFIER-10
#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_taken_away_and_given_back() {
    let engine = engine().await;
    let network = Network::On { icmp: true };
    let request = ContainerRequest { network, ..Sandbox::request(&engine).await };
    let sandbox = Sandbox::start(&engine, request).await;
    let driver = sandbox.driver();
    let look = look_for_network(outside());
    let seen = async || sandbox.run(&look).await.text();
    assert_eq!(seen().await, "1\n");
    for _ in 0..2 {
        let networks = driver.networks(&sandbox.name).await.unwrap();
        assert_eq!(networks.len(), 1);
        driver.disconnect(&sandbox.name, &networks[0]).await.unwrap();
        assert_eq!(seen().await, "0\n");
        driver.connect(&sandbox.name, &networks[0]).await.unwrap();
        assert_eq!(seen().await, "1\n");
    }
}

// VERIFIER-71
#[tokio::test(flavor = "multi_thread")]
async fn no_process_opens_a_socket_for_icmp_where_that_is_closed() {
    let engine = engine().await;
    let network = Network::On { icmp: false };
    let request = ContainerRequest { network, ..Sandbox::request(&engine).await };
    let sandbox = Sandbox::start(&engine, request).await;
    assert_eq!(sandbox.run("cat /proc/sys/net/ipv4/ping_group_range").await.text(), "1\t0\n");
    assert_ne!(sandbox.run("ping -c 1 -w 2 127.0.0.1").await.code, 0);
}

// VERIFIER-4, VERIFIER-6
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_mount_takes_no_write_and_a_mount_point_cannot_be_moved() {
    let engine = engine().await;
    let volume = unique("walls");
    let request = ContainerRequest {
        volumes: vec![new_volume(&volume)],
        mounts: vec![
            Mount {
                target: "/artifacts".to_owned(),
                read_only: false,
                source: MountSource::Memory { bytes: 64 * 1024, mode: 0o755 },
            },
            mounted(&volume, "/artifacts/build", false),
            mounted(&volume, "/workspace", true),
        ],
        user: StepUser::Root,
        ..Sandbox::request(&engine).await
    };
    let sandbox = Sandbox::start(&engine, request).await;
    assert_eq!(
        sandbox.run("echo one > /artifacts/build/file; cat /workspace/file").await.text(),
        "one\n"
    );
    let script = "for attempt in 'touch /workspace/new' 'rm /workspace/file' 'chmod 777 /workspace/file' \
                  'mv /artifacts/build /artifacts/old' 'rmdir /artifacts/build'; do \
                  if $attempt 2>/dev/null; then echo \"$attempt WORKED\"; fi; done; \
                  mount -o remount,rw /workspace 2>/dev/null && echo REMOUNTED; \
                  head -c 200000 /dev/zero > /artifacts/fill 2>/dev/null && echo FILLED; true";
    assert_eq!(sandbox.run(script).await.text(), "");
}
