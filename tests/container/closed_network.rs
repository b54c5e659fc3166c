//! Addresses that steps with a network do not reach.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use act_core::verification::Verifier;
use act_core::verification::{ErrorType, Status};
use act_verifier::{Engine, unreachable_addresses};
use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{CreateContainerOptions, LogsOptions, RemoveContainerOptions};
use futures_util::StreamExt as _;

use crate::proxy::{Proxy, Refusal};
use crate::world::{VerifyResponse, World};

/// A link-local address on the loopback device of the engine's machine, removed when dropped. Containers reach it through
/// their gateway, as they reach the metadata service of a cloud.
const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 77);

/// The address on the machine of these tests.
struct Metadata;

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

/// The address that the machine of the engine has in the network that the engine gives.
async fn gateway(world: &World) -> Option<Ipv4Addr> {
    let name = if world.is_podman() { "podman" } else { "bridge" };
    let network = world.docker.inspect_network(name, None).await.ok()?;
    let config = network.ipam?.config?.into_iter().next()?;
    let first = config.gateway.or_else(|| {
        let subnet = config.subnet?.split('/').next()?.parse::<Ipv4Addr>().ok()?;
        Some(Ipv4Addr::from(u32::from(subnet) + 1).to_string())
    });
    first?.parse().ok()
}

/// A listener that closes each connection at once and counts them.
struct Listener {
    address: SocketAddr,
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

/// Two listeners on the machine of the engine: at the link-local address and at the gateway.
struct Outside {
    metadata: SocketAddr,
    gateway: SocketAddr,
    place: Place,
}

enum Place {
    /// The tests are on the engine's machine.
    Here { metadata: Listener, gateway: Listener, _address: Metadata },
    /// The engine has a network namespace of its own, so a container with that namespace listens.
    Container { docker: Docker, name: String },
}

impl Outside {
    /// Returns `None`, after a report that the test is skipped, where there can be no listeners.
    async fn of(world: &World) -> Option<Self> {
        let Some(address) = gateway(world).await else {
            act_core::testing::skip("the engine's network has no gateway");
            return None;
        };
        if TcpListener::bind((address, 0)).is_err() {
            return Some(Self::in_container(world, address).await);
        }
        let _address = Metadata::add()?;
        let (metadata, gateway) = (Listener::at(METADATA), Listener::at(address));
        let (at_metadata, at_gateway) = (metadata.address, gateway.address);
        let place = Place::Here { metadata, gateway, _address };
        Some(Self { metadata: at_metadata, gateway: at_gateway, place })
    }

    /// Starts a container in the network namespace of the engine. It listens at both addresses, at a port for each, and its
    /// log has a line for each connection.
    async fn in_container(world: &World, gateway: Ipv4Addr) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap() * 4;
        let first = first + 2 * u16::try_from(number).unwrap();
        let listen = format!(
            "ip addr add {METADATA}/32 dev lo 2>/dev/null
             nc -ll -p {first} -e sh -c 'echo metadata >&2' &
             nc -ll -p {} -e sh -c 'echo gateway >&2' &
             until netstat -ltn | grep -q :{first}; do sleep 0.1; done
             until netstat -ltn | grep -q :{}; do sleep 0.1; done
             echo ready; trap exit TERM; wait",
            first + 1,
            first + 1
        );
        let host = HostConfig {
            network_mode: Some("host".to_owned()),
            cap_add: Some(vec!["NET_ADMIN".to_owned()]),
            ..HostConfig::default()
        };
        let body = ContainerCreateBody {
            image: Some(crate::image::BUSYBOX.to_owned()),
            user: Some("0:0".to_owned()),
            cmd: Some(["sh", "-c", &listen].map(str::to_owned).to_vec()),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        };
        let name = format!("act-test-outside-{}-{number}", std::process::id());
        let docker = world.docker.clone();
        let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        docker.create_container(Some(options), body).await.unwrap();
        docker.start_container(&name, None).await.unwrap();
        let place = Place::Container { docker, name };
        let at = |address, port| SocketAddr::from((address, port));
        let outside =
            Self { metadata: at(METADATA, first), gateway: at(gateway, first + 1), place };
        let began = std::time::Instant::now();
        while !outside.log().await.contains("ready\n") {
            assert!(began.elapsed().as_secs() < 60, "no listener: {}", outside.log().await);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        outside
    }

    /// The log of the container, or nothing where there is none.
    async fn log(&self) -> String {
        let Place::Container { docker, name } = &self.place else { return String::new() };
        let options = LogsOptions { stdout: true, stderr: true, ..Default::default() };
        let mut lines = docker.logs(name, Some(options));
        let mut log = String::new();
        while let Some(line) = lines.next().await {
            log.push_str(&line.unwrap().to_string());
        }
        log
    }

    /// The numbers of connections to the link-local address and to the gateway.
    async fn connections(&self) -> (usize, usize) {
        match &self.place {
            Place::Here { metadata, gateway, .. } => (
                metadata.connections.load(Ordering::Relaxed),
                gateway.connections.load(Ordering::Relaxed),
            ),
            Place::Container { .. } => {
                let log = self.log().await;
                (log.matches("metadata\n").count(), log.matches("gateway\n").count())
            }
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let Place::Container { docker, name } = &self.place else { return };
        let removed = async {
            let options = RemoveContainerOptions { force: true, v: true, link: false };
            let _ = docker.remove_container(name, Some(options)).await;
        };
        // The test has several threads, so one of them may wait here.
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(removed));
    }
}

/// A step that connects to an address and prints what came of it.
fn connecting(name: &str, address: SocketAddr) -> String {
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
    let Some(outside) = Outside::of(&world).await else { return };
    let look = format!(
        "{}; {}; ip rule del pref 2 2>&1; ip -6 rule",
        connecting("metadata", outside.metadata),
        connecting("gateway", outside.gateway)
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
    assert_eq!(outside.connections().await, (0, 2), "nobody connected to the link-local address");
    let manifest = response.manifest.unwrap();
    let closed = unreachable_addresses("amd64", true).unwrap();
    assert_eq!(manifest["network_closed"], serde_json::json!(closed));
    assert_eq!(response.warnings, vec![]);
}

// VERIFIER-70, security line 322
#[tokio::test(flavor = "multi_thread")]
async fn private_addresses_are_reachable_until_a_person_closes_them() {
    let world = World::new().await;
    let Some(outside) = Outside::of(&world).await else { return };
    if !matches!(outside.gateway.ip(), IpAddr::V4(address) if address.is_private()) {
        act_core::testing::skip("the engine's network has no private addresses");
        return;
    }
    let look = connecting("gateway", outside.gateway);
    let mut world = world.step("look", &look).with_network();
    let open = world.run().await;
    assert_eq!(open.tail_log.as_deref(), Some("gateway open\n"), "{open:?}");
    world.pipeline.private_network = false;
    let closed = world.run().await;
    let log = closed.tail_log.as_deref().unwrap_or_default();
    assert!(log.contains("Network is unreachable"), "{closed:?}");
    assert_eq!(closed.status, Status::Pass, "{closed:?}");
    assert_eq!(outside.connections().await, (0, 1));
    let manifest = closed.manifest.unwrap();
    assert!(manifest["network_closed"].as_array().unwrap().contains(&"172.16.0.0/12".into()));
}

/// Asks for an echo by ICMP, as `ping` does without a capability, and prints what came of it.
const PING: &str = r#"
import socket, struct, sys
name, address = sys.argv[1:]
packet = struct.pack("!BBHHH", 8, 0, 0, 0, 1)
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as echo:
        echo.settimeout(5)
        echo.sendto(packet, (address, 0))
        echo.recvfrom(100)
        print(name, "answered")
except OSError as error:
    print(name, error)
"#;

// VERIFIER-70, VERIFIER-71, security line 329
#[tokio::test(flavor = "multi_thread")]
async fn icmp_reaches_no_closed_address() {
    let Some(python) = crate::stock_projects::image("python") else { return };
    let world = World::new().await.file("ping.py", PING);
    let Some(outside) = Outside::of(&world).await else { return };
    let ping = |name: &str, at: SocketAddr| format!("python3 ping.py {name} {}", at.ip());
    let look =
        format!("{}; {}", ping("metadata", outside.metadata), ping("gateway", outside.gateway));
    let mut world = world.step("look", &look).step("apart", "true").step("again", &look);
    for at in [0, 2] {
        world.pipeline.steps[at].network = true;
    }
    world.pipeline.image = python;
    for private_network in [true, false] {
        world.pipeline.private_network = private_network;
        let response = world.run().await;
        assert_eq!(response.status, Status::Pass, "{response:?}");
        let log = response.tail_log.as_deref().unwrap_or_default();
        let count = |line: &str| log.lines().filter(|found| *found == line).count();
        let forbidden = "[Errno 13] Permission denied";
        let expected = match private_network {
            // Podman lets no user but root open the socket anyway.
            true if world.is_podman() => [("metadata", forbidden), ("gateway", forbidden)],
            true => [("metadata", "[Errno 101] Network is unreachable"), ("gateway", "answered")],
            false => [("metadata", forbidden), ("gateway", forbidden)],
        };
        for (name, outcome) in expected {
            assert_eq!(count(&format!("{name} {outcome}")), 2, "{private_network}: {log}");
        }
    }
}

/// Sends to an address by UDP, from and to ports at the ends of all ranges, and prints for each pair of ports what came of it.
/// Podman lets only root send from ports below 1024.
/// The kernel looks for the route before anything is sent, so a closed address needs no listener to show itself.
const SEND: &str = r#"
import socket, sys
address = sys.argv[1]
for source in [0, 1024, 32768, 65535]:
    for port in [1, 52, 53, 54, 32767, 32768, 65534, 65535]:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind(("", source))
                sender.sendto(b"x", (address, port))
                print(source, port, "sent")
        except OSError as error:
            print(source, port, error.strerror)
"#;

// VERIFIER-71, security line 330
#[tokio::test(flavor = "multi_thread")]
async fn udp_reaches_no_closed_port_also_when_the_network_was_taken_and_given_back() {
    let Some(python) = crate::stock_projects::image("python") else { return };
    let world = World::new().await.file("send.py", SEND);
    let Some(gateway) = gateway(&world).await.filter(Ipv4Addr::is_private) else {
        act_core::testing::skip("the engine's network has no private addresses");
        return;
    };
    let look = format!("python3 send.py {gateway}");
    let mut world = world
        .step("first", &look)
        .step("apart", "! python3 send.py 10.1.1.1 | grep sent")
        .step("again", &look);
    for at in [0, 2] {
        world.pipeline.steps[at].network = true;
    }
    world.pipeline.image = python;
    world.pipeline.private_network = false;
    let response = world.run().await;
    assert_eq!(response.status, Status::Pass, "{response:?}");
    let log = response.tail_log.as_deref().unwrap_or_default();
    let sent = log.lines().filter(|line| line.ends_with(" sent"));
    let sent: Vec<_> = sent.filter(|line| !line.contains(" 53 ")).collect();
    // The kernel knows masks of ports since 6.15.
    let version = world.docker.version().await.unwrap().kernel_version.unwrap_or_default();
    let numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let open: &[&str] = match numbers.collect::<Vec<_>>()[..] {
        [major, minor, ..] if (major, minor) < (6, 15) => &["65535 65535 sent"; 2],
        _ => &[],
    };
    assert_eq!(sent, open, "{log}");
    assert_eq!(log.matches(" 53 sent").count(), 8, "name servers stay reachable: {log}");
    assert_eq!(log.matches("Network is unreachable").count(), 2 * 4 * 7 - open.len(), "{log}");
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
