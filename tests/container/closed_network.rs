//! Addresses that steps with a network do not reach.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use act_core::verification::Verifier;
use act_core::verification::{ErrorType, Status};
use act_verifier::{Engine, unreachable_addresses};

use crate::proxy::{Proxy, Refusal};
use crate::world::{VerifyResponse, World};

/// A link-local address on the loopback device of this machine, removed when dropped. Containers reach it through their
/// gateway, as they reach the metadata service of a cloud.
struct Metadata;

const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 77);

impl Metadata {
    /// Returns `None`, after a report that the test is skipped, where addresses cannot be added.
    fn add() -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !cfg!(target_os = "linux") {
            act_core::testing::skip("adding an address to the loopback device needs root");
            return None;
        }
        // The address of a killed test is still there.
        let _ = ip("del");
        assert!(ip("add").is_ok_and(|status| status.success()));
        Some(Self)
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        let _ = ip("del");
    }
}

fn ip(what: &str) -> std::io::Result<std::process::ExitStatus> {
    Command::new("ip").args(["addr", what, &format!("{METADATA}/32"), "dev", "lo"]).status()
}

/// The address of this machine in the network that the engine gives, if the engine runs here and beside the tests.
async fn gateway(world: &World) -> Option<Ipv4Addr> {
    let network = world.docker.inspect_network("bridge", None).await.ok()?;
    let config = network.ipam?.config?.into_iter().next()?;
    let first = config.gateway.or_else(|| {
        let subnet = config.subnet?.split('/').next()?.parse::<Ipv4Addr>().ok()?;
        Some(Ipv4Addr::from(u32::from(subnet) + 1).to_string())
    });
    let address = first?.parse().ok()?;
    // An engine in a network namespace of its own has gateways that this machine does not have.
    TcpListener::bind((address, 0)).is_ok().then_some(address)
}

/// A listener that closes each connection at once and counts them.
struct Listener {
    address: std::net::SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Listener {
    fn at(address: Ipv4Addr) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        // The thread ends with the process of the tests.
        std::thread::spawn(move || {
            for _ in listener.incoming() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { address, connections }
    }
}

/// A step that connects to an address and prints what came of it.
fn connecting(name: &str, address: std::net::SocketAddr) -> String {
    format!(
        "if nc -w 5 {} {} </dev/null 2>/tmp/why; then echo {name} open; else echo \"{name} $(cat /tmp/why)\"; fi",
        address.ip(),
        address.port()
    )
}

// VERIFIER-70, security line 320
#[tokio::test(flavor = "multi_thread")]
async fn steps_with_a_network_do_not_reach_link_local_addresses() {
    let world = World::new().await;
    let Some(gateway) = gateway(&world).await else {
        act_core::testing::skip("the engine has no network with an address of this machine");
        return;
    };
    let Some(_address) = Metadata::add() else { return };
    let (metadata, other) = (Listener::at(METADATA), Listener::at(gateway));
    let look = format!(
        "{}; {}; ip rule del pref 2 2>&1; ip -6 rule",
        connecting("metadata", metadata.address),
        connecting("gateway", other.address)
    );
    let mut world = world.step("first", &look).step("apart", "true").step("again", &look);
    // The engine connects the container again for the last step.
    for at in [0, 2] {
        world.pipeline.steps[at].network = true;
    }
    let response = world.run().await;
    let log = response.tail_log.as_deref().unwrap_or_default();
    assert_eq!(response.status, Status::Pass, "{response:?}");
    assert_eq!(log.matches("gateway open\n").count(), 2, "{log}");
    let refused = log.lines().filter(|line| line.starts_with("metadata "));
    let refused: Vec<_> = refused.collect();
    assert!(
        refused.len() == 2 && refused.iter().all(|line| line.contains("Network is unreachable")),
        "{log}"
    );
    assert!(log.contains("Operation not permitted"), "a step removes no rule: {log}");
    assert!(log.contains("to fe80::/10") && log.contains("to fd00:ec2::254"), "{log}");
    assert_eq!(metadata.connections.load(Ordering::Relaxed), 0, "nobody connected");
    let manifest = response.manifest.unwrap();
    let closed = unreachable_addresses("amd64", true).unwrap();
    assert_eq!(manifest["network_closed"], serde_json::json!(closed));
    assert_eq!(response.warnings, vec![]);
}

// VERIFIER-70, security line 322
#[tokio::test(flavor = "multi_thread")]
async fn private_addresses_are_reachable_until_a_person_closes_them() {
    let world = World::new().await;
    let Some(gateway) = gateway(&world).await else {
        act_core::testing::skip("the engine has no network with an address of this machine");
        return;
    };
    if !gateway.is_private() {
        act_core::testing::skip("the engine's network has no private addresses");
        return;
    }
    let look = connecting("gateway", Listener::at(gateway).address);
    let mut world = world.step("look", &look).with_network();
    let open = world.run().await;
    assert_eq!(open.tail_log.as_deref(), Some("gateway open\n"), "{open:?}");
    world.pipeline.private_network = false;
    let closed = world.run().await;
    let log = closed.tail_log.as_deref().unwrap_or_default();
    assert!(log.contains("Network is unreachable"), "{closed:?}");
    assert_eq!(closed.status, Status::Pass, "{closed:?}");
    let manifest = closed.manifest.unwrap();
    assert!(manifest["network_closed"].as_array().unwrap().contains(&"172.16.0.0/12".into()));
}

// VERIFIER-70, security line 323
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_cannot_close_addresses_is_named_and_refused_where_private_ones_are_closed()
{
    let mut world = World::new().await.step("test", "true").with_network();
    let refusal = Refusal { path: "-network", end: "/start", status: 500 };
    for private_network in [true, false] {
        world.pipeline.private_network = private_network;
        let place = tempfile::tempdir().unwrap();
        let (proxy, asked) = Proxy::refusing(place.path(), world.engine.host(), refusal, |_| true);
        let engine = Engine::connect_to(&proxy.host()).await.unwrap();
        let gate = world.gate_with(engine, world.gate().await.image);
        let response = VerifyResponse::from(gate.run(1, &world.cancel).await.unwrap());
        proxy.cut();
        let asked = asked.lock().unwrap().clone();
        let helpers = asked.iter().filter(|line| line.contains("-network/start")).count();
        assert_eq!(helpers, 1, "{asked:#?}");
        assert_eq!(world.containers_of(response.run_id.as_ref().unwrap()).await, 0);
        let manifest = response.manifest.as_ref().unwrap();
        if private_network {
            assert_eq!(response.status, Status::Pass, "{response:?}");
            assert_eq!(World::warned(&response), ["link_local_reachable"]);
            assert_eq!(manifest["network_closed"], serde_json::json!([]));
            assert!(response.warnings[0].message.contains("the engine is not well"));
        } else {
            assert_eq!(response.error_type, Some(ErrorType::ContainerCreation), "{response:?}");
            let message = response.error_message.as_ref().unwrap();
            assert!(message.contains("network_private"), "{message}");
            assert_eq!(manifest["commands_executed"], serde_json::json!([]));
        }
    }
}

// VERIFIER-70
#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_network_needs_no_helper() {
    let world = World::new().await.step("test", "true");
    let response = world.run().await;
    assert!(response.manifest.unwrap().get("network_closed").is_none());
    let helpers = world
        .audited()
        .into_iter()
        .filter(|line| line["object"].as_str().is_some_and(|object| object.ends_with("-network")));
    assert_eq!(helpers.count(), 0);
}
