//! An engine of the tests' own, which may be killed: in a network namespace of its own, so that the machine's
//! engine and its networks are left alone. It may also be given other files than ours, as if it were on another
//! machine.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use act_core::event::Events;
use act_core::verification::{ErrorType, Status, Verifier};
use act_verifier::Engine;
use bollard::Docker;
use rustix::process::{Pid, Signal, kill_process};

use crate::image;
use crate::world::{VerifyResponse, World};

/// How long a starting or stopping engine may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Address of the one engine with certificates, which have to name it.
const TLS_NUMBER: u32 = 59;

/// Further arguments of an engine of our own.
#[derive(Default)]
pub(crate) struct Elsewhere {
    /// Directories that are empty for the engine.
    pub(crate) hidden: Vec<PathBuf>,
    /// `ca.pem`, `cert.pem` and `key.pem` of a server that takes clients of the same authority alone. Then it
    /// listens at `OwnEngine::address` as well.
    pub(crate) certificates: Option<PathBuf>,
}

pub(crate) struct OwnEngine {
    place: tempfile::TempDir,
    namespace: String,
    number: u32,
    elsewhere: Elsewhere,
    daemon: Child,
}

impl OwnEngine {
    /// Returns `None`, after a report that the test is skipped, where there can be none.
    pub(crate) fn start(elsewhere: Elsewhere) -> Option<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let missing = |what: &str| {
            act_core::testing::skip(format_args!("an engine of the tests' own needs {what}"));
            None
        };
        if !rustix::process::geteuid().is_root() {
            return missing("root");
        }
        for tool in ["dockerd", "ip", "nsenter", "unshare"] {
            if Command::new(tool).arg("--help").output().is_err() {
                return missing(tool);
            }
        }
        let number = match elsewhere.certificates {
            Some(_) => TLS_NUMBER,
            None => STARTED.fetch_add(1, Ordering::Relaxed),
        };
        let namespace = format!("act-test-{}-{number}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &namespace]).output().unwrap();
        if !made.status.success() {
            return missing("network namespaces");
        }
        // Not below what is hidden.
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        Self::connect_networks(&namespace, number);
        let daemon = Self::daemon(place.path(), &namespace, number, &elsewhere);
        let engine = Self { place, namespace, number, elsewhere, daemon };
        engine.wait_until_it_answers();
        Some(engine)
    }

    /// A network link between the namespace and ours, which ends with the namespace.
    fn connect_networks(namespace: &str, number: u32) {
        let ip = |arguments: &[&str]| {
            assert!(
                Command::new("ip").args(arguments).status().unwrap().success(),
                "{arguments:?}"
            );
        };
        let ours = format!("act{:x}x{number}", std::process::id());
        let (here, there) = Self::addresses(number);
        ip(&["link", "add", &ours, "type", "veth", "peer", "name", "act0", "netns", namespace]);
        ip(&["addr", "add", &format!("{here}/30"), "dev", &ours]);
        ip(&["link", "set", &ours, "up"]);
        ip(&["-n", namespace, "link", "set", "lo", "up"]);
        ip(&["-n", namespace, "addr", "add", &format!("{there}/30"), "dev", "act0"]);
        ip(&["-n", namespace, "link", "set", "act0", "up"]);
    }

    /// Addresses of both ends, in a network that several test processes are unlikely to share.
    fn addresses(number: u32) -> (String, String) {
        let (block, net) = (std::process::id() % 250 + 1, number % 60 * 4);
        (format!("10.213.{block}.{}", net + 1), format!("10.213.{block}.{}", net + 2))
    }

    fn daemon(place: &Path, namespace: &str, number: u32, elsewhere: &Elsewhere) -> Child {
        let at = |name: &str| place.join(name).display().to_string();
        let log = std::fs::File::create(place.join("log")).unwrap();
        // Not `ip netns exec`: it mounts a new /sys, and the cgroups would be out of sight.
        let mut daemon = Command::new("nsenter");
        daemon
            .arg(format!("--net=/run/netns/{namespace}"))
            .args(["unshare", "--mount", "/bin/sh", "-ec"])
            .arg("while [ \"$1\" != -- ]; do mount -t tmpfs tmpfs \"$1\"; shift; done; shift; exec dockerd \"$@\"")
            .arg("sh")
            .args(&elsewhere.hidden)
            .args(["--", "--host", &format!("unix://{}", at("docker.sock"))])
            .args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")])
            .args([
                "--containerd-namespace",
                "act-test",
                "--containerd-plugins-namespace",
                "act-tests",
            ]);
        if let Some(certificates) = &elsewhere.certificates {
            let pem = |name: &str| certificates.join(name).display().to_string();
            let (_, address) = Self::addresses(number);
            daemon
                .args(["--host", &format!("tcp://{address}:2376"), "--tlsverify"])
                .args(["--tlscacert", &pem("ca.pem"), "--tlscert", &pem("cert.pem")])
                .args(["--tlskey", &pem("key.pem")]);
        }
        daemon.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    /// Certificates of the engine.
    pub(crate) fn tls_address() -> String {
        Self::addresses(TLS_NUMBER).1
    }

    /// Address at which it listens for clients with certificates.
    pub(crate) fn address(&self) -> String {
        format!("tcp://{}:2376", Self::addresses(self.number).1)
    }

    /// A client for the tests, past everything that is under test, with the images in place.
    pub(crate) async fn docker(&self) -> Docker {
        let docker = Docker::connect_with_host(&self.host()).unwrap();
        let docker = docker.negotiate_version().await.unwrap();
        image::import_into(&docker).await;
        docker
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("docker.sock")
    }

    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn wait_until_it_answers(&self) {
        let began = Instant::now();
        while !self.answers() {
            let log = std::fs::read_to_string(self.place.path().join("log")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "no engine of our own:\n{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A socket that takes connections is not yet an engine.
    fn answers(&self) -> bool {
        let Ok(mut stream) = std::os::unix::net::UnixStream::connect(self.socket()) else {
            return false;
        };
        let mut answer = String::new();
        stream.write_all(b"GET /_ping HTTP/1.0\r\n\r\n").is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.contains("200 OK")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.daemon), signal).unwrap();
    }

    fn restart(&mut self) {
        self.daemon.wait().unwrap();
        // A killed engine takes its containerd along, and nobody may have buried that one yet. Its own number may be
        // another's by now.
        let containerd = self.place.path().join("exec/containerd/containerd.pid");
        let pid = std::fs::read_to_string(&containerd).ok().and_then(|pid| pid.trim().parse().ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        for left in [containerd, self.place.path().join("pid")] {
            let _ = std::fs::remove_file(left);
        }
        self.daemon =
            Self::daemon(self.place.path(), &self.namespace, self.number, &self.elsewhere);
        self.wait_until_it_answers();
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.daemon), Signal::TERM);
        let _ = self.daemon.wait();
        // A bind of the directory on itself.
        let _ = Command::new("umount").arg(self.place.path().join("data")).output();
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).output();
    }
}

// VERIFIER-19, security line 103: an engine that is killed and one that is stopped, in the middle of a step.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_killed_or_stopped_in_mid_step_is_docker_unavailable() {
    let Some(mut own) = OwnEngine::start(Elsewhere::default()) else { return };
    // Some 20 ms, where a call of the engine would be given up by itself after 20 s. One that is asked to stop lives on
    // for as long as it gives its containers to end: 10 to 15 s.
    for (signal, longest) in [(Signal::KILL, 10), (Signal::TERM, 25)] {
        own.docker().await;
        let mut world =
            World::new().await.step("wait", "echo ready; sleep 600").step("later", "true");
        let engine = Engine::connect_to(&own.host()).await.unwrap();
        let image = engine.ensure_image(image::BUSYBOX, &Events::silent(), &world.cancel).await;
        let gate = world.gate_with(engine, image.unwrap().unwrap());
        let cancel = world.cancel.clone();
        let run = tokio::spawn(async move { gate.run(1, &cancel).await });
        let run_id = world.run_id().await;
        world.printed("ready").await;
        let began = Instant::now();
        own.signal(signal);
        let response = VerifyResponse::from(run.await.unwrap().unwrap());
        assert!(began.elapsed() < Duration::from_secs(longest), "{:?}", began.elapsed());
        assert_eq!(response.status, Status::InfraError, "{response:?}");
        assert_eq!(response.error_type, Some(ErrorType::DockerUnavailable), "{response:?}");
        assert_eq!(response.tail_log.as_deref(), Some("ready\n"));
        let manifest = response.manifest.unwrap();
        assert_eq!(manifest["commands_executed"].as_array().unwrap().len(), 1);
        own.restart();
        // Back again, it is used as if nothing had been.
        let engine = Engine::connect_to(&own.host()).await.unwrap();
        let docker = own.docker().await;
        crate::world::remove_container(&docker, &format!("act-{run_id}")).await;
        world.pipeline.steps[0].command = "true".into();
        let image = engine.ensure_image(image::BUSYBOX, &Events::silent(), &world.cancel).await;
        let gate = world.gate_with(engine, image.unwrap().unwrap());
        let response = VerifyResponse::from(gate.run(1, &world.cancel).await.unwrap());
        assert_eq!(response.status, Status::Pass, "{response:?}");
    }
}
