//! A repository, an ARTIFACT_DIR and a gate to run on them, in the words of the tests.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use act_audit::Audit;
use act_config::{Limits, Pipeline, SourceWrites, Step, User, Workspace};
use act_core::event::{Event, EventKind, Events, Sink};
use act_core::secret::Secrets;
use act_core::verification::ComponentDigest;
use act_core::verification::{ErrorType, FailReason, Status, Verification, Verifier, Warning};
use act_records::artifacts::ArtifactDir;
use act_records::store::Store;
use act_verifier::{DockerVerifier, Downloads, Engine, VerificationConfig};
use act_workspace::OpenRoot;
use bollard::Docker;
use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::image;

pub(crate) struct World {
    dir: tempfile::TempDir,
    repo: &'static str,
    artifacts: &'static str,
    pub(crate) docker: Docker,
    pub(crate) engine: Engine,
    pub(crate) pipeline: Pipeline,
    pub(crate) downloads: Downloads,
    pub(crate) step_timeout: Duration,
    pub(crate) package: Option<String>,
    pub(crate) cancel: CancellationToken,
    pub(crate) audit: Audit,
    events: Events,
    heard: mpsc::UnboundedReceiver<EventKind>,
}

/// A log outside of ARTIFACT_DIR, so that a story may do with that what it likes.
fn audit(dir: &Path) -> Audit {
    let path = dir.join("audit");
    std::fs::create_dir(&path).unwrap();
    let state = act_fs::Dir::open(&path).unwrap();
    let store = Store::open(&state, &path).unwrap();
    Audit::new(state, &path, Arc::new(store), Secrets::default())
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
        let audit = audit(dir.path());
        Self {
            dir,
            repo: "repo",
            artifacts: "artifacts",
            docker,
            engine,
            pipeline: Pipeline {
                image: image::BUSYBOX.into(),
                prepare: vec![],
                prepare_inputs: vec![],
                warm: None,
                steps: vec![],
                workspace: Workspace::Auto,
                include: vec![],
                source_writes: SourceWrites::Fail,
                user: User::Caller,
                ca_bundle: None,
                limits: Limits { cpus: 4.0, memory_mb: 256, pids: 256 },
                engine: [].into(),
                private_network: true,
                cut_off: vec![],
            },
            downloads: Downloads::Shared,
            // Only tests about the time limit reach it.
            step_timeout: Duration::from_secs(600),
            package: None,
            cancel: CancellationToken::new(),
            audit,
            events: Events::new("t-abc123", vec![Box::new(Channel(sender))]),
            heard,
        }
    }

    /// Before any file: other names for the repository and for ARTIFACT_DIR.
    pub(crate) fn named(mut self, repo: &'static str, artifacts: &'static str) -> Self {
        std::fs::rename(self.repo(), self.dir.path().join(repo)).unwrap();
        (self.repo, self.artifacts) = (repo, artifacts);
        self
    }

    /// Names, kinds, modes, sizes, times and contents of everything in the repository.
    pub(crate) fn fingerprint(&self) -> String {
        let script = "find . -printf '%p %y %m %s %T@ %C@ %l\\n' | sort; \
                      find . -type f -print0 | sort -z | xargs -0 -r sha256sum";
        let mut list = std::process::Command::new("sh");
        let listed = list.args(["-c", script]).current_dir(self.repo()).output().unwrap();
        String::from_utf8(listed.stdout).unwrap()
    }

    /// A step without network.
    pub(crate) fn step(mut self, name: &str, command: &str) -> Self {
        let (name, command) = (name.into(), command.into());
        self.pipeline.steps.push(Step { name, command, network: false });
        self
    }

    /// All steps there are get the network.
    pub(crate) fn with_network(mut self) -> Self {
        for step in &mut self.pipeline.steps {
            step.network = true;
        }
        self
    }

    pub(crate) fn view(mut self, workspace: Workspace) -> Self {
        self.pipeline.workspace = workspace;
        self
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let path = self.repo().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.dir.path().join(self.repo)
    }

    pub(crate) fn outside(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn artifacts(&self) -> ArtifactDir {
        ArtifactDir::open(&self.dir.path().join(self.artifacts), &self.repo()).unwrap()
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
        image: act_verifier::ResolvedImage,
    ) -> DockerVerifier {
        DockerVerifier {
            variant: None,
            tests_weakened: Arc::default(),
            downloads: self.downloads,
            warm: None,
            step_times: Default::default(),
            engine,
            image,
            artifacts: Arc::new(self.artifacts()),
            repo: OpenRoot::open(&self.repo().canonicalize().unwrap()).unwrap(),
            config: Arc::new(VerificationConfig {
                pipeline: self.pipeline.clone(),
                step_timeout: self.step_timeout,
                package: self.package.clone(),
                sha256: "feed".into(),
                downloads_of: None,
            }),
            task_id: Some("t-abc123".into()),
            components: vec![ComponentDigest {
                name: "scout-a".into(),
                sha256: "aa".into(),
                dev_component: false,
            }],
            audit: self.audit.clone(),
            events: self.events.clone(),
        }
    }

    /// Lines of the audit log, oldest first.
    pub(crate) fn audited(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.audit.path()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) async fn run(&self) -> VerifyResponse {
        let verification = self.gate().await.run(1, &self.cancel).await;
        let response = VerifyResponse::from(verification.expect("not cancelled"));
        self.assert_no_container(&response).await;
        response
    }

    pub(crate) fn is_podman(&self) -> bool {
        self.engine.identity().name == "podman"
    }

    /// Waits until a step has printed `text`; all that was printed until then.
    pub(crate) async fn printed(&mut self, text: &str) -> String {
        let mut output = vec![];
        while let Some(kind) = self.heard.recv().await {
            if let EventKind::StepOutput(bytes) = kind {
                output.extend_from_slice(&bytes.0);
                let output = String::from_utf8_lossy(&output);
                if output.contains(text) {
                    return output.into_owned();
                }
            }
        }
        panic!("no step printed {text:?}");
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
        self.dir.path().join(self.artifacts).join("runs").join(response.run_id.as_ref().unwrap())
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

    /// The words of its warnings.
    pub(crate) fn warned(response: &VerifyResponse) -> Vec<&str> {
        response.warnings.iter().map(|warning| warning.code.as_str()).collect()
    }

    async fn assert_no_container(&self, response: &VerifyResponse) {
        if let Some(run_id) = &response.run_id {
            assert_eq!(self.containers_of(run_id).await, 0, "a container was left");
        }
    }
}

/// The JSON of a verification, as `act verify --json` prints it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct VerifyResponse {
    pub(crate) status: Status,
    pub(crate) run_id: Option<String>,
    pub(crate) tail_log: Option<String>,
    pub(crate) artifact_paths: Vec<String>,
    pub(crate) manifest: Option<serde_json::Value>,
    pub(crate) error_type: Option<ErrorType>,
    pub(crate) error_message: Option<String>,
    pub(crate) reason: Option<FailReason>,
    pub(crate) warnings: Vec<Warning>,
}

impl From<Verification> for VerifyResponse {
    fn from(verification: Verification) -> Self {
        serde_json::from_value(serde_json::to_value(verification).unwrap()).unwrap()
    }
}

/// Waits until a cancelled run has removed its files, which it does after it has returned.
pub(crate) async fn until_gone(path: &Path) {
    let began = std::time::Instant::now();
    while std::fs::symlink_metadata(path).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(120), "{} stays", path.display());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Removes the container of a run that lost its engine and cannot clean up.
pub(crate) async fn remove_container(docker: &Docker, name: &str) {
    let options = RemoveContainerOptions { force: true, v: true, link: false };
    let _ = docker.remove_container(name, Some(options)).await;
}

/// A file system of two megabytes, unmounted when dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Returns `None`, after a report that the test is skipped, where mounting is not allowed.
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            act_core::testing::skip("mounting a file system needs root");
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

/// A directory that is an overlay itself, unmounted when dropped.
pub(crate) struct Layers {
    at: PathBuf,
    _layers: tempfile::TempDir,
}

impl Layers {
    /// Returns `None`, after a report that the test is skipped, where mounting is not allowed.
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            act_core::testing::skip("mounting a file system needs root");
            return None;
        }
        std::fs::create_dir_all(at).unwrap();
        let layers = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            std::fs::create_dir(layers.path().join(name)).unwrap();
            layers.path().join(name).display().to_string()
        };
        let options =
            format!("lowerdir={},upperdir={},workdir={}", of("lower"), of("upper"), of("work"));
        let arguments = ["-t", "overlay", "-o", &options, "overlay"];
        let mounted = std::process::Command::new("mount").args(arguments).arg(at).status();
        assert!(mounted.unwrap().success());
        Some(Self { at: at.to_owned(), _layers: layers })
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.at).status();
    }
}
