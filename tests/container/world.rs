//! A repository, an ARTIFACT_DIR and a gate to run on them, in the words of the tests.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use act::artifacts::{ArtifactDir, ComponentDigest};
use act::event::{Event, EventKind, Events, Sink};
use act::verifier::{
    DockerVerifier, Engine, Limits, Pipeline, Step, Verifier, VerifyResponse, Workspace,
};
use bollard::Docker;
use bollard::query_parameters::ListContainersOptions;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::image;

pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) docker: Docker,
    pub(crate) engine: Engine,
    pub(crate) pipeline: Pipeline,
    pub(crate) cancel: CancellationToken,
    events: Events,
    heard: mpsc::UnboundedReceiver<EventKind>,
}

struct Channel(mpsc::UnboundedSender<EventKind>);

impl Sink for Channel {
    fn event(&mut self, event: &Event) {
        let _ = self.0.send(event.kind.clone());
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let engine = Engine::connect().await.unwrap_or_else(|error| {
            panic!("these tests need a Docker engine, scripts/setup starts one: {error}")
        });
        let docker = Docker::connect_with_host(engine.host()).unwrap();
        let docker = docker.negotiate_version().await.unwrap();
        image::ensure(&docker).await;
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("repo")).unwrap();
        let (sender, heard) = mpsc::unbounded_channel();
        Self {
            dir,
            docker,
            engine,
            pipeline: Pipeline {
                image: image::BUSYBOX.into(),
                steps: vec![],
                step_timeout: Duration::from_secs(60),
                limits: Limits { cpus: 4.0, memory_mb: 256, pids: 256 },
                workspace: Workspace::Auto,
                include: vec![],
                network: false,
                package: None,
                sha256: "feed".into(),
            },
            cancel: CancellationToken::new(),
            events: Events::new("t-abc123", vec![Box::new(Channel(sender))]),
            heard,
        }
    }

    pub(crate) fn step(mut self, name: &str, command: &str) -> Self {
        self.pipeline.steps.push(Step {
            name: name.into(),
            command: command.into(),
            network: None,
        });
        self
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let path = self.repo().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    pub(crate) fn outside(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn artifacts(&self) -> ArtifactDir {
        ArtifactDir::open(&self.dir.path().join("artifacts"), &self.repo()).unwrap()
    }

    /// The gate as `act` would build it.
    pub(crate) async fn gate(&self) -> DockerVerifier {
        let image =
            self.engine.ensure_image(&self.pipeline.image, &self.events, &self.cancel).await;
        self.gate_with(self.engine.clone(), image.unwrap().unwrap())
    }

    pub(crate) fn gate_with(
        &self,
        engine: Engine,
        image: act::verifier::ResolvedImage,
    ) -> DockerVerifier {
        DockerVerifier {
            engine,
            image,
            artifacts: Arc::new(self.artifacts()),
            repo: self.repo().canonicalize().unwrap(),
            pipeline: Arc::new(self.pipeline.clone()),
            task_id: Some("t-abc123".into()),
            components: vec![ComponentDigest { name: "scout-a".into(), sha256: "aa".into() }],
            events: self.events.clone(),
        }
    }

    pub(crate) async fn run(&self) -> VerifyResponse {
        let response = self.gate().await.run(1, &self.cancel).await.expect("not cancelled");
        self.assert_no_container(&response).await;
        response
    }

    /// Waits until a step has printed `text`.
    pub(crate) async fn printed(&mut self, text: &str) {
        let mut output = vec![];
        while let Some(kind) = self.heard.recv().await {
            if let EventKind::StepOutput(bytes) = kind {
                output.extend_from_slice(&bytes.0);
                if String::from_utf8_lossy(&output).contains(text) {
                    return;
                }
            }
        }
    }

    pub(crate) async fn run_id(&mut self) -> String {
        while let Some(kind) = self.heard.recv().await {
            if let EventKind::VerifyStarted { run_id, .. } = kind {
                return run_id;
            }
        }
        panic!("no run began");
    }

    pub(crate) fn events_so_far(&mut self) -> Vec<EventKind> {
        std::iter::from_fn(|| self.heard.try_recv().ok()).collect()
    }

    pub(crate) fn log(&self, response: &VerifyResponse, name: &str) -> Vec<u8> {
        std::fs::read(self.run_dir(response).join("logs").join(name)).unwrap()
    }

    pub(crate) fn run_dir(&self, response: &VerifyResponse) -> PathBuf {
        self.dir.path().join("artifacts/runs").join(response.run_id.as_ref().unwrap())
    }

    pub(crate) async fn containers_of(&self, run_id: &str) -> usize {
        let label = format!("act.run_id={run_id}");
        let options = ListContainersOptions {
            all: true,
            filters: Some(HashMap::from([("label".to_owned(), vec![label])])),
            ..Default::default()
        };
        self.docker.list_containers(Some(options)).await.unwrap().len()
    }

    async fn assert_no_container(&self, response: &VerifyResponse) {
        if let Some(run_id) = &response.run_id {
            assert_eq!(self.containers_of(run_id).await, 0, "a container was left");
        }
    }
}

/// A file system of two megabytes, unmounted when dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None, said aloud, where mounting is not allowed.
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: mounting a file system needs root");
            return None;
        }
        std::fs::create_dir_all(at).unwrap();
        let arguments = ["-t", "tmpfs", "-o", "size=2m", "tmpfs"];
        let mounted = std::process::Command::new("mount").args(arguments).arg(at).status();
        assert!(mounted.unwrap().success());
        Some(Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}
