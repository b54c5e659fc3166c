//! An engine of the tests' own, which may be killed: in a network namespace of its own, so that the machine's
//! engine and its networks are left alone.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use act::event::Events;
use act::verifier::{Engine, ErrorType, Status, Verifier};
use bollard::Docker;
use rustix::process::{Pid, Signal, kill_process};

use crate::image;
use crate::world::World;

/// How long a starting or stopping engine may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct OwnEngine {
    place: tempfile::TempDir,
    namespace: String,
    daemon: Child,
}

impl OwnEngine {
    /// None, said aloud, where there can be none.
    fn start() -> Option<Self> {
        let missing = |what: &str| {
            eprintln!("skipped: an engine of the tests' own needs {what}");
            None
        };
        if !rustix::process::geteuid().is_root() {
            return missing("root");
        }
        for tool in ["dockerd", "ip", "nsenter"] {
            if Command::new(tool).arg("--help").output().is_err() {
                return missing(tool);
            }
        }
        let namespace = format!("act-test-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &namespace]).output().unwrap();
        if !made.status.success() {
            return missing("network namespaces");
        }
        let up = ["netns", "exec", &namespace, "ip", "link", "set", "lo", "up"];
        assert!(Command::new("ip").args(up).status().unwrap().success());
        let place = tempfile::tempdir().unwrap();
        let daemon = Self::daemon(place.path(), &namespace);
        let engine = Self { place, namespace, daemon };
        engine.wait_until_it_answers();
        Some(engine)
    }

    fn daemon(place: &Path, namespace: &str) -> Child {
        let at = |name: &str| place.join(name).display().to_string();
        let log = std::fs::File::create(place.join("log")).unwrap();
        // Not `ip netns exec`: it mounts a new /sys, and the cgroups would be out of sight.
        Command::new("nsenter")
            .arg(format!("--net=/run/netns/{namespace}"))
            .args(["dockerd", "--host", &format!("unix://{}", at("docker.sock"))])
            .args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")])
            .args([
                "--containerd-namespace",
                "act-test",
                "--containerd-plugins-namespace",
                "act-tests",
            ])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("docker.sock")
    }

    fn host(&self) -> String {
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
        // A killed engine takes its containerd along, and nobody may have buried that one yet.
        for left in ["pid", "exec/containerd/containerd.pid"] {
            let left = self.place.path().join(left);
            let pid = std::fs::read_to_string(&left).ok().and_then(|pid| pid.trim().parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = std::fs::remove_file(left);
        }
        self.daemon = Self::daemon(self.place.path(), &self.namespace);
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
    let Some(mut own) = OwnEngine::start() else { return };
    for signal in [Signal::KILL, Signal::TERM] {
        let docker = Docker::connect_with_host(&own.host()).unwrap();
        let docker = docker.negotiate_version().await.unwrap();
        image::import_into(&docker).await;
        let mut world =
            World::new().await.step("wait", "echo ready; sleep 300").step("later", "true");
        let engine = Engine::connect_to(&own.host()).await.unwrap();
        let image = engine.ensure_image(image::BUSYBOX, &Events::silent(), &world.cancel).await;
        let gate = world.gate_with(engine, image.unwrap().unwrap());
        let cancel = world.cancel.clone();
        let run = tokio::spawn(async move { gate.run(1, &cancel).await });
        let run_id = world.run_id().await;
        world.printed("ready").await;
        let began = Instant::now();
        own.signal(signal);
        let response = run.await.unwrap().unwrap();
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert_eq!(response.status, Status::InfraError, "{response:?}");
        assert_eq!(response.error_type, Some(ErrorType::DockerUnavailable), "{response:?}");
        assert_eq!(response.tail_log.as_deref(), Some("ready\n"));
        let manifest = response.manifest.unwrap();
        assert_eq!(manifest["commands_executed"].as_array().unwrap().len(), 1);
        own.restart();
        // Back again, it is used as if nothing had been.
        let engine = Engine::connect_to(&own.host()).await.unwrap();
        let docker = Docker::connect_with_host(&own.host()).unwrap();
        let docker = docker.negotiate_version().await.unwrap();
        crate::world::remove_container(&docker, &format!("act-{run_id}")).await;
        world.pipeline.steps[0].command = "true".into();
        let image = engine.ensure_image(image::BUSYBOX, &Events::silent(), &world.cancel).await;
        let gate = world.gate_with(engine, image.unwrap().unwrap());
        let response = gate.run(1, &world.cancel).await.unwrap();
        assert_eq!(response.status, Status::Pass, "{response:?}");
    }
}
